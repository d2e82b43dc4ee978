//! What a lock in a fallback costs while all is well, beside one in the primary alone: the same Redis server in the same run. And what
//! that server spends on a call under a route, beside the plain one.
//!
//! ```text
//! cargo bench -p leasehold --features redis,sqlite --bench fallback -- --rounds 15
//! ```
//! Starts a server of its own; the arbiter is a SQLite file. Rounds are interleaved; a ratio is the median of the rounds' ratios, with
//! the smallest and the largest. The background's own calls (the route at the arbiter, a look at the primary every few seconds) are
//! among those that are counted.
//!
//! `--rounds N` · `--pairs N`

#[allow(dead_code, reason = "shared with the benchmark of one server")]
#[path = "redis/figures.rs"]
mod figures;

use std::sync::Arc;
use std::time::{Duration, Instant};

use figures::{Aim, Figure, Spread, median, quantile};
use leasehold::store::{Epoch, Route, Tagged, Target};
use leasehold::stores::fallback::{Fallback, Settings};
use leasehold::stores::open;
use leasehold::{Claim, Ended, Guard, HolderId, LeaseKey, LockName, Locks, Outcome, Tick};
use leasehold_testkit::servers::Redis;

const TTL: Duration = Duration::from_secs(60);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let (server, directory) = (Redis::start(), tempfile::tempdir().expect("a directory"));
    let arbiter = format!("sqlite://{}", directory.path().join("arbiter.db").display());
    let settings = Settings::default().route_lease(Duration::from_secs(5));
    let primary = open(&server.url()).expect("a store");
    let fallback = Fallback::over(primary, open(&arbiter).expect("a store"), settings).expect("a fallback");
    let mut ours = Side::of(Locks::over(Arc::new(fallback)));
    let mut plain = Side::of(Locks::over(open(&format!("{}?namespace=plain", server.url())).expect("a store")));
    for side in [&mut ours, &mut plain] {
        side.settle().await;
    }
    println!("{}", Figure::header());
    for is_tick in [false, true] {
        compare(&server, &mut ours, &mut plain, is_tick).await;
    }
    spends(&server).await;
}

