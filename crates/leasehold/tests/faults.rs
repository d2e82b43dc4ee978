//! Locks over a store that hiccups, lies low and loses answers, under paused time. The numbers are those of
//! the fault of another system that the test was made of.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::stores::Memory;
use leasehold::{
    Applied, ErrorKind, Event, FencingToken, Guard, Lock, Locks, LossReason, Outcome, Released, Revoke, Tick, Wait,
    validity,
};
use leasehold_testkit::{Fault, Faults, Faulty, Operation, PausedClock};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(30);

/// A client over a store that can be broken, another client of the same store that never is, and the faults.
struct Scene {
    ours: Locks,
    others: Locks,
    faults: Faults,
    keeper_faults: Faults,
    told: Arc<Mutex<Vec<String>>>,
}

fn scene() -> Scene {
    let clock = Arc::new(PausedClock::start());
    let store = Arc::new(Memory::new(clock.clone()));
    let faulty = Faulty::over(store.clone());
    let (faults, keeper_faults) = (faulty.faults(), faulty.keeper_faults());
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let observer = move |event: &Event<'_>| {
        log.lock().unwrap().push(match event {
            Event::Lost { reason, .. } => format!("lost: {reason}"),
            Event::RenewalFailed { .. } => "renewal failed".into(),
            Event::Renewed { .. } => "renewed".into(),
            _ => "other".into(),
        });
    };
    let ours = Locks::builder().observer(observer).simulated(clock.clone()).over(Arc::new(faulty));
    let others = Locks::builder().simulated(clock).over(store);
    Scene { ours, others, faults, keeper_faults, told }
}

impl Scene {
    fn count(&self, what: &str) -> usize {
        self.told.lock().unwrap().iter().filter(|told| told.starts_with(what)).count()
    }

    async fn is_free(&self, name: &str) -> bool {
        self.others.inspect(name).await.unwrap().is_none()
    }
}

async fn acquired(lock: &Lock) -> Guard {
    lock.try_acquire().await.unwrap().guard().expect("the lock is free")
}

async fn settle() {
    tokio::time::sleep(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn b01_a_lost_answer_is_asked_for_again_under_the_same_identity() {
    let scene = scene();
    scene.faults.next(Operation::TryAcquire, Fault::LoseReply);
    let guard = acquired(&scene.ours.lock("job")).await;
    assert!(guard.is_valid());
    assert_eq!(guard.release().await.unwrap(), Released::InTime);
    assert!(scene.is_free("job").await);
}

#[tokio::test(start_paused = true)]
async fn b01_a_grant_that_nobody_learns_of_is_taken_back_at_once() {
    let scene = scene();
    scene.faults.next_few(3, Operation::TryAcquire, Fault::LoseReply);
    let error = scene.ours.lock("job").try_acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::TimedOut, Applied::Maybe));
    settle().await;
    assert!(scene.is_free("job").await, "well before its TTL");
    let _next = acquired(&scene.others.lock("job")).await;
}

#[tokio::test(start_paused = true)]
async fn b01_dropped_while_the_store_is_silent_it_is_taken_back_too() {
    let scene = scene();
    scene.faults.next(Operation::TryAcquire, Fault::HangAfter);
    let cancelled = tokio::time::timeout(SECOND, scene.ours.lock("job").try_acquire()).await;
    assert!(cancelled.is_err());
    settle().await;
    assert!(scene.is_free("job").await);
}

#[tokio::test(start_paused = true)]
async fn b02_an_acquire_that_failed_does_not_land_later() {
    let scene = scene();
    scene.faults.cut();
    let error = scene.ours.lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    scene.faults.heal();
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(scene.is_free("job").await);
    }
}

