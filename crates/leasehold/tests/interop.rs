//! Beside the workers of other lock libraries, on the same lock: the real libraries, in processes of their own. They are
//! installed by `scripts/peers`.
#![cfg(feature = "redis")]

use std::time::{Duration, Instant};

use leasehold::{
    Attempt, Claim, ErrorKind, Guard, HolderId, Holding, LeaseKey, LockName, Locks, Outcome, Release, Renewal, Revoke,
    Wait,
};
use leasehold_testkit::process::{eventually, eventually_async};
use leasehold_testkit::servers::Redis;

mod peers;
use peers::Peer;

const SOON: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(60);
/// Of a lock that is extended.
const SHORT: Duration = Duration::from_millis(900);

/// How many rounds each side has at least, when both want the lock all the time.
const ROUNDS: usize = 100;

/// The workers' way in.
#[test]
fn worker() {
    peers::worker::serve();
}

/// A server on which ours lock beside those of a library.
struct Beside {
    server: Redis,
    library: &'static str,
    url: String,
}

impl Beside {
    fn of(library: &'static str) -> Self {
        let server = Redis::start();
        let url = format!("{}?compat={}", server.url(), compat(library));
        Self { url, server, library }
    }

    /// As it is called in a URL.
    fn compat(&self) -> &'static str {
        compat(self.library)
    }

    /// What the labels of its workers begin with.
    fn foreign(&self) -> String {
        format!("foreign: {} ", self.compat())
    }

    /// One of theirs.
    fn peer(&self) -> Peer {
        Peer::start(self.library, &self.server.url())
    }

    async fn locks(&self) -> Locks {
        Locks::connect(&self.url).await.unwrap()
    }

    fn key(&self, name: &str) -> String {
        let prefix = match self.library {
            "python-redis-lock" => "lock:",
            "pottery" => "redlock:",
            "redis-semaphore" => "mutex:",
            _ => "",
        };
        format!("{prefix}{name}")
    }

    /// As if its time were over, or an operator had deleted it.
    fn delete(&self, name: &str) {
        assert_eq!(self.server.command(&["DEL", &self.key(name)]).integer(), 1);
    }

    /// So that it ends soon unless it is extended.
    fn shorten(&self, name: &str) {
        let millis = SHORT.as_millis().to_string();
        assert_eq!(self.server.command(&["PEXPIRE", &self.key(name), &millis]).integer(), 1);
    }

    fn is_left(&self) -> Vec<String> {
        let keys = self.server.command(&["KEYS", "*"]);
        keys.items().iter().map(leasehold_testkit::servers::Reply::text).filter(|key| !is_a_companion(key)).collect()
    }
}

fn compat(library: &'static str) -> &'static str {
    library.strip_suffix("-async").unwrap_or(library)
}

fn is_a_companion(key: &str) -> bool {
    key.contains(":leasehold:")
}

async fn acquired(locks: &Locks, name: &str) -> Guard {
    match locks.lock(name).ttl(LONG).try_acquire().await.unwrap() {
        Outcome::Acquired(guard) => guard,
        other => panic!("not granted: {other:?}"),
    }
}

async fn refused(locks: &Locks, name: &str) -> Holding {
    match locks.lock(name).ttl(LONG).try_acquire().await.unwrap() {
        Outcome::Contended(holding) => holding,
        other => panic!("not refused: {other:?}"),
    }
}

/// One of ours that waits, and is in line already.
async fn waiting(locks: &Locks, name: &str) -> tokio::task::JoinHandle<Guard> {
    let lock = locks.lock(name).ttl(LONG).wait(Wait::Forever);
    let waits = tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() });
    eventually_async("it waits", SOON, async || {
        locks.inspect(name).await.unwrap().is_some_and(|holding| holding.waiting == 1)
    })
    .await;
    waits
}

async fn gets_it(waits: tokio::task::JoinHandle<Guard>) {
    let guard = tokio::time::timeout(SOON, waits).await.expect("its turn comes").unwrap();
    guard.release().await.unwrap();
}

/// Two of each side, all of them wanting the lock all the time.
fn many_rounds(library: &'static str) {
    let (beside, directory) = (Beside::of(library), tempfile::tempdir().unwrap());
    let mut workers = vec![beside.peer(), beside.peer()];
    workers.extend([(); 2].map(|()| Peer::start("leasehold", &beside.url)));
    for worker in &mut workers {
        worker.asked(&format!("rounds job {ROUNDS} {}", directory.path().display()));
    }
    for worker in &mut workers {
        assert_eq!(worker.answers(), "done");
    }
    let order = std::fs::read_to_string(directory.path().join("order")).unwrap();
    let order: Vec<_> = order.lines().collect();
    let turns = order.windows(2).filter(|two| two[0] != two[1]).count();
    let ours = order.iter().filter(|side| **side == "ours").count();
    println!("{library}: {ours} rounds of ours, {} of theirs, {turns} turns", order.len() - ours);
    // Ours give way after every fourth round each, so that at most eight rounds of ours follow one another.
    assert!(turns >= ROUNDS / 5, "they took turns {turns} times in {} rounds", order.len());
    eventually("nothing is left", SOON, || beside.is_left().is_empty());
}

