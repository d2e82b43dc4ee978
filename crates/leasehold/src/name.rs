//! What locks may be called.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};

/// The name of a lock: 1 to 200 bytes of UTF-8 without control characters.
///
/// Names are compared byte for byte: `Backup`, `backup` and `backup ` are three locks, and so are a
/// composed and a decomposed `é`. Cheap to clone.
///
/// ```
/// use leasehold::LockName;
///
/// assert!(LockName::new("nightly-backup").is_ok());
/// assert!(LockName::new("").is_err());
/// assert!(LockName::new("two\nlines").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(Arc<str>);

impl LockName {
    /// The longest legal name, in bytes.
    pub const LONGEST: usize = 200;

    /// Checks a name.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it is empty, too long or has a control character.
    pub fn new(name: &str) -> Result<Self> {
        check("lock name", name, Self::LONGEST)?;
        Ok(Self(name.into()))
    }

    /// The name as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The users of one store that share names: `billing` in namespace `staging` is another lock than
/// `billing` in `production`. 1 to 64 bytes of UTF-8 without control characters; `default` where none is given.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(Arc<str>);

impl Namespace {
    /// The longest legal namespace, in bytes.
    pub const LONGEST: usize = 64;

    /// Checks a namespace.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it is empty, too long or has a control character.
    pub fn new(name: &str) -> Result<Self> {
        check("namespace", name, Self::LONGEST)?;
        Ok(Self(name.into()))
    }

    /// The namespace as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self("default".into())
    }
}

pub(crate) fn check(what: &str, name: &str, longest: usize) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid(format!("the {what} is empty; give it 1 to {longest} bytes")));
    }
    if name.len() > longest {
        let shown: String = name.chars().take(24).collect();
        return Err(Error::invalid(format!(
            "the {what} {shown:?}… has {} bytes; at most {longest} are allowed, so shorten it",
            name.len()
        )));
    }
    if let Some(bad) = name.chars().find(|c| c.is_control()) {
        return Err(Error::invalid(format!("the {what} {name:?} contains the control character {bad:?}; take it out")));
    }
    Ok(())
}

macro_rules! shown_as_text {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    )*};
}
shown_as_text!(LockName, Namespace);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_bounds() {
        assert!(LockName::new(&"x".repeat(200)).is_ok());
        let long = LockName::new(&"x".repeat(201)).unwrap_err().to_string();
        assert!(long.contains("201 bytes") && long.contains("at most 200"), "{long}");
        // Bytes count, not characters: 67 × 3 bytes.
        assert!(LockName::new(&"€".repeat(67)).is_err());
        assert!(LockName::new("a\u{7f}b").is_err());
        assert!(LockName::new("a\u{85}b").is_err(), "C1 controls are controls too");
    }

    #[test]
    fn look_alikes_are_distinct() {
        let names = ["Job", "job", "job ", " job", "e\u{301}", "\u{e9}", "a/1", "a"];
        let set: std::collections::HashSet<_> = names.iter().map(|n| LockName::new(n).unwrap()).collect();
        assert_eq!(set.len(), names.len());
    }
}
