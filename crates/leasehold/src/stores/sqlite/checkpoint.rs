//! Moving the log's pages to the database, away from everybody who waits for an answer.

use std::time::Duration;

use super::connection::plain;
use super::database::{Database, LOG_PAGES};
use super::fault::Fault;

/// Moves what can be moved. On a connection of its own: it syncs twice, and nobody's operation waits behind that.
pub(super) fn run(database: &Database) {
    let left = attempt(database).unwrap_or(LOG_PAGES);
    database.checkpointed(left);
}

/// Answers how many pages are left that the next one has to move.
fn attempt(database: &Database) -> Result<u32, Fault> {
    let db = plain(database)?;
    db.busy_timeout(Duration::from_millis(50))?;
    db.pragma_update(None, "synchronous", "normal")?;
    let mut log = moved(&db, "passive")?;
    if log.is_stubborn() {
        // Many writers never leave a moment in which the whole log has been moved. This one makes them wait.
        log = moved(&db, "restart")?;
    }
    if log.left() > 0 {
        return Ok(log.pages);
    }
    // The first write to a log that starts over waits for the disk. Let it be this one.
    db.execute("update leasehold_clock set home = home", [])?;
    Ok(0)
}

/// How far a checkpoint got.
struct Log {
    pages: u32,
    moved: u32,
}

impl Log {
    fn left(&self) -> u32 {
        self.pages.saturating_sub(self.moved)
    }

    fn is_stubborn(&self) -> bool {
        self.left() > 0 && self.pages > 4 * LOG_PAGES
    }
}

fn moved(db: &rusqlite::Connection, mode: &str) -> rusqlite::Result<Log> {
    db.query_row(&format!("pragma wal_checkpoint({mode})"), [], |row| {
        // Both are -1 if it could not even begin.
        let count = |index| row.get::<_, i64>(index).map(|n| u32::try_from(n).unwrap_or(0));
        Ok(Log { pages: count(1)?, moved: count(2)? })
    })
}
