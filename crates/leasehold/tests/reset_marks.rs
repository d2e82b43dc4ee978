//! Marks that an operator has forgotten: what each store must do is in the conformance suite.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::layers::Timeout;
use leasehold::stores::Memory;
use leasehold::stores::Quorum;
use leasehold::stores::fallback::{Fallback, Settings};
use leasehold::{Attempt, Claim, Ended, HolderId, LeaseKey, LockName, Locks, Outcome, Store};
use leasehold_testkit::conformance::{RESETS, Subject, run_all, run_paused};
use leasehold_testkit::{Faulty, PausedClock};

fn paused() -> Arc<dyn Store> {
    Arc::new(Memory::new(Arc::new(PausedClock::start())))
}

fn quorum(members: impl IntoIterator<Item = Arc<dyn Store>>) -> Arc<dyn Store> {
    let named = members.into_iter().enumerate().map(|(nth, member)| (format!("m{nth}"), member));
    Arc::new(Quorum::of(named).expect("they can be members"))
}

/// All cases in paused time.
fn run_all_paused(store: impl Fn() -> Arc<dyn Store>) {
    for (name, case) in RESETS {
        println!("{name}");
        run_paused(async { Subject::from(store()) }, async |subject: &Subject| case(subject).await);
    }
}

#[test]
fn in_memory_and_through_layers() {
    run_all_paused(paused);
    run_all_paused(|| Arc::new(Timeout::over(paused())));
    run_all_paused(|| Arc::new(Faulty::over(paused())));
    #[cfg(feature = "traced")]
    run_all_paused(|| Arc::new(leasehold::layers::Traced::over(paused())));
}

#[test]
fn in_a_quorum() {
    run_all_paused(|| {
        let clock = Arc::new(PausedClock::start());
        quorum([(); 3].map(|()| Arc::new(Memory::new(clock.clone())) as Arc<dyn Store>))
    });
}

#[cfg(feature = "sqlite")]
#[test]
fn without_async() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let url = format!("sqlite://{}/locks.db", directory.path().display());
    let locks = leasehold::blocking::Locks::connect(&url).expect("the file can be made");
    let key = locks.once("key", Duration::from_secs(3600));
    assert!(!locks.reset_marks("key").expect("it is answered"));
    drop(key.try_acquire().expect("it is answered"));
    assert!(locks.reset_marks("key").expect("it is answered"));
}

/// A key is one, too: the piece of work may be done once more.
#[tokio::test]
async fn a_key_is_forgotten_by_its_name() {
    let locks = Locks::over(Arc::new(Memory::default()));
    let asked = async || locks.once("invoice", Duration::from_secs(3600)).try_acquire().await.expect("it is answered");
    let Outcome::Acquired(guard) = asked().await else { panic!("it is new") };
    guard.complete().await.expect("it is told");
    assert!(matches!(asked().await, Outcome::NotDue(_)));
    assert!(locks.reset_marks("invoice").await.expect("it is forgotten"));
    assert!(matches!(asked().await, Outcome::Acquired(_)));
    assert!(locks.reset_marks("").await.is_err(), "no legal name");
}

#[cfg(feature = "sqlite")]
#[test]
fn in_a_file() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let url = format!("sqlite://{}/locks.db", directory.path().display());
    run_all(&url, of_a_namespace, RESETS);
}

#[cfg(any(feature = "sqlite", feature = "redis", feature = "etcd", feature = "postgres", feature = "mysql"))]
fn of_a_namespace(url: &String, [namespace, _]: [&str; 2]) -> Subject {
    let query = if url.contains('?') { '&' } else { '?' };
    let store = leasehold::stores::open(&format!("{url}{query}namespace={namespace}"));
    Subject::new(store.expect("the URL is right"))
}

#[cfg(feature = "redis")]
mod on_a_server {
    use std::time::SystemTime;

    use leasehold::Tick;
    use leasehold_testkit::process::eventually_async;
    use leasehold_testkit::servers::{Redis, RedisCluster, RedisSentinels};

