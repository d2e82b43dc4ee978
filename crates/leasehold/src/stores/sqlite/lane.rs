//! One connection, used by one at a time, in order: on the caller's thread where that can't wait, else on its own.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Instant;

use tokio::sync::oneshot;

use super::checkpoint;
use super::connection::Connection;
use super::database::Database;
use super::fault::Fault;
use super::place::Still;
use crate::error::{Error, ErrorKind};

/// A thread costs several times what an operation does, so an operation is tried on the caller's thread first:
/// if nothing is queued here (whoever came first is served first), the connection is free, and no other process
/// is writing. Else, and where a commit has to wait for a slow disk, it goes to the lane's thread, which is started
/// then.
#[derive(Debug)]
pub(super) struct Lane {
    inner: Arc<Inner>,
}

struct Inner {
    database: Arc<Database>,
    /// Whether anything may run on the caller's thread.
    inline: bool,
    connection: Mutex<Option<Connection>>,
    queue: Mutex<Queue>,
    bell: Condvar,
    /// Operations that are queued or run on the lane's thread: nothing may overtake them.
    ahead: AtomicUsize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Whether the log is to be moved. Not in the queue: it has a connection of its own and delays nobody else's turn.
    checkpoint: bool,
    has_thread: bool,
    closed: bool,
}

type Job = Box<dyn FnOnce(&Inner) + Send>;

/// How an operation wants to be treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Asks for a lease: makes the file if it is gone; needless once nobody waits for the answer.
    Claim {
        /// Its commit waits for the disk, whatever others do.
        durable: bool,
    },
    /// Writes, in a file that must be there; needless once nobody waits for the answer.
    Renew,
    /// Ends something: done even if nobody waits for the answer any more.
    End {
        /// As of a claim.
        durable: bool,
    },
    /// Reads a little.
    Look,
    /// Reads a lot: never on the caller's thread.
    Survey,
}

impl Kind {
    fn creates(self) -> bool {
        !matches!(self, Self::Renew | Self::End { .. })
    }

    fn may_be_skipped(self) -> bool {
        !self.ends()
    }

    fn ends(self) -> bool {
        matches!(self, Self::End { .. })
    }

    /// Whether it ends with a commit.
    fn commits(self) -> bool {
        matches!(self, Self::Claim { .. } | Self::Renew | Self::End { .. })
    }

    fn is_durable(self) -> bool {
        matches!(self, Self::Claim { durable: true } | Self::End { durable: true })
    }

    /// Whether it can be done without waiting for a slow disk.
    fn is_quick(self, database: &Database) -> bool {
        self == Self::Look || (self.commits() && database.commits_quickly(self.is_durable()))
    }
}

impl Lane {
    /// A lane that opens its connection now, on this thread.
    pub fn open(database: Arc<Database>) -> Result<Self, Fault> {
        let connection = Connection::open(&database, true)?;
        connection.be_patient(false);
        Ok(Self::new(database, true, Some(connection)))
    }

    /// A lane that opens its connection when it is first needed, and runs nothing on the caller's thread.
    pub fn of_its_own(database: Arc<Database>) -> Self {
        Self::new(database, false, None)
    }

    fn new(database: Arc<Database>, inline: bool, connection: Option<Connection>) -> Self {
        let inner = Inner {
            database,
            inline,
            connection: Mutex::new(connection),
            queue: Mutex::default(),
            bell: Condvar::new(),
            ahead: AtomicUsize::new(0),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Does `what`, in order with everything else here. It may be called twice: a first time that only found the
    /// file busy, and changed nothing, doesn't count.
    pub async fn run<T, F>(&self, kind: Kind, what: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: Fn(&mut Connection) -> Result<T, Fault> + Send + 'static,
    {
        if let Some(done) = self.inner.try_inline(kind, &what) {
            self.start_checkpoint(done.1);
            return done.0;
        }
        let (answer, asked) = oneshot::channel();
        self.push(Box::new(move |inner| {
            let turn = Turn(&inner.ahead);
            if kind.may_be_skipped() && answer.is_closed() {
                return;
            }
            let done = inner.patiently(kind, what);
            // Before the answer: what its receiver does next need not queue behind this.
            drop(turn);
            let _ = answer.send(done);
        }))?;
        asked.await.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Internal, "an operation on the SQLite store panicked").maybe_applied().into())
        })
    }

    fn push(&self, job: Job) -> Result<(), Fault> {
        let mut queue = self.inner.queue();
        self.ensure_thread(&mut queue)?;
        self.inner.ahead.fetch_add(1, Ordering::Relaxed);
        queue.jobs.push_back(job);
        drop(queue);
        self.inner.bell.notify_one();
        Ok(())
    }

    fn start_checkpoint(&self, wanted: bool) {
        if !wanted {
            return;
        }
        let mut queue = self.inner.queue();
        // Without a thread it is left to a later commit.
        queue.checkpoint = self.ensure_thread(&mut queue).is_ok();
        if !queue.checkpoint {
            self.inner.database.checkpointed(0);
        }
        drop(queue);
        self.inner.bell.notify_one();
    }

    fn ensure_thread(&self, queue: &mut Queue) -> Result<(), Fault> {
        if !queue.has_thread {
            let inner = Arc::clone(&self.inner);
            thread::Builder::new().name("leasehold-db".into()).spawn(move || inner.work()).map_err(|error| {
                Error::new(ErrorKind::Unavailable, format!("no thread can be started for the SQLite store: {error}"))
            })?;
            queue.has_thread = true;
        }
        Ok(())
    }
}

