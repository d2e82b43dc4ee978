//! `resume`: what it may be given, and its help.

use clap::Args;
use leasehold::LockName;

pub(super) const ABOUT: &str = "\
End the pause of a job: it runs again from its next tick on. What was due during the pause is not made up for; see \
`leasehold trigger`.

Exits with 0 whether it was paused or not: that is said.";

pub(super) const FOOTER: &str = "\
Examples:
  leasehold resume nightly
  leasehold resume nightly --json | jq .resumed

In JSON: an object with `job`, `resumed` (whether it was paused) and `by`.";

/// What `resume` is given.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Name of the job
    #[arg(value_name = "JOB", value_parser = LockName::new)]
    pub job: LockName,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}
