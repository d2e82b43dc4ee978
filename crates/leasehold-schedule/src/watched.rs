//! Ticks that another node seems to run, or that a node that died has left open.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::Tick;
use tokio::time::Instant;

/// How soon a tick is looked at again that seems to run elsewhere; each time twice as late.
const FIRST: Duration = Duration::from_secs(2);

/// As late as that at most, where it is taken over if its node dies.
const LOOK: Duration = Duration::from_secs(10);

/// As late as that at most, where it is not: only who never began it leaves it to others.
const RARE_LOOK: Duration = Duration::from_secs(60);

/// A lease is over a little later than its store says how long it lasts.
const A_LITTLE: Duration = Duration::from_millis(500);

/// So many are watched; beyond that the oldest is left alone.
const MOST: usize = 100;

/// The ticks of one job that are asked for again until the store says that they are over.
#[derive(Debug, Default)]
pub(crate) struct Watched(BTreeMap<Tick, Look>);

#[derive(Debug, Clone, Copy)]
struct Look {
    at: Instant,
    pause: Duration,
}

impl Watched {
    /// It runs elsewhere, or another tick does: it is asked for again in a while, at the latest when a lease is over that ends then.
    pub fn see(&mut self, tick: Tick, at_least_once: bool, ends_in: Duration) {
        let before = self.0.get(&tick).map_or(FIRST / 2, |look| look.pause);
        let pause = (before * 2).min(if at_least_once { LOOK } else { RARE_LOOK });
        let at = Instant::now() + pause.min(ends_in + A_LITTLE);
        self.insert(tick, Look { at, pause });
    }

    /// It may be open: it is asked for at once.
    pub fn look_at(&mut self, tick: Tick) {
        self.insert(tick, Look { at: Instant::now(), pause: FIRST });
    }

    /// All are looked at now: a newer one is about to be asked for.
    pub fn hurry(&mut self) {
        self.0.values_mut().for_each(|look| look.at = Instant::now());
    }

    fn insert(&mut self, tick: Tick, look: Look) {
        self.0.insert(tick, look);
        if self.0.len() > MOST {
            self.0.pop_first();
        }
    }

    pub fn forget(&mut self, tick: Tick) {
        self.0.remove(&tick);
    }

    pub fn retain(&mut self, is_worth_it: impl Fn(Tick) -> bool) {
        self.0.retain(|tick, _| is_worth_it(*tick));
    }

    pub fn contains(&self, tick: Tick) -> bool {
        self.0.contains_key(&tick)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The oldest that is to be looked at now.
    pub fn due(&self) -> Option<Tick> {
        let now = Instant::now();
        self.0.iter().find(|(_, look)| look.at <= now).map(|(tick, _)| *tick)
    }

    /// When the next is to be looked at.
    pub fn next(&self) -> Option<Instant> {
        self.0.values().map(|look| look.at).min()
    }
}
