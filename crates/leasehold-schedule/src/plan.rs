//! Which ticks a node tries to run, and which are missed. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::policy::Missed;
use crate::schedule::Schedule;

/// When a tick counts as late: so much later than it was due.
const LATE: SignedDuration = SignedDuration::from_secs(60);

/// More missed ticks than this are not told one by one.
const TOLD: usize = 100;

/// What is to be done about a job's ticks up to now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Plan {
    /// To be claimed, the oldest first.
    pub claim: Vec<Timestamp>,
    /// Nobody is to run these, if nobody has: the latest of them, the oldest first. All are older than those to be claimed.
    pub missed: Vec<Timestamp>,
}

/// The ticks later than `after` up to `now`. Of those older than `catch_up` none is claimed.
pub(crate) fn plan(schedule: &Schedule, missed: Missed, after: Timestamp, now: Timestamp, catch_up: Duration) -> Plan {
    let span = SignedDuration::try_from(catch_up).unwrap_or(SignedDuration::MAX);
    let (oldest, most) = match missed {
        Missed::Latest => (span, 1),
        Missed::Skip => (span.min(LATE), 1),
        Missed::All { most } => (span, usize::try_from(most).unwrap_or(usize::MAX)),
    };
    let oldest = now.checked_sub(oldest).unwrap_or(Timestamp::MIN);
    // From the latest back: what a gap costs doesn't depend on its length.
    let mut plan = Plan::default();
    let mut at = schedule.latest_at(now);
    while let Some(tick) = at.filter(|tick| *tick > after) {
        if tick >= oldest && plan.claim.len() < most {
            plan.claim.push(tick);
        } else if plan.missed.len() < TOLD {
            plan.missed.push(tick);
        } else {
            break;
        }
        at = tick.checked_sub(SignedDuration::from_nanos(1)).ok().and_then(|before| schedule.latest_at(before));
    }
    plan.claim.reverse();
    plan.missed.reverse();
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(clock: &str) -> Timestamp {
        format!("2026-11-30T{clock}Z").parse().unwrap()
    }

    fn hourly(missed: Missed, after: &str, now: &str, catch_up: Duration) -> (Vec<Timestamp>, Vec<Timestamp>) {
        let schedule = Schedule::parse("@hourly", None).unwrap();
        let Plan { claim, missed } = plan(&schedule, missed, at(after), at(now), catch_up);
        (claim, missed)
    }

    #[test]
    fn nothing_is_due_before_the_next_tick() {
        assert_eq!(hourly(Missed::Latest, "10:00:00", "10:59:59", HOUR), (vec![], vec![]));
        assert_eq!(hourly(Missed::Latest, "10:00:00", "11:00:00", HOUR), (vec![at("11:00:00")], vec![]));
    }

    #[test]
    fn the_latest_is_run_and_the_others_are_missed() {
        let (claim, missed) = hourly(Missed::Latest, "10:30:00", "14:10:00", 24 * HOUR);
        assert_eq!((claim, missed), (vec![at("14:00:00")], vec![at("11:00:00"), at("12:00:00"), at("13:00:00")]));
    }

    #[test]
    fn what_is_older_than_catch_up_is_missed() {
        let (claim, missed) = hourly(Missed::Latest, "10:30:00", "14:10:00", 2 * HOUR);
        assert_eq!((claim, missed), (vec![at("14:00:00")], vec![at("11:00:00"), at("12:00:00"), at("13:00:00")]));
        let (claim, missed) = hourly(Missed::Latest, "12:30:00", "14:10:00", HOUR / 10);
        assert_eq!((claim, missed), (vec![], vec![at("13:00:00"), at("14:00:00")]));
        let (claim, missed) = hourly(Missed::All { most: 9 }, "10:30:00", "14:10:00", 2 * HOUR);
        assert_eq!((claim, missed), (vec![at("13:00:00"), at("14:00:00")], vec![at("11:00:00"), at("12:00:00")]));
    }

    #[test]
    fn all_are_run_up_to_the_cap_the_oldest_first() {
        let all = |most| hourly(Missed::All { most }, "10:30:00", "13:00:00", 24 * HOUR);
        assert_eq!(all(9), (vec![at("11:00:00"), at("12:00:00"), at("13:00:00")], vec![]));
        assert_eq!(all(2), (vec![at("12:00:00"), at("13:00:00")], vec![at("11:00:00")]));
    }

    #[test]
    fn skipped_is_what_is_late() {
        let skip = |now| hourly(Missed::Skip, "10:30:00", now, 24 * HOUR);
        assert_eq!(skip("11:01:00"), (vec![at("11:00:00")], vec![]));
        assert_eq!(skip("11:01:01"), (vec![], vec![at("11:00:00")]));
        assert_eq!(skip("12:00:00"), (vec![at("12:00:00")], vec![at("11:00:00")]));
    }

    /// Also after years.
    #[test]
    fn q06_a_long_gap_costs_what_a_short_one_does() {
        let schedule = Schedule::parse("* * * * * *", None).unwrap();
        let years = Duration::from_secs(20 * 366 * 24 * 3600);
        let now = at("12:00:00");
        let plan = plan(&schedule, Missed::Latest, Timestamp::UNIX_EPOCH, now, years);
        assert_eq!((plan.claim, plan.missed.len()), (vec![now], TOLD));
    }
}
