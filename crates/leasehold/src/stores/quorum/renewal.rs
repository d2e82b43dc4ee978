//! Renewals: a batch for each member, and the lease put back where it was lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::ending::Ending;
use super::round::Round;
use super::rounds::{Granted, key_of, label_for};
use super::{Inner, LIMIT, limit_for};
use crate::error::{Applied, Error, Result};
use crate::lease::{Attempt, Claim, Ended, LeaseKey, Renewal};
use crate::member::{Ratified, Vote};
use crate::rule::Rule;
use crate::store::Ballot;

/// So many leases are put back at a member at a time.
const AT_ONCE: usize = 8;

/// The answers for one lease so far.
#[derive(Default)]
struct Tally {
    renewed: usize,
    gone: Vec<usize>,
    revoked: usize,
    failed: Vec<(usize, Error)>,
}

impl Inner {
    pub(super) async fn renew(self: &Arc<Self>, leases: &[(LeaseKey, Duration)]) -> Vec<Result<Renewal>> {
        let refused: Vec<_> = leases.iter().map(|(_, ttl)| self.check_ttl(*ttl).err()).collect();
        self.sweep_now_and_then();
        if refused.iter().all(Option::is_none) {
            return self.renew_all(leases).await;
        }
        let allowed = leases.iter().zip(&refused).filter(|(_, refused)| refused.is_none());
        let allowed: Vec<_> = allowed.map(|(lease, _)| lease.clone()).collect();
        let mut answers = self.renew_all(&allowed).await.into_iter();
        let answer = |refused: Option<Error>| match refused {
            Some(error) => Err(error),
            None => answers.next().expect("there is an answer for each"),
        };
        refused.into_iter().map(answer).collect()
    }

    async fn renew_all(self: &Arc<Self>, leases: &[(LeaseKey, Duration)]) -> Vec<Result<Renewal>> {
        if leases.is_empty() {
            return Vec::new();
        }
        let granted: Vec<_> = leases.iter().map(|(key, _)| self.rounds.granted(key)).collect();
        let known_as = |(key, ttl): &(LeaseKey, Duration), granted: &Option<Arc<Granted>>| {
            (granted.as_ref().map_or_else(|| key.clone(), |granted| granted.lease()), *ttl)
        };
        let batch: Arc<[_]> = leases.iter().zip(&granted).map(|(asked, granted)| known_as(asked, granted)).collect();
        let call = |member: usize| -> (usize, BoxFuture<'static, Result<Vec<Result<Renewal>>>>) {
            let (store, batch) = (Arc::clone(&self.nodes[member].store), Arc::clone(&batch));
            (member, async move { Ok(store.renew(&batch).await) }.boxed())
        };
        let limit = leases.iter().map(|(_, ttl)| limit_for(*ttl)).min().unwrap_or(LIMIT);
        let mut round = Round::send((0..self.nodes.len()).map(call), limit).await;
        let mut tallies: Vec<_> = leases.iter().map(|_| Tally::default()).collect();
        let mut silent: BTreeSet<_> = (0..self.nodes.len()).collect();
        while !tallies.iter().all(|tally| self.is_decided(tally))
            && let Some((member, answers)) = round.next().await
        {
            let answers = self.with_a_vote(member, Vote::Renewal, answers);
            silent.remove(&member);
            self.tell_votes_on(member, leases.len(), &answers);
            count(&mut tallies, member, answers);
        }
        silent.into_iter().for_each(|member| self.tell_vote(member, Vote::Renewal, Ballot::Late, leases.len()));
        let answers = tallies.iter().map(|tally| self.answer(tally)).collect();
        let lasting: Vec<_> = tallies
            .into_iter()
            .zip(granted)
            .zip(leases)
            .filter_map(|((tally, granted), (key, ttl))| {
                let lasts = tally.renewed >= self.majority();
                lasts.then(|| self.rounds.lasts(key, *ttl));
                granted.filter(|_| lasts).map(|granted| (tally.gone, granted))
            })
            .collect();
        self.put_back_later(round, lasting, &batch);
        answers
    }

    fn tell_votes_on(&self, member: usize, leases: usize, answers: &Result<Vec<Result<Renewal>>>) {
        if !self.listeners.are_there() {
            return;
        }
        let Ok(answers) = answers else { return self.tell_vote(member, Vote::Renewal, Ballot::Failed, leases) };
        for ballot in [Ballot::Granted, Ballot::Refused, Ballot::Failed] {
            let times = answers.iter().filter(|answer| ballot_of(answer) == ballot).count();
            self.tell_vote(member, Vote::Renewal, ballot, times);
        }
    }

    fn is_decided(&self, tally: &Tally) -> bool {
        let most = tally.renewed.max(tally.gone.len());
        most >= self.majority()
    }

