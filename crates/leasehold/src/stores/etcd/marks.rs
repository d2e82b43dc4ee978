//! How marks are written into a key, and read.

use std::fmt::Write as _;

use crate::lease::HolderId;
use crate::marks::Marks;
use crate::tick::{OpenTick, Tick};

/// The first word: the number is the format's.
const FORMAT: &str = "leasehold/1";

/// The newest, and behind it a line for each that is open: tick, holder, attempts, whether once at most.
pub(super) fn text(marks: &Marks) -> Vec<u8> {
    let newest = marks.newest.map_or_else(|| "-".to_owned(), |newest| newest.as_unix_millis().to_string());
    let mut text = format!("{FORMAT} {newest}");
    for (tick, open) in &marks.open {
        let holder = open.holder.map_or_else(|| "-".to_owned(), |holder| holder.to_string());
        let _ = write!(text, "\n{} {holder} {} {}", tick.as_unix_millis(), open.attempts, u8::from(open.once));
    }
    text.into_bytes()
}

/// None if it is not one of ours.
pub(super) fn read(text: &[u8]) -> Option<Marks> {
    let mut lines = std::str::from_utf8(text).ok()?.lines();
    let newest = lines.next()?.strip_prefix(FORMAT)?.strip_prefix(' ')?;
    let newest = if newest == "-" { None } else { Some(tick(newest)?) };
    let open = lines.map(open_tick).collect::<Option<_>>()?;
    Some(Marks { newest, open })
}

fn tick(text: &str) -> Option<Tick> {
    match text.parse().ok()? {
        0 => Some(Tick::ONLY),
        millis => Tick::from_unix_millis(millis),
    }
}

fn open_tick(line: &str) -> Option<(Tick, OpenTick)> {
    let mut words = line.split(' ');
    let tick = tick(words.next()?)?;
    let holder = match words.next()? {
        "-" => None,
        holder => Some(HolderId::parse(holder)?),
    };
    let attempts = words.next()?.parse().ok()?;
    Some((tick, OpenTick { holder, attempts, once: words.next()? == "1" }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tick::{Due, Verdict};

    #[test]
    fn marks_are_read_as_they_were_written() {
        let mut marks = Marks::default();
        assert_eq!(read(&text(&marks)), Some(marks.clone()));
        for (tick, retry_failed) in [(Tick::ONLY, true), (Tick::from_unix_millis(1_796_004_000_000).unwrap(), false)] {
            marks.claim(HolderId::fresh(), Due { tick, retry_failed, keep: Duration::from_secs(60) });
        }
        assert_eq!(read(&text(&marks)), Some(marks.clone()));
        let taken_back = marks.open[&Tick::ONLY].holder.unwrap();
        marks.judge(taken_back, Verdict::NotStarted);
        assert_eq!(read(&text(&marks)), Some(marks));
        for other in [&b""[..], b"leasehold/2 -", b"leasehold/1 x", b"leasehold/1 -\n1 2 3"] {
            assert_eq!(read(other), None);
        }
    }
}
