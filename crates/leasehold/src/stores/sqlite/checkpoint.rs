//! Moving the log's pages to the database, away from everybody who waits for an answer.

use std::time::Duration;

use super::connection::{plain, wait_up_to};
use super::database::{Database, LOG_PAGES};
use super::fault::Fault;

/// Moves what can be moved. On a connection of its own: it syncs twice, and nobody's operation waits behind that.
pub(super) fn run(database: &Database) {
    let left = attempt(database).unwrap_or(LOG_PAGES);
    database.checkpointed(left);
}

/// Answers how many pages are left that the next one has to move.
fn attempt(database: &Database) -> Result<u32, Fault> {
    let mut db = plain(database)?;
    wait_up_to(LONGEST_WAIT, &mut db)?;
    db.pragma_update(None, "synchronous", "normal")?;
    // Nobody is held up by the first. While it synced, others may have written, and a log starts over only when all
    // of it has been moved: the second makes writers wait, but has little or nothing left to do.
    moved(&db, "passive")?;
    let log = moved(&db, "restart")?;
    if log.pages > log.moved {
        return Ok(log.pages);
    }
    // The first write to a log that starts over waits for the disk. Let it be this one.
    db.execute("update leasehold_clock set home = home", [])?;
    Ok(0)
}

/// How long writers may be made to wait for somebody who reads for long.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// How far a checkpoint got.
struct Log {
    pages: u32,
    moved: u32,
}

fn moved(db: &rusqlite::Connection, mode: &str) -> rusqlite::Result<Log> {
    db.query_row(&format!("pragma wal_checkpoint({mode})"), [], |row| {
        // Both are -1 if it could not even begin: then all of it is left.
        let count = |index, unknown| row.get::<_, i64>(index).map(|n| u32::try_from(n).unwrap_or(unknown));
        Ok(Log { pages: count(1, LOG_PAGES)?, moved: count(2, 0)? })
    })
}
