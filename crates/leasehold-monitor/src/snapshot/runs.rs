//! What the ledgers of all jobs say, read bit by bit.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join_all;
use jiff::{SignedDuration, Timestamp};
use leasehold::{Locks, Result};
use leasehold_schedule::{Entry, Ledger, State};

/// Of all jobs together about so many records are kept.
const MOST: usize = 10_000;

/// Of a job no more than so many are read; its ledger has no more.
const MOST_OF_ONE: usize = 1000;

/// So many of a job are known however old they are: the last run of one that comes monthly is among them.
const FEWEST: usize = 5;

/// So many ledgers are read at a time.
const AT_A_TIME: usize = 16;

/// A record may be seen later than one that is stamped later: by as long as a call takes, and where its writer stamps it by as much as
/// that one's clock is slow.
const LATE: SignedDuration = SignedDuration::from_secs(60);

/// How far back it may be asked for: from one step to the next all is read anew.
const STEPS: [i64; 4] = [24, 3 * 24, 7 * 24, 31 * 24];

/// The records of many jobs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runs {
    jobs: BTreeMap<String, Known>,
    /// How far back it was read, in hours.
    pub hours: i64,
    /// Changes with what is known.
    pub changes: u64,
}

/// What is known of one job.
#[derive(Debug, Clone, Default)]
struct Known {
    records: BTreeMap<Key, Entry>,
    /// All that was written since then is known.
    since: Timestamp,
    /// What was written last.
    newest: Option<Timestamp>,
}

/// Which record of a job: of a tick there is one, what ran or what did not; an operator's act has one of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Tick(Timestamp),
    Act(Timestamp, &'static str),
}

impl Key {
    fn of(entry: &Entry) -> Self {
        match entry.record.tick {
            Some(tick) => Self::Tick(tick),
            None => Self::Act(entry.record.started.unwrap_or(entry.written), entry.record.state.word()),
        }
    }
}

impl Runs {
    /// The smallest step that reaches back so far, in hours.
    pub fn step(span: SignedDuration) -> i64 {
        let hours = span.as_hours() + 1;
        STEPS.into_iter().find(|step| *step >= hours).unwrap_or(STEPS[STEPS.len() - 1])
    }

    /// What has changed since it was last read; of jobs that are new here, and where more was asked for, all.
    pub async fn read(
        before: Option<&Self>,
        locks: &Locks,
        names: &[String],
        now: Timestamp,
        hours: i64,
    ) -> Result<Self> {
        let mut runs = before.filter(|before| before.hours >= hours).cloned().unwrap_or_default();
        runs.hours = runs.hours.max(hours);
        let since = now.checked_sub(SignedDuration::from_hours(runs.hours)).unwrap_or(Timestamp::UNIX_EPOCH);
        let wanted: BTreeSet<&String> = names.iter().collect();
        runs.jobs.retain(|job, _| wanted.contains(job));
        let most = (2 * MOST / names.len().max(1)).clamp(4 * FEWEST, MOST_OF_ONE);
        for some in names.chunks(AT_A_TIME) {
            let read = try_join_all(some.iter().map(|job| read(locks, job, runs.jobs.get(job), since, most))).await?;
            for (job, (entries, from)) in some.iter().zip(read) {
                let known = runs.jobs.entry(job.clone()).or_default();
                runs.changes += u64::from(known.learn(entries, from));
            }
        }
        runs.forget(since);
        runs.changes += before.map_or(0, |before| before.changes);
        Ok(runs)
    }

    /// All records of this job, or of all, the latest written first.
    pub fn newest(&self, job: Option<&str>) -> Vec<&Entry> {
        let known: Vec<&Known> = match job {
            Some(job) => self.jobs.get(job).into_iter().collect(),
            None => self.jobs.values().collect(),
        };
        let mut newest: Vec<&Entry> = known.into_iter().flat_map(|known| known.records.values()).collect();
        newest.sort_by(|one, other| other.written.cmp(&one.written).then_with(|| one.job.cmp(&other.job)));
        newest
    }

    /// Since when all that was written of this job is known.
    pub fn since(&self, job: &str) -> Option<Timestamp> {
        self.jobs.get(job).map(|known| known.since)
    }

    /// Those that nobody has brought to an end.
    pub fn running(&self) -> impl Iterator<Item = &Entry> {
        let entries = self.jobs.values().flat_map(|known| known.records.values());
        entries.filter(|entry| entry.record.state == State::Running)
    }

    /// Leaves out what is too old, and the oldest of too many.
    fn forget(&mut self, since: Timestamp) {
        let all: usize = self.jobs.values().map(|known| known.records.len()).sum();
        let each = if all > MOST { (MOST / self.jobs.len().max(1)).max(FEWEST) } else { usize::MAX };
        for known in self.jobs.values_mut() {
            known.forget(since, each);
        }
    }
}

