//! What is counted of jobs on a schedule.

use std::time::Duration;

use leasehold_schedule::{How, NotRun};
use metrics::{Counter, Gauge, Histogram};

use super::catalogue::{CLOCK_IS_FAST, NOT_RUN, RUN_LATE, RUN_TOOK, RUNNING, RUNS, SCHEDULER_TROUBLE};
use super::series::{self, Group};

/// The series of the jobs of one group.
pub(super) struct JobSeries {
    running: Gauge,
    late: Histogram,
    took: Histogram,
    ended: [Counter; OUTCOMES.len()],
    not_run: [Counter; REASONS.len()],
    clock_is_fast: Counter,
}

const OUTCOMES: [&str; 5] = ["done", "failed", "died", "lost", "stopped"];

fn nth_outcome(how: &How) -> usize {
    match how {
        How::Done => 0,
        How::Failed(_) => 1,
        How::Died(_) => 2,
        How::Lost(_) => 3,
        How::Stopped => 4,
    }
}

const REASONS: [&str; 8] = ["missed", "overlaps", "displaced", "paused", "overtaken", "counted", "too_old", "dropped"];

fn nth_reason(why: &NotRun) -> usize {
    match why {
        NotRun::Missed => 0,
        NotRun::Overlaps(_) => 1,
        NotRun::Displaced(_) => 2,
        NotRun::Paused(_) => 3,
        NotRun::Overtaken(_) => 4,
        NotRun::Counted(_) => 5,
        NotRun::TooOld(_) => 6,
        NotRun::Dropped => 7,
    }
}

impl JobSeries {
    pub fn of(group: &Group) -> Self {
        Self {
            running: group.level(&RUNNING),
            late: group.spread(&RUN_LATE),
            took: group.spread(&RUN_TOOK),
            ended: OUTCOMES.map(|outcome| group.count_by(&RUNS, "outcome", outcome)),
            not_run: REASONS.map(|reason| group.count_by(&NOT_RUN, "reason", reason)),
            clock_is_fast: group.count(&CLOCK_IS_FAST),
        }
    }

    pub fn begins(&self, late: Duration) {
        self.running.increment(1.0);
        self.late.record(late);
    }

    pub fn ends(&self, took: Duration, how: &How) {
        self.running.decrement(1.0);
        self.took.record(took);
        self.ended[nth_outcome(how)].increment(1);
    }

    pub fn is_not_run(&self, why: &NotRun) {
        self.not_run[nth_reason(why)].increment(1);
    }

    pub fn clock_is_fast(&self) {
        self.clock_is_fast.increment(1);
    }
}

/// What a scheduler could not do for now.
pub(super) struct Trouble {
    pub store_is_away: Counter,
    pub store_refuses: Counter,
    pub ledger_failed: Counter,
}

impl Trouble {
    pub fn new() -> Self {
        let of = |what: &'static str| series::count(&SCHEDULER_TROUBLE, &[("what", what.into())]);
        Self { store_is_away: of("store_away"), store_refuses: of("store_refuses"), ledger_failed: of("ledger_failed") }
    }
}
