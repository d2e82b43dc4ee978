//! Under which identities an acquisition is known to the members.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::debts::{Debts, Next, Untold, Weight};
use super::ending::Ending;
use super::{LIMIT, PATIENCE};
use crate::lease::{Claim, Ended, Grant, HolderId, LeaseKey};
use crate::rule::Rule;
use crate::tick::Verdict;

/// Every round of an acquisition has an identity of its own: what is left of one round, or takes it back late, must not be
/// taken for the next. Who holds a lock at the members is a round; for whom stands in its label, and here.
///
/// An acquisition is asked for again by the process that has asked before, so it is enough to know it here.
#[derive(Debug)]
pub(super) struct Rounds(Mutex<State>);

#[derive(Debug)]
struct State {
    of: HashMap<LeaseKey, Acquisition>,
    /// What each member has not heard of.
    debts: Vec<Debts>,
    /// Which rounds are being put back, and where.
    put_back: HashSet<(usize, HolderId)>,
    /// At this size those are thrown out of which nothing more can be left.
    purge_at: usize,
}

#[derive(Debug)]
struct Acquisition {
    /// The round that was granted.
    granted: Option<Arc<Granted>>,
    /// The round that was granted and has been released: told again under this, and if it is for a tick, told late how that
    /// went.
    released: Option<HolderId>,
    /// Rounds of which something may be at the members.
    rounds: Vec<Known>,
    ttl: Duration,
    is_for_a_tick: bool,
    /// After so long nothing is left by itself, and nothing more is said of it.
    over: Instant,
}

#[derive(Debug)]
struct Known {
    id: HolderId,
    /// Whether somebody cleans it up.
    is_ending: bool,
    /// Whether its tick may have been claimed somewhere.
    has_tick: bool,
    /// What is told to all once more when they have heard of it: that its tick never was begun.
    once_more: Option<Untold>,
}

/// A round that a majority has granted.
#[derive(Debug)]
pub(super) struct Granted {
    pub claim: Claim,
    /// Its identity.
    pub id: HolderId,
    pub grant: Grant,
}

impl Granted {
    /// What it is called at the members.
    pub fn lease(&self) -> LeaseKey {
        LeaseKey { name: self.claim.name.clone(), holder: self.id }
    }
}

/// For how many TTLs an acquisition of which nothing is heard is remembered.
const REMEMBERED: u32 = 4;

/// For how long a member that can't be reached is told of a release without a verdict: for the TTL, after which the lease
/// ends by itself, and this at least. With one for longer: until it knows, the tick is blocked there, and only there.
const ENDINGS_ARE_TOLD_FOR: Duration = Duration::from_secs(60);

/// How long after all have heard that a tick was never begun they are told so once more. One of them may have come back
/// empty, or heard of it before that, and be filled with what others knew before they heard: as long as is taken for that, a
/// question what they know, perhaps one who they are, and the filling.
const TOLD_AGAIN_AFTER: Duration = LIMIT.saturating_mul(4);

/// So many are remembered without looking whether they still need be.
const FEW: usize = 64;

impl Rounds {
    /// None yet, at so many members.
    pub fn among(members: usize) -> Self {
        let debts = (0..members).map(|_| Debts::default()).collect();
        Self(Mutex::new(State { of: HashMap::new(), debts, put_back: HashSet::new(), purge_at: 0 }))
    }

    /// A new round of this acquisition; what it is called at the members.
    pub fn begin(&self, claim: &Claim) -> LeaseKey {
        let id = if Rule::RoundsHaveIdentities.holds() { HolderId::fresh() } else { claim.holder };
        let mut state = self.state();
        state.purge();
        let acquisition = state.of.entry(key_of(claim)).or_insert_with(|| Acquisition::of(claim));
        acquisition.rounds.push(Known { id, is_ending: false, has_tick: false, once_more: None });
        acquisition.is_heard_of();
        LeaseKey { name: claim.name.clone(), holder: id }
    }

    /// The members are asked to ratify it: from now on its tick may be claimed.
    pub fn ratifies(&self, key: &LeaseKey, id: HolderId) {
        if let Some(acquisition) = self.state().of.get_mut(key) {
            let has_tick = acquisition.is_for_a_tick;
            acquisition.rounds.iter_mut().filter(|known| known.id == id).for_each(|known| known.has_tick = has_tick);
        }
    }

