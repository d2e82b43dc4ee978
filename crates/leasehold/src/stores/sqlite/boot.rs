//! Whose clock a file's times are on, and under which name it is used; how that changes.
//!
//! Leases are counted on `CLOCK_BOOTTIME`. After a reboot, or in a container with another boot id or time
//! namespace, its readings mean nothing. They may be thrown away only if nobody who still believes in one is
//! alive. The proof is SQLite's own: in WAL mode every open connection keeps a shared lock on the database
//! file, on its inode, so it counts under every name and in every container; whoever gets the exclusive lock is
//! alone. (A lock file of ours would prove no more, and could be deleted.)

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::database::Database;
use super::fault::Fault;
use crate::error::{Error, ErrorKind};

/// How long a newcomer waits for the others to be gone. After a reboot many of the same new clock may meet here,
/// each in the way of the others while it looks.
pub(super) const SETTLING: Duration = Duration::from_secs(3);

/// What must be equal for two processes to share a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    clock: String,
    home: String,
}

impl Identity {
    /// Ours.
    pub fn of(database: &Database) -> Result<Self, Error> {
        let home = database.place.home().map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("the directory {} can't be examined: {error}", database.place.directory().display()),
            )
        })?;
        Ok(Self { clock: database.machine.clock_id()?, home })
    }

    /// The file's.
    pub fn stored(db: &Connection) -> rusqlite::Result<Option<Self>> {
        let row = |row: &rusqlite::Row<'_>| Ok(Self { clock: row.get(0)?, home: row.get(1)? });
        db.query_row("select clock, home from leasehold_clock where one = 1", [], row).optional()
    }

    /// Makes it the file's.
    pub fn store(&self, db: &Connection) -> rusqlite::Result<()> {
        let row = params![self.clock, self.home];
        db.execute("insert or replace into leasehold_clock values(1, ?1, ?2)", row).map(drop)
    }

    /// The clock, for people.
    pub fn clock(&self) -> &str {
        &self.clock
    }
}

/// Makes the file ours, if nobody has it open. Answers whether that was so.
pub(super) fn adopt(database: &Database, ours: &Identity) -> Result<bool, Fault> {
    let mut db = super::connection::plain(database)?;
    db.busy_timeout(Duration::ZERO)?;
    db.pragma_update(None, "locking_mode", "exclusive")?;
    let busy = |error: rusqlite::Error| {
        let fault = Fault::from(error);
        if fault.is_busy() { Ok(false) } else { Err(fault) }
    };
    // That a route is not in force any more must be on the disk before anybody hears of it.
    if let Err(error) = db.pragma_update(None, "synchronous", "full") {
        return busy(error);
    }
    let alone = match db.transaction_with_behavior(TransactionBehavior::Immediate) {
        Ok(transaction) => transaction,
        Err(error) => return busy(error),
    };
    let stored = Identity::stored(&alone)?;
    if stored.as_ref() == Some(ours) {
        return Ok(true);
    }
    // Under another name, but on the same clock, the leases stay what they are: their holders may be alive.
    if stored.is_none_or(|stored| stored.clock != ours.clock) {
        alone.execute("update leasehold_locks set holder = null, expires = 0, granted = 0, revoked = 0", [])?;
        alone.execute("delete from leasehold_waiters", [])?;
        // Nobody knows how long it has been: routes are armed again.
        alone.execute("update leasehold_routes set not_before = null, complained = null", [])?;
    }
    ours.store(&alone)?;
    alone.commit().map_err(Fault::at_commit)?;
    Ok(true)
}
