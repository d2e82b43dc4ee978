//! Runs jobs at their ticks, beside other nodes that do the same.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use leasehold::{Error, Locks};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::board::{self, instant};
use crate::clock::{SystemClock, WallClock};
use crate::cron::hashed;
use crate::event::{Event, NotRun, Observer};
use crate::job::Job;
use crate::ledger;
use crate::node::{Ending, Node};
use crate::orders::{Asked, Orders, Pause, Standing};
use crate::plan::{Plan, plan};
use crate::turn::{Took, Turn};

/// A clock that is set is noticed within this.
const LOOK: Duration = Duration::from_secs(5);

/// How often operators are listened to.
const LISTEN: Duration = Duration::from_secs(2);

/// Further than this no clock gets on by itself, beside another.
const JUMP: SignedDuration = SignedDuration::from_secs(5);

/// So far a node's clock may be ahead of the store's.
const TOLERATED: SignedDuration = SignedDuration::from_secs(60);

/// How long a store that can't be asked at the start is left alone, twice as long each time.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Jobs, and where they are coordinated. One runs on every node; who runs a tick is decided in the store, for each tick anew.
///
/// ```no_run
/// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use leasehold::Locks;
/// use leasehold_schedule::{Job, Schedule, Scheduler};
///
/// let nightly = Schedule::parse("30 2 * * *", Some("Europe/Berlin"))?;
/// let backup = Job::new("backup", nightly, |run| {
///     Box::pin(async move {
///         println!("token {}", run.token());
///         Ok(())
///     })
/// });
/// let locks = Locks::connect("sqlite:///var/lib/jobs.db").await?;
/// Scheduler::over(locks).job(backup)?.run(std::future::pending()).await;
/// # Ok(()) }
/// ```
pub struct Scheduler {
    locks: Locks,
    clock: Arc<dyn WallClock>,
    observer: Option<Arc<dyn Observer>>,
    grace: Duration,
    jobs: Vec<Job>,
}

/// What a node knows of one of its jobs.
struct Entry {
    job: Arc<Job>,
    /// Ticks up to here have had their turn on this node.
    cursor: Timestamp,
}

/// When a job is looked at again; which one.
type Due = Reverse<(Timestamp, usize)>;

impl Scheduler {
    /// A scheduler without jobs.
    pub fn over(locks: Locks) -> Self {
        let (clock, observer) = (Arc::new(SystemClock), None);
        Self { locks, clock, observer, grace: Duration::from_secs(30), jobs: Vec::new() }
    }

    /// With this job, too.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](leasehold::ErrorKind::Invalid): its name or its terms are not right, or another job has its name.
    pub fn job(mut self, job: Job) -> leasehold::Result<Self> {
        let job = job.checked(&self.locks)?;
        if self.jobs.iter().any(|other| other.name == job.name) {
            return Err(Error::invalid(format!("two jobs are called {:?}: each needs a name of its own", job.name)));
        }
        self.jobs.push(job);
        Ok(self)
    }

    /// Who is told of what happens. Default: nobody.
    #[must_use]
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// How long runs may take to end once it is to stop; then they are dropped. Default: 30 s.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Another clock than the machine's, for tests.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn WallClock>) -> Self {
        self.clock = clock;
        self
    }

    /// Runs until `stop` resolves; then begins nothing new, waits for what runs for as long as [`grace`](Self::grace) says, and
    /// drops the rest. A store that is away is waited for, from the start on.
    ///
    /// # Cancel safety
    /// Dropped, it drops all runs where they stand, and releases their locks in the background.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { locks, clock, observer, grace, jobs } = self;
        let (ending, told) = watch::channel(Ending::No);
        let node = Arc::new(Node { locks, clock, observer, ending: told });
        let mut turns = JoinSet::new();
        tokio::select! {
            () = stop => (),
            () = take_turns(&node, jobs, &mut turns) => (),
        }
        ending.send_replace(Ending::Soon);
        let all = async { while turns.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, all).await.is_err() {
            ending.send_replace(Ending::Now);
            while turns.join_next().await.is_some() {}
        }
        node.locks.shutdown().await;
    }
}

/// Gives each job its turn when it is due, for ever.
async fn take_turns(node: &Arc<Node>, jobs: Vec<Job>, turns: &mut JoinSet<()>) {
    let since = known_since(node, &jobs).await;
    let entry = |(job, cursor)| Entry { job: Arc::new(job), cursor };
    let mut entries: Vec<_> = jobs.into_iter().zip(since).map(entry).collect();
    let (orders, mut heard) = mpsc::channel(1);
    let mut listening = JoinSet::new();
    listening.spawn(listen(Arc::clone(node), orders));
    let mut standing = heard.recv().await.unwrap_or_default();
    let mut begun: HashSet<Asked> = HashSet::new();
    let mut due = all_due(&entries);
    let mut pace = Pace::of(node);
    loop {
        let before = pace.shown;
        let now = pace.now(node).await;
        if now < before {
            // The clock was set back: what had its turn too early gets another, and none runs twice.
            entries.iter_mut().for_each(|entry| entry.go_back_to(now));
            due = all_due(&entries);
        }
        while let Some(Reverse((_, nth))) = due.peek().filter(|Reverse((at, _))| *at <= now).copied() {
            due.pop();
            if let Some(plan) = entries[nth].plan(now) {
                let pause = standing.pauses.get(&entries[nth].job.name).cloned();
                turns.spawn(all_of(Arc::clone(node), Arc::clone(&entries[nth].job), plan, pause));
            }
            due.extend(entries[nth].next().map(|at| Reverse((at, nth))));
        }
        begun.retain(|asked| standing.asked.contains(asked));
        for asked in &standing.asked {
            let Some(entry) = entries.iter().find(|entry| entry.job.name == asked.job) else { continue };
            if entry.is_in_time(asked, now) && begun.insert(asked.clone()) {
                turns.spawn(as_asked(Arc::clone(node), Arc::clone(&entry.job), asked.clone()));
            }
        }
        while turns.try_join_next().is_some() {}
        let next = due.peek().map(|Reverse((at, _))| at.duration_since(now));
        let sleep = next.map_or(LOOK, |span| Duration::try_from(span).unwrap_or_default().min(LOOK));
        tokio::select! {
            () = tokio::time::sleep(sleep) => (),
            Some(news) = heard.recv() => standing = news,
        }
    }
}

