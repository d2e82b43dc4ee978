//! What the cases are told with: claimants, names, and time that passes.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::panic::Location;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::store::QUEUE_ENTRY;
use leasehold::{
    Attempt, Claim, Due, Ended, Error, ErrorKind, FencingToken, Grant, HolderId, Holding, LeaseKey, LockName, NotDue,
    Place, Release, Renewal, Result, Revoke, Store, Tick, Verdict, validity,
};
use tokio::time::{Instant, sleep};

/// The TTL where a lease must not end during the case.
pub(super) const LONG: Duration = Duration::from_secs(60);

/// What is left of a lease of [`LONG`] at most: a store that counts in milliseconds may round up.
pub(super) const ALL_OF_LONG: Duration = LONG.saturating_add(Duration::from_millis(1));

/// How far apart two looks are.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// Asks a store. On a busy machine the time for an answer may run out: then it is asked again; five times at most. Says whether
/// that was so, too.
macro_rules! patiently {
    ($ask:expr, $what:literal) => {{
        let mut tries = 1;
        loop {
            match $ask.await {
                Err(error) if error.kind() == ErrorKind::TimedOut && tries < 5 => tries += 1,
                answer => break (answer.expect($what), tries > 1),
            }
        }
    }};
}

/// A name that no other run of any case uses.
pub(super) fn fresh_name(case: &str) -> LockName {
    name(&format!("{case} {}", HolderId::fresh()))
}

pub(super) fn name(text: &str) -> LockName {
    LockName::new(text).expect("the cases use legal names")
}

/// Ticks of a schedule that a store finds neither early nor old: a second apart, the first an hour ago.
pub(super) struct Ticks {
    first: Duration,
}

impl Ticks {
    pub(super) async fn of(store: &dyn Store) -> Self {
        Self { first: time(store).await - Duration::from_secs(3600) }
    }

    pub(super) fn nth(&self, number: usize) -> Tick {
        tick_at(self.first + Duration::from_secs(number as u64))
    }
}

/// What the store's clock shows.
pub(super) async fn time(store: &dyn Store) -> Duration {
    patiently!(store.time(), "the time is told").0
}

pub(super) fn tick_at(since_1970: Duration) -> Tick {
    Tick::from_unix_millis(since_1970.as_millis() as i64).expect("the store's clock shows a time that calendars have")
}

/// For how long marks are remembered, where that doesn't matter.
const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);

/// `tick`, to be run once at most.
pub(super) fn once(tick: Tick) -> Due {
    Due { tick, retry_failed: false, keep: KEEP }
}

/// `tick`, to be run until it is done.
pub(super) fn retried(tick: Tick) -> Due {
    Due { tick, retry_failed: true, keep: KEEP }
}

/// It was claimed, and is over.
pub(super) fn finished(newest: Tick) -> NotDue {
    NotDue::Claimed { newest, unfinished: false }
}

/// It was claimed, and nobody knows how it ended.
pub(super) fn unfinished(newest: Tick) -> NotDue {
    NotDue::Claimed { newest, unfinished: true }
}

/// One acquisition by somebody.
pub(super) struct Claimant {
    pub(super) name: LockName,
    pub(super) holder: HolderId,
    pub(super) label: String,
    permits: NonZeroU32,
    ticket: Mutex<Option<u64>>,
    /// Granted, and not given back since.
    has_it: AtomicBool,
}

impl Claimant {
    pub(super) fn of(name: &LockName) -> Self {
        Self::of_many(name, 1)
    }

    /// One who wants one of so many permits.
    pub(super) fn of_many(name: &LockName, permits: u32) -> Self {
        let holder = HolderId::fresh();
        let permits = NonZeroU32::new(permits).expect("there is a permit");
        let label = format!("host/1/{holder}");
        Self { name: name.clone(), holder, label, permits, ticket: Mutex::default(), has_it: AtomicBool::default() }
    }

    pub(super) fn key(&self) -> LeaseKey {
        LeaseKey { name: self.name.clone(), holder: self.holder }
    }

