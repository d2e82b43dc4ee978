//! The end of a hold: nothing of it stays in either store.

use std::time::Duration;

use futures_util::future::join_all;

use super::holders::Traces;
use super::shared::Shared;
use super::stores::{Side, Stores};
use crate::error::Result;
use crate::lease::{Ended, LeaseKey, Release};
use crate::tick::Verdict;

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
            let on_primary = stores.on(Side::Primary).release(key, Ended { verdict: None, ..how }).await;
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
            self.leave_over(key.clone(), here.other(), traces.ttl);
        }
        self.holders().forget(key.holder);
        Ok(answer)
    }

    /// What was to be said was said, to the arbiter: that the lease is still there is no failure of the work.
    fn is_over_without_the_primary(&self, key: &LeaseKey, traces: Traces) -> Release {
        self.leave_over(key.clone(), Side::Primary, traces.ttl);
        if traces.was_valid { Release::Released } else { Release::NotHeld }
    }

    /// Takes back all that a claim may have left, wherever it was sent. A store that is away doesn't keep the others from
    /// being told; but what was claimed of a tick is taken back first, for the next holder must find that.
    pub async fn leave(&self, stores: &Stores, key: &LeaseKey) -> Result<()> {
        let traces = self.holders().ends(key.holder, self.now());
        if traces.ticked {
            let how = Ended { keep_for: Duration::ZERO, verdict: Some(Verdict::NotStarted) };
            let _ = stores.on(Side::Arbiter).release(key, how).await?;
        }
        let answers = join_all(traces.sides().map(|side| stores.on(side).leave(key))).await;
        let was_heard = traces.ticked || answers.iter().any(Result::is_ok);
        if let Err(error) = answers.into_iter().collect::<Result<Vec<()>>>() {
            return Err(if was_heard { error.maybe_applied() } else { error });
        }
        self.holders().forget(key.holder);
        Ok(())
    }
}
