//! One lock taken and given back, again and again, by one task: how long it takes, and what it costs the server.

use std::sync::Arc;
use std::time::Instant;

use crate::Bench;
use crate::clients::{Client, Clients, WAYS};
use crate::figures::{Aim, Figure, Spread, median, quantile};
use crate::machine::cpu_time;

/// What one round says of one way.
#[derive(Default)]
struct Rounds {
    /// Median, in µs.
    pair: Vec<f64>,
    server: Vec<f64>,
    cpu: Vec<f64>,
}

pub async fn run(bench: Arc<Bench>) -> Vec<Figure> {
    let (rounds, pairs) = (bench.number("--rounds", 25), bench.number("--pairs", 1000));
    let clients = Clients::new(&bench).await;
    let mut ways = Vec::new();
    for way in 0..WAYS.len() {
        ways.push((clients.of(way, "pair").await, Rounds::default()));
    }
    let mut number = 0;
    if let Some(way) = bench.option("--way") {
        let (client, _) = &mut ways[way.parse::<usize>().expect("--way takes 0 to 3")];
        one_round(&bench, client, rounds * pairs, &mut number).await;
        return Vec::new();
    }
    for round in 0..=rounds {
        for way in 0..ways.len() {
            let (client, said) = &mut ways[(way + round) % WAYS.len()]; // Each goes first in its turn.
            let one = one_round(&bench, client, pairs, &mut number).await;
            if round > 0 {
                said.pair.push(one.0);
                said.server.push(one.1);
                said.cpu.push(one.2);
            }
        }
    }
    let said: Vec<Rounds> = ways.into_iter().map(|(_, said)| said).collect();
    figures(&said, bench.has("--one-cpu"))
}

async fn one_round(bench: &Bench, client: &mut Client, pairs: usize, number: &mut u64) -> (f64, f64, f64) {
    let mut times = Vec::with_capacity(pairs);
    let (scripts, cpu) = (bench.scripts(), cpu_time());
    for _ in 0..pairs {
        *number += 1;
        let began = Instant::now();
        client.pair(*number).await;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    let cpu = (cpu_time() - cpu).as_secs_f64() * 1e6 / pairs as f64;
    let (calls, micros) = bench.scripts();
    (quantile(&mut times, 0.5), (micros - scripts.1) as f64 / (calls - scripts.0) as f64, cpu)
}

fn figures(said: &[Rounds], one_cpu: bool) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut compare = |what: &str, way: usize, beside: usize, of: fn(&Rounds) -> &Vec<f64>, aim| {
        let (ours, theirs) = (of(&said[way]), of(&said[beside]));
        let note = format!("{:.1} µs beside {:.1} µs", median(ours), median(theirs));
        figures.push(Figure::new("pair", what, Spread::ratio(ours, theirs), aim, note));
    };
    let aim = Aim::AtMost(if one_cpu { 1.45 } else { 1.20 });
    compare("Locks / raw fence pair", 3, 0, |of| &of.pair, aim);
    compare("store alone / raw fence pair", 2, 0, |of| &of.pair, Aim::None);
    compare("our commands by hand / raw fence pair", 1, 0, |of| &of.pair, Aim::None);
    compare("Locks / our commands by hand", 3, 1, |of| &of.pair, Aim::None);
    compare("server's time per call, ours / raw", 3, 0, |of| &of.server, Aim::AtMost(2.3));
    compare("client's CPU per pair, Locks / raw", 3, 0, |of| &of.cpu, Aim::None);
    compare("client's CPU per pair, Locks / by hand", 3, 1, |of| &of.cpu, Aim::None);
    figures
}
