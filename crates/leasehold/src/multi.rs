//! Several locks at once: all of them or none.

use std::time::Duration;

use futures_util::future::{join_all, select_all};

use crate::error::{Error, Result};
use crate::guard::{Guard, LossReason, Released};
use crate::lock::{Lock, Outcome, Wait};
use crate::name::LockName;
use crate::tick::Verdict;
use crate::validity::Moment;

/// Several locks that are held together: all of them or none.
///
/// They are taken one after the other in order of their names, whatever the order in which they were given, so that no
/// two that want `[a, b]` and `[b, a]` wait for each other. While one is waited for, those before it are held. Each
/// keeps its own terms (TTL, permits, tick …); how long is waited is said here, for all together. A maximum hold counts
/// from when its lock was taken, so it belongs to the one that is taken last.
///
/// ```
/// # async fn demo(locks: leasehold::Locks) -> leasehold::Result<()> {
/// use std::time::Duration;
/// use leasehold::{MultiLock, Outcome, Wait};
///
/// let both = MultiLock::of([locks.lock("stock"), locks.lock("orders")])?;
/// if let Outcome::Acquired(guard) = both.wait(Wait::For(Duration::from_secs(5))).acquire().await? {
///     // … move something from the one to the other …
///     guard.release().await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct MultiLock {
    /// In order of name.
    locks: Vec<(LockName, Lock)>,
    wait: Wait,
}

/// Several held locks, each with its token. Dropping it releases them all, as dropping a [`Guard`] does.
#[derive(Debug)]
#[must_use = "dropping the guard releases the locks"]
pub struct MultiGuard {
    guards: Vec<Guard>,
}

/// How taking them in turn came out.
enum Taken {
    All(MultiGuard),
    /// Not all: what was held has been given back.
    Not(Outcome<MultiGuard>),
    /// One was lost while another was waited for: what was held has been given back.
    LostOne,
}

impl MultiLock {
    /// These locks together.
    ///
    /// # Errors
    /// There are none, two have the same name, or a name or term is bad.
    pub fn of(locks: impl IntoIterator<Item = Lock>) -> Result<Self> {
        let named = |lock: Lock| lock.checked().map(|lock| (lock.name().cloned(), lock));
        let locks: Result<Vec<_>> = locks.into_iter().map(named).collect();
        let mut locks: Vec<_> = locks?.into_iter().filter_map(|(name, lock)| Some((name?, lock))).collect();
        locks.sort_by(|one, other| one.0.cmp(&other.0));
        if locks.is_empty() {
            return Err(Error::invalid("there are no locks to take together; give at least one"));
        }
        if let Some([(twice, _), _]) = locks.array_windows().find(|[(one, _), (other, _)]| one == other) {
            return Err(Error::invalid(format!("the lock {twice} is asked for twice at once; give each name once")));
        }
        Ok(Self { locks, wait: Wait::Forever })
    }

    /// How long [`acquire`](Self::acquire) waits for all of them together; what the single locks say doesn't count.
    /// Default: for ever.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Asks once for each, until one is held by somebody else; then none is kept.
    ///
    /// # Errors
    /// As for [`Lock::try_acquire`], of any of them.
    ///
    /// # Cancel safety
    /// As for [`Lock::try_acquire`].
    pub async fn try_acquire(&self) -> Result<Outcome<MultiGuard>> {
        let mut held = Partial::default();
        for (_, lock) in &self.locks {
            match lock.try_acquire().await {
                Ok(Outcome::Acquired(guard)) => held.guards.push(guard),
                refused => return held.give_back(refused).await,
            }
        }
        Ok(Outcome::Acquired(held.complete()))
    }

    /// Waits for all of them. If one that was taken is lost while another is waited for, all begin anew.
    ///
    /// # Errors
    /// As for [`Lock::acquire`], of any of them.
    ///
    /// # Cancel safety
    /// As for [`Lock::acquire`].
    pub async fn acquire(&self) -> Result<Outcome<MultiGuard>> {
        let deadline = match self.wait {
            Wait::Forever => Moment::NEVER,
            Wait::For(most) => self.now() + most,
        };
        loop {
            match self.take_by(deadline).await? {
                Taken::All(guard) => return Ok(Outcome::Acquired(guard)),
                Taken::Not(outcome) => return Ok(outcome),
                Taken::LostOne => {}
            }
        }
    }

