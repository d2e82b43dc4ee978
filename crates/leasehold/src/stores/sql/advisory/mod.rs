//! Locks that are bound to a session of a database server: `pg_advisory_lock`, `GET_LOCK`.
//!
//! Each lock has a session to itself, so that no lock is ever taken twice by accident. The server keeps it until the
//! session ends; so that this is never sooner than we think, and not much later than we are gone, the server is told
//! for how long it is to keep a session of which it hears nothing. A renewal is a heartbeat over that session which
//! proves that the lock is still there. A session that ends is a loss at once.
//!
//! A session whose lock was given back, and the server said so, is kept for the next one. Any other is closed.

mod errand;
mod held;
mod home;
mod session;
mod sessions;
mod tether;
pub(crate) mod token;

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};

use self::errand::Errand;
pub(crate) use self::session::{Seen, Server, Session};
use self::sessions::Sessions;
pub(crate) use self::sessions::shared_by_a_pooler;
pub(crate) use self::tether::Tether;
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::lease::{Attempt, Claim, Ended, HolderId, Holding, LeaseKey, Release, Renewal, Revoke, Waiter};
use crate::member::Member;
use crate::name::LockName;
use crate::store::{Arbiter, Listener, Notes, Primary, Store, Tables, Traits, USUAL_TTL, WakeUps};

/// A store of session locks. All its handles have the same sessions.
pub(crate) struct Advisory<S: Server> {
    sessions: Arc<Sessions<S>>,
}

impl<S: Server> Advisory<S> {
    /// Connects when it is first used.
    pub fn new(server: S) -> Self {
        Self { sessions: Arc::new(Sessions::new(server)) }
    }

    /// Has something done; to its end, whether anybody waits for that or not.
    async fn ask<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
        &self,
        what: impl FnOnce(Arc<Sessions<S>>) -> F,
    ) -> Result<T> {
        Errand::new(self.sessions.home()?, |_| what(Arc::clone(&self.sessions))).await
    }

    async fn acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.refuse_what_needs_a_table(claim)?;
        self.sessions.check(&claim.name)?;
        let (sessions, claim) = (Arc::clone(&self.sessions), claim.clone());
        Errand::new(self.sessions.home()?, |caller| sessions.acquire(claim, caller)).await
    }

    /// What a server has no session lock for.
    fn refuse_what_needs_a_table(&self, claim: &Claim) -> Result<()> {
        let what = if claim.permits.get() > 1 {
            "several permits"
        } else if claim.due.is_some() {
            "ticks and keys (--once-per, --once-key, schedules)"
        } else {
            return Ok(());
        };
        Err(self.refusal(what))
    }

    fn refusal(&self, what: &str) -> Error {
        let message = format!(
            "session locks (mode=advisory) have no {what}; use the lease table of {} for that, which is the default: leave \
             out mode=advisory",
            self.sessions.shown()
        );
        Error::new(ErrorKind::Misconfigured, message)
    }
}

impl<S: Server> std::fmt::Debug for Advisory<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Advisory").field("server", &self.sessions.shown()).finish_non_exhaustive()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Server> Store for Advisory<S> {
    fn traits(&self) -> Traits {
        Traits {
            kind: S::KIND,
            smallest_ttl: Duration::from_secs(1),
            wake_ups: false,
            hands_over: false,
            session_bound: true,
            usual_ttl: USUAL_TTL,
            longest_stop_grace: Duration::MAX,
        }
    }

    fn for_keeper(&self) -> Arc<dyn Store> {
        // A heartbeat goes over the session that has the lock, which lives on a thread of its own already.
        Arc::new(Self { sessions: Arc::clone(&self.sessions) })
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(self.acquire(claim))
    }

    fn leave<'a>(&'a self, waiter: &'a LeaseKey) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let key = waiter.clone();
            self.ask(|sessions| async move { sessions.release(key).await }).await.map(drop)
        })
    }

    fn renew<'a>(&'a self, leases: &'a [(LeaseKey, Duration)]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(join_all(
            leases
                .iter()
                .cloned()
                .map(|(key, ttl)| self.ask(move |sessions| async move { sessions.renew(key, ttl).await })),
        ))
    }

    fn release<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        Box::pin(async move {
            if !how.keep_for.is_zero() {
                return Err(self.refusal("minimum hold (--at-least-for)"));
            }
            let key = lease.clone();
            self.ask(|sessions| async move { sessions.release(key).await }).await
        })
    }

    fn subscribe<'a>(&'a self, _name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        Box::pin(async { Ok(WakeUps::silent()) })
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(async move {
            self.sessions.check(name)?;
            let name = name.clone();
            self.ask(|sessions| async move { sessions.inspect(&name).await }).await
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Holding>>> {
        Box::pin(self.ask(|sessions| async move { sessions.list().await }))
    }

    /// Strangers: ours never wait in the server.
    fn queue<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Vec<Waiter>>> {
        Box::pin(async move {
            self.sessions.check(name)?;
            let name = name.clone();
            self.ask(|sessions| async move { sessions.queue(&name).await }).await
        })
    }

    fn revoke<'a>(
        &'a self,
        name: &'a LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(async move {
            if how == Revoke::Gently {
                return Err(self
                    .refusal("way to ask a holder to give up (only `release --force --now`, which ends its session)"));
            }
            self.sessions.check(name)?;
            let name = name.clone();
            self.ask(move |sessions| async move { sessions.end_holder(&name, holder).await }).await
        })
    }

    fn reset_marks<'a>(&'a self, _name: &'a LockName) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async { Err(self.refusal("marks of ticks")) })
    }

    fn time(&self) -> BoxFuture<'_, Result<Duration>> {
        Box::pin(self.ask(|sessions| async move { sessions.time().await }))
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(self.ask(|sessions| async move { sessions.diagnose().await }))
    }

    /// One store: nothing moves.
    fn listen(&self, _: Weak<Listener>) {}

    fn tables(&self) -> Option<Tables> {
        None // No row says who holds what.
    }

    fn as_primary(&self) -> Option<&dyn Primary> {
        None
    }

    fn as_arbiter(&self) -> Option<&dyn Arbiter> {
        None
    }

    /// Its locks end with a session.
    fn as_member(&self) -> Option<&dyn Member> {
        None
    }

    fn as_notes(&self) -> Option<&dyn Notes> {
        None
    }
}