async fn extensions_count(library: &'static str) {
    let beside = Beside::of(library);
    let (mut peer, locks) = (beside.peer(), beside.locks().await);
    // On a busy machine an extension may come too late: then with another lock.
    let mut names = (0..).map(|round| format!("theirs-{round}"));
    let theirs = loop {
        let (name, began) = (names.next().unwrap(), Instant::now());
        assert!(peer.acquires(&name, LONG));
        beside.shorten(&name);
        if peer.extends(LONG) {
            break name;
        }
        assert!(began.elapsed() >= SHORT, "it had the lock");
    };

    let store = leasehold::stores::open(&beside.url).unwrap();
    let mut names = (0..).map(|round| format!("ours-{round}"));
    let (ours, lease) = loop {
        let (name, began) = (names.next().unwrap(), Instant::now());
        let lease = LeaseKey { name: LockName::new(&name).unwrap(), holder: HolderId::fresh() };
        let claim = Claim::new(lease.name.clone(), lease.holder, "test".into(), LONG);
        assert!(matches!(store.try_acquire(&claim).await.unwrap(), Attempt::Granted(_)));
        beside.shorten(&name);
        if matches!(store.renew(&[(lease.clone(), LONG)]).await[..], [Ok(Renewal::Renewed)]) {
            break (name, lease);
        }
        assert!(began.elapsed() >= SHORT, "it had the lock");
    };

    tokio::time::sleep(SHORT * 6 / 5).await; // past the end that both would have had
    let holding = refused(&locks, &theirs).await;
    assert!(holding.label.starts_with(&beside.foreign()) && holding.remaining > LONG / 2, "{holding:?}");
    assert_eq!(holding.library, Some(beside.compat()));
    assert!(peer.releases());
    assert!(!peer.acquires(&ours, LONG));
    assert_eq!(store.release(&lease, leasehold::Ended::default()).await.unwrap(), Release::Released);
    assert!(peer.acquires(&ours, LONG) && peer.releases());
}

async fn nobody_ends_what_is_anothers(library: &'static str) {
    let beside = Beside::of(library);
    let (mut peer, locks) = (beside.peer(), beside.locks().await);
    let value = || beside.server.command(&["GET", &beside.key("job")]).text();

    assert!(peer.acquires("job", LONG));
    beside.delete("job");
    let guard = acquired(&locks, "job").await;
    assert!(!peer.extends(LONG) && !peer.releases());
    assert_eq!(value(), guard.holder().to_string());

    beside.delete("job");
    assert!(peer.acquires("job", LONG));
    assert_eq!(guard.release().await.unwrap(), leasehold::Released::TooLate);
    assert!(peer.extends(LONG) && peer.releases());

    // What is ours though nobody works under it keeps them out as well.
    let guard = locks.lock("kept").at_least_for(LONG).try_acquire().await.unwrap().guard().unwrap();
    guard.release().await.unwrap();
    assert!(!peer.acquires("kept", LONG));
    let guard = acquired(&locks, "revoked").await;
    locks.revoke("revoked", Revoke::Gently).await.unwrap();
    assert!(!peer.acquires("revoked", LONG));
    guard.release().await.unwrap();
    assert!(peer.acquires("revoked", LONG));

    // An operator of ours ends theirs.
    let error = locks.revoke("revoked", Revoke::Gently).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("--now"), "{error}");
    let hit = locks.revoke("revoked", Revoke::Now).await.unwrap().unwrap();
    assert!(hit.label.starts_with(&beside.foreign()), "{hit:?}");
    let guard = acquired(&locks, "revoked").await;
    assert!(!peer.releases() && guard.is_valid());
}

async fn waiters_get_it(library: &'static str) {
    let beside = Beside::of(library);
    let (mut peer, locks) = (beside.peer(), beside.locks().await);
    assert!(peer.acquires("released", LONG));
    let ours = waiting(&locks, "released").await;
    let listed = locks.list().await.unwrap();
    let is_theirs = |holding: &&Holding| holding.label.starts_with(&beside.foreign());
    assert!(listed.iter().filter(is_theirs).any(|holding| holding.waiting == 1), "{listed:?}");
    assert_eq!(locks.queue(&LockName::new("released").unwrap()).await.unwrap().len(), 1, "one of ours waits for it");
    assert!(peer.releases());
    gets_it(ours).await;

    assert!(peer.acquires("expired", Duration::from_secs(2)));
    // It need not be seen in line: on a busy machine the time may be over before.
    let lock = locks.lock("expired").ttl(LONG).wait(Wait::Forever);
    gets_it(tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() })).await;

    let guard = acquired(&locks, "ours").await;
    peer.waits("ours", LONG, Duration::from_secs(50));
    if library == "python-redis-lock" {
        eventually("it is blocked", SOON, || blocked(&beside.server) == 1);
    }
    let released = Instant::now();
    guard.release().await.unwrap();
    assert_eq!(peer.answers(), "yes");
    assert!(released.elapsed() < SOON, "it was woken, or looked: {:?}", released.elapsed());
    assert!(peer.releases());
}

