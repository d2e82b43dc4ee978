//! Stores that can't be asked, for minutes, and answers that are lost: what was due meanwhile is dealt with when they are back.

use leasehold::ErrorKind;
use leasehold_testkit::{Fault, Faults, Faulty, Operation};

use super::*;

impl Fleet {
    /// A node whose way to the store can be cut.
    pub(super) fn faulty_node(&self, off: i64, jobs: impl IntoIterator<Item = Job>) -> (Node, Faults) {
        let (locks, faults, _) = self.faulty_locks();
        (self.node_over(locks, off, jobs), faults)
    }

    /// With what can be done to all calls, and what to the keeper's alone.
    pub(super) fn faulty_locks(&self) -> (Locks, Faults, Faults) {
        let store = Faulty::over(Arc::new(self.memory.clone()));
        let (faults, keeper) = (store.faults(), store.keeper_faults());
        (Locks::builder().simulated(self.clock.clone()).over(Arc::new(store)), faults, keeper)
    }

    /// What the ledger says of each tick.
    pub(super) async fn told(&self, job: &str) -> BTreeMap<Timestamp, State> {
        self.states(job).await.into_iter().filter_map(|(tick, state)| Some((tick?, state))).collect()
    }

    pub(super) async fn until(&self, at: Timestamp) {
        sleep(Duration::try_from(at.duration_since(self.now())).unwrap()).await;
    }

    pub(super) async fn first_begun(&self) -> Ran {
        while self.ran().is_empty() {
            sleep(SECOND / 10).await;
        }
        self.ran().remove(0)
    }
}

pub(super) fn between(when: &str, from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    Schedule::parse(when, None).unwrap().ticks_after(from).take_while(|tick| *tick <= until).collect()
}

async fn stop_all(nodes: Vec<(Node, Faults)>) {
    for (node, _) in nodes {
        node.stop().await;
    }
}

/// By default one is run late, and each of the others is recorded as missed.
#[tokio::test(start_paused = true)]
async fn after_an_outage_the_latest_is_run_and_the_others_are_recorded() {
    let fleet = Fleet::new().await;
    let nodes: Vec<_> =
        (0..5).map(|nth| fleet.faulty_node(0, [fleet.job("job", "* * * * *", SECOND / 100, nth)])).collect();
    sleep(5 * MINUTE).await;
    let began = fleet.now();
    nodes.iter().for_each(|(_, faults)| faults.cut());
    sleep(20 * MINUTE).await;
    let ended = fleet.now();
    nodes.iter().for_each(|(_, faults)| faults.heal());
    sleep(5 * MINUTE).await;
    let until = at_start_of_minute(fleet.now());
    stop_all(nodes).await;
    let (ran, told) = (fleet.times(), fleet.told("job").await);
    for tick in between("* * * * *", fleet.zero, until) {
        let (times, state) = (ran.get(&tick).copied().unwrap_or_default(), told.get(&tick).copied());
        let is_missed = began < tick && tick < at_start_of_minute(ended);
        let expected = if is_missed { (0, Some(State::Missed)) } else { (1, Some(State::Done)) };
        assert_eq!((times, state), expected, "{tick}");
    }
}

/// Where all are to be run none is left out, and they come in order.
#[tokio::test(start_paused = true)]
async fn after_an_outage_all_are_run_the_oldest_first() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "* * * * *", 3 * SECOND, nth).missed(Missed::All { most: 100 });
    let nodes: Vec<_> = (0..3).map(|nth| fleet.faulty_node(0, [job(nth)])).collect();
    sleep(5 * MINUTE).await;
    nodes.iter().for_each(|(_, faults)| faults.cut());
    sleep(20 * MINUTE).await;
    for (_, faults) in &nodes {
        faults.heal();
        sleep(2 * SECOND).await;
    }
    sleep(10 * MINUTE).await;
    let until = at_start_of_minute(fleet.now());
    stop_all(nodes).await;
    fleet.assert_each_once("* * * * *", fleet.zero, until);
    let ran = fleet.ran();
    assert!(ran.windows(2).all(|pair| pair[0].tick < pair[1].tick && pair[0].to.unwrap() <= pair[1].from), "{ran:?}");
}

/// Where none is to be run late, none is, however long the store was away.
#[tokio::test(start_paused = true)]
async fn after_an_outage_nothing_is_run_late_that_is_to_be_skipped() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 5m", SECOND / 100, nth).missed(Missed::Skip);
    let nodes: Vec<_> = (0..3).map(|nth| fleet.faulty_node(0, [job(nth)])).collect();
    sleep(9 * MINUTE + 30 * SECOND).await;
    let began = fleet.now();
    nodes.iter().for_each(|(_, faults)| faults.cut());
    sleep(23 * MINUTE).await;
    let ended = fleet.now();
    nodes.iter().for_each(|(_, faults)| faults.heal());
    sleep(10 * MINUTE).await;
    stop_all(nodes).await;
    let told = fleet.told("job").await;
    for tick in between("@every 5m", began, ended) {
        assert_eq!((fleet.times().get(&tick), told.get(&tick)), (None, Some(&State::Missed)), "{tick}");
    }
}

