//! What jobs need of a lock, under paused time: ticks, keys, permits, several locks at once. The numbers are those of
//! the fault of another system that the test was made of.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::stores::Memory;
use leasehold::{
    ErrorKind, Event, Guard, Lock, Locks, MultiLock, NotDue, Outcome, Ran, Released, TICK_SLACK, Tick, Wait,
};
use leasehold_testkit::{Fault, Faults, Faulty, Operation, PausedClock};

mod claims;
use claims::acquired;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);
const TTL: Duration = Duration::from_secs(30);

/// Two clients of one store; what one of them asks may go wrong.
struct Scene {
    ours: Locks,
    others: Locks,
    faults: Faults,
    told: Arc<Mutex<Vec<String>>>,
}

fn scene() -> Scene {
    let clock = Arc::new(PausedClock::start());
    let store = Arc::new(Memory::new(clock.clone()));
    let faulty = Faulty::over(store.clone());
    let faults = faulty.faults();
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let observer = move |event: &Event<'_>| {
        if let Event::GaveUp { tick, .. } | Event::NotDue { tick, .. } = event {
            log.lock().unwrap().push(format!("{tick}: {event:?}"));
        }
    };
    let ours = Locks::builder().observer(observer).simulated(clock.clone()).over(Arc::new(faulty));
    let others = Locks::builder().simulated(clock).over(store);
    Scene { ours, others, faults, told }
}

/// The last whole minute of the store's clock, shifted.
async fn tick(locks: &Locks, minutes: i64) -> Tick {
    let now = locks.time().await.unwrap().as_millis() as i64;
    Tick::from_unix_millis(now - now % 60_000 + minutes * 60_000).unwrap()
}

async fn not_due(lock: &Lock) -> NotDue {
    match lock.try_acquire().await.unwrap() {
        Outcome::NotDue(why) => why,
        other => panic!("it should not be due: {other:?}"),
    }
}

async fn contended(lock: &Lock) {
    match lock.try_acquire().await.unwrap() {
        Outcome::Contended(_) => {}
        other => panic!("it should be held: {other:?}"),
    }
}

async fn settle() {
    tokio::time::sleep(SECOND).await;
}

// ---- ticks

#[tokio::test(start_paused = true)]
async fn q01_whoever_comes_after_a_short_job_skips_it() {
    let Scene { ours, others, .. } = scene();
    let now = tick(&ours, 0).await;
    let Ran::Done(()) = ours.lock("job").tick(now).run(async |_| ()).await.unwrap() else { panic!("it is due") };
    for late in [2 * SECOND, 50 * SECOND, 8 * MINUTE] {
        tokio::time::sleep(late).await;
        assert_eq!(not_due(&others.lock("job").tick(now)).await, NotDue::Claimed { newest: now, unfinished: false });
    }
}

