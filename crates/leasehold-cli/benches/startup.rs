//! `leasehold run NAME -- true` beside `flock -n FILE true`, and over Redis beside `redis-cli SET …` and `true` after
//! it; interleaved, whole processes. A ratio is the median of the rounds' ratios.
//!
//! ```text
//! ./scripts/build-release
//! cargo bench -p leasehold-cli --bench startup -- --binary target/release-static/leasehold --rounds 200
//! ```

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leasehold_testkit::servers::Redis;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let option = |name: &str| arguments.iter().position(|a| a == name).and_then(|at| arguments.get(at + 1)).cloned();
    let rounds: usize = option("--rounds").map_or(200, |n| n.parse().expect("--rounds takes a number"));
    let binary = PathBuf::from(option("--binary").unwrap_or_else(|| env!("CARGO_BIN_EXE_leasehold").into()));
    let binary =
        binary.canonicalize().or_else(|_| PathBuf::from("../..").join(&binary).canonicalize()).expect("--binary");
    let dir = option("--dir").map_or_else(|| std::env::temp_dir().join("leasehold-bench"), PathBuf::from);
    std::fs::create_dir_all(&dir).expect("a folder to work in");
    let store = format!("sqlite://{}/locks.db", dir.display());
    let full = format!("{store}?synchronous=full");
    let file = dir.join("flock").display().to_string();

    let redis = Redis::start();
    let port = redis.port().to_string();
    let set = words(&["redis-cli", "-p", &port, "SET", "startup", "v", "NX", "PX", "30000"]);
    let run =
        |store: &str| vec![words(&[&binary.display().to_string(), "run", "--store", store, "bench", "--", "true"])];

    // Each beside an earlier one.
    let cases = [
        ("true", 0, vec![words(&["true"])]),
        ("flock -n FILE true", 0, vec![words(&["flock", "-n", &file, "true"])]),
        ("leasehold run (SQLite, NORMAL)", 1, run(&store)),
        ("leasehold run (SQLite, FULL)", 1, run(&full)),
        ("redis-cli SET, then true", 0, vec![set, words(&["true"])]),
        ("leasehold run (Redis)", 4, run(&redis.url())),
    ];
    let mut times = [const { Vec::new() }; 6];
    for round in 0..rounds + 5 {
        for ((_, _, commands), times) in cases.iter().zip(&mut times) {
            let took: Duration = commands.iter().map(|command| time(command)).sum();
            if round >= 5 {
                times.push(took.as_secs_f64() * 1e3); // The first five warm the caches up.
            }
        }
    }
    for ((name, beside, _), took) in cases.iter().zip(&times) {
        let ratios: Vec<f64> = took.iter().zip(&times[*beside]).map(|(ours, theirs)| ours / theirs).collect();
        let (middle, ratio, beside) = (median(took), median(&ratios), cases[*beside].0);
        println!("{name:30} median {middle:>6.2} ms  min {:>6.2} ms  x{ratio:.2} of {beside}", least(took));
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn time(command: &[String]) -> Duration {
    let began = Instant::now();
    let status = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .expect("it can be started");
    let took = began.elapsed();
    assert!(status.success(), "{command:?}: {status}");
    took
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}
