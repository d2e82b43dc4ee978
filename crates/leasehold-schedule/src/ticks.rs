//! Ticks, one after the other.

use std::iter::FusedIterator;

use jiff::Timestamp;

use crate::schedule::Schedule;

/// The ticks of a schedule from an instant on; see [`Schedule::ticks_after`]. It ends with the calendar, in the year
/// 9999: take what you need.
#[derive(Debug, Clone)]
pub struct Ticks<'a> {
    schedule: &'a Schedule,
    /// None at the end.
    after: Option<Timestamp>,
}

impl<'a> Ticks<'a> {
    pub(crate) fn new(schedule: &'a Schedule, after: Timestamp) -> Self {
        Self { schedule, after: Some(after) }
    }
}

impl Iterator for Ticks<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        self.after = self.after.and_then(|after| self.schedule.next_after(after));
        self.after
    }
}

impl FusedIterator for Ticks<'_> {}
