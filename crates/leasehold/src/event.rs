//! The life of locks, told to whoever listens.

use std::time::Duration;

use crate::error::Error;
use crate::guard::LossReason;
use crate::lease::{FencingToken, HolderId, Holding};
use crate::member::Vote;
use crate::name::LockName;
use crate::store::{Ballot, Epoch, Target};
use crate::tick::{NotDue, Tick};
use crate::validity::Moment;

/// Something that happened to a lock of this client, or to all of them.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// An acquisition begins. [`Answered`](Self::Answered) or [`Withdrawn`](Self::Withdrawn) is its end.
    Asked {
        /// The lock.
        name: &'a LockName,
    },
    /// Somebody else holds it; the waiter goes on waiting. Told at each look, so several times a second.
    Waiting {
        /// The lock.
        name: &'a LockName,
        /// Who holds it, and how many stand before us.
        holding: &'a Holding,
        /// How long this acquisition has been waiting.
        waited: Duration,
    },
    /// The store can't say, or grants nothing for a while; it is asked again while there is time. Told at each try but the
    /// last, whose failure is the answer.
    AcquireFailed {
        /// The lock.
        name: &'a LockName,
        /// Why.
        error: &'a Error,
        /// How long this acquisition has been going on.
        waited: Duration,
    },
    /// An acquisition has ended: what it came to, told once for each, behind what says more of it.
    Answered {
        /// The lock.
        name: &'a LockName,
        /// How long it took.
        waited: Duration,
        /// Whether somebody else was seen to hold the lock, or to stand before us, meanwhile or at the end.
        contended: bool,
        /// What it came to.
        answer: Answer<'a>,
    },
    /// An acquisition was dropped before it had an answer.
    Withdrawn {
        /// The lock.
        name: &'a LockName,
        /// How long it had been going on.
        waited: Duration,
    },
    /// Granted.
    Acquired {
        /// The lock.
        name: &'a LockName,
        /// The acquisition.
        holder: HolderId,
        /// The fencing token.
        token: FencingToken,
        /// How long it was waited for.
        waited: Duration,
        /// Until when it is valid unless renewed.
        valid_until: Moment,
    },
    /// The tick that was asked for is not to be run.
    NotDue {
        /// The lock.
        name: &'a LockName,
        /// The tick.
        tick: Tick,
        /// Why.
        why: &'a NotDue,
    },
    /// A tick that was begun and never finished will not be tried again: too many newer ones are in the same state.
    GaveUp {
        /// The lock.
        name: &'a LockName,
        /// The tick.
        tick: Tick,
    },
    /// Renewed; told on the keeper's thread.
    Renewed {
        /// The lock.
        name: &'a LockName,
        /// The acquisition.
        holder: HolderId,
        /// Until when it is valid now.
        valid_until: Moment,
        /// What was left of the validity when the answer came: the margin by which it was not lost.
        margin: Duration,
        /// How long after it was due (a third of the TTL after the last) the answer came: a round trip, where all is well.
        late: Duration,
    },
    /// The end has moved, in either direction, without a renewal: what the store says beside the lease has. Over a
    /// [`Fallback`](crate::stores::Fallback) that is each time that it has heard where the route leads. Told on a thread of the store.
    Bounded {
        /// The lock.
        name: &'a LockName,
        /// The acquisition.
        holder: HolderId,
        /// Until when it is valid now.
        valid_until: Moment,
    },
    /// A renewal failed and will be tried again while there is time.
    RenewalFailed {
        /// The lock.
        name: &'a LockName,
        /// The acquisition.
        holder: HolderId,
        /// Why.
        error: &'a Error,
        /// What is left of the validity.
        remaining: Duration,
    },
    /// The holder was told to stop.
    Lost {
        /// The lock.
        name: &'a LockName,
        /// The acquisition.
        holder: HolderId,
        /// Why.
        reason: &'a LossReason,
    },
    /// A fence has refused a transaction of the holder's: what it would have written is not written. Told of
    /// [`Guard::fence`](crate::Guard) and `complete_in`; whoever is refused by `fenced`, with a number alone, is known to no client.
    Stale {
        /// The lock.
        name: &'a LockName,
        /// The acquisition.
        holder: HolderId,
        /// Why.
        error: &'a Error,
    },
    /// The guard is there no longer: released, dropped or abandoned. Told once of every acquisition that was granted, before the
    /// store is asked; of a guard that was forgotten, never.
    LetGo {
        /// The lock.
        name: &'a LockName,
        /// The acquisition.
        holder: HolderId,
    },
    /// Released by its holder.
    Released {
        /// The lock.
        name: &'a LockName,
        /// The acquisition.
        holder: HolderId,
        /// What it was called for people: as `list` showed it.
        label: &'a str,
        /// How long it was held.
        held: Duration,
        /// Whether it was still this holder's; if not, others may have run meanwhile.
        in_time: bool,
    },
    /// To which store of a [`Fallback`](crate::stores::Fallback) the locks are routed, as far as this client has heard; told at first,
    /// before it hears of another route, and again if that comes at the same moment. On a thread of the store, or on that of whoever
    /// builds the client.
    Routed {
        /// Where they are, or are about to be.
        to: &'a Target,
        /// The number of the route.
        epoch: Epoch,
    },
    /// All locks move to another store of a [`Fallback`](crate::stores::Fallback). Told on a thread of the store.
    Switched {
        /// Where they were, as far as this client has known.
        from: &'a Target,
        /// Where they will be.
        to: &'a Target,
        /// The number of the new route.
        epoch: Epoch,
        /// In how long it comes into force at the latest; none if it is in force, or nobody knows yet.
        within: Option<Duration>,
    },
    /// What a member of a [`Quorum`](crate::stores::Quorum) has answered, when it came to a decision.
    Voted {
        /// What the member is called in errors.
        member: &'a str,
        /// About what.
        on: Vote,
        /// How it voted.
        ballot: Ballot,
        /// Of so many leases that are renewed together; 1 of a claim.
        times: usize,
    },
    /// A release failed; it is tried again in the background until the TTL has passed.
    ReleaseFailed {
        /// The lock.
        name: &'a LockName,
        /// The acquisition.
        holder: HolderId,
        /// Why.
        error: &'a Error,
    },
}

/// What an acquisition came to.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Answer<'a> {
    /// It was granted.
    Acquired,
    /// Somebody else has it, and the time to wait is over.
    Contended(&'a Holding),
    /// Its tick or key is not to be run.
    NotDue(&'a NotDue),
    /// The store could not say, or the terms were not right for it.
    Failed(&'a Error),
}

/// Listens to [`Event`]s.
///
/// Called on whatever thread the event happens on, the keeper's included, so it must be quick and must
/// not block. A panic in it is not caught on the caller's thread.
pub trait Observer: Send + Sync + 'static {
    /// Told of `event`.
    fn observe(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> Observer for F {
    fn observe(&self, event: &Event<'_>) {
        self(event);
    }
}
