//! What is told of runs.

use leasehold_testkit::process::eventually;
use serde_json::json;

use crate::common::LIMIT;
use crate::schedulers::{Does, Place, Schedulers, YEARLY};

const WROTE: &str = "one\ntwo \u{1b}]0;x\u{7}\n";

fn jobs() -> [(&'static str, &'static str, Does); 3] {
    [
        ("good", "@every 1s", Does::Ends),
        ("bad é/%41", "@every 1s", Does::Fails(WROTE, "exit code 3\u{9b}31m")),
        ("long", "@every 1s", Does::Waits),
    ]
}

#[test]
fn it_tells_what_ran_and_runs_and_what_did_not_and_why() {
    for place in Place::all() {
        let schedulers = Schedulers::start(&place, 2, &jobs());
        eventually("each has begun, and the long one was skipped", LIMIT, || {
            ["good", "bad é/%41"]
                .iter()
                .all(|job| place.history(&[job]).iter().filter(|run| run["state"] != "running").count() > 1)
                && place.history(&["long", "--state", "skipped"]).len() > 1
        });

        let failed = place.history(&["bad é/%41", "--state", "failed", "-n", "1"]);
        let [run] = &failed[..] else { panic!("{failed:?}") };
        assert_eq!(
            (&run["reason"], &run["output"], &run["attempts"]),
            (&json!("exit code 3\u{9b}31m"), &json!(WROTE), &json!(1))
        );
        assert!(run["token"].as_str().is_some_and(|token| token.parse::<u64>().is_ok()), "as text: {run}");
        for instant in ["tick", "started", "ended", "written"] {
            let text = run[instant].as_str().unwrap_or_default();
            assert!(text.ends_with('Z') && text.parse::<leasehold_schedule::Timestamp>().is_ok(), "{instant}: {run}");
        }
        assert!(
            run["took_ms"].is_u64() && run["asked"].is_null() && run["node"].as_str().unwrap().ends_with("/bad é/%41")
        );

        // Where this process has stood still some may have been missed as well.
        let long = place.history(&["long", "-n", "2", "--state", "running,skipped"]);
        let states: Vec<_> = long.iter().map(|run| run["state"].as_str().unwrap()).collect();
        assert_eq!(states, ["running", "skipped", "skipped"], "what runs comes first, and beside the others");
        let [(_, tick, node)] =
            &schedulers.began().into_iter().filter(|(job, ..)| job == "long").collect::<Vec<_>>()[..]
        else {
            panic!("it runs once")
        };
        assert_eq!(long[0]["tick"], tick.to_string());
        assert!(long[0]["node"].as_str().unwrap().starts_with(&format!("web-{node}/41")), "{long:?}");
        assert!(
            long[1]["reason"].as_str().unwrap().starts_with("it was still running for an earlier tick (web-"),
            "{long:?}"
        );

        // All jobs, and what people see: nothing of it is a control character.
        let all = place.run(&["history", "--output", "-n", "40"]);
        all.says(&[
            "JOB",
            "WHEN",
            "bad é/%41",
            "running",
            "skipped",
            "failed",
            "exit code 3\\u{9b}31m",
            "    two \\u{1b}]0;x\\u{7}\n",
        ]);
        assert!(all.stdout.chars().all(|letter| letter == '\n' || !letter.is_control()), "{}", all.stdout);
        let short = place.run(&["history", "good", "-n", "2"]);
        assert_eq!(
            (short.stdout.lines().count(), short.stdout.lines().next().unwrap().split_whitespace().next()),
            (3, Some("WHEN"))
        );
        assert_eq!(place.history(&["--state", "running"]).iter().filter(|run| run["job"] == "long").count(), 1);
        schedulers.let_go();
        // And so do all that come after it.
        let has_ended = |run: &serde_json::Value| run["tick"] == tick.to_string();
        eventually("it has ended", LIMIT, || place.history(&["long", "--state", "done"]).iter().any(has_ended));
    }
}

#[test]
fn a_run_whose_node_has_died_is_told_apart() {
    for place in Place::all() {
        let schedulers = Schedulers::start(&place, 1, &[("nightly", YEARLY, Does::Ends)]);
        eventually("it is known", LIMIT, || place.run(&["history", "nightly"]).code == 0);
        let tick = "2026-11-30T02:00:00Z";
        let record = json!({"state": "running", "node": "web-9/7/nightly", "tick": tick, "started": tick, "attempts": 2, "token": "7"});
        schedulers.write_record("nightly", tick, &record);
        for words in [&["nightly"][..], &["--state", "gone"], &["nightly", "--state", "gone,done", "--since", "1h"]] {
            let told = place.history(words);
            let [run] = &told[..] else { panic!("{words:?}: {told:?}") };
            assert_eq!(
                (&run["state"], &run["node"], &run["attempts"]),
                (&json!("gone"), &json!("web-9/7/nightly"), &json!(2))
            );
        }
        assert_eq!(place.history(&["nightly", "--state", "running"]), [json!(null); 0]);
        place.run(&["history", "nightly"]).says(&["gone", "its node has died, or can't tell how it ended"]);
        // What a later version has written is left out.
        schedulers.write_record("nightly", "x", &json!({"state": "teleported", "node": "web-9"}));
        assert_eq!(place.history(&["nightly"]).len(), 1);
    }
}

/// A run by hand, or one that began before everything that is shown, is read off its lock.
#[test]
fn whoever_holds_the_lock_is_told_though_nothing_is_written() {
    for place in Place::all() {
        let _schedulers = Schedulers::start(&place, 1, &[("nightly", YEARLY, Does::Ends)]);
        eventually("it is known", LIMIT, || place.run(&["history", "nightly"]).code == 0);
        let leasehold = env!("CARGO_BIN_EXE_leasehold");
        let inner = format!("{leasehold} history nightly --json");
        let ran = place.run(&["run", "nightly", "--", "sh", "-c", &inner]);
        let told = ran.json();
        assert_eq!((&told[0]["state"], &told[0]["tick"]), (&json!("running"), &json!(null)), "{ran:?}");
        assert!(told[0]["node"].as_str().unwrap().ends_with("/sh") && told[0]["started"].is_string(), "{told}");
        place.run(&["history", "nightly"]).fails(0, &["nothing of nightly that was asked for is recorded"]);
    }
}
