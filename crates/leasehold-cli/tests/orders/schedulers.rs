//! Schedulers that run in this process, over a store that the command is pointed at too.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold::Locks;
use leasehold::store::{Note, NoteId, Search, Topic};
use leasehold_schedule::{Ended, Job, Orders, Run, Schedule, Scheduler, Timestamp, Work};
use leasehold_testkit::process::eventually;
use leasehold_testkit::servers::Redis;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::common::{Bench, LIMIT, Ran, ran};

/// Never due while a test runs.
pub const YEARLY: &str = "0 0 1 1 *";

/// Where a test meets with the command: a file, or a server.
pub struct Place {
    pub bench: Bench,
    server: Option<Redis>,
}

impl Place {
    /// One of each kind.
    pub fn all() -> [Self; 2] {
        [Self::file(), Self { bench: Bench::new(), server: Some(Redis::start()) }]
    }

    /// One whose server is killed now and started again.
    pub fn hiccups(&self) {
        let server = self.server.as_ref().expect("it has one");
        server.kill();
        std::thread::sleep(Duration::from_secs(4)); // several looks
        server.restart();
    }

    pub fn file() -> Self {
        Self { bench: Bench::new(), server: None }
    }

    pub fn url(&self) -> String {
        self.server.as_ref().map_or_else(|| self.bench.url(), Redis::url)
    }

    /// Runs the command over it.
    pub fn run(&self, args: &[&str]) -> Ran {
        ran(self.bench.bare(args).env("LEASEHOLD_STORE", self.url()))
    }

    /// The same, and what it answers in JSON.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.json()
    }

    /// The records of a job, in JSON.
    #[track_caller]
    pub fn history(&self, args: &[&str]) -> Vec<serde_json::Value> {
        let words: Vec<_> = ["history", "--json"].iter().chain(args).copied().collect();
        self.json(&words).as_array().expect("an array").clone()
    }
}

/// What ran: which job, for which tick, on which node.
pub type Began = (String, Timestamp, usize);

/// Several schedulers with the same jobs, until dropped.
pub struct Schedulers {
    pub locks: Locks,
    runtime: Runtime,
    stop: watch::Sender<bool>,
    running: Vec<JoinHandle<()>>,
    began: Arc<Mutex<Vec<Began>>>,
    open: watch::Sender<bool>,
}

/// What a job of the tests does.
#[derive(Clone)]
pub enum Does {
    /// It is done at once.
    Ends,
    /// It writes this, and fails with that.
    Fails(&'static str, &'static str),
    /// It goes on until [`Schedulers::let_go`].
    Waits,
}

struct Kind {
    does: Does,
    node: usize,
    began: Arc<Mutex<Vec<Began>>>,
    open: watch::Receiver<bool>,
}

impl Work for Kind {
    fn run<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, Ended> {
        let tick = Timestamp::from_millisecond(run.tick().as_unix_millis()).unwrap();
        self.began.lock().unwrap().push((run.job().to_owned(), tick, self.node));
        let mut open = self.open.clone();
        Box::pin(async move {
            match &self.does {
                Does::Ends => Ok(()).into(),
                Does::Fails(output, why) => {
                    let mut ended = Ended::from(Err((*why).into()));
                    ended.output.push_str(output);
                    ended
                }
                Does::Waits => {
                    let _ = open.wait_for(|open| *open).await;
                    Ok(()).into()
                }
            }
        })
    }
}

impl Schedulers {
    /// So many nodes with these jobs.
    pub fn start(place: &Place, nodes: usize, jobs: &[(&str, &str, Does)]) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let ((stop, told), (open, opened)) = (watch::channel(false), watch::channel(false));
        let began: Arc<Mutex<Vec<Began>>> = Arc::default();
        let connect = |label: &str| Locks::builder().label(label).connect(&place.url()).unwrap();
        let mut running = Vec::new();
        for node in 0..nodes {
            let mut scheduler = Scheduler::over(connect(&format!("web-{node}/41\u{1b}[2J/test")));
            for (name, when, does) in jobs {
                let work = Kind { does: does.clone(), node, began: Arc::clone(&began), open: opened.clone() };
                let schedule = Schedule::parse(when, None).unwrap();
                scheduler = scheduler.job(Job::of(name, schedule, work)).unwrap();
            }
            let mut told = told.clone();
            running.push(runtime.spawn(scheduler.run(async move { drop(told.wait_for(|stop| *stop).await) })));
        }
        let locks = connect("test");
        eventually("the fleet knows its jobs", LIMIT, || {
            let known = runtime.block_on(Orders::over(&locks).jobs()).unwrap_or_default();
            jobs.iter().all(|(name, ..)| known.iter().any(|known| known.name == *name))
        });
        Self { locks, runtime, stop, running, began, open }
    }

    /// What ran up to now.
    pub fn began(&self) -> Vec<Began> {
        self.began.lock().unwrap().clone()
    }

    /// Those that wait go on.
    pub fn let_go(&self) {
        self.open.send_replace(true);
    }

    /// The tick of what was asked for last.
    pub fn asked(&self) -> Option<String> {
        let search = Search::newest(Topic::of_all("asked"), 1);
        let notes = self.runtime.block_on(async { self.locks.notes().unwrap().notes(&search).await }).unwrap();
        let asked: serde_json::Value = serde_json::from_str(&notes.first()?.text).unwrap();
        asked["tick"].as_str().map(str::to_owned)
    }

    /// Puts a record into the ledger of a job, as a node that has died may have left it.
    pub fn write_record(&self, job: &str, id: &str, record: &serde_json::Value) {
        let topic = Topic::of_all("runs").about(leasehold::LockName::new(job).unwrap());
        let (id, keep) = (NoteId::new(id).unwrap(), Duration::from_secs(3600));
        let note = Note { topic, id, text: record.to_string(), keep, most: 1000 };
        self.runtime.block_on(async { self.locks.notes().unwrap().note(&[note]).await }).unwrap();
    }
}

impl Drop for Schedulers {
    fn drop(&mut self) {
        self.let_go();
        self.stop.send_replace(true);
        for running in self.running.drain(..) {
            let ended = self.runtime.block_on(running);
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
    }
}

/// Whoever runs the tests, as the command records it.
pub fn operator() -> String {
    let words = |program: &str, args: &[&str]| {
        let output = std::process::Command::new(program).args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    format!("{}@{host}", words("id", &["-un"]))
}