#[tokio::test(start_paused = true)]
async fn q01_q05_nodes_whose_clocks_differ_run_each_tick_once() {
    let clock = Arc::new(PausedClock::start());
    let store = Arc::new(Memory::new(clock.clone()));
    let node = || Locks::builder().simulated(clock.clone()).over(store.clone());
    let first = tick(&node(), 10).await;
    let ran: Arc<Mutex<BTreeMap<Tick, usize>>> = Arc::default();
    let ticks = 600;
    let nodes = [-90_000, -41_000, 0, 17, 90_000].map(|fast_by| {
        let (locks, ran) = (node(), Arc::clone(&ran));
        tokio::spawn(async move {
            for n in 0..ticks {
                let due = first.as_unix_millis() + n * 60_000;
                // It wakes up when its own clock shows the tick.
                let now = locks.time().await.unwrap().as_millis() as i64;
                let pause = u64::try_from(due - fast_by - now).unwrap_or(0);
                tokio::time::sleep(Duration::from_millis(pause)).await;
                let due = Tick::from_unix_millis(due).unwrap();
                let job = async |_: &Guard| {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    *ran.lock().unwrap().entry(due).or_default() += 1;
                };
                let lock = locks.lock("job").tick(due).wait(Wait::For(Duration::ZERO));
                let _ = lock.run(job).await.unwrap();
            }
        })
    });
    for node in nodes {
        node.await.unwrap();
    }
    let ran = ran.lock().unwrap();
    assert_eq!(ran.len(), ticks as usize, "none was left out");
    assert!(ran.values().all(|times| *times == 1), "{ran:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_clock_is_a_day_fast_is_refused_and_stops_nobody() {
    let Scene { ours, others, told, .. } = scene();
    let tomorrow = tick(&ours, 24 * 60).await;
    let NotDue::InFuture { ahead } = not_due(&ours.lock("job").tick(tomorrow)).await else { panic!("it is ahead") };
    assert!(ahead > DAY - MINUTE && ahead <= DAY, "{ahead:?}");
    assert!(told.lock().unwrap()[0].contains("InFuture"));
    let guard = acquired(&others.lock("job").tick(tick(&others, 0).await)).await;
    guard.complete().await.unwrap();
    tokio::time::sleep(DAY).await;
    acquired(&others.lock("job").tick(tomorrow)).await.complete().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lags_by_days_is_refused() {
    let Scene { ours, .. } = scene();
    let lock = |tick| ours.lock("job").tick(tick).remember(DAY);
    assert!(matches!(not_due(&lock(tick(&ours, -3 * 24 * 60).await)).await, NotDue::TooOld { .. }));
    assert!(matches!(not_due(&lock(tick(&ours, -24 * 60 + 4).await)).await, NotDue::TooOld { .. }));
    acquired(&lock(tick(&ours, -24 * 60 + 6).await)).await.complete().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_in_the_middle_is_replaced_only_if_asked() {
    for retry in [false, true] {
        let Scene { ours, others, faults, .. } = scene();
        let now = tick(&ours, 0).await;
        let guard = acquired(&ours.lock("job").ttl(TTL).tick(now).retry_failed(retry)).await;
        assert_eq!((guard.attempt(), guard.tick()), (1, Some(now)));
        faults.cut();
        contended(&others.lock("job").tick(now).retry_failed(retry)).await;
        tokio::time::sleep(TTL).await;
        let again = others.lock("job").tick(now).retry_failed(retry);
        if retry {
            let second = acquired(&again).await;
            assert_eq!(second.attempt(), 2);
            assert!(second.token() > guard.token());
            second.complete().await.unwrap();
        }
        assert_eq!(not_due(&again).await, NotDue::Claimed { newest: now, unfinished: !retry });
        assert!(!guard.is_valid());
    }
}

#[tokio::test(start_paused = true)]
async fn q15_a_killed_runner_keeps_no_later_tick_from_running() {
    let Scene { ours, others, faults, .. } = scene();
    let guard = acquired(&ours.lock("job").ttl(TTL).tick(tick(&ours, 0).await)).await;
    faults.cut();
    tokio::time::sleep(MINUTE).await;
    acquired(&others.lock("job").tick(tick(&others, 0).await)).await.complete().await.unwrap();
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_fails_is_tried_again_until_it_is_done() {
    let locks = scene().ours;
    let now = tick(&locks, 0).await;
    let lock = locks.lock("job").tick(now).retry_failed(true);
    for attempt in 1..=5 {
        let job = async |guard: &Guard| if guard.attempt() < 5 { Err("not yet") } else { Ok(guard.attempt()) };
        let Ran::Done(outcome) = lock.try_run(job).await.unwrap() else { panic!("it is due") };
        assert_eq!(outcome.is_ok(), attempt == 5);
    }
    assert_eq!(not_due(&lock).await, NotDue::Claimed { newest: now, unfinished: false });
}

#[tokio::test(start_paused = true)]
async fn a_job_that_fails_is_not_tried_again_unless_asked() {
    let locks = scene().ours;
    let now = tick(&locks, 0).await;
    let ran = locks.lock("job").tick(now).try_run(async |_| Err::<(), _>("broken")).await.unwrap();
    assert!(matches!(ran, Ran::Done(Err("broken"))));
    not_due(&locks.lock("job").tick(now)).await;
    not_due(&locks.lock("job").tick(now).retry_failed(true)).await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_counts_as_begun() {
    let locks = scene().ours;
    let now = tick(&locks, 0).await;
    let lock = locks.lock("job").tick(now).retry_failed(true);
    drop(acquired(&lock).await);
    settle().await;
    assert_eq!(acquired(&lock).await.attempt(), 2);

    drop(acquired(&locks.lock("once").tick(now)).await);
    settle().await;
    not_due(&locks.lock("once").tick(now)).await;
}

#[tokio::test(start_paused = true)]
async fn b12_work_that_never_began_is_left_to_the_next() {
    let Scene { ours, others, .. } = scene();
    let now = tick(&ours, 0).await;
    let lock = ours.lock("job").tick(now).at_least_for(MINUTE);
    assert_eq!(acquired(&lock).await.not_started().await.unwrap(), Released::InTime);
    let guard = acquired(&others.lock("job").tick(now)).await;
    assert_eq!(guard.attempt(), 1, "the one that never began is not counted");
}

#[tokio::test(start_paused = true)]
async fn work_that_is_not_needed_is_over_at_once_and_for_good() {
    let Scene { ours, others, .. } = scene();
    let now = tick(&ours, 0).await;
    let job = |locks: &Locks| locks.lock("job").retry_failed(true).at_least_for(MINUTE);
    assert_eq!(acquired(&job(&ours).tick(now)).await.not_needed().await.unwrap(), Released::InTime);
    not_due(&job(&others).tick(now)).await;
    drop(acquired(&job(&others)).await);
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_was_cancelled_takes_no_tick_along() {
    let Scene { ours, others, faults, .. } = scene();
    let now = tick(&ours, 0).await;
    faults.next(Operation::TryAcquire, Fault::HangAfter);
    let lock = ours.lock("job").tick(now);
    assert!(tokio::time::timeout(SECOND, lock.try_acquire()).await.is_err(), "it hangs");
    settle().await;
    assert_eq!(acquired(&others.lock("job").tick(now)).await.attempt(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_asked_for_again_and_counts_once() {
    let Scene { ours, faults, .. } = scene();
    let now = tick(&ours, 0).await;
    faults.next(Operation::TryAcquire, Fault::LoseReply);
    let guard = acquired(&ours.lock("job").tick(now)).await;
    assert_eq!(guard.attempt(), 1);
    guard.complete().await.unwrap();
    not_due(&ours.lock("job").tick(now)).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_done_is_done_though_the_lock_was_lost() {
    let Scene { ours, others, faults, .. } = scene();
    let now = tick(&ours, 0).await;
    let guard = acquired(&ours.lock("job").ttl(TTL).tick(now).retry_failed(true)).await;
    faults.cut();
    tokio::time::sleep(TTL).await;
    assert!(!guard.is_valid());
    faults.heal();
    assert_eq!(guard.complete().await.unwrap(), Released::TooLate);
    not_due(&others.lock("job").tick(now).retry_failed(true)).await;
}

#[tokio::test(start_paused = true)]
async fn that_it_is_done_is_told_until_the_store_has_heard_it() {
    let Scene { ours, others, faults, .. } = scene();
    let now = tick(&ours, 0).await;
    let guard = acquired(&ours.lock("job").ttl(TTL).tick(now).retry_failed(true)).await;
    faults.cut();
    assert!(guard.complete().await.is_err());
    tokio::time::sleep(TTL / 2).await;
    faults.heal();
    tokio::time::sleep(2 * SECOND).await;
    not_due(&others.lock("job").tick(now).retry_failed(true)).await;
}

#[tokio::test(start_paused = true)]
async fn what_became_of_a_tick_is_told_however_long_the_store_is_away() {
    let Scene { ours, others, faults, .. } = scene();
    let now = tick(&ours, 0).await;
    let job = |locks: &Locks, name: &str| locks.lock(name).ttl(TTL).tick(now).retry_failed(name == "done");
    let (done, unbegun) = (acquired(&job(&ours, "done")).await, acquired(&job(&ours, "unbegun")).await);
    faults.cut();
    assert!(done.complete().await.is_err());
    assert!(unbegun.not_started().await.is_err());
    tokio::time::timeout(TTL * 2, ours.shutdown()).await.expect("a shutdown waits for a TTL at the most");
    tokio::time::sleep(20 * MINUTE).await;
    faults.heal();
    tokio::time::sleep(10 * SECOND).await;
    not_due(&job(&others, "done")).await;
    assert_eq!(acquired(&job(&others, "unbegun")).await.attempt(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_tick_that_is_done_meanwhile_is_told() {
    let Scene { ours, others, .. } = scene();
    let now = tick(&ours, 0).await;
    for retry in [false, true] {
        let name = format!("job {retry}");
        let guard = acquired(&ours.lock(&name).tick(now).retry_failed(retry)).await;
        let lock = others.lock(&name).tick(now).retry_failed(retry);
        let waiter = tokio::spawn(async move { lock.acquire().await.unwrap() });
        tokio::time::sleep(20 * SECOND).await;
        assert!(!waiter.is_finished());
        guard.complete().await.unwrap();
        assert!(matches!(waiter.await.unwrap(), Outcome::NotDue(NotDue::Claimed { .. })));
        assert!(others.inspect(&name).await.unwrap().is_none(), "nobody is left in the queue");
    }
}

#[tokio::test(start_paused = true)]
async fn q03_a_tick_blocks_no_other_one() {
    let locks = scene().ours;
    for _ in 0..20 {
        let now = tick(&locks, 0).await;
        acquired(&locks.lock("job").tick(now).remember(DAY)).await.complete().await.unwrap();
        tokio::time::sleep(5 * MINUTE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn so_many_open_ticks_are_kept_and_no_more() {
    let Scene { ours, told, .. } = scene();
    let first = tick(&ours, 0).await;
    for _ in 0..=leasehold::store::OPEN_TICKS {
        let now = tick(&ours, 0).await;
        acquired(&ours.lock("job").tick(now).retry_failed(true)).await.release().await.unwrap();
        tokio::time::sleep(MINUTE).await;
    }
    assert!(told.lock().unwrap().iter().any(|told| told.starts_with(&first.to_string())), "{told:?}");
    not_due(&ours.lock("job").tick(first).retry_failed(true)).await;
}

#[tokio::test(start_paused = true)]
async fn times_to_remember_that_make_no_sense_are_refused() {
    let locks = scene().ours;
    for keep in [Duration::ZERO, 2 * TICK_SLACK - SECOND, DAY * 366 * 101, Duration::MAX] {
        let error = locks.once("key", keep).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("at least 10 minutes"), "{error}");
    }
}

// ---- keys

#[tokio::test(start_paused = true)]
async fn a_key_is_running_elsewhere_or_done_before() {
    let Scene { ours, others, .. } = scene();
    let key = |locks: &Locks| locks.once("invoice-2931", 90 * DAY);
    let guard = acquired(&key(&ours)).await;
    contended(&key(&others)).await;
    guard.complete().await.unwrap();
    tokio::time::sleep(30 * DAY).await;
    assert_eq!(not_due(&key(&others)).await, NotDue::Claimed { newest: Tick::ONLY, unfinished: false });
    acquired(&others.once("invoice-2932", 90 * DAY)).await.complete().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_is_done_until_it_succeeds() {
    let locks = scene().ours;
    let key = locks.once("invoice-2931", DAY).retry_failed(true);
    let _ = key.try_run(async |_| Err::<(), _>("no network")).await.unwrap();
    let Ran::Done(Ok(attempt)) = key.try_run(async |guard| Ok::<_, ()>(guard.attempt())).await.unwrap() else {
        panic!("it is to be tried again")
    };
    assert_eq!(attempt, 2);
    let Ran::NotDue(why) = key.run(async |_| ()).await.unwrap() else { panic!("it is done") };
    assert_eq!(why.to_string(), "it has had its run");
}

// ---- permits

#[tokio::test(start_paused = true)]
async fn at_most_so_many_run_and_all_come_to_their_turn() {
    let locks = scene().ours;
    let (running, most, ran) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::default());
    let workers: Vec<_> = (0..20)
        .map(|_| {
            let (lock, running, most) = (locks.lock("pool").permits(3), Arc::clone(&running), Arc::clone(&most));
            let ran: Arc<AtomicUsize> = Arc::clone(&ran);
            tokio::spawn(async move {
                let job = async |_: &Guard| {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(3 * SECOND).await;
                    running.fetch_sub(1, Ordering::SeqCst);
                    ran.fetch_add(1, Ordering::SeqCst);
                };
                let _ = lock.run(job).await.unwrap();
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!((most.load(Ordering::SeqCst), ran.load(Ordering::SeqCst)), (3, 20));
}

#[tokio::test(start_paused = true)]
async fn a_dead_holders_permit_is_free_and_the_others_keep_theirs() {
    let Scene { ours, others, faults, .. } = scene();
    let lost = acquired(&ours.lock("pool").ttl(TTL).permits(2)).await;
    let kept = acquired(&others.lock("pool").ttl(TTL).permits(2)).await;
    contended(&others.lock("pool").permits(2)).await;
    faults.cut();
    let waiter = others.lock("pool").ttl(TTL).permits(2);
    let third = tokio::time::timeout(2 * TTL, waiter.acquire()).await.unwrap().unwrap().guard().unwrap();
    assert!(kept.is_valid() && third.is_valid() && !lost.is_valid());
    assert!(third.token() > kept.token() && kept.token() > lost.token());
}

#[tokio::test(start_paused = true)]
async fn all_must_ask_for_the_same_number() {
    let Scene { ours, others, .. } = scene();
    let guard = acquired(&ours.lock("pool").permits(3)).await;
    for other in [1, 2, 4] {
        let error = others.lock("pool").permits(other).wait(Wait::Forever).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains(&format!("permits: {other}")) && error.to_string().contains("with 3"));
    }
    guard.release().await.unwrap();
    acquired(&others.lock("pool").permits(4)).await.release().await.unwrap();
    for wrong in [0, 1001] {
        let error = ours.lock("pool").permits(wrong).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[tokio::test(start_paused = true)]
async fn q13_permits_and_ticks_go_together() {
    let Scene { ours, others, .. } = scene();
    let (first, second) = (tick(&ours, -1).await, tick(&ours, 0).await);
    let lock = |locks: &Locks, tick| locks.lock("job").permits(2).tick(tick).retry_failed(true);
    let one = acquired(&lock(&ours, first)).await;
    contended(&lock(&others, first)).await;
    let two = acquired(&lock(&others, second)).await;
    one.complete().await.unwrap();
    two.complete().await.unwrap();
    not_due(&lock(&ours, first)).await;
    not_due(&lock(&ours, second)).await;
}

/// A tick that runs elsewhere is nothing to queue for: whoever waits for it keeps no free permit from the others of its
/// own client.
#[tokio::test(start_paused = true)]
async fn who_waits_for_a_tick_that_runs_elsewhere_is_in_nobodys_way() {
    let Scene { ours, others, .. } = scene();
    let (first, second) = (tick(&ours, -1).await, tick(&ours, 0).await);
    let running = acquired(&others.lock("job").permits(2).tick(first)).await;
    let same = ours.lock("job").permits(2).tick(first);
    let waiter = tokio::spawn(async move { same.acquire().await.unwrap() });
    settle().await;
    for lock in [ours.lock("job").permits(2).tick(second), ours.lock("job").permits(2)] {
        let outcome = lock.wait(Wait::For(10 * SECOND)).acquire().await.unwrap();
        let Outcome::Acquired(guard) = outcome else { panic!("a permit is free: {outcome:?}") };
        guard.complete().await.unwrap();
    }
    running.complete().await.unwrap();
    assert!(matches!(waiter.await.unwrap(), Outcome::NotDue(_)));
}

#[tokio::test(start_paused = true)]
async fn l06_a_minimum_hold_may_be_longer_than_the_ttl() {
    let Scene { ours, others, .. } = scene();
    acquired(&ours.lock("job").ttl(5 * MINUTE).at_least_for(10 * MINUTE)).await.release().await.unwrap();
    tokio::time::sleep(10 * MINUTE - SECOND).await;
    contended(&others.lock("job")).await;
    tokio::time::sleep(SECOND).await;
    acquired(&others.lock("job")).await.release().await.unwrap();
}

// ---- several at once

#[tokio::test(start_paused = true)]
async fn i15_two_who_want_the_same_two_in_another_order_both_get_them() {
    let Scene { ours, others, .. } = scene();
    let inside = Arc::new(AtomicUsize::new(0));
    let worker = |locks: Locks, names: [&'static str; 2]| {
        let inside = Arc::clone(&inside);
        tokio::spawn(async move {
            for _ in 0..50 {
                let both = MultiLock::of(names.map(|name| locks.lock(name))).unwrap();
                let guard = both.acquire().await.unwrap().guard().expect("it waits for ever");
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                tokio::time::sleep(Duration::from_millis(20)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                assert_eq!(guard.release().await.unwrap(), Released::InTime);
            }
        })
    };
    let workers = [worker(ours, ["a", "b"]), worker(others, ["b", "a"])];
    for worker in workers {
        worker.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn i15_all_or_none() {
    let Scene { ours, others, .. } = scene();
    let held = acquired(&others.lock("b")).await;
    let both = MultiLock::of(["c", "b", "a"].map(|name| ours.lock(name))).unwrap();
    let Outcome::Contended(holding) = both.try_acquire().await.unwrap() else { panic!("b is held") };
    assert_eq!(holding.name.as_str(), "b");
    assert!(others.inspect("a").await.unwrap().is_none() && others.inspect("c").await.unwrap().is_none());

    let waited = both.clone().wait(Wait::For(10 * SECOND)).acquire().await.unwrap();
    assert!(matches!(waited, Outcome::Contended(_)));
    assert!(others.inspect("a").await.unwrap().is_none());

    held.release().await.unwrap();
    let guard = both.try_acquire().await.unwrap().guard().unwrap();
    assert_eq!(guard.guards().iter().map(|guard| guard.name().as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(guard.is_valid() && guard.loss().is_none() && guard.get("b").is_some() && guard.get("d").is_none());
    drop(guard);
    settle().await;
    assert!(others.list().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn i15_none_is_left_behind_where_one_is_refused() {
    let Scene { ours, others, .. } = scene();
    let _held = acquired(&others.lock("b").permits(2)).await;
    let both = MultiLock::of(["a", "b"].map(|name| ours.lock(name))).unwrap();
    let error = both.try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(others.inspect("a").await.unwrap().is_none(), "who hears of it may end at once");
    let _ = both.acquire().await.unwrap_err();
    assert!(others.inspect("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_tick_that_was_got_before_another_lock_could_not_be_is_not_used_up() {
    let Scene { ours, others, .. } = scene();
    let now = tick(&ours, 0).await;
    let held = acquired(&others.lock("b")).await;
    let both = MultiLock::of([ours.lock("a").tick(now), ours.lock("b")]).unwrap();
    assert!(matches!(both.try_acquire().await.unwrap(), Outcome::Contended(_)));
    assert!(tokio::time::timeout(SECOND, both.acquire()).await.is_err(), "b is held");
    settle().await;
    assert!(others.inspect("a").await.unwrap().is_none());
    held.release().await.unwrap();
    both.try_acquire().await.unwrap().guard().unwrap().complete().await.unwrap();
    assert!(matches!(both.try_acquire().await.unwrap(), Outcome::NotDue(_)));
    assert!(others.inspect("b").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn one_that_is_lost_while_another_is_waited_for_is_taken_anew() {
    let Scene { ours, others, .. } = scene();
    let held = acquired(&others.lock("b")).await;
    let both = MultiLock::of([ours.lock("a").ttl(TTL), ours.lock("b")]).unwrap();
    let waiter = tokio::spawn(async move { both.acquire().await.unwrap().guard().unwrap() });
    settle().await;
    let first = others.inspect("a").await.unwrap().unwrap();
    others.revoke("a", leasehold::Revoke::Now).await.unwrap();
    tokio::time::sleep(TTL).await;
    held.release().await.unwrap();
    let guard = waiter.await.unwrap();
    assert!(guard.is_valid());
    assert!(guard.get("a").unwrap().token() > first.token);
}

#[tokio::test(start_paused = true)]
async fn a_tick_of_one_that_is_lost_while_another_is_waited_for_is_not_used_up() {
    let Scene { ours, others, .. } = scene();
    let now = tick(&ours, 0).await;
    let held = acquired(&others.lock("b")).await;
    let both = MultiLock::of([ours.lock("a").ttl(TTL).tick(now), ours.lock("b")]).unwrap();
    let waiter = tokio::spawn(async move { both.acquire().await.unwrap() });
    settle().await;
    others.revoke("a", leasehold::Revoke::Now).await.unwrap();
    tokio::time::sleep(TTL).await;
    held.release().await.unwrap();
    let outcome = waiter.await.unwrap();
    let Outcome::Acquired(guard) = outcome else { panic!("nobody has begun it: {outcome:?}") };
    assert_eq!(guard.get("a").unwrap().attempt(), 1);
}

#[tokio::test(start_paused = true)]
async fn any_of_them_lost_is_a_loss() {
    let Scene { ours, others, .. } = scene();
    let both = MultiLock::of(["a", "b"].map(|name| ours.lock(name).ttl(TTL))).unwrap();
    let guard = both.try_acquire().await.unwrap().guard().unwrap();
    assert!(guard.remaining() > TTL / 2);
    others.revoke("b", leasehold::Revoke::Now).await.unwrap();
    let (name, reason) = guard.lost().await;
    assert_eq!((name.as_str(), reason), ("b", leasehold::LossReason::Gone));
    assert!(!guard.is_valid() && guard.loss().is_some());
    assert_eq!(guard.release().await.unwrap(), Released::TooLate);
    assert!(others.inspect("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_name_twice_and_none_at_all_are_refused() {
    let locks = scene().ours;
    for (names, says) in [(vec!["a", "b", "a"], "a is asked for twice"), (vec![], "no locks"), (vec!["a", ""], "name")]
    {
        let error = MultiLock::of(names.iter().map(|name| locks.lock(name))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(says), "{error}");
    }
}
