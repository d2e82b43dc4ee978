//! `trigger`: what it may be given, and its help.

use std::time::Duration;

use clap::Args;
use leasehold::LockName;

use super::values::{reason, some_time};

pub(super) const ABOUT: &str = "\
Have a job run now, once, on one of the schedulers that have it.

They look every two seconds; the first one runs it, under the job's lock and on its terms. It counts as a tick of this \
instant: while a run goes on that had begun when it was asked for, it is skipped, queued or run beside it, as the job's `overlap` \
says. Each request is a run of its own, also of many at once. A pause does not hold it back. \
If no scheduler is there it waits for one: for as long as the job's `catch_up` says, and an hour at most.";

pub(super) const FOOTER: &str = "\
Examples:
  leasehold trigger nightly --reason 'the disk was full at 2'
  leasehold trigger report --wait && mail-it
  leasehold trigger report --wait=10m --json | jq -r .state

Exit codes with --wait:
  0   it is done
  1   it failed
  75  it was not run (skipped or missed), or has not ended in time: it may still
  76  its lock was lost, or its scheduler stopped or died

In JSON: what `history --json` says of one run; `state` is `asked` as long as nobody has taken it.";

/// What `trigger` is given.
#[derive(Debug, Args)]
pub struct TriggerArgs {
    /// Name of the job
    #[arg(value_name = "JOB", value_parser = LockName::new)]
    pub job: LockName,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", value_parser = reason, default_value = "", hide_default_value = true)]
    pub reason: String,
    /// Wait until it has ended; at most this long (--wait=DUR)
    #[arg(long, value_name = "DUR", num_args = 0..=1, require_equals = true, value_parser = some_time)]
    pub wait: Option<Option<Duration>>,
    /// Also if no scheduler has ever had a job of this name
    #[arg(long)]
    pub force: bool,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}
