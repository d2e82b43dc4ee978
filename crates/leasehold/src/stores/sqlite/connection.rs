//! One connection to the file, and how patient it is.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{OpenFlags, TransactionBehavior};

use super::boot::{self, Identity};
use super::database::Database;
use super::fault::Fault;
use super::options::Synchronous;
use super::place::{Files, Still};
use super::schema;
use crate::error::{Error, ErrorKind};

/// How long a patient connection waits for another process to end its write.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// An open database whose tables, clock and mode have been checked.
#[derive(Debug)]
pub(super) struct Connection {
    pub db: rusqlite::Connection,
    pub database: Arc<Database>,
    files: Files,
    /// When the log's files were last looked at.
    looked: i64,
    patience: Arc<Patience>,
    log_pages: Arc<AtomicU32>,
}

/// For how long a look at the log's files is good.
const LOOK_NANOS: i64 = 100_000_000;

impl Connection {
    /// Opens the file; makes it if it isn't there and `create` says so. Takes its time if others are at it.
    pub fn open(database: &Arc<Database>, create: bool) -> Result<Self, Fault> {
        let ours = Identity::of(database)?;
        let (started, mut longest) = (Instant::now(), 2_000);
        loop {
            let fault = match Self::try_open(database, &ours, create) {
                Err(fault) if fault.is_busy() && started.elapsed() < PATIENCE => fault,
                Err(fault @ Fault::Moved) if started.elapsed() < PATIENCE => fault,
                Err(fault @ Fault::Elsewhere) if started.elapsed() < boot::SETTLING => fault,
                done => return done,
            };
            if matches!(fault, Fault::Elsewhere) && boot::adopt(database, &ours)? {
                continue;
            }
            // At random, or those who got in each other's way would do so again.
            thread::sleep(Duration::from_micros(rand::random_range(500..longest)));
            longest = (longest * 2).min(100_000);
        }
    }

    fn try_open(database: &Arc<Database>, ours: &Identity, create: bool) -> Result<Self, Fault> {
        let place = &database.place;
        if !create && !place.exists().map_err(|error| unseen(database, &error))? {
            return Err(Fault::NoFile);
        }
        place.check_file_system(&*database.machine, database.trusted)?;
        let mut db = open(database, create)?;
        let patience = Arc::new(Patience::of(PATIENCE));
        let log_pages = Arc::new(AtomicU32::new(0));
        // Before anything that may find the file locked.
        wait_with(&mut db, &patience)?;
        if db.is_readonly("main")? {
            let read_only = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_READONLY);
            return Err(rusqlite::Error::SqliteFailure(read_only, None).into());
        }
        schema::prepare(&mut db, ours, &place.path.display().to_string())?;
        if Identity::stored(&db)?.as_ref() != Some(ours) {
            return Err(Fault::Elsewhere);
        }
        db.pragma_update(None, "synchronous", database.synchronous.as_str())?;
        note_log_pages(&mut db, &log_pages)?;
        let files = opened_files(&db, database)?;
        Ok(Self { db, database: Arc::clone(database), files, looked: 0, patience, log_pages })
    }

    /// Whether the file that is open is the one that is there.
    pub fn still(&self) -> Result<Still, Fault> {
        self.database.place.still_has(&self.files).map_err(|error| unseen(&self.database, &error))
    }

    /// The same at the price of one system call, a twentieth of an operation: the log's files are looked at only
    /// now and then. What can't be told here is told by [`still`](Self::still).
    pub fn seems_current(&mut self) -> bool {
        let now = self.now();
        if now.saturating_sub(self.looked) < LOOK_NANOS {
            return matches!(self.database.place.has(&self.files), Ok(true));
        }
        self.looked = now;
        matches!(self.still(), Ok(Still::Same))
    }

    /// Whether it waits while another process writes. It does when it has just been opened.
    pub fn be_patient(&self, patient: bool) {
        self.patience.patient.store(patient, Ordering::Relaxed);
    }

    pub fn is_patient(&self) -> bool {
        self.patience.patient.load(Ordering::Relaxed)
    }

    /// Whether there was a commit since [`take_log_pages`](Self::take_log_pages).
    pub fn has_committed(&self) -> bool {
        self.log_pages.load(Ordering::Relaxed) > 0
    }

    /// How many pages the log had after the last commit here, if there was one since the last call.
    pub fn take_log_pages(&self) -> Option<u32> {
        Some(self.log_pages.swap(0, Ordering::Relaxed)).filter(|pages| *pages > 0)
    }

    /// The time by which leases are judged.
    pub fn now(&self) -> i64 {
        self.database.machine.now()
    }

    pub fn namespace(&self) -> &str {
        self.database.namespace.as_str()
    }

    /// Does `what` as one transaction that holds the write lock from its start: one that began by reading and
    /// wrote later would be refused at once if somebody else wrote in between. The time is read once it has the lock.
    pub fn write<T>(&mut self, what: impl FnOnce(&Writing<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
        let Self { db, database, .. } = self;
        let db = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let writing = Writing { now: database.machine.now(), db, database };
        let done = what(&writing)?;
        writing.db.commit().map_err(Fault::at_commit)?;
        Ok(done)
    }

    /// The same, and it is on the disk once this returns, whatever the other commits of this file wait for.
    pub fn write_durably<T>(&mut self, what: impl FnOnce(&Writing<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
        self.set_synchronous(Synchronous::Full)?;
        let done = self.write(what);
        // If this fails, later commits are slower and no less safe.
        let _ = self.set_synchronous(self.database.synchronous);
        done
    }

    fn set_synchronous(&self, synchronous: Synchronous) -> rusqlite::Result<()> {
        if self.database.synchronous == Synchronous::Full {
            return Ok(());
        }
        self.db.pragma_update(None, "synchronous", synchronous.as_str())
    }
}

/// A transaction that has the write lock.
pub(super) struct Writing<'a> {
    pub db: rusqlite::Transaction<'a>,
    pub database: &'a Database,
    pub now: i64,
}

