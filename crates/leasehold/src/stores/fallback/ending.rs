//! The end of a hold: nothing of it stays in either store.

use std::time::Duration;

use super::shared::Shared;
use super::stores::{Side, Stores};
use crate::error::Result;
use crate::lease::{Ended, LeaseKey, Release};
use crate::tick::Verdict;

impl Shared {
    /// The arbiter hears of the tick first, and the lease ends after that: the next holder must find what was said.
    pub async fn release(&self, stores: &Stores, key: &LeaseKey, how: Ended) -> Result<Release> {
        let traces = self.holders().ends(key.holder);
        let here = traces.at.unwrap_or(if traces.primary { Side::Primary } else { Side::Arbiter });
        let needs_arbiter = how.verdict.is_some() || here == Side::Arbiter || traces.at.is_none() && traces.arbiter;
        let mut answer = Release::NotHeld;
        if needs_arbiter {
            let keep_for = if here == Side::Arbiter { how.keep_for } else { Duration::ZERO };
            answer = stores.on(Side::Arbiter).release(key, Ended { keep_for, ..how }).await?;
        }
        if here == Side::Primary {
            let on_primary = stores.on(Side::Primary).release(key, Ended { verdict: None, ..how }).await?;
            if traces.at.is_some() || on_primary == Release::Released {
                answer = on_primary;
            }
        } else if traces.primary {
            self.leave_over(key.clone(), Side::Primary, traces.ttl);
        }
        if here == Side::Primary && traces.arbiter && !needs_arbiter {
            self.leave_over(key.clone(), Side::Arbiter, traces.ttl);
        }
        self.holders().forget(key.holder);
        Ok(answer)
    }

    /// Takes back all that a claim may have left, wherever it was sent.
    pub async fn leave(&self, stores: &Stores, key: &LeaseKey) -> Result<()> {
        let traces = self.holders().ends(key.holder);
        if traces.ticked && !traces.arbiter {
            let how = Ended { keep_for: Duration::ZERO, verdict: Some(Verdict::NotStarted) };
            let _ = stores.on(Side::Arbiter).release(key, how).await?;
        }
        for side in [Side::Arbiter, Side::Primary] {
            if traces.are_on(side) {
                stores.on(side).leave(key).await?;
            }
        }
        self.holders().forget(key.holder);
        Ok(())
    }
}
