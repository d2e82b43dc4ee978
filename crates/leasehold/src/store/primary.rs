//! The store that a fallback uses as long as it can.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::tagged::{Epoch, Incarnation, Tagged};
use crate::error::Result;
use crate::finding::Finding;

/// A store that can be the primary of a fallback: it knows which data set it serves, and compares that within each step.
pub trait Primary: Tagged {
    /// Which store it is as far as it is configured: every client must mean the same. Without secrets.
    fn identity(&self) -> String;

    /// What it serves now.
    fn serves(&self) -> BoxFuture<'_, Result<Serving>>;

    /// Raises the watermark to `epoch`, that of a route that is in force; never lowers it.
    fn raise(&self, epoch: Epoch) -> BoxFuture<'_, Result<()>>;

    /// Writes down, here, that it is reached by a client while the route of `epoch` leads to the arbiter. For how long that has
    /// been so as far as anybody has written it down, in this route and this data set; or from now on, if it is to begin
    /// `anew`. Of a time in which nobody looked nobody knows: where it is over `longest`, half of that counts, so that it is not
    /// enough by itself, and jobs that come seldom are not kept from going back. By the store's own clock, and only to judge
    /// when to go back: nothing else rests on it.
    fn reached(&self, epoch: Epoch, anew: bool, longest: Duration) -> BoxFuture<'_, Result<Reached>>;

    /// What an operator should know about it as a primary: [`Store::diagnose`](super::Store::diagnose) for one that is not alone.
    fn examine(&self) -> BoxFuture<'_, Result<Vec<Finding>>>;
}

/// How clients have reached a primary that is not in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reached {
    /// For how long, as far as that counts.
    pub span: Duration,
    /// For how long nobody had looked before this.
    pub unseen: Duration,
}

/// What a primary serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// Its data set.
    pub incarnation: Incarnation,
    /// The largest epoch that it has heard of, with a claim, with a carry or by [`raise`](Primary::raise); [`Epoch::default`] if
    /// of none.
    pub watermark: Epoch,
}
