//! Writes what the turns of one node have to say.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use leasehold::store::{Note, Topic};
use leasehold::{Applied, Error, ErrorKind, Locks, Result};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// So many notes are written together.
const AT_ONCE: usize = 200;

/// To so many topics at a time: a store writes to one at a time over its session, and what waits there has a time-out.
const TOPICS: usize = 4;

/// A store that has refused some is asked to write the others for so long.
const PATIENCE: Duration = Duration::from_secs(10);

/// The notes of a node: those that come while others are being written are written together, those of a topic in one call and in the
/// order in which they came. Of ten runs of a job that end in one second are so one or two calls of the store, and not ten.
#[derive(Debug, Default)]
pub(crate) struct Scribe {
    page: Mutex<VecDeque<Line>>,
    writing: tokio::sync::Mutex<()>,
}

/// A note, and whom to tell what became of it.
#[derive(Debug)]
struct Line {
    note: Note,
    /// Then it may be wrong by now, and is not written.
    until: Option<Instant>,
    tell: oneshot::Sender<Result<()>>,
}

impl Scribe {
    /// Comes back once it is written, or could not be; also if its turn has not come by then. An error is told to all whose notes it is
    /// about.
    pub async fn write(&self, locks: &Locks, note: Note, until: Option<Instant>) -> Result<()> {
        let (tell, mut told) = oneshot::channel();
        self.with_page(|page| page.push_back(Line { note, until, tell }));
        loop {
            let _one_at_a_time = tokio::select! {
                biased;
                written = &mut told => return written.unwrap_or_else(|_| Err(given_up())),
                turn = self.writing.lock() => turn,
            };
            let lines: Vec<_> = self.with_page(|page| page.drain(..page.len().min(AT_ONCE)).collect());
            write(locks, lines).await;
        }
    }

