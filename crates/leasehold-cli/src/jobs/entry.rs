//! One job, as a file has it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use leasehold_schedule::{Job, Missed, Overlap, Retries, Schedule, Work};

use super::Limits;

/// A job of a file: read, checked, and not yet anybody's.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The line of the file on which it begins.
    pub line: usize,
    /// When it is due.
    pub schedule: Schedule,
    /// What it runs.
    pub task: Task,
    /// On which terms.
    pub terms: Terms,
}

/// What a job runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Task {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Variables, beside those that we have.
    pub env: Vec<(OsString, OsString)>,
    /// Where it is started, if not where we were.
    pub dir: Option<PathBuf>,
    /// What it reads on standard input; nothing else is there.
    pub stdin: Option<Vec<u8>>,
}

/// On which terms a job is run; what is not said is left to the library, or follows from the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Terms {
    /// What becomes of ticks that nobody ran.
    pub missed: Option<Missed>,
    /// How old they may be.
    pub catch_up: Option<Duration>,
    /// What becomes of a tick that is due while the job runs.
    pub overlap: Option<Overlap>,
    /// Whether a tick whose node died is begun again.
    pub at_least_once: bool,
    /// How often a run that fails is tried again.
    pub retries: Option<Retries>,
    /// How long a tick's run may take.
    pub time_limit: Option<Duration>,
    /// Within which span its start is moved.
    pub jitter: Option<Duration>,
    /// For how long the lock is kept at least.
    pub at_least_for: Option<Duration>,
    /// The TTL of its lock.
    pub ttl: Option<Duration>,
    /// How long after TERM the KILL comes.
    pub kill_after: Option<Duration>,
    /// Whether all that it has started is waited for.
    pub wait_group: bool,
}

/// The longest that a job may take to end, if nothing is said of it.
const USUAL_GRACE: Duration = Duration::from_secs(10);

impl Terms {
    /// How long after TERM the KILL comes.
    pub fn kill_after(&self, limits: Limits) -> Duration {
        let ttl = self.ttl.unwrap_or(limits.usual_ttl);
        self.kill_after.unwrap_or((ttl / 3).min(USUAL_GRACE).min(limits.longest_stop_grace))
    }
}

impl Entry {
    /// The job that does this work.
    pub fn job(&self, work: impl Work) -> Job {
        let Terms { at_least_once, .. } = self.terms;
        let mut job = Job::of(&self.name, self.schedule.clone(), work).at_least_once(at_least_once);
        let terms = &self.terms;
        if let Some(missed) = terms.missed {
            job = job.missed(missed);
        }
        if let Some(window) = terms.catch_up {
            job = job.catch_up(window);
        }
        if let Some(overlap) = terms.overlap {
            job = job.overlap(overlap);
        }
        if let Some(retries) = terms.retries {
            job = job.retries(retries);
        }
        if let Some(limit) = terms.time_limit {
            job = job.time_limit(limit);
        }
        if let Some(within) = terms.jitter {
            job = job.jitter(within);
        }
        if let Some(least) = terms.at_least_for {
            job = job.at_least_for(least);
        }
        if let Some(ttl) = terms.ttl {
            job = job.ttl(ttl);
        }
        job
    }

    /// Whether it is the same job, wherever in the file it stands.
    pub fn is_as(&self, other: &Self) -> bool {
        let parts = |entry: &Self| (entry.schedule.clone(), entry.task.clone(), entry.terms.clone());
        self.name == other.name && parts(self) == parts(other)
    }

    /// Whether its command is one text, that a shell reads.
    pub fn command_is_for_a_shell(&self) -> bool {
        matches!(&self.task.argv[..], [_, flag, _] if flag == "-c")
    }

    /// Its command, as people read it.
    pub fn command(&self) -> String {
        let words: Vec<_> = match &self.task.argv[..] {
            [_, _, script] if self.command_is_for_a_shell() => return script.to_string_lossy().into_owned(),
            words => words.iter().map(|word| word.to_string_lossy()).collect(),
        };
        words.join(" ")
    }
}
