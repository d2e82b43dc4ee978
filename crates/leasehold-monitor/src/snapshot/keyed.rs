//! What is read for some only: one lock, one job, one span of time.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold::Result;
use tokio::sync::Mutex as Turn;
use tokio::time::{Instant, sleep_until};

use super::reading::{Away, Reading, Seen};

/// So many are remembered where nothing else is said: those that were looked at longest ago go first. More would be of no use: within
/// ten seconds, for which one of them is fresh at most, 200 are read.
const MOST: usize = 256;

/// Of all that is asked for one by one, so much time lies between two reads, however many ask.
const APART: Duration = Duration::from_millis(50);

/// When the next of these reads may begin.
#[derive(Debug, Default)]
pub(crate) struct Gate(Turn<Option<Instant>>);

impl Gate {
    /// Waits for a turn, and says whether it is there; what is wanted no longer when it comes takes none.
    pub async fn pass(&self, is_wanted: impl Fn() -> bool) -> bool {
        let mut next = self.0.lock().await;
        if !is_wanted() {
            return false;
        }
        if let Some(next) = *next {
            sleep_until(next).await;
        }
        *next = Some(Instant::now() + APART);
        true
    }
}

/// A reading for each key.
pub(crate) struct Keyed<K, T> {
    entries: Mutex<HashMap<K, Entry<T>>>,
    most: usize,
}

struct Entry<T> {
    reading: Arc<Reading<T>>,
    looked: Instant,
}

impl<K, T> Default for Keyed<K, T> {
    fn default() -> Self {
        Self::of_at_most(MOST)
    }
}

impl<K, T> Keyed<K, T> {
    /// Remembers so many.
    pub fn of_at_most(most: usize) -> Self {
        Self { entries: Mutex::default(), most }
    }
}

impl<K: Hash + Eq + Clone, T: Send + Sync + 'static> Keyed<K, T> {
    /// What is known under a key; see [`Reading::seen`].
    pub async fn seen<F>(
        &self,
        key: &K,
        gate: &Arc<Gate>,
        read: impl FnOnce() -> F + Send + 'static,
    ) -> Result<Seen<T>, Away>
    where
        F: Future<Output = Result<(T, Duration)>> + Send + 'static,
    {
        let gate = Arc::clone(gate);
        let reading = self.reading(key);
        // Whoever looks has it, and so have we until it makes room for another: the read itself is nobody who wants it.
        let wanted = Arc::downgrade(&reading);
        let is_wanted = move || wanted.strong_count() > 1;
        reading.seen_after(async move { gate.pass(is_wanted).await }, move |_| read()).await
    }

    /// Has this one read again by whoever looks next.
    pub fn is_outdated(&self, key: &K) {
        if let Some(entry) = self.entries.lock().unwrap_or_else(PoisonError::into_inner).get(key) {
            entry.reading.is_outdated();
        }
    }

    fn reading(&self, key: &K) -> Arc<Reading<T>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= self.most && !entries.contains_key(key) {
            let oldest = entries.iter().min_by_key(|(_, entry)| entry.looked).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| entries.remove(&oldest));
        }
        let entry =
            entries.entry(key.clone()).or_insert_with(|| Entry { reading: Arc::default(), looked: Instant::now() });
        entry.looked = Instant::now();
        Arc::clone(&entry.reading)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::future::join_all;
    use tokio::time::{sleep, timeout};

    use super::*;

    async fn square(number: u32) -> Result<(u32, Duration)> {
        Ok((number * number, Duration::from_secs(1)))
    }

    async fn look(keyed: &Keyed<u32, u32>, gate: &Arc<Gate>, number: u32) -> u32 {
        *keyed.seen(&number, gate, move || square(number)).await.ok().unwrap().value
    }

    #[tokio::test(start_paused = true)]
    async fn many_different_ones_come_one_after_the_other() {
        let (keyed, gate) = (Keyed::default(), Arc::default());
        let began = Instant::now();
        let squares = join_all((0..20).map(|number| look(&keyed, &gate, number))).await;
        assert!((0..).zip(squares).all(|(number, square)| square == number * number));
        assert!(began.elapsed() >= 19 * APART, "{:?}", began.elapsed());
        let known = Instant::now();
        join_all((0..20).map(|number| look(&keyed, &gate, number))).await;
        assert!(known.elapsed() < APART, "each was known");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_turn_does_not_wait_for_the_store() {
        let (keyed, gate) = (Keyed::default(), Arc::default());
        let looks = (0..600).map(|number| {
            let (keyed, gate) = (&keyed, &gate);
            async move { keyed.seen(&number, gate, move || square(number)).await.is_ok() }
        });
        assert!(join_all(looks).await.contains(&false), "nobody looks for ever");
        tokio::time::sleep(600 * APART).await;
        assert_eq!(keyed.reading(&599).last().as_deref(), Some(&(599 * 599)), "its turn came");
    }

    /// A page for each of 600 locks, each looking again and again: more names than are remembered.
    #[tokio::test(start_paused = true)]
    async fn a_fleet_with_more_names_than_are_remembered_costs_no_more_and_is_told_right() {
        let (keyed, gate) = (Keyed::default(), Arc::default());
        let reads = Arc::new(AtomicU32::new(0));
        let (began, whole) = (Instant::now(), Duration::from_secs(120));
        let looks = (0..600_u32).map(|number| {
            let (keyed, gate, reads) = (&keyed, &gate, &reads);
            async move {
                let mut right = 0;
                while began.elapsed() < whole {
                    let reads = Arc::clone(reads);
                    let read = move || {
                        reads.fetch_add(1, Ordering::Relaxed);
                        square(number)
                    };
                    match keyed.seen(&number, gate, read).await {
                        Ok(seen) => right += u32::from(*seen.value == number * number),
                        Err(away) => assert_eq!(away.error.kind(), leasehold::ErrorKind::TimedOut),
                    }
                    assert!(keyed.entries.lock().unwrap().len() <= MOST);
                    sleep(Duration::from_secs(1)).await;
                }
                right
            }
        });
        let right: u32 = join_all(looks).await.into_iter().sum();
        let (reads, turns) = (reads.load(Ordering::Relaxed), began.elapsed().as_millis() / APART.as_millis());
        assert!(u128::from(reads) <= turns + 1, "{reads} in {turns} turns");
        assert!(right >= reads / 2, "{right} were told of what was read {reads} times");
    }

    /// Who asks for one name after the other and goes away leaves no work behind.
    #[tokio::test(start_paused = true)]
    async fn what_nobody_looks_at_and_nobody_remembers_is_not_read() {
        let (keyed, gate) = (Keyed::of_at_most(8), Arc::default());
        let reads = Arc::new(AtomicU32::new(0));
        for number in 0..1000 {
            let counted = Arc::clone(&reads);
            let read = move || {
                counted.fetch_add(1, Ordering::Relaxed);
                square(number)
            };
            assert!(timeout(Duration::from_millis(1), keyed.seen(&number, &gate, read)).await.is_err() || number == 0);
        }
        sleep(1000 * APART).await;
        assert!(reads.load(Ordering::Relaxed) < 50, "{reads:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_remembered_than_so_many() {
        let (keyed, gate) = (Keyed::of_at_most(8), Arc::default());
        for number in 0..30 {
            look(&keyed, &gate, number).await;
        }
        let mut known: Vec<u32> = keyed.entries.lock().unwrap().keys().copied().collect();
        known.sort_unstable();
        assert_eq!(known, (22..30).collect::<Vec<_>>(), "those that were looked at last");
    }
}
