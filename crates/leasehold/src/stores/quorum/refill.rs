//! A member that came back empty, and a quorum that is new.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::FutureExt;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::round::Round;
use super::{Inner, LIMIT, LONGEST_PAUSE, PATIENCE, SHORTEST_PAUSE};
use crate::chance;
use crate::error::{Error, ErrorKind, Result};
use crate::member::Memories;
use crate::name::LockName;
use crate::rule::Rule;
use crate::span::Span;
use crate::tick::{OpenTick, TICK_SLACK, Tick};

/// What the members remember of a name.
pub(super) struct Recalled {
    pub answers: Vec<(usize, Memories)>,
    pub failed: Vec<(usize, Error)>,
}

/// A quorum is founded with the latest of its members' clocks, which may be so far ahead of the earliest.
const CLOCKS_APART: Duration = Duration::from_secs(60);

/// Members, and which life of each is meant.
pub(super) type Lives = Vec<(usize, Box<str>)>;

impl Inner {
    pub(super) async fn recall(&self, name: &LockName, limit: Duration) -> Recalled {
        let calls = (0..self.nodes.len()).map(|member| (member, self.nodes[member].member().recall(name)));
        let (mut answers, mut failed) = (Vec::new(), Vec::new());
        for (member, answer) in Round::send(calls, limit).await.rest().await {
            match answer {
                Ok(memories) => answers.push((member, memories)),
                Err(error) => failed.push((member, error)),
            }
        }
        self.meet_again(answers.iter().map(|(member, memories)| (*member, &*memories.life)), limit).await;
        Recalled { answers, failed }
    }

    /// Fills those members that came back empty with what the others remember of a name: so many others that one of them
    /// was in every majority. Each step may take a member so long. If none remembers anything of any name, and all say so, the quorum is new.
    ///
    /// # Errors
    /// Too few others remember it; or the members can't be reached, or may not adopt yet.
    pub(super) async fn refill(self: &Arc<Self>, name: &LockName, empty: &[usize], limit: Duration) -> Result<()> {
        let Recalled { answers, failed } = self.recall(name, limit).await;
        self.check_members()?;
        let counts = |member: &usize, memories: &Memories| {
            (memories.is_full && !empty.contains(member)) || !Rule::AdoptedFromTheFull.holds()
        };
        let needed = if Rule::AdoptedFromAMajority.holds() { self.majority() } else { 1 };
        let mut others: Vec<_> = answers
            .iter()
            .filter(|(member, memories)| counts(member, memories))
            .map(|(_, memories)| memories)
            .collect();
        if !Rule::AdoptedFromAMajority.holds() {
            others.truncate(1);
        }
        if others.len() >= needed {
            return self.adopt(name, &lives_of(&answers, empty), &all_that(&others), limit).await;
        }
        // Where one has adopted or been founded meanwhile there was something to remember, be it of other names.
        if answers.len() == self.nodes.len() && answers.iter().all(|(_, memories)| memories.is_blank) {
            let everybody: Vec<_> = (0..self.nodes.len()).collect();
            let clocks: Vec<_> = answers.iter().map(|(member, memories)| (*member, memories.clock)).collect();
            return self.found_from_now_on(name, &clocks, lives_of(&answers, &everybody), limit).await;
        }
        if let Some((floor, whom)) = unfinished(&answers) {
            return self.finish_founding(floor, &whom, limit).await;
        }
        if !failed.is_empty() {
            return Err(self.outage(&failed).context(format!("{} can't be filled yet", self.named(empty))));
        }
        let message = format!(
            "{} came back empty, and {needed} others that remember {name} are needed to fill them; there are {}: {ACCEPT_IT}",
            self.named(empty),
            others.len()
        );
        Err(Error::new(ErrorKind::Refused, message))
    }

    pub(super) async fn accept_loss(&self) -> Result<()> {
        let call = |member: usize| {
            let clock = async move { Ok((member, self.nodes[member].store.time().await?)) };
            (member, clock.boxed())
        };
        // A majority of them: one of these was in every majority that has granted a tick.
        let clocks = self.see(Round::send((0..self.nodes.len()).map(call), LIMIT).await).await?.answers;
        let floor = self.floor_at(&clocks)?;
        let mut lives = Lives::new();
        for answer in self.ask((0..self.nodes.len()).collect(), LIMIT).await.rest().await {
            lives.extend(answer.1.iter().map(|identity| (answer.0, identity.server.clone())));
            self.is_met(answer);
        }
        self.check_members()?;
        self.check_lost().await?;
        let failed = self.tell_of_founding(floor, &lives, LIMIT).await;
        self.is_founded(lives.len() - failed.len(), &failed)
    }

