//! The command under test: a store in a directory of its own, and nothing of the caller's environment.

#![allow(dead_code, reason = "no test file needs all of it")]

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use leasehold::{Attempt, Claim, Ended, HolderId, LeaseKey, LockName, Store, stores};
use leasehold_testkit::process::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// A directory with a store in it, in which the command is started.
pub struct Bench {
    dir: TempDir,
    runtime: tokio::runtime::Runtime,
}

impl Bench {
    /// One with nothing in it.
    pub fn new() -> Bench {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Bench { dir: TempDir::new().unwrap(), runtime }
    }

    /// A path in the directory.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file into the directory.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// The URL of the store.
    pub fn url(&self) -> String {
        format!("sqlite://{}", self.path("locks.db").display())
    }

    /// The command, with `LEASEHOLD_STORE` set to the store.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.bare(args);
        command.env("LEASEHOLD_STORE", self.url());
        command
    }

    /// The command, with no variable but `PATH` and `HOME`.
    pub fn bare<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
        command.args(args).env_clear().env("HOME", self.dir.path()).current_dir(self.dir.path());
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command
    }

    /// Runs the command on the store.
    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        ran(&mut self.command(args))
    }

    /// Somebody else takes a lock of the store, for a TTL of 60 s that nobody renews.
    pub fn take(&self, name: &str) -> Held<'_> {
        let store = stores::open(&self.url()).unwrap();
        let claim = claim(name);
        let Attempt::Granted(grant) = self.runtime.block_on(store.try_acquire(&claim)).unwrap() else {
            panic!("{name} is not free")
        };
        Held {
            bench: self,
            store,
            key: LeaseKey { name: claim.name, holder: claim.holder },
            token: grant.token.number(),
        }
    }

    /// Somebody else waits for a lock; comes back once the store knows of it.
    pub fn wait_for(&self, name: &str) -> Waiter {
        let waiter = Waiter(self.command(["run", name, "--wait", "-q", "--", "true"]).spawn().unwrap());
        eventually(&format!("somebody waits for {name}"), LIMIT, || {
            self.run(["status", name, "--json"]).json()["waiting"] == 1
        });
        waiter
    }
}

/// A command that goes on in the background, until dropped.
pub struct Going {
    /// The process.
    pub child: Child,
    lines: mpsc::Receiver<String>,
}

impl Going {
    /// Starts `command`; its stdout is read here.
    pub fn start(command: &mut Command) -> Going {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        // Ends with the process, or when nobody listens any more.
        thread::spawn(move || stdout.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        Going { child, lines }
    }

    /// Waits for the next line on stdout.
    #[track_caller]
    pub fn line(&self) -> String {
        self.lines.recv_timeout(LIMIT).expect("another line")
    }

    /// Waits for the next line on stdout that is JSON, which it must be.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// The next line on stdout, if it comes soon enough.
    pub fn next_within(&self, span: Duration) -> Option<String> {
        self.lines.recv_timeout(span).ok()
    }

    /// Demands that nothing is written for `span`.
    #[track_caller]
    pub fn is_quiet(&self, span: Duration) {
        if let Ok(line) = self.lines.recv_timeout(span) {
            panic!("{line}");
        }
    }

    /// Sends it a signal.
    pub fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Stops it; when this returns, none of its threads does anything any more.
    #[track_caller]
    pub fn pause(&self) {
        self.send(Signal::SIGSTOP);
        let threads = format!("/proc/{}/task", self.child.id());
        eventually("it is stopped", LIMIT, || {
            let stats =
                fs::read_dir(&threads).unwrap().map(|thread| fs::read_to_string(thread.unwrap().path().join("stat")));
            // Behind the name, which may hold anything. One that can't be read has ended.
            stats.flatten().all(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')))
        });
    }

    /// Waits for its end: its exit code, or 1000 + n where signal n ended it; and what it wrote to stderr.
    #[track_caller]
    pub fn end(mut self) -> (i32, String) {
        let mut status = None;
        eventually("it ends", LIMIT, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let status = status.unwrap();
        let code = status.code().or_else(|| status.signal().map(|signal| 1000 + signal)).unwrap();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (code, stderr)
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// More than anything takes on a loaded machine.
pub const LIMIT: Duration = Duration::from_secs(20);

/// Of somebody who means no good: it would clear the screen, turn what follows around, and hide something.
pub const LABEL: &str = "web-3/41/backup\u{1b}[2J\u{202e}\u{200b}\u{2066}";

/// Somebody who waits for a lock, until dropped.
pub struct Waiter(Child);

impl Drop for Waiter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn claim(name: &str) -> Claim {
    Claim::new(LockName::new(name).unwrap(), HolderId::fresh(), LABEL.into(), Duration::from_secs(60))
}

/// A lock that somebody else holds.
pub struct Held<'a> {
    bench: &'a Bench,
    store: Arc<dyn Store>,
    key: LeaseKey,
    /// Its token.
    pub token: u64,
}

impl Held<'_> {
    /// Whose it is.
    pub fn holder(&self) -> String {
        self.key.holder.to_string()
    }

    /// Renews it, and says how that went.
    pub fn renewal(&self) -> String {
        let asked = [(self.key.clone(), Duration::from_secs(60))];
        format!("{:?}", self.bench.runtime.block_on(self.store.renew(&asked)).remove(0).unwrap())
    }

    /// Gives it back; nobody gets it for another `keep_for`.
    pub fn release(self, keep_for: Duration) {
        let _ = self.bench.runtime.block_on(self.store.release(&self.key, Ended { keep_for, verdict: None })).unwrap();
    }
}

/// What a command did.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code.
    pub code: i32,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it wrote to stderr.
    pub stderr: String,
}

impl Ran {
    /// Stdout, as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Demands this exit code, and these words on stderr.
    #[track_caller]
    pub fn fails(&self, code: i32, words: &[&str]) -> &Ran {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is not in {}", self.stderr);
        }
        self
    }

    /// Demands success with these words on stdout.
    #[track_caller]
    pub fn says(&self, words: &[&str]) -> &Ran {
        assert_eq!(self.code, 0, "{self:?}");
        for word in words {
            assert!(self.stdout.contains(word), "{word:?} is not in {}", self.stdout);
        }
        self
    }
}

/// Runs a command to its end.
pub fn ran(command: &mut Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }
}
