//! Runs jobs at their ticks, beside other nodes that do the same.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use leasehold::Locks;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::attendant::Attendant;
use crate::board;
use crate::clock::{SystemClock, WallClock};
use crate::cron::hashed;
use crate::ending::Ending;
use crate::event::{Event, Observer};
use crate::job::Job;
use crate::late::Late;
use crate::ledger;
use crate::node::{ASKING, LONGEST_PAUSE, Node, SHORTEST_PAUSE};
use crate::orders::Hearing;
use crate::pace::Pace;
use crate::roster::Roster;
use crate::scribe::Scribe;

/// How often operators are listened to.
const LISTEN: Duration = Duration::from_secs(2);

/// How long the ledger may take to hear how runs have ended that were cut.
const LAST_WORDS: Duration = Duration::from_secs(5);

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
    roster: Roster,
}

impl Scheduler {
    /// A scheduler without jobs.
    pub fn over(locks: Locks) -> Self {
        let (clock, observer) = (Arc::new(SystemClock), None);
        let roster = Roster::over(locks.clone());
        Self { locks, clock, observer, grace: Duration::from_secs(30), roster }
    }

    /// With this job, too.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](leasehold::ErrorKind::Invalid): its name or its terms are not right, or another job has its name.
    pub fn job(self, job: Job) -> leasehold::Result<Self> {
        self.roster.add(job)?;
        Ok(self)
    }

    /// What changes its jobs, also while it runs.
    #[must_use]
    pub fn roster(&self) -> Roster {
        self.roster.clone()
    }

    /// Who is told of what happens. Default: nobody.
    #[must_use]
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// How long runs may take to end once it is to stop; then they are [cut](crate::Run::cut). Default: 30 s.
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
    /// [cuts](crate::Run::cut) the rest and waits for its end. A store that is away is waited for, from the start on. At the end
    /// the client is [shut down](Locks::shutdown).
    ///
    /// # Cancel safety
    /// Dropped, it drops all runs where they stand, and releases their locks in the background.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        self.run_until(stop, std::future::pending()).await;
    }

    /// As [`run`](Self::run), but once it is to stop its grace is over when `hurry` resolves, if that is sooner.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_until(self, stop: impl Future<Output = ()>, hurry: impl Future<Output = ()>) {
        let Self { locks, clock, observer, grace, roster } = self;
        let (ending, told) = watch::channel(Ending::No);
        let (pace, orders) = (Pace::of(clock), watch::Sender::default());
        let (scribe, late, asking) = (Scribe::default(), Late::default(), Semaphore::new(ASKING));
        let (records, names) = (AtomicU32::new(ledger::MOST), Mutex::default());
        let node = Arc::new(Node { locks, pace, observer, ending: told, orders, scribe, late, records, names, asking });
        let mut attendants = JoinSet::new();
        tokio::select! {
            () = stop => (),
            () = attend_to(&node, roster.changes(), &mut attendants) => (),
        }
        ending.send_replace(Ending::Soon);
        let ended = async {
            tokio::select! {
                biased;
                () = async { while attendants.join_next().await.is_some() {} } => (),
                () = node.late.keep_writing(&node) => (),
            }
            node.late.until_written(&node).await;
        };
        let is_in_time = tokio::select! {
            biased;
            () = ended => true,
            () = tokio::time::sleep(grace) => false,
            () = hurry => false,
        };
        if !is_in_time {
            ending.send_replace(Ending::Now);
            while attendants.join_next().await.is_some() {}
            let _ = tokio::time::timeout(LAST_WORDS, node.late.until_written(&node)).await;
        }
        node.locks.shutdown().await;
    }
}

/// Has each job of the roster attended to, for ever.
async fn attend_to(node: &Arc<Node>, mut roster: watch::Receiver<Vec<Job>>, attendants: &mut JoinSet<()>) {
    let mut listed = Listed::new();
    let mut jobs = first_jobs(node, &mut roster).await;
    node.has_jobs(jobs.iter().map(|(job, _)| job));
    // Each node has an order of its own for what is due at the same time: so one is the first here, another there.
    jobs.sort_by_cached_key(|(job, _)| hashed::order(node.locks.label(), &job.name));
    for (job, cursor) in jobs {
        listed.insert(job.name.clone(), attend(node, job, cursor, attendants));
    }
    let keep_up = async {
        let (mut telling, mut gone) = (JoinSet::new(), BTreeSet::new());
        loop {
            tokio::select! {
                biased;
                Some(_) = attendants.join_next() => (),
                // Told once: by then others may have them again.
                Some(_) = telling.join_next() => gone.clear(),
                Ok(()) = roster.changed() => {
                    let jobs = roster.borrow_and_update().clone();
                    node.has_jobs(jobs.iter());
                    telling = JoinSet::new();
                    gone.extend(listed.keys().cloned());
                    for job in &jobs {
                        gone.remove(&job.name);
                    }
                    telling.spawn(make_known(Arc::clone(node), jobs.clone(), gone.clone()));
                    listed = succeeding(node, std::mem::take(&mut listed), jobs, attendants);
                }
            }
        }
    };
    tokio::join!(node.pace.keep(&node.locks), listen(node), node.late.keep_writing(node), keep_up);
}

