//! SIGHUP.

use leasehold_testkit::process::eventually;
use nix::sys::signal::Signal;

use crate::common::{Bench, LIMIT};
use crate::harness::{Node, lines, read};

const BEFORE: &str = r#"
[jobs.stays]
every = "1s"
command = "echo $LEASEHOLD_TICK >>stays"
overlap = { allow = 50 }
missed = { all = 100 }

[jobs.goes]
every = "1s"
command = "echo begun >>goes; until [ -e go ]; do sleep 0.05; done; echo ended >>goes"
"#;

const AFTER: &str = r#"
[jobs.stays]
every = "1s"
command = "echo $LEASEHOLD_TICK >>stays"
overlap = { allow = 50 }
missed = { all = 100 }

[jobs.comes]
every = "1s"
command = "echo comes: $LEASEHOLD_TICK"
"#;

const WRONG: &str = r#"
[jobs.stays]
every = "1 s"
command = "true"

[jobs.other]
cron = "61 * * * *"
"#;

#[test]
fn a_good_file_is_taken_over_and_a_bad_one_is_not() {
    let bench = Bench::new();
    bench.write("leasehold.toml", BEFORE);
    let mut node = Node::start(&bench, &[]);
    eventually("the long one has begun", LIMIT, || read(&bench, "goes") == "begun\n");

    bench.write("leasehold.toml", WRONG);
    node.send(Signal::SIGHUP);
    let summary =
        node.tells_where("not_reloaded", |told| told["message"].as_str().unwrap().contains("the jobs of before go on"));
    assert!(summary["message"].as_str().unwrap().contains("3 errors"), "{summary}");
    let wrong: Vec<_> = node.heard().iter().filter(|told| told["event"] == "not_reloaded").cloned().collect();
    let places = ["line 3, column 9: jobs.stays.every", "line 6, column 7: jobs.other", "line 7, column 8: jobs.other"];
    assert_eq!(wrong.len(), 4, "{wrong:#?}");
    for (wrong, place) in wrong.iter().zip(places) {
        assert!(wrong["message"].as_str().unwrap().contains(place), "{wrong}");
    }
    let before = lines(&bench, "stays").len();
    eventually("the old ones go on", LIMIT, || lines(&bench, "stays").len() > before + 1);

    bench.write("leasehold.toml", AFTER);
    node.send(Signal::SIGHUP);
    let reloaded = node.tells("reloaded");
    assert!(reloaded["message"].as_str().unwrap().contains("2 jobs (1 new, 0 changed, 1 gone)"), "{reloaded}");
    node.tells_where("output", |told| told["text"].as_str().unwrap().starts_with("comes: "));
    assert_eq!(read(&bench, "goes"), "begun\n", "what runs is left alone");
    bench.write("go", "");
    node.tells_of("done", "goes");
    assert_eq!(read(&bench, "goes"), "begun\nended\n", "and none is begun any more");
    let before = lines(&bench, "stays").len();
    eventually("it goes on", LIMIT, || lines(&bench, "stays").len() > before + 1);
    let (code, told) = node.stop();
    assert_eq!(code, Some(0), "{told:#?}");
    let ticks: Vec<i64> = lines(&bench, "stays")
        .iter()
        .map(|(tick, times)| {
            assert_eq!(*times, 1, "{tick}");
            tick.parse::<leasehold_schedule::Timestamp>().unwrap().as_second()
        })
        .collect();
    assert!(ticks.windows(2).all(|pair| pair[1] - pair[0] == 1), "undisturbed: {ticks:?}");
}

/// The command of a job that stays may be another from its next tick on.
#[test]
fn a_changed_command_is_run_from_the_next_tick_on() {
    let bench = Bench::new();
    let job = |command: &str| format!("[jobs.a]\nevery = \"1s\"\ncommand = \"echo {command}\"\n");
    bench.write("leasehold.toml", &job("old"));
    let mut node = Node::start(&bench, &[]);
    node.tells_where("output", |told| told["text"] == "old");
    bench.write("leasehold.toml", &job("new"));
    node.send(Signal::SIGHUP);
    assert!(node.tells("reloaded")["message"].as_str().unwrap().contains("1 job (0 new, 1 changed, 0 gone)"));
    node.tells_where("output", |told| told["text"] == "new");
    assert_eq!(node.stop().0, Some(0));
}
