//! An attempt at a lock: rounds of votes, until one is won or lost.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::ending::Ending;
use super::round::{Round, has_timers};
use super::rounds::{Granted, key_of, label_for};
use super::view::shown;
use super::votes::{Verdict, Votes};
use super::{Inner, LIMIT, limit_for};
use crate::chance;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Attempt, Claim, FencingToken, Grant, Holding, LeaseKey, Renewal};
use crate::member::{Ratified, Vote};
use crate::name::LockName;
use crate::rule::Rule;
use crate::tick::{NotDue, Standing, Tick};
use crate::validity;

/// How often a split vote is taken again within one attempt: whoever doesn't wait shall not be turned away because another
/// asked at the same moment.
const TRIES: u32 = 4;

/// Whoever waits asks again after so long at the least: each time it does, members that are away have to be told.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);

/// What is taken back is waited for twice as long as the round took, and for this at least.
const SOON: Duration = Duration::from_millis(5);

/// What one round came to.
enum Outcome {
    Granted(Grant),
    Held(Holding),
    NotDue(NotDue),
    Split(Holding),
    /// The members may say something else by now: one that had come back empty knows all again, say.
    Again,
}

/// A round that is over, and how long it took until that was known.
struct Voted {
    took: Duration,
    outcome: Result<Outcome>,
}

/// What the second phase came to, so far.
#[derive(Default)]
struct Acknowledged {
    yes: usize,
    /// The largest token that their leases have.
    token: FencingToken,
    attempt: u32,
    gave_up: Option<Tick>,
    not_due: Vec<NotDue>,
    not_full: Vec<usize>,
    failed: Vec<(usize, Error)>,
}

impl Inner {
    pub(super) async fn acquire(self: &Arc<Self>, claim: &Claim) -> Result<Attempt> {
        if claim.permits.get() != 1 {
            let message =
                "a quorum has no several permits: three holders of two permits each can have a majority of the members";
            return Err(Error::new(ErrorKind::Misconfigured, message));
        }
        self.meet(claim.ttl).await;
        self.check_members()?;
        self.check_ttl(claim.ttl)?;
        if let Some(answer) = self.again(claim).await? {
            return Ok(answer);
        }
        for id in self.rounds.abandoned(&key_of(claim)) {
            let everybody = (0..self.nodes.len()).collect();
            drop(self.end_in_background(claim, id, Ending::Leave, everybody, Vec::new()).await);
        }
        let attempt = self.attempt(claim).await;
        self.sweep_now_and_then();
        attempt
    }

    async fn attempt(self: &Arc<Self>, claim: &Claim) -> Result<Attempt> {
        let (began, mut tries) = (Instant::now(), 1);
        loop {
            // Of an earlier round something may be left.
            let Voted { took, outcome } = self.vote(claim).await;
            match outcome.map_err(|error| if tries > 1 { error.maybe_applied() } else { error })? {
                Outcome::Granted(grant) => return Ok(Attempt::Granted(grant)),
                Outcome::NotDue(why) => return Ok(Attempt::NotDue(why)),
                Outcome::Held(holding) => return self.held(claim, holding).await,
                // Somebody may hold it whom too few could name; who waits asks again as soon as others may.
                Outcome::Split(holding) if tries >= TRIES || began.elapsed() >= claim.ttl / 12 => {
                    let remaining = holding.remaining.min(a_while(took, tries)).max(SHORTEST_WAIT);
                    return self.held(claim, Holding { remaining, ..holding }).await;
                }
                Outcome::Again if tries >= TRIES => {
                    let message =
                        "the members don't agree: some have lost it again, or know of the tick and others don't";
                    return Err(Error::new(ErrorKind::Unavailable, message).maybe_applied());
                }
                Outcome::Split(_) | Outcome::Again if has_timers() => sleep(a_while(took, tries)).await,
                Outcome::Split(_) | Outcome::Again => {}
            }
            tries += 1;
        }
    }

    /// The answer to a claim that was granted before: the same.
    async fn again(self: &Arc<Self>, claim: &Claim) -> Result<Option<Attempt>> {
        let Some(granted) = self.rounds.granted(&key_of(claim)) else { return Ok(None) };
        let answer = self.renew(&[(key_of(claim), claim.ttl)]).await.pop();
        match answer.unwrap_or(Ok(Renewal::Gone))? {
            Renewal::Renewed => Ok(Some(Attempt::Granted(granted.grant.clone()))),
            Renewal::Revoked => {
                let held = self.inspect(&claim.name).await?;
                if held.is_none() {
                    // Over meanwhile.
                    self.bury(claim, granted.id).await;
                }
                Ok(held.map(|held| Attempt::Held(with_ticket(claim, held))))
            }
            Renewal::Gone => {
                self.bury(claim, granted.id).await;
                Ok(None)
            }
        }
    }

