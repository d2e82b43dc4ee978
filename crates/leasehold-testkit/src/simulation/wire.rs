//! A store at the other end of a network.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold::member::Member;
use leasehold::store::{Arbiter, Listener, Notes, Primary, Tables, Traits, WakeUps};
use leasehold::{
    Attempt, Claim, Ended, Error, ErrorKind, Finding, HolderId, Holding, LeaseKey, LockName, Release, Renewal, Result,
    Revoke, Store, Waiter,
};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::network::{Fate, Link, Request};

/// A store as one client sees it, over a [`Link`].
///
/// As over a connection, what is sent through one handle arrives in order, whatever its delay; only what straggles,
/// its connection having broken, comes out of order. A call whose future is dropped was sent all the same. Hints that a
/// name may be free come without delay.
#[derive(Debug)]
pub struct Wire {
    inner: Arc<dyn Store>,
    link: Link,
    /// Resolves once the last message that was sent has arrived.
    last: Mutex<Option<oneshot::Receiver<()>>>,
}

impl Wire {
    /// `inner`, over `link`.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, link: Link) -> Self {
        Self { inner, link, last: Mutex::default() }
    }

    /// The store at the other end.
    #[must_use]
    pub fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    /// Carries a call there and its answer back: the way of every method, and of those that a trait beside [`Store`] adds.
    /// It is sent when this is first polled.
    ///
    /// # Errors
    /// What the network makes of it: nothing came back, or only that the connection broke.
    pub async fn carry<T: Send + 'static>(
        &self,
        call: impl Fn(Arc<dyn Store>) -> BoxFuture<'static, T> + Send + Sync + 'static,
    ) -> Result<T> {
        let (link, fate) = (self.link.clone(), self.link.fate());
        let (arrived, arrival) = oneshot::channel();
        let before = self.last.lock().expect("nothing panics while it is locked").replace(arrival);
        let (answer, answered) = oneshot::channel();
        let journey = Journey { link, fate, before, arrived };
        tokio::spawn(journey.carry(Arc::clone(&self.inner), call, answer));
        answered.await.unwrap_or_else(|_| Err(silence()))
    }
}

/// One message under way.
struct Journey {
    link: Link,
    fate: Fate,
    /// Resolves once what was sent before has arrived.
    before: Option<oneshot::Receiver<()>>,
    /// Dropped when this has.
    arrived: oneshot::Sender<()>,
}

impl Journey {
    async fn carry<T: Send + 'static>(
        self,
        store: Arc<dyn Store>,
        call: impl Fn(Arc<dyn Store>) -> BoxFuture<'static, T> + Send + Sync + 'static,
        answer: oneshot::Sender<Result<T>>,
    ) {
        let Self { link, fate, before, arrived } = self;
        link.from.runs().await;
        sleep(fate.there).await;
        if let Some(before) = before {
            // Either way it is no longer under way.
            let _ = before.await;
        }
        link.to.runs().await;
        if fate.request != Request::Arrives || link.is_cut() {
            drop(arrived);
            if let Request::Straggles(later) = fate.request {
                straggle(&link, later, &store, &call).await;
            }
            return refuse(&link, &fate, answer).await;
        }
        let told = call(Arc::clone(&store)).await;
        drop(arrived);
        let reply = async {
            sleep(fate.back).await;
            if fate.reply_is_lost || link.is_cut() {
                return refuse(&link, &fate, answer).await;
            }
            link.from.runs().await;
            // Whoever asked may have gone.
            let _ = answer.send(Ok(told));
        };
        match fate.again {
            Some(later) => drop(tokio::join!(reply, straggle(&link, later, &store, &call))),
            None => reply.await,
        }
    }
}

/// Executes a request when it is no longer expected.
async fn straggle<T>(
    link: &Link,
    later: Duration,
    store: &Arc<dyn Store>,
    call: &impl Fn(Arc<dyn Store>) -> BoxFuture<'static, T>,
) {
    sleep(later).await;
    link.to.runs().await;
    drop(call(Arc::clone(store)).await);
}

/// The answer to a message to which none comes.
async fn refuse<T>(link: &Link, fate: &Fate, answer: oneshot::Sender<Result<T>>) {
    let told = if fate.is_told {
        sleep(fate.back).await;
        Error::new(ErrorKind::Unavailable, "the connection broke").maybe_applied()
    } else {
        sleep(link.silence()).await;
        silence()
    };
    link.from.runs().await;
    let _ = answer.send(Err(told));
}

fn silence() -> Error {
    Error::new(ErrorKind::TimedOut, "there was no answer").maybe_applied()
}

#[deny(clippy::missing_trait_methods)]
impl Store for Wire {
    fn traits(&self) -> Traits {
        self.inner.traits()
    }

