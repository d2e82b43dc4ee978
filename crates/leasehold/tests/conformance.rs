//! Every store and layer passes the conformance suite.

use std::sync::Arc;
use std::time::Duration;

use leasehold::Store;
use leasehold::layers::Timeout;
use leasehold::stores::Memory;
use leasehold::stores::fallback::{Fallback, Settings};
use leasehold_testkit::{Faulty, PausedClock, conformance};

fn memory() -> Arc<dyn Store> {
    Arc::new(Memory::default())
}

fn paused_memory() -> Arc<dyn Store> {
    Arc::new(Memory::new(Arc::new(PausedClock::start())))
}

conformance!(memory_in_real_time, memory());
conformance!(memory_in_paused_time, paused, paused_memory());
conformance!(timeout_over_memory, paused, Arc::new(Timeout::over(paused_memory())) as Arc<dyn Store>);
conformance!(faulty_over_memory, paused, Arc::new(Faulty::over(paused_memory())) as Arc<dyn Store>);

/// Of two stores in memory, in a clean state: the first route has come into force.
async fn fallback() -> Arc<dyn Store> {
    let clock = Arc::new(PausedClock::start());
    let half = || Arc::new(Memory::new(clock.clone()));
    let store = Fallback::over(half(), half(), Settings::default().simulated(clock.clone())).expect("they go together");
    let store: Arc<dyn Store> = Arc::new(store);
    drop(store.list().await.expect("the first route is written"));
    tokio::time::sleep(Duration::from_secs(11)).await;
    store
}

// A fallback has no permits for several holders, and hands nothing over.
conformance!(fallback_of_memory, one_holder paused, fallback().await);
conformance!(timeout_over_fallback, one_holder paused, Arc::new(Timeout::over(fallback().await)) as Arc<dyn Store>);

#[cfg(feature = "traced")]
conformance!(traced_over_memory, paused, Arc::new(leasehold::layers::Traced::over(paused_memory())) as Arc<dyn Store>);

#[cfg(feature = "sqlite")]
mod on_disk {
    use leasehold_testkit::conformance::Subject;

    use super::*;

    /// A store in a directory of its own, seen through two namespaces.
    fn sqlite() -> Subject {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let url = format!("sqlite://{}/locks.db", directory.path().display());
        let open = |url: &str| leasehold::stores::open(url).expect("a new file can be opened");
        Subject::new(open(&url)).other_namespace(open(&format!("{url}?namespace=other"))).keeping(directory)
    }

    conformance!(sqlite, sqlite());
}

#[cfg(feature = "redis")]
mod on_a_server {
    use leasehold_testkit::conformance::Subject;
    use leasehold_testkit::servers::{Redis, RedisCluster, RedisSentinels};

    use super::*;

    /// A store in a server of its own, seen through two namespaces.
    fn redis() -> Subject {
        let server = Redis::start();
        let open = |url: String| leasehold::stores::open(&url).expect("the URL is right");
        let other = format!("{}?namespace=other", server.url());
        Subject::new(open(server.url())).other_namespace(open(other)).keeping(server)
    }

    conformance!(redis, redis());

    /// A store in servers that all cases share, seen through two namespaces.
    fn shared(url: &str, namespaces: [&str; 2]) -> Subject {
        let [store, other] = namespaces.map(|namespace| {
            leasehold::stores::open(&format!("{url}?namespace={namespace}&restart_guard=off"))
                .expect("the URL is right")
        });
        Subject::new(store).other_namespace(other)
    }

    conformance!(redis_sentinel, shared RedisSentinels::start(), |sentinels: &RedisSentinels, namespaces| {
        shared(&sentinels.url(), namespaces)
    });
    conformance!(redis_cluster, shared RedisCluster::start(), |cluster: &RedisCluster, namespaces| {
        shared(&cluster.url(), namespaces)
    });
    /// A store over the keys of other libraries: one holder for each lock, and no namespaces.
    fn compat(library: &str) -> Subject {
        let server = Redis::start();
        let store = leasehold::stores::open(&format!("{}?compat={library}", server.url()));
        Subject::new(store.expect("the URL is right")).keeping(server)
    }