    fn with_page<T>(&self, look: impl FnOnce(&mut VecDeque<Line>) -> T) -> T {
        look(&mut self.page.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Topic by topic, so that one that can't be written to keeps no other waiting, nor is more lost with it.
async fn write(locks: &Locks, lines: Vec<Line>) {
    let mut topics: BTreeMap<Topic, (Vec<Note>, Vec<oneshot::Sender<_>>)> = BTreeMap::new();
    for Line { note, until, tell } in lines {
        if until.is_some_and(|until| until <= Instant::now()) {
            let _ = tell.send(Err(too_late()));
            continue;
        }
        let (notes, tells) = topics.entry(note.topic.clone()).or_default();
        notes.push(note);
        tells.push(tell);
    }
    let (began, failed) = (Instant::now(), OnceLock::new());
    let write = async |(notes, tells): (Vec<Note>, Vec<oneshot::Sender<_>>)| {
        let written = match failed.get() {
            Some(error) if began.elapsed() > PATIENCE => Err(same(error)),
            _ => note(locks, &notes).await,
        };
        for tell in tells {
            // Who has gone meanwhile need not know.
            let _ = tell.send(written.as_ref().copied().map_err(same));
        }
        if let Err(error) = written {
            let _ = failed.set(error);
        }
    };
    stream::iter(topics.into_values()).for_each_concurrent(TOPICS, write).await;
}

async fn note(locks: &Locks, notes: &[Note]) -> Result<()> {
    locks.notes()?.note(notes).await
}

/// The same error, for another note.
fn same(error: &Error) -> Error {
    let same = Error::new(error.kind(), error.to_string());
    if error.applied() == Applied::Maybe { same.maybe_applied() } else { same }
}

/// Whoever wrote it knew until then that it was so.
fn too_late() -> Error {
    Error::new(ErrorKind::TimedOut, "the note's turn to be written came too late")
}

/// Whoever wrote it has gone.
fn given_up() -> Error {
    Error::new(ErrorKind::Unavailable, "the note was being written when its writer was ended").maybe_applied()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::future::join_all;
    use leasehold::LockName;
    use leasehold::store::{NoteId, Search};
    use leasehold::stores::Memory;
    use leasehold_testkit::{Fault, Faulty, Operation, PausedClock};

    use super::*;

    const TOPIC: Topic = Topic::of_all("runs");

    fn note(id: usize, text: &str) -> Note {
        let keep = Duration::from_secs(60);
        Note { topic: TOPIC, id: NoteId::new(&id.to_string()).unwrap(), text: text.to_owned(), keep, most: 1000 }
    }

    /// To be written in one go.
    async fn all_at_once(scribe: &Scribe, locks: &Locks, notes: Vec<Note>) -> Vec<Result<()>> {
        let turn = scribe.writing.lock().await;
        let all = join_all(notes.into_iter().map(|note| scribe.write(locks, note, None)));
        let (all, ()) = tokio::join!(all, async {
            tokio::task::yield_now().await;
            drop(turn);
        });
        all
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_is_told_to_all_whom_it_concerns_and_to_nobody_else() {
        let clock = Arc::new(PausedClock::start());
        let store = Faulty::over(Arc::new(Memory::new(clock.clone())));
        let faults = store.faults();
        let locks = Locks::builder().simulated(clock).over(Arc::new(store));
        let about = |job: &str, id| Note { topic: TOPIC.about(LockName::new(job).unwrap()), ..note(id, job) };
        let notes = (0..3).flat_map(|id| ["a", "b"].map(|job| about(job, id))).collect();
        faults.next(Operation::WriteNotes, Fault::Fail(ErrorKind::Unavailable));
        let scribe = Scribe::default();
        let written = all_at_once(&scribe, &locks, notes).await;
        assert_eq!(written.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false, true, false, true]);
        for (job, found) in [("a", 0), ("b", 3)] {
            let topic = TOPIC.about(LockName::new(job).unwrap());
            assert_eq!(locks.notes().unwrap().notes(&Search::newest(topic, 9)).await.unwrap().len(), found);
        }
        assert!(scribe.with_page(|page| page.is_empty()));
        scribe.write(&locks, about("a", 0), None).await.expect("it is tried again");
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_back_finds_it_written_and_the_last_word_stays() {
        let clock = Arc::new(PausedClock::start());
        let locks = Locks::builder().simulated(clock.clone()).over(Arc::new(Memory::new(clock)));
        let scribe = Scribe::default();
        let first = join_all((0..500).map(|id| scribe.write(&locks, note(id, "first"), None)));
        let last = join_all((0..500).map(|id| scribe.write(&locks, note(id, "last"), None)));
        let (first, last) = tokio::join!(first, last);
        assert!(first.into_iter().chain(last).all(|written| written.is_ok()));
        let found = locks.notes().unwrap().notes(&Search::newest(TOPIC, 1000)).await.unwrap();
        assert!(found.len() == 500 && found.iter().all(|noted| noted.text == "last"));
        assert!(scribe.with_page(|page| page.is_empty()));
    }

    /// Its lock may be another's by then, who has written something else in its place.
    #[tokio::test(start_paused = true)]
    async fn what_may_be_wrong_by_now_is_not_written() {
        let clock = Arc::new(PausedClock::start());
        let locks = Locks::builder().simulated(clock.clone()).over(Arc::new(Memory::new(clock)));
        let scribe = Scribe::default();
        let turn = scribe.writing.lock().await;
        let soon = Instant::now() + Duration::from_secs(1);
        let written = join_all([
            scribe.write(&locks, note(1, "late"), Some(soon)),
            scribe.write(&locks, note(2, "in time"), Some(soon + PATIENCE)),
        ]);
        let (written, ()) = tokio::join!(written, async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            drop(turn);
        });
        assert_eq!(written.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true]);
        assert!(written[0].as_ref().is_err_and(|error| error.is_transient() && error.applied() == Applied::No));
        let found = locks.notes().unwrap().notes(&Search::newest(TOPIC, 9)).await.unwrap();
        assert_eq!(found.iter().map(|noted| noted.text.as_str()).collect::<Vec<_>>(), ["in time"]);
    }
}
