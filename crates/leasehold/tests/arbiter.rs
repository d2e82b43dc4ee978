//! Stores that can be the arbiter of a fallback, in a database and in memory.

use std::sync::Arc;

use leasehold::Store;
use leasehold::stores::Memory;
use leasehold_testkit::conformance::arbiter::ARBITER;
use leasehold_testkit::conformance::{Subject, run_all};

#[test]
fn memory() {
    run_all(&(), |(), _| Subject::from(Arc::new(Memory::default()) as Arc<dyn Store>), ARBITER);
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use super::*;

    #[test]
    fn sqlite() {
        let directory = tempfile::tempdir().unwrap();
        let open = |directory: &tempfile::TempDir, [namespace, _]: [&str; 2]| {
            let url = format!("sqlite:{}/locks.db?namespace={namespace}", directory.path().display());
            Subject::from(leasehold::stores::open(&url).unwrap())
        };
        run_all(&directory, open, ARBITER);
    }
}
