//! What stands in the files, and what is wrong with it.

use std::time::Duration;

use leasehold_testkit::process::eventually;

use crate::common::{Bench, LIMIT, ran};
use crate::harness::{Node, read};

#[test]
fn check_says_what_runs_next_and_starts_nothing() {
    let bench = Bench::new();
    let file = r#"
[jobs.yearly]
cron = "0 0 1 1 *"
tz = "Asia/Tokyo"
command = ["/opt/report", "--all years"]

[jobs.soon]
every = "1s"
command = "touch ran"
"#;
    bench.write("leasehold.toml", file);
    let told = bench.run(["schedule", "--check", "--json"]).json();
    let [soon, yearly] = &told.as_array().unwrap()[..] else { panic!("{told}") };
    assert_eq!((&soon["job"], &soon["schedule"], &soon["line"]), (&"soon".into(), &"@every 1s".into(), &7.into()));
    assert_eq!(yearly["command"], "/opt/report --all years");
    assert!(yearly["next"].as_str().unwrap().ends_with("-01-01T00:00:00+09:00"), "{yearly}");
    assert!(yearly["next_utc"].as_str().unwrap().ends_with("-12-31T15:00:00Z"), "{yearly}");
    bench.run(["schedule", "--check"]).says(&["JOB", "soon", "@every 1s", "CRON_TZ=Asia/Tokyo 0 0 1 1 *", "touch ran"]);
    std::thread::sleep(Duration::from_millis(1100)); // a tick of the job
    assert!(!bench.path("ran").exists() && !bench.path("locks.db").exists());
}

#[test]
fn what_may_surprise_is_told_with_its_place() {
    let bench = Bench::new();
    bench.write("leasehold.toml", "[jobs.a]\ncron = \"*/7 * * * *\"\ncommand = \"true\"\n");
    let checked = bench.run(["schedule", "--check"]);
    checked.fails(0, &["./leasehold.toml, line 2, column 8: jobs.a: minute", "does not come out even"]);
    let mut node = Node::start(&bench, &["-v"]);
    let warning = node.tells("warning");
    assert!(warning["message"].as_str().unwrap().contains("line 2, column 8"), "{warning}");
}

const WRONG: &str = r#"default = "nobody"

[stores.a]
ulr = "redis://:hunter2@h"
on_down = true

[jobs.a]
cron = "0 0 31 2 *"
command = "true"
tz = "Europe/Berln"

[jobs.b]
cron = "* * * * *"
every = "15m"
command = []
catch_up = "2"
missed = "some"
overlap = { allow = 0 }
retries = { first = "10s" }
ttl = "2h"
env = { "A=B" = "hunter2", C = 5 }

[jobs.c]
at_least_once = "yes"
colour = "red"

[jobs.d]
every = "1m"
command = "true"
kill_after = "20s"
at_least_for = "2m"
time_limit = "1m"
jitter = "90s"

[jobs.e]
schedule = "@daily"
command = true

[jobs]
"f\u0001" = { every = "1m", command = "true" }
"#;

