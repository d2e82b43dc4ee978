//! What is counted of locks.

use std::time::Duration;

use leasehold::{Answer, Event, LossReason};
use metrics::{Counter, Gauge, Histogram};

use super::catalogue::{
    ACQUISITIONS, CONTENDED, FENCE_REFUSALS, HELD, LEASES, LOSSES, RELEASES, RENEWAL_LATE, RENEWAL_MARGIN, RENEWALS,
    TICKS_GIVEN_UP, WAITED, WAITERS,
};
use super::series::Group;

/// The series of the locks of one group.
pub(super) struct LockSeries {
    acquired: Counter,
    contended: Counter,
    not_due: Counter,
    failed: Counter,
    withdrawn: Counter,
    met_others: Counter,
    waited_for_it: Histogram,
    waited_in_vain: Histogram,
    waiters: Gauge,
    leases: Gauge,
    held: Histogram,
    renewed: Counter,
    renewal_failed: Counter,
    late: Histogram,
    margin: Histogram,
    losses: [Counter; REASONS.len()],
    refused: Counter,
    in_time: Counter,
    too_late: Counter,
    release_failed: Counter,
    given_up: Counter,
}

const REASONS: [&str; 7] = ["expired", "gone", "revoked", "unreachable", "held_too_long", "no_progress", "other"];

fn nth(reason: &LossReason) -> usize {
    match reason {
        LossReason::Expired => 0,
        LossReason::Gone => 1,
        LossReason::Revoked => 2,
        LossReason::Unreachable(_) => 3,
        LossReason::HeldTooLong => 4,
        LossReason::NoProgress => 5,
        _ => 6,
    }
}

impl LockSeries {
    pub fn of(group: &Group) -> Self {
        let ended = |outcome| group.count_by(&ACQUISITIONS, "outcome", outcome);
        let renewal = |outcome| group.count_by(&RENEWALS, "outcome", outcome);
        let release = |outcome| group.count_by(&RELEASES, "outcome", outcome);
        Self {
            acquired: ended("acquired"),
            contended: ended("contended"),
            not_due: ended("not_due"),
            failed: ended("failed"),
            withdrawn: ended("withdrawn"),
            met_others: group.count(&CONTENDED),
            waited_for_it: group.spread_by(&WAITED, "outcome", "acquired"),
            waited_in_vain: group.spread_by(&WAITED, "outcome", "given_up"),
            waiters: group.level(&WAITERS),
            leases: group.level(&LEASES),
            held: group.spread(&HELD),
            renewed: renewal("renewed"),
            renewal_failed: renewal("failed"),
            late: group.spread(&RENEWAL_LATE),
            margin: group.spread(&RENEWAL_MARGIN),
            losses: REASONS.map(|reason| group.count_by(&LOSSES, "reason", reason)),
            refused: group.count(&FENCE_REFUSALS),
            in_time: release("in_time"),
            too_late: release("too_late"),
            release_failed: release("failed"),
            given_up: group.count(&TICKS_GIVEN_UP),
        }
    }

    /// Counts an event of one of its locks.
    pub fn count(&self, event: &Event<'_>) {
        match event {
            Event::Asked { .. } => self.waiters.increment(1.0),
            Event::Answered { waited, contended, answer, .. } => self.answered(*waited, *contended, answer),
            Event::Withdrawn { waited, .. } => {
                self.waiters.decrement(1.0);
                self.withdrawn.increment(1);
                self.waited_in_vain.record(*waited);
            }
            Event::Acquired { .. } => self.leases.increment(1.0),
            Event::LetGo { .. } => self.leases.decrement(1.0),
            Event::Renewed { margin, late, .. } => {
                self.renewed.increment(1);
                self.late.record(*late);
                self.margin.record(*margin);
            }
            Event::RenewalFailed { .. } => self.renewal_failed.increment(1),
            Event::Lost { reason, .. } => self.losses[nth(reason)].increment(1),
            Event::Stale { .. } => self.refused.increment(1),
            Event::Released { held, in_time, .. } => {
                self.held.record(*held);
                if *in_time { &self.in_time } else { &self.too_late }.increment(1);
            }
            Event::ReleaseFailed { .. } => self.release_failed.increment(1),
            Event::GaveUp { .. } => self.given_up.increment(1),
            _ => {}
        }
    }

    fn answered(&self, waited: Duration, contended: bool, answer: &Answer<'_>) {
        self.waiters.decrement(1.0);
        if contended {
            self.met_others.increment(1);
        }
        match answer {
            Answer::Acquired => {
                self.acquired.increment(1);
                self.waited_for_it.record(waited);
            }
            Answer::Contended(_) => {
                self.contended.increment(1);
                self.waited_in_vain.record(waited);
            }
            Answer::NotDue(_) => self.not_due.increment(1),
            _ => self.failed.increment(1),
        }
    }
}
