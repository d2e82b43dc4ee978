//! Where the file is: its one true path, what it lies on, and whether it is still the same file.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::machine::Machine;
use crate::error::{Error, ErrorKind, Result};

/// A database's path without symbolic links, and those of the two files that SQLite keeps beside it.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub path: PathBuf,
    wal: PathBuf,
    shm: PathBuf,
}

impl Place {
    /// Follows `path` to where its last symbolic link points, as SQLite would.
    pub fn resolve(path: &Path) -> Result<Self> {
        let path = canonical(path, 0)?;
        let beside = |suffix: &str| {
            let mut name = path.clone().into_os_string();
            name.push(suffix);
            PathBuf::from(name)
        };
        Ok(Self { wal: beside("-wal"), shm: beside("-shm"), path })
    }

    /// The directory that the file is in.
    pub fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// What tells a file opened here from the same file opened under another name. SQLite finds the
    /// write-ahead log by name: a hard link, or a bind mount of the file without its directory, has another
    /// log, and two logs of one file destroy it. A bind mount of the directory has the same.
    pub fn home(&self) -> io::Result<String> {
        let directory = fs::metadata(self.directory())?.ino();
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        Ok(format!("{directory}/{name}"))
    }

    /// Which files are there now; none if one is missing.
    pub fn files(&self) -> io::Result<Option<Files>> {
        let [Some(db), Some(wal), Some(shm)] = [inode(&self.path)?, inode(&self.wal)?, inode(&self.shm)?] else {
            return Ok(None);
        };
        Ok(Some(Files { db, wal, shm }))
    }

    /// Whether the files that were opened are those that are there now.
    pub fn still_has(&self, opened: &Files) -> io::Result<Still> {
        if !self.has(opened)? {
            return Ok(Still::Replaced);
        }
        if inode(&self.wal)? != Some(opened.wal) || inode(&self.shm)? != Some(opened.shm) {
            return Ok(Still::Torn);
        }
        Ok(Still::Same)
    }

    /// Whether the database that was opened is the one that is there now.
    pub fn has(&self, opened: &Files) -> io::Result<bool> {
        Ok(inode(&self.path)? == Some(opened.db))
    }

    /// Whether there is a file.
    pub fn exists(&self) -> io::Result<bool> {
        Ok(inode(&self.path)?.is_some())
    }

    /// How large the write-ahead log's file is.
    pub fn wal_bytes(&self) -> u64 {
        fs::metadata(&self.wal).map_or(0, |found| found.len())
    }

    /// Refuses file systems that are not known to be one machine's own.
    pub fn check_file_system(&self, machine: &dyn Machine, trusted: bool) -> Result<()> {
        let kind = self.file_system(machine)?;
        if kind.is_local() || trusted {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Misconfigured,
            format!(
                "{} is on {kind}, which may be shared between machines; SQLite's locks and its write-ahead log, and \
                 the clock that leases are counted on, work within one kernel only. Put the file on a local file \
                 system, or, if no other machine ever opens it, add {OVERRIDE} to the URL",
                self.path.display()
            ),
        ))
    }

    /// What the file, or until it exists its directory, is on.
    pub fn file_system(&self, machine: &dyn Machine) -> Result<FileSystem> {
        machine.file_system(&self.path).or_else(|_| machine.file_system(self.directory())).map(FileSystem).map_err(
            |error| {
                Error::new(
                    ErrorKind::Unavailable,
                    format!("what file system {} is on can't be found out: {error}", self.path.display()),
                )
                .with_source(error)
            },
        )
    }
}

/// How to be served on a file system that isn't on the list.
pub(super) const OVERRIDE: &str = "trust_file_system=only-this-machine-opens-it";

/// Device and inode of a database and its two companions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Files {
    pub db: Inode,
    wal: Inode,
    shm: Inode,
}

type Inode = (u64, u64);

/// Whether the open files are still what their names say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Still {
    Same,
    /// Another database is there, or none.
    Replaced,
    /// The database is there; its log was taken away from under those who have it open.
    Torn,
}

fn inode(path: &Path) -> io::Result<Option<Inode>> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some((found.dev(), found.ino()))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

fn canonical(path: &Path, links: u32) -> Result<PathBuf> {
    let failed = |what: &Path, error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            Error::new(ErrorKind::Misconfigured, format!("there is no directory {}; create it", what.display()))
        }
        io::ErrorKind::PermissionDenied => Error::new(
            ErrorKind::AccessDenied,
            format!("{} can't be looked up: permission to search a directory on the way is missing", what.display()),
        )
        .with_source(error),
        _ => Error::new(ErrorKind::Misconfigured, format!("{} can't be looked up: {error}", what.display()))
            .with_source(error),
    };
    match fs::canonicalize(path) {
        Ok(found) if found.is_dir() => {
            return Err(Error::new(
                ErrorKind::Misconfigured,
                format!("{} is a directory; name a file in it", found.display()),
            ));
        }
        Ok(found) => return Ok(found),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(path, error)),
        Err(_) => {}
    }
    // Not there yet. A link to a file that isn't there yet leads to where that will be made.
    if let Ok(target) = fs::read_link(path)
        && links < 40
    {
        return canonical(&path.parent().unwrap_or(Path::new("")).join(target), links + 1);
    }
    let name = match path.file_name() {
        Some(name) if !path.as_os_str().as_bytes().ends_with(b"/") => name,
        _ => {
            return Err(Error::invalid(format!("{} names a directory; name a file in it", path.display())));
        }
    };
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    Ok(fs::canonicalize(directory).map_err(|error| failed(directory, error))?.join(name))
}

