//! How a hold ends, and a wait.

use std::time::Duration;

use super::Core;
use super::calls::Limit;
use super::fault::Fault;
use super::generated::KeyValue;
use super::leases::seconds;
use super::marks;
use super::txn::{Txn, one};
use super::value::{State, Value};
use super::view::Marked;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Ended, LeaseKey, Release};
use crate::tick::Verdict;

/// How often it is tried anew since others have said something of the lock's ticks meanwhile.
const TRIES: usize = 100;

/// Who ends, and how.
struct Ending<'a> {
    core: &'a Core,
    lease: &'a LeaseKey,
    key: Vec<u8>,
    ticks: Vec<u8>,
    how: Ended,
    /// Whether a place in the queue is given up, too.
    leaves: bool,
}

/// How it stands with a key of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// There is none, or a minimum hold runs on it.
    Nothing,
    Held,
    /// Its time was over before.
    Over,
    Waits,
}

impl Core {
    pub(super) async fn release(&self, lease: &LeaseKey, how: Ended) -> Result<Release> {
        let key = self.options.keys.contender(&lease.name, lease.holder);
        let mut turn = self.shared.turns.next(&key);
        turn.comes().await;
        if how == Ended::default()
            && let Some(held) = self.shared.ours.held(&key).filter(|_| !self.shared.ours.is_over(&key))
        {
            let txn = Txn::default().if_created_at(&key, held.created).delete(&key);
            let done = self.members.change(Limit::LONGEST, txn).await.map_err(|fault| self.told(fault))?;
            self.shared.ours.forget(&key);
            return Ok(if done.held { Release::Released } else { Release::NotHeld });
        }
        self.end(lease, key, how, false).await
    }

    pub(super) async fn leave(&self, waiter: &LeaseKey) -> Result<()> {
        let key = self.options.keys.contender(&waiter.name, waiter.holder);
        let mut turn = self.shared.turns.next(&key);
        turn.comes().await;
        let how = Ended { verdict: Some(Verdict::NotStarted), ..Ended::default() };
        self.end(waiter, key, how, true).await.map(drop)
    }

    async fn end(&self, lease: &LeaseKey, key: Vec<u8>, how: Ended, leaves: bool) -> Result<Release> {
        let ticks = self.options.keys.ticks(&lease.name);
        Ending { core: self, lease, key, ticks, how, leaves }.run().await
    }
}

impl Ending<'_> {
    async fn run(&self) -> Result<Release> {
        let kept = self.lease_of_minimum_hold().await?;
        for _ in 0..TRIES {
            if let Some(release) = self.once(kept).await? {
                return Ok(release);
            }
        }
        let crowd = format!(
            "{}: so much is said of the ticks of {} that nothing gets through",
            self.core.options.shown, self.lease.name
        );
        Err(Error::new(ErrorKind::Unavailable, crowd))
    }

    /// One try; nothing if others have come in between.
    async fn once(&self, kept: Option<i64>) -> Result<Option<Release>> {
        let Core { members, shared, .. } = self.core;
        let looking = Txn::default().look([one(&self.key), one(&self.ticks)]);
        let mut done = members.read(Limit::LONGEST, looking).await.map_err(|fault| self.told(fault))?;
        let (own, before) = (done.key(0), Marked::read(done.key(1))?);
        let standing = self.standing(own.as_ref());
        let mut after = before.marks.clone();
        if let Some(verdict) = self.how.verdict {
            after.judge(self.lease.holder, verdict);
        }
        let mut txn = None;
        if let Some(own) = own.as_ref().filter(|_| standing != Standing::Nothing) {
            let changing = Txn::default().if_modified_at(&self.key, own.mod_revision);
            txn = self.changed(changing, standing, own, kept);
        }
        if after != before.marks {
            // Remembered from its end on.
            let _ = members.keep_alive(Limit::LONGEST, before.lease).await;
            let changing = txn.unwrap_or_default().if_modified_at(&self.ticks, before.modified);
            txn = Some(changing.put_value(&self.ticks, marks::text(&after)));
        }
        if let Some(txn) = txn
            && !members.change(Limit::LONGEST, txn).await.map_err(|fault| self.told(fault))?.held
        {
            return Ok(None);
        }
        if standing != Standing::Waits || self.leaves {
            self.core.watches.unfollow(&self.lease.name, &self.key);
            // What is not there may come yet, and must not stay then.
            if own.is_some() || !shared.ours.is_unsure(&self.key) {
                shared.ours.forget(&self.key);
            }
        }
        Ok(Some(if standing == Standing::Held { Release::Released } else { Release::NotHeld }))
    }

    fn standing(&self, own: Option<&KeyValue>) -> Standing {
        match own.and_then(|own| Value::read(&own.value)).map(|value| value.state) {
            Some(State::Held | State::Revoked) if self.core.shared.ours.is_over(&self.key) => Standing::Over,
            Some(State::Held | State::Revoked) => Standing::Held,
            Some(State::Waits) => Standing::Waits,
            Some(State::Kept) | None => Standing::Nothing,
        }
    }

    /// What becomes of the key.
    fn changed(&self, txn: Txn, standing: Standing, own: &KeyValue, kept: Option<i64>) -> Option<Txn> {
        match standing {
            Standing::Waits => self.leaves.then(|| txn.delete(&self.key)),
            Standing::Held if kept.is_some() => {
                let value = Value { state: State::Kept, ..Value::read(&own.value)? };
                Some(txn.put(&self.key, value.text(), kept?))
            }
            _ => Some(txn.delete(&self.key)),
        }
    }

    /// A minimum hold has a lease of its own.
    async fn lease_of_minimum_hold(&self) -> Result<Option<i64>> {
        if self.how.keep_for == Duration::ZERO {
            return Ok(None);
        }
        let granted = self.core.members.grant(Limit::LONGEST, seconds(self.how.keep_for)).await;
        granted.map(Some).map_err(|fault| self.told(fault.surely()))
    }

    fn told(&self, fault: Fault) -> Error {
        self.core.told(fault)
    }
}
