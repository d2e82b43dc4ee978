//! The seam between locks and the places where leases live.

use std::any::Any;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::{BoxFuture, select_all};
use tokio::sync::Notify;

use crate::error::{Error, Result};
use crate::finding::Finding;
use crate::lease::{Attempt, Claim, Ended, HandOver, HolderId, Holding, LeaseKey, Release, Renewal, Revoke, Waiter};
use crate::member::Member;
use crate::name::{LockName, Namespace};

mod arbiter;
mod news;
mod notes;
mod primary;
mod tagged;

pub use arbiter::{Arbiter, Force, Reading, RouteTerms, Switch, Switched, TickClaim, TickOf};
pub use news::{Ballot, Listener, News};
pub(crate) use news::{Listeners, tell};
pub use notes::{Note, NoteId, Noted, Notes, Search, Topic};
pub use primary::{Primary, Reached, Serving};
pub use tagged::{Carried, Epoch, Incarnation, Refusal, Route, Tagged, Target};

/// A place where leases live. Object safe: a store is chosen at run time, by URL.
///
/// Every method is **one attempt** and about one round trip: no retries, no waiting for a lock, no
/// renewal in here. To be correct, a store keeps this contract; each line is a case of the conformance
/// suite in `leasehold-testkit`:
///
/// - *Exclusive*: at most one unexpired lease of a name; of several permits, at most so many. A claim for another
///   number of permits than its live holders were granted is an error (`Misconfigured`).
/// - *Atomic in the store*: a script, a transaction, one statement; never read here and written later.
/// - *Idempotent per holder*: the same claim sent again gets the same token, and its end moves to
///   max(end, now + TTL). Order: same holder alive → same grant; then the mark; then the queue; then the lease. A
///   holder that was revoked is answered `Held`: asking again must not undo what an operator did.
/// - *Late calls are harmless*: renew and release by a past holder change no lease and say so.
/// - *Renew never acquires*: a lease whose time is over is gone, even if nobody has taken it since.
/// - *The store's clock*: a claim carries a duration; whether a lease is over is judged where it lives.
/// - *Tokens grow* with every grant of a name, over all permits; renewals keep them.
/// - *Name safe*: any two different [`LockName`]s are two locks.
/// - *First come, first served*: a claim is granted only if no live waiter stands before it. A waiter's
///   entry lives for [`QUEUE_ENTRY`] after its last claim; who comes back with its ticket gets its old place. Where
///   several permits are free, the first so many waiters are granted.
/// - *Who waits is told*: [`queue`](Self::queue) has the live waiters of a name, each once, in the order in which they are to be
///   granted it. Who was granted it, has left, or whose entry is over is not among them, nor whoever waits for another name.
/// - *Handed over* (where [`Traits::hands_over`]): a release of a lock, with no minimum hold still running, grants it in
///   the same step to the first live waiter, if that one has said when it [sent](crate::Place::sent) its claim: under a
///   token of its own, for the TTL of that claim, out of the queue; and rings for it with the
///   [`HandOver`]. Its next claim, if that ring is lost, gets the same grant. Never for a tick (its mark would not be
///   looked at), nor where there are several permits.
/// - *Marks*: a claim with a tick is granted only if the tick is newer than the name's mark, or stands open for this
///   claim: nobody has begun it, or `retry_failed` is true of this claim and of the one before, whose lease is over.
///   A tick that is running elsewhere is `Held`; one that is finished, given up or older `NotDue`. Mark, open tick
///   and lease change in one step, which is durable before it is answered.
/// - *Verdicts*: `Done` closes the tick, whoever sends it and whoever holds the lock by then. `Failed` closes the
///   holder's own if it was not to be retried. `NotStarted`, and `leave`, take the holder's own attempt back. These
///   count late, too; nothing else does.
/// - *Honest errors*: [`Applied::No`](crate::Applied::No) only when it is certain that nothing happened.
/// - *In order*: a `release` or `leave` sent through the same handle after a claim, even one whose future
///   was dropped, takes effect after it. This is how a cancelled acquire is cleaned up.
pub trait Store: Debug + Send + Sync + 'static {
    /// What kind of store this is.
    fn traits(&self) -> Traits;

    /// The same store over connections of its own, for the keeper's thread. Opens nothing yet.
    fn for_keeper(&self) -> Arc<dyn Store>;

    /// Asks for a lock, once.
    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>>;

    /// Leaves the queue, and releases the lock (as [`NotStarted`](crate::Verdict::NotStarted)) if it was granted
    /// meanwhile. Idempotent.
    fn leave<'a>(&'a self, waiter: &'a LeaseKey) -> BoxFuture<'a, Result<()>>;

    /// Renews leases, each for its TTL. An answer for each, in order.
    fn renew<'a>(&'a self, leases: &'a [(LeaseKey, Duration)]) -> BoxFuture<'a, Vec<Result<Renewal>>>;

    /// Ends a lease.
    fn release<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>>;

    /// Hints that a name may be free. Missing one costs delay, never a hang: whoever waits also polls.
    fn subscribe<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>>;

    /// Who holds a name; none if nobody does. A name that nobody holds but that is kept (a minimum hold) or waited
    /// for is told too, with no holder.
    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Holding>>>;

    /// Every name that is held or waited for, in order of name.
    fn list(&self) -> BoxFuture<'_, Result<Vec<Holding>>>;

    /// Who waits for a name, the first in line first. Of a client that has a line of its own only its first stands in the store's.
    ///
    /// Nobody, unless the store says otherwise: where nobody stands in line there is nobody to tell of.
    fn queue<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Vec<Waiter>>> {
        let _ = name;
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Ends somebody else's hold: that of `holder`, or without one every hold of the name. Answers those that it hit, as
    /// they were; none if there was nothing to end.
    fn revoke<'a>(
        &'a self,
        name: &'a LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> BoxFuture<'a, Result<Option<Holding>>>;

    /// Forgets which ticks of a name were claimed and which stand open, as if none had ever been: an operator's step, where a clock that was
    /// years ahead left a mark that nothing is newer than. Tokens go on growing, and a lease that lives lives on. Answers whether there was a mark.
    fn reset_marks<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<bool>> {
        let _ = name;
        Box::pin(async { Err(Error::invalid("this store keeps no marks of ticks")) })
    }

    /// What the store's clock shows: the time since the beginning of 1970 in UTC. Ticks are chosen and judged by it.
    fn time(&self) -> BoxFuture<'_, Result<Duration>>;

    /// What an operator should know about this store: the findings of `leasehold doctor`.
    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>>;

    /// Has `listener` called, for as long as it is there, with what this client sees of its store beside the answers: where its locks are
    /// routed and when they move to another store, how members vote. A single store has no [`News`].
    fn listen(&self, listener: Weak<Listener>) {
        drop(listener);
    }

    /// Where a job's own transaction finds the leases; none where it can't, or where nobody was asked yet. Asks nobody.
    fn tables(&self) -> Option<Tables>;

    /// This store as the primary of a [`Fallback`](crate::stores::Fallback); none if it can't be one.
    fn as_primary(&self) -> Option<&dyn Primary> {
        None
    }

    /// This store as the arbiter of a [`Fallback`](crate::stores::Fallback); none if it can't be one.
    fn as_arbiter(&self) -> Option<&dyn Arbiter> {
        None
    }

    /// The same store as one of several that together are a quorum; none if it can't be one: its locks end with a session,
    /// its tokens can't be raised, or others share its keys.
    fn as_member(&self) -> Option<&dyn Member> {
        None
    }

    /// This store as one that keeps notes; none if it can't.
    fn as_notes(&self) -> Option<&dyn Notes> {
        None
    }
}

