//! The etcd store beside real servers that stop, hang, change their leader and are cut off. What every store must do is in
//! `conformance.rs`. The numbers are those of the fault of another system that the test was made of.
#![cfg(feature = "etcd")]

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

mod claims;
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

#[tokio::test]
async fn b01_a_grant_whose_answer_is_late_is_taken_back() {
    let server = Etcd::start();
    let proxy = Proxy::to(server.address());
    let (ours, others) = (locks(&proxy.url(&server.url())).await, locks(&server.url()).await);
    let ttl = Duration::from_secs(60);
    acquired(&ours.lock("warm").ttl(ttl)).await.release().await.unwrap();
    proxy.blackhole(Direction::ToClient);
    let waiting = ours.lock("job").ttl(ttl).wait(Wait::For(Duration::ZERO));
    let error = waiting.acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::TimedOut, Applied::Maybe), "{error}");
    assert!(held(&others, "job").await.is_some(), "it was granted, and nobody knows");
    proxy.heal();
    eventually_async("nothing is left behind", SOON, async || held(&others, "job").await.is_none()).await;
    acquired(&others.lock("job")).await.release().await.unwrap();
}

#[tokio::test]
async fn b01_a_lost_answer_is_asked_for_again_under_the_same_identity() {
    let server = Etcd::start();
    let proxy = Proxy::to(server.address());
    let (locks, others) = (locks(&proxy.url(&server.url())).await, locks(&server.url()).await);
    acquired(&locks.lock("warm")).await.release().await.unwrap();
    proxy.drop_reply_after_request(b"default/job/", Then::Cut);
    let guard = acquired(&locks.lock("job")).await;
    assert_eq!(proxy.dropped_replies(), 1);
    assert!(guard.is_valid());
    assert_eq!(
        held(&others, "job").await.map(|held| (held.holder, held.token)),
        Some((Some(guard.holder()), guard.token()))
    );
    guard.release().await.unwrap();
    assert_eq!(server.keys("default/job/"), [""; 0]);
}

#[tokio::test]
async fn b02_nobody_there_is_told_as_that_and_nothing_was_done() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    server.kill();
    let error = locks.lock("job").try_acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::No), "{error}");
    server.restart();
    assert_eq!(server.keys(""), [""; 0]);
    acquired(&locks.lock("job")).await.release().await.unwrap();
}

#[tokio::test]
async fn c12_a_connection_that_breaks_is_no_loss() {
    let server = Etcd::start();
    let proxy = Proxy::to(server.address());
    let locks = locks(&proxy.url(&server.url())).await;
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    for _ in 0..3 {
        tokio::time::sleep(TTL / 2).await;
        proxy.cut();
        assert!(guard.is_valid() && guard.loss().is_none());
    }
    tokio::time::sleep(TTL).await;
    assert!(guard.is_valid() && guard.loss().is_none());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_client_outlives_the_runtime_that_it_was_first_used_on() {
    let server = Etcd::start();
    let url = server.url();
    let on_its_own = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let locks = locks(&url).await;
            let guard = acquired(&locks.lock("job").ttl(TTL)).await;
            (locks, guard)
        })
    };
    let (locks, guard) = std::thread::spawn(on_its_own).join().unwrap();
    tokio::time::sleep(TTL).await;
    assert!(guard.is_valid(), "the keeper has connections of its own");
    guard.release().await.unwrap();
    acquired(&locks.lock("job")).await.release().await.unwrap();
}

