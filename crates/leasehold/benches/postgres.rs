//! What locks in PostgreSQL cost, beside the cheapest bare statements for the same thing in the same run.
//!
//! ```text
//! cargo bench -p leasehold --features postgres --bench postgres -- --rounds 15 --case pair
//! ```
//! Starts a server of its own, whose commits wait for the disk (`--no-disk`: they don't). Rounds are interleaved; a ratio
//! is the median of the rounds' ratios, with the smallest and the largest.
//!
//! `--case pair|advisory|handover|renewal` (default: all) · `--rounds N` · `--pairs N` · `--leases N`

#[allow(dead_code, reason = "another benchmark needs all of it")]
#[path = "redis/figures.rs"]
mod figures;

use std::sync::Arc;
use std::time::{Duration, Instant};

use figures::{Aim, Figure, Spread, median, quantile};
use leasehold::{Guard, Locks};
use leasehold_testkit::servers::Postgres;
use tokio_postgres::{Client, NoTls};

struct Bench {
    server: Postgres,
    arguments: Vec<String>,
}

/// As bare as it can be: an update each, over a ready connection, prepared.
const RAW_ACQUIRE: &str = "update raw set holder = $1, token = token + 1, expires = clock_timestamp() + interval '30 s' \
                           where name = 'job' and expires < clock_timestamp() returning token";
const RAW_RELEASE: &str =
    "update raw set expires = 'epoch' where name = 'job' and holder = $1 and expires > clock_timestamp()";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let options = if arguments.iter().any(|argument| argument == "--no-disk") {
        Postgres::options()
    } else {
        Postgres::options().durable()
    };
    let bench = Bench { server: options.start(), arguments };
    bench.server.sql(
        "create table raw(name text primary key, holder text, token bigint, expires timestamptz) with (fillfactor = 50); \
         insert into raw values ('job', null, 0, 'epoch')",
    );
    let case = bench.option("--case");
    let wanted = |name: &str| case.as_deref().is_none_or(|case| case == name);
    println!("{}", Figure::header());
    if wanted("pair") {
        pair(&bench).await.iter().for_each(|figure| println!("{}", figure.line()));
    }
    if wanted("advisory") {
        advisory(&bench).await.iter().for_each(|figure| println!("{}", figure.line()));
    }
    if wanted("handover") {
        hand_over(&bench).await.iter().for_each(|figure| println!("{}", figure.line()));
    }
    if wanted("renewal") {
        renewal(&bench).await.iter().for_each(|figure| println!("{}", figure.line()));
    }
}

impl Bench {
    fn option(&self, name: &str) -> Option<String> {
        self.arguments.iter().position(|argument| argument == name).and_then(|at| self.arguments.get(at + 1)).cloned()
    }

    fn number(&self, name: &str, otherwise: usize) -> usize {
        self.option(name).map_or(otherwise, |n| n.parse().unwrap_or_else(|_| panic!("{name} takes a number")))
    }

    async fn connect(&self) -> Client {
        let config = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", self.server.port());
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await.expect("the server answers");
        tokio::spawn(connection);
        client
    }

    async fn locks(&self) -> Locks {
        let locks = Locks::connect(&self.server.url()).await.expect("the URL is right");
        acquired(&locks, "warm").await.release().await.expect("answered");
        locks
    }

    fn commits(&self) -> u64 {
        let count = "select xact_commit from pg_stat_database where datname = 'postgres'";
        self.server.sql(count).parse().expect("a number")
    }
}

async fn acquired(locks: &Locks, name: &str) -> Guard {
    locks.lock(name).acquire().await.expect("answered").guard().expect("it waits for ever")
}

/// One lock taken and given back, again and again, by one task.
async fn pair(bench: &Bench) -> Vec<Figure> {
    let (rounds, pairs) = (bench.number("--rounds", 15), bench.number("--pairs", 200));
    let (raw, locks) = (bench.connect().await, bench.locks().await);
    let (acquire, release) = (raw.prepare(RAW_ACQUIRE).await.unwrap(), raw.prepare(RAW_RELEASE).await.unwrap());
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut times = Vec::new();
        for _ in 0..pairs {
            let began = Instant::now();
            raw.query_one(&acquire, &[&"0123456789abcdef0123456789abcdef"]).await.expect("it is free");
            raw.execute(&release, &[&"0123456789abcdef0123456789abcdef"]).await.expect("answered");
            times.push(micros(began));
        }
        theirs.push(quantile(&mut times, 0.5));
        let mut times = Vec::new();
        for _ in 0..pairs {
            let began = Instant::now();
            acquired(&locks, "job").await.release().await.expect("answered");
            times.push(micros(began));
        }
        ours.push(quantile(&mut times, 0.5));
    }
    let note = format!("{:.0} µs beside {:.0} µs", median(&ours), median(&theirs));
    vec![Figure::new("pair", "ours / bare statements", Spread::ratio(&ours, &theirs), Aim::AtMost(1.10), note)]
}

