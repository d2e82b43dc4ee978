//! The tables, their version, and the mode of the file.

use rusqlite::{Connection, TransactionBehavior};

use super::boot::Identity;
use super::fault::Fault;
use crate::error::{Error, ErrorKind};

/// `Leas`: what says in a file's header that it is ours.
pub(super) const APPLICATION: i64 = 0x4C65_6173;

/// What this build reads and writes.
pub(super) const VERSION: i64 = 4;

/// How to get from each version to the next; from 0, an empty file, to the first.
const STEPS: [&str; VERSION as usize] = [
    "
    create table leasehold_locks(
        ns text not null, name text not null,
        holder text,                 -- null: free, or with an end in the future kept after a release
        label text not null,
        token integer not null,      -- outlives every lease: a row is never deleted
        granted integer not null,    -- CLOCK_BOOTTIME nanoseconds, as expires
        expires integer not null,
        revoked integer not null,
        primary key(ns, name)
    ) strict, without rowid;
    create table leasehold_waiters(
        ns text not null, name text not null,
        holder text not null,
        label text not null,
        client integer not null,     -- which process waits, so that only that one is woken
        ticket integer not null,
        seen integer not null,
        primary key(ns, name, holder)
    ) strict, without rowid;
    create index leasehold_queue on leasehold_waiters(ns, name, ticket);
    create table leasehold_clock(
        one integer primary key check(one = 1),
        clock text not null,         -- whose CLOCK_BOOTTIME the times are
        home text not null           -- under which name the file is used
    ) strict;
",
    "
    create table leasehold_leases(
        ns text not null, name text not null,
        slot integer not null,       -- of the permits; the first is there for each name, and says what holds for all
        holder text,
        label text not null,
        token integer not null,
        granted integer not null,
        expires integer not null,
        revoked integer not null,
        permits integer not null default 1,
        mark integer,                -- the newest tick that was claimed, milliseconds since 1970; only grows
        keep integer,                -- how long the name is remembered after its last use, milliseconds; null: for ever
        forget_at integer,           -- wall-clock milliseconds since 1970
        primary key(ns, name, slot)
    ) strict, without rowid;
    insert into leasehold_leases(ns, name, slot, holder, label, token, granted, expires, revoked)
        select ns, name, 0, holder, label, token, granted, expires, revoked from leasehold_locks;
    drop table leasehold_locks;
    alter table leasehold_leases rename to leasehold_locks;
    create index leasehold_forget on leasehold_locks(forget_at) where forget_at is not null;
    create table leasehold_ticks(
        ns text not null, name text not null,
        tick integer not null,       -- claimed and not finished
        holder text,                 -- null: whoever had it never began
        attempts integer not null,
        once integer not null,       -- whether it was promised to run once at most
        primary key(ns, name, tick)
    ) strict, without rowid;
",
    "
    alter table leasehold_locks add column tag integer; -- under which route it was granted; null: under none
    create table leasehold_routes(
        ns text primary key not null,
        epoch integer not null,
        incarnation text,            -- of the primary to which it leads; null: to this file
        not_before integer,          -- from when on it is in force, CLOCK_BOOTTIME nanoseconds; null: it is not armed
        lease integer not null,      -- nanoseconds, as all that is no instant
        drift integer not null,
        max_ttl integer not null,
        identity text not null,      -- which store the primary is
        patience integer not null,
        complained integer,          -- when somebody last could not reach it
        floor integer                -- ticks up to here are over, milliseconds since 1970: data was lost
    ) strict, without rowid;
",
    "
    create table leasehold_notes(
        ns text not null,
        sort text not null,
        name text not null,          -- empty: about no lock
        id text not null,
        at integer not null,         -- when it was written, wall-clock milliseconds since 1970, as until
        until integer not null,
        text text not null,
        primary key(ns, sort, name, id)
    ) strict;
    create index leasehold_newest on leasehold_notes(ns, sort, name, at desc, id);
    create index leasehold_outdated on leasehold_notes(until);
",
];

/// What a file's header says of its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub application: i64,
    pub version: i64,
}

impl Header {
    pub fn read(db: &Connection) -> rusqlite::Result<Self> {
        let number = |pragma| db.pragma_query_value(None, pragma, |row| row.get(0));
        Ok(Self { application: number("application_id")?, version: number("user_version")? })
    }

    fn is_current(self) -> bool {
        self == Self { application: APPLICATION, version: VERSION }
    }
}

/// Sees to it that the tables are there as this build knows them. Foreign and newer files are left untouched.
/// A new file is `ours` from the start.
pub(super) fn prepare(db: &mut Connection, ours: &Identity, shown: &str) -> Result<(), Fault> {
    if !Header::read(db)?.is_current() {
        // In one view of the file: somebody else may be making it at this moment.
        check(&*db.transaction()?, shown)?;
        // Before a new file gets a log: under another name nobody would see that log, and they must see whose it is.
        upgrade(db, ours, shown)?;
    }
    enforce_wal(db, shown)
}

fn check(db: &Connection, shown: &str) -> Result<Header, Fault> {
    let header = Header::read(db)?;
    let misconfigured = |message: String| Err(Error::new(ErrorKind::Misconfigured, message).into());
    if header.application == APPLICATION && header.version > VERSION {
        return misconfigured(format!(
            "{shown} was written by a newer Leasehold (format {}, this one knows {VERSION}); upgrade this one",
            header.version
        ));
    }
    let tables: i64 = db.query_row("select count(*) from sqlite_schema", [], |row| row.get(0))?;
    let empty = header == Header { application: 0, version: 0 } && tables == 0;
    if header.application != APPLICATION && !empty {
        return misconfigured(format!("{shown} is another program's database; give Leasehold a file of its own"));
    }
    Ok(header)
}

