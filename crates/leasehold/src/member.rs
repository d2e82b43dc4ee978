//! What a store needs beside [`Store`](crate::Store) to be one of several that together are a quorum.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::error::Result;
use crate::finding::Finding;
use crate::lease::{Ended, FencingToken, HolderId, LeaseKey, Release};
use crate::name::LockName;
use crate::store::WakeUps;
use crate::tick::{Due, NotDue, OpenTick, Tick};

/// A store that can be a member of a quorum, reached through [`Store::as_member`](crate::Store::as_member).
///
/// A member may come back empty: restarted without its data, or with an old copy of them. It then
///
/// - grants nothing until the largest TTL has passed since (its restart guard; a claim is an error that
///   [passes](crate::Error::is_passing)): who held a lease in it may still believe in it;
/// - is not *full*: until it has [adopted](Self::adopt) what the others remember of a name, it
///   [ratifies](Self::ratify) nothing of that name that rests on its memory.
///
/// Every method is one attempt, one atomic step in the store, and durable as its claims are.
pub trait Member: Send + Sync {
    /// The second phase of an acquisition. If the holder has its lease here still, raises the name's counter and the
    /// token of the lease to `token`, unless they are above; and, with a tick, claims that as a claim would. Said
    /// again, it changes nothing and is answered the same.
    fn ratify<'a>(
        &'a self,
        lease: &'a LeaseKey,
        token: FencingToken,
        due: Option<Due>,
    ) -> BoxFuture<'a, Result<Ratified>>;

    /// Ends a lease as [`Store::release`](crate::Store::release) does; and a tick that is done counts as claimed here
    /// too: the mark rises to it. Not every member need have heard of a claim that a majority has granted. But not to one that
    /// is more than [`DONE_AHEAD`] ahead of its clock: that was granted when clocks were, and an operator may have had
    /// [its mark forgotten](crate::Store::reset_marks) since.
    fn conclude<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>>;

    /// Wakes who waits for a quorum, and so stands in no queue here, when a lease of the name was concluded. A hint, as
    /// [`Store::subscribe`](crate::Store::subscribe)'s.
    fn wake_ups<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>>;

    /// What it remembers of a name.
    fn recall<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Memories>>;

    /// Adds to what it remembers of a name; from then on it is full for it. Counters and marks only grow, and no tick is opened
    /// that [it has closed](Memories::has_closed): the others may have been asked before they heard that it is done. But what
    /// it has open itself is replaced by what the others have: if it came back with an old copy of its data they may have
    /// closed that since. Ticks are adopted once, while it is not full for the name; later only the counter
    /// grows. Refused as a claim is while its restart guard lasts: what was begun before it came back may not
    /// have reached the others yet; and in another [life](Memories::life) than `into`: what straggles past a restart is not
    /// what the others know by then.
    fn adopt<'a>(&'a self, name: &'a LockName, memories: &'a Memories, into: &'a str) -> BoxFuture<'a, Result<()>>;

    /// The first step of founding a quorum: it was blank together with all the others. While that is remembered whoever comes
    /// later may take the [second](Self::found) step here, with this floor: it has acknowledged nothing since that it could have
    /// forgotten. Of several floors the latest is remembered. Refused as that step is; and by a member that is
    /// [blank](Memories::is_blank) no more, with an error that [passes](crate::Error::is_passing): all are to be asked anew.
    fn announce<'a>(&'a self, floor: Tick, into: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Makes it full for every name, though it may have forgotten some: of those that it has not adopted, whatever tick is
    /// not newer than `floor` counts as claimed, but for [`Tick::ONLY`], also if it is open in an old copy; and tokens begin at
    /// the clock. For a new quorum, or
    /// one whose loss is accepted. Refused as a claim is while its restart guard lasts, and in another life than `into`.
    fn found<'a>(&'a self, floor: Tick, into: &'a str) -> BoxFuture<'a, Result<()>>;

    /// A page of the names of which it remembers anything, about `most` of them; `from` is where the page before says that the
    /// [next](Names::next) begins, 0 at first. Whatever name is remembered from the first page to the last is in one of them,
    /// perhaps in several.
    fn names(&self, from: u64, most: usize) -> BoxFuture<'_, Result<Names>>;

    /// A step of making it full for every name, by letting it [adopt](Self::adopt) all those that the others remember.
    /// Whether it was taken: one at a time does that, who is `by`, until nothing was heard of it for [`FILLS_ALONE`]. In the end
    /// the member knows as much as they do of all names, and so has their floor. Refused as a claim is while its restart
    /// guard lasts, and in another life than `into`.
    fn fill<'a>(&'a self, by: HolderId, step: Filling, into: &'a str) -> BoxFuture<'a, Result<bool>>;

    /// Which server it is.
    fn identity(&self) -> BoxFuture<'_, Result<Identity>>;

    /// The [life](Memories::life) of the server that answers of this kind come from, as far as that is known without asking:
    /// while there is a connection over which one has come. What comes from an unknown one is no vote.
    fn last_life(&self, of: Vote) -> Option<Arc<str>>;

    /// What an operator should know about it as a member: [`Store::diagnose`](crate::Store::diagnose) for one that is not alone.
    fn examine(&self) -> BoxFuture<'_, Result<Vec<Finding>>>;
}

