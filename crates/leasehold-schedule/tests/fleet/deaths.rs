//! Nodes that die, lose their lock or are started anew in the middle of a run, and jobs that hang or panic.

use leasehold_testkit::{Fault, Operation};

use super::*;

/// Work that ends at once, and says how: the first time it is told 0.
struct Ending<F> {
    fleet: Fleet,
    says: F,
}

impl<F: Fn(usize) -> Ended + Send + Sync + 'static> Work for Ending<F> {
    fn run<'a>(&'a self, run: &'a Run) -> Pin<Box<dyn Future<Output = Ended> + Send + 'a>> {
        let (tick, attempt, from) = (instant(run.tick()), run.attempt(), self.fleet.start.elapsed());
        let mut ran = self.fleet.ran.lock().unwrap();
        ran.push(Ran { tick, node: 0, attempt, from, to: Some(from) });
        let ended = (self.says)(ran.len() - 1);
        Box::pin(async { ended })
    }
}

impl Fleet {
    fn ending(&self, says: impl Fn(usize) -> Ended + Send + Sync + 'static) -> Job {
        let schedule = Schedule::parse("@every 1h", None).unwrap();
        Job::of("job", schedule, Ending { fleet: self.clone(), says })
    }
}

fn killed() -> Ended {
    Ended::from(Err("its process was killed".into())).died(true)
}

/// The error may come in the same minute as the death: a failover is when a node dies, too.
#[tokio::test(start_paused = true)]
async fn a_run_older_than_catch_up_is_taken_over_though_the_store_was_away() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 12h", 3 * HOUR, nth).at_least_once(true);
    let first = fleet.node(0, [job(0)]);
    let (second, faults) = fleet.faulty_node(-1, [job(1)]);
    let begun = fleet.first_begun().await;
    sleep(2 * HOUR).await;
    faults.cut();
    first.die();
    sleep(MINUTE).await;
    faults.heal();
    sleep(4 * HOUR).await;
    second.stop().await;
    let ran = fleet.ran();
    let [_, again] = &ran[..] else { panic!("it is begun again, once: {ran:?}") };
    assert!(again.tick == begun.tick && again.attempt == 2 && again.to.is_some(), "{again:?}");
}

/// The next tick may be claimed between the end of the lease and the look that finds it.
#[tokio::test(start_paused = true)]
async fn an_open_tick_is_not_given_up_for_a_newer_one() {
    for takes in [SECOND, 9 * SECOND] {
        let fleet = Fleet::new().await;
        let job = |nth| fleet.job("job", "@every 10s", takes, nth).at_least_once(true);
        let mut nodes: Vec<_> = (0..3).map(|nth| Some(fleet.node(0, [job(nth)]))).collect();
        let begun = fleet.first_begun().await;
        nodes[begun.node].take().unwrap().die();
        sleep(5 * MINUTE).await;
        for node in nodes.into_iter().flatten() {
            node.stop().await;
        }
        let ran: Vec<_> = fleet.ran().into_iter().filter(|ran| ran.tick == begun.tick).collect();
        assert!(ran.len() == 2 && ran[1].attempt == 2 && ran[1].to.is_some(), "{ran:?}");
        assert!(fleet.times().iter().all(|(tick, times)| *times == 1 || *tick == begun.tick));
    }
}

/// What ran it was killed: it has not failed. Alone, without another node that could take it over.
#[tokio::test(start_paused = true)]
async fn a_run_that_died_stays_open_where_it_is_to_run_at_least_once() {
    for (at_least_once, left, times) in
        [(true, Left::Nothing, 2), (true, Left::Perhaps, 2), (false, Left::Nothing, 1), (false, Left::NotBegun, 2)]
    {
        let fleet = Fleet::new().await;
        let says = move |nth| if nth == 0 { killed().left(left).died(left != Left::Perhaps) } else { Ok(()).into() };
        let node = fleet.node(0, [fleet.ending(says).at_least_once(at_least_once)]);
        let begun = fleet.first_begun().await;
        sleep(SECOND / 10).await;
        assert_eq!(fleet.told("job").await.get(&begun.tick), Some(&State::Lost), "{left:?}");
        sleep(5 * MINUTE).await;
        node.stop().await;
        let wanted = if times == 2 { State::Done } else { State::Lost };
        assert_eq!(fleet.told("job").await.get(&begun.tick), Some(&wanted), "{left:?}");
        assert_eq!(fleet.times(), BTreeMap::from([(begun.tick, times)]), "{left:?}");
    }
}

