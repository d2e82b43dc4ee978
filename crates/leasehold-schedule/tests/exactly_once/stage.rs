//! One tick, a process that is killed in the middle of it, and another node that goes on.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use leasehold::store::{Search, Topic};
use leasehold::{Locks, NotDue, Outcome, Tick};
use leasehold_schedule::{Event, How, Job, Observer, Schedule, Scheduler, WallClock};
use leasehold_testkit::process::{Worker, argument, eventually_async, say};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

pub const CUSTOMERS: [&str; 3] = ["ada", "edsger", "grace"];

/// What has come to pass by then on a machine that is busy, or never will.
pub const SOON: Duration = Duration::from_secs(40);

/// How long the other node waits for the one that died.
pub const TTL: Duration = Duration::from_secs(2);

/// For one that is not to lose its lock, whatever else this machine does.
pub const LONG_TTL: Duration = Duration::from_secs(30);

/// So many are killed at a time.
const AT_A_TIME: usize = 8;

/// A database with the locks and the invoices in it, and the job that writes these.
pub struct Stage<'a> {
    /// The locks.
    pub store: String,
    /// The job, as the other node has it.
    pub job: &'a (dyn Fn(&str, Schedule) -> Job + Sync),
    /// To whom invoices were written by the job of this name, in alphabetic order.
    pub invoices: &'a (dyn Fn(&str) -> Vec<String> + Sync),
}

/// One job, which has one tick.
#[derive(Debug)]
pub struct Act {
    pub name: String,
    pub tick: Timestamp,
}

impl Act {
    pub fn new(name: &str) -> Self {
        // Soon: the schedule is to be known before it is due, and no clock may be a minute ahead of the store's.
        let second = Timestamp::now().as_second() + 30;
        Self { name: name.replace(['(', ')', ' '], "-"), tick: Timestamp::from_second(second).unwrap() }
    }

    pub fn schedule(&self) -> Schedule {
        let at = self.tick.in_tz("UTC").unwrap();
        Schedule::parse(&at.strftime("%-S %-M %-H %-d %-m *").to_string(), None).unwrap()
    }

    pub fn tick(&self) -> Tick {
        Tick::from_unix_millis(self.tick.as_millisecond()).unwrap()
    }

    /// Whether nobody will ever run it again. Asks for it so that it is not granted, however it stands.
    pub async fn is_over(&self, locks: &Locks) -> bool {
        let claim = locks.lock(&self.name).tick(self.tick()).try_acquire().await;
        matches!(claim.unwrap(), Outcome::NotDue(NotDue::Claimed { unfinished: false, .. }))
    }

    /// A node that has this job. For it the tick is due in an instant.
    pub async fn node(&self, locks: Locks, job: Job, observer: impl Observer, stop: impl Future<Output = ()>) {
        // Where there are no notes a node begins when it first could ask: no tables are to be made then.
        locks.time().await.unwrap();
        let clock = Shifted::before(self.tick, SignedDuration::from_secs(1));
        scheduler(locks, job, clock).observer(observer).run(stop).await;
    }

    /// The same, until a run has ended; how.
    pub async fn ends(&self, locks: Locks, job: Job) -> How {
        let (tell, mut told) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let observer = move |event: &Event<'_>| {
            if let Event::Ended { how, .. } = event {
                tell.send((*how).clone()).expect("it is waited for");
            }
        };
        let node = self.node(locks, job, observer, async { drop(stopped.await) });
        let wait = async {
            let how = timeout(SOON, told.recv()).await.expect("the run ends");
            drop(stop);
            how.expect("the node is there")
        };
        tokio::join!(node, wait).1
    }

    /// A job is begun at its next tick, once it is known; where there are notes, by all nodes.
    pub async fn make_known(&self, store: &str, job: Job) {
        let locks = Locks::connect(store).await.unwrap();
        let Ok(notes) = locks.notes() else { return };
        let jobs = Search::newest(Topic::of_all("jobs"), 1000);
        let (known, is_known) = oneshot::channel::<()>();
        let clock = Shifted::before(self.tick, SignedDuration::from_hours(1));
        let node = scheduler(locks.clone(), job, clock).run(async { drop(is_known.await) });
        let wait = async {
            eventually_async("the job is known", SOON, async || {
                notes.notes(&jobs).await.unwrap().iter().any(|note| note.id.to_string() == self.name)
            })
            .await;
            drop(known);
        };
        tokio::join!(node, wait);
    }
}

