//! How locks stand, as people are shown.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;

use super::calls::{Limit, Rest};
use super::fault::Fault;
use super::generated::{KeyValue, RangeRequest};
use super::leases::SLACK;
use super::revocation::UNDER_WAY;
use super::txn::below;
use super::value::State;
use super::view::{Contender, View};
use super::{Core, time_of_day};
use crate::error::Result;
use crate::lease::{FencingToken, Holder, HolderId, Holding, Waiter};
use crate::name::LockName;

/// How many keys are read in one go.
const PAGE: i64 = 1000;

/// How many leases are asked about at the same time.
const AT_ONCE: usize = 32;

/// What is left of each lease; nothing of one that is no more.
type Rests = BTreeMap<i64, Rest>;

/// How much longer the server's lease is than what is granted.
fn longer_by(state: State) -> Duration {
    match state {
        State::Held => SLACK,
        State::Revoked => SLACK + UNDER_WAY,
        State::Kept | State::Waits => Duration::ZERO,
    }
}

impl Core {
    pub(super) async fn inspect(&self, name: &LockName) -> Result<Option<Holding>> {
        let view = self.view(name).await?;
        if view.live().next().is_none() {
            return Ok(None);
        }
        self.holding(name, &view).await.map(Some)
    }

    /// A look at the keys of one lock.
    pub(super) async fn view(&self, name: &LockName) -> Result<View> {
        self.options.keys.admit(name)?;
        let prefix = self.options.keys.prefix(name);
        let found =
            self.members.range(Limit::LONGEST, &below(&prefix)).await.map_err(|fault| self.told(fault.surely()))?;
        let revision = found.header.map_or(0, |header| header.revision);
        View::read(revision, found.kvs, None, &prefix, &self.shared.ours)
    }

    /// Those behind whoever has it, theirs among them: all have a key.
    pub(super) async fn queue(&self, name: &LockName) -> Result<Vec<Waiter>> {
        let (view, now) = (self.view(name).await?, time_of_day());
        let waiter = |waiter: &Contender| match &waiter.value {
            Some(value) => Waiter {
                holder: waiter.holder,
                label: value.label.clone(),
                waited: Some(now.saturating_sub(value.since)),
            },
            None => Waiter { holder: None, label: waiter.foreign_label(), waited: None },
        };
        Ok(view.waiters().map(waiter).collect())
    }

    pub(super) async fn list(&self) -> Result<Vec<Holding>> {
        let mut found: BTreeMap<LockName, Vec<KeyValue>> = BTreeMap::new();
        for key in self.all_keys(usize::MAX).await.map_err(|fault| self.told(fault.surely()))?.0 {
            let stands_for_nobody = self.options.keys.are_of_etcdctl() && key.lease == 0;
            if let Some((name, _)) = self.options.keys.read(&key.key).filter(|_| !stands_for_nobody) {
                found.entry(name).or_default().push(key);
            }
        }
        let view = |(name, keys): (LockName, Vec<KeyValue>)| {
            let prefix = self.options.keys.prefix(&name);
            Ok((name, View::read(0, keys, None, &prefix, &self.shared.ours)?))
        };
        let mut views = found.into_iter().map(view).collect::<Result<Vec<_>>>()?;
        views.retain(|(_, view)| view.live().next().is_some());
        let rests = self.rests(views.iter().flat_map(|(_, view)| view.holders())).await;
        let rests = rests.map_err(|fault| self.told(fault.surely()))?;
        Ok(views.into_iter().map(|(name, view)| self.shown(&name, &view, &rests)).collect())
    }