/// Perhaps it is what kills them.
#[tokio::test(start_paused = true)]
async fn a_run_that_dies_again_and_again_is_given_up() {
    let fleet = Fleet::new().await;
    let node = fleet.node(0, [fleet.ending(|_| killed()).at_least_once(true)]);
    let begun = fleet.first_begun().await;
    sleep(30 * MINUTE).await;
    node.stop().await;
    assert_eq!(fleet.told("job").await.get(&begun.tick), Some(&State::Failed));
    assert_eq!(fleet.times(), BTreeMap::from([(begun.tick, 10)]));
}

/// Alone, and also when the tick is no longer the latest.
#[tokio::test(start_paused = true)]
async fn what_a_node_left_open_it_takes_up_when_it_is_started_anew() {
    for away in [MINUTE, 65 * MINUTE, 26 * HOUR] {
        let fleet = Fleet::new().await;
        let job = || fleet.job("job", "@every 1h", 10 * MINUTE, 0).at_least_once(true);
        let node = fleet.node(0, [job()]);
        let begun = fleet.first_begun().await;
        sleep(5 * MINUTE).await;
        node.die();
        sleep(away).await;
        let node = fleet.node(0, [job()]);
        sleep(30 * MINUTE).await;
        node.stop().await;
        let ran: Vec<_> = fleet.ran().into_iter().filter(|ran| ran.tick == begun.tick).collect();
        assert!(ran.len() == 2 && ran[1].to.is_some(), "after {away:?}: {:?}", fleet.ran());
    }
}

/// Its record stands behind those of all that were skipped while it ran.
#[tokio::test(start_paused = true)]
async fn a_run_for_which_many_were_skipped_is_taken_up_too() {
    let fleet = Fleet::new().await;
    let job = || fleet.job("job", "* * * * *", 3 * HOUR, 0).at_least_once(true);
    let node = fleet.node(0, [job()]);
    let begun = fleet.first_begun().await;
    sleep(100 * MINUTE).await;
    node.die();
    sleep(HOUR).await;
    let node = fleet.node(0, [job()]);
    sleep(4 * HOUR).await;
    node.stop().await;
    let ran: Vec<_> = fleet.ran().into_iter().filter(|ran| ran.tick == begun.tick).collect();
    assert!(ran.len() == 2 && ran[1].to.is_some(), "{:?}", fleet.ran());
}

/// A watcher that is started anew goes on watching, also over a run that is older than anything is made up for.
#[tokio::test(start_paused = true)]
async fn who_starts_in_the_middle_of_a_run_watches_over_it() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 12h", 3 * HOUR, nth).at_least_once(true);
    let first = fleet.node(0, [job(0)]);
    let begun = fleet.first_begun().await;
    sleep(90 * MINUTE).await;
    let second = fleet.node(0, [job(1)]);
    sleep(30 * MINUTE).await;
    first.die();
    sleep(4 * HOUR).await;
    second.stop().await;
    let ran = fleet.ran();
    assert!(ran.len() == 2 && ran[1].tick == begun.tick && ran[1].to.is_some(), "{ran:?}");
}

