//! Distributed locks for background jobs: each must run in one place at a time, although many could run it.
//!
//! A lock is a *lease* in a store: it renews itself while it is held, frees itself if its holder dies, and tells its
//! holder in time if it is lost. Every grant has a fencing token that grows.
//!
//! ```
//! use leasehold::stores::Memory;
//! use leasehold::{Locks, Outcome, Ran};
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> leasehold::Result<()> {
//! // With the feature `sqlite`: Locks::connect("sqlite:///var/lib/leasehold/locks.db").await?
//! let locks = Locks::over(Arc::new(Memory::default()));
//!
//! // Try once …
//! match locks.lock("nightly-backup").try_acquire().await? {
//!     Outcome::Acquired(guard) => {
//!         println!("working with token {}", guard.token());
//!         guard.release().await?;
//!     }
//!     Outcome::Contended(other) => println!("{} has it", other.label),
//!     Outcome::NotDue(why) => println!("{why}"), // Only of a tick or a key.
//! }
//!
//! // … or wait in line, run, and release whatever happens.
//! let ran = locks.lock("billing").run(async |guard| guard.token()).await?;
//! assert!(matches!(ran, Ran::Done(_)));
//! # Ok(()) }
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | acquiring, waiting, running a job | [`Lock`] |
//! | what you hold, and losing it | [`Guard`], [`LossReason`] |
//! | once per run of a schedule; at most so many at a time | [`Lock::tick`], [`Lock::permits`] |
//! | a piece of work that is to be done once | [`Locks::once`] |
//! | several locks at once | [`MultiLock`] |
//! | seeing what others do with a lock | [`Watching`] |
//! | code without async | [`blocking`] |
//! | what happens, as it happens | [`Observer`], [`Event`] |
//! | refusing the write of a paused holder | `fence`, with the feature of your database's client |
//! | work that is done exactly once | `Guard::complete_in`, of `fence` |
//! | writing a store | [`Store`] and its contract; the suite in `leasehold-testkit` |
//! | why a deadline is when it is | [`validity`] |
//!
//! # Features
//!
//! | feature | brings |
//! |---|---|
//! | `etcd` | locks in an etcd cluster, also over TLS, for the processes of many machines |
//! | `mysql` | locks in tables of a MySQL or MariaDB database (TLS), for the processes of many machines |
//! | `postgres` | locks in tables of a PostgreSQL database (TLS, PgBouncer), for the processes of many machines |
//! | `redis` | locks in Redis (one server, Sentinel, Cluster, TLS), for the processes of many machines |
//! | `sqlite` | locks in one SQLite file, for the processes of one machine |
//! | `fence-rusqlite` | `sqlite`, and the module `fence`: a paused holder can't write in a transaction of a `rusqlite` connection any more |
//! | `fence-sqlx-mysql` | `mysql`, and the same for a transaction of `sqlx` in MySQL or MariaDB |
//! | `fence-tokio-postgres` | `postgres`, and the same for a transaction of `tokio_postgres` |
//! | `traced` | [`layers`]`::Traced`: `tracing` spans around the store's calls |
//! | `simulation` | for tests: chance from a seed, and rules that can be broken |
//!
//! Nothing is on by default but the memory store. Linux only so far: deadlines count on `CLOCK_BOOTTIME`. The futures
//! need a Tokio runtime with its timer on; renewals need none of yours, for the keeper has a thread and a runtime of
//! its own.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod blocking;
mod bound;
mod chance;
mod error;
mod event;
#[cfg(any(feature = "fence-rusqlite", feature = "fence-sqlx-mysql", feature = "fence-tokio-postgres"))]
pub mod fence;
mod finding;
mod guard;
mod hold;
mod keeper;
pub mod layers;
mod lease;
mod lock;
mod locks;
mod marks;
pub mod member;
mod multi;
mod name;
mod presence;
#[cfg_attr(not(feature = "simulation"), allow(dead_code, reason = "broken by simulations only"))]
mod rule;
#[cfg(feature = "simulation")]
pub mod simulation;
mod span;
pub mod store;
pub mod stores;
mod tick;
pub mod validity;
mod wait;
mod watching;

pub use bound::Bound;
pub use error::{Applied, Error, ErrorKind, Result};
pub use event::{Event, Observer};
pub use finding::{Finding, Severity};
pub use guard::{Guard, LossReason, Released};
pub use lease::{
    Attempt, Claim, Ended, FencingToken, Grant, HandOver, Holder, HolderId, Holding, LeaseKey, Place, Release, Renewal,
    Revoke, Waiter,
};
pub use lock::{Lock, Outcome, Ran, Wait};
pub use locks::{Locks, LocksBuilder};
pub use multi::{MultiGuard, MultiLock};
pub use name::{LockName, Namespace};
pub use span::Span;
pub use store::Store;
pub use tick::{Due, NotDue, OpenTick, Standing, TICK_SLACK, Tick, Verdict};
pub use watching::Watching;