/// What waits for a store is one claim of each job.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_not_asked_for_each_tick() {
    let fleet = Fleet::new().await;
    let (node, faults) = fleet.faulty_node(0, [fleet.job("job", "@every 1s", SECOND / 100, 0)]);
    sleep(10 * SECOND).await;
    faults.cut();
    let before = faults.calls(Operation::TryAcquire);
    sleep(30 * MINUTE).await;
    let asked = faults.calls(Operation::TryAcquire) - before;
    assert!(asked < 1000, "{asked} claims in half an hour");
    let lasts = fleet.ran().len();
    faults.heal();
    sleep(MINUTE).await;
    node.stop().await;
    assert!(fleet.ran().len() - lasts > 40 && fleet.times().values().all(|times| *times == 1));
    let told = fleet.told("job").await;
    let missed = told.values().filter(|state| **state == State::Missed).count();
    assert_eq!(missed, 100, "the last of them one by one");
}

/// What is missed while nobody can write it down is written down when somebody can.
#[tokio::test(start_paused = true)]
async fn what_was_given_up_during_an_outage_is_recorded_after_it() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 12h", SECOND, nth);
    let next = job(0).schedule().next_after(fleet.now()).unwrap();
    fleet.makes_known(job(0)).await;
    fleet.until(next - SignedDuration::from_mins(10)).await;
    let nodes: Vec<_> = (0..2).map(|nth| fleet.faulty_node(0, [job(nth)])).collect();
    sleep(MINUTE).await;
    nodes.iter().for_each(|(_, faults)| faults.cut());
    sleep(3 * HOUR).await;
    nodes.iter().for_each(|(_, faults)| faults.heal());
    sleep(MINUTE).await;
    stop_all(nodes).await;
    assert_eq!((fleet.ran(), fleet.told("job").await.get(&next)), (vec![], Some(&State::Missed)));
}

/// Its claim was executed, and whoever looks sees the tick at its name; but it has never heard of it, and ends.
#[tokio::test(start_paused = true)]
async fn a_tick_that_only_seemed_to_run_elsewhere_is_the_next_nodes() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 1h", SECOND, nth);
    let (first, faults) = fleet.faulty_node(0, [job(0)]);
    let second = fleet.node(-1, [job(1)]);
    sleep(SECOND).await;
    let tick = job(0).schedule().next_after(fleet.now()).unwrap();
    faults.next(Operation::TryAcquire, Fault::HangAfter);
    fleet.until(tick + SignedDuration::from_secs(3)).await;
    faults.heal();
    faults.always(Operation::TryAcquire, Fault::Fail(ErrorKind::Unavailable));
    sleep(SECOND).await;
    first.stop().await;
    sleep(2 * MINUTE).await;
    second.stop().await;
    let ran = fleet.ran();
    assert_eq!(ran.iter().map(|ran| (ran.tick, ran.node)).collect::<Vec<_>>(), [(tick, 1)]);
}

/// A grant that comes when the node is to end is given back as never begun.
#[tokio::test(start_paused = true)]
async fn what_is_granted_to_a_node_that_ends_is_another_nodes_to_run() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 1h", MINUTE, nth);
    let (first, faults) = fleet.faulty_node(0, [job(0)]);
    let second = fleet.node(-1, [job(1)]);
    sleep(SECOND).await;
    let tick = job(0).schedule().next_after(fleet.now()).unwrap();
    faults.always(Operation::TryAcquire, Fault::DelayReply(4 * SECOND));
    fleet.until(tick + SignedDuration::from_secs(2)).await;
    first.stop().await;
    sleep(3 * MINUTE).await;
    second.stop().await;
    let ran = fleet.ran();
    assert_eq!(ran.iter().map(|ran| (ran.tick, ran.node, ran.to.is_some())).collect::<Vec<_>>(), [(tick, 1, true)]);
}

/// The lock is free as soon as the work has ended.
#[tokio::test(start_paused = true)]
async fn nothing_waits_for_the_ledger() {
    let fleet = Fleet::new().await;
    let (node, faults) = fleet.faulty_node(0, [fleet.job("job", "@every 1h", SECOND, 0)]);
    sleep(SECOND).await;
    faults.always(Operation::WriteNotes, Fault::HangBefore);
    fleet.first_begun().await;
    sleep(2 * SECOND).await;
    assert!(fleet.ran()[0].to.is_some());
    assert_eq!(fleet.memory.list().await.unwrap(), [], "the lock is free");
    faults.heal();
    node.stop().await;
}

