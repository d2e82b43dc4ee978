//! Periods: ticks at the multiples of a duration since the Unix epoch.

use std::fmt;

use jiff::Timestamp;

use super::seconds::floor;
use crate::error::{ScheduleError, shown};

/// The longest period, in milliseconds: 3650 days.
const LONGEST: u64 = 3650 * 86_400_000;

/// The units, largest first, with their milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// A number of seconds. Aligned to the epoch, it needs no start, and so it is the same on every node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Period(i64);

impl Period {
    /// Reads `15m`, `90s`, `1h30m`.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let milliseconds = milliseconds(text)?;
        let refuse = |rule: &str| Err(ScheduleError::new(format!("the period {} {rule}", shown(text))));
        if milliseconds < 1000 {
            return refuse("is too short; give at least 1s");
        }
        if milliseconds > LONGEST {
            return refuse("is too long; give at most 3650d");
        }
        if !milliseconds.is_multiple_of(1000) {
            return refuse("has a part of a second; give whole seconds");
        }
        Ok(Self((milliseconds / 1000).cast_signed()))
    }

    pub fn as_secs(self) -> u64 {
        self.0.unsigned_abs()
    }

    pub fn next_after(self, instant: Timestamp) -> Option<Timestamp> {
        self.multiple(floor(instant).div_euclid(self.0) + 1)
    }

    pub fn latest_at(self, instant: Timestamp) -> Option<Timestamp> {
        self.multiple(floor(instant).div_euclid(self.0))
    }

    fn multiple(self, times: i64) -> Option<Timestamp> {
        Timestamp::from_second(times.checked_mul(self.0)?).ok()
    }
}

fn milliseconds(text: &str) -> Result<u64, ScheduleError> {
    let malformed = || {
        let shown = shown(text);
        ScheduleError::new(format!("{shown} is no duration; write for example 90s, 15m, 1h30m or 1d"))
    };
    let mut rest = text;
    let mut sum = 0_u64;
    while !rest.is_empty() {
        let (number, after) = split_where(rest, |c| !c.is_ascii_digit());
        let (unit, after) = split_where(after, |c| c.is_ascii_digit());
        let number: u64 = number.parse().map_err(|_| malformed())?;
        if unit.is_empty() {
            let rule = "has no unit at its end (ms, s, m, h and d are known)";
            return Err(ScheduleError::new(format!("the period {} {rule}; write {number}s for seconds", shown(text))));
        }
        let (_, size) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(malformed)?;
        sum = sum.saturating_add(size.saturating_mul(number));
        rest = after;
    }
    if text.is_empty() { Err(malformed()) } else { Ok(sum) }
}

fn split_where(text: &str, is_end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(is_end).unwrap_or(text.len()))
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.as_secs() * 1000;
        for (unit, size) in UNITS {
            if left >= size {
                write!(f, "{}{unit}", left / size)?;
                left %= size;
            }
        }
        Ok(())
    }
}
