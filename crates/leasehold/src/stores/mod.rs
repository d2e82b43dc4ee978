//! The stores, and how one is chosen by URL.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::store::Store;

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
mod quorum;
#[cfg(feature = "redis")]
pub mod redis;
mod secrets;
#[cfg(any(feature = "postgres", feature = "mysql"))]
#[cfg_attr(not(all(feature = "postgres", feature = "mysql")), allow(dead_code, reason = "each uses its part"))]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis"))]
#[cfg_attr(not(all(feature = "postgres", feature = "redis")), allow(dead_code, reason = "each uses its part"))]
mod tls;

pub use fallback::Fallback;
pub use memory::{Memory, Saved};
pub use quorum::Quorum;
pub use secrets::hide_secrets;

/// The kinds of stores, and the schemes of each.
const SCHEMES: [(&str, &[&str]); 5] = [
    ("etcd", &["etcd", "etcds"]),
    ("mysql", &["mysql", "mariadb"]),
    ("postgres", &["postgres", "postgresql"]),
    (
        "redis",
        &["redis", "rediss", "redis+unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"],
    ),
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
/// | `postgres://user@host:5432/database`, `postgresql://…` | tables in a PostgreSQL database | `postgres` |
/// | `postgres://…?mode=advisory`, `mysql://…?mode=advisory` | locks of sessions in the same databases | `postgres`, `mysql` |
///
/// [`Quorum`] is made of stores, not opened.
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
        #[cfg(feature = "sqlite")]
        Some("sqlite") => Ok(Arc::new(sqlite::Sqlite::open(url)?)),
        Some(kind) => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_scheme_is_told_without_the_password() {
        let error = open("postgress://bob:hunter2@h/db").unwrap_err().to_string();
        assert!(!error.contains("hunter2") && error.contains("postgress") && error.contains("postgresql"), "{error}");
    }
}
