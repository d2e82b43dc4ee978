//! What it takes to trust a Leasehold store: the contract as tests, faults on cue, and a judge of what happened.
//!
//! | module | for |
//! |---|---|
//! | [`conformance`] | the contract of [`Store`](leasehold::Store), a test for each line; [`conformance!`] runs it over a store of yours |
//! | [`PausedClock`] | leases that end without waiting |

mod clock;
pub mod conformance;

pub use clock::PausedClock;
