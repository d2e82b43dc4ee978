//! Who is told how a run goes, and decides nothing.

use std::sync::Arc;

use leasehold::{Event, Observer, Store};
use leasehold_monitor::Tally;

use crate::metering::Metering;
use crate::traces::RunTrace;

/// What counts a run, and what traces it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Watchers {
    /// For the store.
    pub tally: Tally,
    /// For `--metrics-file`.
    pub metering: Metering,
    /// For a collector.
    pub trace: RunTrace,
}

impl Watchers {
    /// The store, watched.
    pub fn around(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        self.trace.is_over(&*store);
        self.metering.around(store)
    }

    /// Something happens to a lock.
    pub fn observe(&self, event: &Event<'_>) {
        self.tally.observe(event);
        self.metering.lock_event(event);
        self.trace.observe(event);
    }
}
