//! What locks in MariaDB cost, beside the cheapest bare statements for the same thing in the same run.
//!
//! ```text
//! cargo bench -p leasehold --features mysql --bench mysql -- --rounds 15 --case pair
//! ```
//! Starts a server of its own, whose commits wait for the disk (`--no-disk`: they don't). Rounds are interleaved; a ratio
//! is the median of the rounds' ratios, with the smallest and the largest.
//!
//! `--case pair|advisory|contended|renewal` (default: all) · `--rounds N` · `--pairs N` · `--leases N`

#[allow(dead_code, reason = "the figures of other stores need more of it")]
#[path = "redis/figures.rs"]
mod figures;

use std::sync::Arc;
use std::time::{Duration, Instant};

use figures::{Aim, Figure, Spread, median, quantile};
use leasehold::{Guard, Locks};
use leasehold_testkit::servers::MariaDb;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{Connection, MySqlConnection};

struct Bench {
    server: MariaDb,
    arguments: Vec<String>,
}

/// As bare as it can be with a token and a mark in a row of its own: an update of both rows for the acquire, one for the
/// release, over a ready connection, prepared.
const RAW_ACQUIRE: &str = "update raw_fence f join raw_locks l on l.name = f.name \
    set l.holder = ?, l.expires = utc_timestamp(6) + interval 30 second, f.token = last_insert_id(f.token + 1) \
    where f.name = 'job' and l.name = 'job' and l.expires < utc_timestamp(6)";
const RAW_RELEASE: &str =
    "update raw_locks set expires = '1970-01-02' where name = 'job' and holder = ? and expires > utc_timestamp(6)";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let is_lazy = arguments.iter().any(|argument| argument == "--no-disk");
    let options = if is_lazy { MariaDb::options() } else { MariaDb::options().durable() };
    let bench = Bench { server: options.start(), arguments };
    bench.server.sql(
        "create table raw_fence(name varbinary(200) primary key, token bigint); \
         create table raw_locks(name varbinary(200) primary key, holder varbinary(32), expires datetime(6)); \
         insert into raw_fence values ('job', 0); insert into raw_locks values ('job', null, '1970-01-02')",
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
    if wanted("contended") {
        contended(&bench).await.iter().for_each(|figure| println!("{}", figure.line()));
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

    async fn connect(&self) -> MySqlConnection {
        let options = MySqlConnectOptions::new().host("127.0.0.1").port(self.server.port());
        let options = options.username("jobs").password("hunter2").database("jobs");
        MySqlConnection::connect_with(&options).await.expect("the server answers")
    }

    async fn locks(&self) -> Locks {
        let locks = Locks::connect(&self.server.url()).await.expect("the URL is right");
        acquired(&locks, "warm").await.release().await.expect("answered");
        locks
    }

    fn calls(&self) -> u64 {
        let said = self.server.sql("show global status like 'Com_call_procedure'");
        said.split_whitespace().nth(1).and_then(|calls| calls.parse().ok()).expect("a number")
    }
}

async fn acquired(locks: &Locks, name: &str) -> Guard {
    locks.lock(name).acquire().await.expect("answered").guard().expect("it waits for ever")
}

/// One lock taken and given back, again and again, by one task.
async fn pair(bench: &Bench) -> Vec<Figure> {
    let (rounds, pairs) = (bench.number("--rounds", 15), bench.number("--pairs", 200));
    let (mut raw, locks) = (bench.connect().await, bench.locks().await);
    let holder = "0123456789abcdef0123456789abcdef";
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut times = Vec::new();
        for _ in 0..pairs {
            let began = Instant::now();
            let granted = sqlx::query(RAW_ACQUIRE).bind(holder).execute(&mut raw).await.expect("answered");
            assert_eq!(granted.rows_affected(), 2, "it is free");
            sqlx::query(RAW_RELEASE).bind(holder).execute(&mut raw).await.expect("answered");
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
    let (mut raw, locks) = (bench.connect().await, Locks::connect(&url).await.expect("the URL is right"));
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut times = Vec::new();
        for _ in 0..pairs {
            let began = Instant::now();
            sqlx::query("select get_lock(?, 0)").bind("bare").fetch_all(&mut raw).await.expect("answered");
            sqlx::query("select release_lock(?)").bind("bare").fetch_all(&mut raw).await.expect("answered");
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

/// A try that is in vain, beside a look at the row.
async fn contended(bench: &Bench) -> Vec<Figure> {
    let (rounds, tries) = (bench.number("--rounds", 15), bench.number("--pairs", 200));
    let (mut raw, holder, locks) = (bench.connect().await, bench.locks().await, bench.locks().await);
    let held = acquired(&holder, "job").await;
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut times = Vec::new();
        for _ in 0..tries {
            let began = Instant::now();
            let look = "select holder, expires from raw_locks where name = 'job'";
            sqlx::query(look).fetch_all(&mut raw).await.expect("answered");
            times.push(micros(began));
        }
        theirs.push(quantile(&mut times, 0.5));
        let mut times = Vec::new();
        for _ in 0..tries {
            let began = Instant::now();
            assert!(locks.lock("job").try_acquire().await.expect("answered").guard().is_none());
            times.push(micros(began));
        }
        ours.push(quantile(&mut times, 0.5));
    }
    held.release().await.expect("answered");
    let note = format!("{:.0} µs beside {:.0} µs", median(&ours), median(&theirs));
    vec![Figure::new("contended", "a try / a look at the row", Spread::ratio(&ours, &theirs), Aim::None, note)]
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
    let before = bench.calls();
    let periods = 3;
    tokio::time::sleep(ttl / 3 * periods).await;
    let spent = (bench.calls() - before) as f64 / f64::from(periods);
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
