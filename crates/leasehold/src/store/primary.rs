//! The store that a fallback uses as long as it can.

use futures_util::future::BoxFuture;

use super::tagged::{Epoch, Incarnation, Tagged};
use crate::error::Result;

/// A store that can be the primary of a fallback: it knows which data set it serves, and compares that within each step.
pub trait Primary: Tagged {
    /// Which store it is as far as it is configured: every client must mean the same. Without secrets.
    fn identity(&self) -> String;

    /// What it serves now.
    fn serves(&self) -> BoxFuture<'_, Result<Serving>>;
}

/// What a primary serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// Its data set.
    pub incarnation: Incarnation,
    /// The largest epoch that a claim or a carry has come with; [`Epoch::default`] if none has.
    pub watermark: Epoch,
}
