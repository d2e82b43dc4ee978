//! Many jobs that are due in the same second, over several processes.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use leasehold::Locks;
use leasehold_schedule::{Event, Job, Scheduler, Timestamp};
use leasehold_testkit::servers::{Etcd, Postgres, PostgresOptions, Redis};

use crate::settings::{Node, Settings, daily_at, late_for, median_and_last, runtime};

/// Until every node has made its jobs known.
const START: SignedDuration = SignedDuration::from_secs(15);

/// How long a run takes.
const TAKES: Duration = Duration::from_secs(1);

/// All are to be there by then.
const LIMIT: Duration = Duration::from_secs(90);

/// So long after the last one none must come again.
const QUIET: Duration = Duration::from_secs(5);

/// Where it is measured, for as long as this lives.
struct Place {
    url: String,
    _server: Box<dyn std::any::Any>,
}

impl Place {
    fn of(store: &str, settings: &Settings) -> Self {
        match store {
            "sqlite" => {
                let dir = tempfile::tempdir_in(&settings.dir).expect("a directory for the file");
                Self { url: format!("sqlite://{}/locks.db", dir.path().display()), _server: Box::new(dir) }
            }
            "redis" => Self::with(Redis::start(), Redis::url),
            "postgres" => Self::with(PostgresOptions::default().durable().start(), Postgres::url),
            "etcd" => Self::with(Etcd::start(), Etcd::url),
            other => panic!("--stores: {other} is none of sqlite, redis, postgres, etcd"),
        }
    }

    fn with<T: 'static>(server: T, url: impl Fn(&T) -> String) -> Self {
        Self { url: url(&server), _server: Box::new(server) }
    }
}

/// One that began: at which node, which one, how late.
type Began = (usize, String, Duration);

pub fn measure(settings: &Settings) {
    println!("burst: {} jobs due in one second, {} nodes", settings.due, settings.nodes);
    for store in &settings.stores {
        let place = Place::of(store, settings);
        let at = Timestamp::now() + START;
        let (sender, began) = mpsc::channel();
        let mut nodes: Vec<Child> =
            (0..settings.nodes).map(|nth| start(nth, settings, &place.url, at, sender.clone())).collect();
        drop(sender);
        let all = collect(&began, settings.due);
        for node in &mut nodes {
            drop(node.stdin.take());
        }
        for mut node in nodes {
            assert!(node.wait().expect("it is ours").success());
        }
        report(store, settings, &all);
    }
}

fn start(nth: usize, settings: &Settings, url: &str, at: Timestamp, began: mpsc::Sender<Began>) -> Child {
    let me = std::env::current_exe().expect("this program");
    let mut child = Command::new(me)
        .args(["--node", url, &at.to_string(), &settings.due.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let stdout = BufReader::new(child.stdout.take().expect("it is a pipe"));
    std::thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            let (job, micros) = line.split_once(' ').expect("two words");
            let late = Duration::from_micros(micros.parse().expect("a number"));
            let _ = began.send((nth, job.to_owned(), late));
        }
    });
    child
}

/// All that begin, and whatever comes after that.
fn collect(began: &mpsc::Receiver<Began>, due: usize) -> Vec<Began> {
    let (mut all, end) = (Vec::new(), Instant::now() + LIMIT);
    while Instant::now() < end {
        let wait = if all.len() < due { end.saturating_duration_since(Instant::now()) } else { QUIET };
        match began.recv_timeout(wait) {
            Ok(one) => all.push(one),
            Err(_) => break,
        }
    }
    all
}

fn report(store: &str, settings: &Settings, all: &[Began]) {
    let (mut times, mut shares) = (HashMap::new(), vec![0; settings.nodes]);
    for (node, job, _) in all {
        *times.entry(job.as_str()).or_insert(0) += 1;
        shares[*node] += 1;
    }
    let twice = times.values().filter(|times| **times > 1).count();
    assert_eq!((times.len(), twice), (settings.due, 0), "{store}: each is started once; by the nodes: {shares:?}");
    let (median, last) = median_and_last(&mut all.iter().map(|(_, _, late)| *late).collect::<Vec<_>>());
    println!(
        "  {store:9} median {:6.0} ms   all started after {:6.0} ms   by the nodes {shares:?}",
        millis(median),
        millis(last)
    );
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// What a node does until its standard input ends: tells each that it begins.
pub fn run_node(node: &Node) {
    runtime().block_on(async {
        let locks = Locks::connect(&node.url).await.expect("it opens");
        let mut scheduler = Scheduler::over(locks).observer(|event: &Event<'_>| {
            if let Event::StoreIsAway { error, .. } = event {
                eprintln!("{}: {error}", std::process::id());
            }
        });
        for nth in 0..node.due {
            scheduler = scheduler.job(job(nth, node.at)).expect("it is right");
        }
        scheduler.run(no_more_input()).await;
    });
}

fn job(nth: usize, at: Timestamp) -> Job {
    Job::new(&format!("job-{nth:04}"), daily_at(at), |run| {
        let line = format!("{} {}\n", run.job(), late_for(run.tick()).as_micros());
        std::io::stdout().write_all(line.as_bytes()).expect("somebody reads it");
        Box::pin(async {
            tokio::time::sleep(TAKES).await;
            Ok(())
        })
    })
}

async fn no_more_input() {
    let read = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    let _ = read.await;
}
