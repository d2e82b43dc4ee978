//! What a member has not heard of yet.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::ending::Ending;
use crate::lease::{HolderId, LeaseKey};

/// What one member is still to be told, of all acquisitions, by one task; and no more than so much.
#[derive(Debug, Default)]
pub(super) struct Debts {
    /// In the order in which it is told.
    untold: VecDeque<Untold>,
    /// Whether somebody tells it.
    is_told: bool,
    numbers: u64,
}

/// An ending that is to be told to members.
#[derive(Debug, Clone)]
pub(super) struct Untold {
    /// Of which acquisition, and of which round of that.
    pub key: LeaseKey,
    pub id: HolderId,
    pub how: Ending,
    pub weight: Weight,
    /// From when on it is told, and when it no longer need be.
    pub from: Instant,
    pub give_up: Instant,
    /// Another for all that is owed. What was said is taken off the list by this, not by its round: something newer may be
    /// to be said of that by now.
    number: u64,
}

/// What would be lost if it were never told: the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// A lease is freed, which the TTL does, too.
    Frees,
    /// It was told before, and is told again in case that was forgotten.
    Again,
    /// What became of a tick.
    Verdict,
}

/// What is next to be told to a member.
#[derive(Debug)]
pub(super) enum Next {
    /// Nothing: nobody tells it any more.
    Nothing,
    /// Nothing yet.
    Later,
    Tell(Vec<Untold>),
}

/// So much is owed to one member. While it is away, what comes beyond that pushes out what weighs least, the oldest first.
pub(super) const MOST: usize = 4096;

impl Untold {
    pub fn of(key: &LeaseKey, id: HolderId, how: Ending, weight: Weight, patience: Duration) -> Self {
        let now = Instant::now();
        Self { key: key.clone(), id, how, weight, from: now, give_up: now + patience, number: 0 }
    }

    /// The same once more, a while later.
    pub fn again(&self, after: Duration) -> Self {
        let from = Instant::now() + after;
        Self { weight: Weight::Again, from, give_up: self.give_up.max(from + after), ..self.clone() }
    }

    /// What is to be said of a round of which this is owed already: a verdict stays.
    fn with(self, owed: Self) -> Self {
        let give_up = self.give_up.max(owed.give_up);
        let heavier = if owed.weight > self.weight { Self { number: self.number, ..owed } } else { self };
        Self { give_up, ..heavier }
    }
}

impl Debts {
    /// Adds what it has not heard of. What was pushed out for it, if something was.
    pub fn owe(&mut self, untold: Untold) -> Option<Untold> {
        self.numbers += 1;
        let untold = Untold { number: self.numbers, ..untold };
        let owed = self.untold.iter().position(|owed| owed.id == untold.id).and_then(|at| self.untold.remove(at));
        self.untold.push_back(match owed {
            Some(owed) => untold.with(owed),
            None => untold,
        });
        if self.untold.len() <= MOST {
            return None;
        }
        let lightest = self.untold.iter().enumerate().min_by_key(|(_, owed)| owed.weight).map(|(at, _)| at)?;
        self.untold.remove(lightest)
    }

    /// Whether somebody has to begin to tell it, and does from now on.
    pub fn begins(&mut self) -> bool {
        let begins = !self.is_told && !self.untold.is_empty();
        self.is_told |= begins;
        begins
    }

    /// So much of what is to be told now; all of it in turn, as something about one of them may be in the way.
    pub fn next(&mut self, most: usize) -> Next {
        let now = Instant::now();
        let mut next = Vec::new();
        for _ in 0..self.untold.len() {
            let Some(first) = self.untold.pop_front() else { break };
            if first.from <= now {
                next.push(first.clone());
            }
            self.untold.push_back(first);
            if next.len() == most {
                break;
            }
        }
        self.is_told = !self.untold.is_empty();
        match (self.is_told, next.is_empty()) {
            (false, _) => Next::Nothing,
            (true, true) => Next::Later,
            (true, false) => Next::Tell(next),
        }
    }