#[tokio::test]
async fn g02_a_waiter_whose_lease_is_gone_stands_in_line_again() {
    let server = Etcd::start();
    let (holder, waiter) = (locks(&server.url()).await, locks(&server.url()).await);
    let guard = acquired(&holder.lock("job").ttl(Duration::from_secs(60))).await;
    let lock = waiter.lock("job");
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() });
    waits(&holder, "job", 1).await;
    let place =
        server.keys("default/job/").into_iter().find(|key| !key.ends_with(&guard.holder().to_string())).unwrap();
    let said = server.command(&["get", &place, "--write-out=fields"]);
    let lease = said.lines().find_map(|line| line.strip_prefix("\"Lease\" : ")).unwrap();
    server.command(&["lease", "revoke", &format!("{:x}", lease.parse::<u64>().unwrap())]);
    waits(&holder, "job", 1).await;
    guard.release().await.unwrap();
    drop(tokio::time::timeout(SOON, waiting).await.expect("its turn came").unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g03_members_restarted_in_turn_are_no_loss() {
    let seconds = if std::env::var_os("LEASEHOLD_LONG").is_some() { 120 } else { 15 };
    let cluster = EtcdCluster::start();
    let locks = locks(&cluster.url()).await;
    let guard = acquired(&locks.lock("job").ttl(Duration::from_secs(5))).await;
    let end = Instant::now() + Duration::from_secs(seconds);
    let (restarts, told) = (AtomicU32::new(0), guard.lost());
    let restart = async {
        while Instant::now() < end {
            for member in cluster.members() {
                tokio::task::block_in_place(|| member.restart());
                restarts.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    };
    tokio::select! {
        reason = told => panic!("lost: {reason:?}"),
        () = restart => {}
    }
    assert!(restarts.load(Ordering::Relaxed) >= 3);
    assert!(guard.is_valid());
    assert_eq!(held(&locks, "job").await.and_then(|held| held.holder), Some(guard.holder()));
    guard.release().await.unwrap();
}

#[tokio::test]
async fn g03_keep_alives_that_are_swallowed_are_a_loss_in_time() {
    let server = Etcd::start();
    let proxy = Proxy::to(server.address());
    let (ours, others) = (locks(&proxy.url(&server.url())).await, locks(&server.url()).await);
    let guard = acquired(&ours.lock("job").ttl(TTL)).await;
    proxy.blackhole(Direction::ToServer); // Accepted, and never executed.
    let reason = tokio::time::timeout(TTL, guard.lost()).await.expect("told before the lease is over");
    assert!(matches!(reason, LossReason::Unreachable(_) | LossReason::Expired), "{reason:?}");
    let lock = others.lock("job");
    let next = tokio::time::timeout(SOON, lock.acquire()).await.expect("it ends").unwrap().guard().unwrap();
    assert!(!guard.is_valid() && next.token() > guard.token());
}

#[tokio::test]
async fn g03_a_lease_that_ended_is_a_loss_though_its_answer_is_no_error() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    for lease in server.command(&["lease", "list"]).lines().skip(1) {
        server.command(&["lease", "revoke", lease]);
    }
    assert_eq!(tokio::time::timeout(TTL, guard.lost()).await.expect("told"), LossReason::Gone);
    let next = acquired(&locks.lock("job").ttl(TTL)).await;
    assert!(next.token() > guard.token());
    next.release().await.unwrap();
}

#[tokio::test]
async fn g04_a_server_that_is_gone_for_good_is_a_loss_at_the_deadline() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    server.kill();
    let reason = tokio::time::timeout(TTL, guard.lost()).await.expect("told before the lease is over");
    assert!(matches!(reason, LossReason::Unreachable(_)), "{reason:?}");
    tokio::time::sleep(TTL / 2).await;
    assert!(!guard.is_valid());
}

#[tokio::test]
async fn c05_a_server_that_says_nothing_is_a_loss_in_time() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    server.pause();
    let reason = tokio::time::timeout(TTL, guard.lost()).await.expect("told before the lease is over");
    assert!(matches!(reason, LossReason::Unreachable(_) | LossReason::Expired), "{reason:?}");
    server.resume();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g05_a_leader_that_changes_lengthens_a_dead_holders_lease_and_nobody_counts_on_less() {
    let cluster = EtcdCluster::start();
    let locks = locks(&cluster.url()).await;
    let dead = leasehold::stores::open(&cluster.url()).unwrap();
    let name = LockName::new("job").unwrap();
    let claim = Claim::new(name, HolderId::fresh(), "the dead".into(), TTL);
    let Attempt::Granted(granted) = dead.try_acquire(&claim).await.unwrap() else { panic!("it is free") };
    drop(dead);
    let began = Instant::now();
    while began.elapsed() < TTL * 2 {
        tokio::task::block_in_place(|| cluster.move_leader());
        tokio::time::sleep(TTL / 2).await;
        let waiting = locks.lock("job").wait(Wait::For(Duration::from_millis(200)));
        let began = Instant::now();
        match waiting.acquire().await.unwrap() {
            Outcome::Contended(held) => {
                assert!(held.holder == Some(claim.holder) && held.label == "the dead", "{held:?}");
            }
            other => panic!("each new leader gives it its whole time again: {other:?}"),
        }
        assert!(began.elapsed() < Duration::from_secs(3), "a wait has its limit");
    }
    let lock = locks.lock("job");
    let next = tokio::time::timeout(SOON, lock.acquire()).await.expect("it ends").unwrap().guard().unwrap();
    assert!(next.token() > granted.token);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_changes_is_no_loss() {
    let cluster = EtcdCluster::start();
    let (locks, others) = (locks(&cluster.url()).await, locks(&cluster.url()).await);
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    let waiter = others.lock("job");
    let waiting = tokio::spawn(async move { waiter.acquire().await.unwrap().guard().unwrap() });
    for _ in 0..4 {
        tokio::task::block_in_place(|| cluster.move_leader());
        tokio::time::sleep(TTL / 2).await;
        assert!(guard.is_valid() && guard.loss().is_none());
    }
    waits(&locks, "job", 1).await;
    guard.release().await.unwrap();
    let next = tokio::time::timeout(SOON, waiting).await.expect("its turn came").unwrap();
    assert!(next.is_valid());
}

#[tokio::test]
async fn a_member_that_hangs_is_gone_round_in_time() {
    let cluster = EtcdCluster::start();
    let locks = locks(&cluster.url()).await;
    let ttl = Duration::from_secs(6);
    let guard = acquired(&locks.lock("job").ttl(ttl)).await;
    for nth in 0..3 {
        cluster.members()[nth].pause();
        tokio::time::sleep(ttl).await;
        assert!(guard.is_valid() && guard.loss().is_none(), "{:?}", guard.loss());
        let began = Instant::now();
        eventually_async("the others answer", SOON, async || {
            let tried = locks.lock("another").try_acquire().await;
            matches!(tried, Ok(Outcome::Acquired(guard)) if guard.is_valid())
        })
        .await;
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
        cluster.members()[nth].resume();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    guard.release().await.unwrap();
}

#[tokio::test]
async fn g06_a_key_that_the_server_does_not_clear_away_is_told_and_can_be_released() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let granted = server.command(&["lease", "grant", "100000"]);
    let lease = granted.split(' ').nth(1).unwrap().to_owned();
    let dead = HolderId::fresh();
    server.command(&[
        "put",
        &format!("default/job/{dead}"),
        "leasehold/1 held 1 1796004000000 host/1",
        "--lease",
        &lease,
    ]);
    let told = held(&locks, "job").await.unwrap();
    assert_eq!((told.holder, told.label.as_str()), (Some(dead), "host/1"));
    let findings = locks.diagnose().await.unwrap();
    let finding = findings.iter().find(|finding| finding.message.contains("longer than any TTL")).expect("it is told");
    assert!(finding.severity == Severity::Warning && finding.message.contains(&dead.to_string()), "{finding:?}");
    assert!(locks.revoke("job", Revoke::Now).await.unwrap().is_some());
    let next = acquired(&locks.lock("job")).await;
    assert!(next.token() > told.token);
}

#[tokio::test]
async fn g08_a_key_without_a_lease_is_named_and_no_silent_wait() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job")).await;
    server.command(&["put", "default/job/x", "y"]);
    assert!(
        matches!(locks.lock("job").try_acquire().await.unwrap(), Outcome::Contended(_)),
        "it is held, to begin with"
    );
    guard.release().await.unwrap();
    for waits in [false, true] {
        let lock = if waits { locks.lock("job").wait(Wait::Forever) } else { locks.lock("job") };
        let error = match waits {
            false => lock.try_acquire().await.map(drop).unwrap_err(),
            true => tokio::time::timeout(SOON, lock.acquire()).await.expect("no endless wait").map(drop).unwrap_err(),
        };
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains("default/job/x") && error.to_string().contains("etcdctl del"), "{error}");
    }
    let told = held(&locks, "job").await.unwrap();
    assert_eq!((told.label.as_str(), told.remaining), ("foreign: default/job/x", Holding::NO_END));
    let findings = locks.diagnose().await.unwrap();
    let problem = findings.iter().find(|finding| finding.severity == Severity::Problem).expect("it is told");
    assert_eq!(problem.fix.as_deref(), Some("etcdctl del 'default/job/x'"));
    assert_eq!(server.keys("default/job/"), ["default/job/x"], "nobody has left a place behind");
    server.command(&["del", "default/job/x"]);
    acquired(&locks.lock("job")).await.release().await.unwrap();
}

