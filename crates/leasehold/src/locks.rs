//! The client: one store, one keeper, any number of locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, Observer};
use crate::finding::Finding;
use crate::keeper::{Keeper, Place};
use crate::layers::Timeout;
use crate::lease::{HolderId, Holding, Revoke, Waiter};
use crate::lock::Lock;
use crate::name::LockName;
use crate::store::{Listener, Notes, Store, Switched};
use crate::stores;
use crate::tick::Tick;
use crate::validity::{BootClock, Clock};
use crate::wait::Lines;
use crate::watching::Watching;

/// A client of one store. Cheap to clone; one per process and store is right.
///
/// ```no_run
/// # async fn demo() -> leasehold::Result<()> {
/// let locks = leasehold::Locks::connect("sqlite:///var/lib/leasehold/locks.db").await?;
/// let ran = locks.lock("nightly-backup").run(async |_guard| { /* … */ }).await?;
/// locks.shutdown().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Locks {
    client: Arc<Client>,
}

/// Settings of a [`Locks`] client.
#[must_use]
pub struct LocksBuilder {
    label: Option<Arc<str>>,
    observer: Option<Arc<dyn Observer>>,
    max_ttl: Duration,
    clock: Arc<dyn Clock>,
    place: Place,
}

/// What all locks and guards of a client share.
pub(crate) struct Client {
    pub store: Arc<dyn Store>,
    pub keeper: Keeper,
    pub clock: Arc<dyn Clock>,
    pub label: Arc<str>,
    pub max_ttl: Duration,
    pub lines: Arc<Lines>,
    observer: Option<Arc<dyn Observer>>,
    /// What the store calls, for as long as this is there.
    _listener: Option<Arc<Listener>>,
    closed: AtomicBool,
}

impl Client {
    pub fn observe(&self, event: &Event<'_>) {
        if let Some(observer) = &self.observer {
            observer.observe(event);
        }
    }

    pub fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "this client was shut down; connect again"));
        }
        Ok(())
    }
}

impl Locks {
    /// Connects to the store that `url` names (see [`stores::open`]), with default settings.
    ///
    /// # Errors
    /// The URL is wrong, or the store can't be opened.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is left behind.
    #[expect(clippy::unused_async, reason = "stores over a network will connect here")]
    pub async fn connect(url: &str) -> Result<Self> {
        Self::builder().connect(url)
    }

    /// A client over a store of your own making, with default settings.
    pub fn over(store: Arc<dyn Store>) -> Self {
        Self::builder().over(store)
    }

    /// Settings, to begin with the defaults.
    pub fn builder() -> LocksBuilder {
        LocksBuilder {
            label: None,
            observer: None,
            max_ttl: Duration::from_secs(3600),
            clock: Arc::new(BootClock),
            place: Place::OwnThread,
        }
    }

    /// Who we are, for people: what others are told while a lock is ours, unless it has a label of its own.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.client.label
    }

    /// The lock of this name. A bad name is reported by [`Lock::checked`] or the first acquisition.
    pub fn lock(&self, name: &str) -> Lock {
        Lock::new(Arc::clone(&self.client), name)
    }

    /// Who holds a name, as far as the store knows; none if nobody does.
    ///
    /// # Errors
    /// The name is not legal, or the store can't say.
    pub async fn inspect(&self, name: &str) -> Result<Option<Holding>> {
        self.client.store.inspect(&LockName::new(name)?).await
    }

    /// How a name stands, each time that this changes. Nothing is asked before [`Watching::next`].
    ///
    /// # Errors
    /// The name is not legal.
    pub fn watch(&self, name: &str) -> Result<Watching> {
        Ok(Watching::new(Arc::clone(&self.client), LockName::new(name)?))
    }

    /// Every name that is held or waited for.
    ///
    /// # Errors
    /// The store can't say.
    pub async fn list(&self) -> Result<Vec<Holding>> {
        self.client.store.list().await
    }

    /// Who waits for a name, the first in line first, in one round trip. Of each client the one that is next to look: those
    /// behind it stand in a line of that client's own, of which the store knows nothing. Nobody where the store keeps no
    /// line: a quorum, session locks but for strangers that wait in the server, ShedLock's table.
    ///
    /// # Errors
    /// The store can't say.
    pub async fn queue(&self, name: &LockName) -> Result<Vec<Waiter>> {
        self.client.store.queue(name).await
    }

    /// Ends everybody's hold of a name; answers who held it. See [`Revoke`] for the difference that matters.
    ///
    /// # Errors
    /// The name is not legal, or the store can't say.
    pub async fn revoke(&self, name: &str, how: Revoke) -> Result<Option<Holding>> {
        self.client.store.revoke(&LockName::new(name)?, None, how).await
    }

    /// Ends one holder's hold of a name that several may hold; answers how it stood. None if that one doesn't hold it.
    ///
    /// # Errors
    /// The name is not legal, or the store can't say.
    pub async fn revoke_one(&self, name: &str, holder: HolderId, how: Revoke) -> Result<Option<Holding>> {
        self.client.store.revoke(&LockName::new(name)?, Some(holder), how).await
    }

    /// Has the store forget which ticks of a name were claimed and which stand open, as if none had ever been; says whether there was a
    /// mark. For an operator, where a clock that was far ahead left a mark that no tick is newer than: **what ran may run
    /// again**. Who holds the lock goes on, and tokens go on growing.
    ///
    /// # Errors
    /// The name is not legal, or the store can't do it; in a quorum each member must be reached, and an error names those that
    /// were not. Done again it does no harm.
    pub async fn reset_marks(&self, name: &str) -> Result<bool> {
        self.client.store.reset_marks(&LockName::new(name)?).await
    }

    /// What the store's clock shows: the time since the beginning of 1970 in UTC. A tick that is chosen by it is the
    /// same on every node, whatever that node's own clock shows.
    ///
    /// # Errors
    /// The store can't say.
    pub async fn time(&self) -> Result<Duration> {
        self.client.store.time().await
    }

    /// The lock of an idempotency key: a piece of work that is to be done once, remembered for `keep` from its last
    /// attempt on. Each key is a lock of its own, and shares its names with the others: begin it with what it is about.
    ///
    /// At most once, unless [`retry_failed`](Lock::retry_failed) says: until it is done.
    ///
    /// ```
    /// # async fn demo(locks: leasehold::Locks) -> leasehold::Result<()> {
    /// use std::time::Duration;
    /// use leasehold::Outcome;
    ///
    /// match locks.once("invoice-2931", Duration::from_secs(90 * 86_400)).try_acquire().await? {
    ///     Outcome::Acquired(guard) => {
    ///         // … send it …
    ///         guard.complete().await?;
    ///     }
    ///     Outcome::Contended(other) => println!("{} is sending it", other.label),
    ///     Outcome::NotDue(why) => println!("{why}"),
    /// }
    /// # Ok(()) }
    /// ```
    pub fn once(&self, key: &str, keep: Duration) -> Lock {
        self.lock(key).tick(Tick::ONLY).remember(keep)
    }

    /// The notes that the store keeps beside its locks.
    ///
    /// # Errors
    /// [`ErrorKind::Misconfigured`]: the store keeps none.
    pub fn notes(&self) -> Result<&dyn Notes> {
        self.client.store.as_notes().ok_or_else(|| {
            let kind = self.client.store.traits().kind;
            Error::new(ErrorKind::Misconfigured, format!("a store of the kind {kind}, as it is opened, keeps no notes"))
        })
    }

    /// What an operator should know about the store.
    ///
    /// # Errors
    /// The store can't say.
    pub async fn diagnose(&self) -> Result<Vec<Finding>> {
        self.client.store.diagnose().await
    }

    /// Ends this client: no new acquisitions, those that wait end with an error, and waits until what dropped guards and cancelled calls left
    /// to be released has been. Guards that are still alive stay valid and are renewed until they end.
    ///
    /// # Cancel safety
    /// Cancel safe; what was under way goes on in the background.
    pub async fn shutdown(&self) {
        self.client.closed.store(true, Ordering::Release);
        self.client.keeper.drain().await;
    }
}

