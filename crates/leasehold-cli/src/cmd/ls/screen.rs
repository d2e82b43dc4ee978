//! A list that is drawn on a terminal, over the last one.

use std::io::{IsTerminal, Stdout, stdout};

use terminal_size::{Height, terminal_size_of};

/// The terminal that stdout is.
pub(super) struct Screen(Stdout);

/// Begins at the upper left; long lines end at the right edge instead of going on in the next row.
const BEGIN: &str = "\u{1b}[H\u{1b}[?7l";
/// Clears the rest of a line.
const LINE: &str = "\u{1b}[K";
/// Clears the rest of the screen, and has long lines go on below again.
const END: &str = "\u{1b}[J\u{1b}[?7h";

/// The rows beside the list: what stands above it, the empty line between them, and the cursor's.
const BESIDE: usize = 3;

impl Screen {
    /// None if stdout is no terminal, or one that can't be drawn on.
    pub fn of_stdout() -> Option<Self> {
        let can_draw = std::env::var_os("TERM").is_some_and(|kind| !kind.is_empty() && kind != "dumb");
        (can_draw && stdout().is_terminal()).then(|| Self(stdout()))
    }

    /// What draws `head` and as much of `list` as there is room for.
    pub fn drawn(&self, head: &str, list: &str) -> String {
        // Asked each time: it may have been made larger.
        let rows = terminal_size_of(&self.0).map(|(_, Height(rows))| usize::from(rows));
        drawn(head, list, rows.unwrap_or(24))
    }
}

fn drawn(head: &str, list: &str, rows: usize) -> String {
    let lines: Vec<&str> = list.lines().collect();
    let room = rows.saturating_sub(BESIDE).max(1);
    let cut = (lines.len() > room).then(|| format!("… and {} more", lines.len() - (room - 1)));
    let fit = if cut.is_some() { room - 1 } else { room };
    let below = lines.iter().take(fit).copied().chain(cut.as_deref());
    let drawn: String = [head, ""].into_iter().chain(below).map(|line| format!("{line}{LINE}\n")).collect();
    format!("{BEGIN}{drawn}{END}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_longer_than_the_screen_is_cut() {
        let list = "NAME\na\nb\nc\nd";
        let rows_of = |rows| drawn("head", list, rows).replace(LINE, "");
        assert_eq!(rows_of(8), format!("{BEGIN}head\n\n{list}\n{END}"));
        assert_eq!(rows_of(7), format!("{BEGIN}head\n\nNAME\na\nb\n… and 2 more\n{END}"));
        assert_eq!(rows_of(0), format!("{BEGIN}head\n\n… and 5 more\n{END}"));
    }
}
