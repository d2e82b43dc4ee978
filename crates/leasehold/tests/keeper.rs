//! The keeper as it is: on its own thread, in real time, whatever the caller's runtime does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use leasehold::stores::Memory;
use leasehold::validity::{BootClock, Clock, Moment};
use leasehold::{Bound, Event, Guard, Lock, Locks, LossReason, Outcome, Released, Store};
use leasehold_testkit::Faulty;

const SECOND: Duration = Duration::from_secs(1);

fn store() -> Arc<dyn Store> {
    Arc::new(Memory::default())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

async fn acquired(lock: &Lock) -> Guard {
    lock.try_acquire().await.unwrap().guard().expect("the lock is free")
}

/// Polls until it is so. Far longer than it should take: a loaded machine must not fail it.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < 60 * SECOND, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn is_free(store: &Arc<dyn Store>, name: &str) -> bool {
    let name = leasehold::LockName::new(name).unwrap();
    runtime().block_on(store.inspect(&name)).unwrap().is_none()
}

#[test]
fn a_job_that_blocks_its_runtime_for_four_ttls_keeps_its_lock() {
    // Not shorter: a loaded machine may hold up the keeper's thread as well, for a moment.
    const TTL: Duration = Duration::from_secs(4);
    let store = store();
    let ours = Locks::over(Arc::clone(&store));
    runtime().block_on(async {
        let guard = acquired(&ours.lock("job").ttl(TTL)).await;
        let others = std::thread::spawn(move || {
            let others = Locks::over(store);
            let end = Instant::now() + 4 * TTL;
            while Instant::now() < end {
                let outcome = runtime().block_on(others.lock("job").ttl(TTL).try_acquire()).unwrap();
                assert!(matches!(outcome, Outcome::Contended(_)), "never ours while it is held");
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        std::thread::sleep(4 * TTL); // The job: it never yields.
        assert!(guard.is_valid() && guard.loss().is_none());
        others.join().unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::InTime);
    });
}

#[test]
fn b11_a_guard_may_be_dropped_on_a_thread_without_a_runtime() {
    let store = store();
    let locks = Locks::over(Arc::clone(&store));
    let guard = runtime().block_on(acquired(&locks.lock("job")));
    std::thread::spawn(move || drop(guard)).join().unwrap();
    eventually("free at once", || is_free(&store, "job"));
}

#[test]
fn b11_a_guard_may_be_dropped_while_its_runtime_shuts_down() {
    let store = store();
    let locks = Locks::over(Arc::clone(&store));
    let runtime = runtime();
    let (held, is_held) = std::sync::mpsc::channel();
    runtime.spawn({
        let lock = locks.lock("job");
        async move {
            let _guard = acquired(&lock).await;
            held.send(()).unwrap();
            std::future::pending::<()>().await;
        }
    });
    runtime.block_on(async {
        while is_held.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
    });
    drop(runtime); // Drops the task, and so the guard.
    eventually("free at once", || is_free(&store, "job"));
}

#[test]
fn b11_a_guard_may_be_dropped_by_a_panic() {
    let store = store();
    let locks = Locks::over(Arc::clone(&store));
    let panicked = std::thread::spawn(move || {
        let _guard = runtime().block_on(acquired(&locks.lock("job")));
        panic!("as the test wants it");
    });
    assert!(panicked.join().is_err());
    eventually("free at once", || is_free(&store, "job"));
}

#[test]
fn b10_a_client_that_is_gone_still_cleans_up() {
    let store = store();
    let locks = Locks::over(Arc::clone(&store));
    let guard = runtime().block_on(acquired(&locks.lock("job")));
    drop(locks);
    drop(guard);
    eventually("free at once", || is_free(&store, "job"));
}

#[test]
fn ten_thousand_leases_cost_no_thread_and_are_renewed_in_batches() {
    const LEASES: usize = 10_000;
    let renewed = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&renewed);
    let observer = move |event: &Event<'_>| {
        if let Event::Renewed { .. } = event {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    };
    let locks = Locks::builder().observer(observer).over(store());
    let guards = runtime().block_on(async {
        let first = acquired(&locks.lock("first").ttl(24 * SECOND)).await;
        // A new thread has the name of its parent for a moment.
        eventually("the keeper has its name", || threads() == 1);
        let mut guards = vec![first];
        for i in 1..LEASES {
            guards.push(acquired(&locks.lock(&format!("job-{i}")).ttl(24 * SECOND)).await);
        }
        assert_eq!(threads(), 1, "no thread for a lease");
        guards
    });
    eventually("all are renewed", || renewed.load(Ordering::Relaxed) >= LEASES);
    assert!(guards.iter().all(|guard| guard.is_valid() && guard.loss().is_none()));
}

/// Threads of this process that are the keeper's: the test runner has threads of its own.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.starts_with("leasehold"))
        .count()
}

