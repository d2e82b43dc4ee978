//! A store that can be broken on cue.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold::member::Member;
use leasehold::store::{Arbiter, Listener, Notes, Primary, Tables, Traits, WakeUps};
use leasehold::{
    Attempt, Bound, Claim, Ended, Error, ErrorKind, Finding, Grant, HolderId, Holding, LeaseKey, LockName, Release,
    Renewal, Result, Revoke, Store, Waiter,
};
use tokio::sync::watch;
use tokio::time::sleep;

mod fallback;
mod notes;

/// A store over another whose calls fail as a test says.
///
/// ```
/// # use std::sync::Arc;
/// # use leasehold::Store;
/// use leasehold::stores::Memory;
/// use leasehold_testkit::{Fault, Faulty, Operation};
///
/// let store = Faulty::over(Arc::new(Memory::default()));
/// let (faults, keeper_faults) = (store.faults(), store.keeper_faults());
///
/// // The next claim is granted, but its answer is lost.
/// faults.next(Operation::TryAcquire, Fault::LoseReply);
/// // No renewal of the keeper's gets through any more; the caller's other calls do.
/// keeper_faults.always(Operation::Renew, Fault::LoseRequest);
/// // Nothing gets through, until it does again.
/// faults.cut();
/// faults.heal();
/// ```
#[derive(Debug)]
pub struct Faulty {
    inner: Arc<dyn Store>,
    /// Whose faults strike here, the first that has one: everybody's, or the keeper's and everybody's.
    strike: Vec<Faults>,
    keeper: Faults,
}

/// What a test does to a [`Faulty`] store; clones are the same.
#[derive(Debug, Clone)]
pub struct Faults {
    script: Arc<Mutex<Script>>,
    /// Rings when calls that never answer are to be given up.
    given_up: Arc<watch::Sender<()>>,
}

#[derive(Debug, Default)]
struct Script {
    cut: bool,
    deaf: bool,
    next: BTreeMap<Operation, VecDeque<Fault>>,
    always: BTreeMap<Operation, Fault>,
    calls: BTreeMap<Operation, u64>,
    bound: Option<Bound>,
}

/// The calls of a [`Store`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "they are the names of the methods")]
pub enum Operation {
    TryAcquire,
    Leave,
    Renew,
    Release,
    Subscribe,
    Inspect,
    List,
    Queue,
    Revoke,
    ResetMarks,
    Time,
    Diagnose,
    /// Of a primary or an arbiter.
    Carry,
    /// Of a primary.
    Serves,
    /// Of a primary.
    Raise,
    /// Of an arbiter: all that is about the route.
    Route,
    /// Of an arbiter: all that is about a tick.
    ClaimTick,
    /// Of a store that keeps notes; also where they are taken away.
    WriteNotes,
    /// Of a store that keeps notes.
    ReadNotes,
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails with an error of this kind; certainly nothing happens.
    Fail(ErrorKind),
    /// It never reaches the store; the caller learns only that there was no answer in time.
    LoseRequest,
    /// The store does it; the caller learns only that there was no answer in time.
    LoseReply,
    /// It never reaches the store and is not answered until the faults are cut or healed.
    HangBefore,
    /// The store does it; it is not answered until the faults are cut or healed.
    HangAfter,
    /// It reaches the store late.
    DelayRequest(Duration),
    /// The store does it at once; the answer comes late.
    DelayReply(Duration),
    /// It panics.
    Panic,
}

impl Faults {
    fn none() -> Self {
        Self { script: Arc::default(), given_up: Arc::new(watch::Sender::new(())) }
    }

    /// The next call of `operation` suffers `fault`; said several times, the calls after it in turn.
    pub fn next(&self, operation: Operation, fault: Fault) {
        self.next_few(1, operation, fault);
    }

    /// The next `count` calls of `operation` suffer `fault`.
    pub fn next_few(&self, count: usize, operation: Operation, fault: Fault) {
        self.script().next.entry(operation).or_default().extend(std::iter::repeat_n(fault, count));
    }

    /// Every call of `operation` suffers `fault`, until healed; what [`next`](Self::next) says goes first.
    pub fn always(&self, operation: Operation, fault: Fault) {
        self.script().always.insert(operation, fault);
    }

    /// The connection is cut: every call fails as unavailable, and those that hang as well (they may have happened).
    pub fn cut(&self) {
        self.script().cut = true;
        self.given_up.send_replace(());
    }

