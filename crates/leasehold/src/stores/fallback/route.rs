//! What a client may believe about the route, and for how long.

use std::time::Duration;

use crate::rule::Rule;
use crate::store::{Epoch, Force, Reading, Route};
use crate::validity::{self, Moment};

/// A *route lease*: the route as it was read, good until `until`.
#[derive(Debug, Clone)]
pub(super) struct RouteLease {
    pub route: Route,
    /// Until when nobody can be under a later route.
    pub until: Moment,
    /// When it comes into force, if it was not when it was read.
    pub coming: Option<Coming>,
    reading: Reading,
    sent: Moment,
    received: Moment,
}

/// The bounds of the moment at which a route comes into force, on our clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coming {
    /// Not before.
    pub early: Moment,
    /// Not after; [`Moment::NEVER`] as long as it is not armed.
    pub late: Moment,
}

impl RouteLease {
    /// What an answer is worth whose question was sent at `sent`.
    pub fn of(reading: Reading, sent: Moment, received: Moment) -> Self {
        let counted_from = if Rule::RouteLeasesCountFromTheSend.holds() { sent } else { received };
        let lease = reading.terms.lease;
        let coming = match reading.force {
            Force::Since(_) => None,
            // It will be armed later than this was read, and come into force one route lease after that.
            Force::Unarmed => Some(Coming { early: validity::until(sent, lease), late: Moment::NEVER }),
            Force::In(rest) => {
                Some(Coming { early: validity::until(sent, rest), late: validity::surely_over(received, rest) })
            }
        };
        let until = validity::until(counted_from, lease);
        Self { route: reading.route.clone(), until, coming, reading, sent, received }
    }

    /// Whether it was asked for at `moment` or later.
    pub fn was_read_since(&self, moment: Moment) -> bool {
        self.sent >= moment
    }

    pub fn is_armed(&self) -> bool {
        self.coming.is_none_or(|coming| coming.late != Moment::NEVER)
    }

    /// Whether the route is surely in force at `now`, as long as the lease is good.
    pub fn is_in_force(&self, now: Moment) -> bool {
        let from = |coming: Coming| if Rule::AcquireOnlyAfterLate.holds() { coming.late } else { coming.early };
        self.coming.is_none_or(|coming| now >= from(coming))
    }

    /// Until when a guard of this epoch may be believed in as far as the route goes.
    pub fn end_for(&self, epoch: Epoch) -> Moment {
        let over = Moment::from_nanos(0);
        if !Rule::GuardsHeedTheRoute.holds() {
            return Moment::NEVER;
        }
        match self.coming {
            _ if epoch == self.route.epoch => self.until,
            Some(coming) if epoch.later(1) == self.route.epoch => coming.early,
            _ => over,
        }
    }

    /// For how long it has been in force; nothing if it is not known to be.
    pub fn in_force_for(&self, now: Moment) -> Duration {
        match self.reading.force {
            Force::Since(age) => age.saturating_add(now.since(self.received)),
            Force::In(_) | Force::Unarmed => Duration::ZERO,
        }
    }

    pub fn patience(&self) -> Duration {
        self.reading.patience
    }

    /// How long ago somebody last could not reach the primary, as far as we have heard.
    pub fn complained(&self, now: Moment) -> Option<Duration> {
        self.reading.complained.map(|ago| ago.saturating_add(now.since(self.received)))
    }
}
