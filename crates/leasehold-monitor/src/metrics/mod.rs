//! Metrics: what happens to the locks and jobs of one process, counted for Prometheus or whatever reads the `metrics` facade.
//!
//! ```no_run
//! use std::sync::Arc;
//! use leasehold::{Locks, stores};
//! use leasehold_monitor::metrics::{Exposition, Measured, Meter};
//!
//! # fn main() -> leasehold::Result<()> {
//! let exposition = Exposition::install()?; // first: what is counted goes to the recorder that is there by then
//! let meter = Meter::new();
//! let store = Arc::new(Measured::over(stores::open("redis://cache.example.com")?));
//! let locks = Locks::builder().observer(meter.clone()).over(store);
//! // … and, of jobs on a schedule, Scheduler::over(locks).observer(meter)
//! println!("{}", exposition.render()); // what to answer to GET /metrics
//! # Ok(()) }
//! ```
//!
//! All that is counted stands in [`METRICS`], and in `docs/metrics.md` with what each means and when to worry. Nothing is labelled with the name of a
//! lock, of which there may be any number: give your locks [groups](Meter::grouped).
//!
//! Where your program has a recorder already, leave [`Exposition`] out: whatever recorder is installed when a [`Meter`] or a
//! [`Measured`] is made is the one it counts with.

mod buckets;
mod catalogue;
mod exposition;
mod groups;
mod jobs;
mod locks;
mod measured;
mod meter;
mod overview;
mod series;
mod stores;
#[cfg(test)]
mod tests;

pub use catalogue::{Kind, METRICS, Metric};
pub use exposition::Exposition;
pub use measured::Measured;
pub use meter::Meter;
pub(crate) use overview::Overview;