    /// No more faults. Calls that hang time out.
    pub fn heal(&self) {
        let mut script = self.script();
        *script = Script { calls: std::mem::take(&mut script.calls), ..Script::default() };
        drop(script);
        self.given_up.send_replace(());
    }

    /// Subscriptions made from now on never ring, until healed: every wake-up is lost.
    pub fn lose_wake_ups(&self) {
        self.script().deaf = true;
    }

    /// The next grant carries `bound`, as that of a store with an end of its own to set does.
    pub fn bind_next(&self, bound: Bound) {
        self.script().bound = Some(bound);
    }

    /// How many calls of `operation` there were, whatever became of them.
    #[must_use]
    pub fn calls(&self, operation: Operation) -> u64 {
        self.script().calls.get(&operation).copied().unwrap_or_default()
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().expect("nothing panics while it is locked")
    }

    fn count(&self, operation: Operation) {
        *self.script().calls.entry(operation).or_default() += 1;
    }

    fn is_cut(&self) -> bool {
        self.script().cut
    }

    /// What a call suffers; takes it out of the script if it was for this call only.
    fn take(&self, operation: Operation) -> Option<Fault> {
        let mut script = self.script();
        let next = script.next.get_mut(&operation).and_then(VecDeque::pop_front);
        next.or_else(|| script.always.get(&operation).copied())
    }

    /// Waits until calls that hang are given up; what they are told.
    async fn given_up(&self, mut signal: watch::Receiver<()>) -> Told {
        // The sender lives as long as we do.
        let _ = signal.changed().await;
        let kind = if self.is_cut() { ErrorKind::Unavailable } else { ErrorKind::TimedOut };
        Told { kind, maybe: true }
    }
}

/// What a caller is told.
#[derive(Debug, Clone, Copy)]
struct Told {
    kind: ErrorKind,
    maybe: bool,
}

impl Told {
    const NO_ANSWER: Self = Self { kind: ErrorKind::TimedOut, maybe: true };

    fn error(self) -> Error {
        let error = Error::new(self.kind, format!("a fault made by a test: {:?}", self.kind));
        if self.maybe { error.maybe_applied() } else { error }
    }
}

impl Faulty {
    /// `inner`, without faults yet.
    pub fn over(inner: Arc<dyn Store>) -> Self {
        Self { inner, strike: vec![Faults::none()], keeper: Faults::none() }
    }

