//! What is in the traces of a scheduler.

use std::collections::BTreeSet;

use leasehold_testkit::process::eventually;
use nix::sys::signal::Signal;

use crate::away::Nobody;
use crate::collector::{Collector, Seen};
use crate::common::{Bench, Going, LIMIT};

#[test]
fn each_tick_that_runs_is_a_trace_and_it_goes_on_in_the_job() {
    let (collector, bench) = (Collector::start(), Bench::new());
    bench.write("leasehold.toml", "[jobs.a]\nevery = \"1s\"\ncommand = \"echo $TRACEPARENT\"\n");
    let going = Going::start(collector.of(&mut bench.command(["schedule"])));
    let line = going.line();
    let shown = line.strip_prefix("a: 00-").unwrap().strip_suffix("-01").unwrap();
    let (trace_id, span_id) = shown.split_once('-').unwrap();
    let trace = collector.trace("leasehold.tick", |root| root.trace == trace_id);
    assert_eq!(trace.steps(), ["leasehold.acquire", "leasehold.job", "leasehold.release"], "{trace:#?}");
    assert_eq!(trace.child("leasehold.job").id, span_id);
    let root = &trace.root;
    assert_eq!((root.parent.as_str(), &root.error), ("", &None));
    for (key, value) in
        [("leasehold.job", "a"), ("leasehold.lock", "a"), ("leasehold.attempt", "1"), ("leasehold.outcome", "done")]
    {
        assert_eq!(root.get(key), value, "{key}");
    }
    assert!(root.get("leasehold.tick").ends_with('Z') && !root.get("leasehold.token").is_empty(), "{root:#?}");
    assert_eq!(trace.child("leasehold.release").get("leasehold.outcome"), "in_time");
    let job = trace.child("leasehold.job");
    assert_eq!((job.get("process.executable.name"), job.get("process.exit.code")), ("sh", "0"));
    let next = collector.trace("leasehold.tick", |root| root.trace != trace_id);
    assert_ne!(next.root.get("leasehold.tick"), root.get("leasehold.tick"));
    going.send(Signal::SIGTERM);
    assert_eq!(going.end().0, 0);
}

#[test]
fn runs_that_fail_and_ticks_that_are_not_run_say_why() {
    let (collector, bench) = (Collector::start(), Bench::new());
    let bad = "[jobs.bad]\nevery = \"1s\"\ncommand = \"exit 3\"\n";
    let long = "[jobs.long]\nevery = \"1s\"\ncommand = \"sleep 30\"\n";
    bench.write("leasehold.toml", &format!("{bad}{long}"));
    let going = Going::start(collector.of(&mut bench.command(["schedule", "-q"])));
    // On a busy machine one of its ticks may be skipped, too.
    let is = |root: &Seen, job: &str, outcome: &str| {
        root.get("leasehold.job") == job && root.get("leasehold.outcome") == outcome
    };
    let failed = collector.trace("leasehold.tick", |root| is(root, "bad", "failed"));
    assert_eq!(failed.root.error.as_deref(), Some("exit code 3"));
    assert_eq!(failed.child("leasehold.job").error.as_deref(), Some("exit code 3"));
    let is_why = |root: &Seen| root.get("leasehold.reason").contains("still running");
    let skipped = collector.trace("leasehold.tick", |root| is(root, "long", "not_run") && is_why(root));
    assert_eq!(skipped.root.error, None);
    assert!(skipped.children.is_empty());
    // What runs is told to end; that is in the last traces, which are sent at the end.
    going.send(Signal::SIGTERM);
    going.send(Signal::SIGINT);
    assert_eq!(going.end().0, 0);
    let stopped = collector.trace("leasehold.tick", |root| root.get("leasehold.outcome") == "stopped");
    assert_eq!(stopped.root.get("leasehold.job"), "long");
    assert!(stopped.child("leasehold.job").error.as_deref().unwrap().contains("the scheduler was stopped"));
}

/// Whoever comes second for a tick has nothing to tell.
#[test]
fn of_two_nodes_one_sends_a_trace_of_each_tick() {
    let (collector, bench) = (Collector::start(), Bench::new());
    bench.write("leasehold.toml", "[jobs.a]\nevery = \"1s\"\ncommand = \"echo ran\"\n");
    let node = || Going::start(collector.of(&mut bench.command(["schedule"])));
    let nodes = [node(), node()];
    let ticks = || -> Vec<_> {
        let roots = collector.spans().into_iter().filter(|span| span.name == "leasehold.tick");
        let done = roots.filter(|root| root.get("leasehold.outcome") == "done");
        done.map(|root| root.get("leasehold.tick").to_owned()).collect()
    };
    eventually("four ticks are run", LIMIT, || ticks().len() >= 4);
    for node in nodes {
        node.send(Signal::SIGTERM);
        assert_eq!(node.end().0, 0);
    }
    let each: BTreeSet<_> = ticks().into_iter().collect();
    assert_eq!(each.len(), ticks().len(), "{:#?}", collector.spans());
}

#[test]
fn a_jobs_own_trace_stays_its_own_and_no_other_is_inherited() {
    let (collector, bench) = (Collector::start(), Bench::new());
    let own = "[jobs.own]\nevery = \"1s\"\ncommand = \"echo $TRACEPARENT\"\nenv = { TRACEPARENT = \"mine\" }\n";
    let other = "[jobs.other]\nevery = \"1s\"\ncommand = \"echo ${TRACESTATE-none}\"\n";
    bench.write("leasehold.toml", &format!("{own}{other}"));
    let mut command = bench.command(["schedule"]);
    command.env("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").env("TRACESTATE", "vendor=7");
    let going = Going::start(collector.of(&mut command));
    let mut shown = BTreeSet::new();
    while shown.len() < 2 {
        shown.insert(going.line());
    }
    assert_eq!(shown, ["other: none", "own: mine"].map(String::from).into());
    let trace = collector.trace("leasehold.tick", |_| true);
    assert_eq!(trace.root.parent, "", "a scheduler runs for months, and no trace does");
    going.send(Signal::SIGTERM);
    assert_eq!(going.end().0, 0);
}

#[test]
fn a_collector_that_is_away_is_told_once_and_the_jobs_run() {
    let (bench, nobody) = (Bench::new(), Nobody::new());
    bench.write("leasehold.toml", "[jobs.a]\nevery = \"1s\"\ncommand = \"echo ran\"\n");
    let going = Going::start(bench.command(["schedule"]).env("OTEL_EXPORTER_OTLP_ENDPOINT", nobody.url()));
    for _ in 0..4 {
        assert_eq!(going.line(), "a: ran");
    }
    going.send(Signal::SIGTERM);
    let (code, told) = going.end();
    assert_eq!((code, told.matches("the collector does not take traces: ").count()), (0, 1), "{told}");
}
