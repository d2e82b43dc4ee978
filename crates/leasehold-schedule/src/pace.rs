//! What time it is on a node: its own clock's, as far as the store vouches for it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use leasehold::{Error, Locks};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::clock::WallClock;
use crate::instant;

/// A clock that is set is noticed within this, and a store that could not be asked is asked again.
const LOOK: Duration = Duration::from_secs(5);

/// How often the store is asked though nothing seems to be wrong: a clock may also creep away.
const CHECK: Duration = Duration::from_secs(5 * 60);

/// Further than this no clock gets on by itself, beside another.
const JUMP: SignedDuration = SignedDuration::from_secs(5);

/// So far a node's clock may be ahead of the store's.
const TOLERATED: SignedDuration = SignedDuration::from_secs(60);

/// The time, for all that a node does. It is its own clock's; where that is far ahead of the store's, the store's: a tick that
/// is not due yet would be claimed else, and with it those between would be over. From where the clock jumps until the store
/// has said what time it is, it goes on as if it had not.
#[derive(Debug)]
pub(crate) struct Pace {
    clock: Arc<dyn WallClock>,
    reading: Mutex<Reading>,
    /// Rings where the store is to be asked.
    doubt: Notify,
    /// Changes when the time does, other than by passing.
    set: watch::Sender<()>,
}

#[derive(Debug)]
struct Reading {
    /// By how much the clock is taken to be ahead.
    ahead: SignedDuration,
    /// What was taken for the time last.
    shown: Timestamp,
    /// When that was.
    at: Instant,
}

impl Pace {
    pub fn of(clock: Arc<dyn WallClock>) -> Self {
        let reading = Reading { ahead: SignedDuration::ZERO, shown: clock.now(), at: Instant::now() };
        Self { clock, reading: Mutex::new(reading), doubt: Notify::new(), set: watch::Sender::new(()) }
    }

    /// What this node takes for the time.
    pub fn now(&self) -> Timestamp {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = SignedDuration::try_from(reading.at.elapsed()).unwrap_or(SignedDuration::MAX);
        let expected = reading.shown.checked_add(gone).unwrap_or(Timestamp::MAX);
        let mut now = minus(self.clock.now(), reading.ahead);
        let jumped = now.duration_since(expected);
        if jumped.abs() > JUMP {
            reading.ahead = reading.ahead.saturating_add(jumped);
            now = expected;
            self.doubt.notify_one();
        }
        (reading.shown, reading.at) = (now, Instant::now());
        now
    }

    /// The store has refused something because of the time.
    pub fn is_in_doubt(&self) {
        self.doubt.notify_one();
    }

    /// Rings when the time is set.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.set.subscribe()
    }

    /// Asks the store.
    pub async fn settle(&self, locks: &Locks) -> Result<(), Error> {
        let store = instant::shown(locks.time().await?);
        let own = self.clock.now();
        let ahead = own.duration_since(store);
        self.set_ahead(own, if ahead > TOLERATED { ahead } else { SignedDuration::ZERO });
        Ok(())
    }

    fn set_ahead(&self, own: Timestamp, ahead: SignedDuration) {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = ahead.saturating_sub(reading.ahead);
        *reading = Reading { ahead, shown: minus(own, ahead), at: Instant::now() };
        drop(reading);
        if changed.abs() > SignedDuration::from_secs(1) {
            self.set.send_replace(());
        }
    }

    /// Keeps it right, for ever.
    pub async fn keep(&self, locks: &Locks) {
        let mut asked = Instant::now();
        loop {
            let is_in_doubt = tokio::select! {
                biased;
                () = self.doubt.notified() => true,
                () = tokio::time::sleep(LOOK) => {
                    self.now();
                    false
                }
            };
            if !is_in_doubt && !self.is_set_right() && asked.elapsed() < CHECK {
                continue;
            }
            while self.settle(locks).await.is_err() {
                tokio::time::sleep(LOOK).await;
            }
            asked = Instant::now();
        }
    }

    /// Whether it is not the clock's own time that is told.
    fn is_set_right(&self) -> bool {
        !self.reading.lock().unwrap_or_else(PoisonError::into_inner).ahead.is_zero()
    }
}

fn minus(at: Timestamp, span: SignedDuration) -> Timestamp {
    at.checked_sub(span).unwrap_or(at)
}