/// In which database the leases of a store are rows: what the fence in a job's own transaction looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    /// The database.
    pub database: Database,
    /// Under which namespace they stand there.
    pub namespace: Namespace,
}

/// A database that leases and a job's own tables can be in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Database {
    /// A file of SQLite's, by its path without symbolic links.
    SqliteFile(PathBuf),
    /// A database of a MySQL or MariaDB server.
    MySql {
        /// Its name there.
        database: String,
        /// What stands in `leasehold_schema` of these tables, and of no others.
        home: String,
    },
    /// Tables in a schema of a PostgreSQL database.
    Postgres {
        /// The schema, as a quoted identifier.
        schema: String,
        /// What stands in `leasehold_schema` of these tables, and of no others.
        home: String,
    },
}

/// How long a waiter's entry counts after its last claim, by the store's clock.
pub const QUEUE_ENTRY: Duration = Duration::from_secs(1);

/// How many ticks of a name may stand open: claimed and not finished. The oldest is given up for a new one.
pub const OPEN_TICKS: usize = 32;

/// The [`usual_ttl`](Traits::usual_ttl) of a store that has no reason for another.
pub const USUAL_TTL: Duration = Duration::from_secs(30);

/// What a store can do and how it likes to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    /// Its kind, as in a URL's scheme: `sqlite`.
    pub kind: &'static str,
    /// The smallest TTL that it can keep.
    pub smallest_ttl: Duration,
    /// Whether [`Store::subscribe`] ever wakes anybody; without, waiters poll faster.
    pub wake_ups: bool,
    /// Whether a release hands the lock over to who waits for it, rather than only waking that one.
    pub hands_over: bool,
    /// Whether what it grants ends with a session of a server's, and not by time alone: `mode=advisory`. There are no
    /// several permits, ticks, minimum holds or gentle revocations then, nobody stands in a queue in the store, and such a
    /// store is no part of others.
    pub session_bound: bool,
    /// The TTL of a lock that is given none.
    pub usual_ttl: Duration,
    /// The longest [`stop_grace`](crate::Lock::stop_grace) that a holder may have; [`Duration::MAX`] where the TTL alone
    /// limits it. The default is shortened to it.
    pub longest_stop_grace: Duration,
}

