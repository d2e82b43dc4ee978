//! What the fleet knows of its jobs, beside their locks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use leasehold::store::{Note, NoteId, Noted, Search, Topic};
use leasehold::{Locks, Result};
use serde::{Deserialize, Serialize};

use crate::instant;
use crate::job::Job;
use crate::ledger::Ledger;

const JOBS: Topic = Topic::of_all("jobs");

/// For how long a job is known that no scheduler has had in its list any more.
const KEEP: Duration = Duration::from_secs(400 * 24 * 3600);

/// A note older than this is written again at a start.
const FRESH: Duration = Duration::from_secs(30 * 24 * 3600);

/// So many jobs a fleet may have.
const MOST: u32 = 100_000;

/// So many notes are read at a time.
const PAGE: u32 = 1000;

/// So many are written at a time: nobody is kept waiting by a fleet that starts.
const AT_ONCE: usize = 500;

/// So many records of a job that was taken out are looked at.
const RECORDS: u32 = 50;

/// Of so many schedules of a job it is known since when it had them: while a fleet is being updated, two take turns.
const SCHEDULES: usize = 4;

/// A job that some scheduler has, or had within the last year.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownJob {
    /// Its name.
    pub name: String,
    /// When it is due, as the scheduler that started last with another schedule than the others had it: the expression, and the
    /// zone behind it.
    pub when: String,
    /// Since when it is known under that schedule, by the store's clock.
    pub since: Timestamp,
}

/// What is known of one job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    /// The newest first.
    schedules: Vec<Since>,
    /// A running scheduler has been told to have it no more, and none since to have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_gone: bool,
}

/// Since when a job has had a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Since {
    when: String,
    since: Timestamp,
}

/// Since when each of these jobs is known under the schedule that it has, by the store's clock: from then on its ticks count.
/// A new job, and one whose schedule has changed or which was taken out and put back, begins at its next tick; one that every node knew
/// before is made up for, and so is one that was taken out on some nodes while others went on with it.
///
/// # Errors
/// The store keeps no notes, or can't say.
pub(crate) async fn known_since(locks: &Locks, jobs: &[Job]) -> Result<Vec<Timestamp>> {
    let now = locks.time().await?;
    let mut known = read(locks).await?;
    let (mut since, mut changed) = (Vec::new(), Vec::new());
    for job in jobs {
        let (written, mut known) = known.remove(job.name()).unwrap_or_default();
        let when = when(job);
        let was_gone = std::mem::take(&mut known.is_gone);
        if was_gone && !goes_on(locks, job, instant::shown(written)).await? {
            known.schedules.retain(|known| known.when != when);
        }
        let first = known.schedules.iter().find(|known| known.when == when).map(|known| known.since);
        // It may have been written by a store's clock that was ahead.
        let begins = first.unwrap_or(Timestamp::MAX).min(instant::shown(now));
        since.push(begins);
        if first.is_none() {
            known.schedules.insert(0, Since { when, since: begins });
            known.schedules.truncate(SCHEDULES);
        } else if !was_gone && now.saturating_sub(written) < FRESH {
            continue;
        }
        changed.push(note(job.name(), &known)?);
    }
    write(locks, &changed).await?;
    Ok(since)
}

/// Whether anything is known of a tick of a job that was due after some node had it no more: then another had it still.
async fn goes_on(locks: &Locks, job: &Job, gone: Timestamp) -> Result<bool> {
    let since = Ledger::of(locks, job.name())?.newest_since(gone, RECORDS).await?;
    Ok(since.iter().any(|entry| entry.record.tick.is_some_and(|tick| tick > gone)))
}

/// Has the fleet know that these jobs were taken out of the list of a running scheduler. Where one is put back, it begins at its next tick.
/// Each scheduler says so: when the last one did is what counts.
///
/// # Errors
/// The store keeps no notes, or can't say.
pub(crate) async fn are_gone(locks: &Locks, jobs: &BTreeSet<String>) -> Result<()> {
    if jobs.is_empty() {
        return Ok(());
    }
    let known = read(locks).await?.into_iter().filter(|(job, _)| jobs.contains(job));
    let gone: Vec<_> =
        known.map(|(job, (_, known))| note(&job, &Known { is_gone: true, ..known })).collect::<Result<_>>()?;
    write(locks, &gone).await
}

fn note(job: &str, known: &Known) -> Result<Note> {
    let text = serde_json::to_string(known).expect("it has no maps");
    Ok(Note { topic: JOBS, id: NoteId::new(job)?, text, keep: KEEP, most: MOST })
}

async fn write(locks: &Locks, notes: &[Note]) -> Result<()> {
    for some in notes.chunks(AT_ONCE) {
        locks.notes()?.note(some).await?;
    }
    Ok(())
}

/// Every job that is known, by name.
pub(crate) async fn known(locks: &Locks) -> Result<Vec<KnownJob>> {
    let known = |(name, (_, known)): (String, (Duration, Known))| {
        let Since { when, since } = known.schedules.into_iter().next()?;
        Some(KnownJob { name, when, since })
    };
    Ok(read(locks).await?.into_iter().filter_map(known).collect())
}

/// What is known of each job, and when it was written.
async fn read(locks: &Locks) -> Result<BTreeMap<String, (Duration, Known)>> {
    let mut known = BTreeMap::new();
    let mut search = Search::newest(JOBS, PAGE);
    loop {
        let page = locks.notes()?.notes(&search).await?;
        let Some(Noted { at, id, .. }) = page.last() else { return Ok(known) };
        search.after = Some((*at, id.clone()));
        for Noted { at, id, text } in page {
            // What a later version has written in another way is new to this one.
            known.insert(id.to_string(), (at, serde_json::from_str(&text).unwrap_or_default()));
        }
    }
}

/// When a job is due, as a text that changes when its ticks do.
fn when(job: &Job) -> String {
    format!("{} {}", job.schedule.expression(), job.schedule.zone().unwrap_or("UTC"))
}
