//! What the benchmarks of the stores in databases of servers have in common.

#[allow(dead_code, reason = "another benchmark needs all of it")]
#[path = "../redis/figures.rs"]
mod figures;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use figures::Aim;
use figures::{Figure, Spread, median, quantile};
use leasehold::{Guard, Locks};
use tokio::runtime::{Builder, Runtime};

/// What stands behind the program's name.
pub struct Arguments(Vec<String>);

impl Arguments {
    pub fn read() -> Self {
        Self(std::env::args().collect())
    }

    pub fn has(&self, flag: &str) -> bool {
        self.0.iter().any(|argument| argument == flag)
    }

    /// The number behind an option.
    pub fn number(&self, name: &str, otherwise: usize) -> usize {
        self.option(name).map_or(otherwise, |n| n.parse().unwrap_or_else(|_| panic!("{name} takes a number")))
    }

    /// Whether a case was asked for, or all.
    pub fn wants(&self, case: &str) -> bool {
        self.option("--case").is_none_or(|wanted| wanted == case)
    }

    /// Where the benchmark runs, and the bare connections with it.
    pub fn runtime(&self) -> Runtime {
        let mut runtime =
            if self.has("--one-thread") { Builder::new_current_thread() } else { Builder::new_multi_thread() };
        runtime.worker_threads(2).enable_all().build().expect("a runtime can be built")
    }

    fn option(&self, name: &str) -> Option<&str> {
        self.0.iter().position(|argument| argument == name).and_then(|at| self.0.get(at + 1)).map(String::as_str)
    }
}

/// The line above all figures.
pub fn show_header() {
    println!("{}", Figure::header());
}

/// Two things that are timed in turn.
pub struct Rounds {
    rounds: usize,
    each: usize,
}

impl Rounds {
    /// As many pairs in each round as were asked for, or a part of them of what takes longer.
    pub fn of(arguments: &Arguments, part: usize) -> Self {
        Self { rounds: arguments.number("--rounds", 15), each: arguments.number("--pairs", 200) / part }
    }

    /// Shows how much longer ours takes than theirs; each says how long it took.
    pub async fn compare(
        self,
        (case, what, aim): (&str, &str, Aim),
        mut theirs: impl AsyncFnMut() -> Duration,
        mut ours: impl AsyncFnMut() -> Duration,
    ) {
        let (mut all_theirs, mut all_ours) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            all_theirs.push(self.round(&mut theirs).await);
            all_ours.push(self.round(&mut ours).await);
        }
        let note = format!("{:.0} µs beside {:.0} µs", median(&all_ours), median(&all_theirs));
        let figure = Figure::new(case, what, Spread::ratio(&all_ours, &all_theirs), aim, note);
        println!("{}", figure.line());
    }

    /// The median of a round, in microseconds.
    async fn round(&self, job: &mut impl AsyncFnMut() -> Duration) -> f64 {
        let mut times = Vec::new();
        for _ in 0..self.each {
            times.push(job().await.as_secs_f64() * 1e6);
        }
        quantile(&mut times, 0.5)
    }
}

/// How long it takes.
pub async fn timed(job: impl Future<Output = ()>) -> Duration {
    let began = Instant::now();
    job.await;
    began.elapsed()
}

/// A client whose connection is there.
pub async fn locks(url: &str) -> Locks {
    let locks = Locks::connect(url).await.expect("the URL is right");
    pair(&locks, "warm").await;
    locks
}

pub async fn acquired(locks: &Locks, name: &str) -> Guard {
    locks.lock(name).acquire().await.expect("answered").guard().expect("it waits for ever")
}

/// A lock taken and given back.
pub async fn pair(locks: &Locks, name: &str) {
    acquired(locks, name).await.release().await.expect("answered");
}

/// Many leases of one client, renewed by the keeper; `asked` says how often the server was asked until now.
pub async fn renewal(arguments: &Arguments, locks: Locks, asked: impl Fn() -> u64) {
    let (leases, ttl, locks) = (arguments.number("--leases", 10_000), Duration::from_secs(30), Arc::new(locks));
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
    let (before, periods) = (asked(), 3);
    tokio::time::sleep(ttl / 3 * periods).await;
    let spent = (asked() - before) as f64 / f64::from(periods);
    let lost = guards.iter().filter(|guard| !guard.is_valid()).count();
    for (what, value, most) in
        [("statements per period", spent, leases.div_ceil(100) as f64 + 10.0), ("lost", lost as f64, 0.0)]
    {
        println!("{}", Figure::new("renewal", what, Spread::of([value]), Aim::AtMost(most), String::new()).line());
    }
}