impl std::fmt::Debug for Locks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Locks")
            .field("store", &self.client.store)
            .field("label", &self.client.label)
            .finish_non_exhaustive()
    }
}

impl LocksBuilder {
    /// Who we are, for people. Default: `host/pid/program`.
    pub fn label(mut self, label: &str) -> Self {
        self.label = Some(label.into());
        self
    }

    /// What this process does, as the last part of the default label: `host/pid/job`.
    pub fn job(mut self, job: &str) -> Self {
        self.label = Some(label_of(job));
        self
    }

    /// Who is told of what happens to this client's locks. Default: nobody.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// The largest TTL that a lock may have. Default: one hour; at most a day, for it is how long everybody waits for a
    /// machine that died.
    pub fn max_ttl(mut self, largest: Duration) -> Self {
        self.max_ttl = largest.min(Duration::from_secs(24 * 3600));
        self
    }

    /// For simulations and tests under paused time: takes time from `clock`, and runs the keeper as a task
    /// on the runtime that first acquires instead of on a thread of its own.
    pub fn simulated(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self.place = Place::CallersRuntime;
        self
    }

    /// Connects to the store that `url` names. See [`Locks::connect`].
    ///
    /// # Errors
    /// The URL is wrong, or the store can't be opened.
    pub fn connect(self, url: &str) -> Result<Locks> {
        let store = stores::open(url)?;
        Ok(self.over(store))
    }

    /// A client over `store`.
    pub fn over(self, store: Arc<dyn Store>) -> Locks {
        let Self { label, observer, max_ttl, clock, place } = self;
        let store: Arc<dyn Store> = Arc::new(Timeout::over(store));
        let listener = observer.clone().map(listening);
        if let Some(listener) = &listener {
            store.listen(Arc::downgrade(listener));
        }
        let keeper = Keeper::new(Arc::clone(&store), Arc::clone(&clock), observer.clone(), place);
        let client = Client {
            store,
            keeper,
            clock,
            label: label.unwrap_or_else(default_label),
            max_ttl,
            lines: Arc::default(),
            observer,
            _listener: listener,
            closed: AtomicBool::new(false),
        };
        Locks { client: Arc::new(client) }
    }
}

impl std::fmt::Debug for LocksBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocksBuilder")
            .field("label", &self.label)
            .field("max_ttl", &self.max_ttl)
            .finish_non_exhaustive()
    }
}

/// What tells an observer of switches.
fn listening(observer: Arc<dyn Observer>) -> Arc<Listener> {
    Arc::new(move |switched: &Switched| {
        let Switched { from, route, within } = switched;
        observer.observe(&Event::Switched { from, to: &route.target, epoch: route.epoch, within: *within });
    })
}

fn default_label() -> Arc<str> {
    let program = std::env::args_os().next().unwrap_or_default();
    let program = std::path::Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    label_of(&program)
}

/// `host/pid/job`.
fn label_of(job: &str) -> Arc<str> {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    format!("{host}/{}/{job}", std::process::id()).into()
}
