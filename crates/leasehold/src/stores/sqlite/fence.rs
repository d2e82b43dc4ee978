//! A lease, looked at from inside somebody else's transaction.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::{Connection, ErrorCode, FileControl, ffi, params};

use super::fault::Fault;
use super::hex::Hex;
use super::place::{Place, Still};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{FencingToken, LeaseKey};
use crate::name::Namespace;
use crate::tick::Tick;

/// Takes the write lock of `file` for the rest of the transaction that is open on `db`, and answers whether the lease
/// stands: nobody else can be granted anything in that file until the transaction has ended, for that needs the lock.
pub(crate) fn holds(
    db: &Connection,
    file: &Path,
    namespace: &Namespace,
    lease: &LeaseKey,
    token: FencingToken,
) -> Result<bool> {
    let Some(schema) = schema_of(db, file)? else { return Ok(false) };
    // It changes nothing. A statement that writes has the lock before it looks, so what it sees is how things are.
    let touch = format!(
        "update {}.leasehold_locks set token = token where ns = ?1 and name = ?2 and holder = ?3 and token = ?4",
        quoted(&schema)
    );
    let holder = Hex::of(lease.holder);
    let row = params![namespace.as_str(), lease.name.as_str(), holder.as_str(), token.number().cast_signed()];
    let found = db.execute(&touch, row).map_err(|error| failed(error, file))?;
    // Only now: what is replaced later was the right one while it counted.
    check_not_moved(db, &schema, file)?;
    Ok(found > 0)
}

/// Closes the lease's tick in the transaction that is open on `db`, and answers whether it was open.
pub(crate) fn closes(
    db: &Connection,
    file: &Path,
    namespace: &Namespace,
    lease: &LeaseKey,
    tick: Tick,
) -> Result<bool> {
    let Some(schema) = schema_of(db, file)? else { return Ok(false) };
    let close = format!(
        "delete from {}.leasehold_ticks where ns = ?1 and name = ?2 and tick = ?3 and holder = ?4",
        quoted(&schema)
    );
    let holder = Hex::of(lease.holder);
    let row = params![namespace.as_str(), lease.name.as_str(), tick.as_unix_millis(), holder.as_str()];
    Ok(db.execute(&close, row).map_err(|error| failed(error, file))? > 0)
}

/// Files with write-ahead logs are committed to one after the other: what is to be done in one step must be in one file.
pub(crate) fn check_alone(db: &Connection, file: &Path) -> Result<()> {
    let ours = schema_of(db, file)?;
    for (schema, place) in schemas(db).map_err(|error| failed(error, file))? {
        let may_be_written = !db.is_readonly(schema.as_str()).map_err(|error| failed(error, file))?;
        if Some(&schema) != ours.as_ref() && may_be_written {
            return Err(Error::invalid(format!(
                "the transaction may write to {} as well as to {}, where the lock is, and SQLite commits to the one after the \
                 other: killed in between, the work would be done and its tick open. Have the job's tables in the locks' file and \
                 no other file attached, or that one read-only",
                place.path.display(),
                file.display()
            )));
        }
    }
    Ok(())
}

/// As what the connection knows the file; none if there is no file any more, and so no lease. The same file may be
/// reached by many paths, so paths are not compared.
fn schema_of(db: &Connection, file: &Path) -> Result<Option<String>> {
    let place = Place::resolve(file)?;
    let unseen = |error| {
        Error::new(ErrorKind::Unavailable, format!("{} can't be looked up: {error}", file.display())).with_source(error)
    };
    let Some(there) = place.files().map_err(unseen)? else {
        return if place.exists().map_err(unseen)? { Err(Fault::Torn.told(file)) } else { Ok(None) };
    };
    let mut has_another_log = false;
    for (schema, place) in schemas(db).map_err(|error| failed(error, file))? {
        match place.still_has(&there) {
            Ok(Still::Same) => return Ok(Some(schema)),
            Ok(Still::Torn) => has_another_log = true,
            Ok(Still::Replaced) | Err(_) => {}
        }
    }
    if has_another_log {
        return Err(Fault::Elsewhere.told(file)); // A hard link: it is locked in its own log only.
    }
    let shown = file.display().to_string();
    Err(Error::invalid(format!(
        "the lock is in {shown}, which is not among this connection's databases: before the transaction begins, \
         ATTACH DATABASE '{}' AS locks; or use fence::rusqlite::fenced, which needs no such file",
        shown.replace('\'', "''")
    )))
}

