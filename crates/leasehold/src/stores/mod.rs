//! The stores, and how one is chosen by URL.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::store::{Store, USUAL_TTL};

#[cfg(feature = "etcd")]
pub mod etcd;
pub mod fallback;
mod memory;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis"))]
mod password;
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis"))]
mod percent;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis", feature = "sqlite"))]
mod query;
mod quorum;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "redis")]
pub mod redlock;
mod secrets;
#[cfg(any(feature = "postgres", feature = "mysql"))]
#[cfg_attr(not(all(feature = "postgres", feature = "mysql")), allow(dead_code, reason = "each uses its part"))]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis"))]
#[cfg_attr(not(all(feature = "postgres", feature = "redis")), allow(dead_code, reason = "each uses its part"))]
mod tls;
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis"))]
mod wrong;

pub use fallback::Fallback;
pub use memory::{Memory, Saved};
pub use quorum::Quorum;
pub use secrets::hide_secrets;

/// The kinds of stores, and the schemes of each.
const SCHEMES: [(&str, &[&str]); 6] = [
    ("etcd", &["etcd", "etcds"]),
    ("mysql", &["mysql", "mariadb"]),
    ("postgres", &["postgres", "postgresql"]),
    (
        "redis",
        &["redis", "rediss", "redis+unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"],
    ),
    ("redlock", &["redlock", "redlocks"]),
    ("sqlite", &["sqlite"]),
];

/// Opens the store that `url` names.
///
/// | URL | store | feature |
/// |---|---|---|
/// | `sqlite:///var/lib/leasehold/locks.db` | one SQLite file, one machine | `sqlite` |
/// | `etcd://host:2379,host:2379`, `etcds://…` over TLS | an etcd cluster | `etcd` |
/// | `mysql://user@host:3306/database`, `mariadb://…` | a database of a MySQL or MariaDB server, with TLS | `mysql` |
/// | `redis://host:6379/0`, `redis+unix:///run/redis.sock` | one Redis or Valkey server | `redis` |
/// | `redis+sentinel://host:26379,host:26379/NAME` | the master that sentinels name | `redis` |
/// | `redis+cluster://host:6379,host:6379` | a Redis Cluster | `redis` |
/// | `rediss://…`, `rediss+sentinel://…`, `rediss+cluster://…` | the same over TLS | `redis` |
/// | `redlock://host:6379,host:6379,host:6379`, `redlocks://…` over TLS | a [`Quorum`] of independent Redis servers | `redis` |
/// | `postgres://user@host:5432/database`, `postgresql://…` | tables in a PostgreSQL database | `postgres` |
/// | `postgres://…?mode=advisory`, `mysql://…?mode=advisory` | locks of sessions in the same databases | `postgres`, `mysql` |
///
/// A [`Quorum`] of servers that have different users or options is opened by [`open_quorum`]; a [`Fallback`] is made of two stores.
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the URL is none or its scheme is unknown; what the
/// store says if it can't be opened.
pub fn open(url: &str) -> Result<Arc<dyn Store>> {
    let Some((scheme, _)) = url.split_once(':') else {
        let example = "write for example sqlite:///var/lib/leasehold/locks.db";
        return Err(Error::invalid(format!("{:?} is no store URL; {example}", hide_secrets(url))));
    };
    match kind(scheme) {
        #[cfg(feature = "etcd")]
        Some("etcd") => Ok(Arc::new(etcd::Etcd::open(url)?)),
        #[cfg(feature = "mysql")]
        Some("mysql") => mysql::open(url),
        #[cfg(feature = "postgres")]
        Some("postgres") => postgres::open(url),
        #[cfg(feature = "redis")]
        Some("redis") => Ok(Arc::new(redis::Redis::open(url)?)),
        #[cfg(feature = "redis")]
        Some("redlock") => Ok(Arc::new(open_quorum(&redlock::members(url)?)?)),
        #[cfg(feature = "sqlite")]
        Some("sqlite") => Ok(Arc::new(sqlite::Sqlite::open(url)?)),
        Some(kind) => {
            let kind = if kind == "redlock" { "redis" } else { kind };
            Err(Error::invalid(format!("this build has no store for {scheme} URLs; enable the feature `{kind}`")))
        }
        None => {
            let known: Vec<_> = SCHEMES.iter().flat_map(|(_, schemes)| *schemes).copied().collect();
            Err(Error::invalid(format!(
                "no store is called {scheme:?} (in {:?}); known schemes: {}",
                hide_secrets(url),
                known.join(", ")
            )))
        }
    }
}