/// The mode is stored in the file; whoever opens it sees to it and checks, so that no two modes meet in one file.
fn enforce_wal(db: &Connection, shown: &str) -> Result<(), Fault> {
    let mode = |sql| db.query_row(sql, [], |row| row.get::<_, String>(0));
    if mode("pragma journal_mode")? == "wal" {
        return Ok(());
    }
    let now = mode("pragma journal_mode = wal")?;
    if now == "wal" {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Misconfigured,
        format!("{shown} can't be switched to a write-ahead log (its journal mode stays {now}); use another file"),
    )
    .into())
}

fn upgrade(db: &mut Connection, ours: &Identity, shown: &str) -> Result<(), Fault> {
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Somebody else may have done it meanwhile.
    let header = check(&change, shown)?;
    let done = usize::try_from(header.version).unwrap_or(0);
    for step in &STEPS[done.min(STEPS.len())..] {
        change.execute_batch(step)?;
    }
    if done == 0 {
        ours.store(&change)?;
    }
    change.pragma_update(None, "application_id", APPLICATION)?;
    change.pragma_update(None, "user_version", VERSION)?;
    change.commit().map_err(Fault::at_commit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> (tempfile::TempDir, Connection) {
        let dir = tempfile::tempdir().unwrap();
        let db = Connection::open(dir.path().join("x.db")).unwrap();
        (dir, db)
    }

    fn prepare(db: &mut Connection, shown: &str) -> Result<(), Fault> {
        super::prepare(db, &Identity::default(), shown)
    }

    fn refusal(db: &mut Connection) -> String {
        prepare(db, "x.db").unwrap_err().told(std::path::Path::new("x.db")).to_string()
    }

    #[test]
    fn an_empty_file_gets_the_tables_once() {
        let (_dir, mut db) = file();
        for _ in 0..2 {
            prepare(&mut db, "x.db").unwrap();
            assert!(Header::read(&db).unwrap().is_current());
        }
    }

    #[test]
    fn a_file_of_version_1_is_taken_along() {
        let (_dir, mut db) = file();
        db.execute_batch(STEPS[0]).unwrap();
        db.execute_batch(
            "insert into leasehold_locks values('default', 'job', 'ab', 'web-1', 4711, 1, 9, 0);
             insert into leasehold_locks values('default', 'free', null, 'web-2', 12, 1, 0, 0);
             insert into leasehold_waiters values('default', 'job', 'cd', 'web-2', 1, 2, 3);
             pragma user_version = 1;",
        )
        .unwrap();
        db.pragma_update(None, "application_id", APPLICATION).unwrap();
        prepare(&mut db, "x.db").unwrap();
        assert!(Header::read(&db).unwrap().is_current());
        let (token, slot, permits): (i64, i64, i64) = db
            .query_row("select token, slot, permits from leasehold_locks where holder = 'ab'", [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .unwrap();
        assert_eq!((token, slot, permits), (4711, 0, 1));
        for (table, rows) in [("leasehold_locks", 2), ("leasehold_waiters", 1), ("leasehold_ticks", 0)] {
            let found: i64 = db.query_row(&format!("select count(*) from {table}"), [], |row| row.get(0)).unwrap();
            assert_eq!(found, rows, "{table}");
        }
    }

    #[test]
    fn a_file_of_version_2_is_taken_along_with_its_leases_and_marks() {
        let (_dir, mut db) = file();
        db.execute_batch(&STEPS[..2].concat()).unwrap();
        db.execute_batch(
            "insert into leasehold_locks(ns, name, slot, holder, label, token, granted, expires, revoked, permits, mark)
                values('default', 'job', 0, 'ab', 'web-1', 4711, 1, 9, 0, 3, 77);
             insert into leasehold_ticks values('default', 'job', 77, 'ab', 1, 1);
             pragma user_version = 2;",
        )
        .unwrap();
        db.pragma_update(None, "application_id", APPLICATION).unwrap();
        prepare(&mut db, "x.db").unwrap();
        assert!(Header::read(&db).unwrap().is_current());
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        let found: (i64, i64, i64, Option<i64>) =
            db.query_row("select token, expires, mark, tag from leasehold_locks where holder = 'ab'", [], row).unwrap();
        assert_eq!(found, (4711, 9, 77, None));
        for (table, rows) in [("leasehold_locks", 1), ("leasehold_ticks", 1), ("leasehold_routes", 0)] {
            let found: i64 = db.query_row(&format!("select count(*) from {table}"), [], |row| row.get(0)).unwrap();
            assert_eq!(found, rows, "{table}");
        }
    }

    #[test]
    fn k04_a_newer_file_is_refused_and_left_alone() {
        let (_dir, mut db) = file();
        prepare(&mut db, "x.db").unwrap();
        db.pragma_update(None, "user_version", VERSION + 1).unwrap();
        let says = refusal(&mut db);
        assert!(says.contains("newer") && says.contains("upgrade"), "{says}");
        assert_eq!(Header::read(&db).unwrap().version, VERSION + 1);
    }

    #[test]
    fn another_programs_database_is_refused_and_left_alone() {
        let (_dir, mut db) = file();
        db.execute_batch("create table theirs(x)").unwrap();
        let says = refusal(&mut db);
        assert!(says.contains("another program's"), "{says}");
        let mode: String = db.query_row("pragma journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "delete");
    }

    #[test]
    fn k04_the_mode_is_put_back() {
        let (_dir, mut db) = file();
        prepare(&mut db, "x.db").unwrap();
        let mode: String = db.query_row("pragma journal_mode = delete", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "delete");
        prepare(&mut db, "x.db").unwrap();
        let mode: String = db.query_row("pragma journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
    }
}
