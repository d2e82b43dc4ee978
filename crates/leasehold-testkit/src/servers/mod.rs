//! Real servers for one test: on 127.0.0.1 and a free port, with a directory of their own, gone when they are dropped.
//!
//! ```no_run
//! use leasehold_testkit::servers::Redis;
//!
//! let redis = Redis::start();
//! assert_eq!(redis.command(&["SET", "name", "value"]).text(), "OK");
//! redis.pause(); // Connections stay, nothing is answered.
//! redis.resume();
//! redis.kill();
//! redis.restart(); // On the same port, with what its files hold: by default nothing.
//! ```
//!
//! They need the programs that `scripts/servers` installs; a test that finds none panics with the package's name.
//! The kernel kills them when the test process dies, however it dies; what is left of their directories the next test
//! process removes. Only Linux can do that, so this module is for Linux.
//!
//! A plain Redis is there within some 30 ms, a PostgreSQL within some 300 ms: start one for each test. Sentinels with their servers take a third of a
//! second, a cluster more than two seconds (before that Redis takes no writes, by design), and nextest gives each test a
//! process of its own: there a single test starts one and runs all its cases, with [`cases`].

mod cases;
#[cfg(feature = "tls")]
mod certificates;
mod directory;
mod etcd;
mod mariadb;
mod port;
mod postgres;
mod program;
mod redis;
mod unprivileged;

pub use cases::{Case, cases};
#[cfg(feature = "tls")]
pub use certificates::Certificates;
pub use etcd::{Etcd, EtcdCluster, EtcdOptions};
pub use mariadb::{MariaDb, MariaDbOptions};
pub use port::Port;
pub use postgres::{PgBouncer, PoolMode, Postgres, PostgresOptions};
pub use redis::{Connection, Monitor, Redis, RedisCluster, RedisOptions, RedisSentinels, Reply, slot_of};
