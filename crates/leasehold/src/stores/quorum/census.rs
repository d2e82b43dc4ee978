//! Who the members are, and whether they may be.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::ending::in_background;
use super::round::{Answer, Round, has_timers};
use super::{Inner, Node};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Attempt, Claim};
use crate::member::{Identity, Vote};
use crate::span::Span;

/// What is known of the members' servers. Each is asked before its first claim, and again once it is not what it was.
#[derive(Debug)]
pub(super) struct Census {
    known: Mutex<Vec<Option<Identity>>>,
    /// Whether somebody asks those who are not known who they are.
    is_asking: AtomicBool,
    /// Why this is no quorum; found once, it stays so until the members are changed.
    refused: OnceLock<String>,
    /// Somebody has said who it is, or is no longer waited for.
    news: Notify,
}

/// How long a member may take to say who it is, when it is asked first and nobody waits for it any more.
const A_FIRST_MEETING: Duration = Duration::from_secs(5);

impl Census {
    pub fn of(members: usize) -> Self {
        Self {
            known: Mutex::new(vec![None; members]),
            is_asking: AtomicBool::new(false),
            refused: OnceLock::new(),
            news: Notify::new(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Vec<Option<Identity>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes down who a member is, unless it may not be one.
    fn admit(&self, index: usize, nodes: &[Node], identity: Identity) {
        let (mut known, name) = (self.known(), &nodes[index].name);
        let is_same = |other: &Option<Identity>| other.as_ref().is_some_and(|other| other.server == identity.server);
        let twice = known.iter().enumerate().find(|(other, known)| *other != index && is_same(known));
        if let Some((other, _)) = twice {
            let other = &nodes[other].name;
            let _ = self.refused.set(format!("{other} and {name} are the same server: its loss would be that of both"));
        }
        if let Some(why) = &identity.unfit {
            let _ = self.refused.set(format!("{name} can't be a member of a quorum: {why}"));
        }
        known[index] = Some(identity);
    }

    /// Whether a member is known, but in another life than it says: it was restarted, or is another server at the same
    /// address.
    fn knew_another(&self, index: usize, life: &str) -> bool {
        self.known()[index].as_ref().is_some_and(|known| *known.server != *life)
    }

    fn strangers(&self) -> Vec<usize> {
        let known = self.known();
        (0..known.len()).filter(|index| known[*index].is_none()).collect()
    }

    /// Until that is so, or nobody is asked any more.
    async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            let mut news = pin!(self.news.notified());
            news.as_mut().enable();
            if is_so() || !self.is_asking.load(Ordering::Relaxed) {
                return;
            }
            news.await;
        }
    }
}

/// While it lives, somebody asks.
struct Asking(Arc<Census>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.is_asking.store(false, Ordering::Relaxed);
        self.0.news.notify_waiters();
    }
}

impl Inner {
    /// Whether this is a quorum, as far as is known.
    ///
    /// # Errors
    /// The same server is in it twice, or one that can't be a member.
    pub(super) fn check_members(&self) -> Result<()> {
        match self.census.refused.get() {
            Some(why) => Err(Error::new(ErrorKind::Misconfigured, why.clone())),
            None => Ok(()),
        }
    }

    /// Whether all members that are known keep a lease of this TTL in mind over a restart.
    ///
    /// # Errors
    /// One of them doesn't.
    pub(super) fn check_ttl(&self, ttl: Duration) -> Result<()> {
        let known = self.census.known();
        let largest =
            known.iter().enumerate().filter_map(|(index, known)| Some((known.as_ref()?.max_ttl, index))).min();
        let Some((largest, index)) = largest.filter(|(largest, _)| *largest < ttl) else { return Ok(()) };
        let name = &self.nodes[index].name;
        let message = format!(
            "after a restart {name} grants again when {} (its max_ttl) have passed, and this TTL is {}: ask for a smaller \
             one, or raise max_ttl there",
            Span(largest),
            Span(ttl)
        );
        Err(Error::new(ErrorKind::Misconfigured, message))
    }

