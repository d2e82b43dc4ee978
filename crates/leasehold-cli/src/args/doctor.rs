//! `doctor`: what it may be given, and its help.

use clap::Args;

pub(super) const ABOUT: &str = "\
Examine the store, and say what to mend; and what was counted of locks and recorded of jobs in the last day: holds that come near their \
limit, jobs that take longer than their period, renewals that come late, locks that many wait for, losses.

Exits with 0 if the store can be relied on, be it with warnings; with 78 if there is a problem; with 69 or 77 if the \
store can't be reached or denies access.";

pub(super) const FOOTER: &str = "\
Examples:
  leasehold doctor
  leasehold doctor --store sqlite:///var/lib/leasehold/locks.db
  leasehold doctor --json | jq -e 'all(.findings[]; .severity == \"fine\")'     no warnings either";

/// What `doctor` is given.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}
