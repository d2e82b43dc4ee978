//! A quorum over members in memory, under paused time: what a member that is away, slow, empty or somebody else's does to it.
//! Tests of faults of other systems bear their number.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join_all};
use leasehold::member::{Filling, Identity, Member, Memories, Names, Ratified, Vote};
use leasehold::store::{Note, NoteId, Search, Topic};
use leasehold::stores::{Memory, Quorum};
use leasehold::{
    Applied, Attempt, Claim, Due, Ended, ErrorKind, Event, FencingToken, Guard, HolderId, LeaseKey, LockName, Locks,
    LossReason, NotDue, Outcome, Release, Released, Renewal, Severity, Store, TICK_SLACK, Tick, Verdict, Wait,
    validity,
};
use leasehold_testkit::simulation::{Link, Machine, Network, Weather, Wire};
use leasehold_testkit::{PausedClock, Random};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(6);

/// Members, a client, and the ways between them.
struct Stage {
    nodes: Vec<Memory>,
    machines: Vec<Machine>,
    links: Vec<Link>,
    network: Network,
    quorum: Quorum,
    locks: Locks,
}

impl Stage {
    fn of(count: usize) -> Self {
        Self::seeded(count, 7)
    }

    fn seeded(count: usize, seed: u64) -> Self {
        let (client, network) = (Machine::new(), Network::new(Random::new(seed), Weather::FAIR));
        let machines: Vec<_> = (0..count).map(|_| Machine::new()).collect();
        let nodes: Vec<_> = machines.iter().map(|machine| Memory::new(Arc::new(machine.clone()))).collect();
        let links: Vec<_> = machines.iter().map(|machine| network.link(&client, machine)).collect();
        let wires = nodes.iter().zip(&links).enumerate().map(|(number, (node, link))| {
            (format!("n{number}"), Arc::new(Wire::new(Arc::new(node.clone()), link.clone())) as Arc<dyn Store>)
        });
        let quorum = Quorum::of(wires).unwrap();
        let locks = Locks::builder().simulated(Arc::new(client)).over(Arc::new(quorum.clone()));
        Self { nodes, machines, links, network, quorum, locks }
    }

    /// The same members, for another client.
    fn another(&self) -> Quorum {
        let client = Machine::new();
        let wires = self.nodes.iter().zip(&self.machines).enumerate().map(|(number, (node, machine))| {
            let wire = Wire::new(Arc::new(node.clone()), self.network.link(&client, machine));
            (format!("n{number}"), Arc::new(wire) as Arc<dyn Store>)
        });
        Quorum::of(wires).unwrap()
    }

    /// Nothing gets to these members.
    fn cut(&self, members: &[usize]) {
        members.iter().for_each(|member| self.links[*member].cut());
    }

    fn mend(&self) {
        self.links.iter().for_each(Link::mend);
    }

    async fn holders_of(&self, name: &str) -> Vec<Option<HolderId>> {
        let name = LockName::new(name).unwrap();
        join_all(self.nodes.iter().map(async |node| node.inspect(&name).await.unwrap().and_then(|held| held.holder)))
            .await
    }

    async fn is_clean(&self) -> bool {
        self.holders_of("job").await.iter().all(Option::is_none)
    }

    async fn acquires(&self) -> Guard {
        match self.locks.lock("job").ttl(TTL).try_acquire().await {
            Ok(Outcome::Acquired(guard)) => guard,
            other => panic!("it should be free: {other:?}"),
        }
    }
}

fn claim() -> Claim {
    Claim::new(LockName::new("job").unwrap(), HolderId::fresh(), "host/1/job".into(), TTL)
}

fn due(tick: Tick) -> Due {
    Due { tick, retry_failed: false, keep: 7 * 86_400 * SECOND }
}

fn tick_at(since_1970: Duration) -> Tick {
    Tick::from_unix_millis(i64::try_from(since_1970.as_millis()).unwrap()).unwrap()
}

fn key(claim: &Claim) -> LeaseKey {
    LeaseKey { name: claim.name.clone(), holder: claim.holder }
}

#[tokio::test(start_paused = true)]
async fn fewer_than_three_an_even_number_and_what_can_not_be_a_member_are_refused() {
    let memory = || ("n".to_owned(), Arc::new(Memory::default()) as Arc<dyn Store>);
    for count in [0, 1, 2, 4, 6] {
        let error = Quorum::of((0..count).map(|_| memory())).unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("odd"), "{error}");
    }
    let quorum: Arc<dyn Store> = Arc::new(Quorum::of((0..3).map(|_| memory())).unwrap());
    let nested = Quorum::of([memory(), memory(), ("inner".to_owned(), quorum)]).unwrap_err();
    assert!(
        nested.kind() == ErrorKind::Invalid
            && nested.to_string().starts_with("inner can't be a member")
            && nested.to_string().contains("name each by a URL of its own"),
        "{nested}"
    );
}

#[tokio::test(start_paused = true)]
async fn several_permits_are_refused() {
    let stage = Stage::of(3);
    let error = stage.locks.lock("job").permits(2).try_acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No));
    assert!(stage.is_clean().await);
}

/// A member whose server may be somebody's replica, and from some moment on deny everything, be another one, …
#[derive(Debug, Clone)]
struct Odd {
    memory: Memory,
    unfit: Option<String>,
    max_ttl: Duration,
    moods: Arc<Moods>,
}

/// What may change.
#[derive(Debug, Default)]
struct Moods {
    denies: AtomicBool,
    /// It can't be founded.
    is_stubborn: AtomicBool,
    /// It is restarted whenever it is about to adopt.
    forgets: AtomicBool,
    /// It is restarted as soon as it has forgotten a mark, and filled with what was known before.
    is_filled_with: Mutex<Option<Memories>>,
    /// It takes a while to grant anything.
    is_slow: AtomicBool,
    /// How often it was asked for something, how often for a lease, and how many of these at the same time at the most.
    asked: AtomicUsize,
    claimed: AtomicUsize,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    /// It takes so long to make a connection to it.
    connects_in: Mutex<Duration>,
    is_connected: AtomicBool,
    /// The way that these answers came is broken.
    is_unknown_for: Mutex<Option<Vote>>,
    /// Its address leads to this one by now.
    moved_to: OnceLock<Memory>,
}

impl Default for Odd {
    fn default() -> Self {
        Self { memory: Memory::default(), unfit: None, max_ttl: Duration::MAX, moods: Arc::default() }
    }
}

impl Odd {
    fn memory(&self) -> &Memory {
        self.moods.moved_to.get().unwrap_or(&self.memory)
    }

    fn denies(&self, denies: bool) {
        self.moods.denies.store(denies, Ordering::Relaxed);
    }

    fn asked(&self) -> usize {
        self.moods.asked.load(Ordering::Relaxed)
    }

    /// For the first time.
    fn connects_in(&self, span: Duration) {
        *self.moods.connects_in.lock().unwrap() = span;
    }

    async fn connect(&self) {
        let span = *self.moods.connects_in.lock().unwrap();
        if !span.is_zero() && !self.moods.is_connected.load(Ordering::Relaxed) {
            sleep(span).await;
            self.moods.is_connected.store(true, Ordering::Relaxed);
        }
    }

    fn check(&self) -> leasehold::Result<()> {
        self.moods.asked.fetch_add(1, Ordering::Relaxed);
        let denied = || leasehold::Error::new(ErrorKind::AccessDenied, "it has other credentials");
        if self.moods.denies.load(Ordering::Relaxed) { Err(denied()) } else { Ok(()) }
    }

    async fn grants(&self, claim: &Claim) -> leasehold::Result<Attempt> {
        self.connect().await;
        self.check()?;
        let Moods { is_slow, claimed, at_once, most_at_once, .. } = &*self.moods;
        claimed.fetch_add(1, Ordering::Relaxed);
        most_at_once.fetch_max(at_once.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        let _over = Over(at_once);
        if is_slow.load(Ordering::Relaxed) {
            sleep(SECOND / 5).await;
        }
        self.memory().try_acquire(claim).await
    }
}

/// One less is under way.
struct Over<'a>(&'a AtomicUsize);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn quorum_of(members: &[Odd]) -> Quorum {
    let named = |(number, odd): (usize, &Odd)| (format!("n{number}"), Arc::new(odd.clone()) as Arc<dyn Store>);
    Quorum::of(members.iter().enumerate().map(named)).unwrap()
}

#[deny(clippy::missing_trait_methods)]
impl Member for Odd {
    fn ratify<'a>(
        &'a self,
        lease: &'a LeaseKey,
        token: FencingToken,
        due: Option<Due>,
    ) -> BoxFuture<'a, leasehold::Result<Ratified>> {
        Box::pin(async move {
            self.check()?;
            self.memory().ratify(lease, token, due).await
        })
    }
    fn conclude<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, leasehold::Result<Release>> {
        Box::pin(async move {
            self.check()?;
            self.memory().conclude(lease, how).await
        })
    }
    fn wake_ups<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, leasehold::Result<leasehold::store::WakeUps>> {
        self.memory().wake_ups(name)
    }
    fn recall<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, leasehold::Result<Memories>> {
        self.memory().recall(name)
    }
    fn adopt<'a>(
        &'a self,
        name: &'a LockName,
        memories: &'a Memories,
        into: &'a str,
    ) -> BoxFuture<'a, leasehold::Result<()>> {
        if self.moods.forgets.load(Ordering::Relaxed) {
            self.memory.restart(Duration::ZERO);
        }
        self.memory().adopt(name, memories, into)
    }
    fn announce<'a>(&'a self, floor: Tick, into: &'a str) -> BoxFuture<'a, leasehold::Result<()>> {
        self.memory().announce(floor, into)
    }
    fn found<'a>(&'a self, floor: Tick, into: &'a str) -> BoxFuture<'a, leasehold::Result<()>> {
        if self.moods.is_stubborn.load(Ordering::Relaxed) {
            return Box::pin(async { Err(leasehold::Error::new(ErrorKind::Unavailable, "it is stubborn")) });
        }
        self.memory().found(floor, into)
    }
    fn names(&self, from: u64, most: usize) -> BoxFuture<'_, leasehold::Result<Names>> {
        self.memory().names(from, most)
    }
    fn fill<'a>(&'a self, by: HolderId, step: Filling, into: &'a str) -> BoxFuture<'a, leasehold::Result<bool>> {
        self.memory().fill(by, step, into)
    }
    fn identity(&self) -> BoxFuture<'_, leasehold::Result<Identity>> {
        Box::pin(async {
            self.connect().await;
            let identity = self.memory().identity().await?;
            Ok(Identity { unfit: self.unfit.clone(), max_ttl: self.max_ttl, ..identity })
        })
    }
    fn last_life(&self, of: Vote) -> Option<Arc<str>> {
        let is_known = *self.moods.is_unknown_for.lock().unwrap() != Some(of);
        if is_known { self.memory().last_life(of) } else { None }
    }
    fn examine(&self) -> BoxFuture<'_, leasehold::Result<Vec<leasehold::Finding>>> {
        self.diagnose()
    }
}

/// In the life that it is in.
async fn adopt(member: &impl Member, name: &LockName, memories: &Memories) {
    let life = member.identity().await.unwrap().server;
    member.adopt(name, memories, &life).await.unwrap();
}

macro_rules! as_inner {
    ($($method:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(fn $method<'a>(&'a self, $($argument: $type),*) -> BoxFuture<'a, $answer> {
            Box::pin(async move {
                self.check()?;
                self.memory().$method($($argument),*).await
            })
        })*
    };
}

