//! What is wrong in a file, and where.

use std::fmt;

/// One thing that is wrong in a file, or may surprise: where it stands, the rule, and the fix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The line, from 1 on.
    pub line: usize,
    /// The column, in characters from 1 on.
    pub column: usize,
    /// One line for people.
    pub message: String,
}

impl Fault {
    /// At this byte of a text.
    pub fn at(text: &str, offset: usize, message: impl Into<String>) -> Self {
        let before = &text.as_bytes()[..offset.min(text.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
        Self { line, column, message: message.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_from_1() {
        let text = "ä = 1\nb = é\n\nlast";
        for (offset, line, column) in [(0, 1, 1), (2, 1, 2), (7, 2, 1), (11, 2, 5), (15, 4, 1), (99, 4, 5)] {
            let fault = Fault::at(text, offset, "");
            assert_eq!((fault.line, fault.column), (line, column), "{offset}");
        }
    }
}
