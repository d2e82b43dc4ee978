//! `leasehold watch`: what happens to a lock, seen from another process.

mod common;

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use common::{Bench, Going, LIMIT, ran};
use leasehold_testkit::process::eventually;
use nix::sys::signal::Signal::{self, SIGINT, SIGTERM};

const SECOND: Duration = Duration::from_secs(1);

fn watch(bench: &Bench) -> Going {
    let going = Going::start(&mut bench.command(["watch", "a"]));
    let line = going.line();
    assert!(line.ends_with("Z a: free"), "{line}");
    going
}

fn watch_json(bench: &Bench) -> Going {
    Going::start(&mut bench.command(["watch", "a", "--json"]))
}

/// The next event, which must be this one.
#[track_caller]
fn event(going: &Going, name: &str) -> serde_json::Value {
    let event = going.json();
    assert_eq!(event["event"], name, "{event}");
    assert_eq!(event["name"], "a", "{event}");
    event
}

#[test]
fn each_event_is_a_line_for_people() {
    let bench = Bench::new();
    let going = watch(&bench);
    let held = bench.take("a");
    let line = going.line();
    let time = line.split(' ').next().unwrap();
    assert!(time.len() == "2026-11-29T20:15:45.123Z".len() && time.ends_with('Z'), "{line}");
    assert!(line.contains(" a: acquired by web-3/41/backup") && !line.contains('\u{1b}'), "{line}");
    assert!(line.contains(&format!("(token {})", held.token)), "{line}");

    let waiter = bench.wait_for("a");
    assert!(going.line().ends_with(" a: 1 waits"));
    drop(waiter); // killed: its place is given up after a second
    let mut line = going.line();
    assert!(line.ends_with(" a: nobody waits any more"), "{line}");

    bench.run(["release", "a", "--force"]).says(&["revoked"]);
    line = going.line();
    // One that stood still for that long before it was killed may have come and gone once more.
    while line.ends_with(" waits") || line.ends_with(" waits any more") {
        line = going.line();
    }
    assert!(line.contains(" a: revoked: web-3/41/backup"), "{line}");
    held.release(5 * SECOND);
    assert!(going.line().contains(" a: ended after "));
    // Less what it takes until that is seen.
    let line = going.line();
    assert!(["2", "3", "4"].iter().any(|left| line.contains(&format!(" a: kept for another {left}"))), "{line}");
    assert!(going.line().ends_with(" a: free, the minimum hold is over"));
    going.is_quiet(SECOND);
}

#[test]
fn each_event_is_an_object_for_programs() {
    let bench = Bench::new();
    let going = watch_json(&bench);
    let start = event(&going, "start");
    let time = start["time"].as_str().unwrap().to_owned();
    assert_eq!(
        start,
        serde_json::json!({
            "time": time, "name": "a", "event": "start", "state": "free", "holder": null, "label": null, "token": null,
            "held_for_ms": null, "ttl_left_ms": null, "waiting": 0, "reason": null
        })
    );

    let held = bench.take("a");
    let acquired = event(&going, "acquired");
    assert_eq!((&acquired["state"], &acquired["holder"]), (&"held".into(), &held.holder().into()));
    assert_eq!(acquired["token"], held.token.to_string(), "as text");
    assert!(acquired["ttl_left_ms"].as_u64().is_some_and(|ms| (50_000..=60_000).contains(&ms)), "{acquired}");

    let (holder, token) = (held.holder(), held.token);
    held.release(Duration::ZERO);
    let ended = event(&going, "ended");
    assert_eq!((&ended["state"], &ended["holder"]), (&"free".into(), &holder.into()), "whose hold ended");
    assert_eq!(ended["token"], token.to_string());
    assert!(ended["held_for_ms"].as_u64().is_some_and(|ms| ms < 20_000), "{ended}");
}

#[test]
fn what_stands_at_the_start_is_told_first() {
    let bench = Bench::new();
    let held = bench.take("a");
    let _waiter = bench.wait_for("a");
    // One that is late to say so does not wait for a moment.
    eventually("who waits is told", LIMIT, || {
        let start = event(&watch_json(&bench), "start");
        assert_eq!((&start["state"], &start["holder"]), (&"held".into(), &held.holder().into()));
        start["waiting"] == 1
    });
    eventually("who waits is told to people", LIMIT, || {
        let line = Going::start(&mut bench.command(["watch", "a"])).line();
        assert!(line.contains(" a: held for ") && line.contains(" by web-3/41/backup"), "{line}");
        line.ends_with(", 1 waiting")
    });

    let bench = Bench::new();
    bench.take("a").release(50 * SECOND);
    let start = event(&watch_json(&bench), "start");
    assert_eq!((&start["state"], &start["holder"]), (&"kept".into(), &serde_json::Value::Null));
}

