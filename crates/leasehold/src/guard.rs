//! What you hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::Result;
use crate::event::Event;
use crate::hold::Hold;
pub use crate::hold::LossReason;
use crate::keeper::{Cleanup, Undo};
use crate::lease::{Ended, FencingToken, HolderId, Release};
use crate::locks::Client;
use crate::name::LockName;
use crate::tick::{Tick, Verdict};
use crate::validity::Moment;

/// A held lock. The keeper renews it until it is released or dropped.
///
/// A guard is not a proof: a process can be paused between asking [`is_valid`](Self::is_valid) and acting
/// on it. While it is valid no other guard for the name is; what you write to should check the
/// [`token`](Self::token) as well, which covers the pause: in a transaction, by a fence (the module `fence`).
///
/// # On drop
/// Dropping a guard, by return, error, panic or cancellation, inside or outside a runtime, releases the
/// lock in the background on the keeper's thread, at once. It neither blocks nor panics. If the process
/// ends before that thread got to it, or the store is away, the lock is free after its TTL:
/// [`release`](Self::release) is the way to know, and [`Locks::shutdown`](crate::Locks::shutdown) waits
/// for all that is under way.
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    pub(crate) client: Arc<Client>,
    pub(crate) hold: Arc<Hold>,
    /// What is said of the work when it is given back.
    verdict: Verdict,
    /// Whether there was anything to do: a minimum hold is for that.
    was_needed: bool,
    /// The store has answered the release, or is never to hear of one: nothing is left to do for the drop.
    given_back: bool,
    /// A transaction of the job's own has completed its tick, and may have been committed.
    pub(crate) may_be_complete: AtomicBool,
}

/// What a release found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// The lock was ours until it was given back; if the store heard of that too late, until its time was over.
    InTime,
    /// It was ours no longer: its time was over or it was taken, and another may have run meanwhile.
    TooLate,
}

impl Guard {
    pub(crate) fn new(client: Arc<Client>, hold: Arc<Hold>) -> Self {
        let may_be_complete = AtomicBool::new(false);
        Self { client, hold, verdict: Verdict::Failed, was_needed: true, given_back: false, may_be_complete }
    }

    /// The lock's name.
    #[must_use]
    pub fn name(&self) -> &LockName {
        &self.hold.key.name
    }

    /// The identity of this acquisition.
    #[must_use]
    pub fn holder(&self) -> HolderId {
        self.hold.key.holder
    }

