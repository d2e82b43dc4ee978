//! Session locks of MySQL and MariaDB: `GET_LOCK`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Row, raw_sql};

use super::call::{Call, Rows};
use super::fault::Fault;
use super::options::Options;
use super::schema::Making;
use super::{TIME, answer, doctor, schema, session};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::lease::{FencingToken, Waiter};
use crate::name::LockName;
use crate::stores::sql;
use crate::stores::sql::advisory::{self, Seen, Tether, shared_by_a_pooler, token};

/// How often a session is asked whether it is there: the client library notices no end by itself.
const LOOKS: Duration = Duration::from_secs(1);

/// A statement is waited for no longer than the server waits for rows or disks.
const SETTINGS: &str = "
    set names utf8mb4;
    set session transaction isolation level read committed;
    set session autocommit = 1, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION' /*M! , max_statement_time = 0 */;
    select cast(connection_id() as signed), version(), coalesce((select cast(concat(p.user, '@', p.host) as char)
        from information_schema.processlist p where p.id = connection_id()), '')";

/// The lock, with its token from the sequence behind it: the condition of a `case` is looked at once, and first. What is
/// neither yes nor no is -1, another session than ours -2. Columns have names, for else the server sends the expressions.
const TAKE: &str = "select case when connection_id() <> ? then -2 else \
    case get_lock(?, 0) when 1 then nextval(leasehold_tokens) when 0 then 0 else -1 end end as token, \
    timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as at";

/// The same where there are no sequences.
const TAKE_ONLY: &str = "select case when connection_id() <> ? then -2 else coalesce(get_lock(?, 0), -1) end as taken, \
    timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as at";

/// The sessions of a server.
pub(super) struct Advisory {
    site: Arc<Site>,
}

struct Site {
    options: Options,
    /// Whether the tables were seen to be as this build knows them.
    is_prepared: AtomicBool,
    /// Whether some of them are missing, whatever their version says.
    lacks: AtomicBool,
    /// Whether it was seen to take writes.
    has_led: AtomicBool,
}

/// A session that is ours alone.
pub(super) struct Session {
    site: Arc<Site>,
    db: MySqlConnection,
    tether: Arc<Tether>,
    number: i64,
    since: String,
    release: Release,
    /// For how long the server keeps it though it hears nothing, in seconds.
    lasts: i64,
}

/// What a server calls itself.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Release {
    shown: String,
    is_mariadb: bool,
    number: (u32, u32, u32),
}

impl Release {
    fn read(shown: &str) -> Self {
        let is_mariadb = shown.contains("MariaDB");
        // What old clients are told first: MariaDB would be a MySQL 5.5.5.
        let numbers = shown.strip_prefix("5.5.5-").filter(|_| is_mariadb).unwrap_or(shown);
        let mut numbers = numbers.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        Self { shown: shown.to_owned(), is_mariadb, number: (next(), next(), next()) }
    }

    /// Whether a second lock of a session leaves the first alone.
    fn keeps_several_locks(&self) -> bool {
        self.number >= if self.is_mariadb { (10, 0, 2) } else { (5, 7, 5) }
    }

    fn has_sequences(&self) -> bool {
        self.is_mariadb && self.number >= (10, 3, 0)
    }
}

impl Advisory {
    pub fn new(options: Options) -> Self {
        let [is_prepared, lacks, has_led] = Default::default();
        Self { site: Arc::new(Site { options, is_prepared, lacks, has_led }) }
    }
}

impl Site {
    fn told(&self, fault: Fault) -> Error {
        fault.told(&self.options.shown)
    }

    fn unfit(&self, why: &str) -> Error {
        let message = format!(
            "{} has no session locks that can be relied on: {why}; leave out mode=advisory: the lease table works there",
            self.options.shown
        );
        Error::new(ErrorKind::Misconfigured, message)
    }

