//! How answers and complaints are written: JSON, tables, durations.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime};

use leasehold::{FencingToken, Holding, Span};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;

use crate::exit::{self, Failure};

/// Writes an answer for people to stdout, fit for a terminal, with a line end. `println!` would panic where stdout is a full disk or `| head`.
///
/// # Errors
/// 78 if stdout can't be written to. A reader who has gone is none: it has read what it wanted.
pub fn answer(text: &str) -> Result<(), Failure> {
    line(text.trim_end()).map(drop)
}

/// Writes one line of many for people, and says whether to go on: not once the reader has gone.
///
/// # Errors
/// As [`answer`].
pub fn line(text: &str) -> Result<ControlFlow<()>, Failure> {
    write(&format!("{}\n", lines(text)))
}

/// Writes an answer for programs to stdout: to the byte, with a line end.
///
/// # Errors
/// As [`answer`].
pub fn exact(text: &str) -> Result<ControlFlow<()>, Failure> {
    write(&format!("{text}\n"))
}

/// Writes to stdout as it is, at once; the answer as that of [`line()`]. What others have named in it must have been made [`plain`].
///
/// # Errors
/// As [`answer`].
pub fn write(text: &str) -> Result<ControlFlow<()>, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(error) => Err(Failure::new(exit::CONFIG, format!("cannot write to stdout: {error}"))),
    }
}

/// Whether stdout has a reader, as far as the system knows: a pipe without one is told apart, a file needs none.
pub fn is_read() -> bool {
    let stdout = io::stdout();
    let mut asked = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    let gone = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
    poll(&mut asked, PollTimeout::ZERO).is_err() || !asked[0].revents().is_some_and(|found| found.intersects(gone))
}

/// Writes an answer as JSON, indented: people read it too.
///
/// # Errors
/// As [`answer`].
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::new(exit::FAULT, error.to_string()))?;
    exact(&text).map(drop)
}

/// Tells people something on stderr, fit for a terminal. Where that can't be written, nobody listens.
pub fn tell(message: &str) {
    let _ = writeln!(io::stderr(), "leasehold: {}", lines(message));
}

/// As people read it, and a hold that has no end as that.
pub fn duration(duration: Duration) -> String {
    if duration == Holding::NO_END { "no end".into() } else { Span(duration).to_string() }
}

/// For how long somebody has held it; none where that is a worker of another library, who alone knows. Where no library
/// is named (`compat=plain`), the grant has no token.
pub fn known(held_for: Duration, library: Option<&str>, token: FencingToken) -> Option<Duration> {
    let is_foreign = library.is_some() || token == FencingToken::default();
    Some(held_for).filter(|held_for| !is_foreign || !held_for.is_zero())
}

/// Milliseconds for JSON; more than 500 million years are cut.
pub fn milliseconds(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

/// `2026-11-29T20:15:45.123Z`, for people and for logs; nothing of ours reads it.
pub fn utc(time: SystemTime) -> String {
    let time = jiff::Timestamp::try_from(time).unwrap_or_default();
    format!("{time:.3}")
}

/// So many of a thing whose plural is regular: `1 member`, `2 members`.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(number: N, what: &str) -> String {
    if number == N::from(1) { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// Text of others, such as a name or a holder's label, in one line that is fit for a terminal: escaped are control characters, those that
/// change the order in which others are shown, and those that nobody sees, by which two names look like one.
pub fn plain(text: &str) -> String {
    let escaped = |c: char| if is_odd(c) { c.escape_default().collect() } else { String::from(c) };
    text.chars().map(escaped).collect()
}

/// The same of text of ours, in which lines may end.
fn lines(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(plain).collect();
    lines.join("\n")
}

fn is_odd(c: char) -> bool {
    c.is_control() || reorders(c) || is_unseen(c)
}

fn reorders(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What Unicode calls "default ignorable", and what annotates others.
fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// A table without lines, so that `awk` and people can read it. Whatever its cells hold, each is made [`plain`].
pub fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(head);
    for row in rows {
        table.add_row(row.map(|cell| plain(&cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn a_hold_without_an_end_shows_none() {
        assert_eq!(duration(Holding::NO_END), "no end");
        assert_eq!(duration(Duration::from_secs(185)), "3m5s");
    }

    #[test]
    fn one_is_told_as_one() {
        assert_eq!([0_u64, 1, 2].map(|number| counted(number, "line")), ["0 lines", "1 line", "2 lines"]);
    }

    #[test]
    fn instants_are_written_as_rfc_3339_says() {
        for (seconds, ms, shown) in [
            (0, 0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, 999, "2000-02-28T23:59:59.999Z"),
            (951_782_400, 0, "2000-02-29T00:00:00.000Z"),
            (951_868_800, 0, "2000-03-01T00:00:00.000Z"),
            (1_735_689_599, 5, "2024-12-31T23:59:59.005Z"),
            (1_795_982_145, 123, "2026-11-29T19:55:45.123Z"),
            (4_107_542_400, 0, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::new(seconds, ms * 1_000_000)), shown);
        }
    }

    #[test]
    fn labels_of_others_cannot_drive_the_terminal() {
        assert_eq!(plain("web\u{1b}[2J/\u{9b}é"), "web\\u{1b}[2J/\\u{9b}é");
        assert_eq!(plain("a\u{202e}b\u{2066}é"), "a\\u{202e}b\\u{2066}é");
    }

    #[test]
    fn names_that_look_the_same_are_told_apart() {
        for unseen in ["\u{200b}", "\u{200d}", "\u{ad}", "\u{2060}", "\u{feff}", "\u{fe0f}", "\u{e0041}"] {
            let shown = plain(&format!("night{unseen}ly"));
            assert!(shown.starts_with("night\\u{") && shown.ends_with("}ly"), "{shown}");
            assert_eq!(plain(&shown), shown, "what is escaped stays as it is");
        }
        assert_eq!(plain("Größe 漢字 🔒"), "Größe 漢字 🔒");
    }

    #[test]
    fn no_cell_of_a_table_begins_a_line_or_moves_the_cursor() {
        let row = |cell: &str| [cell.to_owned(), "x".into()];
        let shown = table(["NAME", "B"], [row("a\nb\u{1b}[2J"), row("\u{2067}c")]);
        let rows: Vec<_> = shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(rows, [["NAME", "B"], ["a\\nb\\u{1b}[2J", "x"], ["\\u{2067}c", "x"]]);
    }

    #[test]
    fn text_of_ours_may_have_lines() {
        assert_eq!(lines("a is held\nholder  \u{202e}b\r\n"), "a is held\nholder  \\u{202e}b\\r\n");
    }
}
