//! What locks in MariaDB cost, beside the cheapest bare statements for the same thing in the same run.
//!
//! ```text
//! cargo bench -p leasehold --features mysql --bench mysql -- --rounds 15 --case pair
//! ```
//! Starts a server of its own, whose commits wait for the disk (`--no-disk`: they don't). Rounds are interleaved; a ratio
//! is the median of the rounds' ratios, with the smallest and the largest.
//!
//! `--one-thread`: in a runtime of one thread, not of two workers. A bare connection's answers are then taken by the thread that
//! asks, as ours are by that of the sessions; with two workers they pass from one thread to another.
//!
//! `--case pair|advisory|contended|renewal` (default: all) · `--rounds N` · `--pairs N` · `--leases N`

mod sql;

use leasehold_testkit::servers::MariaDb;
use sql::{Aim, Arguments, Rounds, acquired, locks, timed};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{Connection, MySqlConnection};

/// As bare as it can be with a token and a mark in a row of its own: an update of both rows for the acquire, one for the
/// release, over a ready connection, prepared.
const RAW_ACQUIRE: &str = "update raw_fence f join raw_locks l on l.name = f.name \
    set l.holder = ?, l.expires = utc_timestamp(6) + interval 30 second, f.token = last_insert_id(f.token + 1) \
    where f.name = 'job' and l.name = 'job' and l.expires < utc_timestamp(6)";
const RAW_RELEASE: &str =
    "update raw_locks set expires = '1970-01-02' where name = 'job' and holder = ? and expires > utc_timestamp(6)";

fn main() {
    let arguments = Arguments::read();
    arguments.runtime().block_on(measure(&arguments));
}

async fn measure(arguments: &Arguments) {
    let options = MariaDb::options();
    let server = if arguments.has("--no-disk") { options.start() } else { options.durable().start() };
    server.sql(
        "create table raw_fence(name varbinary(200) primary key, token bigint); \
         create table raw_locks(name varbinary(200) primary key, holder varbinary(32), expires datetime(6)); \
         insert into raw_fence values ('job', 0); insert into raw_locks values ('job', null, '1970-01-02')",
    );
    sql::show_header();
    if arguments.wants("pair") {
        pair(&server, Rounds::of(arguments, 1)).await;
    }
    if arguments.wants("advisory") {
        advisory(&server, Rounds::of(arguments, 1)).await;
    }
    if arguments.wants("contended") {
        contended(&server, Rounds::of(arguments, 1)).await;
    }
    if arguments.wants("renewal") {
        sql::renewal(arguments, locks(&server.url()).await, || calls(&server)).await;
    }
}

async fn connect(server: &MariaDb) -> MySqlConnection {
    let options = MySqlConnectOptions::new().host("127.0.0.1").port(server.port());
    let options = options.username("jobs").password("hunter2").database("jobs");
    MySqlConnection::connect_with(&options).await.expect("the server answers")
}

fn calls(server: &MariaDb) -> u64 {
    let said = server.sql("show global status like 'Com_call_procedure'");
    said.split_whitespace().nth(1).and_then(|calls| calls.parse().ok()).expect("a number")
}

/// One lock taken and given back, again and again, by one task.
async fn pair(server: &MariaDb, rounds: Rounds) {
    let (mut raw, locks) = (connect(server).await, locks(&server.url()).await);
    let holder = "0123456789abcdef0123456789abcdef";
    let mut theirs = async || {
        let granted = sqlx::query(RAW_ACQUIRE).bind(holder).execute(&mut raw).await.expect("answered");
        assert_eq!(granted.rows_affected(), 2, "it is free");
        sqlx::query(RAW_RELEASE).bind(holder).execute(&mut raw).await.expect("answered");
    };
    let what = ("pair", "ours / bare statements", Aim::AtMost(1.10));
    rounds.compare(what, async || timed(theirs()).await, async || timed(sql::pair(&locks, "job")).await).await;
}

/// The same with session locks, beside those alone.
async fn advisory(server: &MariaDb, rounds: Rounds) {
    let url = format!("{}?mode=advisory&namespace=advisory", server.url());
    let (mut raw, locks) = (connect(server).await, locks(&url).await);
    let mut theirs = async || {
        sqlx::query("select get_lock(?, 0)").bind("bare").fetch_all(&mut raw).await.expect("answered");
        sqlx::query("select release_lock(?)").bind("bare").fetch_all(&mut raw).await.expect("answered");
    };
    let what = ("advisory", "ours / bare statements", Aim::AtMost(1.10));
    rounds.compare(what, async || timed(theirs()).await, async || timed(sql::pair(&locks, "job")).await).await;
}

/// A try that is in vain, beside a look at the row.
async fn contended(server: &MariaDb, rounds: Rounds) {
    let (mut raw, holder, locks) = (connect(server).await, locks(&server.url()).await, locks(&server.url()).await);
    let held = acquired(&holder, "job").await;
    let mut theirs = async || {
        let look = "select holder, expires from raw_locks where name = 'job'";
        sqlx::query(look).fetch_all(&mut raw).await.expect("answered");
    };
    let ours = async || assert!(locks.lock("job").try_acquire().await.expect("answered").guard().is_none());
    let what = ("contended", "a try / a look at the row", Aim::None);
    rounds.compare(what, async || timed(theirs()).await, async || timed(ours()).await).await;
    held.release().await.expect("answered");
}
