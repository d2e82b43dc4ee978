//! What writes a tally into the store, again and again.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

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
    task: JoinHandle<()>,
}

impl Keeping {
    pub(super) fn begin(tally: Tally, book: Book) -> Self {
        let book = Arc::new(Mutex::new(book));
        let task = tokio::spawn(keep(tally.clone(), Arc::clone(&book)));
        Self { tally, book, task }
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
        self.task.abort();
        if self.tally.is_away() {
            return;
        }
        let last_words = async {
            let begin = Instant::now();
            let written = flush(&self.tally, &self.book, true).await;
            let is_near = begin.elapsed() * CALLS <= within;
            if written.is_ok_and(|notes| notes > 0) && is_near && one_in(ONE_IN) {
                put_together(&self.book).await;
            }
        };
        if timeout(within, last_words).await.is_err() {
            tracing::debug!("what was counted last could not be written in time");
        }
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Keeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeping").field("tally", &self.tally).finish_non_exhaustive()
    }
}

/// For ever. While nothing is counted nothing is done.
async fn keep(tally: Tally, book: Arc<Mutex<Book>>) {
    tally.has_counted().await;
    if book.lock().await.locks().notes().is_err() {
        return forget(&tally).await;
    }
    // So that who ends soon has only to write.
    let knows = book.lock().await.look_at_the_clock().await;
    // While a job runs there is time for it, however far away the store is. At the end there is not.
    if knows.is_ok() && one_in(ONE_IN) {
        put_together(&book).await;
    }
    let mut pause = PAUSE;
    let mut next = Instant::now() + clerk::EVERY;
    loop {
        sleep(pause).await;
        match flush(&tally, &book, false).await {
            Ok(notes) => {
                pause = PAUSE * u32::try_from(notes).unwrap_or(RAREST).clamp(1, RAREST);
                if Instant::now() >= next {
                    put_together(&book).await;
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

async fn put_together(book: &Mutex<Book>) {
    let locks = book.lock().await.locks().clone();
    if let Err(error) = clerk::put_together(&locks).await {
        tracing::debug!("what was counted could not be put together: {error}");
    }
}

fn one_in(many: u64) -> bool {
    RandomState::new().hash_one(many).is_multiple_of(many)
}