    async fn open(self: &Arc<Self>, tether: Arc<Tether>) -> Result<Session, Fault> {
        let mut db = session::connect(&self.options).await?;
        let rows = raw_sql(SETTINGS).fetch_all(&mut db).await?;
        session::check_takes_writes(&mut db, &self.has_led).await?;
        let row = rows.first().ok_or(Fault::Garbled)?;
        let (number, release, since) = (row.try_get(0)?, Release::read(row.try_get(1)?), row.try_get(2)?);
        if !release.keeps_several_locks() {
            let why = format!("{} lets go of a lock when another is taken", release.shown);
            return Err(Fault::Told(Box::new(self.unfit(&why))));
        }
        let galera = raw_sql("show global variables like 'wsrep_on'").fetch_all(&mut db).await?;
        if let Some(row) = galera.first()
            && row.try_get::<String, _>(1)?.eq_ignore_ascii_case("on")
        {
            let why = "it is a node of a Galera cluster (wsrep_on), whose nodes do not know one another's locks";
            return Err(Fault::Told(Box::new(self.unfit(why))));
        }
        if !self.is_prepared.load(Ordering::Acquire) {
            let lacks = self.lacks.swap(false, Ordering::AcqRel);
            let making = if lacks { Making::Missing } else { Making::Newer };
            schema::prepare(&mut db, &self.options, making).await?;
            self.is_prepared.store(true, Ordering::Release);
        }
        Ok(Session { site: Arc::clone(self), db, tether, number, since, release, lasts: 0 })
    }
}

impl advisory::Server for Advisory {
    type Session = Session;
    const KIND: &'static str = "mysql";
    const LOOKS: Option<Duration> = Some(LOOKS);

    fn shown(&self) -> &str {
        &self.site.options.shown
    }

    fn check(&self, name: &LockName) -> Result<()> {
        let Options { database, namespace, key_scheme, .. } = &self.site.options;
        key_scheme.text(database, namespace, name).map(drop)
    }

    async fn connect(&self, tether: Arc<Tether>) -> Result<Session> {
        self.site.open(tether).await.map_err(|fault| self.site.told(fault))
    }

    fn lacks_tables(&self) -> bool {
        self.site.lacks.load(Ordering::Acquire)
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        doctor::diagnose(&self.site.options).await.map_err(|fault| self.site.told(fault))
    }

    fn how_to_end(&self, number: i64) -> String {
        format!("have somebody who may run `kill {number}`")
    }
}

impl Session {
    fn key(&self, name: &LockName) -> Result<String> {
        let Options { database, namespace, key_scheme, .. } = &self.site.options;
        key_scheme.text(database, namespace, name)
    }

    async fn ask(&mut self, call: Call) -> Result<Rows> {
        let answer = call.run(&mut self.db).await;
        answer.map_err(|fault| self.failed(fault))
    }

    async fn ask_for(&mut self, call: Call) -> Result<i64> {
        let rows = self.ask(call).await?;
        answer::number(&rows).map_err(|fault| self.failed(fault))
    }

    /// Whatever it was: it is not known what it has left open.
    fn failed(&mut self, fault: Fault) -> Error {
        if fault.is_of_missing_tables() {
            self.site.lacks.store(true, Ordering::Release);
            self.site.is_prepared.store(false, Ordering::Release);
        }
        if fault.breaks() {
            self.tether.snap();
        }
        self.site.told(fault)
    }

    /// A token larger than all before, for a lock that is held by now.
    async fn token(&mut self, from_sequence: Option<i64>, at: i64) -> Result<FencingToken> {
        let at = sql::span(at);
        let least = token::least(at);
        let token = match from_sequence {
            Some(token) if token >= least => token,
            Some(_) => {
                // A sequence is never set back. Ahead of the clock by a second, so that this is seldom done.
                let set = format!("select setval(leasehold_tokens, {})", least + 16_000); // It takes no arguments.
                let set = raw_sql(AssertSqlSafe(set)).fetch_all(&mut self.db).await;
                set.map_err(|error| self.failed(error.into()))?;
                self.ask_for(Call::new("select nextval(leasehold_tokens)")).await?
            }
            None => {
                let next = "insert into leasehold_tokens(one, token) values(1, last_insert_id(?)) \
                            on duplicate key update token = last_insert_id(greatest(token + 1, ?))";
                self.ask(Call::new(next).number(least).number(least)).await?;
                self.ask_for(Call::new("select cast(last_insert_id() as signed)")).await?
            }
        };
        if token::is_wrong(at, token) {
            return Err(sql::wrong_clock(&self.site.options.shown).maybe_applied());
        }
        Ok(FencingToken::new(token.cast_unsigned()))
    }
}

