//! `schedule reset-mark`: what it may be given, and its help.

use clap::Args;
use leasehold::LockName;

use super::values::reason;

pub(super) const ABOUT: &str = "\
Have the store forget which ticks of a job were claimed: TICKS THAT RAN MAY RUN AGAIN.

The mark beside the job's lock is the newest tick that was ever claimed; only later ones are run. A clock that was ahead \
can have left a mark that is not reached for long: then `doctor` or the log of the scheduler says that the tick was claimed, and \
nothing runs. Without --yes nothing is changed.

A lease that is held stays as it is, and fencing tokens go on growing. Ticks that stand open (begun, and neither done nor \
failed) are forgotten too. Every scheduler that starts, or whose clock is behind, may run again what is no older than the job's \
`catch_up`.";

pub(super) const FOOTER: &str = "\
Examples:
  leasehold history nightly                   what ran last?
  leasehold schedule reset-mark nightly --reason 'the clock of db-2 showed 2031' --yes

It is recorded who did it, and why: see `leasehold history JOB --state reset`. In JSON: an object with `job`, `reset` (whether \
there was a mark) and `by`.";

/// What `schedule reset-mark` is given.
#[derive(Debug, Args)]
pub struct ResetMarkArgs {
    /// Name of the job
    #[arg(value_name = "JOB", value_parser = LockName::new)]
    pub job: LockName,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: String,
    /// It is meant
    #[arg(long)]
    pub yes: bool,
    /// Also if no scheduler has ever had a job of this name
    #[arg(long)]
    pub force: bool,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}