impl Store for Odd {
    fn traits(&self) -> leasehold::store::Traits {
        self.memory.traits()
    }
    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, leasehold::Result<Attempt>> {
        Box::pin(self.grants(claim))
    }
    fn for_keeper(&self) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }
    fn renew<'a>(&'a self, leases: &'a [(LeaseKey, Duration)]) -> BoxFuture<'a, Vec<leasehold::Result<Renewal>>> {
        self.moods.asked.fetch_add(1, Ordering::Relaxed);
        self.memory().renew(leases)
    }
    fn reset_marks<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, leasehold::Result<bool>> {
        Box::pin(async move {
            let had_a_mark = self.memory.reset_marks(name).await?;
            let before = self.moods.is_filled_with.lock().unwrap().take();
            if let Some(before) = before {
                self.memory.restart(Duration::ZERO);
                adopt(&self.memory, name, &before).await;
            }
            Ok(had_a_mark)
        })
    }
    as_inner! {
        leave(waiter: &'a LeaseKey) -> leasehold::Result<()>;
        release(lease: &'a LeaseKey, how: Ended) -> leasehold::Result<Release>;
        subscribe(name: &'a LockName) -> leasehold::Result<leasehold::store::WakeUps>;
        inspect(name: &'a LockName) -> leasehold::Result<Option<leasehold::Holding>>;
        list() -> leasehold::Result<Vec<leasehold::Holding>>;
        revoke(name: &'a LockName, whose: Option<HolderId>, how: leasehold::Revoke) -> leasehold::Result<Option<leasehold::Holding>>;
        time() -> leasehold::Result<Duration>;
        diagnose() -> leasehold::Result<Vec<leasehold::Finding>>;
    }
    fn tables(&self) -> Option<leasehold::store::Tables> {
        None
    }
    fn as_member(&self) -> Option<&dyn Member> {
        Some(self)
    }
}

#[tokio::test(start_paused = true)]
async fn d08_the_same_server_twice_and_replicas_are_refused() {
    let (twice, other) = (Memory::default(), Memory::default());
    let named = |name: &str, store: Arc<dyn Store>| (name.to_owned(), store);
    let quorum = Quorum::of([
        named("a", Arc::new(twice.clone())),
        named("b", Arc::new(other.clone())),
        named("c", Arc::new(twice.clone())),
    ]);
    let error = quorum.unwrap().try_acquire(&claim()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("a and c are the same server"), "{error}");

    let replica = Odd { unfit: Some("it is a replica of 10.0.0.1".to_owned()), ..Odd::default() };
    let quorum = Quorum::of([named("a", Arc::new(twice)), named("b", Arc::new(other)), named("c", Arc::new(replica))]);
    let quorum = quorum.unwrap();
    let _ = quorum.try_acquire(&claim()).await;
    let error = quorum.try_acquire(&claim()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("c can't be a member of a quorum: it is a replica"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn d02_with_one_member_away_all_goes_on() {
    let stage = Stage::of(3);
    stage.cut(&[1]);
    let guard = stage.acquires().await;
    let token = guard.token();
    sleep(TTL * 5).await;
    assert!(guard.is_valid() && guard.loss().is_none());
    assert_eq!(guard.release().await.unwrap(), Released::InTime);
    let next = stage.acquires().await;
    assert!(token < next.token());
}

#[tokio::test(start_paused = true)]
async fn with_a_majority_away_it_is_an_outage_that_names_each_cause_and_contention_stays_contention() {
    let stage = Stage::of(3);
    let guard = stage.acquires().await;
    let Outcome::Contended(other) = stage.locks.lock("job").ttl(TTL).try_acquire().await.unwrap() else {
        panic!("it is held")
    };
    assert_eq!((other.holder, other.token), (Some(guard.holder()), guard.token()));
    stage.cut(&[0, 2]);
    let error = stage.quorum.try_acquire(&claim()).await.unwrap_err();
    assert!(error.is_transient() && error.applied() == Applied::Maybe, "{error}");
    let told = error.to_string();
    assert!(told.contains("2 of the 3") && told.contains("n0: ") && told.contains("n2: "), "{told}");
}

#[tokio::test(start_paused = true)]
async fn d01_a_claim_that_came_to_nothing_is_taken_back_everywhere() {
    let stage = Stage::of(5);
    let taken = claim();
    for node in &stage.nodes[..3] {
        assert!(matches!(node.try_acquire(&taken).await.unwrap(), Attempt::Granted(_)));
    }
    // One of the others does it, but its answer is lost.
    stage.network.set_weather(Weather { lost_replies: 1.0, ..Weather::FAIR });
    let _ = stage.quorum.try_acquire(&claim()).await;
    stage.network.set_weather(Weather::FAIR);
    sleep(SECOND).await;
    let ours = stage.holders_of("job").await;
    assert_eq!(ours, [Some(taken.holder), Some(taken.holder), Some(taken.holder), None, None]);
}

/// A process that is told so may end at once, and nobody does anything for it in the background any more.
#[tokio::test(start_paused = true)]
async fn d01_whoever_is_told_that_it_was_in_vain_has_left_no_vote_behind() {
    let stage = Stage::of(3);
    let now = stage.nodes[0].time().await.unwrap();
    let lock = stage.locks.lock("job").ttl(TTL);
    let in_future = lock.clone().tick(tick_at(now + 86_400 * SECOND));
    let told = in_future.try_acquire().await.unwrap();
    assert!(matches!(told, Outcome::NotDue(NotDue::InFuture { .. })), "{told:?}");
    assert!(stage.is_clean().await, "not due: {:?}", stage.holders_of("job").await);
    let others = [claim(), claim()];
    for (node, other) in stage.nodes.iter().zip(&others) {
        assert!(matches!(node.try_acquire(other).await.unwrap(), Attempt::Granted(_)));
    }
    assert!(matches!(lock.try_acquire().await.unwrap(), Outcome::Contended(_)));
    let left = stage.holders_of("job").await;
    assert_eq!(left, [Some(others[0].holder), Some(others[1].holder), None], "a split vote");
    stage.nodes[1].leave(&key(&others[1])).await.unwrap();
    assert!(matches!(stage.nodes[1].try_acquire(&others[0]).await.unwrap(), Attempt::Granted(_)));
    assert!(matches!(lock.try_acquire().await.unwrap(), Outcome::Contended(_)));
    let left = stage.holders_of("job").await;
    assert_eq!(left, [Some(others[0].holder), Some(others[0].holder), None], "held by two of three");
}

#[tokio::test(start_paused = true)]
async fn d01_so_is_one_whose_caller_has_gone() {
    for millis in 0..40 {
        let stage = Stage::of(3);
        let lock = stage.locks.lock("job").ttl(TTL);
        let asked = tokio::time::timeout(Duration::from_millis(millis), lock.try_acquire()).await;
        drop(asked);
        sleep(SECOND / 2).await;
        assert!(stage.is_clean().await, "after {millis} ms: {:?}", stage.holders_of("job").await);
    }
}

#[tokio::test(start_paused = true)]
async fn d04_one_that_hangs_delays_nothing() {
    let stage = Stage::of(5);
    stage.network.set_weather(Weather { silence: 600 * SECOND, ..Weather::FAIR });
    stage.cut(&[3]);
    let began = Instant::now();
    let guard = stage.acquires().await;
    assert!(began.elapsed() < Duration::from_millis(50), "granted after {:?}", began.elapsed());
    let began = Instant::now();
    assert!(matches!(stage.quorum.try_acquire(&claim()).await.unwrap(), Attempt::Held(_)));
    assert!(began.elapsed() < Duration::from_millis(100), "refused after {:?}", began.elapsed());
    let began = Instant::now();
    assert_eq!(guard.release().await.unwrap(), Released::InTime);
    assert!(began.elapsed() < Duration::from_millis(50), "released after {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn d05_a_majority_that_says_yes_too_late_grants_nothing_and_keeps_nothing() {
    let stage = Stage::of(3);
    let slow = Duration::from_secs(2);
    stage.network.set_weather(Weather { delay: (slow, slow), ..Weather::FAIR });
    let error = stage.locks.lock("job").ttl(TTL).try_acquire().await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    stage.network.set_weather(Weather::FAIR);
    sleep(6 * SECOND).await;
    assert!(stage.is_clean().await);
}

/// Whoever observes a client is told how each member has voted; also of renewals, which come over handles of the keeper's.
#[tokio::test(start_paused = true)]
async fn votes_are_told() {
    let stage = Stage::of(3);
    let told = Arc::<Mutex<Vec<String>>>::default();
    let log = Arc::clone(&told);
    let observer = move |event: &Event<'_>| {
        if let Event::Voted { member, on, ballot, times } = event {
            log.lock().unwrap().push(format!("{member} {on:?} {ballot:?} {times}"));
        }
    };
    let heard = move || {
        let mut heard = std::mem::take(&mut *told.lock().unwrap());
        heard.sort();
        heard
    };
    let locks =
        Locks::builder().observer(observer).simulated(Arc::new(Machine::new())).over(Arc::new(stage.quorum.clone()));

    let theirs = stage.acquires().await;
    let Outcome::Contended(_) = locks.lock("job").ttl(TTL).try_acquire().await.unwrap() else { panic!("it is theirs") };
    let refused = heard();
    assert!(refused.iter().filter(|vote| vote.ends_with("Claim Refused 1")).count() >= 2, "{refused:?}");
    theirs.release().await.unwrap();
    heard();

    stage.cut(&[1]);
    let guard = locks.lock("job").ttl(TTL).try_acquire().await.unwrap().guard().unwrap();
    let granted = heard();
    assert_eq!(granted.len(), 3, "{granted:?}");
    assert_eq!([&granted[0], &granted[2]], ["n0 Claim Granted 1", "n2 Claim Granted 1"]);
    assert!(["n1 Claim Failed 1", "n1 Claim Late 1"].contains(&granted[1].as_str()), "{granted:?}");
    sleep(TTL / 2).await;
    let renewed = heard();
    assert_eq!([&renewed[0], &renewed[2]], ["n0 Renewal Granted 1", "n2 Renewal Granted 1"]);
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn d06_a_renewal_that_a_majority_misses_loses_nothing_until_the_deadline() {
    let stage = Stage::of(5);
    let guard = stage.acquires().await;
    sleep(TTL / 3 - Duration::from_millis(100)).await;
    stage.cut(&[0, 1, 2]);
    sleep(SECOND).await;
    stage.mend();
    sleep(TTL).await;
    assert!(guard.is_valid() && guard.loss().is_none());
    assert!(stage.holders_of("job").await.iter().all(Option::is_some));

    stage.cut(&[0, 1, 2]);
    let reason = guard.lost().await;
    assert!(matches!(reason, LossReason::Unreachable(_)), "{reason:?}");
    assert!(guard.remaining() <= TTL / 3);
}

#[tokio::test(start_paused = true)]
async fn d07_releasing_what_is_over_says_so_at_once() {
    let stage = Stage::of(3);
    let claim = claim();
    assert!(matches!(stage.quorum.try_acquire(&claim).await.unwrap(), Attempt::Granted(_)));
    sleep(TTL * 2).await;
    let began = Instant::now();
    assert_eq!(stage.quorum.release(&key(&claim), Ended::default()).await.unwrap(), Release::NotHeld);
    assert!(began.elapsed() < Duration::from_millis(50));
}

#[tokio::test(start_paused = true)]
async fn a_member_that_was_away_gets_the_lease_and_so_does_one_that_lost_it() {
    let stage = Stage::of(3);
    stage.cut(&[2]);
    let guard = stage.acquires().await;
    sleep(SECOND).await;
    assert_eq!(stage.holders_of("job").await.iter().flatten().count(), 2);
    stage.mend();
    sleep(TTL).await;
    assert_eq!(stage.holders_of("job").await.iter().flatten().count(), 3);
    stage.nodes[0].restart(TTL);
    sleep(TTL * 2).await;
    assert_eq!(stage.holders_of("job").await.iter().flatten().count(), 3);
    assert!(guard.is_valid());
    assert_eq!(guard.release().await.unwrap(), Released::InTime);
    sleep(SECOND).await;
    assert!(stage.is_clean().await);
}

#[tokio::test(start_paused = true)]
async fn what_a_majority_has_lost_is_not_put_back() {
    let stage = Stage::of(3);
    let guard = stage.acquires().await;
    stage.nodes[0].restart(TTL);
    stage.nodes[1].restart(TTL);
    assert_eq!(guard.lost().await, LossReason::Gone);
    assert!(!guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn tokens_grow_though_members_come_back_empty() {
    let stage = Stage::of(3);
    let mut last = stage.acquires().await;
    for member in [0, 1, 2, 0, 1, 2] {
        let token = last.token();
        // One that came back before is filled beside us.
        sleep(SECOND).await;
        assert_eq!(last.release().await.unwrap(), Released::InTime);
        stage.nodes[member].restart(TTL);
        sleep(validity::outlasting(TTL)).await;
        last = stage.acquires().await;
        assert!(token < last.token(), "{} after {token}", last.token());
    }
}

#[tokio::test(start_paused = true)]
async fn ticks_are_refused_once_too_many_have_come_back_empty_until_the_loss_is_accepted() {
    let stage = Stage::of(3);
    let now = stage.quorum.time().await.unwrap();
    let done = Claim { due: Some(due(tick_at(now))), ..claim() };
    assert!(matches!(stage.quorum.try_acquire(&done).await.unwrap(), Attempt::Granted(_)));
    let how = Ended { verdict: Some(Verdict::Done(tick_at(now))), ..Ended::default() };
    assert_eq!(stage.quorum.release(&key(&done), how).await.unwrap(), Release::Released);
    stage.nodes[0].restart(TTL);
    stage.nodes[2].restart(TTL);
    let asked = || Claim { due: Some(due(tick_at(now))), ..claim() };
    let error = stage.quorum.try_acquire(&asked()).await.unwrap_err();
    assert!(error.is_passing() && error.to_string().contains("restarted"), "{error}");
    sleep(TTL * 2).await;
    let error = stage.quorum.try_acquire(&asked()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("n0, n2 came back empty"), "{error}");
    stage.quorum.accept_loss().await.unwrap();
    let soon = tick_at(now + TICK_SLACK);
    for tick in [tick_at(now), soon] {
        let asked = Claim { due: Some(due(tick)), ..claim() };
        let answer = stage.quorum.try_acquire(&asked).await.unwrap();
        assert!(matches!(answer, Attempt::NotDue(NotDue::Claimed { .. })), "{answer:?}");
    }
    sleep(60 * SECOND).await;
    let later = Claim { due: Some(due(tick_at(now + TICK_SLACK + 30 * SECOND))), ..claim() };
    assert!(matches!(stage.quorum.try_acquire(&later).await.unwrap(), Attempt::Granted(_)));
}

#[tokio::test(start_paused = true)]
async fn one_that_came_back_empty_learns_what_was_done() {
    let stage = Stage::of(3);
    let tick = tick_at(stage.quorum.time().await.unwrap());
    // Two know of it, and one of these forgets.
    stage.cut(&[2]);
    let done = Claim { due: Some(due(tick)), ..claim() };
    assert!(matches!(stage.quorum.try_acquire(&done).await.unwrap(), Attempt::Granted(_)));
    assert_eq!(stage.quorum.release(&key(&done), Ended::default()).await.unwrap(), Release::Released);
    stage.mend();
    stage.nodes[0].restart(TTL);
    sleep(TTL * 2).await;
    let again = Claim { due: Some(due(tick)), ..claim() };
    let answer = stage.quorum.try_acquire(&again).await.unwrap();
    assert!(matches!(answer, Attempt::NotDue(NotDue::Claimed { .. })), "{answer:?}");
    let newest = stage.nodes[0].recall(&done.name).await.unwrap();
    assert!(newest.is_full && newest.newest == Some(tick), "{newest:?}");
}

/// `Done` need not come to the members that granted the tick.
#[tokio::test(start_paused = true)]
async fn done_counts_at_any_majority() {
    let stage = Stage::of(3);
    let tick = tick_at(stage.quorum.time().await.unwrap());
    let retried = || Claim { due: Some(Due { retry_failed: true, ..due(tick) }), ..claim() };
    stage.cut(&[2]);
    let ran = retried();
    assert!(matches!(stage.quorum.try_acquire(&ran).await.unwrap(), Attempt::Granted(_)));
    stage.mend();
    stage.cut(&[1]);
    let how = Ended { verdict: Some(Verdict::Done(tick)), ..Ended::default() };
    // One of these had the lease and one never has: whether a majority had it nobody can say, until it is told again.
    let error = stage.quorum.release(&key(&ran), how).await.unwrap_err();
    assert_eq!(error.applied(), Applied::Maybe, "{error}");
    assert_eq!(stage.quorum.release(&key(&ran), how).await.unwrap(), Release::NotHeld);
    // Whoever asks next has not heard of it where it was granted.
    sleep(TTL * 20).await;
    stage.mend();
    stage.cut(&[0]);
    let answer = stage.quorum.try_acquire(&retried()).await;
    assert!(!matches!(answer, Ok(Attempt::Granted(_))), "{answer:?}");
}

/// Many ask at the same moment, again and again: somebody is granted it each time, and nobody waits long.
#[tokio::test(start_paused = true)]
async fn contenders_who_split_the_vote_do_not_do_so_for_ever() {
    let network = Network::new(Random::new(7), Weather { delay: (SECOND / 1000, SECOND / 50), ..Weather::FAIR });
    let nodes: Vec<_> = (0..3).map(|_| (Machine::new(), Memory::new(Arc::new(PausedClock::start())))).collect();
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let machine = Machine::new();
            let wires = nodes.iter().enumerate().map(|(number, (node, memory))| {
                let wire = Wire::new(Arc::new(memory.clone()), network.link(&machine, node));
                (number.to_string(), Arc::new(wire) as Arc<dyn Store>)
            });
            let quorum = Arc::new(Quorum::of(wires).unwrap());
            Locks::builder().simulated(Arc::new(machine)).over(quorum)
        })
        .collect();
    let began = Instant::now();
    let takes_it = async |locks: &Locks| {
        for _ in 0..5 {
            let lock = locks.lock("job").ttl(12 * SECOND).wait(Wait::For(60 * SECOND));
            let Ok(Outcome::Acquired(guard)) = lock.acquire().await else { panic!("nobody waits for a minute") };
            drop(guard.release().await);
        }
    };
    join_all(clients.iter().map(takes_it)).await;
    let each = began.elapsed() / 40;
    println!("{each:?} for each of 40 grants to 8 contenders, at a round trip of 20 ms");
    assert!(each < SECOND / 2, "{each:?}");
}

/// A member whose counter is ahead hears of the claim late: the token is larger than what it knows all the same, and every
/// member that acknowledged it knows it.
#[tokio::test(start_paused = true)]
async fn a_token_is_larger_than_what_all_know_who_acknowledge_it() {
    let stage = Stage::of(3);
    drop(stage.acquires().await.release().await);
    for ahead in [9, 20] {
        let mut before = claim();
        for _ in 0..ahead {
            before.holder = HolderId::fresh();
            assert!(matches!(stage.nodes[2].try_acquire(&before).await.unwrap(), Attempt::Granted(_)));
            assert_eq!(stage.nodes[2].release(&key(&before), Ended::default()).await.unwrap(), Release::Released);
        }
        let known = stage.nodes[2].recall(&before.name).await.unwrap().token;
        let guard = stage.acquires().await;
        let token = guard.token();
        sleep(SECOND).await;
        let counters =
            join_all(stage.nodes.iter().map(async |node| node.recall(guard.name()).await.unwrap().token)).await;
        let those_who_know = counters.iter().filter(|counter| **counter >= token).count();
        assert!(those_who_know >= 2, "{token}: {counters:?}");
        assert!(token > known || counters[..2] == [token, token], "{token} beside {known}: {counters:?}");
        drop(guard.release().await);
    }
}

/// Of five, two are ahead by different numbers: whichever of them are heard of first, a majority knows the token in the end.
#[tokio::test(start_paused = true)]
async fn a_token_is_known_to_a_majority_however_far_apart_the_members_are() {
    for seed in 0..50 {
        let stage = Stage::seeded(5, seed);
        drop(stage.acquires().await.release().await);
        for (member, ahead) in [(3, 1), (4, 2)] {
            for _ in 0..ahead {
                let before = claim();
                assert!(matches!(stage.nodes[member].try_acquire(&before).await.unwrap(), Attempt::Granted(_)));
                stage.nodes[member].leave(&key(&before)).await.unwrap();
            }
        }
        let guard = stage.acquires().await;
        let token = guard.token();
        let counters =
            join_all(stage.nodes.iter().map(async |node| node.recall(guard.name()).await.unwrap().token)).await;
        let those_who_know = counters.iter().filter(|counter| **counter >= token).count();
        assert!(those_who_know >= 3, "{seed}: {token}: {counters:?}");
    }
}

/// The members' clocks are asked for and nobody answers; then they can be reached again. A floor in 1970 would close
/// nothing.
#[tokio::test(start_paused = true)]
async fn a_loss_is_not_accepted_without_the_clocks_of_a_majority() {
    let stage = Stage::of(3);
    stage.cut(&[0, 1, 2]);
    let quorum = stage.quorum.clone();
    let accepted = tokio::spawn(async move { quorum.accept_loss().await });
    sleep(SECOND / 2).await;
    stage.mend();
    let error = accepted.await.unwrap().unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("3 of the 3"), "{error}");
}

/// What it adopts was recalled before the others heard that the tick is done; it heard of that itself.
#[tokio::test(start_paused = true)]
async fn what_was_done_meanwhile_is_not_opened_again_by_adopting() {
    let stage = Stage::of(3);
    let tick = tick_at(stage.quorum.time().await.unwrap());
    let ran = Claim { due: Some(Due { retry_failed: true, ..due(tick) }), ..claim() };
    assert!(matches!(stage.quorum.try_acquire(&ran).await.unwrap(), Attempt::Granted(_)));
    stage.nodes[0].restart(TTL);
    sleep(TTL).await;
    let before = stage.nodes[1].recall(&ran.name).await.unwrap();
    assert!(before.open.contains_key(&tick));
    let how = Ended { verdict: Some(Verdict::Done(tick)), ..Ended::default() };
    assert_eq!(stage.nodes[0].conclude(&key(&ran), how).await.unwrap(), Release::NotHeld);
    adopt(&stage.nodes[0], &ran.name, &before).await;
    assert!(stage.nodes[0].recall(&ran.name).await.unwrap().has_closed(tick));

    // Nor where it is adopted already.
    stage.nodes[1].restart(TTL);
    sleep(TTL).await;
    adopt(&stage.nodes[1], &ran.name, &Memories { is_full: true, ..Memories::default() }).await;
    adopt(&stage.nodes[1], &ran.name, &before).await;
    assert!(stage.nodes[1].recall(&ran.name).await.unwrap().open.is_empty());
}

fn key_claim() -> Claim {
    Claim { due: Some(due(Tick::ONLY)), ..claim() }
}

async fn runs_a_key(stage: &Stage) {
    let done = key_claim();
    assert!(matches!(stage.quorum.try_acquire(&done).await.unwrap(), Attempt::Granted(_)));
    let how = Ended { verdict: Some(Verdict::Done(Tick::ONLY)), ..Ended::default() };
    assert_eq!(stage.quorum.release(&key(&done), how).await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_asked_for_between_the_restarts_runs_once() {
    let stage = Stage::of(3);
    runs_a_key(&stage).await;
    for node in &stage.nodes {
        node.restart(TTL);
        sleep(TTL * 2).await;
        let answer = stage.quorum.try_acquire(&key_claim()).await.unwrap();
        assert!(matches!(answer, Attempt::NotDue(NotDue::Claimed { .. })), "{answer:?}");
        sleep(SECOND).await;
        assert!(node.recall(&claim().name).await.unwrap().is_full);
    }
}

/// Somebody has begun to fill it for all names, so nobody else does; and is dead.
async fn is_filled_by_nobody(node: &Memory) {
    let life = node.identity().await.unwrap().server;
    assert!(node.fill(HolderId::fresh(), Filling::Begins, &life).await.unwrap());
}

/// The members were never all empty at a time, and know of other names; this one's key has been lost all the same.
#[tokio::test(start_paused = true)]
async fn a_key_that_nobody_asked_for_between_the_restarts_is_refused() {
    let stage = Stage::of(3);
    runs_a_key(&stage).await;
    for node in &stage.nodes {
        node.restart(TTL);
        sleep(TTL * 2).await;
        is_filled_by_nobody(node).await;
        let other = stage.locks.lock("other").ttl(TTL).try_acquire().await.unwrap();
        let Outcome::Acquired(other) = other else { panic!("it is free") };
        assert_eq!(other.release().await.unwrap(), Released::InTime);
        sleep(SECOND).await;
    }
    let error = stage.quorum.try_acquire(&key_claim()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_is_ratified_is_above_all_that_the_member_knows() {
    let node = Memory::default();
    let asked = claim();
    assert!(matches!(node.try_acquire(&asked).await.unwrap(), Attempt::Granted(_)));
    let ahead = FencingToken::new(50);
    adopt(&node, &asked.name, &Memories { is_full: true, token: ahead, ..Memories::default() }).await;
    // That token is another's, who has passed it on.
    let above = Ratified::Yes { token: FencingToken::new(51), attempt: 0, gave_up: None };
    for token in [FencingToken::new(2), ahead, FencingToken::new(51)] {
        assert_eq!(node.ratify(&key(&asked), token, None).await.unwrap(), above);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_was_founded_says_from_where_its_tokens_begin() {
    let node = Memory::default();
    let life = node.identity().await.unwrap().server;
    node.found(tick_at(1_796_000_000 * SECOND), &life).await.unwrap();
    let known = node.recall(&claim().name).await.unwrap();
    let Attempt::Granted(grant) = node.try_acquire(&claim()).await.unwrap() else { panic!("it is free") };
    assert_eq!(grant.token.number(), known.token.number() + 1);
}

/// A key has no time: where ticks begin anew is nothing to it, nor to whoever adopts it.
#[tokio::test(start_paused = true)]
async fn a_key_that_never_ran_is_granted_by_a_quorum_that_was_founded() {
    let stage = Stage::of(3);
    stage.nodes.iter().for_each(|node| node.restart(TTL));
    sleep(TTL).await;
    stage.quorum.accept_loss().await.unwrap();
    stage.nodes[0].restart(TTL);
    sleep(TTL).await;
    let job = claim().name;
    let key = LockName::new("key").unwrap();
    for name in [&job, &key] {
        let known = stage.nodes[1].recall(name).await.unwrap();
        assert!(known.floor.is_some() && known.newest.is_none(), "{known:?}");
        adopt(&stage.nodes[0], name, &known).await;
    }
    stage.cut(&[2]);
    let soon = tick_at(stage.quorum.time().await.unwrap() + SECOND);
    let answer = stage.quorum.try_acquire(&Claim { due: Some(due(soon)), ..claim() }).await.unwrap();
    assert!(matches!(answer, Attempt::NotDue(NotDue::Claimed { .. })), "{answer:?}");
    let answer = stage.quorum.try_acquire(&Claim { name: key, ..key_claim() }).await.unwrap();
    assert!(matches!(answer, Attempt::Granted(_)), "{answer:?}");
}

/// It waits for long while a member is away: each time it asks leaves something to be told to that member.
#[tokio::test(start_paused = true)]
async fn a_waiter_leaves_no_crowd_behind_for_a_member_that_is_away() {
    let stage = Stage::of(3);
    stage.network.set_weather(Weather { silence: SECOND / 10, ..Weather::FAIR });
    let _guard = stage.acquires().await;
    stage.cut(&[2]);
    let soon = tick_at(stage.quorum.time().await.unwrap());
    let waiter = Claim { due: Some(due(soon)), ..claim() };
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    for _ in 0..100 {
        assert!(matches!(stage.quorum.try_acquire(&waiter).await.unwrap(), Attempt::Held(_)));
        sleep(SECOND / 20).await;
    }
    sleep(TTL + 5 * SECOND).await;
    let after = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(after < before + 10, "{before} tasks before, {after} after");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_split_vote_asks_again_after_a_while() {
    let stage = Stage::of(3);
    for node in &stage.nodes[..2] {
        assert!(matches!(node.try_acquire(&claim()).await.unwrap(), Attempt::Granted(_)));
    }
    for _ in 0..20 {
        let Attempt::Held(held) = stage.quorum.try_acquire(&claim()).await.unwrap() else { panic!("two have it") };
        assert!(held.remaining >= SECOND / 20, "{:?}", held.remaining);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_minority_has_done_may_have_been_done() {
    let members = [(); 3].map(|()| Odd::default());
    let quorum = quorum_of(&members);
    let claim = claim();
    assert!(matches!(quorum.try_acquire(&claim).await.unwrap(), Attempt::Granted(_)));
    members[1..].iter().for_each(|odd| odd.denies(true));
    let errors = [
        quorum.revoke(&claim.name, None, leasehold::Revoke::Gently).await.unwrap_err(),
        quorum.release(&key(&claim), Ended::default()).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!((error.kind(), error.applied()), (ErrorKind::AccessDenied, Applied::Maybe), "{error}");
    }
    members[1..].iter().for_each(|odd| odd.denies(false));
    assert_eq!(quorum.release(&key(&claim), Ended::default()).await.unwrap(), Release::Released);
}

/// It was granted by two. One of these revokes it, the other isn't reached: with the third it could renew it.
#[tokio::test(start_paused = true)]
async fn what_a_minority_has_revoked_may_be_renewed() {
    let members = [(); 3].map(|()| Odd::default());
    let quorum = quorum_of(&members);
    let claim = claim();
    members[1].denies(true);
    assert!(matches!(quorum.try_acquire(&claim).await.unwrap(), Attempt::Granted(_)));
    members[1].denies(false);
    members[2].denies(true);
    let error = quorum.revoke(&claim.name, None, leasehold::Revoke::Gently).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::Maybe), "{error}");
    members[2].denies(false);
    let revoked = quorum.revoke(&claim.name, None, leasehold::Revoke::Gently).await.unwrap();
    assert_eq!(revoked.and_then(|held| held.holder), Some(claim.holder));
}

/// An operator sees a round that was granted by a majority, and is taken back: its second phase came to nothing. While its
/// revocation waits for a third member the next round of the same acquisition is granted.
#[tokio::test(start_paused = true)]
async fn a_revocation_finds_the_round_that_was_granted_meanwhile() {
    let stage = Stage::of(3);
    stage.machines[2].stop_for(2 * SECOND);
    let holder = HolderId::fresh();
    let round = || Claim { label: format!("host/1/job#{holder}").into(), ..claim() };
    let [first, next] = [round(), round()];
    let granted = async |claim: &Claim| {
        for node in &stage.nodes[..2] {
            assert!(matches!(node.try_acquire(claim).await.unwrap(), Attempt::Granted(_)));
        }
    };
    granted(&first).await;
    let quorum = stage.quorum.clone();
    let revoked = tokio::spawn(async move { quorum.revoke(&claim().name, None, leasehold::Revoke::Gently).await });
    sleep(SECOND / 20).await;
    for node in &stage.nodes[..2] {
        assert!(node.inspect(&first.name).await.unwrap().is_some_and(|held| held.revoked));
        node.leave(&key(&first)).await.unwrap();
    }
    granted(&next).await;
    let revoked = revoked.await.unwrap().unwrap().expect("it was held");
    assert_eq!(revoked.holder, Some(holder));
    for node in &stage.nodes[..2] {
        assert!(matches!(node.renew(&[(key(&next), TTL)]).await[..], [Ok(Renewal::Revoked)]));
    }
}

/// Its client has not heard that it was granted, stops, and claims anew when all is over: that is another hold, and in every
/// store so.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_sent_after_a_revocation_may_be_granted() {
    let stage = Stage::of(3);
    for store in [&stage.quorum as &dyn Store, &stage.nodes[0]] {
        let asked = claim();
        let Attempt::Granted(unheard) = store.try_acquire(&asked).await.unwrap() else { panic!("it is free") };
        let revoked = store.revoke(&asked.name, Some(asked.holder), leasehold::Revoke::Gently).await.unwrap();
        assert_eq!(revoked.and_then(|held| held.holder), Some(asked.holder));
        assert!(matches!(store.try_acquire(&asked).await.unwrap(), Attempt::Held(_)), "while that lasts");
        store.leave(&key(&asked)).await.unwrap();
        let Attempt::Granted(again) = store.try_acquire(&asked).await.unwrap() else { panic!("it is free") };
        assert!(again.token > unheard.token);
        store.leave(&key(&asked)).await.unwrap();
        sleep(SECOND).await;
    }
}

/// One had it still, one has lost it, and one says nothing: nobody knows whether a majority had it.
#[tokio::test(start_paused = true)]
async fn it_was_released_only_if_a_majority_had_it() {
    let members = [(); 3].map(|()| Odd::default());
    let quorum = quorum_of(&members);
    let claim = claim();
    assert!(matches!(quorum.try_acquire(&claim).await.unwrap(), Attempt::Granted(_)));
    members[1].memory.restart(TTL);
    members[2].denies(true);
    let error = quorum.release(&key(&claim), Ended::default()).await.unwrap_err();
    assert_eq!(error.applied(), Applied::Maybe, "{error}");
    members[2].denies(false);
    assert_eq!(quorum.release(&key(&claim), Ended::default()).await.unwrap(), Release::NotHeld);
}

#[tokio::test(start_paused = true)]
async fn one_that_denies_and_one_that_has_had_it_are_no_denial() {
    let members = [(); 3].map(|()| Odd::default());
    let quorum = quorum_of(&members);
    let tick = tick_at(quorum.time().await.unwrap());
    let done = Claim { due: Some(due(tick)), ..claim() };
    assert!(matches!(members[0].memory.try_acquire(&done).await.unwrap(), Attempt::Granted(_)));
    let how = Ended { verdict: Some(Verdict::Done(tick)), ..Ended::default() };
    assert_eq!(members[0].memory.release(&key(&done), how).await.unwrap(), Release::Released);
    members[2].denies(true);
    let error = quorum.try_acquire(&Claim { due: Some(due(tick)), ..claim() }).await.unwrap_err();
    assert!(error.is_transient(), "{:?}: {error}", error.kind());
    let told = error.to_string();
    assert!(told.contains("count as claimed") && told.contains("n2: it has other credentials"), "{told}");
}

/// The lock is given back at once, its guard says later that nothing was begun.
#[tokio::test(start_paused = true)]
async fn a_verdict_that_comes_after_the_release_counts() {
    let stage = Stage::of(3);
    let tick = tick_at(stage.quorum.time().await.unwrap());
    let asked = || Claim { due: Some(due(tick)), ..claim() };
    let first = asked();
    assert!(matches!(stage.quorum.try_acquire(&first).await.unwrap(), Attempt::Granted(_)));
    assert_eq!(stage.quorum.release(&key(&first), Ended::default()).await.unwrap(), Release::Released);
    sleep(TTL * 2).await;
    let how = Ended { verdict: Some(Verdict::NotStarted), ..Ended::default() };
    assert_eq!(stage.quorum.release(&key(&first), how).await.unwrap(), Release::NotHeld);
    let answer = stage.quorum.try_acquire(&asked()).await.unwrap();
    assert!(matches!(answer, Attempt::Granted(_)), "{answer:?}");
}

/// A member that has lost the lease is given it back so slowly that it is released meanwhile.
#[tokio::test(start_paused = true)]
async fn what_is_put_back_too_late_is_taken_away_again() {
    let stage = Stage::of(3);
    let claim = claim();
    assert!(matches!(stage.quorum.try_acquire(&claim).await.unwrap(), Attempt::Granted(_)));
    sleep(SECOND).await;
    stage.nodes[2].restart(Duration::ZERO);
    let keeper = stage.quorum.for_keeper();
    let slow = SECOND * 2 / 5;
    assert!(matches!(keeper.renew(&[(key(&claim), TTL)]).await[..], [Ok(Renewal::Renewed)]));
    stage.network.set_weather(Weather { delay: (slow, slow), ..Weather::FAIR });
    sleep(SECOND / 10).await;
    stage.network.set_weather(Weather::FAIR);
    assert_eq!(stage.quorum.release(&key(&claim), Ended::default()).await.unwrap(), Release::Released);
    sleep(2 * SECOND).await;
    assert!(stage.is_clean().await, "{:?}", stage.holders_of("job").await);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_away_for_minutes_hears_what_became_of_a_tick() {
    let stage = Stage::of(3);
    let tick = tick_at(stage.quorum.time().await.unwrap());
    let done = Claim { due: Some(due(tick)), ..claim() };
    assert!(matches!(stage.quorum.try_acquire(&done).await.unwrap(), Attempt::Granted(_)));
    stage.cut(&[2]);
    let how = Ended { verdict: Some(Verdict::Done(tick)), ..Ended::default() };
    assert_eq!(stage.quorum.release(&key(&done), how).await.unwrap(), Release::Released);
    sleep(600 * SECOND).await;
    stage.mend();
    sleep(10 * SECOND).await;
    assert!(stage.nodes[2].recall(&done.name).await.unwrap().has_closed(tick));
}

fn alive_tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// A hundred locks a second, each of which has something to tell to a member that is away.
#[tokio::test(start_paused = true)]
async fn a_member_that_is_away_is_told_of_all_acquisitions_by_one_task_and_asked_seldom() {
    let members = [(); 3].map(|()| Odd::default());
    let quorum = quorum_of(&members);
    let tick = tick_at(quorum.time().await.unwrap());
    let how = Ended { verdict: Some(Verdict::Done(tick)), ..Ended::default() };
    members[2].denies(true);
    let before = alive_tasks();
    let names: Vec<_> = (0..200).map(|number| LockName::new(&format!("job-{number}")).unwrap()).collect();
    for name in &names {
        let ran = Claim { name: name.clone(), due: Some(due(tick)), ..claim() };
        assert!(matches!(quorum.try_acquire(&ran).await.unwrap(), Attempt::Granted(_)));
        assert_eq!(quorum.release(&key(&ran), how).await.unwrap(), Release::Released);
        sleep(SECOND / 100).await;
    }
    sleep(60 * SECOND).await;
    assert!(alive_tasks() <= before + 1, "{before} tasks before, {} after", alive_tasks());
    let asked = members[2].asked();
    sleep(60 * SECOND).await;
    assert!(members[2].asked() < asked + 30, "{} times a minute", members[2].asked() - asked);
    members[2].denies(false);
    sleep(10 * SECOND).await;
    for name in &names {
        assert!(members[2].memory.recall(name).await.unwrap().has_closed(tick), "{name}");
    }
    assert_eq!(alive_tasks(), before);
}

/// It comes back with what it knew while the tick was open.
#[tokio::test(start_paused = true)]
async fn what_is_open_in_an_old_copy_is_not_believed() {
    let stage = Stage::of(3);
    let tick = tick_at(stage.quorum.time().await.unwrap());
    let retried = || Claim { due: Some(Due { retry_failed: true, ..due(tick) }), ..claim() };
    let ran = retried();
    assert!(matches!(stage.quorum.try_acquire(&ran).await.unwrap(), Attempt::Granted(_)));
    sleep(SECOND).await;
    let copies = [0, 1, 2].map(|member: usize| stage.nodes[member].save());
    let how = Ended { verdict: Some(Verdict::Done(tick)), ..Ended::default() };
    assert_eq!(stage.quorum.release(&key(&ran), how).await.unwrap(), Release::Released);
    let plain = claim();
    assert!(matches!(stage.quorum.try_acquire(&plain).await.unwrap(), Attempt::Granted(_)));
    let newest = stage.nodes[1].recall(&ran.name).await.unwrap().token;
    assert_eq!(stage.quorum.release(&key(&plain), Ended::default()).await.unwrap(), Release::Released);

    stage.nodes[0].restart_from(&copies[0], TTL);
    let old = stage.nodes[0].recall(&ran.name).await.unwrap();
    assert!(!old.is_full && !old.is_blank && old.open.contains_key(&tick), "{old:?}");
    assert!(stage.nodes[0].try_acquire(&claim()).await.unwrap_err().is_passing());
    sleep(TTL * 2).await;
    // It and one that has missed the end would be enough to run it again.
    stage.cut(&[2]);
    let answer = stage.quorum.try_acquire(&retried()).await.unwrap_err();
    assert!(answer.is_transient(), "{answer}");
    stage.mend();
    let answer = stage.quorum.try_acquire(&retried()).await.unwrap();
    assert!(matches!(answer, Attempt::NotDue(NotDue::Claimed { unfinished: false, .. })), "{answer:?}");
    sleep(SECOND).await;
    let filled = stage.nodes[0].recall(&ran.name).await.unwrap();
    assert!(filled.is_full && filled.has_closed(tick) && filled.token >= newest, "{filled:?}");

    // All of them do: that is nothing new, and none of it is run again.
    stage.nodes.iter().zip(&copies).for_each(|(node, copy)| node.restart_from(copy, TTL));
    sleep(TTL * 2).await;
    let error = stage.quorum.try_acquire(&retried()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    stage.quorum.accept_loss().await.unwrap();
    let answer = stage.quorum.try_acquire(&retried()).await.unwrap();
    assert!(matches!(answer, Attempt::NotDue(NotDue::Claimed { .. })), "{answer:?}");
    assert!(stage.acquires().await.token() > newest);
}

/// Whether a majority has closed the tick, or somebody may say of it yet that it never began.
#[tokio::test(start_paused = true)]
async fn of_a_tick_that_a_majority_has_closed_a_member_that_is_away_is_told_for_the_ttl() {
    for is_done in [true, false] {
        let members = [(); 3].map(|()| Odd::default());
        let quorum = quorum_of(&members);
        let tick = tick_at(quorum.time().await.unwrap());
        let asked = || Claim { due: Some(due(tick)), ..claim() };
        let ran = asked();
        assert!(matches!(quorum.try_acquire(&ran).await.unwrap(), Attempt::Granted(_)));
        let verdict = is_done.then_some(Verdict::Done(tick));
        assert_eq!(quorum.release(&key(&ran), Ended { verdict, ..Ended::default() }).await.unwrap(), Release::Released);
        members[2].denies(true);
        let answer = quorum.try_acquire(&asked()).await.unwrap();
        assert!(matches!(answer, Attempt::NotDue(NotDue::Claimed { unfinished, .. }) if unfinished != is_done));
        sleep(TTL + 10 * SECOND).await;
        let told = members[2].asked();
        sleep(60 * SECOND).await;
        assert_eq!(members[2].asked() == told, is_done);
    }
}

#[tokio::test(start_paused = true)]
async fn a_verdict_that_is_owed_is_not_replaced_by_a_release_without_one() {
    let members = [(); 3].map(|()| Odd::default());
    let quorum = quorum_of(&members);
    let tick = tick_at(quorum.time().await.unwrap());
    let ran = Claim { due: Some(due(tick)), ..claim() };
    assert!(matches!(quorum.try_acquire(&ran).await.unwrap(), Attempt::Granted(_)));
    members[2].denies(true);
    let how = Ended { verdict: Some(Verdict::Done(tick)), ..Ended::default() };
    assert_eq!(quorum.release(&key(&ran), how).await.unwrap(), Release::Released);
    assert_eq!(quorum.release(&key(&ran), Ended::default()).await.unwrap(), Release::NotHeld);
    members[2].denies(false);
    sleep(10 * SECOND).await;
    assert!(members[2].memory.recall(&ran.name).await.unwrap().has_closed(tick));
}

/// It is filled with what another knew before it heard that the tick was never begun. Later it is one of two who know of
/// the tick at all.
#[tokio::test(start_paused = true)]
async fn a_tick_that_was_taken_back_while_a_member_was_filled_is_not_claimed_for_good() {
    let stage = Stage::of(3);
    let tick = tick_at(stage.quorum.time().await.unwrap());
    let asked = || Claim { due: Some(due(tick)), ..claim() };
    stage.nodes[0].restart(TTL);
    stage.cut(&[0]);
    sleep(TTL).await;
    let first = asked();
    assert!(matches!(stage.quorum.try_acquire(&first).await.unwrap(), Attempt::Granted(_)));
    let before = stage.nodes[1].recall(&first.name).await.unwrap();
    is_filled_by_nobody(&stage.nodes[0]).await;
    stage.mend();
    let how = Ended { verdict: Some(Verdict::NotStarted), ..Ended::default() };
    assert_eq!(stage.quorum.release(&key(&first), how).await.unwrap(), Release::Released);
    sleep(SECOND / 2).await;
    adopt(&stage.nodes[0], &first.name, &before).await;
    assert_eq!(stage.nodes[0].recall(&first.name).await.unwrap().open[&tick].attempts, 1);
    sleep(10 * SECOND).await;
    stage.nodes[2].restart(TTL);
    sleep(TTL * 2).await;
    let answer = stage.quorum.try_acquire(&asked()).await.unwrap();
    assert!(matches!(answer, Attempt::Granted(_)), "{answer:?}");
}

/// It has heard that the tick was never begun, comes back empty, and is filled by others of which one has not heard of it.
#[tokio::test(start_paused = true)]
async fn nor_is_one_that_was_taken_back_before_that_was_forgotten() {
    let stage = Stage::of(3);
    let tick = tick_at(stage.quorum.time().await.unwrap());
    let first = Claim { due: Some(due(tick)), ..claim() };
    assert!(matches!(stage.quorum.try_acquire(&first).await.unwrap(), Attempt::Granted(_)));
    stage.cut(&[1]);
    let how = Ended { verdict: Some(Verdict::NotStarted), ..Ended::default() };
    assert_eq!(stage.quorum.release(&key(&first), how).await.unwrap(), Release::Released);
    stage.nodes[0].restart(TTL);
    sleep(TTL).await;
    let named = |(number, node): (usize, &Memory)| (format!("n{number}"), Arc::new(node.clone()) as Arc<dyn Store>);
    let other = Quorum::of(stage.nodes.iter().enumerate().map(named)).unwrap();
    let plain = claim();
    assert!(matches!(other.try_acquire(&plain).await.unwrap(), Attempt::Granted(_)));
    sleep(SECOND).await;
    let attempts = async || stage.nodes[0].recall(&first.name).await.unwrap().open[&tick].attempts;
    assert_eq!(attempts().await, 1, "one says so");
    stage.mend();
    sleep(10 * SECOND).await;
    assert_eq!(attempts().await, 0);
}

/// Who saw that nobody remembers anything reached one with that, and goes on.
#[tokio::test(start_paused = true)]
async fn a_founding_that_reached_a_minority_is_told_until_all_have_heard() {
    let members = [(); 3].map(|()| Odd::default());
    let quorum = quorum_of(&members);
    members.iter().for_each(|odd| odd.memory.restart(Duration::ZERO));
    let stubborn = |is: bool| members[1..].iter().for_each(|odd| odd.moods.is_stubborn.store(is, Ordering::Relaxed));
    stubborn(true);
    let error = quorum.try_acquire(&claim()).await.unwrap_err();
    assert!(error.is_transient() && error.applied() == Applied::Maybe, "{error}");
    // One of them has lost nothing that it ever had: somebody else's founding is for that.
    members[2].memory.restart(Duration::ZERO);
    stubborn(false);
    sleep(10 * SECOND).await;
    let is_full = async |odd: &Odd| odd.memory.recall(&claim().name).await.unwrap().is_full;
    assert!(is_full(&members[0]).await && is_full(&members[1]).await && !is_full(&members[2]).await);
    assert!(matches!(quorum.try_acquire(&claim()).await.unwrap(), Attempt::Granted(_)));
    sleep(SECOND).await;
    assert_eq!(alive_tasks(), 0);
}

/// Its founder has told all of them that it will be, and one that it is; and is dead.
async fn founded_by_one_who_died() -> [Odd; 3] {
    let members = [(); 3].map(|()| Odd::default());
    let floor = tick_at(members[0].memory.time().await.unwrap() + TICK_SLACK);
    for odd in &members {
        odd.memory.restart(Duration::ZERO);
        let life = odd.memory.identity().await.unwrap().server;
        odd.memory.announce(floor, &life).await.unwrap();
    }
    let life = members[0].memory.identity().await.unwrap().server;
    members[0].memory.found(floor, &life).await.unwrap();
    members
}

#[tokio::test(start_paused = true)]
async fn a_founding_whose_founder_died_is_finished_by_whoever_comes_next() {
    let members = founded_by_one_who_died().await;
    let quorum = quorum_of(&members);
    let findings = quorum.diagnose().await.unwrap();
    assert!(findings.iter().any(|found| found.message.contains("which the next claim finishes")), "{findings:?}");
    // One of the others may even be another one by now.
    members[2].memory.restart(Duration::ZERO);
    assert!(matches!(quorum.try_acquire(&claim()).await.unwrap(), Attempt::Granted(_)));
    let recalled = async |odd: &Odd| odd.memory.recall(&LockName::new("other").unwrap()).await.unwrap();
    assert!(recalled(&members[1]).await.is_full && recalled(&members[1]).await.announced.is_none());
    // Ticks of before count as claimed.
    let now = tick_at(quorum.time().await.unwrap());
    let tick = Claim { due: Some(due(now)), name: LockName::new("tick").unwrap(), ..claim() };
    let answer = quorum.try_acquire(&tick).await.unwrap();
    assert!(matches!(answer, Attempt::NotDue(NotDue::Claimed { .. })), "{answer:?}");
}

/// They may have been used in between, and have forgotten it.
#[tokio::test(start_paused = true)]
async fn a_founding_is_not_finished_at_members_that_were_restarted_since() {
    let members = founded_by_one_who_died().await;
    members[1..].iter().for_each(|odd| odd.memory.restart(Duration::ZERO));
    let error = quorum_of(&members).try_acquire(&claim()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("`leasehold accept-loss --yes`"), "{error}");
}

/// Not all have heard of the first step: whoever was founded now would be alone with that once the others are back.
#[tokio::test(start_paused = true)]
async fn a_founding_of_which_not_all_have_heard_is_begun_anew() {
    let stage = Stage::of(3);
    stage.nodes.iter().for_each(|node| node.restart(Duration::ZERO));
    let floor = tick_at(stage.nodes[0].time().await.unwrap() + TICK_SLACK);
    let life = stage.nodes[0].identity().await.unwrap().server;
    stage.nodes[0].announce(floor, &life).await.unwrap();
    stage.cut(&[1]);
    let findings = stage.quorum.diagnose().await.unwrap();
    assert!(findings.iter().any(|found| found.message.contains("takes all its members")), "{findings:?}");
    let error = stage.quorum.try_acquire(&claim()).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("n1"), "{error}");
    assert!(!stage.nodes[0].recall(&claim().name).await.unwrap().is_full);
    stage.mend();
    drop(stage.acquires().await);
}

/// Its founder was suspended before the first step. Another has founded the quorum since, and one member was wiped.
#[tokio::test(start_paused = true)]
async fn a_founding_that_comes_late_founds_nobody() {
    let members = [(); 3].map(|()| Odd::default());
    members.iter().for_each(|odd| odd.memory.restart(Duration::ZERO));
    // These members' clock is the machine's, which doesn't go on while a test sleeps.
    let late = tick_at(members[0].memory.time().await.unwrap() + TICK_SLACK - SECOND);
    let quorum = quorum_of(&members);
    assert!(matches!(quorum.try_acquire(&claim()).await.unwrap(), Attempt::Granted(_)));
    members[2].memory.restart(Duration::ZERO);
    let announce = async |odd: &Odd| {
        let life = odd.memory.identity().await.unwrap().server;
        odd.memory.announce(late, &life).await
    };
    assert!(announce(&members[0]).await.unwrap_err().is_passing());
    announce(&members[2]).await.unwrap();
    // Nor does whoever comes next, with too few that remember.
    members[1].memory.restart(Duration::ZERO);
    let other = Claim { name: LockName::new("other").unwrap(), ..claim() };
    let error = quorum.try_acquire(&other).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(!members[2].memory.recall(&other.name).await.unwrap().is_full);
}

/// Each sees that all are blank before the other has told anybody.
#[tokio::test(start_paused = true)]
async fn two_who_found_a_quorum_at_the_same_time_both_go_on() {
    for seed in 0..200 {
        let stage = Stage::seeded(3, seed);
        stage.network.set_weather(Weather { delay: (Duration::ZERO, SECOND / 20), ..Weather::FAIR });
        stage.nodes.iter().for_each(|node| node.restart(Duration::ZERO));
        let named = |name: &str| Claim { name: LockName::new(name).unwrap(), ..claim() };
        let (one, two) = (named("one"), named("two"));
        let other = stage.another();
        let (one, two) = tokio::join!(stage.quorum.try_acquire(&one), other.try_acquire(&two));
        assert!(matches!((&one, &two), (Ok(Attempt::Granted(_)), Ok(Attempt::Granted(_)))), "{seed}: {one:?}, {two:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_too_few_remember_is_a_problem_for_the_doctor() {
    let members = [(); 3].map(|()| Odd::default());
    let quorum = quorum_of(&members);
    let told = async |says: &str| {
        let findings = quorum.diagnose().await.unwrap();
        let problem = findings.iter().find(|found| found.subject == "memories" && found.severity == Severity::Problem);
        assert_eq!(problem.is_some(), !says.is_empty(), "{findings:?}");
        problem.inspect(|found| assert!(found.message.contains(says), "{found:?}"));
    };
    told("").await;
    members[0].memory.restart(Duration::ZERO);
    told("").await;
    members[1].memory.restart(Duration::ZERO);
    told("1 of its 3 members remember").await;
    quorum.accept_loss().await.unwrap();
    told("").await;
    members.iter().for_each(|odd| odd.memory.restart(Duration::ZERO));
    told("").await;
}

/// What the others know is sent to it, and arrives when it has forgotten all again.
#[tokio::test(start_paused = true)]
async fn what_was_recalled_for_another_life_is_refused_and_recalled_anew() {
    let node = Memory::default();
    let before = node.identity().await.unwrap().server;
    node.restart(Duration::ZERO);
    let known = Memories { is_full: true, newest: Some(tick_at(SECOND)), ..Memories::default() };
    let error = node.adopt(&claim().name, &known, &before).await.unwrap_err();
    assert!(error.is_passing() && !node.recall(&claim().name).await.unwrap().is_full, "{error}");
    let error = node.found(tick_at(SECOND), &before).await.unwrap_err();
    assert!(error.is_passing() && !node.recall(&claim().name).await.unwrap().is_full, "{error}");

    let members = [(); 3].map(|()| Odd::default());
    let quorum = quorum_of(&members);
    let done = key_claim();
    assert!(matches!(quorum.try_acquire(&done).await.unwrap(), Attempt::Granted(_)));
    let how = Ended { verdict: Some(Verdict::Done(Tick::ONLY)), ..Ended::default() };
    assert_eq!(quorum.release(&key(&done), how).await.unwrap(), Release::Released);
    members[0].memory.restart(Duration::ZERO);
    members[2].denies(true);
    members[0].moods.forgets.store(true, Ordering::Relaxed);
    let error = quorum.try_acquire(&key_claim()).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("restarted since"), "{error}");
    assert!(!members[0].memory.recall(&done.name).await.unwrap().is_full);
    members[0].moods.forgets.store(false, Ordering::Relaxed);
    let answer = quorum.try_acquire(&key_claim()).await.unwrap();
    assert!(matches!(answer, Attempt::NotDue(NotDue::Claimed { .. })), "{answer:?}");
    assert!(members[0].memory.recall(&done.name).await.unwrap().has_closed(Tick::ONLY));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_put_back_once_at_a_time_and_several_at_the_same_time() {
    let members = [(); 3].map(|()| Odd::default());
    let quorum = quorum_of(&members);
    let claims: Vec<_> =
        (0..20).map(|number| Claim { name: LockName::new(&format!("job-{number}")).unwrap(), ..claim() }).collect();
    for claim in &claims {
        assert!(matches!(quorum.try_acquire(claim).await.unwrap(), Attempt::Granted(_)));
    }
    members[2].memory.restart(Duration::ZERO);
    members[2].moods.is_slow.store(true, Ordering::Relaxed);
    members[2].moods.claimed.store(0, Ordering::Relaxed);
    let leases: Vec<_> = claims.iter().map(|claim| (key(claim), TTL)).collect();
    for _ in 0..4 {
        assert!(quorum.renew(&leases).await.iter().all(|answer| matches!(answer, Ok(Renewal::Renewed))));
        sleep(SECOND / 100).await;
    }
    sleep(SECOND).await;
    let Moods { claimed, most_at_once, .. } = &*members[2].moods;
    assert_eq!((claimed.load(Ordering::Relaxed), most_at_once.load(Ordering::Relaxed)), (20, 8));
    for claim in &claims {
        assert!(members[2].memory.inspect(&claim.name).await.unwrap().is_some(), "{}", claim.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_ttl_that_a_member_would_not_wait_for_is_refused_before_anything_is_sent() {
    let mut members = [(); 3].map(|()| Odd::default());
    members[1].max_ttl = SECOND * 5;
    let quorum = quorum_of(&members);
    let asked = || members.iter().map(Odd::asked).sum::<usize>();
    let error = quorum.try_acquire(&claim()).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
    let claimed: usize = members.iter().map(|odd| odd.moods.claimed.load(Ordering::Relaxed)).sum();
    assert_eq!(claimed, 0, "nothing was sent");
    let told = error.to_string();
    assert!(["n1", "5s", "6s", "max_ttl"].iter().all(|part| told.contains(part)), "{told}");

    let [short, other] =
        ["short", "other"].map(|name| Claim { name: LockName::new(name).unwrap(), ttl: SECOND * 5, ..claim() });
    for claim in [&short, &other] {
        assert!(matches!(quorum.try_acquire(claim).await.unwrap(), Attempt::Granted(_)));
    }
    let answers = quorum.renew(&[(key(&short), TTL), (key(&other), SECOND * 5)]).await;
    let [Err(error), Ok(Renewal::Renewed)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
    let before = asked();
    assert!(quorum.renew(&[(key(&short), TTL)]).await[0].is_err());
    assert_eq!(asked(), before);
}

/// A connection with TLS and a password takes longer than a claim over it may take. One member says nothing at all: nobody
/// waits for it, neither the first nor the second time.
#[tokio::test(start_paused = true)]
async fn a_first_claim_waits_until_connections_are_made_but_not_for_one_that_is_dead() {
    let members = [(); 3].map(|()| Odd::default());
    members[..2].iter().for_each(|odd| odd.connects_in(SECOND / 5));
    members[2].connects_in(3600 * SECOND);
    let quorum = quorum_of(&members);
    let short =
        |number: usize| Claim { name: LockName::new(&format!("job-{number}")).unwrap(), ttl: 2 * SECOND, ..claim() };
    for (number, within) in [(0, SECOND / 2), (1, SECOND / 50)] {
        let asked = Instant::now();
        let answer = quorum.try_acquire(&short(number)).await.unwrap();
        assert!(matches!(answer, Attempt::Granted(_)) && asked.elapsed() < within, "{answer:?} {:?}", asked.elapsed());
    }
    // An attempt was given up; what it began goes on.
    let members = [(); 3].map(|()| Odd::default());
    members.iter().for_each(|odd| odd.connects_in(SECOND));
    let quorum = quorum_of(&members);
    let given_up = tokio::time::timeout(SECOND / 3, quorum.try_acquire(&short(0))).await;
    assert!(!matches!(given_up, Ok(Ok(Attempt::Granted(_)))), "{given_up:?}");
    sleep(SECOND).await;
    let answer = quorum.try_acquire(&short(1)).await.unwrap();
    assert!(matches!(answer, Attempt::Granted(_)), "{answer:?}");
}

/// One whose clock is a year ahead would close a year of ticks.
#[tokio::test(start_paused = true)]
async fn nothing_is_founded_where_the_clocks_are_far_apart() {
    let stage = Stage::of(3);
    let now = stage.quorum.time().await.unwrap();
    stage.nodes.iter().for_each(|node| node.restart(Duration::ZERO));
    for (ahead, is_refused) in [(365 * 86_400 * SECOND, true), (61 * SECOND, true), (59 * SECOND, false)] {
        stage.nodes[1].set_time(now + ahead);
        let accepted = stage.quorum.accept_loss();
        let errors = if is_refused {
            vec![stage.quorum.try_acquire(&claim()).await.unwrap_err(), accepted.await.unwrap_err()]
        } else {
            drop(accepted);
            assert!(matches!(stage.quorum.try_acquire(&claim()).await.unwrap(), Attempt::Granted(_)));
            Vec::new()
        };
        for error in errors {
            let told = error.to_string();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{told}");
            assert!(told.contains("n1") && told.contains("ahead") && !told.contains("n3"), "{told}");
        }
    }
    let known = stage.nodes[0].recall(&claim().name).await.unwrap();
    assert!(known.floor < Some(tick_at(now + 61 * SECOND + TICK_SLACK)), "{known:?}");
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_not_accepted_by_what_is_no_quorum() {
    let (twice, other) = (Memory::default(), Memory::default());
    let named = |(number, memory): (usize, &Memory)| (format!("n{number}"), Arc::new(memory.clone()) as Arc<dyn Store>);
    let quorum = Quorum::of([&twice, &other, &twice].into_iter().enumerate().map(named)).unwrap();
    let error = quorum.accept_loss().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("n0 and n2 are the same server"), "{error}");
}

/// One that came back empty would forget for good what it has acknowledged.
#[tokio::test(start_paused = true)]
async fn a_loss_is_not_accepted_where_a_majority_remembers_everything() {
    let stage = Stage::of(3);
    stage.nodes[0].restart(TTL);
    sleep(TTL * 2).await;
    let error = stage.quorum.accept_loss().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Refused && error.to_string().contains("2 of 3"), "{error}");
    assert!(!is_whole(&stage.nodes[0]).await);
}

/// It ends by itself; who is granted the name next is not meant.
#[tokio::test(start_paused = true)]
async fn a_minimum_hold_is_not_revoked() {
    let stage = Stage::of(3);
    let held = claim();
    assert!(matches!(stage.quorum.try_acquire(&held).await.unwrap(), Attempt::Granted(_)));
    let how = Ended { keep_for: 10 * SECOND, verdict: None };
    assert_eq!(stage.quorum.release(&key(&held), how).await.unwrap(), Release::Released);
    let hit = stage.quorum.revoke(&held.name, None, leasehold::Revoke::Gently).await.unwrap();
    assert!(hit.is_none_or(|hit| hit.holder.is_none()));
}

async fn is_whole(member: &impl Member) -> bool {
    member.names(0, 1).await.unwrap().whole.is_some()
}

/// A name after another, none of which anybody asks for meanwhile.
#[tokio::test(start_paused = true)]
async fn members_that_are_restarted_one_after_another_lose_nothing() {
    let stage = Stage::of(3);
    let names: Vec<_> = (0..1200).map(|number| LockName::new(&format!("key-{number}")).unwrap()).collect();
    for name in &names {
        let done = Claim { name: name.clone(), ..key_claim() };
        assert!(matches!(stage.quorum.try_acquire(&done).await.unwrap(), Attempt::Granted(_)));
        let how = Ended { verdict: Some(Verdict::Done(Tick::ONLY)), ..Ended::default() };
        assert_eq!(stage.quorum.release(&key(&done), how).await.unwrap(), Release::Released);
    }
    for (number, node) in stage.nodes.iter().enumerate() {
        node.restart(TTL);
        assert!(!is_whole(node).await);
        let asked = Instant::now();
        while !is_whole(node).await {
            assert!(asked.elapsed() < 120 * SECOND, "it is not filled");
            let other = Claim { name: LockName::new(&format!("work-{number}")).unwrap(), ..claim() };
            if let Ok(Attempt::Granted(_)) = stage.quorum.try_acquire(&other).await {
                let _ = stage.quorum.release(&key(&other), Ended::default()).await.unwrap();
            }
            sleep(SECOND).await;
        }
        println!("{:?}", asked.elapsed());
    }
    let new = Claim { name: LockName::new("new").unwrap(), ..key_claim() };
    assert!(matches!(stage.quorum.try_acquire(&new).await.unwrap(), Attempt::Granted(_)));
    for name in names.iter().step_by(97) {
        let answer = stage.quorum.try_acquire(&Claim { name: name.clone(), ..key_claim() }).await.unwrap();
        assert!(matches!(answer, Attempt::NotDue(NotDue::Claimed { unfinished: false, .. })), "{name}: {answer:?}");
    }
}

/// Who began is dead, and has done a part; another goes on where nobody is heard of any more. What is left of the first comes to
/// nothing.
#[tokio::test(start_paused = true)]
async fn who_fills_a_member_may_die_and_another_takes_over() {
    let stage = Stage::of(3);
    runs_a_key(&stage).await;
    let node = &stage.nodes[0];
    node.restart(Duration::ZERO);
    let (first, life) = (HolderId::fresh(), node.identity().await.unwrap().server);
    assert!(node.fill(first, Filling::Begins, &life).await.unwrap());
    let works = async |seconds: u32| {
        for _ in 0..seconds {
            drop(stage.acquires().await.release().await);
            sleep(SECOND).await;
        }
    };
    works(25).await;
    assert!(!is_whole(node).await, "somebody fills it, for all that is known");
    works(20).await;
    assert!(is_whole(node).await);
    for step in [Filling::GoesOn, Filling::IsDone { floor: None }] {
        assert!(!node.fill(first, step, &life).await.unwrap());
    }
    // Restarted meanwhile.
    node.restart(Duration::ZERO);
    let error = node.fill(first, Filling::IsDone { floor: None }, &life).await.unwrap_err();
    assert!(error.is_passing() && !is_whole(node).await, "{error}");
}

/// It was recalled before the key was claimed, and arrives when the member is full for all names, and has acknowledged the claim.
#[tokio::test(start_paused = true)]
async fn what_straggles_behind_a_sweep_opens_nothing() {
    let node = Memory::default();
    node.restart(Duration::ZERO);
    let (by, life) = (HolderId::fresh(), node.identity().await.unwrap().server);
    for step in [Filling::Begins, Filling::IsDone { floor: None }] {
        assert!(node.fill(by, step, &life).await.unwrap());
    }
    let asked = claim();
    let Attempt::Granted(grant) = node.try_acquire(&asked).await.unwrap() else { panic!("it is free") };
    let ratified = node.ratify(&key(&asked), grant.token, Some(due(Tick::ONLY))).await.unwrap();
    assert!(matches!(ratified, Ratified::Yes { attempt: 1, .. }), "{ratified:?}");
    let claimed = node.recall(&asked.name).await.unwrap();
    let mut before = claimed.clone();
    before.open.values_mut().for_each(|open| (open.holder, open.attempts) = (None, 0));
    adopt(&node, &asked.name, &before).await;
    assert_eq!(node.recall(&asked.name).await.unwrap().open, claimed.open);
}

/// A name is given to another machine, say.
#[tokio::test(start_paused = true)]
async fn a_server_that_has_become_the_same_as_another_is_noticed() {
    let members = [(); 3].map(|()| Odd::default());
    let quorum = quorum_of(&members);
    let tick = tick_at(quorum.time().await.unwrap());
    assert!(matches!(quorum.try_acquire(&claim()).await.unwrap(), Attempt::Granted(_)));
    members[2].moods.moved_to.set(members[1].memory.clone()).unwrap();
    let asked = || Claim { due: Some(due(tick)), ..claim() };
    assert!(matches!(quorum.try_acquire(&asked()).await.unwrap(), Attempt::Held(_)));
    let error = quorum.try_acquire(&asked()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("n1 and n2 are the same server"), "{error}");
}

/// Before anybody has looked who they are: with the first away, the second is no majority.
#[tokio::test(start_paused = true)]
async fn a_server_under_two_addresses_has_one_vote() {
    let members = [(); 3].map(|()| Odd::default());
    let quorum = quorum_of(&members);
    let held = claim();
    assert!(matches!(quorum.try_acquire(&held).await.unwrap(), Attempt::Granted(_)));
    members[2].moods.moved_to.set(members[1].memory.clone()).unwrap();
    members[0].memory.restart(TTL * 10);
    let error = quorum.renew(&[(key(&held), TTL)]).await.remove(0).unwrap_err();
    assert!(error.to_string().contains("n2: its address leads to the same server as n1"), "{error}");
    let other = Claim { name: LockName::new("other").unwrap(), ..claim() };
    let error = quorum.try_acquire(&other).await.unwrap_err();
    assert!(error.to_string().contains("n2: its address leads to the same server as n1"), "{error}");
}

/// It might be one that has voted already.
#[tokio::test(start_paused = true)]
async fn a_server_of_which_it_is_not_known_who_it_is_has_no_vote() {
    let members = [(); 3].map(|()| Odd::default());
    let quorum = quorum_of(&members);
    let held = claim();
    assert!(matches!(quorum.try_acquire(&held).await.unwrap(), Attempt::Granted(_)));
    members[0].memory.restart(TTL * 10);
    let unknown_for = |vote| *members[2].moods.is_unknown_for.lock().unwrap() = vote;
    let other = |name| Claim { name: LockName::new(name).unwrap(), ..claim() };
    unknown_for(Some(Vote::Claim));
    let error = quorum.try_acquire(&other("other")).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("n2: it has answered"), "{error}");
    assert_eq!(quorum.renew(&[(key(&held), TTL)]).await.remove(0).unwrap(), Renewal::Renewed);
    unknown_for(Some(Vote::Renewal));
    let error = quorum.renew(&[(key(&held), TTL)]).await.remove(0).unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("n2: it has answered"), "{error}");
    assert!(matches!(quorum.try_acquire(&other("another")).await.unwrap(), Attempt::Granted(_)));
}

/// It was restarted, which is no reason to think so.
#[tokio::test(start_paused = true)]
async fn one_that_was_restarted_is_met_again() {
    let stage = Stage::of(3);
    drop(stage.acquires().await.release().await);
    for member in [0, 1, 2, 1] {
        stage.nodes[member].restart(TTL);
        sleep(TTL * 2).await;
        drop(stage.acquires().await.release().await);
        // It is filled beside us.
        sleep(SECOND).await;
    }
}

#[test]
fn without_a_runtime_members_that_need_none_are_asked_all_the_same() {
    let quorum = quorum_of(&[(); 3].map(|()| Odd::default()));
    let (ours, other) = (claim(), claim());
    let answer = quorum.try_acquire(&ours).now_or_never().unwrap().unwrap();
    assert!(matches!(answer, Attempt::Granted(_)));
    let answer = quorum.try_acquire(&other).now_or_never().unwrap().unwrap();
    assert!(matches!(answer, Attempt::Held(_)));
    let answer = quorum.release(&key(&ours), Ended::default()).now_or_never().unwrap().unwrap();
    assert_eq!(answer, Release::Released);
}

/// The tick is run, and all members hear of it.
async fn runs_a_tick(quorum: &Quorum, tick: Tick) {
    let ran = Claim { due: Some(due(tick)), ..claim() };
    assert!(matches!(quorum.try_acquire(&ran).await.unwrap(), Attempt::Granted(_)));
    let how = Ended { verdict: Some(Verdict::Done(tick)), ..Ended::default() };
    assert_eq!(quorum.release(&key(&ran), how).await.unwrap(), Release::Released);
    sleep(SECOND / 5).await;
}

/// What each member has for the mark of the job.
async fn marks(members: impl IntoIterator<Item = &Memory>) -> Vec<Option<Tick>> {
    let name = claim().name;
    join_all(members.into_iter().map(async |member| member.recall(&name).await.unwrap().newest)).await
}

#[tokio::test(start_paused = true)]
async fn a_mark_is_forgotten_by_all_members_or_those_are_named_that_were_not_reached() {
    let (stage, name) = (Stage::of(3), claim().name);
    let tick = tick_at(stage.quorum.time().await.unwrap());
    runs_a_tick(&stage.quorum, tick).await;
    stage.cut(&[2]);
    let error = stage.quorum.reset_marks(&name).await.unwrap_err();
    assert!(error.is_transient() && error.applied() == Applied::No, "{error}");
    let told = error.to_string();
    assert!(
        told.contains("n2: ") && !told.contains("n1: ") && told.contains("again once all members answer"),
        "{told}"
    );
    assert_eq!(marks(&stage.nodes).await, [Some(tick); 3], "none is begun with");
    stage.mend();
    assert!(stage.quorum.reset_marks(&name).await.unwrap());
    assert_eq!(marks(&stage.nodes).await, [None; 3]);
    assert!(!stage.quorum.reset_marks(&name).await.unwrap());
    runs_a_tick(&stage.quorum, tick).await;
}

/// Whatever it got to: what is answered is so, and done again it is whole.
#[tokio::test(start_paused = true)]
async fn a_reset_that_is_cut_off_at_any_moment_is_done_or_told() {
    let (name, mut done, mut told) = (claim().name, 0, [0; 2]);
    for millis in 0..40 {
        let stage = Stage::seeded(3, millis);
        runs_a_tick(&stage.quorum, tick_at(stage.quorum.time().await.unwrap())).await;
        let (quorum, of) = (stage.quorum.clone(), name.clone());
        let resetting = tokio::spawn(async move { quorum.reset_marks(&of).await });
        sleep(Duration::from_millis(millis)).await;
        stage.cut(&[1]);
        let answer = resetting.await.unwrap();
        stage.mend();
        match answer {
            Ok(had_a_mark) => {
                assert!(had_a_mark);
                done += 1;
            }
            Err(error) => {
                assert!(error.is_transient() && error.to_string().contains("n1: "), "{error}");
                if error.applied() == Applied::No {
                    assert!(marks(&stage.nodes).await.iter().all(Option::is_some), "nothing was done");
                }
                told[usize::from(error.applied() == Applied::Maybe)] += 1;
                stage.quorum.reset_marks(&name).await.unwrap();
            }
        }
        assert_eq!(marks(&stage.nodes).await, [None; 3], "after {millis} ms");
    }
    assert!(done > 0 && told.iter().all(|count| *count > 0), "{done} {told:?}");
}

/// A member that came back empty is filled before: then it adopts nothing of the name any more that straggles.
#[tokio::test(start_paused = true)]
async fn what_was_recalled_before_is_not_adopted_after_a_reset() {
    let (stage, name) = (Stage::of(3), claim().name);
    runs_a_tick(&stage.quorum, tick_at(stage.quorum.time().await.unwrap())).await;
    let before = stage.nodes[0].recall(&name).await.unwrap();
    let node = &stage.nodes[2];
    node.restart(Duration::ZERO);
    assert!(stage.quorum.reset_marks(&name).await.unwrap());
    assert!(node.recall(&name).await.unwrap().is_full);
    adopt(node, &name, &before).await;
    assert_eq!(marks(&stage.nodes).await, [None; 3]);
}

/// It has learnt from somebody what the others knew before they forgot it.
#[tokio::test(start_paused = true)]
async fn a_member_that_is_restarted_during_a_reset_is_noticed() {
    let (members, name) = ([(); 3].map(|()| Odd::default()), claim().name);
    let quorum = quorum_of(&members);
    let tick = tick_at(quorum.time().await.unwrap());
    runs_a_tick(&quorum, tick).await;
    let before = members[0].memory.recall(&name).await.unwrap();
    *members[2].moods.is_filled_with.lock().unwrap() = Some(before);
    let error = quorum.reset_marks(&name).await.unwrap_err();
    assert!(error.is_transient() && error.applied() == Applied::Maybe, "{error}");
    assert!(error.to_string().contains("restarted"), "{error}");
    let memories = || members.iter().map(|member| &member.memory);
    assert_eq!(marks(memories()).await, [None, None, Some(tick)]);
    assert!(quorum.reset_marks(&name).await.unwrap());
    assert_eq!(marks(memories()).await, [None; 3]);
}

#[tokio::test(start_paused = true)]
async fn where_nobody_knows_what_there_was_nothing_is_forgotten() {
    let (stage, name) = (Stage::of(3), claim().name);
    runs_a_tick(&stage.quorum, tick_at(stage.quorum.time().await.unwrap())).await;
    stage.nodes[0].restart(Duration::ZERO);
    stage.nodes[2].restart(Duration::ZERO);
    let error = stage.quorum.reset_marks(&name).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("n0, n2 came back empty"), "{error}");
}

/// The tick was claimed by clocks that were a year ahead, and its holder says that it is done when they are right.
#[tokio::test(start_paused = true)]
async fn done_brings_no_mark_back_that_is_a_year_ahead() {
    let (stage, year) = (Stage::of(3), 365 * 86_400 * SECOND);
    let now = stage.quorum.time().await.unwrap();
    stage.nodes.iter().for_each(|node| node.set_time(now + year));
    let ahead = tick_at(now + year);
    let ran = Claim { due: Some(due(ahead)), ttl: 60 * SECOND, ..claim() };
    assert!(matches!(stage.quorum.try_acquire(&ran).await.unwrap(), Attempt::Granted(_)));
    stage.nodes.iter().for_each(|node| node.set_time(now));
    let asked = Claim { due: Some(due(tick_at(now))), ..claim() };
    let answer = stage.quorum.try_acquire(&asked).await.unwrap();
    assert!(matches!(answer, Attempt::NotDue(NotDue::Claimed { newest, .. }) if newest == ahead), "{answer:?}");
    assert!(stage.quorum.reset_marks(&ran.name).await.unwrap());
    let how = Ended { verdict: Some(Verdict::Done(ahead)), ..Ended::default() };
    assert_eq!(stage.quorum.release(&key(&ran), how).await.unwrap(), Release::Released);
    sleep(SECOND).await;
    assert_eq!(marks(&stage.nodes).await, [None; 3]);
    runs_a_tick(&stage.quorum, tick_at(now)).await;
}

/// Of the job's runs.
fn note(id: &str, text: &str) -> Note {
    let topic = Topic::of_all("runs").about(claim().name);
    Note { topic, id: NoteId::new(id).unwrap(), text: text.to_owned(), keep: 3600 * SECOND, most: 100 }
}

impl Stage {
    async fn writes(&self, id: &str, text: &str) -> leasehold::Result<()> {
        self.locks.notes().unwrap().note(&[note(id, text)]).await
    }

    /// What the notes say, each page being this long.
    async fn reads(&self, most: u32) -> leasehold::Result<Vec<String>> {
        let (mut told, mut search) = (Vec::new(), Search::newest(note("any", "").topic, most));
        loop {
            let page = self.locks.notes().unwrap().notes(&search).await?;
            let Some(last) = page.last() else { return Ok(told) };
            search.after = Some((last.at, last.id.clone()));
            told.extend(page.into_iter().map(|noted| noted.text));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_note_that_a_majority_has_is_told_whoever_is_away() {
    let stage = Stage::of(3);
    stage.cut(&[0]);
    stage.writes("1", "ran").await.unwrap();
    stage.mend();
    for away in 0..3 {
        stage.cut(&[away]);
        assert_eq!(stage.reads(9).await.unwrap(), ["ran"], "without n{away}");
        stage.mend();
    }
    stage.cut(&[0, 1]);
    for error in [stage.writes("2", "").await.unwrap_err(), stage.reads(9).await.unwrap_err()] {
        assert!(error.is_transient() && error.to_string().contains("2 of the 3"), "{error}");
    }
}

/// Each has missed something, so that each page is made of what different members have.
#[tokio::test(start_paused = true)]
async fn of_what_members_have_the_latest_is_told_page_by_page() {
    let stage = Stage::of(5);
    for round in 0..3 {
        for id in 0..20 {
            stage.cut(&[(id + round) % 5, (3 * id + 1) % 5]);
            stage.writes(&id.to_string(), &format!("{id} in {round}")).await.unwrap();
            sleep(SECOND / 100).await;
            stage.mend();
        }
    }
    let newest: Vec<_> = (0..20).rev().map(|id| format!("{id} in 2")).collect();
    for most in [1, 3, 7, 100] {
        assert_eq!(stage.reads(most).await.unwrap(), newest, "{most} to a page");
    }
}

#[tokio::test(start_paused = true)]
async fn notes_are_erased_by_all_members_or_those_are_named_that_were_not_reached() {
    let stage = Stage::of(3);
    stage.writes("1", "ran").await.unwrap();
    sleep(SECOND / 10).await;
    let (topic, ids) = (note("1", "").topic, [NoteId::new("1").unwrap()]);
    stage.cut(&[1]);
    let error = stage.locks.notes().unwrap().erase(&topic, &ids).await.unwrap_err();
    assert!(error.applied() == Applied::Maybe && error.to_string().contains("n1: "), "{error}");
    stage.mend();
    assert_eq!(stage.reads(9).await.unwrap(), ["ran"], "it has it still");
    stage.locks.notes().unwrap().erase(&topic, &ids).await.unwrap();
    assert_eq!(stage.reads(9).await.unwrap(), [""; 0]);
}

#[test]
fn a_quorum_of_which_a_majority_keeps_no_notes_keeps_none() {
    let memory = || Arc::new(Memory::default()) as Arc<dyn Store>;
    let odd = || Arc::new(Odd::default()) as Arc<dyn Store>;
    for (members, keeps) in [([odd(), memory(), memory()], true), ([odd(), odd(), memory()], false)] {
        let named = members.into_iter().enumerate().map(|(number, member)| (format!("n{number}"), member));
        assert_eq!(Quorum::of(named).unwrap().as_notes().is_some(), keeps);
    }
}