    /// A majority has closed its tick: what the others think of it is nothing to anybody.
    pub fn is_over(&self, key: &LeaseKey, id: HolderId) {
        if let Some(acquisition) = self.state().of.get_mut(key) {
            acquisition.rounds.iter_mut().filter(|known| known.id == id).for_each(|known| known.has_tick = false);
        }
    }

    /// A round was granted.
    pub fn grant(&self, granted: Granted) {
        let key = key_of(&granted.claim);
        if let Some(acquisition) = self.state().of.get_mut(&key) {
            acquisition.rounds.retain(|known| known.id != granted.id);
            acquisition.granted = Some(Arc::new(granted));
        }
    }

    /// The round that was granted, if one was and it has not been ended.
    pub fn granted(&self, key: &LeaseKey) -> Option<Arc<Granted>> {
        self.state().of.get(key)?.granted.clone()
    }

    /// It is renewed: it will be heard of for a while.
    pub fn lasts(&self, key: &LeaseKey, ttl: Duration) {
        if let Some(acquisition) = self.state().of.get_mut(key) {
            acquisition.ttl = ttl;
            acquisition.is_heard_of();
        }
    }

    /// The rounds that nobody cares for any more: their calls were dropped. From now on somebody cleans them up.
    pub fn abandoned(&self, key: &LeaseKey) -> Vec<HolderId> {
        let mut state = self.state();
        let Some(acquisition) = state.of.get_mut(key) else { return Vec::new() };
        let open = acquisition.rounds.iter_mut().filter(|known| !known.is_ending);
        open.map(|known| {
            known.is_ending = true;
            known.id
        })
        .collect()
    }

    /// From now on somebody cleans it up; this is what members that can't be reached are to be told.
    pub fn ends(&self, key: &LeaseKey, id: HolderId, how: Ending) -> Untold {
        let mut state = self.state();
        let Some(acquisition) = state.of.get_mut(key) else {
            let (weight, patience) = match how {
                Ending::Release(Ended { verdict: Some(_), .. }) => (Weight::Verdict, PATIENCE),
                _ => (Weight::Frees, ENDINGS_ARE_TOLD_FOR),
            };
            return Untold::of(key, id, how, weight, patience);
        };
        if acquisition.granted.take_if(|granted| granted.id == id).is_some() {
            acquisition.released = Some(id);
        }
        acquisition.is_heard_of();
        if acquisition.released == Some(id) && !acquisition.rounds.iter().any(|known| known.id == id) {
            // It was granted; or has been released, and what became of its tick is said late.
            let has_tick = acquisition.is_for_a_tick;
            acquisition.rounds.push(Known { id, is_ending: true, has_tick, once_more: None });
        }
        let known = acquisition.rounds.iter_mut().find(|known| known.id == id);
        let has_tick = known.as_ref().is_some_and(|known| known.has_tick);
        let (weight, patience) = match how {
            Ending::Leave if has_tick => (Weight::Verdict, PATIENCE),
            Ending::Leave => (Weight::Frees, acquisition.ttl),
            Ending::Release(how) if how.verdict.is_some() => (Weight::Verdict, PATIENCE),
            Ending::Release(_) => (Weight::Frees, acquisition.ttl.max(ENDINGS_ARE_TOLD_FOR)),
        };
        let untold = Untold::of(key, id, how, weight, patience);
        if let Some(known) = known {
            known.is_ending = true;
            if has_tick && how.says_that_nothing_was_begun() {
                known.once_more = Some(untold.clone());
            }
        }
        untold
    }

    /// A majority has heard of the release: with a verdict, if it is for a tick, that is all there is to say.
    pub fn is_told(&self, key: &LeaseKey, how: Ending) {
        let mut state = self.state();
        let Some(acquisition) = state.of.get_mut(key) else { return };
        if !acquisition.is_for_a_tick || !matches!(how, Ending::Release(how) if how.verdict.is_none()) {
            acquisition.released = None;
        }
        state.tidy(key);
    }

