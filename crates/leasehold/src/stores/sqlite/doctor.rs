//! What an operator should know about the file.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::boot::Identity;
use super::connection::Connection;
use super::database::LOG_PAGES;
use super::fault::Fault;
use super::place::OVERRIDE;
use super::schema::Header;
use crate::finding::Finding;

/// Databases up to this many pages are read whole for a check.
const CHECKED_PAGES: i64 = 20_000;

/// Examines an open file. What can't work at all was refused when it was opened.
pub(super) fn diagnose(connection: &Connection) -> Result<Vec<Finding>, Fault> {
    Ok(vec![
        Finding::fine("file", connection.database.place.path.display().to_string()),
        file_system(connection),
        permissions(connection),
        clock(connection)?,
        format(connection)?,
        log(connection)?,
        space(connection),
        integrity(connection)?,
    ])
}

fn file_system(connection: &Connection) -> Finding {
    let database = &connection.database;
    match database.place.file_system(&*database.machine) {
        Ok(kind) if kind.is_local() => Finding::fine("file system", format!("{kind}: of this machine only")),
        Ok(kind) => Finding::warning(
            "file system",
            format!("{kind}: trusted because the URL says {OVERRIDE}"),
            "if any other machine can open the file, two may hold one lock: move it to a local file system",
        ),
        Err(error) => Finding::problem("file system", error.to_string(), "mount it again"),
    }
}

fn permissions(connection: &Connection) -> Finding {
    let place = &connection.database.place;
    let (file, directory) = match (fs::metadata(&place.path), fs::metadata(place.directory())) {
        (Ok(file), Ok(directory)) => (file, directory),
        (Err(error), _) | (_, Err(error)) => {
            return Finding::problem("permissions", format!("can't be read: {error}"), "let this user read them");
        }
    };
    let owner = format!("owner {}, mode {:03o}", file.uid(), file.mode() & 0o777);
    // Whoever can write the file can take any lock away; whoever can write the directory can replace the file,
    // unless the sticky bit keeps others from renaming it.
    if file.mode() & 0o002 != 0 {
        return Finding::warning(
            "permissions",
            format!("every user can write the file ({owner}) and so take away every lock"),
            format!("chmod o-w {}", place.path.display()),
        );
    }
    if directory.mode() & 0o1002 == 0o002 {
        return Finding::warning(
            "permissions",
            format!("every user can replace the file: its directory is writable for all ({owner})"),
            format!("chmod o-w {}", place.directory().display()),
        );
    }
    if file.nlink() > 1 {
        return Finding::warning(
            "permissions",
            format!("the file has {} names (hard links)", file.nlink()),
            "open it under one of them only; SQLite finds its log by the name",
        );
    }
    Finding::fine("permissions", owner)
}

fn clock(connection: &Connection) -> Result<Finding, Fault> {
    let stored = Identity::stored(&connection.db)?;
    let ours = Identity::of(&connection.database)?;
    Ok(if stored.as_ref() == Some(&ours) {
        Finding::fine("clock", format!("CLOCK_BOOTTIME of boot {}", ours.clock()))
    } else {
        Finding::problem(
            "clock",
            "the file belongs to another boot, time namespace or path by now",
            "stop what opened it there",
        )
    })
}

fn format(connection: &Connection) -> Result<Finding, Fault> {
    let header = Header::read(&connection.db)?;
    Ok(Finding::fine("format", format!("version {}", header.version)))
}

fn log(connection: &Connection) -> Result<Finding, Fault> {
    let mode: String = connection.db.query_row("pragma journal_mode", [], |row| row.get(0))?;
    if mode != "wal" {
        return Ok(Finding::problem(
            "log",
            format!("the journal mode was changed to {mode}"),
            "don't open the file with other programs; restart those that use it",
        ));
    }
    let page: u32 = connection.db.query_row("pragma page_size", [], |row| row.get(0))?;
    let bytes = connection.database.place.wal_bytes();
    let shown = format!("write-ahead log of {} KiB", bytes / 1024);
    Ok(if bytes > u64::from(page) * u64::from(LOG_PAGES) * 16 {
        Finding::warning(
            "log",
            format!("{shown}: something keeps it from starting over"),
            "look for programs that keep a read transaction open on the file",
        )
    } else {
        Finding::fine("log", shown)
    })
}

fn space(connection: &Connection) -> Finding {
    match nix::sys::statvfs::statvfs(connection.database.place.directory()) {
        Ok(found) => {
            let free = u128::from(found.blocks_available()) * u128::from(found.fragment_size()) / 1024;
            let shown = if free < 10 * 1024 { format!("{free} KiB free") } else { format!("{} MiB free", free / 1024) };
            let fix = "make room: on a full disk no lock can be taken or renewed";
            match free {
                0..64 => Finding::problem("space", shown, fix),
                64..16_384 => Finding::warning("space", shown, fix),
                _ => Finding::fine("space", shown),
            }
        }
        Err(error) => Finding::warning("space", format!("unknown: {error}"), "look at df"),
    }
}

fn integrity(connection: &Connection) -> Result<Finding, Fault> {
    let pages: i64 = connection.db.query_row("pragma page_count", [], |row| row.get(0))?;
    if pages > CHECKED_PAGES {
        return Ok(Finding::fine("integrity", format!("{pages} pages, too many to check here")));
    }
    let says: String = connection.db.query_row("pragma quick_check(1)", [], |row| row.get(0))?;
    Ok(if says == "ok" {
        Finding::fine("integrity", format!("{pages} pages, all sound"))
    } else {
        Finding::problem("integrity", says, "stop everything that uses the file and move it away; it is made anew")
    })
}
