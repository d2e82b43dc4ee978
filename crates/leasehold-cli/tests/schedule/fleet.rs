//! Several schedulers over one store.

use std::time::Duration;

use leasehold_schedule::Timestamp;
use leasehold_testkit::process::eventually;
use leasehold_testkit::servers::Redis;
use nix::sys::signal::Signal;

use crate::common::{Bench, LIMIT};
use crate::harness::{Node, lines};

/// Each run writes its job and its tick. None waits for another, and all that are missed are made up for: on a busy machine, too,
/// no tick may be left out.
const JOBS: &str = r#"
[jobs.one]
every = "1s"
command = "echo $LEASEHOLD_LOCK $LEASEHOLD_TICK >>witness"
overlap = { allow = 50 }
missed = { all = 100 }

[jobs.two]
cron = "* * * * * *"
command = ["sh", "-c", "echo $LEASEHOLD_LOCK $LEASEHOLD_TICK >>witness"]
overlap = { allow = 50 }
missed = { all = 100 }
"#;

fn each_tick_runs_once(url: &str) {
    let bench = Bench::new();
    bench.write("leasehold.toml", JOBS);
    let node = || {
        let mut command = bench.bare(["schedule", "--json"]);
        command.env("LEASEHOLD_STORE", url);
        Node::of(command)
    };
    let mut nodes = [node(), node(), node()];
    nodes.iter_mut().for_each(|node| drop(node.tells("loaded")));
    let ticks = |job: &str| lines(&bench, "witness").into_keys().filter(|line| line.starts_with(job)).count();
    eventually("six ticks each", LIMIT * 2, || ticks("one ") >= 6 && ticks("two ") >= 6);
    // One goes, the others go on; another comes.
    let [first, second, third] = nodes;
    assert_eq!(first.stop().0, Some(0));
    let killed = Timestamp::now().as_second();
    second.send(Signal::SIGKILL);
    drop(second);
    let (before, mut late) = (ticks("one "), node());
    late.tells("loaded");
    eventually("six more", LIMIT * 2, || ticks("one ") >= before + 6 && ticks("two ") >= before + 6);
    let told = [third.stop(), late.stop()];
    for (code, told) in &told {
        assert_eq!(*code, Some(0), "{told:#?}");
    }
    let written = lines(&bench, "witness");
    let twice: Vec<_> = written.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    for job in ["one", "two"] {
        let ticks: Vec<i64> =
            written.keys().filter_map(|line| line.strip_prefix(&format!("{job} "))).map(second_of).collect();
        // A node that is killed takes at most the runs along that it had begun: on a busy machine more than one of each job.
        let missing = (ticks[0]..ticks[ticks.len() - 1]).filter(|tick| !ticks.contains(tick));
        let others: Vec<_> = missing.filter(|tick| !(killed - 10..=killed + 1).contains(tick)).collect();
        assert!(others.is_empty(), "{job}, killed at {killed}: {others:?} of {ticks:?}");
    }
}

fn second_of(tick: &str) -> i64 {
    tick.parse::<Timestamp>().unwrap_or_else(|error| panic!("{tick}: {error}")).as_second()
}

#[test]
fn q01_three_schedulers_run_each_tick_once_in_a_file() {
    let bench = Bench::new();
    each_tick_runs_once(&bench.url());
}

#[test]
fn q01_three_schedulers_run_each_tick_once_in_redis() {
    let server = Redis::start();
    each_tick_runs_once(&server.url());
}

/// It starts, says so once, and goes on when the store is there; and again when it goes and comes.
#[test]
fn a_store_that_is_down_at_the_start_is_waited_for() {
    let (server, bench) = (Redis::start(), Bench::new());
    server.kill();
    bench.write("leasehold.toml", JOBS);
    let mut command = bench.bare(["schedule", "--json"]);
    command.env("LEASEHOLD_STORE", server.url());
    let mut node = Node::of(command);
    let away = node.tells("away");
    assert!(away["message"].as_str().unwrap().contains("it is asked again until it answers"), "{away}");
    std::thread::sleep(Duration::from_secs(3)); // for several tries
    assert_eq!((node.count("away"), node.count("back")), (1, 0), "{:#?}", node.heard());
    server.restart();
    node.tells("back");
    node.tells_of("done", "one");
    server.kill();
    node.tells("away");
    server.restart();
    let back = node.tells("back");
    assert!(back["took_ms"].as_u64().is_some(), "{back}");
    node.tells_of("done", "two");
    let (code, told) = node.stop();
    assert_eq!(code, Some(0), "{told:#?}");
}

/// Also while it is waited for.
#[test]
fn who_waits_for_the_store_can_be_stopped_and_reloaded() {
    let (server, bench) = (Redis::start(), Bench::new());
    server.kill();
    bench.write("leasehold.toml", JOBS);
    let mut command = bench.bare(["schedule", "--json"]);
    command.env("LEASEHOLD_STORE", server.url());
    let mut node = Node::of(command);
    node.tells("away");
    bench.write("leasehold.toml", "[jobs.three]\nevery = \"1s\"\ncommand = \"true\"\n");
    node.send(Signal::SIGHUP);
    let reloaded = node.tells("reloaded");
    assert!(reloaded["message"].as_str().unwrap().contains("1 job (1 new, 0 changed, 2 gone)"), "{reloaded}");
    node.send(Signal::SIGTERM);
    let (code, told) = node.ends();
    assert_eq!(code, Some(0), "{told:#?}");
    assert!(told.iter().all(|told| told["event"] != "started"));
}
