//! Fences in transactions of rusqlite: who gets through, who doesn't, and what is held up meanwhile.
#![cfg(feature = "fence-rusqlite")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::BoxFuture;
use leasehold::fence::rusqlite::{fenced, register_fence};
use leasehold::stores::Memory;
use leasehold::stores::sqlite::Sqlite;
use leasehold::validity::{self, BootClock, Clock, Moment};
use leasehold::{
    Ended, Error, ErrorKind, Event, FencingToken, Guard, LeaseKey, Lock, Locks, LossReason, NotDue, Outcome, Release,
    Released, Revoke, Store, Tick, Wait, blocking,
};
use leasehold_testkit::process::{self, Worker, argument, eventually, eventually_async, say};
use leasehold_testkit::{Fault, Faulty, Operation};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(1);

#[test]
fn worker() {
    process::serve(&[
        ("pause_in_the_fence", pause_in_the_fence),
        ("pause_before_fenced", pause_before_fenced),
        ("race_with_the_fence", race_with_the_fence),
        ("race_with_fenced", race_with_fenced),
    ]);
}

// What all tests use.

/// The locks' file and the job's, which may be the same.
struct Scene {
    dir: TempDir,
    way: Way,
}

/// How a job's transaction reaches the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A file of its own, to which that of the locks is attached.
    Attached,
    /// The locks' file has the job's tables in it.
    SameFile,
}

impl Scene {
    fn new(way: Way) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), way }
    }

    fn both() -> [Self; 2] {
        [Way::Attached, Way::SameFile].map(Self::new)
    }

    fn locks_file(&self) -> PathBuf {
        self.dir.path().join("locks.db")
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.locks_file().display())
    }

    fn store(&self) -> Arc<Sqlite> {
        Arc::new(Sqlite::open(&self.url()).unwrap())
    }

    fn locks(&self) -> Locks {
        Locks::over(self.store())
    }

    /// A client that is paused: its clock stands still, so it renews nothing and believes in its lease for ever. What
    /// a fence asks of it has always been answered before the pause.
    fn paused(&self) -> Locks {
        Locks::builder().simulated(Arc::new(Stopped)).over(self.store())
    }

    /// The job's connection. The locks' file has to be there.
    fn jobs(&self) -> Connection {
        job_connection(self.dir.path(), self.way)
    }

    fn begin<'a>(&self, jobs: &'a mut Connection) -> Transaction<'a> {
        begin(jobs, self.way)
    }

    fn worker(&self, function: &str, more: &[(&str, &str)]) -> Worker {
        let dir = self.dir.path().display().to_string();
        let way = format!("{:?}", self.way);
        Worker::start("worker", function, &[&[("DIR", &*dir), ("WAY", &*way)], more].concat())
    }
}

fn job_connection(dir: &Path, way: Way) -> Connection {
    let locks = dir.join("locks.db");
    let jobs = match way {
        Way::Attached => {
            let jobs = Connection::open(dir.join("jobs.db")).unwrap();
            jobs.execute("attach ?1 as \"the locks\"", [locks.to_str()]).unwrap();
            jobs.query_row("pragma main.journal_mode = wal", [], |_| Ok(())).unwrap();
            jobs
        }
        Way::SameFile => Connection::open(locks).unwrap(),
    };
    jobs.execute_batch("create table if not exists main.writes(at integer primary key autoincrement, token integer)")
        .unwrap();
    jobs
}

/// As is right for each way.
fn begin(jobs: &mut Connection, way: Way) -> Transaction<'_> {
    let behavior = match way {
        Way::Attached => TransactionBehavior::Deferred,
        Way::SameFile => TransactionBehavior::Immediate,
    };
    jobs.transaction_with_behavior(behavior).unwrap()
}

#[derive(Debug)]
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Moment {
        Moment::from_nanos(1 << 40)
    }

    fn sleep_until(&self, _at: Moment) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

async fn acquired(lock: &Lock) -> Guard {
    lock.try_acquire().await.unwrap().guard().expect("the lock is free")
}

/// Waits for a lease to end, and takes it.
async fn taken(lock: &Lock) -> Guard {
    let outcome = lock.clone().wait(Wait::For(SOON)).acquire().await.unwrap();
    outcome.guard().expect("its time is over")
}

fn write(tx: &Connection, token: FencingToken) {
    tx.execute("insert into main.writes(token) values(?1)", [token.number().cast_signed()]).unwrap();
}

/// The tokens of all writes, in their order.
fn writes(jobs: &Connection) -> Vec<u64> {
    let mut all = jobs.prepare("select token from main.writes order by at").unwrap();
    let tokens = all.query_map([], |row| row.get::<_, i64>(0)).unwrap();
    tokens.map(|token| token.unwrap().cast_unsigned()).collect()
}

/// One write of the job as it should be.
fn job(scene: &Scene, jobs: &mut Connection, guard: &Guard) -> Result<(), Error> {
    let tx = scene.begin(jobs);
    write(&tx, guard.token());
    guard.fence(&tx)?.commit(tx).unwrap();
    Ok(())
}

fn assert_stale(done: Result<(), Error>) {
    let error = done.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stale, "{error}");
    assert!(error.to_string().contains("roll"), "{error}");
    assert!(!error.is_transient());
}

fn release_by_another(scene: &Scene, guard: &Guard) -> BoxFuture<'static, ()> {
    let (store, key) = (scene.store(), LeaseKey { name: guard.name().clone(), holder: guard.holder() });
    Box::pin(async move {
        assert_eq!(store.release(&key, Ended::default()).await.unwrap(), Release::Released);
    })
}

fn alter(scene: &Scene, sql: &str) {
    let db = Connection::open(scene.locks_file()).unwrap();
    assert_eq!(db.execute(sql, []).unwrap(), 1, "{sql}");
}

/// Whether anybody can write to the locks' file at this moment.
fn is_writable(scene: &Scene) -> bool {
    let db = Connection::open(scene.locks_file()).unwrap();
    db.busy_timeout(Duration::ZERO).unwrap();
    db.execute_batch("begin immediate; rollback").is_ok()
}

