//! What operators ask for, at awkward moments.

use leasehold::ErrorKind;
use leasehold_testkit::{Fault, Operation};

use super::*;

/// The jitter of this job, as its first run shows it.
async fn jitter_of(name: &str, within: Duration) -> Duration {
    let fleet = Fleet::new().await;
    let node = fleet.node(0, [fleet.job(name, "@every 1h", SECOND, 0).jitter(within)]);
    let begun = fleet.first_begun().await;
    node.stop().await;
    begun.from - Duration::try_from(begun.tick.duration_since(fleet.zero)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_for_twice_in_one_look_runs_twice() {
    let fleet = Fleet::new().await;
    let nodes: Vec<_> = (0..3).map(|nth| fleet.node(0, [fleet.job("job", "@every 6h", SECOND / 2, nth)])).collect();
    sleep(10 * SECOND + SECOND / 2).await;
    let locks = fleet.locks();
    let mut asked = Vec::new();
    for _ in 0..2 {
        asked.push(Orders::over(&locks).trigger("job", "ops", "").await.unwrap());
        sleep(SECOND / 10).await;
    }
    sleep(30 * SECOND).await;
    for node in nodes {
        node.stop().await;
    }
    assert_eq!(fleet.ran().iter().map(|ran| ran.tick).collect::<Vec<_>>(), asked);
}

/// However many ask, from wherever: each has an instant of its own, and what was acknowledged runs.
#[tokio::test(start_paused = true)]
async fn of_many_who_ask_at_once_each_gets_a_run_of_its_own() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 6h", SECOND / 2, nth).overlap(Overlap::Queue);
    let nodes: Vec<_> = (0..3).map(|nth| fleet.node(0, [job(nth)])).collect();
    sleep(10 * SECOND).await;
    let mut asking = tokio::task::JoinSet::new();
    for nth in 0..25 {
        let locks = fleet.locks();
        asking.spawn(async move { Orders::over(&locks).trigger("job", &format!("ops-{nth}"), "").await.unwrap() });
    }
    let asked: std::collections::BTreeSet<_> = asking.join_all().await.into_iter().collect();
    assert_eq!(asked.len(), 25);
    sleep(2 * MINUTE).await;
    let locks = fleet.locks();
    let told = Ledger::of(&locks, "job").unwrap().newest(100).await.unwrap();
    for node in nodes {
        node.stop().await;
    }
    assert_eq!(fleet.times(), asked.into_iter().map(|tick| (tick, 1)).collect());
    let who: std::collections::BTreeSet<_> = told.into_iter().filter_map(|record| record.asked).collect();
    assert_eq!(who.len(), 25, "{who:?}");
}

/// One that dies before it has written what it asks for has not been told that it is asked for; the next is.
#[tokio::test(start_paused = true)]
async fn who_dies_while_it_asks_holds_up_the_next_for_seconds() {
    let fleet = Fleet::new().await;
    let (locks, faults, _) = fleet.faulty_locks();
    faults.always(leasehold_testkit::Operation::WriteNotes, leasehold_testkit::Fault::HangBefore);
    faults.always(leasehold_testkit::Operation::Release, leasehold_testkit::Fault::LoseRequest);
    let dying = tokio::spawn(async move { Orders::over(&locks).trigger("job", "ops", "").await });
    sleep(SECOND).await;
    faults.cut();
    dying.abort();
    let began = fleet.now();
    let locks = fleet.locks();
    let asked = Orders::over(&locks).trigger("job", "ops", "").await.unwrap();
    assert!(asked >= began - SignedDuration::from_secs(1) && fleet.now() < began + SignedDuration::from_secs(10));
    let error = Orders::over(&locks).trigger("leasehold:trigger", "ops", "").await.unwrap_err();
    assert!(error.to_string().contains("another name"), "{error}");
}

/// It moves the mark: an older tick that nobody has claimed by then is over, and this is recorded.
#[tokio::test(start_paused = true)]
async fn a_tick_that_was_overtaken_by_an_order_is_recorded() {
    let (name, within) = ("nightly", 40 * MINUTE);
    let jitter = jitter_of(name, within).await;
    assert!(jitter > 2 * MINUTE, "another name is needed: {jitter:?}");
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job(name, "@every 1h", SECOND, nth).jitter(within);
    let nodes: Vec<_> = (0..2).map(|nth| fleet.node(0, [job(nth)])).collect();
    let tick = job(0).schedule().next_after(fleet.now()).unwrap();
    fleet.until(tick + SignedDuration::from_secs(60)).await;
    let locks = fleet.locks();
    let asked = Orders::over(&locks).trigger(name, "ops", "").await.unwrap();
    sleep(45 * MINUTE).await;
    for node in nodes {
        node.stop().await;
    }
    let told = fleet.told(name).await;
    assert_eq!(fleet.times(), BTreeMap::from([(asked, 1)]));
    assert_eq!((told.get(&tick), told.get(&asked)), (Some(&State::Skipped), Some(&State::Done)));
}

/// Asked for while no node was up for longer than anything is made up for.
#[tokio::test(start_paused = true)]
async fn what_was_asked_for_too_long_ago_is_recorded() {
    let fleet = Fleet::new().await;
    let job = || fleet.job("job", "@every 6h", SECOND, 0).catch_up(10 * MINUTE);
    fleet.makes_known(job()).await;
    let locks = fleet.locks();
    let asked = Orders::over(&locks).trigger("job", "ops", "").await.unwrap();
    sleep(20 * MINUTE).await;
    let node = fleet.node(0, [job()]);
    sleep(10 * SECOND).await;
    node.stop().await;
    assert_eq!((fleet.ran(), fleet.told("job").await.get(&asked)), (vec![], Some(&State::Missed)));
}

/// Nothing else wakes the node then: the next tick is hours away.
#[tokio::test(start_paused = true)]
async fn an_open_tick_of_a_paused_job_is_taken_up_when_the_pause_ends() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 12h", 3 * HOUR, nth).at_least_once(true);
    let nodes = [fleet.node(0, [job(0)]), fleet.node(0, [job(1)])];
    let begun = fleet.first_begun().await;
    sleep(HOUR).await;
    let (locks, until) = (fleet.locks(), fleet.now() + SignedDuration::from_hours(2));
    Orders::over(&locks).pause_until("job", "ops", "", until).await.unwrap();
    sleep(MINUTE).await;
    let [first, second] = nodes;
    let (dies, stays) = if begun.node == 0 { (first, second) } else { (second, first) };
    dies.die();
    fleet.until(until - SignedDuration::from_secs(60)).await;
    assert_eq!(fleet.ran().len(), 1, "it is paused");
    fleet.until(until + SignedDuration::from_secs(60)).await;
    let ran = fleet.ran();
    assert!(ran.len() == 2 && ran[1].tick == begun.tick, "{ran:?}");
    stays.stop().await;
}

