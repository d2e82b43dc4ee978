//! Several nodes, each a process, some with clocks that are wrong: ticks, keys, permits and several locks at once in one
//! store.
#![cfg(feature = "sqlite")]

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::blocking::{Guard, Lock, Locks, MultiLock, Outcome};
use leasehold::stores::fallback::{Fallback, Settings};
use leasehold::{NotDue, Tick, Wait, stores};
use leasehold_testkit::process::{self, Worker, argument, say};
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(60);
/// Short enough to be waited for, and long enough for who has it to keep it on a machine that is busy for a moment.
const TTL: Duration = Duration::from_secs(4);
/// For how long a store is asked that can't say: it has members to be connected to, and a route to be read, and the machine may
/// be busy.
const PATIENCE: Duration = Duration::from_secs(20);
const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn worker() {
    process::serve(&[
        ("run_the_tick", run_the_tick),
        ("begin_and_hang", begin_and_hang),
        ("do_all_keys", do_all_keys),
        ("use_the_pool", use_the_pool),
        ("hold_a_permit", hold_a_permit),
        ("take_both", take_both),
    ]);
}

/// The stores that all this is tried on.
#[derive(Debug, Clone, Copy)]
enum Kind<'a> {
    Sqlite,
    #[cfg(feature = "redis")]
    Redis,
    /// Servers that several fleets share, each in a namespace of its own.
    #[cfg_attr(
        not(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis")),
        allow(dead_code, reason = "a file is no server")
    )]
    Shared(&'a str),
    /// The same, as a quorum.
    #[cfg(feature = "redis")]
    Quorum(&'a [leasehold_testkit::servers::Redis]),
    /// The same, as a primary and an arbiter.
    #[cfg(all(feature = "postgres", feature = "redis"))]
    Fallback(&'a str, &'a str),
}

struct Fleet {
    dir: TempDir,
    url: String,
    ttl: Duration,
    locks: Locks,
    _server: Option<Box<dyn std::any::Any>>,
}

impl Fleet {
    fn new(kind: Kind<'_>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let namespace = format!("{:x}", rand::random::<u64>());
        match kind {
            Kind::Sqlite => {
                let url = format!("sqlite:{}/locks.db", dir.path().display());
                Self::over(url, TTL, dir)
            }
            #[cfg(feature = "redis")]
            Kind::Redis => {
                let server = leasehold_testkit::servers::Redis::start();
                let fleet = Self::over(server.url(), TTL, dir);
                Self { _server: Some(Box::new(server)), ..fleet }
            }
            Kind::Shared(url) => Self::over(format!("{url}namespace={namespace}"), TTL, dir),
            #[cfg(feature = "redis")]
            Kind::Quorum(servers) => {
                let hosts: Vec<_> = servers.iter().map(leasehold_testkit::servers::Redis::address).collect();
                let options = format!("max_ttl={}&namespace={namespace}", TTL.as_secs());
                let fleet = Self::over(format!("redlock://{}?{options}", hosts.join(",")), TTL, dir);
                let life = format!("leasehold:{namespace}:life");
                // One that is late is founded a moment later.
                process::eventually("all are founded", SOON, || {
                    fleet.grants();
                    servers.iter().all(|server| server.command(&["HEXISTS", &life, "founded"]).integer() == 1)
                });
                // A new one counts ticks of the next minutes as run; this one was founded long ago.
                servers.iter().for_each(|server| drop(server.command(&["HSET", &life, "floor", "1"])));
                fleet
            }
            #[cfg(all(feature = "postgres", feature = "redis"))]
            Kind::Fallback(primary, arbiter) => {
                let url = [primary, arbiter].map(|url| format!("{url}?namespace={namespace}")).join(" ");
                let fleet = Self::over(url, TTL, dir);
                fleet.grants();
                fleet
            }
        }
    }

    fn over(url: String, ttl: Duration, dir: TempDir) -> Self {
        Self { locks: opened(&url), dir, url, ttl, _server: None }
    }

    /// Waits until it does: a quorum is to be founded, a route to come into force.
    #[cfg(feature = "redis")]
    fn grants(&self) {
        process::eventually("it grants locks", SOON, || {
            let first = self.locks.lock("first").ttl(self.ttl).try_acquire();
            first.is_ok_and(|outcome| outcome.guard().is_some_and(|guard| guard.release().is_ok()))
        });
    }

    fn node(&self, function: &str, more: &[(&str, &str)]) -> Worker {
        let dir = self.dir.path().display().to_string();
        let ttl = self.ttl.as_secs().to_string();
        Worker::start("worker", function, &[&[("DIR", &*dir), ("STORE", &*self.url), ("TTL", &*ttl)], more].concat())
    }

    /// A tick that is due by now and will be for a while.
    fn tick(&self) -> String {
        let now = self.locks.time().unwrap().as_millis() as i64;
        (now - now % 60_000).to_string()
    }

    fn log(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}

fn locks() -> Locks {
    opened(&argument("STORE"))
}

fn ttl() -> Duration {
    Duration::from_secs(argument("TTL").parse().unwrap())
}

/// A URL; or those of a fallback's two stores, with a route lease that may be waited for.
fn opened(url: &str) -> Locks {
    let Some((primary, arbiter)) = url.split_once(' ') else { return Locks::connect(url).unwrap() };
    let [primary, arbiter] = [primary, arbiter].map(|url| stores::open(url).unwrap());
    let settings = Settings::default().route_lease(Duration::from_secs(2));
    Locks::over(Arc::new(Fallback::over(primary, arbiter, settings).unwrap())).unwrap()
}

/// Whole lines, also if several processes write at once.
fn log(line: &str) {
    let path = std::path::Path::new(&argument("DIR")).join("log");
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// The lock for the tick that the node takes for the present one, by a clock that is wrong.
fn tick_lock(locks: &Locks) -> Lock {
    let (tick, off): (i64, i64) = (argument("TICK").parse().unwrap(), argument("OFF").parse().unwrap());
    // Every 15 minutes, by its own clock.
    let tick = Tick::from_unix_millis(tick + off - (off % 900_000)).unwrap();
    let retry = argument("RETRY") == "yes";
    locks.lock("nightly").ttl(ttl()).terms(|lock| lock.tick(tick).retry_failed(retry).patience(PATIENCE))
}

fn run_the_tick() {
    let locks = locks();
    match tick_lock(&locks).try_acquire().unwrap() {
        Outcome::Acquired(guard) => {
            log(&format!("ran {} {}", guard.token(), guard.attempt()));
            guard.complete().unwrap();
            say("ran");
        }
        Outcome::Contended(_) => say("held"),
        Outcome::NotDue(NotDue::Claimed { unfinished: true, .. }) => say("unfinished"),
        Outcome::NotDue(NotDue::Claimed { .. }) => say("done"),
        Outcome::NotDue(NotDue::InFuture { .. }) => say("future"),
        Outcome::NotDue(NotDue::TooOld { .. }) => say("old"),
    }
}

fn begin_and_hang() {
    let locks = locks();
    let guard = tick_lock(&locks).try_acquire().unwrap().guard().expect("it is due");
    log("began");
    say("began");
    let _ = guard.lost();
    std::thread::sleep(SOON);
}

/// What a node says that comes for the tick.
fn comes(fleet: &Fleet, tick: &str, off: i64, retry: &str) -> String {
    let off = (off * 1000).to_string();
    let mut node = fleet.node("run_the_tick", &[("TICK", tick), ("OFF", &off), ("RETRY", retry)]);
    let said = node.hear("", SOON);
    node.succeeds(SOON);
    said
}

fn q01_q02_one_node_runs_the_tick_and_the_others_skip_it_whatever_their_clocks_show(kind: Kind<'_>) {
    let fleet = Fleet::new(kind);
    let tick = fleet.tick();
    let day = 86_400;
    assert_eq!(comes(&fleet, &tick, day, "no"), "future", "a day fast: refused, and stops nobody");
    assert_eq!(comes(&fleet, &tick, 0, "no"), "ran");
    for off in [0, 90, -90, 0] {
        assert_eq!(comes(&fleet, &tick, off, "no"), "done", "{off} s");
    }
    assert_eq!(comes(&fleet, &tick, -3 * day, "no"), "old");
    assert_eq!(comes(&fleet, &tick, day, "yes"), "future");
    assert_eq!(fleet.log().len(), 1, "{:?}", fleet.log());
}

fn q15_a_node_that_is_killed_in_the_middle_is_replaced_only_if_asked(kind: Kind<'_>) {
    for (retry, then) in [("no", "unfinished"), ("yes", "ran")] {
        let fleet = Fleet::new(kind);
        let tick = fleet.tick();
        let mut dies = fleet.node("begin_and_hang", &[("TICK", &tick), ("OFF", "0"), ("RETRY", retry)]);
        dies.hear("began", SOON);
        assert_eq!(comes(&fleet, &tick, 0, retry), "held", "it runs elsewhere");
        dies.kill();
        let started = Instant::now();
        let said = loop {
            match comes(&fleet, &tick, 0, retry) {
                held if held == "held" => assert!(started.elapsed() < SOON),
                said => break said,
            }
        };
        assert_eq!(said, then);
        let attempts: Vec<_> = fleet.log().iter().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect();
        assert_eq!(attempts, if retry == "yes" { vec!["began", "2"] } else { vec!["began"] });
        assert_eq!(comes(&fleet, &tick, 0, "yes"), if retry == "yes" { "done" } else { "unfinished" });
    }
}

fn twenty_nodes_that_come_at_once_run_it_once(kind: Kind<'_>) {
    let fleet = Fleet::new(kind);
    let tick = fleet.tick();
    let start = |_| fleet.node("run_the_tick", &[("TICK", &tick), ("OFF", "0"), ("RETRY", "yes")]);
    let mut nodes: Vec<_> = (0..20).map(start).collect();
    for node in &mut nodes {
        node.succeeds(SOON);
    }
    assert_eq!(fleet.log().len(), 1, "{:?}", fleet.log());
}

const KEYS: usize = 60;

fn do_all_keys() {
    let locks = locks();
    let (mut ran, mut elsewhere, mut before) = (0, 0, 0);
    for key in 0..KEYS {
        let once = locks.once(&format!("invoice-{key}"), DAY).ttl(ttl()).terms(|lock| lock.patience(PATIENCE));
        match once.try_acquire().unwrap() {
            Outcome::Acquired(guard) => {
                log(&format!("sent {key}"));
                guard.complete().unwrap();
                ran += 1;
            }
            Outcome::Contended(_) => elsewhere += 1,
            Outcome::NotDue(NotDue::Claimed { unfinished: false, .. }) => before += 1,
            Outcome::NotDue(why) => panic!("{why}"),
        }
    }
    say(&format!("ran {ran}, elsewhere {elsewhere}, before {before}"));
}

fn a_key_is_done_once_however_many_come_for_it(kind: Kind<'_>) {
    let fleet = Fleet::new(kind);
    let mut nodes: Vec<_> = (0..6).map(|_| fleet.node("do_all_keys", &[])).collect();
    for node in &mut nodes {
        node.succeeds(SOON);
    }
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for line in fleet.log() {
        *times.entry(line).or_default() += 1;
    }
    assert_eq!(times.len(), KEYS, "none was left out");
    assert!(times.values().all(|times| *times == 1), "{times:?}");
}

fn pool(locks: &Locks, ttl: Duration) -> Lock {
    locks.lock("pool").ttl(ttl).wait(Wait::For(SOON)).terms(|lock| lock.permits(3))
}

fn granted(lock: &Lock) -> Guard {
    match lock.acquire().unwrap() {
        Outcome::Acquired(guard) => guard,
        other => panic!("{other:?}"),
    }
}

/// What `CLOCK_BOOTTIME` shows: all processes of a machine read the same.
fn now() -> u128 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).unwrap();
    Duration::from(now).as_nanos()
}

fn use_the_pool() {
    let locks = locks();
    // All at the same time, however long it takes to start each.
    say("ready");
    while !std::path::Path::new(&argument("DIR")).join("go").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    for _ in 0..15 {
        let guard = granted(&pool(&locks, ttl()));
        let from = now();
        std::thread::sleep(Duration::from_millis(5));
        let until = now();
        assert!(guard.is_valid());
        log(&format!("{from} {until} {}", guard.token()));
        guard.release().unwrap();
    }
}

fn at_most_so_many_processes_are_inside_and_tokens_grow_over_all_permits(kind: Kind<'_>) {
    let fleet = Fleet::new(kind);
    let mut nodes: Vec<_> = (0..6).map(|_| fleet.node("use_the_pool", &[])).collect();
    nodes.iter_mut().for_each(|node| drop(node.hear("ready", SOON)));
    std::fs::write(fleet.dir.path().join("go"), "").unwrap();
    for node in &mut nodes {
        node.succeeds(SOON);
    }
    let read = |line: &String| line.split(' ').map(|n| n.parse().unwrap()).collect::<Vec<u128>>();
    let mut holds: Vec<_> = fleet.log().iter().map(read).collect();
    assert_eq!(holds.len(), 6 * 15);
    let inside_at = |at: u128| holds.iter().filter(|hold| hold[0] <= at && at < hold[1]).count();
    let most = holds.iter().map(|hold| inside_at(hold[0])).max().unwrap();
    assert!((2..=3).contains(&most), "{most} at once");
    holds.sort_by_key(|hold| hold[2]);
    assert!(holds.windows(2).all(|pair| pair[0][2] < pair[1][2]), "no token twice");
}

fn hold_a_permit() {
    let locks = locks();
    let guard = granted(&pool(&locks, ttl()));
    say("has one");
    let _ = guard.lost();
    say("lost it");
}

fn a_killed_holders_permit_is_free_after_its_ttl_and_the_others_keep_theirs(kind: Kind<'_>) {
    let fleet = Fleet::new(kind);
    let mut nodes: Vec<_> = (0..3).map(|_| fleet.node("hold_a_permit", &[])).collect();
    for node in &mut nodes {
        node.hear("has one", SOON);
    }
    let lock = pool(&fleet.locks, fleet.ttl);
    assert!(matches!(lock.try_acquire().unwrap(), Outcome::Contended(holding) if holding.others.len() == 2));
    nodes.pop().unwrap().kill();
    let guard = granted(&pool(&fleet.locks, fleet.ttl));
    let holding = fleet.locks.inspect("pool").unwrap().unwrap();
    assert_eq!((holding.permits.get(), holding.others.len()), (3, 2), "{holding:?}");
    assert!(guard.is_valid());
}

fn take_both() {
    let locks = locks();
    let names = argument("NAMES");
    let both = MultiLock::of(names.split(' ').map(|name| locks.lock(name).ttl(ttl()))).unwrap();
    for _ in 0..25 {
        let guard = both.acquire().unwrap().guard().expect("it waits for ever");
        let from = now();
        std::thread::sleep(Duration::from_millis(2));
        log(&format!("{from} {}", now()));
        guard.release().unwrap();
    }
}

fn i15_processes_that_want_the_same_two_in_another_order_take_turns(kind: Kind<'_>) {
    let fleet = Fleet::new(kind);
    let orders = ["a b", "b a", "b a", "a b"];
    let mut nodes: Vec<_> = orders.iter().map(|names| fleet.node("take_both", &[("NAMES", names)])).collect();
    for node in &mut nodes {
        node.succeeds(SOON);
    }
    let read = |line: &String| line.split_once(' ').map(|(f, u)| (f.parse().unwrap(), u.parse().unwrap())).unwrap();
    let mut holds: Vec<(u128, u128)> = fleet.log().iter().map(read).collect();
    holds.sort_unstable();
    assert_eq!(holds.len(), 100);
    assert!(holds.windows(2).all(|pair| pair[0].1 <= pair[1].0), "never two at once");
}

macro_rules! on_each_store {
    (any: $($any:ident)*, permits: $($permits:ident)*) => {
        mod sqlite {
            use super::Kind;
            $(#[test] fn $any() { super::$any(Kind::Sqlite); })*
            $(#[test] fn $permits() { super::$permits(Kind::Sqlite); })*
        }

        #[cfg(feature = "redis")]
        mod redis {
            use super::Kind;
            use leasehold_testkit::servers::{Redis, RedisCluster, RedisSentinels, cases};

            $(#[test] fn $any() { super::$any(Kind::Redis); })*
            $(#[test] fn $permits() { super::$permits(Kind::Redis); })*

            #[test]
            fn behind_sentinels() {
                let sentinels = RedisSentinels::start();
                let url = format!("{}?restart_guard=off&", sentinels.url());
                cases(&Kind::Shared(&url), |_| sentinels.mend(), on_each_store!(@all $($any)* $($permits)*));
            }

            #[test]
            fn in_a_cluster() {
                let cluster = RedisCluster::start();
                let url = format!("{}?restart_guard=off&", cluster.url());
                cases(&Kind::Shared(&url), |_| cluster.mend(), on_each_store!(@all $($any)* $($permits)*));
            }

            /// It refuses permits for several.
            #[test]
            fn in_a_quorum() {
                let servers = [0; 3].map(|_| Redis::start());
                cases(&Kind::Quorum(&servers), |_| {}, on_each_store!(@all $($any)*));
            }

            /// So does this.
            #[cfg(feature = "postgres")]
            #[test]
            fn over_a_fallback() {
                let (primary, arbiter) = (Redis::start(), leasehold_testkit::servers::Postgres::start());
                let urls = [primary.url(), arbiter.url()];
                cases(&Kind::Fallback(&urls[0], &urls[1]), |_| {}, on_each_store!(@all $($any)*));
            }
        }

        #[cfg(feature = "postgres")]
        #[test]
        fn in_postgres() {
            use leasehold_testkit::servers::{Postgres, cases};
            let server = Postgres::start();
            let url = format!("{}?", server.url());
            cases(&Kind::Shared(&url), |_| {}, on_each_store!(@all $($any)* $($permits)*));
        }

        #[cfg(feature = "mysql")]
        #[test]
        fn in_mariadb() {
            use leasehold_testkit::servers::{MariaDb, cases};
            let server = MariaDb::start();
            let url = format!("{}?", server.url());
            cases(&Kind::Shared(&url), |_| {}, on_each_store!(@all $($any)* $($permits)*));
        }

        #[cfg(feature = "etcd")]
        #[test]
        fn in_etcd() {
            use leasehold_testkit::servers::{Etcd, cases};
            let server = Etcd::start();
            let url = format!("{}?", server.url());
            cases(&Kind::Shared(&url), |_| {}, on_each_store!(@all $($any)* $($permits)*));
        }
    };
    (@all $($case:ident)*) => { &[$((stringify!($case), |kind| $crate::$case(*kind))),*] };
}

on_each_store! {
    any:
        q01_q02_one_node_runs_the_tick_and_the_others_skip_it_whatever_their_clocks_show
        q15_a_node_that_is_killed_in_the_middle_is_replaced_only_if_asked
        twenty_nodes_that_come_at_once_run_it_once
        a_key_is_done_once_however_many_come_for_it
        i15_processes_that_want_the_same_two_in_another_order_take_turns,
    permits:
        at_most_so_many_processes_are_inside_and_tokens_grow_over_all_permits
        a_killed_holders_permit_is_free_after_its_ttl_and_the_others_keep_theirs
}
