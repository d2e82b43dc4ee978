//! Services that write the time of their own clock or time zone, rather than the server's in UTC.
//!
//! One that is ahead can be seen: no row can have been locked later than now. One that is behind looks like a lock that
//! ended hours ago; it shows only where a row is written while somebody watches.

use std::time::Duration;

use super::row::Row;
use crate::finding::Finding;
use crate::stores::sql::span;

/// Clocks that are set differ by less.
const APART: Duration = Duration::from_secs(300);

/// What to do about it.
pub(super) const FIX: &str =
    "have every service use the database's time (usingDbTime()), and every session the same time zone";

/// By how much a row was locked later than now, if that can't be an accident.
pub(super) fn ahead(row: &Row) -> Option<Duration> {
    Some(span(row.age.saturating_neg())).filter(|ahead| *ahead > APART)
}

pub(super) fn is_ahead(row: &Row, ahead: Duration) -> String {
    format!(
        "the row of {:?} ({}) says that it will be locked in {} min. A clock or time zone other than the database's UTC wrote \
         it, and neither side keeps the other out",
        row.name,
        row.stranger(),
        ahead.as_secs() / 60
    )
}

/// What two looks at all rows tell of the clocks that wrote them.
pub(super) fn finding(before: &[Row], after: &[Row]) -> Finding {
    if let Some((row, ahead)) = after.iter().find_map(|row| Some((row, ahead(row)?))) {
        return Finding::problem("clocks", is_ahead(row, ahead), FIX);
    }
    let written = after.iter().filter_map(|row| {
        let old = before.iter().find(|old| old.name == row.name)?;
        Some((row, behind(old, row)?))
    });
    match written.max_by_key(|(_, behind)| *behind) {
        Some((row, behind)) => Finding::problem(
            "clocks",
            format!(
                "the row of {:?} ({}) was written while it was watched, as if that had been {} min ago. A clock or time zone \
                 other than the database's UTC wrote it, and neither side keeps the other out",
                row.name,
                row.stranger(),
                behind.as_secs() / 60
            ),
            FIX,
        ),
        None => {
            Finding::fine("clocks", "no row was written by a clock or in a time zone that is far from the database's")
        }
    }
}

/// By how much a row that was written between two looks was over before the first of them, if that can't be an accident.
fn behind(old: &Row, new: &Row) -> Option<Duration> {
    let ((read, was_until), (_, until)) = (old.read_and_until(), new.read_and_until());
    let is_written = (old.locked_at, was_until) != (new.locked_at, until);
    is_written.then(|| span(read - until)).filter(|behind| *behind > APART)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    const MINUTE: i64 = 60_000_000;
    const NOW: i64 = 1000 * MINUTE;

    fn row(locked_at: i64, until: i64, read: i64) -> Row {
        Row { name: "job".into(), locked_at, age: read - locked_at, rest: until - read, ..Row::default() }
    }

    #[test]
    fn what_other_clocks_write_is_told() {
        let ended = row(NOW - 90 * MINUTE, NOW - 60 * MINUTE, NOW);
        let later = |row: &Row| Row { age: row.age + 1000, rest: row.rest - 1000, ..row.clone() };
        let severity = |new: Row| finding(std::slice::from_ref(&ended), &[new]).severity;
        assert_eq!(severity(later(&ended)), Severity::Fine, "an old row is only old");
        assert_eq!(severity(row(NOW, NOW + MINUTE, NOW + 1000)), Severity::Fine);
        assert_eq!(severity(row(NOW - 59 * MINUTE, NOW - 58 * MINUTE, NOW + 1000)), Severity::Problem);
        assert_eq!(severity(row(NOW + 60 * MINUTE, NOW + 61 * MINUTE, NOW + 1000)), Severity::Problem);
    }
}