    conformance!(redis_beside_others, one_holder, compat("plain"));
    conformance!(redis_beside_python_redis_lock, one_holder, compat("python-redis-lock"));
}

/// A store in a server that all cases share, seen through two namespaces.
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres"))]
fn shared(url: &str, namespaces: [&str; 2]) -> leasehold_testkit::conformance::Subject {
    let [store, other] = namespaces
        .map(|namespace| leasehold::stores::open(&format!("{url}?namespace={namespace}")).expect("the URL is right"));
    leasehold_testkit::conformance::Subject::new(store).other_namespace(other)
}

#[cfg(feature = "etcd")]
mod in_etcd {
    use leasehold_testkit::conformance::Subject;
    use leasehold_testkit::servers::{Etcd, EtcdCluster};

    use super::*;

    conformance!(etcd, shared Etcd::start(), |etcd: &Etcd, namespaces| shared(&etcd.url(), namespaces));
    conformance!(etcd_cluster, shared EtcdCluster::start(), |cluster: &EtcdCluster, namespaces| {
        shared(&cluster.url(), namespaces)
    });
    conformance!(etcd_beside_etcdctl, shared Etcd::start(), |etcd: &Etcd, _| {
        let store = leasehold::stores::open(&format!("{}?compat=etcdctl", etcd.url()));
        Subject::new(store.expect("the URL is right"))
    });
}

#[cfg(feature = "postgres")]
mod in_postgres {
    use leasehold_testkit::conformance::Subject;
    use leasehold_testkit::servers::{PgBouncer, PoolMode, Postgres};

    use super::*;

    conformance!(postgres, shared Postgres::start(), |server: &Postgres, namespaces| shared(&server.url(), namespaces));

    /// A server with ShedLock's table.
    fn beside_shedlock() -> Postgres {
        let server = Postgres::start();
        server.sql(
            "create table shedlock(name varchar(64) primary key, lock_until timestamp not null, \
             locked_at timestamp not null, locked_by varchar(255) not null)",
        );
        server
    }

    conformance!(postgres_beside_shedlock, plain shared beside_shedlock(), |server: &Postgres, _: [&str; 2]| {
        let store = leasehold::stores::open(&format!("{}?compat=shedlock", server.url()));
        Subject::new(store.expect("the URL is right"))
    });

    /// Session locks in a server that all cases share.
    fn sessions(url: &str, namespaces: [&str; 2]) -> Subject {
        let [store, other] = namespaces.map(|namespace| {
            leasehold::stores::open(&format!("{url}?mode=advisory&namespace={namespace}")).expect("the URL is right")
        });
        Subject::new(store).other_namespace(other)
    }

    /// Each lock has a session, and the names of some cases are many.
    fn with_room() -> Postgres {
        Postgres::options().config("max_connections", "600").start()
    }

    conformance!(postgres_advisory, session_bound shared with_room(), |server: &Postgres, namespaces| {
        sessions(&server.url(), namespaces)
    });

    /// A pooler, and the server behind it.
    fn pooled(mode: PoolMode) -> (PgBouncer, Postgres) {
        let server = Postgres::start();
        (PgBouncer::to(&server, mode), server)
    }

    conformance!(postgres_through_a_session_pooler, shared pooled(PoolMode::Session), |pooled: &(PgBouncer, Postgres), namespaces| {
        shared(&pooled.0.url(), namespaces)
    });

