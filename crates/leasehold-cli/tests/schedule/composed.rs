//! Several schedulers over stores that are made of stores: their parts die and come back, and each tick runs once.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_schedule::Timestamp;
use leasehold_testkit::process::eventually;
use leasehold_testkit::servers::{Postgres, Redis};
use serde_json::Value;

use crate::common::{Bench, ran};
use crate::harness::{Node, lines};

/// More than a switch, or a member that comes back, takes on a loaded machine.
const LONG: Duration = Duration::from_secs(90);

/// Every second; all that are missed are made up for, so that no tick may be left out.
const JOB: &str = r#"
[jobs.one]
every = "1s"
command = "echo $LEASEHOLD_TICK >>witness"
missed = { all = 500 }
"#;

/// Three schedulers over one store.
struct Fleet {
    bench: Bench,
    nodes: Vec<Node>,
}

impl Fleet {
    /// Over the only store of this file.
    fn start(stores: &str, terms: &str) -> Self {
        let bench = Bench::new();
        bench.write("leasehold.toml", &format!("{stores}{JOB}{terms}"));
        let nodes = (0..3).map(|_| Node::of(bench.bare(["schedule", "--json"]))).collect();
        Self { bench, nodes }
    }

    fn ticks(&self) -> BTreeSet<i64> {
        let second = |tick: String| tick.parse::<Timestamp>().expect("a tick").as_second();
        lines(&self.bench, "witness").into_keys().map(second).collect()
    }

    fn runs_more(&self, what: &str) {
        let before = self.ticks().last().copied().unwrap_or_default();
        eventually(what, LONG, || self.ticks().iter().filter(|tick| **tick > before).count() >= 3);
    }

    fn json(&self, words: &[&str]) -> Value {
        ran(&mut self.bench.bare(words)).json()
    }

    /// Each tick has run once, and none was left out that is not recorded as such.
    fn ends(mut self) -> Vec<Vec<Value>> {
        let told: Vec<_> = std::mem::take(&mut self.nodes).into_iter().map(Node::stop).collect();
        assert!(told.iter().all(|(code, _)| *code == Some(0)), "{told:#?}");
        let twice: Vec<_> = lines(&self.bench, "witness").into_iter().filter(|(_, times)| *times > 1).collect();
        assert_eq!(twice, []);
        let (ran, history) = (self.ticks(), self.json(&["history", "one", "-n", "1000", "--json"]));
        let recorded: BTreeSet<_> = history.as_array().unwrap().iter().filter_map(|run| run["tick"].as_str()).collect();
        let is_silent = |tick: &i64| {
            let tick = Timestamp::from_second(*tick).unwrap().to_string();
            !recorded.contains(tick.as_str())
        };
        let (first, last) = (*ran.first().unwrap(), *ran.last().unwrap());
        let silent: Vec<_> = (first..last).filter(|tick| !ran.contains(tick) && is_silent(tick)).collect();
        assert_eq!(silent, [0; 0], "{history:#}");
        told.into_iter().map(|(_, told)| told).collect()
    }
}

fn count(told: &[Value], event: &str) -> usize {
    told.iter().filter(|told| told["event"] == event).count()
}

/// Another member each time, once the one before remembers all again.
#[test]
fn each_tick_runs_once_in_a_quorum_whose_members_die_and_come_back() {
    let servers = [0; 3].map(|_| Redis::start());
    let hosts: Vec<_> = servers.iter().map(|server| format!("\"redis://{}?max_ttl=4\"", server.address())).collect();
    let stores = format!("default = \"q\"\n[stores.q]\nquorum = [{}]\n", hosts.join(", "));
    let bench = Bench::new();
    bench.write("leasehold.toml", &stores);
    // One that is late is founded by whoever asks next, and would have its floor then.
    let is_founded = |server: &Redis| server.command(&["HEXISTS", "leasehold:default:life", "founded"]).integer() == 1;
    eventually("the quorum is founded", LONG, || {
        ran(&mut bench.bare(["run", "x", "--", "true"])).code == 0 && servers.iter().all(is_founded)
    });
    // A new one counts ticks of the next minutes as run; this one was founded long ago.
    servers.iter().for_each(|server| drop(server.command(&["HSET", "leasehold:default:life", "floor", "1"])));
    let fleet = Fleet::start(&stores, "ttl = \"4s\"\n");
    fleet.runs_more("ticks run");
    for server in &servers[..2] {
        server.kill();
        fleet.runs_more("ticks run without it");
        server.restart();
        let is_full = || {
            let life = server.command(&["INFO", "server"]).text();
            let life =
                life.lines().find_map(|line| line.strip_prefix("run_id:")).expect("a run of its own").trim().to_owned();
            let founded = "return redis.call('HGET', 'leasehold:default:life', 'founded') or ''";
            server.command(&["EVAL", founded, "0"]).text().starts_with(&life)
        };
        eventually("it remembers all again", LONG, is_full);
    }
    // Without a majority nothing runs, and nobody runs anything twice for that.
    servers[0].kill();
    servers[1].pause();
    std::thread::sleep(Duration::from_secs(6)); // longer than a lock lives
    servers[1].resume();
    fleet.runs_more("ticks run again");
    fleet.ends();
}

/// The primary dies, and comes back; and what is said of it is said once.
#[test]
fn each_tick_runs_once_in_a_fallback_whose_primary_dies_and_comes_back() {
    let (primary, arbiter) = (Redis::start(), Postgres::start());
    let stores = format!(
        "default = \"f\"\n[stores.f.fallback]\nprimary = \"{}\"\narbiter = \"{}\"\nroute_lease = \"5s\"\ndown_after = \"1s\"\nup_after = \"2s\"\n",
        primary.url(),
        arbiter.url(),
    );
    let fleet = Fleet::start(&stores, "ttl = \"10s\"\n");
    let leads_to = |target: &str| {
        eventually(&format!("locks are in the {target}"), LONG, || {
            let route = fleet.json(&["route", "--json"])["route"].clone();
            route["target"] == target && route["state"] == "in_force"
        });
    };
    fleet.runs_more("ticks run");
    leads_to("primary");
    primary.kill();
    leads_to("arbiter");
    fleet.runs_more("ticks run in the arbiter");
    primary.restart();
    leads_to("primary");
    fleet.runs_more("ticks run in the primary again");
    for told in fleet.ends() {
        let says =
            |what: &str| told.iter().filter(|told| told["message"].as_str().unwrap_or_default().contains(what)).count();
        // On a machine that stands still there may be more of them.
        let switches = says("locks move to the ");
        assert!(says("locks move to the arbiter") >= 1 && says("locks move to the primary") >= 1, "{told:#?}");
        // As may be outages that are over before anything moves.
        let most = 2 * switches + 3;
        assert!(count(&told, "away") <= most, "once at the start, and for each switch: {told:#?}");
    }
}
