//! How tests of stores ask for locks, and what they expect to get at once.
#![allow(dead_code, reason = "each test uses its part")]

use std::sync::Arc;
use std::time::Duration;

use leasehold::{Claim, Guard, HolderId, LeaseKey, Lock, LockName, Locks, Outcome, Store};

/// What has come to pass by then on a machine that is busy, or never will.
pub const SOON: Duration = Duration::from_secs(20);

/// Short enough to be waited for.
pub const TTL: Duration = Duration::from_secs(3);

pub fn store(url: &str) -> Arc<dyn Store> {
    leasehold::stores::open(url).unwrap()
}

pub async fn locks(url: &str) -> Locks {
    Locks::connect(url).await.unwrap()
}

/// It has to be free.
pub async fn acquired(lock: &Lock) -> Guard {
    match lock.try_acquire().await.unwrap() {
        Outcome::Acquired(guard) => guard,
        other => panic!("not granted: {other:?}"),
    }
}

pub async fn is_free(locks: &Locks, name: &str) -> bool {
    locks.inspect(name).await.unwrap().is_none()
}

pub fn claim(name: &str, ttl: Duration) -> Claim {
    Claim::new(LockName::new(name).unwrap(), HolderId::fresh(), "test".into(), ttl)
}

pub fn lease(claim: &Claim) -> LeaseKey {
    LeaseKey { name: claim.name.clone(), holder: claim.holder }
}
