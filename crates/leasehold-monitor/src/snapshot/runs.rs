//! What the ledgers of all jobs say, read bit by bit.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use leasehold::{Error, ErrorKind, Locks, Result};
use leasehold_schedule::{Entry, Ledger, State};
use tokio::time::{Instant, timeout_at};

use super::reading::LONGEST;

/// Of all jobs together about so many records are kept.
const MOST: usize = 10_000;

/// Of a job no more than so many are read; its ledger has no more.
const MOST_OF_ONE: usize = 1000;

/// So many of a job are known however old they are: the last run of one that comes monthly is among them.
const FEWEST: usize = 5;

/// So many ledgers are read at a time.
const AT_A_TIME: usize = 16;

/// What takes longer is shown as far as it was read, and gone on with the next time.
const ENOUGH: Duration = Duration::from_secs(5);

/// By then it has come to an end, or all that was read would be thrown away with it.
const AT_LAST: Duration = LONGEST.saturating_sub(Duration::from_secs(1));

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
    /// The job to go on with, if there was no time for all.
    pub next: Option<String>,
    /// Changes with what is known.
    pub changes: u64,
}

/// What is known of one job.
#[derive(Debug, Clone, Default)]
struct Known {
    records: BTreeMap<Key, Arc<Entry>>,
    /// More was asked for than it was read for.
    is_short: bool,
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

    /// What has changed since it was last read; of jobs that are new here, and where more was asked for, all. Where that takes too long, or
    /// some of it fails, it is what was read until then, and for the other jobs what was known before.
    ///
    /// # Errors
    /// Nothing could be read.
    pub async fn read(
        before: Option<&Self>,
        locks: &Locks,
        names: &[String],
        now: Timestamp,
        hours: i64,
    ) -> Result<Self> {
        let began = Instant::now();
        let mut runs = before.cloned().unwrap_or_default();
        if runs.hours < hours {
            runs.jobs.values_mut().for_each(|known| known.is_short = true);
            runs.hours = hours;
        }
        let since = now.checked_sub(SignedDuration::from_hours(runs.hours)).unwrap_or(Timestamp::UNIX_EPOCH);
        let wanted: BTreeSet<&String> = names.iter().collect();
        runs.jobs.retain(|job, _| wanted.contains(job));
        let most = (2 * MOST / names.len().max(1)).clamp(4 * FEWEST, MOST_OF_ONE);
        let names = beginning_with(runs.next.take().as_deref(), &wanted);
        let mut is_any_read = false;
        for some in names.chunks(AT_A_TIME) {
            if began.elapsed() > ENOUGH {
                runs.next = Some(some[0].clone());
                break;
            }
            let known = |job: &String| runs.jobs.get(job).filter(|known| !known.is_short);
            let reads = some.iter().map(|job| timeout_at(began + AT_LAST, read(locks, job, known(job), since, most)));
            let mut failed = None;
            for (job, answer) in some.iter().zip(join_all(reads).await) {
                match answer.unwrap_or_else(|_| Err(too_slow())) {
                    Ok((entries, from)) => {
                        let known = runs.jobs.entry((*job).clone()).or_default();
                        runs.changes += u64::from(known.learn(entries, from));
                        is_any_read = true;
                    }
                    Err(error) => failed = failed.or(Some((job, error))),
                }
            }
            match failed {
                Some((_, error)) if !is_any_read => return Err(error),
                Some((job, _)) => {
                    // One that never can be read is not begun with twice, or the others would never be read either.
                    let other = names.get(1).filter(|_| *job == names[0]);
                    runs.next = Some((*other.unwrap_or(job)).clone());
                    break;
                }
                None => {}
            }
        }
        runs.forget(since);
        Ok(runs)
    }

    /// All records of this job, or of all, the latest written first.
    pub fn newest(&self, job: Option<&str>) -> Vec<&Entry> {
        let known: Vec<&Known> = match job {
            Some(job) => self.jobs.get(job).into_iter().collect(),
            None => self.jobs.values().collect(),
        };
        let mut newest: Vec<&Entry> =
            known.into_iter().flat_map(|known| known.records.values()).map(Arc::as_ref).collect();
        newest.sort_by(|one, other| other.written.cmp(&one.written).then_with(|| one.job.cmp(&other.job)));
        newest
    }

    /// Since when all that was written of this job is known.
    pub fn since(&self, job: &str) -> Option<Timestamp> {
        self.jobs.get(job).map(|known| known.since)
    }

