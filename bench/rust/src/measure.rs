//! Arguments, times, and what the server says of its own work.

use std::collections::HashMap;
use std::time::Duration;

use redis::aio::MultiplexedConnection;

pub struct Arguments {
    pub case: String,
    named: HashMap<String, String>,
}

impl Arguments {
    pub fn parse() -> Self {
        let mut arguments = std::env::args().skip(1);
        let case = arguments.next().unwrap_or_default();
        let pair = |argument: String| argument.split_once('=').map(|(name, value)| (name.into(), value.into()));
        Self { case, named: arguments.filter_map(pair).collect() }
    }

    pub fn number(&self, name: &str, otherwise: usize) -> usize {
        self.named.get(name).map_or(otherwise, |n| n.parse().unwrap_or_else(|_| panic!("{name}= takes a number")))
    }

    pub fn library(&self) -> String {
        self.named.get("lib").cloned().expect("lib= is needed")
    }

    pub fn url(&self) -> String {
        self.named.get("url").cloned().expect("url= is needed: of a server that may be emptied")
    }
}

/// What this process has used of its CPUs, in seconds.
pub fn cpu() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = (values.len() as f64 * share) as usize;
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

#[derive(Default)]
pub struct Times(Vec<f64>);

impl Times {
    pub fn push(&mut self, took: Duration) {
        self.0.push(took.as_secs_f64() * 1e6);
    }

    pub fn report(mut self, lib: &str, total: Duration, cpu: f64) {
        let n = self.0.len() as f64;
        println!(
            r#"{{"case":"{lib}","n":{n},"ops_s":{:.1},"p50_us":{:.1},"p99_us":{:.1},"cpu_s_10k":{:.4}}}"#,
            n / total.as_secs_f64(),
            quantile(&mut self.0, 0.5),
            quantile(&mut self.0, 0.99),
            cpu / n * 1e4,
        );
    }
}

/// A server, asked about itself.
pub struct Server(MultiplexedConnection);

/// What it did since it was last told to forget.
pub struct Said {
    /// Read events: commands on the wire, of clients that don't pipeline.
    pub reads: f64,
    calls: Vec<(String, f64)>,
}

impl Server {
    /// Empties it.
    pub async fn empty(url: &str) -> Self {
        let client = redis::Client::open(url).expect("a URL");
        let mut connection = client.get_multiplexed_async_connection().await.expect("a server");
        redis::cmd("FLUSHALL").query_async::<()>(&mut connection).await.expect("flushed");
        Self(connection)
    }

    pub async fn forget(&mut self) {
        redis::cmd("CONFIG").arg("RESETSTAT").query_async::<()>(&mut self.0).await.expect("reset");
    }

    async fn info(&mut self, section: &str) -> String {
        redis::cmd("INFO").arg(section).query_async(&mut self.0).await.expect("told")
    }

    /// What it has used of its CPUs, in seconds.
    pub async fn cpu(&mut self) -> f64 {
        let info = self.info("cpu").await;
        let field = |line: &str| {
            line.strip_prefix("used_cpu_sys:").or(line.strip_prefix("used_cpu_user:"))?.parse::<f64>().ok()
        };
        info.lines().filter_map(field).sum::<f64>()
    }

    pub async fn alive(&mut self) -> u64 {
        redis::cmd("DBSIZE").query_async(&mut self.0).await.expect("told")
    }

    pub async fn said(&mut self) -> Said {
        let stats = self.info("stats").await;
        let reads = stats.lines().find_map(|line| line.strip_prefix("total_reads_processed:")).expect("it counts");
        let call = |line: &str| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let calls = rest.split(',').next()?.parse().ok()?;
            (!name.starts_with("info") && !name.starts_with("config")).then(|| (name.to_owned(), calls))
        };
        let commands = self.info("commandstats").await;
        Said {
            reads: reads.parse::<f64>().expect("a number") - 1.0,
            calls: commands.lines().filter_map(call).collect(),
        }
    }
}

impl Said {
    /// Each command with its calls, those of scripts included, divided by `by`.
    pub fn commands(&self, by: f64) -> String {
        let shown: Vec<String> = self.calls.iter().map(|(name, calls)| format!("{name} {:.2}", calls / by)).collect();
        shown.join(", ")
    }
}
