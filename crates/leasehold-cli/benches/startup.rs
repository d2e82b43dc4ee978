//! `leasehold run NAME -- true` beside `flock -n FILE true` and `true`, interleaved, whole processes.
//!
//! ```text
//! ./scripts/build-release
//! cargo bench -p leasehold-cli --bench startup -- --binary target/release-static/leasehold --rounds 200
//! ```

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

    let run = |store: &str| {
        vec![
            binary.display().to_string(),
            "run".into(),
            "--store".into(),
            store.into(),
            "bench".into(),
            "--".into(),
            "true".into(),
        ]
    };
    let cases: [(&str, Vec<String>); 4] = [
        ("true", vec!["true".into()]),
        ("flock -n FILE true", ["flock", "-n", &file, "true"].map(String::from).to_vec()),
        ("leasehold run (NORMAL)", run(&store)),
        ("leasehold run (FULL)", run(&full)),
    ];
    let mut times = cases.clone().map(|_| Vec::with_capacity(rounds));
    for round in 0..rounds + 5 {
        for ((_, command), times) in cases.iter().zip(&mut times) {
            let took = time(command);
            if round >= 5 {
                times.push(took); // The first five warm the caches up.
            }
        }
    }
    let flock = median(&mut times[1].clone());
    for ((name, _), times) in cases.iter().zip(&mut times) {
        let middle = median(times);
        let ratio = middle.as_secs_f64() / flock.as_secs_f64();
        println!("{name:24} median {middle:>10.2?}  min {:>10.2?}  x{ratio:.2} of flock", times[0]);
    }
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

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