    /// The fencing token: larger than that of every earlier holder, the same for the whole hold.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.hold.token
    }

    /// Whether the lock may still be relied on, by our own clock, without asking anybody.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.hold.is_valid(self.client.clock.now())
    }

    /// How long the lock may be relied on if no renewal comes any more; zero if no longer.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.is_valid() { self.hold.valid_until().since(self.client.clock.now()) } else { Duration::ZERO }
    }

    /// Until when it is valid, on the clock of [`validity`](crate::validity).
    #[must_use]
    pub fn valid_until(&self) -> Moment {
        self.hold.valid_until()
    }

    /// How long the store keeps it if nobody renews it.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.hold.ttl
    }

    /// Resolves when the holder has to stop: [`stop_grace`](crate::Lock::stop_grace) before the validity
    /// ends, or as soon as the store says that the lock is gone. Needs no I/O.
    ///
    /// # Cancel safety
    /// Cancel safe, and may be called any number of times: it goes on resolving.
    pub async fn lost(&self) -> LossReason {
        self.hold.lost().await.clone()
    }

    /// Why the holder has to stop; none as long as it hasn't.
    #[must_use]
    pub fn loss(&self) -> Option<LossReason> {
        // The keeper may not have got to it yet.
        if !self.is_valid()
            && self.hold.loss().is_none()
            && self.hold.tell(self.hold.how_it_was_lost())
            && let Some(reason) = self.hold.loss()
        {
            self.client.observe(&Event::Lost { name: self.name(), holder: self.holder(), reason });
        }
        self.hold.loss().cloned()
    }

    /// Reports progress, see [`Lock::progress_within`](crate::Lock::progress_within). Cheap.
    pub fn touch(&self) {
        self.hold.touch(self.client.clock.now());
    }

    /// The tick that it is held for, if it is for one.
    #[must_use]
    pub fn tick(&self) -> Option<Tick> {
        self.hold.tick
    }

    /// How often this tick has been begun, this time included; 0 without a tick. More than 1 says that somebody
    /// before us failed or died in the middle.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.hold.attempt
    }

    /// Whether a transaction of the job's own has completed its tick, by `complete_in` of the module `fence`. What became of that
    /// transaction is not known here: whoever claims the tick again is told.
    #[must_use]
    pub fn may_be_complete(&self) -> bool {
        self.may_be_complete.load(Ordering::Acquire)
    }

    /// Gives the lock back.
    ///
    /// Of a [tick](crate::Lock::tick) or a [key](crate::Locks::once) this says that the work was begun and is not
    /// done, as dropping the guard does: if it is to be retried, it will be. See [`complete`](Self::complete).
    ///
    /// # Errors
    /// The store can't say. The release goes on being tried in the background until the TTL has passed.
    ///
    /// # Cancel safety
    /// Once called the lock is given back: dropping this future leaves the rest to the background.
    pub async fn release(self) -> Result<Released> {
        self.release_as(Verdict::Failed).await
    }

    /// Gives the lock back and says that the work is done: nobody will do this tick, or this key, again. The same as
    /// [`release`](Self::release) where there is neither.
    ///
    /// It counts even if the lock was lost meanwhile: what is done is done.
    ///
    /// # Errors
    /// The store can't say. It goes on being told in the background for as long as this client is there.
    ///
    /// # Cancel safety
    /// Once called it is so: dropping this future leaves the rest to the background.
    pub async fn complete(self) -> Result<Released> {
        let verdict = self.hold.tick.map_or(Verdict::Failed, Verdict::Done);
        self.release_as(verdict).await
    }

    /// Gives the lock back and says that the work was never begun, and never will be under this guard: the next one
    /// who comes may do it, even if it is to be done at most once. No minimum hold is kept.
    ///
    /// # Errors
    /// The store can't say. It goes on being told in the background for as long as this client is there.
    ///
    /// # Cancel safety
    /// Once called it is so: dropping this future leaves the rest to the background.
    pub async fn not_started(self) -> Result<Released> {
        self.release_as(Verdict::NotStarted).await
    }

    /// Gives the lock back and says that there is nothing to do for this tick, or this key: it is over, as if it were
    /// [complete](Self::complete), but no minimum hold is kept.
    ///
    /// # Errors
    /// The store can't say. It goes on being told in the background for as long as this client is there.
    ///
    /// # Cancel safety
    /// Once called it is so: dropping this future leaves the rest to the background.
    pub async fn not_needed(mut self) -> Result<Released> {
        self.was_needed = false;
        self.complete().await
    }

    /// Renews it no more, and gives nothing back: the lock ends by itself with its TTL.
    ///
    /// For work of which nobody can say that it has ended: whoever comes next comes as late as can be. Of a tick or a
    /// key the store learns nothing, as if this machine had died.
    pub fn abandon(mut self) {
        let _ = self.give_up();
        self.given_back = true; // as far as it ever will be
    }

    /// What is said of the work if the guard is dropped.
    pub(crate) fn presume(&mut self, verdict: Verdict) {
        self.verdict = verdict;
    }

    async fn release_as(mut self, verdict: Verdict) -> Result<Released> {
        self.verdict = verdict;
        let was_valid = self.is_valid();
        let how = self.give_up();
        let answer = self.client.store.release(&self.hold.key, how).await.inspect_err(|error| {
            let (name, holder) = (&self.hold.key.name, self.hold.key.holder);
            self.client.observe(&Event::ReleaseFailed { name, holder, error });
        })?; // Failed or cancelled: Drop hands it to the keeper.
        self.given_back = true;
        // Its time was over while the release was under way: nobody had it before, so nobody ran beside us.
        let ended_meanwhile = was_valid && !self.is_valid();
        let in_time = answer == Release::Released || ended_meanwhile;
        self.client.observe(&Event::Released {
            name: &self.hold.key.name,
            holder: self.hold.key.holder,
            label: &self.hold.label,
            held: self.client.clock.now().since(self.hold.acquired),
            in_time,
        });
        Ok(if in_time { Released::InTime } else { Released::TooLate })
    }

    /// From here on it is renewed no more; a renewal that finds it gone is no loss.
    fn give_up(&self) -> Ended {
        let is_first = self.hold.end();
        self.client.keeper.forget(&self.hold);
        if is_first {
            let (name, holder) = (&self.hold.key.name, self.hold.key.holder);
            self.client.observe_at_the_end(&Event::LetGo { name, holder });
        }
        let how = self.hold.how_it_ends(self.client.clock.now(), self.verdict);
        if self.was_needed { how } else { Ended { keep_for: Duration::ZERO, ..how } }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.given_back {
            return;
        }
        // A release under way may have reached the store: then it is ours no longer, and all is well.
        let uncertain = self.hold.has_ended();
        let how = self.give_up();
        self.client.keeper.clean_up(Cleanup {
            store: Arc::clone(&self.client.store),
            key: self.hold.key.clone(),
            what: Undo::Hold { how, label: Arc::clone(&self.hold.label), acquired: self.hold.acquired, uncertain },
            give_up_at: self.client.clock.now() + self.hold.ttl,
        });
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard")
            .field("name", self.name())
            .field("holder", &self.holder())
            .field("token", &self.token())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
