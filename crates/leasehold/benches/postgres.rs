//! What locks in PostgreSQL cost, beside the cheapest bare statements for the same thing in the same run.
//!
//! ```text
//! cargo bench -p leasehold --features postgres --bench postgres -- --rounds 15 --case pair
//! ```
//! Starts a server of its own, whose commits wait for the disk (`--no-disk`: they don't). Rounds are interleaved; a ratio
//! is the median of the rounds' ratios, with the smallest and the largest.
//!
//! `--one-thread`: in a runtime of one thread, not of two workers. A bare connection's answers are then taken by the thread that
//! asks, as ours are by that of the sessions; with two workers they pass from one thread to another.
//!
//! `--case pair|advisory|handover|renewal` (default: all) · `--rounds N` · `--pairs N` · `--leases N`

mod sql;

use std::time::{Duration, Instant};

use leasehold_testkit::servers::Postgres;
use sql::{Aim, Arguments, Rounds, acquired, locks, timed};
use tokio_postgres::{Client, NoTls};

/// As bare as it can be: an update each, over a ready connection, prepared.
const RAW_ACQUIRE: &str = "update raw set holder = $1, token = token + 1, expires = clock_timestamp() + interval '30 s' \
                           where name = 'job' and expires < clock_timestamp() returning token";
const RAW_RELEASE: &str =
    "update raw set expires = 'epoch' where name = 'job' and holder = $1 and expires > clock_timestamp()";

fn main() {
    let arguments = Arguments::read();
    arguments.runtime().block_on(measure(&arguments));
}

async fn measure(arguments: &Arguments) {
    let options = Postgres::options();
    let server = if arguments.has("--no-disk") { options.start() } else { options.durable().start() };
    server.sql(
        "create table raw(name text primary key, holder text, token bigint, expires timestamptz) with (fillfactor = 50); \
         insert into raw values ('job', null, 0, 'epoch')",
    );
    sql::show_header();
    if arguments.wants("pair") {
        pair(&server, Rounds::of(arguments, 1)).await;
    }
    if arguments.wants("advisory") {
        advisory(&server, Rounds::of(arguments, 1)).await;
    }
    if arguments.wants("handover") {
        hand_over(&server, Rounds::of(arguments, 10)).await;
    }
    if arguments.wants("renewal") {
        server.sql("alter system set track_functions = 'pl'");
        server.sql("select pg_reload_conf()");
        sql::renewal(arguments, locks(&server.url()).await, || renewals(&server)).await;
    }
}

async fn connect(server: &Postgres) -> Client {
    let config = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", server.port());
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    client
}

/// How often it was asked to renew; only where it counts calls of functions.
fn renewals(server: &Postgres) -> u64 {
    let count = "select coalesce(sum(calls), 0) from pg_stat_user_functions where funcname = 'leasehold_v4_renew'";
    server.sql(count).parse().expect("a number")
}

/// One lock taken and given back, again and again, by one task.
async fn pair(server: &Postgres, rounds: Rounds) {
    let (raw, locks) = (connect(server).await, locks(&server.url()).await);
    let (acquire, release) = (raw.prepare(RAW_ACQUIRE).await.unwrap(), raw.prepare(RAW_RELEASE).await.unwrap());
    let holder = "0123456789abcdef0123456789abcdef";
    let theirs = async || {
        raw.query_one(&acquire, &[&holder]).await.expect("it is free");
        raw.execute(&release, &[&holder]).await.expect("answered");
    };
    let what = ("pair", "ours / bare statements", Aim::AtMost(1.10));
    rounds.compare(what, async || timed(theirs()).await, async || timed(sql::pair(&locks, "job")).await).await;
}

/// The same with session locks, beside those alone.
async fn advisory(server: &Postgres, rounds: Rounds) {
    let url = format!("{}?mode=advisory&namespace=advisory", server.url());
    let (raw, locks) = (connect(server).await, locks(&url).await);
    let acquire = raw.prepare("select pg_try_advisory_lock($1)").await.unwrap();
    let release = raw.prepare("select pg_advisory_unlock($1)").await.unwrap();
    let theirs = async || {
        raw.query_one(&acquire, &[&7_i64]).await.expect("answered");
        raw.query_one(&release, &[&7_i64]).await.expect("answered");
    };
    let what = ("advisory", "ours / bare statements", Aim::AtMost(1.10));
    rounds.compare(what, async || timed(theirs()).await, async || timed(sql::pair(&locks, "job")).await).await;
}

/// From the call of `release` to the return of another client's `acquire`.
async fn hand_over(server: &Postgres, rounds: Rounds) {
    let (one, other, ping) = (locks(&server.url()).await, locks(&server.url()).await, connect(server).await);
    let write = ping.prepare("update raw set token = token + 1 where name = 'job'").await.unwrap();
    let trip = async || {
        tokio::time::sleep(Duration::from_millis(2)).await;
        timed(async { assert_eq!(ping.execute(&write, &[]).await.expect("answered"), 1) }).await
    };
    let ours = async || {
        let held = acquired(&one, "job").await;
        let waiter = other.clone();
        let waiting = tokio::spawn(async move {
            let guard = acquired(&waiter, "job").await;
            (Instant::now(), guard)
        });
        while one.inspect("job").await.expect("answered").is_none_or(|holding| holding.waiting == 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let began = Instant::now();
        held.release().await.expect("answered");
        let (got, guard) = waiting.await.expect("it ran to its end");
        guard.release().await.expect("answered");
        got.saturating_duration_since(began)
    };
    rounds.compare(("handover", "median / an idle round trip that writes", Aim::AtMost(2.5)), trip, ours).await;
}
