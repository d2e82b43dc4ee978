//! `--report FILE`: how it went, for programs.

use std::path::Path;
use std::time::SystemTime;

use leasehold::validity::{BootClock, Clock, Moment};
use leasehold::{Guard, Holding, MultiGuard};
use serde::Serialize;

use super::ending::{Ending, Outcome};
use super::report_file::ReportFile;
use crate::args::RunArgs;
use crate::exit::{self, Failure};
use crate::output::{milliseconds, tell, utc};
use crate::warden::{Status, signal_name};

/// What there is to say about one `run`. The shape is a promise to scripts: fields may be added, none goes; what isn't
/// known, or not yet, is null. Kept in any case, written where `--report` asked for it.
#[derive(Debug, Serialize)]
pub struct Report {
    lock: Option<String>,
    outcome: Outcome,
    reason: Option<String>,
    exit_code: Option<i32>,
    child: Option<Child>,
    /// How often the job was started: with `--forever` more than once.
    runs: u64,
    /// Our hold, the last one; what follows belongs to it. Text: 63 bits are more than a JSON number carries safely.
    holder: Option<String>,
    token: Option<String>,
    /// Of `--once-per`: which slot. How often it, or the key, has been begun, this time included.
    tick: Option<String>,
    attempt: Option<u32>,
    label: Option<String>,
    waited_ms: Option<u64>,
    held_ms: Option<u64>,
    held_by: Option<Holder>,
    /// Those of `--also`.
    also: Vec<Also>,
    started_at: String,
    ended_at: Option<String>,
    #[serde(skip)]
    waits_since: Option<Moment>,
    #[serde(skip)]
    held_since: Option<Moment>,
    #[serde(skip)]
    file: Option<ReportFile>,
}

/// How the job ended.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Child {
    Exited { exit_code: i32 },
    Signaled { signal: i32, name: String },
}

/// Our hold of a lock that is held along.
#[derive(Debug, Serialize)]
struct Also {
    lock: String,
    holder: String,
    token: String,
}

/// Whoever has the lock, or one of the others, in our stead.
#[derive(Debug, Serialize)]
struct Holder {
    lock: String,
    holder: Option<String>,
    token: String,
    label: String,
}

impl From<Status> for Child {
    fn from(status: Status) -> Self {
        match status {
            Status::Exited(exit_code) => Child::Exited { exit_code },
            Status::Signaled(signal) => Child::Signaled { signal, name: signal_name(signal) },
        }
    }
}

impl Report {
    /// Says that we run. Whoever can't write this could not write the end either, so it is the test of the file.
    ///
    /// # Errors
    /// 78 if the file can't be written.
    pub fn begin(args: &RunArgs) -> Result<Report, Failure> {
        let lock = args.lock_name().map_or_else(|_| args.name.to_string(), |name| name.to_string());
        Report::new(Some(lock), args.report.as_deref())
    }

    /// The same, of what may not even name a lock.
    ///
    /// # Errors
    /// 78 if the file can't be written.
    pub fn new(lock: Option<String>, path: Option<&Path>) -> Result<Report, Failure> {
        let file = path.map(ReportFile::open).transpose();
        let mut report = Report {
            lock,
            outcome: Outcome::Running,
            reason: None,
            exit_code: None,
            child: None,
            runs: 0,
            holder: None,
            token: None,
            tick: None,
            attempt: None,
            label: None,
            waited_ms: None,
            held_ms: None,
            held_by: None,
            also: Vec::new(),
            started_at: utc(SystemTime::now()),
            ended_at: None,
            waits_since: None,
            held_since: None,
            file: None,
        };
        let begun = file.and_then(|file| {
            report.file = file;
            report.write_beginning()
        });
        let path = path.unwrap_or(Path::new(""));
        begun.map_err(|error| Failure::new(exit::CONFIG, cannot_write(path, &error)))?;
        Ok(report)
    }

    /// The lock is asked for, perhaps again: what was said of an earlier hold is over.
    pub fn waits(&mut self) {
        (self.holder, self.token, self.waited_ms, self.held_ms) = (None, None, None, None);
        self.also.clear();
        (self.waits_since, self.held_since) = (Some(now()), None);
        if self.runs > 0 {
            let _ = self.write_beginning(); // the end is told anyway, or that it can't be
        }
    }

    /// The slot is known.
    pub fn is_for(&mut self, tick: Option<String>) {
        self.tick = tick;
    }

    /// We hold the lock, and the job is started.
    pub fn got(&mut self, guard: &Guard, all: &MultiGuard, label: &str) {
        let also = |other: &Guard| Also {
            lock: other.name().to_string(),
            holder: other.holder().to_string(),
            token: other.token().to_string(),
        };
        self.also = all.guards().iter().filter(|other| other.name() != guard.name()).map(also).collect();
        self.holder = Some(guard.holder().to_string());
        self.token = Some(guard.token().to_string());
        self.attempt = Some(guard.attempt()).filter(|attempt| *attempt > 0);
        self.label = Some(label.to_owned());
        self.stop_waiting();
        self.held_since = Some(now());
        self.runs += 1;
        let _ = self.write_beginning();
    }

    /// The job could not be started after all.
    pub fn was_not_started(&mut self) {
        self.runs -= 1;
    }

    /// The lock is given back, or left to end by itself.
    pub fn gave_back(&mut self) {
        self.held_ms = self.held_since.take().map(|since| milliseconds(now().since(since)));
    }

    /// Another has it.
    pub fn held_by(&mut self, holding: &Holding) {
        self.held_by = Some(Holder {
            lock: holding.name.to_string(),
            holder: holding.holder.map(|holder| holder.to_string()),
            token: holding.token.to_string(),
            label: holding.label.clone(),
        });
    }

    /// Says how it ended. If that can't be written it is told; the job's result stays what it is.
    pub fn end(&mut self, ending: &Ending) {
        self.stop_waiting();
        self.outcome = ending.outcome;
        self.reason = ending.reason.clone();
        self.exit_code = Some(ending.code());
        self.child = ending.job.map(Child::from);
        self.ended_at = Some(utc(SystemTime::now()));
        let text = self.text();
        if let Some(file) = &mut self.file
            && let Err(error) = file.end(&text)
        {
            tell(&cannot_write(file.path(), &error));
        }
    }

    fn stop_waiting(&mut self) {
        if let Some(since) = self.waits_since.take() {
            self.waited_ms = Some(milliseconds(now().since(since)));
        }
    }

    fn write_beginning(&self) -> std::io::Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| file.begin(&self.text()))
    }

    fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("texts and numbers can be written") + "\n"
    }
}

fn now() -> Moment {
    BootClock.now()
}

fn cannot_write(path: &Path, error: &std::io::Error) -> String {
    format!("cannot write the report {}: {error}", path.display())
}
