//! Ticks as clocks in a zone show them, and what is odd about one.

use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ZonedDateTime};

use crate::error::ScheduleError;
use crate::schedule::Schedule;
use crate::ticks::Ticks;

/// The ticks of a schedule from an instant on, as people read them.
///
/// ```
/// use leasehold_schedule::{Preview, Schedule};
///
/// let nightly = Schedule::parse("30 2 * * *", Some("America/New_York"))?;
/// let mut preview = Preview::of(&nightly, "2025-03-08T08:00:00Z".parse()?, "America/New_York")?;
/// let tick = preview.next().expect("there is another");
/// assert_eq!(tick.local, "2025-03-09T03:00:00-04:00");
/// assert_eq!(tick.odd.as_deref(), Some("clocks go from 01:59:59 to 03:00 now"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Preview<'a> {
    ticks: Ticks<'a>,
    zone: TimeZone,
    before: ZonedDateTime,
}

/// A tick, as clocks show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Which one.
    pub utc: Timestamp,
    /// What clocks show: `2027-03-14T03:00:00-04:00`.
    pub local: String,
    /// What clocks have to do with it; none on usual days.
    pub odd: Option<String>,
}

impl<'a> Preview<'a> {
    /// Those later than an instant, as clocks in this zone show them. A schedule that has a zone is shown in that.
    ///
    /// # Errors
    /// No zone has this name.
    pub fn of(schedule: &'a Schedule, from: Timestamp, zone: &str) -> Result<Self, ScheduleError> {
        let zone = TimeZone::get(schedule.zone().unwrap_or(zone));
        let zone = zone.map_err(|error| ScheduleError::new(error.to_string()))?;
        Ok(Self { ticks: schedule.ticks_after(from), before: from.to_zoned_datetime(zone.clone()), zone })
    }
}

impl Iterator for Preview<'_> {
    type Item = Shown;

    fn next(&mut self) -> Option<Shown> {
        let utc = self.ticks.next()?;
        let local = utc.to_zoned_datetime(self.zone.clone());
        let shown = Shown { utc, local: shown(&local), odd: odd(&self.before, &local) };
        self.before = local;
        Some(shown)
    }
}

/// Without the name of the zone: for scripts as for people.
fn shown(local: &ZonedDateTime) -> String {
    local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

fn odd(before: &ZonedDateTime, tick: &ZonedDateTime) -> Option<String> {
    let just_before =
        tick.timestamp().checked_sub(SignedDuration::from_secs(1)).ok()?.to_zoned_datetime(tick.time_zone().clone());
    let jump = tick.offset().duration_since(just_before.offset());
    if jump.is_positive() {
        return Some(format!("clocks go from {} to {} now", just_before.strftime("%H:%M:%S"), tick.strftime("%H:%M")));
    }
    if let AmbiguousOffset::Fold { before: first, .. } =
        tick.time_zone().to_ambiguous_timestamp(tick.datetime()).offset()
    {
        let which = if tick.offset() == first { "first" } else { "second" };
        return Some(format!("clocks show this time twice; it is the {which}"));
    }
    let moved = tick.offset().duration_since(before.offset());
    (!moved.is_zero()).then(|| {
        let by = moved.unsigned_abs();
        let where_to = if moved.is_positive() { "forward" } else { "back" };
        format!("clocks have gone {where_to} by {}", leasehold::Span(by))
    })
}
