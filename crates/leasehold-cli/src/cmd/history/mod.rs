//! `leasehold history`: what became of the ticks of jobs.

use std::path::Path;
use std::time::Duration;

use leasehold::{LockName, Locks};
use leasehold_schedule::{Entry, History, KnownJob, Ledger, Pause, State, Timestamp};

use super::block_on;
use super::fleet::Fleet;
use crate::args::{GONE, HistoryArgs};
use crate::config::Config;
use crate::exit::{self, Failure};
use crate::output::{self, plain};

pub use self::line::{Hold, Line};

mod line;

const HEAD: [&str; 6] = ["WHEN", "STATE", "NODE", "TOOK", "TRY", "WHY"];

/// A run gives its lock back before it says how it went: whoever looks in between looks again after this.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Runs the verb.
///
/// # Errors
/// What the store says; 64 for a job that nobody knows, 78 for a store that keeps no notes.
pub fn run(args: &HistoryArgs, config: &Config) -> Result<i32, Failure> {
    if let Some(file) = config.place().missing_file() {
        return nowhere(args, config, &file);
    }
    let told = block_on(async {
        let fleet = Fleet::of(config)?;
        look(&fleet, args).await
    })?;
    if args.json {
        output::json(&told.lines)?;
    } else {
        told.show(args, config)?;
    }
    Ok(exit::OK)
}

/// Nobody has ever written there, and a look makes no file.
fn nowhere(args: &HistoryArgs, config: &Config, file: &Path) -> Result<i32, Failure> {
    if let Some(job) = &args.job {
        block_on(Fleet::with(config, job))?;
    }
    if args.json {
        let none: [Line; 0] = [];
        output::json(&none)?;
    }
    let what = "nothing that was asked for is recorded in";
    output::tell(&format!("{what} {}: there is no file {} yet", config.shown(), file.display()));
    Ok(exit::OK)
}

/// What is to be told.
struct Told {
    lines: Vec<Line>,
    /// Of these jobs, those that pause.
    pauses: Vec<(String, Pause)>,
    now: Timestamp,
}

async fn look(fleet: &Fleet, args: &HistoryArgs) -> Result<Told, Failure> {
    let (locks, now) = (fleet.locks(), fleet.now().await?);
    let jobs = match &args.job {
        Some(job) => vec![job.to_string()],
        None => fleet.orders().jobs().await?.into_iter().map(|KnownJob { name, .. }| name).collect(),
    };
    let entries = wanted(args, now).of(locks, jobs.iter().map(String::as_str)).await?;
    let recorded: Vec<Line> = entries.into_iter().map(Line::recorded).collect();
    let holds = holds(locks, args.job.as_ref(), &jobs).await?;
    if let Some(job) = args.job.as_ref().filter(|_| recorded.is_empty() && holds.is_empty()) {
        fleet.knows(job).await?;
    }
    let mut lines = settled(locks, recorded, &holds).await?;
    lines.extend(unlisted(locks, &holds, &lines, now).await?);
    lines.retain(|line| args.state.is_empty() || args.state.iter().any(|state| state == line.state));
    Ok(Told { lines: in_order(lines, args.count), pauses: pauses(fleet, &jobs, now).await?, now })
}

/// What runs now first, and of the others so many.
fn in_order(lines: Vec<Line>, count: u32) -> Vec<Line> {
    let (mut running, mut over): (Vec<_>, Vec<_>) = lines.into_iter().partition(Line::is_running);
    over.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    running.append(&mut over);
    running
}

/// Of these jobs those that pause, by name.
async fn pauses(fleet: &Fleet, jobs: &[String], now: Timestamp) -> Result<Vec<(String, Pause)>, Failure> {
    let pauses = fleet.orders().pauses().await?.into_iter();
    let mut pauses: Vec<_> = pauses.filter(|(job, pause)| pause.is_on(now) && jobs.contains(job)).collect();
    pauses.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(pauses)
}

/// What has to be read. Which of the running ones are gone is seen later.
fn wanted(args: &HistoryArgs, now: Timestamp) -> History {
    let since = args.since.and_then(|span| now.checked_sub(span).ok()).unwrap_or(Timestamp::UNIX_EPOCH);
    let is_asked = |state: &State| {
        let is_named = |word: &str| args.state.iter().any(|asked| asked == word);
        is_named(state.word()) || (*state == State::Running && is_named(GONE))
    };
    let states: Vec<_> = State::ALL.into_iter().filter(is_asked).collect();
    let most = if states.contains(&State::Running) { u32::MAX } else { args.count };
    History { since, states, most }
}

