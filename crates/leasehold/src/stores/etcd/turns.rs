//! One request at a time for each holder, in the order in which they were asked for.
//!
//! The server runs what comes over one connection side by side, so a release could overtake the claim that it is to undo.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::sync::oneshot;

/// Resolves when a turn is over, and all before it are.
type Over = Shared<BoxFuture<'static, ()>>;

/// Who comes last for each key, so far.
#[derive(Debug, Default)]
pub(super) struct Turns {
    last: Mutex<HashMap<Vec<u8>, Last>>,
}

#[derive(Debug)]
struct Last {
    number: u64,
    over: Over,
}

/// A turn. Dropping it ends it, or gives it up.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    key: Vec<u8>,
    number: u64,
    before: Option<Over>,
    _over: oneshot::Sender<()>,
}

impl Turns {
    /// The turn behind all that were asked for before, as of this call.
    pub fn next(self: &Arc<Self>, key: &[u8]) -> Turn {
        let (sender, ends) = oneshot::channel::<()>();
        let mut last = self.last();
        let (number, before) = last.get(key).map_or((0, None), |last| (last.number + 1, Some(last.over.clone())));
        let earlier = before.clone();
        let over = async move {
            if let Some(earlier) = earlier {
                earlier.await;
            }
            let _ = ends.await; // Nothing is ever sent: the sender is dropped.
        };
        last.insert(key.to_vec(), Last { number, over: over.boxed().shared() });
        Turn { turns: Arc::clone(self), key: key.to_vec(), number, before, _over: sender }
    }

    fn last(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Last>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Waits until it has come.
    pub async fn comes(&mut self) {
        if let Some(before) = self.before.as_mut() {
            before.await;
            self.before = None;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut last = self.turns.last();
        if last.get(&self.key).is_some_and(|last| last.number == self.number) {
            last.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_come_in_order_and_leave_nothing_behind() {
        let turns = Arc::new(Turns::default());
        let (first, mut second, other) = (turns.next(b"a"), turns.next(b"a"), turns.next(b"b"));
        let mut third = turns.next(b"a");
        assert!(second.comes().now_or_never().is_none());
        drop(first);
        second.comes().await;
        assert!(third.comes().now_or_never().is_none());
        drop((second, other));
        third.comes().await;
        let (given_up, mut fourth) = (turns.next(b"a"), turns.next(b"a"));
        drop(given_up);
        assert!(fourth.comes().now_or_never().is_none(), "the third is not over");
        drop(third);
        fourth.comes().await;
        drop(fourth);
        assert!(turns.last().is_empty());
    }
}
