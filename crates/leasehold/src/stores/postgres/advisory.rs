//! Session locks of PostgreSQL: `pg_try_advisory_lock`.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::try_join3;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row, Statement};

use super::fault::{self, Fault};
use super::link::{Given, Server};
use super::options::Options;
use super::session::drain;
use super::{TIME, doctor};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::lease::{FencingToken, Waiter, foreign_label};
use crate::name::LockName;
use crate::stores::sql::advisory::{self, Seen, Tether, shared_by_a_pooler, token};
use crate::stores::sql::{self, KeyScheme};

/// The longest name of an application, in bytes.
const LONGEST: usize = 63;

/// The longest time-out that the server takes, in milliseconds.
const LONGEST_MS: u32 = i32::MAX.unsigned_abs();

/// The first release whose server ends a session of which it hears nothing.
const ENDS_IDLE: i32 = 140_000;

/// What stands before the lock's name in what a session calls itself.
const OURS: &str = "leasehold ";

/// The sessions of a server.
pub(super) struct Advisory {
    server: Arc<Server>,
    statements: Arc<Statements>,
}

struct Statements {
    adopt: String,
    is_own: String,
    take: String,
    token: String,
    has: String,
    give_back: String,
    holders: String,
    waiters: String,
}

/// A session that is ours alone.
pub(super) struct Session {
    server: Arc<Server>,
    statements: Arc<Statements>,
    prepared: Option<Prepared>,
    client: Client,
    tether: Arc<Tether>,
    /// What the session says of itself when it is asked, and no other does.
    mark: String,
    number: i64,
    since: String,
    /// The server's release.
    release: i32,
    /// For how long the server keeps it though it hears nothing, in milliseconds.
    lasts: i64,
    /// What it calls itself, for whoever asks who has the lock.
    application: String,
}

/// What is asked often.
struct Prepared {
    take: Statement,
    has: Statement,
    give_back: Statement,
}

impl Advisory {
    pub fn new(options: Options) -> Self {
        let statements = Arc::new(Statements::of(&options));
        Self { server: Arc::new(Server::new(options)), statements }
    }
}

impl Statements {
    /// Each looks first whether it has come to the session that is meant: behind a pooler it might come to any, and a lock
    /// that is taken twice there is taken without a word.
    fn of(options: &Options) -> Self {
        let (schema, is_pair) = (&options.schema, options.key_scheme == KeyScheme::WithAdvisoryLock);
        let key = if is_pair { "($1 >> 32)::integer, 0" } else { "$1" };
        let tokens = format!("{schema}.leasehold_tokens").replace('\'', "''");
        let is_own = "current_setting('leasehold.session', true) is not distinct from $2";
        let database = "(select oid from pg_database where datname = current_database())";
        let all = format!(
            "l.locktype = 'advisory' and l.database = {database} and l.objsubid = {}",
            if is_pair { 2 } else { 1 }
        );
        let locks = format!("{all} and l.granted");
        Self {
            adopt: "select set_config('leasehold.session', $1, false), pg_backend_pid()::bigint, \
                        current_setting('server_version_num')::integer, coalesce( \
                            (select backend_start::text from pg_stat_activity where pid = pg_backend_pid()), '') \
                    where coalesce(current_setting('leasehold.session', true), '') = ''"
                .to_owned(),
            is_own:
                "select current_setting('leasehold.session', true) is not distinct from $1 and pg_backend_pid() = $2"
                    .to_owned(),
            take: format!(
                "select case when not {is_own} then -1::bigint when not pg_try_advisory_lock({key}) then 0 \
                 when $3 is not null and set_config('application_name', $3, false) is null then -1 \
                 else nextval('{tokens}') end, clock_timestamp()"
            ),
            token: format!("select {schema}.leasehold_v2_token()"),
            has: format!(
                "select {is_own} and not pg_is_in_recovery() and exists (select from pg_locks l where {locks} \
                 and l.pid = pg_backend_pid() and l.classid = (($1 >> 32) & 4294967295)::oid \
                 and l.objid = ($1 & 4294967295)::oid)"
            ),
            give_back: format!("select {is_own} and pg_advisory_unlock({key})"),
            holders: format!(
                "select l.pid::bigint, coalesce(a.backend_start::text, ''), coalesce(a.application_name, ''), \
                     (l.classid::bigint << 32) | l.objid::bigint \
                 from pg_locks l left join pg_stat_activity a on a.pid = l.pid \
                 where {locks} and ($1 is null or l.classid = (($1 >> 32) & 4294967295)::oid \
                     and l.objid = ($1 & 4294967295)::oid)"
            ),
            // Since when, says a column of PostgreSQL 14 and later.
            waiters: format!(
                "select l.pid::bigint, coalesce(a.application_name, ''), (extract(epoch from clock_timestamp() \
                     - (to_jsonb(l) ->> 'waitstart')::timestamptz) * 1000000)::bigint as waited \
                 from pg_locks l left join pg_stat_activity a on a.pid = l.pid \
                 where {all} and not l.granted and l.classid = (($1 >> 32) & 4294967295)::oid \
                     and l.objid = ($1 & 4294967295)::oid \
                 order by waited desc nulls last, l.pid"
            ),
        }
    }
}

