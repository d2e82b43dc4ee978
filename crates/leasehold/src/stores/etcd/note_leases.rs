//! The server's leases that notes hang on, so that those nobody looks after go in the end.
//!
//! One is shared by all notes of a namespace that are kept for about as long and were written within a while: a key says
//! which it is at present, to all clients. It is never prolonged. What a client tells goes by the time in the note itself.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Core;
use super::calls::Limit;
use super::fault::Fault;
use super::leases::seconds;
use super::txn::{Txn, one};
use crate::error::ErrorKind;
use crate::validity::Moment;

/// Notes that are kept for less hang on leases for this: leases are few, also where many notes are short-lived.
const SHORTEST: u64 = 480;

/// Longer than anybody waits, and as long as the server has room for.
const LONGEST: u64 = 100 * 365 * 86_400;

/// How often a lease is looked for anew since another client has said which it is.
const TRIES: usize = 10;

/// The leases that this client knows, by for how many seconds notes on them are kept.
#[derive(Debug, Default)]
pub(super) struct NoteLeases {
    known: Mutex<HashMap<u64, Known>>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    lease: i64,
    /// Until when notes may be hung on it: from then on it would end before they do.
    until: Moment,
}

impl NoteLeases {
    fn known(&self) -> MutexGuard<'_, HashMap<u64, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It has ended before its time.
    pub fn forget(&self, lease: i64) {
        self.known().retain(|_, known| known.lease != lease);
    }
}

impl Core {
    /// A lease that lasts for `keep` from now on, and not for half as long again.
    pub(super) async fn lease_for_notes(&self, keep: Duration) -> Result<i64, Fault> {
        let (kept_for, leases) = (rounded(keep), &self.shared.note_leases);
        let known = leases.known().get(&kept_for).copied();
        if let Some(known) = known.filter(|known| self.shared.ours.now() < known.until) {
            return Ok(known.lease);
        }
        for _ in 0..TRIES {
            if let Some(known) = self.agreed_on(kept_for).await? {
                leases.known().insert(kept_for, known);
                return Ok(known.lease);
            }
        }
        Err(Fault::unsent(ErrorKind::Unavailable, "the lease for notes changes again and again"))
    }

    /// The one that all clients use at present, or the next one; nothing if another client has come first.
    async fn agreed_on(&self, kept_for: u64) -> Result<Option<Known>, Fault> {
        let (key, sent) = (self.options.keys.lease_of_notes(kept_for), self.shared.ours.now());
        let found = self.members.read(Limit::LONGEST, Txn::default().look([one(&key)])).await?.key(0);
        if let Some(found) = &found
            && let Some(rest) = self.members.rest_of(found.lease).await?
            && let Some(spare) = rest.left.checked_sub(Duration::from_secs(kept_for)).filter(|spare| !spare.is_zero())
        {
            return Ok(Some(Known { lease: found.lease, until: sent + spare }));
        }
        let (spare, sent) = (kept_for / 8, self.shared.ours.now());
        let lease = self.members.grant(Limit::LONGEST, kept_for + spare).await?;
        let modified = found.map_or(0, |found| found.mod_revision);
        let txn = Txn::default().if_modified_at(&key, modified).put(&key, Vec::new(), lease);
        if self.members.change(Limit::LONGEST, txn).await?.held {
            return Ok(Some(Known { lease, until: sent + Duration::from_secs(spare) }));
        }
        let _ = self.members.revoke_lease(lease).await; // It would end by itself, if late.
        Ok(None)
    }
}

/// Whole seconds, up to an eighth more than asked for: who keeps notes for about as long shares leases.
fn rounded(keep: Duration) -> u64 {
    let keep = seconds(keep.min(Duration::from_secs(LONGEST))).max(SHORTEST);
    let step = 1 << keep.ilog2().saturating_sub(3);
    keep.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_few_and_last_hardly_longer_than_notes() {
        let of = |keep: u64| rounded(Duration::from_secs(keep));
        assert_eq!([of(1), of(480), of(481)], [480, 480, 512]);
        for keep in [600, 3600, 86_400, 30 * 86_400, 400 * 86_400] {
            let lease = of(keep) + of(keep) / 8;
            assert!(of(keep) >= keep && lease < keep * 3 / 2, "{keep}: {lease}");
        }
        let all: std::collections::BTreeSet<_> = (3600..2 * 3600).map(of).collect();
        assert!(all.len() <= 9, "{all:?}");
        assert!(rounded(Duration::MAX) <= LONGEST * 9 / 8);
    }
}