/// Who holds the locks of these jobs.
async fn holds(locks: &Locks, job: Option<&LockName>, jobs: &[String]) -> Result<Vec<(String, Hold)>, Failure> {
    let held = match job {
        Some(job) => locks.inspect(job.as_str()).await?.into_iter().collect(),
        None => locks.list().await?,
    };
    let known = held.iter().filter(|held| jobs.iter().any(|job| job == held.name.as_str()));
    let each = known.flat_map(|held| Hold::all(held).into_iter().map(|hold| (held.name.to_string(), hold)));
    Ok(each.collect())
}

/// The same, once it is known of each that was running whether it still is.
async fn settled(locks: &Locks, lines: Vec<Line>, holds: &[(String, Hold)]) -> Result<Vec<Line>, Failure> {
    let is_held = |line: &Line| holds.iter().any(|(job, hold)| *job == line.job && hold.is_for(line));
    let is_open = |line: &Line| line.is_running() && !is_held(line);
    if lines.iter().any(is_open) {
        tokio::time::sleep(LAST_WORDS).await;
    }
    let mut settled = Vec::with_capacity(lines.len());
    for line in lines {
        settled.push(if is_open(&line) { last_words(locks, line).await? } else { line });
    }
    Ok(settled)
}

/// How a run has ended that is over by its lock.
async fn last_words(locks: &Locks, line: Line) -> Result<Line, Failure> {
    let Some(tick) = line.tick else { return Ok(line.gone()) };
    let ended = Ledger::of(locks, &line.job)?
        .entry_of(tick)
        .await?
        .filter(|Entry { record, .. }| record.token != line.token || record.state != State::Running);
    Ok(ended.map_or_else(|| line.gone(), Line::recorded))
}

/// What runs, and began before anything that was asked for; or nothing is written of it.
async fn unlisted(
    locks: &Locks,
    holds: &[(String, Hold)],
    lines: &[Line],
    now: Timestamp,
) -> Result<Vec<Line>, Failure> {
    let is_listed = |job: &str, hold: &Hold| lines.iter().any(|line| line.job == job && hold.is_for(line));
    let mut unlisted = Vec::new();
    for (job, hold) in holds.iter().filter(|(job, hold)| !is_listed(job, hold)) {
        let held = Line::held(job, hold, now);
        let entry = match hold.tick() {
            Some(tick) => {
                Ledger::of(locks, job)?.entry_of(tick).await?.filter(|entry| entry.record.token == held.token)
            }
            None => None,
        };
        unlisted.push(entry.map_or(held, Line::recorded));
    }
    Ok(unlisted)
}

impl Told {
    /// For people.
    fn show(&self, args: &HistoryArgs, config: &Config) -> Result<(), Failure> {
        let mut text: Vec<String> = self.pauses.iter().map(|(job, pause)| paused(job, pause)).collect();
        if self.lines.is_empty() {
            let of = args.job.as_ref().map_or_else(String::new, |job| format!(" of {job}"));
            output::tell(&format!("nothing{of} that was asked for is recorded in {}", config.shown()));
        } else {
            text.extend(self.table(args.job.is_none(), args.output));
        }
        if text.is_empty() { Ok(()) } else { output::answer(&text.join("\n")) }
    }

    fn table(&self, is_of_all: bool, with_output: bool) -> Vec<String> {
        let table = if is_of_all {
            let [when, state, node, took, attempts, why] = HEAD;
            let row = |line: &Line| {
                let [when, state, node, took, attempts, why] = line.cells(self.now);
                [line.job.clone(), when, state, node, took, attempts, why]
            };
            output::table(["JOB", when, state, node, took, attempts, why], self.lines.iter().map(row))
        } else {
            output::table(HEAD, self.lines.iter().map(|line| line.cells(self.now)))
        };
        let mut rows = table.lines().map(str::to_owned);
        let mut text: Vec<_> = rows.next().into_iter().collect();
        for (row, line) in rows.zip(&self.lines) {
            text.push(row);
            text.extend(line.output().filter(|_| with_output));
        }
        text
    }
}

/// One line about a pause.
pub fn paused(job: &str, pause: &Pause) -> String {
    let until = pause.until.map_or_else(String::new, |until| format!(", until {until}"));
    let why = if pause.why.is_empty() { String::new() } else { format!(": {}", plain(&pause.why)) };
    format!("{} is paused since {}{until}, by {}{why}", plain(job), pause.since, plain(&pause.by))
}
