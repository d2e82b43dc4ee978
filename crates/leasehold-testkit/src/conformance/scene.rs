//! What the cases are told with: claimants, names, and time that passes.

use std::cell::Cell;
use std::sync::Mutex;
use std::time::Duration;

use leasehold::store::QUEUE_ENTRY;
use leasehold::{
    Attempt, Claim, Ended, FencingToken, HolderId, Holding, LeaseKey, LockName, Place, Release, Renewal, Store,
};
use tokio::time::{Instant, sleep};

/// The TTL where a lease must not end during the case.
pub(super) const LONG: Duration = Duration::from_secs(60);

/// How far apart two looks are.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// A name that no other run of any case uses.
pub(super) fn fresh_name(case: &str) -> LockName {
    name(&format!("conformance {case} {}", HolderId::fresh()))
}

pub(super) fn name(text: &str) -> LockName {
    LockName::new(text).expect("the cases use legal names")
}

/// One acquisition by somebody.
pub(super) struct Claimant {
    pub(super) name: LockName,
    pub(super) holder: HolderId,
    pub(super) label: String,
    ticket: Mutex<Option<u64>>,
}

impl Claimant {
    pub(super) fn of(name: &LockName) -> Self {
        let holder = HolderId::fresh();
        Self { name: name.clone(), holder, label: format!("host/1/{holder}"), ticket: Mutex::default() }
    }

    pub(super) fn key(&self) -> LeaseKey {
        LeaseKey { name: self.name.clone(), holder: self.holder }
    }

    /// A claim that doesn't wait.
    pub(super) fn claim(&self, ttl: Duration) -> Claim {
        Claim::new(self.name.clone(), self.holder, self.label.as_str().into(), ttl)
    }

    /// A claim that queues, with the ticket if there is one.
    pub(super) fn queuing_claim(&self, ttl: Duration) -> Claim {
        Claim { queue: Some(Place { ticket: *self.ticket.lock().unwrap() }), ..self.claim(ttl) }
    }

    pub(super) async fn tries(&self, store: &dyn Store, ttl: Duration) -> Attempt {
        store.try_acquire(&self.claim(ttl)).await.expect("a claim is answered; contention is no error")
    }

    #[track_caller]
    pub(super) fn takes<'a>(&'a self, store: &'a dyn Store, ttl: Duration) -> impl Future<Output = FencingToken> + 'a {
        let at = std::panic::Location::caller();
        async move {
            match self.tries(store, ttl).await {
                Attempt::Granted(grant) => grant.token,
                other => panic!("{at}: refused, though it should be free: {other:?}"),
            }
        }
    }

    #[track_caller]
    pub(super) fn is_refused<'a>(&'a self, store: &'a dyn Store) -> impl Future<Output = Holding> + 'a {
        let at = std::panic::Location::caller();
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
        let answer = store.try_acquire(&claim).await.expect("a claim is answered; contention is no error");
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
        store.leave(&self.key()).await.expect("leaving is answered");
    }

    pub(super) async fn renews(&self, store: &dyn Store, ttl: Duration) -> Renewal {
        let mut answers = store.renew(&[(self.key(), ttl)]).await;
        assert_eq!(answers.len(), 1, "one answer for one lease");
        answers.remove(0).expect("a renewal is answered")
    }

    pub(super) async fn releases(&self, store: &dyn Store) -> Release {
        self.releases_but_keeps(store, Duration::ZERO).await
    }

    pub(super) async fn releases_but_keeps(&self, store: &dyn Store, keep_for: Duration) -> Release {
        store.release(&self.key(), Ended { keep_for, verdict: None }).await.expect("a release is answered")
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

pub(super) async fn inspect(store: &dyn Store, name: &LockName) -> Option<Holding> {
    store.inspect(name).await.expect("a look is answered")
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
    ttl * 2 + Duration::from_secs(3)
}

/// The time within which a scenario must happen for its waiters to be alive.
pub(super) struct Window(Cell<Instant>);

impl Window {
    /// Whoever asks from here on counts until the window closes.
    pub(super) fn opens(&self) {
        self.0.set(Instant::now());
    }

    pub(super) fn is_open(&self) -> bool {
        self.0.get().elapsed() < QUEUE_ENTRY
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