#[test]
fn c01_no_renewal_outlives_its_guard() {
    let store = store();
    let locks = Locks::over(Arc::clone(&store));
    runtime().block_on(async {
        for i in 0..2_000 {
            let guard = acquired(&locks.lock("job").ttl(SECOND)).await;
            if i % 2 == 0 {
                guard.release().await.unwrap();
            } else {
                drop(guard);
                locks_are_free(&locks).await;
            }
        }
    });
    eventually("free", || is_free(&store, "job"));
    // Three TTLs later nothing has come back.
    let end = Instant::now() + 3 * SECOND;
    while Instant::now() < end {
        assert!(is_free(&store, "job"));
        std::thread::sleep(Duration::from_millis(50));
    }
}

async fn locks_are_free(locks: &Locks) {
    while locks.inspect("job").await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
}

#[test]
fn an_observer_that_panics_does_not_take_the_keeper_along() {
    let told = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&told);
    let observer = move |event: &Event<'_>| {
        if let Event::Renewed { .. } = event {
            counter.fetch_add(1, Ordering::Relaxed);
            panic!("as the test wants it");
        }
    };
    let locks = Locks::builder().observer(observer).over(store());
    // Not shorter: what is lost on a machine that is busy for a moment is not renewed again.
    let guard = runtime().block_on(acquired(&locks.lock("job").ttl(4 * SECOND)));
    eventually("renewed again and again", || told.load(Ordering::Relaxed) >= 3);
    drop(guard);
    runtime().block_on(locks.shutdown());
}

#[test]
fn a_client_that_may_open_nothing_more_keeps_its_leases_or_tells() {
    if std::env::var_os("OPEN_NOTHING").is_none() {
        // The limit is the whole process's, so this test is one of its own.
        let test = "a_client_that_may_open_nothing_more_keeps_its_leases_or_tells";
        let alone = std::process::Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env("OPEN_NOTHING", "1")
            .output()
            .unwrap();
        assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stderr));
        return;
    }
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, 64, 64).unwrap();
    let open_all = || -> Vec<_> { std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect() };
    let runtime = runtime();
    runtime.block_on(async {
        let locks = Locks::over(store());
        let guard = acquired(&locks.lock("job").ttl(SECOND)).await;
        let hog = open_all();
        assert!(Locks::over(store()).lock("job").try_acquire().await.is_err(), "never a grant without a keeper");
        std::thread::sleep(2 * SECOND);
        drop(hog);
        std::thread::sleep(SECOND);
        eventually("valid, or told", || guard.is_valid() || guard.loss().is_some());
    });
}

#[test]
#[expect(unsafe_code, reason = "nix can't know that the child does nothing but ask and exit")]
fn a_fork_of_a_client_is_refused_instead_of_left_without_a_keeper() {
    if std::env::var_os("FORK").is_none() {
        // To fork, a process wants to be alone with its threads.
        let test = "a_fork_of_a_client_is_refused_instead_of_left_without_a_keeper";
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let alone = alone.args([test, "--exact", "--test-threads=1"]).env("FORK", "1").output().unwrap();
        assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stderr));
        return;
    }
    let locks = Locks::over(store());
    let runtime = runtime();
    drop(runtime.block_on(acquired(&locks.lock("before"))));
    // SAFETY: the child asks once, in this thread, and exits without unwinding into the parent's state.
    match unsafe { nix::unistd::fork() }.unwrap() {
        nix::unistd::ForkResult::Child => {
            let refused = runtime.block_on(locks.lock("after").try_acquire()).is_err();
            std::process::exit(if refused { 0 } else { 1 });
        }
        nix::unistd::ForkResult::Parent { child } => {
            let status = nix::sys::wait::waitpid(child, None).unwrap();
            assert!(matches!(status, nix::sys::wait::WaitStatus::Exited(_, 0)), "{status:?}");
        }
    }
}

#[test]
fn a_bound_that_is_cut_is_told_at_once() {
    let store = Faulty::over(store());
    let faults = store.faults();
    let locks = Locks::over(Arc::new(store));
    runtime().block_on(async {
        let bound = Bound::new(Moment::NEVER);
        faults.bind_next(bound.clone());
        let guard = acquired(&locks.lock("job").ttl(3600 * SECOND)).await;
        assert!(guard.is_valid() && guard.loss().is_none());
        bound.cut();
        assert!(!guard.is_valid());
        assert_eq!(guard.lost().await, LossReason::Gone);
    });
}

#[test]
fn a_bound_that_falls_is_told_the_grace_before_it_and_no_renewal_outlives_it() {
    const TTL: Duration = Duration::from_secs(6);
    const GRACE: Duration = Duration::from_secs(2);
    let store = Faulty::over(store());
    let faults = store.faults();
    let locks = Locks::over(Arc::new(store));
    runtime().block_on(async {
        let bound = Bound::new(Moment::NEVER);
        faults.bind_next(bound.clone());
        let guard = acquired(&locks.lock("job").ttl(TTL).stop_grace(GRACE)).await;
        let end = BootClock.now() + 3 * TTL / 2;
        bound.move_to(end);
        assert_eq!(guard.lost().await, LossReason::Expired);
        assert!((end - GRACE..end).contains(&BootClock.now()), "renewed until then, told in time");
        eventually("over at its bound", || !guard.is_valid());
        assert!(BootClock.now() >= end);
        bound.move_to(Moment::NEVER);
        assert!(!guard.is_valid(), "dead is dead");
    });
}