impl Writing<'_> {
    pub fn namespace(&self) -> &str {
        self.database.namespace.as_str()
    }

    /// The wall clock's time since 1970. Only ticks are judged by it.
    pub fn utc(&self) -> Duration {
        self.database.machine.utc()
    }
}

/// A bare connection to a file that exists, for other purposes than leases.
pub(super) fn plain(database: &Database) -> Result<rusqlite::Connection, Fault> {
    open(database, false)
}

fn open(database: &Database, create: bool) -> Result<rusqlite::Connection, Fault> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, create);
    let db = rusqlite::Connection::open_with_flags(&database.place.path, flags)?;
    // The last one to leave doesn't tidy up: the end of a short-lived process must not wait for a disk, and a
    // file that has been pulled away must not take its successor's log with it.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(db)
}

/// The files that are open.
fn opened_files(db: &rusqlite::Connection, database: &Database) -> Result<Files, Fault> {
    let files = database.place.files().map_err(|error| unseen(database, &error))?;
    let mut moved = 0;
    db.file_control(Some("main"), rusqlite::FileControl::HasMoved(&mut moved))?;
    if moved != 0 {
        return Err(Fault::Moved);
    }
    // Opening makes the log's files, unless another connection of this process has those that were taken away.
    files.ok_or(Fault::Torn)
}

/// Makes a bare connection wait while others write.
pub(super) fn wait_up_to(limit: Duration, db: &mut rusqlite::Connection) -> rusqlite::Result<()> {
    wait_with(db, &Arc::new(Patience::of(limit)))
}

fn wait_with(db: &mut rusqlite::Connection, patience: &Arc<Patience>) -> rusqlite::Result<()> {
    let patience = Arc::clone(patience);
    db.busy_handler(Some(move |tries| patience.wait(tries)))
}

/// Replaces SQLite's own hook, which would move the log's pages to the database there and then, with two syncs.
fn note_log_pages(db: &mut rusqlite::Connection, log_pages: &Arc<AtomicU32>) -> rusqlite::Result<()> {
    let log_pages = Arc::clone(log_pages);
    db.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
        log_pages.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }))
}

fn unseen(database: &Database, error: &std::io::Error) -> Fault {
    let kind = match error.kind() {
        std::io::ErrorKind::PermissionDenied => ErrorKind::AccessDenied,
        _ => ErrorKind::Unavailable,
    };
    Fault::Told(Error::new(kind, format!("{} can't be looked up: {error}", database.place.path.display())))
}

/// What to do while another process writes. SQLite's own handler sleeps up to 100 ms at a time, long after
/// the file is free; a write here takes some microseconds.
#[derive(Debug)]
struct Patience {
    patient: AtomicBool,
    limit: Duration,
    since: Mutex<Instant>,
}

impl Patience {
    fn of(limit: Duration) -> Self {
        Self { patient: AtomicBool::new(true), limit, since: Mutex::new(Instant::now()) }
    }

    fn wait(&self, tries: i32) -> bool {
        if !self.patient.load(Ordering::Relaxed) {
            return false;
        }
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if tries == 0 {
            *since = Instant::now();
        }
        if since.elapsed() >= self.limit {
            return false;
        }
        let longest = 50_u64 << tries.clamp(0, 8);
        thread::sleep(Duration::from_micros(rand::random_range(longest / 2..=longest)));
        true
    }
}
