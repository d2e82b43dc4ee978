//! What runs where, who waits for whom, what is contended and what nearly went wrong.

mod api;
mod contention;
pub mod dashboard;
mod diagnosis;
pub mod metrics;
mod monitor;
mod snapshot;
mod tally;
mod token;

pub use api::router;
pub use contention::{
    Contention, ContentionStep, LockContention, LongHold, OtherLocks, Prevented, Quantiles, Renewals, Runs,
};
pub use diagnosis::diagnose;
pub use monitor::Monitor;
pub use tally::{Keeping, Tally};
pub use tokio_util::sync::CancellationToken;
