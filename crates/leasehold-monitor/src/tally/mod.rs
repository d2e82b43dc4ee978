//! What each client counts of its locks, and keeps in the store for all to read.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::validity::{BootClock, Clock};
use leasehold::{Answer, Error, ErrorKind, Event, Locks};
use tokio::sync::Notify;
use tokio::time::sleep;

use self::book::Book;
use self::count::Count;
pub use self::keeping::Keeping;
use self::page::MINUTES;
use self::sheet::Sheet;

mod book;
mod clerk;
pub(crate) mod count;
pub(crate) mod counted;
pub(crate) mod histogram;
mod keeping;
pub(crate) mod page;
pub(crate) mod sheet;
#[cfg(test)]
mod tests;

/// What begins with this is a lock of our own.
const OURS: &str = "leasehold:";

/// Of so many locks it is remembered how long they may be held.
const MOST_LIMITS: usize = sheet::MOST_LOCKS;

/// Counts what happens to the locks of one client: attempts and what they came to, how long was waited and held, runs that
/// were prevented, losses, renewals. Cheap to clone; clones count together.
///
/// It observes a client's locks, and the jobs of a scheduler over it; what it has counted it keeps in their store, in one call every ten
/// seconds, and only if there is something new. [`Contention`](crate::Contention) reads what all clients have counted.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use leasehold::stores::Memory;
/// use leasehold::Locks;
/// use leasehold_monitor::{Contention, Tally};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// let tally = Tally::new();
/// // Locks::builder().observer(tally.clone()).connect("redis://…")?
/// let locks = Locks::builder().observer(tally.clone()).over(Arc::new(Memory::default()));
/// let keeping = tally.kept_in(&locks);
///
/// let ran = locks.lock("nightly-backup").run(async |_guard| { /* … */ }).await?;
/// # let _ = ran;
///
/// // Before the process ends: what was counted last is written, if the store answers within this time.
/// keeping.end(Duration::from_millis(250)).await;
///
/// let contention = Contention::read(&locks, Duration::from_secs(3600)).await?;
/// assert_eq!(contention.locks[0].acquired, 1);
/// # Ok(()) }
/// ```
///
/// To have several observers, call it from yours: `move |event: &Event<'_>| { tally.observe(event); … }`.
#[derive(Clone, Default)]
pub struct Tally {
    shared: Arc<Shared>,
}

/// Under what a lock is counted; none says: under its name.
type Group = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

#[derive(Default)]
struct Shared {
    group: Option<Group>,
    counted: Mutex<Counted>,
    /// Rings when something is counted that is to be written soon, and nothing of that kind was before.
    first: Notify,
    /// Rings when renewals are counted, and nothing was before.
    renewed: Notify,
    /// Nothing is counted.
    is_off: bool,
    /// The store did not answer when it was asked for a lock last.
    is_away: AtomicBool,
}

#[derive(Default)]
struct Counted {
    /// Since it was taken last.
    sheet: Sheet,
    /// There is more in it than renewals.
    is_due: bool,
    /// For how long locks may be held, in milliseconds.
    limits: HashMap<Box<str>, u64>,
}

impl Tally {
    /// One that has counted nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One that never counts anything, and keeps nothing.
    #[must_use]
    pub fn off() -> Self {
        Self { shared: Arc::new(Shared { is_off: true, ..Shared::default() }) }
    }

    /// One that counts each lock under what `group` says of its name, or under that if it says none: for keys
    /// ([`Locks::once`]), of which there is no end, under what they are about.
    ///
    /// ```
    /// # use leasehold_monitor::Tally;
    /// let tally = Tally::grouped(|name| name.starts_with("invoice-").then(|| "invoices".to_owned()));
    /// ```
    pub fn grouped(group: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { shared: Arc::new(Shared { group: Some(Box::new(group)), ..Shared::default() }) }
    }

