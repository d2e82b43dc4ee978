//! Groups of locks: few, however many locks there are.

use std::borrow::Cow;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock};

use leasehold::LockName;

use super::series::Group;

/// So many groups are told apart, each with some dozens of series; the rest are one, [`OTHERS`].
pub(super) const MOST: usize = 50;

/// The group of all locks whose group came too late to be one.
pub(super) const OTHERS: &str = "other";

/// So much of a group's name is kept, in characters.
const LONGEST: usize = 100;

/// To which group a lock belongs, if to any.
pub(super) type GroupOf = dyn Fn(&LockName) -> Option<Cow<'static, str>> + Send + Sync;

/// What is counted for each group, and for locks without one.
pub(super) struct Groups<T> {
    make: fn(&Group) -> T,
    ungrouped: T,
    group_of: Option<Arc<GroupOf>>,
    known: RwLock<HashMap<Cow<'static, str>, Arc<T>>>,
}

impl<T> Groups<T> {
    pub fn new(make: fn(&Group) -> T, group_of: Option<Arc<GroupOf>>) -> Self {
        Self { make, ungrouped: make(&Group::default()), group_of, known: RwLock::default() }
    }

    /// Counts something of this lock.
    pub fn with(&self, name: &LockName, count: impl FnOnce(&T)) {
        match self.group(name) {
            None => count(&self.ungrouped),
            Some(group) => count(&self.of(group)),
        }
    }

    /// What others wrote may panic; counting does not.
    fn group(&self, name: &LockName) -> Option<Cow<'static, str>> {
        let group_of = self.group_of.as_ref()?;
        catch_unwind(AssertUnwindSafe(|| group_of(name))).ok().flatten()
    }

    fn of(&self, group: Cow<'static, str>) -> Arc<T> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&group) {
            return Arc::clone(known);
        }
        drop(known);
        self.admit(group)
    }

    fn admit(&self, group: Cow<'static, str>) -> Arc<T> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let is_one_more = known.len() >= MOST && !known.contains_key(&group);
        let group = if is_one_more { OTHERS.into() } else { group };
        let make = || Arc::new((self.make)(&Group::named(short(group.clone()))));
        Arc::clone(known.entry(group.clone()).or_insert_with(make))
    }
}

fn short(group: Cow<'static, str>) -> Cow<'static, str> {
    if group.chars().count() <= LONGEST { group } else { group.chars().take(LONGEST).collect::<String>().into() }
}

impl<T> std::fmt::Debug for Groups<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Groups").field("is_grouped", &self.group_of.is_some()).finish_non_exhaustive()
    }
}
