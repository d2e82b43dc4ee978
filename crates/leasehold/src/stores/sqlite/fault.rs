//! What can go wrong below, before it is told to callers.

use std::path::Path;

use nix::unistd::{AccessFlags, access};
use rusqlite::ErrorCode;

use crate::error::{Applied, Error, ErrorKind};

/// A failure of one operation on the file.
#[derive(Debug)]
pub(super) enum Fault {
    /// SQLite said so.
    Sqlite(rusqlite::Error, Applied),
    /// There is no file, and this operation makes none.
    NoFile,
    /// It was replaced while it was being opened.
    Moved,
    /// The log was taken away from under the open database.
    Torn,
    /// The file belongs to another clock or another name, and whether anybody uses it there is to be found out.
    Elsewhere,
    /// Ready to be told.
    Told(Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error, Applied::No)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

impl Fault {
    /// A failure of whatever commits. After most of them nothing was written; a failed sync or a failed write of
    /// the log's index may be found applied by whoever recovers the log.
    pub fn at_commit(error: rusqlite::Error) -> Self {
        let certain = matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DiskFull | ErrorCode::ReadOnly | ErrorCode::ConstraintViolation)
        );
        Self::Sqlite(error, if certain { Applied::No } else { Applied::Maybe })
    }

    /// Whether it was only that somebody else was writing.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Sqlite(error, _)
            if matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)))
    }

    /// As callers are told. By reference: one failed batch answers for many leases.
    pub fn told(&self, path: &Path) -> Error {
        match self {
            Self::Sqlite(error, applied) => {
                let told = explain(error, path);
                if *applied == Applied::Maybe { told.maybe_applied() } else { told }
            }
            Self::NoFile => Error::new(ErrorKind::Unavailable, format!("there is no file {} any more", path.display())),
            Self::Moved => {
                Error::new(ErrorKind::Unavailable, format!("{} is being replaced again and again", path.display()))
            }
            Self::Torn => Error::new(
                ErrorKind::Misconfigured,
                format!(
                    "the -wal or -shm file of {} was deleted or replaced while it was in use; stop every process that \
                     uses it before starting one again, and never touch these files on their own",
                    path.display()
                ),
            ),
            Self::Elsewhere => Error::new(
                ErrorKind::Misconfigured,
                format!(
                    "{} is in use in another container with a boot id or time namespace of its own, or under another \
                     name (a hard link, or a bind mount of the file alone); processes can share it only if they read \
                     the same CLOCK_BOOTTIME and reach it through the same directory",
                    path.display()
                ),
            ),
            Self::Told(error) => {
                let told = Error::new(error.kind(), error.to_string());
                if error.applied() == Applied::Maybe { told.maybe_applied() } else { told }
            }
        }
    }
}

fn explain(error: &rusqlite::Error, path: &Path) -> Error {
    let shown = path.display();
    let (kind, message) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (ErrorKind::TimedOut, format!("{shown} was being written by another process for 5 s"))
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => not_opened(path),
        Some(ErrorCode::DiskFull) => (ErrorKind::Refused, format!("{shown} can't be written: the disk is full")),
        Some(ErrorCode::SystemIoFailure) => {
            (ErrorKind::Refused, format!("{shown} can't be read or written (full or failing disk, or a quota)"))
        }
        Some(ErrorCode::NotADatabase) => {
            (ErrorKind::Misconfigured, format!("{shown} is no SQLite database; name another file"))
        }
        Some(ErrorCode::DatabaseCorrupt) => (
            ErrorKind::Misconfigured,
            format!("{shown} is damaged; stop everything that uses it and move it away, it is made anew"),
        ),
        Some(ErrorCode::FileLockingProtocolFailed | ErrorCode::OutOfMemory) => {
            (ErrorKind::Unavailable, format!("{shown} can't be used right now"))
        }
        Some(ErrorCode::Unknown | ErrorCode::SchemaChanged) => (
            ErrorKind::Misconfigured,
            format!("the tables in {shown} are not those that this version makes; has somebody changed them?"),
        ),
        _ => (ErrorKind::Internal, format!("an operation on {shown} failed")),
    };
    Error::new(kind, format!("{message} ({error})")).with_source(Cause(error.to_string()))
}

/// What SQLite said, kept as the source: its own error can't be cloned, and one may answer for many leases.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Cause(String);

/// What is missing where SQLite only says that it can't open or write.
fn not_opened(path: &Path) -> (ErrorKind, String) {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let writable = AccessFlags::R_OK | AccessFlags::W_OK;
    let shown = path.display();
    for (what, need) in [(directory, writable | AccessFlags::X_OK), (path, writable)] {
        match access(what, need) {
            Err(nix::errno::Errno::EROFS) => {
                return (ErrorKind::Refused, format!("{shown} can't be written: its file system is read-only"));
            }
            Err(nix::errno::Errno::EACCES | nix::errno::Errno::EPERM) => {
                let reason = if what == path { "the file" } else { "its directory (SQLite keeps its log there)" };
                return (
                    ErrorKind::AccessDenied,
                    format!("{shown} can't be used: permission to read and write {reason} is missing"),
                );
            }
            Err(nix::errno::Errno::ENOENT) if what == directory => {
                return (ErrorKind::Unavailable, format!("the directory {} is gone", directory.display()));
            }
            _ => {}
        }
    }
    if path.is_dir() {
        return (ErrorKind::Misconfigured, format!("{shown} is a directory; name a file in it"));
    }
    // The files are there and allowed: those beside it may not be, or descriptors or space have run out.
    (
        ErrorKind::Refused,
        format!("{shown}, its -wal or its -shm can't be opened for writing (permissions, space, open files?)"),
    )
}