#[tokio::test]
async fn g10_ttls_that_the_server_can_not_keep_are_refused_and_parts_of_seconds_are_whole_ones() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    for ttl in [300, 1500, 1999] {
        let error = locks.lock("job").ttl(Duration::from_millis(ttl)).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("2s"), "{error}");
    }
    let guard = acquired(&locks.lock("job").ttl(Duration::from_millis(2500))).await;
    assert!(guard.remaining() <= Duration::from_millis(2500));
    let other = leasehold::stores::open(&server.url()).unwrap();
    let told = other.inspect(guard.name()).await.unwrap().unwrap();
    assert!(told.remaining <= Duration::from_millis(3000), "{told:?}");
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(guard.is_valid(), "{:?}", guard.loss());
}

/// Users with a password of their own: `bob` may do what locks of the namespace `default` need.
fn with_users(server: &Etcd) {
    for command in [
        &["user", "add", "root:hunter1"][..],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "locks"],
        &["role", "grant-permission", "locks", "--prefix", "readwrite", "default/"],
        &["role", "grant-permission", "locks", "--prefix", "readwrite", "default!ticks/"],
        &["user", "add", "bob:hunter2"],
        &["user", "grant-role", "bob", "locks"],
        &["auth", "enable"],
    ] {
        server.command(command);
    }
}

fn as_root(server: &Etcd, arguments: &[&str]) {
    server.command(&[&["--user", "root:hunter1"], arguments].concat());
}

#[tokio::test]
async fn wrong_passwords_and_missing_rights_are_told_as_what_they_are() {
    let server = Etcd::start();
    with_users(&server);
    let as_user = |login: &str| server.url().replace("://", &format!("://{login}"));
    for login in ["", "bob:wrong@", "nobody:hunter2@"] {
        let error = locks(&as_user(login)).await.lock("job").try_acquire().await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (ErrorKind::AccessDenied, Applied::No), "{login}: {error}");
        assert!(!error.to_string().contains("wrong") && !error.to_string().contains("hunter2"), "{error}");
    }
    let bob = locks(&as_user("bob:hunter2@")).await;
    acquired(&bob.lock("job")).await.release().await.unwrap();
    acquired(&bob.once("piece", Duration::from_secs(3600))).await.complete().await.unwrap();
    assert!(bob.diagnose().await.unwrap().iter().all(|finding| finding.severity < Severity::Problem));
    let elsewhere = locks(&format!("{}?namespace=staging", as_user("bob:hunter2@"))).await;
    let error = elsewhere.lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    let findings = elsewhere.diagnose().await.unwrap();
    let may_not: Vec<_> = findings.iter().filter(|finding| finding.subject == "rights").collect();
    assert_eq!(may_not.len(), 4, "{may_not:?}");
    assert!(may_not.iter().all(|finding| finding.severity == Severity::Problem && finding.fix.is_some()));
}

