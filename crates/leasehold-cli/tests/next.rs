//! `leasehold next`: when a schedule is due, and what is odd about it.

mod common;

use common::Bench;

fn next(words: &[&str]) -> common::Ran {
    Bench::new().run(std::iter::once(&"next").chain(words))
}

/// The ticks as a script reads them: in UTC, in local time, and what is odd.
fn ticks(words: &[&str]) -> Vec<[String; 3]> {
    let words: Vec<_> = words.iter().chain(&["--json"]).copied().collect();
    let json = next(&words).json();
    let tick = |tick: &serde_json::Value| {
        ["utc", "local", "note"].map(|field| tick[field].as_str().unwrap_or_default().to_owned())
    };
    json.as_array().expect("an array").iter().map(tick).collect()
}

#[test]
fn it_shows_what_comes_in_local_time_and_in_utc() {
    let words = ["0 9 * * MON-FRI", "--tz", "Europe/Berlin", "--from", "2026-12-04T08:00:00Z", "-n", "2"];
    let ran = next(&words);
    ran.says(&["LOCAL", "UTC", "2026-12-07T09:00:00+01:00", "2026-12-07T08:00:00Z", "2026-12-08T08:00:00Z"]);
    assert_eq!(ran.stdout.lines().count(), 3);
    assert_eq!(ticks(&words)[0], ["2026-12-07T08:00:00Z", "2026-12-07T09:00:00+01:00", ""].map(str::to_owned));
}

#[test]
fn it_goes_on_from_now_with_ten() {
    let ticks = ticks(&["* * * * *"]);
    assert_eq!(ticks.len(), 10);
    assert!(ticks.windows(2).all(|pair| pair[0][0] < pair[1][0]));
}

#[test]
fn days_on_which_clocks_change_are_marked() {
    let new_york = |expression, from| ticks(&[expression, "--tz", "America/New_York", "--from", from, "-n", "3"]);
    let spring = new_york("30 2 * * *", "2027-03-13T00:00:00Z");
    assert_eq!(spring[1][..2], ["2027-03-14T07:00:00Z", "2027-03-14T03:00:00-04:00"]);
    assert_eq!(spring[1][2], "clocks go from 01:59:59 to 03:00 now");
    assert_eq!(spring[2][2], "", "it is as usual again");
    let autumn = new_york("30 1 * * *", "2027-11-07T00:00:00Z");
    assert_eq!(autumn[0][2], "clocks show this time twice; it is the first");
    assert_eq!(autumn[1][2], "clocks have gone back by 1h");
    let both = new_york("30 * * * *", "2027-11-07T05:00:00Z");
    assert!(both[0][2].ends_with("the first") && both[1][2].ends_with("the second"), "{both:?}");
}

#[test]
fn what_may_surprise_is_told_apart() {
    let ran = next(&["0 9 1 * MON", "-n", "1"]);
    assert!(ran.code == 0 && ran.stderr.contains("either"), "{ran:?}");
    assert!(next(&["0 9 1 * MON", "-n", "1", "--json"]).stderr.is_empty());
}

#[test]
fn a_job_has_its_own_minute_and_a_period_is_shown_in_any_zone() {
    let minute = |job| ticks(&["H 3 * * *", "--job", job, "-n", "1"])[0][0].clone();
    assert_eq!(minute("nightly-backup")[11..], *"03:45:00Z");
    assert_ne!(minute("nightly-backup")[11..], minute("billing")[11..]);
    let period = ticks(&["90m", "--tz", "Asia/Kolkata", "--from", "2026-01-01T00:00:00Z", "-n", "1"]);
    assert_eq!(period[0][..2], ["2026-01-01T01:30:00Z", "2026-01-01T07:00:00+05:30"]);
}

#[test]
fn what_is_wrong_is_named() {
    next(&["0 9 * *"]).fails(64, &["0 9 * *"]);
    next(&["0 0 31 2 *"]).fails(64, &["no date has day 31 in month 2"]);
    next(&["H 3 * * *"]).fails(64, &["H", "write a number, or the job's name with --job"]);
    next(&["0 9 * * *", "--from", "9999-12-31"]).fails(64, &["9999-12-31", "2027-03-13T00:00:00Z"]);
    next(&["0 9 * * *", "--from", "9999-12-31T00:00:00Z"]).fails(64, &["9999-12-31T00:00:00Z", "9999-12-30T22:00:00Z"]);
    next(&["0 9 * * *", "--tz", "Europe/Atlantis"]).fails(64, &["Europe/Atlantis"]);
    next(&["0 9 * * *", "--from", "yesterday"]).fails(64, &["yesterday", "2027-03-13T00:00:00Z"]);
    next(&["0 9 * * *", "-n", "0"]).fails(64, &["1 to 10000"]);
    next(&["0 9 * * *", "--from", "9999-12-30T22:00:00Z", "-n", "3"]).fails(64, &["not due any more"]);
}
