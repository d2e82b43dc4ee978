//! The words of the protocol between locks and stores: who asks, what for, what was answered.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::bound::Bound;
use crate::chance;
use crate::error::{Error, ErrorKind};
use crate::name::LockName;
use crate::tick::{Due, NotDue, Tick, Verdict};
use crate::validity::Moment;

/// The identity of **one acquisition**: 128 random bits, fresh for each.
///
/// Never derived from a host, a process or a lock object: a late release by an earlier holder of the
/// same process must not match a newer grant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(u128);

impl HolderId {
    /// A new identity, from the operating system's generator: one of this process would give two children of a fork the
    /// same, and so the same lock.
    ///
    /// # Panics
    /// If the operating system has no randomness to give, which none does once it has booted.
    #[must_use]
    pub fn fresh() -> Self {
        Self(chance::bits())
    }

    /// What [`Display`](fmt::Display) writes. The standard library's hexadecimal takes many times as long.
    #[must_use]
    pub(crate) fn digits(self) -> [u8; 32] {
        let bytes = self.0.to_be_bytes();
        std::array::from_fn(|nth| b"0123456789abcdef"[usize::from(bytes[nth / 2] >> (4 - nth % 2 * 4) & 15)])
    }

    /// Stands for a holder that isn't one of ours, by what it calls itself. Nobody can hold, renew or release as it.
    #[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis"))]
    pub(crate) fn foreign(name: &[u8]) -> Self {
        Self(name.iter().fold(0, |id, &byte| id.wrapping_mul(257).wrapping_add(u128::from(byte) + 1)))
    }

    /// Reads what [`Display`](fmt::Display) wrote: 32 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 32).then(|| u128::from_str_radix(text, 16).ok().map(Self)).flatten()
    }
}

impl fmt::Display for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.digits()).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A number that grows with every grant of a name.
///
/// Hand it to the resource that the job writes to: one that remembers the largest number it has seen
/// can refuse a holder that was paused for too long and has been replaced
/// (Kleppmann, *How to do distributed locking*, 2016). Below 2^63; carried as text in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FencingToken(u64);

impl FencingToken {
    /// 1 November 2026, since 1970: no wall clock that is right shows less, and tokens start from it. Raised now and then.
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "redis", feature = "sqlite"))]
    pub(crate) const BUILT: Duration = Duration::from_millis(1_793_491_200_000);

    /// A token with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A request for a lock. It carries a duration, never an instant: expiry is the store's clock's business.
#[derive(Debug, Clone)]
pub struct Claim {
    /// What is asked for.
    pub name: LockName,
    /// Who asks. The same holder asking again gets the same grant and its whole TTL from then.
    pub holder: HolderId,
    /// Who asks, for people: `host/pid/job`.
    pub label: Arc<str>,
    /// How long the store keeps the lease if nobody renews it.
    pub ttl: Duration,
    /// How many may hold it at a time; 1 for a lock. All holders of a name must agree on it.
    pub permits: NonZeroU32,
    /// For which tick it is, if for one.
    pub due: Option<Due>,
    /// Whether to stand in the queue if it is held.
    pub queue: Option<Place>,
}

impl Claim {
    /// A claim for a plain lock by `holder`, who doesn't wait.
    #[must_use]
    pub fn new(name: LockName, holder: HolderId, label: Arc<str>, ttl: Duration) -> Self {
        Self { name, holder, label, ttl, permits: NonZeroU32::MIN, due: None, queue: None }
    }

    /// When it was sent, if a release may hand the lock over to it. Not for a tick, whose mark has to be looked at, nor
    /// where there are several permits.
    #[must_use]
    pub fn may_be_handed_over(&self) -> Option<Moment> {
        let is_plain = self.due.is_none() && self.permits == NonZeroU32::MIN;
        self.queue.and_then(|place| place.sent).filter(|_| is_plain)
    }
}

/// A place in the queue for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// The ticket that the store gave at the first enqueuing; a waiter that was pruned by mistake comes
    /// back at its old place with it.
    pub ticket: Option<u64>,
    /// When this claim was sent, by the claimant's clock, if a [`HandOver`] is welcome. The store keeps it and gives it
    /// back, and has no other use for it.
    pub sent: Option<Moment>,
}

/// A lock that a release gave to the first who waited for it, without being asked again.
///
/// For the TTL of the waiter's last claim, counted by the store from the release. The waiter counts its validity from
/// the moment at which that claim was **sent**, which the store gives back: never from a later one, nor from when it
/// heard of this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandOver {
    /// To whom it was given.
    pub holder: HolderId,
    /// The [`sent`](Place::sent) of the last claim of this waiter that had reached the store.
    pub sent: Moment,
    /// What it was granted.
    pub grant: Grant,
}

/// The answer to a [`Claim`].
#[derive(Debug, Clone)]
#[must_use]
pub enum Attempt {
    /// The claimant holds the lock now.
    Granted(Grant),
    /// Somebody else holds it, or stands before the claimant in the queue.
    Held(Holding),
    /// The tick that is asked for is not to be run by this claimant, however long it waits.
    NotDue(NotDue),
}

/// A lock was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Larger than that of every earlier grant of this name.
    pub token: FencingToken,
    /// How often the tick has been claimed, this time included and those not counted that never were begun; 0 without
    /// a tick.
    pub attempt: u32,
    /// An older tick that was open and will not be run any more, since so many are open ([`OPEN_TICKS`]).
    ///
    /// [`OPEN_TICKS`]: crate::store::OPEN_TICKS
    pub gave_up: Option<Tick>,
    /// An end beside that of the lease, where the store has one to set.
    pub bound: Option<Bound>,
}

