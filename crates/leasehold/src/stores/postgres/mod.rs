//! Locks in tables of a PostgreSQL database, for the processes of many machines.
//!
//! One short statement for each operation: a procedure decides, writes and answers in one step and one round trip, and
//! no transaction stands open between two. Leases end by the server's own clock.

mod advisory;
mod arbiter;
mod bells;
mod doctor;
mod ears;
mod fault;
mod hosts;
mod inventory;
mod link;
mod notes;
mod options;
mod rows;
mod schema;
mod session;
mod shedlock;
mod statements;
mod tagged;
mod tls;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use self::bells::Bells;
use self::ears::Ears;
use self::fault::Fault;
use self::link::{Given, Link, Server};
use self::options::Options;
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::lease::{Attempt, Claim, Ended, HolderId, Holding, LeaseKey, Release, Renewal, Revoke, Waiter};
use crate::member::Member;
use crate::name::LockName;
use crate::store::{Arbiter, Database, Listener, Notes, Primary, Store, Tables, Traits, USUAL_TTL, WakeUps};
use crate::stores::sql::advisory::Advisory;
use crate::stores::sql::shedlock::ShedLock;
use crate::stores::sql::{self, Acquired, Asked, Mode, Said};

/// The store that `url` names, by its `mode` or `compat`.
pub(super) fn open(url: &str) -> Result<Arc<dyn Store>> {
    let options = Options::parse(url)?;
    if let Some(table) = options.shedlock.clone() {
        return Ok(Arc::new(ShedLock::over(shedlock::Rows::of(&table, options))));
    }
    Ok(match options.mode {
        Mode::Lease => Arc::new(Postgres::with(options)),
        Mode::Advisory => Arc::new(Advisory::new(advisory::Advisory::new(options))),
    })
}

/// How long somebody who begins to wait waits to be heard of: messages that come sooner are heard.
const SOON: Duration = Duration::from_millis(800);

/// What the clock shows, and whether it is that of a standby.
const TIME: &str = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint, pg_is_in_recovery()";

/// A store in tables of a PostgreSQL database.
///
/// `postgres://[user[:password]@]host[:port][,host[:port]…][/database]`, or `postgresql://`. Of several hosts the one that
/// takes writes is used. Options, after a `?`:
///
/// | option | meaning |
/// |---|---|
/// | `namespace=NAME` | users of one database that share names; `default` |
/// | `mode=advisory` | session locks instead of leases in tables: a store of its own, which `stores::open` makes |
/// | `key_scheme=with_advisory_lock` | of session locks: the keys of that Ruby library |
/// | `schema=NAME` | where the tables are; `public`, whatever the search path is |
/// | `compat=shedlock`, `table=NAME` | the locks of another library, in its table |
/// | `host=/run/postgresql`, `port=PORT` | the folder of a Unix socket |
/// | `user=USER`, `password=PASSWORD`, `password_file=FILE` | as whom we log in; the file is read for each connection |
/// | `sslmode=require` | over TLS, and the server's certificate and name are checked; `disable`, the default: not |
/// | `ca=FILE` | who signs the server, instead of whom the system trusts; asks for TLS |
/// | `cert=FILE`, `key=FILE` | what we show the server |
///
/// Files are in PEM, and are read for each connection. With `compat=shedlock` the locks are in ShedLock's table, or
/// another one with its columns (`table=NAME`); [`stores::open`](super::open) opens that. Our own tables are made when they are first used, if the role may
/// do that; [`migration`](Self::migration) is what somebody else has to run, if not.
pub struct Postgres {
    server: Arc<Server>,
    link: Arc<Link>,
    /// For what decides nothing.
    aside: Arc<Link>,
    /// Something was written that decides nothing.
    has_noted: AtomicBool,
    bells: Arc<Bells>,
    ears: Arc<Ears>,
}

impl Postgres {
    /// A store in the database that `url` names. Connects when it is first used.
    ///
    /// # Errors
    /// `Invalid`: the URL is wrong.
    pub fn open(url: &str) -> Result<Self> {
        let options = Options::parse(url)?;
        if options.mode == Mode::Advisory || options.shedlock.is_some() {
            return Err(sql::of_another_mode(&options.shown));
        }
        Ok(Self::with(options))
    }

