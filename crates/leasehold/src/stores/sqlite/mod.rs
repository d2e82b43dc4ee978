//! Locks in one SQLite file: for jobs of one machine, with nothing to install and nothing to run.
//!
//! Leases are rows, counted on `CLOCK_BOOTTIME`: setting the wall clock changes nothing, and a reboot ends them.
//! Every operation is one write transaction of some microseconds; who has to wait for another process's does so on
//! a thread of the store's own. A file is used through its write-ahead log, by processes of one kernel.

mod arbiter;
mod boot;
mod checkpoint;
mod connection;
mod database;
mod doctor;
mod fault;
#[cfg(feature = "fence-rusqlite")]
pub(crate) mod fence;
mod hex;
mod lane;
mod leases;
mod machine;
mod notes;
mod options;
mod place;
mod queue;
mod route;
mod schema;
mod tagged;
#[cfg(test)]
mod tests;
mod ticks;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;

use self::database::Database;
use self::fault::Fault;
use self::lane::{Kind, Lane};
use self::machine::{Machine, ThisMachine};
use self::options::Options;
use self::watch::Watch;
use crate::error::{Error, Result};
use crate::finding::Finding;
use crate::lease::{Attempt, Claim, Ended, HolderId, Holding, LeaseKey, Release, Renewal, Revoke, Waiter};
use crate::member::Member;
use crate::name::LockName;
use crate::store::{self, Arbiter, Epoch, Listener, Notes, Primary, Store, Tables, Traits, USUAL_TTL, WakeUps};

/// A store in one SQLite file.
///
/// `sqlite:///absolute/path.db`, `sqlite:relative.db`, or `sqlite:` for the [default file](Self::default_path).
/// Percent-encoding is decoded. Options, after a `?`:
///
/// | option | meaning |
/// |---|---|
/// | `namespace=NAME` | users of one file that share names; `default` |
/// | `synchronous=normal` | a commit waits for the page cache: a crash of the machine may forget the last ones (its leases end with it anyway); the default |
/// | `synchronous=full` | a commit waits for the disk |
/// | `trust_file_system=only-this-machine-opens-it` | use a file system that isn't known to be one machine's own |
///
/// # On drop
/// Nothing is waited for: what was queued is still done in the background. The log is not moved to the database.
#[derive(Debug)]
pub struct Sqlite {
    database: Arc<Database>,
    lane: Lane,
    watch: Watch,
}

impl Sqlite {
    /// Opens the file that `url` names, and makes it if it isn't there. Blocks for about a third of a
    /// millisecond; for up to 5 s while other processes have the file locked.
    ///
    /// # Errors
    /// - `Invalid`: the URL is wrong.
    /// - `Misconfigured`: the file is on a file system that may be shared between machines, is another
    ///   program's or a newer version's, is damaged, or is in use on another clock or under another name.
    /// - `AccessDenied`, `Refused`, `Unavailable`, `TimedOut`: it can't be opened or written.
    pub fn open(url: &str) -> Result<Self> {
        Self::open_on(url, Box::new(ThisMachine))
    }

    fn open_on(url: &str, machine: Box<dyn Machine>) -> Result<Self> {
        let database = Arc::new(Database::new(Options::parse(url)?, machine)?);
        let lane = Lane::open(Arc::clone(&database)).map_err(|fault| fault.told(&database.place.path))?;
        Ok(Self { watch: Watch::new(Arc::clone(&database)), lane, database })
    }