    /// Those that nobody has brought to an end.
    pub fn running(&self) -> impl Iterator<Item = &Entry> {
        let entries = self.jobs.values().flat_map(|known| known.records.values()).map(Arc::as_ref);
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
            self.is_short = false;
        }
        let mut is_news = false;
        for entry in entries {
            self.newest = self.newest.max(Some(entry.written));
            let key = Key::of(&entry);
            // That it was run is never replaced by that it was not.
            let keeps =
                |old: &Entry| *old == entry || (is_a_run(old) && !is_a_run(&entry)) || old.written > entry.written;
            if !self.records.get(&key).is_some_and(|old| keeps(old)) {
                self.records.insert(key, Arc::new(entry));
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

fn too_slow() -> Error {
    Error::new(ErrorKind::TimedOut, "the store has not told in time what ran")
}

/// All of them, this one first.
fn beginning_with<'a>(first: Option<&str>, names: &BTreeSet<&'a String>) -> Vec<&'a String> {
    let (after, before): (Vec<_>, Vec<_>) =
        names.iter().copied().partition(|name| first.is_none_or(|first| name.as_str() >= first));
    after.into_iter().chain(before).collect()
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
    use leasehold::store::{Note, NoteId, Topic};
    use leasehold::stores::Memory;
    use leasehold::{LockName, Store};
    use leasehold_schedule::Record;
    use leasehold_testkit::{Fault, Faulty, Operation};

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

    /// A store with so many jobs of which each has run once.
    async fn with_runs_of(names: &[String]) -> Arc<dyn Store> {
        let memory: Arc<dyn Store> = Arc::new(Memory::default());
        let locks = Locks::over(Arc::clone(&memory));
        for name in names {
            let topic = Topic::of_all("runs").about(LockName::new(name).unwrap());
            let (id, text) = (NoteId::new("a").unwrap(), r#"{"state":"done","node":"web"}"#.into());
            let note = Note { topic, id, text, keep: Duration::from_secs(3600), most: 10 };
            locks.notes().unwrap().note(&[note]).await.unwrap();
        }
        memory
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_read_is_kept_and_gone_on_with() {
        let names: Vec<String> = (0..80).map(|nth| format!("job-{nth:02}")).collect();
        let slow = Faulty::over(with_runs_of(&names).await);
        let faults = slow.faults();
        faults.always(Operation::ReadNotes, Fault::DelayRequest(Duration::from_secs(1)));
        let locks = Locks::over(Arc::new(slow));
        let now = crate::contention::instant(locks.time().await.unwrap());
        let read = async |before: Option<&Runs>, hours| Runs::read(before, &locks, &names, now, hours).await.unwrap();

        let first = read(None, 24).await;
        assert_eq!((first.jobs.len(), first.next.as_deref()), (48, Some("job-48")), "two calls for each");
        let second = read(Some(&first), 24).await;
        assert_eq!((second.jobs.len(), second.newest(None).len()), (80, 80));
        faults.heal();
        let third = read(Some(&second), 24).await;
        assert_eq!((third.next.as_deref(), third.changes), (None, second.changes), "nothing is new");
        faults.always(Operation::ReadNotes, Fault::DelayRequest(Duration::from_secs(1)));
        let fourth = read(Some(&third), 72).await;
        assert_eq!((fourth.jobs.len(), fourth.newest(None).len()), (80, 80), "those whose turn comes later stay");
        assert!(fourth.since("job-00") < third.since("job-00") && fourth.since("job-79") == third.since("job-79"));
        let fifth = read(Some(&fourth), 72).await;
        assert_eq!(fifth.since("job-79"), fourth.since("job-00"));
    }

    #[tokio::test(start_paused = true)]
    async fn one_call_that_fails_throws_nothing_away() {
        let names: Vec<String> = (0..80).map(|nth| format!("job-{nth:02}")).collect();
        let shaky = Faulty::over(with_runs_of(&names).await);
        let faults = shaky.faults();
        let locks = Locks::over(Arc::new(shaky));
        let now = crate::contention::instant(locks.time().await.unwrap());
        let read = async |before: Option<&Runs>| Runs::read(before, &locks, &names, now, 24).await;

        faults.next_few(79, Operation::ReadNotes, Fault::DelayRequest(Duration::ZERO));
        faults.next(Operation::ReadNotes, Fault::Fail(ErrorKind::Unavailable));
        let first = read(None).await.unwrap();
        let next = first.next.clone().expect("it is gone on with");
        assert!(first.jobs.len() < 80 && !first.jobs.contains_key(&next), "{next}");
        let second = read(Some(&first)).await.unwrap();
        assert_eq!((second.jobs.len(), second.next.as_deref()), (80, None));
        faults.cut();
        assert!(read(Some(&second)).await.is_err() && read(None).await.is_err(), "nothing could be read");
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_longer_than_any_read_may_throws_nothing_away() {
        let names: Vec<String> = (0..40).map(|nth| format!("job-{nth:02}")).collect();
        let slow = Faulty::over(with_runs_of(&names).await);
        let faults = slow.faults();
        let locks = Locks::over(Arc::new(slow));
        let now = crate::contention::instant(locks.time().await.unwrap());
        let reading = Arc::new(crate::snapshot::reading::Reading::default());
        let seen = async || {
            let (locks, names) = (locks.clone(), names.clone());
            let read = move |before: Option<Arc<Runs>>| async move {
                let runs = Runs::read(before.as_deref(), &locks, &names, now, 24).await?;
                Ok((runs, Duration::ZERO))
            };
            reading.seen(read).await
        };
        // Two calls for each of sixteen; then one hangs among the next of these.
        faults.next_few(40, Operation::ReadNotes, Fault::DelayRequest(Duration::from_secs(1)));
        faults.next(Operation::ReadNotes, Fault::HangBefore);
        let first = seen().await.map_err(|away| away.error).unwrap().value;
        assert!((16..40).contains(&first.jobs.len()) && first.next.is_some(), "{}", first.jobs.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_never_can_be_read_keeps_no_other_from_it() {
        let names: Vec<String> = (0..40).map(|nth| format!("job-{nth:02}")).collect();
        let locks = Locks::over(with_runs_of(&names).await);
        let now = crate::contention::instant(locks.time().await.unwrap());
        let ill = "a".repeat(10_000);
        let names: Vec<String> = names.into_iter().chain([ill.clone()]).collect();
        let mut runs = None;
        for _ in 0..3 {
            runs = Some(Runs::read(runs.as_ref(), &locks, &names, now, 24).await.unwrap());
        }
        let runs = runs.unwrap();
        assert!(runs.jobs.len() == 40 && !runs.jobs.contains_key(&ill), "{}", runs.jobs.len());
    }

    #[test]
    fn steps_reach_back_as_far_as_is_asked_for() {
        let steps = [1, 23, 24, 100, 5000].map(|hours| Runs::step(SignedDuration::from_hours(hours)));
        assert_eq!(steps, [24, 24, 72, 168, 744]);
    }
}
