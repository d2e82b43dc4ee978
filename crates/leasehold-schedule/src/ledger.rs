//! What ran, and what did not: a record in the store, which decides nothing but that what was skipped is not run by who starts later.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;
use leasehold::store::{Note, NoteId, Noted, Search, Topic};
use leasehold::{LockName, Locks, Result};

use crate::instant;
use crate::record::{Entry, Record};
use crate::state::State;

/// For how long it is kept where nothing else is said.
pub const KEEP: Duration = Duration::from_secs(30 * 24 * 3600);

/// How many records of one job are kept; fewer where a scheduler has very many jobs.
pub const MOST: u32 = 1000;

/// So many are kept of the jobs of one scheduler together, for they lie in the store that has the locks, most often in its memory;
const MOST_TOGETHER: usize = 1_000_000;

/// but no fewer of each than so many: behind the records of ticks that were skipped stands that of the run for which they were.
const LEAST: u32 = 200;

/// So many notes are read at a time: most often what is looked for is among the newest.
const PAGE: u32 = 50;

/// Nothing is written of a tick before it is due but by a clock that is fast: the store lets such a one claim it up to five minutes
/// early, and the clocks of several servers differ besides.
const EARLY: SignedDuration = SignedDuration::from_mins(10);

/// Stands behind a tick in the id of the record that it was not run: whoever has run it may not know of that one.
const NOT_RUN: &str = "~";

const RUNS: Topic = Topic::of_all("runs");

/// The record of one job's runs.
#[derive(Debug, Clone)]
pub struct Ledger<'a> {
    locks: &'a Locks,
    topic: Topic,
    keep: Duration,
    most: u32,
}

impl<'a> Ledger<'a> {
    /// That of this job.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](leasehold::ErrorKind::Invalid): the name is not legal.
    pub fn of(locks: &'a Locks, job: &str) -> Result<Self> {
        Ok(Self { locks, topic: RUNS.about(LockName::new(job)?), keep: KEEP, most: MOST })
    }

    /// The same, which keeps so many records at most.
    pub(crate) fn keeping(self, most: u32) -> Self {
        Self { most, ..self }
    }

    /// The newest records, the latest written first.
    ///
    /// # Errors
    /// The store keeps no notes, or can't say. Records that this version can't read are left out.
    pub async fn newest(&self, most: u32) -> Result<Vec<Record>> {
        let entries = self.newest_since(jiff::Timestamp::UNIX_EPOCH, most).await?;
        Ok(entries.into_iter().map(|entry| entry.record).collect())
    }

    /// The newest of those that were written at this time of the store's clock or later, the latest written first.
    ///
    /// # Errors
    /// As for [`newest`](Self::newest).
    pub async fn newest_since(&self, since: jiff::Timestamp, most: u32) -> Result<Vec<Entry>> {
        let search = Search { since: instant::since_1970(since), ..Search::newest(self.topic.clone(), most) };
        let notes = self.locks.notes()?.notes(&search).await?;
        let runs = self.runs_beside(&notes).await?;
        let is_run_after_all = |noted: &&Noted| run_beside(&noted.id).is_some_and(|run| runs.contains(run));
        Ok(notes.iter().filter(|noted| !is_run_after_all(noted)).filter_map(|noted| self.entry(noted)).collect())
    }

    /// What is known of one tick, or of a run that was asked for at that instant.
    ///
    /// # Errors
    /// As for [`newest`](Self::newest).
    pub async fn of_tick(&self, tick: jiff::Timestamp) -> Result<Option<Record>> {
        Ok(self.entry_of(tick).await?.map(|entry| entry.record))
    }

    /// The same, and when it was written last.
    ///
    /// # Errors
    /// As for [`newest`](Self::newest).
    pub async fn entry_of(&self, tick: jiff::Timestamp) -> Result<Option<Entry>> {
        let (mut pages, mut not_run) = (Pages::back_to(self, tick), None);
        while let Some(page) = pages.next().await? {
            for entry in
                page.iter().filter_map(|noted| self.entry(noted)).filter(|entry| entry.record.tick == Some(tick))
            {
                if entry.record.state.is_of_a_run() {
                    return Ok(Some(entry));
                }
                not_run = Some(entry);
            }
        }
        Ok(not_run)
    }

    fn entry(&self, noted: &Noted) -> Option<Entry> {
        let job = self.topic.name.as_ref().map_or("", LockName::as_str);
        Some(Entry { job: job.to_owned(), written: instant::shown(noted.at), record: record(noted)? })
    }

