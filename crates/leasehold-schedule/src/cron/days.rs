//! Which days of a month an expression means.

use jiff::civil::Date;

use super::set::Set;

/// The first, eighth, fifteenth … bit.
const WEEKLY: u64 = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28;

const SATURDAY: u8 = 6;
const SUNDAY: u8 = 0;

/// The day of the month and the day of the week of an expression, which are one condition.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Days {
    /// `1`, `1-15`: days of the month.
    pub of_month: Set,
    /// `L`, `L-3`: days before the last one, which is 0.
    pub from_end: Set,
    /// `15W`: the working day nearest to these.
    pub nearest: Set,
    /// `LW`: the last working day.
    pub last_working: bool,
    /// `1`, `MON-FRI`: days of the week, of which Sunday is 0.
    pub of_week: Set,
    /// `1#2`: the second Monday; by the week less one.
    pub nth: [Set; 5],
    /// `5L`: the last Friday.
    pub last_of_week: Set,
    /// One of the two fields starts with a star: a day has to be in both; else in either.
    pub both: bool,
}

impl Days {
    /// The days of a month.
    pub fn in_month(&self, first: Date) -> Set {
        let month = Month::of(first);
        let (by_month, by_week) = (self.by_day_of_month(&month), self.by_day_of_week(&month));
        if self.both { by_month.and(by_week) } else { by_month.or(by_week) }
    }

    fn by_day_of_month(&self, month: &Month) -> Set {
        let mut days = self.of_month;
        for before in self.from_end.members().filter(|&before| before < month.length) {
            days = days.with(month.length - before);
        }
        for day in self.nearest.members().filter(|&day| day <= month.length) {
            days = days.with(month.working_day_nearest_to(day));
        }
        if self.last_working {
            days = days.with(month.last_working_day());
        }
        days.and(month.all())
    }

    fn by_day_of_week(&self, month: &Month) -> Set {
        let mut days = Set::default();
        for weekday in self.of_week.members() {
            days = days.or(Set(WEEKLY << month.first(weekday)));
        }
        for (week, weekdays) in (0..).zip(&self.nth) {
            for weekday in weekdays.members() {
                days = days.with(month.first(weekday) + 7 * week);
            }
        }
        for weekday in self.last_of_week.members() {
            let first = month.first(weekday);
            days = days.with(first + (month.length - first) / 7 * 7);
        }
        days.and(month.all())
    }
}

/// A month as far as days go.
struct Month {
    length: u8,
    /// The day of the week of the first.
    begins: u8,
}

impl Month {
    fn of(first: Date) -> Self {
        Self {
            length: first.days_in_month().unsigned_abs(),
            begins: first.weekday().to_sunday_zero_offset().unsigned_abs(),
        }
    }

    fn all(&self) -> Set {
        Set::up_to(self.length)
    }

    /// The first day that is this day of the week.
    fn first(&self, weekday: u8) -> u8 {
        1 + (7 + weekday - self.begins) % 7
    }

    fn weekday(&self, day: u8) -> u8 {
        (self.begins + day - 1) % 7
    }

    /// Monday to Friday, and never in another month.
    fn working_day_nearest_to(&self, day: u8) -> u8 {
        match self.weekday(day) {
            SATURDAY if day == 1 => 3,
            SATURDAY => day - 1,
            SUNDAY if day == self.length => day - 2,
            SUNDAY => day + 1,
            _ => day,
        }
    }

    fn last_working_day(&self) -> u8 {
        match self.weekday(self.length) {
            SATURDAY => self.length - 1,
            SUNDAY => self.length - 2,
            _ => self.length,
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    fn days(days: Days, year: i16, month: i8) -> Vec<u8> {
        days.in_month(date(year, month, 1)).members().collect()
    }

    #[test]
    fn the_nearest_working_day_stays_in_its_month() {
        let nearest = |day| Days { nearest: Set::default().with(day), ..Days::default() };
        assert_eq!(days(nearest(1), 2025, 2), [3], "Saturday the first goes forward");
        assert_eq!(days(nearest(1), 2025, 6), [2], "Sunday the first");
        assert_eq!(days(nearest(31), 2025, 8), [29], "Sunday the last goes back");
        assert_eq!(days(nearest(30), 2025, 8), [29], "Saturday");
        assert_eq!(days(nearest(31), 2025, 4), [0; 0], "April has no 31st");
    }

    #[test]
    fn the_end_of_a_month_is_counted_from_its_length() {
        let from_end = |before| Days { from_end: Set::default().with(before), ..Days::default() };
        assert_eq!(days(from_end(0), 2024, 2), [29]);
        assert_eq!(days(from_end(3), 2025, 2), [25]);
        assert_eq!(days(from_end(30), 2025, 1), [1]);
        assert_eq!(days(from_end(30), 2025, 4), [0; 0]);
        let last_working = Days { last_working: true, ..Days::default() };
        assert_eq!(days(last_working, 2025, 5), [30]);
        assert_eq!(days(last_working, 2025, 8), [29]);
        let last_of_week = Days { last_of_week: Set::default().with(5).with(0), ..Days::default() };
        assert_eq!(days(last_of_week, 2025, 2), [23, 28]);
    }

    #[test]
    fn a_fifth_monday_is_absent_from_most_months() {
        let mut fifth = Days::default();
        fifth.nth[4] = Set::default().with(1);
        assert_eq!(days(fifth, 2025, 6), [30]);
        assert_eq!(days(fifth, 2025, 7), [0; 0]);
    }
}