// Who gets through.

#[tokio::test]
async fn a_holder_writes_as_often_as_it_likes() {
    for scene in Scene::both() {
        let guard = acquired(&scene.locks().lock("job")).await;
        let mut jobs = scene.jobs();
        for _ in 0..3 {
            job(&scene, &mut jobs, &guard).unwrap();
        }
        assert_eq!(writes(&jobs), [guard.token().number(); 3]);
        assert_eq!(guard.release().await.unwrap(), Released::InTime);
    }
}

#[tokio::test]
async fn nothing_of_a_stale_transaction_stays() {
    for scene in Scene::both() {
        let guard = acquired(&scene.paused().lock("job").ttl(SHORT)).await;
        let mut jobs = scene.jobs();
        let newer = taken(&scene.locks().lock("job")).await;
        job(&scene, &mut jobs, &newer).unwrap();
        assert!(guard.is_valid(), "it was paused after it had looked");
        assert_stale(job(&scene, &mut jobs, &guard));
        assert_eq!(writes(&jobs), [newer.token().number()]);
        assert!(is_writable(&scene), "and the lock of the file is free");
    }
}

#[tokio::test]
async fn a_stale_fence_tells_its_guard() {
    let scene = Scene::new(Way::Attached);
    let (told, refused) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
    let (log, count) = (Arc::clone(&told), Arc::clone(&refused));
    let observer = move |event: &Event<'_>| match event {
        Event::Lost { reason, .. } => log.lock().unwrap().push((*reason).clone()),
        Event::Stale { error, .. } if error.kind() == ErrorKind::Stale => *count.lock().unwrap() += 1,
        _ => {}
    };
    let locks = Locks::builder().observer(observer).simulated(Arc::new(Stopped)).over(scene.store());
    let guard = acquired(&locks.lock("job")).await;
    scene.locks().revoke("job", Revoke::Now).await.unwrap();
    for _ in 0..2 {
        assert_stale(job(&scene, &mut scene.jobs(), &guard));
    }
    assert!(!guard.is_valid());
    assert_eq!(guard.loss(), Some(LossReason::Gone));
    assert_eq!(*told.lock().unwrap(), [LossReason::Gone], "once");
    assert_eq!(*refused.lock().unwrap(), 2, "of each transaction");
}

#[tokio::test]
async fn a_lease_that_has_ended_by_our_own_clock_is_not_asked_for() {
    let scene = Scene::new(Way::Attached);
    let faulty = Faulty::over(scene.store());
    faulty.keeper_faults().always(Operation::Renew, Fault::LoseRequest);
    let guard = acquired(&Locks::over(Arc::new(faulty)).lock("job").ttl(SHORT)).await;
    let mut jobs = scene.jobs();
    eventually_async("its time is over", SOON, async || !guard.is_valid()).await;
    // Nobody has taken it, and the row would say that it is ours.
    assert_stale(job(&scene, &mut jobs, &guard));
    assert!(writes(&jobs).is_empty());
}

#[tokio::test]
async fn a_lease_that_ended_unseen_and_was_not_taken_is_still_ours() {
    for scene in Scene::both() {
        let guard = acquired(&scene.paused().lock("job").ttl(SHORT)).await;
        let others = scene.locks();
        let over = async || others.inspect("job").await.unwrap().is_none();
        eventually_async("its time is over", SOON, over).await;
        job(&scene, &mut scene.jobs(), &guard).unwrap();
        // Whoever is granted it now comes after that write.
        let newer = taken(&others.lock("job")).await;
        assert!(newer.token() > guard.token());
    }
}

#[tokio::test]
async fn who_was_revoked_gently_still_holds_and_who_was_cut_does_not() {
    for scene in Scene::both() {
        let others = scene.locks();
        let (gently, now) = (acquired(&others.lock("gently")).await, acquired(&others.lock("now")).await);
        others.revoke("gently", Revoke::Gently).await.unwrap();
        others.revoke("now", Revoke::Now).await.unwrap();
        let mut jobs = scene.jobs();
        job(&scene, &mut jobs, &gently).unwrap();
        assert_stale(job(&scene, &mut jobs, &now));
    }
}

#[tokio::test]
async fn rows_that_are_not_this_lease_let_nobody_through() {
    for scene in Scene::both() {
        let (locks, mut jobs) = (scene.paused(), None);
        for change in [
            "delete from leasehold_locks",
            "update leasehold_locks set ns = 'another'",
            "update leasehold_locks set name = 'Job'",
            "update leasehold_locks set token = token + 1",
            "update leasehold_locks set holder = null",
        ] {
            let guard = acquired(&locks.lock("job")).await;
            let jobs = jobs.get_or_insert_with(|| scene.jobs());
            job(&scene, jobs, &guard).unwrap();
            alter(&scene, change);
            assert_stale(job(&scene, jobs, &guard));
            Connection::open(scene.locks_file()).unwrap().execute("delete from leasehold_locks", []).unwrap();
        }
    }
}

#[tokio::test]
async fn a_lease_that_was_released_behind_its_guard_is_gone() {
    for scene in Scene::both() {
        let guard = acquired(&scene.locks().lock("job")).await;
        release_by_another(&scene, &guard).await;
        assert_stale(job(&scene, &mut scene.jobs(), &guard));
    }
}

#[tokio::test]
async fn namespaces_are_told_apart() {
    for scene in Scene::both() {
        let in_namespace = |name: &str| Locks::builder().connect(&format!("{}?namespace={name}", scene.url())).unwrap();
        let (a, b) = (in_namespace("a"), in_namespace("b"));
        let (ours, theirs) = (acquired(&a.lock("job")).await, acquired(&b.lock("job")).await);
        let mut jobs = scene.jobs();
        job(&scene, &mut jobs, &ours).unwrap();
        b.revoke("job", Revoke::Now).await.unwrap();
        job(&scene, &mut jobs, &ours).unwrap();
        assert_stale(job(&scene, &mut jobs, &theirs));
    }
}

