//! A connection, set up for locks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow};
use sqlx::{ConnectOptions, Connection, Row, raw_sql};
use tokio::runtime::Handle;

use super::call::{Call, Rows};
use super::fault::Fault;
use super::lane::Site;
use super::options::{Options, Place};
use super::schema::Making;
use super::{TIME, schema, shedlock};
use crate::error::ErrorKind;
use crate::stores::password::Password;

/// How long a connection may take to be made, and to answer whether it still is one.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a call may take. Much longer than any does: then the connection is given up, and with it what was asked.
const SILENCE: Duration = Duration::from_secs(5);

/// What has not said for so long that it is of use is asked first.
const FRESH: Duration = Duration::from_secs(1);

/// For the server, should it never hear of us again; we close what is idle for half as long. Locks of rows are waited
/// for a little: nobody here holds them for longer than a commit takes.
const SETTINGS: &str = "
    set names utf8mb4;
    set session transaction isolation level read committed, read write;
    set session autocommit = 1, completion_type = 0, innodb_lock_wait_timeout = 2, wait_timeout = 600,
        sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION';
    select cast(p.id as signed), cast(p.host as char) from information_schema.processlist p where p.id = connection_id()";

/// Whatever limits its administrator has set for all sessions: an answer that is cut off would be read as another one.
pub(super) const UNLIMITED: &str =
    "set session sql_big_selects = 1, sql_select_limit = 18446744073709551615 /*M! , max_statement_time = 0 */";

/// What to do where something else may be listening.
pub(super) const IF_IT_IS_SILENT: &str = "if it goes on so, name the port of a MySQL or MariaDB server";

/// A connection to a server that has the tables.
pub(super) struct Session {
    db: MySqlConnection,
    identity: Identity,
    /// Which tables it has, if they are ours.
    pub home: Option<String>,
    /// When it last said that it is there, and takes writes.
    seen: Instant,
}

/// What the server calls a connection.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    id: i64,
    host: String,
}

impl Session {
    /// A new one; `before` is one that was given up while it was asked something.
    pub async fn open(site: &Site, before: Option<&Identity>, making: Making) -> Result<Self, Fault> {
        let options = &site.options;
        let late = |_| {
            let place = &options.place;
            Fault::Unsent(ErrorKind::TimedOut, format!("{place} did not answer within {PATIENCE:?}; {IF_IT_IS_SILENT}"))
        };
        let mut db = tokio::time::timeout(PATIENCE, connect(options)).await.map_err(late)??;
        let introduced = async {
            raw_sql(UNLIMITED).execute(&mut db).await?;
            let row = raw_sql(SETTINGS).fetch_all(&mut db).await?.pop();
            check_takes_writes(&mut db, &site.has_led).await?;
            Ok::<_, Fault>(row.as_ref().map(Identity::read).transpose()?)
        };
        let identity = tokio::time::timeout(PATIENCE, introduced).await.map_err(late)??;
        let identity = identity.unwrap_or(Identity { id: 0, host: String::new() });
        // Others may be making the tables at this moment.
        let home = tokio::time::timeout(SILENCE, prepare(&mut db, options, making)).await.map_err(late)??;
        let mut session = Self { db, identity, home, seen: Instant::now() };
        if let Some(before) = before {
            session.end(before).await?;
        }
        Ok(session)
    }

    pub fn identity(&self) -> Identity {
        self.identity.clone()
    }

    /// Asks. An error that says nothing of the statement itself ends the session.
    pub async fn run(&mut self, call: Call) -> Result<Rows, Fault> {
        tokio::time::timeout(SILENCE, call.run(&mut self.db)).await.unwrap_or(Err(Fault::Late))
    }

    /// Whether it is still there, and takes writes; asked once a second. A server that was restarted, or that closes what is
    /// idle, is noticed before anything is sent that would be lost; one that follows another by now, before a user is granted
    /// anything who may write there all the same.
    pub async fn is_fit(&mut self) -> bool {
        if self.seen.elapsed() < FRESH {
            return true;
        }
        let is_fit = matches!(tokio::time::timeout(PATIENCE, takes_writes(&mut self.db)).await, Ok(Ok(true)));
        self.seen = Instant::now();
        is_fit
    }

