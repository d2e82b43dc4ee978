//! One error type. Contention is not in it: somebody else holding a lock is an answer, not an error.

use std::error::Error as StdError;
use std::fmt;

/// `std::result::Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request could not be answered.
///
/// One line for people ([`Display`](fmt::Display)), a [`kind`](Self::kind) for code, and
/// [`applied`](Self::applied) for whoever has to know whether the store may have done it all the same.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    applied: Applied,
    passes: bool,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What sort of failure it was; each asks for another reaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller gave something that can never work (a bad name, TTL or URL). Nothing was sent.
    Invalid,
    /// The store could not be reached or is not ready.
    Unavailable,
    /// The store did not answer in time.
    TimedOut,
    /// The store refused these credentials or file permissions.
    AccessDenied,
    /// The store answers but is set up in a way that cannot be safe or cannot work.
    Misconfigured,
    /// The store is there and refuses to write: full disk, out of memory, read-only.
    Refused,
    /// What was to be written stands on a lock that is the writer's no longer: the transaction must not be committed.
    /// Only a [fence](crate::Guard) says so.
    Stale,
    /// This client was shut down.
    Closed,
    /// A fault of ours.
    Internal,
}

/// Whether a failed request may have happened. A timeout is not a no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Applied {
    /// Certainly nothing happened.
    No,
    /// It may have happened, or may still happen.
    Maybe,
}

impl Error {
    /// An error of `kind` of which it is certain that nothing happened.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, applied: Applied::No, passes: false, message: message.into(), source: None }
    }

    /// Bad input: names the value, the rule and the fix.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// The same error, but the store may have done what was asked.
    #[must_use]
    pub fn maybe_applied(mut self) -> Self {
        self.applied = Applied::Maybe;
        self
    }

    /// The same error, which ends by itself after a time that is known: whoever waits may wait for that, too.
    #[must_use]
    pub fn passes(mut self) -> Self {
        self.passes = true;
        self
    }

    /// The same error with the one that caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same error, its message preceded by what was being done.
    #[must_use]
    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        self.message = format!("{doing}: {}", self.message);
        self
    }

    /// What sort of failure it was.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the store may have done it all the same.
    #[must_use]
    pub fn applied(&self) -> Applied {
        self.applied
    }

    /// Whether it ends by itself, so that no outage is to be made of it.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        self.passes
    }

    /// Whether the same request may succeed a moment later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable | ErrorKind::TimedOut)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|s| s as &(dyn StdError + 'static))
    }
}
