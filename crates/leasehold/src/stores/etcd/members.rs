//! The members of the cluster: one is asked at a time, and the next one once that one is silent or gone.
//!
//! A balancer over all of them would go on asking one that hangs. Here every call has a limit of its own. What must not
//! be done twice is never sent again unless it is certain that it was not sent; what only reads or prolongs is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tonic::Status;

use super::address::Address;
use super::dial::{Dial, Link};
use super::fault::{Cause, Fault};
use super::past::Past;
use crate::error::ErrorKind;

/// A call that is dropped after so long without an answer casts doubt on its member.
const SILENCE: Duration = Duration::from_millis(100);

/// Whether a call may be sent to another member once it may have been executed by the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Once,
    Again,
}

/// The members, as one handle sees them. Connections are made when they are needed.
pub(super) struct Members {
    dial: Dial,
    members: Vec<Member>,
    current: AtomicUsize,
    /// What any of them has shown.
    pub past: Arc<Past>,
}

struct Member {
    address: Address,
    link: Mutex<Option<Arc<Link>>>,
    connecting: tokio::sync::Mutex<()>,
}

impl Members {
    pub fn new(dial: Dial, addresses: &[Address], past: Arc<Past>) -> Self {
        let member = |address: &Address| Member {
            address: address.clone(),
            link: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        };
        Self { dial, members: addresses.iter().map(member).collect(), current: AtomicUsize::new(0), past }
    }

    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.members.iter().map(|member| &member.address)
    }

    pub fn are_many(&self) -> bool {
        self.members.len() > 1
    }

    /// Which one is asked at present.
    pub fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// Asks a member, for `limit` at most; others as well, where that does no harm.
    pub async fn call<T, F>(&self, sent: Sent, limit: Duration, ask: impl Fn(Arc<Link>) -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let first = self.current();
        let mut last = Fault::unsent(ErrorKind::Internal, "there is no member");
        for nth in 0..self.members.len() {
            let at = (first + nth) % self.members.len();
            let fault = match self.ask(at, limit, &ask).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            if !matches!(fault.cause, Cause::Member | Cause::Stale) {
                return Err(fault);
            }
            self.turn_from(at);
            if !fault.sure && sent == Sent::Once {
                return Err(fault);
            }
            // What was certain of the last one is not of those before.
            last = if nth == 0 || last.sure { fault } else { fault.maybe() };
        }
        Err(last)
    }

    /// Asks one member, whichever is asked else.
    pub async fn ask<T, F>(&self, at: usize, limit: Duration, ask: &impl Fn(Arc<Link>) -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let answer = self.ask_once(at, limit, ask).await;
        match answer {
            // Nothing was looked at, and over a new connection it may be.
            Err(fault) if matches!(fault.cause, Cause::Login | Cause::Stale) => self.ask_once(at, limit, ask).await,
            answer => answer,
        }
    }

    async fn ask_once<T, F>(&self, at: usize, limit: Duration, ask: &impl Fn(Arc<Link>) -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let doubt = Doubt { members: self, at, began: Instant::now() };
        let link = self.link(at, limit).await?;
        let answer = tokio::time::timeout(limit, ask(Arc::clone(&link))).await;
        std::mem::forget(doubt);
        let address = &self.members[at].address;
        let fault = match answer {
            Ok(Ok(answer)) => {
                link.note_answer();
                return Ok(answer);
            }
            Ok(Err(status)) if link.has_answered() => Fault::of(status),
            Ok(Err(status)) => Fault::of(status).of_a_stranger(address, self.dial.other_scheme()),
            Err(_) => Fault::late(format!("{address} was silent for {limit:.1?}")),
        };
        if matches!(fault.cause, Cause::Member | Cause::Login | Cause::Stale) {
            self.forget(at, &link);
        }
        Err(fault)
    }

    /// A connection to a member: the one there is, or a new one.
    pub async fn link(&self, at: usize, limit: Duration) -> Result<Arc<Link>, Fault> {
        let member = &self.members[at];
        if let Some(link) = member.held().clone() {
            return Ok(link);
        }
        let _first = member.connecting.lock().await;
        if let Some(link) = member.held().clone() {
            return Ok(link);
        }
        let address = &member.address;
        let late = |_| {
            let perhaps =
                if self.dial.tls.is_some() { format!("; {}", self.dial.other_scheme()) } else { String::new() };
            Fault::unsent(ErrorKind::TimedOut, format!("{address} let nobody connect for {limit:.1?}{perhaps}"))
        };
        let link = tokio::time::timeout(limit, self.dial.connect(address)).await.map_err(late)??;
        let link = Arc::new(link);
        *member.held() = Some(Arc::clone(&link));
        Ok(link)
    }

    /// The next one is asked from here on, unless another one is already.
    pub fn turn_from(&self, at: usize) {
        let next = (at + 1) % self.members.len();
        let _ = self.current.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// A connection that is no use any more.
    fn forget(&self, at: usize, link: &Arc<Link>) {
        let mut held = self.members[at].held();
        if held.as_ref().is_some_and(|held| Arc::ptr_eq(held, link)) {
            *held = None;
        }
    }
}

impl Member {
    fn held(&self) -> MutexGuard<'_, Option<Arc<Link>>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that is under way. Whoever gives it up unanswered does not come back to this member.
struct Doubt<'a> {
    members: &'a Members,
    at: usize,
    began: Instant,
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if self.began.elapsed() >= SILENCE {
            self.members.turn_from(self.at);
            *self.members.members[self.at].held() = None;
        }
    }
}
