//! Clocks that are wrong while the store can't say so, and terms at the edges.

use leasehold::store::{Note, Search, Topic};
use leasehold_testkit::{Fault, Operation};

use super::*;

/// One hiccup at the wrong moment is not taken for a yes.
#[tokio::test(start_paused = true)]
async fn a_fast_clock_is_not_trusted_because_the_store_could_not_be_asked() {
    for off in [2 * 3600, 240] {
        let fleet = Fleet::new().await;
        let (node, faults) = fleet.faulty_node(0, [fleet.job("job", "* * * * *", SECOND, 0)]);
        sleep(5 * MINUTE).await;
        faults.next_few(3, Operation::Time, Fault::LoseRequest);
        node.wall.set_off(off);
        sleep(20 * MINUTE).await;
        let until = at_start_of_minute(fleet.now());
        node.stop().await;
        fleet.assert_each_once("* * * * *", fleet.zero, until);
        let early = fleet
            .ran()
            .iter()
            .filter(|ran| ran.tick > fleet.zero + SignedDuration::try_from(ran.from).unwrap())
            .count();
        assert_eq!(early, 0, "{off} s: {:?}", fleet.ran());
    }
}

/// A clock may also be wrong from the start, and the store away then.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_fast_from_the_start_waits_for_the_stores() {
    let fleet = Fleet::new().await;
    let job = || fleet.job("job", "* * * * *", SECOND, 0);
    fleet.makes_known(job()).await;
    let (node, faults) = fleet.faulty_node(2 * 3600, [job()]);
    faults.cut();
    sleep(3 * MINUTE).await;
    faults.heal();
    sleep(20 * MINUTE).await;
    let until = at_start_of_minute(fleet.now());
    node.stop().await;
    let from = until - SignedDuration::from_mins(18);
    let ran: Vec<_> = fleet.times().into_keys().filter(|tick| *tick > from).collect();
    assert_eq!(ran, outages::between("* * * * *", from, until));
}

#[tokio::test(start_paused = true)]
async fn the_shortest_catch_up_runs_what_is_due() {
    let fleet = Fleet::new().await;
    let node = fleet.node(0, [fleet.job("job", "@every 10m", SECOND, 0).catch_up(Duration::ZERO)]);
    sleep(2 * HOUR + SECOND / 2).await;
    let until = fleet.now();
    let locks = fleet.locks();
    let tick = Orders::over(&locks).trigger("job", "ops", "").await.unwrap();
    sleep(5 * SECOND).await;
    node.stop().await;
    assert_eq!(fleet.times().remove(&tick), Some(1));
    fleet.ran.lock().unwrap().retain(|ran| ran.tick != tick);
    fleet.assert_each_once("@every 10m", fleet.zero, until);
}

/// Once, however many start after it.
#[tokio::test(start_paused = true)]
async fn what_is_too_old_to_be_made_up_for_is_recorded_as_missed() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 6h", SECOND, nth);
    let first = job(0).schedule().next_after(fleet.now()).unwrap();
    let node = fleet.node(0, [job(0)]);
    fleet.until(first + SignedDuration::from_mins(1)).await;
    node.stop().await;
    fleet.until(first + SignedDuration::from_hours(20)).await;
    for nth in 0..3 {
        let node = fleet.node(0, [job(nth)]);
        sleep(10 * SECOND).await;
        node.stop().await;
        let told = fleet.told("job").await.into_values().collect::<Vec<_>>();
        assert_eq!(told, [State::Done, State::Missed, State::Missed, State::Missed]);
    }
    assert_eq!(fleet.ran().len(), 1);
}

/// A job that was made known by a store whose clock was ahead begins all the same.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_known_since_tomorrow_begins_today() {
    let fleet = Fleet::new().await;
    let job = || fleet.job("job", "@every 10m", SECOND, 0);
    fleet.makes_known(job()).await;
    let (locks, topic) = (fleet.locks(), Topic::of_all("jobs"));
    let known = locks.notes().unwrap().notes(&Search::newest(topic.clone(), 1)).await.unwrap().remove(0);
    let mut read: serde_json::Value = serde_json::from_str(&known.text).unwrap();
    let tomorrow = fleet.now() + SignedDuration::from_hours(24);
    read["schedules"][0]["since"] = tomorrow.to_string().into();
    let note = Note { topic, id: known.id, text: read.to_string(), keep: 24 * HOUR, most: 10 };
    locks.notes().unwrap().note(&[note]).await.unwrap();
    let node = fleet.node(0, [job()]);
    sleep(HOUR).await;
    let until = fleet.now();
    node.stop().await;
    fleet.assert_each_once("@every 10m", fleet.zero, until);
}

#[tokio::test(start_paused = true)]
async fn terms_that_make_no_sense_are_refused() {
    let fleet = Fleet::new().await;
    let refused =
        |job: Job| Scheduler::over(fleet.locks()).job(job).err().map(|error| error.to_string()).unwrap_or_default();
    let job = || fleet.job("job", "30 2 * * *", SECOND, 0);
    assert!(refused(job().missed(Missed::All { most: 0 })).contains("give 1 at least"));
    assert!(refused(job().jitter(25 * HOUR)).contains("give a day at most"));
}