impl Known {
    /// Whether any of it is news.
    fn learn(&mut self, entries: Vec<Entry>, from: Option<Timestamp>) -> bool {
        if let Some(from) = from {
            self.since = from;
        }
        let mut is_news = false;
        for entry in entries {
            self.newest = self.newest.max(Some(entry.written));
            let key = Key::of(&entry);
            // That it was run is never replaced by that it was not.
            let keeps =
                |old: &Entry| *old == entry || (is_a_run(old) && !is_a_run(&entry)) || old.written > entry.written;
            if !self.records.get(&key).is_some_and(keeps) {
                self.records.insert(key, entry);
                is_news = true;
            }
        }
        is_news
    }

    fn forget(&mut self, since: Timestamp, most: usize) {
        let mut written: Vec<Timestamp> = self.records.values().map(|entry| entry.written).collect();
        written.sort_by_key(|at| Reverse(*at));
        let nth = |nth: usize| written.get(nth).copied().unwrap_or(Timestamp::MIN);
        let bound = since.min(nth(FEWEST - 1)).max(nth(most.saturating_sub(1)));
        self.records.retain(|_, entry| entry.written >= bound);
        self.since = self.since.max(bound);
    }
}

/// The records of a job that may be news, and since when they are all there are, if that is another time than before.
async fn read(
    locks: &Locks,
    job: &str,
    known: Option<&Known>,
    since: Timestamp,
    most: usize,
) -> Result<(Vec<Entry>, Option<Timestamp>)> {
    let ledger = Ledger::of(locks, job)?;
    let count = u32::try_from(most).unwrap_or(u32::MAX);
    if let Some(known) = known {
        let newest = known.newest.and_then(|newest| newest.checked_sub(LATE).ok());
        return Ok((ledger.newest_since(newest.unwrap_or(since), count).await?, None));
    }
    let mut entries = ledger.newest_since(since, count).await?;
    let from = if entries.len() < most { since } else { entries.last().map_or(since, |entry| entry.written) };
    if entries.len() < FEWEST {
        entries = ledger.newest_since(Timestamp::UNIX_EPOCH, u32::try_from(FEWEST).unwrap_or(u32::MAX)).await?;
    }
    Ok((entries, Some(from)))
}

fn is_a_run(entry: &Entry) -> bool {
    !matches!(entry.record.state, State::Skipped | State::Missed)
}

#[cfg(test)]
mod tests {
    use leasehold_schedule::Record;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_796_000_000 + second).unwrap()
    }

    fn entry(state: &str, tick: i64, written: i64) -> Entry {
        let text = format!(r#"{{"state":"{state}","node":"web","tick":"{}"}}"#, at(tick));
        let record: Record = serde_json::from_str(&text).unwrap();
        Entry { job: "a".into(), written: at(written), record }
    }

    #[test]
    fn what_ran_is_never_told_as_not_run() {
        let mut known = Known::default();
        assert!(known.learn(vec![entry("running", 0, 1)], Some(at(-10))));
        assert!(!known.learn(vec![entry("running", 0, 1)], None), "it was known");
        assert!(!known.learn(vec![entry("skipped", 0, 2)], None));
        assert!(known.learn(vec![entry("done", 0, 3)], None));
        assert!(!known.learn(vec![entry("running", 0, 1)], None), "that was before");
        assert!(known.learn(vec![entry("missed", 60, 61)], None));
        assert_eq!((known.records.len(), known.since, known.newest), (2, at(-10), Some(at(61))));
    }

    #[test]
    fn the_last_ones_are_kept_however_old_they_are() {
        let mut known = Known::default();
        known.learn((0..100).map(|n| entry("done", n, n)).collect(), Some(at(0)));
        known.forget(at(90), usize::MAX);
        assert_eq!((known.records.len(), known.since), (10, at(90)));
        known.forget(at(1000), usize::MAX);
        assert_eq!((known.records.len(), known.since), (FEWEST, at(95)));
        let mut known = Known::default();
        known.learn((0..100).map(|n| entry("done", n, n)).collect(), Some(at(0)));
        known.forget(at(0), 20);
        assert_eq!((known.records.len(), known.since), (20, at(80)), "no longer all of them");
    }

    #[test]
    fn steps_reach_back_as_far_as_is_asked_for() {
        let steps = [1, 23, 24, 100, 5000].map(|hours| Runs::step(SignedDuration::from_hours(hours)));
        assert_eq!(steps, [24, 24, 72, 168, 744]);
    }
}
