//! Expressions: how they are read, and the ticks of a cron expression in a zone.

mod days;
mod field;
mod fields;
pub(crate) mod hashed;
pub(crate) mod lint;
mod pattern;
pub(crate) mod period;
mod seconds;
mod set;
mod stretch;
pub(crate) mod text;
mod zone;

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use self::fields::Fields;
use self::pattern::Pattern;
use self::seconds::{at_or_before, following};
use self::set::Set;
use self::stretch::Stretch;
use crate::error::ScheduleError;

const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// No search goes further than this: one cycle of the calendar, after which a zone's last rule brings nothing new.
const HORIZON: SignedDuration = SignedDuration::from_hours(400 * 366 * 24);

/// From here on, zones follow their last rule; whatever has no tick after it has none worth waiting for.
const RULES_ONLY: Timestamp = Timestamp::constant(2_145_916_800, 0);

/// A cron expression in a zone.
#[derive(Debug, Clone)]
pub(crate) struct Cron {
    pub fields: Fields,
    pub pattern: Pattern,
    pub zone: TimeZone,
    /// It names times of day, of which each is to come once a day; else it is a cadence, and follows real time.
    pub fixed: bool,
}

impl Cron {
    pub fn new(fields: Fields, zone: TimeZone) -> Result<Self, ScheduleError> {
        let pattern = fields.pattern();
        let fixed = !fields.minute.starred && !fields.hour.starred && pattern.hours != Set::every(1, 0, 23);
        let cron = Self { fields, pattern, zone, fixed };
        cron.check_possible()?;
        Ok(cron)
    }

    fn check_possible(&self) -> Result<(), ScheduleError> {
        if !self.pattern.is_possible() {
            let (day, month) = (&self.fields.day_of_month, &self.fields.month);
            return Err(ScheduleError::new(format!(
                "it never comes: no date has day {day} in month {month} (with day of the week {}); change one of them",
                self.fields.day_of_week
            )));
        }
        if self.next_after(RULES_ONLY).is_none() {
            return Err(ScheduleError::new(format!(
                "it never comes: clocks in {} go forward over each of its times; choose another hour",
                self.zone.iana_name().unwrap_or("its zone")
            )));
        }
        Ok(())
    }

    /// The first tick that is later than `instant`.
    ///
    /// It goes from stretch to stretch of the zone, and takes a civil time that it found along for as long as nothing
    /// before that can match.
    pub fn next_after(&self, instant: Timestamp) -> Option<Timestamp> {
        let mut from = following(instant)?;
        let horizon = from.checked_add(HORIZON).unwrap_or(Timestamp::MAX);
        let mut known: Option<(DateTime, DateTime)> = None;
        while from <= horizon {
            let stretch = Stretch::at(&self.zone, from);
            let nothing_skipped = known.is_some_and(|(_, found)| found >= stretch.local(from));
            if stretch.start == Some(from) && !nothing_skipped && self.catches_up_at_start_of(&stretch) {
                return Some(from);
            }
            let cursor = stretch.local(from).max(self.first_of(&stretch));
            let local = match known {
                Some((searched, found)) if (searched..=found).contains(&cursor) => found,
                _ => self.pattern.at_or_after(cursor)?,
            };
            let tick = stretch.instant(local)?;
            let Some(end) = stretch.end.filter(|&end| end <= tick) else { return Some(tick) };
            known = Some((cursor, local));
            from = end;
        }
        None
    }

    /// The last tick that is not later than `instant`: the same walk, backwards.
    pub fn latest_at(&self, instant: Timestamp) -> Option<Timestamp> {
        let mut until = at_or_before(instant)?;
        let horizon = until.checked_sub(HORIZON).unwrap_or(Timestamp::MIN);
        let mut known: Option<(DateTime, DateTime)> = None;
        while until >= horizon {
            let stretch = Stretch::at(&self.zone, until);
            let cursor = stretch.local(until);
            let local = match known {
                Some((found, searched)) if (found..=searched).contains(&cursor) => found,
                _ => self.pattern.at_or_before(cursor)?,
            };
            if local >= self.first_of(&stretch) {
                return stretch.instant(local);
            }
            let some_skipped = stretch.skipped().is_some_and(|(first, _)| local >= first);
            if some_skipped && self.catches_up_at_start_of(&stretch) {
                return stretch.start;
            }
            known = Some((local, cursor));
            until = stretch.start?.checked_sub(SECOND).ok()?;
        }
        None
    }

    /// The first civil time of a stretch that counts: fixed times don't come again when clocks are put back.
    fn first_of(&self, stretch: &Stretch) -> DateTime {
        if self.fixed { stretch.first_new() } else { stretch.first() }
    }

    /// Whether a fixed time was skipped when the stretch began, and so is due at once. Dates that are left out as a
    /// whole are not made up for: that day never was.
    fn catches_up_at_start_of(&self, stretch: &Stretch) -> bool {
        let Some((first, end)) = stretch.skipped().filter(|_| self.fixed) else { return false };
        let mut from = first;
        while let Some(local) = self.pattern.at_or_after(from).filter(|&local| local < end) {
            let midnight = local.date().to_datetime(Time::midnight());
            let Ok(next_midnight) = midnight.tomorrow() else { return false };
            if midnight < first || end < next_midnight {
                return true;
            }
            from = next_midnight;
        }
        false
    }
}