impl advisory::Session for Session {
    fn number(&self) -> i64 {
        self.number
    }

    fn since(&self) -> &str {
        &self.since
    }

    fn is_over(&self) -> bool {
        self.tether.has_snapped()
    }

    /// What takes no writes any more follows another server, which knows none of its locks.
    async fn is_there(&mut self) -> bool {
        let is_there = matches!(session::takes_writes(&mut self.db).await, Ok(true));
        if !is_there {
            self.tether.snap();
        }
        is_there
    }

    async fn is_own(&mut self) -> Result<bool> {
        let number = self.number;
        Ok(self.ask_for(Call::new("select connection_id() = ?").number(number)).await? == 1)
    }

    async fn outlast(&mut self, span: Duration) -> Result<()> {
        let seconds = i64::try_from(span.as_nanos().div_ceil(1_000_000_000)).unwrap_or(i64::MAX);
        if self.lasts == seconds {
            return Ok(());
        }
        self.lasts = 0;
        let set = "set session wait_timeout = ?, net_read_timeout = ?, net_write_timeout = ?";
        self.ask(Call::new(set).number(seconds).number(seconds).number(seconds)).await?;
        let least = "select cast(least(@@session.wait_timeout, @@session.net_read_timeout, @@session.net_write_timeout) as signed)";
        let least = self.ask_for(Call::new(least)).await?;
        if least < seconds {
            let message = format!(
                "{} ends a session of which it hears nothing after {least} s, whatever is set; for this TTL it would have to \
                 wait {seconds} s: take a shorter TTL",
                self.site.options.shown
            );
            return Err(Error::new(ErrorKind::Misconfigured, message));
        }
        self.lasts = seconds;
        Ok(())
    }

    async fn take(&mut self, name: &LockName, _label: &str) -> Result<Option<FencingToken>> {
        let (key, has_sequences) = (self.key(name)?, self.release.has_sequences());
        let take = if has_sequences { TAKE } else { TAKE_ONLY };
        let rows = self.ask(Call::new(take).number(self.number).bytes(key)).await?;
        let read = |column| rows.first().ok_or(Fault::Garbled)?.try_get::<i64, _>(column).map_err(Fault::from);
        let (taken, at) = (read(0), read(1));
        let (taken, at) = (taken.map_err(|fault| self.failed(fault))?, at.map_err(|fault| self.failed(fault))?);
        match is_taken(taken, &self.site.options.shown)? {
            false => Ok(None),
            true => self.token(has_sequences.then_some(taken), at).await.map(Some),
        }
    }

    async fn has(&mut self, name: &LockName) -> Result<bool> {
        let (key, number) = (self.key(name)?, self.number);
        let has = "select coalesce(is_used_lock(?) = connection_id() and connection_id() = ?, 0) \
             and cast(@@global.read_only as char) in ('0', 'OFF')";
        Ok(self.ask_for(Call::new(has).bytes(key).number(number)).await? == 1)
    }

    async fn give_back(&mut self, name: &LockName) -> Result<bool> {
        let (key, number) = (self.key(name)?, self.number);
        let give_back = "select case when connection_id() = ? then coalesce(release_lock(?), 0) else 0 end as freed";
        Ok(self.ask_for(Call::new(give_back).number(number).bytes(key)).await? == 1)
    }

