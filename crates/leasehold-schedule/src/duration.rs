//! Durations, as people write them.

use std::time::Duration;

use crate::error::{ScheduleError, shown};

/// The units, largest first, with their milliseconds.
pub(crate) const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Longer than anybody means, and far from where sums of durations overflow: 3650 days.
const LONGEST: u64 = 3650 * 86_400_000;

/// Reads a duration as people write it: `500ms`, `90s`, `1h30m`, `1d`. Up to 3650 days; a day has 24 hours.
///
/// By hand: that a day is 24 hours is what libraries of dates rightly refuse to say.
///
/// ```
/// # use std::time::Duration;
/// assert_eq!(leasehold_schedule::duration("1h30m")?, Duration::from_secs(5400));
/// # Ok::<(), leasehold_schedule::ScheduleError>(())
/// ```
///
/// # Errors
/// It is none, or longer.
pub fn duration(text: &str) -> Result<Duration, ScheduleError> {
    let shown = || shown(text);
    let malformed =
        || ScheduleError::new(format!("{} is no duration; write for example 90s, 15m, 1h30m or 1d", shown()));
    let mut rest = text;
    let mut sum = 0_u64;
    while !rest.is_empty() {
        let (number, after) = split_where(rest, |c| !c.is_ascii_digit());
        let (unit, after) = split_where(after, |c| c.is_ascii_digit());
        let count: u64 = number.parse().map_err(|_| malformed())?;
        if unit.is_empty() {
            let rule = "has no unit at its end (ms, s, m, h and d are known)";
            return Err(ScheduleError::new(format!("{} {rule}; write {text}s for seconds", shown())));
        }
        let (_, size) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(malformed)?;
        sum = sum.saturating_add(size.saturating_mul(count));
        rest = after;
    }
    match sum {
        _ if text.is_empty() => Err(malformed()),
        0..=LONGEST => Ok(Duration::from_millis(sum)),
        _ => Err(ScheduleError::new(format!("{} is too long; give at most 3650d", shown()))),
    }
}

fn split_where(text: &str, is_end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(is_end).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, ms) in [
            ("500ms", 500),
            ("90s", 90_000),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("1d", 86_400_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("0s", 0),
            ("3650d", 315_360_000_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_a_hint() {
        for (text, hint) in [
            ("30", "write 30s for seconds"),
            ("0", "write 0s"),
            ("1h30", "write 1h30s for seconds"),
            ("", "for example 90s"),
            ("s", "for example 90s"),
            ("-5s", "for example 90s"),
            ("1.5h", "for example 90s"),
            ("5 s", "for example 90s"),
            ("5S", "for example 90s"),
            ("5w", "for example 90s"),
            ("5s\u{1b}[2J", "for example 90s"),
            ("٣s", "for example 90s"),
            ("3651d", "at most 3650d"),
            ("99999999999999999h", "at most 3650d"),
            ("99999999999999999999h", "for example 90s"),
        ] {
            let error = duration(text).unwrap_err().to_string();
            assert!(error.contains(hint) && !error.contains('\u{1b}'), "{text}: {error}");
        }
    }
}
