//! Several schedulers over one store, in time that a test moves: each tick runs once, whatever clocks and nodes do.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use leasehold::stores::Memory;
use leasehold::{Locks, Store, Tick};
use leasehold_schedule::{
    Ended, Event, History, Job, Ledger, Left, Missed, Orders, Overlap, Record, Retries, Roster, Run, Schedule,
    Scheduler, State, WallClock, Work,
};
use leasehold_testkit::PausedClock;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

#[path = "fleet/clocks.rs"]
mod clocks;
#[path = "fleet/deaths.rs"]
mod deaths;
#[path = "fleet/operators.rs"]
mod operators;
#[path = "fleet/outages.rs"]
mod outages;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// A clock on a wall: right, but for what it is off by.
#[derive(Debug)]
struct Wall {
    zero: Timestamp,
    start: Instant,
    off_millis: AtomicI64,
}

impl Wall {
    fn set_off(&self, seconds: i64) {
        self.off_millis.store(seconds * 1000, Ordering::Relaxed);
    }
}

impl WallClock for Wall {
    fn now(&self) -> Timestamp {
        let off = SignedDuration::from_millis(self.off_millis.load(Ordering::Relaxed));
        self.zero + SignedDuration::try_from(self.start.elapsed()).unwrap() + off
    }
}

/// What ran: of which tick, on which node, from when to when.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ran {
    tick: Timestamp,
    node: usize,
    attempt: u32,
    from: Duration,
    to: Option<Duration>,
}

/// A store, the time, and what ran.
#[derive(Clone)]
struct Fleet {
    clock: Arc<PausedClock>,
    memory: Memory,
    zero: Timestamp,
    start: Instant,
    ran: Arc<Mutex<Vec<Ran>>>,
}

/// A scheduler that runs.
struct Node {
    wall: Arc<Wall>,
    roster: Roster,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<()>,
}

impl Node {
    async fn stop(mut self) {
        drop(self.stop.take());
        self.running.await.expect("it ends without a panic");
    }

    /// As `kill -9` does: nothing is released.
    fn die(self) {
        self.running.abort();
    }
}

impl Fleet {
    /// Half a minute past an hour, whenever the test runs.
    async fn new() -> Self {
        let clock = Arc::new(PausedClock::start());
        let memory = Memory::new(clock.clone());
        let since_1970 = memory.time().await.unwrap();
        let into_the_hour = Duration::from_nanos(u64::try_from(since_1970.as_nanos() % HOUR.as_nanos()).unwrap());
        sleep(HOUR - into_the_hour + 30 * SECOND).await;
        let now = memory.time().await.unwrap();
        let zero = Timestamp::from_millisecond(i64::try_from(now.as_millis()).unwrap()).unwrap();
        Self { clock, memory, zero, start: Instant::now(), ran: Arc::default() }
    }

    fn now(&self) -> Timestamp {
        self.zero + SignedDuration::try_from(self.start.elapsed()).unwrap()
    }

    fn locks(&self) -> Locks {
        Locks::builder().simulated(self.clock.clone()).over(Arc::new(self.memory.clone()))
    }

    /// A job that takes so long, and on which terms.
    fn job(&self, name: &str, when: &str, takes: Duration, node: usize) -> Job {
        let fleet = self.clone();
        Job::new(name, Schedule::parse(when, None).unwrap(), move |run| {
            let (fleet, tick, attempt) = (fleet.clone(), run.tick(), run.attempt());
            Box::pin(async move {
                let tick = instant(tick);
                let from = fleet.start.elapsed();
                let place = {
                    let mut ran = fleet.ran.lock().unwrap();
                    ran.push(Ran { tick, node, attempt, from, to: None });
                    ran.len() - 1
                };
                sleep(takes).await;
                fleet.ran.lock().unwrap()[place].to = Some(fleet.start.elapsed());
                Ok(())
            })
        })
    }

    fn node(&self, off: i64, jobs: impl IntoIterator<Item = Job>) -> Node {
        self.node_over(self.locks(), off, jobs)
    }

    fn node_over(&self, locks: Locks, off: i64, jobs: impl IntoIterator<Item = Job>) -> Node {
        let wall = Arc::new(Wall { zero: self.zero, start: self.start, off_millis: AtomicI64::new(off * 1000) });
        let (stop, stopped) = oneshot::channel::<()>();
        let mut scheduler = Scheduler::over(locks).clock(wall.clone());
        for job in jobs {
            scheduler = scheduler.job(job).expect("the jobs of the tests are right");
        }
        let roster = scheduler.roster();
        let running = tokio::spawn(scheduler.run(async { drop(stopped.await) }));
        Node { wall, roster, stop: Some(stop), running }
    }

    /// A scheduler that had this job, once.
    async fn makes_known(&self, job: Job) {
        let node = self.node(0, [job]);
        sleep(SECOND).await;
        node.stop().await;
        assert_eq!(self.ran(), [], "it is new");
    }

    fn ran(&self) -> Vec<Ran> {
        self.ran.lock().unwrap().clone()
    }

    /// How often each tick ran.
    fn times(&self) -> BTreeMap<Timestamp, usize> {
        let mut times = BTreeMap::new();
        self.ran().iter().for_each(|ran| *times.entry(ran.tick).or_default() += 1);
        times
    }

    /// Each tick of `when` after `from` up to `until`, no other, once.
    #[track_caller]
    fn assert_each_once(&self, when: &str, from: Timestamp, until: Timestamp) {
        let schedule = Schedule::parse(when, None).unwrap();
        let due: Vec<_> = schedule.ticks_after(from).take_while(|tick| *tick <= until).collect();
        let times = self.times();
        let wrong: Vec<_> = times.iter().filter(|(_, times)| **times != 1).collect();
        assert!(wrong.is_empty(), "not once: {wrong:?}");
        let ran: Vec<_> = times.into_keys().filter(|tick| *tick <= until).collect();
        let left_out: Vec<_> = due.iter().filter(|tick| !ran.contains(tick)).collect();
        assert!(left_out.is_empty() && ran == due, "left out: {left_out:?}");
    }

    async fn states(&self, job: &str) -> Vec<(Option<Timestamp>, State)> {
        let locks = self.locks();
        let ledger = Ledger::of(&locks, job).unwrap();
        ledger.newest(1000).await.unwrap().into_iter().map(|record| (record.tick, record.state)).collect()
    }
}