fn option(name: &str) -> Option<usize> {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments.iter().position(|argument| argument == name)?;
    Some(arguments.get(at + 1).and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{name} takes a number")))
}

async fn compare(server: &Redis, ours: &mut Side, plain: &mut Side, is_tick: bool) {
    let case = if is_tick { "tick" } else { "lock" };
    let (mut pairs, mut calls) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for round in 0..=option("--rounds").unwrap_or(15) {
        for (nth, side) in [&mut *ours, &mut *plain].into_iter().enumerate() {
            let before = scripts_called(server);
            let mut took = side.round(is_tick).await;
            if round > 0 {
                calls[nth].push((scripts_called(server) - before) as f64 / took.len() as f64);
                pairs[nth].push(quantile(&mut took, 0.5));
            }
        }
    }
    let note = format!("{:.0} µs beside {:.0} µs", median(&pairs[0]), median(&pairs[1]));
    let ratio = Spread::ratio(&pairs[0], &pairs[1]);
    println!("{}", Figure::new(case, "fallback / primary alone, acquire + release", ratio, Aim::None, note).line());
    let note = format!("{:.2} in the primary alone", median(&calls[1]));
    let (calls, aim) = (Spread::of(calls[0].iter().copied()), Aim::AtMost(2.05));
    println!("{}", Figure::new(case, "calls of the primary, acquire + release", calls, aim, note).line());
}

/// How many scripts the server has been asked for.
fn scripts_called(server: &Redis) -> u64 {
    let told = server.command(&["INFO", "commandstats"]).text();
    let line = told.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// One of the two, and the last tick that was run in it.
struct Side {
    locks: Locks,
    tick: i64,
}

impl Side {
    fn of(locks: Locks) -> Self {
        Self { locks, tick: 0 }
    }

    /// The first route is drained, and ticks are of the last hour.
    async fn settle(&mut self) {
        while !matches!(self.locks.lock("job").try_acquire().await, Ok(Outcome::Acquired(_))) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let now = self.locks.time().await.expect("it has a clock");
        self.tick = now.as_millis() as i64 - 3_600_000;
    }

    /// How long pairs took, in µs.
    async fn round(&mut self, is_tick: bool) -> Vec<f64> {
        let mut took = Vec::new();
        for _ in 0..option("--pairs").unwrap_or(500) {
            self.tick += 1;
            let lock = self.locks.lock(if is_tick { "tick" } else { "job" }).ttl(TTL);
            let lock = if is_tick { lock.tick(Tick::from_unix_millis(self.tick).expect("a tick")) } else { lock };
            let began = Instant::now();
            let guard: Guard = lock.try_acquire().await.expect("it answers").guard().expect("nobody has it");
            guard.complete().await.expect("it answers");
            took.push(began.elapsed().as_secs_f64() * 1e6);
        }
        took
    }
}

/// What the server's main thread spends on a call, in µs, with what it spends on the connection: on a busy machine no time that passes
/// says anything.
async fn spends(server: &Redis) {
    let calls = option("--pairs").unwrap_or(500) * 10;
    let store = open(&format!("{}?namespace=spent", server.url())).expect("a store");
    let primary = store.as_primary().expect("it can be one");
    let incarnation = primary.serves().await.expect("it answers").incarnation;
    let route = Route { epoch: Epoch::FIRST, target: Target::Primary(incarnation) };
    let claims: Vec<_> = (0..calls).map(claim).collect();
    let leases: Vec<_> = claims.iter().map(|claim| (lease(claim), claim.ttl)).collect();
    let release = async || {
        for (lease, _) in &leases {
            let _ = store.release(lease, Ended::default()).await.expect("it answers");
        }
    };
    let whats = ["acquire", "renew 100", "release", "claim", "renew_under 100", "release under", "serves"];
    let mut spent = whats.map(|_| Vec::new());
    for round in 0..=3 {
        let (mut nth, mut before) = (0, used(server));
        let mut note = |calls: usize| {
            let now = used(server);
            if round > 0 {
                spent[nth].push((now - before) * 1e6 / calls as f64);
            }
            (nth, before) = (nth + 1, now);
        };
        for claim in &claims {
            let _ = store.try_acquire(claim).await.expect("it answers");
        }
        note(calls);
        for batch in leases.chunks(100) {
            store.renew(batch).await;
        }
        note(calls / 100);
        release().await;
        note(calls);
        for claim in &claims {
            let _ = Tagged::claim(primary, claim, &route).await.expect("it answers");
        }
        note(calls);
        for batch in leases.chunks(100) {
            primary.renew_under(batch, &route).await;
        }
        note(calls / 100);
        release().await;
        note(calls);
        for _ in 0..calls {
            let _ = primary.serves().await.expect("it answers");
        }
        note(calls);
    }
    for (what, spent) in whats.into_iter().zip(spent) {
        println!("{}", Figure::new("server, µs", what, Spread::of(spent), Aim::None, String::new()).line());
    }
}

fn claim(number: usize) -> Claim {
    let name = LockName::new(&format!("job {number}")).expect("a name");
    Claim::new(name, HolderId::fresh(), "bench".into(), 50 * TTL)
}

fn lease(claim: &Claim) -> LeaseKey {
    LeaseKey { name: claim.name.clone(), holder: claim.holder }
}

/// The processor's time that the server's main thread has used, in seconds.
fn used(server: &Redis) -> f64 {
    let told = server.command(&["INFO", "cpu"]).text();
    let fields = told.lines().filter_map(|line| line.split_once(':'));
    let main = fields.filter(|(field, _)| field.ends_with("_main_thread"));
    main.map(|(_, value)| value.trim().parse::<f64>().expect("a number")).sum()
}
