//! How tests of stores ask for locks, and what they expect to get at once.
#![allow(dead_code, reason = "each test uses its part")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::{Claim, ErrorKind, Guard, HolderId, LeaseKey, Lock, LockName, Locks, Outcome, Store};

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

/// It has to be free. A server that makes its tables only now may be too late for a short lease: then it is asked again, and
/// what it has granted meanwhile is given back.
pub async fn acquired(lock: &Lock) -> Guard {
    let (began, mut was_late) = (Instant::now(), false);
    loop {
        match lock.try_acquire().await {
            Ok(Outcome::Acquired(guard)) => return guard,
            Ok(Outcome::Contended(_)) if was_late && began.elapsed() < SOON => {}
            Err(error) if error.kind() == ErrorKind::TimedOut && began.elapsed() < SOON => was_late = true,
            other => panic!("not granted: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
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