    /// Nothing is heard through it, which the store finds out when somebody first listens.
    fn without_wake_ups(url: &str, namespaces: [&str; 2]) -> Subject {
        let subject = shared(url, namespaces);
        let name = leasehold::LockName::new("first").expect("it is a name");
        let listens = async {
            while subject.store().traits().wake_ups {
                drop(subject.store().subscribe(&name).await.expect("a subscription is answered"));
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(listens));
        subject
    }

    conformance!(postgres_through_a_transaction_pooler, shared pooled(PoolMode::Transaction), |pooled: &(PgBouncer, Postgres), namespaces| {
        without_wake_ups(&pooled.0.url(), namespaces)
    });
}

#[cfg(feature = "mysql")]
mod in_mysql {
    use leasehold_testkit::conformance::Subject;
    use leasehold_testkit::servers::MariaDb;

    use super::*;

    conformance!(mariadb, shared MariaDb::start(), |server: &MariaDb, namespaces| shared(&server.url(), namespaces));

    /// A server with ShedLock's table.
    fn beside_shedlock() -> MariaDb {
        let server = MariaDb::start();
        server.sql(
            "create table jobs.shedlock(name varchar(64) not null, lock_until timestamp(3) not null, \
             locked_at timestamp(3) not null default current_timestamp(3), locked_by varchar(255) not null, \
             primary key (name))",
        );
        server
    }

    conformance!(mariadb_beside_shedlock, plain shared beside_shedlock(), |server: &MariaDb, _: [&str; 2]| {
        let store = leasehold::stores::open(&format!("{}?compat=shedlock", server.url()));
        Subject::new(store.expect("the URL is right"))
    });

    /// Session locks in a server that all cases share.
    fn sessions(server: &MariaDb, namespaces: [&str; 2]) -> Subject {
        let [store, other] = namespaces.map(|namespace| {
            let url = format!("{}?mode=advisory&namespace={namespace}", server.url());
            leasehold::stores::open(&url).expect("the URL is right")
        });
        Subject::new(store).other_namespace(other)
    }

    /// Each lock has a session, and the names of some cases are many.
    fn with_room() -> MariaDb {
        MariaDb::options().set("max-connections", "600").start()
    }

    conformance!(mariadb_advisory, session_bound shared with_room(), sessions);
}

/// Three members in memory.
fn quorum(member: fn() -> Arc<dyn Store>) -> Arc<dyn Store> {
    let members = ["a", "b", "c"].map(|name| (name.to_owned(), member()));
    Arc::new(leasehold::stores::Quorum::of(members).expect("three members"))
}

conformance!(quorum_in_real_time, unqueued, quorum(memory));
conformance!(quorum_in_paused_time, unqueued, paused, quorum(paused_memory));

/// Stores made of stores in real servers. What is dear to be had, a route in force and a quorum that was founded, all cases
/// share: they are in one namespace.
#[cfg(feature = "redis")]
mod of_servers {
    use leasehold::{Locks, Outcome};
    use leasehold_testkit::conformance::Subject;
    use leasehold_testkit::process::eventually_async;
    use leasehold_testkit::servers::Redis;

    use super::*;

    const SOON: Duration = Duration::from_secs(60);

    /// Waits until the store grants locks, and `is_so` while one is held.
    fn once_it_grants(store: &Arc<dyn Store>, is_so: impl Fn() -> bool) {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
        runtime.block_on(async {
            let locks = Locks::over(Arc::clone(store));
            let lock = locks.lock("first").ttl(Duration::from_secs(10));
            eventually_async("it grants locks", SOON, async || {
                let Ok(Outcome::Acquired(guard)) = lock.try_acquire().await else { return false };
                let is_so = is_so();
                guard.release().await.is_ok() && is_so
            })
            .await;
            locks.shutdown().await;
        });
    }

    const MINUTES: Duration = Duration::from_secs(600);

    /// As if it had been up for minutes: the longest leases of the cases would have to be waited for.
    fn has_been_up(server: &Redis) {
        let told = ["server", "replication"].map(|section| server.command(&["INFO", section]).text()).concat();
        let fact = |name: &str| {
            let value = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.expect("a server says what it is").trim().to_owned()
        };
        let key = format!("leasehold:default:since:{}-{}:{{}}", fact("run_id"), fact("master_replid"));
        server.command(&["HSET", &key, "since", "1"]);
    }