    /// What is released: the round that was granted; released already, that and whatever nobody cleans up. Of an acquisition
    /// that had none, [all](Self::all).
    pub fn to_release(&self, key: &LeaseKey) -> Vec<HolderId> {
        if let Some(acquisition) = self.state().of.get(key) {
            if let Some(granted) = &acquisition.granted {
                return vec![granted.id];
            }
            if let Some(released) = acquisition.released {
                let open = acquisition.rounds.iter().filter(|known| !known.is_ending).map(|known| known.id);
                return open.chain([released]).collect();
            }
        }
        self.all(key)
    }

    /// All rounds of which something may be at the members. Of one that is not known here, what the caller calls it.
    pub fn all(&self, key: &LeaseKey) -> Vec<HolderId> {
        let state = self.state();
        let Some(acquisition) = state.of.get(key) else { return vec![key.holder] };
        let granted = acquisition.granted.iter().map(|granted| granted.id);
        acquisition.rounds.iter().map(|known| known.id).chain(granted).collect()
    }

    /// Nothing of it is left at any member.
    pub fn forget(&self, key: &LeaseKey, id: HolderId) {
        self.state().forget(key, id);
    }

    /// All have heard of an ending but those who are owed it. Whom somebody has to begin to tell.
    pub fn is_told_to_all(&self, key: &LeaseKey, id: HolderId) -> Vec<usize> {
        self.state().settle(key, id)
    }

    /// A member has not heard of it. Whether somebody has to begin to tell that member.
    pub fn owe(&self, member: usize, untold: Untold) -> bool {
        let mut state = self.state();
        if let Some(acquisition) = state.of.get_mut(&untold.key) {
            acquisition.over = acquisition.over.max(untold.give_up);
        }
        state.owe(member, untold);
        state.debts[member].begins()
    }

    /// What a member is to be told next, so much at the most.
    pub fn owed(&self, member: usize, most: usize) -> Next {
        let mut state = self.state();
        for late in state.debts[member].outlived() {
            state.is_lost(&late);
        }
        state.debts[member].next(most)
    }

    /// A member has heard of these. Whom somebody has to begin to tell something.
    pub fn heard(&self, member: usize, of: &[Untold]) -> Vec<usize> {
        let mut state = self.state();
        of.iter().for_each(|heard| state.debts[member].heard(heard));
        of.iter().flat_map(|heard| state.settle(&heard.key, heard.id)).collect()
    }

    /// Nobody tells that member any more, though it has not heard of all: the runtime has ended.
    pub fn gives_up(&self, member: usize) {
        self.state().debts[member].stops();
    }

