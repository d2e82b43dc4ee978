//! Members that came back empty, filled for all names, so that the loss of the next one is no more than that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use super::round::Round;
use super::{Inner, LIMIT, SHORTEST_PAUSE};
use crate::chance;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::HolderId;
use crate::member::{Filling, Names};
use crate::name::LockName;
use crate::rule::Rule;
use crate::tick::Tick;

/// How often a client that is at work looks whether some member has to be filled; and if one had, which may be under guard
/// still or filled by somebody else.
const LOOKS_EVERY: Duration = Duration::from_secs(60);
const LOOKS_AGAIN: Duration = Duration::from_secs(10);

/// About so many names are asked for at a time, and so many are filled at a time. Between two pages nothing is done for as long
/// as a page took.
const PAGE: usize = 500;
const AT_ONCE: usize = 8;

/// How often a step is tried.
const TRIES: u32 = 5;

/// Whether this client fills a member, and when it looks again.
#[derive(Debug, Default)]
pub(super) struct Sweeps {
    is_sweeping: AtomicBool,
    next: Mutex<Next>,
}

#[derive(Debug, Default)]
struct Next {
    /// At once if never.
    look: Option<Instant>,
    /// Whether one had to be filled.
    again: bool,
}

/// While it lives, a client looks, and fills what it has found.
struct Sweeping(Arc<Sweeps>);

impl Drop for Sweeping {
    fn drop(&mut self) {
        self.0.is_sweeping.store(false, Ordering::Relaxed);
    }
}

impl Sweeps {
    fn next(&self) -> MutexGuard<'_, Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is time to look; then this client does.
    fn begins(self: &Arc<Self>) -> Option<Sweeping> {
        let is_time = self.next().look.is_none_or(|at| Instant::now() >= at);
        let begins = is_time && !self.is_sweeping.swap(true, Ordering::Relaxed);
        begins.then(|| Sweeping(Arc::clone(self)))
    }

    fn looks_again(&self, found: bool) {
        let after = if found { LOOKS_AGAIN } else { LOOKS_EVERY };
        let look = Some(Instant::now() + after.mul_f64(chance::within(0.5..1.0)));
        *self.next() = Next { look, again: found };
    }

    /// A member has not known a name. If that is news, it is looked for now.
    pub fn one_is_empty(&self) {
        let mut next = self.next();
        if !next.again {
            *next = Next { look: None, again: true };
        }
    }
}

impl Inner {
    /// Looks now and then, beside us, whether a member came back empty, and fills it.
    pub(super) fn sweep_now_and_then(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        let Some(sweeping) = self.sweeps.begins() else { return };
        let inner = Arc::clone(self);
        runtime.spawn(async move {
            let found = inner.sweep_all().await;
            sweeping.0.looks_again(found);
        });
    }

    /// Fills each member that is not full for every name, one after another. Whether there were any.
    async fn sweep_all(self: &Arc<Self>) -> bool {
        let calls = (0..self.nodes.len()).map(|member| (member, self.nodes[member].member().names(0, 1)));
        let answers = Round::send(calls, LIMIT).await.rest().await;
        let answers: Vec<_> = answers.into_iter().filter_map(|(member, names)| Some((member, names.ok()?))).collect();
        // An address may lead to another member by now: that would count twice.
        self.meet_again(answers.iter().map(|(member, names)| (*member, &*names.life)), LIMIT).await;
        if self.check_members().is_err() {
            return true;
        }
        let (whole, empty): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(_, names)| names.whole.is_some());
        // With fewer nobody can.
        if whole.len() >= self.majority() {
            for (member, names) in &empty {
                // Another does it, or it can't be done yet: it is looked for again.
                let _ = self.sweep(*member, &names.life, &whole).await;
            }
        }
        !empty.is_empty()
    }

    /// Lets a member adopt every name that a majority's number of others remember, of those that are full for all. What a
    /// majority has acknowledged with the member, before that came back, one of them has been told by now and remembers; what is
    /// written while this runs did not count the member where it has not adopted the name.
    async fn sweep(self: &Arc<Self>, member: usize, life: &str, whole: &[(usize, Names)]) -> Result<()> {
        let by = HolderId::fresh();
        self.takes(member, by, Filling::Begins, life).await?;
        let needed = if Rule::SweptFromAMajority.holds() { self.majority() } else { 1 };
        let (mut read, mut floor, mut last) = (0, None, Ok(()));
        for (source, _) in whole {
            match self.adopt_all_of(*source, member, by, life).await {
                Ok(theirs) => (read, floor) = (read + 1, floor.max(theirs)),
                Err(error) => last = Err(error),
            }
            if read >= needed {
                return self.takes(member, by, Filling::IsDone { floor }, life).await;
            }
        }
        last
    }

    /// Lets a member adopt every name that another remembers; what floor that has. It must be full for all names throughout,
    /// and the member in this life.
    async fn adopt_all_of(
        self: &Arc<Self>,
        source: usize,
        member: usize,
        by: HolderId,
        life: &str,
    ) -> Result<Option<Tick>> {
        let (mut from, mut first, mut refused) = (0, None, None);
        loop {
            let asked = Instant::now();
            let page = self.patiently(|| self.nodes[source].member().names(from, PAGE)).await?;
            if page.whole.is_none() || *first.get_or_insert_with(|| page.whole.clone()) != page.whole {
                return Err(passing(format!("{} lost what it knew", self.nodes[source].name)));
            }
            let adopt = |name: LockName| async move { self.adopts(&name, member).await };
            let names = if Rule::TheSweptHaveAdopted.holds() { page.names } else { Vec::new() };
            let adopted: Vec<_> = stream::iter(names).map(adopt).buffer_unordered(AT_ONCE).collect().await;
            for error in adopted.into_iter().filter_map(Result::err) {
                if error.is_transient() {
                    return Err(error);
                }
                // One name that can't be adopted, another program's key say, keeps none of the others from it.
                refused.get_or_insert(error);
            }
            let Some(next) = page.next else { return refused.map_or(Ok(page.floor), Err) };
            from = next;
            self.takes(member, by, Filling::GoesOn, life).await?;
            sleep(asked.elapsed().max(SHORTEST_PAUSE)).await;
        }
    }

    /// Unless it has done so, or did before another began.
    async fn adopts(self: &Arc<Self>, name: &LockName, member: usize) -> Result<()> {
        let known = self.patiently(|| self.nodes[member].member().recall(name)).await?;
        if known.is_full {
            return Ok(());
        }
        let only = [member];
        self.patiently(|| Box::pin(self.refill(name, &only, LIMIT))).await
    }

    /// Tries to take a step.
    async fn takes(&self, member: usize, by: HolderId, step: Filling, life: &str) -> Result<()> {
        let taken = self.patiently(|| self.nodes[member].member().fill(by, step, life)).await?;
        if taken { Ok(()) } else { Err(passing("another fills it".to_owned())) }
    }

    /// The answer of one member, asked a few times.
    async fn patiently<'a, T>(&'a self, ask: impl Fn() -> BoxFuture<'a, Result<T>>) -> Result<T> {
        let mut tries = 1;
        loop {
            let answer = timeout(LIMIT * 2, ask()).await;
            let late = |_| Err(Error::new(ErrorKind::TimedOut, "there was no answer").maybe_applied());
            match answer.unwrap_or_else(late) {
                Err(error) if tries < TRIES && error.is_transient() && !error.is_passing() => {}
                answer => return answer,
            }
            sleep(SHORTEST_PAUSE).await;
            tries += 1;
        }
    }
}

fn passing(why: String) -> Error {
    Error::new(ErrorKind::Unavailable, why).passes()
}
