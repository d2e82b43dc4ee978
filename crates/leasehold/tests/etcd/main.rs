//! The etcd store beside real servers that stop, hang, change their leader and are cut off. What every store must do is in
//! `conformance.rs`. The numbers are those of the fault of another system that the test was made of.
#![cfg(feature = "etcd")]

mod access;
mod answers;
#[path = "../claims/mod.rs"]
mod claims;
mod etcdctl;
mod keys;
mod leases;
mod members;
mod notes;
mod past;
mod waiters;

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::{
    Applied, Attempt, Claim, Due, Ended, ErrorKind, HolderId, Holding, LeaseKey, LockName, Locks, LossReason, Outcome,
    Release, Renewal, Revoke, Severity, Store, Tick, Verdict, Wait,
};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::proxy::{Direction, Proxy, Then};
use leasehold_testkit::servers::{Certificates, Etcd, EtcdCluster};

use claims::{SOON, TTL, acquired, locks};

async fn held(locks: &Locks, name: &str) -> Option<Holding> {
    locks.inspect(name).await.unwrap()
}

async fn waits(locks: &Locks, name: &str, count: u64) {
    eventually_async("they wait", SOON, async || held(locks, name).await.is_some_and(|held| held.waiting == count))
        .await;
}

/// A cluster with a proxy before each member.
struct Proxied {
    cluster: EtcdCluster,
    proxies: Vec<Proxy>,
}

impl Proxied {
    fn start() -> Self {
        let cluster = EtcdCluster::start();
        let proxies = cluster.members().iter().map(|member| Proxy::to(member.address())).collect();
        Self { cluster, proxies }
    }

    fn url(&self) -> String {
        let addresses: Vec<_> = self.proxies.iter().map(Proxy::address).collect();
        format!("etcd://{}", addresses.join(","))
    }
}

/// A claim of the store, and what its lease is called.
fn claimed(name: &str) -> (Claim, LeaseKey) {
    let claim = Claim::new(LockName::new(name).unwrap(), HolderId::fresh(), "test".into(), TTL);
    let key = LeaseKey { name: claim.name.clone(), holder: claim.holder };
    (claim, key)
}

/// Renews a lease until `is_enough`, beyond the TTL of all that is not renewed.
async fn renewed_until(store: &dyn Store, key: &LeaseKey, mut is_enough: impl FnMut() -> bool) {
    let began = Instant::now();
    while began.elapsed() < TTL + Duration::from_secs(1) || !is_enough() {
        assert_eq!(store.renew(&[(key.clone(), TTL)]).await.remove(0).unwrap(), Renewal::Renewed);
        assert!(began.elapsed() < TTL * 3, "not after {:?}", began.elapsed());
        tokio::time::sleep(TTL / 6).await;
    }
}