    /// Where a majority remembers all there was nothing is lost, and members that came back empty are filled from them: accepted
    /// all the same, what an empty one has acknowledged would count as never done.
    async fn check_lost(&self) -> Result<()> {
        let calls = (0..self.nodes.len()).map(|member| (member, self.nodes[member].member().names(0, 1)));
        let answers = Round::send(calls, LIMIT).await.rest().await;
        let whole = answers.iter().filter(|(_, names)| names.as_ref().is_ok_and(|names| names.whole.is_some())).count();
        if whole < self.majority() {
            return Ok(());
        }
        let message = format!(
            "{whole} of {} members remember everything, so there is no loss to accept; they fill the others by themselves while \
             locks are used",
            self.nodes.len()
        );
        Err(Error::new(ErrorKind::Refused, message))
    }

    /// Up to where ticks count as claimed from now on: whoever was granted one before had a member whose clock was not more
    /// than the slack behind it.
    ///
    /// # Errors
    /// The members' clocks are far apart: where the latest is a year ahead, no tick would run for a year.
    fn floor_at(&self, clocks: &[(usize, Duration)]) -> Result<Tick> {
        let clock = |(_, clock): &&(usize, Duration)| *clock;
        let (Some((first, early)), Some((last, late))) =
            (clocks.iter().min_by_key(clock), clocks.iter().max_by_key(clock))
        else {
            return Err(Error::new(ErrorKind::Internal, "no member was asked what its clock shows"));
        };
        let apart = *late - *early;
        if apart > CLOCKS_APART {
            let [first, last] = [first, last].map(|member| &self.nodes[*member].name);
            let message = format!(
                "the clock of {last} is {} ahead of that of {first}, and ticks up to the latest clock would count as run: set \
                 them right (within {})",
                Span(apart),
                Span(CLOCKS_APART)
            );
            return Err(Error::new(ErrorKind::Misconfigured, message));
        }
        let floor = i64::try_from((*late + TICK_SLACK).as_millis()).ok().and_then(Tick::from_unix_millis);
        floor
            .ok_or_else(|| Error::new(ErrorKind::Misconfigured, "the members' clocks show a time that no calendar has"))
    }

    async fn adopt(&self, name: &LockName, empty: &Lives, memories: &Memories, limit: Duration) -> Result<()> {
        let calls =
            empty.iter().map(|(member, life)| (*member, self.nodes[*member].member().adopt(name, memories, life)));
        let answers = Round::send(calls, limit).await.rest().await;
        let all = answers.len();
        let failed: Vec<_> = answers.into_iter().filter_map(|(member, answer)| Some((member, answer.err()?))).collect();
        if failed.len() < all { Ok(()) } else { Err(self.outage(&failed)) }
    }

    /// No member remembers anything. Who has not heard of it is told in the background, in the life that it was seen in: in
    /// that it has acknowledged nothing that it could have forgotten.
    async fn found_from_now_on(
        self: &Arc<Self>,
        name: &LockName,
        clocks: &[(usize, Duration)],
        everybody: Lives,
        limit: Duration,
    ) -> Result<()> {
        let floor = self.floor_at(clocks)?;
        // All of them, before the first is founded: should we be gone then, anybody can finish it.
        let unheard = self.announce_founding(floor, &everybody, limit).await;
        if !unheard.is_empty() {
            return self.join_founding(name, &unheard, limit).await;
        }
        let failed = self.tell_of_founding(floor, &everybody, limit).await;
        let mut left = everybody;
        left.retain(|(member, _)| failed.iter().any(|(failed, _)| failed == member));
        self.go_on_founding(floor, left);
        self.is_founded(self.nodes.len() - failed.len(), &failed)
    }

    /// Some can't be told; or they are blank no more, as another founds the quorum at the same time.
    async fn join_founding(&self, name: &LockName, unheard: &[(usize, Error)], limit: Duration) -> Result<()> {
        let Recalled { answers, .. } = self.recall(name, limit).await;
        if answers.iter().filter(|(_, memories)| memories.is_full).count() >= self.majority() {
            return Ok(());
        }
        match unfinished(&answers) {
            Some((floor, whom)) => self.finish_founding(floor, &whom, limit).await,
            None => Err(self.outage(unheard).context("it is new, and founded once all its members can be told so")),
        }
    }

