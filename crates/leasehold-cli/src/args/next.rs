//! `next`: what it may be given, and its help.

use clap::Args;
use leasehold_schedule::Timestamp;

pub(super) const ABOUT: &str = "\
Show when a schedule is due next, in local time and in UTC, and mark the days on which clocks change.

What may surprise about the schedule is told on stderr. Asks no store.";

pub(super) const FOOTER: &str = "\
Examples:
  leasehold next '30 2 * * *' --tz Europe/Berlin
  leasehold next '0 9 * * MON-FRI' -n 3 --json | jq -r .[].utc
  leasehold next 'H 3 * * *' --job nightly          when `H` is in it, the job's name says which minute
  leasehold next '30 2 * * *' --tz America/New_York --from 2027-03-13T00:00:00Z

In JSON: an array of objects with `utc`, `local` (with its offset), and `note` (null on usual days).
An expression that is wrong, or never due, exits with 64.";

/// What `next` is given.
#[derive(Debug, Args)]
pub struct NextArgs {
    /// Schedule: a cron expression of 5 or 6 fields, @daily and the like, or a period such as 15m
    #[arg(value_name = "EXPR")]
    pub expression: String,
    /// Time zone, as Europe/Berlin. Default: UTC
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,
    /// Name of the job, for `H`
    #[arg(long, value_name = "NAME")]
    pub job: Option<String>,
    /// Show what is later than this instant, as 2027-03-13T00:00:00Z. Default: now
    #[arg(long, value_name = "INSTANT", value_parser = instant)]
    pub from: Option<Timestamp>,
    /// Show so many, 1 to 10000
    #[arg(short = 'n', long = "count", value_name = "N", default_value = "10", value_parser = count)]
    pub count: usize,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

pub(super) fn instant(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| {
        format!(
            "{text:?} is no instant; write for example 2027-03-13T00:00:00Z, or with an offset (the last one is \
             9999-12-30T22:00:00Z)"
        )
    })
}

fn count(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|count| (1..=10_000).contains(count));
    number.ok_or_else(|| format!("{text:?} is no number of ticks; give one from 1 to 10000"))
}
