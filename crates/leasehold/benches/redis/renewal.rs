//! Many leases of one process, renewed by the keeper.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::{Event, Guard, Locks};

use crate::figures::{Aim, Figure, Spread};
use crate::machine::{cpu_time, resident};
use crate::{Bench, raw};

/// What the keeper tells.
#[derive(Default)]
struct Heard {
    renewed: AtomicU64,
    /// Renewed with less than half of the TTL left; in time would be two thirds.
    late: AtomicU64,
    failed: AtomicU64,
    lost: AtomicU64,
    smallest_margin: Mutex<Option<Duration>>,
}

impl Heard {
    fn hear(&self, event: &Event<'_>, ttl: Duration) {
        match event {
            Event::Renewed { margin, .. } => {
                self.renewed.fetch_add(1, Relaxed);
                if *margin < ttl / 2 {
                    self.late.fetch_add(1, Relaxed);
                }
                let mut smallest = self.smallest_margin.lock().expect("nobody panicked");
                *smallest = Some(smallest.map_or(*margin, |smallest| smallest.min(*margin)));
            }
            Event::RenewalFailed { .. } => drop(self.failed.fetch_add(1, Relaxed)),
            Event::Lost { .. } => drop(self.lost.fetch_add(1, Relaxed)),
            _ => {}
        }
    }
}

pub fn run(bench: &Arc<Bench>) -> Vec<Figure> {
    let sizes = bench.option("--leases").map_or(vec![10_000, 1000], |n| vec![n.parse().expect("a number")]);
    let mut figures = Vec::new();
    for (at, leases) in sizes.into_iter().enumerate() {
        figures.extend(with(bench, leases, at == 0));
    }
    figures
}

fn with(bench: &Arc<Bench>, leases: usize, is_fresh: bool) -> Vec<Figure> {
    let minutes = bench.option("--minutes").map(|n| n.parse::<f64>().expect("--minutes takes a number"));
    let ttl = Duration::from_secs(bench.number("--ttl", if minutes.is_some() { 30 } else { 6 }) as u64);
    let span = minutes.map_or(Duration::from_secs(bench.number("--seconds", 20) as u64), |minutes| {
        Duration::from_secs_f64(minutes * 60.0)
    });
    let heard = Arc::new(Heard::default());
    let ear = Arc::clone(&heard);
    let locks = Locks::builder().observer(move |event: &Event<'_>| ear.hear(event, ttl));
    let locks = locks.connect(&bench.url()).expect("the store opens");
    let (guards, memory) = bench.run_in(take(locks.clone(), leases, ttl, bench.has("--spread")));
    std::thread::sleep(ttl / 3);
    bench.forget_commands();
    let (cpu, renewed, began) = (cpu_time(), heard.renewed.load(Relaxed), Instant::now());
    std::thread::sleep(span);
    let (cpu, took) = (cpu_time() - cpu, began.elapsed());
    let renewed = (heard.renewed.load(Relaxed) - renewed) as f64;
    let (calls, micros) = bench.scripts();
    let valid = guards.iter().filter(|guard| guard.is_valid()).count();
    drop(guards);
    bench.run_in(async move { locks.shutdown().await });
    let raw = bench.run_in(by_hand(bench.url(), leases));
    let case = format!("renewal {leases}");
    let figure = |what: &str, value: f64, aim, note| Figure::new(&case, what, Spread::of([value]), aim, note);
    let per_renewal = cpu.as_secs_f64() * 1e6 / renewed;
    let margin = heard.smallest_margin.lock().expect("nobody panicked").expect("something was renewed");
    let mut figures = vec![
        figure(
            "client's CPU per renewal, µs",
            per_renewal,
            Aim::AtMost(1.0),
            format!("raw batches of 100: {raw:.2}; {:.2} % of a CPU", cpu.as_secs_f64() / took.as_secs_f64() * 100.0),
        ),
        figure(
            "commands per 100 renewals",
            calls as f64 * 100.0 / renewed,
            Aim::AtMost(1.1), // One, and a tenth for the last batch of a round, which isn't full.
            format!("{:.1} µs of the server's time each", micros as f64 / calls as f64),
        ),
        figure(
            "late renewals, failed ones, losses",
            (heard.late.load(Relaxed) + heard.failed.load(Relaxed) + heard.lost.load(Relaxed)) as f64,
            Aim::AtMost(0.0),
            format!(
                "{} late, {} failed, {} lost of {renewed} in {:.0} s at a TTL of {} s; least margin {:.0} % of it; {valid} held",
                heard.late.load(Relaxed),
                heard.failed.load(Relaxed),
                heard.lost.load(Relaxed),
                took.as_secs_f64(),
                ttl.as_secs(),
                margin.as_secs_f64() / ttl.as_secs_f64() * 100.0
            ),
        ),
    ];
    if is_fresh {
        let value = memory as f64 / leases as f64;
        figures.push(figure("bytes of memory per held lease", value, Aim::AtMost(1024.0), String::new()));
    }
    figures
}

/// Takes the locks one after the other, at once or over one time of renewal; and what they take of memory.
async fn take(locks: Locks, leases: usize, ttl: Duration, spread: bool) -> (Vec<Guard>, usize) {
    locks.lock("warm").try_acquire().await.expect("answered").guard().expect("free").release().await.expect("answered");
    let (mut guards, before) = (Vec::with_capacity(leases), resident());
    let began = tokio::time::Instant::now();
    for lease in 0..leases {
        if spread {
            tokio::time::sleep_until(began + ttl / 3 * lease as u32 / leases as u32).await;
        }
        let lock = locks.lock(&format!("job-{lease}")).ttl(ttl);
        guards.push(lock.try_acquire().await.expect("answered").guard().expect("free"));
    }
    (guards, resident().saturating_sub(before))
}

/// µs of the client's CPU for one renewal in raw batches.
async fn by_hand(url: String, leases: usize) -> f64 {
    let mut batches = raw::Batches::new(&url, leases).await;
    batches.renew_all().await;
    let cpu = cpu_time();
    for _ in 0..5 {
        batches.renew_all().await;
    }
    (cpu_time() - cpu).as_secs_f64() * 1e6 / (5 * leases) as f64
}
