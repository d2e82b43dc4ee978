//! Stores that keep notes: what each must do is in the conformance suite.

use std::sync::Arc;

use leasehold::layers::Timeout;
use leasehold::stores::Memory;
use leasehold::{ErrorKind, Locks, Store};
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

#[tokio::test]
async fn who_keeps_none_says_so() {
    assert!(Locks::over(memory()).notes().is_ok());
    let members = (0..3).map(|nth| (format!("m{nth}"), memory()));
    let quorum = leasehold::stores::Quorum::of(members).expect("memory can be a member");
    let error = Locks::over(Arc::new(quorum)).notes().map(drop).expect_err("it keeps none");
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
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
}
