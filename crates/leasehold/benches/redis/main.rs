//! What locks in Redis cost, beside the cheapest raw commands for the same thing in the same run.
//!
//! ```text
//! cargo bench -p leasehold --features redis --bench redis -- --rounds 25 --case pair
//! ```
//! Starts a server of its own and pins it to one CPU, itself to another (`--one-cpu`: both to the same). Rounds are
//! interleaved; a ratio is the median of the rounds' ratios, with the smallest and the largest.
//!
//! `--case pair|throughput|contended|drain|renewal` (default: all) · `--rounds N` · `--threads N` of the runtime (0: the
//! one that it is called from) · `--leases N`, `--ttl SECONDS`, `--seconds N` or `--minutes N` and `--spread` (not all
//! due at once) for renewals · `--json` · `--way 3` (and `--tasks N`) for a profiler: only this of the four ways to make a
//! pair

mod clients;
mod contended;
mod figures;
mod machine;
mod pair;
mod raw;
mod renewal;
mod throughput;

use std::sync::Arc;

use leasehold_testkit::servers::Redis;

use figures::Figure;

/// What all cases share.
struct Bench {
    server: Redis,
    arguments: Vec<String>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let server = Redis::options().config("maxclients", "2000").start();
    let bench = Arc::new(Bench { server, arguments });
    let place = machine::pin(bench.server.id(), bench.has("--one-cpu"));
    let case = bench.option("--case");
    let wanted = |name: &str| case.as_deref().is_none_or(|case| case == name);
    let mut figures = Vec::new();
    // First: only a fresh process says what a lease takes of memory.
    if wanted("renewal") {
        figures.extend(renewal::run(&bench));
    }
    if wanted("pair") {
        figures.extend(bench.run_in(pair::run(Arc::clone(&bench))));
    }
    if wanted("throughput") {
        figures.extend(bench.run_in(throughput::run(Arc::clone(&bench))));
    }
    if wanted("contended") {
        figures.extend(bench.run_in(contended::run(Arc::clone(&bench))));
    }
    if wanted("drain") {
        figures.extend(bench.run_in(contended::drain(Arc::clone(&bench))));
    }
    show(&figures, &place, bench.has("--json"));
}

fn show(figures: &[Figure], place: &str, as_json: bool) {
    if as_json {
        let lines: Vec<String> = figures.iter().map(Figure::json).collect();
        println!("{{\"place\":\"{place}\",\"figures\":[\n{}\n]}}", lines.join(",\n"));
    } else {
        println!("{place}\n{}", Figure::header());
        figures.iter().for_each(|figure| println!("{}", figure.line()));
    }
}

impl Bench {
    fn has(&self, flag: &str) -> bool {
        self.arguments.iter().any(|argument| argument == flag)
    }

    fn option(&self, name: &str) -> Option<String> {
        self.arguments.iter().position(|argument| argument == name).and_then(|at| self.arguments.get(at + 1)).cloned()
    }

    fn number(&self, name: &str, otherwise: usize) -> usize {
        self.option(name).map_or(otherwise, |n| n.parse().unwrap_or_else(|_| panic!("{name} takes a number")))
    }

    fn url(&self) -> String {
        self.server.url()
    }

    /// Runs it as a job would be: on a worker of a runtime of several threads. With `--threads 0`, of the caller's only.
    fn run_in<T: Send + 'static>(&self, job: impl Future<Output = T> + Send + 'static) -> T {
        let mut builder = match self.number("--threads", 2) {
            0 => tokio::runtime::Builder::new_current_thread(),
            threads => {
                let mut builder = tokio::runtime::Builder::new_multi_thread();
                builder.worker_threads(threads);
                builder
            }
        };
        let runtime = builder.enable_all().build().expect("a runtime");
        runtime.block_on(async { tokio::spawn(job).await }).expect("the case ran to its end")
    }

    /// How often clients sent each command since the last reset, and how long the server took over it in all, in µs.
    fn commands(&self) -> Vec<(String, u64, u64)> {
        let stats = self.server.command(&["INFO", "commandstats"]).text();
        let read = |line: &str| {
            let (name, fields) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let mut fields = fields.split(',');
            let calls = fields.next()?.parse().ok()?;
            let micros = fields.next()?.strip_prefix("usec=")?.parse().ok()?;
            SENT_BY_CLIENTS.contains(&name).then(|| (name.to_owned(), calls, micros))
        };
        stats.lines().filter_map(read).collect()
    }

    /// Calls of scripts and the server's time for them in µs.
    fn scripts(&self) -> (u64, u64) {
        let commands = self.commands();
        commands.iter().find(|(name, ..)| name == "evalsha").map_or((0, 0), |(_, calls, micros)| (*calls, *micros))
    }

    fn forget_commands(&self) {
        self.server.command(&["CONFIG", "RESETSTAT"]);
    }
}

/// The server counts what scripts do, too; none of them does any of these.
const SENT_BY_CLIENTS: [&str; 9] =
    ["evalsha", "eval", "fcall", "subscribe", "unsubscribe", "ping", "script|load", "hello", "blpop"];
