//! `release`: what it may be given, and its help.

use clap::Args;
use leasehold::{HolderId, LockName};

use super::values::holder;

pub(super) const ABOUT: &str = "\
End somebody else's hold of a lock.

Without --force or --now this only says who holds the lock, and exits with 75. A lock that is free needs no release: \
that is said, and the exit code is 0.";

pub(super) const FOOTER: &str = "\
Examples:
  leasehold release nightly-backup            who would be hit?
  leasehold release nightly-backup --force    the safe way: the holder stops its job first
  leasehold release nightly-backup --now      the holder's machine is known to be dead";

/// What `release` is given.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// Name of the lock
    #[arg(value_parser = LockName::new)]
    pub name: LockName,
    /// Revoke it: safe, takes up to the TTL
    ///
    /// The lock is not renewed any more. Its holder is told at its next renewal, stops its job and releases the lock;
    /// if it can't, the lock ends with its TTL. Nobody else gets it before.
    #[arg(long)]
    pub force: bool,
    /// Free it at once: TWO JOBS MAY RUN until the old holder notices
    ///
    /// The old holder learns of it at its next renewal and stops its job then. For a holder that is known to be dead.
    #[arg(long)]
    pub now: bool,
    /// Of several holders only this one, as `status` shows it
    #[arg(long, value_name = "ID", value_parser = holder)]
    pub holder: Option<HolderId>,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}
