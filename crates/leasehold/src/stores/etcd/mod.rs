//! Locks in etcd, for the processes of many machines.
//!
//! The layout is that of etcd's own concurrency package: whoever contends has a key of its own below the lock's prefix,
//! under a lease, and the lowest create revision owns the lock. `etcdctl lock` and programs in Go share locks with us.
//! Leases end by the cluster's clock; each operation is one transaction.

mod address;
mod calls;
mod claim;
mod dial;
mod doctor;
mod ending;
mod fault;
mod generated;
mod keys;
mod leases;
mod line;
mod login;
mod look;
mod looks;
mod marks;
mod members;
mod note_leases;
mod notes;
mod options;
mod ours;
mod past;
mod renewal;
mod reset;
mod revocation;
mod tls;
mod turns;
mod txn;
mod value;
mod view;
mod watches;

use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;

use self::dial::Dial;
use self::fault::Fault;
use self::leases::Leases;
use self::looks::Looks;
use self::members::Members;
use self::note_leases::NoteLeases;
use self::options::Options;
use self::ours::Ours;
use self::past::Past;
use self::turns::Turns;
use self::watches::Watches;
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::lease::{Attempt, Claim, Ended, HolderId, Holding, LeaseKey, Release, Renewal, Revoke, Waiter};
use crate::member::Member;
use crate::name::LockName;
use crate::store::{Arbiter, Listener, Notes, Primary, Store, Tables, Traits, USUAL_TTL, WakeUps};
use crate::validity::BootClock;

/// A store in an etcd cluster.
///
/// `etcd://[user:password@]host[:port],host[:port],…`, and `etcds://…` for TLS. Options: `namespace=NAME`;
/// `password_file=FILE`; `ca=FILE` (who signs the servers, instead of whom the system trusts), `cert=FILE&key=FILE` (what
/// we show them). Files are in PEM, and are read for each connection. `compat=etcdctl` locks the keys of `etcdctl lock` and of
/// etcd's concurrency package, together with their users.
pub struct Etcd {
    core: Arc<Core>,
}

/// A handle's connections, and what it shares with the others of its client.
struct Core {
    options: Options,
    members: Arc<Members>,
    watches: Arc<Watches>,
    looks: Arc<Looks>,
    shared: Arc<Shared>,
}

/// What the handles of a client have in common.
struct Shared {
    ours: Arc<Ours>,
    leases: Leases,
    note_leases: NoteLeases,
    past: Arc<Past>,
    turns: Arc<Turns>,
}

impl Etcd {
    /// A store in the cluster that `url` names. Connects when it is first used.
    ///
    /// # Errors
    /// `Invalid`: the URL is wrong.
    pub fn open(url: &str) -> Result<Self> {
        let ours = Arc::new(Ours::new(&BootClock));
        let (leases, note_leases) = (Leases::default(), NoteLeases::default());
        let shared = Shared { ours, leases, note_leases, past: Arc::default(), turns: Arc::default() };
        Ok(Self::with(Options::parse(url)?, Arc::new(shared)))
    }

    fn with(options: Options, shared: Arc<Shared>) -> Self {
        let dial = Dial { login: options.login.clone(), tls: options.tls.clone() };
        let members = Arc::new(Members::new(dial, &options.members, Arc::clone(&shared.past)));
        let watches = Arc::new(Watches::new(Arc::clone(&shared.ours)));
        Self { core: Arc::new(Core { options, members, watches, looks: Arc::default(), shared }) }
    }
}

impl Core {
    fn told(&self, fault: Fault) -> Error {
        fault::told(fault, &self.options.shown)
    }
}

/// The time of day by this machine's clock, since 1970: etcd tells nobody its own. Ticks go by it, and what people are
/// shown; no lease does.
fn time_of_day() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The same error for another lease of a batch.
fn again(error: &Error) -> Error {
    let same = Error::new(error.kind(), error.to_string());
    if error.applied() == crate::error::Applied::Maybe { same.maybe_applied() } else { same }
}

impl std::fmt::Debug for Etcd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Etcd").field("cluster", &self.core.options.shown).finish_non_exhaustive()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Etcd {
    fn traits(&self) -> Traits {
        Traits {
            kind: "etcd",
            smallest_ttl: Duration::from_secs(2),
            wake_ups: true,
            hands_over: false,
            session_bound: false,
            usual_ttl: USUAL_TTL,
            longest_stop_grace: Duration::MAX,
        }
    }

    /// One store: nothing moves.
    fn listen(&self, _: Weak<Listener>) {}

    fn tables(&self) -> Option<Tables> {
        None
    }

    fn as_primary(&self) -> Option<&dyn Primary> {
        None
    }

    fn as_arbiter(&self) -> Option<&dyn Arbiter> {
        None
    }

    /// A cluster is a quorum already, and its revisions can't be raised.
    fn as_member(&self) -> Option<&dyn Member> {
        None
    }

    /// Not beside the keys of others.
    fn as_notes(&self) -> Option<&dyn Notes> {
        (!self.core.options.keys.are_of_etcdctl()).then_some(self)
    }

    fn for_keeper(&self) -> Arc<dyn Store> {
        Arc::new(Self::with(self.core.options.clone(), Arc::clone(&self.core.shared)))
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(async move {
            self.core.options.keys.admit(&claim.name)?;
            let key = self.core.options.keys.contender(&claim.name, claim.holder);
            let (core, claim, turn) = (Arc::clone(&self.core), claim.clone(), self.core.shared.turns.next(&key));
            let wanted = Arc::new(());
            let is_wanted = Arc::downgrade(&wanted);
            // Whoever gives up waiting for the answer does not stop it half-way: what undoes it comes behind it.
            let acquiring = tokio::spawn(async move { core.acquire(&claim, turn, is_wanted).await });
            let answer = acquiring.await;
            drop(wanted);
            answer.unwrap_or_else(|error| Err(Error::new(ErrorKind::Internal, error.to_string()).maybe_applied()))
        })
    }

    fn leave<'a>(&'a self, waiter: &'a LeaseKey) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.core.leave(waiter))
    }

    fn renew<'a>(&'a self, leases: &'a [(LeaseKey, Duration)]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(self.core.renew(leases))
    }

    fn release<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        Box::pin(self.core.release(lease, how))
    }

    fn subscribe<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        Box::pin(async move { Ok(self.core.watches.hang(name)) })
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(self.core.inspect(name))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Holding>>> {
        Box::pin(self.core.list())
    }

    fn queue<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Vec<Waiter>>> {
        Box::pin(self.core.queue(name))
    }

    fn revoke<'a>(
        &'a self,
        name: &'a LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(self.core.revoke(name, holder, how))
    }

    fn reset_marks<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.core.reset_marks(name))
    }

    fn time(&self) -> BoxFuture<'_, Result<Duration>> {
        Box::pin(async { Ok(time_of_day()) })
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(self.core.diagnose())
    }
}
