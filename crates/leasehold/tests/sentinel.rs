//! The Redis store behind Sentinel: masters that die, hang and are demoted. The numbers are those of the fault of another
//! system that the case was made of.
#![cfg(feature = "redis")]

use std::time::{Duration, Instant};

use leasehold::{Applied, ErrorKind, Guard, Lock, Locks, LossReason, Outcome, Wait};
use leasehold_testkit::process::{eventually, eventually_async};
use leasehold_testkit::servers::{Redis, RedisSentinels, cases};

mod claims;
use claims::locks;

const SOON: Duration = Duration::from_secs(30);
/// Long enough for a failover on a busy machine.
const TTL: Duration = Duration::from_secs(20);

/// Without the restart guard: the servers have only just been started.
fn url(servers: &RedisSentinels) -> String {
    format!("{}?restart_guard=off", servers.url())
}

/// The lock, once there is a master again. It is nobody's: an outage must not look like contention.
async fn soon(lock: &Lock) -> Guard {
    let began = Instant::now();
    loop {
        match lock.try_acquire().await {
            Ok(Outcome::Acquired(guard)) => return guard,
            Ok(other) => panic!("not granted: {other:?}"),
            Err(error) => {
                assert!(error.is_transient(), "{error}");
                assert!(began.elapsed() < SOON, "{error}");
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn is_free(locks: &Locks, name: &str) -> bool {
    locks.inspect(name).await.is_ok_and(|holding| holding.is_none())
}

fn key(name: &str) -> String {
    format!("leasehold:default:{{{name}}}")
}

fn run(case: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(case);
}

macro_rules! all {
    ($($case:ident)*) => { &[$((stringify!($case), |servers| run($case(servers)))),*] };
}

#[test]
fn behind_sentinels() {
    cases(
        &RedisSentinels::start(),
        RedisSentinels::mend,
        all! {
            a_sentinel_that_is_dead_or_hung_costs_little
            short_leases_outlast_hung_sentinels
            a_sentinel_that_is_given_for_a_server_is_told_as_that
            a_master_that_nobody_knows_is_told_as_that
            b01_a_claim_that_a_hung_master_still_has_is_held_by_nobody
            b02_nothing_that_was_asked_of_dead_servers_reaches_the_next_ones
            e01_what_a_failover_has_lost_is_told_at_the_next_renewal_and_not_made_again
            e02_e04_two_clients_go_on_alternating_over_a_failover
            e07_a_new_master_that_forgets_its_scripts_is_told_them_again
            e16_a_release_at_a_hung_master_ends_and_is_made_up_for
            f01_a_lost_wake_up_costs_a_look_and_not_the_ttl
            a_hung_master_is_left_and_what_it_had_granted_lives_on
        },
    );
}

async fn a_sentinel_that_is_dead_or_hung_costs_little(servers: &RedisSentinels) {
    servers.sentinels()[0].pause();
    servers.sentinels()[1].kill();
    let locks = locks(&url(servers)).await;
    soon(&locks.lock("little")).await.release().await.unwrap();
    let mut took = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        soon(&self::locks(&url(servers)).await.lock("little")).await.release().await.unwrap();
        took.push(began.elapsed());
        // The machine may be busy for a moment, and not each time.
        if began.elapsed() < Duration::from_secs(2) {
            break;
        }
    }
    assert!(took.iter().any(|took| *took < Duration::from_secs(2)), "{took:?}");
    servers.sentinels()[2].kill();
    let error = self::locks(&url(servers)).await.lock("little").try_acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::TimedOut, Applied::No), "{error}");
    soon(&locks.lock("little")).await.release().await.unwrap(); // Who is connected needs no sentinel.
}

/// Asking takes as long then as a call of a short lease may: it goes on for the next one.
async fn short_leases_outlast_hung_sentinels(servers: &RedisSentinels) {
    servers.sentinels()[..2].iter().for_each(Redis::pause);
    let locks = locks(&url(servers)).await;
    let lock = locks.lock("short").ttl(Duration::from_secs(3));
    soon(&lock).await.release().await.unwrap();
}

async fn a_sentinel_that_is_given_for_a_server_is_told_as_that(servers: &RedisSentinels) {
    let sentinel = &servers.sentinels()[0];
    let error = locks(&sentinel.url()).await.lock("job").try_acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
    assert!(error.to_string().contains(&format!("write redis+sentinel://{}/NAME", sentinel.address())), "{error}");
}

async fn a_master_that_nobody_knows_is_told_as_that(servers: &RedisSentinels) {
    let url = url(servers).replace(servers.master_name(), "nobody");
    let error = locks(&url).await.lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("\"nobody\""), "{error}");
}