#[tokio::test(start_paused = true)]
async fn o03_an_outage_is_not_contention_and_contention_is_no_error() {
    let scene = scene();
    let _held = acquired(&scene.others.lock("held")).await;
    assert!(matches!(scene.ours.lock("held").try_acquire().await, Ok(Outcome::Contended(_))));
    for (kind, transient) in [
        (ErrorKind::Unavailable, true),
        (ErrorKind::AccessDenied, false),
        (ErrorKind::Misconfigured, false),
        (ErrorKind::Refused, false),
    ] {
        scene.faults.always(Operation::TryAcquire, Fault::Fail(kind));
        let before = scene.faults.calls(Operation::TryAcquire);
        let error = scene.ours.lock("free").try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), kind);
        let tries = scene.faults.calls(Operation::TryAcquire) - before;
        assert_eq!(tries, if transient { 3 } else { 1 }, "{kind:?}");
        scene.faults.heal();
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_outlives_a_short_outage_and_gives_up_after_a_ttl_of_it() {
    let scene = scene();
    let held = acquired(&scene.others.lock("job")).await;
    let waiter = tokio::spawn({
        let lock = scene.ours.lock("job").ttl(TTL);
        async move { lock.acquire().await }
    });
    settle().await;
    scene.faults.cut();
    tokio::time::sleep(TTL / 2).await;
    scene.faults.heal();
    held.release().await.unwrap();
    let guard = waiter.await.unwrap().unwrap().guard().expect("it went on waiting");
    guard.release().await.unwrap();

    scene.faults.cut();
    let began = tokio::time::Instant::now();
    let error = scene.ours.lock("job").ttl(TTL).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!((TTL..TTL + 10 * SECOND).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn f01_a_lost_wake_up_costs_less_than_a_second() {
    let scene = scene();
    let held = acquired(&scene.others.lock("job")).await;
    scene.faults.lose_wake_ups();
    let waiter = tokio::spawn({
        let lock = scene.ours.lock("job");
        async move { lock.acquire().await.unwrap().guard().unwrap() }
    });
    tokio::time::sleep(10 * SECOND).await;
    held.release().await.unwrap();
    let began = tokio::time::Instant::now();
    let _guard = waiter.await.unwrap();
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn f02_a_release_before_the_subscription_stands_is_not_missed() {
    let scene = scene();
    let held = acquired(&scene.others.lock("job")).await;
    scene.faults.next(Operation::Subscribe, Fault::DelayRequest(Duration::from_millis(300)));
    let waiter = tokio::spawn({
        let lock = scene.ours.lock("job");
        async move { lock.acquire().await.unwrap().guard().unwrap() }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    held.release().await.unwrap();
    let began = tokio::time::Instant::now();
    let _guard = waiter.await.unwrap();
    assert!(began.elapsed() <= Duration::from_millis(210), "right after the subscription: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn c12_one_failed_renewal_is_no_loss() {
    let scene = scene();
    let guard = acquired(&scene.ours.lock("job").ttl(TTL)).await;
    scene.keeper_faults.next_few(2, Operation::Renew, Fault::Fail(ErrorKind::Unavailable));
    tokio::time::sleep(3 * TTL).await;
    assert!(guard.is_valid() && guard.loss().is_none());
    assert_eq!(scene.count("renewal failed"), 2);
    assert_eq!(scene.count("lost"), 0);
}

#[tokio::test(start_paused = true)]
async fn c03_slow_renewals_are_in_time_or_the_loss_is_told_in_time() {
    let scene = scene();
    let mut guards = Vec::new();
    for i in 0..100 {
        guards.push(acquired(&scene.ours.lock(&format!("job-{i}")).ttl(TTL)).await);
    }
    scene.keeper_faults.always(Operation::Renew, Fault::DelayReply(TTL.mul_f64(0.8)));
    let end = tokio::time::Instant::now() + 120 * SECOND;
    while tokio::time::Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(100)).await;
        for guard in &guards {
            let told_in_time = guard.loss().is_some() || guard.remaining() > TTL / 3 - SECOND;
            assert!(told_in_time, "{:?}", guard.remaining());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c05_a_silent_store_is_a_loss_at_the_deadline_without_its_answer() {
    let scene = scene();
    let began = tokio::time::Instant::now();
    let guard = acquired(&scene.ours.lock("job").ttl(TTL).stop_grace(5 * SECOND)).await;
    scene.keeper_faults.always(Operation::Renew, Fault::HangBefore);
    assert!(matches!(guard.lost().await, LossReason::Unreachable(_)));
    let told = began.elapsed();
    let at = validity::of(TTL) - 5 * SECOND;
    assert!((at..at + Duration::from_millis(5)).contains(&told), "{told:?} instead of {at:?}");
    assert!(guard.is_valid(), "there is a grace in which to stop");
    tokio::time::sleep(5 * SECOND).await;
    assert!(!guard.is_valid());
    assert_eq!(scene.count("lost"), 1);
    // The store's TTL ends after our validity: nobody was granted it while we believed in it.
    tokio::time::sleep(TTL - validity::of(TTL)).await;
    let _next = acquired(&scene.others.lock("job")).await;
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_was_told_to_stop_is_renewed_while_it_stops() {
    let scene = scene();
    let guard = acquired(&scene.ours.lock("job").ttl(TTL)).await;
    scene.keeper_faults.always(Operation::Renew, Fault::Fail(ErrorKind::Unavailable));
    assert!(matches!(guard.lost().await, LossReason::Unreachable(_)));
    scene.keeper_faults.heal();
    tokio::time::sleep(3 * TTL).await;
    assert!(guard.is_valid(), "it takes its time to stop, and is alone meanwhile");
    assert!(matches!(scene.others.lock("job").try_acquire().await.unwrap(), Outcome::Contended(_)));
}

#[tokio::test(start_paused = true)]
async fn a_late_yes_does_not_revive_a_guard_that_was_seen_invalid() {
    let scene = scene();
    let guard = acquired(&scene.ours.lock("job").ttl(TTL)).await;
    // The store renews at 20 s at the latest, but we hear of it when it is over.
    scene.keeper_faults.always(Operation::Renew, Fault::LoseReply);
    tokio::time::sleep(validity::of(TTL)).await;
    assert!(!guard.is_valid());
    scene.keeper_faults.heal();
    for _ in 0..100 {
        tokio::time::sleep(SECOND).await;
        assert!(!guard.is_valid());
    }
}

#[tokio::test(start_paused = true)]
async fn a10_a_release_that_failed_is_tried_again_in_the_background() {
    let scene = scene();
    let guard = acquired(&scene.ours.lock("job").ttl(TTL)).await;
    scene.faults.cut();
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    tokio::time::sleep(Duration::from_millis(200)).await;
    scene.faults.heal();
    tokio::time::sleep(2 * SECOND).await;
    let _again = acquired(&scene.ours.lock("job")).await;
}

#[tokio::test(start_paused = true)]
async fn a10_a_release_whose_answer_is_lost_is_a_release() {
    let scene = scene();
    let guard = acquired(&scene.ours.lock("job").ttl(TTL)).await;
    scene.faults.next(Operation::Release, Fault::LoseReply);
    assert_eq!(guard.release().await.unwrap_err().applied(), Applied::Maybe);
    assert!(scene.is_free("job").await);
    let other = acquired(&scene.others.lock("job")).await;
    settle().await; // The retries find another's lease and leave it alone.
    assert!(other.is_valid() && !scene.is_free("job").await);
}

#[tokio::test(start_paused = true)]
async fn d05_a_grant_that_comes_too_late_is_given_back() {
    let scene = scene();
    // 1 s of TTL, 333 ms of grace: an answer after 160 ms is in time, so slow down the clock seam's way: many tries.
    scene.faults.always(Operation::TryAcquire, Fault::DelayReply(Duration::from_millis(700)));
    let outcome = scene.ours.lock("job").ttl(SECOND).try_acquire().await;
    assert!(outcome.is_err(), "never a guard without validity");
    scene.faults.heal();
    settle().await;
    assert!(scene.is_free("job").await);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_the_store_hears_of_after_the_ttl_is_in_time_if_the_work_was() {
    let scene = scene();
    let lock = scene.ours.lock("job").ttl(3 * SECOND);
    scene.faults.next(Operation::Release, Fault::DelayRequest(4 * SECOND));
    assert_eq!(acquired(&lock).await.release().await.unwrap(), Released::InTime);
    // One that was cut before says so, however late: it was not its time that ended it.
    let cut = acquired(&lock).await;
    scene.others.revoke("job", Revoke::Now).await.unwrap();
    scene.faults.next(Operation::Release, Fault::DelayRequest(SECOND / 2));
    assert_eq!(cut.release().await.unwrap(), Released::TooLate);
}

#[tokio::test(start_paused = true)]
async fn c16_after_a_loss_the_same_lock_can_be_had_again() {
    let scene = scene();
    let lock = scene.ours.lock("job").ttl(TTL);
    let first = acquired(&lock).await;
    scene.faults.cut();
    scene.keeper_faults.always(Operation::Renew, Fault::Fail(ErrorKind::Unavailable));
    assert!(matches!(first.lost().await, LossReason::Unreachable(_)));
    drop(first);
    scene.faults.heal();
    scene.keeper_faults.heal();
    let second = lock.acquire().await.unwrap().guard().unwrap();
    tokio::time::sleep(5 * TTL).await;
    assert!(second.is_valid());
}

#[tokio::test(start_paused = true)]
async fn c09_a_store_that_hangs_delays_no_other() {
    let (sick, healthy) = (scene(), scene());
    let sick_guard = acquired(&sick.ours.lock("job").ttl(TTL)).await;
    let mut guards = Vec::new();
    for i in 0..200 {
        guards.push(acquired(&healthy.ours.lock(&format!("job-{i}")).ttl(TTL)).await);
    }
    sick.keeper_faults.always(Operation::Renew, Fault::HangBefore);
    tokio::time::sleep(10 * TTL).await;
    assert!(!sick_guard.is_valid());
    assert!(guards.iter().all(|guard| guard.is_valid() && guard.loss().is_none()));
}

#[tokio::test(start_paused = true)]
async fn c13_what_the_job_returns_is_not_hidden_by_a_release_that_fails() {
    let scene = scene();
    scene.faults.always(Operation::Release, Fault::Fail(ErrorKind::Unavailable));
    let ran = scene.ours.lock("job").run(async |_| Err::<(), _>("the job's own error")).await.unwrap();
    assert!(matches!(ran, leasehold::Ran::Done(Err("the job's own error"))));
}

#[tokio::test(start_paused = true)]
async fn f07_ten_thousand_waits_that_gave_up_leave_nothing() {
    let scene = scene();
    let held = acquired(&scene.others.lock("job")).await;
    for _ in 0..10_000 {
        let outcome = scene.ours.lock("job").wait(Wait::For(Duration::from_millis(1))).acquire().await.unwrap();
        assert!(matches!(outcome, Outcome::Contended(_)));
    }
    settle().await;
    assert_eq!(scene.others.inspect("job").await.unwrap().unwrap().waiting, 0);
    held.release().await.unwrap();
    let _ = acquired(&scene.ours.lock("job")).await;
}

#[tokio::test(start_paused = true)]
async fn f04_five_hundred_waiters_cost_the_store_no_more_than_one_at_a_time() {
    let scene = scene();
    let held = acquired(&scene.others.lock("job")).await;
    let waiters: Vec<_> = (0..500)
        .map(|_| {
            let lock = scene.ours.lock("job");
            tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap().release().await.unwrap() })
        })
        .collect();
    tokio::time::sleep(100 * SECOND).await;
    let polls = scene.faults.calls(Operation::TryAcquire);
    assert!(polls < 100 * 5, "one of them looks, twice to four times a second: {polls}");
    held.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    let tries = scene.faults.calls(Operation::TryAcquire) - polls;
    assert!(tries <= 500 * 3, "each comes in a few calls: {tries}");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_answer_followed_by_a_no_is_unknown() {
    let scene = scene();
    scene.faults.next(Operation::TryAcquire, Fault::LoseReply);
    scene.faults.next(Operation::TryAcquire, Fault::Fail(ErrorKind::AccessDenied));
    let error = scene.ours.lock("job").try_acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::AccessDenied, Applied::Maybe));
    settle().await;
    assert!(scene.is_free("job").await);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_crosses_a_release_is_no_loss() {
    let scene = scene();
    let guard = acquired(&scene.ours.lock("job").ttl(TTL)).await;
    tokio::time::sleep(TTL / 3 - Duration::from_millis(200)).await;
    scene.faults.next(Operation::Release, Fault::DelayReply(Duration::from_millis(500)));
    assert_eq!(guard.release().await.unwrap(), Released::InTime);
    assert_eq!(scene.count("lost"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_minimum_hold_outlasts_a_guard_whose_renewal_came_too_late() {
    let scene = scene();
    let guard = acquired(&scene.ours.lock("job").ttl(TTL).at_least_for(3600 * SECOND)).await;
    scene.keeper_faults.always(Operation::Renew, Fault::Fail(ErrorKind::Unavailable));
    tokio::time::sleep(Duration::from_millis(25_400)).await;
    scene.keeper_faults.always(Operation::Renew, Fault::DelayReply(4 * SECOND));
    tokio::time::sleep(8 * SECOND).await;
    assert!(!guard.is_valid());
    drop(guard);
    settle().await;
    assert!(!scene.is_free("job").await, "kept for an hour");
}

/// What a guard that is dead was granted goes back at once; what became of its tick, only the guard can say.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_came_too_late_says_nothing_about_the_tick() {
    let scene = scene();
    let now = Tick::from_unix_millis(scene.ours.time().await.unwrap().as_millis() as i64).unwrap();
    let guard = acquired(&scene.ours.lock("job").ttl(TTL).tick(now)).await;
    scene.keeper_faults.always(Operation::Renew, Fault::Fail(ErrorKind::Unavailable));
    tokio::time::sleep(Duration::from_millis(25_400)).await;
    scene.keeper_faults.always(Operation::Renew, Fault::DelayReply(4 * SECOND));
    tokio::time::sleep(8 * SECOND).await;
    assert!(!guard.is_valid());
    assert!(scene.is_free("job").await, "given back");
    guard.not_started().await.unwrap();
    let next = acquired(&scene.others.lock("job").ttl(TTL).tick(now)).await;
    assert_eq!(next.attempt(), 1, "nobody has begun it");
}

#[tokio::test(start_paused = true)]
async fn the_time_to_wait_is_kept_with_a_store_that_is_silent() {
    let scene = scene();
    scene.faults.always(Operation::TryAcquire, Fault::HangBefore);
    let lock = scene.ours.lock("job").ttl(TTL);
    let first = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.map(|_| ()) }
    });
    settle().await;
    for lock in [lock.clone(), scene.ours.lock("another").ttl(TTL)] {
        let began = tokio::time::Instant::now();
        let _ = lock.wait(Wait::For(SECOND)).acquire().await;
        assert!(began.elapsed() <= 2 * SECOND, "{:?}", began.elapsed());
    }
    first.abort();
}

#[tokio::test(start_paused = true)]
async fn who_comes_later_does_not_overtake_one_of_ours_whose_claim_is_slow() {
    let scene = scene();
    scene.faults.next(Operation::TryAcquire, Fault::DelayRequest(Duration::from_millis(500)));
    let lock = scene.ours.lock("job").ttl(TTL);
    let first = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap().guard().is_some() }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    let second = lock.wait(Wait::For(Duration::from_millis(50))).acquire().await.unwrap();
    assert!(matches!(second, Outcome::Contended(_)));
    assert!(first.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_those_who_wait() {
    let scene = scene();
    let held = acquired(&scene.others.lock("job")).await;
    let lock = scene.ours.lock("job");
    let waiter = tokio::spawn(async move { lock.acquire().await });
    settle().await;
    scene.ours.shutdown().await;
    assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    settle().await;
    assert_eq!(scene.others.inspect("job").await.unwrap().unwrap().waiting, 0);
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_outlives_a_disk_that_is_full_for_a_moment() {
    let scene = scene();
    let held = acquired(&scene.others.lock("job")).await;
    let lock = scene.ours.lock("job").ttl(TTL);
    let waiter = tokio::spawn(async move { lock.acquire().await.unwrap().guard().is_some() });
    settle().await;
    scene.faults.next_few(3, Operation::TryAcquire, Fault::Fail(ErrorKind::Refused));
    tokio::time::sleep(5 * SECOND).await;
    held.release().await.unwrap();
    assert!(waiter.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscription_does_not_lose_the_place() {
    let scene = scene();
    let held = acquired(&scene.others.lock("job")).await;
    scene.faults.next(Operation::Subscribe, Fault::DelayRequest(3 * SECOND));
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for (who, locks) in [("first", &scene.ours), ("second", &scene.others)] {
        let (lock, order) = (locks.lock("job"), Arc::clone(&order));
        waiters.push(tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap().guard().unwrap();
            order.lock().unwrap().push(who);
            guard.release().await.unwrap();
        }));
        tokio::time::sleep(SECOND / 2).await;
    }
    tokio::time::sleep(SECOND / 2).await;
    held.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), ["first", "second"]);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_kept_but_not_polled_blocks_nobody() {
    let scene = scene();
    let held = acquired(&scene.others.lock("job")).await;
    let lock = scene.ours.lock("job");
    let mut stuck = Box::pin(lock.acquire());
    assert!(tokio::time::timeout(SECOND, &mut stuck).await.is_err());
    held.release().await.unwrap();
    let got = tokio::time::timeout(5 * SECOND, scene.ours.lock("job").acquire()).await;
    assert!(got.is_ok_and(|outcome| outcome.unwrap().guard().is_some()));
    drop(stuck);
}

#[tokio::test(start_paused = true)]
async fn l02_a_waiter_that_is_handed_the_lock_while_it_is_stuck_gives_way_and_comes_back() {
    let scene = scene();
    let held = acquired(&scene.others.lock("job")).await;
    let lock = scene.ours.lock("job");
    let mut stuck = Box::pin(lock.acquire());
    assert!(tokio::time::timeout(SECOND, &mut stuck).await.is_err());
    held.release().await.unwrap();
    let start = tokio::time::Instant::now();
    let other = scene.others.lock("job").acquire().await.unwrap().guard().unwrap();
    let idle = start.elapsed();
    assert!(idle > SECOND && idle < 5 * SECOND, "it had been handed over, and was taken back after {idle:?}");
    // What it was handed is not its own any more: it queues again.
    assert!(tokio::time::timeout(10 * SECOND, &mut stuck).await.is_err());
    assert!(other.is_valid());
    other.release().await.unwrap();
    let guard = stuck.await.unwrap().guard().unwrap();
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn l02_a_waiter_that_was_given_up_believes_no_answer_that_comes_after_that() {
    let scene = scene();
    scene.faults.lose_wake_ups();
    let held = acquired(&scene.others.lock("job")).await;
    let lock = scene.ours.lock("job");
    let mut waiter = Box::pin(lock.acquire());
    assert!(tokio::time::timeout(SECOND, &mut waiter).await.is_err());
    // Its next look will be answered with the grant, and then it is not polled for long.
    scene.faults.next(Operation::TryAcquire, Fault::DelayReply(SECOND));
    held.release().await.unwrap();
    assert!(tokio::time::timeout(SECOND * 3 / 4, &mut waiter).await.is_err());
    let other = scene.others.lock("job").acquire().await.unwrap().guard().unwrap();
    assert!(tokio::time::timeout(10 * SECOND, &mut waiter).await.is_err(), "the other one holds it alone");
    assert!(other.is_valid());
    other.release().await.unwrap();
    let guard = waiter.await.unwrap().guard().unwrap();
    assert!(guard.is_valid() && guard.token() > FencingToken::default());
    guard.release().await.unwrap();
    assert!(scene.is_free("job").await);
}

#[tokio::test(start_paused = true)]
async fn l02_a_waiter_that_is_not_polled_after_its_first_look_blocks_nobody_for_long() {
    let scene = scene();
    let held = acquired(&scene.others.lock("job")).await;
    let lock = scene.ours.lock("job");
    let mut kept = Box::pin(lock.acquire());
    assert!(tokio::time::timeout(Duration::ZERO, &mut kept).await.is_err());
    held.release().await.unwrap();
    let start = tokio::time::Instant::now();
    let other = scene.others.lock("job").acquire().await.unwrap().guard().unwrap();
    assert!(start.elapsed() < 9 * SECOND, "{:?}", start.elapsed());
    drop(kept);
    assert!(other.is_valid());
}

#[tokio::test(start_paused = true)]
async fn h03_what_is_handed_over_counts_from_the_claim_it_was_given_to() {
    let scene = scene();
    for ttl in [SECOND, 3 * SECOND, TTL] {
        let held = acquired(&scene.others.lock("job")).await;
        let waiter = tokio::spawn({
            let lock = scene.ours.lock("job").ttl(ttl);
            async move { lock.acquire().await.unwrap().guard().unwrap() }
        });
        settle().await;
        held.release().await.unwrap();
        let guard = waiter.await.unwrap();
        let (ours, stores) = (guard.remaining(), scene.others.inspect("job").await.unwrap().unwrap().remaining);
        assert!(ours < stores && ours > ttl / 2, "of {ttl:?} we believe in {ours:?}, the store has {stores:?}");
        tokio::time::sleep(2 * ttl).await;
        assert!(guard.is_valid(), "and it is renewed");
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_hand_over_costs_a_second_at_most() {
    let scene = scene();
    scene.faults.lose_wake_ups();
    let held = acquired(&scene.others.lock("job")).await;
    let waiter = tokio::spawn({
        let lock = scene.ours.lock("job");
        async move { lock.acquire().await.unwrap().guard().unwrap() }
    });
    settle().await;
    let start = tokio::time::Instant::now();
    held.release().await.unwrap();
    let guard = waiter.await.unwrap();
    assert!(guard.is_valid() && start.elapsed() <= SECOND);
}

#[tokio::test(start_paused = true)]
async fn n03_an_outage_is_no_contention_because_one_of_ours_waits_for_it() {
    let scene = scene();
    scene.faults.cut();
    let lock = scene.ours.lock("job").ttl(TTL);
    let first = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.map(|_| ()) }
    });
    settle().await;
    let error = lock.wait(Wait::For(SECOND)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    first.abort();
}