impl advisory::Server for Advisory {
    type Session = Session;
    const KIND: &'static str = "postgres";
    const LOOKS: Option<Duration> = None; // The end of a connection is told by the task that reads from it.

    fn shown(&self) -> &str {
        &self.server.options.shown
    }

    fn check(&self, _name: &LockName) -> Result<()> {
        Ok(())
    }

    async fn connect(&self, tether: Arc<Tether>) -> Result<Session> {
        let told = |fault| fault::told(fault, &self.server.options.shown);
        let (client, unasked) = self.server.connect("advisory").await.map_err(told)?;
        let ended = Arc::clone(&tether);
        tokio::spawn(async move {
            drain(unasked).await;
            ended.snap();
        });
        let mark = format!("{:032x}", rand::random::<u128>());
        let adopted = client.query_typed(&self.statements.adopt, &[(&mark, Type::TEXT)]).await;
        let adopted = adopted.map_err(|error| told(Fault::Sent(error)))?;
        let row = adopted.first().ok_or_else(|| shared_by_a_pooler(&self.server.options.shown))?;
        let number = row.try_get(1).map_err(|error| told(error.into()))?;
        let release = row.try_get(2).map_err(|error| told(error.into()))?;
        let since = row.try_get(3).map_err(|error| told(error.into()))?;
        self.server.prepare(&client).await.map_err(told)?;
        let (server, statements) = (Arc::clone(&self.server), Arc::clone(&self.statements));
        Ok(Session {
            server,
            statements,
            prepared: None,
            client,
            tether,
            mark,
            number,
            since,
            release,
            lasts: 0,
            application: String::new(),
        })
    }

    fn lacks_tables(&self) -> bool {
        self.server.lacks_tables()
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        let findings = doctor::diagnose(&self.server, doctor::User::Sessions).await;
        findings.map_err(|fault| fault::told(fault, self.shown()))
    }

    fn how_to_end(&self, number: i64) -> String {
        format!("have somebody who may run `select pg_terminate_backend({number})`")
    }
}

impl Session {
    /// The server's last word may come before the connection's end is noticed.
    fn told(&self, error: tokio_postgres::Error) -> Error {
        let fault = Fault::Sent(error);
        if fault.is_of_missing_tables() {
            self.server.has_lost_tables();
        }
        if fault.breaks() {
            self.tether.snap();
        }
        fault::told(fault, &self.server.options.shown)
    }

    fn key(&self, name: &LockName) -> i64 {
        self.server.options.key_scheme.number(&self.server.options.namespace, name)
    }

