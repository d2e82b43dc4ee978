//! What holders that are done have left in a store, and is taken away there in the background.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::{Notify, oneshot};

use crate::lease::LeaseKey;
use crate::validity::Moment;

/// Leases that nobody needs any more, in one of the stores.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    left: Mutex<VecDeque<Leftover>>,
    added: Notify,
}

/// A lease that nobody needs any more.
#[derive(Debug)]
pub(super) struct Leftover {
    pub key: LeaseKey,
    /// By then it has ended by itself.
    pub until: Moment,
    /// Told when the store has heard of it; dropped when it has ended by itself.
    pub cleared: oneshot::Sender<()>,
}

impl Leftovers {
    /// One more.
    pub fn add(&self, leftover: Leftover) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push_back(leftover);
        self.added.notify_one();
    }

    /// The next that has not ended by itself; waits until there is one.
    pub async fn next(&self, now: impl Fn() -> Moment) -> Leftover {
        loop {
            while let Some(leftover) = self.pop() {
                if now() < leftover.until {
                    return leftover;
                }
            }
            self.added.notified().await;
        }
    }

    fn pop(&self) -> Option<Leftover> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}
