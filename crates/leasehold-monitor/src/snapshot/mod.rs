//! One reader for all who look: the store is asked about each thing once in a while however many look, and not at all while nobody does.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use jiff::{SignedDuration, Timestamp};
use leasehold::store::Reading as RouteReading;
use leasehold::stores::Fallback;
use leasehold::{Error, ErrorKind, Finding, LockName, Locks, Result, Span, Waiter};
use leasehold_schedule::{Entry, Ledger};
use tokio::time::Instant;

use crate::contention::Contention;
use crate::tally::page::{HOURS, MINUTES};

use self::fleet::Fleet;
use self::keyed::{Gate, Keyed};
use self::listing::Listing;
use self::reading::{Away, Reading, Seen};
use self::revocation::Revocation;
use self::runs::Runs;

pub(crate) mod fleet;
mod keyed;
pub(crate) mod listing;
pub(crate) mod reading;
pub(crate) mod revocation;
pub(crate) mod runs;

/// What changes by the second is read once in a second at most.
const SECOND: Duration = Duration::from_secs(1);

/// The store's clock is asked so often; in between it goes as ours does.
const CLOCK: Duration = Duration::from_secs(10);

/// How often jobs and pauses are looked for, which change by hand.
const FLEET: Duration = Duration::from_secs(2);

/// Clients write down what they count every ten seconds.
const CONTENTION: Duration = Duration::from_secs(10);

/// A store is examined once in a minute.
const FINDINGS: Duration = Duration::from_secs(60);

/// A ledger has up to eight megabytes, most of it what runs have written.
const LEDGERS: usize = 32;

/// The page asks for five spans of time, and a lock for one; each is much to keep.
const SPANS: usize = 8;

/// The ledgers, or queues, of so many names are read in one second.
const NAMES_IN_A_SECOND: u32 = 50;

/// So many queues are looked into at a time.
const QUEUES_AT_A_TIME: usize = 16;

/// Of so many names that are waited for the queues are read.
const MOST_QUEUES: usize = 200;

/// Whether the store answers is asked by a look at one lock, some milliseconds of work. One that needs longer than this keeps no short
/// lease alive; a change of leaders, or of who is master, is over by then where all is well.
const ANSWER: Duration = Duration::from_secs(3);

/// The lock by which it is seen whether the store answers.
const PROBE: &str = "leasehold:serve";

/// What is known of one store.
pub(crate) struct Snapshot {
    locks: Locks,
    fallback: Option<Arc<Fallback>>,
    /// Grows with each change of what is shown. It begins with the time: who has seen a number has not seen it of an earlier process.
    version: AtomicU64,
    /// How far back runs are read, in hours.
    hours: AtomicI64,
    clock: Arc<Reading<Clock>>,
    answer: Arc<Reading<Duration>>,
    listing: Arc<Reading<Listing>>,
    fleet: Arc<Reading<Fleet>>,
    runs: Arc<Reading<Runs>>,
    waits: Arc<Reading<Vec<Queue>>>,
    route: Arc<Reading<Option<RouteReading>>>,
    findings: Arc<Reading<Examined>>,
    queues: Keyed<LockName, Vec<Waiter>>,
    revocations: Keyed<LockName, Vec<Revocation>>,
    records: Keyed<(String, i64), Vec<Entry>>,
    contention: Keyed<Duration, Contention>,
    gate: Arc<Gate>,
}

/// What the store's clock has shown, and when it was asked.
#[derive(Debug, Clone, Copy)]
struct Clock {
    shown: Timestamp,
    then: Instant,
}

/// Who waits for a name.
#[derive(Debug)]
pub(crate) struct Queue {
    pub name: LockName,
    /// Who holds it, for people.
    pub holder: Option<String>,
    pub waiters: Vec<Waiter>,
}

/// What was found when the store was examined.
#[derive(Debug)]
pub(crate) struct Examined {
    pub at: Timestamp,
    pub findings: Vec<Finding>,
}