#[tokio::test]
async fn a_login_that_runs_out_is_renewed_and_no_loss() {
    let server = Etcd::options().flag("auth-token-ttl", "1").start();
    with_users(&server);
    let locks = locks(&server.url().replace("://", "://bob:hunter2@")).await;
    let guard = acquired(&locks.lock("job").ttl(Duration::from_secs(6))).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    acquired(&locks.lock("another")).await.release().await.unwrap();
    as_root(&server, &["user", "add", "carol:hunter3"]); // All logins are of the past now.
    acquired(&locks.lock("another")).await.release().await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(guard.is_valid(), "{:?}", guard.loss());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn g11_credentials_that_go_wrong_are_an_error_and_a_file_is_read_again() {
    let server = Etcd::start();
    with_users(&server);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "hunter2\n").unwrap();
    let url = server.url().replace("://", "://bob@");
    let locks = locks(&format!("{url}?password_file={}", file.display())).await;
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    server.command(&["--user", "root:hunter1", "user", "delete", "bob"]);
    let error = locks.lock("another").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    let reason = tokio::time::timeout(TTL, guard.lost()).await.expect("told in time");
    assert!(matches!(reason, LossReason::Unreachable(_)), "{reason:?}");
    as_root(&server, &["user", "add", "bob:hunter4"]);
    as_root(&server, &["user", "grant-role", "bob", "locks"]);
    std::fs::write(&file, "hunter4\n").unwrap();
    acquired(&locks.lock("another")).await.release().await.unwrap();
}

#[tokio::test]
async fn g12_a_holder_that_is_cut_off_is_told_in_time_and_its_token_is_the_smaller_one() {
    let proxied = Proxied::start();
    let (ours, others) = (locks(&proxied.url()).await, locks(&proxied.cluster.url()).await);
    let guard = acquired(&ours.lock("job").ttl(TTL)).await;
    let written = Arc::new(std::sync::Mutex::new(guard.token()));
    for proxy in &proxied.proxies {
        proxy.blackhole(Direction::ToServer);
        proxy.blackhole(Direction::ToClient);
    }
    let lock = others.lock("job");
    let next = tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() });
    tokio::time::timeout(TTL, guard.lost()).await.expect("told before the lease is over");
    let next = tokio::time::timeout(SOON, next).await.expect("it ends").unwrap();
    assert!(!guard.is_valid(), "never two at a time");
    *written.lock().unwrap() = next.token();
    assert!(guard.token() < *written.lock().unwrap(), "what remembers the largest token refuses the late one");
}

#[tokio::test]
async fn f08_waiters_that_give_up_leave_nothing_behind() {
    let server = Etcd::start();
    let holder = locks(&server.url()).await;
    let guard = acquired(&holder.lock("job")).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(locks(&server.url()).await);
    }
    let waiting = clients.iter().map(|locks| {
        let lock = locks.lock("job").wait(Wait::For(Duration::from_millis(700)));
        tokio::spawn(async move { lock.acquire().await.unwrap() })
    });
    for outcome in join_all(waiting.collect::<Vec<_>>()).await {
        assert!(matches!(outcome.unwrap(), Outcome::Contended(_)));
    }
    // Nor one whose task is cancelled.
    let lock = clients[0].lock("job");
    let cancelled = tokio::spawn(async move { lock.acquire().await.map(drop) });
    waits(&holder, "job", 1).await;
    cancelled.abort();
    eventually_async("its place is gone", SOON, async || held(&holder, "job").await.unwrap().waiting == 0).await;
    assert_eq!(server.keys("default/job/").len(), 1, "the holder's");
    guard.release().await.unwrap();
    assert_eq!(server.keys(""), [""; 0]);
}

#[tokio::test]
async fn f01_a_watch_that_dies_costs_a_second_at_most() {
    let server = Etcd::start();
    let proxy = Proxy::to(server.address());
    let (holder, waiter) = (locks(&server.url()).await, locks(&proxy.url(&server.url())).await);
    let guard = acquired(&holder.lock("job")).await;
    let lock = waiter.lock("job");
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() });
    waits(&holder, "job", 1).await;
    tokio::time::sleep(Duration::from_secs(1)).await; // It watches by now.
    proxy.cut();
    guard.release().await.unwrap();
    let began = Instant::now();
    drop(tokio::time::timeout(SOON, waiting).await.expect("it finds out by itself").unwrap());
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_release_wakes_the_one_behind_it_at_once() {
    let server = Etcd::start();
    let (holder, waiter) = (locks(&server.url()).await, locks(&server.url()).await);
    let mut quick = 0;
    for _ in 0..10 {
        let guard = acquired(&holder.lock("job")).await;
        let lock = waiter.lock("job");
        let waiting = tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() });
        waits(&holder, "job", 1).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let began = Instant::now();
        guard.release().await.unwrap();
        waiting.await.unwrap().release().await.unwrap();
        quick += u32::from(began.elapsed() < Duration::from_millis(200));
    }
    assert!(quick >= 7, "only {quick} of 10 did not wait for the next look");
}

#[tokio::test]
async fn history_that_is_compacted_away_disturbs_nobody_who_waits() {
    let server = Etcd::start();
    let (holder, waiter) = (locks(&server.url()).await, locks(&server.url()).await);
    let guard = acquired(&holder.lock("job")).await;
    let lock = waiter.lock("job");
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() });
    waits(&holder, "job", 1).await;
    for n in 0..5 {
        let said = server.command(&["put", "elsewhere", &n.to_string(), "--write-out=fields"]);
        let revision = said.lines().find_map(|line| line.strip_prefix("\"Revision\" : ")).unwrap();
        server.command(&["compact", revision]);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    drop(tokio::time::timeout(SOON, waiting).await.expect("its turn came").unwrap());
}

