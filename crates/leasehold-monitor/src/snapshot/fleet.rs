//! The jobs that schedulers over the store have, and which of them pause.

use std::collections::HashMap;

use jiff::Timestamp;
use leasehold::{ErrorKind, Locks, Result};
use leasehold_schedule::{KnownJob, Orders, Pause, Schedule};

/// What is known of the jobs.
#[derive(Debug)]
pub(crate) struct Fleet {
    /// When it was asked, by the store's clock.
    pub at: Timestamp,
    /// By name.
    pub jobs: Vec<Job>,
    /// The last pause of each job that ever had one.
    pub pauses: HashMap<String, Pause>,
}

/// A job, and when it is due.
#[derive(Debug, PartialEq)]
pub(crate) struct Job {
    pub name: String,
    /// The expression.
    pub when: String,
    pub zone: String,
    pub since: Timestamp,
    /// None if this version can't read it.
    pub schedule: Option<Schedule>,
}

impl Fleet {
    /// Asks the store. One that keeps no notes knows of no jobs.
    pub async fn read(locks: &Locks, at: Timestamp) -> Result<Self> {
        if locks.notes().is_err_and(|error| error.kind() == ErrorKind::Misconfigured) {
            return Ok(Self { at, jobs: Vec::new(), pauses: HashMap::new() });
        }
        let orders = Orders::over(locks);
        let jobs = orders.jobs().await?.into_iter().map(Job::of).collect();
        Ok(Self { at, jobs, pauses: orders.pauses().await? })
    }

    /// The pause of a job, while it is on.
    pub fn pause(&self, job: &str) -> Option<&Pause> {
        self.pauses.get(job).filter(|pause| pause.is_on(self.at))
    }

    /// The job of this name.
    pub fn job(&self, name: &str) -> Option<&Job> {
        self.jobs.iter().find(|job| job.name == name)
    }

    /// Whether the same jobs are due at the same times.
    pub fn is_as(&self, other: &Self) -> bool {
        let paused =
            |fleet: &Self| -> Vec<bool> { fleet.jobs.iter().map(|job| fleet.pause(&job.name).is_some()).collect() };
        self.jobs == other.jobs && self.pauses == other.pauses && paused(self) == paused(other)
    }
}

impl Job {
    fn of(known: KnownJob) -> Self {
        let KnownJob { name, when, since } = known;
        let (when, zone) = when.rsplit_once(' ').unwrap_or((&when, "UTC"));
        let schedule = Schedule::parse_for(&name, when, Some(zone)).ok();
        Self { when: when.to_owned(), zone: zone.to_owned(), since, schedule, name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zone_stands_behind_the_expression() {
        let known =
            |when: &str| Job::of(KnownJob { name: "a".into(), when: when.into(), since: Timestamp::UNIX_EPOCH });
        let nightly = known("30 2 * * * Europe/Berlin");
        assert_eq!((nightly.when.as_str(), nightly.zone.as_str()), ("30 2 * * *", "Europe/Berlin"));
        assert!(nightly.schedule.is_some());
        let period = known("@every 15m UTC");
        assert_eq!((period.when.as_str(), period.zone.as_str()), ("@every 15m", "UTC"));
        assert!(period.schedule.is_some());
        assert!(known("of a later version UTC").schedule.is_none());
    }
}
