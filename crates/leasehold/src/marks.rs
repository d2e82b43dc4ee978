//! Which ticks of a name were claimed, and which of them are not finished.

use std::collections::BTreeMap;

use crate::lease::HolderId;
use crate::store::OPEN_TICKS;
use crate::tick::{Due, OpenTick, Standing, Tick, Verdict};

/// The mark, and what stands open beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The newest tick that was claimed. It only grows.
    pub newest: Option<Tick>,
    /// Claimed and not finished.
    pub open: BTreeMap<Tick, OpenTick>,
}

impl Marks {
    /// How a tick stands, if `is_alive` says who still has a lease.
    pub fn standing(&self, due: Due, is_alive: impl Fn(HolderId) -> bool) -> Standing {
        due.standing(self.newest, self.open.get(&due.tick), is_alive)
    }

    /// Claims the tick; answers how often it has been now, and which one was given up for it.
    pub fn claim(&mut self, holder: HolderId, due: Due) -> (u32, Option<Tick>) {
        self.newest = self.newest.max(Some(due.tick));
        let open = self.open.get(&due.tick).map_or_else(|| OpenTick::new(holder, due), |open| open.again(holder, due));
        self.open.insert(due.tick, open);
        let full = self.open.len() > OPEN_TICKS;
        (open.attempts, full.then(|| self.open.pop_first().map(|(tick, _)| tick)).flatten())
    }

    /// How often the tick that `holder` has was claimed; 0 if it has none.
    pub fn attempts(&self, holder: HolderId) -> u32 {
        self.open.values().find(|open| open.holder == Some(holder)).map_or(0, |open| open.attempts)
    }

    /// What a holder says at its end.
    pub fn judge(&mut self, holder: HolderId, verdict: Verdict) {
        match verdict {
            Verdict::Done(tick) => drop(self.open.remove(&tick)),
            Verdict::Failed => self.open.retain(|_, open| open.holder != Some(holder) || !open.once),
            Verdict::NotStarted => {
                for open in self.open.values_mut().filter(|open| open.holder == Some(holder)) {
                    *open = open.taken_back();
                }
            }
        }
    }
}
