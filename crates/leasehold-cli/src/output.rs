//! How answers and complaints are written: JSON, tables, durations.

use std::io::{self, ErrorKind, Write};
use std::time::Duration;

use serde::Serialize;

use crate::exit::{self, Failure};

/// Writes an answer to stdout, with a line end. `println!` would panic where stdout is a full disk or `| head`.
///
/// # Errors
/// 78 if stdout can't be written to. A reader who has gone is none: it has read what it wanted.
pub fn answer(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = writeln!(stdout, "{}", text.trim_end()).and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(exit::CONFIG, format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes an answer as JSON, indented: people read it too.
///
/// # Errors
/// As [`answer`].
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::new(exit::FAULT, error.to_string()))?;
    answer(&text)
}

/// Tells people something on stderr. Where that can't be written, nobody listens.
pub fn tell(message: &str) {
    let _ = writeln!(io::stderr(), "leasehold: {message}");
}

/// `1d2h`, `3m5s`, `21s`, `850ms`: the two largest units.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let parts = [(seconds / 86400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let from_first: Vec<_> = parts.into_iter().skip_while(|(number, _)| *number == 0).take(2).collect();
    if from_first.is_empty() {
        return format!("{}ms", duration.as_millis());
    }
    from_first.iter().filter(|(number, _)| *number > 0).map(|(number, unit)| format!("{number}{unit}")).collect()
}

/// Milliseconds for JSON; more than 500 million years are cut.
pub fn milliseconds(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

/// Text of others, such as a holder's label, fit for a terminal: control characters are escaped.
pub fn plain(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().collect() } else { String::from(c) };
    text.chars().map(escaped).collect()
}

/// A table without lines, so that `awk` and people can read it.
pub fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(head);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_show_their_two_largest_units() {
        for (ms, shown) in [
            (0, "0ms"),
            (850, "850ms"),
            (21_999, "21s"),
            (60_000, "1m"),
            (185_000, "3m5s"),
            (3_600_000, "1h"),
            (3_605_000, "1h"),
            (93_784_005, "1d2h"),
        ] {
            assert_eq!(duration(Duration::from_millis(ms)), shown);
        }
    }

    #[test]
    fn labels_of_others_cannot_drive_the_terminal() {
        assert_eq!(plain("web\u{1b}[2J/\u{9b}é"), "web\\u{1b}[2J/\\u{9b}é");
    }
}
