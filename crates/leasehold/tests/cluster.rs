//! The Redis store in a cluster: slots that move, and masters that are replaced. The numbers are those of the fault of
//! another system that the case was made of.
#![cfg(feature = "redis")]

use std::time::{Duration, Instant};

use leasehold::{Applied, ErrorKind, Guard, Lock, Locks, Outcome};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::servers::{Redis, RedisCluster, cases, slot_of};

mod claims;
use claims::locks;

const SOON: Duration = Duration::from_secs(30);
/// Long enough for a failover on a busy machine.
const TTL: Duration = Duration::from_secs(20);

/// Without the restart guard: the servers have only just been started.
fn url(cluster: &RedisCluster) -> String {
    format!("{}?restart_guard=off", cluster.url())
}

/// The lock, once its slot has a master again. It is nobody's: an outage must not look like contention.
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

/// Another one waits for the lock.
async fn waits(cluster: &RedisCluster, name: &'static str) -> tokio::task::JoinHandle<Guard> {
    let locks = locks(&url(cluster)).await;
    let looks = locks.clone();
    let waits = tokio::spawn(async move { locks.lock(name).ttl(TTL).acquire().await.unwrap().guard().unwrap() });
    eventually_async("it waits", SOON, async || {
        looks.inspect(name).await.is_ok_and(|holding| holding.is_some_and(|holding| holding.waiting > 0))
    })
    .await;
    waits
}

/// How often its nodes ran, or refused to run, a command.
fn count(cluster: &RedisCluster, command: &str) -> u64 {
    let of_a_node = |node: &Redis| {
        let stats = node.command(&["INFO", "commandstats"]).text();
        let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:"))).unwrap_or_default();
        let number = |field: &str| -> u64 {
            let value = line.split([':', ',']).find_map(|part| part.strip_prefix(field)).unwrap_or("0");
            value.parse().unwrap()
        };
        number("calls=") + number("rejected_calls=")
    };
    cluster.nodes().iter().map(of_a_node).sum()
}

fn slot(name: &str) -> u16 {
    slot_of(&format!("{{{name}}}"))
}

fn run(case: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(case);
}

macro_rules! all {
    ($($case:ident)*) => { &[$((stringify!($case), |cluster| run($case(cluster)))),*] };
}

#[test]
fn in_a_cluster() {
    cases(
        &RedisCluster::start(),
        RedisCluster::mend,
        all! {
            any_node_leads_to_all
            b02_nothing_that_was_asked_of_a_dead_master_reaches_the_next_one
            e02_e05_two_clients_go_on_alternating_over_a_failover
            e03_a_map_that_is_wrong_makes_no_storm
            e07_nodes_that_forget_their_scripts_are_told_them_again
            e16_a_release_at_a_hung_master_ends_and_is_made_up_for
            f01_a_lost_wake_up_costs_a_look_and_not_the_ttl
            a_slot_moves_while_its_lock_is_held_and_waited_for
            a_hung_master_keeps_no_lock_of_the_others_from_being_renewed
        },
    );
}

async fn any_node_leads_to_all(cluster: &RedisCluster) {
    for node in cluster.nodes() {
        let locks = locks(&format!("redis+cluster://{}?restart_guard=off", node.address())).await;
        for name in ["a", "b", "c", "d", "e", "f"] {
            soon(&locks.lock(name)).await.release().await.unwrap();
        }
    }
    // As a server on its own it has but some of the names, and is refused whatever a name's slot is.
    let alone = locks(&cluster.nodes()[0].url()).await;
    let right = format!("write redis+cluster://{}", cluster.nodes()[0].address());
    for name in ["a", "b", "c", "d", "e", "f"] {
        let error = alone.lock(name).try_acquire().await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
        assert!(error.to_string().contains(&right), "{error}");
    }
}

async fn b02_nothing_that_was_asked_of_a_dead_master_reaches_the_next_one(cluster: &RedisCluster) {
    let locks = locks(&url(cluster)).await;
    soon(&locks.lock("b02")).await.release().await.unwrap();
    cluster.master_of(slot("b02")).kill();
    let error = locks.lock("b02").ttl(TTL).try_acquire().await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    cluster.mend();
    assert!(is_free(&locks, "b02").await);
    soon(&locks.lock("b02")).await.release().await.unwrap();
}

async fn e02_e05_two_clients_go_on_alternating_over_a_failover(cluster: &RedisCluster) {
    let clients = [locks(&url(cluster)).await, locks(&url(cluster)).await];
    let held = soon(&clients[0].lock("e05").ttl(TTL)).await;
    let mut token = None;
    for turn in 0..6 {
        if turn == 2 {
            cluster.failover(slot("e02"));
        }
        let guard = soon(&clients[turn % 2].lock("e02").ttl(TTL)).await;
        assert!(Some(guard.token()) > token);
        token = Some(guard.token());
        if turn == 4 {
            cluster.failover(slot("e02")); // Between the grant and its release.
        }
        guard.release().await.unwrap();
        assert!(is_free(&clients[0], "e02").await);
    }
    assert!(held.is_valid() && held.loss().is_none());
    held.release().await.unwrap();
}

