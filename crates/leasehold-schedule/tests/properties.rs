//! What holds for every schedule, tried on random ones.

mod common;

use common::{DAY, HOUR, Minutes, Random, Slow, at, expression, schedule, ticks, zones};
use jiff::civil::{Date, Weekday, date};
use jiff::{SignedDuration, Timestamp};
use leasehold_schedule::Schedule;

const NANOSECOND: SignedDuration = SignedDuration::from_nanos(1);

/// Random expressions in random zones; of some no date exists.
fn some_schedules(seed: u64, count: usize) -> impl Iterator<Item = (Schedule, Random)> {
    let zones = zones();
    let mut random = Random(seed);
    let any = move || loop {
        let text = expression(&mut random);
        let zone = random.one_of(&zones).iana_name().unwrap();
        if let Ok(schedule) = Schedule::parse(&text, Some(zone)) {
            return (schedule, Random(random.number()));
        }
    };
    std::iter::repeat_with(any).take(count)
}

#[test]
fn ticks_increase_and_come_after_what_was_asked() {
    for (schedule, mut random) in some_schedules(11, 400) {
        let mut last = random.instant();
        for tick in schedule.ticks_after(last).take(40) {
            assert!(tick > last, "{schedule}: {tick} after {last}");
            assert_eq!(tick.subsec_nanosecond(), 0);
            last = tick;
        }
    }
}

#[test]
fn ticks_are_the_same_from_wherever_they_are_asked() {
    for (schedule, mut random) in some_schedules(12, 300) {
        let ticks: Vec<_> = schedule.ticks_after(random.instant()).take(20).collect();
        for pair in ticks.windows(2) {
            let apart = u64::try_from(pair[1].duration_since(pair[0]).as_secs()).unwrap();
            let between = pair[0] + SignedDuration::from_secs(random.below(apart).cast_signed());
            for from in [pair[0], between, pair[1] - NANOSECOND] {
                assert_eq!(schedule.next_after(from), Some(pair[1]), "{schedule} from {from}");
                assert_eq!(schedule.latest_at(from), Some(pair[0]), "{schedule} at {from}");
            }
            assert_eq!(schedule.latest_at(pair[1]), Some(pair[1]), "{schedule}");
        }
    }
}

#[test]
fn ticks_are_those_that_a_search_by_the_minute_finds() {
    let zones = zones();
    let mut random = Random(13);
    let mut compared = 0;
    for _ in 0..300 {
        let text = expression(&mut random);
        let zone = random.one_of(&zones);
        let Ok(schedule) = Schedule::parse(&text, zone.iana_name()) else { continue };
        // Half of them around a change of clocks, where the zone has any.
        let mut middle = random.minute();
        if random.below(2) == 0 {
            middle = zone.following(middle).next().map_or(middle, |change| change.timestamp());
        }
        let (from, until) = (middle - 12 * HOUR, middle + 12 * HOUR);
        let expected = Slow::new(&text).ticks(&Minutes::between(zone, from, until));
        assert_eq!(ticks(&schedule, from, until), expected, "{schedule} from {from}");
        compared += expected.len();
    }
    assert!(compared > 1000, "{compared}");
}

/// The days from 2000 up to 2104 on which something comes at midnight in UTC, by looking at each day.
fn days_where(is_due: impl Fn(Date) -> bool) -> Vec<Date> {
    let days = date(2000, 1, 1).series(jiff::Span::new().days(1));
    days.take_while(|day| *day < date(2105, 1, 1)).filter(|day| is_due(*day)).collect()
}

fn is_working(day: Date) -> bool {
    !matches!(day.weekday(), Weekday::Saturday | Weekday::Sunday)
}

/// The working day nearest to a date, in its month.
fn nearest(day: Date) -> Date {
    let shifts = [0, -1, 1, -2, 2].map(|shift| day + SignedDuration::from_hours(24 * shift));
    shifts.into_iter().find(|near| is_working(*near) && near.month() == day.month()).unwrap()
}

#[test]
fn special_days_are_those_of_the_calendar() {
    let before_end = |day: Date| day.last_of_month().day() - day.day();
    let nth = |day: Date, week, weekday| day.nth_weekday_of_month(week, weekday).ok() == Some(day);
    let of_month = |day: Date, number| date(day.year(), day.month(), 1).with().day(number).build().ok();
    let expected: [(&str, Vec<Date>); 16] = [
        ("0 0 L * *", days_where(|day| before_end(day) == 0)),
        ("0 0 L-7 2,3 *", days_where(|day| before_end(day) == 7 && matches!(day.month(), 2 | 3))),
        ("0 0 LW * *", days_where(|day| day == nearest(day.last_of_month()))),
        ("0 0 15W * *", days_where(|day| of_month(day, 15).map(nearest) == Some(day))),
        ("0 0 1W * *", days_where(|day| of_month(day, 1).map(nearest) == Some(day))),
        ("0 0 28W * *", days_where(|day| of_month(day, 28).map(nearest) == Some(day))),
        ("0 0 30W * *", days_where(|day| of_month(day, 30).map(nearest) == Some(day))),
        ("0 0 31W * *", days_where(|day| of_month(day, 31).map(nearest) == Some(day))),
        ("0 0 * * 1#1", days_where(|day| nth(day, 1, Weekday::Monday))),
        ("0 0 * * SUN#5", days_where(|day| nth(day, 5, Weekday::Sunday))),
        ("0 0 * * 7L", days_where(|day| nth(day, -1, Weekday::Sunday))),
        ("0 0 29 2 *", days_where(|day| (day.month(), day.day()) == (2, 29))),
        ("0 0 29 2 */7", days_where(|day| (day.month(), day.day()) == (2, 29) && day.weekday() == Weekday::Sunday)),
        ("0 0 13 * 5", days_where(|day| day.day() == 13 || day.weekday() == Weekday::Friday)),
        ("0 0 */13 * 5", days_where(|day| day.day() % 13 == 1 && day.weekday() == Weekday::Friday)),
        ("0 0 L * 1#2", days_where(|day| before_end(day) == 0 || nth(day, 2, Weekday::Monday))),
    ];
    for (text, days) in expected {
        let (from, until) = (at("1999-12-31T23:59:59Z"), at("2104-12-31T23:59:59Z"));
        let found = ticks(&schedule(text, "UTC"), from, until);
        let found: Vec<Date> = found.iter().map(|tick| tick.in_tz("UTC").unwrap().date()).collect();
        assert_eq!(found, days, "{text}");
    }
}