#[tokio::test]
async fn of_several_permits_each_holder_has_its_own_fence() {
    for scene in Scene::both() {
        let locks = scene.locks();
        let lock = locks.lock("job").permits(3);
        let guards = [acquired(&lock).await, acquired(&lock).await, acquired(&lock).await];
        let mut jobs = scene.jobs();
        locks.revoke_one("job", guards[1].holder(), Revoke::Now).await.unwrap();
        let next = acquired(&lock).await;
        for guard in [&guards[0], &guards[2], &next] {
            job(&scene, &mut jobs, guard).unwrap();
        }
        assert_stale(job(&scene, &mut jobs, &guards[1]));
    }
}

#[tokio::test]
async fn m03_a_hold_has_one_number_over_many_renewals_and_the_next_a_larger_one() {
    let scene = Scene::new(Way::Attached);
    let renewals = Arc::new(Mutex::new(0));
    let count = Arc::clone(&renewals);
    let observer = move |event: &Event<'_>| *count.lock().unwrap() += u32::from(matches!(event, Event::Renewed { .. }));
    let locks = Locks::builder().observer(observer).over(scene.store());
    let guard = acquired(&locks.lock("job").ttl(SHORT)).await;
    let (mut jobs, token) = (scene.jobs(), guard.token());
    eventually_async("it was renewed 20 times", SOON, async || *renewals.lock().unwrap() >= 20).await;
    assert_eq!(guard.token(), token);
    job(&scene, &mut jobs, &guard).unwrap();
    guard.release().await.unwrap();
    let next = acquired(&locks.lock("job")).await;
    assert!(next.token() > token);
    job(&scene, &mut jobs, &next).unwrap();
}

#[test]
fn code_without_async_has_the_same_fence() {
    let scene = Scene::new(Way::Attached);
    let locks = blocking::Locks::connect(&scene.url()).unwrap();
    let Outcome::Acquired(guard) = locks.lock("job").try_acquire().unwrap() else { panic!("it is free") };
    let mut jobs = scene.jobs();
    let tx = jobs.transaction().unwrap();
    write(&tx, guard.token());
    guard.fence(&tx).unwrap().commit(tx).unwrap();
    locks.revoke("job", Revoke::Now).unwrap();
    let tx = jobs.transaction().unwrap();
    assert_eq!(guard.fence(&tx).unwrap_err().kind(), ErrorKind::Stale);
}

// Exactly once.

/// The same for the whole test.
fn tick() -> Tick {
    static TICK: LazyLock<i64> = LazyLock::new(|| {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        i64::try_from(since_1970.as_millis()).unwrap()
    });
    Tick::from_unix_millis(*TICK).unwrap()
}

/// A claim for one tick, which is to be tried again after a failure.
fn tonight(locks: &Locks) -> Lock {
    locks.lock("job").tick(tick()).retry_failed(true)
}

async fn is_done(lock: &Lock) -> bool {
    matches!(lock.try_acquire().await.unwrap(), Outcome::NotDue(NotDue::Claimed { unfinished: false, .. }))
}

/// A job as it should be, which is done with its commit.
fn whole_job(scene: &Scene, jobs: &mut Connection, guard: &Guard) -> Result<(), Error> {
    let tx = scene.begin(jobs);
    write(&tx, guard.token());
    guard.complete_in(&tx)?.commit(tx).unwrap();
    Ok(())
}

#[tokio::test]
async fn what_was_completed_in_a_transaction_is_done_with_its_commit() {
    for completes in [true, false] {
        let scene = Scene::new(Way::SameFile);
        let (guard, others) = (acquired(&tonight(&scene.locks())).await, scene.locks());
        let mut jobs = scene.jobs();
        assert!(!guard.may_be_complete());

        let tx = scene.begin(&mut jobs);
        write(&tx, guard.token());
        drop(guard.complete_in(&tx).unwrap());
        tx.rollback().unwrap();
        assert!(guard.may_be_complete(), "who knows");
        assert!(matches!(tonight(&others).try_acquire().await.unwrap(), Outcome::Contended(_)), "nothing has happened");

        whole_job(&scene, &mut jobs, &guard).unwrap();
        assert!(is_done(&tonight(&others)).await, "although nobody has said so by a release");
        assert_stale(whole_job(&scene, &mut jobs, &guard));
        assert!(guard.is_valid(), "the lock is ours still");
        let released = if completes { guard.complete().await } else { guard.release().await };
        assert_eq!(released.unwrap(), Released::InTime);
        assert!(is_done(&tonight(&others)).await);
        assert_eq!(writes(&jobs).len(), 1);
    }
}

#[tokio::test]
async fn what_was_rolled_back_is_begun_again_and_a_key_is_done_once() {
    let scene = Scene::new(Way::SameFile);
    let key = scene.locks().once("invoice-1", LONG * 60).retry_failed(true);
    let guard = acquired(&key).await;
    let mut jobs = scene.jobs();
    let tx = scene.begin(&mut jobs);
    drop(guard.complete_in(&tx).unwrap());
    drop(tx);
    guard.release().await.unwrap();
    let guard = acquired(&key).await;
    assert_eq!(guard.attempt(), 2);
    whole_job(&scene, &mut jobs, &guard).unwrap();
    guard.release().await.unwrap();
    assert!(is_done(&key).await);
}

#[tokio::test]
async fn whoever_was_replaced_completes_nothing() {
    let scene = Scene::new(Way::SameFile);
    let (stale, fresh) = (scene.paused(), scene.locks());
    let guard = acquired(&tonight(&stale).ttl(SHORT)).await;
    let mut jobs = scene.jobs();
    let mut next = None;
    eventually_async("the lease is over", SOON, async || {
        next = tonight(&fresh).try_acquire().await.unwrap().guard();
        next.is_some()
    })
    .await;
    assert_stale(whole_job(&scene, &mut jobs, &guard));
    assert!(writes(&jobs).is_empty());
    whole_job(&scene, &mut jobs, &next.unwrap()).unwrap();
    assert!(is_done(&tonight(&fresh)).await);
}

