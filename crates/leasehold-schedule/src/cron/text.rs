//! From the text of a schedule to its parts.

use jiff::tz::TimeZone;

use super::fields::Fields;
use super::hashed::Hashing;
use super::period::Period;
use super::zone;
use crate::cron::Cron;
use crate::error::{ScheduleError, shown};
use crate::schedule::Timing;

/// The longest text, in bytes.
const LONGEST: usize = 1000;

const MACROS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

pub(crate) fn parse(text: &str, zone: Option<&str>, hashing: Hashing<'_>) -> Result<Timing, ScheduleError> {
    check_shape(text)?;
    let text = text.trim();
    let (prefix, body) = without_zone(text);
    let other = without_zone(body).0.or(zone);
    let zone = match (prefix, other) {
        (Some(prefix), Some(other)) => {
            let (prefix, other) = (shown(prefix), shown(other));
            let twice = format!("the time zone is given twice, {prefix} in front and {other} besides; take one out");
            return Err(ScheduleError::new(twice).within(text));
        }
        (Some(name), None) | (None, Some(name)) => zone::find(name).map_err(|error| error.within(text))?,
        (None, None) => TimeZone::UTC,
    };
    timing(body, zone, hashing).map_err(|error| error.within(text))
}

fn check_shape(text: &str) -> Result<(), ScheduleError> {
    if text.trim().is_empty() {
        return Err(ScheduleError::new("the schedule is empty; give one such as \"30 2 * * *\", @daily or 15m"));
    }
    if text.len() > LONGEST {
        let rule = format!("the schedule has {} bytes; at most {LONGEST} are allowed, so shorten it", text.len());
        return Err(ScheduleError::new(rule).within(text));
    }
    match text.trim().chars().find(|&c| c.is_control() && c != '\t') {
        Some(bad) => Err(ScheduleError::new(format!("it has the control character {bad:?}; take it out")).within(text)),
        None => Ok(()),
    }
}

/// What stands in `CRON_TZ=` or `TZ=`, and the rest.
fn without_zone(text: &str) -> (Option<&str>, &str) {
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match first.strip_prefix("CRON_TZ=").or_else(|| first.strip_prefix("TZ=")) {
        Some(zone) => (Some(zone), rest.trim()),
        None => (None, text),
    }
}

fn timing(body: &str, zone: TimeZone, hashing: Hashing<'_>) -> Result<Timing, ScheduleError> {
    let words: Vec<&str> = body.split_whitespace().collect();
    match *words {
        [] => {
            Err(ScheduleError::new("there is nothing after the time zone; give an expression such as \"30 2 * * *\""))
        }
        [word] if word.starts_with('@') => named(word, zone, hashing),
        [word, ref rest @ ..] if word.eq_ignore_ascii_case("@every") => every(rest, &zone),
        [word, ..] if word.starts_with('@') => {
            Err(ScheduleError::new(format!("nothing may follow {}; take the rest out", shown(word))))
        }
        [word] if word.starts_with(|c: char| c.is_ascii_digit()) => period(word, &zone),
        _ => Ok(Timing::Cron(Box::new(Cron::new(Fields::parse(&words, hashing)?, zone)?))),
    }
}

fn named(word: &str, zone: TimeZone, hashing: Hashing<'_>) -> Result<Timing, ScheduleError> {
    let lower = word.to_ascii_lowercase();
    match MACROS.iter().find(|(name, _)| *name == lower) {
        Some((_, fields)) => timing(fields, zone, hashing),
        None if lower == "@every" => Err(ScheduleError::new("@every lacks its duration; write for example @every 15m")),
        None if lower == "@reboot" => Err(ScheduleError::new(
            "@reboot means the start of one machine, and this is for many; start the job from the machine's own init",
        )),
        None => Err(ScheduleError::new(format!(
            "the macro {} is unknown; write @yearly, @monthly, @weekly, @daily, @hourly or @every 15m",
            shown(word)
        ))),
    }
}

fn every(rest: &[&str], zone: &TimeZone) -> Result<Timing, ScheduleError> {
    match *rest {
        [duration] => period(duration, zone),
        _ => Err(ScheduleError::new("@every takes one duration without spaces; write for example @every 1h30m")),
    }
}

fn period(duration: &str, zone: &TimeZone) -> Result<Timing, ScheduleError> {
    let unused_zone = zone.iana_name().filter(|name| *name != "UTC").map(str::to_owned);
    Ok(Timing::Period { period: Period::parse(duration)?, unused_zone })
}
