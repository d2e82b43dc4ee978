//! As whom servers run that refuse root.

use std::fs;
use std::os::unix::fs::{chown, lchown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::unistd::{Uid, User};

/// The user that a server runs as, and whose its directory is.
#[derive(Debug, Clone)]
pub(super) enum Account {
    /// Whoever runs the tests.
    Ours,
    /// Root runs them, and the server is somebody else.
    Other(User),
}

impl Account {
    /// Ours, unless that is root's: then that of the server's package, or nobody's.
    pub(super) fn of(package: &str) -> Self {
        if !Uid::effective().is_root() {
            return Self::Ours;
        }
        let found = [package, "nobody"].into_iter().find_map(|name| User::from_name(name).ok().flatten());
        Self::Other(found.expect("there is a user nobody"))
    }

    /// Has the command run as that user.
    pub(super) fn run(&self, command: &mut Command) {
        if let Self::Other(user) = self {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
    }

    /// Gives that user a directory and all that is in it.
    pub(super) fn own(&self, directory: &Path) {
        let Self::Other(user) = self else { return };
        let (uid, gid) = (Some(user.uid.as_raw()), Some(user.gid.as_raw()));
        chown(directory, uid, gid).expect("root may give away what is ours");
        for entry in fs::read_dir(directory).expect("the directory is there").flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.own(&entry.path());
            } else {
                lchown(entry.path(), uid, gid).expect("root may give away what is ours");
            }
        }
    }
}