#[test]
fn a_leap_day_is_waited_for_past_2100_and_a_rare_one_for_longer() {
    let leap = schedule("0 0 29 2 *", "Europe/Berlin");
    assert_eq!(leap.next_after(at("2096-03-01T00:00:00Z")), Some(at("2104-02-28T23:00:00Z")));
    assert_eq!(leap.latest_at(at("2104-02-01T00:00:00Z")), Some(at("2096-02-28T23:00:00Z")));
    // A leap day on a Sunday: 28 years apart, but for 40 over 2100.
    let sunday = schedule("0 0 29 2 */7", "UTC");
    assert_eq!(sunday.next_after(at("2088-03-01T00:00:00Z")), Some(at("2128-02-29T00:00:00Z")));
}

#[test]
fn periods_are_multiples_on_both_sides_of_1970() {
    let mut random = Random(14);
    for _ in 0..500 {
        let seconds = random.between(1, 100_000).cast_signed();
        let schedule = Schedule::parse(&format!("{seconds}s"), None).unwrap();
        let instant = Timestamp::from_second(random.between(0, 200_000).cast_signed() - 100_000).unwrap();
        let (latest, next) = (schedule.latest_at(instant).unwrap(), schedule.next_after(instant).unwrap());
        assert_eq!((latest.as_second() % seconds, next.as_second() - latest.as_second()), (0, seconds));
        assert!(latest <= instant && instant < next, "{schedule} at {instant}");
    }
}

#[test]
fn the_ends_of_the_calendar_are_no_danger() {
    let texts =
        ["* * * * * *", "0 0 * * *", "59 23 31 12 *", "0 0 1 1 *", "0 0 29 2 */7", "*/20 2 * * 0#2", "1s", "3650d"];
    for zone in ["UTC", "Asia/Tokyo", "Pacific/Apia", "America/New_York", "Pacific/Kiritimati", "Europe/Dublin"] {
        for schedule in texts.map(|text| schedule(text, zone)) {
            for hours in [0, 1, 12, 25, 48, 24 * 366 * 3] {
                let apart = SignedDuration::from_hours(hours);
                let (early, late) = (Timestamp::MIN + apart, Timestamp::MAX - apart);
                for instant in [early, late] {
                    assert!(schedule.next_after(instant).is_none_or(|next| next > instant), "{schedule} at {instant}");
                    assert!(schedule.latest_at(instant).is_none_or(|last| last <= instant), "{schedule} at {instant}");
                }
            }
            assert_eq!(schedule.next_after(Timestamp::MAX), None);
            let left: Vec<_> = schedule.ticks_after(Timestamp::MAX - HOUR).take(100_000).collect();
            assert!(left.len() <= 3600, "{schedule}");
        }
    }
}

/// Each change of a zone's clocks since there were zones: forwards, backwards and in between they agree.
fn check_history(zone: &str) {
    for text in ["0 0 * * *", "*/30 * * * *", "30 23 * * *", "0 */6 * * *"] {
        let schedule = schedule(text, zone);
        for change in jiff::tz::db().get(zone).unwrap().following(at("1800-01-01T00:00:00Z")).take(250) {
            let mut last = change.timestamp() - DAY;
            for tick in schedule.ticks_after(last).take_while(|tick| *tick < change.timestamp() + DAY) {
                assert!(tick > last, "{schedule}: {tick} after {last}");
                assert_eq!(schedule.latest_at(tick), Some(tick), "{schedule} at {tick}");
                assert_eq!(schedule.next_after(tick - NANOSECOND), Some(tick), "{schedule} at {tick}");
                assert_eq!(
                    schedule.latest_at(tick - NANOSECOND),
                    schedule.latest_at(last.max(change.timestamp() - DAY))
                );
                last = tick;
            }
        }
    }
}

#[test]
fn clocks_that_were_set_oddly_long_ago_break_nothing() {
    // Before standard time, offsets had seconds; Manila and Alaska left out or repeated a whole date.
    let odd = [
        "Asia/Manila",
        "America/Juneau",
        "Europe/Amsterdam",
        "Africa/Monrovia",
        "Pacific/Kwajalein",
        "America/Toronto",
    ];
    for zone in odd {
        check_history(zone);
    }
}

#[test]
#[ignore = "takes minutes: scripts/check-zones"]
fn no_change_of_clocks_in_any_zone_breaks_anything() {
    for zone in zones() {
        check_history(zone.iana_name().unwrap());
    }
}
