//! What a store's self-examination says.

/// One thing that an operator should know about a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was looked at: `file system`, `permissions`.
    pub subject: &'static str,
    /// What was found.
    pub message: String,
    /// What to do about it; none where nothing needs doing.
    pub fix: Option<String>,
}

/// How bad a [`Finding`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// As it should be.
    Fine,
    /// Works, with a drawback.
    Warning,
    /// Does not work, or is not safe.
    Problem,
}

impl Finding {
    /// Something that is as it should be.
    pub fn fine(subject: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Fine, subject, message: message.into(), fix: None }
    }

    /// Something that works with a drawback.
    pub fn warning(subject: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, subject, message: message.into(), fix: Some(fix.into()) }
    }

    /// Something that does not work or is not safe.
    pub fn problem(subject: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { severity: Severity::Problem, subject, message: message.into(), fix: Some(fix.into()) }
    }
}
