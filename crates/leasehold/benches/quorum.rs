//! What a lock in a quorum of Redis servers costs, beside a bare parallel `SET NX` to all of them in the same run.
//!
//! ```text
//! cargo bench -p leasehold --features redis --bench quorum -- --rounds 15
//! ```
//! Starts servers of its own, all on this machine. Rounds are interleaved; a ratio is the median of the rounds' ratios, with the
//! smallest and the largest. Both take the lock when a majority has answered, and everything is sent to all before that.
//!
//! `--rounds N` · `--pairs N` · `--nodes 3|5` (default: both)

#[allow(dead_code, reason = "shared with the benchmark of one server")]
#[path = "redis/figures.rs"]
mod figures;

use std::sync::Arc;
use std::time::{Duration, Instant};

use figures::{Aim, Figure, Spread, median, quantile};
use leasehold::stores::open_quorum;
use leasehold::{Locks, Outcome};
use leasehold_testkit::servers::Redis;
use redis::aio::MultiplexedConnection;
use tokio::sync::mpsc::unbounded_channel;

/// Larger than all guards that are waited for, and small enough to wait for it once.
const TTL: Duration = Duration::from_secs(2);
const RELEASE: &str = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) else return 0 end";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    println!("{}", Figure::header());
    for nodes in [3, 5] {
        if option("--nodes").is_none_or(|wanted| wanted == nodes) {
            compare(nodes).await;
        }
    }
}

fn option(name: &str) -> Option<usize> {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments.iter().position(|argument| argument == name)?;
    Some(arguments.get(at + 1).and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{name} takes a number")))
}

/// The same servers, all well; and then one of them dead, or silent.
async fn compare(nodes: usize) {
    let servers: Vec<Redis> = (0..nodes).map(|_| Redis::start()).collect();
    let urls: Vec<_> = servers.iter().map(|server| format!("{}?max_ttl={}", server.url(), TTL.as_secs())).collect();
    let locks = Locks::over(Arc::new(open_quorum(&urls).expect("a quorum")));
    let mut bare = Bare::to(&servers).await;
    let mut ours = Ours { locks };
    ours.settle().await;
    let case = format!("{nodes} nodes");
    let (well, raw) = interleaved(&mut ours, &mut bare).await;
    let note = |ours: &[f64], theirs: &[f64]| format!("{:.0} µs beside {:.0} µs", median(ours), median(theirs));
    let show = |what: &str, ours: &[f64], theirs: &[f64], aim| {
        println!("{}", Figure::new(&case, what, Spread::ratio(ours, theirs), aim, note(ours, theirs)).line());
    };
    show("Locks / bare, acquire", &well.acquire, &raw.acquire, Aim::None);
    show("Locks / bare, acquire + release", &well.pair, &raw.pair, Aim::None);
    let away = servers.last().expect("there are some");
    away.pause();
    let (silent, raw_silent) = interleaved(&mut ours, &mut bare).await;
    away.resume();
    show("one silent / all well, acquire + release", &silent.pair, &well.pair, Aim::AtMost(1.1));
    show("bare: one silent / all well", &raw_silent.pair, &raw.pair, Aim::None);
    away.kill();
    let dead = ours.rounds().await;
    show("one dead / all well, acquire + release", &dead.pair, &well.pair, Aim::AtMost(1.1));
}

/// Medians of the rounds, in µs.
#[derive(Default)]
struct Said {
    acquire: Vec<f64>,
    pair: Vec<f64>,
}

impl Said {
    fn add(&mut self, mut acquire: Vec<f64>, mut pair: Vec<f64>) {
        self.acquire.push(quantile(&mut acquire, 0.5));
        self.pair.push(quantile(&mut pair, 0.5));
    }
}

async fn interleaved(ours: &mut Ours, bare: &mut Bare) -> (Said, Said) {
    let (mut said, mut raw) = (Said::default(), Said::default());
    for round in 0..=option("--rounds").unwrap_or(15) {
        let (one, other) = (ours.round().await, bare.round().await);
        if round > 0 {
            said.add(one.0, one.1);
            raw.add(other.0, other.1);
        }
    }
    (said, raw)
}

fn pairs() -> usize {
    option("--pairs").unwrap_or(500)
}

struct Ours {
    locks: Locks,
}

impl Ours {
    /// Fresh servers grant nothing at first.
    async fn settle(&self) {
        while !matches!(self.locks.lock("job").ttl(TTL).try_acquire().await, Ok(Outcome::Acquired(_))) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn rounds(&mut self) -> Said {
        let mut said = Said::default();
        for round in 0..=option("--rounds").unwrap_or(15) {
            let (acquire, pair) = self.round().await;
            if round > 0 {
                said.add(acquire, pair);
            }
        }
        said
    }

    async fn round(&mut self) -> (Vec<f64>, Vec<f64>) {
        let (mut acquire, mut pair) = (Vec::new(), Vec::new());
        let lock = self.locks.lock("job").ttl(TTL);
        while pair.len() < pairs() {
            let began = Instant::now();
            // A release that a minority has not carried out yet: the next try succeeds.
            let Ok(Outcome::Acquired(guard)) = lock.try_acquire().await else { continue };
            acquire.push(began.elapsed().as_secs_f64() * 1e6);
            guard.release().await.expect("a majority is there");
            pair.push(began.elapsed().as_secs_f64() * 1e6);
        }
        (acquire, pair)
    }
}

/// A connection to each, a command to all, and the answers of a majority.
struct Bare {
    nodes: Vec<MultiplexedConnection>,
    number: u64,
}

impl Bare {
    async fn to(servers: &[Redis]) -> Self {
        let mut nodes = Vec::new();
        for server in servers {
            let client = redis::Client::open(server.url()).expect("a URL");
            let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
            nodes.push(client.get_multiplexed_async_connection_with_config(&config).await.expect("it answers"));
        }
        Self { nodes, number: 0 }
    }

    async fn round(&mut self) -> (Vec<f64>, Vec<f64>) {
        let (mut acquire, mut pair) = (Vec::new(), Vec::new());
        for _ in 0..pairs() {
            self.number += 1;
            let (token, began) = (format!("{:020}", self.number), Instant::now());
            let mut set = redis::cmd("SET");
            set.arg("raw").arg(&token).arg("NX").arg("PX").arg(TTL.as_millis() as u64);
            self.all(set).await;
            acquire.push(began.elapsed().as_secs_f64() * 1e6);
            let mut release = redis::cmd("EVAL");
            release.arg(RELEASE).arg(1).arg("raw").arg(&token);
            self.all(release).await;
            pair.push(began.elapsed().as_secs_f64() * 1e6);
        }
        (acquire, pair)
    }

    /// Sent to all of them before the first answer is looked at, in order at each.
    async fn all(&self, command: redis::Cmd) {
        let (sender, mut answers) = unbounded_channel();
        for node in &self.nodes {
            let (mut node, command, sender) = (node.clone(), command.clone(), sender.clone());
            tokio::spawn(async move {
                let answered = command.query_async::<redis::Value>(&mut node).await;
                let _ = sender.send(answered.is_ok());
            });
        }
        let mut yes = 0;
        while yes <= self.nodes.len() / 2 {
            yes += usize::from(answers.recv().await.expect("a majority answers"));
        }
    }
}