    pub async fn close(self) {
        // If it is broken, it is closed all the same.
        let _ = tokio::time::timeout(PATIENCE, self.db.close()).await;
    }

    /// Ends another session of ours, so that what was asked there is done by now or will not be, as far
    /// as we may. Not if it was of an
    /// earlier life of the server: then its number may be another's.
    async fn end(&mut self, other: &Identity) -> Result<(), Fault> {
        if other.id >= self.identity.id {
            return Ok(());
        }
        let find = Call::new("select cast(id as signed) from information_schema.processlist where id = ? and host = ?");
        if self.run(find.number(other.id).text(&other.host)).await?.is_empty() {
            return Ok(());
        }
        match self.run(Call::new("kill ?").number(other.id)).await {
            Err(fault) if fault.number().is_none() => Err(fault),
            _ => Ok(()), // It has just ended by itself, or we may not.
        }
    }
}

impl Identity {
    fn read(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        Ok(Self { id: row.try_get(0)?, host: row.try_get(1)? })
    }
}

/// Sees to it that the tables are there; which ones they are, if they are ours.
async fn prepare(db: &mut MySqlConnection, options: &Options, making: Making) -> Result<Option<String>, Fault> {
    match &options.shedlock {
        None => schema::prepare(db, options, making).await.map(Some),
        Some(table) => shedlock::check(db, table).await.map(|_| None),
    }
}

/// Whether the server takes writes, whatever this user may do there.
pub(super) async fn takes_writes(db: &mut MySqlConnection) -> Result<bool, Fault> {
    let row = raw_sql(TIME).fetch_one(db).await?;
    Ok(row.try_get::<i64, _>(1)? == 0)
}

/// Refuses one that doesn't: a replica, or what was the primary once. One that did before is in a failover; else it is the
/// wrong one.
pub(super) async fn check_takes_writes(db: &mut MySqlConnection, has_led: &AtomicBool) -> Result<(), Fault> {
    if takes_writes(db).await? {
        has_led.store(true, Ordering::Release);
        return Ok(());
    }
    let kind = if has_led.load(Ordering::Acquire) { ErrorKind::Unavailable } else { ErrorKind::Misconfigured };
    let why = "it takes no writes (read_only): it is a replica, or was the primary once; name the primary";
    Err(Fault::Unsent(kind, why.to_owned()))
}

/// A new connection, with what the files of login and TLS hold now.
pub(super) async fn connect(options: &Options) -> Result<MySqlConnection, Fault> {
    let own = options.clone();
    let connect = async move {
        let password = own.password.read().map_err(|why| Fault::Unsent(ErrorKind::Misconfigured, why))?;
        let mut how = MySqlConnectOptions::new()
            .username(&own.user)
            .database(&own.database)
            .set_names(false)
            .pipes_as_concat(false)
            .no_engine_substitution(false)
            .timezone(None)
            .disable_statement_logging();
        if let Some(password) = password.filter(|password| !password.is_empty()) {
            how = how.password(&password);
        }
        how = match &own.place {
            Place::Tcp(host, port) => how.host(host).port(*port),
            Place::Unix(path) => how.socket(path),
        };
        own.tls.apply(how).connect().await.map_err(|error| Fault::unconnected(&error, &own.place))
    };
    if !options.tls.reads_files() && !matches!(options.password, Password::InFile(_)) {
        return connect.await;
    }
    // The client library reads the authorities that the system trusts. A disk that hangs must not hold up the keeper's
    // thread. What is spawned there runs on this runtime all the same.
    let runtime = Handle::current();
    let connected = tokio::task::spawn_blocking(move || runtime.block_on(connect)).await;
    connected.unwrap_or_else(|error| Err(Fault::Unsent(ErrorKind::Internal, error.to_string())))
}