/// Also for ticks that were due before it: while it is paused, a job does not start.
#[tokio::test(start_paused = true)]
async fn a_paused_job_does_not_start() {
    let (name, within) = ("nightly", 40 * MINUTE);
    let jitter = jitter_of(name, within).await;
    assert!(jitter > 2 * MINUTE, "another name is needed: {jitter:?}");
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job(name, "@every 1h", SECOND, nth).jitter(within);
    let node = fleet.node(0, [job(0)]);
    let tick = job(0).schedule().next_after(fleet.now()).unwrap();
    fleet.until(tick + SignedDuration::from_secs(60)).await;
    let locks = fleet.locks();
    Orders::over(&locks).pause(name, "ops", "").await.unwrap();
    sleep(50 * MINUTE).await;
    node.stop().await;
    assert_eq!((fleet.ran(), fleet.told(name).await.get(&tick)), (vec![], Some(&State::Skipped)));
}

/// Due while no node was up, and paused since.
#[tokio::test(start_paused = true)]
async fn a_node_that_comes_up_into_a_pause_makes_up_for_nothing() {
    let fleet = Fleet::new().await;
    let job = || fleet.job("job", "@every 1h", SECOND, 0);
    fleet.makes_known(job()).await;
    let tick = job().schedule().next_after(fleet.now()).unwrap();
    fleet.until(tick + SignedDuration::from_mins(10)).await;
    let locks = fleet.locks();
    Orders::over(&locks).pause("job", "ops", "").await.unwrap();
    sleep(20 * MINUTE).await;
    let node = fleet.node(0, [job()]);
    sleep(MINUTE).await;
    node.stop().await;
    assert_eq!((fleet.ran(), fleet.told("job").await.get(&tick)), (vec![], Some(&State::Skipped)));
}

