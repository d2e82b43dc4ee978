//! Periods: ticks at the multiples of a duration since the Unix epoch.

use std::fmt;

use jiff::Timestamp;

use super::seconds::floor;
use crate::duration::{UNITS, duration};
use crate::error::{ScheduleError, shown};

/// A number of seconds. Aligned to the epoch, it needs no start, and so it is the same on every node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Period(i64);

impl Period {
    /// Reads `15m`, `90s`, `1h30m`.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let length = duration(text)?;
        let refuse = |rule: &str| Err(ScheduleError::new(format!("the period {} {rule}", shown(text))));
        if length.as_secs() == 0 {
            return refuse("is too short; give at least 1s");
        }
        if length.subsec_nanos() > 0 {
            return refuse("has a part of a second; give whole seconds");
        }
        Ok(Self(length.as_secs().cast_signed()))
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
