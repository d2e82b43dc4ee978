//! A member of a quorum at the other end of a network.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use leasehold::member::{Filling, Identity, Member, Memories, Names, Ratified, Vote};
use leasehold::store::WakeUps;
use leasehold::{Due, Ended, FencingToken, Finding, HolderId, LeaseKey, LockName, Release, Result, Store, Tick};

use super::wire::Wire;

/// The store that a message has arrived at.
fn member(store: &Arc<dyn Store>) -> &dyn Member {
    store.as_member().expect("a wire is a member only if what it leads to is one")
}

#[deny(clippy::missing_trait_methods)]
impl Member for Wire {
    fn ratify<'a>(
        &'a self,
        lease: &'a LeaseKey,
        token: FencingToken,
        due: Option<Due>,
    ) -> BoxFuture<'a, Result<Ratified>> {
        let lease = lease.clone();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let lease = lease.clone();
                Box::pin(async move { member(&store).ratify(&lease, token, due).await })
            };
            self.carry(call).await?
        })
    }

    fn conclude<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        let lease = lease.clone();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let lease = lease.clone();
                Box::pin(async move { member(&store).conclude(&lease, how).await })
            };
            self.carry(call).await?
        })
    }

    fn wake_ups<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        let name = name.clone();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let name = name.clone();
                Box::pin(async move { member(&store).wake_ups(&name).await })
            };
            self.carry(call).await?
        })
    }

    fn recall<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Memories>> {
        let name = name.clone();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let name = name.clone();
                Box::pin(async move { member(&store).recall(&name).await })
            };
            self.carry(call).await?
        })
    }

    fn adopt<'a>(&'a self, name: &'a LockName, memories: &'a Memories, into: &'a str) -> BoxFuture<'a, Result<()>> {
        let (name, memories, into) = (name.clone(), memories.clone(), into.to_owned());
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let (name, memories, into) = (name.clone(), memories.clone(), into.clone());
                Box::pin(async move { member(&store).adopt(&name, &memories, &into).await })
            };
            self.carry(call).await?
        })
    }

    fn announce<'a>(&'a self, floor: Tick, into: &'a str) -> BoxFuture<'a, Result<()>> {
        let into = into.to_owned();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let into = into.clone();
                Box::pin(async move { member(&store).announce(floor, &into).await })
            };
            self.carry(call).await?
        })
    }

    fn found<'a>(&'a self, floor: Tick, into: &'a str) -> BoxFuture<'a, Result<()>> {
        let into = into.to_owned();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let into = into.clone();
                Box::pin(async move { member(&store).found(floor, &into).await })
            };
            self.carry(call).await?
        })
    }

    fn names(&self, from: u64, most: usize) -> BoxFuture<'_, Result<Names>> {
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                Box::pin(async move { member(&store).names(from, most).await })
            };
            self.carry(call).await?
        })
    }

    fn fill<'a>(&'a self, by: HolderId, step: Filling, into: &'a str) -> BoxFuture<'a, Result<bool>> {
        let into = into.to_owned();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let into = into.clone();
                Box::pin(async move { member(&store).fill(by, step, &into).await })
            };
            self.carry(call).await?
        })
    }

    fn identity(&self) -> BoxFuture<'_, Result<Identity>> {
        Box::pin(async move {
            let call = |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                Box::pin(async move { member(&store).identity().await })
            };
            self.carry(call).await?
        })
    }

    /// No message says so: a connection knows it.
    fn last_life(&self, of: Vote) -> Option<Arc<str>> {
        member(self.inner()).last_life(of)
    }

    fn examine(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(async move {
            let call = |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                Box::pin(async move { member(&store).examine().await })
            };
            self.carry(call).await?
        })
    }
}
