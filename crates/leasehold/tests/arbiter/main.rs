//! Stores that can be the arbiter of a fallback: what each must do is in the conformance suite, and memory does it, too. Here it
//! is run over real databases, with connections beside one another, restarts, backups and older tables.

#[cfg(feature = "mysql")]
mod mariadb;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod stories;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod twins;

use std::sync::Arc;

use leasehold::Store;
use leasehold::stores::Memory;
use leasehold_testkit::conformance::arbiter::ARBITER;
use leasehold_testkit::conformance::{Subject, run_all};

#[test]
fn memory() {
    run_all(&(), |(), _| Subject::from(Arc::new(Memory::default()) as Arc<dyn Store>), ARBITER);
}
