//! Many tasks over one handle, each with a lock of its own.

use std::sync::Arc;
use std::time::Instant;

use crate::Bench;
use crate::clients::{Client, Clients, WAYS};
use crate::figures::{Aim, Figure, Spread, median};

const TASKS: [usize; 2] = [64, 1000];

pub async fn run(bench: Arc<Bench>) -> Vec<Figure> {
    let clients = Clients::new(&bench).await;
    let mut figures = Vec::new();
    if let Some(way) = bench.option("--way") {
        let (way, tasks) = (way.parse().expect("--way takes 0 to 3"), bench.number("--tasks", TASKS[1]));
        let of_tasks = of_tasks(&clients, way, tasks).await;
        one_round(&of_tasks, bench.number("--pairs", 10_000).div_ceil(tasks)).await;
        return figures;
    }
    for tasks in TASKS {
        figures.extend(with(&bench, &clients, tasks).await);
    }
    figures
}

async fn with(bench: &Bench, clients: &Clients, tasks: usize) -> Vec<Figure> {
    let (rounds, each) = (bench.number("--rounds", 9), bench.number("--pairs", 10_000).div_ceil(tasks));
    let mut ways = Vec::new();
    for way in 0..WAYS.len() {
        ways.push((of_tasks(clients, way, tasks).await, Vec::new()));
    }
    for round in 0..=rounds {
        for way in 0..ways.len() {
            let (clients, said) = &mut ways[(way + round) % WAYS.len()];
            let rate = one_round(clients, each).await;
            if round > 0 {
                said.push(rate);
            }
        }
    }
    let compare = |way: usize, beside: usize, aim| {
        let (ours, theirs) = (&ways[way].1, &ways[beside].1);
        let note = format!("{:.0}k/s beside {:.0}k/s", median(ours) / 1e3, median(theirs) / 1e3);
        let what = format!("{tasks} tasks, {} / {}", WAYS[way], WAYS[beside]);
        Figure::new("throughput", &what, Spread::ratio(ours, theirs), aim, note)
    };
    vec![compare(3, 0, Aim::AtLeast(0.9)), compare(2, 0, Aim::None), compare(1, 0, Aim::None), compare(3, 1, Aim::None)]
}

async fn of_tasks(clients: &Clients, way: usize, tasks: usize) -> Vec<Client> {
    let mut of_tasks = Vec::new();
    for task in 0..tasks {
        of_tasks.push(clients.of(way, &format!("task-{task}")).await);
    }
    of_tasks
}

/// Pairs per second.
async fn one_round(clients: &[Client], each: usize) -> f64 {
    let began = Instant::now();
    let tasks: Vec<_> = clients
        .iter()
        .cloned()
        .map(|mut client| {
            tokio::spawn(async move {
                for number in 0..each {
                    client.pair(number as u64).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("it ran to its end");
    }
    (clients.len() * each) as f64 / began.elapsed().as_secs_f64()
}