    /// One round under an identity of its own. What is not granted is taken back from everybody.
    async fn vote(self: &Arc<Self>, claim: &Claim) -> Voted {
        let (sent, limit) = (Instant::now(), limit_for(claim.ttl));
        let lease = self.rounds.begin(claim);
        let label = label_for(&claim.label, claim.holder);
        let asked = Claim { holder: lease.holder, label, due: None, queue: None, ..claim.clone() };
        let calls = (0..self.nodes.len()).map(|member| (member, self.claim(member, &asked).boxed()));
        let mut round = Round::send(calls, limit).await;
        let mut votes = Votes::of(self.nodes.len());
        while !votes.are_decided()
            && let Some((member, answer)) = round.next().await
        {
            votes.count(member, self.with_a_vote(member, Vote::Claim, answer));
        }
        // Their answers don't matter any more; what follows comes behind them.
        drop(round);
        self.tell_votes(&votes);
        let elsewhere: Vec<_> = votes.held.iter().map(|(member, _)| *member).collect();
        let ours: Vec<_> = (0..self.nodes.len()).filter(|member| !elsewhere.contains(member)).collect();
        let has_any = !votes.granted.is_empty();
        let silent: Vec<_> = votes.failed.iter().map(|(member, _)| *member).collect();
        let outcome = match (self.check_members().and_then(|()| self.check_ttl(claim.ttl)), votes.verdict()) {
            // Who it is that has answered may be known only now.
            (Err(refused), _) => Err(refused.maybe_applied()),
            (Ok(()), Verdict::Won(token)) => self.second_phase(claim, &lease, token, &ours).await,
            (Ok(()), Verdict::Held(holding)) => Ok(Outcome::Held(holding)),
            (Ok(()), Verdict::Split(holding)) => Ok(Outcome::Split(holding)),
            (Ok(()), Verdict::Outage(failed)) if has_any => Err(self.outage(&failed).maybe_applied()),
            (Ok(()), Verdict::Outage(failed)) => Err(self.outage(&failed)),
        };
        let took = sent.elapsed();
        match outcome {
            Ok(Outcome::Granted(grant)) if took < validity::of(claim.ttl) => {
                self.rounds.grant(Granted { claim: claim.clone(), id: lease.holder, grant: grant.clone() });
                Voted { took, outcome: Ok(Outcome::Granted(grant)) }
            }
            outcome => {
                let those = ours.iter().copied().filter(|member| !silent.contains(member)).collect();
                self.clean_up(claim, lease.holder, ours, those, (took * 2).clamp(SOON, limit)).await;
                let late = "a majority has granted it, but so late that it is over already";
                let outcome = match outcome {
                    Ok(Outcome::Granted(_)) => Err(Error::new(ErrorKind::TimedOut, late).maybe_applied()),
                    outcome => outcome,
                };
                Voted { took, outcome }
            }
        }
    }

    fn tell_votes(&self, votes: &Votes) {
        if self.listeners.are_there() {
            let ballots = votes.ballots().into_iter().enumerate();
            ballots.for_each(|(member, ballot)| self.tell_vote(member, Vote::Claim, ballot, 1));
        }
    }

    /// Raises the token at all that may have granted it, and claims the tick there.
    async fn second_phase(
        self: &Arc<Self>,
        claim: &Claim,
        lease: &LeaseKey,
        mut token: FencingToken,
        ours: &[usize],
    ) -> Result<Outcome> {
        if !Rule::ASecondPhase.holds() {
            return Ok(Outcome::Granted(Grant::of(token)));
        }
        self.rounds.ratifies(&key_of(claim), lease.holder);
        let needed = if Rule::SecondPhasesNeedAMajority.holds() { self.majority() } else { 1 };
        let (mut told, mut round) = self.ratify(claim, lease, token, ours).await;
        // What counts is what those know who acknowledge it: one whose counter is ahead may know of a holder of whom those
        // who granted it didn't, having come back empty. All of them must have the same in the end.
        while told.yes >= needed && told.token > token {
            token = told.token;
            let gave_up = told.gave_up;
            (told, round) = self.ratify(claim, lease, token, ours).await;
            // It was given up at the first, and is not at the second.
            told.gave_up = told.gave_up.max(gave_up);
        }
        if told.yes >= needed {
            self.fill_later(&claim.name, told.not_full.clone(), round);
            return Ok(told.granted(token));
        }
        // As many as make any majority without one of them impossible.
        if told.not_due.len() >= self.majority() {
            let is_closed = |why: &&NotDue| matches!(why, NotDue::Claimed { unfinished: false, .. });
            if told.not_due.iter().filter(is_closed).count() >= self.majority() {
                self.rounds.is_over(&key_of(claim), lease.holder);
            }
            self.fill_later(&claim.name, told.not_full, round);
            return Ok(Outcome::NotDue(most_telling(&told.not_due)));
        }
        if !told.not_full.is_empty() {
            self.refill(&claim.name, &told.not_full, limit_for(claim.ttl)).await.map_err(Error::maybe_applied)?;
            return Ok(Outcome::Again);
        }
        if told.failed.is_empty() {
            // The claim has not come to some, or was lost there again; or only some know of the tick.
            return Ok(Outcome::Again);
        }
        let error = self.outage(&told.failed).maybe_applied();
        let not_due = told.not_due.iter().map(|why| format!("one says: {why}"));
        Err(not_due.fold(error, Error::context))
    }

