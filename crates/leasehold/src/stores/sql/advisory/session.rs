//! What a database has to be able to do, and what is the same whatever database it is.

use std::sync::Arc;
use std::time::Duration;

use super::tether::Tether;
use crate::error::Result;
use crate::finding::Finding;
use crate::lease::{FencingToken, Holder, HolderId, Holding, Waiter};
use crate::name::LockName;

/// A server that has session locks.
pub(crate) trait Server: Send + Sync + 'static {
    type Session: Session;

    /// As in a URL's scheme.
    const KIND: &'static str;

    /// How often a session has to be asked whether it still is one; none if its end is noticed unasked.
    const LOOKS: Option<Duration>;

    /// The URL, fit to be shown.
    fn shown(&self) -> &str;

    /// What is wrong with a name, if it can't be a lock here.
    fn check(&self, name: &LockName) -> Result<()>;

    /// A session of its own, checked to be fit for locks. Its end snaps the tether.
    fn connect(&self, tether: Arc<Tether>) -> impl Future<Output = Result<Self::Session>> + Send;

    /// Whether something of ours has turned out to be missing, which the next session makes.
    fn lacks_tables(&self) -> bool;

    /// What an operator should know of the server, over a connection of its own: also where no session can be had.
    fn examine(&self) -> impl Future<Output = Result<Vec<Finding>>> + Send;

    /// What to tell an operator to run who has to end a session.
    fn how_to_end(&self, number: i64) -> String;
}

/// A session, which nobody else uses. Nothing that is asked over it is dropped half-way, but to be closed.
pub(crate) trait Session: Send + 'static {
    /// Its number in the server.
    fn number(&self) -> i64;

    /// What tells it from another with the same number, as in [`Seen`].
    fn since(&self) -> &str;

    /// Whether it is known to have ended.
    fn is_over(&self) -> bool;

    /// Asks whether it is there.
    fn is_there(&mut self) -> impl Future<Output = bool> + Send;

    /// Whether what it asks is answered by the session that it was when it was made: a pooler may give it another.
    fn is_own(&mut self) -> impl Future<Output = Result<bool>> + Send;

    /// Has the server keep it for so long, though nothing is heard of it, and little longer. An error if it won't.
    fn outlast(&mut self, span: Duration) -> impl Future<Output = Result<()>> + Send;

    /// Takes a lock if it is free; its token. Never waits. After an error it may be held.
    fn take<'a>(
        &'a mut self,
        name: &'a LockName,
        label: &'a str,
    ) -> impl Future<Output = Result<Option<FencingToken>>> + Send + 'a;

    /// Whether it still has the lock, in a server that is still what it was.
    fn has<'a>(&'a mut self, name: &'a LockName) -> impl Future<Output = Result<bool>> + Send + 'a;

    /// Gives a lock back; false if it had none.
    fn give_back<'a>(&'a mut self, name: &'a LockName) -> impl Future<Output = Result<bool>> + Send + 'a;

    /// Which session has a lock.
    fn holder<'a>(&'a mut self, name: &'a LockName) -> impl Future<Output = Result<Option<Seen>>> + Send + 'a;

    /// Which sessions wait for a lock in the server, in order. None of ours does: these are of other programs.
    fn waiters<'a>(&'a mut self, name: &'a LockName) -> impl Future<Output = Result<Vec<Waiter>>> + Send + 'a;

    /// Whatever session has a lock of this namespace, as far as the server can tell.
    fn holders(&mut self) -> impl Future<Output = Result<Vec<(LockName, Seen)>>> + Send;

    /// Ends another session, if it is there: a server that has come in the place of another counts its own anew.
    fn end<'a>(&'a mut self, number: i64, since: &'a str) -> impl Future<Output = Result<()>> + Send + 'a;

    /// What the server's clock shows, since 1970.
    fn time(&mut self) -> impl Future<Output = Result<Duration>> + Send;

    /// What an operator should know of the sessions.
    fn findings(&mut self) -> impl Future<Output = Result<Vec<Finding>>> + Send;
}

/// A session that has a lock, as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Its number in the server.
    pub number: i64,
    /// What tells it from another session with the same number; empty if we may not see it.
    pub since: String,
    /// Who it is, for people.
    pub label: String,
    /// By which way of locking it has it, if it is known to be none of ours.
    pub library: Option<&'static str>,
}

impl Seen {
    /// As a holder of whom only the session is known. It ends with that, and nobody knows when that will be.
    pub fn holder(&self) -> Holder {
        Holder {
            holder: Some(HolderId::foreign(format!("{} {}", self.number, self.since).as_bytes())),
            label: self.label.clone(),
            library: self.library,
            remaining: Holding::NO_END,
            ..Holder::default()
        }
    }
}
