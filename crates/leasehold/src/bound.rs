//! An end that a store sets to a guard beside the end of its lease.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::validity::Moment;

/// Until when what was granted may be believed in, whatever is left of its lease; the store that granted it moves it.
///
/// For what ends otherwise than by time: the session to which a lock is bound, the route over which a store is used.
/// It travels with the [`Grant`](crate::Grant), belongs to that one alone, and is looked at together with the lease: the
/// earlier end counts. When it falls, or is [revoked](Self::revoke), the holder is told at once, not at its next renewal. A guard that was once
/// seen invalid stays so, however late the bound is moved again.
///
/// Clones are the same bound.
#[derive(Debug, Clone)]
pub struct Bound(Arc<Inner>);

struct Inner {
    until: AtomicU64,
    revoked: AtomicBool,
    on_move: OnceLock<Box<dyn Fn(Way) + Send + Sync>>,
}

/// Which way it was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Up,
    Down,
}

/// Cut once, for good.
const CUT: u64 = 0;

impl Bound {
    /// One that ends at `until`; [`Moment::NEVER`] for one that ends only if it is [cut](Self::cut).
    #[must_use]
    pub fn new(until: Moment) -> Self {
        let until = AtomicU64::new(until.as_nanos());
        Self(Arc::new(Inner { until, revoked: AtomicBool::new(false), on_move: OnceLock::new() }))
    }

    /// Where it is; a moment long past once it was cut.
    #[must_use]
    pub fn until(&self) -> Moment {
        Moment::from_nanos(self.0.until.load(Ordering::Acquire))
    }

    /// Moves it, in either direction. False, and without effect, once it was cut.
    pub fn move_to(&self, until: Moment) -> bool {
        let moved = |now| (now != CUT).then_some(until.as_nanos().max(CUT + 1));
        let was = self.0.until.fetch_update(Ordering::AcqRel, Ordering::Acquire, moved);
        if let Ok(was) = was
            && was != until.as_nanos()
        {
            self.tell(if until.as_nanos() < was { Way::Down } else { Way::Up });
        }
        was.is_ok()
    }

    /// What was granted is gone, now and for good.
    pub fn cut(&self) {
        if self.0.until.swap(CUT, Ordering::AcqRel) != CUT {
            self.tell(Way::Down);
        }
    }

    /// An operator has revoked what was granted: its holder is told to stop, and has what is left to do so.
    pub fn revoke(&self) {
        if !self.0.revoked.swap(true, Ordering::AcqRel) {
            self.tell(Way::Down);
        }
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.0.revoked.load(Ordering::Acquire)
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.until().as_nanos() == CUT
    }

    /// Calls `what` each time that it is moved, or revoked. One guard can be told, once: later calls are ignored.
    pub(crate) fn on_move(&self, what: impl Fn(Way) + Send + Sync + 'static) {
        let _ = self.0.on_move.set(Box::new(what));
    }

    fn tell(&self, way: Way) {
        if let Some(tell) = self.0.on_move.get() {
            tell(way);
        }
    }
}

/// Two bounds are equal if they are the same one.
impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Bound {}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("until", &self.until).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn it_tells_of_each_move_and_stays_cut() {
        let (bound, told) = (Bound::new(Moment::NEVER), Arc::new(Mutex::new(Vec::new())));
        let ways = Arc::clone(&told);
        bound.on_move(move |way| ways.lock().unwrap().push(way));
        let told = || std::mem::take(&mut *told.lock().unwrap());
        assert!(bound.move_to(Moment::from_nanos(7)) && told() == [Way::Down]);
        assert!(bound.move_to(Moment::from_nanos(9)) && told() == [Way::Up]);
        assert!(bound.move_to(Moment::from_nanos(9)) && told().is_empty());
        assert!(bound.move_to(Moment::from_nanos(0)) && told() == [Way::Down] && !bound.is_cut());
        bound.revoke();
        bound.revoke();
        assert!(told() == [Way::Down] && bound.is_revoked() && bound.move_to(Moment::from_nanos(5)));
        assert!(told() == [Way::Up]);
        bound.cut();
        bound.cut();
        assert!(told() == [Way::Down] && bound.is_cut());
        assert!(!bound.move_to(Moment::NEVER) && bound.until() == Moment::from_nanos(0));
    }
}
