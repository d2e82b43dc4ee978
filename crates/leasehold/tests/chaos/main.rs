//! Processes that hold, wait, are paused and are killed, and a judge who reads what they noted: never two at a
//! time, and tokens that grow.
#![cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis", feature = "sqlite"))]

#[cfg(all(feature = "redis", feature = "postgres"))]
mod composed;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod sessions;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::stores::fallback::{Fallback, Settings};
use leasehold::{Locks, Outcome, stores};
use leasehold_testkit::history::{self, History, Hold};
use leasehold_testkit::process::{self, Worker};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
use leasehold_testkit::proxy::{Direction, Proxy};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);

/// The largest TTL that is asked for.
const MAX_TTL: Duration = Duration::from_secs(3);

/// Fewer show nothing.
const HOLDS: usize = 20;

/// The files of a run: when somebody was sure to hold the lock, and between when and when each grant was made.
const HISTORY: &str = "history";
const GRANTS: &str = "grants";

#[test]
fn worker() {
    process::serve(&[("hold_and_wait", hold_and_wait)]);
}

/// Takes the lock again and again, and notes for how long it believed to hold it.
#[tokio::main(flavor = "current_thread")]
async fn hold_and_wait() {
    let dir = process::argument("DIR");
    let [history, grants] = [HISTORY, GRANTS].map(|file| History::open(&Path::new(&dir).join(file)).unwrap());
    let store = process::argument("STORE");
    let locks = opened(&store);
    let ttl = Duration::from_secs(process::argument("TTL").parse().unwrap());
    // A fallback's holder has to be gone within a part of the route lease.
    let lock = locks.lock("job").ttl(ttl).stop_grace(Duration::from_millis(100));
    process::say("ready");
    while !Path::new(&dir).join("enough").exists() {
        let asked = history::now();
        // Under this load the store may be slow to answer; that is an error, and never a grant.
        let Ok(Outcome::Acquired(guard)) = lock.acquire().await else { continue };
        let hold = |from, until| {
            let (who, token) = (guard.holder().to_string(), guard.token().number());
            Hold { who, name: "job".into(), token, from, until }
        };
        grants.note(&hold(asked, history::now())).unwrap();
        let end = Instant::now() + Duration::from_millis(rand::random_range(0..60));
        let mut sure: Option<(u64, u64)> = None;
        while Instant::now() < end {
            // The clock first: at `now` it was valid if it is so afterwards, whatever happens in between.
            let now = history::now();
            if !guard.is_valid() {
                break;
            }
            sure = Some((sure.map_or(now, |(from, _)| from), now));
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some((from, until)) = sure {
            history.note(&hold(from, until)).unwrap();
        }
        drop(guard.release().await);
    }
    locks.shutdown().await;
}

/// A URL; or those of a fallback's two stores. Its spans are as short as they may be, so that much happens.
fn opened(store: &str) -> Locks {
    let Some((primary, arbiter)) = store.split_once(' ') else {
        return Locks::over(stores::open(store).unwrap());
    };
    let second = Duration::from_secs(1);
    let spans = Settings::default().route_lease(2 * second).max_ttl(MAX_TTL).down_after(second).up_after(second);
    let settings = spans.primary_name("redis");
    let fallback = Fallback::over(stores::open(primary).unwrap(), stores::open(arbiter).unwrap(), settings);
    Locks::over(Arc::new(fallback.unwrap()))
}

#[cfg(feature = "sqlite")]
#[test]
fn paused_and_killed_at_any_moment_there_is_one_holder_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    one_holder_at_a_time(&format!("sqlite://{}/locks.db", dir.path().display()), |_| {});
}

/// Sessions are ended, and the whole server is killed, as well.
#[cfg(feature = "postgres")]
#[test]
fn while_a_database_is_killed_and_comes_back_there_is_one_holder_at_a_time() {
    use leasehold_testkit::servers::Postgres;
    let server = Postgres::start();
    one_holder_at_a_time(&server.url(), |round| match round % 8 {
        3 => server.end_sessions(),
        7 => server.restart(),
        _ => {}
    });
}

#[cfg(feature = "mysql")]
#[test]
fn while_mariadb_is_killed_and_comes_back_there_is_one_holder_at_a_time() {
    use leasehold_testkit::servers::MariaDb;
    let server = MariaDb::start();
    one_holder_at_a_time(&server.url(), |round| match round % 12 {
        5 => server.end_sessions("jobs"),
        11 => server.restart(),
        _ => {}
    });
}

/// The same through a pooler that gives each statement another session.
#[cfg(feature = "postgres")]
#[test]
fn behind_a_pooler_there_is_one_holder_at_a_time() {
    use leasehold_testkit::servers::{PgBouncer, PoolMode, Postgres};
    let server = Postgres::start();
    let pooler = PgBouncer::to(&server, PoolMode::Transaction);
    one_holder_at_a_time(&pooler.url(), |_| {});
}

/// The servers are disturbed as well. Where a failover loses grants nobody can promise anything; here the old master
/// hands over in good order.
#[cfg(feature = "redis")]
#[test]
fn while_masters_of_a_cluster_hand_over_there_is_one_holder_at_a_time() {
    use leasehold_testkit::servers::{RedisCluster, slot_of};
    let cluster = RedisCluster::start();
    one_holder_at_a_time(&format!("{}?restart_guard=off", cluster.url()), |round| {
        if round % 10 == 5 {
            cluster.failover(slot_of("{job}"));
        }
    });
}