    async fn take_by(&self, deadline: Moment) -> Result<Taken> {
        let mut held = Partial::default();
        for (_, lock) in &self.locks {
            let wait = if deadline == Moment::NEVER { Wait::Forever } else { Wait::For(deadline.since(self.now())) };
            let next = lock.clone().wait(wait);
            let outcome = tokio::select! {
                biased;
                outcome = next.acquire() => outcome,
                _ = lost_of(&held.guards) => return Ok(held.lose().await),
            };
            match outcome {
                Ok(Outcome::Acquired(guard)) => held.guards.push(guard),
                refused => return held.give_back(refused).await.map(Taken::Not),
            }
        }
        if held.guards.iter().any(|guard| guard.loss().is_some()) {
            return Ok(held.lose().await);
        }
        Ok(Taken::All(held.complete()))
    }

    fn now(&self) -> Moment {
        self.locks[0].1.now()
    }
}

/// What is held of several, until it is all. Given up half-way, no work was begun under it.
#[derive(Default)]
struct Partial {
    guards: Vec<Guard>,
}

impl Partial {
    fn complete(mut self) -> MultiGuard {
        MultiGuard { guards: std::mem::take(&mut self.guards) }
    }

    /// Why one couldn't be had, once the others are free again: who hears of it may end. A release that fails goes on in the
    /// background.
    async fn give_back(self, refused: Result<Outcome>) -> Result<Outcome<MultiGuard>> {
        let _ = self.complete().not_started().await;
        refused.map(|outcome| outcome.map(|guard| MultiGuard { guards: vec![guard] }))
    }

    /// Given back before they are asked for again, or a tick among them would be taken for one that was begun.
    async fn lose(self) -> Taken {
        let _ = self.complete().not_started().await;
        Taken::LostOne
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        for guard in &mut self.guards {
            guard.presume(Verdict::NotStarted);
        }
    }
}

async fn lost_of(guards: &[Guard]) -> (LockName, LossReason) {
    if guards.is_empty() {
        return std::future::pending().await;
    }
    let lost = guards.iter().map(|guard| Box::pin(async { (guard.name().clone(), guard.lost().await) }));
    select_all(lost).await.0
}

impl MultiGuard {
    pub(crate) fn of_guards(guards: Vec<Guard>) -> Self {
        Self { guards }
    }

    pub(crate) fn into_guards(self) -> Vec<Guard> {
        self.guards
    }

    /// The guards of the single locks, in order of their names.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// The guard of this name, if it is among them.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Guard> {
        self.guards.iter().find(|guard| guard.name().as_str() == name)
    }

    /// Whether all of them may still be relied on.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.guards.iter().all(Guard::is_valid)
    }

    /// How long all of them may be relied on if no renewal comes any more.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(Guard::remaining).min().unwrap_or_default()
    }

    /// Resolves when the holder of any of them has to stop. See [`Guard::lost`].
    ///
    /// # Cancel safety
    /// As for [`Guard::lost`].
    pub async fn lost(&self) -> (LockName, LossReason) {
        lost_of(&self.guards).await
    }

    /// Why the holder has to stop; none as long as it hasn't.
    #[must_use]
    pub fn loss(&self) -> Option<(LockName, LossReason)> {
        self.guards.iter().find_map(|guard| Some((guard.name().clone(), guard.loss()?)))
    }

    /// Reports progress for all of them. See [`Guard::touch`].
    pub fn touch(&self) {
        self.guards.iter().for_each(Guard::touch);
    }

    /// Gives all of them back, at the same time. See [`Guard::release`].
    ///
    /// # Errors
    /// The store can't say, of one at least. Each is given back whatever became of the others.
    ///
    /// # Cancel safety
    /// As for [`Guard::release`].
    pub async fn release(self) -> Result<Released> {
        all(self.guards.into_iter().map(Guard::release)).await
    }

    /// Gives all of them back; their ticks are done. See [`Guard::complete`].
    ///
    /// # Errors
    /// As for [`release`](Self::release).
    ///
    /// # Cancel safety
    /// As for [`Guard::complete`].
    pub async fn complete(self) -> Result<Released> {
        all(self.guards.into_iter().map(Guard::complete)).await
    }

    /// Gives all of them back; the work was never begun. See [`Guard::not_started`].
    ///
    /// # Errors
    /// As for [`release`](Self::release).
    ///
    /// # Cancel safety
    /// As for [`Guard::not_started`].
    pub async fn not_started(self) -> Result<Released> {
        all(self.guards.into_iter().map(Guard::not_started)).await
    }
}

/// In time if all were.
async fn all(releases: impl Iterator<Item = impl Future<Output = Result<Released>>>) -> Result<Released> {
    let answers: Result<Vec<_>> = join_all(releases).await.into_iter().collect();
    let in_time = answers?.iter().all(|answer| *answer == Released::InTime);
    Ok(if in_time { Released::InTime } else { Released::TooLate })
}
