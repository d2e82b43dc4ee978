//! Watching a lock: how it stands, each time that this changes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{ErrorKind, Result};
use crate::keeper::jittered;
use crate::lease::{FencingToken, HolderId, Holding};
use crate::locks::Client;
use crate::name::LockName;
use crate::store::WakeUps;
use crate::validity::Moment;

/// How often it looks at the most, before jitter. A store wakes those who wait for a lock, not those who watch one:
/// it rings when a name becomes free, and nobody rings for a grant.
const POLL: Duration = Duration::from_millis(500);

/// Not sooner after the last look, however often the store rings: for a free name in a busy file that is all the time.
const GAP: Duration = Duration::from_millis(50);

/// Looks at a lock, whoever holds it, and tells each change. Made by [`Locks::watch`](crate::Locks::watch).
///
/// It neither queues nor holds anything, so it delays nobody. It looks two to four times a second and where the store
/// hints at something, so a change is told half a second late at the most. What began and ended between two looks is not
/// seen; it shows only where nobody holds the lock and the [token](Holding::token) has grown all the same. That a token
/// has grown by more than one shows nothing: stores count with gaps.
///
/// ```no_run
/// # async fn demo(locks: leasehold::Locks) -> leasehold::Result<()> {
/// let mut watching = locks.watch("nightly-backup")?;
/// loop {
///     match watching.next().await? {
///         Some(holding) => println!("{} {} waiting", holding.label, holding.waiting),
///         None => println!("free"),
///     }
/// }
/// # }
/// ```
pub struct Watching {
    client: Arc<Client>,
    name: LockName,
    told: Told,
    hints: Option<WakeUps>,
    looked: Option<Moment>,
    look_at: Moment,
}

/// What the caller knows.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    /// Nothing yet.
    Nothing,
    /// How the lock stands; none if it is free and nobody waits.
    State(Option<State>),
    /// That the store doesn't answer, and in which way.
    Failing(ErrorKind),
}

/// What makes two [`Holding`]s differ. Times pass by themselves, that is no news; nor is whose lease ends first.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    leases: BTreeSet<Lease>,
    waiting: u64,
}

/// The same of one holder, or of a minimum hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Lease {
    holder: Option<HolderId>,
    token: FencingToken,
    revoked: bool,
    kept: bool,
}

impl Told {
    fn of(found: &Result<Option<Holding>>) -> Told {
        match found {
            Ok(holding) => Told::State(holding.as_ref().map(State::of)),
            Err(error) => Told::Failing(error.kind()),
        }
    }

    /// Whether this is an error that asking again doesn't mend.
    fn cannot_pass(&self) -> bool {
        use ErrorKind::{Refused, TimedOut, Unavailable};
        matches!(self, Told::Failing(kind) if !matches!(kind, Unavailable | TimedOut | Refused))
    }
}

impl State {
    fn of(holding: &Holding) -> State {
        let lease = |holder: Option<HolderId>, token, revoked, remaining: Duration| {
            let kept = holder.is_none() && !remaining.is_zero();
            Lease { holder, token, revoked, kept }
        };
        let first = lease(holding.holder, holding.token, holding.revoked, holding.remaining);
        let others = holding.others.iter().map(|of| lease(of.holder, of.token, of.revoked, of.remaining));
        State { leases: std::iter::once(first).chain(others).collect(), waiting: holding.waiting }
    }
}

impl Watching {
    pub(crate) fn new(client: Arc<Client>, name: LockName) -> Self {
        let look_at = client.clock.now();
        Self { client, name, told: Told::Nothing, hints: None, looked: None, look_at }
    }

    /// The lock's name.
    #[must_use]
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Resolves with how the lock stands: the first time at once, then each time that its holders, a token, whether one
    /// is revoked or kept (a minimum hold), or the number of those who wait is another than before.
    ///
    /// # Errors
    /// The store can't say. An outage is told once; calling this again waits for its end, and the first answer after it
    /// is told even if nothing has changed. What can't pass (access denied, set up wrong, the client was shut down) is
    /// told each time.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is told or forgotten by dropping this, and the next call goes on where it was.
    pub async fn next(&mut self) -> Result<Option<Holding>> {
        loop {
            self.pause().await;
            let found = self.look().await;
            let now = Told::of(&found);
            if now != self.told || now.cannot_pass() {
                self.told = now;
                return found;
            }
        }
    }

    /// Waits for the next look: until it is due, or the store rings. The first one is due at once.
    async fn pause(&mut self) {
        let Some(looked) = self.looked else { return };
        if let Some(hints) = &mut self.hints {
            tokio::select! {
                () = self.client.clock.sleep_until(self.look_at) => return,
                // Kept beyond a cancellation: the hint is used up.
                _ = hints.next() => self.look_at = self.look_at.min(looked + GAP),
            }
        }
        self.client.clock.sleep_until(self.look_at).await;
    }

    async fn look(&mut self) -> Result<Option<Holding>> {
        let now = self.client.clock.now();
        self.looked = Some(now);
        self.look_at = now + jittered(POLL);
        self.client.check_open()?;
        if self.hints.is_none() && self.client.store.traits().wake_ups {
            // Before the look, so that what happens after it rings. Without hints the poll finds it.
            self.hints = self.client.store.subscribe(&self.name).await.ok();
        }
        self.client.store.inspect(&self.name).await
    }
}

impl std::fmt::Debug for Watching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watching").field("name", &self.name).field("told", &self.told).finish_non_exhaustive()
    }
}
