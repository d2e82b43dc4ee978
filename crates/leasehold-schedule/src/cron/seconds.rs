//! Instants and whole seconds.

use jiff::Timestamp;

/// The last whole second that is not later.
pub(crate) fn at_or_before(instant: Timestamp) -> Option<Timestamp> {
    Timestamp::from_second(floor(instant)).ok()
}

/// The first whole second that is later.
pub(crate) fn following(instant: Timestamp) -> Option<Timestamp> {
    Timestamp::from_second(floor(instant) + 1).ok()
}

/// Seconds since the epoch, rounded down: before the epoch, `as_second` rounds up.
pub(crate) fn floor(instant: Timestamp) -> i64 {
    instant.as_second() - i64::from(instant.subsec_nanosecond() < 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_rounded_down_on_both_sides_of_the_epoch() {
        let of = |text: &str| floor(text.parse().unwrap());
        assert_eq!(of("1970-01-01T00:00:01.5Z"), 1);
        assert_eq!(of("1969-12-31T23:59:58.5Z"), -2);
        assert_eq!(of("1969-12-31T23:59:59Z"), -1);
        assert_eq!(following(Timestamp::MAX), None);
        assert_eq!(at_or_before(Timestamp::MIN), Some(Timestamp::MIN));
    }
}
