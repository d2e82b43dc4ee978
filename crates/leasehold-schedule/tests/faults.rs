//! Faults of other schedulers; the tests are named after them.

mod common;

use common::{DAY, HOUR, MINUTE, at, schedule, texts, ticks, zones};
use jiff::{SignedDuration, Timestamp};
use leasehold_schedule::Schedule;

const SECOND: SignedDuration = SignedDuration::from_secs(1);

#[test]
fn q02_nodes_that_start_at_different_times_have_the_same_ticks() {
    let every_30s = || Schedule::parse("@every 30s", None).unwrap();
    let until = at("2025-06-01T12:10:00Z");
    let node = |started: Timestamp| ticks(&every_30s(), started, until);
    let nodes = [0, 7, 14].map(|late| node(at("2025-06-01T12:00:01Z") + SignedDuration::from_secs(late)));
    assert_eq!(nodes[0].len(), 20, "one run in each period");
    assert_eq!(nodes[0], nodes[1]);
    assert_eq!(nodes[0], nodes[2]);
    assert!(nodes[0].iter().all(|tick| tick.as_second() % 30 == 0));
}

#[test]
fn q02_a_period_that_does_not_divide_a_day_is_aligned_too() {
    let every_7h = Schedule::parse("7h", None).unwrap();
    for tick in every_7h.ticks_after(at("2025-06-01T00:00:00Z")).take(100) {
        assert_eq!(tick.as_second() % (7 * 3600), 0);
    }
}

#[test]
fn q06_after_an_outage_one_tick_is_due_and_the_next_one_is_in_the_future() {
    let (went, came) = (at("2025-06-01T09:00:30Z"), at("2025-06-01T12:00:30Z"));
    for text in ["* * * * *", "@every 1m"] {
        let schedule = Schedule::parse(text, None).unwrap();
        assert_eq!(ticks(&schedule, went, came).len(), 180, "so many were missed");
        assert_eq!(schedule.latest_at(came), Some(at("2025-06-01T12:00:00Z")));
        assert_eq!(schedule.next_after(came), Some(at("2025-06-01T12:01:00Z")));
    }
}

#[test]
fn q06_an_outage_of_centuries_is_no_harder_than_one_of_hours() {
    let minutely = schedule("* * * * *", "Europe/Berlin");
    assert_eq!(minutely.latest_at(at("2825-06-01T12:00:30Z")), Some(at("2825-06-01T12:00:00Z")));
}

#[test]
fn q08_a_daily_job_comes_once_when_clocks_go_back() {
    let daily = schedule("30 1 * * *", "America/New_York");
    let found = ticks(&daily, at("2025-11-01T12:00:00Z"), at("2025-11-03T12:00:00Z"));
    assert_eq!(texts(&found), ["2025-11-02T05:30:00Z", "2025-11-03T06:30:00Z"]);
    // Asked while 01:30 is shown for the second time, it is neither the past nor a second run.
    for inside in ["2025-11-02T06:00:00Z", "2025-11-02T06:29:59.5Z", "2025-11-02T06:30:00Z"].map(at) {
        assert_eq!(daily.next_after(inside), Some(at("2025-11-03T06:30:00Z")));
        assert_eq!(daily.latest_at(inside), Some(at("2025-11-02T05:30:00Z")));
    }
}

#[test]
fn q08_a_daily_job_comes_once_when_clocks_go_forward() {
    let daily = schedule("30 2 * * *", "America/New_York");
    let found = ticks(&daily, at("2025-03-08T12:00:00Z"), at("2025-03-10T12:00:00Z"));
    assert_eq!(texts(&found), ["2025-03-09T07:00:00Z", "2025-03-10T06:30:00Z"]);
}

#[test]
fn q08_jobs_keep_their_order_when_clocks_go_forward() {
    let first = schedule("30 2 * * *", "America/New_York");
    let second = schedule("15 3 * * *", "America/New_York");
    let midnight = at("2025-03-09T05:00:00Z");
    assert!(first.next_after(midnight) < second.next_after(midnight));
}

#[test]
fn q08_several_times_in_one_gap_are_one_tick() {
    let often = schedule("0,15,30 2 * * *", "America/New_York");
    let found = ticks(&often, at("2025-03-09T05:00:00Z"), at("2025-03-10T06:00:00Z"));
    assert_eq!(texts(&found), ["2025-03-09T07:00:00Z", "2025-03-10T06:00:00Z"]);
    let seconds = schedule("*/10 30 2 * * *", "America/New_York");
    let found = ticks(&seconds, at("2025-03-09T05:00:00Z"), at("2025-03-10T06:30:10Z"));
    assert_eq!(texts(&found), ["2025-03-09T07:00:00Z", "2025-03-10T06:30:00Z", "2025-03-10T06:30:10Z"]);
}

