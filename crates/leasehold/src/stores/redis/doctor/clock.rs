//! The server's clock, and how far away it is.

use std::time::{Duration, Instant, SystemTime};

use super::duty::Duty;
use super::patient::Patient;
use crate::finding::Finding;
use crate::lease::FencingToken;
use crate::span::Span;

/// How many round trips are measured.
const TRIPS: usize = 9;

/// Slower than this, round trips eat into short TTLs.
const SLOW: Duration = Duration::from_millis(50);

/// A call for a lease with the smallest TTL, of a second, is given up after so long.
const TOO_SLOW: Duration = Duration::from_millis(1000 / 6);

/// Clocks that differ by more are told.
const APART: Duration = Duration::from_secs(300);

pub(super) async fn findings(patient: &Patient<'_>) -> Vec<Finding> {
    let (mut trips, mut clock) = (Vec::new(), None);
    for _ in 0..TRIPS {
        let began = Instant::now();
        let Some(time) = patient.ask_one(&redis::cmd("TIME")).await else { return Vec::new() };
        trips.push(began.elapsed());
        if let Ok((seconds, micros)) = redis::from_redis_value::<(u64, u32)>(time) {
            clock = Some(Duration::new(seconds, micros * 1000));
        }
    }
    let ours = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    clock.map(|clock| difference(clock, ours, patient.duty)).into_iter().chain([latency(trips)]).collect()
}

fn difference(theirs: Duration, ours: Duration, duty: Duty) -> Finding {
    let apart = theirs.abs_diff(ours);
    let way = if theirs > ours { "ahead of" } else { "behind" };
    if theirs < FencingToken::BUILT {
        let message =
            "the server's clock is before this program was built: no token can be made by it, and no lock is granted";
        return Finding::problem("clock", message, "set the server's clock");
    }
    if apart > APART {
        let told = format!("the server's clock is {:.0?} {way} ours", Duration::from_secs(apart.as_secs()));
        let costs = match duty {
            Duty::Alone => "Leases don't mind; ticks are due by the server's",
            Duty::Member => "Leases don't mind; ticks that are due by the others' it may refuse",
            // Not even tokens: what another store has granted is of another epoch.
            Duty::Primary => return Finding::fine("clock", format!("{told}: neither leases nor ticks mind")),
        };
        return Finding::warning("clock", format!("{told}. {costs}"), "have both clocks set by NTP");
    }
    // Rounded, so that all masters of a cluster are told of in one line.
    Finding::fine("clock", format!("at most {} s from ours", apart.as_secs() + 1))
}

fn latency(mut trips: Vec<Duration>) -> Finding {
    trips.sort_unstable();
    let (Some(&median), Some(&worst)) = (trips.get(trips.len() / 2), trips.last()) else {
        return Finding::fine("latency", "not measured");
    };
    let message = format!("{} for a round trip, {} at worst of {}", Span(median), Span(worst), trips.len());
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
        let told = |theirs| difference(theirs, now, Duty::Alone);
        assert_eq!(told(now + Duration::from_secs(200)).severity, Severity::Fine);
        let (ahead, behind) = (told(now + Duration::from_secs(301)), told(now - Duration::from_secs(400)));
        assert!(ahead.severity == Severity::Warning && ahead.message.contains("301s ahead of"), "{ahead:?}");
        assert!(behind.severity == Severity::Warning && behind.message.contains("400s behind"), "{behind:?}");
        assert_eq!(difference(now + Duration::from_secs(301), now, Duty::Primary).severity, Severity::Fine);
        assert_eq!(told(FencingToken::BUILT - Duration::from_secs(1)).severity, Severity::Problem);
    }

    #[test]
    fn the_scripts_know_the_same_date() {
        let since_2020 = FencingToken::BUILT.as_millis() - 1_577_836_800_000;
        assert!(include_str!("../scripts/tokens.lua").contains(&format!("ms < {since_2020}")));
    }

    #[test]
    fn slow_round_trips_are_told_also_if_few_are() {
        let trips = |slow, span| {
            let trips = (0..9).map(|nth| Duration::from_millis(if nth < slow { span } else { 1 }));
            latency(trips.collect()).severity
        };
        assert_eq!(
            [trips(0, 0), trips(5, 60), trips(1, 60), trips(1, 200)].map(|told| told == Severity::Warning),
            [false, true, false, true]
        );
    }
}
