//! What may be written, what it is normalized to, and what is said of the rest.

mod common;

use common::{Random, at};
use leasehold_schedule::{Schedule, ScheduleError};

fn normal(text: &str) -> String {
    Schedule::parse(text, None).unwrap_or_else(|error| panic!("{error}")).expression()
}

fn refused(text: &str) -> String {
    match Schedule::parse(text, None) {
        Ok(schedule) => panic!("{text:?} is read as {schedule}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn expressions_have_a_normal_form() {
    for (text, expected) in [
        ("* * * * *", "* * * * *"),
        ("  05   4\t* * *  ", "5 4 * * *"),
        ("*/1 * * * *", "* * * * *"),
        ("0-59 */2 1,15 JAN-mar,Dec sun", "0-59 */2 1,15 1-3,12 0"),
        ("10-50/20 8-18/5 * * MON-FRI", "10-50/20 8-18/5 * * 1-5"),
        ("5/15 * * * *", "5/15 * * * *"),
        ("0 0 L,LW,l-3,15w * *", "0 0 L,LW,L-3,15W * *"),
        ("0 0 * * 7,5-7,FRI-SUN,sun-tue", "0 0 * * 0,5-7,5-7,0-2"),
        ("0 0 * * mon#1,7#5,FRIL,0L", "0 0 * * 1#1,0#5,5L,0L"),
        ("*/20 30 4 * * *", "*/20 30 4 * * *"),
        ("0 0 * * 7/2", "0 0 * * 0/2"),
        ("@yearly", "0 0 1 1 *"),
        ("@Annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@MIDNIGHT", "0 0 * * *"),
        (" @hourly ", "0 * * * *"),
        ("15m", "@every 15m"),
        ("90s", "@every 1m30s"),
        ("@every 1h30m", "@every 1h30m"),
        ("@EVERY  2000ms", "@every 2s"),
        ("1d", "@every 1d"),
        ("24h60m", "@every 1d1h"),
        ("3650d", "@every 3650d"),
    ] {
        assert_eq!(normal(text), expected, "{text}");
    }
}

#[test]
fn a_schedule_is_shown_with_its_zone_and_read_again() {
    for (text, zone, shown) in [
        ("@daily", None, "CRON_TZ=UTC 0 0 * * *"),
        ("30 2 * * *", Some("europe/berlin"), "CRON_TZ=Europe/Berlin 30 2 * * *"),
        ("CRON_TZ=Asia/Tokyo 30 2 * * *", None, "CRON_TZ=Asia/Tokyo 30 2 * * *"),
        (" TZ=Asia/Tokyo\t@hourly", None, "CRON_TZ=Asia/Tokyo 0 * * * *"),
        ("15m", Some("Asia/Tokyo"), "@every 15m"),
    ] {
        let schedule = Schedule::parse(text, zone).unwrap();
        assert_eq!(schedule.to_string(), shown);
        assert_eq!(Schedule::parse(shown, None), Ok(schedule));
    }
}

#[test]
fn schedules_are_equal_if_they_mean_the_same_text_in_the_same_zone() {
    let parse = |text: &str, zone| Schedule::parse(text, Some(zone)).unwrap();
    assert_eq!(parse("@daily", "UTC"), parse("00 00 * * *", "utc"));
    assert_ne!(parse("@daily", "UTC"), parse("@daily", "Europe/Berlin"));
    assert_eq!(parse("60m", "UTC"), parse("@every 1h", "Europe/Berlin"));
    assert_ne!(parse("60m", "UTC"), parse("@hourly", "UTC"));
}

#[test]
fn what_is_refused_is_named_with_the_rule_and_the_fix() {
    for (text, hint) in [
        ("", "the schedule is empty; give one such as"),
        (" \t ", "the schedule is empty"),
        ("60 * * * *", "minute \"60\" is out of bounds; write 0-59"),
        ("0 24 * * *", "hour \"24\" is out of bounds; write 0-23"),
        ("0 0 0 * *", "day of the month \"0\" is out of bounds; write 1-31"),
        ("0 0 32 * *", "day of the month \"32\" is out of bounds"),
        ("0 0 * 13 *", "month \"13\" is out of bounds; write 1-12 or JAN-DEC"),
        ("0 0 * * 8", "day of the week \"8\" is out of bounds; write 0-7 (0 and 7 are Sunday)"),
        ("60 0 0 * * *", "second \"60\" is out of bounds"),
        ("99999999999999999999 * * * *", "is out of bounds"),
        ("x * * * *", "minute \"x\" is not understood; write 0-59 as a number, a list, a range or *"),
        ("-1 * * * *", "is not understood"),
        ("+1 * * * *", "is not understood"),
        ("1.5 * * * *", "is not understood"),
        ("٣ * * * *", "is not understood"),
        ("** * * * *", "is not understood"),
        ("*-5 * * * *", "is not understood"),
        ("1-2-3 * * * *", "is not understood"),
        ("0 0 * FOO *", "month \"FOO\" is not understood"),
        ("0 0 * * JAN", "day of the week \"JAN\" is not understood"),
        ("1,,2 * * * *", "minute \"\" is empty; take the comma too many out"),
        (", * * * *", "is empty"),
        ("*/0 * * * *", "minute \"*/0\" has a step of 0; give at least 1"),
        ("*/ * * * *", "has a step that is no number up to 9999"),
        ("*/x * * * *", "has a step that is no number up to 9999"),
        ("*/99999 * * * *", "has a step that is no number up to 9999"),
        ("*/2/3 * * * *", "has a step that is no number up to 9999"),
        ("0 22-2 * * *", "hour \"22-2\" goes backwards; write 22-23,0-2 to go past the end"),
        ("0 0 * * FRI-MON", "day of the week \"FRI-MON\" goes backwards; write 5-6,0-1 to go past the end"),
        ("0 0 ? * MON", "day of the month \"?\" is Quartz's sign for any day; write * for it"),
        ("0 0 1 * ?", "day of the week \"?\" is Quartz's sign for any day"),
        ("0 0 * * L", "write 6 for Saturday, or 5L for the last Friday of a month"),
        ("0 0 * * 1#6", "names no week of a month; write #1 to #5"),
        ("0 0 * * 1#0", "names no week of a month"),
        ("0 0 * * 5#L", "or 5L for the last Friday"),
        ("0 0 32W * *", "is not one day's nearest working day; write 1W to 31W, or LW"),
        ("0 0 1-5W * *", "is not one day's nearest working day"),
        ("0 0 L-31 * *", "counts back from the last day; write L-1 to L-30"),
        ("0 0 L/2 * *", "is not understood"),
        ("L * * * *", "is not understood"),
        ("0 0 1#1 * *", "is not understood"),
        ("H * * * *", "spreads jobs by their names, and no name is known here; write a number"),
        ("0 0 31 2 *", "it never comes: no date has day 31 in month 2 (with day of the week *); change one of them"),
        ("0 0 30,31 2 *", "it never comes"),
        ("0 0 31 4,6,9,11 *", "it never comes"),
        ("0 0 31W 2 *", "it never comes"),
        ("0 0 L-30 4 *", "it never comes"),
        ("0 0 30 2 */2", "it never comes"),
        ("* * * *", "it has 4 fields; give 5 fields (minute, hour, day of the month, month, day of the week), or 6"),
        ("1h 30m", "it has 2 fields"),
        ("soon", "it is one word; give 5 fields"),
        ("0 2 * * * /usr/bin/backup", "day of the week \"/usr/bin/backup\" is not understood"),
        ("0 0 0 1 1 * 2026", "it has 7 fields, and years can't be given"),
        ("0 0 0 1 1 * 2026 x", "it has 8 fields"),
        ("@reboot", "@reboot means the start of one machine, and this is for many"),
        ("@fortnightly", "the macro \"@fortnightly\" is unknown; write @yearly"),
        ("@", "the macro \"@\" is unknown"),
        ("@daily 5", "nothing may follow \"@daily\"; take the rest out"),
        ("@every", "@every lacks its duration; write for example @every 15m"),
        ("@every 1h 30m", "@every takes one duration without spaces"),
        ("@every soon", "\"soon\" is no duration; write for example 90s, 15m, 1h30m or 1d"),
        ("@every -5s", "\"-5s\" is no duration"),
        ("30", "\"30\" has no unit at its end (ms, s, m, h and d are known); write 30s for seconds"),
        ("1h30", "has no unit at its end"),
        ("1.5h", "is no duration"),
        ("5w", "is no duration"),
        ("5M", "is no duration"),
        ("0s", "the period \"0s\" is too short; give at least 1s"),
        ("500ms", "is too short"),
        ("1500ms", "has a part of a second; give whole seconds"),
        ("3651d", "is too long; give at most 3650d"),
        ("9999999999999999999d", "is too long"),
        ("99999999999999999999d", "is no duration"),
        ("CRON_TZ=UTC", "there is nothing after the time zone"),
        ("CRON_TZ= * * * * *", "the time zone \"\" is unknown; give an IANA name"),
        ("TZ=Europe/Berln @daily", "the time zone \"Europe/Berln\" is unknown; did you mean Europe/Berlin?"),
        ("CRON_TZ=UTC TZ=UTC @daily", "the time zone is given twice"),
        ("0 0 * *\n*", "it has the control character '\\n'; take it out"),
        ("0 0 * * \u{1b}[2J", "it has the control character '\\u{1b}'"),
    ] {
        let error = refused(text);
        assert!(error.contains(hint), "{text:?}: {error}");
        assert_fit_to_show(&error);
        if text.len() < 60 && !text.trim().is_empty() {
            assert!(error.contains(&format!("{:?}", text.trim())), "it names the expression: {error}");
        }
    }
}

fn assert_fit_to_show(error: &str) {
    assert!(!error.chars().any(char::is_control), "{error:?}");
    assert!(error.len() < 700, "{} bytes: {error}", error.len());
}

#[test]
fn a_zone_is_given_once() {
    let twice = Schedule::parse("CRON_TZ=UTC @daily", Some("UTC")).unwrap_err().to_string();
    assert!(twice.contains("given twice, \"UTC\" in front and \"UTC\" besides; take one out"), "{twice}");
    let unknown = Schedule::parse("@every 5m", Some("Mars")).unwrap_err().to_string();
    assert!(unknown.contains("the time zone \"Mars\" is unknown"), "also where it changes nothing: {unknown}");
}

#[test]
fn times_that_a_zone_always_skips_are_refused_there_and_fine_elsewhere() {
    // The second Sunday of March is when clocks go forward in New York.
    let text = "*/20 2 * 3 0#2";
    let error = Schedule::parse(text, Some("America/New_York")).unwrap_err().to_string();
    assert!(
        error.contains("clocks in America/New_York go forward over each of its times; choose another hour"),
        "{error}"
    );
    assert!(Schedule::parse(text, Some("Europe/Berlin")).is_ok());
    let made_up_for = Schedule::parse("0,20 2 * 3 0#2", Some("America/New_York")).unwrap();
    assert_eq!(made_up_for.next_after(at("2025-01-01T00:00:00Z")), Some(at("2025-03-09T07:00:00Z")));
}

#[test]
fn a_long_text_is_refused_and_cut_when_it_is_shown() {
    let list = vec!["0"; 450].join(",");
    assert!(Schedule::parse(&format!("{list} * * * *"), None).is_ok());
    let error = refused(&format!("{list},{list} * * * *"));
    assert!(error.contains("at most 1000 are allowed, so shorten it") && error.len() < 200, "{error}");
}

#[test]
fn a_name_chooses_the_numbers_of_h() {
    let for_billing = |text: &str| Schedule::parse_for("billing", text, None).map(|schedule| schedule.expression());
    assert_eq!(for_billing("H H * * *"), Ok("55 1 * * *".into()));
    assert_eq!(for_billing("h 2 * * *"), Ok("55 2 * * *".into()));
    assert_eq!(for_billing("0 0 * * 1"), Ok("0 0 * * 1".into()), "without H it is as without a name");
    for (text, lowest, highest) in [("H", 0, 59), ("H(0-29)", 0, 29), ("H(58-59)", 58, 59), ("H(7-7)", 7, 7)] {
        let minute: u8 = for_billing(&format!("{text} * * * *")).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!((lowest..=highest).contains(&minute), "{text}: {minute}");
    }
    for malformed in ["H(", "H(1)", "H()", "H(1-2", "Hx", "H(0-29)x", "H-5", "HH"] {
        let error = for_billing(&format!("{malformed} * * * *")).unwrap_err().to_string();
        assert!(error.contains("is no use of H; write H, H/15, H(0-29) or H(0-29)/10"), "{error}");
    }
    assert!(for_billing("H(50-70) * * * *").unwrap_err().to_string().contains("out of bounds"));
    assert!(for_billing("H/0 * * * *").unwrap_err().to_string().contains("step of 0"));
}

#[test]
fn h_stays_in_its_field_and_in_every_month() {
    for job in 0..500 {
        let name = format!("job-{job}");
        let schedule = Schedule::parse_for(&name, "H H H H H H", None).unwrap();
        let numbers: Vec<u8> = schedule.expression().split(' ').map(|number| number.parse().unwrap()).collect();
        let bounds = [(0, 59), (0, 59), (0, 23), (1, 28), (1, 12), (0, 6)];
        assert!(numbers.iter().zip(bounds).all(|(number, (low, high))| (low..=high).contains(number)), "{schedule}");
        let stepped = Schedule::parse_for(&name, "H/15 * * * *", None).unwrap();
        let hour =
            stepped.ticks_after(at("2025-06-01T11:59:59Z")).take_while(|tick| *tick < at("2025-06-01T13:00:00Z"));
        assert_eq!(hour.count(), 4, "{stepped}");
    }
}

/// Whatever it is, it is read or refused in one short line; and what is read works and is read again.
fn survives(text: &str, zone: Option<&str>) -> bool {
    let schedule: Result<Schedule, ScheduleError> = Schedule::parse_for("job", text, zone);
    match schedule {
        Err(error) => {
            assert_fit_to_show(&error.to_string());
            false
        }
        Ok(schedule) => {
            let now = at("2025-03-09T06:59:59.5Z");
            let next = schedule.next_after(now).unwrap_or_else(|| panic!("{text:?} has no next tick"));
            assert!(next > now && schedule.latest_at(next) == Some(next), "{text:?}");
            assert!(schedule.slot(now).is_some_and(|slot| slot.duration_since(now).as_secs() <= 60), "{text:?}");
            for lint in schedule.lints() {
                assert_fit_to_show(&lint.to_string());
            }
            assert_eq!(Schedule::parse(&schedule.to_string(), None), Ok(schedule), "{text:?}");
            true
        }
    }
}

#[test]
fn no_text_makes_it_panic_or_hang() {
    const PARTS: [&str; 48] = [
        "*",
        "*",
        "*",
        "0",
        "1",
        "2",
        "5",
        "7",
        "12",
        "28",
        "29",
        "30",
        "31",
        "59",
        "60",
        "99999",
        ",",
        "-",
        "/",
        "/",
        "#",
        "L",
        "W",
        "LW",
        "H",
        "(",
        ")",
        "?",
        " ",
        " ",
        " ",
        " ",
        "\t",
        "@",
        "@every ",
        "@daily",
        "m",
        "h",
        "ms",
        "d",
        "JAN",
        "feb",
        "SUN",
        "fri",
        "CRON_TZ=",
        "America/New_York",
        "\u{1b}",
        "é\u{301}\u{202e}",
    ];
    let mut random = Random(21);
    let mut read = 0;
    for _ in 0..20_000 {
        let text: String = (0..random.between(1, 14)).map(|_| *random.one_of(&PARTS)).collect();
        read += u32::from(survives(&text, None));
    }
    assert!(read > 50, "{read} of them were read");
}

#[test]
fn no_combination_of_fields_makes_it_panic_or_hang() {
    const MINUTES: [&str; 10] = ["*", "0", "*/7", "59", "0-59", "H", "H/13", "5/20", "0,30", "*/59"];
    const HOURS: [&str; 9] = ["*", "2", "*/24", "0-23", "2,3", "H(1-3)", "23", "0/5", "*/7"];
    const DAYS: [&str; 14] =
        ["*", "1", "29", "30", "31", "L", "LW", "L-30", "31W", "1W", "*/31", "H", "29,L-27", "*/2"];
    const MONTHS: [&str; 9] = ["*", "2", "FEB", "4,6,9,11", "*/12", "3", "11", "H", "2-3"];
    const WEEKDAYS: [&str; 13] =
        ["*", "1", "SUN", "5-7", "1#5", "0#2", "6L", "*/7", "H", "0#1,0#5", "1-5", "*/2", "7L"];
    const ZONES: [&str; 7] = [
        "UTC",
        "America/New_York",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Africa/Casablanca",
        "Antarctica/Troll",
        "Asia/Gaza",
    ];
    let mut random = Random(22);
    let mut read = 0;
    for _ in 0..4000 {
        let fields = [&MINUTES[..], &HOURS, &DAYS, &MONTHS, &WEEKDAYS].map(|choices| *random.one_of(choices));
        let text = fields.join(" ");
        let text = if random.below(4) == 0 { format!("{} {text}", random.one_of(&MINUTES)) } else { text };
        read += u32::from(survives(&text, Some(*random.one_of(&ZONES))));
    }
    assert!(read > 2500, "{read} of them were read");
}