impl Snapshot {
    /// Of the store behind these locks. Asks nobody yet.
    pub fn of(locks: Locks, fallback: Option<Arc<Fallback>>) -> Self {
        let began = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
        Self {
            locks,
            fallback,
            version: AtomicU64::new(began),
            hours: AtomicI64::new(Runs::step(SignedDuration::ZERO)),
            clock: Arc::default(),
            answer: Arc::new(Reading::of_at_most(ANSWER)),
            listing: Arc::default(),
            fleet: Arc::default(),
            runs: Arc::default(),
            waits: Arc::default(),
            route: Arc::default(),
            findings: Arc::default(),
            queues: Keyed::default(),
            revocations: Keyed::default(),
            records: Keyed::of_at_most(LEDGERS),
            contention: Keyed::of_at_most(SPANS),
            gate: Arc::default(),
        }
    }

    /// The client, for whoever acts.
    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    /// Grows whenever something has changed, by what was read.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// The time by the store's clock.
    pub async fn now(self: &Arc<Self>) -> Result<Timestamp, Away> {
        let this = Arc::clone(self);
        let read = |_| async move {
            // Counted from the send, it is never behind: what has been written by then lies in the past.
            let then = Instant::now();
            let since_1970 = SignedDuration::try_from(this.locks.time().await?).unwrap_or(SignedDuration::MAX);
            let shown = Timestamp::UNIX_EPOCH.checked_add(since_1970).unwrap_or(Timestamp::MAX);
            Ok((Clock { shown, then }, CLOCK))
        };
        let clock = self.clock.seen(read).await?.value;
        let since = SignedDuration::try_from(clock.then.elapsed()).unwrap_or_default();
        Ok(clock.shown.checked_add(since).unwrap_or(clock.shown))
    }

    /// How long a small question has taken.
    pub async fn answer(self: &Arc<Self>) -> Result<Seen<Duration>, Away> {
        let this = Arc::clone(self);
        let read = |_| async move {
            let began = Instant::now();
            this.locks.inspect(PROBE).await?;
            Ok((began.elapsed(), SECOND))
        };
        self.answer.seen(read).await
    }

    /// All locks.
    pub async fn listing(self: &Arc<Self>) -> Result<Seen<Listing>, Away> {
        let this = Arc::clone(self);
        let read = |before: Option<Arc<Listing>>| async move {
            let mut locks = this.locks.list().await?;
            locks.sort_by(|one, other| one.name.cmp(&other.name));
            let listing = Listing { at: this.time().await?, locks };
            this.changed_if(!before.is_some_and(|before| before.is_as(&listing)));
            Ok((listing, SECOND))
        };
        self.listing.seen(read).await
    }

    /// All jobs.
    pub async fn fleet(self: &Arc<Self>) -> Result<Seen<Fleet>, Away> {
        let this = Arc::clone(self);
        let read = |before: Option<Arc<Fleet>>| async move {
            let fleet = Fleet::read(&this.locks, this.time().await?).await?;
            this.changed_if(!before.is_some_and(|before| before.is_as(&fleet)));
            Ok((fleet, FLEET))
        };
        self.fleet.seen(read).await
    }

    /// What ran, at least as far back as `from`, but no further than ledgers go.
    pub async fn runs(self: &Arc<Self>, from: Option<Timestamp>) -> Result<Seen<Runs>, Away> {
        let (fleet, now) = (self.fleet().await?, self.now().await?);
        if let Some(from) = from {
            let hours = Runs::step(now.duration_since(from));
            if hours > self.hours.fetch_max(hours, Ordering::Relaxed) {
                self.runs.is_outdated();
            }
        }
        let (this, known) = (Arc::clone(self), Arc::clone(&fleet.value));
        let read = move |before: Option<Arc<Runs>>| async move {
            let names: Vec<String> = known.jobs.iter().map(|job| job.name.clone()).collect();
            let hours = this.hours.load(Ordering::Relaxed);
            let runs = Runs::read(before.as_deref(), &this.locks, &names, now, hours).await?;
            this.changed_if(before.is_none_or(|before| before.changes != runs.changes));
            // What is not whole is gone on with, once the store has had its rest.
            let fresh = if runs.next.is_some() { SECOND } else { in_turn(names.len()) };
            Ok((runs, fresh))
        };
        Ok(self.runs.seen(read).await?.resting_on(&fleet))
    }