    async fn ask(&self, statement: &str, given: &[Given<'_>]) -> Result<Vec<Row>> {
        self.client.query_typed(statement, given).await.map_err(|error| self.told(error))
    }

    fn read<T: tokio_postgres::types::FromSqlOwned>(&self, row: &Row, column: usize) -> Result<T> {
        row.try_get(column).map_err(|error| self.told(error))
    }

    /// Not before it is proven that the session is ours.
    async fn prepared(&mut self) -> Result<&Prepared> {
        if self.prepared.is_none() {
            let Statements { take, has, give_back, .. } = &*self.statements;
            let prepare = |statement, types| self.client.prepare_typed(statement, types);
            let (key, both) = ([Type::INT8, Type::TEXT, Type::TEXT], [Type::INT8, Type::TEXT]);
            let prepared = try_join3(prepare(take, &key), prepare(has, &both), prepare(give_back, &both)).await;
            let (take, has, give_back) = prepared.map_err(|error| self.told(error))?;
            self.prepared = Some(Prepared { take, has, give_back });
        }
        self.prepared.as_ref().ok_or_else(|| Error::new(ErrorKind::Internal, "nothing was prepared"))
    }

    /// A token larger than all before, for a lock that is held by now: that of the sequence, unless it is behind the clock.
    async fn token(&self, drawn: i64, at: SystemTime) -> Result<FencingToken> {
        let at = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if token::is_wrong(at, drawn) {
            return Err(sql::wrong_clock(&self.server.options.shown).maybe_applied());
        }
        if drawn >= token::least(at) {
            return Ok(FencingToken::new(drawn.cast_unsigned()));
        }
        let row = self.client.query_typed_one(&self.statements.token, &[]).await.map_err(|error| self.told(error))?;
        self.read::<i64>(&row, 0).map(|token| FencingToken::new(token.cast_unsigned()))
    }

    /// What keeps the server from keeping it for so long.
    async fn shortest(&self) -> Result<Option<i64>> {
        let settings = "select name, setting::bigint from pg_settings where name in ('idle_session_timeout', \
                        'tcp_user_timeout', 'tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count')";
        let mut found = std::collections::HashMap::new();
        for row in self.ask(settings, &[]).await? {
            found.insert(self.read::<String>(&row, 0)?, self.read::<i64>(&row, 1)?);
        }
        let of = |name: &str| found.get(name).copied().unwrap_or(0);
        // 0: it never ends over that; over a Unix socket none of TCP's counts.
        let silence = match of("tcp_keepalives_idle") {
            0 => 0,
            idle => (idle + of("tcp_keepalives_interval") * of("tcp_keepalives_count")) * 1000,
        };
        Ok([of("idle_session_timeout"), of("tcp_user_timeout"), silence].into_iter().filter(|&ms| ms > 0).min())
    }

    fn seen(&self, row: &Row) -> Result<(Option<LockName>, Seen)> {
        let (application, key) = (self.read::<String>(row, 2)?, self.read::<i64>(row, 3)?);
        let (name, label) = self.who(&application, key);
        let number = self.read(row, 0)?;
        let library = (!application.starts_with(OURS)).then(|| self.library());
        let label = match library {
            Some(_) => self.stranger(&application, number),
            None if label.is_empty() => format!("session {number}"),
            None => label,
        };
        Ok((name, Seen { number, since: self.read(row, 1)?, label, library }))
    }

    /// By what strangers take the same locks.
    fn library(&self) -> &'static str {
        match self.server.options.key_scheme {
            KeyScheme::Leasehold => "pg_locks",
            KeyScheme::WithAdvisoryLock => "with_advisory_lock",
        }
    }

    /// The label of a session that is none of ours.
    fn stranger(&self, application: &str, number: i64) -> String {
        let session = format!("session {number}");
        let shown = if application.is_empty() { session } else { format!("{application}, {session}") };
        foreign_label(Some(self.library()), &shown)
    }

    /// The lock's name, if it can be read from what a session calls itself, and the rest of that. The key tells where the
    /// name ends.
    fn who(&self, application: &str, key: i64) -> (Option<LockName>, String) {
        let Some(ours) = application.strip_prefix(OURS) else { return (None, application.to_owned()) };
        for (at, _) in ours.match_indices(' ').chain([(ours.len(), "")]) {
            if let Ok(name) = LockName::new(&ours[..at])
                && self.key(&name) == key
            {
                return (Some(name), ours[at..].trim_start().to_owned());
            }
        }
        (None, ours.to_owned())
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
        self.client.is_closed() || self.tether.has_snapped()
    }