#[tokio::test]
async fn f03_first_come_first_served_over_many_clients() {
    let server = Etcd::start();
    let (holder, order) = (locks(&server.url()).await, Arc::new(std::sync::Mutex::new(Vec::new())));
    let guard = acquired(&holder.lock("job")).await;
    let mut waiting = Vec::new();
    for n in 0..5 {
        let (locks, order) = (locks(&server.url()).await, Arc::clone(&order));
        waiting.push(tokio::spawn(async move {
            let guard = locks.lock("job").acquire().await.unwrap().guard().unwrap();
            order.lock().unwrap().push(n);
            guard.release().await.unwrap();
        }));
        waits(&holder, "job", n + 1).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await; // Their lease would have ended.
    guard.release().await.unwrap();
    for task in waiting {
        tokio::time::timeout(SOON, task).await.expect("its turn came").unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn a_waiter_of_a_dead_client_is_passed_over() {
    let server = Etcd::start();
    let holder = locks(&server.url()).await;
    let guard = acquired(&holder.lock("job")).await;
    let dead = leasehold::stores::open(&server.url()).unwrap();
    let claim = Claim::new(guard.name().clone(), HolderId::fresh(), "the dead".into(), TTL);
    let claim = Claim { queue: Some(leasehold::Place::default()), ..claim };
    assert!(matches!(dead.try_acquire(&claim).await.unwrap(), Attempt::Held(_)));
    let live = locks(&server.url()).await;
    let lock = live.lock("job");
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() });
    waits(&holder, "job", 2).await;
    guard.release().await.unwrap();
    let began = Instant::now();
    drop(tokio::time::timeout(SOON, waiting).await.expect("its turn came").unwrap());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test]
async fn f06_many_names_are_waited_for_over_one_stream() {
    let server = Etcd::start();
    let (holder, waiter) = (locks(&server.url()).await, locks(&server.url()).await);
    let names: Vec<String> = (0..200).map(|n| format!("job {n}")).collect();
    let guards = join_all(names.iter().map(async |name| acquired(&holder.lock(name)).await)).await;
    let waiting: Vec<_> = names
        .iter()
        .map(|name| {
            let lock = waiter.lock(name);
            tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap().release().await.unwrap() })
        })
        .collect();
    eventually_async("all wait", SOON, async || {
        holder.list().await.unwrap().iter().filter(|holding| holding.waiting == 1).count() == names.len()
    })
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.metric("etcd_debugging_mvcc_watch_stream_total "), Some(1.0));
    for guard in guards {
        guard.release().await.unwrap();
    }
    for task in waiting {
        tokio::time::timeout(SOON, task).await.expect("its turn came").unwrap();
    }
    eventually_async("nothing is watched any more", SOON, async || {
        server.metric("etcd_debugging_mvcc_watcher_total ") == Some(0.0)
    })
    .await;
    assert_eq!(server.keys(""), [""; 0]);
}

#[tokio::test]
async fn a06_no_key_is_without_an_end() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let held = acquired(&locks.lock("a").permits(3)).await;
    let _plain = acquired(&locks.lock("b")).await;
    acquired(&locks.lock("c").at_least_for(Duration::from_secs(5))).await.release().await.unwrap();
    acquired(&locks.once("d", Duration::from_secs(3600))).await.complete().await.unwrap();
    let lock = locks.lock("b");
    let waiting = tokio::spawn(async move { lock.acquire().await.map(drop) });
    waits(&locks, "b", 1).await;
    locks.revoke("a", Revoke::Gently).await.unwrap();
    let keys = server.keys("");
    assert_eq!(keys.len(), 5, "{keys:?}");
    for key in keys {
        let said = server.command(&["get", &key, "--write-out=fields"]);
        let lease = said.lines().find_map(|line| line.strip_prefix("\"Lease\" : ")).unwrap();
        assert_ne!(lease, "0", "{key}");
    }
    waiting.abort();
    drop(held);
}

/// A renewal may be confirmed in between the look at the key and its change.
#[tokio::test]
async fn what_is_revoked_lasts_as_long_as_what_was_renewed_just_before() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job").ttl(Duration::from_secs(10))).await;
    locks.revoke("job", Revoke::Gently).await.unwrap();
    let said = server.command(&["get", &server.keys("").remove(0), "--write-out=fields"]);
    let lease: i64 = said.lines().find_map(|line| line.strip_prefix("\"Lease\" : ")).unwrap().parse().unwrap();
    let said = server.command(&["lease", "timetolive", &format!("{lease:x}")]);
    assert!(said.contains("granted with TTL(15s)"), "{said}");
    drop(guard);
}

#[tokio::test]
async fn who_contends_for_ticks_leaves_no_leases_behind() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let clients = join_all((0..6).map(async |_| Locks::connect(&server.url()).await.unwrap())).await;
    for round in 0..5 {
        let name = format!("piece {round}");
        let tries = join_all(
            clients.iter().map(async |locks| locks.once(&name, Duration::from_secs(3600)).try_acquire().await),
        );
        let granted: Vec<_> = tries.await.into_iter().filter_map(|outcome| outcome.unwrap().guard()).collect();
        assert_eq!(granted.len(), 1);
        for guard in granted {
            guard.complete().await.unwrap();
        }
    }
    acquired(&locks.lock("job")).await.release().await.unwrap();
    let leases = server.command(&["lease", "list"]);
    let long = leases.lines().skip(1).filter(|lease| {
        let told = server.command(&["lease", "timetolive", lease]);
        told.contains("granted with TTL(36")
    });
    assert_eq!(long.count(), 5, "one for each mark");
}