    /// The records of one job that go further back than those of all.
    pub async fn records(self: &Arc<Self>, job: &str, from: Timestamp, most: u32) -> Result<Seen<Vec<Entry>>, Away> {
        let hours = Runs::step(self.now().await?.duration_since(from));
        let (this, name, now) = (Arc::clone(self), job.to_owned(), self.now().await?);
        let read = move || async move {
            let since = now.checked_sub(SignedDuration::from_hours(hours)).unwrap_or(Timestamp::UNIX_EPOCH);
            let entries = Ledger::of(&this.locks, &name)?.newest_since(since, most).await?;
            Ok((entries, FLEET))
        };
        self.records.seen(&(job.to_owned(), hours), &self.gate, read).await
    }

    /// Who waits behind whom: of the names that are waited for, those with the most waiters.
    pub async fn waits(self: &Arc<Self>) -> Result<Seen<Vec<Queue>>, Away> {
        let listing = self.listing().await?;
        let (this, known) = (Arc::clone(self), Arc::clone(&listing.value));
        let read = |_| async move {
            let mut waited: Vec<_> = known.locks.iter().filter(|lock| lock.waiting > 0).collect();
            waited.sort_by_key(|lock| std::cmp::Reverse(lock.waiting));
            waited.truncate(MOST_QUEUES);
            let mut queues = Vec::with_capacity(waited.len());
            for some in waited.chunks(QUEUES_AT_A_TIME) {
                let read = try_join_all(some.iter().map(|lock| this.locks.queue(&lock.name))).await?;
                queues.extend(some.iter().zip(read).map(|(lock, waiters)| Queue {
                    name: lock.name.clone(),
                    holder: lock.holder.map(|_| lock.label.clone()),
                    waiters,
                }));
            }
            let fresh = in_turn(queues.len());
            Ok((queues, fresh))
        };
        Ok(self.waits.seen(read).await?.resting_on(&listing))
    }

    /// Who waits for one name, first in line first.
    pub async fn queue(self: &Arc<Self>, name: &LockName) -> Result<Seen<Vec<Waiter>>, Away> {
        let (this, asked) = (Arc::clone(self), name.clone());
        let read = move || async move { Ok((this.locks.queue(&asked).await?, SECOND)) };
        self.queues.seen(name, &self.gate, read).await
    }

    /// Who has ended whose hold of it.
    pub async fn revocations(self: &Arc<Self>, name: &LockName) -> Result<Seen<Vec<Revocation>>, Away> {
        let (this, asked) = (Arc::clone(self), name.clone());
        let read = move || async move { Ok((Revocation::read(&this.locks, &asked).await?, CONTENTION)) };
        self.revocations.seen(name, &self.gate, read).await
    }

    /// What was contended within this time, in whole steps: who asks for each second apart is not to have each read and kept apart.
    pub async fn contention(self: &Arc<Self>, since: Duration) -> Result<Seen<Contention>, Away> {
        let since = in_steps(since);
        let this = Arc::clone(self);
        let read = move || async move { Ok((Contention::read(&this.locks, since).await?, CONTENTION)) };
        self.contention.seen(&since, &self.gate, read).await
    }

