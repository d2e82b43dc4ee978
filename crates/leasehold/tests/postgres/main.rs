//! The PostgreSQL store beside real servers: poolers, time-outs, sessions that are ended, rows changed by hand, missing
//! rights. What every store must do is in `conformance.rs`. The numbers are those of the fault of another system that the
//! test was made of.
#![cfg(feature = "postgres")]

mod access;
#[path = "../claims/mod.rs"]
mod claims;
mod clocks;
mod faults;
mod hosts;
mod poolers;
mod sessions;
mod standbys;
mod tables;
mod ticks;
mod waiters;

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::stores::postgres::Postgres as Tables;
use leasehold::validity::Moment;
use leasehold::{
    Applied, Attempt, Claim, Due, Ended, ErrorKind, Finding, HolderId, LeaseKey, LockName, Locks, LossReason, Outcome,
    Place, Release, Severity, Store, Tick, Verdict,
};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::proxy::{Direction, Proxy, Then};
use leasehold_testkit::servers::{PgBouncer, PoolMode, Postgres};

use claims::{SOON, TTL, acquired, lease, locks, store};

const LONG: Duration = Duration::from_secs(60);

fn claim(name: &str) -> Claim {
    Claim::new(LockName::new(name).unwrap(), HolderId::fresh(), "test".into(), LONG)
}

async fn token(store: &dyn Store, claim: &Claim) -> u64 {
    match store.try_acquire(claim).await.unwrap() {
        Attempt::Granted(grant) => grant.token.number(),
        other => panic!("not granted: {other:?}"),
    }
}

/// Sessions that a server took along are only noticed when somebody looks.
async fn reconnected(stores: &[&dyn Store]) {
    for store in stores {
        eventually_async("it is connected", SOON, async || store.time().await.is_ok()).await;
    }
}

async fn is_contended(store: &dyn Store, name: &str) -> bool {
    matches!(store.try_acquire(&claim(name)).await.unwrap(), Attempt::Held(_))
}

async fn waits(locks: &Locks, name: &str, so_many: u64) {
    eventually_async("they wait", SOON, async || {
        locks.inspect(name).await.unwrap().is_some_and(|holding| holding.waiting == so_many)
    })
    .await;
}

/// Claims, renewals and releases of many at once, with waiters among them.
async fn traffic(url: &str) {
    let locks = locks(url).await;
    let tasks: Vec<_> = (0..60)
        .map(|nth| {
            let lock = locks.lock(&format!("job {}", nth % 12)).ttl(Duration::from_secs(10));
            tokio::spawn(async move {
                for _ in 0..5 {
                    let guard = lock.acquire().await.unwrap().guard().unwrap();
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(SOON * 3, task).await.expect("its turn comes").unwrap();
    }
    locks.shutdown().await;
}

/// Runs statements while the test goes on.
fn meanwhile(server: &Arc<Postgres>, statements: &'static str) -> tokio::task::JoinHandle<String> {
    let server = Arc::clone(server);
    tokio::task::spawn_blocking(move || server.sql(statements))
}

async fn is_asleep(server: &Postgres) {
    eventually_async("it sleeps", SOON, async || {
        server.sql("select count(*) from pg_stat_activity where wait_event = 'PgSleep'") == "1"
    })
    .await;
}

fn worst(findings: &[Finding]) -> &Finding {
    findings.iter().max_by_key(|finding| finding.severity).unwrap()
}

/// For a tick some time ago.
fn tick_claim(name: &str, hours: i64) -> Claim {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let tick = Tick::from_unix_millis((i64::try_from(now.as_secs()).unwrap() / 3600 - hours) * 3_600_000).unwrap();
    let due = Some(Due { tick, retry_failed: false, keep: Duration::from_secs(86400) });
    Claim { due, ..claim(name) }
}

/// Of somebody who waits.
fn queued(name: &str) -> Claim {
    Claim { queue: Some(Place::default()), ..claim(name) }
}

async fn is_contended_for(store: &dyn Store, claim: &Claim) -> bool {
    matches!(store.try_acquire(claim).await.unwrap(), Attempt::Held(_))
}