    /// Renewed or gone if a majority says so. Revoked if one says so of a lease that a majority has not renewed: an
    /// operator who reached fewer was told that.
    fn answer(&self, tally: &Tally) -> Result<Renewal> {
        let needed = if !Rule::RenewalsNeedAMajority.holds() {
            1
        } else if !Rule::MajoritiesOfAllMembers.holds() {
            (tally.renewed + tally.gone.len() + tally.revoked) / 2 + 1
        } else {
            self.majority()
        };
        if tally.renewed >= needed {
            return Ok(Renewal::Renewed);
        }
        if tally.gone.len() >= self.majority() {
            return Ok(Renewal::Gone);
        }
        if tally.revoked > 0 {
            return Ok(Renewal::Revoked);
        }
        Err(self.outage(&tally.failed).maybe_applied())
    }

    /// Gives the leases that a majority has just renewed back to members that lost them or never had them; beside us, once
    /// the last of them have answered.
    fn put_back_later(
        self: &Arc<Self>,
        round: Round<'static, Vec<Result<Renewal>>>,
        lasting: Vec<(Vec<usize>, Arc<Granted>)>,
        batch: &Arc<[(LeaseKey, Duration)]>,
    ) {
        let Ok(runtime) = Handle::try_current() else { return };
        if lasting.is_empty() {
            return;
        }
        let (inner, batch) = (Arc::clone(self), Arc::clone(batch));
        runtime.spawn(async move {
            let mut gone: Vec<_> = Vec::new();
            for (members, granted) in &lasting {
                gone.extend(members.iter().map(|member| (*member, Arc::clone(granted))));
            }
            for (member, answers) in round.rest().await {
                for ((lease, _), answer) in batch.iter().zip(answers.into_iter().flatten()) {
                    let lasting = lasting.iter().find(|(_, granted)| granted.id == lease.holder);
                    if let (Ok(Renewal::Gone), Some((_, granted))) = (answer, lasting) {
                        gone.push((member, Arc::clone(granted)));
                    }
                }
            }
            let put_back = async |(member, granted): (usize, Arc<Granted>)| {
                // Another renewal may have begun that; or the next will.
                let Some(_begun) = inner.rounds.puts_back(member, granted.id, AT_ONCE) else { return };
                inner.put_back(member, &granted).await;
            };
            stream::iter(gone).for_each_concurrent(AT_ONCE, put_back).await;
        });
    }

    /// A claim of the same round, at one member. If it comes to nothing the next renewal finds that.
    async fn put_back(self: &Arc<Self>, member: usize, granted: &Granted) {
        let Granted { claim, id, grant } = granted;
        let label = label_for(&claim.label, claim.holder);
        let again = Claim { holder: *id, label, due: None, queue: None, ..claim.clone() };
        let limit = limit_for(claim.ttl);
        let claimed = timeout(limit, self.claim(member, &again)).await;
        match claimed {
            Ok(Ok(Attempt::Granted(_))) => {
                let lease = granted.lease();
                let ratify = || timeout(limit, self.nodes[member].member().ratify(&lease, grant.token, None));
                if let Ok(Ok(Ratified::NotFull)) = ratify().await
                    && self.refill(&claim.name, &[member], limit).await.is_ok()
                {
                    drop(ratify().await);
                }
            }
            Ok(Ok(_)) => return,
            Ok(Err(error)) if error.applied() == Applied::No => return,
            // It may come there yet.
            Ok(Err(_)) | Err(_) => {}
        }
        let still_holds = self.rounds.granted(&key_of(claim)).is_some_and(|now| now.id == *id);
        if !still_holds {
            // Released meanwhile, perhaps before the claim came there. What became of its work is told by others.
            let over = Ending::Release(Ended::default());
            drop(self.end_in_background(claim, *id, over, vec![member], Vec::new()).await);
        }
    }
}

fn ballot_of(answer: &Result<Renewal>) -> Ballot {
    match answer {
        Ok(Renewal::Renewed) => Ballot::Granted,
        Ok(Renewal::Gone | Renewal::Revoked) => Ballot::Refused,
        Err(_) => Ballot::Failed,
    }
}

fn count(tallies: &mut [Tally], member: usize, answers: Result<Vec<Result<Renewal>>>) {
    match answers {
        Ok(answers) => {
            for (tally, answer) in tallies.iter_mut().zip(answers) {
                tally.count(member, answer);
            }
        }
        Err(error) => {
            let failed = || Error::new(error.kind(), error.to_string()).maybe_applied();
            tallies.iter_mut().for_each(|tally| tally.failed.push((member, failed())));
        }
    }
}

impl Tally {
    fn count(&mut self, member: usize, answer: Result<Renewal>) {
        match answer {
            Ok(Renewal::Renewed) => self.renewed += 1,
            Ok(Renewal::Gone) => self.gone.push(member),
            Ok(Renewal::Revoked) => self.revoked += 1,
            Err(error) => self.failed.push((member, error)),
        }
    }
}
