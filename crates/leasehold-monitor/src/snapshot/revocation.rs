//! Who has ended whose hold of a lock, and why: a record in the store.

use std::time::Duration;

use jiff::Timestamp;
use leasehold::store::{Note, NoteId, Noted, Search, Topic};
use leasehold::{HolderId, LockName, Locks, Result};
use serde::{Deserialize, Serialize};

const REVOKED: Topic = Topic::of_all("revoked");

/// For how long it is known, and how many of one lock.
const KEEP: Duration = Duration::from_secs(30 * 24 * 3600);
const MOST: u32 = 20;

/// That somebody ended a hold, or tried to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Revocation {
    /// When, by the store's clock.
    pub at: Timestamp,
    pub by: String,
    pub why: String,
    /// Whether the lock was to be free at once.
    pub now: bool,
    /// Whose hold was meant; none if everybody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Who held it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What became of it; `asked` until that is known.
    pub outcome: String,
}

impl Revocation {
    /// Writes it in the place of what stood under this id.
    pub async fn write(&self, locks: &Locks, name: &LockName, id: HolderId) -> Result<()> {
        let text = serde_json::to_string(self).expect("it has no maps");
        let topic = REVOKED.about(name.clone());
        let note = Note { topic, id: NoteId::new(&id.to_string())?, text, keep: KEEP, most: MOST };
        locks.notes()?.note(&[note]).await
    }

    /// Those of this lock, the last first. Of a store that keeps no notes none are known.
    pub async fn read(locks: &Locks, name: &LockName) -> Result<Vec<Self>> {
        let Ok(notes) = locks.notes() else { return Ok(Vec::new()) };
        let notes = notes.notes(&Search::newest(REVOKED.about(name.clone()), MOST)).await?;
        // What a later version has written in another way is left out.
        let read = |Noted { text, .. }: Noted| serde_json::from_str(&text).ok();
        Ok(notes.into_iter().filter_map(read).collect())
    }
}
