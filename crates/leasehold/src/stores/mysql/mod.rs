//! Locks in MySQL or MariaDB, for the processes of many machines.
//!
//! One stored procedure for each operation: it decides, writes and answers in one transaction and one round trip. Leases
//! end by the server's own clock.

mod advisory;
mod answer;
mod arbiter;
mod batch;
mod call;
mod doctor;
mod fault;
mod inventory;
mod lane;
mod lanes;
mod notes;
mod options;
mod schema;
mod session;
mod shedlock;
mod tagged;
mod tls;

use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;

use self::call::{Call, Rows};
use self::fault::Fault;
use self::lane::Site;
use self::lanes::Lanes;
use self::options::Options;
use self::schema::Making;
use self::session::Session;
use crate::error::{Applied, Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::lease::{
    Attempt, Claim, Ended, FencingToken, HolderId, Holding, LeaseKey, Release, Renewal, Revoke, Waiter,
};
use crate::member::Member;
use crate::name::LockName;
use crate::store::{Arbiter, Database, Listener, Notes, Primary, Store, Tables, Traits, USUAL_TTL, WakeUps};
use crate::stores::sql::advisory::Advisory;
use crate::stores::sql::shedlock::ShedLock;
use crate::stores::sql::{self, Acquired, Asked, Mode, Said, Shown};

/// The longest label that there is room for, in characters.
const LABEL: usize = 255;

const ACQUIRE: &str = "call leasehold_v2_acquire(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
const RENEW: &str = "call leasehold_v2_renew(?, ?, ?)";
const RELEASE: &str = "call leasehold_v3_release(?, ?, ?, ?, ?, ?)";
const LEAVE: &str = "call leasehold_v1_leave(?, ?, ?)";
const REVOKE: &str = "call leasehold_v1_revoke(?, ?, ?, ?)";
const INSPECT: &str = "call leasehold_v1_inspect(?, ?)";
const LIST: &str = "call leasehold_v1_list(?)";
const RESET: &str = "call leasehold_v4_reset(?, ?)";
/// Who waits and since when; one row at least, beside what the clock says of them. Labels have no place in that table.
const QUEUE: &str = "select c.takes_none, w.holder, c.at - w.ticket \
    from (select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as at, \
        cast(cast(@@global.read_only as char) not in ('0', 'OFF') or @@global.innodb_read_only as signed) as takes_none) c \
    left join leasehold_waiters w on w.ns = ? and w.name = ? and w.seen between c.at - 999999 and c.at + 1000000 \
    order by w.ticket, w.holder";
/// What the clock shows, and whether it is that of a server that takes no writes. Some releases say so by a number, others by a
/// word.
const TIME: &str = "select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)), \
    cast(cast(@@global.read_only as char) not in ('0', 'OFF') or @@global.innodb_read_only as signed)";

/// The store that `url` names, by its `mode`.
pub(super) fn open(url: &str) -> Result<Arc<dyn Store>> {
    let options = Options::parse(url)?;
    if let Some(table) = options.shedlock.clone() {
        return Ok(Arc::new(ShedLock::over(shedlock::Rows::of(&table, options))));
    }
    Ok(match options.kind {
        Mode::Lease => Arc::new(MySql::with(Arc::new(Site::of(options)))),
        Mode::Advisory => Arc::new(Advisory::new(advisory::Advisory::new(options))),
    })
}

/// A store in a database of a MySQL (8.0 or later) or MariaDB (10.6 or later) server.
///
/// `mysql://user[:password]@host[:port]/database`, or `mariadb://…`, which is the same. Percent-encoding is decoded.
/// Options, after a `?`:
///
/// | option | meaning |
/// |---|---|
/// | `namespace=NAME` | users of one database that share names; `default` |
/// | `mode=advisory` | session locks instead of leases in tables: a store of its own, which `stores::open` makes |
/// | `key_scheme=with_advisory_lock` | of session locks: the names of that Ruby library |
/// | `compat=shedlock`, `table=NAME` | the locks of another library, in its table |
/// | `socket=PATH` | come over a Unix socket; no host is named then |
/// | `password_file=FILE` | where the password stands; read for each connection |
/// | `ssl-mode=MODE` | `disabled`, `preferred` (the default without `ca`), `required`, `verify_ca`, `verify_identity` (the default with `ca`) |
/// | `ca=FILE` | who signs the server, beside those whom the system trusts |
/// | `cert=FILE&key=FILE` | what we show the server |
///
/// With `compat=shedlock` the locks are in ShedLock's table, or another one with its columns (`table=NAME`);
/// [`stores::open`](super::open) opens that. Our own tables and procedures are made at the first use, if they aren't there and the user may make them.
pub struct MySql {
    site: Arc<Site>,
    lanes: Lanes,
}

impl MySql {
    /// A store in the database that `url` names. Connects when it is first used.
    ///
    /// # Errors
    /// `Invalid`: the URL is wrong.
    pub fn open(url: &str) -> Result<Self> {
        let options = Options::parse(url)?;
        if options.kind == Mode::Advisory || options.shedlock.is_some() {
            return Err(sql::of_another_mode(&options.shown));
        }
        Ok(Self::with(Arc::new(Site::of(options))))
    }

    fn with(site: Arc<Site>) -> Self {
        Self { lanes: Lanes::to(&site), site }
    }

    /// The statements that make the tables and procedures of the database that `url` names, for MySQL's or MariaDB's own
    /// client. Asks nobody.
    ///
    /// # Errors
    /// `Invalid`: the URL is wrong.
    pub fn migration(url: &str) -> Result<String> {
        let Options { database, shedlock, .. } = Options::parse(url)?;
        Ok(match shedlock {
            None => schema::print(&database),
            Some(table) => shedlock::print(&database, &table),
        })
    }

    /// Makes what is missing of the tables and procedures in the database that `url` names, if the user may do that. Says
    /// nothing of tables that are another's (`compat=shedlock`).
    ///
    /// # Errors
    /// `Invalid`: the URL is wrong; what the server says, or why it can't be asked.
    ///
    /// # Cancel safety
    /// Dropped, some of it may have been made; what is missing then is made by the next one.
    pub async fn migrate(url: &str) -> Result<()> {
        let site = Site::of(Options::parse(url)?);
        let session = Session::open(&site, None, Making::All).await.map_err(|fault| fault.told(&site.options.shown))?;
        session.close().await;
        Ok(())
    }

    /// A call that begins with a name.
    fn call(&self, sql: &'static str, name: &LockName) -> Call {
        Call::new(sql).bytes(self.site.options.namespace.as_str()).bytes(name.as_str())
    }

    /// Asks for a name, behind all that was asked for it before.
    async fn ask(&self, name: &LockName, call: Call) -> Result<Rows> {
        self.lanes.ask_for(name.as_str(), call).await.map_err(|fault| self.told(fault))
    }

    fn told(&self, fault: Fault) -> Error {
        fault.told(&self.site.options.shown)
    }

    /// Asks for a lease; with an epoch, under that route.
    async fn acquire(&self, claim: &Claim, epoch: Option<i64>) -> Result<Acquired> {
        let asked = Asked::of(claim, "");
        let label = room_for(asked.label);
        let call = self
            .call(ACQUIRE, &claim.name)
            .bytes(asked.holder)
            .text(&label)
            .number(asked.ttl)
            .number(asked.permits)
            .number(asked.tick)
            .number(i64::from(asked.retry))
            .number(asked.keep)
            .number(i64::from(asked.queue))
            .number(asked.ticket)
            .number(sql::micros(FencingToken::BUILT))
            .number(epoch);
        let rows = self.ask(&claim.name, call).await?;
        answer::acquired(&rows).map_err(|fault| self.told(fault))
    }

    /// An answer for each, in order; with an epoch, of leases that have this tag.
    async fn renew_all(&self, leases: &[(LeaseKey, Duration)], epoch: Option<i64>) -> Vec<Result<Renewal>> {
        if leases.is_empty() {
            return Vec::new();
        }
        let call =
            Call::new(RENEW).bytes(self.site.options.namespace.as_str()).text(&batch::json(leases)).number(epoch);
        match self.lanes.ask(call).await.and_then(|rows| answer::digits(&rows)) {
            Ok(digits) if digits.len() == leases.len() => {
                digits.into_iter().map(|digit| sql::renewal(digit).ok_or_else(|| self.busy())).collect()
            }
            Ok(_) => leases.iter().map(|_| Err(self.told(Fault::Garbled))).collect(),
            Err(fault) => {
                let error = self.told(fault);
                leases.iter().map(|_| Err(again(&error))).collect()
            }
        }
    }

    /// Somebody else has locked the row of a lease.
    fn busy(&self) -> Error {
        let message =
            format!("{}: somebody has locked the lease's row, and so it was not renewed", self.site.options.shown);
        Error::new(ErrorKind::Unavailable, message)
    }

    async fn end(&self, lease: &LeaseKey, how: Ended) -> Result<Release> {
        let said = Said::of(how);
        let call = self.call(RELEASE, &lease.name).bytes(lease.holder.to_string());
        let call = call.number(said.keep_for).number(said.verdict.map(i64::from)).number(said.tick);
        let rows = self.ask(&lease.name, call).await?;
        let freed = answer::number(&rows).map_err(|fault| self.told(fault))?;
        Ok(if freed > 0 { Release::Released } else { Release::NotHeld })
    }

    async fn look(&self, name: &LockName) -> Result<Option<Holding>> {
        let rows = self.ask(name, self.call(INSPECT, name)).await?;
        let found = answer::told(&rows, name.as_str()).map_err(|fault| self.told(fault))?.holding()?;
        Ok(Some(found).filter(|found| !found.free_in().is_zero() || found.waiting > 0))
    }

    async fn end_others(&self, name: &LockName, holder: Option<HolderId>, how: Revoke) -> Result<Option<Holding>> {
        let holder = holder.map(|holder| holder.to_string());
        let call = self.call(REVOKE, name).maybe_bytes(holder.as_ref().map(String::as_bytes));
        let rows = self.ask(name, call.number(i64::from(how == Revoke::Now))).await?;
        let hit = answer::listed(&rows).map_err(|fault| self.told(fault))?.pop();
        hit.map(Shown::holding).transpose()
    }
}

/// As much of a label as there is room for.
fn room_for(label: &str) -> String {
    label.chars().take(LABEL).collect()
}

/// The same error for another lease of a batch.
fn again(error: &Error) -> Error {
    let same = Error::new(error.kind(), error.to_string());
    if error.applied() == Applied::Maybe { same.maybe_applied() } else { same }
}

impl std::fmt::Debug for MySql {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MySql").field("server", &self.site.options.shown).finish_non_exhaustive()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for MySql {
    fn traits(&self) -> Traits {
        // Nobody can be told of a release, and who was given a lock without knowing would only keep others from it.
        Traits {
            kind: "mysql",
            smallest_ttl: Duration::from_secs(1),
            wake_ups: false,
            hands_over: false,
            session_bound: false,
            usual_ttl: USUAL_TTL,
            longest_stop_grace: Duration::MAX,
        }
    }

    fn for_keeper(&self) -> Arc<dyn Store> {
        Arc::new(Self::with(Arc::clone(&self.site)))
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(async move { self.acquire(claim, None).await?.attempt(claim, &self.site.options.shown) })
    }

    fn leave<'a>(&'a self, waiter: &'a LeaseKey) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let call = self.call(LEAVE, &waiter.name).bytes(waiter.holder.to_string());
            self.ask(&waiter.name, call).await.map(drop)
        })
    }

    fn renew<'a>(&'a self, leases: &'a [(LeaseKey, Duration)]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(self.renew_all(leases, None))
    }

    fn release<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        Box::pin(self.end(lease, how))
    }

    fn subscribe<'a>(&'a self, _name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        Box::pin(async { Ok(WakeUps::silent()) })
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(self.look(name))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Holding>>> {
        Box::pin(async {
            let call = Call::new(LIST).bytes(self.site.options.namespace.as_str());
            let listed = self.lanes.ask(call).await.and_then(|rows| answer::listed(&rows));
            listed.map_err(|fault| self.told(fault))?.into_iter().map(Shown::holding).collect()
        })
    }

    fn queue<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Vec<Waiter>>> {
        Box::pin(async move {
            let rows = self.ask(name, self.call(QUEUE, name)).await?;
            answer::waiters(&rows).map_err(|fault| self.told(fault))
        })
    }

    fn revoke<'a>(
        &'a self,
        name: &'a LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(self.end_others(name, holder, how))
    }

    fn reset_marks<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let rows = self.ask(name, self.call(RESET, name)).await?;
            Ok(answer::number(&rows).map_err(|fault| self.told(fault))? != 0)
        })
    }

    fn time(&self) -> BoxFuture<'_, Result<Duration>> {
        Box::pin(async {
            let time = self.lanes.ask(Call::new(TIME)).await.and_then(|rows| answer::time(&rows));
            time.map_err(|fault| self.told(fault))
        })
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(async { doctor::diagnose(&self.site.options).await.map_err(|fault| self.told(fault)) })
    }

    /// One store: nothing moves.
    fn listen(&self, _: Weak<Listener>) {}

    fn tables(&self) -> Option<Tables> {
        let home = self.site.home.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let Options { database, namespace, .. } = &self.site.options;
        let database = Database::MySql { database: database.clone(), home };
        Some(Tables { database, namespace: namespace.clone() })
    }

    fn as_primary(&self) -> Option<&dyn Primary> {
        None
    }

    fn as_arbiter(&self) -> Option<&dyn Arbiter> {
        Some(self)
    }

    fn as_member(&self) -> Option<&dyn Member> {
        None
    }

    fn as_notes(&self) -> Option<&dyn Notes> {
        Some(self)
    }
}