    fn with(options: Options) -> Self {
        let (server, bells) = (Arc::new(Server::new(options)), Arc::<Bells>::default());
        let ears = Arc::new(Ears::new(Arc::clone(&server), Arc::clone(&bells)));
        let [link, aside] = ["locks", "notes"].map(|what_for| Arc::new(Link::new(Arc::clone(&server), what_for)));
        Self { server, link, aside, has_noted: AtomicBool::default(), bells, ears }
    }

    /// The statements that make the tables and procedures of the database that `url` names, for `psql` and the like.
    /// Asks nobody.
    ///
    /// # Errors
    /// `Invalid`: the URL is wrong.
    pub fn migration(url: &str) -> Result<String> {
        let options = Options::parse(url)?;
        Ok(options.shedlock.as_deref().map_or_else(|| schema::whole(&options), shedlock::whole))
    }

    /// Makes what is missing of the schema, tables and procedures in the database that `url` names, and puts right what is not
    /// as it should be, if the role may do that. Says nothing of tables that are another's (`compat=shedlock`).
    ///
    /// # Errors
    /// `Invalid`: the URL is wrong; what the server says, or why it can't be asked.
    ///
    /// # Cancel safety
    /// Dropped, it may have been made all the same: all of it, or nothing.
    pub async fn migrate(url: &str) -> Result<()> {
        let server = Server::new(Options::parse(url)?);
        server.migrate().await.map_err(|fault| fault::told(fault, &server.options.shown))
    }

    fn namespace(&self) -> &str {
        self.server.options.namespace.as_str()
    }

    fn shown(&self) -> &str {
        &self.server.options.shown
    }

    fn told(&self, fault: Fault) -> Error {
        fault::told(fault, self.shown())
    }