#[tokio::test]
async fn of_several_permits_one_may_be_free_still_and_its_tick_anothers() {
    let scene = Scene::new(Way::SameFile);
    let (stale, fresh) = (scene.paused(), scene.locks());
    let first = acquired(&fresh.lock("job").permits(2)).await;
    let guard = acquired(&tonight(&stale).permits(2).ttl(SHORT)).await;
    first.release().await.unwrap();
    eventually_async("the lease is over", SOON, async || fresh.inspect("job").await.unwrap().is_none()).await;
    let next = acquired(&tonight(&fresh).permits(2)).await;
    let mut jobs = scene.jobs();
    job(&scene, &mut jobs, &guard).unwrap(); // Nobody has been granted its permit.
    assert_stale(whole_job(&scene, &mut jobs, &guard));
    assert_eq!(writes(&jobs), [guard.token().number()]);
    whole_job(&scene, &mut jobs, &next).unwrap();
}

/// With write-ahead logs SQLite commits to one file after the other: killed in between, the work would be done and its tick open.
#[tokio::test]
async fn what_would_be_committed_to_two_files_is_refused() {
    let scene = Scene::new(Way::Attached);
    let guard = acquired(&tonight(&scene.locks())).await;
    let mut jobs = scene.jobs();
    let error = whole_job(&scene, &mut jobs, &guard).unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("jobs.db"), "{error}");
    assert!(guard.is_valid() && !guard.may_be_complete());

    // What can't be written to may be there.
    let mut jobs = job_connection(scene.dir.path(), Way::SameFile);
    let url = format!("file:{}?mode=ro", scene.dir.path().join("jobs.db").display());
    jobs.execute("attach ?1 as prices", [url]).unwrap();
    jobs.execute("attach ':memory:' as scratch", []).unwrap();
    let tx = jobs.transaction_with_behavior(TransactionBehavior::Deferred).unwrap();
    write(&tx, guard.token());
    guard.complete_in(&tx).unwrap().commit(tx).unwrap();
    assert!(is_done(&tonight(&scene.locks())).await);
}

#[tokio::test]
async fn what_cannot_be_completed_is_told() {
    let scene = Scene::new(Way::SameFile);
    let memory = Locks::over(Arc::new(Memory::default()));
    let plain = acquired(&scene.locks().lock("job")).await;
    let elsewhere = acquired(&tonight(&memory)).await;
    let other = Scene::new(Way::SameFile);
    let in_another_file = acquired(&tonight(&other.locks())).await;
    let mut jobs = scene.jobs();
    for (guard, way_out) in [(&plain, "Lock::tick"), (&elsewhere, "register_fence"), (&in_another_file, "ATTACH")] {
        let error = whole_job(&scene, &mut jobs, guard).unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(way_out), "{error}");
        assert!(guard.is_valid() && !guard.may_be_complete());
    }
}

#[test]
fn code_without_async_completes_its_ticks_too() {
    let scene = Scene::new(Way::SameFile);
    let lock = blocking::Locks::connect(&scene.url()).unwrap().lock("job");
    let lock = lock.terms(|lock| lock.tick(tick()).retry_failed(true));
    let Outcome::Acquired(guard) = lock.try_acquire().unwrap() else { panic!("it is free") };
    let mut jobs = scene.jobs();
    let tx = scene.begin(&mut jobs);
    guard.complete_in(&tx).unwrap().commit(tx).unwrap();
    assert!(guard.may_be_complete());
    drop(guard);
    assert!(matches!(lock.try_acquire().unwrap(), Outcome::NotDue(_)));
}

// Which file.

#[tokio::test]
async fn the_file_is_known_by_whatever_path_it_was_opened() {
    let scene = Scene::new(Way::Attached);
    let guard = acquired(&scene.locks().lock("job")).await;
    let (root, link) = (scene.dir.path(), scene.dir.path().join("link.db"));
    std::os::unix::fs::symlink(scene.locks_file(), &link).unwrap();
    let dotted = root.join("..").join(root.file_name().unwrap()).join("./locks.db");
    let uri = format!("file:{}?cache=private", scene.locks_file().display());
    for path in [link.to_str().unwrap(), dotted.to_str().unwrap(), &uri] {
        let mut jobs = Connection::open_in_memory().unwrap();
        jobs.execute("attach ?1 as locks", [path]).unwrap();
        let tx = jobs.transaction().unwrap();
        let fence = guard.fence(&tx).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(!is_writable(&scene), "{path}");
        fence.commit(tx).unwrap();
    }
}

#[tokio::test]
async fn k04_a_hard_link_has_a_log_of_its_own_and_is_refused() {
    let scene = Scene::new(Way::Attached);
    let guard = acquired(&scene.locks().lock("job")).await;
    let link = scene.dir.path().join("hard.db");
    fs::hard_link(scene.locks_file(), &link).unwrap();
    let mut jobs = Connection::open_in_memory().unwrap();
    jobs.execute("attach ?1 as locks", [link.to_str()]).unwrap();
    let tx = jobs.transaction().unwrap();
    let error = guard.fence(&tx).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("hard link"), "{error}");
}

#[tokio::test]
async fn a_file_that_was_replaced_lets_nobody_through() {
    for scene in Scene::both() {
        let guard = acquired(&scene.paused().lock("job")).await;
        let mut jobs = scene.jobs();
        replace(&scene);
        let error = job(&scene, &mut jobs, &guard).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains("ATTACH it again"), "{error}");
        assert!(guard.is_valid(), "whether the lease is in the new file isn't known from the old one");
        assert_stale(job(&scene, &mut scene.jobs(), &guard));
    }
}

/// Another file of locks takes the place of this one.
fn replace(scene: &Scene) {
    let other = Scene::new(scene.way);
    drop(other.store());
    for suffix in ["", "-wal", "-shm"] {
        let name = format!("locks.db{suffix}");
        fs::rename(other.dir.path().join(&name), scene.dir.path().join(&name)).unwrap();
    }
}