/// Several nodes that come up together share what is to be made up for, and none of it is lost between them.
#[tokio::test(start_paused = true)]
async fn all_that_was_missed_is_run_by_nodes_that_take_turns() {
    for takes in [SECOND / 100, 30 * SECOND] {
        let fleet = Fleet::new().await;
        let job =
            |nth| fleet.job("job", "@every 10m", takes, nth).catch_up(24 * HOUR).missed(Missed::All { most: 100 });
        fleet.makes_known(job(0)).await;
        sleep(65 * MINUTE).await;
        let nodes: Vec<_> = (0..3).map(|nth| fleet.node(0, [job(nth)])).collect();
        sleep(30 * MINUTE).await;
        let until = fleet.now();
        for node in nodes {
            node.stop().await;
        }
        fleet.assert_each_once("@every 10m", fleet.zero, until);
        let ran = fleet.ran();
        assert!(
            ran.windows(2).all(|pair| pair[0].tick < pair[1].tick && pair[0].to.unwrap() <= pair[1].from),
            "{ran:?}"
        );
        assert!(!fleet.told("job").await.values().any(|state| *state != State::Done));
    }
}

/// Who waits for the end of another asks for the lock now and then, and not all through a run of its own tick.
#[tokio::test(start_paused = true)]
async fn a_queue_does_not_poll_all_through_a_run() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 1h", 50 * MINUTE, nth).overlap(Overlap::Queue);
    let (nodes, faults): (Vec<_>, Vec<_>) = (0..3).map(|nth| fleet.faulty_node(0, [job(nth)])).unzip();
    fleet.first_begun().await;
    let calls = || faults.iter().map(|faults| faults.calls(Operation::TryAcquire)).sum::<u64>();
    let before = calls();
    sleep(49 * MINUTE).await;
    let asked = calls() - before;
    assert!(asked < 300, "{asked} claims");
    for node in nodes {
        node.stop().await;
    }
}

/// In the store's line whoever asks anew comes last.
#[tokio::test(start_paused = true)]
async fn orders_for_other_jobs_take_no_tick_out_of_the_line() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 1h", 3 * HOUR, nth).overlap(Overlap::Queue);
    let (node, faults) = fleet.faulty_node(0, [job(0)]);
    let begun = fleet.first_begun().await;
    fleet.until(begun.tick + SignedDuration::from_mins(62)).await;
    let locks = fleet.locks();
    let mut asked = Vec::new();
    for orders in [false, true] {
        let before = faults.calls(Operation::TryAcquire);
        for _ in 0..100 {
            sleep(3 * SECOND).await;
            if orders {
                Orders::over(&locks).trigger("another", "ops", "").await.unwrap();
            }
        }
        asked.push(faults.calls(Operation::TryAcquire) - before);
    }
    assert!(asked[1] <= asked[0] + 20, "{asked:?} claims"); // its own line is looked at now and then
    Orders::over(&locks).pause("job", "ops", "").await.unwrap();
    sleep(5 * SECOND).await;
    let second = begun.tick + SignedDuration::from_hours(1);
    assert_eq!(fleet.told("job").await.get(&second), Some(&State::Skipped), "that is for this one");
    node.stop().await;
}

/// It waits for as long as the other runs, not only for as long as anything is made up for.
#[tokio::test(start_paused = true)]
async fn a_tick_in_line_is_not_given_up_after_catch_up() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 4h", 6 * HOUR, nth).overlap(Overlap::Queue).catch_up(10 * MINUTE);
    let nodes: Vec<_> = (0..2).map(|nth| fleet.node(0, [job(nth)])).collect();
    let begun = fleet.first_begun().await;
    fleet.until(begun.tick + SignedDuration::from_hours(7)).await;
    for node in nodes {
        node.stop().await;
    }
    let ran = fleet.ran();
    let [first, second] = &ran[..] else { panic!("one after the other: {ran:?}") };
    assert_eq!(second.tick, first.tick + SignedDuration::from_hours(4));
    assert!(second.from - first.to.unwrap() < 2 * SECOND, "{ran:?}");
}

/// Also of ticks so close that the next is due before it is certain that the last one runs.
#[tokio::test(start_paused = true)]
async fn what_is_due_during_a_run_is_skipped_and_not_missed() {
    let fleet = Fleet::new().await;
    let (node, faults) = fleet.faulty_node(0, [fleet.job("job", "@every 1s", 10 * SECOND, 0)]);
    faults.always(Operation::TryAcquire, Fault::DelayRequest(Duration::from_millis(300)));
    sleep(65 * SECOND).await;
    faults.heal();
    node.stop().await;
    let told = fleet.told("job").await;
    let skipped = told.values().filter(|state| **state == State::Skipped).count();
    assert!(skipped > 50 && !told.values().any(|state| *state == State::Missed), "{told:?}");
}

/// The label says which tick somebody runs: of a long name the end is left out, never the tick.
#[tokio::test(start_paused = true)]
async fn the_longest_name_leaves_room_for_the_tick() {
    let fleet = Fleet::new().await;
    let name = "j".repeat(200);
    let locks = Locks::builder().simulated(fleet.clock.clone()).label(&format!("{}/7/cron", "h".repeat(64)));
    let locks = locks.over(Arc::new(fleet.memory.clone()));
    let node = fleet.node_over(locks, 0, [fleet.job(&name, "@every 1h", MINUTE, 0)]);
    let begun = fleet.first_begun().await;
    let label = fleet.memory.list().await.unwrap().remove(0).label;
    assert!(label.chars().count() <= 255 && label.ends_with(&format!("@{}", begun.tick)), "{label}");
    node.stop().await;
}
