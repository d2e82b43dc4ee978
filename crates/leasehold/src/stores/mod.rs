//! The stores, and how one is chosen by URL.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::store::Store;

mod memory;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "postgres", feature = "mysql"))]
#[cfg_attr(not(all(feature = "postgres", feature = "mysql")), allow(dead_code, reason = "each uses its part"))]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use memory::Memory;

/// The schemes of the Redis store.
const REDIS: [&str; 7] =
    ["redis", "rediss", "redis+unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"];

/// The schemes of the PostgreSQL store.
const POSTGRES: [&str; 2] = ["postgres", "postgresql"];

/// Opens the store that `url` names.
///
/// | URL | store | feature |
/// |---|---|---|
/// | `sqlite:///var/lib/leasehold/locks.db` | one SQLite file, one machine | `sqlite` |
/// | `mysql://user@host:3306/database`, `mariadb://…` | a database of a MySQL or MariaDB server, with TLS | `mysql` |
/// | `redis://host:6379/0`, `redis+unix:///run/redis.sock` | one Redis or Valkey server | `redis` |
/// | `redis+sentinel://host:26379,host:26379/NAME` | the master that sentinels name | `redis` |
/// | `redis+cluster://host:6379,host:6379` | a Redis Cluster | `redis` |
/// | `rediss://…`, `rediss+sentinel://…`, `rediss+cluster://…` | the same over TLS | `redis` |
/// | `postgres://user@host:5432/database`, `postgresql://…` | tables in a PostgreSQL database | `postgres` |
/// | `postgres://…?mode=advisory`, `mysql://…?mode=advisory` | locks of sessions in the same databases | `postgres`, `mysql` |
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the URL is none or its scheme is unknown; what the
/// store says if it can't be opened.
pub fn open(url: &str) -> Result<Arc<dyn Store>> {
    let (scheme, _) = url.split_once(':').ok_or_else(|| {
        Error::invalid(format!(
            "{:?} is no store URL; write for example sqlite:///var/lib/leasehold/locks.db",
            hide_secrets(url)
        ))
    })?;
    match scheme {
        #[cfg(feature = "redis")]
        scheme if REDIS.contains(&scheme) => Ok(Arc::new(redis::Redis::open(url)?)),
        #[cfg(not(feature = "redis"))]
        scheme if REDIS.contains(&scheme) => {
            Err(Error::invalid("this build has no Redis store; enable the feature `redis`"))
        }
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => mysql::open(url),
        #[cfg(not(feature = "mysql"))]
        "mysql" | "mariadb" => Err(Error::invalid("this build has no MySQL store; enable the feature `mysql`")),
        #[cfg(feature = "postgres")]
        scheme if POSTGRES.contains(&scheme) => postgres::open(url),
        #[cfg(not(feature = "postgres"))]
        scheme if POSTGRES.contains(&scheme) => {
            Err(Error::invalid("this build has no PostgreSQL store; enable the feature `postgres`"))
        }
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(Arc::new(sqlite::Sqlite::open(url)?)),
        #[cfg(not(feature = "sqlite"))]
        "sqlite" => Err(Error::invalid("this build has no SQLite store; enable the feature `sqlite`")),
        other => Err(Error::invalid(format!(
            "no store is called {other:?} (in {:?}); known schemes: mysql, mariadb, {}, {}, sqlite",
            hide_secrets(url),
            REDIS.join(", "),
            POSTGRES.join(", ")
        ))),
    }
}

/// The statements that make what the store at `url` needs, for whoever may create tables where its user may not; none for a
/// store that makes what it needs by itself. Asks nobody.
///
/// # Errors
/// As [`open`], without looking whether there is anything.
pub fn migration(url: &str) -> Result<Option<String>> {
    match url.split_once(':') {
        #[cfg(feature = "mysql")]
        Some(("mysql" | "mariadb", _)) => mysql::MySql::migration(url).map(Some),
        #[cfg(feature = "postgres")]
        Some((scheme, _)) if POSTGRES.contains(&scheme) => postgres::Postgres::migration(url).map(Some),
        _ => Ok(None),
    }
}

