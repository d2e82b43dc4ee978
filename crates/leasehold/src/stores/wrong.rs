//! What is wrong with where a store is said to be.

use crate::error::{Error, ErrorKind};

/// What to do where nobody takes connections.
pub(super) const NOBODY_THERE: &str = "is its server running, and is this where it listens?";

/// Why a URL can't be used.
#[derive(Debug)]
pub(super) enum Wrong {
    /// It is no such URL.
    Url(String),
    /// It names a file that is no use. That may be another machine's file system, not whoever wrote the URL.
    File(String),
}

impl Wrong {
    /// Told as our error; `shown` is the URL, without its secrets.
    pub fn told(self, shown: &str) -> Error {
        match self {
            Self::Url(why) => Error::invalid(format!("{shown:?} {why}")),
            Self::File(why) => {
                Error::new(ErrorKind::Misconfigured, format!("{shown:?} names a file that is no use: {why}"))
            }
        }
    }
}

impl From<String> for Wrong {
    fn from(why: String) -> Self {
        Self::Url(why)
    }
}

impl From<&str> for Wrong {
    fn from(why: &str) -> Self {
        Self::Url(why.to_owned())
    }
}
