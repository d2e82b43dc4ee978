//! Watching a lock over the memory store, under paused time.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use leasehold::stores::Memory;
use leasehold::{ErrorKind, Guard, Holding, Lock, Locks, Revoke, Watching};
use leasehold_testkit::{Fault, Faults, Faulty, Operation, PausedClock};
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
/// The longest pause between two looks, and what timers add.
const LOOK: Duration = Duration::from_millis(510);

fn locks() -> Locks {
    breakable().0
}

fn breakable() -> (Locks, Faults) {
    let clock = Arc::new(PausedClock::start());
    let store = Faulty::over(Arc::new(Memory::new(clock.clone())));
    let faults = store.faults();
    (Locks::builder().simulated(clock).label("web-1/7/backup").over(Arc::new(store)), faults)
}

async fn acquired(lock: &Lock) -> Guard {
    lock.try_acquire().await.unwrap().guard().expect("the lock is free")
}

async fn next(watching: &mut Watching) -> Option<Holding> {
    let news = timeout(LOOK, watching.next()).await;
    news.expect("a change is told within half a second").unwrap()
}

/// Nothing is told while `span` passes.
async fn quiet(watching: &mut Watching, span: Duration) {
    let news = timeout(span, watching.next()).await;
    assert!(news.is_err(), "{news:?}");
}

