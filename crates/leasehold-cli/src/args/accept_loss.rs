//! `accept-loss`: what it may be given, and its help.

use clap::Args;

pub(super) const ABOUT: &str = "\
Accept that the members of a quorum have lost what they remembered.

A member that comes back without its data is filled from a majority of the others. Where too few others know a name, no \
lock of that name is granted (69), since nobody can say which of its ticks were run. This ends that: ticks up to five minutes from \
now count as run, keys (--once-key) are forgotten, and locks are granted again. Members that were restarted must have been back for \
their max_ttl.";

pub(super) const FOOTER: &str = "\
Examples:
  leasehold doctor --store q                 which members are empty?
  leasehold accept-loss --yes --store q";

/// What `accept-loss` is given.
#[derive(Debug, Args)]
pub struct AcceptLossArgs {
    /// It is meant
    #[arg(long)]
    pub yes: bool,
}
