//! A server's own directory.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Once;

use tempfile::TempDir;

const PREFIX: &str = "leasehold-server-";
/// Locked by the process whose directory it is; a lock ends with its process, also with `kill -9`.
const OWNER: &str = "owner";

/// A new directory, removed when dropped; if it isn't, because the process was killed, by a later process.
#[derive(Debug)]
pub(super) struct Directory {
    directory: TempDir,
    _owner: File,
}

impl Directory {
    pub(super) fn new() -> Self {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(|| remove_abandoned(&std::env::temp_dir()));
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir().expect("a directory can be made");
        let owner = own(directory.path()).expect("files can be made and locked in a new directory");
        Self { directory, _owner: owner }
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Under its name the file is always locked, so nobody takes a directory that is just being made for an abandoned one.
fn own(directory: &Path) -> io::Result<File> {
    let unnamed = directory.join("owner.new");
    let owner = File::create(&unnamed)?;
    owner.lock()?;
    fs::rename(unnamed, directory.join(OWNER))?;
    Ok(owner)
}

/// Somebody else may be doing the same, so nothing in here has to succeed.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(owner) = File::open(entry.path().join(OWNER)) else { continue };
        if owner.try_lock().is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_goes_with_its_owner() {
        let directory = Directory::new();
        let path = directory.path().to_owned();
        assert!(path.is_dir());
        drop(directory);
        assert!(!path.exists());
    }

    #[test]
    fn only_abandoned_directories_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let of = |name: &str| parent.path().join(name);
        let [owned, abandoned, unfinished, foreign] =
            ["leasehold-server-a", "leasehold-server-b", "leasehold-server-c", "else"].map(of);
        for path in [&owned, &abandoned, &unfinished, &foreign] {
            fs::create_dir(path).unwrap();
        }
        let _owner = own(&owned).unwrap();
        drop(own(&abandoned).unwrap());
        drop(own(&foreign).unwrap());
        remove_abandoned(parent.path());
        assert!(owned.exists() && unfinished.exists() && foreign.exists());
        assert!(!abandoned.exists());
    }
}
