//! How leases are renewed: a look at all keys of a batch, and one message for each of the server's leases.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::{join, join_all};

use super::calls::Limit;
use super::fault::Fault;
use super::generated::KeyValue;
use super::leases::seconds;
use super::looks::Found;
use super::ours::{Held, What};
use super::txn::Txn;
use super::value::{State, Value};
use super::{Core, again};
use crate::error::Result;
use crate::lease::{LeaseKey, Renewal};
use crate::validity::Moment;

/// What has become of the server's leases: alive or not, or not known.
type Kept = BTreeMap<i64, Result<bool, Fault>>;

/// A batch on its way.
struct Batch<'a> {
    core: &'a Core,
    leases: &'a [(LeaseKey, Duration)],
    keys: Vec<Vec<u8>>,
    limit: Limit,
    sent: Moment,
}

impl Core {
    /// An answer for each, in order.
    pub(super) async fn renew(&self, leases: &[(LeaseKey, Duration)]) -> Vec<Result<Renewal>> {
        let Some(shortest) = leases.iter().map(|(_, ttl)| *ttl).min() else { return Vec::new() };
        let key = |(lease, _): &(LeaseKey, Duration)| self.options.keys.contender(&lease.name, lease.holder);
        let keys = leases.iter().map(key).collect();
        let batch = Batch { core: self, leases, keys, limit: Limit::of(shortest), sent: self.shared.ours.now() };
        batch.run().await
    }
}

impl Batch<'_> {
    async fn run(&self) -> Vec<Result<Renewal>> {
        // What is looked at and what is prolonged may come in either order: both have to be answered.
        let look = self.core.looks.at(&self.core.members, self.keys.clone(), self.limit);
        let (found, kept) = join(look, self.keep()).await;
        join_all(found.into_iter().enumerate().map(|(nth, found)| self.answer(nth, found, &kept))).await
    }

    /// Prolongs the leases that the batch hangs on, and those of the ticks that are being run.
    async fn keep(&self) -> Kept {
        let Core { members, shared, .. } = self.core;
        let own: Vec<_> = self.keys.iter().filter_map(|key| shared.ours.get(key)).collect();
        let hung_on: BTreeSet<_> = own.iter().map(|own| own.lease).collect();
        let marks = own.iter().filter_map(|own| match own.what {
            What::Held(held) => held.marks,
            _ => None,
        });
        let marks = join_all(marks.map(|lease| members.keep_alive(self.limit, lease)));
        let keep = |lease| async move {
            let ttl = shared.leases.ttl_of(lease).unwrap_or_default();
            (lease, shared.leases.renew(members, &shared.ours, lease, ttl.min(self.shortest()), self.sent).await)
        };
        let (kept, _) = join(join_all(hung_on.into_iter().map(keep)), marks).await;
        kept.into_iter().collect()
    }

    fn shortest(&self) -> Duration {
        self.leases.iter().map(|(_, ttl)| *ttl).min().unwrap_or_default()
    }

    async fn answer(&self, nth: usize, found: Found, kept: &Kept) -> Result<Renewal> {
        let (key, ttl) = (&self.keys[nth], self.leases[nth].1);
        let ours = &self.core.shared.ours;
        let found = found.map_err(|fault| self.core.told(fault))?;
        let Some((found, value)) = found.and_then(|found| Value::read(&found.value).map(|value| (found, value))) else {
            return Ok(Renewal::Gone);
        };
        let known = ours.held(key);
        match value.state {
            State::Waits | State::Kept => return Ok(Renewal::Gone),
            State::Held | State::Revoked if known.is_some_and(|known| known.ends <= self.sent) => {
                return Ok(Renewal::Gone);
            }
            State::Revoked => return Ok(Renewal::Revoked),
            State::Held => {}
        }
        let suffices = |lease| {
            let of_it = self.core.shared.leases.ttl_of(lease);
            of_it.is_some_and(|of_it| seconds(of_it) >= seconds(ttl))
        };
        match kept.get(&found.lease) {
            Some(Ok(true)) if suffices(found.lease) && known.is_some() => {
                Ok(if ours.prolong(key, ttl) { Renewal::Renewed } else { Renewal::Gone })
            }
            Some(Ok(false)) => Ok(Renewal::Gone),
            Some(Err(fault)) => Err(again(&self.core.told(fault.clone()))),
            _ => self.move_over(key, &found, ttl, known).await.map_err(|fault| self.core.told(fault)),
        }
    }

    /// Hangs a key on another lease: a longer one, or one of this client.
    async fn move_over(
        &self,
        key: &[u8],
        found: &KeyValue,
        ttl: Duration,
        known: Option<Held>,
    ) -> Result<Renewal, Fault> {
        let Core { members, shared, .. } = self.core;
        let lease = shared.leases.fresh(members, &shared.ours, ttl).await?;
        let txn = Txn::default().if_modified_at(key, found.mod_revision).hang_on(key, lease);
        if !members.change(self.limit, txn).await?.held {
            return Err(Fault::changed());
        }
        let now = shared.ours.now();
        let ends = known.map_or(now, |known| known.ends).max(now + ttl);
        let (since, marks) = known.map_or((now, None), |known| (known.since, known.marks));
        shared.ours.note(key, lease, What::Held(Held { created: found.create_revision, since, ends, marks }));
        Ok(Renewal::Renewed)
    }
}