/// There is nobody else who could.
#[tokio::test(start_paused = true)]
async fn a_node_alone_that_loses_its_lock_begins_the_tick_again() {
    let fleet = Fleet::new().await;
    let (locks, _, keeper) = fleet.faulty_locks();
    let node = fleet.node_over(locks, 0, [fleet.job("job", "@every 1h", 5 * MINUTE, 0).at_least_once(true)]);
    fleet.first_begun().await;
    keeper.always(Operation::Renew, Fault::LoseRequest);
    while fleet.ran().len() < 2 && fleet.start.elapsed() < HOUR + 10 * MINUTE {
        sleep(SECOND / 10).await;
    }
    keeper.heal();
    sleep(20 * MINUTE).await;
    node.stop().await;
    let ran = fleet.ran();
    assert!(ran.len() == 2 && ran[0].tick == ran[1].tick && ran[1].to.is_some(), "{ran:?}");
    assert_eq!(fleet.told("job").await.values().collect::<Vec<_>>(), [&State::Done]);
}

/// What hung once would hang again.
#[tokio::test(start_paused = true)]
async fn a_run_over_its_time_limit_is_the_end_of_its_tick() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 6h", HOUR, nth).at_least_once(true).time_limit(MINUTE);
    let nodes: Vec<_> = (0..3).map(|nth| fleet.node(0, [job(nth)])).collect();
    fleet.first_begun().await;
    sleep(HOUR).await;
    for node in nodes {
        node.stop().await;
    }
    assert_eq!(fleet.ran().len(), 1, "{:?}", fleet.ran());
}

/// What panics before there is a future has failed as well.
#[tokio::test(start_paused = true)]
async fn a_job_that_panics_when_it_is_called_has_failed() {
    let fleet = Fleet::new().await;
    let job = Job::new("job", Schedule::parse("@every 1h", None).unwrap(), |_| panic!("no such table"));
    let node = fleet.node(0, [job]);
    sleep(HOUR).await;
    node.stop().await;
    let locks = fleet.locks();
    let record = Ledger::of(&locks, "job").unwrap().newest(1).await.unwrap().remove(0);
    assert_eq!((record.state, record.reason.as_deref()), (State::Failed, Some("it panicked: no such table")));
    assert_eq!(fleet.memory.list().await.unwrap(), [], "the lock is free");
}

/// An observer that panics takes nothing along: no run, no pause, no node.
#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_stops_nothing() {
    let fleet = Fleet::new().await;
    let (locks, faults, _) = fleet.faulty_locks();
    let wall = Arc::new(Wall { zero: fleet.zero, start: fleet.start, off_millis: AtomicI64::new(0) });
    let scheduler = Scheduler::over(locks.clone()).clock(wall).observer(|_: &Event<'_>| panic!("it is full"));
    let scheduler = scheduler.job(fleet.job("job", "@every 10m", SECOND, 0)).unwrap();
    faults.next_few(3, Operation::Time, Fault::LoseRequest);
    faults.next_few(3, Operation::ReadNotes, Fault::LoseRequest);
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(scheduler.run(async { drop(stopped.await) }));
    sleep(HOUR).await;
    faults.next_few(3, Operation::ReadNotes, Fault::LoseRequest);
    sleep(MINUTE).await;
    fleet.assert_each_once("@every 10m", fleet.zero, fleet.now());
    let orders = fleet.locks();
    Orders::over(&orders).pause("job", "ops", "").await.unwrap();
    let before = fleet.ran().len();
    sleep(HOUR).await;
    assert_eq!(fleet.ran().len(), before, "it is paused");
    drop(stop);
    running.await.expect("it ends without a panic");
}

