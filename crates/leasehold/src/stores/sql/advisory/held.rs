//! What is held here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::tether::Tether;
use crate::bound::Bound;
use crate::lease::{Claim, FencingToken, Grant, Holder, LeaseKey};
use crate::validity::{BootClock, Clock, Moment};

/// A lock that we hold, and the session that it is bound to.
pub(super) struct Held<T> {
    pub session: T,
    pub tether: Arc<Tether>,
    pub bound: Bound,
    pub about: Arc<About>,
}

/// What is known of a lock that we hold, also while its session is busy.
pub(super) struct About {
    pub key: LeaseKey,
    label: Arc<str>,
    token: FencingToken,
    granted: Moment,
    until: AtomicU64,
}

impl About {
    pub fn new(claim: &Claim, token: FencingToken, sent: Moment) -> Self {
        let key = LeaseKey { name: claim.name.clone(), holder: claim.holder };
        let until = AtomicU64::new((sent + claim.ttl).as_nanos());
        Self { key, label: Arc::clone(&claim.label), token, granted: sent, until }
    }

    /// A heartbeat that was sent then was answered. The end never moves nearer.
    pub fn heard(&self, sent: Moment, ttl: Duration) {
        self.until.fetch_max((sent + ttl).as_nanos(), Ordering::AcqRel);
    }

    /// How long it lasts without another heartbeat.
    pub fn remaining(&self) -> Duration {
        Moment::from_nanos(self.until.load(Ordering::Acquire)).since(BootClock.now())
    }

    pub fn is_over(&self) -> bool {
        self.remaining().is_zero()
    }

    pub fn holder(&self) -> Holder {
        Holder {
            holder: Some(self.key.holder),
            label: self.label.to_string(),
            library: None,
            token: self.token,
            held_for: BootClock.now().since(self.granted),
            remaining: self.remaining(),
            revoked: false,
        }
    }

    pub fn grant(&self, bound: &Bound) -> Grant {
        Grant { bound: Some(bound.clone()), ..Grant::of(self.token) }
    }
}