fn instant(tick: Tick) -> Timestamp {
    Timestamp::from_millisecond(tick.as_unix_millis()).unwrap()
}

fn at_start_of_minute(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second() - at.as_second() % 60).unwrap()
}

/// A job of 10 ms on five nodes whose clocks differ by up to three minutes, for two days.
#[tokio::test(start_paused = true)]
async fn q01_each_tick_runs_once_though_clocks_differ() {
    let fleet = Fleet::new().await;
    let offs = [-90, -30, 0, 45, 90];
    let nodes: Vec<_> = offs
        .iter()
        .enumerate()
        .map(|(nth, off)| fleet.node(*off, [fleet.job("job", "* * * * *", SECOND / 100, nth)]))
        .collect();
    sleep(48 * HOUR).await;
    for node in nodes {
        node.stop().await;
    }
    let until = at_start_of_minute(fleet.now());
    let from = fleet.ran()[0].tick - SignedDuration::from_secs(1);
    // Those whose clocks are fast are there first, also for the tick after the last.
    let last = fleet.ran().iter().map(|ran| ran.tick).max().unwrap();
    assert!(last >= until);
    fleet.assert_each_once("* * * * *", from, last);
    assert!(fleet.ran().len() > 2870);
}

/// Intervals go by the epoch, not by when a process has started.
#[tokio::test(start_paused = true)]
async fn q02_intervals_are_the_same_on_every_node() {
    let fleet = Fleet::new().await;
    let mut nodes = Vec::new();
    for nth in 0..3 {
        nodes.push(fleet.node(0, [fleet.job("job", "@every 30s", SECOND / 100, nth)]));
        sleep(7 * SECOND).await;
    }
    sleep(HOUR).await;
    for node in nodes {
        node.stop().await;
    }
    let from = fleet.ran()[0].tick - SignedDuration::from_secs(1);
    fleet.assert_each_once("@every 30s", from, fleet.now());
    assert!(fleet.ran().iter().all(|ran| ran.tick.as_second() % 30 == 0));
}

#[tokio::test(start_paused = true)]
async fn a_new_job_begins_at_its_next_tick_and_a_known_one_is_made_up_for() {
    let fleet = Fleet::new().await;
    let job = || fleet.job("job", "@every 10m", SECOND, 0).catch_up(24 * HOUR);
    fleet.makes_known(job()).await;
    sleep(35 * MINUTE).await;
    let node = fleet.node(0, [job()]);
    sleep(5 * SECOND).await;
    node.stop().await;
    let [ran] = &fleet.ran()[..] else { panic!("the latest one, once: {:?}", fleet.ran()) };
    let latest = Schedule::parse("@every 10m", None).unwrap().latest_at(fleet.now()).unwrap();
    assert_eq!(ran.tick, latest);
    let states = fleet.states("job").await;
    assert_eq!(states.iter().filter(|(_, state)| *state == State::Missed).count(), 2, "{states:?}");
}

#[tokio::test(start_paused = true)]
async fn q14_another_schedule_begins_at_its_next_tick_and_a_renamed_job_too() {
    let fleet = Fleet::new().await;
    let job = |name, when| fleet.job(name, when, SECOND, 0).catch_up(24 * HOUR);
    let node = fleet.node(0, [job("job", "@every 10m")]);
    sleep(25 * MINUTE).await;
    node.stop().await;
    let before = fleet.ran().len();
    let node = fleet.node(0, [job("job", "@every 5m"), job("renamed", "@every 10m")]);
    sleep(5 * SECOND).await;
    node.stop().await;
    let since = fleet.ran().split_off(before);
    let begun = fleet.now() - SignedDuration::from_secs(5);
    assert!(since.iter().all(|ran| ran.tick > begun), "{since:?}");
}

/// A node that sleeps through an hour and wakes up beside others, and one whose clock is set forward and back.
#[tokio::test(start_paused = true)]
async fn clocks_that_jump_run_nothing_twice_and_leave_nothing_out() {
    let fleet = Fleet::new().await;
    let nodes: Vec<_> = (0..3).map(|nth| fleet.node(0, [fleet.job("job", "* * * * *", SECOND, nth)])).collect();
    sleep(HOUR).await;
    nodes[0].wall.set_off(2 * 3600);
    sleep(10 * MINUTE).await;
    nodes[0].wall.set_off(0);
    sleep(10 * MINUTE).await;
    nodes[1].wall.set_off(-3600);
    sleep(10 * MINUTE).await;
    nodes[1].wall.set_off(0);
    sleep(10 * MINUTE).await;
    // Fast ones may be all of them: the store's clock holds them back. Where all are slow, ticks are missed.
    for (off, which) in [(240, 0..3), (0, 0..3), (-240, 0..2), (0, 0..2)] {
        nodes[which].iter().for_each(|node| node.wall.set_off(off));
        sleep(10 * MINUTE).await;
    }
    let from = fleet.ran()[0].tick - SignedDuration::from_secs(1);
    let until = at_start_of_minute(fleet.now());
    for node in nodes {
        node.stop().await;
    }
    fleet.assert_each_once("* * * * *", from, until);
}

#[tokio::test(start_paused = true)]
async fn one_node_alone_whose_clock_was_far_ahead_goes_on_at_the_right_time() {
    let fleet = Fleet::new().await;
    let node = fleet.node(2 * 3600, [fleet.job("job", "* * * * *", SECOND, 0)]);
    sleep(10 * MINUTE).await;
    node.wall.set_off(0);
    sleep(10 * MINUTE).await;
    node.stop().await;
    let late = fleet.ran().iter().map(|ran| ran.tick).max().unwrap();
    assert!(late > fleet.now() - SignedDuration::from_mins(2), "{late} is the last, at {}", fleet.now());
    assert!(fleet.times().values().all(|times| *times == 1));
}

/// A tick that is due while the job still runs is skipped, and never is it there twice.
#[tokio::test(start_paused = true)]
async fn q12_a_long_job_never_runs_twice_at_a_time() {
    let fleet = Fleet::new().await;
    let nodes: Vec<_> = (0..3).map(|nth| fleet.node(0, [fleet.job("job", "@every 10s", 35 * SECOND, nth)])).collect();
    sleep(HOUR).await;
    for node in nodes {
        node.stop().await;
    }
    let ran = fleet.ran();
    assert!(ran.windows(2).all(|pair| pair[0].to.unwrap() <= pair[1].from), "{ran:?}");
    let gaps: Vec<_> = ran.windows(2).map(|pair| (pair[1].from - pair[0].from).as_secs()).collect();
    assert!(gaps.iter().all(|gap| *gap == 40), "at the next boundary: {gaps:?}");
    let states = fleet.states("job").await;
    assert!(
        states.iter().any(|(_, state)| *state == State::Skipped)
            && !states
                .iter()
                .any(|(tick, state)| { *state == State::Skipped && ran.iter().any(|ran| Some(ran.tick) == *tick) })
    );
}