/// Pausing what is paused is no new pause, and a second one doesn't undo the first.
#[tokio::test(start_paused = true)]
async fn what_fell_into_a_pause_is_never_made_up_for() {
    for resumes_between in [false, true] {
        let fleet = Fleet::new().await;
        let job = || fleet.job("job", "@every 10m", SECOND, 0).catch_up(24 * HOUR).missed(Missed::All { most: 100 });
        fleet.makes_known(job()).await;
        let locks = fleet.locks();
        let orders = Orders::over(&locks);
        orders.pause("job", "ops", "").await.unwrap();
        sleep(25 * MINUTE).await;
        if resumes_between {
            orders.resume("job", "ops").await.unwrap();
        }
        orders.pause("job", "ops", "again").await.unwrap();
        sleep(25 * MINUTE).await;
        orders.resume("job", "ops").await.unwrap();
        let paused_until = fleet.now();
        let node = fleet.node(0, [job()]);
        sleep(25 * MINUTE).await;
        node.stop().await;
        let ran: Vec<_> = fleet.times().into_keys().collect();
        assert_eq!(ran, outages::between("@every 10m", paused_until, fleet.now()));
        let told = fleet.told("job").await;
        for tick in outages::between("@every 10m", fleet.zero, paused_until) {
            assert_eq!(told.get(&tick), Some(&State::Skipped), "{tick}");
        }
    }
}

/// A tick that waits in line does not start either.
#[tokio::test(start_paused = true)]
async fn a_pause_reaches_a_tick_that_waits_for_the_last_to_end() {
    let fleet = Fleet::new().await;
    let node = fleet.node(0, [fleet.job("job", "@every 10m", 15 * MINUTE, 0).overlap(Overlap::Queue)]);
    let begun = fleet.first_begun().await;
    fleet.until(begun.tick + SignedDuration::from_mins(12)).await;
    let locks = fleet.locks();
    Orders::over(&locks).pause("job", "ops", "").await.unwrap();
    sleep(30 * MINUTE).await;
    node.stop().await;
    assert_eq!(fleet.ran().len(), 1, "{:?}", fleet.ran());
}