/// `url` fit to be shown: a password, in front or in the query, is replaced by `***`.
#[must_use]
pub fn hide_secrets(url: &str) -> String {
    let (front, query) = match url.find('?').map(|mark| url.split_at(mark)) {
        // A password with a ? in it, which should have been written %3F.
        Some((_, query)) if has_stray_at(&query[1..]) => {
            let at = url.rfind('@').unwrap_or_default();
            let query = url[at..].find('?').map(|mark| &url[at + mark + 1..]);
            (query.map_or(url, |query| &url[..url.len() - query.len() - 1]), query)
        }
        Some((front, query)) => (front, Some(&query[1..])),
        None => (url, None),
    };
    // The path of a file may have an @; what stands before the path (and shouldn't) may be a password.
    let host_ends = match front.strip_prefix("sqlite://") {
        Some(rest) => front.len() - rest.len() + rest.find('/').unwrap_or(rest.len()),
        None => front.len(),
    };
    let at = front[..host_ends].rfind('@');
    let is_strict = ["redis", "postgres", "mysql", "mariadb"].iter().any(|scheme| front.starts_with(scheme));
    let mut shown = match (front.find("://"), at) {
        // A user alone, as databases are told whom they know by other means.
        (Some(start), Some(at))
            if start + 3 <= at && is_strict && !front.starts_with("redis") && !front[start + 3..at].contains(':') =>
        {
            front.to_owned()
        }
        (Some(start), Some(at)) if start + 3 <= at => {
            let user = front[start + 3..at].split(':').next().unwrap_or_default();
            format!("{}{user}:***{}", &front[..start + 3], &front[at..])
        }
        (None, Some(at)) if is_strict => {
            let scheme = front.split([':', '/']).next().unwrap_or_default(); // Misspelt, too.
            format!("{scheme}:***{}", &front[at..])
        }
        _ => front.to_owned(),
    };
    // Whatever isn't known may be a password that was misspelt.
    if let Some(query) = query {
        let parts: Vec<String> = query
            .split('&')
            .map(|pair| match pair.split_once('=') {
                Some((key, _)) if !HARMLESS.contains(&key) && (is_strict || is_secret(key)) => format!("{key}=***"),
                _ => pair.to_owned(),
            })
            .collect();
        shown = format!("{shown}?{}", parts.join("&"));
    }
    shown
}

/// What may be shown of the options of servers.
const HARMLESS: [&str; 18] = [
    "namespace",
    "db",
    "user",
    "ca",
    "cert",
    "compat",
    "restart_guard",
    "max_ttl",
    "wait_replicas",
    "host",
    "port",
    "schema",
    "sslmode",
    "socket",
    "ssl-mode",
    "target_session_attrs",
    "mode",
    "key_scheme",
];

/// Whether what looks like options has an @ where an option's name should be.
pub(crate) fn has_stray_at(query: &str) -> bool {
    query.split('&').any(|pair| pair.split('=').next().is_some_and(|name| name.contains('@')))
}

fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["pass", "secret", "token", "key", "auth"].iter().any(|word| key.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_urls_are_never_shown() {
        for (url, shown) in [
            ("redis://bob:hunter2@h:1/0", "redis://bob:***@h:1/0"),
            ("redis://:hunter2@h:1/0", "redis://:***@h:1/0"),
            ("redis://u:p@ss@h", "redis://u:***@h"),
            ("sqlite:///a@b/c.db?namespace=x", "sqlite:///a@b/c.db?namespace=x"),
            ("sqlite://user:hunter2@/tmp/x.db", "sqlite://user:***@/tmp/x.db"),
            ("redis://:hun?ter2@h?namespace=x", "redis://:***@h?namespace=x"),
            ("rediss://h?ca=/x@y", "rediss://h?ca=/x@y"),
            ("redis://h?pas=hunter2&db=3", "redis://h?pas=***&db=3"),
            ("mysql://bob:hunter2@h/db?namespace=x&pw=hunter2", "mysql://bob:***@h/db?namespace=x&pw=***"),
            ("mariadb://bob@h/db?ca=/x&password_file=/y", "mariadb://bob@h/db?ca=/x&password_file=***"),
            ("mysql://bob@h/db?socket=/x&ssl-mode=required", "mysql://bob@h/db?socket=/x&ssl-mode=required"),
            ("mysql:bob:hunter2@h/db", "mysql:***@h/db"),
            ("redis:/:hunter2@h", "redis:***@h"),
            ("redis//:hunter2@h", "redis:***@h"),
            ("redis://h?password=hunter2&namespace=x", "redis://h?password=***&namespace=x"),
            (
                "redis+sentinel://u:hunter2@a,b/m?sentinel_password=x",
                "redis+sentinel://u:***@a,b/m?sentinel_password=***",
            ),
            ("postgres://u:hunter2@h/db?sslmode=require&pass=x", "postgres://u:***@h/db?sslmode=require&pass=***"),
            ("postgres://u@h/db?schema=x", "postgres://u@h/db?schema=x"),
            ("postgres://u:hun?ter2@h/db", "postgres://u:***@h/db"),
            ("postgresql:///db?host=/run/x&password=hunter2", "postgresql:///db?host=/run/x&password=***"),
            ("postgres:/u:hunter2@h/db", "postgres:***@h/db"),
            (
                "postgres://u@h/db?mode=advisory&key_scheme=with_advisory_lock&modus=x",
                "postgres://u@h/db?mode=advisory&key_scheme=with_advisory_lock&modus=***",
            ),
        ] {
            assert_eq!(hide_secrets(url), shown);
        }
        let error = open("postgress://bob:hunter2@h/db").unwrap_err().to_string();
        assert!(!error.contains("hunter2") && error.contains("postgress"), "{error}");
    }
}
