//! `/runs`: what ran, what did not, and what operators did.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use jiff::{SignedDuration, Timestamp};
use leasehold_schedule::{Entry, State as Standing};
use serde::{Deserialize, Serialize};

use super::Served;
use super::asked::{self, Asked};
use super::problem::Problem;
use super::shown::{Freshness, instant};
use crate::snapshot::listing::Listing;

/// What is shown where nothing else is asked for.
const USUAL_SPAN: SignedDuration = SignedDuration::from_hours(24);
const USUAL: usize = 1000;
const MOST: usize = 5000;

/// Of one job's ledger there is no more.
const MOST_OF_ONE: u32 = 1000;

/// So much of what a run wrote last is told of many runs; of one job's all that is kept.
const SHORT_OUTPUT: usize = 1024;

/// A run gives its lock back before it says how it went: until then it is not taken for dead.
const LAST_WORDS: SignedDuration = SignedDuration::from_secs(5);

#[derive(Deserialize)]
pub(super) struct Query {
    from: Option<String>,
    to: Option<String>,
    job: Option<String>,
    limit: Option<String>,
}

#[derive(Serialize)]
pub(super) struct Runs {
    from: String,
    to: String,
    #[serde(flatten)]
    freshness: Freshness,
    runs: Vec<Run>,
}

/// A record of a ledger, and of which job.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    job: String,
    tick: Option<String>,
    asked: Option<String>,
    state: &'static str,
    node: String,
    started: Option<String>,
    ended: Option<String>,
    written: String,
    attempts: u32,
    token: Option<String>,
    reason: Option<String>,
    output: String,
}

pub(super) async fn runs(State(served): State<Arc<Served>>, Asked(query): Asked<Query>) -> Result<Json<Runs>, Problem> {
    let job = query.job.as_deref().filter(|job| !job.is_empty());
    let job = job.map(|job| asked::name("job", Some(job))).transpose()?;
    let limit = asked::number("limit", query.limit.as_deref(), USUAL, 1..=MOST)?;
    let (from, to) = (asked::instant("from", query.from.as_deref())?, asked::instant("to", query.to.as_deref())?);
    let now = served.snapshot.now().await?;
    let to = to.unwrap_or(now);
    let from = from.unwrap_or_else(|| to.checked_sub(USUAL_SPAN).unwrap_or(Timestamp::MIN));
    if from > to {
        return Err(Problem::bad(format!("from={from} is after to={to}")));
    }

    let (seen, listing) = (served.snapshot.runs(Some(from)).await?, served.snapshot.listing().await?.value);
    if let Some(job) = &job {
        served.knows(job.as_str()).await?;
    }
    let is_within = |entry: &Entry| overlaps(entry, from, to);
    let tells = Tells { listing: &listing, now, whole: job.is_some() };
    // Of a job that runs more often than is known of all of them, or whose turn has not come yet, its own ledger is read.
    let short = job.as_ref().filter(|job| seen.value.since(job.as_str()).is_none_or(|since| since > from));
    let (freshness, runs) = match short {
        Some(job) if now.duration_since(from) < SignedDuration::from_hours(31 * 24) => {
            let seen = served.snapshot.records(job.as_str(), from, MOST_OF_ONE).await?;
            let runs = seen.value.iter().filter(|entry| is_within(entry)).take(limit).map(|entry| tells.run(entry));
            (Freshness::of(&seen), runs.collect())
        }
        _ => {
            let newest = seen.value.newest(job.as_ref().map(leasehold::LockName::as_str));
            let runs = newest.into_iter().filter(|entry| is_within(entry)).take(limit).map(|entry| tells.run(entry));
            (Freshness::of(&seen), runs.collect())
        }
    };
    Ok(Json(Runs { from: instant(from), to: instant(to), freshness, runs }))
}

/// Whether any of it lies between the two.
fn overlaps(entry: &Entry, from: Timestamp, to: Timestamp) -> bool {
    let record = &entry.record;
    let begins = record.started.or(record.tick).unwrap_or(entry.written);
    let is_over = record.state != Standing::Running;
    begins <= to && (!is_over || record.ended.unwrap_or(entry.written).max(begins) >= from)
}

/// What is needed to tell of a run.
pub(super) struct Tells<'a> {
    pub listing: &'a Listing,
    pub now: Timestamp,
    /// All that is kept of what it wrote.
    pub whole: bool,
}

impl Tells<'_> {
    pub fn run(&self, entry: &Entry) -> Run {
        let record = &entry.record;
        let shown = |at: Option<Timestamp>| at.map(instant);
        Run {
            job: entry.job.clone(),
            tick: shown(record.tick),
            asked: record.asked.clone(),
            state: if self.is_gone(entry) { "gone" } else { record.state.word() },
            node: record.node.clone(),
            started: shown(record.started),
            ended: shown(record.ended),
            written: instant(entry.written),
            attempts: record.attempts,
            token: record.token.clone(),
            reason: record.reason.clone(),
            output: if self.whole { record.output.clone() } else { last_of(&record.output).to_owned() },
        }
    }

    /// Whether it runs, by its record and its lock.
    pub fn is_running(&self, entry: &Entry) -> bool {
        entry.record.state == Standing::Running && !self.is_gone(entry)
    }

    /// It was begun, nobody has said how it ended, and nobody holds its lock: its node has died.
    fn is_gone(&self, entry: &Entry) -> bool {
        entry.record.state == Standing::Running
            && self.listing.at.duration_since(entry.written) > LAST_WORDS
            && self.now.duration_since(entry.written) > LAST_WORDS
            && !self
                .listing
                .of(&entry.job)
                .is_some_and(|lock| tokens(lock).contains(entry.record.token.as_deref().unwrap_or_default()))
    }
}

/// Under which tokens a lock is held.
fn tokens(lock: &leasehold::Holding) -> HashSet<String> {
    let others = lock.others.iter().filter(|other| other.holder.is_some()).map(|other| other.token.to_string());
    lock.holder.map(|_| lock.token.to_string()).into_iter().chain(others).collect()
}

/// The last lines of it.
fn last_of(output: &str) -> &str {
    if output.len() <= SHORT_OUTPUT {
        return output;
    }
    let rest = &output[output.ceil_char_boundary(output.len() - SHORT_OUTPUT)..];
    rest.split_once('\n').map_or(rest, |(_, lines)| lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_much_output_the_last_lines_are_told() {
        assert_eq!(last_of("one\ntwo\n"), "one\ntwo\n");
        let long = "ä line\n".repeat(500);
        assert!(last_of(&long).len() <= SHORT_OUTPUT && last_of(&long).starts_with("ä line\n"));
        assert_eq!(last_of(&"ä".repeat(1000)).len(), SHORT_OUTPUT);
    }

    #[test]
    fn a_run_is_told_of_where_any_of_it_lies_within() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let entry = |text: &str, written| Entry {
            job: "a".into(),
            written: at(written),
            record: serde_json::from_str(text).unwrap(),
        };
        let done = entry(
            r#"{"state":"done","node":"w","started":"1970-01-01T00:01:00Z","ended":"1970-01-01T00:02:00Z"}"#,
            120,
        );
        for (from, to, within) in [(0, 59, false), (0, 60, true), (90, 100, true), (120, 200, true), (121, 200, false)]
        {
            assert_eq!(overlaps(&done, at(from), at(to)), within, "{from} {to}");
        }
        let running = entry(r#"{"state":"running","node":"w","started":"1970-01-01T00:01:00Z"}"#, 60);
        assert!(overlaps(&running, at(5000), at(6000)) && !overlaps(&running, at(0), at(59)));
    }
}
