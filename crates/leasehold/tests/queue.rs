//! Who waits for a lock, asked of a client. That each store tells of those in its line is in `conformance.rs`; here it is
//! whom it has to tell of, and what is told of them.

use std::sync::Arc;
use std::time::Duration;

use leasehold::layers::Timeout;
use leasehold::stores::{Memory, Quorum};
use leasehold::{Guard, HolderId, LockName, Locks, Outcome, Store, Wait, Waiter};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::{Fault, Faulty, Operation};
use tokio::task::JoinHandle;

const SOON: Duration = Duration::from_secs(20);

/// What people and jobs are called, and who would like to be something else.
const LABELS: [&str; 4] = [
    "web-1/41/backup",
    " <script>alert(1)</script> 7 | ' \" \\ % {0} ",
    "\u{202e}\u{5d0}\u{5d1} \u{1f512}/1\n2 3",
    "leasehold/1 held 1 0 x",
];

const NAMES: [&str; 3] = ["nightly-backup", "<script>'\";--</script>", "a/b%2F{c} \u{5d0}\u{5d1}"];

fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

async fn acquired(locks: &Locks, name: &LockName) -> Guard {
    match locks.lock(name.as_str()).try_acquire().await.unwrap() {
        Outcome::Acquired(guard) => guard,
        other => panic!("{name} is not free: {other:?}"),
    }
}

/// One of a client's locks that waits, and is told of by then.
async fn waits(locks: &Locks, name: &LockName, label: &str, so_many: usize) -> JoinHandle<Guard> {
    let lock = locks.lock(name.as_str()).label(label).wait(Wait::Forever);
    let waits = tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() });
    eventually_async("it waits", SOON, async || locks.queue(name).await.unwrap().len() == so_many).await;
    waits
}

fn holders(line: &[Waiter]) -> Vec<Option<HolderId>> {
    line.iter().map(|waiter| waiter.holder).collect()
}

/// Clients that wait for the locks of another are told with their labels, as they were written, where the store keeps
/// labels; and no longer once they have got it or have given up.
async fn those_who_wait_are_told(open: impl Fn() -> Locks, keeps_labels: bool) {
    let holder = open();
    for name in NAMES.map(name) {
        assert_eq!(holder.queue(&name).await.unwrap(), []);
        let guard = acquired(&holder, &name).await;
        let mut waiting = Vec::new();
        let clients: Vec<_> = LABELS.iter().map(|_| open()).collect();
        for (nth, (client, label)) in clients.iter().zip(LABELS).enumerate() {
            waiting.push(waits(client, &name, label, nth + 1).await);
        }
        let line = holder.queue(&name).await.unwrap();
        let labels: Vec<_> = line.iter().map(|waiter| waiter.label.as_str()).collect();
        assert_eq!(labels, if keeps_labels { LABELS } else { [""; 4] }, "{name}");
        let ages: Vec<_> = line.iter().map(|waiter| waiter.waited.expect("the store knows since when")).collect();
        assert!(ages.is_sorted_by(|first, next| first >= next) && ages[0] < SOON, "{ages:?}");

        waiting.remove(2).abort();
        eventually_async("it has given up", SOON, async || holder.queue(&name).await.unwrap().len() == 3).await;
        let rest = holders(&[&line[..2], &line[3..]].concat());
        assert_eq!(holders(&holder.queue(&name).await.unwrap()), rest, "the others keep their places");

        guard.release().await.unwrap();
        for (nth, waiting) in waiting.into_iter().enumerate() {
            let next = tokio::time::timeout(SOON, waiting).await.expect("its turn comes").unwrap();
            assert_eq!(Some(next.holder()), rest[nth], "the next in line");
            assert_eq!(holders(&holder.queue(&name).await.unwrap()), &rest[nth + 1..]);
            next.release().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_memory() {
    let memory = Memory::default();
    those_who_wait_are_told(|| Locks::over(Arc::new(memory.clone())), true).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/locks.db", directory.path().display());
    those_who_wait_are_told(|| Locks::builder().connect(&url).unwrap(), true).await;
}

#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_redis() {
    let server = leasehold_testkit::servers::Redis::start();
    those_who_wait_are_told(|| Locks::builder().connect(&server.url()).unwrap(), true).await;
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_etcd() {
    let server = leasehold_testkit::servers::Etcd::start();
    those_who_wait_are_told(|| Locks::builder().connect(&server.url()).unwrap(), true).await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_postgres() {
    let server = leasehold_testkit::servers::Postgres::start();
    those_who_wait_are_told(|| Locks::builder().connect(&server.url()).unwrap(), true).await;
}

#[cfg(feature = "mysql")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_mariadb_whose_table_has_no_labels() {
    let server = leasehold_testkit::servers::MariaDb::start();
    those_who_wait_are_told(|| Locks::builder().connect(&server.url()).unwrap(), false).await;
}

/// Of a client that has a line of its own, one is told at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_each_client_one_stands_in_the_stores_line() {
    let memory = Memory::default();
    let open = || Locks::over(Arc::new(memory.clone()));
    let (holder, [one, other], name) = (open(), [open(), open()], name("job"));
    let guard = acquired(&holder, &name).await;
    let waiting = [waits(&one, &name, "a", 1).await, waits(&one, &name, "b", 1).await];
    let third = waits(&other, &name, "c", 2).await;
    let labels = async || holder.queue(&name).await.unwrap().into_iter().map(|waiter| waiter.label).collect::<Vec<_>>();
    assert_eq!(labels().await, ["a", "c"]);
    guard.release().await.unwrap();
    let [first, second] = waiting;
    first.await.unwrap().release().await.unwrap();
    third.await.unwrap().release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
    assert_eq!(labels().await, [""; 0]);
}

/// No member of a quorum knows in which order the others were asked: nobody is told, though somebody waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quorum_has_no_line() {
    let members: Vec<_> = (0..3).map(|_| Memory::default()).collect();
    let quorum = || {
        let stores = members.iter().map(|member| Arc::new(member.clone()) as Arc<dyn Store>);
        Locks::over(Arc::new(Quorum::of(stores.map(|store| ("member".to_owned(), store))).unwrap()))
    };
    let (holder, waiter, name) = (quorum(), quorum(), name("job"));
    let guard = acquired(&holder, &name).await;
    let lock = waiter.lock("job").wait(Wait::Forever);
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() });
    assert_eq!(holder.queue(&name).await.unwrap(), []);
    guard.release().await.unwrap();
    let next = tokio::time::timeout(SOON, waiting).await.expect("its turn comes").unwrap();
    assert_eq!(holder.queue(&name).await.unwrap(), []);
    next.release().await.unwrap();
}

/// What keeps a store from telling is told as for any other call, and nobody waits for it for ever.
#[tokio::test(start_paused = true)]
async fn who_can_not_be_asked_says_so() {
    let faulty = Faulty::over(Arc::new(Memory::default()));
    let faults = faulty.faults();
    let store = Timeout::over(Arc::new(faulty));
    faults.next(Operation::Queue, Fault::Fail(leasehold::ErrorKind::AccessDenied));
    assert_eq!(store.queue(&name("job")).await.unwrap_err().kind(), leasehold::ErrorKind::AccessDenied);
    faults.next(Operation::Queue, Fault::HangBefore);
    assert_eq!(store.queue(&name("job")).await.unwrap_err().kind(), leasehold::ErrorKind::TimedOut);
    assert_eq!(store.queue(&name("job")).await.unwrap(), []);
}
