//! Store latency and errors.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use leasehold::member::Member;
use leasehold::store::{
    Arbiter, Listener, Note, NoteId, Noted, Notes, Primary, Search, Store, Tables, Topic, Traits, WakeUps,
};
use leasehold::{
    Attempt, Claim, Ended, Error, ErrorKind, Finding, HolderId, Holding, LeaseKey, LockName, Release, Renewal, Result,
    Revoke, Waiter,
};
use metrics::{Counter, Histogram};

use super::catalogue::{self, STORE_CALL, STORE_ERRORS};
use super::series;

/// Times each call to a store and counts its failures, by operation; a layer, to be put around the store that
/// [`LocksBuilder::over`](leasehold::LocksBuilder::over) is given.
///
/// What is measured is what whoever asks has to wait for: of a quorum until a majority has decided, of a fallback the store that the
/// route leads to. A call that is given up, by a time-out or since nobody waits for it any more, counts as an error of the kind
/// `unanswered`.
#[derive(Debug)]
pub struct Measured {
    inner: Arc<dyn Store>,
    calls: Arc<Calls>,
}

impl Measured {
    /// `inner`, measured with the recorder that is installed by now.
    pub fn over(inner: Arc<dyn Store>) -> Self {
        catalogue::describe();
        let calls = Arc::new(Calls::of(inner.traits().kind));
        Self { inner, calls }
    }

    async fn timed<T>(&self, operation: Operation, call: BoxFuture<'_, Result<T>>) -> Result<T> {
        let mut timing = Timing::of(self.calls.of_one(operation));
        let answer = call.await;
        timing.is_answered(answer.as_ref().err());
        answer
    }

    async fn timed_batch<T>(&self, operation: Operation, call: BoxFuture<'_, Vec<Result<T>>>) -> Vec<Result<T>> {
        let mut timing = Timing::of(self.calls.of_one(operation));
        let answers = call.await;
        timing.is_answered(answers.iter().filter_map(|answer| answer.as_ref().err()));
        answers
    }

    fn notes_below(&self) -> &dyn Notes {
        self.inner.as_notes().expect("only who keeps notes is asked for them")
    }
}

/// What a store can be asked.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Acquire,
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
    Note,
    Notes,
    Erase,
}

/// In the order of [`Operation`].
const OPERATIONS: [&str; 15] = [
    "acquire",
    "leave",
    "renew",
    "release",
    "subscribe",
    "inspect",
    "list",
    "queue",
    "revoke",
    "reset_marks",
    "time",
    "diagnose",
    "note",
    "notes",
    "erase",
];

const KINDS: [&str; 10] = [
    "invalid",
    "unavailable",
    "timed_out",
    "access_denied",
    "misconfigured",
    "refused",
    "closed",
    "internal",
    "other",
    "unanswered",
];

/// The place of `unanswered`.
const UNANSWERED: usize = KINDS.len() - 1;

fn nth(kind: ErrorKind) -> usize {
    match kind {
        ErrorKind::Invalid => 0,
        ErrorKind::Unavailable => 1,
        ErrorKind::TimedOut => 2,
        ErrorKind::AccessDenied => 3,
        ErrorKind::Misconfigured => 4,
        ErrorKind::Refused => 5,
        ErrorKind::Closed => 6,
        ErrorKind::Internal => 7,
        _ => 8,
    }
}

/// The series of one store.
struct Calls([CallSeries; OPERATIONS.len()]);

struct CallSeries {
    took: Histogram,
    errors: [Counter; KINDS.len()],
}

impl Calls {
    fn of(store: &'static str) -> Self {
        Self(OPERATIONS.map(|operation| {
            let (by_operation, by_store) = (("operation", operation.into()), ("store", store.into()));
            let failed = |kind: &'static str| {
                series::count(&STORE_ERRORS, &[("kind", kind.into()), by_operation.clone(), by_store.clone()])
            };
            let errors = KINDS.map(failed);
            CallSeries { took: series::spread(&STORE_CALL, &[by_operation.clone(), by_store.clone()]), errors }
        }))
    }

    fn of_one(&self, operation: Operation) -> &CallSeries {
        &self.0[operation as usize]
    }
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Calls")
    }
}

