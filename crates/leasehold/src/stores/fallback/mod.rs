//! A store made of two: a *primary* that is used as long as it can be, and an *arbiter* that is used when it can't, and
//! says at any time which of the two it is. Nobody is granted in one what another holds in the other.
//!
//! Each client knows the *route* for a short time, its route lease; a switch takes effect only when all those are over,
//! and whoever holds a lock takes its lease along meanwhile. The protocol, why it is safe and what it rests on:
//! `docs/design/0017-fallback.md`.

mod carry;
mod claim;
mod ending;
mod holders;
mod leftovers;
mod operator;
mod renewal;
mod route;
mod settings;
mod shared;
mod shown;
mod stores;
mod switch;
mod tend;

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;

pub use settings::{Settings, USUAL_TTL};

use crate::error::Result;
use crate::finding::Finding;
use crate::lease::{Attempt, Claim, Ended, HolderId, Holding, LeaseKey, Release, Renewal, Revoke, Waiter};
use crate::member::Member;
use crate::name::LockName;
use crate::store::{Arbiter, Listener, Notes, Primary, Store, Tables, Traits, WakeUps};
use shared::Shared;
use stores::{Side, Stores};

/// Locks in a primary store, and in the arbiter while that is away; see the [module](self).
#[derive(Debug)]
pub struct Fallback {
    shared: Arc<UntilTheLast>,
    stores: Stores,
}

/// What the handles share. The background ends with the last of them.
#[derive(Debug)]
struct UntilTheLast(Arc<Shared>);

impl Drop for UntilTheLast {
    fn drop(&mut self) {
        self.0.closing.send_replace(true);
    }
}

impl Fallback {
    /// A fallback of these two. Asks nobody yet.
    ///
    /// # Errors
    /// [`Misconfigured`](crate::ErrorKind::Misconfigured): one of them can't be what it is given as, or the settings make no
    /// sense.
    pub fn over(primary: Arc<dyn Store>, arbiter: Arc<dyn Store>, settings: Settings) -> Result<Self> {
        settings.check()?;
        let stores = Stores::new(primary, arbiter)?;
        let identity = settings.primary_name.clone().unwrap_or_else(|| stores.primary().identity());
        Ok(Self { shared: Arc::new(UntilTheLast(Arc::new(Shared::new(settings, identity)))), stores })
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.shared.0
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Fallback {
    fn traits(&self) -> Traits {
        let (primary, arbiter) = (self.stores.on(Side::Primary).traits(), self.stores.on(Side::Arbiter).traits());
        Traits {
            kind: "fallback",
            smallest_ttl: primary.smallest_ttl.max(arbiter.smallest_ttl),
            wake_ups: primary.wake_ups && arbiter.wake_ups,
            hands_over: false,
            session_bound: false,
            usual_ttl: self.shared().settings.usual_ttl(),
            longest_stop_grace: self.shared().settings.longest_stop_grace(),
        }
    }

    fn for_keeper(&self) -> Arc<dyn Store> {
        Arc::new(Self { shared: Arc::clone(&self.shared), stores: self.stores.for_keeper() })
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(async {
            self.shared().start(&self.stores)?;
            self.shared().claim(&self.stores, claim).await
        })
    }

    fn leave<'a>(&'a self, waiter: &'a LeaseKey) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.shared().leave(&self.stores, waiter))
    }

    fn renew<'a>(&'a self, leases: &'a [(LeaseKey, Duration)]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(self.shared().renew(&self.stores, leases))
    }

    fn release<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        Box::pin(self.shared().release(&self.stores, lease, how))
    }

    fn subscribe<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        Box::pin(async move {
            self.shared().start(&self.stores)?;
            self.shared().subscribe(&self.stores, name).await
        })
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(async move {
            self.shared().start(&self.stores)?;
            self.shared().inspect(&self.stores, name).await
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Holding>>> {
        Box::pin(async move {
            self.shared().start(&self.stores)?;
            self.shared().list(&self.stores).await
        })
    }

    fn queue<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Vec<Waiter>>> {
        Box::pin(async move {
            self.shared().start(&self.stores)?;
            self.shared().queue(&self.stores, name).await
        })
    }

    fn revoke<'a>(
        &'a self,
        name: &'a LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(async move {
            self.shared().start(&self.stores)?;
            self.shared().revoke(&self.stores, name, holder, how).await
        })
    }

    /// The arbiter's, whichever store is in use: no mark is anywhere else.
    fn reset_marks<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<bool>> {
        self.stores.on(Side::Arbiter).reset_marks(name)
    }

    /// The arbiter's, whichever store is in use: ticks are its business.
    fn time(&self) -> BoxFuture<'_, Result<Duration>> {
        self.stores.on(Side::Arbiter).time()
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(async move {
            self.shared().start(&self.stores)?;
            self.shared().diagnose(&self.stores).await
        })
    }

    fn listen(&self, listener: Weak<Listener>) {
        self.shared().listen(listener);
    }

    /// None: most of the time the leases are in the other store.
    fn tables(&self) -> Option<Tables> {
        None
    }

    fn as_primary(&self) -> Option<&dyn Primary> {
        None
    }

    fn as_member(&self) -> Option<&dyn Member> {
        None
    }

    /// The arbiter's: it is the one that doesn't change.
    fn as_notes(&self) -> Option<&dyn Notes> {
        self.stores.on(Side::Arbiter).as_notes()
    }

    fn as_arbiter(&self) -> Option<&dyn Arbiter> {
        None
    }
}
