//! What is in the trace of a run.

use leasehold_testkit::process::eventually;
use leasehold_testkit::servers::Redis;
use nix::sys::signal::Signal;

use crate::collector::Collector;
use crate::common::{Bench, Going, LIMIT, ran};

const STEPS: [&str; 4] = ["leasehold.open", "leasehold.acquire", "leasehold.job", "leasehold.release"];

#[test]
fn a_run_is_one_trace_with_its_steps() {
    let (collector, bench) = (Collector::start(), Bench::new());
    let ran = ran(collector.of(&mut bench.command(["run", "a", "--also", "b", "--", "sh", "-c", "exit 0"])));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let trace = collector.run();
    assert_eq!(trace.steps(), STEPS, "{trace:#?}");
    let root = &trace.root;
    assert_eq!((root.parent.as_str(), &root.error), ("", &None));
    for (key, value) in [
        ("leasehold.lock", "a"),
        ("leasehold.also", "b"),
        ("leasehold.outcome", "done"),
        ("leasehold.store", "sqlite"),
        ("leasehold.attempt", "1"),
        ("process.exit.code", "0"),
        ("process.executable.name", "leasehold"),
    ] {
        assert_eq!(root.get(key), value, "{key}");
    }
    assert!(root.get("leasehold.token").parse::<u64>().is_ok() && root.get("leasehold.holder").len() > 10, "{root:#?}");
    assert_eq!(trace.child("leasehold.acquire").get("leasehold.outcome"), "acquired");
    assert_eq!(trace.child("leasehold.release").get("leasehold.outcome"), "in_time");
    let job = trace.child("leasehold.job");
    assert_eq!((job.get("process.executable.name"), job.get("process.exit.code")), ("sh", "0"));
    assert_eq!(root.resource["service.name"], "leasehold");
    assert!(root.resource.contains_key("host.name") && root.resource.contains_key("process.pid"));
}

#[test]
fn over_redis_too_and_with_the_renewals_of_a_long_job() {
    let (server, collector, bench) = (Redis::start(), Collector::start(), Bench::new());
    let url = server.url();
    let on = ["run", "a", "--store", &url, "--ttl", "4s", "--kill-after", "200ms", "--once-per", "1d", "--"];
    let ran = ran(collector.of(&mut bench.command(on.iter().chain(&["sleep", "3"]))));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let trace = collector.run();
    assert_eq!(trace.root.get("leasehold.store"), "redis");
    assert!(trace.root.get("leasehold.tick").ends_with("T00:00:00Z"), "{:#?}", trace.root);
    let job = trace.child("leasehold.job");
    assert_eq!(job.told(), ["renewed"]);
    assert_eq!(job.events.len().to_string(), job.get("leasehold.renewals"));
    assert!(job.get("leasehold.least_margin_ms").parse::<u64>().unwrap() < 4000);
}

#[test]
fn a_job_that_fails_is_an_error_of_its_own_and_of_the_run() {
    let (collector, bench) = (Collector::start(), Bench::new());
    assert_eq!(ran(collector.of(&mut bench.command(["run", "a", "--", "sh", "-c", "exit 3"]))).code, 3);
    let trace = collector.run();
    assert_eq!(trace.root.error.as_deref(), Some("exit code 3"));
    assert_eq!((trace.root.get("leasehold.outcome"), trace.root.get("process.exit.code")), ("done", "3"));
    assert_eq!(trace.child("leasehold.job").error.as_deref(), Some("exit code 3"));
    assert_eq!(trace.child("leasehold.release").error, None);
}