    async fn holder(&mut self, name: &LockName) -> Result<Option<Seen>> {
        let who = "select cast(h.id as signed), coalesce(concat(p.user, '@', p.host), '') \
                   from (select is_used_lock(?) as id) h left join information_schema.processlist p on p.id = h.id \
                   where h.id is not null";
        let rows = self.ask(Call::new(who).bytes(self.key(name)?)).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let read = || Ok::<_, Fault>((row.try_get::<i64, _>(0)?, row.try_get::<String, _>(1)?));
        let (number, since) = read().map_err(|fault| self.failed(fault))?;
        let label = if since.is_empty() { format!("session {number}") } else { format!("session {number} of {since}") };
        Ok(Some(Seen { number, since, label, library: None })) // Nothing tells whose it is.
    }

    async fn waiters(&mut self, _name: &LockName) -> Result<Vec<Waiter>> {
        Ok(Vec::new()) // The server lists who waits, but not for which lock.
    }

    async fn holders(&mut self) -> Result<Vec<(LockName, Seen)>> {
        Ok(Vec::new()) // The server knows hashes. What is held here is known here.
    }

    async fn end(&mut self, number: i64, since: &str) -> Result<()> {
        const NO_SUCH_SESSION: u16 = 1094;
        let find = "select cast(id as signed) from information_schema.processlist where id = ? and concat(user, '@', host) = ?";
        // Whose session we may not see, the server will not let us end either, and says so.
        if !since.is_empty() && self.ask(Call::new(find).number(number).text(since)).await?.is_empty() {
            return Ok(());
        }
        match Call::new("kill ?").number(number).run(&mut self.db).await {
            Err(fault) if fault.number() == Some(NO_SUCH_SESSION) => Ok(()),
            Err(fault) => Err(self.failed(fault)),
            Ok(_) => Ok(()),
        }
    }

    async fn time(&mut self) -> Result<Duration> {
        let rows = self.ask(Call::new(TIME)).await?;
        answer::time(&rows).map_err(|fault| self.site.told(fault))
    }

    async fn findings(&mut self) -> Result<Vec<Finding>> {
        let list = "a list of what is held has only what this process holds, for the server keeps names as hashes";
        Ok(vec![Finding::fine("list", list)])
    }
}

/// What the answer of [`TAKE`] says of the lock.
fn is_taken(answer: i64, shown: &str) -> Result<bool> {
    match answer {
        0 => Ok(false),
        -1 => {
            let message = format!(
                "{shown} could not say whether the lock is free (GET_LOCK answered NULL: the statement was killed, or it has no \
                 memory)"
            );
            Err(Error::new(ErrorKind::Unavailable, message).maybe_applied())
        }
        -2 => Err(shared_by_a_pooler(shown)),
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Applied;

    #[test]
    fn j08_null_is_neither_yes_nor_no() {
        assert!(TAKE.contains("when 0 then 0 else -1 end") && TAKE_ONLY.contains("coalesce(get_lock(?, 0), -1)"));
        let error = is_taken(-1, "mysql://h/x").unwrap_err();
        assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::Maybe));
        assert_eq!(is_taken(-2, "mysql://h/x").unwrap_err().kind(), ErrorKind::Misconfigured);
        assert!(!is_taken(0, "").unwrap() && is_taken(1, "").unwrap());
    }

    #[test]
    fn j06_servers_that_let_go_of_a_first_lock_are_told_by_their_version() {
        for (version, is_fit) in [
            ("5.7.4", false),
            ("5.6.51-log", false),
            ("5.7.5", true),
            ("8.0.39", true),
            ("5.5.5-10.0.1-MariaDB", false),
            ("10.0.2-MariaDB", true),
            ("5.5.5-10.11.6-MariaDB-0+deb12u1", true),
            ("11.4.2-MariaDB", true),
        ] {
            assert_eq!(Release::read(version).keeps_several_locks(), is_fit, "{version}");
        }
        assert!(Release::read("10.11.6-MariaDB").has_sequences() && !Release::read("8.0.39").has_sequences());
    }
}