    use super::*;

    #[test]
    fn in_redis() {
        run_all(&Redis::start().url(), of_a_namespace, RESETS);
    }

    #[test]
    fn in_a_cluster() {
        let cluster = RedisCluster::start();
        run_all(&format!("{}?restart_guard=off", cluster.url()), of_a_namespace, RESETS);
    }

    #[test]
    fn behind_sentinels() {
        let sentinels = RedisSentinels::start();
        run_all(&format!("{}?restart_guard=off", sentinels.url()), of_a_namespace, RESETS);
    }

    #[test]
    fn beside_the_keys_of_others() {
        let open = |server: &Redis, _: [&str; 2]| {
            let store = leasehold::stores::open(&format!("{}?compat=plain", server.url()));
            Subject::new(store.expect("the URL is right"))
        };
        run_all(&Redis::start(), open, RESETS);
    }

    /// Servers that have been up for an hour, as a quorum that was founded before: by itself it is founded with a floor that is
    /// ahead of the ticks of the cases.
    async fn founded_long_ago(servers: &[Redis; 3]) {
        for server in servers {
            let store = leasehold::stores::open(&of_a_member(server)).expect("the URL is right");
            let (member, any) = (store.as_member().expect("it is one"), LockName::new("any").expect("it is legal"));
            let life = member.identity().await.expect("it says who it is").server;
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is later").as_millis() as i64;
            let hour_ago = (now - 3_600_000).to_string();
            server.command(&["HSET", &format!("leasehold:default:since:{life}:{{}}"), "since", &hour_ago]);
            let floor = Tick::from_unix_millis(now - 7_200_000).expect("it is in the calendar");
            eventually_async("it is founded", Duration::from_secs(30), async || {
                let Ok(known) = member.recall(&any).await else { return false };
                member.found(floor, &known.life).await.is_ok()
            })
            .await;
        }
    }

    fn of_a_member(server: &Redis) -> String {
        format!("{}?restart_guard=on&max_ttl=61", server.url())
    }

    #[test]
    fn in_a_quorum_of_servers() {
        let servers = [(); 3].map(|()| Redis::start());
        let runtime = tokio::runtime::Runtime::new().expect("it can be made");
        runtime.block_on(founded_long_ago(&servers));
        let open = |servers: &[Redis; 3], _: [&str; 2]| {
            let member = |server| leasehold::stores::open(&of_a_member(server)).expect("the URL is right");
            let store = quorum(servers.each_ref().map(member));
            // One that is connected to late misses a claim, and the others go on without it.
            let all_answer = eventually_async("all members answer", Duration::from_secs(60), async || {
                let found = store.diagnose().await.unwrap_or_default();
                found.first().is_some_and(|first| first.message.contains("all of its 3 members answer"))
            });
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(all_answer));
            Subject::from(store)
        };
        run_all(&servers, open, RESETS);
    }

    /// As a clock has left it that was three years ahead: no tick is newer, and none is tried again.
    #[tokio::test]
    async fn a_mark_that_is_years_ahead_is_forgotten() {
        let server = Redis::start();
        let store = leasehold::stores::open(&server.url()).expect("the URL is right");
        let locks = Locks::over(Arc::clone(&store));
        let now = store.time().await.expect("it is told").as_millis() as i64;
        let ahead = (now + 3 * 365 * 86_400_000).to_string();
        let Outcome::Acquired(guard) = locks.lock("job").try_acquire().await.expect("it is answered") else {
            panic!("it is free")
        };
        guard.release().await.expect("it is released");
        server.command(&["HSET", "leasehold:default:{job}:h", "m", &ahead, &format!("o:{ahead}"), "- 1 1"]);
        let tick = Tick::from_unix_millis(now).expect("it is in the calendar");
        let asked = async || locks.lock("job").tick(tick).try_acquire().await.expect("it is answered");
        assert!(matches!(asked().await, Outcome::NotDue(_)));
        assert!(locks.reset_marks("job").await.expect("it is forgotten"));
        assert!(matches!(asked().await, Outcome::Acquired(_)));
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn in_a_fallback_of_a_server_and_a_file() {
        let (server, directory) = (Redis::start(), tempfile::tempdir().expect("a directory can be made"));
        let file = format!("sqlite://{}/locks.db", directory.path().display());
        let open = |(server, file): &(Redis, String), [namespace, _]: [&str; 2]| {
            let [primary, arbiter] = [&server.url(), file]
                .map(|url| leasehold::stores::open(&format!("{url}?namespace={namespace}")).expect("the URL is right"));
            Subject::from(settled(primary, arbiter))
        };
        run_all(&(server, file), open, RESETS);
    }
}

