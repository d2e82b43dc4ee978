//! What this client knows of its own keys.
//!
//! All leases of one length share one of the server's, so the server can't tell which key of several is renewed no more.
//! That is known here: a key whose time is over is gone, whatever keeps the shared lease alive, and is deleted before
//! that is next prolonged. The same for who waits and has stopped asking.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::store::QUEUE_ENTRY;
use crate::validity::{Clock, Moment};

/// For how long somebody who has stopped asking may come back to its old place.
const COMES_BACK: Duration = Duration::from_secs(2);

/// For how long after its time a claim may still be executed whose answer was given up.
const UNDER_WAY: Duration = Duration::from_secs(30);

/// The keys that this client has put, and may have put.
#[derive(Debug)]
pub(super) struct Ours {
    clock: &'static dyn Clock,
    keys: Mutex<HashMap<Vec<u8>, Own>>,
}

/// One key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Own {
    /// On which lease it hangs.
    pub lease: i64,
    pub what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// It may be there, or come; nobody counts on it after `ends`, when it is deleted as soon as it is there.
    Unsure {
        ends: Moment,
    },
    Held(Held),
    Waits(Waits),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub created: i64,
    pub since: Moment,
    /// When its time is over, unless it is renewed.
    pub ends: Moment,
    /// The lease of its name's mark, if it is held for a tick.
    pub marks: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waits {
    pub created: i64,
    pub modified: i64,
    pub asked: Moment,
    /// Whoever stood before it is gone.
    pub is_next: bool,
}

impl Ours {
    pub fn new(clock: &'static dyn Clock) -> Self {
        Self { clock, keys: Mutex::default() }
    }

    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Own>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, key: &[u8]) -> Option<Own> {
        self.keys().get(key).copied()
    }

    pub fn note(&self, key: &[u8], lease: i64, what: What) {
        self.keys().insert(key.to_vec(), Own { lease, what });
    }

    pub fn forget(&self, key: &[u8]) {
        self.keys().remove(key);
    }

    pub fn held(&self, key: &[u8]) -> Option<Held> {
        match self.get(key)?.what {
            What::Held(held) => Some(held),
            _ => None,
        }
    }

    /// Whether it is a key of ours whose time is over.
    pub fn is_over(&self, key: &[u8]) -> bool {
        let now = self.now(); // Not after the look: what is prolonged behind it was not over yet.
        self.held(key).is_some_and(|held| held.ends <= now)
    }

    /// Whether it is not known to be there or not.
    pub fn is_unsure(&self, key: &[u8]) -> bool {
        matches!(self.get(key), Some(Own { what: What::Unsure { .. }, .. }))
    }

    /// Whether what was not there may come yet.
    pub fn may_come(&self, own: &Own) -> bool {
        matches!(own.what, What::Unsure { ends } if ends + UNDER_WAY > self.now())
    }

    /// Whether it is the place of one of ours who has stopped asking.
    pub fn is_asleep(&self, key: &[u8]) -> bool {
        matches!(self.get(key), Some(Own { what: What::Waits(waits), .. }) if waits.asked + QUEUE_ENTRY <= self.now())
    }

    /// It lasts for so long from now at least. False if its time was over: others may be taking it for gone.
    pub fn prolong(&self, key: &[u8], ttl: Duration) -> bool {
        let mut keys = self.keys();
        let now = self.now();
        let Some(Own { what: What::Held(held), .. }) = keys.get_mut(key) else { return false };
        if held.ends <= now {
            return false;
        }
        held.ends = held.ends.max(now + ttl);
        true
    }

    /// Whoever stood before this waiter is gone.
    pub fn is_next(&self, key: &[u8]) {
        if let Some(Own { what: What::Waits(waits), .. }) = self.keys().get_mut(key) {
            waits.is_next = true;
        }
    }

    /// What of this lease is not to be prolonged along with the rest.
    pub fn leftovers(&self, lease: i64) -> Vec<(Vec<u8>, Own)> {
        let now = self.now();
        let is_left_over = |own: &Own| match own.what {
            What::Unsure { ends } => ends <= now,
            What::Held(held) => held.ends <= now,
            What::Waits(waits) => waits.asked + COMES_BACK <= now,
        };
        let keys = self.keys();
        let left_over = keys.iter().filter(|(_, own)| own.lease == lease && is_left_over(own));
        left_over.map(|(key, own)| (key.clone(), *own)).collect()
    }

    /// Forgets a key if nothing has been noted of it since.
    pub fn forget_same(&self, key: &[u8], own: &Own) {
        let mut keys = self.keys();
        if keys.get(key) == Some(own) {
            keys.remove(key);
        }
    }

    /// Forgets what might have come to hang on a lease that is no more.
    pub fn forget_unsure_of(&self, lease: i64) {
        self.keys().retain(|_, own| own.lease != lease || !matches!(own.what, What::Unsure { .. }));
    }
}