    /// Where the route of a fallback leads; none of another store, and before the first lock was asked for.
    pub async fn route(self: &Arc<Self>) -> Result<Option<Seen<Option<RouteReading>>>, Away> {
        let Some(fallback) = self.fallback.clone() else { return Ok(None) };
        let read = |_| async move { Ok((fallback.route().await?, SECOND)) };
        self.route.seen(read).await.map(Some)
    }

    /// What an operator should know about the store, its locks and its jobs.
    pub async fn findings(self: &Arc<Self>) -> Result<Seen<Examined>, Away> {
        let this = Arc::clone(self);
        let read = |_| async move {
            let mut findings = this.locks.diagnose().await?;
            // Not in a store that keeps no notes; what is wrong otherwise its own findings say.
            findings.extend(crate::diagnose(&this.locks).await.unwrap_or_default());
            Ok((Examined { at: this.time().await?, findings }, FINDINGS))
        };
        self.findings.seen(read).await
    }

    /// Somebody has done something here: who looks next is to see it.
    pub fn has_acted(&self, name: &LockName) {
        self.listing.is_outdated();
        self.fleet.is_outdated();
        self.runs.is_outdated();
        self.queues.is_outdated(name);
        self.revocations.is_outdated(name);
    }

    /// [`now`](Self::now), within a read.
    async fn time(self: &Arc<Self>) -> Result<Timestamp> {
        self.now().await.map_err(|away| Error::new(away.error.kind(), away.error.to_string()))
    }

    fn changed_if(&self, changed: bool) {
        self.version.fetch_add(u64::from(changed), Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("locks", &self.locks).finish_non_exhaustive()
    }
}

/// A store whose last answer was asked for at this moment hangs if that is too long ago, whatever it said: so long an answer holds, and so long the
/// next may take. Whoever asks now and then is not to wait for that to be over.
pub(crate) fn late(read: Instant) -> Option<Error> {
    let since = read.elapsed();
    let message = || format!("the store has not answered for {}", Span(since));
    (since > SECOND + ANSWER).then(|| Error::new(ErrorKind::TimedOut, message()))
}

/// This time, up to the next step of what is kept of it.
fn in_steps(span: Duration) -> Duration {
    let tier = if span <= MINUTES.keep { MINUTES } else { HOURS };
    Duration::from_secs(span.as_secs().next_multiple_of(tier.step.as_secs()))
}

/// How long what takes a question for each name stays fresh.
fn in_turn(names: usize) -> Duration {
    let names = u32::try_from(names).unwrap_or(u32::MAX);
    SECOND.max(SECOND * (names / NAMES_IN_A_SECOND))
}

#[cfg(test)]
mod tests {
    use leasehold::Store;
    use leasehold::stores::Memory;
    use leasehold_testkit::{Fault, Faulty, Operation};

    use super::*;
    use crate::contention::instant;

    #[test]
    fn what_was_contended_is_read_in_whole_steps() {
        let steps =
            [60, 61, 300, 301, 3600, 43_200, 43_201, 604_800].map(|span| in_steps(Duration::from_secs(span)).as_secs());
        assert_eq!(steps, [300, 300, 300, 600, 3600, 43_200, 46_800, 604_800]);
    }

    /// A pause that has been ended is over, however long the answer about the time took.
    #[tokio::test]
    async fn the_time_is_never_behind_that_of_the_store() {
        let memory: Arc<dyn Store> = Arc::new(Memory::default());
        let slow = Faulty::over(Arc::clone(&memory));
        slow.faults().always(Operation::Time, Fault::DelayReply(Duration::from_millis(50)));
        let snapshot = Arc::new(Snapshot::of(Locks::over(Arc::new(slow)), None));
        snapshot.now().await.unwrap();
        let by_the_store = instant(memory.time().await.unwrap());
        assert!(snapshot.now().await.unwrap() >= by_the_store);
    }

    #[test]
    fn many_names_are_read_less_often() {
        assert_eq!([0, 49, 100, 5000].map(|names| in_turn(names).as_secs()), [1, 1, 2, 100]);
    }
}
