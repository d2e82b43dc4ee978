//! Tokens from a sequence, which needs no commit to the disk for each. It is set ahead of the clock where it is behind it.

use std::time::Duration;

use crate::lease::FencingToken;

/// From 1970 to 2020.
const YEAR_2020: Duration = Duration::from_millis(1_577_836_800_000);

/// By how much a clock may have been set back.
const SET_BACK: Duration = Duration::from_secs(3600);

/// The smallest token at an instant since 1970: sixteen for each millisecond.
pub(crate) fn least(at: Duration) -> i64 {
    i64::try_from(at.saturating_sub(YEAR_2020).as_millis()).unwrap_or(i64::MAX >> 4) << 4
}

/// Whether no token is to be made of a clock: it is before this program was built, or behind what it was at this token.
pub(crate) fn is_wrong(at: Duration, token: i64) -> bool {
    at < FencingToken::BUILT || token > least(at + SET_BACK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_judged_by_the_last_token() {
        let (built, hour) = (FencingToken::BUILT, SET_BACK);
        assert_eq!(least(built + Duration::from_millis(1)) - least(built), 16);
        assert!(!is_wrong(built, 0) && !is_wrong(built, least(built + hour)));
        assert!(is_wrong(built - Duration::from_millis(1), 0));
        assert!(is_wrong(built, least(built + hour) + 1));
    }
}