#[test]
fn everything_that_is_wrong_is_told_at_once_with_place_rule_and_fix() {
    let bench = Bench::new();
    let text = WRONG.replace(
        "\n[jobs]\n\"f\\u0001\" = { every = \"1m\", command = \"true\" }",
        "\n[jobs.\"f\\u0001\"]\nevery = \"1m\"\ncommand = \"true\"",
    );
    bench.write("leasehold.toml", &text);
    let refused = ran(&mut bench.command(["schedule", "--check"]));
    let wanted: [(&str, &[&str]); 22] = [
        ("line 4, column 1: ", &["unknown key \"ulr\"", "Correct its spelling"]),
        ("line 5, column 11: ", &["stores.a.on_down is of the type boolean", "text in quotes"]),
        ("line 8, column 8: ", &["jobs.a: ", "Europe/Berln", "did you mean Europe/Berlin?"]),
        ("line 14, column 1: ", &["jobs.b.every: a job has cron or every", "take one of them out"]),
        ("line 15, column 11: ", &["jobs.b.command names no program", "write command ="]),
        ("line 16, column 12: ", &["jobs.b.catch_up", "no unit", "write 2s"]),
        ("line 17, column 10: ", &["jobs.b.missed has to be", "{ all = 24 }"]),
        ("line 18, column 21: ", &["jobs.b.overlap.allow: 0 is out of bounds", "give 1 to 1000"]),
        ("line 19, column 11: ", &["jobs.b.retries has to be", "most = 3"]),
        ("line 20, column 7: ", &["jobs.b.ttl: 2h is out of bounds", "give 1s to 1h"]),
        ("line 21, column 9: ", &["jobs.b.env.A=B", "no = in it"]),
        ("line 21, column 32: ", &["jobs.b.env.C is of the type integer", "text in quotes"]),
        ("line 23, column 7: ", &["jobs.c has no command", "add command ="]),
        ("line 23, column 7: ", &["jobs.c says neither cron nor every", "add cron ="]),
        ("line 24, column 17: ", &["jobs.c.at_least_once", "true or false"]),
        ("line 25, column 1: ", &["unknown key \"colour\"", "wait_group"]),
        ("line 30, column 14: ", &["jobs.d.kill_after 20s is more than half of its ttl 30s", "write ttl = \"40s\""]),
        ("line 31, column 16: ", &["jobs.d.at_least_for 120s is longer than its time_limit 60s", "swap them"]),
        ("line 33, column 10: ", &["jobs.d.jitter 90s is not shorter than its period 60s", "lower it"]),
        ("line 35, column 7: ", &["jobs.e says neither cron nor every", "add cron ="]),
        ("line 36, column 1: ", &["jobs.e.schedule is called cron"]),
        ("line 37, column 11: ", &["jobs.e.command is of the type boolean", "a list of words"]),
    ];
    for (place, words) in wanted {
        let is_it = |line: &&str| {
            line.contains(&format!("leasehold.toml, {place}")) && words.iter().all(|word| line.contains(word))
        };
        assert!(refused.stderr.lines().any(|line| is_it(&line)), "{place}{words:?} is not in {}", refused.stderr);
    }
    refused.fails(78, &["line 39, column 7: a job's name is the name of its lock", "nothing was started"]);
    assert!(!refused.stderr.contains("hunter2") && !refused.stderr.contains('\u{1}'), "{refused:?}");
    // Each line but the last is one error, in the order of the file.
    let places: Vec<_> = refused.stderr.lines().filter_map(place).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(
        refused.stderr.contains(&format!("./leasehold.toml: {} errors; nothing was started", places.len())),
        "{refused:?}"
    );
}

/// `leasehold: ./leasehold.toml, line 3, column 9: …`
fn place(line: &str) -> Option<(u32, u32)> {
    let (line, rest) = line.split_once(", line ")?.1.split_once(", column ")?;
    Some((line.parse().ok()?, rest.split_once(':')?.0.parse().ok()?))
}

#[test]
fn what_is_no_toml_or_has_no_jobs_is_told() {
    let bench = Bench::new();
    for (text, words) in [
        ("[jobs.a\nevery = \"1m\"", &["line 1, column 8: this is not TOML"][..]),
        ("[stores.a]\nurl = \"sqlite:x.db\"\n", &["line 1, column 1: the file has no jobs", "add [jobs.NAME]"]),
        ("jobs = 5", &["line 1, column 8: jobs is of the type integer"]),
        ("[jobs]", &["jobs is empty"]),
    ] {
        bench.write("leasehold.toml", text);
        ran(&mut bench.command(["schedule"])).fails(78, words);
    }
    std::fs::remove_file(bench.path("leasehold.toml")).unwrap();
    ran(&mut bench.command(["schedule"])).fails(78, &["there are no jobs", "--crontab"]);
    ran(&mut bench.command(["schedule", "--crontab", "nowhere"]))
        .fails(78, &["cannot read nowhere: ", "correct its path"]);
    bench.write("windows", "0 3 * * * a\r\n0 4 * * * b\r\n");
    let refused = ran(&mut bench.command(["schedule", "--crontab", "windows", "--check"]));
    refused.fails(78, &["windows, line 1, column 12: ", "CR LF", "sed -i"]);
    assert_eq!(refused.stderr.matches("CR LF").count(), 1, "once, and not for each line: {}", refused.stderr);
    std::fs::write(bench.path("latin"), b"# \xfcbung\n").unwrap();
    ran(&mut bench.command(["schedule", "--crontab", "latin"]))
        .fails(78, &["latin, line 1, column 3: ", "not UTF-8", "0xfc"]);
    ran(&mut bench.command(["schedule", "--system"])).fails(64, &["--crontab"]);
}

/// What is wrong with jobs is no business of the other verbs.
#[test]
fn wrong_jobs_keep_nobody_from_the_store() {
    let bench = Bench::new();
    bench.write("leasehold.toml", "[stores.a]\nurl = \"sqlite:locks.db\"\n[jobs.a]\ncolour = \"red\"\n");
    ran(&mut bench.bare(["run", "x", "--store", "a", "--", "echo", "ran"])).says(&["ran"]);
    ran(&mut bench.bare(["schedule", "--store", "a"])).fails(78, &["colour"]);
}