    /// The keys of all locks, up to so many; whether these are all.
    pub(super) async fn all_keys(&self, most: usize) -> Result<(Vec<KeyValue>, bool), Fault> {
        let (mut from, end) = self.options.keys.all();
        let (mut keys, mut revision) = (Vec::new(), 0);
        loop {
            let range_end = end.clone();
            let page = RangeRequest { key: from, range_end, limit: PAGE, revision, ..RangeRequest::default() };
            let page = self.members.range(Limit::LONGEST, &page).await?;
            // All pages are of one moment.
            revision =
                page.header.map_or(0, |header| header.revision).min(if revision == 0 { i64::MAX } else { revision });
            let Some(last) = page.kvs.last() else { return Ok((keys, true)) };
            from = [&last.key[..], &[0]].concat();
            keys.extend(page.kvs);
            if !page.more || keys.len() >= most {
                return Ok((keys, !page.more));
            }
        }
    }

    /// How it stands. Whose lease ends first comes first.
    pub(super) async fn holding(&self, name: &LockName, view: &View) -> Result<Holding> {
        let rests = self.rests(view.holders()).await.map_err(|fault| self.told(fault.surely()))?;
        Ok(self.shown(name, view, &rests))
    }

    /// What is left of the leases of those whose time only the server knows.
    async fn rests(&self, holders: impl Iterator<Item = &Contender>) -> Result<Rests, Fault> {
        let unknown = |holder: &&Contender| holder.lease != 0 && !self.is_known(holder);
        let leases: BTreeSet<_> = holders.filter(unknown).map(|holder| holder.lease).collect();
        let ask = async |lease| Ok((lease, self.members.rest_of(lease).await?.unwrap_or_default()));
        let answers: Vec<Result<_, Fault>> = stream::iter(leases).map(ask).buffer_unordered(AT_ONCE).collect().await;
        answers.into_iter().collect()
    }

    /// Whether this client knows itself when it ends.
    fn is_known(&self, holder: &Contender) -> bool {
        holder.state() == Some(State::Held)
            && self.shared.ours.get(&holder.key).is_some_and(|own| own.lease == holder.lease)
            && self.shared.ours.held(&holder.key).is_some()
    }

    fn shown(&self, name: &LockName, view: &View, rests: &Rests) -> Holding {
        let holders = view.holders().map(|holder| self.holder(holder, rests)).collect();
        Holding { waiting: view.waiters().count() as u64, ..Holding::of(name.clone(), view.permits(), holders) }
    }

    pub(super) fn holder(&self, holder: &Contender, rests: &Rests) -> Holder {
        let token = FencingToken::new(holder.created.unsigned_abs());
        let left = rests.get(&holder.lease).map_or(Duration::ZERO, |rest| rest.left);
        let Some(value) = &holder.value else {
            let remaining = if holder.lease == 0 { Holding::NO_END } else { left };
            let (id, label, library) = (HolderId::foreign(&holder.key), holder.foreign_label(), holder.library());
            return Holder { holder: Some(id), label, library, token, remaining, ..Holder::default() };
        };
        let own = self.shared.ours.held(&holder.key).filter(|_| self.is_known(holder));
        let now = self.shared.ours.now();
        let (held_for, remaining) = match own {
            Some(own) => (now.since(own.since), own.ends.since(now)),
            None => (time_of_day().saturating_sub(value.since), left.saturating_sub(longer_by(value.state))),
        };
        let is_kept = value.state == State::Kept;
        Holder {
            holder: holder.holder.filter(|_| !is_kept),
            label: value.label.clone(),
            library: None,
            token,
            held_for,
            remaining,
            revoked: value.state == State::Revoked,
        }
    }

    /// Those who are meant by a revocation, and what is left of their leases.
    pub(super) async fn rests_of(&self, holders: &[Contender]) -> Result<Rests> {
        let leases: BTreeSet<_> = holders.iter().map(|holder| holder.lease).filter(|lease| *lease != 0).collect();
        let mut rests = Rests::new();
        for lease in leases {
            let rest = self.members.rest_of(lease).await.map_err(|fault| self.told(fault.surely()))?;
            rests.insert(lease, rest.unwrap_or_default());
        }
        Ok(rests)
    }
}
