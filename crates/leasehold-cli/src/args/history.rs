//! `history`: what it may be given, and its help.

use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use leasehold::LockName;
use leasehold_schedule::State;

use super::values::some_time;

pub(super) const ABOUT: &str = "\
Tell what became of the ticks of a job: what runs now and where, what ran and how it ended, what was skipped or missed and \
why, and what operators did. Without JOB, of all jobs that a scheduler over this store has had.

What runs now comes first, then the newest. The store keeps the last 1000 records of a job for 30 days.";

pub(super) const FOOTER: &str = "\
Examples:
  leasehold history nightly                        the last 20
  leasehold history nightly --output -n 1          and what the last one wrote
  leasehold history --state failed,lost --since 1d what went wrong in the whole fleet
  leasehold history --json | jq -r '.[] | select(.state == \"running\") | \"\\(.job) \\(.node)\"'

States:
  running  it runs now
  done     it did what it should
  failed   it failed, after its retries
  lost     its lock was lost or its time limit was over, and it was stopped
  stopped  its scheduler was stopped, and stopped it
  skipped  it was not run: an earlier run was still going on, or the job was paused
  missed   it was not run: no scheduler was there when it was due
  gone     it was begun, and nobody has said how it ended: its node has died
  paused, resumed, reset                           by an operator

In JSON: an array of objects with `job`, `state`, `tick` (which run: when it was due, or asked for), `asked` (by whom, and \
why; null if it was due), `reason`, `node` (of what an operator did: by whom), `started`, `ended`, `took_ms`, `attempts`, \
`token` (text), `output` (the last lines) and `written` (when the store was told last). Instants are in UTC, as in RFC 3339; \
`started` and `ended` are by the node's clock. What isn't known is null.";

/// A record of a run whose node has died.
pub const GONE: &str = "gone";

/// What `history` is given.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Name of the job. Default: all jobs
    #[arg(value_name = "JOB", value_parser = LockName::new)]
    pub job: Option<LockName>,
    /// Show so many, 1 to 10000, besides what runs now
    #[arg(short = 'n', long = "count", value_name = "N", default_value = "20", value_parser = count)]
    pub count: u32,
    /// Only what was written within this time, as 1h
    #[arg(long, value_name = "DUR", value_parser = some_time)]
    pub since: Option<Duration>,
    /// Only what stands so; several with commas
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = states())]
    pub state: Vec<String>,
    /// Show the last lines that each run wrote
    #[arg(short = 'v', long)]
    pub output: bool,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

fn states() -> PossibleValuesParser {
    PossibleValuesParser::new(State::ALL.map(State::word).into_iter().chain([GONE]))
}

fn count(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|count| (1..=10_000).contains(count));
    number.ok_or_else(|| format!("{text:?} is no number of records; give one from 1 to 10000"))
}
