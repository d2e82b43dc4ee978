//! What it costs to be watched: a free lock in Redis taken and given back, metered and counted beside not, in the same run.
//!
//! ```text
//! cargo bench -p leasehold-monitor --bench overhead -- --rounds 25 --pairs 1000
//! ```
//! Starts a server of its own and puts it on one CPU, itself on another. Rounds are interleaved; a ratio is the median of the rounds'
//! ratios, with the smallest and the largest. Aim: 1.03.

use std::fs;
use std::sync::Arc;
use std::time::Instant;

use leasehold::{Event, Locks, Observer, stores};
use leasehold_monitor::Tally;
use leasehold_monitor::metrics::{Exposition, Measured, Meter};
use leasehold_testkit::servers::Redis;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

fn main() {
    let server = Redis::start();
    pin(server.id());
    let exposition = Exposition::install().expect("this process has no other recorder");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let url = server.url();
    let rounds = runtime.block_on(async { tokio::spawn(rounds(url)).await }).expect("it ran to its end");
    show(&rounds);
    assert!(exposition.render().contains("leasehold_acquisitions_total"), "it was counted");
}

/// Medians of a pair in each round, in µs: without anything that watches, and with.
struct Rounds {
    plain: Vec<f64>,
    watched: Vec<f64>,
}

async fn rounds(url: String) -> Rounds {
    let (count, pairs) = (number("--rounds", 25), number("--pairs", 1000));
    let open = || stores::open(&url).expect("the URL is right");
    let plain = Locks::over(open());
    let (meter, tally) = (Meter::new(), Tally::new());
    let counted = tally.clone();
    let observer = move |event: &Event<'_>| {
        Observer::observe(&meter, event);
        Observer::observe(&counted, event);
    };
    let watched = Locks::builder().observer(observer).over(Arc::new(Measured::over(open())));
    let _kept = tally.kept_in(&watched); // as a command has it: a note each ten seconds
    let mut rounds = Rounds { plain: Vec::new(), watched: Vec::new() };
    for round in 0..=count {
        let mut both = [(&plain, 0.0), (&watched, 0.0)];
        if round % 2 == 1 {
            both.reverse(); // Each goes first in its turn.
        }
        for (locks, median) in &mut both {
            *median = round_of(locks, pairs).await;
        }
        if round % 2 == 1 {
            both.reverse();
        }
        // The first warms up.
        if round > 0 {
            rounds.plain.push(both[0].1);
            rounds.watched.push(both[1].1);
        }
    }
    rounds
}

async fn round_of(locks: &Locks, pairs: usize) -> f64 {
    let lock = locks.lock("overhead");
    let mut times = Vec::with_capacity(pairs);
    for _ in 0..pairs {
        let began = Instant::now();
        let guard = lock.try_acquire().await.expect("the server is up").guard().expect("nobody else has it");
        guard.release().await.expect("the server is up");
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    median(&mut times)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn show(rounds: &Rounds) {
    let mut ratios: Vec<_> = rounds.plain.iter().zip(&rounds.watched).map(|(plain, watched)| watched / plain).collect();
    let ratio = median(&mut ratios);
    let (plain, watched) = (median(&mut rounds.plain.clone()), median(&mut rounds.watched.clone()));
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    let verdict = if ratio <= 1.03 { "met" } else { "MISSED" };
    println!("acquire + release, watched / not: {ratio:.3} ({least:.3}-{most:.3})  aim <= 1.03 {verdict}");
    println!("{watched:.1} µs beside {plain:.1} µs");
}

fn number(name: &str, otherwise: usize) -> usize {
    let arguments: Vec<String> = std::env::args().collect();
    let value = arguments.iter().position(|argument| argument == name).and_then(|at| arguments.get(at + 1));
    value.map_or(otherwise, |value| value.parse().unwrap_or_else(|_| panic!("{name} takes a number")))
}

/// The server on one CPU and us on another, if there are two: left to themselves they wander, and a pair takes twice as long when a
/// wake-up has to cross CPUs.
fn pin(server: u32) {
    let allowed = sched_getaffinity(Pid::from_raw(0)).expect("the system tells");
    let cpus: Vec<usize> = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect();
    let (theirs, ours) = (cpus[0], *cpus.last().expect("there is one"));
    for thread in fs::read_dir(format!("/proc/{server}/task")).expect("the server is up").flatten() {
        put(thread.file_name().to_string_lossy().parse().expect("a thread's id"), theirs);
    }
    put(0, ours); // Threads to come are put where the one is that starts them.
}

fn put(thread: i32, cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu).expect("the CPU is one of ours");
    sched_setaffinity(Pid::from_raw(thread), &set).expect("a thread may be moved");
}
