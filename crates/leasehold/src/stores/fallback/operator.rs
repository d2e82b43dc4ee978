//! What operators see of the route, and the one step that is theirs.

use std::time::Duration;

use super::Fallback;
use super::shared::limited;
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Epoch, Reading};

/// How many routes there may have been of which the primary has not heard: it hears of those under which it is asked for locks.
const UNHEARD: u64 = 16;

/// How long a store may take to answer an operator.
const LIMIT: Duration = Duration::from_secs(5);

impl Fallback {
    /// The route as the arbiter knows it; none if there never was one. Changes nothing, and acts on nothing that this client
    /// has heard before.
    ///
    /// # Errors
    /// The arbiter can't say.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn route(&self) -> Result<Option<Reading>> {
        limited(LIMIT, self.stores.arbiter().route()).await
    }

    /// The operator's step after the arbiter's data was lost or restored (a backup, a promoted copy), taken before any client
    /// reads the route again: goes to a route that is two above all that may be known (the arbiter's own, a few more than the largest that the primary
    /// has seen, and `seen`), and has all ticks up to now count as claimed. Answers its number. See
    /// [`Arbiter::repair`](crate::store::Arbiter::repair).
    ///
    /// # Errors
    /// A store can't be asked. The primary need not be, if `seen` says what clients have seen: their errors name it.
    ///
    /// # Cancel safety
    /// A call that is dropped may have been carried out; done again, it goes two higher, which does no harm.
    pub async fn repair(&self, seen: Option<Epoch>) -> Result<Epoch> {
        let serving = limited(LIMIT, self.stores.primary().serves()).await;
        let seen = match (serving, seen) {
            (Ok(serving), seen) => serving.watermark.later(UNHEARD).max(seen.unwrap_or_default()),
            (Err(_), Some(seen)) => seen,
            (Err(error), None) => {
                let message = format!(
                    "the primary can't say which routes it has seen ({error}); say the largest that clients have seen, which \
                     their errors name"
                );
                return Err(Error::new(ErrorKind::Unavailable, message).with_source(error));
            }
        };
        limited(LIMIT, self.stores.arbiter().repair(seen, &self.shared().terms)).await
    }
}
