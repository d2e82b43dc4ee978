//! What the store takes from the machine: the seam at which its tests put another one in place.

use std::fmt::Debug;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::error::{Error, ErrorKind, Result};
use crate::validity::{BootClock, Clock};

/// The clocks of the machine, and how it keeps its files.
pub(super) trait Machine: Debug + Send + Sync + 'static {
    /// `CLOCK_BOOTTIME` in nanoseconds: what leases are counted on. Setting the wall clock doesn't touch it.
    fn now(&self) -> i64;

    /// Wall-clock milliseconds since 1970. It judges ticks, and keeps a lost token counter ahead of its predecessor;
    /// no lease ends by it.
    fn wall_ms(&self) -> i64;

    /// The same as a span of time.
    fn utc(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.wall_ms()).unwrap_or(0))
    }

    /// What tells this boot-time clock from every other: only processes with the same id read the same time.
    fn clock_id(&self) -> Result<String>;

    /// The type of the file system that `path` is on, as `statfs` gives it.
    fn file_system(&self, path: &Path) -> io::Result<u32>;
}

/// The real one.
#[derive(Debug)]
pub(super) struct ThisMachine;

impl Machine for ThisMachine {
    fn now(&self) -> i64 {
        BootClock.now().as_nanos().cast_signed()
    }

    fn wall_ms(&self) -> i64 {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
    }

    fn clock_id(&self) -> Result<String> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(|error| {
            Error::new(
                ErrorKind::Misconfigured,
                format!("the id of this boot can't be read ({error}), and leases end with the boot; mount /proc"),
            )
            .with_source(error)
        })?;
        // A time namespace has the boot's id and another time. A kernel without them has the one clock.
        let namespace = fs::read_link("/proc/self/ns/time").unwrap_or_default();
        Ok(format!("{} {}", boot.trim(), namespace.display()))
    }

    fn file_system(&self, path: &Path) -> io::Result<u32> {
        let found = nix::sys::statfs::statfs(path).map_err(io::Error::from)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a magic number has 32 bits")]
        #[allow(clippy::unnecessary_cast, reason = "its type differs among platforms")]
        Ok(found.filesystem_type().0 as u32)
    }
}