    async fn is_there(&mut self) -> bool {
        self.client.check_connection().await.is_ok()
    }

    async fn is_own(&mut self) -> Result<bool> {
        let rows = self.ask(&self.statements.is_own, &[(&self.mark, Type::TEXT), (&self.number, Type::INT8)]).await?;
        rows.first().map_or(Ok(false), |row| self.read(row, 0))
    }

    async fn outlast(&mut self, span: Duration) -> Result<()> {
        let ms = u32::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(LONGEST_MS).min(LONGEST_MS);
        if self.lasts == i64::from(ms) {
            return Ok(());
        }
        // Half of it in silence, and the rest with four questions that nobody answers.
        let idle = ms.div_ceil(2000);
        let settings = [
            ("tcp_user_timeout", ms),
            ("tcp_keepalives_idle", idle),
            ("tcp_keepalives_interval", idle.div_ceil(4)),
            ("tcp_keepalives_count", 4),
            ("idle_session_timeout", ms),
        ];
        let known = if self.release < ENDS_IDLE { &settings[..4] } else { &settings };
        let set: Vec<_> = known.iter().map(|(name, value)| format!("set_config('{name}', '{value}', false)")).collect();
        self.lasts = 0;
        self.ask(&format!("select {}", set.join(", ")), &[]).await?;
        if let Some(shortest) = self.shortest().await?.filter(|&shortest| shortest < i64::from(ms)) {
            let message = format!(
                "{} ends a session of which it hears nothing after {shortest} ms, whatever is set; for this TTL it would have \
                 to wait {ms} ms: take a shorter TTL",
                self.server.options.shown
            );
            return Err(Error::new(ErrorKind::Misconfigured, message));
        }
        self.lasts = i64::from(ms);
        Ok(())
    }

    async fn take(&mut self, name: &LockName, label: &str) -> Result<Option<FencingToken>> {
        let (key, shown) = (self.key(name), application(name, label));
        let take = self.prepared().await?.take.clone();
        // Setting it costs as much as taking the lock.
        let new = (shown != self.application).then_some(&shown);
        let row = self.client.query_one(&take, &[&key, &self.mark, &new]).await.map_err(|error| self.told(error))?;
        let (taken, at) = (self.read(&row, 0)?, self.read(&row, 1)?);
        match taken {
            0 => Ok(None),
            -1 => Err(shared_by_a_pooler(&self.server.options.shown)),
            token => {
                self.application = shown;
                self.token(token, at).await.map(Some)
            }
        }
    }

    async fn has(&mut self, name: &LockName) -> Result<bool> {
        let (key, has) = (self.key(name), self.prepared().await?.has.clone());
        let row = self.client.query_one(&has, &[&key, &self.mark]).await.map_err(|error| self.told(error))?;
        self.read(&row, 0)
    }

    async fn give_back(&mut self, name: &LockName) -> Result<bool> {
        let (key, give_back) = (self.key(name), self.prepared().await?.give_back.clone());
        let row = self.client.query_one(&give_back, &[&key, &self.mark]).await.map_err(|error| self.told(error))?;
        self.read(&row, 0)
    }

    async fn holder(&mut self, name: &LockName) -> Result<Option<Seen>> {
        let rows = self.ask(&self.statements.holders, &[(&self.key(name), Type::INT8)]).await?;
        rows.first().map(|row| self.seen(row).map(|(_, seen)| seen)).transpose()
    }

    async fn waiters(&mut self, name: &LockName) -> Result<Vec<Waiter>> {
        let rows = self.ask(&self.statements.waiters, &[(&self.key(name), Type::INT8)]).await?;
        let waiter = |row: &Row| {
            let label = self.stranger(&self.read::<String>(row, 1)?, self.read(row, 0)?);
            Ok(Waiter { holder: None, label, waited: self.read::<Option<i64>>(row, 2)?.map(sql::span) })
        };
        rows.iter().map(waiter).collect()
    }