async fn b01_a_claim_that_a_hung_master_still_has_is_held_by_nobody(servers: &RedisSentinels) {
    let locks = locks(&url(servers)).await;
    soon(&locks.lock("warm")).await.release().await.unwrap();
    let old = servers.master();
    old.pause();
    let lock = locks.lock("b01").ttl(Duration::from_secs(60)).wait(Wait::For(Duration::ZERO));
    let error = lock.acquire().await.unwrap_err();
    assert_eq!(error.applied(), Applied::Maybe, "{error}");
    eventually("there is another master", SOON, || servers.master().port() != old.port());
    old.resume();
    servers.mend();
    eventually_async("nothing is left behind", SOON, async || is_free(&locks, "b01").await).await;
    soon(&locks.lock("b01")).await.release().await.unwrap();
}

async fn b02_nothing_that_was_asked_of_dead_servers_reaches_the_next_ones(servers: &RedisSentinels) {
    let locks = locks(&url(servers)).await;
    soon(&locks.lock("warm")).await.release().await.unwrap();
    servers.servers().iter().for_each(Redis::kill);
    let error = locks.lock("b02").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    servers.mend();
    assert_eq!(servers.master().command(&["EXISTS", &key("b02")]).integer(), 0);
    soon(&locks.lock("b02")).await.release().await.unwrap();
}

async fn e01_what_a_failover_has_lost_is_told_at_the_next_renewal_and_not_made_again(servers: &RedisSentinels) {
    let (ours, others) = (locks(&url(servers)).await, locks(&url(servers)).await);
    let mut names = (0..).map(|round| format!("e01-{round}"));
    let (guard, replica, name) = loop {
        let (replica, name) = (servers.replica(), names.next().unwrap());
        // Nothing arrives there any more; the sentinels take some seconds to mend that.
        replica.command(&["REPLICAOF", "127.0.0.1", "1"]);
        let guard = soon(&ours.lock(&name).ttl(TTL)).await;
        servers.kill_master();
        if replica.command(&["EXISTS", &key(&name)]).integer() == 0 {
            break (guard, replica, name);
        }
        // On a busy machine it took longer than that: nothing would be lost.
        servers.mend();
    };
    let reason = tokio::time::timeout(TTL, guard.lost()).await.expect("told in time");
    assert_eq!(reason, LossReason::Gone);
    assert_eq!(replica.command(&["EXISTS", &key(&name)]).integer(), 0, "never made again");
    let next = soon(&others.lock(&name).ttl(TTL)).await;
    assert!(next.token() > guard.token());
    drop(guard);
    next.release().await.unwrap();
}

async fn e02_e04_two_clients_go_on_alternating_over_a_failover(servers: &RedisSentinels) {
    let clients = [locks(&url(servers)).await, locks(&url(servers)).await];
    let held = soon(&clients[0].lock("held").ttl(TTL)).await;
    let mut token = None;
    for turn in 0..6 {
        if turn == 2 {
            servers.replica().catch_up_with(servers.master());
            servers.failover();
        }
        if turn == 4 {
            servers.replica().catch_up_with(servers.master());
            servers.kill_master();
        }
        let guard = soon(&clients[turn % 2].lock("e02").ttl(TTL)).await;
        assert!(Some(guard.token()) > token);
        token = Some(guard.token());
        guard.release().await.unwrap();
    }
    assert!(held.is_valid() && held.loss().is_none());
    held.release().await.unwrap();
}

async fn e07_a_new_master_that_forgets_its_scripts_is_told_them_again(servers: &RedisSentinels) {
    let locks = locks(&url(servers)).await;
    // A short lease might end: what the old master renews between the promotion and its own end as a master is lost.
    let guard = soon(&locks.lock("e07").ttl(TTL)).await;
    let left = async || locks.inspect("e07").await.map_or(Duration::ZERO, |held| held.unwrap().remaining);
    servers.replica().catch_up_with(servers.master()); // What had not arrived would be lost, rightly.
    servers.failover();
    let forget = || assert_eq!(servers.master().command(&["SCRIPT", "FLUSH"]).error(), None);
    forget();
    eventually_async("it is to be renewed", SOON, async || left().await < TTL * 3 / 4).await;
    eventually_async("it is renewed", SOON, async || left().await > TTL * 9 / 10).await;
    assert!(guard.is_valid(), "{:?}", guard.loss());
    forget();
    guard.release().await.unwrap();
    forget();
    soon(&locks.lock("e07")).await.release().await.unwrap();
}