    /// Keeps what is counted in the store of these locks, from now on: for the time as it passes there. Where the store keeps no
    /// notes, nothing is kept.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn kept_in(&self, locks: &Locks) -> Keeping {
        Keeping::begin(self.clone(), Book::of(locks.unobserved(), Arc::new(BootClock) as Arc<dyn Clock>))
    }

    /// Says for how long this lock may be held: `max_hold`, or a job's time limit. So a report can say which holds come near it.
    pub fn limit(&self, name: &str, most: Duration) {
        let (name, mut counted) = (self.shown(name), self.counted());
        if counted.limits.len() < MOST_LIMITS || counted.limits.contains_key(&*name) {
            counted.limits.insert(name.into(), u64::try_from(most.as_millis()).unwrap_or(u64::MAX));
        }
    }

    /// The same of all locks that have such a limit: of others what was said before counts no more.
    pub fn limits<'a>(&self, all: impl IntoIterator<Item = (&'a str, Duration)>) {
        let in_millis = |most: Duration| u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        let all = all.into_iter().map(|(name, most)| (self.shown(name).into(), in_millis(most)));
        let all = all.take(MOST_LIMITS).collect();
        self.counted().limits = all;
    }

    /// Under what a lock is counted.
    fn shown<'a>(&self, name: &'a str) -> Cow<'a, str> {
        let group = self.shared.group.as_ref().and_then(|group| group(name));
        group.map_or(Cow::Borrowed(name), Cow::Owned)
    }

    /// What was counted since it was taken last.
    fn take(&self) -> Sheet {
        let mut counted = self.counted();
        let mut sheet = std::mem::take(&mut counted.sheet);
        counted.is_due = false;
        if !counted.limits.is_empty() {
            for (name, count) in &mut sheet.locks {
                count.limit = counted.limits.get(name).copied().unwrap_or(0);
            }
        }
        sheet
    }

    /// Once something was counted since it was taken last. Renewals alone are worth no call but one for each span of time: whoever
    /// holds a lock for days has nothing else to say.
    async fn has_counted(&self) {
        let renewals = async {
            self.shared.renewed.notified().await;
            sleep(MINUTES.step).await;
        };
        tokio::select! {
            () = self.shared.first.notified() => {}
            () = renewals => {}
        }
    }

    /// Whether the store is not worth being asked by somebody who is in a hurry.
    fn is_away(&self) -> bool {
        self.shared.is_away.load(Ordering::Relaxed)
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.shared.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, name: &str, what: impl FnOnce(&mut Count)) {
        if let Some((name, mut counted)) = self.to_count(name) {
            if !std::mem::replace(&mut counted.is_due, true) {
                self.shared.first.notify_one();
            }
            what(counted.sheet.of(&name));
        }
    }

    /// What goes on as it should.
    fn count_renewal(&self, name: &str, what: impl FnOnce(&mut Count)) {
        if let Some((name, mut counted)) = self.to_count(name) {
            if counted.sheet.is_empty() {
                self.shared.renewed.notify_one();
            }
            what(counted.sheet.of(&name));
        }
    }

    fn to_count<'a>(&self, name: &'a str) -> Option<(Cow<'a, str>, MutexGuard<'_, Counted>)> {
        let is_counted = !self.shared.is_off && !name.starts_with(OURS);
        is_counted.then(|| (self.shown(name), self.counted()))
    }

    /// Whether the store answers is known by how it has answered last.
    fn notes_answer(&self, answer: &Answer<'_>) {
        let is_away = |error: &Error| matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TimedOut);
        let is_away = matches!(answer, Answer::Failed(error) if is_away(error));
        self.shared.is_away.store(is_away, Ordering::Relaxed);
    }
}

impl leasehold::Observer for Tally {
    fn observe(&self, event: &Event<'_>) {
        match event {
            Event::Answered { name, waited, contended, answer } => {
                self.notes_answer(answer);
                self.count(name.as_str(), |count| count.answered(*waited, *contended, answer));
            }
            Event::Renewed { name, valid_until, margin, late, .. } => {
                let validity = valid_until.since(BootClock.now());
                self.count_renewal(name.as_str(), |count| count.renewed(*late, *margin, validity));
            }
            Event::RenewalFailed { name, .. } => self.count(name.as_str(), |count| count.unrenewed += 1),
            Event::Lost { name, reason, .. } => self.count(name.as_str(), |count| count.lost(reason)),
            Event::Stale { name, .. } => self.count(name.as_str(), |count| count.fences += 1),
            Event::Released { name, label, held, in_time, .. } => {
                let now = BootClock.now();
                self.count(name.as_str(), |count| count.released(*held, *in_time, now, label));
            }
            _ => {}
        }
    }
}

impl leasehold_schedule::Observer for Tally {
    fn observe(&self, event: &leasehold_schedule::Event<'_>) {
        if let leasehold_schedule::Event::Ended { job, how, .. } = event {
            self.count(job, |count| {
                count.runs += 1;
                count.unsuccessful += u64::from(**how != leasehold_schedule::How::Done);
            });
        }
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tally").field("locks", &self.counted().sheet.locks.len()).finish_non_exhaustive()
    }
}
