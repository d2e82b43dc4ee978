//! What tells a holder that its session has ended.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::bound::Bound;

/// Between a session and what was granted on it. Snaps once, with the session.
#[derive(Default)]
pub(crate) struct Tether {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    has_snapped: bool,
    bound: Option<Bound>,
}

impl Tether {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session is over: what was granted on it is lost.
    pub fn snap(&self) {
        let mut state = self.state();
        state.has_snapped = true;
        let bound = state.bound.take();
        drop(state);
        if let Some(bound) = bound {
            bound.cut();
        }
    }

    pub fn has_snapped(&self) -> bool {
        self.state().has_snapped
    }

    /// Something was granted; it is lost already if the session is over.
    pub(super) fn tie(&self, bound: Bound) {
        let mut state = self.state();
        if state.has_snapped {
            drop(state);
            return bound.cut();
        }
        state.bound = Some(bound);
    }

    /// It is being given back, so that no end is a loss.
    pub(super) fn untie(&self) {
        self.state().bound = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validity::Moment;

    #[test]
    fn an_end_is_told_whether_it_comes_before_or_after_the_grant() {
        let is_cut = |bound: &Bound| !bound.move_to(Moment::NEVER);
        let (tether, bound) = (Tether::default(), Bound::new(Moment::NEVER));
        tether.tie(bound.clone());
        assert!(!is_cut(&bound));
        tether.snap();
        assert!(is_cut(&bound) && tether.has_snapped());
        let late = Bound::new(Moment::NEVER);
        tether.tie(late.clone());
        assert!(is_cut(&late));
        let (tether, given_back) = (Tether::default(), Bound::new(Moment::NEVER));
        tether.tie(given_back.clone());
        tether.untie();
        tether.snap();
        assert!(!is_cut(&given_back));
    }
}