    /// Before anything is claimed a majority has said who it is; and who else answers as soon. To make a connection takes
    /// longer than a claim over it: so it is waited for as long as leaves an attempt time for the rest, and goes on beside us
    /// if that is not enough. Where a majority is known nobody waits for the others.
    pub(super) async fn meet(self: &Arc<Self>, ttl: Duration) {
        let strangers = self.census.strangers();
        if strangers.is_empty() {
            return;
        }
        let asked = Instant::now();
        let is_missing = self.nodes.len() - strangers.len() < self.majority();
        if !self.census.is_asking.swap(true, Ordering::Relaxed) {
            let asking = Asking(Arc::clone(&self.census));
            let round = self.meet_first(strangers).await;
            let inner = Arc::clone(self);
            in_background(async move { inner.are_met(round, asking).await }).await;
        }
        if !is_missing || !has_timers() {
            return;
        }
        let have_met = || self.nodes.len() - self.census.strangers().len() >= self.majority();
        let _ = timeout(ttl / 8, self.census.until(have_met)).await;
        let _ = timeout(asked.elapsed(), self.census.until(|| self.census.strangers().is_empty())).await;
    }

    async fn are_met(&self, mut round: Round<'static, Identity>, _asking: Asking) {
        while let Some(answer) = round.next().await {
            self.is_met(answer);
            self.census.news.notify_waiters();
        }
    }

    /// Asks who they are, and for something that a claim's connection is made for: it comes over that.
    async fn meet_first(&self, whom: Vec<usize>) -> Round<'static, Identity> {
        let call = |member: usize| -> (usize, BoxFuture<'static, Result<Identity>>) {
            let store = Arc::clone(&self.nodes[member].store);
            let call = async move {
                let member = store.as_member().expect("only members are admitted");
                let (identity, _) = tokio::join!(member.identity(), store.time());
                identity
            };
            (member, call.boxed())
        };
        Round::send(whom.into_iter().map(call), A_FIRST_MEETING).await
    }

    /// Asks those anew who say that they live in another life than is known: two of them may be the same server by now.
    pub(super) async fn meet_again<'a>(&self, lives: impl Iterator<Item = (usize, &'a str)>, limit: Duration) {
        let others = lives.filter(|(member, life)| self.census.knew_another(*member, life));
        let others = others.map(|(member, _)| member).collect();
        for answer in self.ask(others, limit).await.rest().await {
            self.is_met(answer);
        }
    }

    pub(super) async fn ask(&self, whom: Vec<usize>, limit: Duration) -> Round<'static, Identity> {
        let call = |member: usize| -> (usize, BoxFuture<'static, Result<Identity>>) {
            let store = Arc::clone(&self.nodes[member].store);
            let call = async move { store.as_member().expect("only members are admitted").identity().await };
            (member, call.boxed())
        };
        Round::send(whom.into_iter().map(call), limit).await
    }

    /// Whether it has said who it is.
    pub(super) fn is_met(&self, (member, identity): Answer<Identity>) -> bool {
        let identity = identity.ok().map(|identity| self.census.admit(member, &self.nodes, identity));
        identity.is_some()
    }

    /// The answer of a member, unless it isn't known which server that is, or its address leads to the same as that of another
    /// by now: each server has one vote.
    pub(super) fn with_a_vote<T>(&self, member: usize, of: Vote, answer: Result<T>) -> Result<T> {
        let answer = answer?;
        let life = |member: usize| self.nodes[member].member().last_life(of);
        let Some(own) = life(member) else {
            let message = "it has answered, and its connection broke before it was known which server that was";
            return Err(Error::new(ErrorKind::Unavailable, message).maybe_applied());
        };
        let Some(other) = (0..member).find(|other| life(*other).is_some_and(|life| life == own)) else {
            return Ok(answer);
        };
        let message = format!("its address leads to the same server as {} by now", self.nodes[other].name);
        Err(Error::new(ErrorKind::Misconfigured, message).maybe_applied())
    }

    /// A claim to one member; who that is, is asked first, if it isn't known.
    pub(super) async fn claim(&self, member: usize, claim: &Claim) -> Result<Attempt> {
        let node = &self.nodes[member];
        let is_known = self.census.known()[member].is_some();
        if !is_known {
            // Nothing was claimed yet.
            let identity = node.member().identity().await.map_err(certainly_not)?;
            self.census.admit(member, &self.nodes, identity);
        }
        self.check_members()?;
        self.check_ttl(claim.ttl)?;
        node.store.try_acquire(claim).await
    }
}

fn certainly_not(error: Error) -> Error {
    let is_passing = error.is_passing();
    let certain = Error::new(error.kind(), error.to_string()).with_source(error);
    if is_passing { certain.passes() } else { certain }
}
