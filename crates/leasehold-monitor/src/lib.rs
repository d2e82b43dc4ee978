//! What runs where, who waits for whom, what is contended and what nearly went wrong.

mod contention;
mod diagnosis;
pub mod metrics;
mod tally;

pub use contention::{
    Contention, ContentionStep, LockContention, LongHold, OtherLocks, Prevented, Quantiles, Renewals, Runs,
};
pub use diagnosis::diagnose;
pub use tally::{Keeping, Tally};
