//! SIGTERM: no more ticks, then patience, then TERM, then KILL; locks are renewed meanwhile.

use std::time::{Duration, Instant};

use leasehold::Locks;
use leasehold_schedule::Orders;
use leasehold_testkit::process::eventually;
use leasehold_testkit::servers::Redis;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::common::{Bench, LIMIT};
use crate::harness::{Node, lives, read};

const FOR_EVER: &str = "while :; do sleep 0.05; done";

/// A job that has set this trap, if any, and written its pid into `began`.
fn begun(bench: &Bench, terms: &str, (trap, script): (&str, &str), options: &[&str]) -> Node {
    let job = format!("[jobs.long]\nevery = \"1s\"\n{terms}\ncommand = '''{trap}echo $$ >began; {script}'''\n");
    bench.write("leasehold.toml", &job);
    let node = Node::start(bench, options);
    eventually("it has begun", LIMIT, || read(bench, "began").ends_with('\n'));
    node
}

#[track_caller]
fn ended(node: Node) -> (Option<i32>, Value) {
    let (code, told) = node.ends();
    let ends = |told: &&Value| ["done", "failed", "lost", "stopped"].iter().any(|event| told["event"] == *event);
    let last = told.iter().rfind(ends).unwrap_or_else(|| panic!("no run has ended: {told:#?}"));
    assert_eq!(told.iter().filter(|told| told["event"] == "started").count(), 1, "no more ticks: {told:#?}");
    (code, last.clone())
}

#[test]
fn p11_what_runs_may_end() {
    let bench = Bench::new();
    let terms = "ttl = \"4s\"\nkill_after = \"200ms\"";
    let mut node = begun(&bench, terms, ("", "until [ -e go ]; do sleep 0.05; done"), &["--grace", "1h"]);
    node.send(Signal::SIGTERM);
    node.tells("stopping");
    // Longer than its lock lasts that nobody renews.
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        let status = bench.run(["status", "long", "--json"]).json();
        assert_eq!(status["state"], "held", "renewed all the while: {status}");
    }
    bench.write("go", "");
    let (code, last) = ended(node);
    assert_eq!((code, last["event"].as_str()), (Some(0), Some("done")), "{last}");
    assert_eq!(bench.run(["status", "long", "--json"]).json()["state"], "free");
}

#[test]
fn p11_what_does_not_is_told_to_end() {
    let bench = Bench::new();
    let script = ("trap 'echo term >term; exit 0' TERM; ", FOR_EVER);
    let node = begun(&bench, "", script, &["--grace", "300ms"]);
    node.send(Signal::SIGINT);
    let (code, last) = ended(node);
    // It says that it has done what it should.
    assert_eq!((code, read(&bench, "term").as_str()), (Some(0), "term\n"), "{last}");
    assert!(["done", "stopped"].iter().any(|event| last["event"] == *event), "{last}");
}

#[test]
fn p11_what_does_not_listen_is_killed() {
    let bench = Bench::new();
    let script = ("trap '' TERM; ", "(sleep 1000) & echo $! >child; while :; do sleep 0.05; done");
    let node = begun(&bench, "kill_after = \"500ms\"", script, &["--grace", "300ms"]);
    eventually("it has a child", LIMIT, || read(&bench, "child").ends_with('\n'));
    let start = Instant::now();
    node.send(Signal::SIGTERM);
    let (code, last) = ended(node);
    assert_eq!((code, last["event"].as_str()), (Some(0), Some("stopped")), "{last}");
    assert!(
        start.elapsed() >= Duration::from_millis(800),
        "its grace, and what it has after TERM: {:?}",
        start.elapsed()
    );
    for file in ["began", "child"] {
        assert!(!lives(&read(&bench, file)), "{file}");
    }
    assert_eq!(bench.run(["status", "long", "--json"]).json()["state"], "free");
}

#[test]
fn a_second_signal_hurries_and_a_third_kills() {
    let bench = Bench::new();
    let terms = "ttl = \"1h\"\nkill_after = \"20m\"";
    let mut node = begun(&bench, terms, ("trap 'echo term >term' TERM; ", FOR_EVER), &["--grace", "1h"]);
    node.send(Signal::SIGTERM);
    node.tells("stopping");
    node.send(Signal::SIGTERM);
    node.tells("stopping");
    eventually("it is told to end", LIMIT, || read(&bench, "term") == "term\n");
    assert!(lives(&read(&bench, "began")));
    node.send(Signal::SIGTERM);
    let (code, last) = ended(node);
    assert_eq!((code, last["event"].as_str()), (Some(0), Some("stopped")), "{last}");
    assert!(!lives(&read(&bench, "began")));
}

/// `kill -9` of the scheduler: nothing of its jobs is left.
#[test]
fn who_is_killed_takes_its_jobs_along() {
    let bench = Bench::new();
    let node = begun(&bench, "", ("", FOR_EVER), &[]);
    node.send(Signal::SIGKILL);
    eventually("its job is dead", LIMIT, || !lives(&read(&bench, "began")));
}

