//! The server's leases that our keys hang on: one for all of the same TTL, and one for all who wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;

use super::calls::Limit;
use super::fault::Fault;
use super::generated::KeyValue;
use super::members::Members;
use super::ours::{Ours, Own, What};
use super::txn::{Txn, one};
use super::value::{State, Value};
use crate::validity::Moment;

/// How much longer the server keeps a lease than what hangs on it is granted for: one that was prolonged less than this
/// ago is as good as new, so that not every claim has to prolong it. Also what the server's whole seconds may lack.
pub(super) const SLACK: Duration = Duration::from_secs(1);

/// How often who waits prolongs the lease of those who do.
const WAITING: Duration = Duration::from_millis(500);

/// What all leases of a client are kept in.
#[derive(Debug, Default)]
pub(super) struct Leases {
    by_seconds: Mutex<HashMap<u64, Arc<Lease>>>,
    waiters: Arc<Lease>,
}

/// One of the server's leases, granted when it is first needed, and again once it has ended.
#[derive(Debug, Default)]
struct Lease {
    live: Mutex<Option<Live>>,
    /// One grant at a time.
    granting: tokio::sync::Mutex<()>,
    /// One renewal at a time, apart from the above: a claim on a runtime that hangs must not hold renewals up.
    renewing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone, Copy)]
struct Live {
    id: i64,
    /// When the last message was sent that has prolonged it.
    kept: Moment,
}

/// The whole seconds that a TTL takes.
pub(super) fn seconds(ttl: Duration) -> u64 {
    ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)
}

impl Leases {
    fn lease(&self, seconds: u64) -> Arc<Lease> {
        let mut by_seconds = self.by_seconds.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(by_seconds.entry(seconds).or_default())
    }

    /// The lease of all that is granted for `ttl`. What is put on it now lasts that long.
    pub async fn fresh(&self, members: &Members, ours: &Ours, ttl: Duration) -> Result<i64, Fault> {
        let lease = self.lease(seconds(ttl));
        lease.fresh(members, ours, seconds(ttl + SLACK), Limit::of(ttl), SLACK).await
    }

    /// The lease of those who wait: as short as the server gives one, so that who is dead is passed over soon.
    pub async fn waiting(&self, members: &Members, ours: &Ours, ttl: Duration) -> Result<i64, Fault> {
        self.waiters.fresh(members, ours, 1, Limit::of(ttl), WAITING).await
    }

    /// A lease that may have ended: it is asked for before anything else is put on it.
    pub fn doubt(&self, id: i64) {
        let by_seconds = self.by_seconds.lock().unwrap_or_else(PoisonError::into_inner);
        for lease in by_seconds.values().chain([&self.waiters]) {
            let mut held = lease.held();
            if let Some(live) = held.as_mut().filter(|live| live.id == id) {
                live.kept = Moment::from_nanos(0);
            }
        }
    }

    /// How long what hangs on one of our leases is granted for; none if it is no lease of ours.
    pub fn ttl_of(&self, id: i64) -> Option<Duration> {
        let by_seconds = self.by_seconds.lock().unwrap_or_else(PoisonError::into_inner);
        let found = by_seconds.iter().find(|(_, lease)| lease.live().is_some_and(|live| live.id == id));
        found.map(|(seconds, _)| Duration::from_secs(*seconds))
    }

    /// Prolongs a lease of ours for renewals that were sent at `sent`; false if it is no more.
    pub async fn renew(
        &self,
        members: &Members,
        ours: &Ours,
        id: i64,
        ttl: Duration,
        sent: Moment,
    ) -> Result<bool, Fault> {
        let of_it = |lease: &&Arc<Lease>| lease.live().is_some_and(|live| live.id == id);
        let lease = self.by_seconds.lock().unwrap_or_else(PoisonError::into_inner).values().find(of_it).cloned();
        let Some(lease) = lease else { return Ok(false) };
        let _first = lease.renewing.lock().await;
        if lease.live().is_some_and(|live| live.id == id && live.kept + SLACK >= sent) {
            return Ok(true);
        }
        lease.keep(members, ours, id, Limit::of(ttl)).await
    }
}

impl Lease {
    fn live(&self) -> Option<Live> {
        *self.held()
    }

    fn held(&self) -> MutexGuard<'_, Option<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lease that was prolonged less than `recent` ago.
    async fn fresh(
        &self,
        members: &Members,
        ours: &Ours,
        seconds: u64,
        limit: Limit,
        recent: Duration,
    ) -> Result<i64, Fault> {
        if let Some(live) = self.live().filter(|live| live.kept + recent > ours.now()) {
            return Ok(live.id);
        }
        let _first = self.granting.lock().await;
        if let Some(live) = self.live()
            && (live.kept + recent > ours.now() || self.keep(members, ours, live.id, limit).await?)
        {
            return Ok(live.id);
        }
        let kept = ours.now();
        let id = members.grant(limit, seconds).await?;
        *self.held() = Some(Live { id, kept });
        Ok(id)
    }

    /// Prolongs it, without what is not to be prolonged; false if it is no more.
    async fn keep(&self, members: &Members, ours: &Ours, id: i64, limit: Limit) -> Result<bool, Fault> {
        clear_away(members, ours, id, limit).await?;
        let sent = ours.now();
        let is_alive = members.keep_alive(limit, id).await?;
        let mut held = self.held();
        if let Some(live) = held.as_mut().filter(|live| live.id == id) {
            if is_alive {
                live.kept = live.kept.max(sent);
            } else {
                *held = None;
                ours.forget_unsure_of(id); // Nothing comes to hang on it any more.
            }
        }
        Ok(is_alive)
    }
}

/// Deletes what hangs on the lease and is over.
async fn clear_away(members: &Members, ours: &Ours, lease: i64, limit: Limit) -> Result<(), Fault> {
    let clear = |(key, own): (Vec<u8>, Own)| async move { clear(members, ours, &key, &own, limit).await };
    let cleared = join_all(ours.leftovers(lease).into_iter().map(clear)).await;
    cleared.into_iter().collect()
}

/// Deletes a key as it was found: a copy of the message that comes late hits nothing that was put there since.
async fn clear(members: &Members, ours: &Ours, key: &[u8], own: &Own, limit: Limit) -> Result<(), Fault> {
    let found = members.read(limit, Txn::default().look([one(key)])).await?.key(0);
    if ours.get(key) != Some(*own) {
        return Ok(()); // It is counted on again.
    }
    let Some(found) = found.filter(|found| is_over(found, own.what)) else {
        if !ours.may_come(own) {
            ours.forget_same(key, own);
        }
        return Ok(());
    };
    let txn = Txn::default().if_modified_at(key, found.mod_revision).delete(key);
    if members.repeat(limit, txn).await?.held {
        ours.forget_same(key, own);
    }
    Ok(())
}

/// Whether what was found is what is over. A holder may have come again meanwhile, and a waiter's turn; and a minimum hold
/// runs on, on a lease of its own.
fn is_over(found: &KeyValue, what: What) -> bool {
    let is_same = match what {
        What::Unsure { .. } => true,
        What::Held(held) => found.create_revision == held.created,
        What::Waits(waits) => found.mod_revision == waits.modified,
    };
    is_same && Value::read(&found.value).is_none_or(|value| value.state != State::Kept)
}
