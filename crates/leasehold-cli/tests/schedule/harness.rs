//! What the tests share: a scheduler that runs, what it tells, and what its jobs have written.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{io::BufRead, io::BufReader, thread};
use std::{process::Child, process::Stdio};

use leasehold_testkit::process::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::common::{Bench, LIMIT};

/// The variable by which the processes of a scheduler are found, wherever they end up.
const MARK: &str = "SCHEDULE_TEST_MARK";

/// A scheduler, until dropped.
pub struct Node {
    child: Child,
    mark: String,
    told: mpsc::Receiver<Value>,
    heard: Vec<Value>,
}

impl Node {
    /// Starts one with the jobs of the bench's `leasehold.toml`, over the bench's store.
    pub fn start(bench: &Bench, options: &[&str]) -> Node {
        Node::of(bench.command([&["schedule", "--json"], options].concat()))
    }

    /// Starts one; it has to tell in JSON.
    pub fn of(mut command: Command) -> Node {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut child = command.env(MARK, &mark).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, told) = mpsc::channel();
        // Ends with the process, or when nobody listens any more.
        thread::spawn(move || {
            let mut lines = stdout.lines().map_while(Result::ok);
            lines.all(|line| sender.send(serde_json::from_str(&line).expect("a line of JSON")).is_ok())
        });
        Node { child, mark, told, heard: Vec::new() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it tells of such an event, and goes past it.
    #[track_caller]
    pub fn tells(&mut self, event: &str) -> Value {
        self.tells_where(event, |_| true)
    }

    /// The same of one job.
    #[track_caller]
    pub fn tells_of(&mut self, event: &str, job: &str) -> Value {
        self.tells_where(event, |told| told["job"] == job)
    }

    /// The same, where more is asked.
    #[track_caller]
    pub fn tells_where(&mut self, event: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + LIMIT;
        loop {
            match self.told.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(told) => {
                    self.heard.push(told.clone());
                    if told["event"] == event && is_it(&told) {
                        return told;
                    }
                }
                Err(error) => panic!("{error}: it does not tell of {event:?}, but: {:#?}", self.heard),
            }
        }
    }

    /// What it has told so far.
    pub fn heard(&mut self) -> &[Value] {
        self.heard.extend(self.told.try_iter());
        &self.heard
    }

    /// How often it has told of such an event.
    pub fn count(&mut self, event: &str) -> usize {
        self.heard().iter().filter(|told| told["event"] == event).count()
    }

    pub fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Waits for its end, after which nothing of it may be left; its code, and all that it has told.
    #[track_caller]
    pub fn ends(mut self) -> (Option<i32>, Vec<Value>) {
        let until = Instant::now() + LIMIT;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(Instant::now() < until, "it does not end: {:#?}", self.heard()),
            }
            thread::sleep(Duration::from_millis(5));
        };
        eventually("nothing of it is left", LIMIT, || !is_anything_left(&self.mark));
        let mut heard = std::mem::take(&mut self.heard);
        // Up to the end of the pipe.
        heard.extend(self.told.iter());
        (status.code(), heard)
    }

    /// Has it stop, and waits for its end.
    #[track_caller]
    pub fn stop(self) -> (Option<i32>, Vec<Value>) {
        self.send(Signal::SIGTERM);
        self.ends()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a process carries this mark.
fn is_anything_left(mark: &str) -> bool {
    let wanted = format!("{MARK}={mark}").into_bytes();
    let mut environments =
        fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| fs::read(entry.path().join("environ")).ok());
    environments.any(|environment| environment.split(|byte| *byte == 0).any(|variable| variable == wanted))
}

/// What is written in a file of the bench, or nothing.
pub fn read(bench: &Bench, name: &str) -> String {
    fs::read_to_string(bench.path(name)).unwrap_or_default()
}

/// How often each line stands in a file of the bench.
pub fn lines(bench: &Bench, name: &str) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    for line in read(bench, name).lines() {
        *lines.entry(line.to_owned()).or_default() += 1;
    }
    lines
}

/// Whether there is such a process, zombies apart.
pub fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
