//! What is said of a schedule that can't be loaded.

use std::fmt;

/// Why a schedule was refused: one line that names the value, the rule and the fix.
///
/// Control characters of the input are escaped and long inputs are cut: the line can go to a terminal or a log as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleError(String);

impl ScheduleError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// All of these in one.
    pub(crate) fn all(errors: &[Self]) -> Self {
        Self(errors.iter().map(|error| error.0.as_str()).collect::<Vec<_>>().join("; and "))
    }

    /// The same, preceded by the expression that it is about.
    pub(crate) fn within(self, expression: &str) -> Self {
        Self(format!("schedule {}: {}", shown(expression), self.0))
    }
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScheduleError {}

/// A value of somebody else's in quotes, fit for one line.
pub(crate) fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}…", &text[..end]),
    }
}