/// What a store rings for one subscription.
#[derive(Debug, Default)]
pub struct Bell {
    rung: Notify,
    handed_over: Mutex<Option<HandOver>>,
}

impl Bell {
    /// The name may be free.
    pub fn ring(&self) {
        self.rung.notify_one();
    }

    /// The lock was given to somebody; whoever else hears it has been told that it was not free for long.
    pub fn hand_over(&self, to: HandOver) {
        *self.handed_over.lock().unwrap_or_else(PoisonError::into_inner) = Some(to);
        self.ring();
    }
}

/// A subscription of one waiter to one name. Dropping it ends it.
pub struct WakeUps {
    bells: Vec<Arc<Bell>>,
    _until_dropped: Box<dyn Any + Send + Sync>,
}

impl WakeUps {
    /// A subscription that rings when `bell` does and ends by dropping `until_dropped`.
    pub fn new(bell: Arc<Bell>, until_dropped: impl Any + Send + Sync) -> Self {
        Self { bells: vec![bell], _until_dropped: Box::new(until_dropped) }
    }

    /// One that rings when any of these does.
    #[must_use]
    pub fn any_of(many: Vec<Self>) -> Self {
        let bells = many.iter().flat_map(|one| one.bells.iter().cloned()).collect();
        Self { bells, _until_dropped: Box::new(many) }
    }

    /// One that never rings.
    #[must_use]
    pub fn silent() -> Self {
        Self::new(Arc::default(), ())
    }

    /// Resolves at the next hint, at once if there was one since the last; to whom the lock was handed over, if it was.
    ///
    /// # Cancel safety
    /// Cancel safe: a hint is not lost by dropping this.
    pub async fn next(&mut self) -> Option<HandOver> {
        let bell = match &self.bells[..] {
            [] => return std::future::pending().await,
            [one] => {
                one.rung.notified().await;
                one
            }
            many => {
                let rung = many.iter().map(|bell| {
                    Box::pin(async move {
                        bell.rung.notified().await;
                        bell
                    })
                });
                select_all(rung).await.0
            }
        };
        bell.handed_over.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Debug for WakeUps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WakeUps")
    }
}
