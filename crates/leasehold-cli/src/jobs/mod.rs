//! The jobs of `leasehold schedule`: where they stand, and what is wrong with them.

mod crontab;
mod entry;
mod lacks;
mod machine;
mod table;
mod value;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::args::{ScheduleArgs, StoreArgs};
use crate::config::{self, Fault, Place};
use crate::exit::{self, Failure};
use crate::output::{counted, plain};

pub use self::entry::{Entry, Task};

use self::machine::Machine;

/// Where jobs are read from, now and at each reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The tables `[jobs.NAME]` of a `leasehold.toml`.
    Config(PathBuf),
    /// A crontab.
    Crontab {
        /// The file.
        path: PathBuf,
        /// Whether a user stands behind each schedule.
        system: bool,
    },
}

/// What the store has to say about terms.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The TTL where nothing is said.
    pub usual_ttl: Duration,
    /// The longest that a job may need to stop.
    pub longest_stop_grace: Duration,
}

/// What a file holds.
#[derive(Debug, Default)]
pub struct Jobs {
    /// The jobs, in their order.
    pub entries: Vec<Entry>,
    /// What may surprise, in its order.
    pub warnings: Vec<Fault>,
}

/// Why a file is not used.
#[derive(Debug)]
pub enum Refused {
    /// It can't be read.
    Unreadable(String),
    /// All that is wrong with it, in its order.
    Wrong(Vec<Fault>),
}

impl Source {
    /// Where the jobs are.
    ///
    /// # Errors
    /// 78 if nobody says where, or what says so can't be read.
    pub fn of(args: &ScheduleArgs, store: &StoreArgs) -> Result<Self, Failure> {
        if let Some(path) = &args.crontab {
            return Ok(Self::Crontab { path: path.clone(), system: args.system });
        }
        let path = config::file(store)?.ok_or_else(|| {
            let places = config::PLACES.join(" nor ");
            let fix = "write one with [jobs.NAME], name it with --config, or give a crontab with --crontab";
            Failure::new(exit::CONFIG, format!("there are no jobs: neither {places} is there; {fix}"))
        })?;
        Ok(Self::Config(path))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Config(path) | Self::Crontab { path, .. } => path,
        }
    }

    /// Reads it, and everything in it.
    ///
    /// # Errors
    /// It can't be read; or all that is wrong, at once.
    pub fn read(&self, limits: Limits) -> Result<Jobs, Refused> {
        let bytes = fs::read(self.path()).map_err(|error| Refused::Unreadable(unreadable(&error)))?;
        let text = String::from_utf8(bytes).map_err(|error| Refused::Wrong(vec![no_text(error.as_bytes())]))?;
        if let (Self::Crontab { .. }, Some(at)) = (self, text.find("\r\n")) {
            let fix = "write it with plain ones, for example by `sed -i 's/\\r$//'`";
            let why =
                format!("the lines end as on Windows (CR LF), and to cron the CR is a part of each command; {fix}");
            return Err(Refused::Wrong(vec![Fault::at(&text, at, why)]));
        }
        let mut faults = match self {
            Self::Config(path) => config::faults(path, &text),
            Self::Crontab { .. } => Vec::new(),
        };
        // What is no TOML has no jobs to speak of.
        let read = match self {
            Self::Config(path) if faults.is_empty() || table::is_toml(&text) => table::read(&text, path, limits),
            Self::Config(_) => Ok(Jobs::default()),
            Self::Crontab { system, .. } => crontab::read(&text, *system, &Machine),
        };
        let jobs = read.unwrap_or_else(|more| {
            faults.extend(more);
            Jobs::default()
        });
        if !faults.is_empty() {
            faults.sort();
            faults.dedup();
            return Err(Refused::Wrong(faults));
        }
        Ok(jobs)
    }
}

fn unreadable(error: &io::Error) -> String {
    let fix = match error.kind() {
        io::ErrorKind::NotFound => "correct its path, or write it",
        io::ErrorKind::PermissionDenied => "let the user of the scheduler read it",
        io::ErrorKind::IsADirectory => "name the file in it",
        _ => "see what it is",
    };
    format!("{error}; {fix}")
}

/// What is no UTF-8, at its first wrong byte.
fn no_text(bytes: &[u8]) -> Fault {
    let right = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let wrong = bytes.get(right.len()).map_or_else(String::new, |byte| format!(" (0x{byte:02x})"));
    Fault::at(right, right.len(), format!("the file is not UTF-8 from here on{wrong}; save it as UTF-8"))
}

impl Jobs {
    /// What this machine lacks of what they need, in their order.
    pub fn lacking_here(&self) -> Vec<Fault> {
        lacks::of(&self.entries)
    }
}

impl Limits {
    /// Those of this store; the usual ones where it isn't known which it is.
    pub fn of(place: Option<&Place>) -> Self {
        Self {
            usual_ttl: place.map_or(leasehold::store::USUAL_TTL, Place::usual_ttl),
            longest_stop_grace: place.map_or(Duration::MAX, Place::longest_stop_grace),
        }
    }
}

impl Refused {
    /// A line for each thing that is wrong.
    pub fn lines(&self, path: &Path) -> Vec<String> {
        let path = path.display();
        match self {
            Self::Unreadable(why) => vec![format!("cannot read {path}: {why}")],
            Self::Wrong(faults) => faults.iter().map(|fault| plain(&format!("{path}, {fault}"))).collect(),
        }
    }

    /// How many things are wrong: `3 errors`.
    pub fn count(&self) -> String {
        match self {
            Self::Unreadable(_) => "it can't be read".into(),
            Self::Wrong(faults) => counted(faults.len(), "error"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_told_with_its_place() {
        let fault = no_text(b"[jobs.a]\nname = \"\xfc\"\n");
        assert_eq!((fault.line, fault.column), (2, 9));
        assert!(fault.message.contains("0xfc") && fault.message.contains("save it as UTF-8"), "{fault}");
    }
}