/// A cluster whose leader changes, and whose members hang and are killed in turn.
#[cfg(feature = "etcd")]
#[test]
fn while_members_of_a_cluster_come_and_go_there_is_one_holder_at_a_time() {
    use leasehold_testkit::servers::EtcdCluster;
    let cluster = EtcdCluster::start();
    one_holder_at_a_time(&cluster.url(), |round| {
        let member = &cluster.members()[round / 10 % 3];
        match round % 10 {
            1 => member.pause(),
            3 => member.resume(),
            5 => drop(cluster.move_leader()),
            7 => member.restart(),
            _ => {}
        }
    });
}

/// Four workers in one store, with the smallest TTL that each can keep.
fn one_holder_at_a_time(store: &str, disturb: impl FnMut(usize)) {
    let ttl = if store.starts_with("etcd") { 2 } else { 1 };
    let run = Run { stores: &[store.to_owned()], ttl, seconds: 8 };
    run.has_one_holder_at_a_time(disturb);
}

/// What a judge is to see.
struct Run<'a> {
    /// Each worker has one of these: the same store, over different links.
    stores: &'a [String],
    ttl: u64,
    seconds: u64,
}

impl Run<'_> {
    /// Workers are paused and killed, and in each round whatever `disturb` does is done to the store.
    fn has_one_holder_at_a_time(&self, disturb: impl FnMut(usize)) {
        self.has_one_holder_at_a_time_and(|holds| holds.len() >= HOLDS, disturb);
    }

    /// The same, and goes on until `all` that there is to be seen was seen.
    fn has_one_holder_at_a_time_and(&self, all: impl Fn(&[Hold]) -> bool, disturb: impl FnMut(usize)) {
        let began = Instant::now();
        let dir = self.play(HISTORY, &all, disturb);
        let holds = read(dir.path(), HISTORY);
        assert!(all(&holds), "{} holds, and not all that was to be shown", holds.len());
        let checked = history::check(holds).unwrap_or_else(|violation| panic!("{violation:?}"));
        println!("{checked} holds in {:?}", began.elapsed());
    }

    /// The same where two may hold the lock for a moment: what checks tokens can tell them apart.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    fn has_tokens_that_grow(&self, disturb: impl FnMut(usize)) {
        let began = Instant::now();
        let dir = self.play(GRANTS, &|grants| grants.len() >= HOLDS, disturb);
        let grants = read(dir.path(), GRANTS);
        assert!(grants.len() >= HOLDS, "only {} grants: nothing was shown", grants.len());
        let checked = history::check_tokens(grants).unwrap_or_else(|violation| panic!("{violation:?}"));
        println!("{checked} grants in {:?}", began.elapsed());
    }

    /// What the workers have noted by the end: after its time, once `file` has all that there is to be seen.
    fn play(&self, file: &str, all: &dyn Fn(&[Hold]) -> bool, mut disturb: impl FnMut(usize)) -> TempDir {
        let seconds = if std::env::var_os("LEASEHOLD_LONG").is_some() { 180 } else { self.seconds };
        let started = Instant::now();
        let dir = tempfile::tempdir().unwrap();
        let ttl = self.ttl.to_string();
        let start = |number: usize| {
            let store = &self.stores[number % self.stores.len()];
            let arguments = [("DIR", dir.path().to_str().unwrap()), ("STORE", store), ("TTL", &ttl)];
            let mut worker = Worker::start("worker", "hold_and_wait", &arguments);
            worker.hear("ready", LIMIT);
            worker
        };
        let mut workers: Vec<Worker> = (0..4).map(start).collect();
        for round in 0.. {
            // Some stores come to few holds on a busy machine: then it takes longer, but is shown all the same.
            let passed = started.elapsed().as_secs();
            if passed >= seconds && all(&read(dir.path(), file)) || passed >= seconds + LIMIT.as_secs() {
                break;
            }
            disturb(round);
            let victim = rand::random_range(0..workers.len());
            std::thread::sleep(Duration::from_millis(rand::random_range(0..200)));
            if rand::random_bool(0.5) {
                workers[victim].kill();
                workers[victim] = start(victim);
            } else {
                workers[victim].pause();
                std::thread::sleep(Duration::from_millis(rand::random_range(100..1500)));
                workers[victim].resume();
            }
        }
        std::fs::write(dir.path().join("enough"), "").unwrap();
        for worker in &mut workers {
            worker.succeeds(LIMIT);
        }
        dir
    }
}

fn read(dir: &Path, file: &str) -> Vec<Hold> {
    history::read(&dir.join(file)).unwrap_or_default()
}

/// What is wrong with a link for a while.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
fn spoil(link: &Proxy) {
    match rand::random_range(0..5) {
        0 => link.cut_after(Direction::ToClient, rand::random_range(1..200)),
        1 => link.refuse(),
        _ => silence(link),
    }
}

/// What is wrong with it without anybody noticing: no connection ends.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
fn silence(link: &Proxy) {
    match rand::random_range(0..3) {
        0 => link.blackhole(Direction::ToServer),
        1 => link.blackhole(Direction::ToClient),
        _ => link.delay(Direction::ToClient, Duration::from_millis(rand::random_range(20..600))),
    }
}
