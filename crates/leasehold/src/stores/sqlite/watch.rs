//! Hints that a name may be free: one thread that looks whether anything changed, while anybody wants to know.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::params;

use super::connection::Connection;
use super::database::Database;
use super::fault::Fault;
use super::place::Still;
use crate::name::LockName;
use crate::store::{Bell, WakeUps};

/// How often the thread looks. Asking for the data's version costs 3 µs.
const PERIOD: Duration = Duration::from_millis(10);

/// How long it waits before it tries again to open a file that can't be opened. Waiters poll meanwhile.
const REOPEN: Duration = Duration::from_secs(1);

/// The subscriptions of one store handle, and the thread that serves them.
#[derive(Debug)]
pub(super) struct Watch {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    database: Arc<Database>,
    subscribed: Mutex<Subscribed>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Subscribed {
    bells: HashMap<LockName, Vec<Arc<Bell>>>,
    /// Somebody came since the thread last looked at the names.
    news: bool,
    has_thread: bool,
}

impl Watch {
    pub fn new(database: Arc<Database>) -> Self {
        Self { inner: Arc::new(Inner { database, subscribed: Mutex::default(), changed: Condvar::new() }) }
    }

    /// Rings from now on when `name` looks free.
    pub fn subscribe(&self, name: &LockName) -> WakeUps {
        let bell: Arc<Bell> = Arc::default();
        let mut subscribed = self.inner.subscribed();
        subscribed.bells.entry(name.clone()).or_default().push(Arc::clone(&bell));
        subscribed.news = true;
        if !subscribed.has_thread {
            let inner = Arc::clone(&self.inner);
            // Without a thread nothing rings; who waits also polls.
            subscribed.has_thread =
                thread::Builder::new().name("leasehold-watch".into()).spawn(move || inner.watch()).is_ok();
        }
        drop(subscribed);
        let end = Subscription { inner: Arc::clone(&self.inner), name: name.clone(), bell: Arc::clone(&bell) };
        WakeUps::new(bell, end)
    }
}

/// Until it is dropped, its bell rings.
struct Subscription {
    inner: Arc<Inner>,
    name: LockName,
    bell: Arc<Bell>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut subscribed = self.inner.subscribed();
        if let Some(bells) = subscribed.bells.get_mut(&self.name) {
            bells.retain(|bell| !Arc::ptr_eq(bell, &self.bell));
            if bells.is_empty() {
                subscribed.bells.remove(&self.name);
            }
        }
        if subscribed.bells.is_empty() {
            self.inner.changed.notify_one();
        }
    }
}

impl Inner {
    fn subscribed(&self) -> MutexGuard<'_, Subscribed> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread.
    fn watch(&self) {
        let mut view = View::default();
        while let Some(news) = self.wait() {
            let Ok(changed) = view.has_changed(&self.database) else {
                view.lose();
                continue;
            };
            if changed || news {
                let names: Vec<LockName> = self.subscribed().bells.keys().cloned().collect();
                for name in names.iter().filter(|name| view.looks_free(name).unwrap_or(true)) {
                    self.ring(name);
                }
            }
        }
    }

    /// Waits for the next look. Answers whether there are new subscriptions; none once the last has ended.
    fn wait(&self) -> Option<bool> {
        let mut subscribed = self.subscribed();
        if !subscribed.news && !subscribed.bells.is_empty() {
            subscribed = self.changed.wait_timeout(subscribed, PERIOD).unwrap_or_else(PoisonError::into_inner).0;
        }
        if subscribed.bells.is_empty() {
            // Said under the lock: whoever subscribes after this starts another thread.
            subscribed.has_thread = false;
            return None;
        }
        Some(std::mem::take(&mut subscribed.news))
    }

    fn ring(&self, name: &LockName) {
        for bell in self.subscribed().bells.get(name).into_iter().flatten() {
            bell.ring();
        }
    }
}

/// The thread's own connection.
#[derive(Default)]
struct View {
    connection: Option<Connection>,
    version: i64,
    lost: Option<Instant>,
}

impl View {
    /// Whether anybody has written since the last call, or another file is there.
    fn has_changed(&mut self, database: &Arc<Database>) -> Result<bool, Fault> {
        let same = match &self.connection {
            Some(connection) => connection.still()? == Still::Same,
            None => false,
        };
        if !same {
            self.connection = None;
            if self.lost.is_some_and(|lost| lost.elapsed() < REOPEN) {
                return Ok(false);
            }
            self.connection = Some(Connection::open(database, false)?);
            self.lost = None;
            self.version = 0;
        }
        let Some(connection) = &self.connection else { return Ok(false) };
        let version = connection.db.prepare_cached("pragma data_version")?.query_row([], |row| row.get(0))?;
        Ok(std::mem::replace(&mut self.version, version) != version)
    }

    fn lose(&mut self) {
        self.connection = None;
        self.lost = Some(Instant::now());
    }

    /// Whether it may be one of ours who is next: a permit is free, and of the first live waiters, as many as there
    /// are free permits, one waits here; or nobody waits. What another process will take is none of our business.
    fn looks_free(&self, name: &LockName) -> Result<bool, Fault> {
        let Some(connection) = &self.connection else { return Ok(false) };
        let (namespace, name, now) = (connection.namespace(), name.as_str(), connection.now());
        let mut statement = connection.db.prepare_cached(
            "select coalesce(max(case when slot = 0 then permits end), 1) - count(case when expires > ?3 then 1 end)
             from leasehold_locks where ns = ?1 and name = ?2",
        )?;
        let free: i64 = statement.query_row(params![namespace, name, now], |row| row.get(0))?;
        if free <= 0 {
            return Ok(false);
        }
        let mut statement = connection.db.prepare_cached(
            "select count(*), coalesce(max(client = ?4), 0) from (
                select client from leasehold_waiters
                where ns = ?1 and name = ?2 and seen > ?3 - 1000000000 order by ticket, holder limit ?5)",
        )?;
        let asked = params![namespace, name, now, connection.database.client, free];
        let (next, ours): (i64, bool) = statement.query_row(asked, |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(next == 0 || ours)
    }
}