    /// A claim that doesn't wait.
    pub(super) fn claim(&self, ttl: Duration) -> Claim {
        let claim = Claim::new(self.name.clone(), self.holder, self.label.as_str().into(), ttl);
        Claim { permits: self.permits, ..claim }
    }

    /// A claim for a tick that doesn't wait.
    pub(super) fn claim_for(&self, due: Due, ttl: Duration) -> Claim {
        Claim { due: Some(due), ..self.claim(ttl) }
    }

    /// A claim that queues, with the ticket if there is one.
    pub(super) fn queuing_claim(&self, ttl: Duration) -> Claim {
        Claim { queue: Some(Place { ticket: *self.ticket.lock().unwrap(), sent: None }), ..self.claim(ttl) }
    }

    pub(super) async fn tries(&self, store: &dyn Store, ttl: Duration) -> Attempt {
        self.asks(store, &self.claim(ttl)).await
    }

    pub(super) async fn tries_for(&self, store: &dyn Store, due: Due) -> Attempt {
        self.asks(store, &self.claim_for(due, LONG)).await
    }

    async fn asks(&self, store: &dyn Store, claim: &Claim) -> Attempt {
        let answer = ask(store, claim).await;
        if let Attempt::Granted(_) = answer {
            self.has_it.store(true, Ordering::Relaxed);
        }
        answer
    }

    /// Is granted the tick.
    #[track_caller]
    pub(super) fn runs<'a>(&'a self, store: &'a dyn Store, due: Due) -> impl Future<Output = Grant> + 'a {
        self.runs_within(store, due, LONG)
    }

