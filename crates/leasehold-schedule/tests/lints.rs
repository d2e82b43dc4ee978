//! What surprises, and what doesn't.

mod common;

use common::schedule;
use leasehold_schedule::LintRule::{
    BothDays, EitherDay, EveryOne, LostInGap, OpenStep, ShiftedByGap, StepBeyondRange, UnevenStep, UnusedZone,
};
use leasehold_schedule::{LintRule, Schedule};

fn rules(text: &str, zone: &str) -> Vec<LintRule> {
    schedule(text, zone).lints().iter().map(|lint| lint.rule).collect()
}

fn message(text: &str, zone: &str) -> String {
    let lints = schedule(text, zone).lints();
    assert_eq!(lints.len(), 1, "{lints:?}");
    lints[0].to_string()
}

#[test]
fn common_schedules_surprise_nobody() {
    for text in [
        "0 4 * * *",
        "*/5 * * * *",
        "0 * * * *",
        "0 9 * * MON-FRI",
        "@daily",
        "@weekly",
        "15 10 1 * *",
        "0 0 L * *",
        "0 9-17/2 * * *",
        "*/30 * * * * *",
        "0 */6 * * *",
        "15m",
        "0 0 1 */3 *",
        "0 18 * * 5L",
        "* * * * *",
    ] {
        assert_eq!(rules(text, "UTC"), [], "{text}");
    }
}

#[test]
fn a_time_in_a_real_gap_is_told_with_the_day_on_which_it_happens() {
    assert_eq!(
        message("30 2 * * *", "America/New_York"),
        "02:30 does not exist on 2027-03-14 in America/New_York (clocks there go from 02:00 to 03:00): the run comes at \
         03:00 then; choose another time if that matters"
    );
    assert_eq!(rules("@daily", "Africa/Cairo"), [ShiftedByGap]);
    assert_eq!(rules("30 23 * * *", "America/Scoresbysund"), [ShiftedByGap]);
    for (text, zone) in [
        ("30 2 * * *", "UTC"),
        ("30 2 * * *", "Asia/Tokyo"),
        ("30 3 * * *", "America/New_York"),
        ("30 1 * * *", "America/New_York"),
        // Daylight saving was given up there in 2019, and never comes on the first of a month in New York.
        ("0 0 * * *", "America/Sao_Paulo"),
        ("30 2 1 * *", "America/New_York"),
        ("30 2 * 7 *", "America/New_York"),
        ("30 * * * *", "America/New_York"),
        ("30 0-23 * * *", "America/New_York"),
    ] {
        assert_eq!(rules(text, zone), [], "{text} in {zone}");
    }
}

#[test]
fn a_cadence_at_some_hours_loses_those_in_a_gap() {
    assert_eq!(
        message("*/20 2 * * *", "America/New_York"),
        "02:00 does not exist on 2027-03-14 in America/New_York (clocks there go from 02:00 to 03:00): the run is left \
         out then; without a * at the start of the minute and the hour it would be made up for"
    );
    assert_eq!(rules("0 */2 * * *", "Europe/Berlin"), [LostInGap]);
    assert_eq!(rules("0 */2 * * *", "Europe/London"), []);
    assert_eq!(rules("*/20 2 * * *", "UTC"), []);
}

#[test]
fn both_sorts_of_days_say_how_they_go_together() {
    assert_eq!(
        message("30 4 1,15 * 5", "UTC"),
        "day of the month 1,15 and day of the week 5 are both given: a day that matches either will do; write * for the \
         one that is not meant"
    );
    assert_eq!(rules("0 9 L * MON-FRI", "UTC"), [EitherDay]);
    assert_eq!(rules("0 9 1-7 * */7", "UTC"), [BothDays, StepBeyondRange]);
    let both = &schedule("0 9 */5 * 1", "UTC").lints()[0];
    assert!(both.to_string().ends_with("a day must match both; let neither start with * if one is enough"), "{both}");
}

#[test]
fn steps_that_do_not_come_out_even_are_told() {
    assert_eq!(
        message("*/7 * * * *", "UTC"),
        "minute */7 does not come out even: after 56 it starts again with 0; @every 7m has equal distances"
    );
    assert!(message("0 */5 * * *", "UTC").contains("after 20 it starts again with 0; @every 5h"));
    assert!(message("0 0 */2 * *", "UTC").contains("after 31 it starts again with 1; list what is meant"));
    assert_eq!(rules("0 0 * */5 *", "UTC"), [UnevenStep]);
    assert_eq!(rules("0 0 * * */2", "UTC"), [UnevenStep]);
    assert_eq!(rules("0-59/7 * * * *", "UTC"), [UnevenStep]);
    assert_eq!(rules("10-50/7 * * * *", "UTC"), [], "a range has its own ends");
    assert_eq!(rules("*/90 * * * *", "UTC"), [StepBeyondRange]);
    assert_eq!(rules("10-20/15 * * * *", "UTC"), [StepBeyondRange]);
    assert_eq!(
        message("5/15 * * * *", "UTC"),
        "minute 5/15 is read as 5-59/15; write that to be understood elsewhere too"
    );
    assert_eq!(rules("0 0/4 * * *", "UTC"), [OpenStep]);
}

#[test]
fn every_minute_of_an_hour_and_every_second_of_a_minute_are_told() {
    assert_eq!(message("* 4 * * *", "UTC"), "minute * with hour 4 means every minute of it; write 0 for once");
    assert_eq!(rules("0-59 4 * * *", "UTC"), [EveryOne]);
    assert_eq!(message("* 0 4 * * *", "UTC"), "second * with minute 0 means every second of it; write 0 for once");
    assert_eq!(rules("* * 1 * *", "UTC"), []);
    assert_eq!(rules("* * * * * *", "UTC"), []);
}

#[test]
fn a_zone_that_changes_nothing_is_told() {
    assert_eq!(rules("1d", "Europe/Berlin"), [UnusedZone]);
    assert_eq!(rules("1d", "UTC"), []);
    assert_eq!(Schedule::parse("1d", None).unwrap().lints(), []);
}