    async fn ask(&self, statement: &str, given: &[Given<'_>]) -> Result<Vec<Row>> {
        self.link.call(statement, given).await.map_err(|fault| self.told(fault))
    }

    /// Asks for one row, and reads it.
    async fn ask_for<T>(
        &self,
        statement: &str,
        given: &[Given<'_>],
        read: impl FnOnce(Row) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T> {
        let answer = self.link.call_for_one(statement, given).await.and_then(|row| read(row).map_err(Fault::Sent));
        answer.map_err(|fault| self.told(fault))
    }

    /// Asks for a lease; with a tag, under the route of that epoch.
    async fn acquire(&self, claim: &Claim, tag: Option<i64>) -> Result<Acquired> {
        if claim.queue.is_some() && self.ears.are_to_open() {
            self.listen_again();
        }
        let client = self.ears.client();
        let asked = Asked::of(claim, &client);
        // A lease that is handed over has no tag.
        let sent = asked.sent.filter(|_| tag.is_none());
        let given: [Given<'_>; 14] = [
            (&self.namespace(), Type::TEXT),
            (&asked.name, Type::TEXT),
            (&asked.holder, Type::TEXT),
            (&asked.label, Type::TEXT),
            (&asked.ttl, Type::INT8),
            (&asked.permits, Type::INT8),
            (&asked.tick, Type::INT8),
            (&asked.retry, Type::BOOL),
            (&asked.keep, Type::INT8),
            (&asked.queue, Type::BOOL),
            (&asked.ticket, Type::INT8),
            (&asked.client, Type::TEXT),
            (&sent, Type::INT8),
            (&tag, Type::INT8),
        ];
        self.ask_for(&self.server.statements.acquire, &given, rows::acquired).await
    }

    /// In the background: who waits looks by itself meanwhile.
    fn listen_again(&self) -> tokio::task::JoinHandle<()> {
        let (ears, link) = (Arc::clone(&self.ears), Arc::clone(&self.link));
        tokio::spawn(async move { drop(ears.open(&link).await) })
    }

    async fn end(&self, lease: &LeaseKey, how: Ended) -> Result<Release> {
        let said = Said::of(how);
        let given: [Given<'_>; 6] = [
            (&self.namespace(), Type::TEXT),
            (&lease.name.as_str(), Type::TEXT),
            (&lease.holder.to_string(), Type::TEXT),
            (&said.keep_for, Type::INT8),
            (&said.verdict, Type::INT4),
            (&said.tick, Type::INT8),
        ];
        let released: i32 = self.ask_for(&self.server.statements.release, &given, |row| row.try_get(0)).await?;
        Ok(if released == 1 { Release::Released } else { Release::NotHeld })
    }

    /// An answer for each, in order. Whose lease somebody is at, for a moment, is asked for again alone.
    async fn renew_all(&self, leases: &[(LeaseKey, Duration)], tag: Option<i64>) -> Vec<Result<Renewal>> {
        if leases.is_empty() {
            return Vec::new();
        }
        let answers = match self.renew_batch(leases, tag, false).await {
            Ok(answers) => answers,
            Err(error) => return leases.iter().map(|_| Err(again(&error))).collect(),
        };
        let answer = |(lease, answer): (&(LeaseKey, Duration), i32)| {
            let lease = lease.clone();
            async move {
                match sql::renewal(answer) {
                    Some(renewal) => Ok(renewal),
                    None => self.renew_alone(&lease, tag).await,
                }
            }
        };
        join_all(leases.iter().zip(answers).map(answer)).await
    }

    async fn renew_alone(&self, lease: &(LeaseKey, Duration), tag: Option<i64>) -> Result<Renewal> {
        let answer = self.renew_batch(std::slice::from_ref(lease), tag, true).await?;
        answer.first().copied().and_then(sql::renewal).ok_or_else(|| {
            let message = format!("{}: somebody else has the row of {} locked", self.shown(), lease.0.name);
            Error::new(ErrorKind::Unavailable, message).maybe_applied()
        })
    }

    async fn renew_batch(
        &self,
        leases: &[(LeaseKey, Duration)],
        tag: Option<i64>,
        patiently: bool,
    ) -> Result<Vec<i32>> {
        let names: Vec<_> = leases.iter().map(|(lease, _)| lease.name.as_str()).collect();
        let holders: Vec<_> = leases.iter().map(|(lease, _)| lease.holder.to_string()).collect();
        let ttls: Vec<_> = leases.iter().map(|(_, ttl)| sql::micros(*ttl)).collect();
        let given: [Given<'_>; 6] = [
            (&self.namespace(), Type::TEXT),
            (&names, Type::TEXT_ARRAY),
            (&holders, Type::TEXT_ARRAY),
            (&ttls, Type::INT8_ARRAY),
            (&patiently, Type::BOOL),
            (&tag, Type::INT8),
        ];
        let answers: Vec<i32> = self.ask_for(&self.server.statements.renew, &given, |row| row.try_get(0)).await?;
        if answers.len() != leases.len() {
            let message = format!("{} answered {} renewals of {}", self.shown(), answers.len(), leases.len());
            return Err(Error::new(ErrorKind::Internal, message).maybe_applied());
        }
        Ok(answers)
    }

    async fn go(&self, waiter: &LeaseKey) -> Result<()> {
        let given: [Given<'_>; 3] = [
            (&self.namespace(), Type::TEXT),
            (&waiter.name.as_str(), Type::TEXT),
            (&waiter.holder.to_string(), Type::TEXT),
        ];
        self.ask(&self.server.statements.leave, &given).await.map(drop)
    }

    /// What there is to say of a name, or of all that are held, kept or waited for.
    async fn look(&self, name: Option<&LockName>) -> Result<Vec<Holding>> {
        let name = name.map(LockName::as_str);
        let given: [Given<'_>; 2] = [(&self.namespace(), Type::TEXT), (&name, Type::TEXT)];
        let rows = self.ask(&self.server.statements.look, &given).await?;
        let slots: Result<Vec<_>, _> = rows.into_iter().filter_map(|row| rows::looked(row).transpose()).collect();
        let slots = slots.map_err(|error| self.told(Fault::Sent(error)))?;
        sql::by_name(slots).into_iter().map(sql::Shown::holding).collect()
    }

    /// Who waits, read from the table: a procedure would have to be made first where the tables are of an older version.
    async fn line(&self, name: &LockName) -> Result<Vec<Waiter>> {
        let given: [Given<'_>; 2] = [(&self.namespace(), Type::TEXT), (&name.as_str(), Type::TEXT)];
        let rows = self.ask(&self.server.statements.queue, &given).await?;
        let read: Result<Vec<_>, _> = rows.into_iter().map(rows::waiter).collect();
        let read = read.map_err(|error| self.told(Fault::Sent(error)))?;
        if read.iter().any(|(is_standby, _)| *is_standby) {
            return Err(self.told(Fault::of_a_standby()));
        }
        Ok(read.into_iter().filter_map(|(_, waiter)| waiter).collect())
    }

    async fn cut(&self, name: &LockName, holder: Option<HolderId>, how: Revoke) -> Result<Option<Holding>> {
        let holder = holder.map(|holder| holder.to_string());
        let given: [Given<'_>; 4] = [
            (&self.namespace(), Type::TEXT),
            (&name.as_str(), Type::TEXT),
            (&holder, Type::TEXT),
            (&(how == Revoke::Now), Type::BOOL),
        ];
        let revoke = &self.server.statements.revoke;
        let hit = self.ask_for(revoke, &given, |row| rows::revoked(row, name.as_str())).await?;
        hit.map(sql::Shown::holding).transpose()
    }

    async fn reset(&self, name: &LockName) -> Result<bool> {
        let given: [Given<'_>; 2] = [(&self.namespace(), Type::TEXT), (&name.as_str(), Type::TEXT)];
        let reset: i32 = self.ask_for(&self.server.statements.reset, &given, |row| row.try_get(0)).await?;
        Ok(reset == 1)
    }

    async fn now(&self) -> Result<Duration> {
        self.link.time().await.map_err(|fault| self.told(fault))
    }
}

/// The same error once more, for another lease of its batch.
fn again(error: &Error) -> Error {
    let again = Error::new(error.kind(), error.to_string());
    match error.applied() {
        crate::error::Applied::No => again,
        crate::error::Applied::Maybe => again.maybe_applied(),
    }
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres").field("server", &self.shown()).finish_non_exhaustive()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Postgres {
    fn traits(&self) -> Traits {
        let hears = !self.ears.are_deaf();
        Traits {
            kind: "postgres",
            smallest_ttl: Duration::from_secs(1),
            wake_ups: hears,
            hands_over: hears,
            session_bound: false,
            usual_ttl: USUAL_TTL,
            longest_stop_grace: Duration::MAX,
        }
    }

    fn for_keeper(&self) -> Arc<dyn Store> {
        // It waits for nobody, and so listens to nobody.
        Arc::new(Self {
            server: Arc::clone(&self.server),
            link: Arc::new(Link::new(Arc::clone(&self.server), "keeper")),
            aside: Arc::new(Link::new(Arc::clone(&self.server), "notes")),
            has_noted: AtomicBool::default(),
            bells: Arc::clone(&self.bells),
            ears: Arc::clone(&self.ears),
        })
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(async move { self.acquire(claim, None).await?.attempt(claim, self.shown()) })
    }

    fn leave<'a>(&'a self, waiter: &'a LeaseKey) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.go(waiter))
    }

    fn renew<'a>(&'a self, leases: &'a [(LeaseKey, Duration)]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(self.renew_all(leases, None))
    }

    fn release<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        Box::pin(self.end(lease, how))
    }

    fn subscribe<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        Box::pin(async move {
            let (bell, place) = self.bells.hang(name);
            if self.ears.are_to_open() {
                let _ = tokio::time::timeout(SOON, self.listen_again()).await; // It goes on by itself.
            }
            Ok(WakeUps::new(bell, place))
        })
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(async move { Ok(self.look(Some(name)).await?.pop()) })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Holding>>> {
        Box::pin(self.look(None))
    }

    fn queue<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Vec<Waiter>>> {
        Box::pin(self.line(name))
    }

    fn revoke<'a>(
        &'a self,
        name: &'a LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(self.cut(name, holder, how))
    }

    fn reset_marks<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.reset(name))
    }

    fn time(&self) -> BoxFuture<'_, Result<Duration>> {
        Box::pin(self.now())
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(async move {
            let user = doctor::User::Leases(&self.ears, &self.link);
            doctor::diagnose(&self.server, user).await.map_err(|fault| self.told(fault))
        })
    }

    /// One store: nothing moves.
    fn listen(&self, _: Weak<Listener>) {}

    fn tables(&self) -> Option<Tables> {
        let options = &self.server.options;
        let home = self.server.home()?;
        let database = Database::Postgres { schema: options.schema.clone(), home };
        Some(Tables { database, namespace: options.namespace.clone() })
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