    /// Is granted the tick, and has `ttl` for it.
    #[track_caller]
    pub(super) fn runs_within<'a>(
        &'a self,
        store: &'a dyn Store,
        due: Due,
        ttl: Duration,
    ) -> impl Future<Output = Grant> + 'a {
        let at = Location::caller();
        async move {
            match self.asks(store, &self.claim_for(due, ttl)).await {
                Attempt::Granted(grant) => grant,
                other => panic!("{at}: refused, though the tick is due: {other:?}"),
            }
        }
    }

    /// Is granted the tick, and dies: nothing is heard of it until its lease is over.
    #[track_caller]
    pub(super) fn dies_of<'a>(&'a self, store: &'a dyn Store, due: Due) -> impl Future<Output = Grant> + 'a {
        let granted = self.runs_within(store, due, store.traits().smallest_ttl);
        async move {
            let grant = granted.await;
            self.is_gone(store).await;
            grant
        }
    }

    /// Waits until its lease is over.
    pub(super) async fn is_gone(&self, store: &dyn Store) {
        let (start, limit) = (Instant::now(), surely_over(store.traits().smallest_ttl));
        while let Some(holding) = inspect(store, &self.name).await
            && holders(&holding).contains(&self.holder)
        {
            assert!(start.elapsed() < limit, "not over after {limit:?}: {holding:?}");
            sleep(LOOK).await;
        }
    }

    /// Is told that the tick is not for it, and why.
    #[track_caller]
    pub(super) fn is_not_due<'a>(&'a self, store: &'a dyn Store, due: Due) -> impl Future<Output = NotDue> + 'a {
        let at = Location::caller();
        async move {
            match self.tries_for(store, due).await {
                Attempt::NotDue(why) => why,
                other => panic!("{at}: the tick was not over: {other:?}"),
            }
        }
    }

    /// Is told that the tick is running, or that the lock is held.
    #[track_caller]
    pub(super) fn is_held_off<'a>(&'a self, store: &'a dyn Store, due: Due) -> impl Future<Output = Holding> + 'a {
        let at = Location::caller();
        async move {
            match self.tries_for(store, due).await {
                Attempt::Held(holding) => holding,
                other => panic!("{at}: the tick was not running: {other:?}"),
            }
        }
    }

    /// Ends its hold with a verdict.
    pub(super) async fn says(&self, store: &dyn Store, verdict: Verdict) -> Release {
        self.gives_back(store, Ended { verdict: Some(verdict), ..Ended::default() }).await
    }

    /// Ends its hold with a verdict, in time.
    #[track_caller]
    pub(super) fn ends<'a>(&'a self, store: &'a dyn Store, verdict: Verdict) -> impl Future<Output = ()> + 'a {
        let at = Location::caller();
        async move {
            assert_eq!(self.says(store, verdict).await, Release::Released, "{at}: it held the lock");
        }
    }

    /// Is told that the number of permits is wrong.
    pub(super) async fn is_turned_away(&self, store: &dyn Store) -> Error {
        match store.try_acquire(&self.claim(LONG)).await {
            Err(error) => error,
            answer => panic!("asking for {} permits was answered by {answer:?}", self.permits),
        }
    }

    /// An operator ends its hold.
    pub(super) async fn is_revoked(&self, store: &dyn Store, how: Revoke) -> Option<Holding> {
        store.revoke(&self.name, Some(self.holder), how).await.expect("a revocation is answered")
    }

    #[track_caller]
    pub(super) fn takes<'a>(&'a self, store: &'a dyn Store, ttl: Duration) -> impl Future<Output = FencingToken> + 'a {
        let at = Location::caller();
        async move {
            match self.tries(store, ttl).await {
                Attempt::Granted(grant) => grant.token,
                other => panic!("{at}: refused, though it should be free: {other:?}"),
            }
        }
    }

    #[track_caller]
    pub(super) fn is_refused<'a>(&'a self, store: &'a dyn Store) -> impl Future<Output = Holding> + 'a {
        let at = Location::caller();
        async move {
            match self.tries(store, LONG).await {
                Attempt::Held(holding) => holding,
                other => panic!("{at}: not refused, though it should be: {other:?}"),
            }
        }
    }

    /// Asks with a place in the queue, and remembers the ticket.
    pub(super) async fn waits(&self, store: &dyn Store) -> Attempt {
        let claim = self.queuing_claim(LONG);
        let answer = self.asks(store, &claim).await;
        if let Attempt::Held(holding) = &answer {
            assert!(holding.ticket.is_some(), "who queues is given a ticket: {holding:?}");
            *self.ticket.lock().unwrap() = holding.ticket;
        }
        answer
    }

    pub(super) fn forgets_its_ticket(&self) {
        *self.ticket.lock().unwrap() = None;
    }

    pub(super) async fn leaves(&self, store: &dyn Store) {
        let key = self.key();
        let ((), _) = patiently!(store.leave(&key), "leaving is answered");
    }

    /// On a busy machine the time for an answer may run out: then it is asked again, as the keeper does.
    pub(super) async fn renews(&self, store: &dyn Store, ttl: Duration) -> Renewal {
        for _ in 0..5 {
            let mut answers = store.renew(&[(self.key(), ttl)]).await;
            assert_eq!(answers.len(), 1, "one answer for one lease");
            match answers.remove(0) {
                Err(error) if error.kind() == ErrorKind::TimedOut => {}
                answer => return answer.expect("a renewal is answered"),
            }
        }
        panic!("a renewal is answered in time, of five once at least")
    }

    pub(super) async fn releases(&self, store: &dyn Store) -> Release {
        self.releases_but_keeps(store, Duration::ZERO).await
    }

    pub(super) async fn releases_but_keeps(&self, store: &dyn Store, keep_for: Duration) -> Release {
        self.gives_back(store, Ended { keep_for, verdict: None }).await
    }

    /// What was its own and is not any more, after an answer that came too late, was released by that call.
    async fn gives_back(&self, store: &dyn Store, how: Ended) -> Release {
        let key = self.key();
        let (answer, late) = patiently!(store.release(&key, how), "a release is answered");
        let had_it = self.has_it.swap(false, Ordering::Relaxed);
        if late && had_it { Release::Released } else { answer }
    }

    /// Asks until it is granted; answers the token and when it was.
    pub(super) async fn takes_within(&self, store: &dyn Store, limit: Duration) -> (FencingToken, Instant) {
        let start = Instant::now();
        loop {
            match self.tries(store, LONG).await {
                Attempt::Granted(grant) => return (grant.token, Instant::now()),
                other => assert!(start.elapsed() < limit, "not free after {limit:?}: {other:?}"),
            }
            sleep(LOOK).await;
        }
    }
}

