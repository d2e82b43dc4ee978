//! `schedule --check`: what would run next. Starts nothing, and asks no store.

use jiff::tz::TimeZone;
use leasehold_schedule::Timestamp;
use serde::Serialize;

use crate::exit::Failure;
use crate::jobs::{Entry, Jobs};
use crate::output;

/// A job, and when it is due. The shape is a promise to scripts: fields may be added, none goes.
#[derive(Serialize)]
struct Row {
    job: String,
    next: Option<String>,
    next_utc: Option<String>,
    schedule: String,
    command: String,
    line: usize,
}

/// Answers with the jobs, the one that is due first in front.
///
/// # Errors
/// Where stdout can't be written to.
pub fn check(jobs: &Jobs, json: bool) -> Result<(), Failure> {
    let now = Timestamp::now();
    let mut entries: Vec<_> = jobs.entries.iter().map(|entry| (entry.schedule.next_after(now), entry)).collect();
    entries.sort_by_key(|(next, entry)| (next.is_none(), *next, entry.line));
    let rows = entries.into_iter().map(|(next, entry)| row(next, entry));
    if json {
        return output::json(&rows.collect::<Vec<_>>());
    }
    let row = |row: Row| {
        let next = row.next.unwrap_or_else(|| "never again".into());
        [row.job, next, row.schedule, row.command].map(|cell| shortened(&output::plain(&cell)))
    };
    output::answer(&output::table(["JOB", "NEXT", "SCHEDULE", "COMMAND"], rows.map(row)))
}

fn row(next: Option<Timestamp>, entry: &Entry) -> Row {
    let zone = entry.schedule.zone().and_then(|zone| TimeZone::get(zone).ok()).unwrap_or(TimeZone::UTC);
    let local = |next: Timestamp| next.to_zoned_datetime(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    Row {
        job: entry.name.clone(),
        next: next.map(local),
        next_utc: next.map(|next| next.to_string()),
        schedule: entry.schedule.to_string(),
        command: entry.command(),
        line: entry.line,
    }
}

/// Fit for a table.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
