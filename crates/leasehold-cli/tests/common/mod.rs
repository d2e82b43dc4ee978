//! The command under test: a store in a directory of its own, and nothing of the caller's environment.

#![allow(dead_code, reason = "no test file needs all of it")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::Arc;
use std::time::Duration;

use leasehold::{Attempt, Claim, Ended, HolderId, LeaseKey, LockName, Store, stores};
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
        for _ in 0..1000 {
            if self.run(["status", name, "--json"]).json()["waiting"] == 1 {
                return waiter;
            }
        }
        panic!("nobody waits for {name}")
    }
}

/// Somebody who waits for a lock, until dropped.
pub struct Waiter(Child);

impl Drop for Waiter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn claim(name: &str) -> Claim {
    let label = "web-3/41/backup\u{1b}[2J".into();
    Claim::new(LockName::new(name).unwrap(), HolderId::fresh(), label, Duration::from_secs(60))
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