#[tokio::test]
async fn a_file_that_was_removed_lets_nobody_through() {
    for scene in Scene::both() {
        let guard = acquired(&scene.paused().lock("job")).await;
        let mut jobs = scene.jobs();
        for suffix in ["", "-wal", "-shm"] {
            fs::remove_file(scene.dir.path().join(format!("locks.db{suffix}"))).unwrap();
        }
        assert_stale(job(&scene, &mut jobs, &guard));
    }
}

#[tokio::test]
async fn what_cannot_be_fenced_is_refused_with_the_way_out() {
    let scene = Scene::new(Way::Attached);
    let (here, elsewhere) = (scene.locks(), Locks::over(Arc::new(Memory::default())));
    let (ours, other) = (acquired(&here.lock("job")).await, acquired(&elsewhere.lock("job")).await);
    let mut jobs = scene.jobs();
    let says = |guard: &Guard, tx: &Connection| {
        let error = guard.fence(tx).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        error.to_string()
    };
    assert!(says(&ours, &jobs).contains("begin one"));
    let tx = jobs.transaction().unwrap();
    assert!(says(&other, &tx).contains("register_fence"));
    drop(tx);
    let mut detached = Connection::open(scene.dir.path().join("jobs.db")).unwrap();
    let tx = detached.transaction().unwrap();
    assert!(says(&ours, &tx).contains("ATTACH DATABASE"));
}

// Within the transaction.

#[tokio::test]
async fn nobody_is_granted_anything_between_the_fence_and_the_commit() {
    for scene in Scene::both() {
        let guard = acquired(&scene.paused().lock("job").ttl(SHORT)).await;
        let (others, mut jobs) = (scene.locks(), scene.jobs());
        let over = async || others.inspect("job").await.unwrap().is_none();
        eventually_async("its time is over", SOON, over).await;
        let tx = scene.begin(&mut jobs);
        write(&tx, guard.token());
        let fence = guard.fence(&tx).unwrap();
        let asked = others.lock("job").ttl(LONG);
        let early = tokio::time::timeout(Duration::from_millis(300), asked.try_acquire()).await;
        assert!(early.is_err(), "it waits: {early:?}");
        fence.commit(tx).unwrap();
        let newer = taken(&asked).await;
        job(&scene, &mut jobs, &newer).unwrap();
        assert_eq!(writes(&jobs), [guard.token().number(), newer.token().number()]);
    }
}

#[tokio::test]
async fn a_transaction_on_a_file_of_its_own_holds_up_nothing_before_its_fence() {
    let scene = Scene::new(Way::Attached);
    let guard = acquired(&scene.locks().lock("job")).await;
    let mut jobs = scene.jobs();
    let tx = jobs.transaction().unwrap();
    write(&tx, guard.token());
    assert!(is_writable(&scene));
    let fence = guard.fence(&tx).unwrap();
    assert!(!is_writable(&scene));
    fence.commit(tx).unwrap();
    assert!(is_writable(&scene));
}

/// The trap in `BEGIN IMMEDIATE`, and the way round it, are SQLite's; our documentation tells of both.
#[tokio::test]
async fn an_immediate_transaction_locks_all_that_is_attached_and_nothing_that_comes_later() {
    let scene = Scene::new(Way::Attached);
    let guard = acquired(&scene.locks().lock("job")).await;
    let mut jobs = scene.jobs();
    let tx = jobs.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    assert!(!is_writable(&scene));
    drop(tx);
    jobs.execute_batch("detach \"the locks\"").unwrap();
    let tx = jobs.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    tx.execute("attach ?1 as locks", [scene.locks_file().to_str()]).unwrap();
    write(&tx, guard.token());
    assert!(is_writable(&scene));
    guard.fence(&tx).unwrap().commit(tx).unwrap();
    assert_eq!(writes(&jobs).len(), 1);
}

#[tokio::test]
async fn a_busy_file_is_told_after_the_connections_own_patience() {
    for scene in Scene::both() {
        let guard = acquired(&scene.locks().lock("job")).await;
        let (mut jobs, writer) = (scene.jobs(), Connection::open(scene.locks_file()).unwrap());
        jobs.busy_timeout(Duration::from_millis(50)).unwrap();
        writer.execute_batch("begin immediate").unwrap();
        let tx = jobs.transaction().unwrap();
        let error = guard.fence(&tx).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(error.is_transient() && error.to_string().contains("busy timeout"), "{error}");
        drop(tx);
        writer.execute_batch("rollback").unwrap();
        job(&scene, &mut jobs, &guard).unwrap();
    }
}

#[tokio::test]
async fn a_transaction_that_read_too_early_is_told_to_begin_again() {
    for scene in Scene::both() {
        let locks = scene.locks();
        let guard = acquired(&locks.lock("job")).await;
        let mut jobs = scene.jobs();
        let tx = jobs.transaction().unwrap();
        let _: i64 = tx.query_row("select count(*) from leasehold_locks", [], |row| row.get(0)).unwrap();
        let other = acquired(&locks.lock("another")).await;
        let error = guard.fence(&tx).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.is_transient() && error.to_string().contains("do the transaction again"), "{error}");
        drop(tx);
        job(&scene, &mut jobs, &guard).unwrap();
        drop(other);
    }
}

#[tokio::test]
async fn reads_and_writes_of_the_jobs_own_file_spoil_no_fence() {
    let scene = Scene::new(Way::Attached);
    let locks = scene.locks();
    let guard = acquired(&locks.lock("job")).await;
    let mut jobs = scene.jobs();
    let tx = jobs.transaction().unwrap();
    let none: i64 = tx.query_row("select count(*) from writes", [], |row| row.get(0)).unwrap();
    let other = acquired(&locks.lock("another")).await;
    write(&tx, guard.token());
    other.release().await.unwrap();
    guard.fence(&tx).unwrap().commit(tx).unwrap();
    assert_eq!(writes(&jobs).len() as i64, none + 1);
}