/// The file for whoever names none: one for the whole system if root asks, else one for this user.
pub(super) fn default_path() -> Result<PathBuf> {
    if nix::unistd::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/leasehold/locks.db"));
    }
    let absolute = |variable| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    let state = state.ok_or_else(|| {
        Error::invalid("there is no default file without HOME or XDG_STATE_HOME; name one: sqlite:///path/locks.db")
    })?;
    Ok(state.join("leasehold/locks.db"))
}

/// Makes the directory of the default file.
pub(super) fn make_directory_of(path: &Path) -> Result<()> {
    let Some(directory) = path.parent() else { return Ok(()) };
    let mode = if nix::unistd::geteuid().is_root() { 0o755 } else { 0o700 };
    fs::DirBuilder::new().recursive(true).mode(mode).create(directory).map_err(|error| {
        let kind = match error.kind() {
            io::ErrorKind::PermissionDenied => ErrorKind::AccessDenied,
            _ => ErrorKind::Refused,
        };
        Error::new(kind, format!("the directory {} can't be made: {error}", directory.display())).with_source(error)
    })
}

/// A type of file system, by the number that `statfs` gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileSystem(u32);

/// Those of one kernel only. A list of what is allowed: a new network file system must not get in by being unknown.
const LOCAL: [(u32, &str); 13] = [
    (0x0000_EF53, "ext"),
    (0x5846_5342, "XFS"),
    (0x9123_683E, "Btrfs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58F6, "ramfs"),
    (0x2FC1_2FC1, "ZFS"),
    (0xF2F5_2010, "F2FS"),
    (0x794C_7630, "overlayfs"),
    (0xCA45_1A4E, "bcachefs"),
    (0x3153_464A, "JFS"),
    (0x5265_4973, "ReiserFS"),
    (0x0000_3434, "NILFS2"),
    (0x0000_F15F, "eCryptfs"),
];

/// Those that people will come with; only for the message.
const FOREIGN: [(u32, &str); 16] = [
    (0x0000_6969, "NFS"),
    (0x0000_517B, "SMB"),
    (0xFE53_4D42, "SMB"),
    (0xFF53_4D42, "CIFS"),
    (0x6573_5546, "FUSE (or virtiofs)"),
    (0x0102_1997, "9p"),
    (0x00C3_6400, "Ceph"),
    (0x5346_414F, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0116_1970, "GFS2"),
    (0x7461_636F, "OCFS2"),
    (0x0BD0_0BD0, "Lustre"),
    (0x786F_4256, "VirtualBox shared folders"),
    (0xBACB_ACBC, "VMware shared folders"),
    (0x4750_4653, "GPFS"),
    (0x0000_9FA0, "proc"),
];

impl FileSystem {
    pub fn is_local(self) -> bool {
        LOCAL.iter().any(|(number, _)| *number == self.0)
    }
}

impl std::fmt::Display for FileSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match LOCAL.iter().chain(&FOREIGN).find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "a file system of an unknown type ({:#x})", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn k04_every_name_of_a_file_leads_to_the_same_place() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir(root.join("real")).unwrap();
        symlink(root.join("real"), root.join("dir-link")).unwrap();
        symlink("real/locks.db", root.join("file-link")).unwrap();
        let at = |name: &str| Place::resolve(&root.join(name)).unwrap().path;
        for _ in ["not made yet", "made"] {
            for name in ["real/locks.db", "dir-link/locks.db", "file-link", "real/../real/./locks.db"] {
                assert_eq!(at(name), root.join("real/locks.db"), "{name}");
            }
            fs::write(root.join("real/locks.db"), "").unwrap();
        }
    }

    #[test]
    fn paths_that_can_name_no_file_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let says = |path: &str| Place::resolve(&dir.path().join(path)).unwrap_err().to_string();
        assert!(says("none/locks.db").contains("there is no directory"), "{}", says("none/locks.db"));
        assert!(says("").contains("is a directory"), "{}", says(""));
        assert!(says("new/").contains("names a directory"), "{}", says("new/"));
        symlink("loop", dir.path().join("loop")).unwrap();
        assert!(!says("loop").is_empty());
    }

    #[test]
    fn k03_only_known_local_file_systems_are_trusted() {
        assert!(FileSystem(0xEF53).is_local());
        assert!(!FileSystem(0x6969).is_local());
        assert!(!FileSystem(0x1234_5678).is_local());
        assert_eq!(FileSystem(0x0102_1997).to_string(), "9p");
        assert!(FileSystem(0x1234).to_string().contains("0x1234"));
    }
}
