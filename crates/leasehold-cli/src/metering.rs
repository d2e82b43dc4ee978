//! What is counted, where somebody has asked for it.

use std::sync::Arc;

use leasehold::{Observer, Store};
use leasehold_monitor::metrics::{Exposition, Measured, Meter};

use crate::exit::Failure;

/// Metrics of this process, or none. To be begun when nothing is to be forked any more: a thread looks after them.
#[derive(Debug, Clone, Default)]
pub struct Metering(Option<Counting>);

#[derive(Debug, Clone)]
struct Counting {
    exposition: Exposition,
    meter: Meter,
}

impl Metering {
    /// Metrics of several jobs; each a group of its own, if they are to be told apart.
    ///
    /// # Errors
    /// The system has no thread for them.
    pub fn of_jobs(apart: bool) -> Result<Self, Failure> {
        let exposition = Exposition::install()?;
        let meter = if apart { Meter::grouped(|name| Some(name.to_string())) } else { Meter::new() };
        Ok(Self(Some(Counting { exposition, meter })))
    }

    /// Metrics of one run, which stand beside those of other runs: each series has the lock's name.
    ///
    /// # Errors
    /// The system has no thread for them.
    pub fn of_one(lock: &str) -> Result<Self, Failure> {
        let exposition = Exposition::labelled([("lock", lock)])?;
        Ok(Self(Some(Counting { exposition, meter: Meter::new() })))
    }

    /// The store, measured.
    pub fn around(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        if self.0.is_some() { Arc::new(Measured::over(store)) } else { store }
    }

    /// Counts what happens to locks.
    pub fn lock_event(&self, event: &leasehold::Event<'_>) {
        if let Some(counting) = &self.0 {
            Observer::observe(&counting.meter, event);
        }
    }

    /// Counts what happens to jobs.
    pub fn job_event(&self, event: &leasehold_schedule::Event<'_>) {
        if let Some(counting) = &self.0 {
            leasehold_schedule::Observer::observe(&counting.meter, event);
        }
    }

    /// What a scrape reads, if anything is counted.
    pub fn text(&self) -> Option<String> {
        self.0.as_ref().map(|counting| counting.exposition.render())
    }
}
