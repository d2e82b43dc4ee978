//! What operators see of the route, and the one step that is theirs.

use std::time::Duration;

use super::Fallback;
use super::shared::{limited, lost, traced};
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Epoch, Reading};

/// How many routes there may have been of which the primary has not heard: it hears of those under which it is asked for locks.
const UNHEARD: u64 = 16;

/// More than will ever be switched, and far from the last that a token has room for: numbers only grow.
const LARGEST: Epoch = Epoch::new(Epoch::LAST.number() / 2);

/// How long a store may take to answer an operator.
const LIMIT: Duration = Duration::from_secs(5);

impl Fallback {
    /// The route as the arbiter knows it; none if there never was one. Changes nothing, and acts on nothing that this client
    /// has heard before.
    ///
    /// # Errors
    /// The arbiter can't say. It has none, and there was one ([`ErrorKind::Misconfigured`]); or whether there was, the primary
    /// can't say. (A store whose leases can't be listed is taken to have none of it.)
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn route(&self) -> Result<Option<Reading>> {
        let reading = limited(LIMIT, self.stores.arbiter().route()).await?;
        if reading.is_none() {
            self.check_that_there_was_none().await?;
        }
        Ok(reading)
    }

    /// Of a route that was lost the primary has heard, or leases in either store have its number in their tokens.
    async fn check_that_there_was_none(&self) -> Result<()> {
        let unknown = |error: Error| {
            error.context("the arbiter knows of no route, and the primary can't say whether there was one")
        };
        let (_, seen) = traced(&self.stores, (LIMIT, LIMIT)).await.map_err(unknown)?;
        if seen > Epoch::default() { Err(lost(seen)) } else { Ok(()) }
    }

    /// The operator's step after the arbiter's data was lost or restored (a backup, a promoted copy), taken before any client
    /// reads the route again: goes to a route that is two above all that may be known (the arbiter's own, a few more than the largest that the primary
    /// has seen, and `seen`), and has all ticks up to now count as claimed. Answers its number. See
    /// [`Arbiter::repair`](crate::store::Arbiter::repair).
    ///
    /// # Errors
    /// A store can't be asked. The primary need not be, nor have its data, if `seen` says what clients have seen: their errors name it.
    /// [`ErrorKind::Invalid`]: no route has come so far.
    ///
    /// # Cancel safety
    /// A call that is dropped may have been carried out; done again, it goes two higher, which does no harm.
    pub async fn repair(&self, seen: Option<Epoch>) -> Result<Epoch> {
        let seen = match seen {
            Some(seen) => seen.max(self.heard_by_the_primary().await.unwrap_or_default()),
            None => self.heard_by_the_primary().await.map_err(|why| {
                let message = format!("{why}; say the largest route that clients have seen, which their errors name");
                Error::new(ErrorKind::Unavailable, message)
            })?,
        };
        if seen > LARGEST {
            let message = format!(
                "{seen} is no route's number: the largest that may be set is {LARGEST}; say what clients' errors name"
            );
            return Err(Error::invalid(message));
        }
        limited(LIMIT, self.stores.arbiter().repair(seen, &self.shared().terms)).await
    }

    /// What the routes may have come to by what the primary has heard of them; why that can't be known.
    async fn heard_by_the_primary(&self) -> Result<Epoch, String> {
        let serving = limited(LIMIT, self.stores.primary().serves()).await;
        let watermark =
            serving.map_err(|error| format!("the primary can't say which routes it has seen ({error})"))?.watermark;
        if watermark == Epoch::default() {
            return Err("the primary has seen no route, so it has lost its data, too".into());
        }
        Ok(watermark.later(UNHEARD))
    }
}