/// On a busy machine the time for an answer may run out: then it is asked again under the same holder, as a lock does.
pub(super) async fn ask(store: &dyn Store, claim: &Claim) -> Attempt {
    for _ in 0..5 {
        match store.try_acquire(claim).await {
            Err(error) if error.kind() == ErrorKind::TimedOut => {}
            answer => return answer.expect("a claim is answered; contention is no error"),
        }
    }
    panic!("a claim is answered in time, of five once at least")
}

/// A claimant whose lease of the smallest TTL `lengthen` has made one of [`LONG`], and its token. On a busy machine that may
/// come too late: then it is tried with another name.
pub(super) async fn lengthened(
    store: &dyn Store,
    case: &str,
    lengthen: impl AsyncFn(&Claimant, FencingToken) -> Result<(), String>,
) -> (Claimant, FencingToken) {
    let ttl = store.traits().smallest_ttl;
    for _ in 0..8 {
        let (claimant, sent) = (Claimant::of(&fresh_name(case)), Instant::now());
        let token = claimant.takes(store, ttl).await;
        let Err(fault) = lengthen(&claimant, token).await else { return (claimant, token) };
        assert!(sent.elapsed() >= validity::of(ttl), "{fault}");
    }
    panic!("8 times, a second request took longer than {ttl:?}");
}

/// Everybody who holds it, in the order of the answer.
pub(super) fn holders(holding: &Holding) -> Vec<HolderId> {
    holding.holder.into_iter().chain(holding.others.iter().filter_map(|other| other.holder)).collect()
}

pub(super) async fn inspect(store: &dyn Store, name: &LockName) -> Option<Holding> {
    patiently!(store.inspect(name), "a look is answered").0
}

/// What is left of a lease that must be there.
pub(super) async fn remaining(store: &dyn Store, name: &LockName) -> Duration {
    inspect(store, name).await.expect("it is held").remaining
}

/// Sleeps until a lease of `ttl` is over, also in a store that ends leases a little late.
pub(super) async fn outlive(ttl: Duration) {
    sleep(ttl + ttl / 2).await;
}

/// The longest after which a lease of `ttl` must be over.
pub(super) fn surely_over(ttl: Duration) -> Duration {
    ttl * 2 + Duration::from_secs(10)
}

/// The time within which a scenario must happen for its waiters to be alive.
pub(super) struct Window(Cell<Instant>);

impl Window {
    /// Whoever asks from here on counts until the window closes.
    pub(super) fn opens(&self) {
        self.0.set(Instant::now());
    }

    /// It opened then: whoever asked since counts until it closes.
    pub(super) fn opened(&self, at: Instant) {
        self.0.set(at);
    }

    pub(super) fn is_open(&self) -> bool {
        self.age() < QUEUE_ENTRY
    }

    pub(super) fn age(&self) -> Duration {
        self.0.get().elapsed()
    }
}

/// Runs a scenario whose waiters must all be alive at its end, again if it was too slow for that: a busy
/// machine is no fault of the store's.
pub(super) async fn while_waiters_live(scenario: impl AsyncFn(&Window) -> Result<(), String>) {
    const TRIES: usize = 8;
    for _ in 0..TRIES {
        let window = Window(Cell::new(Instant::now()));
        let Err(fault) = scenario(&window).await else { return };
        assert!(!window.is_open(), "{fault}");
    }
    panic!("{TRIES} times, the store took longer than a waiter's entry lives ({QUEUE_ENTRY:?})");
}

/// In a scenario: it fails here unless `$holds`.
macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err(format!($($why)+));
        }
    };
}
pub(super) use ensure;

/// In a scenario: the answer must be a refusal.
pub(super) fn refused(who: &str, answer: Attempt) -> Result<Holding, String> {
    match answer {
        Attempt::Held(holding) => Ok(holding),
        other => Err(format!("{who} was not refused: {other:?}")),
    }
}

/// In a scenario: the answer must be a grant.
pub(super) fn granted(who: &str, answer: Attempt) -> Result<FencingToken, String> {
    match answer {
        Attempt::Granted(grant) => Ok(grant.token),
        other => Err(format!("it was the turn of {who}: {other:?}")),
    }
}
