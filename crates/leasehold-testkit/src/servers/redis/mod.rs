//! Redis, as Debian ships it.

mod clock;
mod cluster;
mod connection;
mod monitor;
mod options;
mod sentinels;
mod server;

pub use cluster::{RedisCluster, slot_of};
pub use connection::{Connection, Reply};
pub use monitor::Monitor;
pub use options::RedisOptions;
pub use sentinels::RedisSentinels;
pub use server::Redis;
