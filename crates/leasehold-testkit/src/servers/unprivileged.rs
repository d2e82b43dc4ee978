//! Servers that refuse to be run by root.

use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::{fs, io};

/// As whom such a server runs: as ourselves, unless we are root.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unprivileged {
    ids: Option<(u32, u32)>,
}

impl Unprivileged {
    /// One of `names` that this machine knows, or nobody.
    pub(super) fn one_of(names: &[&str]) -> Self {
        if fs::metadata("/proc/self").expect("Linux shows processes").uid() != 0 {
            return Self { ids: None };
        }
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let find = |name: &str| {
            let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
            let mut ids = line.split(':').skip(2);
            Some((ids.next()?.parse().ok()?, ids.next()?.parse().ok()?))
        };
        let ids = names.iter().find_map(|name| find(name)).or_else(|| find("nobody"));
        Self { ids: Some(ids.unwrap_or((65534, 65534))) }
    }

    /// Makes a program be run by it.
    pub(super) fn run(self, command: &mut Command) {
        if let Some((user, group)) = self.ids {
            command.uid(user).gid(group);
        }
    }

    /// Gives it a file or folder.
    pub(super) fn own(self, path: &Path) -> io::Result<()> {
        self.ids.map_or(Ok(()), |(user, group)| chown(path, Some(user), Some(group)))
    }
}
