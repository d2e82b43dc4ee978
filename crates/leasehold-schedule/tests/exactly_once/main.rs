//! Jobs that complete their tick in the transaction of their work: whatever happens to their process, and at whichever statement,
//! what they write is written once. Real servers, real processes, `kill -9`.
#![cfg(all(feature = "fence-rusqlite", feature = "fence-sqlx-mysql", feature = "fence-tokio-postgres"))]

#[allow(dead_code, reason = "its main is for people")]
#[path = "../../examples/billing.rs"]
mod billing;
mod doubts;
mod endings;
mod gate;
mod mariadb;
mod postgres;
mod sqlite;
mod stage;

use leasehold_testkit::process;

#[test]
fn worker() {
    process::serve(&[
        ("postgres", postgres::work),
        ("mariadb", mariadb::work),
        ("sqlite", sqlite::work),
        ("sqlite_untold", sqlite::work_untold),
    ]);
}
