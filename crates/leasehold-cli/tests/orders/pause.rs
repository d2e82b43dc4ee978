//! Pauses.

use std::collections::BTreeSet;

use leasehold_testkit::process::eventually;
use serde_json::json;

use crate::common::LIMIT;
use crate::schedulers::{Does, Place, Schedulers, operator};

const EVERY_SECOND: &str = "@every 1s";

#[test]
fn a_pause_stops_a_fleet_until_it_is_resumed() {
    for place in Place::all() {
        let schedulers =
            Schedulers::start(&place, 3, &[("a", EVERY_SECOND, Does::Ends), ("b", EVERY_SECOND, Does::Ends)]);
        let ran = |job: &str| schedulers.began().into_iter().filter(|(name, ..)| name == job).count();
        eventually("both run", LIMIT, || ran("a") > 0 && ran("b") > 0);
        place.run(&["pause", "a", "--reason", "no disk \u{1b}[2J"]).says(&["a is paused until it is resumed"]);
        // Others may have been skipped before, on a busy machine.
        let is_why = |run: &serde_json::Value| run["reason"].as_str().is_some_and(|why| why.contains("was paused"));
        let skipped = || -> Vec<_> { place.history(&["a", "--state", "skipped"]).into_iter().filter(is_why).collect() };
        eventually("all have heard of it", LIMIT, || skipped().len() > 5);
        let newest: BTreeSet<_> = skipped()[..3].iter().map(|run| run["tick"].as_str().unwrap().to_owned()).collect();
        assert!(!schedulers.began().iter().any(|(job, tick, _)| job == "a" && newest.contains(&tick.to_string())));
        let why = skipped()[0]["reason"].as_str().unwrap().to_owned();
        assert_eq!(why, format!("the job was paused ({}: no disk \u{1b}[2J)", operator()));
        let told = place.run(&["history", "a"]);
        told.says(&["a is paused since ", &format!(", by {}: no disk \\u{{1b}}[2J\n", operator())]);
        assert!(!told.stdout.contains('\u{1b}'));
        let (stopped, other) = (ran("a"), ran("b"));
        eventually("the other goes on", LIMIT, || ran("b") > other + 2);
        assert_eq!(ran("a"), stopped);

        let resumed = place.json(&["resume", "a", "--json"]);
        assert_eq!(resumed, json!({"job": "a", "resumed": true, "by": operator()}));
        eventually("it runs again", LIMIT, || ran("a") > stopped);
        place.run(&["resume", "a"]).says(&["a was not paused"]);
        let acts = place.history(&["a", "--state", "paused,resumed"]);
        let acts: Vec<_> =
            acts.iter().map(|act| (act["state"].as_str().unwrap(), act["node"].as_str().unwrap())).collect();
        assert_eq!(acts, [("resumed", operator().as_str()), ("paused", operator().as_str())]);
        let ticks: Vec<_> = schedulers.began().into_iter().map(|(job, tick, _)| (job, tick)).collect();
        assert_eq!(ticks.iter().collect::<BTreeSet<_>>().len(), ticks.len(), "each once");
    }
}

#[test]
fn a_pause_may_have_an_end() {
    for place in Place::all() {
        let schedulers = Schedulers::start(&place, 2, &[("a", EVERY_SECOND, Does::Ends)]);
        eventually("it runs", LIMIT, || !schedulers.began().is_empty());
        let paused = place.json(&["pause", "a", "--for", "6s", "--json"]);
        let until: leasehold_schedule::Timestamp = paused["until"].as_str().unwrap().parse().unwrap();
        assert_eq!(
            (&paused["paused"], &paused["by"], &paused["reason"]),
            (&json!(true), &json!(operator()), &json!(""))
        );
        eventually("it runs again by itself", LIMIT, || schedulers.began().iter().any(|(_, tick, _)| *tick >= until));
        assert!(!place.history(&["a", "--state", "skipped"]).is_empty(), "ticks within it were skipped");
        place.run(&["resume", "a"]).says(&["a was not paused"]);

        place.run(&["pause", "a", "--until", "2099-01-01T00:00:00Z"]).fails(64, &["2099-01-01T00:00:00Z", "400 days"]);
        place.run(&["pause", "a", "--until", "2020-01-01T00:00:00Z"]).fails(64, &["2020-01-01T00:00:00Z is over"]);
        place.run(&["pause", "a", "--until", "tomorrow"]).fails(64, &["tomorrow"]);
        place.run(&["pause", "a", "--until", "2027-01-01T00:00:00Z", "--for", "1h"]).fails(64, &["--for", "--until"]);
    }
}
