//! What a Redis that was restarted or promoted may have forgotten, and replicas that are waited for. The numbers are those of
//! the model (`docs/design/0006`) and of the fault of another system that the test was made of.
#![cfg(feature = "redis")]

use std::time::{Duration, Instant};

use leasehold::{Applied, ErrorKind, Guard, Lock, Locks, LossReason};
use leasehold_testkit::process::{eventually, eventually_async};
use leasehold_testkit::servers::{Redis, RedisCluster, RedisSentinels, slot_of};

mod claims;
use claims::{TTL, acquired, locks};

const SOON: Duration = Duration::from_secs(60);

/// The lock, once there is a server that grants it.
async fn granted(lock: &Lock) -> Guard {
    let began = Instant::now();
    loop {
        match tokio::time::timeout(SOON, lock.acquire()).await.expect("it is granted in the end") {
            Ok(outcome) => return outcome.guard().unwrap(),
            // Who waits gives up after a TTL without any server.
            Err(error) => assert!(error.is_transient() && began.elapsed() < SOON, "{error}"),
        }
    }
}

fn guarded(server: &Redis) -> String {
    format!("{}?restart_guard=on&max_ttl=4", server.url())
}

#[tokio::test]
async fn g01_a_server_that_has_just_been_started_grants_nothing_for_max_ttl() {
    let server = Redis::start();
    // It counts from when it is first asked.
    let began = Instant::now();
    let locks = locks(&guarded(&server)).await;
    let error = locks.lock("job").ttl(TTL).try_acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::No), "{error}");
    assert!(error.is_passing() && error.to_string().contains("grants nothing for"), "{error}");
    // Who waits anyway waits for that, too, however short its TTL is.
    let guard = granted(&locks.lock("job").ttl(Duration::from_secs(1))).await;
    assert!(began.elapsed() > Duration::from_secs(3), "{:?}", began.elapsed());
    guard.release().await.unwrap();
    // It is over for everybody.
    let others = self::locks(&guarded(&server)).await;
    acquired(&others.lock("job").ttl(TTL)).await.release().await.unwrap();
}

#[tokio::test]
async fn a_ttl_that_the_guard_does_not_cover_is_refused() {
    let server = Redis::start();
    let locks = locks(&guarded(&server)).await;
    let error = locks.lock("job").ttl(Duration::from_secs(5)).try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("max_ttl=5"), "{error}");
}

#[tokio::test]
async fn g01_what_an_empty_server_has_forgotten_is_over_before_it_grants_anything() {
    let server = Redis::start();
    let (ours, others) = (locks(&guarded(&server)).await, locks(&guarded(&server)).await);
    let held = granted(&ours.lock("job").ttl(TTL)).await;
    server.kill();
    server.restart();
    let next = granted(&others.lock("job").ttl(TTL)).await;
    assert!(!held.is_valid(), "two hold it");
    let reason = tokio::time::timeout(SOON, held.lost()).await.expect("it is told");
    let is_told = matches!(reason, LossReason::Gone | LossReason::Unreachable(_) | LossReason::Expired);
    assert!(is_told, "{reason:?}");
    assert!(next.token() > held.token());
}

#[tokio::test]
async fn who_may_not_ask_a_server_who_it_is_is_told_what_to_do() {
    let server = Redis::options().acl(&["user worker on >secret ~* &* +@all -info"]).start();
    let url = server.url_as("worker", "secret");
    let error = locks(&format!("{url}?restart_guard=on")).await.lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    assert!(error.to_string().contains("restart_guard=off") && !error.to_string().contains("secret"), "{error}");
    acquired(&locks(&url).await.lock("job")).await.release().await.unwrap();
}

/// Longer than it takes to replace a master: its holder learns of it only after that.
const LONG: Duration = Duration::from_secs(9);

/// A grant that never reached the replica which is promoted: nobody else is granted the lock while its holder believes
/// in it. Then the guard is over, for those who come later as well.
async fn survives(ours: &Locks, others: &str, lose_the_master: impl FnOnce()) {
    let held = granted(&ours.lock("job").ttl(LONG)).await;
    lose_the_master();
    is_over_for(held, others).await;
}

