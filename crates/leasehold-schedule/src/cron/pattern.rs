//! Civil times that match an expression, as they would stand in a calendar without any zone.

use jiff::civil::{Date, DateTime, Time};

use super::days::Days;
use super::set::Set;

/// The Gregorian calendar, days of the week included, repeats itself after this many years.
const CYCLE: i16 = 400;

/// The sets of numbers that an expression's fields stand for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pattern {
    pub seconds: Set,
    pub minutes: Set,
    pub hours: Set,
    pub months: Set,
    pub days: Days,
}

impl Pattern {
    /// Whether any date ever matches.
    pub fn is_possible(&self) -> bool {
        date(2000, 1, 1).is_some_and(|from| self.date_at_or_after(from).is_some())
    }

    /// The first match that is not before `from`, a whole second.
    pub fn at_or_after(&self, from: DateTime) -> Option<DateTime> {
        let mut date = self.date_at_or_after(from.date())?;
        if date == from.date() {
            if let Some(time) = self.time_at_or_after(from.time()) {
                return Some(date.to_datetime(time));
            }
            date = self.date_at_or_after(date.tomorrow().ok()?)?;
        }
        let (hour, minute, second) = (self.hours.first()?, self.minutes.first()?, self.seconds.first()?);
        Some(date.to_datetime(time(hour, minute, second)))
    }

    /// The last match that is not after `until`.
    pub fn at_or_before(&self, until: DateTime) -> Option<DateTime> {
        let mut date = self.date_at_or_before(until.date())?;
        if date == until.date() {
            if let Some(time) = self.time_at_or_before(until.time()) {
                return Some(date.to_datetime(time));
            }
            date = self.date_at_or_before(date.yesterday().ok()?)?;
        }
        let (hour, minute, second) = (self.hours.last()?, self.minutes.last()?, self.seconds.last()?);
        Some(date.to_datetime(time(hour, minute, second)))
    }

    fn time_at_or_after(&self, from: Time) -> Option<Time> {
        let (hour, minute, second) = parts(from);
        if self.hours.contains(hour) {
            let this_minute = self.minutes.contains(minute).then(|| self.seconds.at_or_after(second)).flatten();
            if let Some(second) = this_minute {
                return Some(time(hour, minute, second));
            }
            if let Some(minute) = self.minutes.at_or_after(minute + 1) {
                return Some(time(hour, minute, self.seconds.first()?));
            }
        }
        let hour = self.hours.at_or_after(hour + 1)?;
        Some(time(hour, self.minutes.first()?, self.seconds.first()?))
    }

    fn time_at_or_before(&self, until: Time) -> Option<Time> {
        let (hour, minute, second) = parts(until);
        if self.hours.contains(hour) {
            let this_minute = self.minutes.contains(minute).then(|| self.seconds.at_or_before(second)).flatten();
            if let Some(second) = this_minute {
                return Some(time(hour, minute, second));
            }
            if let Some(minute) = self.minutes.before(minute) {
                return Some(time(hour, minute, self.seconds.last()?));
            }
        }
        let hour = self.hours.before(hour)?;
        Some(time(hour, self.minutes.last()?, self.seconds.last()?))
    }

    fn date_at_or_after(&self, from: Date) -> Option<Date> {
        let mut from = from;
        let end = from.year().saturating_add(CYCLE);
        while from.year() <= end {
            let month = from.first_of_month();
            if let Some(day) = self.days_in(month).at_or_after(from.day().unsigned_abs()) {
                return date(month.year(), month.month().unsigned_abs(), day);
            }
            let this_year = self.months.at_or_after(month.month().unsigned_abs() + 1);
            from = match this_year {
                Some(later) => date(month.year(), later, 1)?,
                None => date(month.year() + 1, self.months.first()?, 1)?,
            };
        }
        None
    }

    fn date_at_or_before(&self, until: Date) -> Option<Date> {
        let mut until = until;
        let end = until.year().saturating_sub(CYCLE);
        while until.year() >= end {
            let month = until.first_of_month();
            if let Some(day) = self.days_in(month).at_or_before(until.day().unsigned_abs()) {
                return date(month.year(), month.month().unsigned_abs(), day);
            }
            let this_year = self.months.before(month.month().unsigned_abs());
            let earlier = match this_year {
                Some(earlier) => date(month.year(), earlier, 1)?,
                None => date(month.year() - 1, self.months.last()?, 1)?,
            };
            until = earlier.last_of_month();
        }
        None
    }

    fn days_in(&self, month: Date) -> Set {
        if self.months.contains(month.month().unsigned_abs()) { self.days.in_month(month) } else { Set::default() }
    }
}

fn parts(time: Time) -> (u8, u8, u8) {
    (time.hour().unsigned_abs(), time.minute().unsigned_abs(), time.second().unsigned_abs())
}

/// The numbers come out of sets that were filled from checked fields.
fn time(hour: u8, minute: u8, second: u8) -> Time {
    let [hour, minute, second] = [hour, minute, second].map(u8::cast_signed);
    Time::constant(hour, minute, second, 0)
}

/// None beyond the calendar's ends.
fn date(year: i16, month: u8, day: u8) -> Option<Date> {
    Date::new(year, month.cast_signed(), day.cast_signed()).ok()
}