/// An answer of a member that is counted with those of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vote {
    /// To a claim, or to its second phase.
    Claim,
    /// To a renewal, which may go another way than claims.
    Renewal,
}

/// The answer of one member to the second phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Ratified {
    /// The lease is there, and says so from now on.
    Yes {
        /// The token of the lease: above the name's counter if that was ahead of the lease, for then what the counter says, and what
        /// was asked for, may be what another has had.
        token: FencingToken,
        /// How often the tick has been claimed here, this time included; 0 without one.
        attempt: u32,
        /// An older tick that was given up for it.
        gave_up: Option<Tick>,
    },
    /// The holder has no lease here.
    Gone,
    /// The tick is not to be run, as far as is known here.
    NotDue(NotDue),
    /// This member came back empty and has not adopted the name yet.
    NotFull,
}

/// What a member remembers of a name beside its leases.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Memories {
    /// Whether that is all there is to know: not if it came back empty and has not adopted the name.
    pub is_full: bool,
    /// Whether it came back empty, without an old copy of anything, and has adopted nothing since, whatever the name, nor been
    /// founded. Where all are, there is nothing that could be remembered.
    pub is_blank: bool,
    /// The last token; at least what tokens begin at, if it was founded.
    pub token: FencingToken,
    /// The mark: the newest tick that was claimed.
    pub newest: Option<Tick>,
    /// Up to where ticks count as claimed, where it was [founded](Member::found): not [`Tick::ONLY`].
    pub floor: Option<Tick>,
    /// Up to where ticks are to count as claimed by a founding of which it has heard the [first step](Member::announce) in
    /// this life, and no more.
    pub announced: Option<Tick>,
    /// Ticks that were claimed and are not finished.
    pub open: BTreeMap<Tick, OpenTick>,
    /// Since when it remembers: another after each restart that may have lost something. The same as [`Identity::server`].
    pub life: Box<str>,
    /// What the member's clock shows, since the beginning of 1970 in UTC.
    pub clock: Duration,
    /// For how long that is remembered from now on, at least, if nobody asks for the name meanwhile.
    pub kept_for: Duration,
}

impl Memories {
    /// The mark that a tick is compared with: a key's only run has no time, and knows no floor.
    #[must_use]
    pub fn mark_for(&self, tick: Tick) -> Option<Tick> {
        if tick == Tick::ONLY { self.newest } else { self.newest.max(self.floor) }
    }

    /// Whether a tick is past and not open: it is finished, or given up.
    #[must_use]
    pub fn has_closed(&self, tick: Tick) -> bool {
        self.mark_for(tick) >= Some(tick) && !self.open.contains_key(&tick)
    }
}

/// Some of the names that a member remembers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    /// Which.
    pub names: Vec<LockName>,
    /// Where the next page begins; nowhere if this is the last.
    pub next: Option<u64>,
    /// As in [`Memories`].
    pub life: Box<str>,
    /// Said by a member that is full for every name: since when, in words of its own. Another after it was not.
    pub whole: Option<Box<str>>,
    /// Up to where ticks of all names count as claimed.
    pub floor: Option<Tick>,
}

/// A step of filling a member for every name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filling {
    /// From now on. Not taken while somebody else does it.
    Begins,
    /// It is under way. Not taken if somebody else has begun, or the member has lost since what it had adopted.
    GoesOn,
    /// It has adopted all names that the others remember, who have this floor. Not taken as above.
    IsDone {
        /// Theirs, the latest.
        floor: Option<Tick>,
    },
}

/// A tick that is done, and so far ahead of a member's clock, raises no mark there. More than clocks may differ by.
pub const DONE_AHEAD: Duration = Duration::from_secs(86_400);

/// For so long nobody else begins to [fill](Member::fill) a member of which whoever does it says nothing.
pub const FILLS_ALONE: Duration = Duration::from_secs(30);

/// Which server a member is, and whether it may be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The same for the same data, under whatever address: a run id.
    pub server: Box<str>,
    /// The largest TTL after which its restart guard is over: for more nothing may be claimed.
    pub max_ttl: Duration,
    /// Why it can't be a member, if it can't: it is another's replica, or a part of a cluster.
    pub unfit: Option<String>,
}
