//! Leases go along with the route, so that who holds one goes on holding it.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;

use super::holders::Move;
use super::shared::{Shared, limited};
use super::stores::{Side, Stores};
use crate::rule::Rule;
use crate::validity;

/// How many are under way at the same time.
const AT_ONCE: usize = 64;

/// How soon one that failed is tried again.
const RETRY: Duration = Duration::from_millis(200);

impl Shared {
    /// Carries all leases along that a pending route leaves behind, until that is done or it is too late.
    pub async fn carry_all(&self, stores: &Stores) {
        loop {
            self.bells.carry.notified().await;
            loop {
                let due = self.holders().to_carry(self.now());
                if due.is_empty() {
                    break;
                }
                stream::iter(due).for_each_concurrent(AT_ONCE, |moved| self.carry(stores, moved)).await;
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    /// Tries it once. One that goes wrong is tried again as long as there is time; else the hold ends with its route.
    async fn carry(&self, stores: &Stores, moved: Move) {
        let limit = self.limit(&moved);
        if moved.is_too_short {
            // On the store that is left; it has to keep others out there until nobody acquires there any more.
            let lease = [(moved.lease.key.clone(), moved.lease.ttl)];
            let renewed = self.renew_under(stores, &lease, &moved.from);
            if tokio::time::timeout(limit, renewed).await.is_err() {
                return;
            }
        }
        let sent = self.now();
        if !self.holders().moves(&moved, sent) {
            return;
        }
        let carried = limited(limit, stores.tagged(&moved.to.target).carry(&moved.lease, &moved.to)).await;
        if !matches!(carried, Ok(Ok(()))) {
            return;
        }
        let is_somebodys = self.holders().moved(&moved, validity::until(sent, moved.lease.ttl), self.now());
        if !is_somebodys {
            return self.leave_over(moved.lease.key, Side::of(&moved.to.target), moved.lease.ttl);
        }
        if !Rule::NoCleanUpBehindACarry.holds() {
            self.leave_over(moved.lease.key, Side::of(&moved.from.target), moved.lease.ttl);
        }
    }

    fn limit(&self, moved: &Move) -> Duration {
        (self.settings.route_lease / 4).min(moved.lease.ttl / 3)
    }
}
