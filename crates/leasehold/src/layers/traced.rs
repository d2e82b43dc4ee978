//! A span around every call.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tracing::Instrument;

use crate::error::Result;
use crate::finding::Finding;
use crate::lease::{Attempt, Claim, Ended, HolderId, Holding, LeaseKey, Release, Renewal, Revoke, Waiter};
use crate::member::Member;
use crate::name::LockName;
use crate::store::{
    Arbiter, Listener, Note, NoteId, Noted, Notes, Primary, Search, Store, Tables, Topic, Traits, WakeUps,
};

/// Puts each call into a `tracing` span named `leasehold.<operation>`, with the store's kind and the lock's
/// name; failures are events in it.
#[derive(Debug)]
pub struct Traced {
    inner: Arc<dyn Store>,
    kind: &'static str,
}

impl Traced {
    /// `inner`, traced.
    pub fn over(inner: Arc<dyn Store>) -> Self {
        let kind = inner.traits().kind;
        Self { inner, kind }
    }
}

async fn told<T>(call: BoxFuture<'_, Result<T>>) -> Result<T> {
    let answer = call.await;
    if let Err(error) = &answer {
        tracing::debug!(%error, kind = ?error.kind(), applied = ?error.applied(), "the store failed");
    }
    answer
}

macro_rules! traced {
    ($self:ident, $operation:literal, $name:expr, $call:expr) => {
        Box::pin(told($call).instrument(tracing::debug_span!($operation, store = $self.kind, name = %$name)))
    };
}

#[deny(clippy::missing_trait_methods)]
impl Store for Traced {
    fn traits(&self) -> Traits {
        self.inner.traits()
    }

    fn for_keeper(&self) -> Arc<dyn Store> {
        Arc::new(Self::over(self.inner.for_keeper()))
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        traced!(self, "leasehold.acquire", claim.name, self.inner.try_acquire(claim))
    }

    fn leave<'a>(&'a self, waiter: &'a LeaseKey) -> BoxFuture<'a, Result<()>> {
        traced!(self, "leasehold.leave", waiter.name, self.inner.leave(waiter))
    }

    fn renew<'a>(&'a self, leases: &'a [(LeaseKey, Duration)]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        let span = tracing::debug_span!("leasehold.renew", store = self.kind, leases = leases.len());
        Box::pin(self.inner.renew(leases).instrument(span))
    }

    fn release<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        traced!(self, "leasehold.release", lease.name, self.inner.release(lease, how))
    }

    fn subscribe<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        traced!(self, "leasehold.subscribe", name, self.inner.subscribe(name))
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Holding>>> {
        traced!(self, "leasehold.inspect", name, self.inner.inspect(name))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Holding>>> {
        traced!(self, "leasehold.list", "*", self.inner.list())
    }

    fn queue<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Vec<Waiter>>> {
        traced!(self, "leasehold.queue", name, self.inner.queue(name))
    }

    fn revoke<'a>(
        &'a self,
        name: &'a LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> BoxFuture<'a, Result<Option<Holding>>> {
        traced!(self, "leasehold.revoke", name, self.inner.revoke(name, holder, how))
    }

    fn reset_marks<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<bool>> {
        traced!(self, "leasehold.reset_marks", name, self.inner.reset_marks(name))
    }

    fn time(&self) -> BoxFuture<'_, Result<Duration>> {
        traced!(self, "leasehold.time", "*", self.inner.time())
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        traced!(self, "leasehold.diagnose", "*", self.inner.diagnose())
    }

    fn listen(&self, listener: Weak<Listener>) {
        self.inner.listen(listener);
    }

    fn tables(&self) -> Option<Tables> {
        self.inner.tables()
    }

    /// Nor is it a part of a fallback.
    fn as_primary(&self) -> Option<&dyn Primary> {
        None
    }

    fn as_arbiter(&self) -> Option<&dyn Arbiter> {
        None
    }

    /// A layer is no store of its own: it goes around a quorum, not into it.
    fn as_member(&self) -> Option<&dyn Member> {
        None
    }

    fn as_notes(&self) -> Option<&dyn Notes> {
        self.inner.as_notes().map(|_| self as &dyn Notes)
    }
}

impl Traced {
    fn notes_below(&self) -> &dyn Notes {
        self.inner.as_notes().expect("only who keeps notes is asked for them")
    }
}

impl Notes for Traced {
    fn note<'a>(&'a self, notes: &'a [Note]) -> BoxFuture<'a, Result<()>> {
        traced!(self, "leasehold.note", "*", self.notes_below().note(notes))
    }

    fn notes<'a>(&'a self, of: &'a Search) -> BoxFuture<'a, Result<Vec<Noted>>> {
        traced!(self, "leasehold.notes", "*", self.notes_below().notes(of))
    }

    fn erase<'a>(&'a self, topic: &'a Topic, ids: &'a [NoteId]) -> BoxFuture<'a, Result<()>> {
        traced!(self, "leasehold.erase", "*", self.notes_below().erase(topic, ids))
    }
}
