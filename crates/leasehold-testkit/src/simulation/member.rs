//! A member of a quorum at the other end of a network.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use leasehold::member::{Identity, Member, Memories, Ratified};
use leasehold::{Due, Ended, FencingToken, LeaseKey, LockName, Release, Result, Store, Tick};

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

    fn adopt<'a>(&'a self, name: &'a LockName, memories: &'a Memories) -> BoxFuture<'a, Result<()>> {
        let (name, memories) = (name.clone(), memories.clone());
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let (name, memories) = (name.clone(), memories.clone());
                Box::pin(async move { member(&store).adopt(&name, &memories).await })
            };
            self.carry(call).await?
        })
    }

    fn found(&self, floor: Tick) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                Box::pin(async move { member(&store).found(floor).await })
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
}