    /// It has heard of this, and of nothing newer.
    pub fn heard(&mut self, of: &Untold) {
        self.untold.retain(|owed| owed.number != of.number);
    }

    /// Takes off what need not be told any more.
    pub fn outlived(&mut self) -> Vec<Untold> {
        let now = Instant::now();
        let (owed, late) = std::mem::take(&mut self.untold).into_iter().partition(|owed| now < owed.give_up);
        self.untold = owed;
        Vec::from(late)
    }

    /// Whoever told it has ended before its time.
    pub fn stops(&mut self) {
        self.is_told = false;
    }

    pub fn has(&self, id: HolderId) -> bool {
        self.untold.iter().any(|owed| owed.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Ended;
    use crate::name::LockName;
    use crate::tick::{Tick, Verdict};

    const HOUR: Duration = Duration::from_secs(3600);

    fn untold(id: HolderId, how: Ending, weight: Weight) -> Untold {
        let key = LeaseKey { name: LockName::new("job").unwrap(), holder: HolderId::fresh() };
        Untold::of(&key, id, how, weight, HOUR)
    }

    fn frees(id: HolderId) -> Untold {
        untold(id, Ending::Release(Ended::default()), Weight::Frees)
    }

    fn done(id: HolderId) -> Untold {
        let verdict = Some(Verdict::Done(Tick::ONLY));
        untold(id, Ending::Release(Ended { verdict, ..Ended::default() }), Weight::Verdict)
    }

    fn told(debts: &mut Debts) -> Vec<Untold> {
        match debts.next(MOST) {
            Next::Tell(all) => all,
            Next::Nothing | Next::Later => Vec::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_verdict_is_not_replaced_by_a_release_without_one() {
        let (mut debts, id) = (Debts::default(), HolderId::fresh());
        for owed in [frees(id), done(id), frees(id)] {
            assert!(debts.owe(owed).is_none());
        }
        let told = told(&mut debts);
        assert!(matches!(told[..], [Untold { how: Ending::Release(Ended { verdict: Some(_), .. }), .. }]), "{told:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_heard_is_only_what_was_said() {
        let (mut debts, id) = (Debts::default(), HolderId::fresh());
        debts.owe(frees(id));
        let said = told(&mut debts);
        debts.owe(done(id));
        debts.heard(&said[0]);
        let left = told(&mut debts);
        assert_eq!(left.len(), 1);
        debts.heard(&left[0]);
        assert!(matches!(debts.next(1), Next::Nothing));
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_the_bound_verdicts_go_last() {
        let mut debts = Debts::default();
        let (first, verdict) = (HolderId::fresh(), HolderId::fresh());
        debts.owe(done(verdict));
        debts.owe(frees(first));
        for _ in 2..MOST {
            assert!(debts.owe(done(HolderId::fresh())).is_none());
        }
        assert_eq!(debts.owe(done(HolderId::fresh())).map(|lost| lost.id), Some(first));
        assert_eq!(debts.owe(frees(first)).map(|lost| lost.id), Some(first), "it weighs least");
        assert_eq!(debts.owe(done(HolderId::fresh())).map(|lost| lost.id), Some(verdict));
    }

    #[tokio::test(start_paused = true)]
    async fn all_take_turns_and_end_some_day() {
        let mut debts = Debts::default();
        let ids = [(); 3].map(|()| HolderId::fresh());
        ids.iter().for_each(|id| drop(debts.owe(frees(*id))));
        assert!(debts.begins() && !debts.begins());
        for turn in 0..6 {
            let Next::Tell(next) = debts.next(1) else { panic!("they are not heard") };
            assert_eq!(next[0].id, ids[turn % 3]);
        }
        tokio::time::advance(HOUR).await;
        assert_eq!(debts.outlived().len(), 3);
        assert!(matches!(debts.next(1), Next::Nothing));
        assert!(!debts.begins());
    }
}
