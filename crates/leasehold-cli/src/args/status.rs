//! `status`: what it may be given, and its help.

use clap::Args;
use leasehold::LockName;

pub(super) const ABOUT: &str = "\
Say who holds a lock, since when, and until when if it is not renewed; and who waits for it, in line.

Exits with 0 whether the lock is held or free: both are answers. A script reads --json.";

pub(super) const FOOTER: &str = "\
Examples:
  leasehold status nightly-backup
  leasehold status nightly-backup --json | jq -r .state

In JSON: `state` is `free`, `held`, or `kept` (nobody holds it, but a minimum hold runs out or the first waiter is
about to get it); `token` is text, since it may need 63 bits; times are milliseconds. Where several may hold it
(`permits`), the fields are about the one whose time ends first, and `others` has the rest. `queue` has those who wait, \
the next one first: `holder` (null of another program's), `label` (empty where the store keeps none: MySQL, MariaDB) and \
`waited_ms` (null where that is not known). Of a process in which several wait, one stands in the store's line. `library` \
says whose worker holds it, if another library's does and that can be told.";

/// What `status` is given.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Name of the lock
    #[arg(value_parser = LockName::new)]
    pub name: LockName,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}
