//! `watch`: what it may be given, and its help.

use clap::Args;
use leasehold::LockName;

pub(super) const ABOUT: &str = "\
Tell what happens to a lock, as it happens, a line for each event.

Ends by a signal (Ctrl-C), or when nobody reads its output any more. It neither queues nor holds anything. A store that \
is away is told once, and so is its return.

It looks two to four times a second: an event is told half a second late at most, and a hold that is shorter may not be \
seen. A release, the end of a TTL and a release by force look alike, so all are told as `ended`.";

pub(super) const FOOTER: &str = "\
Examples:
  leasehold watch nightly-backup
  leasehold watch nightly-backup --json | jq -r 'select(.event == \"ended\") | .held_for_ms'

In JSON: an object in each line. `event` is `start` (how it stands at first), `acquired`, `ended`, `missed` (it was held \
and ended between two looks), `revoked`, `kept` (a minimum hold runs out), `free` (it is over), `waiting` (another number \
of waiters), `unreachable` (the store; see `reason`) or `reachable`. `holder`, `label`, `token` (text) and `held_for_ms` \
are of the hold that the event is about; `state`, `waiting` and `ttl_left_ms` tell how the lock stands now. What isn't \
known is null.";

/// What `watch` is given.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Name of the lock
    #[arg(value_parser = LockName::new)]
    pub name: LockName,
    /// An object in JSON for each event
    #[arg(long)]
    pub json: bool,
}
