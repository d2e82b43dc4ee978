//! Ticks: whatever befalls those who claim them, every store gives the answers that the judge allows, and locks say of
//! their work what is true. Tests of faults of other systems bear their number; m and n are those of the model.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, poll_immediate};
use leasehold::stores::Memory;
use leasehold::{
    Attempt, Claim, Due, Ended, Guard, HolderId, LeaseKey, Lock, LockName, Locks, NotDue, Outcome, Released, Store,
    Tick, Verdict,
};
use leasehold_testkit::ticks::{Play, Played};
use leasehold_testkit::{Fault, Faults, Faulty, Operation, PausedClock};
use tokio::time::{Instant, sleep, sleep_until};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(30);

/// How many plays, if it may take minutes.
fn long(usual: u64, long: u64) -> u64 {
    if std::env::var_os("LEASEHOLD_LONG").is_some() { long } else { usual }
}

#[tokio::test(start_paused = true)]
async fn memory_stands_any_play() {
    let mut total = Played::default();
    for seed in 0..long(600, 20_000) {
        let memory = Memory::new(Arc::new(PausedClock::start()));
        // In a long one there are more open ticks than a name may have.
        let steps = if seed % 50 == 0 { 3000 } else { 200 };
        let play = Play { time_passes: true, steps, ..Play::new(seed) };
        match play.over(|| Arc::new(memory.clone())).await {
            Ok(played) => total += played,
            Err(violation) => panic!("{violation}"),
        }
    }
    // Else it would prove nothing.
    assert!(
        total.begun < total.granted && total.done < total.begun && total.again > 600 && total.given_up > 0,
        "{total:?}"
    );
}