    /// Asks these to ratify, until enough have said yes or all have answered; and what is still to come.
    async fn ratify(
        &self,
        claim: &Claim,
        lease: &LeaseKey,
        token: FencingToken,
        whom: &[usize],
    ) -> (Acknowledged, Round<'static, Ratified>) {
        let call = |&member: &usize| -> (usize, BoxFuture<'static, Result<Ratified>>) {
            let (store, lease, due) = (Arc::clone(&self.nodes[member].store), lease.clone(), claim.due);
            let call = async move {
                let member = store.as_member().expect("only members are admitted");
                member.ratify(&lease, token, due).await
            };
            (member, call.boxed())
        };
        let mut round = Round::send(whom.iter().map(call), limit_for(claim.ttl)).await;
        let mut told = Acknowledged::default();
        while told.yes < self.majority()
            && let Some((member, answer)) = round.next().await
        {
            told.count(member, self.with_a_vote(member, Vote::Claim, answer));
        }
        (told, round)
    }

    /// Fills the members that came back empty, while a majority doesn't need them: the next one that is lost may be of that.
    fn fill_later(self: &Arc<Self>, name: &LockName, mut empty: Vec<usize>, round: Round<'static, Ratified>) {
        let Ok(runtime) = Handle::try_current() else { return };
        if empty.is_empty() && round.is_over() {
            return;
        }
        let (inner, name) = (Arc::clone(self), name.clone());
        runtime.spawn(async move {
            let late = round.rest().await.into_iter().filter(|(_, answer)| matches!(answer, Ok(Ratified::NotFull)));
            empty.extend(late.map(|(member, _)| member));
            if !empty.is_empty() {
                inner.sweeps.one_is_empty();
                // If it can't be done now, whoever comes next will try.
                let _ = inner.refill(&name, &empty, LIMIT).await;
                inner.sweep_now_and_then();
            }
        });
    }

    /// The answer to a claim for what another holds: of a tick that is over, that it is not worth waiting for.
    async fn held(&self, claim: &Claim, holding: Holding) -> Result<Attempt> {
        let running_for = holding.holder;
        let held = with_ticket(claim, shown(holding));
        let Some(due) = claim.due else { return Ok(Attempt::Held(held)) };
        let recalled = self.recall(&claim.name, limit_for(claim.ttl)).await;
        let standings = recalled.answers.iter().filter(|(_, memories)| memories.is_full).map(|(_, memories)| {
            let (open, is_alive) = (memories.open.get(&due.tick), |id| running_for == Some(id));
            match due.tick.window(memories.clock, due.keep) {
                Ok(()) => due.standing(memories.mark_for(due.tick), open, is_alive),
                Err(why) => Standing::Over(why),
            }
        });
        let mut over = Vec::new();
        for standing in standings {
            match standing {
                Standing::Over(why) => over.push(why),
                Standing::Running => return Ok(Attempt::Held(Holding { ticket: None, ..held })),
                Standing::ForClaim => {}
            }
        }
        if over.len() >= self.majority() {
            return Ok(Attempt::NotDue(most_telling(&over)));
        }
        Ok(Attempt::Held(held))
    }
}

impl Acknowledged {
    fn count(&mut self, member: usize, answer: Result<Ratified>) {
        match answer {
            Ok(Ratified::Yes { token, attempt, gave_up }) => {
                self.yes += 1;
                self.token = self.token.max(token);
                self.attempt = self.attempt.max(attempt);
                self.gave_up = self.gave_up.max(gave_up);
            }
            Ok(Ratified::NotDue(why)) => self.not_due.push(why),
            Ok(Ratified::NotFull) => self.not_full.push(member),
            // Lost again: it was restarted in between, or the claim never came there.
            Ok(Ratified::Gone) => {}
            Err(error) => self.failed.push((member, error)),
        }
    }

    fn granted(&self, token: FencingToken) -> Outcome {
        Outcome::Granted(Grant { attempt: self.attempt, gave_up: self.gave_up, ..Grant::of(token) })
    }
}

/// Of what the members say, that which rests on the newest mark; finished if one of those knows that.
fn most_telling(over: &[NotDue]) -> NotDue {
    let rank = |why: &NotDue| match why {
        NotDue::Claimed { newest, unfinished } => (Some(*newest), !unfinished),
        NotDue::InFuture { .. } | NotDue::TooOld { .. } => (None, false),
    };
    *over.iter().max_by_key(|why| rank(why)).expect("a majority has said so")
}

/// Nobody stands in a queue at the members. Who would, is told that it waits, all the same.
fn with_ticket(claim: &Claim, held: Holding) -> Holding {
    Holding { waiting: 0, ticket: claim.queue.map(|place| place.ticket.unwrap_or_default()), ..held }
}

/// A random span of about a round trip, and longer the more often others were in the way: those who split the vote shall
/// not do so again at the same moment.
fn a_while(round_trip: Duration, tries: u32) -> Duration {
    let most = round_trip.max(Duration::from_millis(1)) * 2 * tries;
    most.mul_f64(chance::within(0.0..1.0))
}
