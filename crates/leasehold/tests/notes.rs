//! Stores that keep notes: what each must do is in the conformance suite.

use std::sync::Arc;

use leasehold::Store;
use leasehold::layers::Timeout;
use leasehold::stores::fallback::{Fallback, Settings};
use leasehold::stores::{Memory, Quorum};
#[cfg(any(feature = "redis", feature = "etcd"))]
use leasehold::{ErrorKind, Locks};
use leasehold_testkit::conformance::notes::CASES;
use leasehold_testkit::conformance::{Subject, run_all};

fn memory() -> Arc<dyn Store> {
    Arc::new(Memory::default())
}

#[test]
fn memory_keeps_notes() {
    run_all(&(), |(), _| Subject::from(memory()), CASES);
}

#[test]
fn so_it_does_behind_a_time_limit() {
    run_all(&(), |(), _| Subject::from(Arc::new(Timeout::over(memory())) as Arc<dyn Store>), CASES);
}

/// Members that are asked one after the other.
fn quorum(members: impl IntoIterator<Item = Arc<dyn Store>>) -> Arc<dyn Store> {
    let named = members.into_iter().enumerate().map(|(nth, member)| (format!("m{nth}"), member));
    Arc::new(Quorum::of(named).expect("they can be members"))
}

#[test]
fn a_quorum_keeps_notes() {
    run_all(&(), |(), _| Subject::from(quorum([(); 3].map(|()| memory()))), CASES);
}

#[test]
fn a_fallback_keeps_them_in_its_arbiter() {
    run_all(&(), |(), _| Subject::from(fallback(memory(), memory())), CASES);
}

fn fallback(primary: Arc<dyn Store>, arbiter: Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(Fallback::over(primary, arbiter, Settings::default()).expect("they go together"))
}

