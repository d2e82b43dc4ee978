//! What could not be written into the ledger when it happened, and is written later.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leasehold::Result;
use leasehold::store::Note;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::ledger::Ledger;
use crate::node::{LONGEST_PAUSE, Node, SHORTEST_PAUSE};
use crate::record::Record;

/// So many records of a node wait; beyond that the oldest is dropped, one that is of no run first.
const MOST: usize = 1000;

/// A store that has refused some is asked to write the others for so long.
const PATIENCE: Duration = Duration::from_secs(10);

/// The records of a node that wait for the store: of each run what was said last.
#[derive(Debug, Default)]
pub(crate) struct Late {
    waiting: Mutex<VecDeque<Waiting>>,
    came: Notify,
}

/// A record that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub job: String,
    pub record: Record,
    pub note: Note,
}

impl Late {
    /// Has it wait.
    pub fn add(&self, waiting: Waiting) {
        if let Some(waiting) = self.not_replacing(waiting) {
            self.with(|all| {
                all.push_back(waiting);
                if all.len() > MOST {
                    // That a tick was not run can be told from that nothing is known of it; how a run has ended can't.
                    let least = all.iter().position(|waiting| !waiting.record.state.is_of_a_run());
                    all.remove(least.unwrap_or(0));
                }
            });
            self.came.notify_one();
        }
    }

    /// Has it wait in the place of what was said before about the same and waits or is being written; comes back if nothing does.
    pub fn not_replacing(&self, waiting: Waiting) -> Option<Waiting> {
        self.with(|all| match all.iter_mut().find(|before| before.is_about_the_same(&waiting)) {
            Some(before) => {
                *before = waiting;
                None
            }
            None => Some(waiting),
        })
    }

    /// Writes what comes, again and again until it is written. It never comes back.
    ///
    /// # Cancel safety
    /// What is being written waits until it is known to be written.
    pub async fn keep_writing(&self, node: &Node) {
        loop {
            self.until_written(node).await;
            self.came.notified().await;
        }
    }

    /// Until nothing waits.
    pub async fn until_written(&self, node: &Node) {
        let mut pause = SHORTEST_PAUSE;
        while self.oldest().is_some() {
            sleep(pause).await;
            pause = if self.write_all(node).await { SHORTEST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
        }
    }

    /// Each once; false if some can't be written now. They wait behind the others: one that can't be written keeps none of them waiting.
    async fn write_all(&self, node: &Node) -> bool {
        let (began, mut all_written) = (Instant::now(), true);
        for _ in 0..self.with(|all| all.len()) {
            let Some(waiting) = self.oldest() else { break };
            match write(node, &waiting).await {
                Err(error) if error.is_transient() => {
                    all_written = false;
                    self.with(|all| all.rotate_left(usize::from(all.front() == Some(&waiting))));
                    if began.elapsed() > PATIENCE {
                        break;
                    }
                }
                written => {
                    node.told(written);
                    // Where something newer has come meanwhile, that waits.
                    self.with(|all| all.retain(|other| *other != waiting));
                }
            }
        }
        all_written
    }

    fn oldest(&self) -> Option<Waiting> {
        self.with(|all| all.front().cloned())
    }

    fn with<T>(&self, look: impl FnOnce(&mut VecDeque<Waiting>) -> T) -> T {
        look(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Waiting {
    fn is_about_the_same(&self, other: &Self) -> bool {
        (&self.note.topic, &self.note.id) == (&other.note.topic, &other.note.id)
    }
}

/// Unless another node has begun the tick anew since, and says so there; or, where it was not run, anything is known of it.
async fn write(node: &Node, waiting: &Waiting) -> Result<()> {
    let Waiting { job, record, note } = waiting;
    if let Some(tick) = record.tick
        && let Some(known) = Ledger::of(&node.locks, job)?.of_tick(tick).await?
        && (!record.state.is_of_a_run() || known.token_number() > record.token_number())
    {
        return Ok(());
    }
    node.locks.notes()?.note(std::slice::from_ref(note)).await
}
