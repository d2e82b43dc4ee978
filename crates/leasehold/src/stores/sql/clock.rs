//! What there is to say of a server's clock, and of how far away it is.

use std::time::{Duration, SystemTime};

use crate::finding::Finding;
use crate::lease::FencingToken;

/// Slower than this, round trips eat into short TTLs.
const SLOW: Duration = Duration::from_millis(50);

/// A call for a lease with the smallest TTL, of a second, is given up after so long.
const TOO_SLOW: Duration = Duration::from_millis(1000 / 6);

/// Clocks that differ by more are told.
const APART: Duration = Duration::from_secs(300);

/// How many round trips are to be measured.
pub(crate) const TRIPS: usize = 9;

/// What is found by some round trips, which took so long and at whose end the server's clock showed this.
pub(crate) fn findings(clock: Duration, trips: Vec<Duration>) -> [Finding; 2] {
    let ours = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    [difference(clock, ours), latency(trips)]
}

fn difference(theirs: Duration, ours: Duration) -> Finding {
    if theirs < FencingToken::BUILT {
        let message =
            "the server's clock is before this program was built: no token can be made by it, and no lock is granted";
        return Finding::problem("clock", message, "set the server's clock");
    }
    let apart = theirs.abs_diff(ours);
    if apart > APART {
        let way = if theirs > ours { "ahead of" } else { "behind" };
        let message = format!(
            "the server's clock is {} s {way} ours. Leases don't mind; ticks are due by the server's",
            apart.as_secs()
        );
        return Finding::warning("clock", message, "have both clocks set by NTP");
    }
    Finding::fine("clock", format!("at most {} s from ours", apart.as_secs() + 1))
}

fn latency(mut trips: Vec<Duration>) -> Finding {
    trips.sort_unstable();
    let (Some(&median), Some(&worst)) = (trips.get(trips.len() / 2), trips.last()) else {
        return Finding::fine("latency", "not measured");
    };
    let message = format!("{median:.1?} for a round trip, {worst:.1?} at worst of {}", trips.len());
    if median > SLOW || worst > TOO_SLOW {
        let fix = "give locks a TTL of many round trips (the smallest is 1 s), or move nearer to the server";
        return Finding::warning("latency", message, fix);
    }
    Finding::fine("latency", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn clocks_that_are_apart_are_told_and_a_clock_that_makes_no_tokens_is_a_problem() {
        let now = FencingToken::BUILT + Duration::from_secs(86400);
        let told = |theirs| difference(theirs, now);
        assert_eq!(told(now + Duration::from_secs(200)).severity, Severity::Fine);
        assert!(told(now + Duration::from_secs(301)).message.contains("301 s ahead of"));
        assert!(told(now - Duration::from_secs(400)).message.contains("400 s behind"));
        assert_eq!(told(FencingToken::BUILT - Duration::from_secs(1)).severity, Severity::Problem);
    }
}
