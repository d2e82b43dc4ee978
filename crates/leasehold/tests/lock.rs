//! Locks, guards and the keeper over the memory store, under paused time: hours pass in milliseconds, and
//! every instant is exact. Tests of faults of other systems bear their number.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::stores::Memory;
use leasehold::{
    Answer, ErrorKind, Event, Guard, Lock, Locks, LossReason, Outcome, Ran, Released, Revoke, Wait, validity,
};
use leasehold_testkit::{Fault, Faulty, Operation, PausedClock};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(30);

fn locks() -> Locks {
    let clock = Arc::new(PausedClock::start());
    Locks::builder().simulated(clock.clone()).over(Arc::new(Memory::new(clock)))
}

async fn acquired(lock: &Lock) -> Guard {
    lock.try_acquire().await.unwrap().guard().expect("the lock is free")
}

async fn is_held(locks: &Locks, name: &str) -> bool {
    locks.inspect(name).await.unwrap().is_some()
}

/// Lets the background do what it can do now.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_held_lock_is_told_apart_from_an_error() {
    let locks = locks();
    let guard = acquired(&locks.lock("job").label("web-1/7/backup")).await;
    tokio::time::sleep(5 * SECOND).await;
    let Outcome::Contended(other) = locks.lock("job").try_acquire().await.unwrap() else { panic!("held") };
    assert_eq!(other.holder, Some(guard.holder()));
    assert_eq!(other.label, "web-1/7/backup");
    assert_eq!(other.held_for, 5 * SECOND);
    assert_eq!(guard.release().await.unwrap(), Released::InTime);
    assert!(!is_held(&locks, "job").await);
}

#[tokio::test(start_paused = true)]
async fn of_each_acquisition_it_is_told_once_what_it_came_to() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let observer = move |event: &Event<'_>| {
        if let Event::Answered { name, waited, contended, answer } = event {
            let answer = match answer {
                Answer::Acquired => "acquired",
                Answer::Contended(_) => "contended",
                Answer::NotDue(_) => "not due",
                Answer::Failed(_) => "failed",
                _ => "another",
            };
            log.lock().unwrap().push((name.to_string(), waited.as_secs(), *contended, answer));
        }
    };
    let clock = Arc::new(PausedClock::start());
    let store = Faulty::over(Arc::new(Memory::new(clock.clone())));
    let faults = store.faults();
    let locks = Locks::builder().observer(observer).simulated(clock).over(Arc::new(store));
    let told = || std::mem::take(&mut *told.lock().unwrap());

    let guard = acquired(&locks.lock("job")).await;
    assert_eq!(told(), [("job".into(), 0, false, "acquired")]);
    assert!(locks.lock("job").try_acquire().await.unwrap().guard().is_none());
    assert!(locks.lock("job").wait(Wait::For(5 * SECOND)).acquire().await.unwrap().guard().is_none());
    assert_eq!(told(), [("job".into(), 0, true, "contended"), ("job".into(), 5, true, "contended")]);

    let lock = locks.lock("job");
    let (next, released) = tokio::join!(lock.acquire(), async {
        tokio::time::sleep(7 * SECOND).await;
        guard.release().await
    });
    assert_eq!((told(), released.unwrap()), (vec![("job".into(), 7, true, "acquired")], Released::InTime));
    drop(next.unwrap());

    let once = locks.once("key", Duration::from_secs(3600));
    acquired(&once).await.complete().await.unwrap();
    assert!(matches!(once.try_acquire().await.unwrap(), Outcome::NotDue(_)));
    assert_eq!(told(), [("key".into(), 0, false, "acquired"), ("key".into(), 0, false, "not due")]);

    faults.always(Operation::TryAcquire, Fault::Fail(ErrorKind::Misconfigured));
    assert!(locks.lock("other").try_acquire().await.is_err());
    assert_eq!(told(), [("other".into(), 0, false, "failed")]);
    let unobserved = locks.unobserved();
    assert!(unobserved.lock("other").try_acquire().await.is_err());
    assert_eq!(told(), []);
}