#[tokio::test]
async fn a_key_is_forgotten_when_its_time_is_over_and_not_before() {
    let server = Etcd::start();
    let store = leasehold::stores::open(&server.url()).unwrap();
    let keep = Duration::from_secs(2);
    let claim = || {
        let name = LockName::new("invoice").unwrap();
        let due = Some(Due { tick: Tick::ONLY, retry_failed: false, keep });
        Claim { due, ..Claim::new(name, HolderId::fresh(), "test".into(), Duration::from_secs(60)) }
    };
    let first = claim();
    let lease = LeaseKey { name: first.name.clone(), holder: first.holder };
    let Attempt::Granted(before) = store.try_acquire(&first).await.unwrap() else { panic!("it is new") };
    for _ in 0..6 {
        tokio::time::sleep(keep / 2).await;
        let renewed = store.renew(&[(lease.clone(), first.ttl)]).await.remove(0).unwrap();
        assert_eq!(renewed, Renewal::Renewed);
        assert!(matches!(store.try_acquire(&claim()).await.unwrap(), Attempt::Held(_)), "not while somebody has it");
    }
    let done = Ended { verdict: Some(Verdict::Done(Tick::ONLY)), ..Ended::default() };
    assert_eq!(store.release(&lease, done).await.unwrap(), Release::Released);
    assert!(matches!(store.try_acquire(&claim()).await.unwrap(), Attempt::NotDue(_)), "from its end on");
    let mut again = None;
    eventually_async("it is forgotten", SOON, async || {
        match store.try_acquire(&claim()).await.unwrap() {
            Attempt::Granted(grant) => again = Some(grant),
            other => assert!(matches!(other, Attempt::NotDue(_))),
        }
        again.is_some()
    })
    .await;
    let again = again.unwrap();
    assert!(again.token > before.token && again.attempt == 1, "{again:?}");
}

#[tokio::test]
async fn ten_thousand_leases_are_renewed_by_a_hundred_requests() {
    let server = Etcd::start();
    let store = leasehold::stores::open(&server.url()).unwrap();
    let ttl = Duration::from_secs(60);
    let claims: Vec<_> = (0..10_000)
        .map(|n| Claim::new(LockName::new(&format!("job {n}")).unwrap(), HolderId::fresh(), "test".into(), ttl))
        .collect();
    for claims in claims.chunks(250) {
        for attempt in join_all(claims.iter().map(|claim| store.try_acquire(claim))).await {
            assert!(matches!(attempt.unwrap(), Attempt::Granted(_)));
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let count = || server.answered("Txn") + server.answered("LeaseKeepAlive") + server.answered("LeaseTimeToLive");
    let before = count();
    let leases: Vec<_> =
        claims.iter().map(|claim| (LeaseKey { name: claim.name.clone(), holder: claim.holder }, ttl)).collect();
    let batches = join_all(leases.chunks(100).map(|batch| store.renew(batch))).await;
    assert!(batches.into_iter().flatten().all(|answer| answer.unwrap() == Renewal::Renewed));
    let requests = count() - before;
    assert!(requests <= 100, "{requests}");
    assert!(requests >= 80, "all keys were looked at: {requests}");
}

#[tokio::test]
async fn a_key_that_is_renewed_no_more_ends_though_its_lease_is_kept() {
    let server = Etcd::start();
    let (store, other) =
        (leasehold::stores::open(&server.url()).unwrap(), leasehold::stores::open(&server.url()).unwrap());
    let claim = |name: &str| Claim::new(LockName::new(name).unwrap(), HolderId::fresh(), "test".into(), TTL);
    let (dead, live) = (claim("dead"), claim("live"));
    for claim in [&dead, &live] {
        assert!(matches!(store.try_acquire(claim).await.unwrap(), Attempt::Granted(_)));
    }
    let began = Instant::now();
    let key = LeaseKey { name: live.name.clone(), holder: live.holder };
    loop {
        assert_eq!(store.renew(&[(key.clone(), TTL)]).await.remove(0).unwrap(), Renewal::Renewed);
        if other.inspect(&dead.name).await.unwrap().is_none() {
            break;
        }
        assert!(began.elapsed() < TTL * 3, "it is there after {:?}", began.elapsed());
        tokio::time::sleep(TTL / 6).await;
    }
    assert!(began.elapsed() >= leasehold::validity::of(TTL), "not before its time: {:?}", began.elapsed());
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

#[tokio::test]
async fn a_minimum_hold_lasts_though_nobody_heard_that_it_began() {
    let server = Etcd::start();
    let proxy = Proxy::to(server.address());
    let store = leasehold::stores::open(&proxy.url(&server.url())).unwrap();
    let ((live, live_key), (kept, kept_key)) = (claimed("live"), claimed("kept-job"));
    for claim in [&live, &kept] {
        assert!(matches!(store.try_acquire(claim).await.unwrap(), Attempt::Granted(_)));
    }
    proxy.drop_reply_after_request(b"/1 kept ", Then::Cut);
    let how = Ended { keep_for: Duration::from_secs(60), ..Ended::default() };
    let error = store.release(&kept_key, how).await.unwrap_err();
    assert_eq!(error.applied(), Applied::Maybe, "{error}");
    renewed_until(&*store, &live_key, || true).await;
    assert_eq!(server.keys("default/kept-job/").len(), 1);
    let (other, _) = claimed("kept-job");
    let attempt = store.try_acquire(&other).await.unwrap();
    assert!(matches!(attempt, Attempt::Held(_)), "{attempt:?}");
}

/// Its message was on its way when it was given up, and comes behind what takes it back.
#[tokio::test]
async fn a_claim_that_is_executed_after_it_was_taken_back_ends_all_the_same() {
    let server = Etcd::start();
    let proxy = Proxy::to(server.address());
    let store = leasehold::stores::open(&proxy.url(&server.url())).unwrap();
    let ((live, live_key), (late, late_key)) = (claimed("live"), claimed("late"));
    assert!(matches!(store.try_acquire(&live).await.unwrap(), Attempt::Granted(_)));
    proxy.blackhole(Direction::ToServer);
    let error = store.try_acquire(&late).await.unwrap_err();
    assert_eq!(error.applied(), Applied::Maybe, "{error}");
    proxy.cut();
    proxy.heal();
    store.leave(&late_key).await.unwrap();
    let said = server.command(&["get", &server.keys("default/live/")[0], "--write-out=fields"]);
    let lease: i64 = said.lines().find_map(|line| line.strip_prefix("\"Lease\" : ")).unwrap().parse().unwrap();
    let key = format!("default/late/{}", late.holder);
    server.command(&["put", &key, "leasehold/1 held 1 0 test", &format!("--lease={lease:x}")]);
    assert_eq!(server.keys("default/late/"), [key]);
    renewed_until(&*store, &live_key, || server.keys("default/late/").is_empty()).await;
}

#[tokio::test]
async fn e15_environments_do_not_meet() {
    let server = Etcd::start();
    let (one, other) = (locks(&server.url()).await, locks(&format!("{}?namespace=staging", server.url())).await);
    let _guard = acquired(&one.lock("job")).await;
    acquired(&other.lock("job")).await.release().await.unwrap();
    assert_eq!((one.list().await.unwrap().len(), other.list().await.unwrap().len()), (1, 0));
}

#[tokio::test]
async fn a_full_server_refuses_and_doctor_says_so() {
    let server = Etcd::options().flag("quota-backend-bytes", "100000").start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("before").ttl(TTL)).await;
    let big = "x".repeat(50_000);
    while server.etcdctl(&["put", "big", &big]).output().unwrap().status.success() {}
    let error = locks.lock("job").try_acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Refused, Applied::No), "{error}");
    tokio::time::sleep(TTL * 2).await;
    assert!(guard.is_valid(), "renewals write nothing");
    guard.release().await.unwrap();
    let findings = locks.diagnose().await.unwrap();
    let alarm = findings.iter().find(|finding| finding.subject == "alarms").unwrap();
    assert!(alarm.severity == Severity::Problem && alarm.message.contains("NOSPACE"), "{alarm:?}");
}