fn all_due(entries: &[Entry]) -> BinaryHeap<Due> {
    entries.iter().enumerate().filter_map(|(nth, entry)| Some(Reverse((entry.next()?, nth)))).collect()
}

/// What this node takes for the time: its own clock's, but where that jumps far ahead of the store's, the store's. A tick that is
/// not due yet would be claimed else, and with it those between would be over.
struct Pace {
    /// What it took for the time last.
    shown: Timestamp,
    /// When that was.
    at: Instant,
    /// Nothing vouches for the clock yet.
    is_unsure: bool,
}

impl Pace {
    fn of(node: &Node) -> Self {
        Self { shown: node.now(), at: Instant::now(), is_unsure: true }
    }

    async fn now(&mut self, node: &Node) -> Timestamp {
        let (own, gone) = (node.now(), SignedDuration::try_from(self.at.elapsed()).unwrap_or(SignedDuration::MAX));
        let mut now = own;
        if self.is_unsure || own.duration_since(self.shown) > gone.saturating_add(JUMP) {
            // A store that is away can't be asked for ticks, either.
            self.is_unsure = false;
            if let Ok(store) = node.locks.time().await.map(instant) {
                now = if own.duration_since(store) > TOLERATED { store } else { node.now() };
            }
        }
        (self.shown, self.at) = (now, Instant::now());
        now
    }
}

/// Asked until it is told: without it nobody knows what was missed.
async fn known_since(node: &Node, jobs: &[Job]) -> Vec<Timestamp> {
    let mut pause = SHORTEST_PAUSE;
    loop {
        match board::known_since(&node.locks, jobs).await {
            Ok(since) => return since,
            // It never will: then every job begins at its next tick.
            Err(error) if node.locks.notes().is_err() => {
                node.tell(&Event::LedgerFailed { error: &error });
                return vec![node.now(); jobs.len()];
            }
            Err(error) => node.tell(&Event::StoreIsAway { job: "", error: &error }),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Tells what operators ask for, each time that it changes; first what there is.
async fn listen(node: Arc<Node>, tell: mpsc::Sender<Standing>) {
    let mut told = None;
    while node.locks.notes().is_ok() {
        match Orders::over(&node.locks).standing().await {
            Ok(standing) if told.as_ref() != Some(&standing) => {
                told = Some(standing.clone());
                if tell.send(standing).await.is_err() {
                    return;
                }
            }
            Ok(_) => (),
            Err(error) => node.tell(&Event::LedgerFailed { error: &error }),
        }
        tokio::time::sleep(LISTEN).await;
    }
}

/// The ticks of one look, one after the other.
async fn all_of(node: Arc<Node>, job: Arc<Job>, Plan { claim, missed }: Plan, pause: Option<Pause>) {
    let turn = Turn { node: &node, job: &job, asked: None };
    let is_paused = |at: &Timestamp| pause.as_ref().filter(|pause| pause.covers(*at));
    let (mut is_alone, is_all_missed) = (false, claim.is_empty());
    for at in claim {
        let Some(tick) = ledger::tick(at) else { continue };
        match is_paused(&at) {
            Some(pause) => drop(turn.is_not_run(tick, NotRun::Paused(pause.told())).await),
            None => is_alone |= turn.take(tick).await == Took::Ran,
        }
    }
    // Only who ran the next one says what is missing before it: one node, once.
    if is_alone || is_all_missed {
        turn.are_missed(&missed.into_iter().filter(|at| is_paused(at).is_none()).collect::<Vec<_>>()).await;
    }
}

/// What was asked for is a tick of the job like the others.
async fn as_asked(node: Arc<Node>, job: Arc<Job>, asked: Asked) {
    if let Some(tick) = asked.tick() {
        Turn { node: &node, job: &job, asked: Some(asked.told()) }.take(tick).await;
    }
}

impl Entry {
    /// What is to be done about the ticks that are due by now, if anything; they have had their turn then.
    fn plan(&mut self, now: Timestamp) -> Option<Plan> {
        let Job { schedule, terms, .. } = &*self.job;
        let until = self.without_jitter(now);
        let plan = plan(schedule, terms.missed, self.cursor, until, terms.catch_up);
        self.cursor = until;
        (plan != Plan::default()).then_some(plan)
    }

    /// Whether something that was asked for is to be run still.
    fn is_in_time(&self, asked: &Asked, now: Timestamp) -> bool {
        Duration::try_from(now.duration_since(asked.tick)).unwrap_or_default() <= self.job.terms.catch_up
    }

    fn go_back_to(&mut self, now: Timestamp) {
        self.cursor = self.cursor.min(self.without_jitter(now));
    }

    /// When it is due next.
    fn next(&self) -> Option<Timestamp> {
        self.job.schedule.next_after(self.cursor)?.checked_add(self.jitter()).ok()
    }

    fn without_jitter(&self, now: Timestamp) -> Timestamp {
        now.checked_sub(self.jitter()).unwrap_or(now)
    }

    fn jitter(&self) -> SignedDuration {
        SignedDuration::try_from(hashed::jitter(&self.job.name, self.job.terms.jitter)).unwrap_or_default()
    }
}
