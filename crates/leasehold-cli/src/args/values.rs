//! How the values of options are read.

use std::time::Duration;

use leasehold::HolderId;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Longer than anybody means, and far from where sums of durations overflow.
const TEN_YEARS: Duration = Duration::from_secs(3650 * 24 * 3600);

pub(super) fn ttl(text: &str) -> Result<Duration, String> {
    within(text, SECOND..=HOUR, "1s to 1h")
}

pub(super) fn permits(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|permits| (1..=1000).contains(permits));
    number.ok_or_else(|| format!("{text:?} is no number of permits; give one from 1 to 1000"))
}

pub(super) fn memory(text: &str) -> Result<Duration, String> {
    within(text, 10 * 60 * SECOND..=TEN_YEARS, "10m to 3650d")
}

pub(super) fn minimum_hold(text: &str) -> Result<Duration, String> {
    within(text, Duration::ZERO..=DAY, "at most 1d")
}

pub(super) fn interval(text: &str) -> Result<Duration, String> {
    within(text, SECOND / 10..=DAY, "100ms to 1d")
}

pub(super) fn some_time(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_millis(1)..=TEN_YEARS, "more than nothing")
}

fn within(text: &str, legal: std::ops::RangeInclusive<Duration>, rule: &str) -> Result<Duration, String> {
    let given = duration(text)?;
    legal.contains(&given).then_some(given).ok_or_else(|| format!("{text} is out of bounds; give {rule}"))
}

/// A duration, up to 3650 days.
pub fn duration(text: &str) -> Result<Duration, String> {
    leasehold_schedule::duration(text).map_err(|error| error.to_string())
}

pub(super) fn holder(text: &str) -> Result<HolderId, String> {
    HolderId::parse(text).ok_or_else(|| format!("{text:?} is no holder; `leasehold status NAME` shows 32 digits"))
}

/// What a browser asks for, without scheme and port: with them it would never be asked for.
pub(super) fn host(text: &str) -> Result<String, String> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let is_name = (1..=253).contains(&text.len()) && text.bytes().all(is_legal) && !text.starts_with('.');
    let rule = "give a host's name alone, as locks.example.com, without scheme, port or path";
    is_name.then(|| text.to_owned()).ok_or_else(|| format!("{text:?} is no name of a host; {rule}"))
}

/// Why an operator does something: a line for the record.
pub(super) fn reason(text: &str) -> Result<String, String> {
    const LONGEST: usize = 400;
    let fits = text.len() <= LONGEST;
    fits.then(|| text.to_owned())
        .ok_or_else(|| format!("a reason of {} bytes is too long; give at most {LONGEST}", text.len()))
}

pub(super) fn exit_code(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| format!("{text:?} is no exit code; give a number from 0 to 255"))
}
