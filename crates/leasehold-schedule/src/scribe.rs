//! Writes what the turns of one node have to say.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use leasehold::store::Note;
use leasehold::{Locks, Result};

/// So many notes are written in one call.
const AT_ONCE: usize = 200;

/// The notes of a node: those that come while others are being written are written together, in the order in which they came. A
/// thousand runs that begin in one second are so a few calls of the store, and not a thousand.
#[derive(Debug, Default)]
pub(crate) struct Scribe {
    page: Mutex<Page>,
    writing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Page {
    waiting: VecDeque<Note>,
    /// How many ever came, and how many of these were taken to be written.
    came: u64,
    taken: u64,
}

impl Scribe {
    /// Comes back once it is written, or could not be. An error is told to one of those whose notes it is about.
    pub async fn write(&self, locks: &Locks, note: Note) -> Result<()> {
        let place = self.with_page(|page| {
            page.waiting.push_back(note);
            page.came += 1;
            page.came
        });
        loop {
            let _one_at_a_time = self.writing.lock().await;
            let notes = self.with_page(|page| page.take_for(place));
            if notes.is_empty() {
                return Ok(());
            }
            locks.notes()?.note(&notes).await?;
        }
    }

    fn with_page<T>(&self, look: impl FnOnce(&mut Page) -> T) -> T {
        look(&mut self.page.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Page {
    /// What is to be written for the sake of who came in this place; nothing once that was taken.
    fn take_for(&mut self, place: u64) -> Vec<Note> {
        if self.taken >= place {
            return Vec::new();
        }
        let notes: Vec<_> = self.waiting.drain(..self.waiting.len().min(AT_ONCE)).collect();
        self.taken += notes.len() as u64;
        notes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures_util::future::join_all;
    use leasehold::store::{NoteId, Search, Topic};
    use leasehold::stores::Memory;
    use leasehold_testkit::PausedClock;

    use super::*;

    const TOPIC: Topic = Topic::of_all("runs");

    fn note(id: usize, text: &str) -> Note {
        let keep = Duration::from_secs(60);
        Note { topic: TOPIC, id: NoteId::new(&id.to_string()).unwrap(), text: text.to_owned(), keep, most: 1000 }
    }

    #[test]
    fn what_came_meanwhile_is_taken_in_order_and_once() {
        let mut page = Page::default();
        for nth in 0..AT_ONCE + 1 {
            page.waiting.push_back(note(nth, ""));
            page.came += 1;
        }
        let first = page.take_for(1);
        assert!(first.len() == AT_ONCE && first[0] == note(0, "") && first[AT_ONCE - 1] == note(AT_ONCE - 1, ""));
        assert_eq!(page.take_for(AT_ONCE as u64), [], "it was taken with the first");
        assert_eq!(page.take_for(AT_ONCE as u64 + 1), [note(AT_ONCE, "")]);
        assert_eq!(page.take_for(AT_ONCE as u64 + 1), []);
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_back_finds_it_written_and_the_last_word_stays() {
        let clock = Arc::new(PausedClock::start());
        let locks = Locks::builder().simulated(clock.clone()).over(Arc::new(Memory::new(clock)));
        let scribe = Scribe::default();
        let first = join_all((0..500).map(|id| scribe.write(&locks, note(id, "first"))));
        let last = join_all((0..500).map(|id| scribe.write(&locks, note(id, "last"))));
        let (first, last) = tokio::join!(first, last);
        assert!(first.into_iter().chain(last).all(|written| written.is_ok()));
        let found = locks.notes().unwrap().notes(&Search::newest(TOPIC, 1000)).await.unwrap();
        assert!(found.len() == 500 && found.iter().all(|noted| noted.text == "last"));
        assert!(scribe.with_page(|page| page.waiting.is_empty() && page.came == 1000 && page.taken == 1000));
    }
}
