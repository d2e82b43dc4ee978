//! Whose keys a store uses: ours, or those of another lock library.

use crate::error::{Error, Result};
use crate::lease::Claim;
use crate::name::LockName;

/// The form of a lock's key, and what goes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Format {
    /// Our own.
    #[default]
    Own,
    /// That of another library, whose workers lock the same keys.
    Compat(&'static Library),
}

/// A library whose lock is a string with a TTL: set if there is none, extended and deleted by whoever knows the value.
/// Values are compared and nothing else, so that ours is what it always is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Library {
    name: &'static str,
    /// What stands before a name in its key.
    pub prefix: &'static str,
    /// What stands before a name in the key of the list that its waiters block on.
    pub signal: Option<&'static str>,
}

const fn library(name: &'static str, prefix: &'static str) -> Library {
    Library { name, prefix, signal: None }
}

/// Any library, and none in particular.
const PLAIN: &str = "plain";

/// Where their keys stand in their sources: `docs/interop.md`.
static LIBRARIES: [Library; 10] = [
    library(PLAIN, ""),
    library("redis-py", ""),
    Library { signal: Some("lock-signal:"), ..library("python-redis-lock", "lock:") },
    library("pottery", "redlock:"),
    library("node-redlock", ""),
    library("redis-semaphore", "mutex:"),
    library("rslock", ""),
    library("redsync", ""),
    library("redlock-rb", ""),
    library("redlock-net", "redlock:"),
];

/// What the keys beside a foreign one have in their names.
pub(super) const BESIDE: &str = ":leasehold:";

impl Format {
    /// That of the library with this name.
    pub fn compat(name: &str) -> Result<Self> {
        let found = LIBRARIES.iter().find(|library| library.name == name);
        found.map(Self::Compat).ok_or_else(|| {
            let known: Vec<_> = LIBRARIES.iter().map(|library| library.name).collect();
            Error::invalid(format!("compat={name:?} is no library that is known; known are {}", known.join(", ")))
        })
    }

    /// Whether it is our own.
    pub fn is_own(self) -> bool {
        self == Self::Own
    }

    /// Whose values stand under its keys that aren't ours, where that can be told.
    pub fn library(self) -> Option<&'static str> {
        match self {
            // Whatever sets a key if there is none.
            Self::Own | Self::Compat(Library { name: PLAIN, .. }) => None,
            Self::Compat(Library { name, .. }) => Some(name),
        }
    }

    /// Whether there is a list that the library's waiters block on.
    pub fn has_signal(self) -> bool {
        matches!(self, Self::Compat(Library { signal: Some(_), .. }))
    }

    /// Whether a release may give the lock to its first waiter. A library that reads the key knows nothing of that.
    pub fn hands_over(self) -> bool {
        self.is_own()
    }

    /// Why a name can't be locked in a cluster: what belongs to it is in several slots.
    pub fn has_no_place_in_a_cluster(self, name: &LockName) -> Error {
        let library = if let Self::Compat(library) = self { library.name } else { "Leasehold" };
        Error::invalid(format!(
            "{name} can't be locked as {library} does in a cluster: its keys are in different slots; give it a hash tag, as \
             in {{{name}}}, or use one server"
        ))
    }

    /// Whether locks of this form can be claimed so.
    ///
    /// # Errors
    /// `Invalid`: they can't.
    pub fn admits(self, claim: &Claim) -> Result<()> {
        let Self::Compat(Library { name: library, .. }) = self else { return Ok(()) };
        let (name, permits) = (&claim.name, claim.permits);
        if permits.get() > 1 {
            return Err(Error::invalid(format!(
                "{name} was asked for with permits: {permits}, and a lock of {library} has one holder; ask for 1, or use a \
                 store without compat"
            )));
        }
        if name.as_str().contains(BESIDE) {
            return Err(Error::invalid(format!(
                "{name} has {BESIDE:?} in it, which marks what stands beside a lock of {library}; use another name"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::HolderId;

    fn claim(name: &str, permits: u32) -> Claim {
        let name = LockName::new(name).unwrap();
        let claim = Claim::new(name, HolderId::fresh(), "test".into(), std::time::Duration::from_secs(1));
        Claim { permits: permits.try_into().unwrap(), ..claim }
    }

    #[test]
    fn a_library_that_is_not_known_is_refused_with_those_that_are() {
        let error = Format::compat("redisson").unwrap_err().to_string();
        assert!(error.contains("\"redisson\"") && error.contains("redis-py, python-redis-lock"), "{error}");
    }

    #[test]
    fn what_a_foreign_lock_cannot_be_is_refused() {
        let format = Format::compat("redis-py").unwrap();
        assert!(format.admits(&claim("job", 1)).is_ok() && Format::Own.admits(&claim("job", 3)).is_ok());
        let error = format.admits(&claim("job", 3)).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Invalid);
        assert!(error.to_string().contains("permits: 3") && error.to_string().contains("ask for 1"), "{error}");
        assert!(format.admits(&claim("{job}:leasehold:q", 1)).is_err());
        assert!(format.hands_over() != Format::Own.hands_over());
    }
}
