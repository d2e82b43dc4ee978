//! What the turns of one node share: the locks, the time, whom to tell, and whether it is to end.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use leasehold::{Error, Locks};
use tokio::sync::watch;

use crate::clock::WallClock;
use crate::event::{Event, Observer};

/// How far the end of a scheduler has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    /// It goes on.
    No,
    /// It begins nothing new; what runs may end.
    Soon,
    /// What runs is dropped.
    Now,
}

/// One scheduler's node.
#[derive(Clone)]
pub(crate) struct Node {
    pub locks: Locks,
    pub clock: Arc<dyn WallClock>,
    pub observer: Option<Arc<dyn Observer>>,
    pub ending: watch::Receiver<Ending>,
}

impl Node {
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn tell(&self, event: &Event<'_>) {
        if let Some(observer) = &self.observer {
            observer.observe(event);
        }
    }

    /// The ledger decides nothing: what fails there is told and goes no further.
    pub fn told<T>(&self, result: Result<T, Error>) -> Option<T> {
        result.inspect_err(|error| self.tell(&Event::LedgerFailed { error })).ok()
    }

    pub fn is_ending(&self) -> bool {
        *self.ending.borrow() > Ending::No
    }

    /// Resolves when it has got so far, also if the scheduler is gone.
    pub async fn ends(&self, so_far: Ending) {
        let mut ending = self.ending.clone();
        let _ = ending.wait_for(|ending| *ending >= so_far).await;
    }

    /// Sleeps; false if the end comes first.
    pub async fn sleeps(&self, span: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.ends(Ending::Soon) => false,
            () = tokio::time::sleep(span) => true,
        }
    }
}
