//! The four ways to take a lock and give it back that are held against each other.

use std::sync::Arc;
use std::time::Duration;

use leasehold::stores;
use leasehold::{Attempt, Claim, Ended, HolderId, LeaseKey, LockName, Locks, Release, Store};
use redis::Value;
use redis::aio::MultiplexedConnection;

use crate::{Bench, raw};

/// Their names, the raw one first.
pub const WAYS: [&str; 4] = ["raw fence pair", "our commands by hand", "store", "Locks"];

/// One way to take one lock.
#[derive(Clone)]
pub enum Client {
    Raw(raw::Pair),
    ByHand(ByHand),
    Store(Arc<dyn Store>, LockName, Arc<str>),
    Locks(Locks, String),
}

/// One connection for each way.
pub struct Clients {
    raw: MultiplexedConnection,
    by_hand: ByHand,
    store: Arc<dyn Store>,
    locks: Locks,
}

impl Clients {
    pub async fn new(bench: &Bench) -> Self {
        let url = bench.url();
        let (raw, hand) = (raw::connect(&url).await, raw::connect(&url).await);
        let locks = Locks::builder().label("bench/1/job").connect(&url).expect("the store opens");
        let by_hand = ByHand::overhear(bench, &locks, hand).await;
        Self { raw, by_hand, store: stores::open(&url).expect("the store opens"), locks }
    }

    /// For a lock of this name.
    pub async fn of(&self, way: usize, name: &str) -> Client {
        let name = format!("{}-{name}", ["raw", "hand", "store", "locks"][way]);
        match way {
            0 => Client::Raw(raw::Pair::new(self.raw.clone(), &name).await),
            1 => Client::ByHand(self.by_hand.clone().of(&name)),
            2 => {
                Client::Store(Arc::clone(&self.store), LockName::new(&name).expect("a name"), Arc::from("bench/1/job"))
            }
            _ => Client::Locks(self.locks.clone(), name),
        }
    }
}

impl Client {
    pub async fn pair(&mut self, number: u64) {
        match self {
            Self::Raw(pair) => pair.pair(number).await,
            Self::ByHand(commands) => commands.pair(number).await,
            Self::Store(store, name, label) => {
                let ttl = Duration::from_millis(raw::TTL_MS);
                let claim = Claim::new(name.clone(), HolderId::fresh(), Arc::clone(label), ttl);
                let attempt = store.try_acquire(&claim).await.expect("answered");
                assert!(matches!(attempt, Attempt::Granted(_)), "it was free");
                let lease = LeaseKey { name: name.clone(), holder: claim.holder };
                let released = store.release(&lease, Ended::default()).await.expect("answered");
                assert_eq!(released, Release::Released);
            }
            Self::Locks(locks, name) => {
                let outcome = locks.lock(name).try_acquire().await.expect("answered");
                let guard = outcome.guard().expect("it was free");
                guard.release().await.expect("answered");
            }
        }
    }
}

/// The very commands that Leasehold sends, with next to no client around them: what the scripts cost, without us.
#[derive(Clone)]
pub struct ByHand {
    connection: MultiplexedConnection,
    acquire: Vec<String>,
    release: Vec<String>,
    /// What stands for the name and for the holder in these.
    name: String,
    holder: String,
}

impl ByHand {
    /// Takes them from what the server hears, so that they are right whatever the scripts become.
    async fn overhear(bench: &Bench, locks: &Locks, connection: MultiplexedConnection) -> Self {
        let name = String::from("overheard");
        let lock = locks.lock(&name);
        lock.try_acquire().await.expect("answered").guard().expect("free").release().await.expect("answered");
        let mut monitor = bench.server.monitor();
        let guard = lock.try_acquire().await.expect("answered").guard().expect("free");
        let holder = guard.holder().to_string();
        guard.release().await.expect("answered");
        let heard = monitor.commands();
        let mut scripts = heard.iter().filter_map(|command| words(command.split_once("] \"EVALSHA\" ")?.1));
        let (acquire, release) = (scripts.next().expect("an acquire"), scripts.next().expect("a release"));
        Self { connection, acquire, release, name, holder }
    }

    fn of(mut self, name: &str) -> Self {
        for word in self.acquire.iter_mut().chain(&mut self.release) {
            *word = word.replace(&self.name, name);
        }
        self
    }

    async fn call(&mut self, command: usize, holder: &str) -> Value {
        let words = if command == 0 { &self.acquire } else { &self.release };
        let mut call = redis::cmd("EVALSHA");
        for word in words {
            call.arg(if *word == self.holder { holder } else { word });
        }
        self.connection.send_packed_command(&call).await.and_then(Value::extract_error).expect("answered")
    }

    async fn pair(&mut self, number: u64) {
        let holder = format!("{number:032x}");
        // A token, or at the name's first time more.
        assert!(matches!(self.call(0, &holder).await, Value::Int(_) | Value::Array(_)), "it is free");
        assert_eq!(self.call(1, &holder).await, Value::Int(1));
    }
}

/// `"a" "b c"`, as the server shows a command; none of ours has anything escaped in it.
fn words(shown: &str) -> Option<Vec<String>> {
    let inner = shown.strip_prefix('"')?.strip_suffix('"')?;
    Some(inner.split("\" \"").map(str::to_owned).collect())
}