/// By name, what tells the attendant of a job what it is now. Dropped, it tells it that the job is gone.
type Listed = HashMap<String, watch::Sender<Arc<Job>>>;

fn attend(node: &Arc<Node>, job: Job, cursor: Timestamp, attendants: &mut JoinSet<()>) -> watch::Sender<Arc<Job>> {
    let (listed, job) = watch::channel(Arc::new(job));
    attendants.spawn(Attendant::new(Arc::clone(node), job, cursor).attend());
    listed
}

/// Those that the node has from now on: a schedule that it had goes on where it stood, others begin at their next tick.
fn succeeding(node: &Arc<Node>, mut before: Listed, jobs: Vec<Job>, attendants: &mut JoinSet<()>) -> Listed {
    let now = node.now();
    let mut listed = Listed::new();
    for job in jobs {
        let name = job.name.clone();
        let same = before.remove(&name).filter(|same| same.borrow().schedule == job.schedule);
        let its = match same {
            Some(same) => {
                same.send_replace(Arc::new(job));
                same
            }
            None => attend(node, job, now, attendants),
        };
        listed.insert(name, its);
    }
    listed
}

/// The jobs of a scheduler that starts, and since when their ticks count, once the time and all that was asked for are known, too.
/// Should they change while the store is away, the new ones are asked about.
async fn first_jobs(node: &Node, roster: &mut watch::Receiver<Vec<Job>>) -> Vec<(Job, Timestamp)> {
    loop {
        let jobs = roster.borrow_and_update().clone();
        let first_look = until_told(node, || Box::pin(first_look(node, &jobs)));
        tokio::select! {
            biased;
            since = first_look => return jobs.into_iter().zip(since).collect(),
            Ok(()) = roster.changed() => (),
        }
    }
}

/// Tells the fleet since when jobs are known, and which were taken out, for whoever starts later.
async fn make_known(node: Arc<Node>, jobs: Vec<Job>, gone: BTreeSet<String>) {
    until_told(&node, || Box::pin(tell_of(&node, &jobs, &gone))).await;
}

async fn tell_of(node: &Node, jobs: &[Job], gone: &BTreeSet<String>) -> leasehold::Result<()> {
    known_since(node, jobs).await?;
    if node.locks.notes().is_ok() { board::are_gone(&node.locks, gone).await } else { Ok(()) }
}

/// Asked again and again: without it nobody knows what was missed.
async fn until_told<'a, T>(node: &Node, ask: impl Fn() -> BoxFuture<'a, leasehold::Result<T>>) -> T {
    let mut pause = SHORTEST_PAUSE;
    loop {
        match ask().await {
            Ok(told) => return told,
            Err(error) => node.tell(&Event::StoreIsAway { job: "", error: &error }),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn first_look(node: &Node, jobs: &[Job]) -> leasehold::Result<Vec<Timestamp>> {
    node.pace.settle(&node.locks).await?;
    if node.locks.notes().is_ok() {
        node.orders.send_replace(Arc::new(Hearing::default().standing(&node.locks).await?));
    }
    known_since(node, jobs).await
}

async fn known_since(node: &Node, jobs: &[Job]) -> leasehold::Result<Vec<Timestamp>> {
    if let Err(error) = node.locks.notes() {
        // It never will say: then every job begins at its next tick.
        node.tell(&Event::LedgerFailed { error: &error });
        return Ok(vec![node.now(); jobs.len()]);
    }
    board::known_since(&node.locks, jobs).await
}

/// Tells the jobs what operators ask for, each time that it changes.
async fn listen(node: &Node) {
    let mut hearing = Hearing::default();
    while node.locks.notes().is_ok() {
        tokio::time::sleep(LISTEN).await;
        match hearing.standing(&node.locks).await {
            Ok(standing) => {
                node.orders.send_if_modified(|before| {
                    let is_news = **before != standing;
                    if is_news {
                        *before = Arc::new(standing);
                    }
                    is_news
                });
            }
            Err(error) => node.tell(&Event::LedgerFailed { error: &error }),
        }
    }
}