/// Who closes the terminal wants no scheduler to live on; by hand the same signal means another thing.
#[test]
fn a_terminal_that_is_closed_stops_it() {
    let bench = Bench::new();
    bench.write("leasehold.toml", "[jobs.a]\nevery = \"1s\"\ncommand = \"echo ran >>ran\"\n");
    let command = format!("exec {} schedule --json >told", env!("CARGO_BIN_EXE_leasehold"));
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).env("LEASEHOLD_STORE", bench.url()).current_dir(bench.path("."));
    script.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
    let mut terminal = script.spawn().unwrap();
    eventually("it runs", LIMIT, || !read(&bench, "ran").is_empty());
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    eventually("it has stopped", LIMIT, || read(&bench, "told").contains("\"message\":\"stopped\""));
    assert!(read(&bench, "told").contains("stopping (the terminal is gone)"), "{}", read(&bench, "told"));
}

/// As `nohup` has it.
#[test]
fn a_terminal_that_is_closed_spares_what_ignores_hang_ups() {
    let bench = Bench::new();
    bench.write("leasehold.toml", "[jobs.a]\nevery = \"1s\"\ncommand = \"echo ran >>ran\"\n");
    let program = env!("CARGO_BIN_EXE_leasehold");
    let command = format!("trap '' HUP; echo $$ >pid; exec {program} schedule --json >told 2>/dev/null");
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).env("LEASEHOLD_STORE", bench.url()).current_dir(bench.path("."));
    script.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
    let mut terminal = script.spawn().unwrap();
    eventually("it runs", LIMIT, || !read(&bench, "ran").is_empty());
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    let before = read(&bench, "ran").len();
    eventually("it goes on", LIMIT, || read(&bench, "ran").len() > before + 8);
    assert!(!read(&bench, "told").contains("stopping"), "{}", read(&bench, "told"));
    let pid = read(&bench, "pid").trim().parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    eventually("it has stopped", LIMIT, || read(&bench, "told").contains("\"message\":\"stopped\""));
}

/// A run that was ended with its scheduler is begun again on another machine, if it is to run at least once.
#[test]
fn what_was_ended_is_begun_again_elsewhere_where_it_runs_at_least_once() {
    let bench = Bench::new();
    let terms = "every = \"3650d\"\nat_least_once = true\nttl = \"9s\"\nkill_after = \"200ms\"";
    let script = "echo $LEASEHOLD_TICK $LEASEHOLD_ATTEMPT >>began; until [ -e go ]; do sleep 0.05; done";
    bench.write("leasehold.toml", &format!("[jobs.long]\n{terms}\ncommand = '''{script}'''\n"));
    let mut nodes = [0; 2].map(|_| Some(Node::start(&bench, &["--grace", "100ms"])));
    nodes.iter_mut().flatten().for_each(|node| drop(node.tells("loaded")));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tick = runtime.block_on(async {
        let locks = Locks::connect(&bench.url()).await.unwrap();
        let tick = Orders::over(&locks).trigger("long", "a test", "").await.unwrap();
        locks.shutdown().await;
        tick
    });
    eventually("one has begun", LIMIT, || read(&bench, "began") == format!("{tick} 1\n"));
    let mut which = None;
    eventually("it says so", LIMIT, || {
        which = nodes.iter_mut().position(|node| node.as_mut().unwrap().count("started") == 1);
        which.is_some()
    });
    let first = nodes[which.unwrap()].take().unwrap();
    let (code, told) = first.stop();
    assert!(code == Some(0) && told.iter().any(|told| told["event"] == "stopped"), "{told:#?}");
    eventually("the other has", LIMIT, || read(&bench, "began") == format!("{tick} 1\n{tick} 2\n"));
    bench.write("go", "");
    let mut other = nodes.into_iter().flatten().next().unwrap();
    other.tells_of("done", "long");
    assert_eq!(other.stop().0, Some(0));
}

/// Locks that can't be given back end by themselves, but that may take an hour.
#[test]
fn who_is_told_three_times_waits_for_no_store() {
    let (server, bench) = (Redis::start(), Bench::new());
    let job = "[jobs.long]\nevery = \"1s\"\nttl = \"1h\"\ncommand = \"echo $$ >began; sleep 1000\"\n";
    bench.write("leasehold.toml", job);
    let mut command = bench.bare(["schedule", "--json", "--grace", "1h"]);
    command.env("LEASEHOLD_STORE", server.url());
    let mut node = Node::of(command);
    eventually("it has begun", LIMIT, || read(&bench, "began").ends_with('\n'));
    server.kill();
    for _ in 0..3 {
        node.send(Signal::SIGTERM);
        node.tells("stopping");
    }
    let (code, told) = node.ends();
    let is_told = |told: &Value| told["message"].as_str().unwrap_or_default().contains("locks end by themselves");
    assert!(code == Some(0) && told.iter().any(is_told), "{told:#?}");
    assert!(!lives(&read(&bench, "began")));
}
