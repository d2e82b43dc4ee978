//! Every zone there is, around the changes of its clocks, against a search that looks at every minute.

mod common;

use common::{DAY, HOUR, MINUTE, Random, Slow, at, schedule, texts, ticks, zones};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use leasehold_schedule::Schedule;

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

/// Checks the ticks within some time of an instant, forwards and backwards.
fn check(expression: &str, zone: &TimeZone, from: Timestamp, until: Timestamp) -> usize {
    let name = zone.iana_name().unwrap();
    let schedule = schedule(expression, name);
    let expected = Slow::new(expression, zone).ticks(from, until);
    let what = || format!("{expression} in {name} from {from}");
    assert_eq!(texts(&ticks(&schedule, from, until)), texts(&expected), "{}", what());
    let mut latest = until;
    for &tick in expected.iter().rev() {
        assert_eq!(schedule.latest_at(latest), Some(tick), "{} at {latest}", what());
        latest = tick - jiff::SignedDuration::from_nanos(1);
    }
    assert!(schedule.latest_at(latest).is_none_or(|before| before <= from), "{} at {latest}", what());
    expected.len()
}

#[test]
fn some_changes_of_every_zone_agree_with_a_search_by_the_minute() {
    let mut random = Random(1);
    let zones = zones();
    assert!(zones.len() > 400, "{}", zones.len());
    let mut compared = 0;
    for zone in &zones {
        let changes = changes(zone);
        for expression in EXPRESSIONS.iter().skip(random.below(3).try_into().unwrap()).step_by(3) {
            let change = if changes.is_empty() { at("2025-03-30T01:00:00Z") } else { *random.one_of(&changes) };
            compared += check(expression, zone, change - 4 * HOUR, change + 4 * HOUR);
        }
    }
    assert!(compared > 3000, "{compared}");
}

#[test]
#[ignore = "takes minutes without optimisation"]
fn all_changes_of_every_zone_agree_with_a_search_by_the_minute() {
    let mut compared = 0;
    for zone in &zones() {
        for change in changes(zone) {
            for expression in EXPRESSIONS {
                compared += check(expression, zone, change - 2 * DAY, change + 2 * DAY);
            }
        }
    }
    println!("{compared} ticks are the same");
}
