//! Wake-ups: whoever waits here watches the one before it, and nobody else.
//!
//! One stream of watches for each handle. A watch that dies, whatever it dies of, wakes all who rely on it: they look, and
//! watch again from what they have seen.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::stream;
use tokio::sync::mpsc;

use super::generated::watch_client::WatchClient;
use super::generated::watch_create_request::FilterType;
use super::generated::watch_request::RequestUnion;
use super::generated::{WatchCancelRequest, WatchCreateRequest, WatchRequest, WatchResponse};
use super::keys::behind;
use super::members::Members;
use super::ours::Ours;
use crate::name::LockName;
use crate::store::{Bell, WakeUps};

/// How long a connection for it may take to be made.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is watched for those who wait.
#[derive(Debug)]
pub(super) struct Watches {
    ours: Arc<Ours>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    names: HashMap<LockName, Waiting>,
    /// Whom each watch is for.
    by_id: HashMap<i64, (LockName, Vec<u8>)>,
    last_id: i64,
    stream: Option<Stream>,
    streams: u64,
}

/// Those who wait for one name.
#[derive(Debug, Default)]
struct Waiting {
    bells: Vec<Weak<Bell>>,
    /// By their own keys.
    watched: HashMap<Vec<u8>, Watched>,
}

#[derive(Debug)]
struct Watched {
    id: i64,
    what: Target,
}

/// Whose end is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Key(Vec<u8>),
    /// Anybody's of several who have permits.
    Below(Vec<u8>),
}

#[derive(Debug)]
struct Stream {
    number: u64,
    member: usize,
    orders: mpsc::UnboundedSender<WatchRequest>,
}

/// A bell's place. Dropping it takes the bell away.
struct Hung {
    watches: Arc<Watches>,
    name: LockName,
    bell: Weak<Bell>,
}

