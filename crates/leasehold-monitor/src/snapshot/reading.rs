//! One thing that is read from the store for all who look at it.

use std::future::{Future, ready};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::{Error, ErrorKind, Result, Span};
use tokio::sync::Mutex as Turn;
use tokio::time::{Instant, timeout};

/// Whoever can be shown an earlier state waits for a later one no longer than this.
const PATIENCE: Duration = Duration::from_millis(1500);

/// No read takes longer, where nothing less is said.
pub(super) const LONGEST: Duration = Duration::from_secs(20);

/// How long a store that did not answer is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// Reads when somebody looks, one at a time and no more often than it is told; shows what it read last in between, and while the store is
/// away.
pub(crate) struct Reading<T> {
    /// Whose turn it is to read.
    turn: Turn<()>,
    state: Mutex<State<T>>,
    /// What has not been answered by then counts as not answered.
    longest: Duration,
}

struct State<T> {
    good: Option<(Arc<T>, Instant)>,
    /// From when on it is read again.
    due: Option<Instant>,
    away: Option<Away>,
    /// How often it was said to be outdated.
    outdated: u64,
}

/// That the store did not answer.
#[derive(Debug, Clone)]
pub(crate) struct Away {
    /// What it said last.
    pub error: Arc<Error>,
    /// Since when.
    pub since: Instant,
}

/// What somebody who looks is shown.
pub(crate) struct Seen<T> {
    pub value: Arc<T>,
    /// When it was read.
    pub read: Instant,
    /// Why it is not newer, if it should be.
    pub away: Option<Away>,
}

impl<T> Default for Reading<T> {
    fn default() -> Self {
        Self::of_at_most(LONGEST)
    }
}

impl<T> Reading<T> {
    /// One whose reads take no longer than this.
    pub fn of_at_most(longest: Duration) -> Self {
        Self {
            turn: Turn::default(),
            state: Mutex::new(State { good: None, due: None, away: None, outdated: 0 }),
            longest,
        }
    }
}

impl<T> Seen<T> {
    /// The same, made from what that shows: it is no newer, and no surer.
    pub fn resting_on<U>(self, other: &Seen<U>) -> Self {
        let away = self.away.or_else(|| other.away.clone());
        Self { value: self.value, read: self.read.min(other.read), away }
    }
}