/// How long it took.
async fn timed<T>(future: impl Future<Output = T>) -> (T, Duration) {
    let began = Instant::now();
    (future.await, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn the_state_at_the_start_is_told_at_once() {
    let locks = locks();
    let mut free = locks.watch("job").unwrap();
    assert_eq!(timed(next(&mut free)).await, (None, Duration::ZERO));

    let guard = acquired(&locks.lock("job")).await;
    let (held, took) = timed(async { locks.watch("job").unwrap().next().await }).await;
    assert_eq!(held.unwrap().unwrap().holder, Some(guard.holder()));
    assert_eq!(took, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn grants_and_ends_are_told() {
    let locks = locks();
    let mut watching = locks.watch("job").unwrap();
    assert_eq!(next(&mut watching).await, None);
    for _ in 0..3 {
        let guard = acquired(&locks.lock("job")).await;
        let held = next(&mut watching).await.unwrap();
        assert_eq!((held.holder, held.token), (Some(guard.holder()), guard.token()));
        assert_eq!(held.label, "web-1/7/backup");
        sleep(5 * SECOND).await;
        guard.release().await.unwrap();
        assert_eq!(next(&mut watching).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn of_several_holders_each_is_watched_and_whose_lease_ends_first_is_no_news() {
    let locks = locks();
    let mut watching = locks.watch("job").unwrap();
    assert_eq!(next(&mut watching).await, None);
    let lock = locks.lock("job").permits(3).ttl(3 * SECOND);
    let one = acquired(&lock).await;
    assert_eq!(next(&mut watching).await.unwrap().holder, Some(one.holder()));
    sleep(SECOND / 2).await;
    let two = acquired(&lock).await;
    assert_eq!(next(&mut watching).await.unwrap().others.len(), 1, "a second one is news");
    quiet(&mut watching, 20 * SECOND).await; // They renew in turn.
    two.release().await.unwrap();
    let left = next(&mut watching).await.unwrap();
    assert_eq!((left.holder, left.others.len()), (Some(one.holder()), 0));
    quiet(&mut watching, 20 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_while_only_time_passes() {
    let locks = locks();
    let mut watching = locks.watch("job").unwrap();
    next(&mut watching).await;
    quiet(&mut watching, 100 * SECOND).await;
    let _guard = acquired(&locks.lock("job")).await;
    next(&mut watching).await.unwrap();
    quiet(&mut watching, 100 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn an_end_is_told_by_a_hint_before_the_next_look() {
    let locks = locks();
    let guard = acquired(&locks.lock("job")).await;
    let mut watching = locks.watch("job").unwrap();
    next(&mut watching).await.unwrap();
    quiet(&mut watching, 10 * SECOND).await;
    guard.release().await.unwrap();
    let (free, took) = timed(next(&mut watching)).await;
    assert_eq!(free, None);
    assert!(took <= Duration::from_millis(60), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_end_is_told_without_any_hint() {
    let (locks, faults) = breakable();
    faults.lose_wake_ups();
    let guard = acquired(&locks.lock("job")).await;
    let mut watching = locks.watch("job").unwrap();
    next(&mut watching).await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(next(&mut watching).await, None);
}

#[tokio::test(start_paused = true)]
async fn waiters_revocations_and_minimum_holds_are_told() {
    let locks = locks();
    let guard = acquired(&locks.lock("job").at_least_for(60 * SECOND)).await;
    let mut watching = locks.watch("job").unwrap();
    assert_eq!(next(&mut watching).await.unwrap().waiting, 0);

    let waiter = tokio::spawn({
        let lock = locks.lock("job");
        async move { lock.acquire().await.unwrap().guard().unwrap() }
    });
    assert_eq!(next(&mut watching).await.unwrap().waiting, 1);

    locks.revoke("job", Revoke::Gently).await.unwrap();
    assert!(next(&mut watching).await.unwrap().revoked);

    guard.release().await.unwrap();
    let kept = next(&mut watching).await.unwrap();
    assert_eq!(kept.holder, None);
    assert!(kept.remaining > 50 * SECOND, "{kept:?}");

    let second = waiter.await.unwrap();
    let held = next(&mut watching).await.unwrap();
    assert_eq!((held.holder, held.waiting), (Some(second.holder()), 0));
}

#[tokio::test(start_paused = true)]
async fn what_was_too_short_to_be_seen_leaves_a_token_where_nobody_holds_the_lock() {
    let locks = locks();
    let mut watching = locks.watch("job").unwrap();
    let guard = acquired(&locks.lock("job")).await;
    let before = next(&mut watching).await.unwrap().token;
    guard.release().await.unwrap();
    assert_eq!(next(&mut watching).await, None);
    acquired(&locks.lock("job").at_least_for(60 * SECOND)).await.release().await.unwrap();
    let kept = next(&mut watching).await.unwrap();
    assert_eq!(kept.holder, None);
    assert!(kept.token > before, "{kept:?}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_told_once_and_so_is_its_end() {
    let (locks, faults) = breakable();
    let guard = acquired(&locks.lock("job")).await;
    let mut watching = locks.watch("job").unwrap();
    next(&mut watching).await.unwrap();
    faults.always(Operation::Inspect, Fault::Fail(ErrorKind::Unavailable));
    assert_eq!(watching.next().await.unwrap_err().kind(), ErrorKind::Unavailable);
    quiet(&mut watching, 100 * SECOND).await;
    faults.heal();
    assert_eq!(next(&mut watching).await.unwrap().holder, Some(guard.holder()), "though nothing has changed");
    quiet(&mut watching, 10 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_is_an_outage_too() {
    let (locks, faults) = breakable();
    let mut watching = locks.watch("job").unwrap();
    next(&mut watching).await;
    faults.always(Operation::Inspect, Fault::HangBefore);
    let told = timeout(10 * SECOND, watching.next()).await.expect("no hang");
    assert_eq!(told.unwrap_err().kind(), ErrorKind::TimedOut);
    faults.heal();
    assert_eq!(timeout(10 * SECOND, watching.next()).await.unwrap().unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_pass_is_told_each_time_but_not_without_a_pause() {
    let (locks, faults) = breakable();
    let mut watching = locks.watch("job").unwrap();
    next(&mut watching).await;
    faults.always(Operation::Inspect, Fault::Fail(ErrorKind::AccessDenied));
    for _ in 0..3 {
        let (denied, took) = timed(watching.next()).await;
        assert_eq!(denied.unwrap_err().kind(), ErrorKind::AccessDenied);
        assert!((SECOND / 4..=LOOK).contains(&took), "{took:?}");
    }
    faults.heal();
    locks.shutdown().await;
    assert_eq!(timeout(SECOND, watching.next()).await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn it_looks_a_few_times_a_second_however_often_the_store_rings() {
    let (locks, faults) = breakable();
    let mut watching = locks.watch("job").unwrap();
    next(&mut watching).await;
    let before = faults.calls(Operation::Inspect);
    quiet(&mut watching, 10 * SECOND).await;
    let idle = faults.calls(Operation::Inspect) - before;
    assert!((20..=40).contains(&idle), "{idle} looks in 10 s");

    let ringing = async {
        for _ in 0..1000 {
            acquired(&locks.lock("job")).await.release().await.unwrap();
            sleep(Duration::from_millis(10)).await;
        }
    };
    let before = faults.calls(Operation::Inspect);
    tokio::select! {
        () = ringing => {}
        news = watching.next() => panic!("{news:?}"),
    }
    let rung = faults.calls(Operation::Inspect) - before;
    assert!((20..=201).contains(&rung), "{rung} looks in 10 s");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_cancels_all_the_time_is_told_all_the_same() {
    let locks = locks();
    let mut watching = locks.watch("job").unwrap();
    next(&mut watching).await;
    let guard = acquired(&locks.lock("job")).await;
    let began = Instant::now();
    let held = loop {
        if let Ok(news) = timeout(Duration::from_millis(7), watching.next()).await {
            break news.unwrap().unwrap();
        }
        assert!(began.elapsed() < LOOK, "the pause begins anew each time");
    };
    assert_eq!(held.holder, Some(guard.holder()));
}

#[tokio::test(start_paused = true)]
async fn a_bad_name_is_refused() {
    assert_eq!(locks().watch("").unwrap_err().kind(), ErrorKind::Invalid);
}
