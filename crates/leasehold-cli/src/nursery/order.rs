//! What a runner is to run.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use crate::warden::Due;

/// One run of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Variables to take away from the inherited environment, first.
    pub remove: Vec<OsString>,
    /// Variables to set.
    pub set: Vec<(OsString, OsString)>,
    /// Where it runs, if not where the scheduler does.
    pub dir: Option<OsString>,
    /// How long after TERM the KILL comes.
    pub kill_after: Duration,
    /// Wait for everything that it starts.
    pub wait_group: bool,
    /// When it is to end if no more is heard.
    pub due: Due,
}

impl Order {
    /// As a file in memory: there is no limit to its length, as there is to a packet's.
    pub fn write(&self) -> io::Result<OwnedFd> {
        in_memory(&serde_json::to_vec(self)?)
    }

    /// Reads what [`write`](Self::write) wrote.
    pub fn read(file: OwnedFd) -> io::Result<Order> {
        Ok(serde_json::from_reader(io::BufReader::new(File::from(file)))?)
    }

    /// The first variable that no environment can hold, if any.
    pub fn impossible_variable(&self) -> Option<&OsStr> {
        let names = self.remove.iter().chain(self.set.iter().map(|(name, _)| name));
        let impossible = |name: &&OsString| name.is_empty() || name.as_bytes().iter().any(|byte| b"=\0".contains(byte));
        let with_nul = self.set.iter().find(|(_, value)| value.as_bytes().contains(&0)).map(|(name, _)| name);
        names.clone().find(impossible).or(with_nul).map(OsString::as_os_str)
    }
}

/// A file in memory with this in it, to be read from its beginning.
pub fn in_memory(content: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(c"leasehold", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn order() -> Order {
        Order {
            argv: vec!["sh".into(), OsString::from_vec(vec![0xff, b'a']), "x".repeat(1 << 20).into()],
            remove: vec!["A".into()],
            set: vec![("B".into(), OsString::from_vec(vec![0xfe]))],
            dir: Some("/".into()),
            kill_after: Duration::from_millis(1500),
            wait_group: true,
            due: Due { term_at: 1, kill_at: u64::MAX },
        }
    }

    #[test]
    fn an_order_of_any_length_and_bytes_survives_the_way() {
        assert_eq!(Order::read(order().write().unwrap()).unwrap(), order());
    }

    #[test]
    fn what_no_environment_holds_is_found() {
        assert_eq!(order().impossible_variable(), None);
        for name in ["", "A=B", "A\0"] {
            let set = vec![(name.into(), "x".into())];
            assert_eq!(Order { set, ..order() }.impossible_variable(), Some(OsStr::new(name)));
            assert_eq!(Order { remove: vec![name.into()], ..order() }.impossible_variable(), Some(OsStr::new(name)));
        }
        let set = vec![("A".into(), "x\0".into())];
        assert_eq!(Order { set, ..order() }.impossible_variable(), Some(OsStr::new("A")));
    }
}