    fn for_keeper(&self) -> Arc<dyn Store> {
        Arc::new(Self::new(self.inner.for_keeper(), self.link.clone()))
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        let claim = claim.clone();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let claim = claim.clone();
                Box::pin(async move { store.try_acquire(&claim).await })
            };
            self.carry(call).await?
        })
    }

    fn leave<'a>(&'a self, waiter: &'a LeaseKey) -> BoxFuture<'a, Result<()>> {
        let waiter = waiter.clone();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let waiter = waiter.clone();
                Box::pin(async move { store.leave(&waiter).await })
            };
            self.carry(call).await?
        })
    }

    fn renew<'a>(&'a self, leases: &'a [(LeaseKey, Duration)]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        let leases = leases.to_vec();
        Box::pin(async move {
            let count = leases.len();
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let leases = leases.clone();
                Box::pin(async move { store.renew(&leases).await })
            };
            let failed = |error: Error| {
                let again = move || Error::new(error.kind(), error.to_string()).maybe_applied();
                (0..count).map(|_| Err(again())).collect()
            };
            self.carry(call).await.unwrap_or_else(failed)
        })
    }

    fn release<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        let lease = lease.clone();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let lease = lease.clone();
                Box::pin(async move { store.release(&lease, how).await })
            };
            self.carry(call).await?
        })
    }

    fn subscribe<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        let name = name.clone();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let name = name.clone();
                Box::pin(async move { store.subscribe(&name).await })
            };
            self.carry(call).await?
        })
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Holding>>> {
        let name = name.clone();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let name = name.clone();
                Box::pin(async move { store.inspect(&name).await })
            };
            self.carry(call).await?
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Holding>>> {
        Box::pin(async move {
            let call = |store: Arc<dyn Store>| -> BoxFuture<'static, _> { Box::pin(async move { store.list().await }) };
            self.carry(call).await?
        })
    }

    fn queue<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Vec<Waiter>>> {
        let name = name.clone();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let name = name.clone();
                Box::pin(async move { store.queue(&name).await })
            };
            self.carry(call).await?
        })
    }

    fn revoke<'a>(
        &'a self,
        name: &'a LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> BoxFuture<'a, Result<Option<Holding>>> {
        let name = name.clone();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let name = name.clone();
                Box::pin(async move { store.revoke(&name, holder, how).await })
            };
            self.carry(call).await?
        })
    }

    fn reset_marks<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<bool>> {
        let name = name.clone();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let name = name.clone();
                Box::pin(async move { store.reset_marks(&name).await })
            };
            self.carry(call).await?
        })
    }

    fn time(&self) -> BoxFuture<'_, Result<Duration>> {
        Box::pin(async move {
            let call = |store: Arc<dyn Store>| -> BoxFuture<'static, _> { Box::pin(async move { store.time().await }) };
            self.carry(call).await?
        })
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(async move {
            let call =
                |store: Arc<dyn Store>| -> BoxFuture<'static, _> { Box::pin(async move { store.diagnose().await }) };
            self.carry(call).await?
        })
    }

    fn listen(&self, listener: Weak<Listener>) {
        self.inner().listen(listener);
    }

    fn tables(&self) -> Option<Tables> {
        self.inner.tables()
    }

    fn as_primary(&self) -> Option<&dyn Primary> {
        self.inner.as_primary().map(|_| self as _)
    }

    fn as_arbiter(&self) -> Option<&dyn Arbiter> {
        self.inner.as_arbiter().map(|_| self as _)
    }

    fn as_member(&self) -> Option<&dyn Member> {
        self.inner.as_member().map(|_| self as &dyn Member)
    }

    fn as_notes(&self) -> Option<&dyn Notes> {
        self.inner.as_notes().map(|_| self as &dyn Notes)
    }
}

#[cfg(test)]
mod tests {
    use leasehold::Applied;
    use leasehold::stores::Memory;

    use super::*;
    use crate::random::Random;
    use crate::simulation::{Machine, Network, Weather};

    fn wire(weather: Weather) -> (Wire, Link) {
        let (client, node) = (Machine::new(), Machine::new());
        let link = Network::new(Random::new(7), weather).link(&client, &node);
        (Wire::new(Arc::new(Memory::new(Arc::new(node))), link.clone()), link)
    }

    fn claim() -> Claim {
        Claim::new(LockName::new("job").unwrap(), HolderId::fresh(), "test".into(), Duration::from_secs(60))
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_dropped_was_sent_and_what_follows_comes_behind_it() {
        let delay = (Duration::ZERO, Duration::from_secs(1));
        let (wire, _) = wire(Weather { delay, ..Weather::FAIR });
        for _ in 0..100 {
            let claim = claim();
            drop(futures_util::future::poll_immediate(wire.try_acquire(&claim)).await);
            let key = LeaseKey { name: claim.name.clone(), holder: claim.holder };
            assert_eq!(wire.release(&key, Ended::default()).await.unwrap(), Release::Released);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_gets_through_a_cut() {
        let (wire, link) = wire(Weather::FAIR);
        link.cut();
        let error = wire.try_acquire(&claim()).await.unwrap_err();
        assert!(error.is_transient() && error.applied() == Applied::Maybe);
        link.mend();
        assert_eq!(wire.inspect(&claim().name).await.unwrap(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn stragglers_come_behind_what_was_sent_later() {
        let (wire, _) = wire(Weather { stragglers: (1.0, Duration::from_secs(8)), ..Weather::FAIR });
        let claim = claim();
        assert!(wire.try_acquire(&claim).await.is_err());
        assert_eq!(wire.inner().inspect(&claim.name).await.unwrap().and_then(|held| held.holder), Some(claim.holder));
    }
}
