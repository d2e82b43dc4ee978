//! What a server keeps over a restart, played in memory.

use super::{Contents, Memory};
use crate::rule::Rule;

/// What a [`Memory`] had in it at one moment; nothing by default. For tests of what becomes of locks when a server
/// loses data.
#[derive(Debug, Clone, Default)]
pub struct Saved(pub(super) Contents);

impl Memory {
    /// What is in it now: a snapshot on a disk, a backup, a replica that lags from here on.
    ///
    /// # Panics
    /// If a thread panicked while it was using this store.
    #[must_use]
    pub fn save(&self) -> Saved {
        self.with_all(|contents, _| Saved(contents.clone()))
    }

    /// Does as a server does that is started from `saved`, or a replica that is promoted with that: all else is lost, and
    /// it serves another data set from now on.
    ///
    /// # Panics
    /// If a thread panicked while it was using this store.
    pub fn start_from(&self, saved: &Saved) {
        self.with_all(|contents, _| {
            let started = contents.started + u64::from(Rule::RestartsAreSeen.holds());
            let clocks_zero = contents.clocks_zero;
            *contents = Contents { started, clocks_zero, ..saved.0.clone() };
        });
    }
}