    async fn holders(&mut self) -> Result<Vec<(LockName, Seen)>> {
        let rows = self.ask(&self.statements.holders, &[(&None::<i64>, Type::INT8)]).await?;
        let seen: Vec<_> = rows.iter().map(|row| self.seen(row)).collect::<Result<_>>()?;
        Ok(seen.into_iter().filter_map(|(name, seen)| Some((name?, seen))).collect())
    }

    async fn end(&mut self, number: i64, since: &str) -> Result<()> {
        let end = "select pg_terminate_backend(pid) from pg_stat_activity \
                   where pid = $1 and coalesce(backend_start::text, '') = $2";
        self.ask(end, &[(&number, Type::INT8), (&since, Type::TEXT)]).await.map(drop)
    }

    async fn time(&mut self) -> Result<Duration> {
        let rows = self.ask(TIME, &[]).await?;
        let row = rows.first().ok_or_else(|| shared_by_a_pooler(&self.server.options.shown))?;
        if self.read(row, 1)? {
            return Err(fault::told(Fault::of_a_standby(), &self.server.options.shown));
        }
        self.read(row, 0).map(sql::span)
    }

    async fn findings(&mut self) -> Result<Vec<Finding>> {
        let mut findings = vec![match self.release {
            ENDS_IDLE.. => Finding::fine("silence", "the server ends a session of which it hears nothing"),
            _ => Finding::warning(
                "silence",
                "this release does not end a session that is idle: a holder that is stopped keeps its lock",
                "use PostgreSQL 14 or later, or the lease table (leave out mode=advisory)",
            ),
        }];
        // Of this database. Those that only listen, for leases, have such a lock, too.
        let held = "select count(*), coalesce(extract(epoch from max(clock_timestamp() - a.state_change))::bigint, 0) \
                    from pg_stat_activity a where a.application_name like 'leasehold %' \
                    and a.application_name !~ '^leasehold (waits|locks|keeper|doctor|hosts|migrate) [0-9]+$' \
                    and a.datname = current_database() and exists \
                    (select from pg_locks l where l.pid = a.pid and l.locktype = 'advisory' and l.objsubid < 3 and l.granted)";
        if let Some(row) = self.ask(held, &[]).await?.first() {
            let (count, longest): (i64, i64) = (self.read(row, 0)?, self.read(row, 1)?);
            let message =
                format!("{count} have locks; nothing was heard of one for {longest} s, of the others for less");
            findings.push(Finding::fine("holders", if count == 0 { "nobody has a lock".to_owned() } else { message }));
        }
        Ok(findings)
    }
}

/// What a session calls itself: `leasehold NAME LABEL`, as far as there is room.
fn application(name: &LockName, label: &str) -> String {
    let mut shown = format!("{OURS}{name} {label}");
    let end = (0..=LONGEST.min(shown.len())).rev().find(|&end| shown.is_char_boundary(end)).unwrap_or_default();
    shown.truncate(end);
    shown
}

/// Which kind of lock a namespace has: the first one that is used there.
pub(super) async fn agree(client: &Client, options: &Options) -> Result<(), Fault> {
    if options.key_scheme != KeyScheme::Leasehold {
        return Ok(()); // Others' locks, which know no namespaces.
    }
    let mode = options.mode.name();
    let statement = format!("call {}.leasehold_v4_mode($1, $2, null, $3)", options.schema);
    let question = rand::random::<i64>();
    let given =
        [(&options.namespace.as_str() as _, Type::TEXT), (&mode as _, Type::TEXT), (&question as _, Type::INT8)];
    let row = client.query_typed_one(&statement, &given).await?;
    if row.try_get::<_, i64>(1)? != question {
        return Err(Fault::AnothersAnswer);
    }
    let agreed: String = row.try_get(0)?;
    if agreed == mode {
        return Ok(());
    }
    Err(Fault::Told(Box::new(sql::another_mode(&options.shown, &options.namespace, &agreed))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i13_a_session_says_which_lock_and_host() {
        let name = |text| LockName::new(text).unwrap();
        assert_eq!(application(&name("nightly backup"), "db1/77/x"), "leasehold nightly backup db1/77/x");
        assert_eq!(application(&name(&"é".repeat(99)), "db1/77").len(), 62);
    }
}
