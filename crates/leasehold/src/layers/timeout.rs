//! A limit on how long one call may take.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::lease::{Attempt, Claim, Ended, HolderId, Holding, LeaseKey, Release, Renewal, Revoke, Waiter};
use crate::member::Member;
use crate::name::LockName;
use crate::span::Span;
use crate::store::{
    Arbiter, Listener, Note, NoteId, Noted, Notes, Primary, Search, Store, Tables, Topic, Traits, WakeUps,
};

/// The longest that any call may take.
const LONGEST: Duration = Duration::from_secs(5);

/// Gives each call a limit: a sixth of the TTL that it is about, at most 5 s. What comes later counts as
/// unknown: a timeout doesn't un-send.
#[derive(Debug)]
pub struct Timeout {
    inner: Arc<dyn Store>,
}

impl Timeout {
    /// `inner`, with limits.
    pub fn over(inner: Arc<dyn Store>) -> Self {
        Self { inner }
    }
}

fn limit_for(ttl: Duration) -> Duration {
    (ttl / 6).min(LONGEST)
}

async fn limited<T>(limit: Duration, call: BoxFuture<'_, Result<T>>) -> Result<T> {
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| Err(timed_out(limit)))
}

fn timed_out(limit: Duration) -> Error {
    Error::new(ErrorKind::TimedOut, format!("the store did not answer within {}", Span(limit))).maybe_applied()
}

#[deny(clippy::missing_trait_methods)]
impl Store for Timeout {
    fn traits(&self) -> Traits {
        self.inner.traits()
    }

    fn for_keeper(&self) -> Arc<dyn Store> {
        Arc::new(Self::over(self.inner.for_keeper()))
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(limited(limit_for(claim.ttl), self.inner.try_acquire(claim)))
    }

    fn leave<'a>(&'a self, waiter: &'a LeaseKey) -> BoxFuture<'a, Result<()>> {
        Box::pin(limited(LONGEST, self.inner.leave(waiter)))
    }

    fn renew<'a>(&'a self, leases: &'a [(LeaseKey, Duration)]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        let limit = limit_for(leases.iter().map(|(_, ttl)| *ttl).min().unwrap_or(LONGEST));
        Box::pin(async move {
            match tokio::time::timeout(limit, self.inner.renew(leases)).await {
                Ok(answers) => answers,
                Err(_) => leases.iter().map(|_| Err(timed_out(limit))).collect(),
            }
        })
    }

    fn release<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        Box::pin(limited(LONGEST, self.inner.release(lease, how)))
    }

    fn subscribe<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        Box::pin(limited(LONGEST, self.inner.subscribe(name)))
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(limited(LONGEST, self.inner.inspect(name)))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Holding>>> {
        Box::pin(limited(LONGEST, self.inner.list()))
    }

    fn queue<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Vec<Waiter>>> {
        Box::pin(limited(LONGEST, self.inner.queue(name)))
    }

    fn revoke<'a>(
        &'a self,
        name: &'a LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(limited(LONGEST, self.inner.revoke(name, holder, how)))
    }

    fn reset_marks<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<bool>> {
        Box::pin(limited(LONGEST, self.inner.reset_marks(name)))
    }

    fn time(&self) -> BoxFuture<'_, Result<Duration>> {
        Box::pin(limited(LONGEST, self.inner.time()))
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(limited(LONGEST, self.inner.diagnose()))
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

impl Timeout {
    fn notes_below(&self) -> &dyn Notes {
        self.inner.as_notes().expect("only who keeps notes is asked for them")
    }
}

impl Notes for Timeout {
    fn note<'a>(&'a self, notes: &'a [Note]) -> BoxFuture<'a, Result<()>> {
        Box::pin(limited(LONGEST, self.notes_below().note(notes)))
    }

    fn notes<'a>(&'a self, of: &'a Search) -> BoxFuture<'a, Result<Vec<Noted>>> {
        Box::pin(limited(LONGEST, self.notes_below().notes(of)))
    }

    fn erase<'a>(&'a self, topic: &'a Topic, ids: &'a [NoteId]) -> BoxFuture<'a, Result<()>> {
        Box::pin(limited(LONGEST, self.notes_below().erase(topic, ids)))
    }
}