#[tokio::test]
async fn doctor_tells_a_member_that_is_down_and_a_cluster_that_is_named_in_part() {
    let cluster = EtcdCluster::start();
    let find = async |url: &str, subject: &str, word: &str| {
        let findings = locks(url).await.diagnose().await.unwrap();
        let found =
            findings.iter().find(|finding| finding.subject == subject && finding.message.contains(word)).cloned();
        found.unwrap_or_else(|| panic!("no {word:?}: {findings:?}"))
    };
    let (all, one) = (cluster.url(), cluster.members()[0].url());
    assert_eq!(find(&all, "quorum", "3 members, of which 1 may be down").await.severity, Severity::Fine);
    assert_eq!(find(&all, "version", "etcd 3.").await.severity, Severity::Fine);
    let leader = cluster.members()[cluster.leader()].address();
    assert_eq!(find(&all, "leader", &leader).await.severity, Severity::Fine);
    assert_eq!(find(&one, "members", "names 1 of 3").await.severity, Severity::Warning);
    cluster.members()[2].kill();
    assert_eq!(find(&all, "members", &cluster.members()[2].address()).await.severity, Severity::Problem);
    cluster.members()[1].kill();
    eventually_async("the last one knows no leader", SOON, async || {
        let findings = locks(&one).await.diagnose().await.unwrap();
        findings.iter().any(|finding| finding.subject == "leader" && finding.severity == Severity::Problem)
    })
    .await;
    let error = locks(&all).await.lock("job").try_acquire().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TimedOut), "{error}");
}

fn trusting(url: &str, authority: &std::path::Path) -> String {
    format!("{url}?ca={}", authority.display())
}

#[tokio::test]
async fn over_tls_to_whom_the_authority_has_signed() {
    let server = Etcd::options().tls().start();
    let locks = locks(&trusting(&server.url(), &server.certificates().authority())).await;
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    tokio::time::sleep(TTL).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    for url in [
        trusting(&server.url(), &Certificates::new().authority()),
        server.url(),
        format!("etcd://{}", server.address()),
    ] {
        let error = Locks::connect(&url).await.unwrap().lock("job").try_acquire().await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Misconfigured | ErrorKind::Unavailable), "{url}: {error}");
        assert_eq!(error.applied(), Applied::No, "{url}: {error}");
    }
}