impl Drop for Lane {
    /// Waits for nothing: what is queued is still done, by the lane's thread, which then ends.
    fn drop(&mut self) {
        self.inner.queue().closed = true;
        self.inner.bell.notify_one();
    }
}

impl Inner {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The outcome, and whether the log is to be moved; none if it has to be done on the lane's thread.
    fn try_inline<T>(
        &self,
        kind: Kind,
        what: impl Fn(&mut Connection) -> Result<T, Fault>,
    ) -> Option<(Result<T, Fault>, bool)> {
        if !self.inline || !kind.is_quick(&self.database) || self.ahead.load(Ordering::Acquire) > 0 {
            return None;
        }
        let mut slot = match self.connection.try_lock() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let connection = slot.as_mut()?;
        if !kind.ends() && !connection.seems_current() {
            return None;
        }
        match self.timed(kind, connection, what) {
            Err(fault) if fault.is_busy() => None,
            done => Some((done, self.wants_checkpoint(connection))),
        }
    }

    /// On the lane's thread: opens what isn't open, and waits while another process writes.
    fn patiently<T>(&self, kind: Kind, what: impl Fn(&mut Connection) -> Result<T, Fault>) -> Result<T, Fault> {
        let mut slot = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = self.current(&mut slot, kind.creates())?;
        connection.be_patient(true);
        let done = self.timed(kind, connection, what);
        connection.be_patient(false);
        let wanted = self.wants_checkpoint(connection);
        drop(slot);
        if wanted {
            self.queue().checkpoint = true;
        }
        done
    }

    /// Does `what`; where it waited for the disk, the next one goes by how long that took. What was refused or
    /// changed nothing says nothing about the disk.
    fn timed<T>(
        &self,
        kind: Kind,
        connection: &mut Connection,
        what: impl Fn(&mut Connection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        if !self.database.waits_for_the_disk(kind.is_durable()) {
            return what(connection);
        }
        let began = Instant::now();
        let done = what(connection);
        if connection.has_committed() {
            self.database.committed_in(began.elapsed());
        }
        done
    }

    /// The connection to the file that is there now.
    fn current<'a>(&self, slot: &'a mut Option<Connection>, create: bool) -> Result<&'a mut Connection, Fault> {
        match slot.as_ref().map(Connection::still).transpose()? {
            Some(Still::Same) => {}
            Some(Still::Torn) => return Err(Fault::Torn),
            Some(Still::Replaced) | None => {
                *slot = None;
                *slot = Some(Connection::open(&self.database, create)?);
            }
        }
        Ok(slot.as_mut().expect("it was opened just now"))
    }

    fn wants_checkpoint(&self, connection: &Connection) -> bool {
        connection.take_log_pages().is_some_and(|pages| self.database.wants_checkpoint(pages))
    }

    /// The lane's thread.
    fn work(&self) {
        while let Some(next) = self.next() {
            match next {
                // A panic is answered by the channel that it drops; the lane goes on.
                Next::Job(job) => drop(catch_unwind(AssertUnwindSafe(|| job(self)))),
                Next::Checkpoint => checkpoint::run(&self.database),
            }
        }
    }

    fn next(&self) -> Option<Next> {
        let mut queue = self.queue();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(Next::Job(job));
            }
            if std::mem::take(&mut queue.checkpoint) {
                return Some(Next::Checkpoint);
            }
            if queue.closed {
                return None;
            }
            queue = self.bell.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("inline", &self.inline).field("ahead", &self.ahead).finish_non_exhaustive()
    }
}

enum Next {
    Job(Job),
    Checkpoint,
}

/// A queued operation's place; given up when it is done.
struct Turn<'a>(&'a AtomicUsize);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}