async fn e16_a_release_at_a_hung_master_ends_and_is_made_up_for(servers: &RedisSentinels) {
    let locks = locks(&url(servers)).await;
    let guard = soon(&locks.lock("e16").ttl(Duration::from_secs(300))).await;
    let old = servers.master();
    servers.replica().catch_up_with(old);
    old.pause();
    let error = tokio::time::timeout(SOON, guard.release()).await.expect("it ends").unwrap_err();
    assert_eq!(error.applied(), Applied::Maybe, "{error}");
    eventually_async("it is released at the new master", SOON, async || is_free(&locks, "e16").await).await;
    assert_ne!(servers.master().port(), old.port());
}

async fn f01_a_lost_wake_up_costs_a_look_and_not_the_ttl(servers: &RedisSentinels) {
    let (ours, others) = (locks(&url(servers)).await, locks(&url(servers)).await);
    let guard = soon(&ours.lock("f01").ttl(TTL)).await;
    let waits = tokio::spawn(async move { others.lock("f01").acquire().await.unwrap().guard() });
    eventually_async("it waits", SOON, async || {
        ours.inspect("f01").await.is_ok_and(|holding| holding.is_some_and(|holding| holding.waiting == 1))
    })
    .await;
    servers.master().command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    let released = Instant::now();
    let _ = guard.release().await; // Its connection may have been among them.
    let next = tokio::time::timeout(SOON, waits).await.unwrap().unwrap().expect("its turn came");
    assert!(released.elapsed() < TTL / 2, "{:?}", released.elapsed());
    next.release().await.unwrap();
}

async fn a_hung_master_is_left_and_what_it_had_granted_lives_on(servers: &RedisSentinels) {
    let (ours, others) = (locks(&url(servers)).await, locks(&url(servers)).await);
    let guard = soon(&ours.lock("hung").ttl(TTL)).await;
    soon(&others.lock("warm")).await.release().await.unwrap();
    let old = servers.master();
    servers.replica().catch_up_with(old);
    old.pause();
    // Both had a connection that nothing has closed.
    soon(&others.lock("another").ttl(TTL)).await.release().await.unwrap();
    assert_ne!(servers.master().port(), old.port());
    tokio::time::sleep(TTL).await;
    assert!(guard.is_valid(), "renewed at the new master: {:?}", guard.loss());
    old.resume();
    servers.mend();
    guard.release().await.unwrap();
    assert!(is_free(&others, "hung").await);
}

#[tokio::test]
async fn e04_a_master_that_becomes_a_replica_is_an_outage_and_no_contention() {
    let [server, other] = [Redis::start(), Redis::start()];
    let locks = locks(&server.url()).await;
    soon(&locks.lock("warm")).await.release().await.unwrap();
    let demote = |to: [&str; 2]| assert_eq!(server.command(&["REPLICAOF", to[0], to[1]]).error(), None);
    demote(["127.0.0.1", &other.port().to_string()]); // Our connection stays up.
    for _ in 0..2 {
        let error = locks.lock("e04").try_acquire().await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::No), "{error}");
        assert!(error.to_string().contains("replica"), "{error}");
    }
    demote(["NO", "ONE"]);
    soon(&locks.lock("e04")).await.release().await.unwrap();
}

#[tokio::test]
async fn a_replaced_master_stays_in_doubt_until_the_next_one_is_reached() {
    let servers = RedisSentinels::start();
    let locks = locks(&url(&servers)).await;
    soon(&locks.lock("warm")).await.release().await.unwrap();
    let (old, name) = (servers.master(), servers.master_name());
    // The next one is dead by the time that it is named, and the old one has not heard of it.
    let next = servers.replica().port().to_string();
    servers.replica().kill();
    for sentinel in servers.sentinels() {
        assert_eq!(sentinel.command(&["SENTINEL", "REMOVE", name]).error(), None);
        assert_eq!(sentinel.command(&["SENTINEL", "MONITOR", name, "127.0.0.1", &next, "2"]).error(), None);
    }
    eventually_async("it is doubted", SOON, async || locks.inspect("job").await.is_err()).await;
    for _ in 0..5 {
        let error = locks.inspect("job").await.unwrap_err();
        assert!(error.to_string().contains(&next), "{error}");
    }
    assert!(locks.lock("job").try_acquire().await.is_err());
    assert_eq!(old.command(&["EXISTS", &key("job")]).integer(), 0);
}