#[test]
fn q08_a_midnight_that_does_not_exist_is_made_up_for_on_its_day() {
    for (zone, day, midnight) in [
        ("America/Sao_Paulo", "2018-11-03T12:00:00Z", "2018-11-04T03:00:00Z"),
        ("Africa/Cairo", "2024-04-25T12:00:00Z", "2024-04-25T22:00:00Z"),
        ("Asia/Beirut", "2024-03-30T12:00:00Z", "2024-03-30T22:00:00Z"),
        ("America/Havana", "2025-03-08T12:00:00Z", "2025-03-09T05:00:00Z"),
    ] {
        assert_eq!(schedule("@daily", zone).next_after(at(day)), Some(at(midnight)), "{zone}");
    }
}

#[test]
fn q08_what_was_due_in_a_gap_at_the_end_of_a_day_comes_at_midnight() {
    // Scoresbysund, Saturday 29 March 2025: 22:59 is followed by Sunday, 00:00.
    let late = schedule("30 23 * * 6", "America/Scoresbysund");
    let found = ticks(&late, at("2025-03-24T00:00:00Z"), at("2025-04-07T00:00:00Z"));
    assert_eq!(texts(&found), ["2025-03-30T01:00:00Z", "2025-04-06T00:30:00Z"]);
}

#[test]
fn q10_there_is_always_a_next_tick_around_every_change_of_clocks() {
    let (from, until) = (at("2020-01-01T00:00:00Z"), at("2038-01-01T00:00:00Z"));
    let mut changes = 0;
    for zone in zones() {
        let name = zone.iana_name().unwrap();
        let schedules = ["*/15 * * * *", "30 2 * * *", "0 0 * * *", "59 59 23 * * *"].map(|text| schedule(text, name));
        let all = zone.following(from).map(|change| change.timestamp());
        for change in all.take_while(|&change| change < until) {
            changes += 1;
            for (schedule, before) in schedules.iter().zip([SECOND, HOUR, SignedDuration::ZERO, MINUTE]) {
                let instant = change - before;
                let next = schedule.next_after(instant).unwrap_or_else(|| panic!("{schedule} after {instant}"));
                assert!(next > instant && next <= instant + 25 * HOUR, "{schedule}: {next} after {instant}");
                assert_eq!(schedule.latest_at(next), Some(next), "{schedule} at {next}");
            }
        }
    }
    assert!(changes > 5000, "{changes}");
}

#[test]
fn q10_half_an_hour_of_daylight_saving_is_right_both_ways() {
    let hourly = schedule("0 * * * *", "Australia/Lord_Howe");
    let back = ticks(&hourly, at("2025-04-05T12:30:00Z"), at("2025-04-05T17:00:00Z"));
    // 01:00, then 01:30 to 02:00 twice, then 02:00.
    assert_eq!(
        texts(&back),
        ["2025-04-05T13:00:00Z", "2025-04-05T14:00:00Z", "2025-04-05T15:30:00Z", "2025-04-05T16:30:00Z"]
    );
    let forward = ticks(&hourly, at("2025-10-04T14:00:00Z"), at("2025-10-04T17:00:00Z"));
    assert_eq!(texts(&forward), ["2025-10-04T14:30:00Z", "2025-10-04T16:00:00Z", "2025-10-04T17:00:00Z"]);
}

#[test]
fn q10_a_date_that_a_zone_left_out_has_no_ticks_and_stops_nothing() {
    // Samoa went from the 29th to the 31st of December 2011.
    let from = at("2011-12-29T00:00:00Z");
    let on_the_30th = schedule("0 0 30 12 *", "Pacific/Apia");
    assert_eq!(on_the_30th.next_after(from), Some(at("2012-12-29T10:00:00Z")));
    assert_eq!(on_the_30th.latest_at(at("2012-06-01T00:00:00Z")), Some(at("2010-12-30T10:00:00Z")));
    let fridays = schedule("0 0 * * 5", "Pacific/Apia");
    assert_eq!(fridays.latest_at(at("2012-01-01T00:00:00Z")), Some(at("2011-12-23T10:00:00Z")));
    let daily = schedule("30 23 * * *", "Pacific/Apia");
    let found = ticks(&daily, from, at("2012-01-01T00:00:00Z"));
    let days = ["2011-12-29T09:30:00Z", "2011-12-30T09:30:00Z", "2011-12-31T09:30:00Z"];
    assert_eq!(texts(&found), days, "the 28th, 29th and 31st, and none at the change itself");
}

#[test]
fn q11_a_daily_job_is_at_the_same_local_time_on_both_sides_of_a_change() {
    for (zone, change) in [("Europe/Berlin", "2025-03-30T01:00:00Z"), ("America/New_York", "2025-11-02T06:00:00Z")] {
        let daily = schedule("0 18 * * *", zone);
        let started = at(change) - DAY;
        for tick in daily.ticks_after(started).take(3) {
            assert_eq!(tick.in_tz(zone).unwrap().hour(), 18, "{tick}");
        }
    }
}
