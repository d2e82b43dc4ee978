//! The ledgers of many jobs, read as one.

use futures_util::future::try_join_all;
use jiff::Timestamp;
use leasehold::{Locks, Result};

use crate::ledger::{Ledger, MOST};
use crate::record::{Entry, Record};
use crate::state::State;

/// So many ledgers are read at a time: the newest of these say how far back the others have to be read.
const AT_A_TIME: usize = 16;

/// What to read of the ledgers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// Only what was written at this time of the store's clock or later.
    pub since: Timestamp,
    /// Only what stands so; all if there is none.
    pub states: Vec<State>,
    /// How many records at most.
    pub most: u32,
}

impl History {
    /// The newest records of all jobs.
    #[must_use]
    pub fn newest(most: u32) -> Self {
        Self { since: Timestamp::UNIX_EPOCH, states: Vec::new(), most }
    }

    /// Reads it, the latest written first.
    ///
    /// # Errors
    /// A name is not legal, the store keeps no notes, or can't say.
    pub async fn of<'a>(&self, locks: &Locks, jobs: impl IntoIterator<Item = &'a str>) -> Result<Vec<Entry>> {
        let ledgers = jobs.into_iter().map(|job| Ledger::of(locks, job)).collect::<Result<Vec<_>>>()?;
        let (mut found, mut since) = (Vec::new(), self.since);
        for some in ledgers.chunks(AT_A_TIME) {
            found.extend(self.read(some, since).await?);
            found.sort_by(|one: &Entry, other| other.written.cmp(&one.written).then_with(|| one.job.cmp(&other.job)));
            found.truncate(self.most());
            if found.len() == self.most() {
                since = found.last().map_or(since, |oldest| oldest.written);
            }
        }
        Ok(found)
    }

    /// Some ledgers, at the same time.
    async fn read(&self, ledgers: &[Ledger<'_>], since: Timestamp) -> Result<Vec<Entry>> {
        let read = try_join_all(ledgers.iter().map(|ledger| ledger.newest_since(since, self.read_of_each()))).await?;
        Ok(read.into_iter().flatten().filter(|entry| self.is_for(&entry.record)).collect())
    }

    /// What is left out is known once it has been read.
    fn read_of_each(&self) -> u32 {
        if self.states.is_empty() { self.most.min(MOST) } else { MOST }
    }

    fn most(&self) -> usize {
        usize::try_from(self.most).unwrap_or(usize::MAX)
    }

    fn is_for(&self, record: &Record) -> bool {
        self.states.is_empty() || self.states.contains(&record.state)
    }
}
