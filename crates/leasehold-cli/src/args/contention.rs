//! `contention`: what it may be given, and its help.

use std::time::Duration;

use clap::{Args, ValueEnum};
use leasehold::LockName;

use super::values::some_time;

pub(super) const ABOUT: &str = "\
Tell what was contended: for each lock how often it was asked for and got, how often somebody else had it, how long was waited and \
held, who held it longest, and what marks and fences prevented from happening twice. With NAMEs, of these locks only.

`leasehold run` and `leasehold schedule` count, and so do clients of the library that have a Tally; what they have counted is seen here within some \
ten seconds. It is kept for a week: in steps of five minutes for twelve hours, of an hour beyond.";

pub(super) const FOOTER: &str = "\
Examples:
  leasehold contention                             the last hour, the most contended first
  leasehold contention --since 1d --sort held      which locks were held longest today?
  leasehold contention nightly billing             these two
  leasehold contention --json --top 0 | jq -r '.locks[] | select(.lost > 0) | .name'

Columns:
  ATTEMPTS   acquisitions that ended, in whatever way
  GOT        those that got the lock
  CONTENDED  those that found somebody else before them, whether they waited and got it or not
  WAITED     how long those waited who got it: half of them, 9 of 10, and 99 of 100 no longer than that
  HELD       the same of how long it was held
  TWICE      what was not done twice: ticks and keys that had been claimed before, and writes that a fence refused
  LOST       holders that were told to stop, and releases that came too late
  FAILED     acquisitions that ended with an error

Times are right to a sixteenth (6.25 %). In JSON: an object with `since`, `until`, `step_ms`, `locks`, `others` (locks that there was no \
room for, together; null if there was), `series` (all locks, step by step) and `is_cut`; docs/contention.md names the fields.";

/// What `contention` is given.
#[derive(Debug, Args)]
pub struct ContentionArgs {
    /// Names of locks. Default: all
    #[arg(value_name = "NAME", value_parser = LockName::new)]
    pub names: Vec<LockName>,
    /// What happened within this time, as 30m or 2d
    #[arg(long, value_name = "DUR", default_value = "1h", value_parser = some_time)]
    pub since: Duration,
    /// What comes first
    #[arg(long, value_name = "BY", default_value = "contended")]
    pub sort: SortBy,
    /// Show so many locks; 0 for all
    #[arg(long, value_name = "N", default_value = "20")]
    pub top: usize,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

/// Which locks come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SortBy {
    /// Those that most found held
    Contended,
    /// Those that were waited for longest
    Waited,
    /// Those that were held longest
    Held,
    /// Those that were asked for most
    Attempts,
    /// Those that were lost most, or failed
    Lost,
    /// By name
    Name,
}
