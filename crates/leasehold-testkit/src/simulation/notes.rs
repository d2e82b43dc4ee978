//! A store that keeps notes at the other end of a network.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use leasehold::store::{Note, NoteId, Noted, Notes, Search, Topic};
use leasehold::{Result, Store};

use super::wire::Wire;

/// The store that a message has arrived at.
fn keeper(store: &Arc<dyn Store>) -> &dyn Notes {
    store.as_notes().expect("a wire keeps notes only if what it leads to does")
}

impl Notes for Wire {
    fn note<'a>(&'a self, notes: &'a [Note]) -> BoxFuture<'a, Result<()>> {
        let notes = notes.to_vec();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let notes = notes.clone();
                Box::pin(async move { keeper(&store).note(&notes).await })
            };
            self.carry(call).await?
        })
    }

    fn notes<'a>(&'a self, of: &'a Search) -> BoxFuture<'a, Result<Vec<Noted>>> {
        let of = of.clone();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let of = of.clone();
                Box::pin(async move { keeper(&store).notes(&of).await })
            };
            self.carry(call).await?
        })
    }

    fn erase<'a>(&'a self, topic: &'a Topic, ids: &'a [NoteId]) -> BoxFuture<'a, Result<()>> {
        let (topic, ids) = (topic.clone(), ids.to_vec());
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let (topic, ids) = (topic.clone(), ids.clone());
                Box::pin(async move { keeper(&store).erase(&topic, &ids).await })
            };
            self.carry(call).await?
        })
    }
}