/// Opens a [`Quorum`] of the stores at these URLs. Their restart guard is on, whatever they are without one.
///
/// # Errors
/// As [`open`] and [`Quorum::of`].
pub fn open_quorum(urls: &[impl AsRef<str>]) -> Result<Quorum> {
    let open = |url: &str| Ok((hide_secrets(url), self::open(&guarded(url))?));
    let members: Vec<_> = urls.iter().map(|url| open(url.as_ref())).collect::<Result<_>>()?;
    Quorum::of(members)
}

/// A Redis alone has no restart guard unless it is asked for one.
fn guarded(url: &str) -> String {
    let is_redis = url.split_once(':').and_then(|(scheme, _)| kind(scheme)) == Some("redis");
    let query = url.split_once('?').map_or("", |(_, query)| query);
    if !is_redis || query.split('&').any(|option| option.starts_with("restart_guard=")) {
        return url.to_owned();
    }
    format!("{url}{}restart_guard=on", if url.contains('?') { '&' } else { '?' })
}

/// The TTL of a lock that is given none, in the store at `url`: its [`Traits::usual_ttl`](crate::store::Traits::usual_ttl).
/// Opens nothing and asks nobody; of a URL that is wrong it says the usual, as [`open`] says what is wrong.
#[must_use]
pub fn usual_ttl(url: &str) -> Duration {
    match url.split_once(':').and_then(|(scheme, _)| kind(scheme)) {
        #[cfg(feature = "redis")]
        Some("redis") => redis::usual_ttl(url),
        _ => USUAL_TTL,
    }
}

/// The same of a quorum of these.
#[must_use]
pub fn usual_ttl_of_quorum(urls: &[impl AsRef<str>]) -> Duration {
    urls.iter().map(|url| usual_ttl(&guarded(url.as_ref()))).fold(USUAL_TTL, Duration::min)
}

fn kind(scheme: &str) -> Option<&'static str> {
    SCHEMES.iter().find(|(_, schemes)| schemes.contains(&scheme)).map(|(kind, _)| *kind)
}

/// The statements that make what the store at `url` needs, for whoever may create tables where its user may not; none for a
/// store that makes what it needs by itself. Asks nobody.
///
/// # Errors
/// As [`open`], without looking whether there is anything.
pub fn migration(url: &str) -> Result<Option<String>> {
    match url.split_once(':').and_then(|(scheme, _)| kind(scheme)) {
        #[cfg(feature = "mysql")]
        Some("mysql") => mysql::MySql::migration(url).map(Some),
        #[cfg(feature = "postgres")]
        Some("postgres") => postgres::Postgres::migration(url).map(Some),
        _ => Ok(None),
    }
}

/// Makes what is missing of what the store at `url` needs, also where its version says that all is there; what a first use
/// makes by itself, and what it leaves to somebody who asks for it, as a schema in PostgreSQL. Nothing for a store that makes
/// what it needs by itself.
///
/// # Errors
/// As [`open`]; what the server says, or why it can't be asked.
///
/// # Cancel safety
/// Dropped, some of it may have been made. What is missing then is made by the next one.
pub async fn migrate(url: &str) -> Result<()> {
    match url.split_once(':').and_then(|(scheme, _)| kind(scheme)) {
        #[cfg(feature = "mysql")]
        Some("mysql") => mysql::MySql::migrate(url).await,
        #[cfg(feature = "postgres")]
        Some("postgres") => postgres::Postgres::migrate(url).await,
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_guarded_unless_they_say_otherwise() {
        assert_eq!(guarded("redis://h?db=1"), "redis://h?db=1&restart_guard=on");
        assert_eq!(guarded("redis://h"), "redis://h?restart_guard=on");
        for as_it_is in ["redis://h?restart_guard=off", "sqlite:///x.db"] {
            assert_eq!(guarded(as_it_is), as_it_is);
        }
    }

    #[test]
    fn an_unknown_scheme_is_told_without_the_password() {
        let error = open("postgress://bob:hunter2@h/db").unwrap_err().to_string();
        assert!(!error.contains("hunter2") && error.contains("postgress") && error.contains("postgresql"), "{error}");
    }
}