#[tokio::test(start_paused = true)]
async fn one_tick_queues_for_the_end_of_the_last() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 60s", 70 * SECOND, nth).overlap(Overlap::Queue);
    let nodes: Vec<_> = (0..3).map(|nth| fleet.node(0, [job(nth)])).collect();
    sleep(HOUR).await;
    for node in nodes {
        node.stop().await;
    }
    let mut ran = fleet.ran();
    ran.pop_if(|last| last.to.is_none());
    assert!(ran.windows(2).all(|pair| pair[0].to.unwrap() <= pair[1].from), "{ran:?}");
    let idle: Vec<_> = ran.windows(2).map(|pair| pair[1].from - pair[0].to.unwrap()).collect();
    assert!(idle.iter().filter(|idle| **idle < SECOND).count() * 10 > idle.len() * 7, "{idle:?}");
    let locks = fleet.locks();
    let told = Ledger::of(&locks, "job").unwrap().newest(1000).await.unwrap();
    let skipped: Vec<_> = told.into_iter().filter(|record| record.state == State::Skipped).collect();
    let is_said = |record: &Record| record.reason.as_ref().unwrap().contains("a later tick took its place in the line");
    assert!(!skipped.is_empty() && skipped.iter().all(is_said), "{skipped:?}");
}

#[tokio::test(start_paused = true)]
async fn so_many_run_beside_one_another_as_are_allowed() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 10s", 25 * SECOND, nth).overlap(Overlap::Allow(2));
    let nodes: Vec<_> = (0..2).map(|nth| fleet.node(0, [job(nth)])).collect();
    sleep(HOUR).await;
    for node in nodes {
        node.stop().await;
    }
    let ran = fleet.ran();
    let at_a_time = |at: Duration| ran.iter().filter(|ran| ran.from <= at && ran.to.unwrap() > at).count();
    let most = ran.iter().map(|ran| at_a_time(ran.from)).max().unwrap();
    assert_eq!(most, 2);
    assert!(fleet.times().values().all(|times| *times == 1));
}

