//! One store made of several independent ones, of which a majority decides: Redlock is its algorithm's name.
//!
//! | file | what |
//! |---|---|
//! | `round` | one call to every member at the same time, its answers as they come |
//! | `votes` | what the answers to a claim come to |
//! | `acquire` | an attempt: the votes, the second phase, and again if the vote was split |
//! | `rounds` | under which identities an acquisition is known to the members |
//! | `debts` | what a member has not heard of |
//! | `renewal` `ending` `view` | renewing, releasing and cleaning up, what an operator sees |
//! | `refill` `sweep` | a member that came back empty: for one name, and for all |
//! | `reset` | marks that an operator has forgotten, by all |
//! | `notes` | what is written down for people |
//! | `census` | who the members are, and whether they may be |
//!
//! What it rests on, and what it departs in from Redlock: docs/design/0015-quorum.md.

mod acquire;
mod census;
mod debts;
mod ending;
mod notes;
mod outage;
mod refill;
mod renewal;
mod reset;
mod round;
mod rounds;
mod sweep;
mod view;
mod votes;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::error::{Error, Result};
use crate::finding::Finding;
use crate::lease::{Attempt, Claim, Ended, HolderId, Holding, LeaseKey, Release, Renewal, Revoke, Waiter};
use crate::member::Member;
use crate::name::LockName;
use crate::store::{Arbiter, Listener, Notes, Primary, Store, Tables, Traits, USUAL_TTL, WakeUps};

use self::census::Census;
use self::ending::Ending;
use self::rounds::Rounds;
use self::sweep::Sweeps;

/// Independent stores, of which a majority decides: locks outlive the loss of a minority.
///
/// Members are told apart by their place in the list. All of a quorum's clients must list the same ones.
#[derive(Debug, Clone)]
pub struct Quorum {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    nodes: Vec<Node>,
    rounds: Arc<Rounds>,
    census: Arc<Census>,
    /// Whether somebody goes on founding it.
    is_founding: Arc<AtomicBool>,
    sweeps: Arc<Sweeps>,
}

/// One of the members.
#[derive(Debug)]
struct Node {
    /// What it is called in errors.
    name: Arc<str>,
    store: Arc<dyn Store>,
}

impl Node {
    fn member(&self) -> &dyn Member {
        self.store.as_member().expect("only members are admitted")
    }
}

/// How long one member may take for what is not about a TTL.
const LIMIT: Duration = Duration::from_secs(1);

/// How long a member is left alone between what it is told in the background: as long as it doesn't answer, longer each time.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// For how long a member that can't be reached is told what nothing else tells it.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The smallest TTL: of a smaller one too little is left after two phases.
const SMALLEST_TTL: Duration = Duration::from_secs(2);

/// How long one member may take, when it is about a lease of `ttl`: two phases and a second try fit into the sixth of it
/// that a call may take.
fn limit_for(ttl: Duration) -> Duration {
    (ttl / 24).clamp(Duration::from_millis(50), LIMIT)
}

impl Quorum {
    /// A quorum of these stores, each with a name for errors. Asks nobody yet: who the servers are is looked at when they
    /// are first used.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid): there are fewer than three, or an even number, which fails as soon
    /// as one less; or one of them can't be a member.
    pub fn of(members: impl IntoIterator<Item = (String, Arc<dyn Store>)>) -> Result<Self> {
        let nodes: Vec<_> = members.into_iter().map(|(name, store)| Node { name: name.into(), store }).collect();
        if nodes.len() < 3 || nodes.len().is_multiple_of(2) {
            let message = format!("a quorum has an odd number of members, three at least; these are {}", nodes.len());
            return Err(Error::invalid(message));
        }
        if let Some(unfit) = nodes.iter().find(|node| node.store.as_member().is_none()) {
            let (name, kind) = (&unfit.name, unfit.store.traits().kind);
            let message = format!(
                "{name} can't be a member of a quorum: a store of the kind {kind} can't, or not as it is opened. Members \
                 are single Redis or Valkey servers: name each by a URL of its own, redis://HOST or rediss://HOST, without \
                 compat=…, +sentinel and +cluster"
            );
            return Err(Error::invalid(message));
        }
        let (rounds, census) = (Arc::new(Rounds::among(nodes.len())), Arc::new(Census::of(nodes.len())));
        let (is_founding, sweeps) = (Arc::default(), Arc::default());
        Ok(Self { inner: Arc::new(Inner { nodes, rounds, census, is_founding, sweeps }) })
    }

