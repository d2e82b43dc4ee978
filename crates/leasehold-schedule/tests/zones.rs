//! Every zone there is, around the changes of its clocks, against a search that looks at every minute.

mod common;

use common::{DAY, HOUR, Minutes, Random, Slow, at, schedule, ticks, zones};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

const NANOSECOND: SignedDuration = SignedDuration::from_nanos(1);

/// Fixed times, cadences and what lies between, most of them at hours at which clocks are changed somewhere.
const EXPRESSIONS: [&str; 12] = [
    "30 2 * * *",
    "0 0 * * *",
    "0,30 1-3 * * *",
    "15 23,0 * * *",
    "45 1 * * 0,6",
    "10 */2 * * *",
    "*/15 * * * *",
    "*/20 2 * * *",
    "0 0-23 * * *",
    "59 23 28-31 * *",
    "30 0/3 * 3,4,9,10,11 *",
    "0 3 */2 * 0",
];

fn changes(zone: &TimeZone) -> Vec<Timestamp> {
    let (from, until) = (at("2005-01-01T00:00:00Z"), at("2038-01-01T00:00:00Z"));
    let changes = zone.following(from).map(|change| change.timestamp());
    changes.take_while(|&change| change < until).collect()
}

/// Checks the ticks within a span of time, forwards and backwards.
fn check(expressions: &[&str], zone: &TimeZone, from: Timestamp, until: Timestamp) -> usize {
    let minutes = Minutes::between(zone, from, until);
    let name = zone.iana_name().unwrap();
    let mut compared = 0;
    for expression in expressions {
        let schedule = schedule(expression, name);
        let what = || format!("{expression} in {name} from {from}");
        let expected = Slow::new(expression).ticks(&minutes);
        assert_eq!(ticks(&schedule, from, until), expected, "{}", what());
        let mut latest = until;
        for &tick in expected.iter().rev() {
            assert_eq!(schedule.latest_at(latest), Some(tick), "{} at {latest}", what());
            latest = tick - NANOSECOND;
        }
        assert!(schedule.latest_at(latest).is_none_or(|before| before <= from), "{} at {latest}", what());
        compared += expected.len();
    }
    compared
}

#[test]
fn some_changes_of_every_zone_agree_with_a_search_by_the_minute() {
    let mut random = Random(1);
    let zones = zones();
    assert!(zones.len() > 400, "{}", zones.len());
    let mut compared = 0;
    for zone in &zones {
        let changes = changes(zone);
        let change = if changes.is_empty() { random.minute() } else { *random.one_of(&changes) };
        let four = [(); 4].map(|()| *random.one_of(&EXPRESSIONS));
        compared += check(&four, zone, change - 8 * HOUR, change + 8 * HOUR);
    }
    assert!(compared > 5000, "{compared}");
}

#[test]
#[ignore = "takes minutes: scripts/check-zones"]
fn all_changes_of_every_zone_agree_with_a_search_by_the_minute() {
    let (mut changed, mut compared) = (0, 0);
    for zone in &zones() {
        for change in changes(zone) {
            compared += check(&EXPRESSIONS, zone, change - DAY, change + DAY);
            changed += 1;
        }
    }
    println!("{compared} ticks around {changed} changes are the same");
}