    /// What is known of the run of a tick.
    pub(crate) async fn run_of(&self, tick: jiff::Timestamp) -> Result<Option<Record>> {
        Ok(self.of_tick(tick).await?.filter(|record| record.state.is_of_a_run()))
    }

    /// Those of the runs that stand beside what says that they were not run: here, or further back.
    async fn runs_beside(&self, notes: &[Noted]) -> Result<BTreeSet<String>> {
        let not_run = || notes.iter().filter_map(|noted| run_beside(&noted.id));
        let is_asked_for: BTreeSet<_> = not_run().collect();
        let is_its = |noted: &Noted| is_asked_for.contains(noted.id.as_str());
        let mut runs: BTreeSet<_> =
            notes.iter().filter(|noted| is_its(noted)).map(|noted| noted.id.to_string()).collect();
        let others = not_run().filter(|run| !runs.contains(*run)).filter_map(|run| run.parse::<jiff::Timestamp>().ok());
        let (Some(oldest), Some(last)) = (others.min(), notes.last()) else { return Ok(runs) };
        let mut pages = Pages::back_to(self, oldest);
        pages.search.after = Some((last.at, last.id.clone()));
        while let Some(page) = pages.next().await? {
            runs.extend(page.iter().filter(|noted| is_its(noted)).map(|noted| noted.id.to_string()));
        }
        Ok(runs)
    }