    fn of(servers: &[Redis; 3]) -> Arc<dyn Store> {
        let urls = servers.each_ref().map(|server| format!("{}?max_ttl={}", server.url(), MINUTES.as_secs()));
        Arc::new(leasehold::stores::open_quorum(&urls).expect("they go together"))
    }

    /// A new one counts ticks of the next minutes as run; this one was founded long ago.
    fn founded() -> [Redis; 3] {
        let servers = [0; 3].map(|_| Redis::start());
        servers.iter().for_each(has_been_up);
        // One that is late is founded a moment later, and not at all where nobody asks any more.
        let is_founded =
            |server: &Redis| server.command(&["HEXISTS", "leasehold:default:life", "founded"]).integer() == 1;
        once_it_grants(&of(&servers), || servers.iter().all(is_founded));
        servers.iter().for_each(|server| drop(server.command(&["HSET", "leasehold:default:life", "floor", "1"])));
        servers
    }

    /// All of whose members have been met: one that is connected to late misses a claim, and the others go on without it.
    fn of_whom_all_are_there(servers: &[Redis; 3]) -> Arc<dyn Store> {
        let store = of(servers);
        let all_answer = eventually_async("all members answer", SOON, async || {
            let found = store.diagnose().await.unwrap_or_default();
            found.first().is_some_and(|first| first.message.contains("all of its 3 members answer"))
        });
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(all_answer));
        store
    }

    conformance!(quorum_of_redis, of_many shared founded(), |servers: &[Redis; 3], _: [&str; 2]| Subject::new(
        of_whom_all_are_there(servers)
    ));

    #[cfg(feature = "postgres")]
    mod as_primary_and_arbiter {
        use leasehold_testkit::servers::Postgres;

        use super::*;

        /// A primary and an arbiter.
        type Pair = (Redis, Postgres);

        fn over((primary, arbiter): &Pair) -> Arc<dyn Store> {
            let open = |url: String| leasehold::stores::open(&url).expect("the URL is right");
            let (primary, arbiter) = (open(primary.url()), open(arbiter.url()));
            // Were they shorter, nothing would be granted while the machine is busy for a moment.
            let spans = Settings::default().route_lease(Duration::from_secs(5)).down_after(Duration::from_secs(5));
            let spans = spans.up_after(24 * 6 * MINUTES); // It stays where it is.
            Arc::new(Fallback::over(primary, arbiter, spans).expect("they go together"))
        }

        /// Its primary is in use, or its arbiter.
        fn grants(pair: &Pair, by_primary: bool) {
            once_it_grants(&over(pair), || {
                let there = pair.0.command(&["EXISTS", "leasehold:default:{first}"]).integer() == 1;
                assert_eq!(there, by_primary);
                true
            });
        }

        fn in_use() -> Pair {
            // What isn't on its disk makes a bad arbiter, of which it is told.
            let arbiter = Postgres::options().config("fsync", "on").config("full_page_writes", "on");
            let pair = (Redis::start(), arbiter.start());
            grants(&pair, true);
            pair
        }

        /// Its primary was away, and is back.
        fn moved() -> Pair {
            let pair = in_use();
            pair.0.kill();
            once_it_grants(&over(&pair), || true);
            pair.0.restart();
            grants(&pair, false);
            pair
        }

        /// Who has read the route.
        fn subject(pair: &Pair, _: [&str; 2]) -> Subject {
            let store = over(pair);
            let reads_it = eventually_async("it knows the route", SOON, async || store.list().await.is_ok());
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(reads_it));
            Subject::new(store)
        }

        conformance!(fallback_on_its_primary, one_holder shared in_use(), subject);
        conformance!(fallback_on_its_arbiter, one_holder shared moved(), subject);
    }
}