/// What a run has to say waits until the ledger can be written again, and holds nothing up meanwhile.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_run_is_recorded_when_the_ledger_is_back() {
    for fault in [Fault::Fail(ErrorKind::Unavailable), Fault::LoseRequest, Fault::LoseReply] {
        let fleet = Fleet::new().await;
        let job = |name: &str, takes| fleet.job(name, "@every 10m", takes, 0);
        let fails = |name: &str| {
            let when = Schedule::parse("@every 10m", None).unwrap();
            Job::new(name, when, |_| {
                Box::pin(async {
                    sleep(40 * SECOND).await;
                    Err("a reason".into())
                })
            })
        };
        let jobs = [job("both", 20 * SECOND), job("end", 50 * SECOND), job("after", 100 * SECOND), fails("fails")];
        let (node, faults) = fleet.faulty_node(0, jobs);
        let tick = fleet.first_begun().await.tick;
        if fault != Fault::LoseReply {
            // Also of those that have begun by now.
            sleep(30 * SECOND).await;
        }
        faults.always(Operation::WriteNotes, fault);
        sleep(MINUTE).await;
        assert!(!fleet.memory.list().await.unwrap().iter().any(|held| format!("{held:?}").contains("\"end\"")), "free");
        faults.heal();
        sleep(MINUTE).await;
        for (name, state) in
            [("both", State::Done), ("end", State::Done), ("after", State::Done), ("fails", State::Failed)]
        {
            assert_eq!(fleet.told(name).await.get(&tick), Some(&state), "{name} {fault:?}");
        }
        node.stop().await;
    }
}

/// At the end of a scheduler, for the rest of its grace.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_run_is_recorded_though_the_scheduler_ends() {
    let fleet = Fleet::new().await;
    let (node, faults) = fleet.faulty_node(0, [fleet.job("job", "@every 10m", 5 * SECOND, 0)]);
    let tick = fleet.first_begun().await.tick;
    faults.always(Operation::WriteNotes, Fault::Fail(ErrorKind::Unavailable));
    sleep(SECOND).await;
    let stopping = tokio::spawn(node.stop());
    sleep(10 * SECOND).await;
    faults.heal();
    stopping.await.unwrap();
    assert_eq!(fleet.told("job").await.get(&tick), Some(&State::Done));
}

/// It decides nothing: where it can't be read or written at all, jobs run.
#[tokio::test(start_paused = true)]
async fn a_ledger_that_is_closed_stops_nothing() {
    let fleet = Fleet::new().await;
    let job = || fleet.job("job", "@every 10m", SECOND, 0).at_least_once(true);
    fleet.makes_known(job()).await;
    for fault in [Fault::Fail(ErrorKind::AccessDenied), Fault::LoseRequest] {
        fleet.ran.lock().unwrap().clear();
        let from = fleet.now();
        let (node, faults) = fleet.faulty_node(0, [job()]);
        sleep(SECOND).await;
        faults.always(Operation::ReadNotes, fault);
        faults.always(Operation::WriteNotes, fault);
        sleep(2 * HOUR).await;
        let until = fleet.now();
        node.stop().await;
        fleet.assert_each_once("@every 10m", from, until);
    }
}

/// That a store refuses is another thing than that it can't be asked.
#[tokio::test(start_paused = true)]
async fn q13_what_is_refused_is_told_apart_from_an_outage() {
    for (kind, refused) in
        [(ErrorKind::Misconfigured, true), (ErrorKind::AccessDenied, true), (ErrorKind::Unavailable, false)]
    {
        let fleet = Fleet::new().await;
        let (locks, faults, _) = fleet.faulty_locks();
        let heard: Arc<Mutex<Vec<bool>>> = Arc::default();
        let wall = Arc::new(Wall { zero: fleet.zero, start: fleet.start, off_millis: AtomicI64::new(0) });
        let hears = Arc::clone(&heard);
        let scheduler = Scheduler::over(locks).clock(wall).observer(move |event: &Event<'_>| match event {
            Event::StoreRefuses { job: "job", .. } => hears.lock().unwrap().push(true),
            Event::StoreIsAway { job: "job", .. } => hears.lock().unwrap().push(false),
            _ => (),
        });
        let scheduler = scheduler.job(fleet.job("job", "* * * * *", SECOND, 0)).unwrap();
        faults.always(Operation::TryAcquire, Fault::Fail(kind));
        let running = tokio::spawn(scheduler.run(sleep(5 * MINUTE)));
        running.await.unwrap();
        let heard = heard.lock().unwrap().clone();
        assert!(!heard.is_empty() && heard.iter().all(|is| *is == refused), "{kind:?}: {heard:?}");
    }
}

