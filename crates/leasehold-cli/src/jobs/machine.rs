//! What a crontab's lines are about: the users and the programs of this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::unistd::{Uid, User};

/// This machine, as a crontab sees it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Machine;

impl Machine {
    /// Whether a user has this name.
    pub fn has_user(self, name: &str) -> bool {
        User::from_name(name).is_ok_and(|user| user.is_some())
    }

    /// Who we are; our number where that has no name.
    pub fn user(self) -> String {
        let ours = Uid::effective();
        User::from_uid(ours).ok().flatten().map_or_else(|| ours.to_string(), |user| user.name)
    }

    /// Where we are at home.
    pub fn home(self) -> Option<String> {
        std::env::var("HOME").ok().filter(|home| !home.is_empty())
    }

    /// Whether a shell would find a program of this name, along this PATH or ours.
    pub fn has_program(self, name: &str, path: Option<&str>) -> bool {
        let ours = std::env::var("PATH").unwrap_or_default();
        let mut folders = path.unwrap_or(&ours).split(':').filter(|dir| !dir.is_empty());
        folders.any(|dir| Self::is_program(&Path::new(dir).join(name)))
    }

    /// Whether there is a program at this path.
    pub fn is_program(path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    }
}