#[tokio::test]
async fn a_fence_in_a_savepoint_is_the_whole_transactions() {
    for scene in Scene::both() {
        let guard = acquired(&scene.locks().lock("job")).await;
        let mut jobs = scene.jobs();
        let mut tx = jobs.transaction().unwrap();
        write(&tx, guard.token());
        {
            let mut outer = tx.savepoint().unwrap();
            let inner = outer.savepoint().unwrap();
            write(&inner, guard.token());
            let _fence = guard.fence(&inner).unwrap();
            drop(inner);
            outer.rollback().unwrap();
        }
        assert!(!is_writable(&scene), "it outlives its savepoint");
        tx.commit().unwrap();
        assert_eq!(writes(&jobs).len(), 1);
        assert!(is_writable(&scene));
    }
}

#[tokio::test]
async fn a_transaction_begun_by_hand_can_be_fenced() {
    let scene = Scene::new(Way::Attached);
    let guard = acquired(&scene.locks().lock("job")).await;
    let jobs = scene.jobs();
    jobs.execute_batch("begin").unwrap();
    write(&jobs, guard.token());
    let fence = guard.fence(&jobs).unwrap();
    jobs.execute_batch("commit").unwrap();
    drop(fence);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_release_inside_the_open_fence_fails_and_is_made_up_for() {
    for scene in Scene::both() {
        let locks = scene.locks();
        let guard = acquired(&locks.lock("job")).await;
        let mut jobs = scene.jobs();
        let tx = scene.begin(&mut jobs);
        drop(guard.fence(&tx).unwrap()); // Too early: the transaction is still open.
        let asked = Instant::now();
        let error = guard.release().await.unwrap_err();
        assert!(error.is_transient(), "{error}");
        assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
        tx.commit().unwrap();
        let free = async || locks.inspect("job").await.unwrap().is_none();
        eventually_async("the keeper has released it", SOON, free).await;
    }
}

// Processes that are really paused, and such that race.

#[tokio::test]
async fn l08_m01_a_process_stopped_between_its_look_and_its_write_is_refused() {
    for scene in Scene::both() {
        let (locks, writer) = (scene.locks(), scene.jobs());
        let mut paused = scene.worker("pause_in_the_fence", &[]);
        let token: u64 = paused.hear("holds", SOON).parse().unwrap();
        // Its guard has said that it is valid; its write waits for ours, and there we stop it.
        writer.execute_batch("begin; update leasehold_locks set token = token").unwrap();
        paused.hear("waits", SOON);
        stop(&paused);
        writer.execute_batch("rollback").unwrap();
        let newer = taken(&locks.lock("job").ttl(LONG)).await;
        assert!(newer.token().number() > token);
        job(&scene, &mut scene.jobs(), &newer).unwrap();
        paused.resume();
        assert_eq!(paused.hear("was told", SOON), "Stale");
        assert_eq!(writes(&writer), [newer.token().number()]);
    }
}

/// Stops a process, and comes back once none of its threads runs any more: one that just got a lock would keep it.
fn stop(worker: &Worker) {
    worker.pause();
    let is_stopped = |stat: String| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'));
    eventually("it is stopped", SOON, || {
        let threads = fs::read_dir(format!("/proc/{}/task", worker.id())).unwrap();
        threads.flatten().all(|thread| fs::read_to_string(thread.path().join("stat")).is_ok_and(is_stopped))
    });
}

fn arguments() -> (PathBuf, Way) {
    let way = if argument("WAY") == "Attached" { Way::Attached } else { Way::SameFile };
    (PathBuf::from(argument("DIR")), way)
}

fn connected(dir: &Path) -> blocking::Locks {
    blocking::Locks::connect(&format!("sqlite:{}/locks.db", dir.display())).unwrap()
}

fn pause_in_the_fence() {
    let (dir, way) = arguments();
    let lock = connected(&dir).lock("job").ttl(SHORT);
    let mut jobs = job_connection(&dir, way);
    jobs.busy_handler(Some(|_: i32| {
        say("waits");
        std::thread::sleep(Duration::from_millis(5));
        true
    }))
    .unwrap();
    let Outcome::Acquired(guard) = lock.try_acquire().unwrap() else { panic!("it is free") };
    say(&format!("holds {}", guard.token()));
    // Until the other holds the file up.
    while is_free(&dir) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let done = jobs.transaction().map_err(Box::<dyn std::error::Error>::from).and_then(|tx| {
        assert!(guard.is_valid());
        let fence = guard.fence(&tx)?;
        write(&tx, guard.token());
        Ok(fence.commit(tx)?)
    });
    let error = done.unwrap_err();
    say(&format!("was told {:?}", error.downcast::<Error>().unwrap().kind()));
}

fn is_free(dir: &Path) -> bool {
    let db = Connection::open(dir.join("locks.db")).unwrap();
    db.busy_timeout(Duration::ZERO).unwrap();
    db.execute_batch("begin immediate; rollback").is_ok()
}

#[tokio::test]
async fn l08_m01_a_process_stopped_before_its_write_is_refused_by_the_resource() {
    let scene = Scene::new(Way::Attached);
    let locks = scene.locks();
    let mut jobs = scene.jobs();
    let mut paused = scene.worker("pause_before_fenced", &[]);
    paused.hear("valid", SOON);
    stop(&paused);
    let newer = taken(&locks.lock("job").ttl(LONG)).await;
    register_fence(&jobs, "writes", newer.token()).unwrap();
    let tx = jobs.transaction().unwrap();
    fenced(&tx, "writes", newer.token()).unwrap();
    write(&tx, newer.token());
    tx.commit().unwrap();
    fs::write(scene.dir.path().join("go"), "").unwrap();
    paused.resume();
    assert_eq!(paused.hear("was told", SOON), "Stale");
    assert_eq!(writes(&jobs), [newer.token().number()]);
}

fn pause_before_fenced() {
    let (dir, way) = arguments();
    let mut jobs = job_connection(&dir, way);
    let Outcome::Acquired(guard) = connected(&dir).lock("job").ttl(SHORT).try_acquire().unwrap() else {
        panic!("it is free")
    };
    register_fence(&jobs, "writes", guard.token()).unwrap();
    assert!(guard.is_valid());
    say("valid");
    eventually("it is told to go on", LONG, || dir.join("go").exists());
    let tx = jobs.transaction().unwrap();
    write(&tx, guard.token());
    let error = fenced(&tx, "writes", guard.token()).unwrap_err();
    say(&format!("was told {:?}", error.kind()));
}

/// Rounds of all racers together.
const ROUNDS: usize = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_racing_processes_never_write_an_older_token_after_a_newer_one() {
    for scene in Scene::both() {
        race(&scene, "race_with_the_fence").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_racing_processes_never_get_past_the_resource_with_an_older_token() {
    race(&Scene::new(Way::Attached), "race_with_fenced").await;
}

/// Two processes write as fast as they can, and a third one cuts them off again and again, so that two often run.
async fn race(scene: &Scene, function: &str) {
    let locks = scene.locks();
    let jobs = scene.jobs();
    register_fence(&jobs, "writes", FencingToken::default()).unwrap();
    let mut racers = [scene.worker(function, &[]), scene.worker(function, &[])];
    let done = Arc::new(Mutex::new(false));
    let until = Arc::clone(&done);
    let cutter = tokio::spawn(async move {
        while !*until.lock().unwrap() {
            tokio::time::sleep(Duration::from_micros(rand::random_range(500..8_000))).await;
            let _ = locks.revoke("job", Revoke::Now).await; // It may be busy; the next one isn't.
        }
    });
    let (mut written, mut stale) = (0, 0);
    for racer in &mut racers {
        let (through, refused) = tokio::task::block_in_place(|| counts(&racer.hear("done", LONG * 2)));
        (written, stale) = (written + through, stale + refused);
    }
    *done.lock().unwrap() = true;
    cutter.await.unwrap();
    let writes = writes(&jobs);
    println!("{function}, {:?}: {written} written, {stale} refused", scene.way);
    assert_eq!(writes.len(), written);
    assert!(writes.is_sorted(), "{writes:?}");
    assert!(stale > 0 && written > 0, "a race that proves nothing: {written} written, {stale} refused");
}

fn counts(said: &str) -> (usize, usize) {
    let (through, refused) = said.split_once(' ').unwrap();
    (through.parse().unwrap(), refused.parse().unwrap())
}

fn race_with_the_fence() {
    run_a_race(|jobs, way, guard| {
        let tx = begin(jobs, way);
        dawdle();
        write(&tx, guard.token());
        guard.fence(&tx)?.commit(tx).unwrap();
        Ok(())
    });
}

fn race_with_fenced() {
    run_a_race(|jobs, way, guard| {
        register_fence(jobs, "writes", guard.token())?;
        dawdle();
        let tx = begin(jobs, way);
        fenced(&tx, "writes", guard.token())?;
        write(&tx, guard.token());
        tx.commit().unwrap();
        Ok(())
    });
}

fn dawdle() {
    std::thread::sleep(Duration::from_micros(rand::random_range(0..3_000)));
}

fn run_a_race(write: impl Fn(&mut Connection, Way, &blocking::Guard) -> Result<(), Error>) {
    let (dir, way) = arguments();
    let (lock, mut jobs) = (connected(&dir).lock("job").wait(Wait::For(SOON)), job_connection(&dir, way));
    let (mut through, mut refused) = (0, 0);
    for _ in 0..ROUNDS / 2 {
        let Outcome::Acquired(guard) = lock.acquire().unwrap() else { panic!("it gets free") };
        dawdle();
        match write(&mut jobs, way, &guard) {
            Ok(()) => through += 1,
            Err(error) if error.kind() == ErrorKind::Stale => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    say(&format!("done {through} {refused}"));
}

// What is held up.

/// Fifty leases of another client, and the slowest of its renewals.
struct Others {
    _guards: Vec<Guard>,
    told: Arc<Mutex<Told>>,
}

#[derive(Default)]
struct Told {
    slowest: Duration,
    least_margin: Option<Duration>,
    renewed: u32,
    failed: u32,
    lost: u32,
}

impl Others {
    async fn of(scene: &Scene) -> Self {
        let told = Arc::new(Mutex::new(Told::default()));
        let log = Arc::clone(&told);
        let observer = move |event: &Event<'_>| log.lock().unwrap().note(event);
        let locks = Locks::builder().observer(observer).over(scene.store());
        let mut guards = Vec::new();
        for n in 0..50 {
            guards.push(acquired(&locks.lock(&ttl_name(n)).ttl(ttl(n)).stop_grace(SHORT / 10)).await);
        }
        Self { _guards: guards, told }
    }

    fn report(&self, what: &str) {
        let told = std::mem::take(&mut *self.told.lock().unwrap());
        println!(
            "{what}: {} renewals, slowest {:?}, least margin {:?}, {} asked again, {} lost",
            told.renewed,
            told.slowest,
            told.least_margin.unwrap_or_default(),
            told.failed,
            told.lost
        );
        assert!(told.renewed > 50, "{} renewals", told.renewed);
        assert_eq!(told.lost, 0);
    }
}

/// From 1 to 2 s.
fn ttl(n: u64) -> Duration {
    SHORT + Duration::from_millis(20 * n)
}

fn ttl_name(n: u64) -> String {
    format!("other-{n}")
}

impl Told {
    fn note(&mut self, event: &Event<'_>) {
        match event {
            Event::Renewed { name, valid_until, margin, .. } => {
                let n = name.as_str().trim_start_matches("other-").parse().unwrap();
                let sent = *valid_until - validity::of(ttl(n));
                self.slowest = self.slowest.max(BootClock.now().since(sent));
                self.least_margin = Some(self.least_margin.map_or(*margin, |least| least.min(*margin)));
                self.renewed += 1;
            }
            Event::RenewalFailed { .. } => self.failed += 1,
            Event::Lost { .. } => self.lost += 1,
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_leases_are_renewed_during_a_long_transaction_and_over_a_short_fence() {
    let scene = Scene::new(Way::Attached);
    let guard = acquired(&scene.locks().lock("job")).await;
    let others = Others::of(&scene).await;
    let mut jobs = scene.jobs();
    tokio::task::block_in_place(|| {
        let tx = jobs.transaction().unwrap();
        write(&tx, guard.token());
        std::thread::sleep(Duration::from_secs(3));
        others.report("a transaction of 3 s before its fence");
        let fenced_at = Instant::now();
        guard.fence(&tx).unwrap().commit(tx).unwrap();
        println!("fence and commit: {:?}", fenced_at.elapsed());
        for _ in 0..3 {
            let tx = jobs.transaction().unwrap();
            write(&tx, guard.token());
            let fence = guard.fence(&tx).unwrap();
            std::thread::sleep(Duration::from_millis(300));
            fence.commit(tx).unwrap();
            std::thread::sleep(Duration::from_secs(1));
        }
        others.report("three fences of 300 ms");
    });
}

// Where the lease is elsewhere.

fn resource() -> (TempDir, Connection) {
    let dir = tempfile::tempdir().unwrap();
    let jobs = Connection::open(dir.path().join("jobs.db")).unwrap();
    (dir, jobs)
}

const fn token(number: u64) -> FencingToken {
    FencingToken::new(number)
}

fn is_fenced(jobs: &mut Connection, number: u64) -> Result<(), Error> {
    let tx = jobs.transaction().unwrap();
    fenced(&tx, "report", token(number))?;
    tx.commit().unwrap();
    Ok(())
}

fn newest(jobs: &Connection) -> u64 {
    let sql = "select token from leasehold_fences where resource = 'report'";
    jobs.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap().cast_unsigned()
}

#[test]
fn a_resource_lets_the_newest_through_again_and_again_and_nobody_older() {
    let (_dir, mut jobs) = resource();
    for number in [41, 41, 42] {
        register_fence(&jobs, "report", token(number)).unwrap();
        is_fenced(&mut jobs, number).unwrap();
        is_fenced(&mut jobs, number).unwrap();
    }
    assert_stale(is_fenced(&mut jobs, 41));
    assert_stale(register_fence(&jobs, "report", token(41)));
    assert_eq!(newest(&jobs), 42, "never lower");
    let says = is_fenced(&mut jobs, 41).unwrap_err().to_string();
    assert!(says.contains("41") && says.contains("42") && says.contains("report"), "{says}");
    // A newer one that forgot to register keeps the older ones out all the same.
    is_fenced(&mut jobs, 43).unwrap();
    assert_stale(is_fenced(&mut jobs, 42));
    register_fence(&jobs, "another", token(1)).unwrap();
}

#[test]
fn tokens_have_63_bits() {
    let (_dir, mut jobs) = resource();
    let largest = (1 << 63) - 1;
    for number in [0, 1, (1 << 53) + 1, (1 << 53) + 2, largest - 1, largest] {
        register_fence(&jobs, "report", token(number)).unwrap();
        is_fenced(&mut jobs, number).unwrap();
        assert_eq!(newest(&jobs), number);
        if number > 0 {
            assert_stale(is_fenced(&mut jobs, number - 1));
        }
    }
    for number in [1 << 63, u64::MAX] {
        assert_eq!(register_fence(&jobs, "report", token(number)).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(is_fenced(&mut jobs, number).unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[test]
fn a_fenced_transaction_keeps_newer_ones_waiting_until_it_ends() {
    let (dir, mut jobs) = resource();
    let newer = Connection::open(dir.path().join("jobs.db")).unwrap();
    newer.busy_timeout(Duration::from_millis(20)).unwrap();
    register_fence(&jobs, "report", token(41)).unwrap();
    let tx = jobs.transaction().unwrap();
    fenced(&tx, "report", token(41)).unwrap();
    let error = register_fence(&newer, "report", token(42)).unwrap_err();
    assert!(error.kind() == ErrorKind::TimedOut && error.is_transient(), "{error}");
    tx.commit().unwrap();
    register_fence(&newer, "report", token(42)).unwrap();
    assert_stale(is_fenced(&mut jobs, 41));
}

#[test]
fn a_transaction_that_read_before_a_newer_one_registered_does_not_get_through() {
    let (dir, mut jobs) = resource();
    let newer = Connection::open(dir.path().join("jobs.db")).unwrap();
    jobs.query_row("pragma journal_mode = wal", [], |_| Ok(())).unwrap();
    register_fence(&jobs, "report", token(41)).unwrap();
    let tx = jobs.transaction().unwrap();
    assert_eq!(newest(&tx), 41);
    register_fence(&newer, "report", token(42)).unwrap();
    assert_eq!(newest(&tx), 41, "it sees the past");
    let error = fenced(&tx, "report", token(41)).unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("again"), "{error}");
    drop(tx);
    assert_stale(is_fenced(&mut jobs, 41));
}

#[test]
fn a_registration_is_its_transactions() {
    let (_dir, mut jobs) = resource();
    register_fence(&jobs, "report", token(1)).unwrap();
    let tx = jobs.transaction().unwrap();
    register_fence(&tx, "report", token(2)).unwrap();
    drop(tx);
    assert_eq!(newest(&jobs), 1);
    let tx = jobs.transaction().unwrap();
    register_fence(&tx, "report", token(3)).unwrap();
    tx.commit().unwrap();
    assert_eq!(newest(&jobs), 3);
}

#[test]
fn fencing_by_halves_is_refused() {
    let (_dir, mut jobs) = resource();
    let error = is_fenced(&mut jobs, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("register_fence"), "{error}");
    register_fence(&jobs, "report", token(1)).unwrap();
    let error = fenced(&jobs, "report", token(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("begin one"), "{error}");
}