/// Five nodes whose clocks differ, for a day and a half; each loses its store for minutes, again and again.
#[tokio::test(start_paused = true)]
async fn no_tick_runs_twice_and_none_is_silent_while_stores_come_and_go() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "*/2 * * * *", 20 * SECOND, nth);
    let offs = [-20, -5, 0, 5, 20];
    let nodes: Vec<_> = offs.iter().enumerate().map(|(nth, off)| fleet.faulty_node(*off, [job(nth)])).collect();
    let mut random = 7_u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    sleep(2 * MINUTE).await;
    for round in 0..240 {
        let (_, faults) = &nodes[usize::try_from(draw(5)).unwrap()];
        let all = round % 12 == 0;
        if all {
            nodes.iter().for_each(|(_, faults)| faults.cut());
        } else {
            faults.cut();
        }
        sleep(Duration::from_secs(draw(480) + 10)).await;
        if draw(3) > 0 || all {
            nodes.iter().for_each(|(_, faults)| faults.heal());
        }
        sleep(Duration::from_secs(draw(480) + 10)).await;
    }
    nodes.iter().for_each(|(_, faults)| faults.heal());
    sleep(10 * MINUTE).await;
    let until = at_start_of_minute(fleet.now()) - SignedDuration::from_mins(2);
    stop_all(nodes).await;
    let times = fleet.times();
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    let told = fleet.told("job").await;
    // The ledger keeps the last thousand records.
    let silent: Vec<_> = between("*/2 * * * *", until - SignedDuration::from_hours(24), until)
        .into_iter()
        .filter(|tick| !times.contains_key(tick) && !told.contains_key(tick))
        .collect();
    assert!(silent.is_empty(), "{silent:?}");
    let due = between("*/2 * * * *", fleet.zero, until).len();
    assert!(times.len() * 10 > due * 9, "{} of {due}", times.len());
}

/// The store goes away when a tick was granted, and before those that were missed are written down.
#[tokio::test(start_paused = true)]
async fn what_was_missed_before_a_tick_that_runs_is_recorded_though_the_store_goes_away() {
    let fleet = Fleet::new().await;
    let job = || fleet.job("job", "@every 10m", SECOND, 0).catch_up(24 * HOUR);
    fleet.makes_known(job()).await;
    sleep(35 * MINUTE).await;
    let (node, faults) = fleet.faulty_node(0, [job()]);
    faults.always(Operation::WriteNotes, Fault::Fail(ErrorKind::Unavailable));
    let ran = fleet.first_begun().await;
    sleep(20 * SECOND).await;
    faults.heal();
    sleep(MINUTE).await;
    node.stop().await;
    let told = fleet.told("job").await;
    for tick in between("@every 10m", fleet.zero, ran.tick) {
        assert_eq!(told.get(&tick), Some(if tick == ran.tick { &State::Done } else { &State::Missed }), "{tick}");
    }
}

impl Fleet {
    /// What is known of a tick's run, in full.
    pub(super) async fn record_of(&self, tick: Timestamp) -> Record {
        let locks = self.locks();
        Ledger::of(&locks, "job").unwrap().of_tick(tick).await.unwrap().expect("it is recorded")
    }
}

/// Its first record has to wait behind others until its lock is over; by then another has taken over, and is done.
#[tokio::test(start_paused = true)]
async fn a_beginning_that_comes_late_is_not_written_over_what_came_after_it() {
    let fleet = Fleet::new().await;
    let job = |nth, takes| fleet.job("job", "@every 1h", takes, nth).at_least_once(true).ttl(2 * SECOND);
    let before = fleet.job("before", "59 59 * * * *", SECOND / 100, 0);
    let (locks, faults, keeper) = fleet.faulty_locks();
    let first = fleet.node_over(locks, 0, [job(0, HOUR), before]);
    let second = fleet.node(-1, [job(1, SECOND / 10)]);
    sleep(MINUTE).await;
    faults.next(Operation::WriteNotes, Fault::DelayRequest(49 * SECOND / 10));
    while fleet.ran().len() < 2 {
        sleep(SECOND / 100).await;
    }
    let begun = fleet.ran()[1].clone();
    assert_eq!((begun.node, begun.attempt), (0, 1));
    keeper.always(Operation::Renew, Fault::LoseRequest);
    sleep(3 * SECOND + SECOND / 2).await;
    let done = fleet.record_of(begun.tick).await;
    assert!(done.state == State::Done && done.attempts == 2, "{done:?}");
    keeper.heal();
    sleep(2 * MINUTE).await;
    first.stop().await;
    second.stop().await;
    assert_eq!(fleet.record_of(begun.tick).await, done);
}
