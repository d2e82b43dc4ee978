//! The two stores, and which of them is asked.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::store::{Arbiter, Primary, Store, Tagged, Target};

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Primary,
    Arbiter,
}

impl Side {
    pub fn of(target: &Target) -> Self {
        match target {
            Target::Primary(_) => Self::Primary,
            Target::Arbiter => Self::Arbiter,
        }
    }

    pub fn other(self) -> Self {
        match self {
            Self::Primary => Self::Arbiter,
            Self::Arbiter => Self::Primary,
        }
    }
}

/// Handles of both stores that belong together: those of the caller, of the keeper or of the background.
#[derive(Debug, Clone)]
pub(super) struct Stores {
    primary: Arc<dyn Store>,
    arbiter: Arc<dyn Store>,
}

impl Stores {
    pub fn new(primary: Arc<dyn Store>, arbiter: Arc<dyn Store>) -> Result<Self> {
        let (kind, arbiters_kind) = (primary.traits().kind, arbiter.traits().kind);
        if primary.as_primary().is_none() {
            return Err(refused(format!(
                "this {kind} store can't be the primary of a fallback: that is one Redis in its own key format, or one master \
                 that Sentinel manages"
            )));
        }
        if arbiter.as_arbiter().is_none() {
            return Err(refused(format!(
                "this {arbiters_kind} store can't be the arbiter of a fallback: that is a lease table in a database, which keeps \
                 the route in the same transaction"
            )));
        }
        Ok(Self { primary, arbiter })
    }

    pub fn for_keeper(&self) -> Self {
        Self { primary: self.primary.for_keeper(), arbiter: self.arbiter.for_keeper() }
    }

    pub fn primary(&self) -> &dyn Primary {
        self.primary.as_primary().expect("it was looked at when the fallback was made")
    }

    pub fn arbiter(&self) -> &dyn Arbiter {
        self.arbiter.as_arbiter().expect("it was looked at when the fallback was made")
    }

    /// The store to which a route leads.
    pub fn tagged(&self, target: &Target) -> &dyn Tagged {
        match target {
            Target::Primary(_) => self.primary(),
            Target::Arbiter => self.arbiter(),
        }
    }

    pub fn handle(&self, side: Side) -> Arc<dyn Store> {
        match side {
            Side::Primary => Arc::clone(&self.primary),
            Side::Arbiter => Arc::clone(&self.arbiter),
        }
    }

    pub fn on(&self, side: Side) -> &dyn Store {
        match side {
            Side::Primary => &*self.primary,
            Side::Arbiter => &*self.arbiter,
        }
    }
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::Misconfigured, message)
}
