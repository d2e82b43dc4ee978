//! What writes a tally into the store, again and again.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join;
use leasehold::Result;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::Tally;
use super::book::Book;
use super::clerk;

/// How often what is new is written; with many locks, that are more notes, so many times as rarely.
const PAUSE: Duration = Duration::from_secs(10);
const RAREST: u32 = 6;

/// A store that is away is asked again after twice as long each time, up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(80);

/// One of so many who have written puts together what all have: so do as many as are needed, however short they live.
const ONE_IN: u64 = 8;

/// As many calls as putting together takes, and more: who is about to end does it only where the store answers so fast that it
/// gets through.
const CALLS: u32 = 20;

/// Writes what a [`Tally`] counts, until it is dropped or [ended](Self::end).
#[must_use = "dropped, it writes nothing any more"]
pub struct Keeping {
    tally: Tally,
    book: Arc<Mutex<Book>>,
    clerk: Arc<Clerk>,
    task: JoinHandle<()>,
}

/// What is put together for all, now and then.
#[derive(Default)]
struct Clerk {
    /// Taken for as long as it is at work.
    desk: Mutex<()>,
    is_to_end: AtomicBool,
}

impl Keeping {
    pub(super) fn begin(tally: Tally, book: Book) -> Self {
        let (book, clerk) = (Arc::new(Mutex::new(book)), Arc::<Clerk>::default());
        let task = tokio::spawn(keep(tally.clone(), Arc::clone(&book), Arc::clone(&clerk)));
        Self { tally, book, clerk, task }
    }

    /// Writes what is new, now.
    ///
    /// # Errors
    /// The store keeps no notes, or can't say. It is written the next time.
    ///
    /// # Cancel safety
    /// Cancel safe: it is written the next time.
    pub async fn flush(&self) -> Result<()> {
        flush(&self.tally, &self.book, false).await.map(drop)
    }

    /// Writes what was counted last, if the store answers within this time, and ends. A store that did not answer when it was asked for a
    /// lock last is not asked.
    pub async fn end(self, within: Duration) {
        self.clerk.is_to_end.store(true, Ordering::Relaxed);
        self.task.abort();
        if self.tally.is_away() {
            return;
        }
        let begin = Instant::now();
        let last_words = async {
            let written = flush(&self.tally, &self.book, true).await;
            let is_near = begin.elapsed() * CALLS <= within;
            if written.is_ok_and(|notes| notes > 0) && is_near && one_in(ONE_IN) {
                // What is left is for its last call, which gives the lock back.
                put_together(&self.book, || begin.elapsed() < within / 4 * 3).await;
            }
        };
        if timeout(within, join(last_words, self.clerk.desk.lock())).await.is_err() {
            tracing::debug!("what was counted last could not be written in time");
        }
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.clerk.is_to_end.store(true, Ordering::Relaxed);
        self.task.abort();
    }
}

impl fmt::Debug for Keeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeping").field("tally", &self.tally).finish_non_exhaustive()
    }
}

/// For ever. While nothing is counted nothing is done.
async fn keep(tally: Tally, book: Arc<Mutex<Book>>, clerk: Arc<Clerk>) {
    tally.has_counted().await;
    if book.lock().await.locks().notes().is_err() {
        return forget(&tally).await;
    }
    // So that who ends soon has only to write.
    let knows = book.lock().await.look_at_the_clock().await;
    // While a job runs there is time for it, however far away the store is. At the end there is not.
    if knows.is_ok() && one_in(ONE_IN) {
        clerk.has_a_turn(&book).await;
    }
    let mut pause = PAUSE;
    let mut next = Instant::now() + clerk::EVERY;
    loop {
        sleep(pause).await;
        match flush(&tally, &book, false).await {
            Ok(notes) => {
                pause = PAUSE * u32::try_from(notes).unwrap_or(RAREST).clamp(1, RAREST);
                if Instant::now() >= next {
                    clerk.has_a_turn(&book).await;
                    next = Instant::now() + clerk::EVERY;
                }
                tally.has_counted().await;
            }
            Err(error) => {
                tracing::debug!("what was counted could not be written: {error}");
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// Where nothing can be kept, what is counted is not to grow.
async fn forget(tally: &Tally) {
    loop {
        drop(tally.take());
        tally.has_counted().await;
        sleep(PAUSE).await;
    }
}

async fn flush(tally: &Tally, book: &Mutex<Book>, is_last: bool) -> Result<usize> {
    let mut book = book.lock().await;
    book.set_aside(&tally.take());
    book.write(is_last).await
}

impl Clerk {
    /// In a task of its own: who ends breaks nothing off half-way, which would leave the lock behind for which it is done.
    async fn has_a_turn(self: &Arc<Self>, book: &Arc<Mutex<Book>>) {
        let (clerk, book) = (Arc::clone(self), Arc::clone(book));
        let turn = tokio::spawn(async move {
            let _desk = clerk.desk.lock().await;
            let goes_on = || !clerk.is_to_end.load(Ordering::Relaxed);
            if goes_on() {
                put_together(&book, goes_on).await;
            }
        });
        let _ = turn.await;
    }
}

async fn put_together(book: &Mutex<Book>, goes_on: impl Fn() -> bool) {
    let locks = book.lock().await.locks().clone();
    if let Err(error) = clerk::put_together(&locks, goes_on).await {
        tracing::debug!("what was counted could not be put together: {error}");
    }
}

fn one_in(many: u64) -> bool {
    RandomState::new().hash_one(many).is_multiple_of(many)
}