#[test]
fn a_job_is_seen_to_come_and_go() {
    let bench = Bench::new();
    let going = watch_json(&bench);
    event(&going, "start");
    for _ in 0..2 {
        // Longer than the pause between two looks.
        let run = ["run", "a", "--ttl", "3s", "--kill-after", "200ms", "--", "sleep", "4"];
        let job = Going::start(&mut bench.command(run));
        let acquired = event(&going, "acquired");
        assert!(acquired["label"].as_str().unwrap().ends_with("/sleep"), "{acquired}");
        let ended = event(&going, "ended");
        assert_eq!(ended["holder"], acquired["holder"]);
        assert!(ended["held_for_ms"].as_u64().is_some_and(|ms| ms >= 3200), "longer than a TTL: {ended}");
        assert_eq!(job.end().0, 0);
    }
}

#[test]
fn a_hold_too_short_to_be_seen_is_told_where_it_left_a_trace() {
    let bench = Bench::new();
    let going = watch_json(&bench);
    event(&going, "start");
    going.pause(); // so that it can't look in between
    bench.take("a").release(50 * SECOND);
    going.send(Signal::SIGCONT);
    let missed = event(&going, "missed");
    assert_eq!((&missed["state"], &missed["holder"]), (&"kept".into(), &serde_json::Value::Null));
    assert!(missed["token"].is_string() && missed["label"].is_string(), "{missed}");
    event(&going, "kept");
}

/// Ctrl-C and TERM end it, as any program that does nothing about them.
#[test]
fn a_signal_ends_it() {
    for signal in [SIGINT, SIGTERM] {
        let bench = Bench::new();
        let going = watch(&bench);
        going.send(signal);
        assert_eq!(going.end(), (1000 + signal as i32, String::new()));
    }
}

/// `watch | head -1` ends with `head`, not at the next event, and without a complaint.
#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let bench = Bench::new();
    let script = "\"$0\" watch a | head -1; echo ${PIPESTATUS[0]}";
    let mut command = std::process::Command::new("bash");
    command.args(["-c", script, env!("CARGO_BIN_EXE_leasehold")]).env("LEASEHOLD_STORE", bench.url());
    let piped = ran(&mut command);
    let lines: Vec<&str> = piped.stdout.lines().collect();
    assert!(lines.len() == 2 && lines[0].ends_with(" a: free") && lines[1] == "0", "{piped:?}");
    assert_eq!(piped.stderr, "");
}

#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let bench = Bench::new();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    ran(bench.command(["watch", "a"]).stdout(full)).fails(78, &["cannot write to stdout"]);
}

/// What goes into a file is whole after each event, and a file needs no reader.
#[test]
fn it_can_write_into_a_file() {
    let bench = Bench::new();
    let file = fs::File::create(bench.path("log")).unwrap();
    let mut watch = bench.command(["watch", "a", "--json"]).stdout(file).stderr(Stdio::null()).spawn().unwrap();
    let lines = || fs::read_to_string(bench.path("log")).unwrap().lines().count();
    eventually("the start is written", LIMIT, || lines() == 1);
    let _held = bench.take("a");
    eventually("the grant is written", LIMIT, || lines() == 2);
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn an_outage_is_told_once_and_so_is_its_end() {
    let bench = Bench::new();
    fs::create_dir(bench.path("disk")).unwrap();
    let url = format!("sqlite://{}", bench.path("disk/locks.db").display());
    let going = Going::start(&mut bench.command(["watch", "a", "--json", "--store", &url]));
    event(&going, "start");
    fs::rename(bench.path("disk"), bench.path("away")).unwrap();
    let away = event(&going, "unreachable");
    assert_eq!(away["state"], serde_json::Value::Null);
    assert!(away["reason"].as_str().unwrap().contains("disk"), "{away}");
    going.is_quiet(2 * SECOND);
    fs::rename(bench.path("away"), bench.path("disk")).unwrap();
    assert_eq!(event(&going, "reachable")["state"], "free");
    going.is_quiet(2 * SECOND);
}

#[test]
fn a_store_that_cannot_be_opened_is_no_outage() {
    let bench = Bench::new();
    bench.run(["watch", "a", "--store", "sqlite:none/locks.db"]).fails(78, &["none", "create it"]);
    bench.write("locks.db", &"this is no database. ".repeat(100));
    bench.run(["watch", "a"]).fails(78, &["locks.db"]);
}
