//! One field of a cron expression: its grammar and what it stands for.

use std::fmt;

use super::hashed::Hashing;
use super::set::Set;
use crate::error::{ScheduleError, shown};

/// Which field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Second,
    Minute,
    Hour,
    DayOfMonth,
    Month,
    DayOfWeek,
}

/// A field as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub kind: Kind,
    pub items: Vec<Item>,
    /// Its text starts with `*`, which says more than its numbers do: see the crate's rules for days and for gaps.
    pub starred: bool,
}

/// One part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    /// Every `step`-th number from `first` to `last`.
    Numbers { form: Form, first: u8, last: u8, step: u32 },
    /// `L`, and `L-3` for the third day before it.
    LastDay { before: u8 },
    /// `LW`.
    LastWorkingDay,
    /// `15W`.
    NearestWorkingDay(u8),
    /// `1#2`.
    Nth { weekday: u8, week: u8 },
    /// `5L`.
    LastOf(u8),
}

/// How numbers were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `*`
    Star,
    /// `7`
    One,
    /// `7-9`
    Range,
    /// `7/2`: from 7 on.
    From,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day of the month",
            Self::Month => "month",
            Self::DayOfWeek => "day of the week",
        }
    }

    /// The numbers that a star stands for.
    pub fn bounds(self) -> (u8, u8) {
        match self {
            Self::Second | Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::DayOfMonth => (1, 31),
            Self::Month => (1, 12),
            Self::DayOfWeek => (0, 6),
        }
    }

    /// The largest number that may be written: Sunday is 0 and 7.
    fn largest(self) -> u8 {
        if self == Self::DayOfWeek { 7 } else { self.bounds().1 }
    }

    /// How many numbers a star stands for.
    pub fn span(self) -> u32 {
        let (first, last) = self.bounds();
        u32::from(last - first) + 1
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Month => &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
            Self::DayOfWeek => &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
            _ => &[],
        }
    }

    fn legal(self) -> &'static str {
        match self {
            Self::Second | Self::Minute => "0-59",
            Self::Hour => "0-23",
            Self::DayOfMonth => "1-31",
            Self::Month => "1-12 or JAN-DEC",
            Self::DayOfWeek => "0-7 (0 and 7 are Sunday) or SUN-SAT",
        }
    }
}

impl Field {
    /// Reads a field; `H` is replaced by numbers here.
    pub fn parse(kind: Kind, text: &str, hashing: Hashing<'_>) -> Result<Self, ScheduleError> {
        let parser = Parser { kind, hashing };
        let items = text.split(',').map(|part| parser.item(part)).collect::<Result<_, _>>()?;
        Ok(Self { kind, items, starred: text.starts_with('*') })
    }

    /// The field that has one number.
    pub fn only(kind: Kind, number: u8) -> Self {
        Self { kind, items: vec![Item::one(number)], starred: false }
    }

    /// The numbers that it names; `L`, `W` and `#` depend on the month and are not among them.
    pub fn numbers(&self) -> Set {
        let written = self.items.iter().fold(Set::default(), |set, item| match *item {
            Item::Numbers { first, last, step, .. } => set.or(Set::every(step, first, last)),
            _ => set,
        });
        let sunday_as_7 = self.kind == Kind::DayOfWeek && written.contains(7);
        if sunday_as_7 { Set(written.0 & 0b111_1111).with(0) } else { written }
    }

    /// It leaves something out.
    pub fn is_restricted(&self) -> bool {
        let (first, last) = self.kind.bounds();
        self.numbers() != Set::every(1, first, last)
    }
}

impl Item {
    fn one(number: u8) -> Self {
        Self::Numbers { form: Form::One, first: number, last: number, step: 1 }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, item) in self.items.iter().enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            item.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Numbers { form, first, last, step } => {
                match form {
                    Form::Star => f.write_str("*")?,
                    Form::One | Form::From => first.fmt(f)?,
                    Form::Range => write!(f, "{first}-{last}")?,
                }
                if step > 1 || form == Form::From { write!(f, "/{step}") } else { Ok(()) }
            }
            Self::LastDay { before: 0 } => f.write_str("L"),
            Self::LastDay { before } => write!(f, "L-{before}"),
            Self::LastWorkingDay => f.write_str("LW"),
            Self::NearestWorkingDay(day) => write!(f, "{day}W"),
            Self::Nth { weekday, week } => write!(f, "{weekday}#{week}"),
            Self::LastOf(weekday) => write!(f, "{weekday}L"),
        }
    }
}