impl Watches {
    pub fn new(ours: Arc<Ours>) -> Self {
        Self { ours, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A bell that rings for this name until it is dropped.
    pub fn hang(self: &Arc<Self>, name: &LockName) -> WakeUps {
        let bell = Arc::<Bell>::default();
        self.state().names.entry(name.clone()).or_default().bells.push(Arc::downgrade(&bell));
        let hung = Hung { watches: Arc::clone(self), name: name.clone(), bell: Arc::downgrade(&bell) };
        WakeUps::new(bell, hung)
    }

    /// Rings, if somebody has a bell here, once what stands before the waiter with this key is gone, as of `revision`.
    pub fn follow(self: &Arc<Self>, members: &Arc<Members>, name: &LockName, key: &[u8], what: Target, revision: i64) {
        let mut state = self.state();
        if state.names.get(name).is_none_or(|waiting| waiting.bells.is_empty()) {
            return;
        }
        let member = members.current();
        if state.stream.as_ref().is_none_or(|stream| stream.member != member || stream.orders.is_closed()) {
            state.unwatch_all();
            let (orders, received) = mpsc::unbounded_channel();
            state.streams += 1;
            let number = state.streams;
            state.stream = Some(Stream { number, member, orders });
            drop(tokio::spawn(listen(Arc::downgrade(self), Arc::downgrade(members), member, number, received)));
        }
        state.watch(name, key, what, revision + 1);
    }

    /// It waits no longer.
    pub fn unfollow(&self, name: &LockName, key: &[u8]) {
        self.state().unwatch(name, key);
    }

    fn hear(&self, number: u64, said: &WatchResponse) {
        let mut state = self.state();
        if state.stream.as_ref().is_none_or(|stream| stream.number != number) {
            return;
        }
        let is_over = said.canceled || !said.events.is_empty();
        let Some((name, key)) = state.by_id.get(&said.watch_id).cloned().filter(|_| is_over) else { return };
        if !said.events.is_empty() {
            self.ours.is_next(&key);
        }
        state.unwatch(&name, &key);
        state.ring(&name);
    }

    /// The stream has ended: nobody knows what was missed.
    fn ended(&self, number: u64) {
        let mut state = self.state();
        if state.stream.as_ref().is_some_and(|stream| stream.number == number) {
            state.stream = None;
            state.unwatch_all();
            let names: Vec<_> = state.names.keys().cloned().collect();
            names.iter().for_each(|name| state.ring(name));
        }
    }
}

impl State {
    fn watch(&mut self, name: &LockName, key: &[u8], what: Target, from: i64) {
        let waiting = self.names.entry(name.clone()).or_default();
        if waiting.watched.get(key).is_some_and(|watched| watched.what == what) {
            return;
        }
        self.unwatch(name, key);
        self.last_id += 1;
        let id = self.last_id;
        let (watched, range_end) = match &what {
            Target::Key(key) => (key.clone(), Vec::new()),
            Target::Below(prefix) => (prefix.clone(), behind(prefix)),
        };
        self.order(RequestUnion::CreateRequest(WatchCreateRequest {
            key: watched,
            range_end,
            start_revision: from,
            filters: vec![FilterType::Noput.into()],
            watch_id: id,
        }));
        self.by_id.insert(id, (name.clone(), key.to_vec()));
        self.names.entry(name.clone()).or_default().watched.insert(key.to_vec(), Watched { id, what });
    }

    fn unwatch(&mut self, name: &LockName, key: &[u8]) {
        let Some(watched) = self.names.get_mut(name).and_then(|waiting| waiting.watched.remove(key)) else { return };
        self.by_id.remove(&watched.id);
        self.order(RequestUnion::CancelRequest(WatchCancelRequest { watch_id: watched.id }));
    }

    fn unwatch_all(&mut self) {
        self.by_id.clear();
        self.names.values_mut().for_each(|waiting| waiting.watched.clear());
    }

    fn order(&self, order: RequestUnion) {
        if let Some(stream) = &self.stream {
            // Whoever listens no more says so at its end.
            let _ = stream.orders.send(WatchRequest { request_union: Some(order) });
        }
    }

    fn ring(&self, name: &LockName) {
        let bells = self.names.get(name).into_iter().flat_map(|waiting| &waiting.bells);
        bells.filter_map(Weak::upgrade).for_each(|bell| bell.ring());
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        let mut state = self.watches.state();
        let Some(waiting) = state.names.get_mut(&self.name) else { return };
        waiting.bells.retain(|bell| !bell.ptr_eq(&self.bell));
        if !waiting.bells.is_empty() {
            return;
        }
        let keys: Vec<_> = waiting.watched.keys().cloned().collect();
        keys.iter().for_each(|key| state.unwatch(&self.name, key));
        state.names.remove(&self.name);
    }
}

/// Listens until the stream ends, or nobody wants it any more.
async fn listen(
    watches: Weak<Watches>,
    members: Weak<Members>,
    member: usize,
    number: u64,
    orders: mpsc::UnboundedReceiver<WatchRequest>,
) {
    let ended = Ended { watches: watches.clone(), number };
    hear_all(&watches, &members, member, number, orders).await;
    drop(ended);
}

/// Tells the end, also that of the runtime.
struct Ended {
    watches: Weak<Watches>,
    number: u64,
}

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(watches) = self.watches.upgrade() {
            watches.ended(self.number);
        }
    }
}

async fn hear_all(
    watches: &Weak<Watches>,
    members: &Weak<Members>,
    member: usize,
    number: u64,
    orders: mpsc::UnboundedReceiver<WatchRequest>,
) -> Option<()> {
    let link = members.upgrade()?.link(member, PATIENCE).await.ok()?;
    let orders = stream::unfold(orders, async |mut orders| orders.recv().await.map(|order| (order, orders)));
    let request = link.with_metadata(tonic::Request::new(orders));
    let mut said = WatchClient::new(link.line.clone()).watch(request).await.ok()?.into_inner();
    while let Ok(Some(response)) = said.message().await {
        watches.upgrade()?.hear(number, &response);
    }
    None
}