impl<T: Send + Sync + 'static> Reading<T> {
    /// What is known. If it is old it is read first, from what was known before; the answer says how long it stays fresh.
    ///
    /// The read is a task of its own: one who looks and goes away must not have it begun again for the next.
    ///
    /// # Errors
    /// Nothing is known, and the store can't say.
    pub async fn seen<F>(
        self: &Arc<Self>,
        read: impl FnOnce(Option<Arc<T>>) -> F + Send + 'static,
    ) -> Result<Seen<T>, Away>
    where
        F: Future<Output = Result<(T, Duration)>> + Send + 'static,
    {
        self.seen_after(ready(true), read).await
    }

    /// The same; a read begins after `turn`, if that still wants it, and how long that takes is no fault of the store.
    pub async fn seen_after<F>(
        self: &Arc<Self>,
        turn: impl Future<Output = bool> + Send + 'static,
        read: impl FnOnce(Option<Arc<T>>) -> F + Send + 'static,
    ) -> Result<Seen<T>, Away>
    where
        F: Future<Output = Result<(T, Duration)>> + Send + 'static,
    {
        if self.is_due() {
            let this = Arc::clone(self);
            let reads = tokio::spawn(async move { this.read(turn, read).await });
            let is_known = self.state().good.is_some();
            let patience = if is_known { PATIENCE } else { self.longest + PATIENCE };
            // A read that panics has left everything as it was.
            let _ = timeout(patience, reads).await;
        }
        self.known()
    }

    /// What was read last, however old it is.
    pub fn last(&self) -> Option<Arc<T>> {
        self.state().good.as_ref().map(|(value, _)| Arc::clone(value))
    }

    /// Has it read again by whoever looks next: also where a read is under way, which may have been answered before.
    pub fn is_outdated(&self) {
        let mut state = self.state();
        state.due = None;
        state.outdated += 1;
    }

    async fn read<F>(&self, turn: impl Future<Output = bool>, read: impl FnOnce(Option<Arc<T>>) -> F)
    where
        F: Future<Output = Result<(T, Duration)>>,
    {
        let _turn = self.turn.lock().await;
        if !self.is_due() {
            return; // somebody else has read it meanwhile
        }
        if !turn.await {
            return;
        }
        let (began, outdated) = (Instant::now(), self.state().outdated);
        let answer = timeout(self.longest, read(self.last())).await.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::TimedOut, format!("the store has not answered within {}", Span(self.longest))))
        });
        let now = Instant::now();
        let mut state = self.state();
        match answer {
            Ok((value, fresh)) => {
                // However long a read takes, the store is left alone for as long after it.
                state.due = (state.outdated == outdated).then(|| (began + fresh).max(now + (now - began)));
                state.good = Some((Arc::new(value), began));
                state.away = None;
            }
            Err(error) => {
                let since = state.away.as_ref().map_or(began, |away| away.since);
                state.due = Some(now + PAUSE);
                state.away = Some(Away { error: Arc::new(error), since });
            }
        }
    }

    fn is_due(&self) -> bool {
        self.state().due.is_none_or(|due| due <= Instant::now())
    }

    fn known(&self) -> Result<Seen<T>, Away> {
        let state = self.state();
        let away = state.away.clone();
        match &state.good {
            Some((value, read)) => Ok(Seen { value: Arc::clone(value), read: *read, away }),
            None => Err(away.unwrap_or_else(|| {
                let error = Error::new(ErrorKind::TimedOut, "the store has not answered yet");
                Away { error: Arc::new(error), since: Instant::now() }
            })),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::{advance, sleep};

    use super::*;

    const FRESH: Duration = Duration::from_secs(1);

    /// A store that counts how often it is asked.
    #[derive(Clone, Default)]
    struct Counted(Arc<AtomicU32>);

    impl Counted {
        async fn seen(&self, reading: &Arc<Reading<u32>>, takes: Duration, works: bool) -> Result<Seen<u32>, Away> {
            let count = Arc::clone(&self.0);
            let read = move |_| async move {
                sleep(takes).await;
                let nth = count.fetch_add(1, Ordering::SeqCst) + 1;
                if works { Ok((nth, FRESH)) } else { Err(Error::new(ErrorKind::Unavailable, "gone")) }
            };
            reading.seen(read).await
        }

        fn count(&self) -> u32 {
            self.0.load(Ordering::SeqCst)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_who_look_at_once_are_one_read() {
        let (reading, store) = (Arc::new(Reading::default()), Counted::default());
        let looks = (0..50).map(|_| store.seen(&reading, Duration::from_millis(10), true));
        let seen = futures_util::future::join_all(looks).await;
        assert!(seen.into_iter().all(|seen| *seen.unwrap().value == 1));
        advance(Duration::from_millis(900)).await;
        assert_eq!(*store.seen(&reading, Duration::ZERO, true).await.unwrap().value, 1);
        advance(Duration::from_millis(200)).await;
        assert_eq!(*store.seen(&reading, Duration::ZERO, true).await.unwrap().value, 2);
        advance(Duration::from_secs(3600)).await;
        assert_eq!(store.count(), 2, "nobody looks");
    }

    #[tokio::test(start_paused = true)]
    async fn who_goes_away_leaves_the_read_to_the_others() {
        let (reading, store) = (Arc::new(Reading::default()), Counted::default());
        let slow = Duration::from_millis(200);
        assert!(timeout(Duration::from_millis(1), store.seen(&reading, slow, true)).await.is_err());
        assert_eq!(*store.seen(&reading, slow, true).await.unwrap().value, 1);
        assert_eq!(store.count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_is_away_leaves_what_was_known_with_its_age() {
        let (reading, store) = (Arc::new(Reading::default()), Counted::default());
        let why = store.seen(&reading, Duration::ZERO, false).await.err().unwrap();
        assert_eq!(why.error.to_string(), "gone");
        advance(PAUSE).await;
        assert!(store.seen(&reading, Duration::ZERO, true).await.unwrap().away.is_none());
        advance(Duration::from_secs(60)).await;
        let seen = store.seen(&reading, Duration::ZERO, false).await.unwrap();
        assert_eq!((*seen.value, seen.read.elapsed()), (2, Duration::from_secs(60)));
        let count = store.count();
        let again = store.seen(&reading, Duration::ZERO, false).await.unwrap();
        assert_eq!(store.count(), count, "it is left alone for a while");
        advance(PAUSE).await;
        let later = store.seen(&reading, Duration::ZERO, false).await.unwrap();
        assert_eq!(later.away.unwrap().since, again.away.unwrap().since, "it has been away all the time");
        advance(PAUSE).await;
        assert!(store.seen(&reading, Duration::ZERO, true).await.unwrap().away.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_hangs_keeps_nobody_who_can_be_shown_something() {
        let (reading, store) = (Arc::new(Reading::default()), Counted::default());
        store.seen(&reading, Duration::ZERO, true).await.unwrap();
        advance(Duration::from_secs(5)).await;
        let began = Instant::now();
        let seen = store.seen(&reading, Duration::from_secs(3600), true).await.unwrap();
        assert_eq!((*seen.value, began.elapsed()), (1, PATIENCE));
        sleep(LONGEST).await;
        let seen = store.seen(&reading, Duration::from_secs(3600), true).await.unwrap();
        assert!(seen.away.unwrap().error.to_string().contains("20s"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_done_during_a_read_is_seen_by_the_next() {
        let (reading, store) = (Arc::new(Reading::default()), Counted::default());
        let slow = Duration::from_millis(200);
        let looks = async { store.seen(&reading, slow, true).await.unwrap() };
        let acts = async {
            sleep(slow / 2).await;
            reading.is_outdated();
        };
        assert_eq!(*tokio::join!(looks, acts).0.value, 1);
        assert_eq!(*store.seen(&reading, slow, true).await.unwrap().value, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_ends_when_it_is_to() {
        let (reading, store) = (Arc::new(Reading::of_at_most(Duration::from_secs(3))), Counted::default());
        let began = Instant::now();
        let why = store.seen(&reading, Duration::from_secs(3600), true).await.err().unwrap();
        assert_eq!(
            (why.error.to_string(), began.elapsed().as_secs()),
            ("the store has not answered within 3s".into(), 3)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_rests_on_something_else_is_no_newer_and_no_surer() {
        let (one, other, store) = (Arc::new(Reading::default()), Arc::new(Reading::default()), Counted::default());
        store.seen(&one, Duration::ZERO, true).await.unwrap();
        advance(Duration::from_secs(5)).await;
        let older = store.seen(&one, Duration::ZERO, false).await.unwrap();
        let newer = || store.seen(&other, Duration::ZERO, true);
        let both = newer().await.unwrap().resting_on(&older);
        assert_eq!((both.read.elapsed(), both.away.is_some()), (Duration::from_secs(5), true));
        let both = older.resting_on(&newer().await.unwrap());
        assert_eq!((both.read.elapsed(), both.away.is_some()), (Duration::from_secs(5), true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_store_is_busy_for_half_of_the_time_at_most() {
        let (reading, store) = (Arc::new(Reading::default()), Counted::default());
        let slow = Duration::from_secs(4);
        store.seen(&reading, slow, true).await.unwrap();
        sleep(Duration::from_millis(3900)).await;
        store.seen(&reading, slow, true).await.unwrap();
        assert_eq!(store.count(), 1);
    }
}