    /// The faults of all handles.
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.strike.last().expect("there is always one").clone()
    }

    /// The faults of the handles that [`for_keeper`](Store::for_keeper) makes, before those of all: for breaking
    /// renewals only. Counts only their calls.
    #[must_use]
    pub fn keeper_faults(&self) -> Faults {
        self.keeper.clone()
    }

    /// Counts a call and says what it suffers, and whose fault that is. The signal is older than the fault, so
    /// that a healing between the two isn't missed.
    fn struck(&self, operation: Operation) -> Option<(&Faults, watch::Receiver<()>, Fault)> {
        self.strike.iter().for_each(|faults| faults.count(operation));
        let cut = self.strike.iter().any(Faults::is_cut);
        self.strike.iter().find_map(|faults| {
            let signal = faults.given_up.subscribe();
            let fault = if cut { Fault::Fail(ErrorKind::Unavailable) } else { faults.take(operation)? };
            Some((faults, signal, fault))
        })
    }

    /// Makes a call, or what the faults make of it.
    async fn suffer<T>(&self, operation: Operation, call: BoxFuture<'_, T>, failed: impl Fn(Told) -> T) -> T {
        let Some((faults, signal, fault)) = self.struck(operation) else { return call.await };
        match fault {
            Fault::Fail(kind) => failed(Told { kind, maybe: false }),
            Fault::LoseRequest => failed(Told::NO_ANSWER),
            Fault::LoseReply => {
                call.await;
                failed(Told::NO_ANSWER)
            }
            Fault::HangBefore => failed(faults.given_up(signal).await),
            Fault::HangAfter => {
                call.await;
                failed(faults.given_up(signal).await)
            }
            Fault::Panic => panic!("a fault made by a test"),
            Fault::DelayRequest(span) => {
                sleep(span).await;
                call.await
            }
            Fault::DelayReply(span) => {
                let answer = call.await;
                sleep(span).await;
                answer
            }
        }
    }

    async fn answer<T>(&self, operation: Operation, call: BoxFuture<'_, Result<T>>) -> Result<T> {
        self.suffer(operation, call, |told| Err(told.error())).await
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Faulty {
    fn traits(&self) -> Traits {
        self.inner.traits()
    }

    fn for_keeper(&self) -> Arc<dyn Store> {
        let strike = vec![self.keeper.clone(), self.faults()];
        Arc::new(Self { inner: self.inner.for_keeper(), strike, keeper: self.keeper.clone() })
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(async {
            let attempt = self.answer(Operation::TryAcquire, self.inner.try_acquire(claim)).await?;
            let Attempt::Granted(grant) = attempt else { return Ok(attempt) };
            let bound = self.strike.iter().find_map(|faults| faults.script().bound.take());
            Ok(Attempt::Granted(Grant { bound: bound.or(grant.bound), ..grant }))
        })
    }

    fn leave<'a>(&'a self, waiter: &'a LeaseKey) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.answer(Operation::Leave, self.inner.leave(waiter)))
    }

    fn renew<'a>(&'a self, leases: &'a [(LeaseKey, Duration)]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        let failed = |told: Told| leases.iter().map(|_| Err(told.error())).collect();
        Box::pin(self.suffer(Operation::Renew, self.inner.renew(leases), failed))
    }

    fn release<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        Box::pin(self.answer(Operation::Release, self.inner.release(lease, how)))
    }

    fn subscribe<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        Box::pin(async {
            let wake_ups = self.answer(Operation::Subscribe, self.inner.subscribe(name)).await?;
            let deaf = self.strike.iter().any(|faults| faults.script().deaf);
            Ok(if deaf { WakeUps::silent() } else { wake_ups })
        })
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(self.answer(Operation::Inspect, self.inner.inspect(name)))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Holding>>> {
        Box::pin(self.answer(Operation::List, self.inner.list()))
    }

    fn queue<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Vec<Waiter>>> {
        Box::pin(self.answer(Operation::Queue, self.inner.queue(name)))
    }

    fn revoke<'a>(
        &'a self,
        name: &'a LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(self.answer(Operation::Revoke, self.inner.revoke(name, holder, how)))
    }

    fn reset_marks<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.answer(Operation::ResetMarks, self.inner.reset_marks(name)))
    }

    fn time(&self) -> BoxFuture<'_, Result<Duration>> {
        Box::pin(self.answer(Operation::Time, self.inner.time()))
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(self.answer(Operation::Diagnose, self.inner.diagnose()))
    }

    fn listen(&self, listener: Weak<Listener>) {
        self.inner.listen(listener);
    }

    fn tables(&self) -> Option<Tables> {
        self.inner.tables()
    }

    fn as_primary(&self) -> Option<&dyn Primary> {
        self.inner.as_primary().map(|_| self as _)
    }

    fn as_arbiter(&self) -> Option<&dyn Arbiter> {
        self.inner.as_arbiter().map(|_| self as _)
    }

    /// What it breaks is the calls of a store.
    fn as_member(&self) -> Option<&dyn Member> {
        None
    }

    fn as_notes(&self) -> Option<&dyn Notes> {
        self.inner.as_notes().map(|_| self as _)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::future::poll_immediate;
    use leasehold::Applied;
    use leasehold::stores::Memory;

    use super::*;
    use crate::PausedClock;

    fn store() -> Faulty {
        Faulty::over(Arc::new(Memory::new(Arc::new(PausedClock::start()))))
    }

    fn claim() -> Claim {
        Claim::new(LockName::new("job").unwrap(), HolderId::fresh(), "test".into(), Duration::from_secs(60))
    }

    fn key(claim: &Claim) -> LeaseKey {
        LeaseKey { name: claim.name.clone(), holder: claim.holder }
    }

    async fn holder(store: &Faulty) -> Option<HolderId> {
        store.inspect(&claim().name).await.unwrap().and_then(|holding| holding.holder)
    }

    fn no_answer(error: &Error) -> bool {
        error.kind() == ErrorKind::TimedOut && error.applied() == Applied::Maybe
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_request_never_arrives_and_a_lost_reply_was_a_yes() {
        let (store, claim) = (store(), claim());
        store.faults().next(Operation::TryAcquire, Fault::LoseRequest);
        assert!(no_answer(&store.try_acquire(&claim).await.unwrap_err()));
        assert_eq!(holder(&store).await, None);
        store.faults().next(Operation::TryAcquire, Fault::LoseReply);
        assert!(no_answer(&store.try_acquire(&claim).await.unwrap_err()));
        assert_eq!(holder(&store).await, Some(claim.holder));
        assert!(matches!(store.try_acquire(&claim).await, Ok(Attempt::Granted(_))));
        assert_eq!(store.faults().calls(Operation::TryAcquire), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_few_fail_and_then_what_always_happens() {
        let (store, claim) = (store(), claim());
        store.faults().always(Operation::TryAcquire, Fault::Fail(ErrorKind::Refused));
        store.faults().next_few(2, Operation::TryAcquire, Fault::Fail(ErrorKind::AccessDenied));
        for kind in [ErrorKind::AccessDenied, ErrorKind::AccessDenied, ErrorKind::Refused, ErrorKind::Refused] {
            let error = store.try_acquire(&claim).await.unwrap_err();
            assert_eq!((error.kind(), error.applied()), (kind, Applied::No));
        }
        store.faults().heal();
        assert!(store.try_acquire(&claim).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_call_ends_when_cut_or_healed() {
        let (store, claim) = (store(), claim());
        for (fault, applied) in [(Fault::HangBefore, None), (Fault::HangAfter, Some(claim.holder))] {
            store.faults().next(Operation::TryAcquire, fault);
            let mut hanging = store.try_acquire(&claim);
            assert!(poll_immediate(&mut hanging).await.is_none());
            assert_eq!(holder(&store).await, applied);
            store.faults().heal();
            assert!(no_answer(&hanging.await.unwrap_err()));
        }
        store.faults().next(Operation::Inspect, Fault::HangAfter);
        let mut hanging = store.inspect(&claim.name);
        assert!(poll_immediate(&mut hanging).await.is_none());
        store.faults().cut();
        assert_eq!(hanging.await.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(store.list().await.unwrap_err().applied(), Applied::No);
    }

    #[tokio::test(start_paused = true)]
    async fn delays_take_their_time_before_or_after() {
        let (store, claim) = (store(), claim());
        let span = Duration::from_secs(5);
        for (fault, held_meanwhile) in
            [(Fault::DelayRequest(span), None), (Fault::DelayReply(span), Some(claim.holder))]
        {
            store.faults().next(Operation::TryAcquire, fault);
            let start = tokio::time::Instant::now();
            let mut late = store.try_acquire(&claim);
            assert!(poll_immediate(&mut late).await.is_none());
            assert_eq!(holder(&store).await, held_meanwhile);
            assert!(late.await.is_ok() && start.elapsed() >= span);
            store.leave(&key(&claim)).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_keepers_calls_can_be_broken_alone() {
        let (store, claim) = (store(), claim());
        let (keeper, batch) = (store.for_keeper(), [(key(&claim), claim.ttl), (key(&claim), claim.ttl)]);
        assert!(store.try_acquire(&claim).await.is_ok());
        store.keeper_faults().always(Operation::Renew, Fault::LoseReply);
        let answers = keeper.renew(&batch).await;
        assert!(answers.len() == 2 && answers.iter().all(|answer| no_answer(answer.as_ref().unwrap_err())));
        assert!(store.renew(&batch).await.iter().all(Result::is_ok));
        assert_eq!(store.keeper_faults().calls(Operation::Renew), 1);
        assert_eq!(store.faults().calls(Operation::Renew), 2);
        store.faults().cut();
        let answers = keeper.renew(&batch).await;
        assert!(answers.iter().all(|answer| answer.as_ref().unwrap_err().kind() == ErrorKind::Unavailable));
    }

    #[tokio::test(start_paused = true)]
    async fn wake_ups_can_be_lost() {
        let (store, claim) = (store(), claim());
        store.faults().lose_wake_ups();
        let mut deaf = store.subscribe(&claim.name).await.unwrap();
        store.faults().heal();
        let mut hears = store.subscribe(&claim.name).await.unwrap();
        assert!(store.try_acquire(&claim).await.is_ok());
        store.leave(&key(&claim)).await.unwrap();
        assert!(poll_immediate(hears.next()).await.is_some());
        assert!(poll_immediate(deaf.next()).await.is_none());
    }
}
