//! Leases go along with the route, so that who holds one goes on holding it.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};

use super::holders::Move;
use super::shared::{Shared, limited};
use super::stores::{Side, Stores};
use crate::error::Applied;
use crate::rule::Rule;
use crate::store::{Refusal, Route};
use crate::validity::{self, Moment};

/// How many are under way at the same time.
const AT_ONCE: usize = 64;

/// How many leases one request renews.
const BATCH: usize = 100;

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
                self.look_back(stores, &due).await;
                stream::iter(due).for_each_concurrent(AT_ONCE, |moved| self.carry(stores, moved)).await;
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    /// Renews them on the store that is left, if that answers. What is gone or revoked there must not live on elsewhere; and a
    /// lease has to keep others out there until nobody acquires there any more.
    async fn look_back(&self, stores: &Stores, due: &[Move]) {
        let asked =
            due.chunk_by(|one, other| one.from == other.from).flat_map(|same| same.chunks(BATCH)).map(|batch| {
                let leases: Vec<_> = batch.iter().map(|moved| (moved.lease.key.clone(), moved.lease.ttl)).collect();
                // Most often it is away: that is why they move.
                let limit =
                    batch.iter().map(|moved| moved.lease.ttl / 3).fold(self.settings.route_lease / 8, Duration::min);
                let renewed = async move { Ok(self.renew_under(stores, &leases, &batch[0].from).await) };
                async move { limited(limit, Box::pin(renewed)).await }
            });
        let _ = join_all(asked).await;
    }

    /// Tries it once. One that goes wrong is tried again as long as there is time; else the hold ends with its route.
    async fn carry(&self, stores: &Stores, moved: Move) {
        let sent = self.now();
        let Some(moved) = self.holders().moves(&moved, sent) else { return };
        let limit = (self.settings.route_lease / 4).min(moved.lease.ttl / 3);
        match limited(limit, stores.tagged(&moved.to.target).carry(&moved.lease, &moved.to)).await {
            Ok(Ok(())) => self.carried(&moved, sent),
            Ok(Err(Refusal::Revoked)) => self.holders().revoked(&moved),
            // Another route or incarnation may come, and who is in the way may go.
            Ok(Err(refusal)) => drop(self.refused(&moved.to, refusal)),
            // It may have arrived, or may still: behind it whoever has ended meanwhile ends there, too.
            Err(error) if error.applied() == Applied::Maybe && !self.holders().is_somebodys(moved.lease.key.holder) => {
                self.clear_behind(&moved, &moved.to);
            }
            Err(_) => {}
        }
    }

    fn clear_behind(&self, moved: &Move, on: &Route) {
        drop(self.leave_over(moved.lease.key.clone(), Side::of(&on.target), moved.lease.ttl));
    }

    fn carried(&self, moved: &Move, sent: Moment) {
        let is_somebodys = self.holders().moved(moved, validity::until(sent, moved.lease.ttl), self.now());
        if !is_somebodys {
            return self.clear_behind(moved, &moved.to);
        }
        if !Rule::NoCleanUpBehindACarry.holds() {
            self.clear_behind(moved, &moved.from);
        }
    }
}