#[test]
fn in_a_fallback() {
    let memory = || Arc::new(Memory::default());
    run_all(&(), |(), _| Subject::from(settled(memory(), memory())), RESETS);
}

/// A fallback whose first route has come into force.
fn settled(primary: Arc<dyn Store>, arbiter: Arc<dyn Store>) -> Arc<dyn Store> {
    let second = Duration::from_secs(1);
    // Of a shorter lease nothing is granted while the machine is busy for a moment.
    let settings = Settings::default().route_lease(second * 5).down_after(second * 10);
    let store: Arc<dyn Store> = Arc::new(Fallback::over(primary, arbiter, settings).expect("they go together"));
    let settles = async {
        let name = LockName::new("first").expect("it is legal");
        let claim = Claim::new(name.clone(), HolderId::fresh(), "test".into(), second * 60);
        let began = Instant::now();
        while !matches!(store.try_acquire(&claim).await, Ok(Attempt::Granted(_))) {
            assert!(began.elapsed() < second * 60, "there is no route");
            tokio::time::sleep(second / 20).await;
        }
        let lease = LeaseKey { name, holder: claim.holder };
        let _ = store.release(&lease, Ended::default()).await.expect("it is released");
    };
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(settles));
    store
}

#[cfg(feature = "etcd")]
mod in_etcd {
    use leasehold_testkit::servers::Etcd;

    use super::*;

    #[test]
    fn in_etcd() {
        run_all(&Etcd::start().url(), of_a_namespace, RESETS);
    }

    #[test]
    fn beside_etcdctl() {
        let open = |etcd: &Etcd, _: [&str; 2]| {
            let store = leasehold::stores::open(&format!("{}?compat=etcdctl", etcd.url()));
            Subject::new(store.expect("the URL is right"))
        };
        run_all(&Etcd::start(), open, RESETS);
    }

    /// Neither the key nor the lease that it hung on, which would be there for years.
    #[tokio::test]
    async fn nothing_is_left_of_a_mark() {
        let server = Etcd::start();
        let locks = Locks::connect(&server.url()).await.expect("the URL is right");
        let key = locks.once("job", Duration::from_secs(86_400));
        let Outcome::Acquired(guard) = key.try_acquire().await.expect("it is answered") else { panic!("it is new") };
        assert_eq!(server.keys("default!ticks/"), ["default!ticks/job"]);
        assert!(locks.reset_marks("job").await.expect("it is forgotten"));
        assert_eq!(server.keys("default!ticks/"), [""; 0]);
        let leases = server.command(&["lease", "list"]);
        let long = |lease: &&str| server.command(&["lease", "timetolive", lease]).contains("granted with TTL(86");
        assert_eq!(leases.lines().skip(1).filter(long).count(), 0, "{leases}");
        guard.complete().await.expect("it is told");
    }
}

#[cfg(feature = "postgres")]
#[test]
fn in_postgres() {
    let server = leasehold_testkit::servers::Postgres::start();
    run_all(&server.url(), of_a_namespace, RESETS);
}

#[cfg(feature = "mysql")]
#[test]
fn in_mariadb() {
    let server = leasehold_testkit::servers::MariaDb::start();
    run_all(&server.url(), of_a_namespace, RESETS);
}