#[test]
fn a_signal_that_ends_it_and_a_program_that_is_not_there_are_told() {
    let bench = Bench::new();
    let job = |command: &[&str]| {
        let collector = Collector::start();
        ran(collector.of(&mut bench.command([&["run", "a", "--"], command].concat())));
        collector.run()
    };
    let killed = job(&["sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.child("leasehold.job").get("leasehold.signal"), "SIGKILL");
    assert_eq!(killed.root.get("process.exit.code"), "137");
    let missing = job(&["no-such-program"]);
    let why = missing.child("leasehold.job").error.as_deref().unwrap();
    assert!(why.contains("No such file"), "{why}");
    assert_eq!(missing.root.get("leasehold.outcome"), "not_started");
}

/// All holds of a daemon are in its trace, which ends when it does.
#[test]
fn each_hold_of_a_daemon_is_sent_as_it_ends() {
    let (collector, bench) = (Collector::start(), Bench::new());
    // The second hold has to last until its end is asked for.
    let on = ["run", "a", "--forever", "--max-hold", "3s", "--", "sh", "-c", "echo began; exec sleep 30"];
    let going = Going::start(collector.of(&mut bench.command(on)));
    assert_eq!([going.line(), going.line()], ["began", "began"]);
    let jobs = || collector.spans().iter().filter(|span| span.name == "leasehold.job").count();
    eventually("the first hold is sent while the daemon runs", LIMIT, || jobs() > 0);
    assert!(collector.spans().iter().all(|span| span.name != "leasehold.run"));
    going.send(Signal::SIGTERM);
    going.end();
    let trace = collector.run();
    let steps = trace.steps();
    assert_eq!(steps[..5].join(" "), STEPS.join(" ") + " leasehold.acquire");
    let lost = trace.children.iter().filter(|step| step.told().contains(&"lost")).count();
    assert!(lost > 0 && steps.len() % 3 == 1, "{trace:#?}");
}

/// That another holds the lock is an answer: nobody is to be woken for it.
#[test]
fn a_lock_that_is_held_is_no_error() {
    let (collector, bench) = (Collector::start(), Bench::new());
    let _held = bench.take("a");
    assert_eq!(ran(collector.of(&mut bench.command(["run", "a", "--wait=2s", "--", "true"]))).code, 75);
    let trace = collector.run();
    assert_eq!(trace.steps(), ["leasehold.open", "leasehold.acquire"]);
    assert_eq!((trace.root.get("leasehold.outcome"), &trace.root.error), ("held", &None));
    assert!(trace.root.get("leasehold.reason").contains("held by web-3/41/backup"), "{:#?}", trace.root);
    let acquire = trace.child("leasehold.acquire");
    assert_eq!((acquire.get("leasehold.outcome"), &acquire.error), ("held", &None));
    assert_eq!(acquire.told(), ["waiting"]);
    let held_by = &acquire.events[0].1["leasehold.held_by"];
    assert!(held_by.starts_with("web-3/41/backup") && !held_by.contains('\u{1b}'), "as people may read it: {held_by}");
}

#[test]
fn a_loss_is_told_on_the_job_that_was_stopped() {
    let (server, collector, bench) = (Redis::start(), Collector::start(), Bench::new());
    let url = server.url();
    let on = ["run", "a", "--store", &url, "--ttl", "5s", "--", "sh", "-c", "echo began; exec sleep 30"];
    let going = Going::start(collector.of(&mut bench.command(on)));
    assert_eq!(going.line(), "began");
    server.kill();
    assert_eq!(going.end().0, 76);
    let trace = collector.run();
    assert_eq!((trace.root.get("leasehold.outcome"), trace.root.get("process.exit.code")), ("lost", "76"));
    assert!(trace.root.error.is_some());
    let job = trace.child("leasehold.job");
    assert_eq!(job.events.iter().filter(|event| event.0 == "lost").count(), 1, "{job:#?}");
    assert!(job.told().contains(&"renewal_failed") && job.error.is_some(), "{job:#?}");
    assert!(trace.child("leasehold.release").error.is_some());
}

#[test]
fn a_store_that_is_away_is_an_error_where_it_is_met() {
    let (server, collector, bench) = (Redis::start(), Collector::start(), Bench::new());
    let url = server.url();
    server.kill();
    assert_eq!(ran(collector.of(&mut bench.command(["run", "a", "--store", &url, "--", "true"]))).code, 69);
    let trace = collector.run();
    assert_eq!(trace.root.get("leasehold.outcome"), "unavailable");
    assert!(trace.root.error.is_some() && trace.children.iter().any(|step| step.error.is_some()), "{trace:#?}");
}

/// Also where no store is even named, and nothing has begun.
#[test]
fn a_set_up_that_is_wrong_has_a_trace() {
    let (collector, bench) = (Collector::start(), Bench::new());
    let mut command = bench.bare(["run", "a", "--", "true"]);
    assert_eq!(ran(collector.of(&mut command).env("LEASEHOLD_STORE", "nosuch")).code, 78);
    let trace = collector.run();
    assert_eq!((trace.root.get("leasehold.outcome"), trace.root.get("process.exit.code")), ("failed", "78"));
    assert!(trace.children.is_empty());
}

#[test]
fn no_secret_is_in_a_trace() {
    let (server, collector, bench) = (Redis::start(), Collector::start(), Bench::new());
    let url = server.url().replace("redis://", "redis://:hunter2@");
    let code = || {
        let job = ["sh", "-c", "exit 0", "hunter2"];
        let mut command = bench.command(["run", "a", "--once-key", "k7", "--store", &url, "--"].iter().chain(&job));
        ran(collector.of(&mut command).env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=hunter2")).code
    };
    assert_eq!(code(), 0);
    assert_eq!(collector.run().root.get("leasehold.lock"), "a/k7");
    server.kill();
    assert_eq!(code(), 69, "what the store says of its failure is in the trace");
    assert_eq!(collector.spans().iter().filter(|span| span.name == "leasehold.run").count(), 2);
    assert!(!collector.text().contains("hunter2"), "{}", collector.text());
    assert!(collector.headers("x-key").iter().all(|key| key == "hunter2"), "which is where it belongs");
}
