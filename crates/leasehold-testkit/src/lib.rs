//! What it takes to trust a Leasehold store: its contract as tests, faults on cue, and a judge of what happened.
//!
//! | part | for |
//! |---|---|
//! | [`mod@conformance`] | the contract of [`Store`](leasehold::Store), a test for each line; [`conformance!`] runs them over a store of yours |
//! | [`Faulty`] | a store whose requests and replies are lost, late or refused as a test says |
//! | [`PausedClock`] | leases that end without anybody waiting for it |
//! | [`ticks`] | ticks claimed, retried, lost and done at random, and whether a store may answer so |
//! | [`history`] | what many processes say they held, and whether it can be true |
//! | [`process`] | tests with several processes, killed and stopped |
//! | [`proxy`] | a network that is slow, silent or cut, between a client and any server |
//! | `simulation` (feature `simulation`) | machines whose clocks drift, a network between them, and a judge; the same each time for one seed |
//! | `servers` (feature `servers`, Linux) | real servers for one test: Redis alone, with replicas, sentinels or as a cluster; etcd alone or as a cluster; PostgreSQL, its standbys and PgBouncer; MariaDB |

mod clock;
pub mod conformance;
mod faulty;
pub mod history;
pub mod process;
pub mod proxy;
mod random;
#[cfg(all(feature = "servers", target_os = "linux"))]
pub mod servers;
#[cfg(feature = "simulation")]
pub mod simulation;
pub mod ticks;

pub use clock::PausedClock;
pub use faulty::{Fault, Faults, Faulty, Operation};
pub use random::Random;
