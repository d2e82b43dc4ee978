//! The locks for code without async, in a SQLite file.
#![cfg(feature = "sqlite")]

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use leasehold::blocking::{Guard, Lock, Locks, MultiLock, Outcome};
use leasehold::{ErrorKind, NotDue, Ran, Released, Revoke, Wait};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(20);
const SOON: Wait = Wait::For(LIMIT);

struct Scene {
    dir: TempDir,
}

impl Scene {
    fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    fn locks(&self) -> Locks {
        Locks::connect(&format!("sqlite://{}/locks.db", self.dir.path().display())).unwrap()
    }
}

fn is_held(lock: &Lock) -> bool {
    matches!(lock.try_acquire().unwrap(), Outcome::Contended(_))
}

#[test]
fn a_job_is_run_under_the_lock_and_gives_it_back() {
    let scene = Scene::new();
    let (locks, other) = (scene.locks(), scene.locks());
    let ran = locks.lock("a").run(|guard| (guard.token().number(), is_held(&other.lock("a")))).unwrap();
    assert!(matches!(ran, Ran::Done((token, true)) if token > 0), "{ran:?}");
    let guard = other.lock("a").try_acquire().unwrap().guard().expect("it was given back");
    // Who waits for nothing is answered within half a second, or not: a machine that is busy has no answer by then.
    let ran = locks.lock("a").wait(Wait::For(Duration::from_secs(2))).run(|_| ()).unwrap();
    assert!(matches!(ran, Ran::Contended(_)), "{ran:?}");
    assert_eq!(guard.release().unwrap(), Released::InTime);
}

#[test]
fn a_key_is_done_only_if_its_job_says_so() {
    let scene = Scene::new();
    let locks = scene.locks();
    let key = locks.once("invoice", Duration::from_secs(3600)).terms(|lock| lock.retry_failed(true));
    let failed = key.try_run(|guard| Err::<(), _>(guard.attempt())).unwrap();
    assert!(matches!(failed, Ran::Done(Err(1))), "{failed:?}");
    let done = key.try_run(|guard| Ok::<_, ()>(guard.attempt())).unwrap();
    assert!(matches!(done, Ran::Done(Ok(2))), "{done:?}");
    let again = key.run(|_| ()).unwrap();
    assert!(matches!(again, Ran::NotDue(NotDue::Claimed { .. })), "{again:?}");
}

#[test]
fn a_job_that_panics_gives_the_lock_back() {
    let scene = Scene::new();
    let locks = scene.locks();
    let job = locks.clone();
    let panicked = thread::spawn(move || job.lock("a").run(|_| -> () { panic!("on purpose") }).map(drop)).join();
    assert!(panicked.is_err());
    assert!(locks.lock("a").wait(SOON).acquire().unwrap().guard().is_some());
}

#[test]
fn a_job_whose_lock_is_lost_hears_of_it_and_its_key_is_not_done() {
    let scene = Scene::new();
    let (locks, operator) = (scene.locks(), scene.locks());
    let key = locks.once("k", Duration::from_secs(3600)).ttl(Duration::from_secs(3));
    let key = key.terms(|lock| lock.retry_failed(true));
    let ran = key
        .run(|guard| {
            operator.revoke("k", Revoke::Now).unwrap().expect("it is held");
            let _ = guard.lost();
            "something"
        })
        .unwrap();
    assert!(matches!(ran, Ran::Lost(_)), "{ran:?}");
    assert!(matches!(key.run(Guard::attempt).unwrap(), Ran::Done(2)));
}

#[test]
fn several_locks_are_held_together_or_not_at_all() {
    let scene = Scene::new();
    let (locks, other) = (scene.locks(), scene.locks());
    let both = MultiLock::of([locks.lock("b"), locks.lock("a")]).unwrap();
    let guard = both.try_acquire().unwrap().guard().unwrap();
    let names: Vec<_> = guard.guards().iter().map(|guard| guard.name().to_string()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(guard.get("b").is_some_and(Guard::is_valid) && guard.get("c").is_none());
    assert!(guard.is_valid() && guard.loss().is_none() && guard.remaining() > Duration::from_secs(10));
    guard.touch();
    assert!(is_held(&other.lock("a")) && is_held(&other.lock("b")));
    assert_eq!(guard.release().unwrap(), Released::InTime);

    let held = other.lock("b").try_acquire().unwrap().guard().unwrap();
    assert!(matches!(both.try_acquire().unwrap(), Outcome::Contended(holding) if holding.name.as_str() == "b"));
    assert!(!is_held(&other.lock("a")), "none is kept");
    let waits = thread::spawn(move || both.wait(SOON).acquire().unwrap().guard().unwrap().complete().unwrap());
    held.release().unwrap();
    assert_eq!(waits.join().unwrap(), Released::InTime);
}

#[test]
fn several_locks_of_several_clients_are_refused() {
    let scene = Scene::new();
    let (one, two) = (scene.locks(), scene.locks());
    let refused = MultiLock::of([one.lock("a"), two.lock("b")]).unwrap_err();
    assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains("several clients"), "{refused}");
    assert!(MultiLock::of([one.lock("a"), one.clone().lock("b")]).is_ok());
    assert_eq!(MultiLock::of([]).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn changes_are_told_one_after_the_other() {
    let scene = Scene::new();
    let (locks, other) = (scene.locks(), scene.locks());
    let mut watching = locks.watch("a").unwrap();
    assert_eq!(watching.name().as_str(), "a");
    assert!(watching.next().unwrap().unwrap().is_none(), "it is free at first");
    assert!(watching.next_within(Duration::from_millis(700)).unwrap().is_none(), "nothing changed");
    let (told, changes) = mpsc::channel();
    let watches = thread::spawn(move || {
        for change in watching.take(2) {
            told.send(change.unwrap().map(|holding| holding.holder)).unwrap();
        }
    });
    let guard = other.lock("a").try_acquire().unwrap().guard().unwrap();
    assert_eq!(changes.recv_timeout(LIMIT).unwrap(), Some(Some(guard.holder())));
    guard.release().unwrap();
    assert_eq!(changes.recv_timeout(LIMIT).unwrap(), None);
    watches.join().unwrap();
    assert_eq!(locks.watch("").map(drop).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn one_of_several_holders_can_be_revoked() {
    let scene = Scene::new();
    let (locks, other) = (scene.locks(), scene.locks());
    let two = |locks: &Locks| locks.lock("a").terms(|lock| lock.permits(2)).try_acquire().unwrap().guard().unwrap();
    let (first, second) = (two(&locks), two(&other));
    let revoked = locks.revoke_one("a", second.holder(), Revoke::Now).unwrap();
    assert!(revoked.is_some());
    assert!(locks.revoke_one("a", second.holder(), Revoke::Now).unwrap().is_none(), "it holds it no more");
    let left = locks.inspect("a").unwrap().unwrap();
    assert_eq!((left.holder, left.others.len()), (Some(first.holder()), 0));
    assert!(locks.diagnose().is_ok_and(|findings| !findings.is_empty()));
}