struct Parser<'a> {
    kind: Kind,
    hashing: Hashing<'a>,
}

impl Parser<'_> {
    fn item(&self, text: &str) -> Result<Item, ScheduleError> {
        let upper = text.to_ascii_uppercase();
        if let Some(rest) = upper.strip_prefix('H') {
            return self.hashed(text, rest);
        }
        match self.special(text, &upper)? {
            Some(item) => Ok(item),
            None => self.numbers(text, &upper),
        }
    }

    /// `L`, `W`, `#`, and the signs that are refused with a hint.
    fn special(&self, text: &str, upper: &str) -> Result<Option<Item>, ScheduleError> {
        match self.kind {
            _ if text.is_empty() => Err(self.refuse(text, "is empty; take the comma too many out")),
            _ if text == "?" => Err(self.refuse(text, "is Quartz's sign for any day; write * for it")),
            Kind::DayOfMonth => self.special_day(text, upper),
            Kind::DayOfWeek => self.special_weekday(text, upper),
            _ => Ok(None),
        }
    }

    fn special_day(&self, text: &str, upper: &str) -> Result<Option<Item>, ScheduleError> {
        Ok(Some(match upper {
            "L" => Item::LastDay { before: 0 },
            "LW" => Item::LastWorkingDay,
            _ => {
                if let Some(before) = upper.strip_prefix("L-") {
                    let before = small(before).filter(|before| (1..=30).contains(before));
                    let before =
                        before.ok_or_else(|| self.refuse(text, "counts back from the last day; write L-1 to L-30"))?;
                    Item::LastDay { before }
                } else if let Some(day) = upper.strip_suffix('W') {
                    let day = small(day).filter(|day| (1..=31).contains(day));
                    let day = day.ok_or_else(|| {
                        self.refuse(text, "is not one day's nearest working day; write 1W to 31W, or LW")
                    })?;
                    Item::NearestWorkingDay(day)
                } else {
                    return Ok(None);
                }
            }
        }))
    }

    fn special_weekday(&self, text: &str, upper: &str) -> Result<Option<Item>, ScheduleError> {
        if let Some((weekday, week)) = upper.split_once('#') {
            let weekday = self.value(text, weekday)? % 7;
            let week = small(week).filter(|week| (1..=5).contains(week));
            let hint = "names no week of a month; write #1 to #5, or 5L for the last Friday";
            return Ok(Some(Item::Nth { weekday, week: week.ok_or_else(|| self.refuse(text, hint))? }));
        }
        match upper.strip_suffix('L') {
            None => Ok(None),
            Some("") => Err(self.refuse(text, "is no day; write 6 for Saturday, or 5L for the last Friday of a month")),
            Some(weekday) => Ok(Some(Item::LastOf(self.value(text, weekday)? % 7))),
        }
    }

    /// `*`, `a`, `a-b` and each with a step.
    fn numbers(&self, text: &str, upper: &str) -> Result<Item, ScheduleError> {
        let (numbers, step) = upper.split_once('/').map_or((upper, None), |(numbers, step)| (numbers, Some(step)));
        let (lowest, highest) = self.kind.bounds();
        let (form, first, last) = if numbers == "*" {
            (Form::Star, lowest, highest)
        } else if let Some((first, last)) = numbers.split_once('-') {
            let (first, last) = self.range(text, first, last)?;
            (Form::Range, first, last)
        } else {
            let number = self.value(text, numbers)?;
            let number = if self.kind == Kind::DayOfWeek { number % 7 } else { number };
            if step.is_some() { (Form::From, number, highest) } else { (Form::One, number, number) }
        };
        let step = step.map_or(Ok(1), |step| self.step(text, step))?;
        Ok(Item::Numbers { form, first, last, step })
    }

    fn range(&self, text: &str, first: &str, last: &str) -> Result<(u8, u8), ScheduleError> {
        let sunday_ends_it = self.kind == Kind::DayOfWeek && last == "SUN";
        let (first, mut last) = (self.value(text, first)?, self.value(text, last)?);
        if sunday_ends_it && first > 0 {
            last = 7;
        }
        if first <= last {
            return Ok((first, last));
        }
        let (lowest, highest) = self.kind.bounds();
        Err(self.refuse(text, &format!("goes backwards; write {first}-{highest},{lowest}-{last} to go past the end")))
    }

    fn step(&self, text: &str, step: &str) -> Result<u32, ScheduleError> {
        match number(step) {
            Some(step) if step > 0 => Ok(step),
            Some(_) => Err(self.refuse(text, "has a step of 0; give at least 1")),
            None => Err(self.refuse(text, "has a step that is no number up to 9999; write for example */5")),
        }
    }

    /// `H`, `H/15`, `H(0-29)` and `H(0-29)/10`; `rest` is what stands behind the `H`.
    fn hashed(&self, text: &str, rest: &str) -> Result<Item, ScheduleError> {
        let malformed = || self.refuse(text, "is no use of H; write H, H/15, H(0-29) or H(0-29)/10");
        let (range, rest) = match rest.strip_prefix('(') {
            None => (None, rest),
            Some(inner) => inner.split_once(')').map(|(range, rest)| (Some(range), rest)).ok_or_else(malformed)?,
        };
        let step = match rest.strip_prefix('/') {
            None if rest.is_empty() => None,
            None => return Err(malformed()),
            Some(step) => Some(self.step(text, step)?),
        };
        let (first, last) = match range {
            None => self.hashed_bounds(),
            Some(range) => {
                let (first, last) = range.split_once('-').ok_or_else(malformed)?;
                self.range(text, first, last)?
            }
        };
        let count = u32::from(last - first) + 1;
        let within = step.map_or(count, |step| step.min(count));
        let Some(offset) = self.hashing.pick(self.kind, within) else {
            return Err(self.refuse(text, "spreads jobs by their names, and no name is known here; write a number"));
        };
        let number = first + u8::try_from(offset).unwrap_or_default();
        Ok(match step {
            None if self.kind == Kind::DayOfWeek => Item::one(number % 7),
            None => Item::one(number),
            Some(step) => Item::Numbers { form: Form::Range, first: number, last, step },
        })
    }

    /// Every month has the days up to the 28th.
    fn hashed_bounds(&self) -> (u8, u8) {
        if self.kind == Kind::DayOfMonth { (1, 28) } else { self.kind.bounds() }
    }

    /// A number or a name.
    fn value(&self, text: &str, value: &str) -> Result<u8, ScheduleError> {
        if let Some(name) = (0..).zip(self.kind.names()).find(|(_, name)| **name == value) {
            return Ok(name.0 + self.kind.bounds().0);
        }
        if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(self.refuse(text, &format!("is not understood; write {}", self.examples())));
        }
        let lowest = self.kind.bounds().0;
        let legal = small(value).filter(|number| (lowest..=self.kind.largest()).contains(number));
        legal.ok_or_else(|| self.refuse(text, &format!("is out of bounds; write {}", self.kind.legal())))
    }

    fn examples(&self) -> String {
        let special = match self.kind {
            Kind::DayOfMonth => ", or L, LW, 15W",
            Kind::DayOfWeek => ", or 1#2, 5L",
            _ => "",
        };
        format!("{} as a number, a list, a range or *{special}", self.kind.legal())
    }

    fn refuse(&self, text: &str, rule: &str) -> ScheduleError {
        ScheduleError::new(format!("{} {} {rule}", self.kind.name(), shown(text)))
    }
}

/// Up to four ASCII digits.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn small(text: &str) -> Option<u8> {
    number(text).and_then(|number| u8::try_from(number).ok())
}
