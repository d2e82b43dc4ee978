//! Runs that are asked for.

use std::process::Stdio;
use std::time::{Duration, Instant};

use leasehold_testkit::process::eventually;
use serde_json::json;

use crate::common::LIMIT;
use crate::schedulers::{Does, Place, Schedulers, YEARLY, operator};

#[test]
fn what_is_asked_for_runs_once_in_a_fleet() {
    for place in Place::all() {
        let jobs = [("good", YEARLY, Does::Ends), ("bad", YEARLY, Does::Fails("line\n", "exit code 3"))];
        let schedulers = Schedulers::start(&place, 3, &jobs);
        eventually("they are known", LIMIT, || ["good", "bad"].iter().all(|job| place.run(&["resume", job]).code == 0));
        let ran = place.run(&["trigger", "good", "--reason", "the disk was full", "--wait=20s", "--json"]);
        let run = ran.json();
        assert_eq!((ran.code, &run["state"]), (0, &json!("done")), "{ran:?}");
        assert_eq!(run["asked"], json!(format!("{}: the disk was full", operator())));
        assert_eq!(
            run["written"],
            place.history(&["good", "--state", "done"])[0]["written"],
            "when it was told how it ended"
        );
        place.run(&["trigger", "bad", "--wait"]).fails(1, &[]);
        let failed = place.run(&["trigger", "bad", "--wait=20s"]);
        assert!(
            failed.stdout.starts_with("    line\nbad, the run of ") && failed.stdout.contains("is failed: exit code 3"),
            "{failed:?}"
        );

        let before = schedulers.began().len();
        place.run(&["trigger", "good"]).says(&["good is asked for, as the run of "]);
        place.run(&["pause", "bad"]).says(&["bad is paused"]);
        place.run(&["trigger", "bad"]).fails(0, &["bad is paused since", "it runs all the same"]);
        eventually("both have run", LIMIT, || {
            ["good", "bad"]
                .iter()
                .all(|job| place.history(&[job, "--state", "done,failed", "-n", "1"])[0]["ended"].is_string())
                && place.history(&["--state", "done,failed"]).len() == 5
        });
        assert_eq!((before, schedulers.began().len()), (3, 5), "each once: {:?}", schedulers.began());
    }
}

#[test]
fn what_does_not_run_or_not_in_time_is_told() {
    for place in Place::all() {
        let schedulers = Schedulers::start(&place, 2, &[("long", YEARLY, Does::Waits)]);
        eventually("it is known", LIMIT, || place.run(&["resume", "long"]).code == 0);
        let first = place.run(&["trigger", "long", "--wait=8s", "--json"]);
        assert_eq!((first.code, &first.json()["state"]), (75, &json!("running")), "{first:?}");
        let before = Instant::now();
        let second = place.run(&["trigger", "long", "--wait=2m"]);
        second.fails(75, &[]);
        assert!(before.elapsed() < Duration::from_secs(60), "nothing is left to be waited for");
        assert!(second.stdout.contains("is skipped: it was still running for an earlier tick (web-"), "{second:?}");
        schedulers.let_go();
        eventually("the first has ended", LIMIT, || place.history(&["long", "--state", "done"]).len() == 1);
        assert_eq!(schedulers.began().len(), 1);

        let nobody = place.run(&["trigger", "to-come", "--force", "--wait=1s", "--json"]);
        assert_eq!((nobody.code, &nobody.json()["state"]), (75, &json!("asked")), "{nobody:?}");
    }
}

/// A node that took it, and was killed before it could say how it ended.
#[test]
fn whoever_waits_for_a_run_whose_node_has_died_is_told() {
    let place = Place::file();
    let schedulers = Schedulers::start(&place, 1, &[("other", YEARLY, Does::Ends)]);
    let mut command = place.bench.command(["trigger", "long", "--force", "--wait", "--json"]);
    let waiting = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut tick = None;
    eventually("it is asked for", LIMIT, || {
        tick = schedulers.asked();
        tick.is_some()
    });
    let tick = tick.unwrap();
    schedulers.write_record(
        "long",
        &tick,
        &json!({"state": "running", "node": "web-9/7/long", "tick": tick, "token": "7"}),
    );
    let ended = waiting.wait_with_output().unwrap();
    let told: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(
        (ended.status.code(), &told["state"], &told["node"]),
        (Some(76), &json!("gone"), &json!("web-9/7/long"))
    );
}

/// Nobody is sent away by that.
#[test]
fn whoever_waits_goes_on_waiting_when_the_store_was_away() {
    let [_, place] = Place::all();
    let mut command = place.bench.bare(["trigger", "job", "--force", "--wait=12s", "--json"]);
    command.env("LEASEHOLD_STORE", place.url()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let schedulers = Schedulers::start(&place, 1, &[("other", YEARLY, Does::Ends)]);
    let waiting = command.spawn().unwrap();
    eventually("it is asked for", LIMIT, || schedulers.asked().is_some());
    place.hiccups();
    let ended = waiting.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(told.matches("the store is away").count(), 1, "{told}");
    assert_eq!(ended.status.code(), Some(75), "{told}");
}