async fn e03_a_map_that_is_wrong_makes_no_storm(cluster: &RedisCluster) {
    const WAITERS: u64 = 12;
    let ours = locks(&url(cluster)).await;
    let guard = soon(&ours.lock("e03").ttl(TTL)).await;
    let mut waiting = Vec::new();
    for n in 1..=WAITERS {
        let others = locks(&url(cluster)).await;
        waiting.push(tokio::spawn(async move {
            let guard = others.lock("e03").ttl(TTL).acquire().await.unwrap().guard().unwrap();
            guard.release().await.unwrap();
        }));
        eventually_async("it waits", SOON, async || {
            ours.inspect("e03").await.is_ok_and(|holding| holding.is_some_and(|holding| holding.waiting == n))
        })
        .await;
    }
    let before = [count(cluster, "evalsha"), count(cluster, "cluster|slots")];
    let began = Instant::now();
    cluster.failover(slot("e03"));
    cluster.master_of(slot("e03")).pause(); // And one that nobody tells us of.
    tokio::time::sleep(Duration::from_secs(4)).await;
    cluster.mend();
    let passed = began.elapsed().as_secs() + 1;
    let [asked, looked] = [count(cluster, "evalsha") - before[0], count(cluster, "cluster|slots") - before[1]];
    // Each looks twice a second and is sent elsewhere at most once; and each asks for the map ever more seldom.
    assert!(asked <= (WAITERS + 1) * passed * 5, "{asked} in {passed} s");
    assert!(looked <= (WAITERS + 2) * passed * 4, "{looked} in {passed} s");
    drop(guard);
    for waits in waiting {
        tokio::time::timeout(SOON, waits).await.unwrap().expect("its turn came");
    }
}

async fn e07_nodes_that_forget_their_scripts_are_told_them_again(cluster: &RedisCluster) {
    let ttl = Duration::from_secs(10);
    let forget = || cluster.nodes().iter().for_each(|node| drop(node.command(&["SCRIPT", "FLUSH"])));
    let locks = locks(&url(cluster)).await;
    let mut guards = Vec::new();
    for n in 0..9 {
        guards.push(soon(&locks.lock(&format!("e07-{n}")).ttl(ttl)).await);
    }
    cluster.failover(slot("e07-0"));
    forget();
    tokio::time::sleep(ttl).await; // renewed meanwhile
    forget();
    for guard in guards {
        assert!(guard.is_valid());
        guard.release().await.unwrap();
    }
    forget();
    soon(&locks.lock("e07-0")).await.release().await.unwrap();
}

async fn e16_a_release_at_a_hung_master_ends_and_is_made_up_for(cluster: &RedisCluster) {
    let locks = locks(&url(cluster)).await;
    let guard = soon(&locks.lock("e16").ttl(Duration::from_secs(300))).await;
    let old = cluster.master_of(slot("e16"));
    cluster.replica_of(slot("e16")).catch_up_with(old);
    old.pause();
    let error = tokio::time::timeout(SOON, guard.release()).await.expect("it ends").unwrap_err();
    assert_eq!(error.applied(), Applied::Maybe, "{error}");
    eventually_async("it is released at the new master", SOON, async || is_free(&locks, "e16").await).await;
}

async fn f01_a_lost_wake_up_costs_a_look_and_not_the_ttl(cluster: &RedisCluster) {
    let ours = locks(&url(cluster)).await;
    let guard = soon(&ours.lock("f01").ttl(TTL)).await;
    let waits = waits(cluster, "f01").await;
    for node in cluster.nodes() {
        node.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    }
    let released = Instant::now();
    let _ = guard.release().await; // Its connection may have been among them.
    let next = tokio::time::timeout(SOON, waits).await.unwrap().expect("its turn came");
    assert!(released.elapsed() < TTL / 2, "{:?}", released.elapsed());
    next.release().await.unwrap();
}

async fn a_slot_moves_while_its_lock_is_held_and_waited_for(cluster: &RedisCluster) {
    let ttl = Duration::from_secs(10);
    let ours = locks(&url(cluster)).await;
    let guard = soon(&ours.lock("moving").ttl(ttl)).await;
    let waits = waits(cluster, "moving").await;
    let slot = slot("moving");
    let from = cluster.master_of(slot).port();
    let to = cluster
        .nodes()
        .iter()
        .find(|node| node.port() != from && node.command(&["ROLE"]).items()[0].text() == "master");
    let to = to.expect("there are several masters");
    cluster.begin_move(slot, to);
    // A name that the old master has nothing of: the new one is asked, and says what it can.
    let fresh = (0..).map(|n| format!("fresh-{n}")).find(|name| self::slot(name) == slot).unwrap();
    if let Err(error) = ours.lock(&fresh).try_acquire().await {
        assert!(error.is_transient() && error.applied() == Applied::No, "{error}");
    }
    cluster.finish_move(slot, to);
    tokio::time::sleep(ttl).await; // renewed at the new master
    assert!(guard.is_valid(), "{:?}", guard.loss());
    guard.release().await.unwrap();
    let next = tokio::time::timeout(SOON, waits).await.unwrap().expect("its turn came");
    next.release().await.unwrap();
    soon(&ours.lock(&fresh)).await.release().await.unwrap();
}

async fn a_hung_master_keeps_no_lock_of_the_others_from_being_renewed(cluster: &RedisCluster) {
    let (ours, others) = (locks(&url(cluster)).await, locks(&url(cluster)).await);
    let mut guards = Vec::new();
    for n in 0..9 {
        guards.push(soon(&ours.lock(&format!("hung-{n}")).ttl(TTL)).await);
    }
    soon(&others.lock("warm")).await.release().await.unwrap();
    let hung = cluster.master_of(slot("hung-0"));
    cluster.replica_of(slot("hung-0")).catch_up_with(hung);
    hung.pause();
    // Another one in the same slots is granted by its successor.
    let free = (0..).map(|n| format!("free-{n}")).find(|name| slot(name) == slot("hung-0")).unwrap();
    soon(&others.lock(&free).ttl(TTL)).await.release().await.unwrap();
    tokio::time::sleep(TTL).await; // renewed at the new master
    for guard in &guards {
        assert!(guard.is_valid(), "{:?}", guard.loss());
    }
    cluster.mend();
    for guard in guards {
        guard.release().await.unwrap();
    }
}
