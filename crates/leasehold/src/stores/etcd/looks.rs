//! Looks at keys, gathered: batches of renewals that come at the same time share transactions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use tokio::sync::oneshot;

use super::calls::Limit;
use super::fault::Fault;
use super::generated::KeyValue;
use super::members::Members;
use super::txn::{MOST, Txn, one};

/// What stands under a key, or what came instead of an answer.
pub(super) type Found = Result<Option<KeyValue>, Fault>;

/// Those who want to look, until somebody goes.
#[derive(Default)]
pub(super) struct Looks {
    waiting: Mutex<Vec<Wanted>>,
}

struct Wanted {
    keys: Vec<Vec<u8>>,
    limit: Limit,
    answer: oneshot::Sender<Vec<Found>>,
}

impl Looks {
    /// Looks at keys, together with all who want to in the same moment. Sent after this was called.
    pub async fn at(self: &Arc<Self>, members: &Arc<Members>, keys: Vec<Vec<u8>>, limit: Limit) -> Vec<Found> {
        let (answer, answered) = oneshot::channel();
        let count = keys.len();
        let is_first = {
            let mut waiting = self.waiting();
            waiting.push(Wanted { keys, limit, answer });
            waiting.len() == 1
        };
        if is_first {
            drop(tokio::spawn(go(Arc::clone(self), Arc::clone(members))));
        }
        let gone = || Err(Fault::late("the look was given up"));
        answered.await.unwrap_or_else(|_| (0..count).map(|_| gone()).collect())
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Wanted>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn go(looks: Arc<Looks>, members: Arc<Members>) {
    // Whoever is about to want the same gets the chance to.
    tokio::task::yield_now().await;
    let wanted = std::mem::take(&mut *looks.waiting());
    let keys: Vec<&[u8]> = wanted.iter().flat_map(|wanted| &wanted.keys).map(Vec::as_slice).collect();
    let Some(limit) = wanted.iter().map(|wanted| wanted.limit).min() else { return };
    let look = |keys: &[&[u8]]| {
        let (count, txn) = (keys.len(), Txn::default().look(keys.iter().map(|key| one(key))));
        let members = &members;
        async move {
            match members.read(limit, txn).await {
                Ok(mut done) => (0..count).map(|nth| Ok(done.key(nth))).collect::<Vec<Found>>(),
                Err(fault) => (0..count).map(|_| Err(fault.clone())).collect(),
            }
        }
    };
    let mut found = join_all(keys.chunks(MOST).map(look)).await.into_iter().flatten();
    for wanted in wanted {
        let answer = found.by_ref().take(wanted.keys.len()).collect();
        // Whoever has given up needs none.
        let _ = wanted.answer.send(answer);
    }
}
