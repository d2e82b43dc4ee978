//! What holders that are done have left in a store, and is taken away there in the background.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::lease::LeaseKey;
use crate::validity::Moment;

/// Leases that nobody needs any more, in one of the stores.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    left: Mutex<Vec<Leftover>>,
    added: Notify,
}

/// A lease that nobody needs any more.
#[derive(Debug)]
pub(super) struct Leftover {
    pub key: LeaseKey,
    /// By then it has ended by itself.
    pub until: Moment,
}

impl Leftovers {
    /// One more.
    pub fn add(&self, leftover: Leftover) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push(leftover);
        self.added.notify_one();
    }

    /// All that have not ended by themselves; waits until there is one.
    pub async fn take(&self, now: impl Fn() -> Moment) -> Vec<Leftover> {
        loop {
            let left = std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner));
            let left: Vec<_> = left.into_iter().filter(|leftover| now() < leftover.until).collect();
            if !left.is_empty() {
                return left;
            }
            self.added.notified().await;
        }
    }
}