    /// Accepts that what the members remembered of ticks is lost: those up to five minutes from now count as claimed, and
    /// later ones are granted again. For when so many members have come back empty that the others can't fill them.
    ///
    /// # Errors
    /// A majority of the members can't be reached, or has not been back for long enough. [`ErrorKind::Misconfigured`](crate::ErrorKind::Misconfigured):
    /// their clocks are more than a minute apart, or they may not be members.
    pub async fn accept_loss(&self) -> Result<()> {
        self.inner.accept_loss().await
    }
}

impl Inner {
    /// How many are a majority: of all members, whether they answer or not.
    fn majority(&self) -> usize {
        self.nodes.len() / 2 + 1
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Quorum {
    fn traits(&self) -> Traits {
        let members = self.inner.nodes.iter().map(|node| node.store.traits());
        Traits {
            kind: "quorum",
            smallest_ttl: members.clone().map(|member| member.smallest_ttl).fold(SMALLEST_TTL, Duration::max),
            wake_ups: members.clone().any(|member| member.wake_ups),
            hands_over: false,
            session_bound: false,
            usual_ttl: members.clone().map(|member| member.usual_ttl).fold(USUAL_TTL, Duration::min),
            longest_stop_grace: Duration::MAX,
        }
    }

    fn for_keeper(&self) -> Arc<dyn Store> {
        let Inner { nodes, rounds, census, is_founding, sweeps } = &*self.inner;
        let again = |node: &Node| Node { name: Arc::clone(&node.name), store: node.store.for_keeper() };
        let nodes = nodes.iter().map(again).collect();
        let (rounds, census) = (Arc::clone(rounds), Arc::clone(census));
        let (is_founding, sweeps) = (Arc::clone(is_founding), Arc::clone(sweeps));
        Arc::new(Self { inner: Arc::new(Inner { nodes, rounds, census, is_founding, sweeps }) })
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(self.inner.acquire(claim))
    }

    fn leave<'a>(&'a self, waiter: &'a LeaseKey) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { self.inner.end(waiter, Ending::Leave).await.map(drop) })
    }

    fn renew<'a>(&'a self, leases: &'a [(LeaseKey, Duration)]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(self.inner.renew(leases))
    }

    fn release<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        Box::pin(self.inner.end(lease, Ending::Release(how)))
    }

    fn subscribe<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        Box::pin(self.inner.subscribe(name))
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(self.inner.inspect(name))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Holding>>> {
        Box::pin(self.inner.list())
    }

    /// Nobody stands in line: no member knows in which order the others were asked.
    fn queue<'a>(&'a self, _name: &'a LockName) -> BoxFuture<'a, Result<Vec<Waiter>>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn revoke<'a>(
        &'a self,
        name: &'a LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(self.inner.revoke(name, holder, how))
    }

    fn reset_marks<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.inner.reset_marks(name))
    }

    fn time(&self) -> BoxFuture<'_, Result<Duration>> {
        Box::pin(self.inner.time())
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(self.inner.diagnose())
    }

    /// One store: nothing moves.
    fn listen(&self, _: Weak<Listener>) {}

    fn tables(&self) -> Option<Tables> {
        None
    }

    /// A majority of majorities is none.
    fn as_primary(&self) -> Option<&dyn Primary> {
        None
    }

    fn as_arbiter(&self) -> Option<&dyn Arbiter> {
        None
    }

    fn as_member(&self) -> Option<&dyn Member> {
        None
    }

    fn as_notes(&self) -> Option<&dyn Notes> {
        self.inner.keep_notes().then_some(self)
    }
}