/// A call under way. Dropped before it was answered, it was given up.
struct Timing<'a> {
    series: &'a CallSeries,
    began: Instant,
    is_answered: bool,
}

impl<'a> Timing<'a> {
    fn of(series: &'a CallSeries) -> Self {
        Self { series, began: Instant::now(), is_answered: false }
    }

    fn is_answered<'e>(&mut self, errors: impl IntoIterator<Item = &'e Error>) {
        self.is_answered = true;
        errors.into_iter().for_each(|error| self.series.errors[nth(error.kind())].increment(1));
    }
}

impl Drop for Timing<'_> {
    fn drop(&mut self) {
        self.series.took.record(self.began.elapsed());
        if !self.is_answered {
            self.series.errors[UNANSWERED].increment(1);
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Measured {
    fn traits(&self) -> Traits {
        self.inner.traits()
    }

    fn for_keeper(&self) -> Arc<dyn Store> {
        Arc::new(Self { inner: self.inner.for_keeper(), calls: Arc::clone(&self.calls) })
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(self.timed(Operation::Acquire, self.inner.try_acquire(claim)))
    }

    fn leave<'a>(&'a self, waiter: &'a LeaseKey) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.timed(Operation::Leave, self.inner.leave(waiter)))
    }

    fn renew<'a>(&'a self, leases: &'a [(LeaseKey, Duration)]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(self.timed_batch(Operation::Renew, self.inner.renew(leases)))
    }

    fn release<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        Box::pin(self.timed(Operation::Release, self.inner.release(lease, how)))
    }

    fn subscribe<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        Box::pin(self.timed(Operation::Subscribe, self.inner.subscribe(name)))
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(self.timed(Operation::Inspect, self.inner.inspect(name)))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Holding>>> {
        Box::pin(self.timed(Operation::List, self.inner.list()))
    }

    fn queue<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Vec<Waiter>>> {
        Box::pin(self.timed(Operation::Queue, self.inner.queue(name)))
    }

    fn revoke<'a>(
        &'a self,
        name: &'a LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(self.timed(Operation::Revoke, self.inner.revoke(name, holder, how)))
    }

    fn reset_marks<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.timed(Operation::ResetMarks, self.inner.reset_marks(name)))
    }

    fn time(&self) -> BoxFuture<'_, Result<Duration>> {
        Box::pin(self.timed(Operation::Time, self.inner.time()))
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(self.timed(Operation::Diagnose, self.inner.diagnose()))
    }

    fn listen(&self, listener: Weak<Listener>) {
        self.inner.listen(listener);
    }

    fn tables(&self) -> Option<Tables> {
        self.inner.tables()
    }

    /// A layer goes around a fallback, not into it.
    fn as_primary(&self) -> Option<&dyn Primary> {
        None
    }

    fn as_arbiter(&self) -> Option<&dyn Arbiter> {
        None
    }

    /// Nor into a quorum.
    fn as_member(&self) -> Option<&dyn Member> {
        None
    }

    fn as_notes(&self) -> Option<&dyn Notes> {
        self.inner.as_notes().map(|_| self as &dyn Notes)
    }
}

impl Notes for Measured {
    fn note<'a>(&'a self, notes: &'a [Note]) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.timed(Operation::Note, self.notes_below().note(notes)))
    }

    fn notes<'a>(&'a self, of: &'a Search) -> BoxFuture<'a, Result<Vec<Noted>>> {
        Box::pin(self.timed(Operation::Notes, self.notes_below().notes(of)))
    }

    fn erase<'a>(&'a self, topic: &'a Topic, ids: &'a [NoteId]) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.timed(Operation::Erase, self.notes_below().erase(topic, ids)))
    }
}
