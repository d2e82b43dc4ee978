//! Whether a waiter still looks: what its keeper goes by.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::validity::Moment;

/// How long a waiter may not have looked at the store before it is taken for stuck: its task hangs, or its future is
/// kept and not polled. Well above the poll period, which a waiter that is well keeps to.
pub(crate) const STUCK: Duration = Duration::from_secs(2);

/// A waiter that may be handed the lock while it is not looking. One that is stuck must not keep others from it until
/// the TTL is over (`rules.md`, l02): the keeper gives it up, which takes back what it may have been given.
///
/// Either the waiter settles or the keeper gives up, never both: a grant is believed in only once it is settled.
#[derive(Debug)]
pub(crate) struct Presence {
    /// When it last looked, or until when it may be waiting for an answer, in nanoseconds; or one of those below.
    looked: AtomicU64,
}

const GIVEN_UP: u64 = 0;
const SETTLED: u64 = u64::MAX;

impl Presence {
    pub fn new(now: Moment) -> Self {
        Self { looked: AtomicU64::new(now.as_nanos().max(1)) }
    }

    /// It is here. False once it was given up.
    pub fn look(&self, now: Moment) -> bool {
        self.change(|_| Some(now.as_nanos().max(1)))
    }

    /// It has what it waited for. False if it was given up before.
    pub fn settle(&self) -> bool {
        self.change(|_| Some(SETTLED))
    }

    /// Gives it up if it is stuck. True once.
    pub fn give_up(&self, now: Moment) -> bool {
        self.change(|looked| {
            let is_stuck = looked != SETTLED && now.since(Moment::from_nanos(looked)) > STUCK;
            is_stuck.then_some(GIVEN_UP)
        })
    }

    fn change(&self, to: impl Fn(u64) -> Option<u64>) -> bool {
        let change = |looked| if looked == GIVEN_UP { None } else { to(looked) };
        self.looked.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_given_up_or_settles_and_never_both() {
        let start = Moment::from_nanos(0);
        let late = start + STUCK * 2;
        let waiter = Presence::new(start);
        assert!(!waiter.give_up(start + STUCK), "it looked just now");
        assert!(waiter.look(start + STUCK) && !waiter.give_up(late));
        assert!(waiter.give_up(late + STUCK) && !waiter.give_up(late + STUCK), "once");
        assert!(!waiter.look(late) && !waiter.settle());

        let waiter = Presence::new(start);
        assert!(waiter.settle() && !waiter.give_up(late));
    }
}
