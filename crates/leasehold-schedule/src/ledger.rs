//! What ran, and what did not: a record in the store, and never the decider.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::store::{Note, NoteId, Search, Topic};
use leasehold::{LockName, Locks, Result, Tick};
use serde::{Deserialize, Serialize};

/// For how long it is kept where nothing else is said.
pub const KEEP: Duration = Duration::from_secs(30 * 24 * 3600);

/// How many records of one job are kept.
pub const MOST: u32 = 1000;

/// So many other records may have been written since the one that is looked for.
const LOOKED_BACK: u32 = 50;

/// How much of a run's output is kept.
const LONGEST_OUTPUT: usize = 8 * 1024;

const RUNS: Topic = Topic::of_all("runs");

/// What became of one tick, or of a run that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Which tick. Of a run that was asked for: when it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick: Option<jiff::Timestamp>,
    /// By whom it was asked for, and why; none if its schedule did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// How it stands.
    pub state: State,
    /// Which node: `host/pid/job`.
    pub node: String,
    /// When it began, by that node's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<jiff::Timestamp>,
    /// When it ended, by that node's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<jiff::Timestamp>,
    /// How often it was begun.
    #[serde(default)]
    pub attempts: u32,
    /// The fencing token, in digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Why it failed, or was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it wrote last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
}

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It runs; or its node has died, and nobody has said so yet.
    Running,
    /// It did what it should.
    Done,
    /// It failed.
    Failed,
    /// Its lock was lost, or its time limit was over.
    Lost,
    /// Its node was stopped.
    Stopped,
    /// It was not run: the job was still running, or paused.
    Skipped,
    /// It was not run: nobody was there.
    Missed,
}

/// The record of one job's runs.
#[derive(Debug, Clone)]
pub struct Ledger<'a> {
    locks: &'a Locks,
    topic: Topic,
    keep: Duration,
}

impl<'a> Ledger<'a> {
    /// That of this job.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](leasehold::ErrorKind::Invalid): the name is not legal.
    pub fn of(locks: &'a Locks, job: &str) -> Result<Self> {
        Ok(Self { locks, topic: RUNS.about(LockName::new(job)?), keep: KEEP })
    }

    /// The newest records, the latest written first.
    ///
    /// # Errors
    /// The store keeps no notes, or can't say. Records that this version can't read are left out.
    pub async fn newest(&self, most: u32) -> Result<Vec<Record>> {
        let notes = self.locks.notes()?.notes(&Search::newest(self.topic.clone(), most)).await?;
        Ok(notes.iter().filter_map(|noted| serde_json::from_str(&noted.text).ok()).collect())
    }

    /// Writes one record, in the place of what was known of it under this `id`.
    pub(crate) async fn write(&self, id: &str, record: &Record) -> Result<()> {
        self.write_all(std::iter::once((id.to_owned(), record.clone()))).await
    }

    /// Writes down that these ticks are not run, where nothing else is known of them; which these were.
    pub(crate) async fn not_run(&self, ticks: &[jiff::Timestamp], record: &Record) -> Result<Vec<jiff::Timestamp>> {
        if ticks.is_empty() {
            return Ok(Vec::new());
        }
        let most = u32::try_from(ticks.len()).unwrap_or(MOST).saturating_add(LOOKED_BACK);
        let known: BTreeSet<_> = self.newest(most).await?.into_iter().filter_map(|record| record.tick).collect();
        let unknown: Vec<_> = ticks.iter().copied().filter(|tick| !known.contains(tick)).collect();
        let not_run = |tick: &jiff::Timestamp| (tick.to_string(), Record { tick: Some(*tick), ..record.clone() });
        self.write_all(unknown.iter().map(not_run)).await?;
        Ok(unknown)
    }

    async fn write_all(&self, records: impl Iterator<Item = (String, Record)>) -> Result<()> {
        let note = |(id, mut record): (String, Record)| {
            shorten(&mut record.output);
            let text = serde_json::to_string(&record).expect("a record has no maps");
            Ok(Note { topic: self.topic.clone(), id: NoteId::new(&id)?, text, keep: self.keep, most: MOST })
        };
        let notes: Vec<Note> = records.map(note).collect::<Result<_>>()?;
        if notes.is_empty() { Ok(()) } else { self.locks.notes()?.note(&notes).await }
    }
}

impl Record {
    pub(crate) fn of(state: State, node: &str) -> Self {
        Self {
            tick: None,
            asked: None,
            state,
            node: node.to_owned(),
            started: None,
            ended: None,
            attempts: 0,
            token: None,
            reason: None,
            output: String::new(),
        }
    }
}

/// Which instant a tick is.
pub(crate) fn instant(tick: Tick) -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(tick.as_unix_millis()).expect("a tick is an instant of the calendar")
}

/// The tick at an instant, in whole milliseconds; none before 1970.
pub(crate) fn tick(instant: jiff::Timestamp) -> Option<Tick> {
    Tick::from_unix_millis(instant.as_millisecond())
}

/// What was written last, from a whole line on where there is one.
fn shorten(output: &mut String) {
    if output.len() <= LONGEST_OUTPUT {
        return;
    }
    let from = output.len() - LONGEST_OUTPUT;
    let from = (from..output.len()).find(|at| output.is_char_boundary(*at)).unwrap_or(output.len());
    let line = output[from..].find('\n').map_or(from, |at| from + at + 1);
    output.drain(..if line < output.len() { line } else { from });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_much_output_the_last_lines_are_kept() {
        let mut output: String = (0..5000).map(|line| format!("line {line} ä\n")).collect();
        shorten(&mut output);
        assert!(output.len() <= LONGEST_OUTPUT && output.starts_with("line ") && output.ends_with("line 4999 ä\n"));
        let mut one_line = "ä".repeat(LONGEST_OUTPUT);
        shorten(&mut one_line);
        assert_eq!(one_line, "ä".repeat(LONGEST_OUTPUT / 2));
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = Record { reason: Some("exit 3".into()), ..Record::of(State::Failed, "web-1/7/backup") };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
        assert_eq!(text, r#"{"state":"failed","node":"web-1/7/backup","attempts":0,"reason":"exit 3"}"#);
    }
}
