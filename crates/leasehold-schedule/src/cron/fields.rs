//! The five or six fields of a cron expression.

use std::fmt;

use super::days::Days;
use super::field::{Field, Item, Kind};
use super::hashed::Hashing;
use super::pattern::Pattern;
use super::set::Set;
use crate::error::ScheduleError;

/// An expression as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fields {
    /// None where five fields were given: second 0.
    pub second: Option<Field>,
    pub minute: Field,
    pub hour: Field,
    pub day_of_month: Field,
    pub month: Field,
    pub day_of_week: Field,
}

impl Fields {
    pub fn parse(words: &[&str], hashing: Hashing<'_>) -> Result<Self, ScheduleError> {
        let (second, words) = match *words {
            [second, ref rest @ ..] if rest.len() == 5 => (Some(second), rest),
            _ => (None, words),
        };
        let &[minute, hour, day_of_month, month, day_of_week] = words else { return Err(count(words.len())) };
        let mut wrong = Vec::new();
        let mut field = |kind, word| Field::parse(kind, word, hashing).map_err(|error| wrong.push(error)).ok();
        let second = second.map(|word| field(Kind::Second, word));
        let others = [
            field(Kind::Minute, minute),
            field(Kind::Hour, hour),
            field(Kind::DayOfMonth, day_of_month),
            field(Kind::Month, month),
            field(Kind::DayOfWeek, day_of_week),
        ];
        // All that is wrong, at once.
        let [Some(minute), Some(hour), Some(day_of_month), Some(month), Some(day_of_week)] = others else {
            return Err(ScheduleError::all(&wrong));
        };
        let second = match second {
            Some(None) => return Err(ScheduleError::all(&wrong)),
            second => second.flatten(),
        };
        Ok(Self { second, minute, hour, day_of_month, month, day_of_week })
    }

    /// In their order.
    pub fn all(&self) -> impl Iterator<Item = &Field> {
        let others = [&self.minute, &self.hour, &self.day_of_month, &self.month, &self.day_of_week];
        self.second.iter().chain(others)
    }

    pub fn pattern(&self) -> Pattern {
        Pattern {
            seconds: self.second.clone().unwrap_or_else(|| Field::only(Kind::Second, 0)).numbers(),
            minutes: self.minute.numbers(),
            hours: self.hour.numbers(),
            months: self.month.numbers(),
            days: self.days(),
        }
    }

    fn days(&self) -> Days {
        let mut days = Days {
            of_month: self.day_of_month.numbers(),
            of_week: self.day_of_week.numbers(),
            both: self.day_of_month.starred || self.day_of_week.starred,
            ..Days::default()
        };
        for item in self.day_of_month.items.iter().chain(&self.day_of_week.items) {
            match *item {
                Item::Numbers { .. } => {}
                Item::LastDay { before } => days.from_end = days.from_end.with(before),
                Item::LastWorkingDay => days.last_working = true,
                Item::NearestWorkingDay(day) => days.nearest = days.nearest.with(day),
                Item::Nth { weekday, week } => add(&mut days.nth[usize::from(week) - 1], weekday),
                Item::LastOf(weekday) => add(&mut days.last_of_week, weekday),
            }
        }
        days
    }
}

fn add(set: &mut Set, number: u8) {
    *set = set.with(number);
}

fn count(given: usize) -> ScheduleError {
    let wanted = "5 fields (minute, hour, day of the month, month, day of the week), or 6 with seconds first";
    ScheduleError::new(match given {
        1 => format!("it is one word; give {wanted}, a duration such as 15m, or a macro such as @daily"),
        2..=4 => format!("it has {given} fields; give {wanted}, or a duration such as 15m"),
        7 => format!("it has 7 fields, and years can't be given; give {wanted}"),
        _ => format!("it has {given} fields; give {wanted}"),
    })
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, field) in self.all().enumerate() {
            if place > 0 {
                f.write_str(" ")?;
            }
            field.fmt(f)?;
        }
        Ok(())
    }
}
