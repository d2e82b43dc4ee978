//! What a store tells those who listen to it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::arbiter::Switched;
use super::tagged::Route;
use crate::member::Vote;

/// Who is told, on a thread of the store's or of whoever asks it: it must not block.
pub type Listener = dyn Fn(&News<'_>) + Send + Sync;

/// Something that a store knows beside the answers that it gives.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum News<'a> {
    /// Where the route of a [`Fallback`](crate::stores::Fallback) leads, as this client has first heard.
    Routed(&'a Route),
    /// It leads elsewhere.
    Switched(&'a Switched),
    /// What a member of a [`Quorum`](crate::stores::Quorum) has answered.
    Voted {
        /// What the member is called in errors.
        member: &'a str,
        /// About what.
        on: Vote,
        /// How it voted.
        ballot: Ballot,
        /// Of so many leases that are renewed together; 1 of a claim.
        times: usize,
    },
}

/// How a member of a quorum voted: on a claim, in the first of its two phases, or on a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ballot {
    /// It grants it, or has renewed it.
    Granted,
    /// Somebody else has the lock there; or the lease is not there, or revoked.
    Refused,
    /// It could not say, or not within its time; or what it says is no vote.
    Failed,
    /// It had not answered when the others had decided. Where all are well that is the slowest one.
    Late,
}

/// Those who listen to a store.
#[derive(Default)]
pub(crate) struct Listeners(Mutex<Vec<Weak<Listener>>>);

impl Listeners {
    fn known(&self) -> MutexGuard<'_, Vec<Weak<Listener>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more.
    pub fn add(&self, listener: Weak<Listener>) {
        let mut known = self.known();
        known.retain(|known| known.strong_count() > 0);
        known.push(listener);
    }

    /// Whether anybody listens.
    pub fn are_there(&self) -> bool {
        self.known().iter().any(|known| known.strong_count() > 0)
    }

    /// Tells all of them.
    pub fn tell(&self, news: &News<'_>) {
        let listeners: Vec<_> = self.known().iter().filter_map(Weak::upgrade).collect();
        listeners.iter().for_each(|listener| tell(listener, news));
    }
}

/// Who panics must not take the store along.
pub(crate) fn tell(listener: &Arc<Listener>, news: &News<'_>) {
    let _ = catch_unwind(AssertUnwindSafe(|| listener(news)));
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listeners").field(&self.known().len()).finish()
    }
}