    /// The file, by its one true path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.database.place.path
    }

    /// The file that a URL names, whether it is there or not. Opens and makes nothing.
    ///
    /// # Errors
    /// `Invalid`: the URL is wrong, or names no file where there is no default one.
    pub fn file_of(url: &str) -> Result<PathBuf> {
        Options::parse(url)?.path.map_or_else(place::default_path, Ok)
    }

    /// The file that `sqlite:` names: `/var/lib/leasehold/locks.db` for root, else
    /// `$XDG_STATE_HOME/leasehold/locks.db`, else `~/.local/state/leasehold/locks.db`.
    ///
    /// # Errors
    /// `Invalid` if neither `XDG_STATE_HOME` nor `HOME` is set.
    pub fn default_path() -> Result<PathBuf> {
        place::default_path()
    }

    /// An answer for each, in order. With a tag, only of those that have it.
    async fn renew_all(&self, leases: &[(LeaseKey, Duration)], tag: Option<Epoch>) -> Vec<Result<Renewal>> {
        if leases.is_empty() {
            return Vec::new();
        }
        let batch = leases.to_vec();
        match self.lane.run(Kind::Renew, move |connection| leases::renew(connection, &batch, tag)).await {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            // Others don't see these leases any more.
            Err(Fault::NoFile | Fault::Torn) => leases.iter().map(|_| Ok(Renewal::Gone)).collect(),
            Err(fault) => leases.iter().map(|_| Err(self.told(&fault))).collect(),
        }
    }

    fn told(&self, fault: &Fault) -> Error {
        fault.told(&self.database.place.path)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Sqlite {
    fn traits(&self) -> Traits {
        Traits {
            kind: "sqlite",
            smallest_ttl: Duration::from_secs(1),
            wake_ups: true,
            hands_over: false,
            session_bound: false,
            usual_ttl: USUAL_TTL,
            longest_stop_grace: Duration::MAX,
        }
    }

    fn for_keeper(&self) -> Arc<dyn Store> {
        let database = Arc::clone(&self.database);
        let (lane, watch) = (Lane::of_its_own(Arc::clone(&database)), Watch::new(Arc::clone(&database)));
        Arc::new(Self { database, lane, watch })
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(async move {
            let claim = claim.clone();
            let kind = Kind::Claim { durable: claim.due.is_some() };
            let answer = self.lane.run(kind, move |connection| leases::acquire(connection, &claim)).await;
            answer.map_err(|fault| self.told(&fault))
        })
    }

    fn leave<'a>(&'a self, waiter: &'a LeaseKey) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let waiter = waiter.clone();
            match self
                .lane
                .run(Kind::End { durable: false }, move |connection| leases::leave(connection, &waiter))
                .await
            {
                // The queue went with the file.
                Err(Fault::NoFile | Fault::Torn) => Ok(()),
                answer => answer.map_err(|fault| self.told(&fault)),
            }
        })
    }

    fn renew<'a>(&'a self, leases: &'a [(LeaseKey, Duration)]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(self.renew_all(leases, None))
    }

    fn release<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        Box::pin(async move {
            let lease = lease.clone();
            let kind = Kind::End { durable: how.verdict.is_some() };
            match self.lane.run(kind, move |connection| leases::release(connection, &lease, how)).await {
                Err(Fault::NoFile | Fault::Torn) => Ok(Release::NotHeld),
                answer => answer.map_err(|fault| self.told(&fault)),
            }
        })
    }

    fn subscribe<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        Box::pin(async move { Ok(self.watch.subscribe(name)) })
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(async move {
            let name = name.clone();
            let answer = self.lane.run(Kind::Look, move |connection| leases::inspect(connection, &name)).await;
            answer.map_err(|fault| self.told(&fault))
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Holding>>> {
        Box::pin(async move {
            let answer = self.lane.run(Kind::Survey, |connection| leases::list(connection)).await;
            answer.map_err(|fault| self.told(&fault))
        })
    }

    fn queue<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Vec<Waiter>>> {
        Box::pin(async move {
            let name = name.clone();
            let answer = self.lane.run(Kind::Look, move |connection| queue::waiters(connection, &name)).await;
            answer.map_err(|fault| self.told(&fault))
        })
    }

    fn revoke<'a>(
        &'a self,
        name: &'a LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(async move {
            let name = name.clone();
            let kind = Kind::Claim { durable: false };
            let answer = self.lane.run(kind, move |connection| leases::revoke(connection, &name, holder, how)).await;
            answer.map_err(|fault| self.told(&fault))
        })
    }

    fn reset_marks<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let name = name.clone();
            let kind = Kind::Claim { durable: true };
            let answer = self.lane.run(kind, move |connection| ticks::reset(connection, &name)).await;
            answer.map_err(|fault| self.told(&fault))
        })
    }

    fn time(&self) -> BoxFuture<'_, Result<Duration>> {
        Box::pin(async { Ok(self.database.machine.utc()) })
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(async move {
            let answer = self.lane.run(Kind::Survey, |connection| doctor::diagnose(connection)).await;
            answer.map_err(|fault| self.told(&fault))
        })
    }

    /// One store: nothing moves.
    fn listen(&self, _: Weak<Listener>) {}

    fn tables(&self) -> Option<Tables> {
        let Database { place, namespace, .. } = &*self.database;
        let database = store::Database::SqliteFile(place.path.clone());
        Some(Tables { database, namespace: namespace.clone() })
    }

    fn as_primary(&self) -> Option<&dyn Primary> {
        None
    }

    fn as_arbiter(&self) -> Option<&dyn Arbiter> {
        Some(self)
    }

    /// All its processes are on one machine.
    fn as_member(&self) -> Option<&dyn Member> {
        None
    }

    fn as_notes(&self) -> Option<&dyn Notes> {
        Some(self)
    }
}