    /// Whoever began it has gone: it is finished at those that have heard of its first step, in this same life. They have
    /// forgotten nothing since they were blank, all of them.
    async fn finish_founding(&self, floor: Tick, whom: &Lives, limit: Duration) -> Result<()> {
        let failed = self.tell_of_founding(floor, whom, limit).await;
        if failed.len() < whom.len() { Ok(()) } else { Err(self.outage(&failed).maybe_applied()) }
    }

    /// One at a time: who sees it unfounded later begins anew.
    fn go_on_founding(self: &Arc<Self>, floor: Tick, mut left: Lives) {
        let Ok(runtime) = Handle::try_current() else { return };
        if left.is_empty() || self.is_founding.swap(true, Ordering::Relaxed) {
            return;
        }
        let (inner, founding) = (Arc::clone(self), Founding(Arc::clone(&self.is_founding)));
        runtime.spawn(async move {
            let _founding = founding;
            let (began, mut pause) = (Instant::now(), SHORTEST_PAUSE);
            while !left.is_empty() && began.elapsed() < PATIENCE {
                sleep(pause.mul_f64(chance::within(0.5..1.0))).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                let calls =
                    left.iter().map(|(member, life)| (*member, inner.found_if_alive(*member, floor, life).boxed()));
                let answers = Round::send(calls, LIMIT).await.rest().await;
                let is_left = |member| answers.iter().any(|(failed, answer)| *failed == member && answer.is_err());
                left.retain(|(member, _)| is_left(*member));
            }
        });
    }

    /// In another life it is another's to found.
    async fn found_if_alive(&self, member: usize, floor: Tick, life: &str) -> Result<()> {
        let member = self.nodes[member].member();
        if *member.identity().await?.server != *life {
            return Ok(());
        }
        member.found(floor, life).await
    }

    /// Who has not heard of the first step.
    async fn announce_founding(&self, floor: Tick, whom: &Lives, limit: Duration) -> Vec<(usize, Error)> {
        let calls = whom.iter().map(|(member, life)| (*member, self.nodes[*member].member().announce(floor, life)));
        those_that_failed(Round::send(calls, limit).await).await
    }

    /// Who has not heard of it.
    async fn tell_of_founding(&self, floor: Tick, whom: &Lives, limit: Duration) -> Vec<(usize, Error)> {
        let calls = whom.iter().map(|(member, life)| (*member, self.nodes[*member].member().found(floor, life)));
        those_that_failed(Round::send(calls, limit).await).await
    }

    fn is_founded(&self, heard: usize, failed: &[(usize, Error)]) -> Result<()> {
        match heard {
            0 => Err(self.outage(failed)),
            _ if heard < self.majority() => Err(self.outage(failed).maybe_applied()),
            _ => Ok(()),
        }
    }

    pub(super) fn named(&self, members: &[usize]) -> String {
        let nodes = self.nodes.iter().enumerate().filter(|(member, _)| members.contains(member));
        nodes.map(|(_, node)| &*node.name).collect::<Vec<_>>().join(", ")
    }
}

/// What there is to do where too few remember, for people.
pub(super) const ACCEPT_IT: &str = "once no job holds a lock, accept the loss: `leasehold accept-loss --yes` (ticks up to five minutes \
                                    from then count as run, and keys are forgotten)";

/// At whom a founding that was begun can be finished, and up to where ticks count as claimed then. Only once one is founded:
/// all had heard of the first step before. Else some may not have, and it is begun anew when all are seen blank. What a
/// member has heard of an earlier founding came late: it may have been used, and wiped, since.
pub(super) fn unfinished(answers: &[(usize, Memories)]) -> Option<(Tick, Lives)> {
    let founded = answers.iter().filter(|(_, known)| known.is_full).map(|(_, known)| known.floor).max()?;
    let heard = answers.iter().filter(|(_, known)| known.announced.is_some() && known.announced >= founded);
    let whom: Vec<_> = heard.map(|(member, _)| *member).collect();
    let floor = answers.iter().filter_map(|(_, known)| known.announced).max().filter(|_| !whom.is_empty())?;
    Some((floor, lives_of(answers, &whom)))
}