/// Everything that a crontab may have, run.
#[test]
fn a_crontab_runs_as_it_is() {
    let bench = Bench::new();
    let home = bench.path("home");
    std::fs::create_dir(&home).unwrap();
    let crontab = format!(
        "# our jobs\n\
         MAILTO=ops@example.com\n\
         HOME = \"{}\"\n\
         GREETING=' hello '\n\
         # name: greets\n\
         @every 1s  echo \"$LEASEHOLD_LOCK:$GREETING:$(pwd):$0\" && cat%first%second \\% third\n\
         SHELL=/bin/bash\n\
         CRON_TZ=Europe/Berlin\n\
         -0 3 1 1 *  never today\n\
         @every 1s  echo \"${{BASH_VERSION:+bash}}\" >bash\n",
        home.display()
    );
    bench.write("crontab", &crontab);
    let checked = bench.run(["schedule", "--crontab", "crontab", "--check"]);
    checked
        .says(&["greets", "never-", "CRON_TZ=Europe/Berlin 0 3 1 1 *"])
        .fails(0, &["crontab, line 2, column 1: MAILTO"]);
    let mut node = Node::start(&bench, &["--crontab", "crontab"]);
    let mut line = || node.tells_where("output", |told| told["job"] == "greets")["text"].as_str().unwrap().to_owned();
    let greeting = format!("greets: hello :{}:/bin/sh", std::fs::canonicalize(&home).unwrap().display());
    assert_eq!([line(), line(), line()], [greeting.as_str(), "first", "second % third"]);
    node.tells_where("done", |told| told["job"].as_str().unwrap().starts_with("echo-"));
    // It is written anew each second.
    eventually("it is bash", LIMIT, || read(&bench, "home/bash") == "bash\n");
    assert_eq!(node.stop().0, Some(0));
}

#[test]
fn all_that_is_wrong_with_a_crontab_is_told_at_once() {
    let bench = Bench::new();
    bench.write("crontab", "@reboot start\n61 * * * * x\n0 3 * * *\n17 * * * * root cd / && x\n");
    let refused = ran(&mut bench.command(["schedule", "--crontab", "crontab"]));
    refused.fails(
        78,
        &[
            "crontab, line 1, column 1: ",
            "@reboot means the start of one machine",
            "crontab, line 2, column 1: ",
            "crontab, line 3, column 1: the line has 5 fields and no command",
            "crontab, line 4, column 12: root is a user here and no program",
            "--system",
            "crontab: 4 errors; nothing was started",
        ],
    );
}

/// That another machine may run it is no reason to say nothing.
#[test]
fn what_is_missing_on_this_machine_is_told_and_no_error() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("work")).unwrap();
    bench.write("work/plain", "");
    bench.write(
        "leasehold.toml",
        r#"
[jobs.here]
every = "1m"
command = ["ls", "-l"]
dir = "work"

[jobs.nowhere]
every = "1m"
command = "true"
dir = "nowhere"

[jobs.missing]
every = "1m"
command = ["/opt/no/such/backup"]

[jobs.plain]
every = "1m"
command = ["./plain"]
dir = "work"

[jobs.path]
every = "1m"
command = ["ls"]
env = { PATH = "/nowhere" }
"#,
    );
    let checked = bench.run(["schedule", "--check", "-v"]);
    checked.fails(
        0,
        &[
            "./leasehold.toml, line 7, column 1: nowhere: there is no folder ./nowhere on this machine",
            "line 12, column 1: missing: there is no program /opt/no/such/backup, or it may not be executed, on this machine",
            "line 16, column 1: plain: there is no program ./plain",
            "line 21, column 1: path: there is no program ls",
        ],
    );
    assert_eq!(checked.stderr.lines().count(), 4, "{}", checked.stderr);
    assert_eq!(bench.run(["schedule", "--check"]).stderr, "", "only who asks for all is told");
    assert!(!bench.path("locks.db").exists());
}

#[test]
fn two_mistakes_of_one_line_are_told_at_once() {
    let bench = Bench::new();
    bench.write("leasehold.toml", "[jobs.a]\ncron = \"61 25 * * *\"\ncommand = \"true\"\n");
    ran(&mut bench.command(["schedule", "--check"])).fails(78, &["line 2, column 8: ", "61", "; and hour", "25"]);
    bench.write("crontab", "61 * * * * root cd / && x\n");
    ran(&mut bench.command(["schedule", "--crontab", "crontab", "--check"]))
        .fails(78, &["line 1, column 1: ", "61", "line 1, column 12: root is a user here", "2 errors"]);
}