/// The connection's databases that are files, by the names that they have in it.
fn schemas(db: &Connection) -> rusqlite::Result<Vec<(String, Place)>> {
    let mut list = db.prepare("pragma database_list")?;
    let mut rows = list.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        // One without a path is in memory, or temporary.
        let path = row.get_ref(2)?.as_bytes_or_null()?.filter(|path| !path.is_empty());
        if let Some(place) = path.and_then(|path| Place::resolve(Path::new(OsStr::from_bytes(path))).ok()) {
            found.push((row.get(1)?, place));
        }
    }
    Ok(found)
}

/// The file that is open may be one that was there before.
fn check_not_moved(db: &Connection, schema: &str, file: &Path) -> Result<()> {
    let mut moved = 0;
    db.file_control(Some(schema), FileControl::HasMoved(&mut moved)).map_err(|error| failed(error, file))?;
    if moved == 0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Misconfigured,
        format!(
            "{} was replaced after this connection had opened it, and the locks are in the new one: roll back, DETACH \
             it and ATTACH it again (or connect again)",
            file.display()
        ),
    ))
}

fn quoted(schema: &str) -> String {
    format!("\"{}\"", schema.replace('"', "\"\""))
}

/// What went wrong with `file` on a connection that isn't ours: how long that one waits is its own affair.
pub(crate) fn failed(error: rusqlite::Error, file: &Path) -> Error {
    let shown = file.display();
    let (kind, message) = match (error.sqlite_error_code(), error.sqlite_error().map(|found| found.extended_code)) {
        (_, Some(ffi::SQLITE_BUSY_SNAPSHOT)) => (
            ErrorKind::Unavailable,
            format!(
                "the transaction has read {shown}, and somebody has written there since, so it can't: roll back and do \
                 the transaction again, and begin it with BEGIN IMMEDIATE if all its tables are in that file"
            ),
        ),
        (Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked), _) => (
            ErrorKind::TimedOut,
            format!(
                "{shown} was being written by others for as long as this connection waits (its busy timeout): roll \
                 back and do the transaction again"
            ),
        ),
        _ => return Fault::from(error).told(file),
    };
    Error::new(kind, format!("{message} ({error})")).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_schema_can_be_named() {
        let db = Connection::open_in_memory().unwrap();
        let strange = "a \"b\" 'c'; --";
        db.execute_batch(&format!("attach ':memory:' as {}", quoted(strange))).unwrap();
        db.execute_batch(&format!("create table {}.t(x)", quoted(strange))).unwrap();
    }

    #[test]
    fn a_database_without_a_file_is_none() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch("attach '' as temporary; create temp table t(x)").unwrap();
        assert!(schemas(&db).unwrap().is_empty());
    }

    #[test]
    fn the_message_for_a_file_that_is_not_attached_can_be_pasted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("it's locks.db");
        let theirs = Connection::open(&file).unwrap();
        theirs.execute_batch("pragma journal_mode = wal; create table t(x)").unwrap();
        let ours = Connection::open(dir.path().join("jobs.db")).unwrap();
        let error = schema_of(&ours, &file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let says = error.to_string();
        let attach = &says[says.find("ATTACH").unwrap()..says.rfind(" AS locks").unwrap()];
        ours.execute_batch(&format!("{attach} as \"any name\"")).unwrap();
        assert_eq!(schema_of(&ours, &file).unwrap().as_deref(), Some("any name"));
    }
}