/// The same with session locks, beside those alone.
async fn advisory(bench: &Bench) -> Vec<Figure> {
    let (rounds, pairs) = (bench.number("--rounds", 15), bench.number("--pairs", 200));
    let url = format!("{}?mode=advisory&namespace=advisory", bench.server.url());
    let (raw, locks) = (bench.connect().await, Locks::connect(&url).await.expect("the URL is right"));
    let acquire = raw.prepare("select pg_try_advisory_lock($1)").await.unwrap();
    let release = raw.prepare("select pg_advisory_unlock($1)").await.unwrap();
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut times = Vec::new();
        for _ in 0..pairs {
            let began = Instant::now();
            raw.query_one(&acquire, &[&7_i64]).await.expect("answered");
            raw.query_one(&release, &[&7_i64]).await.expect("answered");
            times.push(micros(began));
        }
        theirs.push(quantile(&mut times, 0.5));
        let mut times = Vec::new();
        for _ in 0..pairs {
            let began = Instant::now();
            acquired(&locks, "job").await.release().await.expect("answered");
            times.push(micros(began));
        }
        ours.push(quantile(&mut times, 0.5));
    }
    let note = format!("{:.0} µs beside {:.0} µs", median(&ours), median(&theirs));
    vec![Figure::new("advisory", "ours / bare statements", Spread::ratio(&ours, &theirs), Aim::AtMost(1.10), note)]
}

/// From the call of `release` to the return of another client's `acquire`.
async fn hand_over(bench: &Bench) -> Vec<Figure> {
    let (rounds, each) = (bench.number("--rounds", 15), bench.number("--pairs", 200) / 10);
    let (one, other, ping) = (bench.locks().await, bench.locks().await, bench.connect().await);
    let (mut trips, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut times = Vec::new();
        for _ in 0..each {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let began = Instant::now();
            ping.simple_query("select 1").await.expect("answered");
            times.push(micros(began));
        }
        trips.push(quantile(&mut times, 0.5));
        let mut times = Vec::new();
        for _ in 0..each {
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
            times.push(got.saturating_duration_since(began).as_secs_f64() * 1e6);
            guard.release().await.expect("answered");
        }
        ours.push(quantile(&mut times, 0.5));
    }
    let note = format!("{:.0} µs beside {:.0} µs", median(&ours), median(&trips));
    vec![Figure::new("handover", "median / an idle round trip", Spread::ratio(&ours, &trips), Aim::AtMost(2.5), note)]
}

/// Many leases of one client, renewed by the keeper.
async fn renewal(bench: &Bench) -> Vec<Figure> {
    let leases = bench.number("--leases", 10_000);
    let ttl = Duration::from_secs(30);
    let locks = Arc::new(bench.locks().await);
    let mut guards = Vec::new();
    for many in (0..leases).collect::<Vec<_>>().chunks(500) {
        let tasks: Vec<_> = many
            .iter()
            .map(|nth| {
                let lock = locks.lock(&format!("lease {nth}")).ttl(ttl);
                tokio::spawn(async move { lock.acquire().await.expect("answered").guard().expect("it is free") })
            })
            .collect();
        for task in tasks {
            guards.push(task.await.expect("it ran to its end"));
        }
    }
    let before = bench.commits();
    let periods = 3;
    tokio::time::sleep(ttl / 3 * periods).await;
    let spent = (bench.commits() - before) as f64 / f64::from(periods);
    let lost = guards.iter().filter(|guard| !guard.is_valid()).count();
    let figure = |what: &str, value, aim| Figure::new("renewal", what, Spread::of([value]), aim, String::new());
    vec![
        figure("statements per period", spent, Aim::AtMost(leases.div_ceil(100) as f64 + 10.0)),
        figure("lost", lost as f64, Aim::AtMost(0.0)),
    ]
}

fn micros(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e6
}