async fn those_that_failed(round: Round<'_, ()>) -> Vec<(usize, Error)> {
    round.rest().await.into_iter().filter_map(|(member, answer)| Some((member, answer.err()?))).collect()
}

/// While it lives, somebody goes on founding.
struct Founding(Arc<AtomicBool>);

impl Drop for Founding {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Those members that are meant, with the life that each is in, as far as they have said.
fn lives_of(answers: &[(usize, Memories)], whom: &[usize]) -> Lives {
    let meant = answers.iter().filter(|(member, _)| whom.contains(member));
    meant.map(|(member, memories)| (*member, memories.life.clone())).collect()
}

/// What several remember between them. A tick that is past for one of them and not open there was closed, though others may
/// not have heard of that: it stays so.
fn all_that(remember: &[&Memories]) -> Memories {
    let mut open: BTreeMap<Tick, OpenTick> = BTreeMap::new();
    for (tick, theirs) in remember.iter().flat_map(|memories| &memories.open) {
        open.entry(*tick).and_modify(|ours| *ours = both(*ours, *theirs)).or_insert(*theirs);
    }
    open.retain(|tick, _| !remember.iter().any(|memories| memories.has_closed(*tick)));
    Memories {
        is_full: true,
        is_blank: false,
        token: remember.iter().map(|memories| memories.token).max().unwrap_or_default(),
        newest: remember.iter().filter_map(|memories| memories.newest).max(),
        floor: remember.iter().filter_map(|memories| memories.floor).max(),
        announced: None,
        open,
        life: Box::default(),
        clock: remember.iter().map(|memories| memories.clock).max().unwrap_or_default(),
        kept_for: remember.iter().map(|memories| memories.kept_for).max().unwrap_or_default(),
    }
}

/// What two say of an open tick. If they name different holders nobody may take it back here: one of them may have begun it,
/// and another, whose round came to nothing, would say that it never was. But a holder may of whom the other has not heard,
/// or has heard that already.
fn both(one: OpenTick, other: OpenTick) -> OpenTick {
    let knows_less = |one: OpenTick, other: OpenTick| one.attempts < other.attempts;
    let holder = match (one.holder, other.holder) {
        (ours, theirs) if ours == theirs => ours,
        (Some(holder), None) if knows_less(other, one) => Some(holder),
        (None, Some(holder)) if knows_less(one, other) => Some(holder),
        _ => None,
    };
    OpenTick { holder, attempts: one.attempts.max(other.attempts), once: one.once || other.once }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::HolderId;
    use crate::tick::Due;

    fn tick(number: i64) -> Tick {
        Tick::from_unix_millis(number).unwrap()
    }

    /// The mark, and these ticks open beside it.
    fn remembered(newest: i64, open: &[(i64, OpenTick)]) -> Memories {
        let open = open.iter().map(|(number, open)| (tick(*number), *open)).collect();
        Memories { is_full: true, newest: Some(tick(newest)), open, ..Memories::default() }
    }

    fn once(holder: HolderId) -> OpenTick {
        OpenTick::new(holder, Due { tick: tick(1), retry_failed: false, keep: Duration::MAX })
    }

    #[test]
    fn what_one_has_closed_is_not_opened_again() {
        let open = once(HolderId::fresh());
        let one = remembered(3, &[(1, open), (3, open)]);
        let all = all_that(&[&one, &remembered(2, &[])]);
        assert_eq!(all, remembered(3, &[(3, open)]));
    }

    #[test]
    fn nobody_takes_back_what_others_may_have_begun() {
        let (began, failed) = (once(HolderId::fresh()), once(HolderId::fresh()));
        let unknown = OpenTick { holder: None, ..began };
        for theirs in [failed, unknown] {
            let all = all_that(&[&remembered(1, &[(1, began)]), &remembered(1, &[(1, theirs)])]);
            assert_eq!(all.open[&tick(1)], unknown);
        }
        for theirs in [began, failed.taken_back(), began.taken_back()] {
            for both in [[began, theirs], [theirs, began]] {
                let both = both.map(|open| remembered(1, &[(1, open)]));
                assert_eq!(all_that(&[&both[0], &both[1]]).open[&tick(1)], began, "it may itself");
            }
        }
    }
}