#[tokio::test(start_paused = true)]
async fn c07_a_job_may_run_for_much_longer_than_its_ttl() {
    let locks = locks();
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    let token = guard.token();
    for _ in 0..1000 {
        tokio::time::sleep(7 * SECOND).await;
        assert!(guard.is_valid());
        assert!(matches!(locks.lock("job").try_acquire().await.unwrap(), Outcome::Contended(_)));
    }
    assert_eq!(guard.token(), token, "m03: renewals keep the token");
    assert_eq!(guard.loss(), None);
}

#[tokio::test(start_paused = true)]
async fn c10_l08_after_a_stall_the_deadline_comes_first() {
    let locks = locks();
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    // Everything stands still for twenty periods, then goes on at once: as SIGSTOP and SIGCONT.
    tokio::time::advance(20 * TTL).await;
    assert!(!guard.is_valid(), "without having been told by anybody");
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(guard.lost().await, LossReason::Expired);
    let next = acquired(&locks.lock("job")).await;
    assert!(next.token() > guard.token());
    // The stale guard's release is harmless.
    assert_eq!(guard.release().await.unwrap(), Released::TooLate);
    assert!(next.is_valid() && is_held(&locks, "job").await);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_machine_wakes_up_to_a_loss() {
    let locks = locks();
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    tokio::time::advance(validity::of(TTL) + Duration::from_millis(1)).await;
    assert!(!guard.is_valid());
    assert_eq!(guard.lost().await, LossReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn c11_remaining_counts_from_the_winning_attempt() {
    let locks = locks();
    let first = acquired(&locks.lock("job").ttl(TTL)).await;
    let waiter = tokio::spawn({
        let lock = locks.lock("job").ttl(TTL);
        async move { lock.acquire().await.unwrap().guard().unwrap() }
    });
    tokio::time::sleep(TTL.mul_f64(1.2)).await;
    first.release().await.unwrap();
    let second = waiter.await.unwrap();
    assert!(second.remaining() > validity::of(TTL) - SECOND, "{:?}", second.remaining());
}

#[tokio::test(start_paused = true)]
async fn two_who_wait_come_one_after_the_other() {
    let locks = locks();
    let inside = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let worker = |locks: Locks, inside: Arc<std::sync::atomic::AtomicBool>| async move {
        locks
            .lock("job")
            .run(async |_guard| {
                assert!(!inside.swap(true, std::sync::atomic::Ordering::SeqCst));
                tokio::time::sleep(3 * SECOND).await;
                inside.store(false, std::sync::atomic::Ordering::SeqCst);
            })
            .await
            .unwrap()
    };
    let workers: Vec<_> = (0..20).map(|_| tokio::spawn(worker(locks.clone(), inside.clone()))).collect();
    for worker in workers {
        assert!(matches!(worker.await.unwrap(), Ran::Done(())));
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_is_over_when_the_time_is_over() {
    let locks = locks();
    let _guard = acquired(&locks.lock("job")).await;
    let began = tokio::time::Instant::now();
    let outcome = locks.lock("job").wait(Wait::For(15 * SECOND)).acquire().await.unwrap();
    assert!(matches!(outcome, Outcome::Contended(_)));
    assert!((15 * SECOND..16 * SECOND).contains(&began.elapsed()), "{:?}", began.elapsed());
    settle().await;
    assert_eq!(locks.inspect("job").await.unwrap().unwrap().waiting, 0, "nothing is left in the queue");
}

#[tokio::test(start_paused = true)]
async fn who_waits_behind_one_of_ours_gives_up_in_time_too() {
    let locks = locks();
    let _guard = acquired(&locks.lock("job")).await;
    let first = tokio::spawn({
        let lock = locks.lock("job").wait(Wait::For(100 * SECOND));
        async move { lock.acquire().await }
    });
    settle().await;
    let began = tokio::time::Instant::now();
    let second = locks.lock("job").wait(Wait::For(5 * SECOND)).acquire().await.unwrap();
    assert!(matches!(second, Outcome::Contended(_)));
    assert!(began.elapsed() < 6 * SECOND);
    assert!(matches!(first.await.unwrap().unwrap(), Outcome::Contended(_)));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_waiter_leaves_nothing_behind() {
    let locks = locks();
    let guard = acquired(&locks.lock("job")).await;
    for _ in 0..50 {
        let lock = locks.lock("job");
        let cancelled = tokio::time::timeout(Duration::from_millis(700), lock.acquire()).await;
        assert!(cancelled.is_err());
    }
    settle().await;
    assert_eq!(locks.inspect("job").await.unwrap().unwrap().waiting, 0);
    guard.release().await.unwrap();
    assert!(!is_held(&locks, "job").await, "f07: and nobody who is gone is granted it");
    let _ = acquired(&locks.lock("job")).await;
}

#[tokio::test(start_paused = true)]
async fn b08_cancelled_at_any_instant_of_a_hand_over_it_is_free_or_held_never_leaked() {
    let locks = locks();
    for offset in 0..400_u64 {
        let holder = acquired(&locks.lock("job").ttl(SECOND)).await;
        let lock = locks.lock("job").ttl(SECOND);
        let release = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            holder.release().await.unwrap()
        };
        let wait = tokio::time::timeout(Duration::from_millis(offset), lock.acquire());
        let (got, released) = tokio::join!(wait, release);
        assert_eq!(released, Released::InTime);
        if let Ok(outcome) = got {
            let guard = outcome.unwrap().guard().expect("waits for ever");
            assert!(guard.is_valid() && is_held(&locks, "job").await);
            guard.release().await.unwrap();
        }
        settle().await;
        assert!(!is_held(&locks, "job").await, "cancelled after {offset} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_is_free_at_once() {
    let locks = locks();
    drop(acquired(&locks.lock("job")).await);
    settle().await;
    assert!(!is_held(&locks, "job").await);
}

#[tokio::test(start_paused = true)]
async fn a11_a_release_that_is_cancelled_goes_on() {
    let locks = locks();
    let guard = acquired(&locks.lock("job")).await;
    drop(guard.release()); // Never polled.
    settle().await;
    assert!(!is_held(&locks, "job").await);
}

/// Dropped while it is under way, before the store has heard of it or after, or answered by an error.
#[tokio::test(start_paused = true)]
async fn a11_a_release_that_is_cut_short_frees_the_lock_within_a_second() {
    for fault in [
        Fault::HangBefore,
        Fault::HangAfter,
        Fault::DelayRequest(10 * SECOND),
        Fault::LoseRequest,
        Fault::LoseReply,
        Fault::Fail(ErrorKind::Unavailable),
    ] {
        let clock = Arc::new(PausedClock::start());
        let memory = Arc::new(Memory::new(clock.clone()));
        let store = Faulty::over(memory.clone());
        let faults = store.faults();
        let others = Locks::builder().simulated(clock.clone()).over(memory);
        let locks = Locks::builder().simulated(clock).over(Arc::new(store));
        let guard = acquired(&locks.lock("job").ttl(TTL)).await;
        faults.next(Operation::Release, fault);
        tokio::select! {
            biased;
            released = guard.release() => assert!(released.is_err(), "{fault:?}: {released:?}"),
            () = settle() => assert_eq!(faults.calls(Operation::Release), 1, "{fault:?}: it is under way"),
        }
        let began = tokio::time::Instant::now();
        while is_held(&others, "job").await {
            assert!(began.elapsed() < SECOND, "{fault:?}: it is left to its TTL");
            settle().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_what_was_dropped() {
    let locks = locks();
    for i in 0..100 {
        drop(acquired(&locks.lock(&format!("job-{i}"))).await);
    }
    locks.shutdown().await;
    assert!(locks.list().await.unwrap().is_empty());
    assert_eq!(locks.lock("job").try_acquire().await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_panics_or_is_cancelled_frees_its_lock() {
    let locks = locks();
    let lock = locks.lock("job");
    let panics = tokio::spawn({
        let lock = lock.clone();
        async move { lock.run(async |_guard| panic!("as the test wants it")).await.map(|_: Ran<()>| ()) }
    });
    assert!(panics.await.unwrap_err().is_panic());
    settle().await;
    assert!(!is_held(&locks, "job").await);

    let hangs = tokio::time::timeout(SECOND, lock.run(async |_guard| std::future::pending::<()>().await)).await;
    assert!(hangs.is_err());
    settle().await;
    assert!(!is_held(&locks, "job").await);
}

#[tokio::test(start_paused = true)]
async fn revoked_gently_the_holder_is_told_and_stays_exclusive_until_it_releases() {
    let locks = locks();
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    let hit = locks.revoke("job", Revoke::Gently).await.unwrap().unwrap();
    assert_eq!(hit.holder, Some(guard.holder()));
    assert_eq!(guard.lost().await, LossReason::Revoked);
    assert!(guard.is_valid(), "it is still ours");
    assert!(matches!(locks.lock("job").try_acquire().await.unwrap(), Outcome::Contended(_)));
    assert_eq!(guard.release().await.unwrap(), Released::InTime);
    let _ = acquired(&locks.lock("job")).await;
}

#[tokio::test(start_paused = true)]
async fn revoked_gently_a_holder_that_does_not_listen_loses_it_with_its_ttl() {
    let locks = locks();
    let deaf = acquired(&locks.lock("job").ttl(TTL)).await;
    locks.revoke("job", Revoke::Gently).await.unwrap();
    let next = locks.lock("job").wait(Wait::For(TTL + SECOND)).acquire().await.unwrap().guard().expect("within a TTL");
    assert!(!deaf.is_valid() && next.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a03_a04_cut_at_once_the_holder_is_told_at_its_next_renewal_and_does_not_come_back() {
    let locks = locks();
    let old = acquired(&locks.lock("job").ttl(TTL)).await;
    locks.revoke("job", Revoke::Now).await.unwrap();
    let next = acquired(&locks.lock("job")).await;
    let began = tokio::time::Instant::now();
    assert_eq!(old.lost().await, LossReason::Gone);
    assert!(began.elapsed() <= TTL / 3 + SECOND);
    assert!(!old.is_valid());
    assert_eq!(old.release().await.unwrap(), Released::TooLate);
    assert!(next.is_valid() && is_held(&locks, "job").await);
}

#[tokio::test(start_paused = true)]
async fn max_hold_ends_what_hangs() {
    let locks = locks();
    let began = tokio::time::Instant::now();
    let ran = locks.lock("job").ttl(TTL).max_hold(100 * SECOND).run(async |_| std::future::pending::<()>().await).await;
    assert!(matches!(ran.unwrap(), Ran::Lost(LossReason::HeldTooLong)));
    assert_eq!(began.elapsed().as_secs(), 100);
    assert!(!is_held(&locks, "job").await);
}

#[tokio::test(start_paused = true)]
async fn max_hold_of_a_holder_that_does_not_listen_is_over_with_its_ttl() {
    let locks = locks();
    let deaf = acquired(&locks.lock("job").ttl(TTL).max_hold(100 * SECOND)).await;
    let wait = locks.lock("job").wait(Wait::For(100 * SECOND + TTL + SECOND));
    let next = wait.acquire().await.unwrap().guard().expect("renewals ended");
    assert!(!deaf.is_valid() && next.is_valid());
}

#[tokio::test(start_paused = true)]
async fn who_reports_progress_keeps_the_lock_and_who_does_not_loses_it() {
    let locks = locks();
    let guard = acquired(&locks.lock("job").ttl(TTL).progress_within(20 * SECOND)).await;
    for _ in 0..30 {
        tokio::time::sleep(15 * SECOND).await;
        guard.touch();
        assert!(guard.is_valid() && guard.loss().is_none());
    }
    let began = tokio::time::Instant::now();
    assert_eq!(guard.lost().await, LossReason::NoProgress);
    assert!(began.elapsed() < 20 * SECOND + TTL, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_minimum_hold_outlasts_the_release() {
    let locks = locks();
    let guard = acquired(&locks.lock("job").ttl(TTL).at_least_for(60 * SECOND)).await;
    tokio::time::sleep(10 * SECOND).await;
    guard.release().await.unwrap();
    let Outcome::Contended(kept) = locks.lock("job").try_acquire().await.unwrap() else { panic!("kept") };
    assert_eq!(kept.holder, None);
    assert_eq!(kept.remaining, 50 * SECOND);
    let began = tokio::time::Instant::now();
    let _guard = locks.lock("job").acquire().await.unwrap().guard().unwrap();
    assert!((50 * SECOND..52 * SECOND).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a05_bad_terms_are_refused_when_configured() {
    let locks = locks();
    let lock = || locks.lock("job");
    let ms = Duration::from_millis;
    for (bad, names) in [
        (lock().ttl(Duration::ZERO), "at least 1s"),
        (lock().ttl(Duration::from_micros(300)), "300µs"),
        (lock().ttl(ms(999)), "999ms"),
        (lock().ttl(Duration::from_secs(3601)), "at most 3600s"),
        (lock().stop_grace(Duration::ZERO), "grace is 0"),
        (lock().ttl(SECOND).stop_grace(ms(501)), "more than half"),
        (lock().max_hold(Duration::ZERO), "would end every job"),
        (lock().progress_within(Duration::ZERO), "would end every job"),
        (lock().at_least_for(2 * SECOND).max_hold(SECOND), "longer than the maximum hold"),
        (locks.lock(""), "is empty"),
        (locks.lock("a\nb"), "control character"),
        (locks.lock(&"x".repeat(201)), "at most 200"),
    ] {
        let error = bad.clone().checked().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(names), "{error}");
        assert!(bad.try_acquire().await.is_err() && bad.acquire().await.is_err());
    }
    assert!(locks.list().await.unwrap().is_empty(), "nothing was sent");
    assert!(lock().ttl(SECOND).stop_grace(ms(500)).checked().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a08_a_clone_of_a_lock_is_another_acquisition() {
    let locks = locks();
    let lock = locks.lock("job").ttl(SECOND);
    let first = acquired(&lock).await;
    let first_token = first.token();
    tokio::time::advance(2 * SECOND).await; // A stall: the lease lapses.
    let second = acquired(&lock.clone()).await;
    assert_eq!(first.release().await.unwrap(), Released::TooLate);
    assert!(second.is_valid() && is_held(&locks, "job").await);
    assert!(first_token < second.token());
}

#[tokio::test(start_paused = true)]
async fn a09_a_lapsed_lease_does_not_block_its_own_process() {
    let locks = locks();
    let first = acquired(&locks.lock("job").ttl(SECOND)).await;
    tokio::time::advance(2 * SECOND).await;
    assert_eq!(first.release().await.unwrap(), Released::TooLate);
    let _second = acquired(&locks.lock("job")).await;
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_held_leases_are_all_renewed() {
    let locks = locks();
    let mut guards = Vec::new();
    for i in 0..10_000 {
        guards.push(acquired(&locks.lock(&format!("job-{i}")).ttl(TTL)).await);
    }
    for _ in 0..10 {
        tokio::time::sleep(TTL).await;
        assert!(guards.iter().all(|guard| guard.is_valid() && guard.loss().is_none()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_future_of_run_can_be_spawned() {
    let locks = locks();
    let lock = locks.lock("job");
    let ran = tokio::spawn(async move { lock.run(async |guard| guard.token().number()).await }).await.unwrap().unwrap();
    assert!(matches!(ran, Ran::Done(token) if token > 0));
}

#[tokio::test(start_paused = true)]
async fn a01_b13_a_release_by_who_holds_it_no_longer_changes_nothing() {
    let locks = locks();
    let first = acquired(&locks.lock("job").ttl(SECOND).stop_grace(Duration::from_millis(100))).await;
    tokio::time::advance(2 * SECOND).await;
    let second = acquired(&locks.lock("job")).await;
    assert_eq!(first.release().await.unwrap(), Released::TooLate);
    let Outcome::Contended(other) = locks.lock("job").try_acquire().await.unwrap() else { panic!("held") };
    assert_eq!(other.holder, Some(second.holder()));
}

#[tokio::test(start_paused = true)]
async fn a13_of_two_who_find_a_dead_holder_one_gets_the_lock() {
    let locks = locks();
    for round in 0..100 {
        let dead = acquired(&locks.lock("job").ttl(SECOND)).await;
        tokio::time::advance(2 * SECOND).await;
        let lock = locks.lock("job");
        let (one, two) = tokio::join!(lock.try_acquire(), lock.try_acquire());
        let won = [one, two].into_iter().filter_map(|outcome| outcome.unwrap().guard()).collect::<Vec<_>>();
        assert_eq!(won.len(), 1, "round {round}");
        drop(dead);
        settle().await;
        assert!(is_held(&locks, "job").await, "the dead one's release is not the winner's");
        for guard in won {
            guard.release().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn f03_who_waits_for_long_keeps_its_place() {
    let locks = locks();
    let holder = acquired(&locks.lock("job").ttl(TTL)).await;
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for place in 0..5 {
        let (lock, order) = (locks.lock("job").ttl(TTL), Arc::clone(&order));
        waiters.push(tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap().guard().unwrap();
            order.lock().unwrap().push(place);
            guard.release().await.unwrap();
        }));
        tokio::time::sleep(SECOND).await;
    }
    tokio::time::sleep(100 * SECOND).await; // A hundred times as long as an unrefreshed entry lives.
    holder.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn f05_nobody_is_starved_while_the_lock_changes_hands_briskly() {
    let locks = locks();
    for _ in 0..20 {
        let workers: Vec<_> = (0..20)
            .map(|_| {
                let lock = locks.lock("job").wait(Wait::For(30 * SECOND));
                tokio::spawn(async move {
                    let guard = lock.acquire().await.unwrap().guard().expect("nobody times out");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    guard.release().await.unwrap();
                })
            })
            .collect();
        for worker in workers {
            worker.await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn f06_one_process_may_wait_for_five_hundred_names() {
    let locks = locks();
    let mut held = Vec::new();
    let mut waiters = Vec::new();
    for i in 0..500 {
        let name = format!("job-{i}");
        held.push(acquired(&locks.lock(&name)).await);
        let lock = locks.lock(&name);
        waiters.push(tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() }));
    }
    tokio::time::sleep(10 * SECOND).await;
    for guard in held {
        guard.release().await.unwrap();
    }
    let began = tokio::time::Instant::now();
    for waiter in waiters {
        assert!(waiter.await.unwrap().is_valid());
    }
    assert!(began.elapsed() < 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn m01_r02_a_resource_that_remembers_the_token_refuses_a_holder_that_was_paused() {
    let locks = locks();
    let mut newest = 0;
    let mut write = |token: u64| {
        let accepted = token >= newest;
        newest = newest.max(token);
        accepted
    };
    let paused = acquired(&locks.lock("job").ttl(SECOND)).await;
    assert!(paused.is_valid(), "it looks, and is paused before it writes");
    tokio::time::advance(5 * SECOND).await;
    let next = acquired(&locks.lock("job")).await;
    assert!(write(next.token().number()));
    assert!(!write(paused.token().number()));
}

#[tokio::test(start_paused = true)]
async fn l09_a_release_in_the_instant_of_a_renewal_is_no_loss() {
    let locks = locks();
    for offset in 0..200 {
        let guard = acquired(&locks.lock("job").ttl(3 * SECOND)).await;
        tokio::time::sleep(Duration::from_millis(900 + offset)).await;
        assert_eq!(guard.loss(), None);
        assert_eq!(guard.release().await.unwrap(), Released::InTime);
    }
}

#[tokio::test(start_paused = true)]
async fn o02_the_job_is_not_reached_without_the_lock() {
    let locks = locks();
    let _held = acquired(&locks.lock("job")).await;
    let impatient = locks.lock("job").wait(Wait::For(SECOND));
    let ran = impatient.run(async |_| panic!("it must not run")).await.unwrap();
    assert!(matches!(ran, Ran::<()>::Contended(_)));
}

#[tokio::test(start_paused = true)]
async fn spans_without_end_are_no_trouble() {
    let locks = locks();
    let lock =
        locks.lock("job").wait(Wait::For(Duration::MAX)).max_hold(Duration::MAX).at_least_for(Duration::from_secs(1));
    let guard = lock.acquire().await.unwrap().guard().unwrap();
    tokio::time::sleep(100 * TTL).await;
    assert!(guard.is_valid());
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap().guard().is_some() }
    });
    tokio::time::sleep(TTL).await;
    guard.release().await.unwrap();
    assert!(waiter.await.unwrap());
}
