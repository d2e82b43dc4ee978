//! What a database has to have, beside what it has.

use std::collections::HashMap;

/// Something that has to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// What it is, and its name; of a column `column NAME of TABLE`.
    pub what: String,
    /// A column's type, the text of a procedure; empty where the name is all.
    pub text: String,
}

/// Something that is not as it has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flaw {
    /// What it is, and its name.
    pub what: String,
    /// Or else it is another one.
    pub is_missing: bool,
}

impl Flaw {
    /// The table that it is, or is a part of. A sequence counts as one.
    pub fn table(&self) -> Option<&str> {
        let part = self.what.split_once(" of ").map(|(_, table)| table);
        part.or_else(|| self.what.strip_prefix("table ")).or_else(|| self.what.strip_prefix("sequence "))
    }

    /// The column that it is.
    pub fn column(&self) -> Option<&str> {
        let (column, _) = self.what.strip_prefix("column ")?.split_once(" of ")?;
        Some(column)
    }
}

/// All that is not as it is wanted, in that order; of a table that is not there nothing else.
pub(crate) fn compared(wanted: Vec<Wanted>, found: &HashMap<String, String>) -> Vec<Flaw> {
    let mut flaws: Vec<Flaw> = Vec::new();
    for Wanted { what, text } in wanted {
        let is_missing = match found.get(&what) {
            Some(found) if *found == text => continue,
            found => found.is_none(),
        };
        let has_no_table = what.split_once(" of ").is_some_and(|(_, table)| {
            flaws.iter().any(|flaw| flaw.is_missing && flaw.what.strip_prefix("table ") == Some(table))
        });
        if !has_no_table {
            flaws.push(Flaw { what, is_missing });
        }
    }
    flaws
}

/// One after the other, for people.
pub(crate) fn named<'a>(flaws: impl IntoIterator<Item = &'a Flaw>) -> String {
    flaws.into_iter().map(|flaw| flaw.what.as_str()).collect::<Vec<_>>().join(", ")
}

/// What an operator does about tables that can't be made right while they are kept, and what is forgotten by that.
pub(crate) fn way_out<'a>(drops: &[String], tables: impl IntoIterator<Item = &'a str>) -> String {
    let costs: Vec<_> = tables.into_iter().map(|table| format!("{table}: {}", forgotten_with(table))).collect();
    format!(
        "stop all jobs and schedulers, then {} and `leasehold migrate` again; that forgets what stands there ({})",
        drops.join(", "),
        costs.join("; ")
    )
}

/// What nobody knows any more without the rows of a table.
fn forgotten_with(table: &str) -> &'static str {
    match table.strip_prefix("leasehold_").unwrap_or(table) {
        "locks" => "who holds what, and in PostgreSQL which ticks, slots and keys were claimed: they may run again",
        "names" => "which ticks, slots and keys were claimed: they may run again",
        "fence" => "the last tokens: the next begin at the time of day",
        "waiters" => "who waits",
        "ticks" => "which runs are not finished",
        "modes" => "which kind of lock each namespace has",
        "routes" => "where a fallback leads, and its epoch",
        "notes" => "the history of schedules, and what is paused or was asked for",
        "tokens" => "the last token of session locks: the next begins at the time of day",
        _ => "the tables' version",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_and_what_is_another_are_told_apart() {
        let one = |what: &str, text: &str| Wanted { what: what.into(), text: text.into() };
        let wanted = vec![
            one("table a", ""),
            one("column x of a", "text"),
            one("table b", ""),
            one("column x of b", "text"),
            one("function c", "1"),
        ];
        let found = [("table a", ""), ("function c", "2")].map(|(what, text)| (what.to_owned(), text.to_owned()));
        let flaw = |what: &str, is_missing| Flaw { what: what.into(), is_missing };
        let flaws = compared(wanted, &HashMap::from(found));
        assert_eq!(flaws, [flaw("column x of a", true), flaw("table b", true), flaw("function c", false)]);
        assert_eq!(named(&flaws), "column x of a, table b, function c");
        let parts = flaws.iter().map(|flaw| (flaw.table(), flaw.column()));
        assert!(parts.eq([(Some("a"), Some("x")), (Some("b"), None), (None, None)]));
    }
}