/// As over etcd, where the machine of whoever asks says what time it is: an hour ahead, say.
#[tokio::test(start_paused = true)]
async fn an_order_from_the_future_holds_nothing_up() {
    let fleet = Fleet::new().await;
    let nodes: Vec<_> = (0..2).map(|nth| fleet.node(0, [fleet.job("job", "@every 10m", SECOND, nth)])).collect();
    sleep(5 * SECOND).await;
    let asked = fleet.now() + SignedDuration::from_mins(65) + SignedDuration::from_millis(7);
    let order = |id: &str, tick: Timestamp| leasehold::store::Note {
        topic: leasehold::store::Topic::of_all("asked"),
        id: leasehold::store::NoteId::new(id).unwrap(),
        text: format!(r#"{{"job":"job","by":"ops","tick":"{tick}"}}"#),
        keep: 24 * HOUR,
        most: 1000,
    };
    let before_time = "1969-12-31T23:59:59Z".parse().unwrap();
    let locks = fleet.locks();
    locks.notes().unwrap().note(&[order("future", asked), order("past", before_time)]).await.unwrap();
    sleep(HOUR).await;
    let until = fleet.now();
    fleet.assert_each_once("@every 10m", fleet.zero, until);
    let late = |ran: &Ran| ran.from - Duration::try_from(ran.tick.duration_since(fleet.zero)).unwrap();
    assert!(fleet.ran().iter().all(|ran| late(ran) < SECOND), "{:?}", fleet.ran());
    sleep(10 * MINUTE).await;
    for node in nodes {
        node.stop().await;
    }
    assert_eq!(
        fleet.times().get(&Timestamp::from_millisecond(asked.as_millisecond()).unwrap()),
        Some(&1),
        "it has its turn then"
    );
}

/// An order of somebody whose clock shows that time, as it stands in the store.
async fn asked_at(fleet: &Fleet, tick: Timestamp) -> Timestamp {
    let tick = Timestamp::from_millisecond(tick.as_millisecond()).unwrap();
    let locks = fleet.locks();
    let note = leasehold::store::Note {
        topic: leasehold::store::Topic::of_all("asked"),
        id: leasehold::store::NoteId::new("order").unwrap(),
        text: format!(r#"{{"job":"job","by":"ops","tick":"{tick}"}}"#),
        keep: 24 * HOUR,
        most: 1000,
    };
    locks.notes().unwrap().note(&[note]).await.unwrap();
    tick
}

/// Nothing else wakes the node then: the next tick of the schedule is hours away.
#[tokio::test(start_paused = true)]
async fn an_order_from_the_near_future_has_its_turn_when_it_is_due() {
    let fleet = Fleet::new().await;
    let job = fleet.job("job", "@every 12h", SECOND, 0);
    let next = job.schedule().next_after(fleet.now()).unwrap();
    if next < fleet.now() + SignedDuration::from_mins(30) {
        fleet.until(next + SignedDuration::from_mins(30)).await;
    }
    let node = fleet.node(0, [job]);
    sleep(10 * SECOND).await;
    let asked = asked_at(&fleet, fleet.now() + SignedDuration::from_mins(5) + SignedDuration::from_millis(7)).await;
    sleep(6 * MINUTE).await;
    node.stop().await;
    assert_eq!(fleet.times(), BTreeMap::from([(asked, 1)]));
}

/// What is due between comes before the order, and not two minutes too early for its sake.
#[tokio::test(start_paused = true)]
async fn an_order_of_a_fast_clock_lets_no_tick_begin_before_it_is_due() {
    let fleet = Fleet::new().await;
    let node = fleet.node(0, [fleet.job("job", "* * * * *", SECOND, 0)]);
    sleep(2 * MINUTE + 10 * SECOND).await;
    let asked = asked_at(&fleet, fleet.now() + SignedDuration::from_secs(110)).await;
    sleep(5 * MINUTE).await;
    let until = at_start_of_minute(fleet.now());
    node.stop().await;
    let ran = fleet.ran();
    let begun = |ran: &Ran| fleet.zero + SignedDuration::try_from(ran.from).unwrap();
    assert!(ran.iter().all(|ran| ran.tick == asked || begun(ran) >= ran.tick), "{ran:?}");
    assert!(begun(ran.iter().find(|ran| ran.tick == asked).unwrap()) >= asked - SignedDuration::from_secs(5));
    let ticks: Vec<_> = ran.iter().map(|ran| ran.tick).filter(|tick| *tick != asked).collect();
    assert_eq!(ticks, outages::between("* * * * *", fleet.zero, until));
}

/// However long the run before it takes.
#[tokio::test(start_paused = true)]
async fn orders_that_wait_in_line_for_hours_are_run() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 12h", 3 * HOUR, nth).overlap(Overlap::Queue);
    let nodes = [fleet.node(0, [job(0)]), fleet.node(0, [job(1)])];
    let begun = fleet.first_begun().await;
    sleep(MINUTE).await;
    let locks = fleet.locks();
    let mut wanted = vec![begun.tick];
    for _ in 0..2 {
        wanted.push(Orders::over(&locks).trigger("job", "ops", "").await.unwrap());
    }
    sleep(8 * HOUR).await;
    assert_eq!(fleet.ran().iter().map(|ran| ran.tick).collect::<Vec<_>>(), wanted);
    nodes.into_iter().for_each(Node::die);
}

/// Nobody was there for hours. What became of those that had their turn is not written over, nor told anew.
#[tokio::test(start_paused = true)]
async fn an_order_that_nobody_took_is_recorded_by_who_starts_later() {
    let fleet = Fleet::new().await;
    let job = || fleet.job("job", "@every 12h", 10 * MINUTE, 0).catch_up(24 * HOUR);
    let node = fleet.node(0, [job()]);
    let begun = fleet.first_begun().await;
    sleep(MINUTE).await;
    let locks = fleet.locks();
    let orders = Orders::over(&locks);
    let overlaps = orders.trigger("job", "ops", "").await.unwrap();
    sleep(HOUR / 2).await;
    let ran = orders.trigger("job", "ops", "").await.unwrap();
    sleep(HOUR / 2).await;
    node.stop().await;
    let nobodys = orders.trigger("job", "ops", "").await.unwrap();
    sleep(5 * HOUR).await;
    let node = fleet.node(0, [job()]);
    sleep(MINUTE).await;
    node.stop().await;
    let wanted = [(begun.tick, State::Done), (overlaps, State::Skipped), (ran, State::Done), (nobodys, State::Missed)];
    assert_eq!(fleet.told("job").await, BTreeMap::from(wanted));
    assert_eq!(fleet.ran().len(), 2);
}

/// Whoever starts anew looks whether others have dealt with it: also a tick of the schedule.
#[tokio::test(start_paused = true)]
async fn what_was_skipped_is_not_run_by_who_starts_later() {
    let fleet = Fleet::new().await;
    let job = || fleet.job("job", "@every 10m", 15 * MINUTE, 0).at_least_once(true);
    let node = fleet.node(0, [job()]);
    let begun = fleet.first_begun().await;
    sleep(MINUTE).await;
    let locks = fleet.locks();
    let orders = Orders::over(&locks);
    let asked = orders.trigger("job", "ops", "").await.unwrap();
    fleet.until(begun.tick + SignedDuration::from_mins(16)).await;
    node.stop().await;
    let node = fleet.node(0, [job()]);
    sleep(2 * MINUTE).await;
    assert_eq!(fleet.times(), BTreeMap::from([(begun.tick, 1)]));
    let told = fleet.told("job").await;
    let tick = begun.tick + SignedDuration::from_mins(10);
    assert_eq!((told.get(&asked), told.get(&tick)), (Some(&State::Skipped), Some(&State::Skipped)));
    sleep(5 * MINUTE).await;
    assert_eq!(fleet.ran()[1].tick, tick + SignedDuration::from_mins(10), "it goes on");
    node.stop().await;
}

/// Nor by those who start together, and see each other look. A minimum hold is not kept for it, which would be in the way of the next.
#[tokio::test(start_paused = true)]
async fn what_was_skipped_is_run_by_none_of_those_who_start_together() {
    for (nodes, at_least_once) in [(2, true), (2, false), (6, true), (6, false)] {
        let fleet = Fleet::new().await;
        let job = || {
            let job = fleet.job("job", "@every 10m", 15 * MINUTE, 0).at_least_once(at_least_once);
            job.at_least_for(14 * MINUTE)
        };
        let node = fleet.node(0, [job()]);
        let begun = fleet.first_begun().await;
        fleet.until(begun.tick + SignedDuration::from_mins(16)).await;
        node.stop().await;
        let mut started = Vec::new();
        for nth in 0..nodes {
            let (node, faults) = fleet.faulty_node(0, [job()]);
            for operation in [Operation::TryAcquire, Operation::ReadNotes, Operation::Release] {
                faults.always(operation, Fault::DelayReply(SECOND / 20 * (1 + nth % 3)));
            }
            started.push(node);
        }
        sleep(3 * MINUTE).await;
        assert_eq!(fleet.times(), BTreeMap::from([(begun.tick, 1)]));
        sleep(5 * MINUTE).await;
        let next = begun.tick + SignedDuration::from_mins(20);
        assert_eq!(fleet.times(), BTreeMap::from([(begun.tick, 1), (next, 1)]), "it goes on");
        for node in started {
            node.stop().await;
        }
    }
}

/// Nor by the one who has skipped it, and sees another look at it as the next one is due.
#[tokio::test(start_paused = true)]
async fn what_was_skipped_is_not_run_by_who_sees_another_look() {
    let fleet = Fleet::new().await;
    let job = || fleet.job("job", "@every 10m", 15 * MINUTE, 0).at_least_once(true);
    let stays = fleet.node(0, [job()]);
    let begun = fleet.first_begun().await;
    let next = begun.tick + SignedDuration::from_mins(20);
    fleet.until(next - SignedDuration::from_secs(1)).await;
    let (starts, faults) = fleet.faulty_node(0, [job()]);
    for operation in [Operation::TryAcquire, Operation::ReadNotes] {
        faults.always(operation, Fault::DelayReply(SECOND * 2 / 5));
    }
    sleep(14 * MINUTE).await;
    assert_eq!(fleet.times(), BTreeMap::from([(begun.tick, 1), (next, 1)]));
    for node in [stays, starts] {
        node.stop().await;
    }
}

/// As long as nobody can say whether it was skipped it is not begun.
#[tokio::test(start_paused = true)]
async fn whether_it_was_skipped_is_asked_until_it_is_known() {
    let fleet = Fleet::new().await;
    let job = || fleet.job("job", "@every 10m", 15 * MINUTE, 0).at_least_once(true);
    let node = fleet.node(0, [job()]);
    let begun = fleet.first_begun().await;
    fleet.until(begun.tick + SignedDuration::from_mins(16)).await;
    node.stop().await;
    let (locks, faults, _) = fleet.faulty_locks();
    faults.always(Operation::TryAcquire, Fault::DelayReply(SECOND / 10));
    let node = fleet.node_over(locks, 0, [job()]);
    // It has read all else, and asks for the tick.
    while faults.calls(Operation::TryAcquire) == 0 {
        sleep(SECOND / 1000).await;
    }
    faults.next_few(3, Operation::ReadNotes, Fault::Fail(ErrorKind::TimedOut));
    sleep(2 * MINUTE).await;
    assert_eq!(fleet.times(), BTreeMap::from([(begun.tick, 1)]));
    node.stop().await;
}

/// Its ledger is a record, and holds nothing up for ever.
#[tokio::test(start_paused = true)]
async fn where_nobody_can_say_for_a_minute_whether_it_was_skipped_it_runs() {
    let fleet = Fleet::new().await;
    let job = || fleet.job("job", "@every 10m", SECOND, 0).at_least_once(true);
    let node = fleet.node(0, [job()]);
    let begun = fleet.first_begun().await;
    node.stop().await;
    let due = begun.tick + SignedDuration::from_mins(10);
    fleet.until(due + SignedDuration::from_mins(3)).await;
    let (locks, faults, _) = fleet.faulty_locks();
    faults.always(Operation::TryAcquire, Fault::DelayReply(SECOND / 10));
    let node = fleet.node_over(locks, 0, [job()]);
    // It has read all else, and asks for the tick.
    while faults.calls(Operation::TryAcquire) == 0 {
        sleep(SECOND / 1000).await;
    }
    faults.always(Operation::ReadNotes, Fault::Fail(ErrorKind::TimedOut));
    sleep(50 * SECOND).await;
    assert_eq!(fleet.times(), BTreeMap::from([(begun.tick, 1)]));
    sleep(30 * SECOND).await;
    assert_eq!(fleet.times(), BTreeMap::from([(begun.tick, 1), (due, 1)]));
    faults.heal();
    node.stop().await;
}

/// Its job has gone, and nobody else has it. Where it has another schedule only, what was asked for is run.
#[tokio::test(start_paused = true)]
async fn an_order_that_waits_when_its_job_is_taken_out_is_recorded() {
    for goes in [true, false] {
        let fleet = Fleet::new().await;
        let job = |when| fleet.job("job", when, 15 * MINUTE, 0).overlap(Overlap::Queue);
        let node = fleet.node(0, [job("@every 12h")]);
        let begun = fleet.first_begun().await;
        sleep(MINUTE).await;
        let locks = fleet.locks();
        let asked = Orders::over(&locks).trigger("job", "ops", "").await.unwrap();
        sleep(MINUTE).await;
        node.roster.replace(if goes { vec![] } else { vec![job("@every 6h")] }).unwrap();
        sleep(MINUTE).await;
        let known = Ledger::of(&locks, "job").unwrap().of_tick(asked).await.unwrap();
        assert_eq!(
            known.map(|record| (record.state, record.asked)),
            goes.then(|| (State::Skipped, Some("ops".into())))
        );
        sleep(HOUR).await;
        node.stop().await;
        let ran: Vec<_> = fleet.ran().iter().map(|ran| ran.tick).collect();
        assert_eq!(ran, if goes { vec![begun.tick] } else { vec![begun.tick, asked] });
    }
}
