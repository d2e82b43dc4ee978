//! `pause`: what it may be given, and its help.

use std::time::Duration;

use clap::Args;
use leasehold::LockName;
use leasehold_schedule::Timestamp;

use super::next::instant;
use super::values::{reason, some_time};

pub(super) const ABOUT: &str = "\
Have a job pause on every scheduler, until `leasehold resume` or the given time.

Its ticks are recorded as skipped, and not made up for. What runs goes on, and `leasehold trigger` still runs it. Schedulers \
look every two seconds, and those that start later know of it. Said again it changes why and until when.";

pub(super) const FOOTER: &str = "\
Examples:
  leasehold pause nightly --reason 'the tape library is moved'
  leasehold pause nightly --for 2h
  leasehold pause nightly --until 2026-12-01T06:00:00Z
  leasehold history nightly --state paused,resumed   by whom, and why

A pause that nobody ends is over after 400 days. In JSON: an object with `job`, `paused`, `by`, `reason`, `since` and \
`until` (null if it has no end).";

/// What `pause` is given.
#[derive(Debug, Args)]
pub struct PauseArgs {
    /// Name of the job
    #[arg(value_name = "JOB", value_parser = LockName::new)]
    pub job: LockName,
    /// For how long, as 2h
    #[arg(long = "for", value_name = "DUR", value_parser = some_time, conflicts_with = "until", allow_hyphen_values = true)]
    pub span: Option<Duration>,
    /// Until when, as 2026-12-01T06:00:00Z
    #[arg(long, value_name = "INSTANT", value_parser = instant)]
    pub until: Option<Timestamp>,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", value_parser = reason, default_value = "", hide_default_value = true)]
    pub reason: String,
    /// Also if no scheduler has ever had a job of this name
    #[arg(long)]
    pub force: bool,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}
