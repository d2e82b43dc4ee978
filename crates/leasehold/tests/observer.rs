//! What an observer is told of acquisitions, of guards and of renewals: enough to count by, with nothing twice.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::poll_immediate;
use leasehold::stores::Memory;
use leasehold::{Answer, ErrorKind, Event, Guard, Locks, Outcome, Wait};
use leasehold_testkit::{Fault, Faults, Faulty, Operation, PausedClock};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(30);

/// A client that writes down what it is told.
struct Stage {
    locks: Locks,
    other: Locks,
    faults: Faults,
    keeper_faults: Faults,
    told: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    fn new() -> Self {
        let clock = Arc::new(PausedClock::start());
        let memory = Memory::new(clock.clone());
        let store = Faulty::over(Arc::new(memory.clone()));
        let (faults, keeper_faults) = (store.faults(), store.keeper_faults());
        let told = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&told);
        let observer = move |event: &Event<'_>| log.lock().unwrap().extend(word_for(event));
        let locks = Locks::builder().observer(observer).simulated(clock.clone()).over(Arc::new(store));
        let other = Locks::builder().simulated(clock).over(Arc::new(memory));
        Self { locks, other, faults, keeper_faults, told }
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock().unwrap())
    }

    async fn acquires(&self) -> Guard {
        self.locks.lock("job").label("web/1/job").ttl(TTL).try_acquire().await.unwrap().guard().unwrap()
    }
}

fn word_for(event: &Event<'_>) -> Option<String> {
    Some(match event {
        Event::Asked { name } => format!("asked for {name}"),
        Event::Answered { answer, .. } => match answer {
            Answer::Acquired => "acquired".into(),
            Answer::Contended(holding) => format!("{} has it", holding.label),
            Answer::NotDue(_) => "not due".into(),
            Answer::Failed(error) => format!("failed: {:?}", error.kind()),
            _ => return None,
        },
        Event::Withdrawn { waited, .. } => format!("withdrawn after {} s", waited.as_secs()),
        Event::LetGo { .. } => "let go".into(),
        Event::Released { label, in_time, .. } => format!("{label} released: {in_time}"),
        Event::ReleaseFailed { .. } => "release failed".into(),
        Event::Renewed { late, margin, .. } => format!("late {} s, {} s left", late.as_secs(), margin.as_secs()),
        _ => return None,
    })
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_begins_has_one_end() {
    let stage = Stage::new();
    let lock = stage.locks.lock("job");

    let guard = lock.try_acquire().await.unwrap().guard().unwrap();
    assert_eq!(stage.told(), ["asked for job", "acquired"]);
    guard.release().await.unwrap();
    stage.told();

    let theirs = stage.other.lock("job").label("web-1").try_acquire().await.unwrap().guard().unwrap();
    let Outcome::Contended(_) = lock.try_acquire().await.unwrap() else { panic!("it is theirs") };
    assert_eq!(stage.told(), ["asked for job", "web-1 has it"]);
    let Outcome::Contended(_) = lock.clone().wait(Wait::For(3 * SECOND)).acquire().await.unwrap() else {
        panic!("it is theirs")
    };
    assert_eq!(stage.told(), ["asked for job", "web-1 has it"]);

    let mut waiting = Box::pin(lock.acquire());
    assert!(poll_immediate(&mut waiting).await.is_none());
    tokio::time::sleep(SECOND).await;
    assert!(poll_immediate(&mut waiting).await.is_none());
    drop(waiting);
    assert_eq!(stage.told(), ["asked for job", "withdrawn after 1 s"]);
    theirs.release().await.unwrap();

    stage.faults.next(Operation::TryAcquire, Fault::Fail(ErrorKind::AccessDenied));
    assert_eq!(lock.try_acquire().await.unwrap_err().kind(), ErrorKind::AccessDenied);
    assert_eq!(stage.told(), ["asked for job", "failed: AccessDenied"]);

    let once = stage.locks.once("key", 3600 * SECOND);
    once.try_acquire().await.unwrap().guard().unwrap().complete().await.unwrap();
    stage.told();
    let Outcome::NotDue(_) = once.try_acquire().await.unwrap() else { panic!("it is done") };
    assert_eq!(stage.told(), ["asked for key", "not due"]);

    assert!(stage.locks.lock("").try_acquire().await.is_err());
    assert!(stage.told().is_empty(), "nothing was asked");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_given_the_lock_is_told_of_once() {
    let stage = Stage::new();
    let guard = stage.acquires().await;
    stage.told();
    let waiter = tokio::spawn({
        let lock = stage.locks.lock("job").ttl(TTL);
        async move { lock.acquire().await.unwrap().guard().unwrap() }
    });
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(stage.told(), ["asked for job"]);
    guard.release().await.unwrap();
    let next = waiter.await.unwrap();
    assert_eq!(stage.told(), ["let go", "web/1/job released: true", "acquired"]);
    drop(next);
}

#[tokio::test(start_paused = true)]
async fn a_guard_is_let_go_once() {
    let stage = Stage::new();
    let begins = ["asked for job", "acquired", "let go"];
    stage.acquires().await.release().await.unwrap();
    assert_eq!(stage.told(), [&begins[..], &["web/1/job released: true"]].concat());

    drop(stage.acquires().await);
    tokio::time::sleep(SECOND).await;
    assert_eq!(stage.told(), [&begins[..], &["web/1/job released: true"]].concat(), "in the background");

    stage.faults.next(Operation::Release, Fault::LoseRequest);
    assert!(stage.acquires().await.release().await.is_err());
    tokio::time::sleep(SECOND).await;
    assert_eq!(stage.told(), [&begins[..], &["release failed", "web/1/job released: true"]].concat());

    stage.acquires().await.abandon();
    assert_eq!(stage.told(), begins, "the store hears nothing of it");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_says_how_late_it_came() {
    let stage = Stage::new();
    let guard = stage.acquires().await;
    stage.told();
    tokio::time::sleep(TTL / 2).await;
    assert_eq!(stage.told(), ["late 0 s, 19 s left"]);
    stage.keeper_faults.always(Operation::Renew, Fault::Fail(ErrorKind::Unavailable));
    tokio::time::sleep(TTL / 3).await;
    stage.keeper_faults.heal();
    tokio::time::sleep(TTL / 6).await;
    let told = stage.told();
    let (late, left) = told[0].split_once(", ").unwrap();
    let seconds = |text: &str| text.split(' ').find_map(|word| word.parse::<u64>().ok()).unwrap();
    assert!(
        (5..8).contains(&seconds(late)),
        "it was due after 20 s, and got through after 25 at the earliest: {told:?}"
    );
    assert!((18..=19).contains(&(seconds(late) + seconds(left))), "{told:?}");
    drop(guard);
}