fn scheduler(locks: Locks, job: Job, clock: Shifted) -> Scheduler {
    Scheduler::over(locks).clock(Arc::new(clock)).job(job).unwrap()
}

impl Stage<'_> {
    /// Begins a run in another process.
    pub fn begin(&self, act: &Act, function: &str, arguments: &[(&str, &str)]) -> Worker {
        self.begin_for(TTL, act, function, arguments)
    }

    /// The same, under a lease of this length.
    pub fn begin_for(&self, ttl: Duration, act: &Act, function: &str, arguments: &[(&str, &str)]) -> Worker {
        block_on(act.make_known(&self.store, (self.job)(&act.name, act.schedule())));
        let tick = act.tick.to_string();
        let ttl = ttl.as_secs().to_string();
        let act = [("NAME", &*act.name), ("TICK", &*tick), ("STORE", &*self.store), ("TTL", &*ttl)];
        Worker::start("worker", function, &[&act, arguments].concat())
    }

    /// Another node comes, and there is one invoice for each customer once it has gone.
    pub fn goes_on(&self, act: &Act) {
        self.another_node(act);
        assert_eq!((self.invoices)(&act.name), CUSTOMERS, "{}", act.name);
    }

    /// Another node comes, and goes when nothing is left to do.
    pub fn another_node(&self, act: &Act) {
        let job = (self.job)(&act.name, act.schedule()).ttl(TTL);
        block_on(async {
            let locks = Locks::connect(&self.store).await.unwrap();
            let (over, is_over) = oneshot::channel::<()>();
            let node = act.node(locks.clone(), job, |_: &Event<'_>| (), async { drop(is_over.await) });
            let wait = async {
                eventually_async(&act.name, SOON, async || act.is_over(&locks).await).await;
                drop(over);
            };
            tokio::join!(node, wait);
        });
    }
}

/// The body of a worker: a node whose clock says that the tick is due in an instant. Says when its run has ended, and what
/// `more` there is to say.
pub fn work(job: impl FnOnce(&str, Schedule, &str) -> Job, more: impl Fn() -> String + Send + Sync + 'static) {
    let act = Act { name: argument("NAME"), tick: argument("TICK").parse().unwrap() };
    let ttl = Duration::from_secs(argument("TTL").parse().unwrap());
    let job = job(&act.name, act.schedule(), &argument("DATABASE")).ttl(ttl);
    let tell = move |event: &Event<'_>| match event {
        Event::Ended { how, .. } => say(&format!("ended {how:?} {}", more())),
        other => println!("{other:?}"),
    };
    block_on(async {
        let locks = Locks::connect(&argument("STORE")).await.unwrap();
        act.node(locks, job, tell, std::future::pending()).await;
    });
}

/// Each case in its turn, several at a time.
pub fn all<T: Copy + Send + Sync>(cases: &[T], case: impl Fn(T) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let take = || {
            while let Some(taken) = cases.get(next.fetch_add(1, Ordering::SeqCst)) {
                case(*taken);
            }
        };
        let threads: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(take)).collect();
        for thread in threads {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A clock that goes right and shows something else.
#[derive(Debug)]
struct Shifted(SignedDuration);

impl Shifted {
    /// Now it is so long before that instant.
    fn before(instant: Timestamp, span: SignedDuration) -> Self {
        Self((instant - span).duration_since(Timestamp::now()))
    }
}

impl WallClock for Shifted {
    fn now(&self) -> Timestamp {
        Timestamp::now() + self.0
    }
}
