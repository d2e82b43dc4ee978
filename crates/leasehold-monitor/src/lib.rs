//! What runs where, who waits for whom, what is contended and what nearly went wrong.

pub mod metrics;