async fn is_over_for(held: Guard, others: &str) {
    let others = locks(others).await;
    let next = granted(&others.lock("job").ttl(TTL)).await;
    assert!(!held.is_valid(), "two hold it");
    assert!(next.token() > held.token());
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn e01_g01_exclusion_survives_a_failover_that_has_lost_the_grant() {
    let servers = RedisSentinels::start();
    let url = format!("{}?max_ttl=9", servers.url());
    let ours = locks(&url).await;
    let held = loop {
        granted(&ours.lock("warm").ttl(TTL)).await.release().await.unwrap();
        let replica = servers.replica();
        // Nothing arrives there any more; the sentinels take some seconds to mend that.
        replica.command(&["REPLICAOF", "127.0.0.1", "1"]);
        let held = granted(&ours.lock("job").ttl(LONG)).await;
        servers.kill_master();
        if replica.command(&["EXISTS", "leasehold:default:{job}"]).integer() == 0 {
            break held;
        }
        // On a busy machine it took longer than that: the grant would not be lost.
        servers.mend();
        drop(held);
    };
    is_over_for(held, &url).await;
    acquired(&locks(&url).await.lock("later").ttl(TTL)).await.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn e01_g01_exclusion_survives_a_failover_in_a_cluster() {
    let cluster = RedisCluster::start();
    let url = format!("{}?max_ttl=9", cluster.url());
    let ours = locks(&url).await;
    granted(&ours.lock("warm").ttl(TTL)).await.release().await.unwrap();
    let slot = slot_of("job");
    survives(&ours, &url, || {
        let (master, replica) = (cluster.master_of(slot), cluster.replica_of(slot));
        master.kill();
        eventually("the replica is promoted", SOON, || {
            replica.command(&["INFO", "replication"]).text().contains("role:master")
        });
        replica.command(&["FLUSHALL"]); // As if nothing had reached it.
    })
    .await;
    acquired(&locks(&url).await.lock("job").ttl(TTL)).await.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_too_few_replicas_have_is_not_granted_and_not_renewed() {
    let master = Redis::start();
    let replica = Redis::replica_of(&master);
    replica.catch_up_with(&master);
    let locks = locks(&format!("{}?wait_replicas=1", master.url())).await;
    let guard = acquired(&locks.lock("held").ttl(TTL)).await;
    assert_eq!(replica.command(&["EXISTS", "leasehold:default:{held}"]).integer(), 1, "it is there before it is said");
    replica.pause();
    let error = locks.lock("job").ttl(Duration::from_secs(30)).try_acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::Maybe), "{error}");
    assert!(error.to_string().contains("0 of the 1 replicas"), "{error}");
    let reason = tokio::time::timeout(SOON, guard.lost()).await.expect("a renewal that may be lost doesn't count");
    assert!(matches!(reason, LossReason::Unreachable(_)), "{reason:?}");
    eventually_async("what was not granted is given back", SOON, async || {
        locks.inspect("job").await.is_ok_and(|holding| holding.is_none())
    })
    .await;
    replica.resume();
    eventually_async("it goes on", SOON, async || {
        locks.lock("job").ttl(TTL).try_acquire().await.is_ok_and(|outcome| outcome.guard().is_some())
    })
    .await;
}

/// Found by an adversary: with a short TTL the call was given up before the server had said that no replica has it, and the
/// lock stayed held.
#[tokio::test(flavor = "multi_thread")]
async fn too_few_replicas_are_named_whatever_the_ttl_and_the_lock_is_given_back() {
    let server = Redis::start();
    let locks = locks(&format!("{}?wait_replicas=1", server.url())).await;
    for ttl in [3, 5, 10].map(Duration::from_secs) {
        let name = format!("job-{ttl:?}");
        let error = locks.lock(&name).ttl(ttl).try_acquire().await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::Maybe), "{ttl:?}: {error}");
        assert!(error.to_string().contains("0 of the 1 replicas"), "{ttl:?}: {error}");
    }
    locks.shutdown().await;
    assert_eq!(server.command(&["KEYS", "leasehold:default:{job-*}"]).items(), [], "each is given back");
}

/// The same of renewals: who holds the lock is told why it is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_of_a_short_lease_that_too_few_replicas_have_is_told_as_that() {
    let master = Redis::start();
    let replica = Redis::replica_of(&master);
    replica.catch_up_with(&master);
    let locks = locks(&format!("{}?wait_replicas=1", master.url())).await;
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    replica.pause();
    let reason = tokio::time::timeout(SOON, guard.lost()).await.expect("a renewal that may be lost doesn't count");
    let LossReason::Unreachable(why) = &reason else { panic!("{reason:?}") };
    assert!(why.to_string().contains("0 of the 1 replicas"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_replicas_is_handed_nothing_behind_its_back() {
    let master = Redis::start();
    let replica = Redis::replica_of(&master);
    replica.catch_up_with(&master);
    let (plain, careful) = (locks(&master.url()).await, locks(&format!("{}?wait_replicas=1", master.url())).await);
    let held = acquired(&plain.lock("job").ttl(TTL)).await;
    let waiter = tokio::spawn({
        let lock = careful.lock("job").ttl(Duration::from_secs(10));
        async move { lock.acquire().await.unwrap().guard().unwrap() }
    });
    eventually_async("it waits", SOON, async || {
        plain.inspect("job").await.unwrap().is_some_and(|held| held.waiting == 1)
    })
    .await;
    replica.pause();
    held.release().await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!waiter.is_finished(), "no replica has it");
    replica.resume();
    let guard = tokio::time::timeout(SOON, waiter).await.unwrap().unwrap();
    assert!(guard.is_valid());
}

#[tokio::test]
async fn a_grant_whose_replicas_may_not_be_asked_for_is_taken_back() {
    let server = Redis::options().acl(&["user worker on >secret ~* &* +@all -wait"]).start();
    let locks = locks(&format!("{}?wait_replicas=1", server.url_as("worker", "secret"))).await;
    let error = locks.lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.applied(), Applied::Maybe, "{error}");
    eventually_async("it is taken back", SOON, async || locks.inspect("job").await.unwrap().is_none()).await;
}

#[tokio::test]
async fn too_few_replicas_to_write_are_an_outage() {
    let server = Redis::options().config("min-replicas-to-write", "1").start();
    let error = locks(&server.url()).await.lock("job").try_acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::No), "{error}");
}

/// A connection that nothing went over meanwhile would not notice that its server was demoted and promoted again.
#[tokio::test]
async fn an_idle_connection_grants_nothing_by_the_way() {
    let server = Redis::start();
    let url = guarded(&server);
    let (ours, others) = (locks(&url).await, locks(&url).await);
    let held = granted(&ours.lock("job").ttl(TTL)).await;
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    let demoted = Instant::now();
    server.command(&["REPLICAOF", "NO", "ONE"]);
    let error = others.lock("job").ttl(TTL).try_acquire().await.unwrap_err();
    assert!(error.is_passing(), "{error}");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let _ = held.release().await;
    match ours.lock("job").ttl(TTL).try_acquire().await {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        // Asked later, on a machine that is that busy, the guard is over.
        Ok(outcome) => assert!(demoted.elapsed() >= Duration::from_secs(4), "{outcome:?}"),
    }
}