/// Its scheduler is stopped, and stops it. The lock is free at once, and another node is done with the tick before the first has said so.
#[tokio::test(start_paused = true)]
async fn that_a_run_was_stopped_is_not_written_over_the_run_of_who_took_it_over() {
    let fleet = Fleet::new().await;
    let job = |nth, takes| fleet.job("job", "@every 6h", takes, nth).at_least_once(true);
    let (first, faults) = fleet.faulty_node(0, [job(0, HOUR)]);
    let begun = fleet.first_begun().await;
    sleep(SECOND).await;
    faults.always(Operation::ReadNotes, Fault::DelayRequest(4 * SECOND));
    faults.always(Operation::WriteNotes, Fault::DelayRequest(4 * SECOND));
    let stopping = tokio::spawn(first.stop());
    while fleet.is_held().await {
        sleep(SECOND / 100).await;
    }
    assert!(!stopping.is_finished());
    let second = fleet.node(0, [job(1, SECOND / 10)]);
    sleep(SECOND).await;
    assert_eq!(fleet.told("job").await.get(&begun.tick), Some(&State::Done), "{:?}", fleet.ran());
    stopping.await.unwrap();
    second.stop().await;
    assert_eq!((fleet.ran().len(), fleet.told("job").await.get(&begun.tick)), (2, Some(&State::Done)));
}

/// Also of so many that they would push its record out of the ledger.
#[tokio::test(start_paused = true)]
async fn a_run_for_which_more_were_skipped_than_are_kept_is_taken_up_too() {
    let fleet = Fleet::new().await;
    let job = || fleet.job("job", "@every 1s", HOUR, 0).at_least_once(true);
    let node = fleet.node(0, [job()]);
    let begun = fleet.first_begun().await;
    sleep(25 * MINUTE).await;
    assert_eq!(fleet.told("job").await.get(&begun.tick), Some(&State::Running));
    node.die();
    sleep(MINUTE).await;
    let node = fleet.node(0, [job()]);
    sleep(HOUR + MINUTE).await;
    node.stop().await;
    let ran: Vec<_> = fleet.ran().into_iter().filter(|ran| ran.tick == begun.tick).collect();
    assert!(ran.len() == 2 && ran[1].to.is_some(), "{ran:?}");
    assert_eq!(fleet.record_of(begun.tick).await.state, State::Done);
}

/// Whoever can't look whether its run was taken over looks again before it says how that has ended.
#[tokio::test(start_paused = true)]
async fn a_look_that_fails_lets_nothing_be_written_over_the_run_of_who_took_it_over() {
    let fleet = Fleet::new().await;
    let job = |nth, takes| fleet.job("job", "@every 6h", takes, nth).at_least_once(true);
    let (first, faults) = fleet.faulty_node(0, [job(0, HOUR)]);
    let begun = fleet.first_begun().await;
    sleep(SECOND).await;
    faults.always(Operation::ReadNotes, Fault::HangBefore);
    let stopping = tokio::spawn(first.stop());
    while fleet.is_held().await {
        sleep(SECOND / 100).await;
    }
    let second = fleet.node(0, [job(1, SECOND / 10)]);
    sleep(SECOND).await;
    assert_eq!(fleet.told("job").await.get(&begun.tick), Some(&State::Done), "{:?}", fleet.ran());
    faults.heal(); // What hangs is not answered.
    stopping.await.unwrap();
    second.stop().await;
    assert_eq!((fleet.ran().len(), fleet.told("job").await.get(&begun.tick)), (2, Some(&State::Done)));
}

/// Others have ended beside it since.
#[tokio::test(start_paused = true)]
async fn an_open_run_behind_many_that_have_ended_is_taken_up_too() {
    let fleet = Fleet::new().await;
    let job = |takes| fleet.job("job", "@every 1m", takes, 0).at_least_once(true).overlap(Overlap::Allow(2));
    let (long, short) = (job(5 * HOUR), job(SECOND));
    let node = fleet.node(0, [long]);
    let begun = fleet.first_begun().await;
    node.roster.replace([short]).unwrap();
    sleep(80 * MINUTE).await;
    node.die();
    sleep(MINUTE).await;
    let node = fleet.node(0, [job(SECOND)]);
    sleep(5 * MINUTE).await;
    node.stop().await;
    let ran: Vec<_> = fleet.ran().into_iter().filter(|ran| ran.tick == begun.tick).collect();
    assert!(ran.len() == 2 && ran[1].to.is_some(), "{ran:?}");
}