/// A node that dies in the middle is replaced within the TTL and a look, under a new token; once at most stays at that.
#[tokio::test(start_paused = true)]
async fn q15_a_node_that_dies_is_replaced() {
    for at_least_once in [true, false] {
        let fleet = Fleet::new().await;
        let job = |nth| fleet.job("job", "@every 1h", 10 * MINUTE, nth).at_least_once(at_least_once);
        let mut nodes: Vec<_> = (0..3).map(|nth| Some(fleet.node(0, [job(nth)]))).collect();
        while fleet.ran().is_empty() {
            sleep(MINUTE).await;
        }
        let first = fleet.ran()[0].clone();
        let died = fleet.start.elapsed();
        nodes[first.node].take().unwrap().die();
        sleep(20 * MINUTE).await;
        let ran = fleet.ran();
        if at_least_once {
            let [_, second] = &ran[..] else { panic!("it is begun again, once: {ran:?}") };
            assert_eq!((second.tick, second.attempt), (first.tick, 2));
            assert!(second.to.is_some() && second.from - died < 45 * SECOND, "{:?}", second.from - died);
        } else {
            assert_eq!(ran.len(), 1, "{ran:?}");
        }
        for node in nodes.into_iter().flatten() {
            node.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again_for_so_often_and_then_has_failed() {
    let fleet = Fleet::new().await;
    let ran = Arc::clone(&fleet.ran);
    let start = fleet.start;
    let job = Job::new("job", Schedule::parse("@every 1h", None).unwrap(), move |run| {
        let ran = Arc::clone(&ran);
        let (tick, attempt) = (instant(run.tick()), run.attempt());
        Box::pin(async move {
            ran.lock().unwrap().push(Ran { tick, node: 0, attempt, from: start.elapsed(), to: None });
            Err(format!("attempt {attempt} failed").into())
        })
    });
    let retries = Retries { most: 2, first: 10 * SECOND, longest: MINUTE };
    let node = fleet.node(0, [job.retries(retries).at_least_once(true)]);
    sleep(HOUR + MINUTE).await;
    node.stop().await;
    let ran = fleet.ran();
    assert_eq!(ran.iter().map(|ran| ran.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    let pauses: Vec<_> = ran.windows(2).map(|pair| (pair[1].from - pair[0].from).as_secs()).collect();
    assert_eq!(pauses, [10, 20]);
    let locks = fleet.locks();
    let records = Ledger::of(&locks, "job").unwrap().newest(10).await.unwrap();
    let [record] = &records[..] else { panic!("one tick: {records:?}") };
    assert_eq!((record.state, record.attempts), (State::Failed, 3));
    assert_eq!(record.reason.as_deref(), Some("attempt 3 failed"));
}

/// An attempt counts once it has begun: neither a limit nor a stop in the pause before it makes one more.
#[tokio::test(start_paused = true)]
async fn what_ends_while_it_waits_to_be_tried_again_was_begun_as_often_as_it_was() {
    for (limit, state, reason) in [
        (Some(2 * MINUTE), State::Lost, "its time_limit of 2m was over; it failed before: attempt 2"),
        (None, State::Stopped, "it failed before: attempt 2"),
    ] {
        let fleet = Fleet::new().await;
        let begun = Arc::new(AtomicI64::new(0));
        let counts = Arc::clone(&begun);
        let mut job = Job::new("job", Schedule::parse("@every 1h", None).unwrap(), move |run| {
            counts.fetch_add(1, Ordering::Relaxed);
            let why = format!("attempt {}", run.attempt());
            Box::pin(async move { Err(why.into()) })
        });
        if let Some(limit) = limit {
            job = job.time_limit(limit);
        }
        let retries = Retries { most: 5, first: 50 * SECOND, longest: HOUR };
        let node = fleet.node(0, [job.retries(retries)]);
        // Attempts at 0 and 50 s after the tick; the next would come 100 s later.
        let tick = at_start_of_minute(fleet.now()) + SignedDuration::from_hours(1);
        sleep(Duration::try_from(tick.duration_since(fleet.now())).unwrap() + MINUTE + 5 * SECOND).await;
        if limit.is_some() {
            sleep(2 * MINUTE).await;
        }
        let stopped = Instant::now();
        node.stop().await;
        assert!(stopped.elapsed() < SECOND, "nothing is waited for that is not to begin");
        let record = fleet.record().await;
        assert_eq!((record.state, record.attempts, begun.load(Ordering::Relaxed)), (state, 2, 2));
        assert_eq!(record.reason.as_deref(), Some(reason));
    }
}

/// A mark without a run: as a quorum has it that is new, for all that was due before.
#[tokio::test(start_paused = true)]
async fn a_tick_that_only_the_store_counts_as_run_is_told_as_that() {
    let fleet = Fleet::new().await;
    let job = || fleet.job("job", "@every 1h", SECOND, 0);
    let node = fleet.node(0, [job()]);
    sleep(SECOND).await;
    let tick = job().schedule().next_after(fleet.now()).unwrap();
    let floor = Tick::from_unix_millis(tick.as_millisecond() + 60_000).unwrap();
    fleet.until(tick - SignedDuration::from_secs(10)).await;
    let claimed = fleet.locks().lock("job").tick(floor).try_acquire().await.unwrap();
    drop(claimed.guard().unwrap().complete().await);
    sleep(MINUTE).await;
    node.stop().await;
    let record = fleet.record().await;
    assert_eq!((record.tick, record.state), (Some(tick), State::Skipped));
    assert!(record.reason.as_ref().unwrap().contains("counts ticks up to"), "{record:?}");
}

#[tokio::test(start_paused = true)]
async fn all_missed_ones_are_run_one_after_the_other_the_oldest_first() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 10m", SECOND, nth).catch_up(24 * HOUR).missed(Missed::All { most: 3 });
    fleet.makes_known(job(0)).await;
    sleep(65 * MINUTE).await;
    let nodes: Vec<_> = (0..3).map(|nth| fleet.node(0, [job(nth)])).collect();
    sleep(MINUTE).await;
    for node in nodes {
        node.stop().await;
    }
    let ran = fleet.ran();
    assert!(ran.windows(2).all(|pair| pair[0].tick < pair[1].tick && pair[0].to.unwrap() <= pair[1].from), "{ran:?}");
    assert!((3..=4).contains(&ran.len()), "{ran:?}");
}

/// What runs may end, and what doesn't in time is dropped; nothing new begins.
#[tokio::test(start_paused = true)]
async fn p11_a_scheduler_that_is_stopped_waits_for_its_runs() {
    for (takes, ends) in [(10 * SECOND, true), (MINUTE, false)] {
        let fleet = Fleet::new().await;
        let node = fleet.node(0, [fleet.job("job", "@every 1h", takes, 0)]);
        while fleet.ran().is_empty() {
            sleep(SECOND).await;
        }
        let before = fleet.start.elapsed();
        node.stop().await;
        let took = fleet.start.elapsed() - before;
        assert_eq!(fleet.ran()[0].to.is_some(), ends);
        assert!(took <= 31 * SECOND && (took > 8 * SECOND), "{took:?}");
        let (_, state) = fleet.states("job").await[0];
        assert_eq!(state, if ends { State::Done } else { State::Stopped });
        assert_eq!(fleet.memory.list().await.unwrap(), [], "the lock is free");
    }
}

/// Work that goes on until it is cut, and takes a while to end then.
struct Stubborn {
    fleet: Fleet,
    ends_in: Duration,
    says: fn() -> Ended,
}

impl Work for Stubborn {
    fn run<'a>(&'a self, run: &'a Run) -> Pin<Box<dyn Future<Output = Ended> + Send + 'a>> {
        Box::pin(async {
            let (tick, attempt, from) = (instant(run.tick()), run.attempt(), self.fleet.start.elapsed());
            self.fleet.ran.lock().unwrap().push(Ran { tick, node: 0, attempt, from, to: None });
            run.cut().await;
            sleep(self.ends_in).await;
            self.fleet.ran.lock().unwrap().last_mut().unwrap().to = Some(self.fleet.start.elapsed());
            (self.says)()
        })
    }
}

impl Fleet {
    fn stubborn(&self, ends_in: Duration, says: fn() -> Ended) -> Job {
        let schedule = Schedule::parse("@every 1h", None).unwrap();
        Job::of("job", schedule, Stubborn { fleet: self.clone(), ends_in, says })
    }

    async fn until_begun(&self) {
        while self.ran().is_empty() {
            sleep(SECOND).await;
        }
    }

    /// What is known of the last run.
    async fn record(&self) -> Record {
        let locks = self.locks();
        Ledger::of(&locks, "job").unwrap().newest(1).await.unwrap().remove(0)
    }

    async fn is_held(&self) -> bool {
        !self.memory.list().await.unwrap().is_empty()
    }
}

fn gave_up() -> Ended {
    Ended::from(Err("told to end".into())).output("last words\n".into())
}

/// A process tree needs time to die, and until then its lock is nobody else's.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_cut_keeps_its_lock_until_it_has_ended() {
    let fleet = Fleet::new().await;
    let node = fleet.node(0, [fleet.stubborn(7 * SECOND, gave_up)]);
    fleet.until_begun().await;
    let stopped = fleet.start.elapsed();
    let stopping = tokio::spawn(node.stop());
    sleep(36 * SECOND).await; // the grace of 30 s, and most of its own
    assert!(fleet.is_held().await && fleet.ran()[0].to.is_none());
    stopping.await.unwrap();
    let took = fleet.ran()[0].to.unwrap() - stopped;
    assert!(took >= 37 * SECOND && took < 38 * SECOND, "{took:?}");
    assert!(!fleet.is_held().await);
    let record = fleet.record().await;
    assert_eq!((record.state, record.output.as_str()), (State::Stopped, "last words\n"));
}

#[tokio::test(start_paused = true)]
async fn a_run_over_its_time_limit_is_told_and_what_it_said_last_is_kept() {
    let fleet = Fleet::new().await;
    let retries = Retries { most: 3, first: SECOND, longest: SECOND };
    let job = fleet.stubborn(2 * SECOND, gave_up).time_limit(MINUTE).retries(retries).at_least_once(true);
    let node = fleet.node(0, [job]);
    fleet.until_begun().await;
    sleep(63 * SECOND).await;
    let ran = fleet.ran();
    assert_eq!(ran.len(), 1, "what is cut is not tried again: {ran:?}");
    let took = ran[0].to.unwrap() - ran[0].from;
    assert!(took >= 62 * SECOND && took < 63 * SECOND, "{took:?}");
    let record = fleet.record().await;
    assert_eq!((record.state, record.output.as_str()), (State::Lost, "last words\n"));
    assert_eq!(record.reason.unwrap(), "its time_limit of 1m was over");
    node.stop().await;
}

/// What is done is done, whatever it was told meanwhile.
#[tokio::test(start_paused = true)]
async fn work_that_comes_to_its_end_though_it_was_told_to_end_is_done() {
    let fleet = Fleet::new().await;
    let node = fleet.node(0, [fleet.stubborn(SECOND, || Ended::from(Ok(())))]);
    fleet.until_begun().await;
    node.stop().await;
    assert_eq!(fleet.record().await.state, State::Done);
}

/// Nobody can say that it has ended: then the lock ends by itself, and not before.
#[tokio::test(start_paused = true)]
async fn what_may_be_at_work_still_keeps_its_lock_for_the_ttl() {
    let fleet = Fleet::new().await;
    let lost_sight = || Ended::from(Err("nobody knows".into())).left(Left::Perhaps);
    let job = fleet.stubborn(SECOND, lost_sight).ttl(MINUTE).time_limit(5 * MINUTE).at_least_once(true);
    let node = fleet.node(0, [job]);
    fleet.until_begun().await;
    while fleet.ran()[0].to.is_none() {
        sleep(SECOND / 10).await;
    }
    let mut held_for = Duration::ZERO;
    while fleet.is_held().await {
        assert!(held_for < MINUTE, "it is renewed no more");
        sleep(SECOND).await;
        held_for += SECOND;
    }
    assert!(held_for > 30 * SECOND, "it was given back after {held_for:?}");
    node.stop().await;
}

/// A tick whose work was never begun is the next node's, even where it is run at most once.
#[tokio::test(start_paused = true)]
async fn what_was_never_begun_is_another_nodes_to_run() {
    struct Missing;
    impl Work for Missing {
        fn run<'a>(&'a self, _run: &'a Run) -> Pin<Box<dyn Future<Output = Ended> + Send + 'a>> {
            Box::pin(async { Ended::from(Err("no such program".into())).left(Left::NotBegun) })
        }
    }
    for begun_before in [false, true] {
        let fleet = Fleet::new().await;
        let schedule = Schedule::parse("@every 1h", None).unwrap();
        let broken = if begun_before {
            fleet.stubborn(SECOND, gave_up).time_limit(SECOND)
        } else {
            Job::of("job", schedule, Missing)
        };
        let first = fleet.node(0, [broken]);
        sleep(HOUR).await;
        first.stop().await;
        let record = fleet.record().await;
        assert_eq!(record.state, if begun_before { State::Lost } else { State::Failed });
        let before = fleet.ran().len();
        let second = fleet.node(0, [fleet.job("job", "@every 1h", SECOND, 1)]);
        sleep(MINUTE).await;
        second.stop().await;
        let since = fleet.ran().split_off(before);
        let expected = if begun_before { vec![] } else { vec![record.tick.unwrap()] };
        assert_eq!(since.iter().map(|ran| ran.tick).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_runs_once_and_the_schedule_goes_on() {
    let fleet = Fleet::new().await;
    let nodes: Vec<_> = (0..3).map(|nth| fleet.node(0, [fleet.job("job", "@every 1h", SECOND, nth)])).collect();
    sleep(2 * HOUR + 30 * MINUTE).await;
    let before = fleet.ran().len();
    let locks = fleet.locks();
    let tick = Orders::over(&locks).trigger("job", "ops", "the tape was full").await.unwrap();
    Orders::over(&locks).trigger("another", "ops", "").await.unwrap();
    sleep(5 * SECOND).await;
    assert_eq!(fleet.ran()[before..].iter().map(|ran| ran.tick).collect::<Vec<_>>(), [tick]);
    let record = &Ledger::of(&locks, "job").unwrap().newest(1).await.unwrap()[0];
    assert_eq!((record.state, record.asked.as_deref()), (State::Done, Some("ops: the tape was full")));
    sleep(2 * HOUR).await;
    assert_eq!(fleet.ran().len(), before + 3);
    for node in nodes {
        node.stop().await;
    }
    assert!(fleet.times().values().all(|times| *times == 1));
}

/// No node comes at the very instant: who wants nothing to be made up for wants its ticks to be run.
#[tokio::test(start_paused = true)]
async fn a_catch_up_of_nothing_runs_what_is_due_and_what_is_asked_for() {
    let fleet = Fleet::new().await;
    let node = fleet.node(0, [fleet.job("job", "@every 1m", SECOND, 0).catch_up(Duration::ZERO)]);
    sleep(10 * MINUTE + 10 * SECOND).await;
    let locks = fleet.locks();
    let tick = Orders::over(&locks).trigger("job", "ops", "").await.unwrap();
    sleep(5 * SECOND).await;
    node.stop().await;
    assert!(fleet.ran().len() >= 10 && fleet.times().get(&tick) == Some(&1), "{:?}", fleet.ran());
}

/// Of a job that runs so often the next tick is claimed before anybody hears that it was asked for: that is told, too.
#[tokio::test(start_paused = true)]
async fn what_is_asked_for_is_run_or_recorded_as_overtaken() {
    let fleet = Fleet::new().await;
    // So that nobody hears of anything while the job runs.
    sleep(SECOND / 3).await;
    let nodes: Vec<_> = (0..3).map(|nth| fleet.node(0, [fleet.job("job", "@every 1s", SECOND / 100, nth)])).collect();
    sleep(MINUTE).await;
    let locks = fleet.locks();
    let ledger = Ledger::of(&locks, "job").unwrap();
    for _ in 0..20 {
        sleep(Duration::from_millis(700)).await;
        let tick = Orders::over(&locks).trigger("job", "ops", "").await.unwrap();
        sleep(5 * SECOND).await;
        let record = ledger.of_tick(tick).await.unwrap().expect("it is told what became of it");
        let times = fleet.times().get(&tick).copied().unwrap_or_default();
        let wanted = if times == 0 { State::Skipped } else { State::Done };
        assert_eq!((record.state, record.asked.as_deref()), (wanted, Some("ops")));
        assert!(times == 1 || record.reason.as_ref().is_some_and(|why| why.contains("a later tick")), "{record:?}");
    }
    for node in nodes {
        node.stop().await;
    }
    assert!(fleet.times().values().all(|times| *times == 1));
}

#[tokio::test(start_paused = true)]
async fn a_paused_job_does_not_run_and_is_not_made_up_for() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 10m", SECOND, nth).catch_up(24 * HOUR);
    let nodes: Vec<_> = (0..2).map(|nth| fleet.node(0, [job(nth)])).collect();
    let locks = fleet.locks();
    let orders = Orders::over(&locks);
    assert!(!orders.resume("job", "ops").await.unwrap(), "it is not paused");
    orders.pause("job", "ops", "").await.unwrap();
    sleep(HOUR).await;
    assert_eq!(fleet.ran(), []);
    let mut states = fleet.states("job").await;
    assert_eq!(states.pop(), Some((None, State::Paused)));
    assert!(states.len() >= 5 && states.iter().all(|(_, state)| *state == State::Skipped), "{states:?}");
    assert!(orders.resume("job", "ops").await.unwrap());
    // One that begins now knows of the pause.
    let late = fleet.node(0, [job(2)]);
    sleep(5 * SECOND).await;
    assert_eq!(fleet.ran(), []);
    sleep(20 * MINUTE).await;
    assert!(fleet.ran().len() == 2 && fleet.times().len() == 2);
    for node in nodes.into_iter().chain([late]) {
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_has_an_end_ends_by_itself() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 10m", SECOND, nth).catch_up(24 * HOUR);
    let nodes: Vec<_> = (0..2).map(|nth| fleet.node(0, [job(nth)])).collect();
    let locks = fleet.locks();
    let orders = Orders::over(&locks);
    let until = fleet.now() + SignedDuration::from_hours(2);
    let first = orders.pause_until("job", "ops", "", fleet.now() + SignedDuration::from_mins(5)).await.unwrap();
    let longer = orders.pause_until("job", "ops", "the disk is changed", until).await.unwrap();
    assert_eq!((longer.since, longer.until), (first.since, Some(until)), "it goes on");
    for wrong in [fleet.now(), fleet.now() + SignedDuration::from_hours(401 * 24)] {
        let refused = orders.pause_until("job", "ops", "", wrong).await.unwrap_err().to_string();
        assert!(refused.contains(&wrong.to_string()), "{refused}");
    }
    sleep(3 * HOUR).await;
    let ran = fleet.ran();
    assert!(ran.len() >= 5 && ran.iter().all(|ran| ran.tick >= until), "{ran:?}");
    assert!(!orders.resume("job", "ops").await.unwrap(), "it is over");
    for node in nodes {
        node.stop().await;
    }
}

/// What operators did stands in the ledger, and one of a tick is found without reading all.
#[tokio::test(start_paused = true)]
async fn the_ledger_tells_who_did_what_and_what_became_of_a_tick() {
    let fleet = Fleet::new().await;
    let node =
        fleet.node(0, [fleet.job("job", "@every 10s", 35 * SECOND, 0), fleet.job("other", "@every 1m", SECOND, 0)]);
    sleep(10 * MINUTE).await;
    let locks = fleet.locks();
    let (orders, ledger) = (Orders::over(&locks), Ledger::of(&locks, "job").unwrap());
    orders.pause("job", "ops@desk", "no disk").await.unwrap();
    sleep(SECOND).await;
    orders.resume("job", "eve@desk").await.unwrap();
    orders.were_reset("job", "ops@desk", "a clock was ahead").await.unwrap();
    let acts: Vec<_> = ledger.newest(1000).await.unwrap().into_iter().filter(|record| record.tick.is_none()).collect();
    let told: Vec<_> = acts.iter().map(|act| (act.state, act.node.as_str(), act.reason.as_deref())).collect();
    let reset = (State::Reset, "ops@desk", Some("a clock was ahead"));
    assert_eq!(told, [reset, (State::Resumed, "eve@desk", None), (State::Paused, "ops@desk", Some("no disk"))]);

    // Each tick of the one was run or skipped, those of the other are among them.
    for ran in &fleet.ran() {
        assert!(ledger.of_tick(ran.tick).await.unwrap().is_some(), "{}", ran.tick);
    }
    assert_eq!(ledger.of_tick(fleet.now()).await.unwrap(), None);
    let skipped: Vec<_> = fleet.states("job").await.into_iter().filter(|(_, state)| *state == State::Skipped).collect();
    let (oldest, _) = *skipped.last().unwrap();
    assert_eq!(ledger.of_tick(oldest.unwrap()).await.unwrap().unwrap().state, State::Skipped);

    let names: Vec<_> = orders.jobs().await.unwrap().into_iter().map(|known| (known.name, known.when)).collect();
    assert_eq!(names, [("job".into(), "@every 10s UTC".into()), ("other".into(), "@every 1m UTC".to_owned())]);
    let all = History::newest(1000).of(&locks, ["job", "other"]).await.unwrap();
    assert!(all.is_sorted_by(|one, other| one.written >= other.written));
    let of_job = ledger.newest(1000).await.unwrap().len();
    assert_eq!(all.iter().filter(|entry| entry.job == "job").count(), of_job);
    assert_eq!(History::newest(7).of(&locks, ["job", "other"]).await.unwrap(), all[..7]);
    let failed = History { states: vec![State::Paused, State::Done], most: 5, ..History::newest(5) };
    let some: Vec<_> =
        all.iter().filter(|entry| failed.states.contains(&entry.record.state)).take(5).cloned().collect();
    assert_eq!(failed.of(&locks, ["other", "job"]).await.unwrap(), some);
    let late = History { since: all[3].written, ..History::newest(1000) };
    assert!(late.of(&locks, ["job", "other"]).await.unwrap().iter().all(|entry| entry.written >= all[3].written));
    node.stop().await;
}

/// Of forty jobs, where only some have to be read as far back as others.
#[tokio::test(start_paused = true)]
async fn the_newest_of_many_jobs_are_the_newest_of_all() {
    let fleet = Fleet::new().await;
    let names: Vec<_> = (0..40).map(|nth| format!("job-{nth}")).collect();
    let jobs = names.iter().enumerate().map(|(nth, name)| fleet.job(name, &format!("@every {}s", 7 + nth), SECOND, 0));
    let node = fleet.node(0, jobs);
    sleep(10 * MINUTE).await;
    node.stop().await;
    let locks = fleet.locks();
    let names = || names.iter().map(String::as_str);
    let all = History::newest(u32::MAX).of(&locks, names()).await.unwrap();
    assert!(all.len() > 700, "{}", all.len());
    assert_eq!(History::newest(50).of(&locks, names()).await.unwrap(), all[..50]);
}

/// Also when it dies long after anything is made up for.
#[tokio::test(start_paused = true)]
async fn a_node_that_dies_after_hours_is_replaced_too() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 12h", 3 * HOUR, nth).at_least_once(true);
    let mut nodes: Vec<_> = (0..2).map(|nth| Some(fleet.node(0, [job(nth)]))).collect();
    while fleet.ran().is_empty() {
        sleep(MINUTE).await;
    }
    let first = fleet.ran()[0].clone();
    sleep(2 * HOUR).await;
    nodes[first.node].take().unwrap().die();
    sleep(4 * HOUR).await;
    let ran = fleet.ran();
    let [_, second] = &ran[..] else { panic!("it is begun again, once: {ran:?}") };
    assert!(second.tick == first.tick && second.attempt == 2 && second.to.is_some(), "{second:?}");
    assert!(!fleet.states("job").await.iter().any(|(_, state)| *state == State::Missed));
    for node in nodes.into_iter().flatten() {
        node.stop().await;
    }
}

/// The instants of a schedule after `from` up to `until`.
fn due(when: &str, from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    Schedule::parse(when, None).unwrap().ticks_after(from).take_while(|tick| *tick <= until).collect()
}

/// A schedule that stays goes on where it stood, whatever else is changed; one that is new or another begins at its next tick.
#[tokio::test(start_paused = true)]
async fn jobs_change_while_it_runs() {
    let fleet = Fleet::new().await;
    let job = |name: &str, when: &str, nth| fleet.job(name, when, SECOND, nth).catch_up(24 * HOUR);
    let before =
        |nth| [job("stays", "@every 20m", nth), job("moves", "@every 10m", nth), job("goes", "@every 10m", nth)];
    let after =
        |nth| [job("stays", "@every 20m", nth + 10), job("moves", "@every 7m", nth), job("comes", "@every 9m", nth)];
    let nodes: Vec<_> = (0..3).map(|nth| fleet.node(0, before(nth))).collect();
    sleep(2 * HOUR).await;
    let changed = fleet.now();
    for (nth, node) in nodes.iter().enumerate() {
        node.roster.replace(after(nth)).unwrap();
        sleep(2 * SECOND).await;
    }
    sleep(2 * HOUR).await;
    let until = fleet.now();
    for node in nodes {
        node.stop().await;
    }
    let mut wanted = due("@every 20m", fleet.zero, until);
    for (when, from, until) in [
        ("@every 10m", fleet.zero, changed),
        ("@every 10m", fleet.zero, changed),
        ("@every 7m", changed, until),
        ("@every 9m", changed, until),
    ] {
        wanted.extend(due(when, from, until));
    }
    let mut ran: Vec<_> = fleet.ran().iter().map(|ran| ran.tick).collect();
    wanted.sort();
    ran.sort();
    assert_eq!(ran, wanted);
    let has_new_work = |ran: &Ran| ran.node >= 10;
    assert!(fleet.ran().iter().filter(|ran| has_new_work(ran)).all(|ran| ran.tick > changed));
    assert_eq!(fleet.ran().iter().filter(|ran| has_new_work(ran)).count(), due("@every 20m", changed, until).len());
}

/// A node that starts later finds what others were told while they ran.
#[tokio::test(start_paused = true)]
async fn what_is_new_while_it_runs_is_known_to_who_starts_later() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("comes", "@every 1h", SECOND, nth).catch_up(24 * HOUR);
    let node = fleet.node(0, []);
    sleep(MINUTE).await;
    node.roster.replace([job(0)]).unwrap();
    sleep(MINUTE).await;
    node.die();
    sleep(3 * HOUR).await;
    let late = fleet.node(0, [job(1)]);
    sleep(5 * SECOND).await;
    assert_eq!(fleet.ran().len(), 1, "the latest that was missed: {:?}", fleet.ran());
    late.stop().await;
}

/// Reloading again and again, also in the middle of a tick, neither loses nor repeats any.
#[tokio::test(start_paused = true)]
async fn a_list_that_is_the_same_changes_nothing() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 10s", SECOND, nth).jitter(7 * SECOND);
    let nodes: Vec<_> = (0..2).map(|nth| fleet.node(0, [job(nth)])).collect();
    for round in 0..500_u64 {
        nodes[usize::try_from(round % 2).unwrap()].roster.replace([job(0)]).unwrap();
        sleep(Duration::from_millis(round * 37 % 5000)).await;
    }
    // The last may be due and still waiting for its jitter.
    let until = fleet.now() - SignedDuration::from_secs(10);
    sleep(10 * SECOND).await;
    for node in nodes {
        node.stop().await;
    }
    let times = fleet.times();
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    let ran: Vec<_> = times.into_keys().filter(|tick| *tick <= until).collect();
    assert_eq!(ran, due("@every 10s", fleet.zero, until));
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_though_its_job_is_taken_away() {
    let fleet = Fleet::new().await;
    let node = fleet.node(0, [fleet.job("job", "@every 1h", 30 * MINUTE, 0)]);
    while fleet.ran().is_empty() {
        sleep(SECOND).await;
    }
    node.roster.replace([]).unwrap();
    sleep(3 * HOUR).await;
    let ran = fleet.ran();
    assert!(ran.len() == 1 && ran[0].to.is_some(), "{ran:?}");
    assert_eq!(fleet.states("job").await.iter().map(|(_, state)| *state).collect::<Vec<_>>(), [State::Done]);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_wrong_changes_nothing() {
    let fleet = Fleet::new().await;
    let job = || fleet.job("job", "@every 10m", SECOND, 0);
    let node = fleet.node(0, [job()]);
    sleep(MINUTE).await;
    let twice = node.roster.replace([job(), fleet.job("other", "@every 1m", SECOND, 0), job()]).unwrap_err();
    assert!(twice.to_string().contains("two jobs are called \"job\""), "{twice}");
    let short = node.roster.replace([job().ttl(Duration::from_millis(1))]).unwrap_err();
    assert!(short.to_string().contains("TTL"), "{short}");
    sleep(HOUR).await;
    let until = fleet.now();
    node.stop().await;
    fleet.assert_each_once("@every 10m", fleet.zero, until);
}

#[tokio::test(start_paused = true)]
async fn p11_who_is_in_a_hurry_cuts_the_grace_short() {
    let fleet = Fleet::new().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let (hurry, hurried) = oneshot::channel::<()>();
    let wall = Arc::new(Wall { zero: fleet.zero, start: fleet.start, off_millis: AtomicI64::new(0) });
    let scheduler = Scheduler::over(fleet.locks()).clock(wall).grace(2 * HOUR);
    let scheduler = scheduler.job(fleet.job("job", "@every 1h", HOUR, 0)).unwrap();
    let running = tokio::spawn(scheduler.run_until(async { drop(stopped.await) }, async { drop(hurried.await) }));
    while fleet.ran().is_empty() {
        sleep(SECOND).await;
    }
    drop(stop);
    sleep(MINUTE).await;
    assert!(!running.is_finished(), "it waits for the run");
    drop(hurry);
    let before = Instant::now();
    running.await.unwrap();
    assert!(before.elapsed() < 5 * SECOND && fleet.ran()[0].to.is_none());
    assert_eq!(fleet.states("job").await[0].1, State::Stopped);
    assert_eq!(fleet.memory.list().await.unwrap(), [], "the lock is free");
}

/// Q14: neither a reload nor a start makes up for what was due while a job was in nobody's list.
#[tokio::test(start_paused = true)]
async fn q14_a_job_that_was_taken_out_and_put_back_begins_at_its_next_tick() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 10m", SECOND, nth).catch_up(24 * HOUR);
    let other = |nth| fleet.job("other", "@every 12h", SECOND, nth);
    let nodes: Vec<_> = (0..2).map(|nth| fleet.node(0, [job(nth), other(nth)])).collect();
    sleep(15 * MINUTE).await;
    for (nth, node) in nodes.iter().enumerate() {
        node.roster.replace([other(nth)]).unwrap();
        sleep(2 * SECOND).await;
    }
    let taken_out = fleet.now();
    sleep(35 * MINUTE).await;
    for (nth, node) in nodes.iter().enumerate() {
        node.roster.replace([job(nth), other(nth)]).unwrap();
        sleep(2 * SECOND).await;
    }
    let put_back = fleet.now();
    for node in nodes {
        node.stop().await;
    }
    let late = fleet.node(0, [job(9), other(9)]);
    sleep(20 * MINUTE).await;
    late.stop().await;
    let ran: Vec<_> = fleet.times().into_keys().collect();
    let mut wanted = due("@every 10m", fleet.zero, taken_out);
    wanted.extend(due("@every 10m", put_back, fleet.now()));
    assert_eq!(ran, wanted);
}

/// One node has it no more, the other goes on with it: what is due once that one has died is missed.
#[tokio::test(start_paused = true)]
async fn a_job_that_only_one_node_took_out_is_made_up_for() {
    let fleet = Fleet::new().await;
    let job = |nth| fleet.job("job", "@every 10m", SECOND, nth);
    let nodes: Vec<_> = (0..2).map(|nth| fleet.node(0, [job(nth)])).collect();
    sleep(15 * MINUTE).await;
    nodes[0].roster.replace([]).unwrap();
    sleep(30 * MINUTE).await;
    for node in nodes {
        node.stop().await;
    }
    sleep(15 * MINUTE).await;
    let (before, missed) = (fleet.ran().len(), job(9).schedule().latest_at(fleet.now()).unwrap());
    let late = fleet.node(0, [job(9)]);
    sleep(5 * SECOND).await;
    late.stop().await;
    assert_eq!(fleet.ran()[before..].iter().map(|ran| ran.tick).collect::<Vec<_>>(), [missed]);
}

/// It is due, and dropped by the reload: nobody else says what became of it.
#[tokio::test(start_paused = true)]
async fn a_tick_that_waits_when_its_schedule_changes_is_recorded() {
    for goes in [false, true] {
        let fleet = Fleet::new().await;
        let job = |when| fleet.job("job", when, 15 * MINUTE, 0).overlap(Overlap::Queue);
        let node = fleet.node(0, [job("@every 10m")]);
        let begun = fleet.first_begun().await;
        fleet.until(begun.tick + SignedDuration::from_mins(12)).await;
        let list = if goes { vec![] } else { vec![job("@every 6h")] };
        node.roster.replace(list).unwrap();
        sleep(HOUR / 2).await;
        node.stop().await;
        let locks = fleet.locks();
        let waited = begun.tick + SignedDuration::from_mins(10);
        let record = Ledger::of(&locks, "job").unwrap().of_tick(waited).await.unwrap().expect("it is recorded");
        let why = record.reason.unwrap();
        assert!(record.state == State::Skipped && why.contains("was given another schedule"), "{why}");
        assert_eq!(fleet.told("job").await.len(), 2, "and no other");
    }
}

/// What others run though it is dropped here is told as that it ran.
#[tokio::test(start_paused = true)]
async fn a_tick_that_another_node_runs_is_not_told_as_dropped() {
    let fleet = Fleet::new().await;
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let job = |nth| fleet.job("job", "@every 10m", SECOND, nth);
    let (locks, faults, _) = fleet.faulty_locks();
    let wall = Arc::new(Wall { zero: fleet.zero, start: fleet.start, off_millis: AtomicI64::new(0) });
    let hears = Arc::clone(&told);
    let scheduler = Scheduler::over(locks).clock(wall).observer(move |event: &Event<'_>| {
        if let Event::NotRun { why, .. } = event {
            hears.lock().unwrap().push(why.to_string());
        }
    });
    let scheduler = scheduler.job(job(0)).unwrap();
    let roster = scheduler.roster();
    let running = tokio::spawn(scheduler.run(sleep(HOUR)));
    let other = fleet.node(-1, [job(1)]);
    sleep(SECOND).await;
    faults.always(
        leasehold_testkit::Operation::TryAcquire,
        leasehold_testkit::Fault::Fail(leasehold::ErrorKind::Unavailable),
    );
    let ran = fleet.first_begun().await;
    roster.replace([]).unwrap();
    sleep(MINUTE).await;
    assert_eq!((ran.node, fleet.told("job").await.get(&ran.tick)), (1, Some(&State::Done)));
    assert_eq!(*told.lock().unwrap(), [""; 0]);
    other.stop().await;
    running.await.unwrap();
}