/// Claims sent twice whose second answer finds its acquisition over, which says that it never began although it did: a
/// store has to believe that, so nobody may say it.
#[tokio::test(start_paused = true)]
async fn m03_n04_a_lie_is_found() {
    let mut found = 0;
    for seed in 0..300 {
        let memory = Memory::new(Arc::new(PausedClock::start()));
        let play = Play { lies: true, ..Play::new(seed) };
        found += usize::from(play.over(|| Arc::new(memory.clone())).await.is_err());
    }
    assert!(found > 0, "the judge doesn't see it");
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn sqlite_stands_any_play() {
    for seed in 0..long(12, 200) {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let url = format!("sqlite://{}/locks.db", directory.path().display());
        let play = Play::new(1000 + seed);
        let played = play.over(|| leasehold::stores::open(&url).expect("the file can be opened")).await;
        if let Err(violation) = played {
            panic!("{violation}");
        }
    }
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn postgres_stands_any_play() {
    let server = leasehold_testkit::servers::Postgres::start();
    for seed in 0..long(12, 200) {
        let url = format!("{}?namespace=play-{seed}", server.url());
        let play = Play::new(3000 + seed);
        if let Err(violation) = play.over(|| leasehold::stores::open(&url).expect("the URL is right")).await {
            panic!("{violation}");
        }
    }
    assert_eq!(server.errors(), Vec::<String>::new());
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn mysql_stands_any_play() {
    let server = leasehold_testkit::servers::MariaDb::start();
    for seed in 0..long(12, 200) {
        let url = format!("{}?namespace=play-{seed}", server.url());
        let play = Play::new(4000 + seed);
        if let Err(violation) = play.over(|| leasehold::stores::open(&url).expect("the URL is right")).await {
            panic!("{violation}");
        }
    }
}

/// The shortest such history: the first answer begins the work, the lease ends, and the second answer finds it gone.
#[tokio::test(start_paused = true)]
async fn n04_what_a_lie_does() {
    let store = Memory::new(Arc::new(PausedClock::start()));
    let due = Due { tick: Tick::ONLY, retry_failed: false, keep: TTL };
    let claim = || {
        let claim = Claim::new(LockName::new("job").unwrap(), HolderId::fresh(), "test".into(), TTL);
        Claim { due: Some(due), ..claim }
    };
    let (a, b) = (claim(), claim());
    for _ in 0..2 {
        assert!(matches!(store.try_acquire(&a).await, Ok(Attempt::Granted(_))));
    }
    sleep(TTL).await;
    assert!(matches!(store.try_acquire(&b).await, Ok(Attempt::NotDue(_))));
    let lie = Ended { verdict: Some(Verdict::NotStarted), ..Ended::default() };
    let _ = store.release(&LeaseKey { name: a.name, holder: a.holder }, lie).await.unwrap();
    assert!(matches!(store.try_acquire(&b).await, Ok(Attempt::Granted(_))), "it is believed");
}

/// A client whose store can be broken, another of the same store, and the faults.
struct Scene {
    ours: Locks,
    others: Locks,
    faults: Faults,
    tick: Tick,
}

async fn scene() -> Scene {
    let clock = Arc::new(PausedClock::start());
    let store = Arc::new(Memory::new(clock.clone()));
    let faulty = Faulty::over(store.clone());
    let faults = faulty.faults();
    let ours = Locks::builder().simulated(clock.clone()).over(Arc::new(faulty));
    let others = Locks::builder().simulated(clock).over(store);
    let tick = tick_after(&others, Duration::ZERO).await;
    Scene { ours, others, faults, tick }
}

/// The tick that far after now by the store's clock.
async fn tick_after(locks: &Locks, span: Duration) -> Tick {
    let at = locks.time().await.unwrap() + span;
    Tick::from_unix_millis(at.as_millis() as i64).unwrap()
}

async fn acquired(lock: &Lock) -> Guard {
    match lock.try_acquire().await.unwrap() {
        Outcome::Acquired(guard) => guard,
        other => panic!("it is due: {other:?}"),
    }
}

async fn refused(lock: &Lock) -> NotDue {
    match lock.try_acquire().await.unwrap() {
        Outcome::NotDue(why) => why,
        other => panic!("it is over: {other:?}"),
    }
}

fn claimed(newest: Tick, unfinished: bool) -> NotDue {
    NotDue::Claimed { newest, unfinished }
}

/// A job that takes 50 ms, and nodes that come when it is long done.
#[tokio::test(start_paused = true)]
async fn q01_who_comes_late_does_not_run_it_again() {
    let Scene { ours, others, tick, .. } = scene().await;
    let guard = acquired(&ours.lock("job").tick(tick)).await;
    sleep(Duration::from_millis(50)).await;
    guard.complete().await.unwrap();
    for late in [2, 50, 1000] {
        sleep(late * SECOND).await;
        assert_eq!(refused(&others.lock("job").tick(tick)).await, claimed(tick, false));
    }
}

/// Every five minutes, with marks that are remembered for hours.
#[tokio::test(start_paused = true)]
async fn q03_a_mark_stops_no_later_tick() {
    let Scene { ours, others, .. } = scene().await;
    for round in 0..24 {
        let tick = tick_after(&ours, Duration::ZERO).await;
        let (first, second) = if round % 2 == 0 { (&ours, &others) } else { (&others, &ours) };
        let guard = acquired(&first.lock("job").tick(tick)).await;
        guard.complete().await.unwrap();
        refused(&second.lock("job").tick(tick)).await;
        sleep(300 * SECOND).await;
    }
}

/// Five schedulers, a tick each second for twenty minutes, and a store that answers now soon and now late.
#[tokio::test(start_paused = true)]
async fn q05_of_five_schedulers_one_runs_each_tick() {
    const TICKS: u32 = 1200;
    let clock = Arc::new(PausedClock::start());
    let store = Arc::new(Memory::new(clock.clone()));
    let (start, first) = (Instant::now(), store.time().await.unwrap().as_millis() as i64);
    let nodes = (0..5u32).map(|node| {
        let faulty = Faulty::over(store.clone());
        let faults = faulty.faults();
        let locks = Locks::builder().simulated(clock.clone()).over(Arc::new(faulty));
        tokio::spawn(async move {
            let mut ran = Vec::new();
            for number in 0..TICKS {
                let late = |salt: u32| Duration::from_millis(u64::from((node * 7919 + number * 104_729 + salt) % 97));
                sleep_until(start + SECOND * number + late(1)).await;
                faults.next(Operation::TryAcquire, Fault::DelayRequest(late(2)));
                faults.next(Operation::Release, Fault::DelayReply(late(3)));
                let tick = Tick::from_unix_millis(first + i64::from(number) * 1000).unwrap();
                if let Outcome::Acquired(guard) = locks.lock("job").tick(tick).try_acquire().await.unwrap() {
                    ran.push(number);
                    guard.complete().await.unwrap();
                }
            }
            ran
        })
    });
    let ran: Vec<Vec<u32>> = join_all(nodes).await.into_iter().map(|node| node.expect("no panic")).collect();
    assert!(ran.iter().all(|ran| !ran.is_empty()), "one of them ran nothing at all");
    let mut all = ran.concat();
    all.sort_unstable();
    assert_eq!(all, (0..TICKS).collect::<Vec<_>>());
}

/// A list of jobs is read again, and the ticks of the last minutes are asked for again.
#[tokio::test(start_paused = true)]
async fn q14_recent_ticks_fire_once() {
    let Scene { ours, others, .. } = scene().await;
    let mut ticks = Vec::new();
    for _ in 0..3 {
        ticks.push(tick_after(&ours, Duration::ZERO).await);
        acquired(&ours.lock("job").tick(ticks[ticks.len() - 1])).await.complete().await.unwrap();
        sleep(5 * SECOND).await;
    }
    for locks in [&ours, &others] {
        for tick in &ticks {
            refused(&locks.lock("job").tick(*tick).retry_failed(true)).await;
        }
    }
    let next = tick_after(&others, SECOND).await;
    assert_eq!(acquired(&others.lock("renamed").tick(next)).await.tick(), Some(next));
}

/// A runner that is gone stops neither the next tick nor, if it is to be retried, its own for longer than its TTL.
#[tokio::test(start_paused = true)]
async fn q15_a_dead_runner_stops_nobody() {
    for retry in [false, true] {
        let Scene { ours, others, faults, tick } = scene().await;
        let lock = |locks: &Locks, tick| locks.lock("job").ttl(TTL).tick(tick).retry_failed(retry);
        let dead = acquired(&lock(&ours, tick)).await;
        faults.cut();
        assert!(matches!(lock(&others, tick).try_acquire().await.unwrap(), Outcome::Contended(_)));
        sleep(TTL + SECOND).await;
        assert!(dead.loss().is_some());
        if retry {
            let again = acquired(&lock(&others, tick)).await;
            assert_eq!(again.attempt(), 2);
            again.complete().await.unwrap();
        } else {
            assert_eq!(refused(&lock(&others, tick)).await, claimed(tick, true));
        }
        let next = tick_after(&others, Duration::ZERO).await;
        assert_eq!(acquired(&lock(&others, next)).await.attempt(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn m07_what_is_done_is_done_though_the_lock_was_lost() {
    let Scene { ours, others, faults, tick } = scene().await;
    let lock = |locks: &Locks| locks.lock("job").ttl(TTL).tick(tick).retry_failed(true);
    let late = acquired(&lock(&ours)).await;
    faults.cut();
    sleep(TTL + SECOND).await;
    let other = acquired(&others.lock("job")).await;
    faults.heal();
    assert_eq!(late.complete().await.unwrap(), Released::TooLate);
    assert!(other.is_valid());
    assert_eq!(other.release().await.unwrap(), Released::InTime);
    assert_eq!(refused(&lock(&others)).await, claimed(tick, false));
}

/// A guard that is dropped has failed: at most once that is the end, else the next one has the second attempt.
#[tokio::test(start_paused = true)]
async fn a_dropped_guard_has_failed() {
    for retry in [false, true] {
        let Scene { ours, others, tick, .. } = scene().await;
        let lock = |locks: &Locks| locks.lock("job").tick(tick).retry_failed(retry);
        drop(acquired(&lock(&ours)).await);
        sleep(SECOND).await;
        if retry {
            assert_eq!(acquired(&lock(&others)).await.attempt(), 2);
        } else {
            assert_eq!(refused(&lock(&others)).await, claimed(tick, false));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn b01_a_lost_answer_is_no_second_attempt() {
    let Scene { ours, others, faults, tick } = scene().await;
    faults.next(Operation::TryAcquire, Fault::LoseReply);
    let guard = acquired(&ours.lock("job").tick(tick)).await;
    assert_eq!(guard.attempt(), 1);
    faults.next(Operation::Release, Fault::LoseReply);
    let _ = guard.complete().await;
    sleep(SECOND).await;
    assert_eq!(refused(&others.lock("job").tick(tick)).await, claimed(tick, false));
}

/// A grant that nobody learns of is taken back, and the tick with it.
#[tokio::test(start_paused = true)]
async fn b01_a_tick_that_nobody_learns_of_is_not_lost() {
    let Scene { ours, others, faults, tick } = scene().await;
    faults.next_few(3, Operation::TryAcquire, Fault::LoseReply);
    ours.lock("job").tick(tick).try_acquire().await.unwrap_err();
    sleep(SECOND).await;
    assert_eq!(acquired(&others.lock("job").tick(tick)).await.attempt(), 1);
}

/// An acquire that is dropped at any moment never began.
#[tokio::test(start_paused = true)]
async fn b02_an_acquire_that_is_dropped_loses_no_tick() {
    for fault in [Fault::HangBefore, Fault::HangAfter] {
        let Scene { ours, others, faults, tick } = scene().await;
        faults.next(Operation::TryAcquire, fault);
        let lock = ours.lock("job").tick(tick);
        {
            let mut acquiring = std::pin::pin!(lock.acquire());
            assert!(poll_immediate(&mut acquiring).await.is_none());
        }
        sleep(SECOND).await;
        assert_eq!(acquired(&others.lock("job").tick(tick)).await.attempt(), 1);
    }
}

/// Who waits for one tick while another node runs it learns that it is over, and doesn't run it after all.
#[tokio::test(start_paused = true)]
async fn q12_a_waiter_does_not_run_what_is_done() {
    let Scene { ours, others, tick, .. } = scene().await;
    let running = acquired(&ours.lock("job").tick(tick)).await;
    let waiter = tokio::spawn(async move { others.lock("job").tick(tick).acquire().await.unwrap() });
    sleep(35 * SECOND).await;
    assert!(!waiter.is_finished());
    running.complete().await.unwrap();
    let told = waiter.await.unwrap();
    assert!(matches!(told, Outcome::NotDue(why) if why == claimed(tick, false)), "{told:?}");
}

/// One permit of three is lost with its holder; the others stay, and one who waits is granted it.
#[tokio::test(start_paused = true)]
async fn a_dead_holder_frees_its_permit_only() {
    let Scene { ours, others, faults, .. } = scene().await;
    let dead = acquired(&ours.lock("pool").ttl(TTL).permits(3)).await;
    let lock = others.lock("pool").ttl(TTL).permits(3);
    let held = [acquired(&lock).await, acquired(&lock).await];
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap().guard().expect("it waits for ever") }
    });
    sleep(2 * TTL).await;
    assert!(!waiter.is_finished());
    faults.cut();
    sleep(TTL + SECOND).await;
    let fourth = waiter.await.unwrap();
    assert!(dead.loss().is_some());
    assert!(held.iter().all(Guard::is_valid) && held.iter().all(|guard| guard.token() < fourth.token()));
    assert!(matches!(lock.try_acquire().await.unwrap(), Outcome::Contended(_)));
}
