//! How long something takes, for people.

use std::fmt;
use std::time::Duration;

/// A span of time as messages show it: rounded, in its one or two largest units. `1d2h`, `3m5s`, `21s`, `1.7s`, `850ms`.
///
/// ```
/// # use std::time::Duration;
/// # use leasehold::Span;
/// assert_eq!(Span(Duration::from_secs(2) / 3).to_string(), "667ms");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (micros, millis) = (self.0.as_micros(), self.in_units_of(1));
        if micros > 0 && millis == 0 {
            return write!(f, "{micros}µs");
        }
        if millis < 1000 {
            return write!(f, "{millis}ms");
        }
        let tenths = self.in_units_of(100);
        if tenths < 100 && !tenths.is_multiple_of(10) {
            return write!(f, "{}.{}s", tenths / 10, tenths % 10);
        }
        let seconds = self.in_units_of(1000);
        let parts = [(seconds / 86400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
        let from_first = parts.into_iter().skip_while(|(number, _)| *number == 0).take(2);
        from_first.filter(|(number, _)| *number > 0).try_for_each(|(number, unit)| write!(f, "{number}{unit}"))
    }
}

impl Span {
    /// How many times so many milliseconds it is, to the nearest.
    fn in_units_of(self, millis: u128) -> u128 {
        let unit = millis * 1_000_000;
        (self.0.as_nanos() + unit / 2) / unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_rounded_to_what_matters_of_them() {
        for (micros, shown) in [
            (0, "0ms"),
            (250, "250µs"),
            (1_400, "1ms"),
            (666_667, "667ms"),
            (999_400, "999ms"),
            (999_700, "1s"),
            (1_666_667, "1.7s"),
            (4_002_000, "4s"),
            (9_960_000, "10s"),
            (21_999_000, "22s"),
            (59_999_000, "1m"),
            (185_000_000, "3m5s"),
            (3_600_000_000, "1h"),
            (3_605_000_000, "1h"),
            (93_784_005_000, "1d2h"),
        ] {
            assert_eq!(Span(Duration::from_micros(micros)).to_string(), shown);
        }
    }
}
