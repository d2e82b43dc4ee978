//! Under which identities an acquisition is known to the members.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::flaw::{self, Flaw};
use crate::lease::{Claim, Grant, HolderId, LeaseKey};

/// Every round of an acquisition has an identity of its own: what is left of one round, or takes it back late, must not be
/// taken for the next. Who holds a lock at the members is a round; for whom stands in its label, and here.
///
/// An acquisition is asked for again by the process that has asked before, so it is enough to know it here.
#[derive(Debug, Default)]
pub(super) struct Rounds(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    of: HashMap<LeaseKey, Acquisition>,
    /// At this size those are thrown out of which nothing more can be left.
    purge_at: usize,
}

#[derive(Debug)]
struct Acquisition {
    /// The round that was granted.
    granted: Option<Arc<Granted>>,
    /// Rounds of which something may be at the members, and nobody cleans up.
    open: Vec<HolderId>,
    /// Those that somebody cleans up.
    ending: Vec<HolderId>,
    /// After so long nothing is left by itself; none if a tick was claimed.
    over: Option<Instant>,
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

/// So many are remembered without looking whether they still need be.
const FEW: usize = 64;

impl Rounds {
    /// A new round of this acquisition; what it is called at the members.
    pub fn begin(&self, claim: &Claim) -> LeaseKey {
        let key = key_of(claim);
        let id = if flaw::has(Flaw::RoundsShareAnIdentity) { claim.holder } else { HolderId::fresh() };
        let mut state = self.state();
        state.purge();
        let over = claim.due.is_none().then(|| Instant::now() + claim.ttl * REMEMBERED);
        let fresh = || Acquisition { granted: None, open: Vec::new(), ending: Vec::new(), over };
        let acquisition = state.of.entry(key).or_insert_with(fresh);
        acquisition.open.push(id);
        acquisition.over = acquisition.over.max(over).filter(|_| over.is_some());
        LeaseKey { name: claim.name.clone(), holder: id }
    }

    /// A round was granted.
    pub fn grant(&self, granted: Granted) {
        let key = key_of(&granted.claim);
        if let Some(acquisition) = self.state().of.get_mut(&key) {
            acquisition.open.retain(|id| *id != granted.id);
            acquisition.granted = Some(Arc::new(granted));
        }
    }

    /// The round that was granted, if one was and it has not been ended.
    pub fn granted(&self, key: &LeaseKey) -> Option<Arc<Granted>> {
        self.state().of.get(key)?.granted.clone()
    }

    /// It is renewed: it will be heard of for a while.
    pub fn lasts(&self, key: &LeaseKey, ttl: Duration) {
        if let Some(Acquisition { over: Some(over), .. }) = self.state().of.get_mut(key) {
            *over = (*over).max(Instant::now() + ttl * REMEMBERED);
        }
    }

    /// The rounds that nobody cares for any more: their calls were dropped. From now on somebody cleans them up.
    pub fn abandoned(&self, key: &LeaseKey) -> Vec<HolderId> {
        let mut state = self.state();
        let Some(acquisition) = state.of.get_mut(key) else { return Vec::new() };
        let abandoned = std::mem::take(&mut acquisition.open);
        acquisition.ending.extend(&abandoned);
        abandoned
    }

    /// From now on somebody cleans it up.
    pub fn ends(&self, key: &LeaseKey, id: HolderId) {
        if let Some(acquisition) = self.state().of.get_mut(key) {
            acquisition.forget(id);
            acquisition.ending.push(id);
        }
    }

    /// All rounds of which something may be at the members. Of one that is not known here, what the caller calls it.
    pub fn all(&self, key: &LeaseKey) -> Vec<HolderId> {
        let state = self.state();
        let Some(acquisition) = state.of.get(key) else { return vec![key.holder] };
        let granted = acquisition.granted.iter().map(|granted| granted.id);
        acquisition.open.iter().chain(&acquisition.ending).copied().chain(granted).collect()
    }

    /// Nothing of it is left at any member.
    pub fn forget(&self, key: &LeaseKey, id: HolderId) {
        let mut state = self.state();
        let Some(acquisition) = state.of.get_mut(key) else { return };
        acquisition.forget(id);
        if acquisition.granted.is_none() && acquisition.open.is_empty() && acquisition.ending.is_empty() {
            state.of.remove(key);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn purge(&mut self) {
        if self.of.len() < self.purge_at.max(FEW) {
            return;
        }
        let now = Instant::now();
        self.of.retain(|_, acquisition| acquisition.over.is_none_or(|over| now < over));
        self.purge_at = self.of.len() * 2;
    }
}

impl Acquisition {
    fn forget(&mut self, id: HolderId) {
        self.open.retain(|open| *open != id);
        self.ending.retain(|ending| *ending != id);
        self.granted.take_if(|granted| granted.id == id);
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
        let (rounds, claim) = (Rounds::default(), claim());
        let key = key_of(&claim);
        assert_eq!(rounds.all(&key), [claim.holder], "unknown: as the caller calls it");
        let (one, two) = (rounds.begin(&claim).holder, rounds.begin(&claim).holder);
        assert!(one != two && one != claim.holder);
        rounds.ends(&key, one);
        assert_eq!(rounds.abandoned(&key), [two]);
        assert_eq!(rounds.all(&key), [one, two]);
        rounds.forget(&key, one);
        rounds.forget(&key, two);
        assert_eq!(rounds.all(&key), [claim.holder]);
    }

    #[tokio::test(start_paused = true)]
    async fn those_of_which_nothing_more_is_heard_are_thrown_out() {
        let rounds = Rounds::default();
        for _ in 0..10 * FEW {
            drop(rounds.begin(&claim()));
            tokio::time::advance(Duration::from_secs(2)).await;
        }
        assert!(rounds.state().of.len() <= 2 * FEW, "{}", rounds.state().of.len());
    }
}
