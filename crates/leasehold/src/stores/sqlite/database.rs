//! What all connections of one store have in common.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::machine::Machine;
use super::options::{Options, Synchronous};
use super::place::{self, Place};
use crate::error::Result;
use crate::name::Namespace;

/// One file, as one process uses it.
#[derive(Debug)]
pub(super) struct Database {
    pub place: Place,
    pub namespace: Namespace,
    pub synchronous: Synchronous,
    pub trusted: bool,
    pub machine: Box<dyn Machine>,
    /// Tells our waiters from those of other processes.
    pub client: i64,
    /// How long the last commit that waited for the disk took, in microseconds.
    commit_took: AtomicU64,
    /// At how many pages in the log it is time to move them to the database.
    checkpoint_at: AtomicU32,
}

/// How many pages the log may have before they are moved. Moving syncs twice, so it is not done often.
pub(super) const LOG_PAGES: u32 = 512;

/// The same for the first commit of a process: one that is alone has just read the whole log (2 to 3 µs a page),
/// and if it is short-lived the next one will. So they keep it short for each other.
const FIRST_LOG_PAGES: u32 = 64;

/// Microseconds within which a disk is quick. Going to a thread and back costs a tenth of a millisecond: beside a
/// commit that takes longer than this it is nothing, and then no async thread should have to wait for it.
const QUICK_COMMIT: u64 = 2_000;

impl Database {
    pub fn new(options: Options, machine: Box<dyn Machine>) -> Result<Self> {
        let place = match options.path {
            Some(path) => Place::resolve(&path)?,
            None => {
                let path = place::default_path()?;
                place::make_directory_of(&path)?;
                Place::resolve(&path)?
            }
        };
        Ok(Self {
            place,
            namespace: options.namespace,
            synchronous: options.synchronous,
            trusted: options.trust_file_system,
            machine,
            client: rand::random(),
            commit_took: AtomicU64::new(0),
            checkpoint_at: AtomicU32::new(FIRST_LOG_PAGES),
        })
    }

    /// Whether a commit, one that waits for the disk if it is `durable`, may be waited for on the caller's thread: it
    /// needs no disk, or a quick one.
    pub fn commits_quickly(&self, durable: bool) -> bool {
        !self.waits_for_the_disk(durable) || self.commit_took.load(Ordering::Relaxed) <= QUICK_COMMIT
    }

    /// Whether a commit does.
    pub fn waits_for_the_disk(&self, durable: bool) -> bool {
        durable || self.synchronous == Synchronous::Full
    }

    /// A commit that waited for the disk took this long.
    pub fn committed_in(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.commit_took.store(took, Ordering::Relaxed);
    }

    /// Whether a log of this many pages is to be moved now. Says so once: whoever does it says what is next.
    pub fn wants_checkpoint(&self, pages: u32) -> bool {
        let at = self.checkpoint_at.load(Ordering::Relaxed);
        pages >= at && self.checkpoint_at.compare_exchange(at, u32::MAX, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// A log that had `left` pages that could not be moved may grow by as much as a new one.
    pub fn checkpointed(&self, left: u32) {
        self.checkpoint_at.store(left.saturating_add(LOG_PAGES), Ordering::Relaxed);
    }
}