    /// It is put back at a member from now on, until this is dropped; none if that is being done already, or so many others
    /// are there.
    pub fn puts_back(self: &Arc<Self>, member: usize, id: HolderId, most: usize) -> Option<PutBack> {
        let (which, mut state) = ((member, id), self.state());
        let others = state.put_back.iter().filter(|(other, _)| *other == member).count();
        (others < most && state.put_back.insert(which)).then(|| PutBack { rounds: Arc::clone(self), which })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A round is being put back at a member.
#[derive(Debug)]
pub(super) struct PutBack {
    rounds: Arc<Rounds>,
    which: (usize, HolderId),
}

impl Drop for PutBack {
    fn drop(&mut self) {
        self.rounds.state().put_back.remove(&self.which);
    }
}

impl State {
    fn purge(&mut self) {
        if self.of.len() < self.purge_at.max(FEW) {
            return;
        }
        let now = Instant::now();
        self.of.retain(|_, acquisition| now < acquisition.over);
        self.purge_at = self.of.len() * 2;
    }

    fn owe(&mut self, member: usize, untold: Untold) {
        if let Some(lost) = self.debts[member].owe(untold) {
            self.is_lost(&lost);
        }
    }

    fn is_owed(&self, id: HolderId) -> bool {
        self.debts.iter().any(|debts| debts.has(id))
    }

    /// A member will not hear of it.
    fn is_lost(&mut self, untold: &Untold) {
        if !self.is_owed(untold.id) {
            self.forget(&untold.key, untold.id);
        }
    }

    /// Once all have heard of it, it is told to all once more if need be, or forgotten. Whom somebody has to begin to tell.
    fn settle(&mut self, key: &LeaseKey, id: HolderId) -> Vec<usize> {
        if self.is_owed(id) {
            return Vec::new();
        }
        let known = self.of.get_mut(key).and_then(|acquisition| acquisition.rounds.iter_mut().find(|own| own.id == id));
        let Some(untold) = known.and_then(|known| known.once_more.take()) else {
            self.forget(key, id);
            return Vec::new();
        };
        (0..self.debts.len()).for_each(|member| self.owe(member, untold.again(TOLD_AGAIN_AFTER)));
        (0..self.debts.len()).filter(|member| self.debts[*member].begins()).collect()
    }

    fn forget(&mut self, key: &LeaseKey, id: HolderId) {
        if let Some(acquisition) = self.of.get_mut(key) {
            acquisition.forget(id);
            self.tidy(key);
        }
    }

    /// Forgets an acquisition of which there is nothing more to know.
    fn tidy(&mut self, key: &LeaseKey) {
        if self.of.get(key).is_some_and(Acquisition::is_empty) {
            self.of.remove(key);
        }
    }
}

impl Acquisition {
    fn of(claim: &Claim) -> Self {
        Self {
            granted: None,
            released: None,
            rounds: Vec::new(),
            ttl: claim.ttl,
            is_for_a_tick: claim.due.is_some(),
            over: Instant::now(),
        }
    }

    fn is_heard_of(&mut self) {
        let least = if self.is_for_a_tick { PATIENCE } else { Duration::ZERO };
        self.over = self.over.max(Instant::now() + least.max(self.ttl * REMEMBERED));
    }

    fn forget(&mut self, id: HolderId) {
        self.rounds.retain(|known| known.id != id);
        self.granted.take_if(|granted| granted.id == id);
    }

    fn is_empty(&self) -> bool {
        self.granted.is_none() && self.released.is_none() && self.rounds.is_empty()
    }
}

impl Ending {
    fn says_that_nothing_was_begun(self) -> bool {
        match self {
            Self::Leave => true,
            Self::Release(how) => how.verdict == Some(Verdict::NotStarted),
        }
    }
}

pub(super) fn key_of(claim: &Claim) -> LeaseKey {
    LeaseKey { name: claim.name.clone(), holder: claim.holder }
}

/// The label under which a round of `holder` is known to the members.
pub(super) fn label_for(label: &str, holder: HolderId) -> Arc<str> {
    format!("{label}#{holder}").into()
}

/// The label of a holder, and who that is to its own client.
pub(super) fn read_label(label: &str) -> (&str, Option<HolderId>) {
    let read = label.rsplit_once('#').and_then(|(label, holder)| Some((label, HolderId::parse(holder)?)));
    read.map_or((label, None), |(label, holder)| (label, Some(holder)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::LockName;

    fn claim() -> Claim {
        Claim::new(LockName::new("job").unwrap(), HolderId::fresh(), "host/1/job".into(), Duration::from_secs(2))
    }

    #[test]
    fn a_label_says_for_whom_a_round_is() {
        let holder = HolderId::fresh();
        assert_eq!(read_label(&label_for("host/1/job #7", holder)), ("host/1/job #7", Some(holder)));
        assert_eq!(read_label("host/1/job #7"), ("host/1/job #7", None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_is_known_until_nothing_is_left_of_it() {
        let (rounds, claim) = (Rounds::among(3), claim());
        let key = key_of(&claim);
        assert_eq!(rounds.all(&key), [claim.holder], "unknown: as the caller calls it");
        let (one, two) = (rounds.begin(&claim).holder, rounds.begin(&claim).holder);
        assert!(one != two && one != claim.holder);
        rounds.ends(&key, one, Ending::Leave);
        assert_eq!(rounds.abandoned(&key), [two]);
        assert_eq!(rounds.all(&key), [one, two]);
        rounds.forget(&key, one);
        rounds.forget(&key, two);
        assert_eq!(rounds.all(&key), [claim.holder]);
    }

    #[tokio::test(start_paused = true)]
    async fn those_of_which_nothing_more_is_heard_are_thrown_out() {
        let rounds = Rounds::among(3);
        for _ in 0..10 * FEW {
            drop(rounds.begin(&claim()));
            tokio::time::advance(Duration::from_secs(2)).await;
        }
        assert!(rounds.state().of.len() <= 2 * FEW, "{}", rounds.state().of.len());
    }
}