#[tokio::test]
async fn a_server_may_want_a_certificate_of_ours() {
    let server = Etcd::options().tls_both_ways().start();
    let url = trusting(&server.url(), &server.certificates().authority());
    let with = |(cert, key): (std::path::PathBuf, std::path::PathBuf)| {
        format!("{url}&cert={}&key={}", cert.display(), key.display())
    };
    acquired(&locks(&with(server.certificates().client())).await.lock("job")).await.release().await.unwrap();
    for url in [url.clone(), with(Certificates::new().client())] {
        let error = locks(&url).await.lock("job").try_acquire().await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::AccessDenied | ErrorKind::Unavailable), "{error}");
    }
}

/// `etcdctl lock`, until its standard input is closed or it is killed.
struct Etcdctl(Child);

impl Etcdctl {
    fn lock(server: &Etcd, name: &str, command: &[&str]) -> Self {
        let mut etcdctl: Command = server.etcdctl(&[&["lock", "--ttl", "10", name, "--"], command].concat());
        Self(etcdctl.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn succeeds(mut self) {
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Etcdctl {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_lock_of_etcdctl_keeps_ours_out_and_ours_keeps_it_out() {
    let server = Etcd::start();
    for (url, name, theirs) in [
        (format!("{}?compat=etcdctl", server.url()), "job", "job"),
        (format!("{}?compat=etcdctl", server.url()), "/locks/job", "/locks/job"),
        (server.url(), "job", "default/job"),
    ] {
        let locks = locks(&url).await;
        let other = Etcdctl::lock(&server, theirs, &["sleep", "60"]);
        eventually_async("they have it", SOON, async || held(&locks, name).await.is_some()).await;
        let Outcome::Contended(told) = locks.lock(name).try_acquire().await.unwrap() else { panic!("it is held") };
        assert!(told.label.starts_with(&format!("foreign: {theirs}/")) && told.holder.is_some(), "{told:?}");
        assert!(told.remaining <= Duration::from_secs(10) && told.remaining > Duration::from_secs(5), "{told:?}");
        assert_eq!(server.keys(&format!("{theirs}/")).len(), 1, "who is refused leaves nothing behind");
        let error = locks.revoke(name, Revoke::Gently).await.unwrap_err();
        assert!(error.to_string().contains("no way of being told"), "{error}");
        let error = locks.lock(name).permits(2).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(locks.list().await.unwrap().iter().any(|held| held.name.as_str() == name));
        let lock = locks.lock(name);
        let waiting = tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() });
        waits(&locks, name, 1).await;
        drop(other); // Killed: its lease ends.
        let guard = tokio::time::timeout(SOON, waiting).await.expect("its turn came").unwrap();

        let mut other = Etcdctl::lock(&server, theirs, &["true"]);
        eventually_async("they wait", SOON, async || held(&locks, name).await.is_some_and(|held| held.waiting == 1))
            .await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(other.0.try_wait().unwrap().is_none(), "they wait");
        guard.release().await.unwrap();
        other.succeeds();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ours_and_etcdctl_take_turns_never_two_at_a_time() {
    const ROUNDS: u32 = 50;
    let server = Arc::new(Etcd::start());
    let dir = tempfile::tempdir().unwrap();
    let (witness, log) = (dir.path().join("inside"), dir.path().join("log"));
    let script = format!("mkdir '{0}' || exit 1; echo theirs >> '{1}'; rmdir '{0}'", witness.display(), log.display());
    let theirs = {
        let server = Arc::clone(&server);
        tokio::task::spawn_blocking(move || {
            for _ in 0..ROUNDS {
                Etcdctl::lock(&server, "job", &["sh", "-c", &script]).succeeds();
            }
        })
    };
    let (locks, mut tokens, mut mixed) = (locks(&format!("{}?compat=etcdctl", server.url())).await, BTreeSet::new(), 0);
    while mixed < ROUNDS || !theirs.is_finished() {
        let guard = locks.lock("job").acquire().await.unwrap().guard().unwrap();
        std::fs::create_dir(&witness).expect("nobody else is inside");
        assert!(tokens.last() < Some(&guard.token()), "tokens grow");
        tokens.insert(guard.token());
        tokio::time::sleep(Duration::from_millis(2)).await;
        std::fs::remove_dir(&witness).unwrap();
        guard.release().await.unwrap();
        mixed += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    theirs.await.unwrap();
    let theirs = std::fs::read_to_string(&log).unwrap().lines().count();
    assert!(theirs >= ROUNDS as usize && mixed >= ROUNDS);
    assert_eq!(server.keys("job/"), [""; 0]);
}

#[tokio::test]
async fn a_name_within_a_name_is_another_lock() {
    let server = Etcd::start();
    for url in [server.url(), format!("{}?compat=etcdctl", server.url())] {
        let locks = locks(&url).await;
        let inner = acquired(&locks.lock("path/1")).await;
        let outer = acquired(&locks.lock("path")).await;
        let lock = locks.lock("path");
        let waiting = tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() });
        waits(&locks, "path", 1).await;
        outer.release().await.unwrap();
        let next = tokio::time::timeout(SOON, waiting).await.expect("the inner one is not in its way").unwrap();
        assert_eq!(locks.list().await.unwrap().len(), 2);
        next.release().await.unwrap();
        inner.release().await.unwrap();
    }
}
