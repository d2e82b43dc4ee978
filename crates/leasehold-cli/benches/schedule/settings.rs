//! What is measured, and how much of it; and what both parts share.

use std::path::PathBuf;
use std::time::Duration;

use leasehold_schedule::{Schedule, Timestamp};

pub struct Settings {
    pub idle: bool,
    pub burst: bool,
    pub jobs: usize,
    pub seconds: u64,
    pub due: usize,
    pub nodes: usize,
    pub stores: Vec<String>,
    pub dir: PathBuf,
    /// This process is a node of a burst.
    pub node: Option<Node>,
}

/// What a node is told.
pub struct Node {
    pub url: String,
    pub at: Timestamp,
    pub due: usize,
}

impl Settings {
    pub fn parse() -> Self {
        let mut settings = Self {
            idle: false,
            burst: false,
            jobs: 10_000,
            seconds: 60,
            due: 1000,
            nodes: 5,
            stores: ["sqlite", "redis", "postgres", "etcd"].map(str::to_owned).to_vec(),
            dir: std::env::temp_dir(),
            node: None,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().expect("a value after the option");
            match argument.as_str() {
                "idle" => settings.idle = true,
                "burst" => settings.burst = true,
                "--jobs" => settings.jobs = value().parse().expect("a number of jobs"),
                "--seconds" => settings.seconds = value().parse().expect("a number of seconds"),
                "--due" => settings.due = value().parse().expect("a number of jobs"),
                "--nodes" => settings.nodes = value().parse().expect("a number of nodes"),
                "--stores" => settings.stores = value().split(',').map(str::to_owned).collect(),
                "--dir" => settings.dir = value().into(),
                "--node" => {
                    let (url, at) = (value(), value().parse().expect("an instant"));
                    settings.node = Some(Node { url, at, due: value().parse().expect("a number of jobs") });
                }
                // Cargo passes --bench.
                _ => {}
            }
        }
        if !settings.idle && !settings.burst {
            (settings.idle, settings.burst) = (true, true);
        }
        settings
    }
}

/// A schedule that is due at this second of the day.
pub fn daily_at(at: Timestamp) -> Schedule {
    let second = at.as_second().rem_euclid(24 * 3600);
    let text = format!("{} {} {} * * *", second % 60, second / 60 % 60, second / 3600);
    Schedule::parse(&text, Some("UTC")).expect("it is right")
}

/// How late it is.
pub fn late_for(tick: leasehold::Tick) -> Duration {
    let late = Timestamp::now().as_microsecond() - tick.as_unix_millis() * 1000;
    Duration::from_micros(late.try_into().unwrap_or(0))
}

/// The one in the middle, and the last.
pub fn median_and_last(spans: &mut [Duration]) -> (Duration, Duration) {
    spans.sort_unstable();
    (spans[spans.len() / 2], spans[spans.len() - 1])
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}
