//! All locks that are held or waited for, at one moment.

use jiff::Timestamp;
use leasehold::{Holder, HolderId, Holding};

/// What the store has said.
#[derive(Debug)]
pub(crate) struct Listing {
    /// When, by the store's clock.
    pub at: Timestamp,
    /// In order of name.
    pub locks: Vec<Holding>,
}

impl Listing {
    /// How many somebody holds.
    pub fn held(&self) -> usize {
        self.locks.iter().filter(|lock| lock.holder.is_some()).count()
    }

    /// How many somebody waits for.
    pub fn waited(&self) -> usize {
        self.locks.iter().filter(|lock| lock.waiting > 0).count()
    }

    /// Who holds a name.
    pub fn of(&self, name: &str) -> Option<&Holding> {
        let at = self.locks.binary_search_by(|lock| lock.name.as_str().cmp(name)).ok()?;
        self.locks.get(at)
    }

    /// Whether the same hold and wait for the same; time passes in any case.
    pub fn is_as(&self, other: &Self) -> bool {
        self.locks.len() == other.locks.len()
            && self.locks.iter().zip(&other.locks).all(|(one, other)| is_as(one, other))
    }
}

fn is_as(one: &Holding, other: &Holding) -> bool {
    let who = |lock: &Holding| (lock.holder, lock.token, lock.revoked, lock.waiting, lock.permits);
    let beside = |holder: &Holder| (holder.holder, holder.token, holder.revoked);
    one.name == other.name
        && who(one) == who(other)
        && one.label == other.label
        && one.others.iter().map(beside).eq(other.others.iter().map(beside))
}

/// All holders of a lock, that above and those beside it.
pub(crate) fn holders(lock: &Holding) -> impl Iterator<Item = HolderId> {
    lock.holder.into_iter().chain(lock.others.iter().filter_map(|other| other.holder))
}
