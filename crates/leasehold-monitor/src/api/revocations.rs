//! Who has ended whose hold of a lock, as it is shown with the lock.

use serde::Serialize;

use leasehold::LockName;

use super::Served;
use super::shown::instant;
use crate::snapshot::revocation;

#[derive(Debug, Serialize)]
pub(crate) struct Revocation {
    at: String,
    by: String,
    why: String,
    now: bool,
    holder: Option<String>,
    label: Option<String>,
    outcome: String,
}

/// Those of one lock; none where they can't be read now.
pub(super) async fn of_lock(served: &Served, name: &LockName) -> Vec<Revocation> {
    let Ok(seen) = served.snapshot.revocations(name).await else { return Vec::new() };
    seen.value.iter().map(Revocation::of).collect()
}

impl Revocation {
    fn of(written: &revocation::Revocation) -> Self {
        let revocation::Revocation { at, by, why, now, holder, label, outcome } = written.clone();
        Self { at: instant(at), by, why, now, holder, label, outcome }
    }
}