/// One behind the keys of others.
#[cfg(any(feature = "redis", feature = "etcd"))]
#[tokio::test]
async fn who_keeps_none_says_so() {
    assert!(Locks::over(memory()).notes().is_ok());
    let urls = [
        #[cfg(feature = "redis")]
        "redis://127.0.0.1:1?compat=plain",
        #[cfg(feature = "etcd")]
        "etcd://127.0.0.1:1?compat=etcdctl",
    ];
    for url in urls {
        let locks = Locks::connect(url).await.expect("nobody is asked yet");
        let error = locks.notes().map(drop).expect_err("it keeps none");
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn a_file_keeps_notes() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let url = format!("sqlite://{}/locks.db", directory.path().display());
    let open = |url: &String, namespaces: [&str; 2]| {
        let [store, other] = namespaces.map(|namespace| {
            leasehold::stores::open(&format!("{url}?namespace={namespace}")).expect("the file can be opened")
        });
        Subject::new(store).other_namespace(other)
    };
    run_all(&url, open, CASES);
}

#[cfg(feature = "redis")]
mod on_a_server {
    use leasehold_testkit::servers::{Redis, RedisCluster};

    use super::*;

    fn open(url: &String, namespaces: [&str; 2]) -> Subject {
        let [store, other] = namespaces.map(|namespace| {
            leasehold::stores::open(&format!("{url}?namespace={namespace}&restart_guard=off"))
                .expect("the URL is right")
        });
        Subject::new(store).other_namespace(other)
    }

    #[test]
    fn redis_keeps_notes() {
        let server = Redis::start();
        run_all(&server.url(), open, CASES);
    }

    #[tokio::test]
    async fn the_doctor_knows_notes() {
        use leasehold::store::{Note, NoteId, Topic};

        let server = Redis::start();
        let store = leasehold::stores::open(&server.url()).expect("the URL is right");
        let topic = Topic::of_all("tests").about(leasehold::LockName::new("job").expect("it is legal"));
        let id = NoteId::new("1").expect("it is legal");
        let note = Note { topic, id, text: String::new(), keep: std::time::Duration::from_secs(60), most: 1 };
        store.as_notes().expect("it keeps notes").note(&[note]).await.expect("it is written");
        let findings = store.diagnose().await.expect("it is examined");
        assert!(!findings.iter().any(|finding| finding.message.contains("no keys of ours")), "{findings:?}");
    }

    #[test]
    fn a_cluster_keeps_notes() {
        let cluster = RedisCluster::start();
        run_all(&cluster.url(), open, CASES);
    }

    #[test]
    fn a_quorum_of_servers_keeps_notes() {
        let servers = [(); 3].map(|()| Redis::start());
        let open = |servers: &[Redis; 3], namespaces: [&str; 2]| {
            let [store, other] = namespaces.map(|namespace| {
                quorum(servers.each_ref().map(|server| {
                    leasehold::stores::open(&format!("{}?namespace={namespace}", server.url()))
                        .expect("the URL is right")
                }))
            });
            Subject::new(store).other_namespace(other)
        };
        run_all(&servers, open, CASES);
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn a_fallback_of_a_server_and_a_file_keeps_notes() {
        let (server, directory) = (Redis::start(), tempfile::tempdir().expect("a directory can be made"));
        let file = format!("sqlite://{}/locks.db", directory.path().display());
        let open = |(server, file): &(Redis, String), namespaces: [&str; 2]| {
            let [store, other] = namespaces.map(|namespace| {
                let [primary, arbiter] = [&server.url(), file].map(|url| {
                    leasehold::stores::open(&format!("{url}?namespace={namespace}")).expect("the URL is right")
                });
                fallback(primary, arbiter)
            });
            Subject::new(store).other_namespace(other)
        };
        run_all(&(server, file), open, CASES);
    }
}

#[cfg(feature = "etcd")]
mod in_etcd {
    use leasehold_testkit::servers::{Etcd, EtcdCluster};

    use super::*;

    fn open(url: &String, namespaces: [&str; 2]) -> Subject {
        let [store, other] = namespaces.map(|namespace| {
            leasehold::stores::open(&format!("{url}?namespace={namespace}")).expect("the URL is right")
        });
        Subject::new(store).other_namespace(other)
    }

    #[test]
    fn etcd_keeps_notes() {
        let server = Etcd::start();
        run_all(&server.url(), open, CASES);
    }

    #[test]
    fn an_etcd_cluster_keeps_notes() {
        let cluster = EtcdCluster::start();
        run_all(&cluster.url(), open, CASES);
    }
}

/// What else is to be known of notes in databases is in `sql_notes`.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn in_namespaces(url: &str, namespaces: [&str; 2]) -> Subject {
    let [store, other] = namespaces
        .map(|namespace| leasehold::stores::open(&format!("{url}?namespace={namespace}")).expect("the URL is right"));
    Subject::new(store).other_namespace(other)
}

#[cfg(feature = "postgres")]
mod in_postgres {
    use leasehold_testkit::servers::{PgBouncer, PoolMode, Postgres};

    use super::*;

    fn is_clean(server: &Postgres) {
        assert_eq!(server.errors(), Vec::<String>::new());
    }

    #[test]
    fn postgres_keeps_notes() {
        let server = Postgres::start();
        run_all(&server, |server: &Postgres, names| in_namespaces(&server.url(), names), CASES);
        is_clean(&server);
    }

    #[test]
    fn so_it_does_through_a_pooler_in_transaction_mode() {
        let server = Postgres::start();
        let pooler = PgBouncer::to(&server, PoolMode::Transaction);
        run_all(&pooler, |pooler: &PgBouncer, names| in_namespaces(&pooler.url(), names), CASES);
        is_clean(&server);
    }

    #[test]
    fn so_it_does_whatever_level_and_zone_are_set() {
        let server = Postgres::options()
            .config("default_transaction_isolation", "serializable")
            .config("timezone", "Pacific/Chatham")
            .start();
        run_all(&server, |server: &Postgres, names| in_namespaces(&server.url(), names), CASES);
        is_clean(&server);
    }
}

#[cfg(feature = "mysql")]
mod in_mariadb {
    use leasehold_testkit::servers::MariaDb;

    use super::*;

    #[test]
    fn mariadb_keeps_notes() {
        run_all(&MariaDb::start(), |server: &MariaDb, names| in_namespaces(&server.url(), names), CASES);
    }

    #[test]
    fn so_it_does_whatever_is_set_for_all_sessions() {
        let server = MariaDb::options()
            .set("transaction-isolation", "SERIALIZABLE")
            .set("autocommit", "0")
            .set("default-time-zone", "+09:00")
            .set("sql-mode", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH")
            .set("character-set-server", "latin1")
            .start();
        run_all(&server, |server: &MariaDb, names| in_namespaces(&server.url(), names), CASES);
    }
}