    /// Whether nothing is known of a tick, and nothing can have been forgotten: of what was written since no more than is kept.
    pub(crate) async fn is_silent_of(&self, tick: jiff::Timestamp) -> Result<bool> {
        let (mut pages, mut read) = (Pages::back_to(self, tick), 0);
        let most = usize::try_from(self.most).unwrap_or(usize::MAX);
        while let Some(page) = pages.next().await? {
            read += page.iter().filter(|noted| instant::shown(noted.at) >= tick).count();
            if read >= most || page.iter().filter_map(record).any(|record| record.tick == Some(tick)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The ticks that nobody has brought to an end, as far as is known, back to the last run that has ended: many may have been
    /// skipped since. Where runs go on beside one another an older one may be open than that one: then all that is kept is read.
    pub(crate) async fn open(&self, side_by_side: bool) -> Result<Vec<jiff::Timestamp>> {
        let (mut pages, mut open) = (Pages::back_to(self, jiff::Timestamp::UNIX_EPOCH), Vec::new());
        for _ in 0..MOST.div_ceil(PAGE) {
            let Some(page) = pages.next().await? else { break };
            let (ended, others): (Vec<_>, Vec<_>) =
                page.iter().filter_map(record).partition(|record| matches!(record.state, State::Done | State::Failed));
            let is_open = |record: &Record| matches!(record.state, State::Running | State::Lost | State::Stopped);
            open.extend(others.into_iter().filter(is_open).filter_map(|record| record.tick));
            if !ended.is_empty() && !side_by_side {
                break;
            }
        }
        Ok(open)
    }

    /// Those of these ticks that are newer than what is known of the job before an instant, and not too old to be of interest.
    pub(crate) async fn unknown(
        &self,
        ticks: &[jiff::Timestamp],
        before: Option<jiff::Timestamp>,
    ) -> Result<Vec<jiff::Timestamp>> {
        let Some(oldest) = ticks.first() else { return Ok(Vec::new()) };
        let (mut pages, mut known) = (Pages::back_to(self, *oldest), None);
        while let Some(page) = pages.next().await? {
            let of_it = page.iter().filter_map(|noted| record(noted)?.tick);
            known = known.max(of_it.filter(|tick| before.is_none_or(|before| *tick < before)).max());
        }
        let kept = ticks.last().and_then(|last| last.checked_sub(self.keep).ok());
        Ok(ticks.iter().copied().filter(|tick| Some(*tick) > known.max(kept)).collect())
    }

    /// That a tick is not run, as a note. What is known of a run of it stays, and is what is read.
    pub(crate) fn not_run(&self, tick: jiff::Timestamp, record: Record) -> Result<Note> {
        self.note(&format!("{tick}{NOT_RUN}"), Record { tick: Some(tick), ..record })
    }

    /// A record as a note, in the place of what was known under this `id`.
    pub(crate) fn note(&self, id: &str, mut record: Record) -> Result<Note> {
        record.shorten();
        let text = serde_json::to_string(&record).expect("a record has no maps");
        Ok(Note { topic: self.topic.clone(), id: NoteId::new(id)?, text, keep: self.keep, most: self.most })
    }

    /// What an operator did, as a note.
    pub(crate) fn act(&self, state: State, by: &str, why: &str, at: jiff::Timestamp) -> Result<Note> {
        let reason = Some(why.to_owned()).filter(|why| !why.is_empty());
        self.note(&format!("{at} {state}"), Record { started: Some(at), reason, ..Record::of(state, by) })
    }
}

/// How many records a scheduler that has so many jobs keeps of each.
pub(crate) fn kept_of_each(jobs: usize) -> u32 {
    u32::try_from(MOST_TOGETHER / jobs.max(1)).unwrap_or(MOST).clamp(LEAST, MOST)
}

/// The notes of a ledger page by page, the latest written first.
struct Pages<'a> {
    locks: &'a Locks,
    search: Search,
}

impl<'a> Pages<'a> {
    /// All that may have been written of ticks from this one on: not the whole ledger.
    fn back_to(ledger: &Ledger<'a>, oldest: jiff::Timestamp) -> Self {
        let since = instant::since_1970(oldest.checked_sub(EARLY).unwrap_or(oldest));
        Self { locks: ledger.locks, search: Search { since, ..Search::newest(ledger.topic.clone(), PAGE) } }
    }

    /// The next one; none if there are no more.
    async fn next(&mut self) -> Result<Option<Vec<Noted>>> {
        let page = self.locks.notes()?.notes(&self.search).await?;
        let Some(last) = page.last() else { return Ok(None) };
        self.search.after = Some((last.at, last.id.clone()));
        Ok(Some(page))
    }
}

/// What a note says, if this version can read it.
fn record(noted: &Noted) -> Option<Record> {
    serde_json::from_str(&noted.text).ok()
}

/// Under which id the run stands, if there was one, of a tick that is said not to have been run.
fn run_beside(id: &NoteId) -> Option<&str> {
    id.as_str().strip_suffix(NOT_RUN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_jobs_fewer_records_are_kept_of_each() {
        assert_eq!([0, 1, 1000, 2000, 10_000, 100_000].map(kept_of_each), [1000, 1000, 1000, 500, 200, 200]);
        let locks = Locks::over(std::sync::Arc::new(leasehold::stores::Memory::default()));
        let ledger = Ledger::of(&locks, "job").unwrap().keeping(500);
        assert_eq!(ledger.note("1", Record::of(State::Done, "web")).unwrap().most, 500);
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_tick_only_what_was_written_about_then_is_read() {
        let clock = std::sync::Arc::new(leasehold_testkit::PausedClock::start());
        let store = leasehold::stores::Memory::new(clock.clone());
        let locks = Locks::builder().simulated(clock).over(std::sync::Arc::new(store));
        let ledger = Ledger::of(&locks, "job").unwrap();
        let mut ticks = Vec::new();
        for _ in 0..100 {
            let tick = instant::shown(locks.time().await.unwrap());
            let record = Record { tick: Some(tick), ..Record::of(State::Done, "web") };
            locks.notes().unwrap().note(&[ledger.note(&tick.to_string(), record).unwrap()]).await.unwrap();
            ticks.push(tick);
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        let last = ticks[99];
        let read = Pages::back_to(&ledger, last).next().await.unwrap().unwrap().len();
        assert!((10..=12).contains(&read), "those of ten minutes, and not {read}");
        assert_eq!(ledger.run_of(last).await.unwrap().unwrap().state, State::Done);
        let other = last + SignedDuration::from_secs(1);
        assert_eq!(ledger.unknown(&[ticks[90], last, other], None).await.unwrap(), [other], "the others ran");
        assert_eq!(
            ledger.unknown(&[ticks[98]], Some(ticks[98])).await.unwrap(),
            [ticks[98]],
            "nothing is known before it"
        );
        let skipped = ledger.not_run(other, Record::of(State::Skipped, "web")).unwrap();
        locks.notes().unwrap().note(&[skipped]).await.unwrap();
        assert_eq!(ledger.of_tick(other).await.unwrap().unwrap().state, State::Skipped);
        assert_eq!(ledger.run_of(other).await.unwrap(), None);
    }

    /// An older run may go on beside others.
    #[tokio::test(start_paused = true)]
    async fn what_is_open_behind_what_ended_since_is_found_where_runs_go_on_side_by_side() {
        let clock = std::sync::Arc::new(leasehold_testkit::PausedClock::start());
        let store = leasehold::stores::Memory::new(clock.clone());
        let locks = Locks::builder().simulated(clock).over(std::sync::Arc::new(store));
        let ledger = Ledger::of(&locks, "job").unwrap().keeping(300);
        let first = instant::shown(locks.time().await.unwrap());
        for nth in 0..200 {
            let tick = first + SignedDuration::from_secs(nth);
            let state = if nth == 0 { State::Running } else { State::Done };
            let record = Record { tick: Some(tick), ..Record::of(state, "web") };
            locks.notes().unwrap().note(&[ledger.note(&tick.to_string(), record).unwrap()]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(ledger.open(true).await.unwrap(), [first]);
        assert_eq!(ledger.open(false).await.unwrap(), [], "what has ended last has the lock after it");
    }

    /// Then nobody can say of a tick that it was never run.
    #[tokio::test(start_paused = true)]
    async fn what_may_have_been_forgotten_is_not_unknown() {
        let clock = std::sync::Arc::new(leasehold_testkit::PausedClock::start());
        let store = leasehold::stores::Memory::new(clock.clone());
        let locks = Locks::builder().simulated(clock).over(std::sync::Arc::new(store));
        let ledger = Ledger::of(&locks, "job").unwrap().keeping(60);
        let asked = instant::shown(locks.time().await.unwrap());
        let mut silent = Vec::new();
        for nth in 1..=60 {
            tokio::time::sleep(Duration::from_secs(60)).await;
            let tick = instant::shown(locks.time().await.unwrap());
            let record = Record { tick: Some(tick), ..Record::of(State::Done, "web") };
            locks.notes().unwrap().note(&[ledger.note(&tick.to_string(), record).unwrap()]).await.unwrap();
            assert!(!ledger.is_silent_of(tick).await.unwrap(), "it ran");
            silent.extend(ledger.is_silent_of(asked).await.unwrap().then_some(nth));
        }
        assert_eq!(silent, (1..60).collect::<Vec<_>>());
    }

    /// Which many were skipped since, or made up for.
    #[tokio::test(start_paused = true)]
    async fn what_ran_is_found_behind_many_others() {
        let clock = std::sync::Arc::new(leasehold_testkit::PausedClock::start());
        let store = leasehold::stores::Memory::new(clock.clone());
        let locks = Locks::builder().simulated(clock).over(std::sync::Arc::new(store));
        let ledger = Ledger::of(&locks, "job").unwrap();
        let first = instant::shown(locks.time().await.unwrap());
        let done = Record { tick: Some(first), ..Record::of(State::Done, "web") };
        let mut notes = vec![ledger.note(&first.to_string(), done).unwrap()];
        let after = |seconds| first + SignedDuration::from_secs(seconds);
        notes.extend((1..=200).map(|n| ledger.not_run(after(n), Record::of(State::Skipped, "web")).unwrap()));
        notes.push(ledger.not_run(first, Record::of(State::Skipped, "late")).unwrap());
        for note in notes {
            locks.notes().unwrap().note(&[note]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(ledger.run_of(first).await.unwrap().unwrap().state, State::Done);
        assert_eq!(ledger.of_tick(first).await.unwrap().unwrap().state, State::Done);
        assert_eq!(ledger.unknown(&[first, after(1)], Some(after(1))).await.unwrap(), [after(1)], "the first ran");
        let newest: Vec<_> = ledger.newest(3).await.unwrap().into_iter().filter_map(|record| record.tick).collect();
        assert_eq!(newest, [after(200), after(199)], "of the first, that it was not run is not told");
    }

    /// A node that comes late may not know of a run, nor of how it ended.
    #[tokio::test]
    async fn what_was_run_is_never_told_as_not_run() {
        let locks = Locks::over(std::sync::Arc::new(leasehold::stores::Memory::default()));
        let ledger = Ledger::of(&locks, "job").unwrap();
        let tick: jiff::Timestamp = "2026-11-30T02:00:00Z".parse().unwrap();
        let done = Record { tick: Some(tick), ..Record::of(State::Done, "web-1") };
        let run = ledger.note(&tick.to_string(), done.clone()).unwrap();
        let skipped = ledger.not_run(tick, Record::of(State::Skipped, "web-2")).unwrap();
        locks.notes().unwrap().note(std::slice::from_ref(&skipped)).await.unwrap();
        assert_eq!(ledger.newest(10).await.unwrap()[0].state, State::Skipped);
        for notes in [[run.clone(), skipped.clone()], [skipped, run]] {
            locks.notes().unwrap().note(&notes).await.unwrap();
            assert_eq!(ledger.newest(10).await.unwrap(), std::slice::from_ref(&done));
        }
        assert_eq!(ledger.run_of(tick).await.unwrap(), Some(done));
    }
}