impl Grant {
    /// A plain grant: no tick, no bound.
    #[must_use]
    pub fn of(token: FencingToken) -> Self {
        Self { token, attempt: 0, gave_up: None, bound: None }
    }
}

/// Who holds a name, as far as the store knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The name.
    pub name: LockName,
    /// The holder; none while a minimum hold runs out after the release, or while the name is free and
    /// kept for the first waiter.
    pub holder: Option<HolderId>,
    /// The holder's label, for people; the last holder's if nobody holds it.
    pub label: String,
    /// By which other library or program it is held, where that can be told: `redis-py`, `etcdctl`, `ShedLock`. None where
    /// one of ours holds it.
    pub library: Option<&'static str>,
    /// The token of the last grant.
    pub token: FencingToken,
    /// How long ago it was granted; zero where a worker of another library holds it, who alone knows.
    pub held_for: Duration,
    /// What is left of the TTL; zero if it is free or about to be, [`Self::NO_END`] if there is none.
    pub remaining: Duration,
    /// An operator has revoked it: renewals are refused, it ends with its TTL or its release.
    pub revoked: bool,
    /// In answer to a claim: how many waiters stand before the claimant, the holder not counted. Else: how many wait.
    pub waiting: u64,
    /// In answer to a claim that queues: the claimant's ticket. None where its tick runs elsewhere: there is nothing to
    /// queue for.
    pub ticket: Option<u64>,
    /// How many may hold it at a time.
    pub permits: NonZeroU32,
    /// Who else holds it, where several may; whose lease ends first comes first, and is the one above.
    pub others: Vec<Holder>,
}

impl Holding {
    /// What is left of a hold that does not end by itself: a worker of another library holds it so (`compat`).
    pub const NO_END: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

    /// A name with these holders, which nobody waits for. Held ones come first, and of these whose lease ends first.
    pub(crate) fn of(name: LockName, permits: u32, mut holders: Vec<Holder>) -> Self {
        holders.sort_by_key(|holder| (holder.holder.is_none(), holder.remaining));
        let mut holders = holders.into_iter();
        let first = holders.next().unwrap_or_default();
        Self {
            name,
            holder: first.holder,
            label: first.label,
            library: first.library,
            token: first.token,
            held_for: first.held_for,
            remaining: first.remaining,
            revoked: first.revoked,
            waiting: 0,
            ticket: None,
            permits: NonZeroU32::new(permits).unwrap_or(NonZeroU32::MIN),
            others: holders.collect(),
        }
    }

    /// How long until a permit is free at the soonest, unless renewed.
    #[must_use]
    pub fn free_in(&self) -> Duration {
        self.others.iter().map(|other| other.remaining).fold(self.remaining, Duration::min)
    }
}

/// The error of a claim for another number of permits than the holders have.
pub(crate) fn disagreement(claim: &Claim, permits: u32) -> Error {
    let (name, asked) = (&claim.name, claim.permits);
    Error::new(
        ErrorKind::Misconfigured,
        format!(
            "{name} was asked for with permits: {asked}, and its holders were granted it with {permits}: all must ask for the \
             same number"
        ),
    )
}

/// One of several holders of a name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holder {
    /// The acquisition; none while a minimum hold runs out.
    pub holder: Option<HolderId>,
    /// Its label, for people.
    pub label: String,
    /// As [`Holding::library`].
    pub library: Option<&'static str>,
    /// The token of its grant.
    pub token: FencingToken,
    /// How long ago it was granted.
    pub held_for: Duration,
    /// What is left of its TTL.
    pub remaining: Duration,
    /// An operator has revoked it.
    pub revoked: bool,
}

/// One who waits for a name, as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    /// The acquisition; none of another program's, which has no such identity.
    pub holder: Option<HolderId>,
    /// Its label, for people; empty where the store does not keep it.
    pub label: String,
    /// Since when it waits, as far as the store knows: since it first asked for this place.
    pub waited: Option<Duration>,
}

/// The label of a holder or waiter that is another program's: of which library, where that can be told, and what it calls
/// itself.
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) fn foreign_label(library: Option<&str>, shown: &str) -> String {
    match library {
        Some(library) => format!("foreign: {library} {shown}"),
        None => format!("foreign: {shown}"),
    }
}

/// What names one lease in the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseKey {
    /// The lock.
    pub name: LockName,
    /// The acquisition.
    pub holder: HolderId,
}

/// The answer to a renewal. Renew never acquires: what has ended stays ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Renewal {
    /// The lease ends one TTL after the store saw this, or later if an overtaken renewal had promised more.
    Renewed,
    /// It had ended: its time was over, somebody took it, or its row or file is gone.
    Gone,
    /// An operator revoked it. It is the holder's until it ends or is released; it can't be renewed.
    Revoked,
}

/// How a hold ended; goes with a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ended {
    /// Minimum hold: nobody is granted the name (of several permits: this one) for this long after the release.
    pub keep_for: Duration,
    /// What became of the work of a tick; none for a hold without one.
    pub verdict: Option<Verdict>,
}

/// The answer to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Release {
    /// It was this holder's and is free now.
    Released,
    /// It was not this holder's any more (or never): no lease was changed. A verdict counts all the same.
    NotHeld,
}

/// How an operator ends somebody else's hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revoke {
    /// Refuse renewals: the holder is told, stops its job and releases, or its TTL ends. Exclusion holds.
    Gently,
    /// Free the name at once. The old holder learns of it at its next renewal: **until then two may run**.
    Now,
}