fn blocked(server: &Redis) -> usize {
    server.command(&["CLIENT", "LIST"]).text().lines().filter(|client| client.contains("cmd=blpop")).count()
}

macro_rules! beside {
    ($($module:ident: $library:literal),* $(,)?) => {$(
        mod $module {
            #[test]
            fn many_rounds() {
                super::many_rounds($library);
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn extensions_count() {
                super::extensions_count($library).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn nobody_ends_what_is_anothers() {
                super::nobody_ends_what_is_anothers($library).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn waiters_get_it() {
                super::waiters_get_it($library).await;
            }
        }
    )*};
}

beside!(
    redis_py: "redis-py",
    redis_py_async: "redis-py-async",
    python_redis_lock: "python-redis-lock",
    pottery: "pottery",
    node_redlock: "node-redlock",
    redis_semaphore: "redis-semaphore",
    rslock: "rslock",
);

/// Whatever frees a lock of ours wakes those who block on python-redis-lock's list: they may have no time limit at all.
#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_free_a_lock_wakes_a_blocked_waiter() {
    let beside = Beside::of("python-redis-lock");
    let (mut peer, locks) = (beside.peer(), beside.locks().await);
    let store = leasehold::stores::open(&beside.url).unwrap();
    for way in ["release", "drop", "revoke", "leave"] {
        let claim = Claim::new(LockName::new(way).unwrap(), HolderId::fresh(), "test".into(), LONG);
        let guard = match way {
            "leave" => {
                assert!(matches!(store.try_acquire(&claim).await.unwrap(), Attempt::Granted(_)));
                None
            }
            _ => Some(acquired(&locks, way).await),
        };
        peer.waits(way, Duration::from_secs(200), Duration::from_secs(100));
        eventually("it is blocked", SOON, || blocked(&beside.server) == 1);
        match way {
            "release" => drop(guard.expect("ours").release().await.unwrap()),
            "drop" => drop(guard),
            "revoke" => drop(locks.revoke(way, Revoke::Now).await.unwrap()),
            _ => store.leave(&LeaseKey { name: claim.name, holder: claim.holder }).await.unwrap(),
        }
        let freed = Instant::now();
        assert_eq!(peer.answers(), "yes", "{way}");
        assert!(freed.elapsed() < SOON, "{way}: {:?}", freed.elapsed());
        assert!(peer.releases());
    }
}

/// A worker that gives its lock no end holds it until it lets go of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_without_an_end_is_waited_for_and_can_be_freed() {
    for library in ["redis-py", "python-redis-lock"] {
        let beside = Beside::of(library);
        let (mut peer, locks) = (beside.peer(), beside.locks().await);
        assert!(peer.acquires("job", Duration::ZERO));
        let holding = refused(&locks, "job").await;
        assert!(holding.holder.is_some() && holding.remaining == Holding::NO_END, "{holding:?}");
        assert_eq!(locks.inspect("job").await.unwrap().unwrap().remaining, Holding::NO_END);
        let ours = waiting(&locks, "job").await;
        let (began, asked) = (Instant::now(), beside.server.commands_processed());
        tokio::time::sleep(Duration::from_secs(2)).await;
        let asked = beside.server.commands_processed() - asked;
        let most = 120 * (began.elapsed().as_secs() + 1);
        assert!(asked < most, "a script's own commands count, and yet: {asked} of {most}");
        assert!(peer.releases());
        gets_it(ours).await;

        assert!(peer.acquires("job", Duration::ZERO));
        assert!(locks.revoke("job", Revoke::Gently).await.is_err());
        locks.revoke("job", Revoke::Now).await.unwrap().expect("it was held");
        acquired(&locks, "job").await.release().await.unwrap();
        assert!(!peer.releases());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_are_no_text_are_shown_in_digits() {
    let beside = Beside::of("rslock");
    let (mut peer, locks) = (beside.peer(), beside.locks().await);
    assert!(peer.acquires("job", LONG));
    let label = refused(&locks, "job").await.label;
    assert!(label.starts_with("foreign: rslock 0x") && label.len() == "foreign: rslock 0x".len() + 40, "{label}");
}

#[tokio::test]
async fn d09_what_is_no_lock_at_all_is_told_apart() {
    let beside = Beside::of("redis-py");
    let locks = beside.locks().await;
    beside.server.command(&["HSET", "job", "a", "1"]);
    let error = locks.lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("another name"), "{error}");
    let error = locks.lock("pool").permits(3).try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}
