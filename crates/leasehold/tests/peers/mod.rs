//! Workers that lock with other libraries: processes that take a command a line and answer each.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

pub mod worker;

/// How long a worker may think; more than it may ever need on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(100);

/// A worker. Killed when dropped.
pub struct Peer {
    process: Child,
    commands: ChildStdin,
    answers: Receiver<String>,
}

impl Peer {
    /// One that locks with `library`.
    pub fn start(library: &str, url: &str) -> Self {
        let mut command = match library {
            "leasehold" => worker::command(url),
            "rslock" => rust(url),
            "node-redlock" | "redis-semaphore" => node(library, url),
            _ => python(library, url),
        };
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("what is installed can be started");
        let (said, answers) = channel();
        let output = BufReader::new(process.stdout.take().expect("it is piped"));
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some(answer) = line.strip_prefix("= ") {
                    // Nobody may be listening any more.
                    let _ = said.send(answer.to_owned());
                }
            }
        });
        Self { commands: process.stdin.take().expect("it is piped"), process, answers }
    }

    /// Gives it a command.
    pub fn asked(&mut self, command: &str) {
        writeln!(self.commands, "{command}").expect("it takes commands");
    }

    /// What it said to the last one.
    pub fn answers(&mut self) -> String {
        self.answers.recv_timeout(PATIENCE).expect("it answers")
    }

    fn is_told(&mut self, command: &str) -> bool {
        self.asked(command);
        match self.answers().as_str() {
            "yes" => true,
            "no" => false,
            other => panic!("{command}: {other}"),
        }
    }

    /// Whether it gets the lock without waiting.
    pub fn acquires(&mut self, name: &str, ttl: Duration) -> bool {
        self.is_told(&format!("acquire {name} {} 0", ttl.as_millis()))
    }

    /// Lets it wait for the lock.
    pub fn waits(&mut self, name: &str, ttl: Duration, most: Duration) {
        self.asked(&format!("acquire {name} {} {}", ttl.as_millis(), most.as_millis()));
    }

    /// Whether its lock could be extended.
    pub fn extends(&mut self, ttl: Duration) -> bool {
        self.is_told(&format!("extend {}", ttl.as_millis()))
    }

    /// Whether its lock was its own to release.
    pub fn releases(&mut self) -> bool {
        self.is_told("release")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn python(library: &str, url: &str) -> Command {
    let mut python = Command::new(installed("python/bin/python"));
    python.arg(source("worker.py")).args([library, url]);
    python
}

fn node(library: &str, url: &str) -> Command {
    let mut node = Command::new("node");
    node.env("NODE_PATH", installed("node/node_modules")).arg(source("worker.js")).args([library, url]);
    node
}

fn rust(url: &str) -> Command {
    let mut worker = Command::new(installed("rslock/debug/rslock-worker"));
    worker.arg(url);
    worker
}

fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers").join(file)
}

fn installed(file: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers").join(file);
    assert!(path.exists(), "the libraries to lock beside are not installed: run scripts/peers (no {})", path.display());
    path
}
