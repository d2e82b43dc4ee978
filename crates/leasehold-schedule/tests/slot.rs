//! To which tick a run belongs, at the edges.

mod common;

use common::{Random, at, schedule};
use jiff::{SignedDuration, Timestamp};
use leasehold_schedule::Schedule;

fn slot(text: &str, now: &str) -> String {
    Schedule::parse(text, None).unwrap().slot(at(now)).unwrap().to_string()
}

#[test]
fn a_node_up_to_a_minute_early_counts_for_the_tick_to_come() {
    for (now, tick) in [
        ("2025-06-02T02:28:59Z", "2025-06-01T02:30:00Z"),
        ("2025-06-02T02:28:59.999999999Z", "2025-06-01T02:30:00Z"),
        ("2025-06-02T02:29:00Z", "2025-06-02T02:30:00Z"),
        ("2025-06-02T02:30:00Z", "2025-06-02T02:30:00Z"),
        ("2025-06-02T23:30:00Z", "2025-06-02T02:30:00Z"),
        ("2025-06-03T02:28:00Z", "2025-06-02T02:30:00Z"),
    ] {
        assert_eq!(slot("30 2 * * *", now), tick, "{now}");
    }
}

#[test]
fn two_minutes_apart_is_where_both_rules_agree() {
    for (now, tick) in [
        ("2025-06-01T12:00:59.999Z", "2025-06-01T12:00:00Z"),
        ("2025-06-01T12:01:00Z", "2025-06-01T12:02:00Z"),
        ("2025-06-01T12:02:59Z", "2025-06-01T12:02:00Z"),
    ] {
        assert_eq!(slot("*/2 * * * *", now), tick, "{now}");
    }
}

#[test]
fn of_ticks_that_are_closer_the_nearest_is_meant_and_half_way_the_later() {
    for (text, now, tick) in [
        ("* * * * *", "2025-06-01T12:00:00Z", "2025-06-01T12:00:00Z"),
        ("* * * * *", "2025-06-01T12:00:29.999Z", "2025-06-01T12:00:00Z"),
        ("* * * * *", "2025-06-01T12:00:30Z", "2025-06-01T12:01:00Z"),
        ("*/10 * * * * *", "2025-06-01T12:00:14Z", "2025-06-01T12:00:10Z"),
        ("*/10 * * * * *", "2025-06-01T12:00:15Z", "2025-06-01T12:00:20Z"),
        ("* * * * * *", "2025-06-01T12:00:15Z", "2025-06-01T12:00:15Z"),
        // The two neighbours decide, not the expression: 90 s, then an hour less that.
        ("0,30 0,1 * * * *", "2025-06-01T12:01:15Z", "2025-06-01T12:01:30Z"),
        ("0,30 0,1 * * * *", "2025-06-01T12:59:00Z", "2025-06-01T13:00:00Z"),
        ("0,30 0,1 * * * *", "2025-06-01T12:58:59Z", "2025-06-01T12:01:30Z"),
    ] {
        assert_eq!(slot(text, now), tick, "{text} at {now}");
    }
}

#[test]
fn no_node_is_early_for_a_period() {
    for (text, now, tick) in [
        ("1h", "2025-06-01T12:59:59.999Z", "2025-06-01T12:00:00Z"),
        ("1h", "2025-06-01T13:00:00Z", "2025-06-01T13:00:00Z"),
        ("1d", "2025-06-01T23:59:59Z", "2025-06-01T00:00:00Z"),
        ("@every 1m", "2025-06-01T12:00:59Z", "2025-06-01T12:00:00Z"),
    ] {
        assert_eq!(slot(text, now), tick, "{text} at {now}");
    }
}

#[test]
fn the_slot_is_right_over_a_change_of_clocks() {
    let nightly = schedule("30 2 * * *", "America/New_York");
    let gap_end = at("2025-03-09T07:00:00Z");
    assert_eq!(nightly.slot(at("2025-03-09T06:59:30Z")), Some(gap_end));
    assert_eq!(nightly.slot(at("2025-03-09T06:58:30Z")), Some(at("2025-03-08T07:30:00Z")));
    assert_eq!(nightly.slot(at("2025-03-09T07:30:00Z")), Some(gap_end));
}

#[test]
fn slots_never_go_back_and_are_never_left_out() {
    let mut random = Random(7);
    for text in ["* * * * *", "*/7 * * * *", "0 * * * *", "*/13 * * * * *", "90s", "0,1,4 * * * *"] {
        let schedule = schedule(text, "UTC");
        let mut now = random.instant();
        let mut last = schedule.slot(now).unwrap();
        for _ in 0..2000 {
            now += SignedDuration::from_millis(random.between(1, 3000).cast_signed());
            let slot = schedule.slot(now).unwrap();
            assert!(slot == last || Some(slot) == schedule.next_after(last), "{text} at {now}: {last}, then {slot}");
            assert!(slot <= now + SignedDuration::from_secs(60));
            last = slot;
        }
    }
}

#[test]
fn at_the_ends_of_the_calendar_there_is_a_slot_or_none_and_no_panic() {
    for text in ["0 0 29 2 *", "* * * * * *", "3650d"] {
        let schedule = schedule(text, "Asia/Tokyo");
        for now in [Timestamp::MIN, Timestamp::MAX] {
            assert!(schedule.slot(now).is_none_or(|slot| slot <= now + SignedDuration::ZERO));
        }
    }
}
