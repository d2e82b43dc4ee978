//! The end of a hold: nothing of it stays in either store.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join_all};
use tokio::runtime::Handle;

use super::holders::Traces;
use super::shared::{Shared, limited};
use super::stores::{Side, Stores};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Ended, LeaseKey, Release};
use crate::store::Store;
use crate::tick::Verdict;

/// How long a call over another's handle may take.
const LONGEST: Duration = Duration::from_secs(5);

impl Shared {
    /// The arbiter hears of the tick first, and the lease ends after that: the next holder must find what was said.
    pub async fn release(&self, stores: &Stores, key: &LeaseKey, how: Ended) -> Result<Release> {
        let traces = self.holders().ends(key.holder, self.now());
        let here = traces.at.unwrap_or(if traces.primary { Side::Primary } else { Side::Arbiter });
        let needs_arbiter = how.verdict.is_some() || here == Side::Arbiter || traces.at.is_none() && traces.arbiter;
        let mut answer = Release::NotHeld;
        if needs_arbiter {
            let keep_for = if here == Side::Arbiter { how.keep_for } else { Duration::ZERO };
            answer = stores.on(Side::Arbiter).release(key, Ended { keep_for, ..how }).await?;
        }
        if here == Side::Primary {
            let call = stores.on(Side::Primary).release(key, Ended { verdict: None, ..how });
            // What was said to the arbiter is to be answered, though the primary is silent.
            let on_primary =
                if how.verdict.is_some() { limited(self.settings.primary_limit(), call).await } else { call.await };
            let on_primary = match on_primary {
                Err(_) if how.verdict.is_some() && how.keep_for.is_zero() => {
                    self.is_over_without_the_primary(key, traces)
                }
                Err(error) if needs_arbiter => return Err(error.maybe_applied()),
                told => told?,
            };
            if traces.at.is_some() || on_primary == Release::Released {
                answer = on_primary;
            }
        }
        // A carry may be under way there, whatever has been said there already.
        if traces.are_on(here.other()) {
            self.clear(key.clone(), here.other(), traces.ttl).await;
        }
        self.holders().forget(key.holder);
        Ok(answer)
    }

    /// What was to be said was said, to the arbiter: that the lease is still there is no failure of the work.
    fn is_over_without_the_primary(&self, key: &LeaseKey, traces: Traces) -> Release {
        drop(self.leave_over(key.clone(), Side::Primary, traces.ttl));
        if traces.was_valid { Release::Released } else { Release::NotHeld }
    }

    /// Takes back all that a claim may have left, wherever it was sent. A store that is away doesn't keep the others from
    /// being told; but what was claimed of a tick is taken back first, for the next holder must find that.
    pub async fn leave(&self, stores: &Stores, key: &LeaseKey) -> Result<()> {
        let traces = self.holders().ends(key.holder, self.now());
        if traces.ticked {
            let how = Ended { keep_for: Duration::ZERO, verdict: Some(Verdict::NotStarted) };
            let said = self.behind_its_claims(stores, key, Side::Arbiter, move |store, key| {
                async move { store.release(&key, how).await }.boxed()
            });
            let _ = said.await?;
        }
        let leave = |side| {
            self.behind_its_claims(stores, key, side, |store, key| async move { store.leave(&key).await }.boxed())
        };
        let answers = join_all(traces.sides().map(leave)).await;
        let was_heard = traces.ticked || answers.iter().any(Result::is_ok);
        if let Err(error) = answers.into_iter().collect::<Result<Vec<()>>>() {
            return Err(if was_heard { error.maybe_applied() } else { error });
        }
        self.holders().forget(key.holder);
        Ok(())
    }

    /// Calls a store over the handle over which the holder's last claim went there, so as not to overtake it; once, for the
    /// order is lost if that fails. Who repeats it may do so from the keeper's thread, and that handle may do its work on
    /// the thread that asks.
    async fn behind_its_claims<T: Send + 'static>(
        &self,
        stores: &Stores,
        key: &LeaseKey,
        side: Side,
        call: impl FnOnce(Arc<dyn Store>, LeaseKey) -> BoxFuture<'static, Result<T>>,
    ) -> Result<T> {
        let own = stores.handle(side);
        let over = self.holders().claimed_over(key.holder, side).filter(|over| !Arc::ptr_eq(over, &own));
        let is_elsewhere = over.is_some();
        let call = call(over.unwrap_or(own), key.clone());
        if !is_elsewhere || self.settings.simulated {
            return call.await;
        }
        let runtime = Handle::current();
        let elsewhere = tokio::task::spawn_blocking(move || runtime.block_on(limited(LONGEST, call)));
        elsewhere.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a thread ended").maybe_applied()))
    }
}
