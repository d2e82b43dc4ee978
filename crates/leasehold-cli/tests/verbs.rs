//! The command's frame and all verbs but `run`: answers, exit codes, and each way to be refused.

mod common;

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::time::Duration;
use std::{ffi::OsStr, fs};

use common::{Bench, Going, LABEL, LIMIT, Ran, ran};
use leasehold_testkit::process::eventually;

const VERBS: [&str; 19] = [
    "run",
    "status",
    "ls",
    "contention",
    "watch",
    "release",
    "doctor",
    "route",
    "accept-loss",
    "migrate",
    "schedule",
    "next",
    "history",
    "trigger",
    "pause",
    "resume",
    "serve",
    "completions",
    "man",
];

#[test]
fn status_tells_of_a_free_lock() {
    let bench = Bench::new();
    bench.run(["status", "a"]).says(&["a is free", &bench.url()]);
    let json = bench.run(["status", "a", "--json"]).json();
    assert_eq!(
        json,
        serde_json::json!({
            "name": "a", "state": "free", "holder": null, "label": null, "token": null, "held_for_ms": null,
            "ttl_left_ms": null, "revoked": false, "waiting": 0, "permits": 1, "others": [], "library": null, "queue": [],
            "store": bench.url()
        })
    );
}

/// A name that is misspelt leaves no file behind that looks like one in which all is free.
#[test]
fn who_only_looks_makes_no_file() {
    let bench = Bench::new();
    let looks: [&[&str]; 6] = [
        &["ls"],
        &["ls", "--json"],
        &["status", "a"],
        &["contention"],
        &["release", "a", "--now"],
        &["release", "a", "--force", "--json"],
    ];
    for look in looks {
        bench.run(look).fails(0, &[]);
        assert!(!bench.path("locks.db").exists(), "{look:?}");
    }
    ran(&mut bench.bare(["ls"])).fails(0, &["no lock is held or waited for in sqlite://"]);
    assert!(!bench.path(".local").exists());
    bench.run(["ls", "--store", "sqlite:none/locks.db"]).fails(78, &["none", "create it"]);
}

#[test]
fn status_tells_of_a_held_lock() {
    let bench = Bench::new();
    let held = bench.take("a");
    let _waiter = bench.wait_for("a");
    let mut ran = bench.run(["status", "a"]);
    // One that is late to say so does not wait for a moment.
    eventually("who waits is told", LIMIT, || {
        ran = bench.run(["status", "a"]);
        ran.stdout.contains("waiting  1")
    });
    ran.says(&["a is held", "web-3/41/backup", &held.holder(), "since", "ttl left ", &bench.url()]);
    assert!(!ran.stdout.contains('\u{1b}'), "a label must not drive the terminal: {ran:?}");

    let json = bench.run(["status", "a", "--json"]).json();
    assert_eq!(json["state"], "held");
    assert_eq!(json["holder"], held.holder());
    assert_eq!(json["token"], held.token.to_string(), "as text");
    assert!(json["ttl_left_ms"].as_u64().is_some_and(|ms| (50_000..=60_000).contains(&ms)), "{json}");
    assert!(json["held_for_ms"].as_u64().is_some_and(|ms| ms < 10_000), "{json}");
}

#[test]
fn status_tells_who_waits_in_line() {
    let bench = Bench::new();
    let held = bench.take("a");
    let queue = || bench.run(["status", "a", "--json"]).json()["queue"].clone();
    assert_eq!(queue(), serde_json::json!([]));
    let first = bench.wait_for("a");
    let mut line = queue();
    // One that is late to say so does not wait for a moment.
    eventually("it is in the line", LIMIT, || {
        line = queue();
        line.as_array().is_some_and(|line| line.len() == 1)
    });
    assert_eq!(line[0]["holder"].as_str().map(str::len), Some(32), "{line}");
    assert!(line[0]["label"].as_str().is_some_and(|label| label.ends_with("/true")), "{line}");
    assert!(line[0]["waited_ms"].as_u64().is_some_and(|ms| ms < 20_000), "{line}");

    let second = Going::start(&mut bench.command(["run", "a", "--wait", "-q", "--", "echo"]));
    eventually("it waits, too", LIMIT, || queue().as_array().is_some_and(|line| line.len() == 2));
    let mut shown = bench.run(["status", "a"]);
    eventually("both are shown", LIMIT, || {
        shown = bench.run(["status", "a"]);
        shown.stdout.contains("waiting  2\n")
    });
    let [next, then] = ["next     ", "then     "].map(|word| {
        shown.stdout.lines().find(|line| line.starts_with(word)).unwrap_or_else(|| panic!("{word:?}: {shown:?}"))
    });
    let holder = line[0]["holder"].as_str().unwrap();
    assert!(next.contains(&format!("/true ({holder}) for ")) && then.contains("/echo ("), "{shown:?}");

    drop(first); // Killed: it is given up after a second.
    eventually("one is left", LIMIT, || queue().as_array().is_some_and(|line| line.len() == 1));
    assert!(queue()[0]["label"].as_str().is_some_and(|label| label.ends_with("/echo")));
    held.release(Duration::ZERO);
    assert_eq!(second.end().0, 0);
    assert_eq!(queue(), serde_json::json!([]));
}

/// Names and labels are anybody's: none drives a terminal, and none passes for another.
#[test]
fn what_others_have_named_is_shown_escaped_everywhere_but_in_json() {
    const NAME: &str = "pay\u{200b}\u{202e}roll";
    const SHOWN: &str = "pay\\u{200b}\\u{202e}roll";
    let is_odd = |letter: char| letter != '\n' && letter.is_control() || "\u{200b}\u{202e}\u{2066}".contains(letter);
    let bench = Bench::new();
    let _held = bench.take(NAME);
    let looks: [(&[&str], i32, &str); 9] = [
        (&["ls"], 0, r"backup\u{1b}[2J\u{202e}\u{200b}\u{2066}"),
        (&["status", NAME], 0, r"backup\u{1b}[2J\u{202e}\u{200b}\u{2066}"),
        (&["run", NAME, "--", "true"], 75, r"backup\u{1b}[2J\u{202e}\u{200b}\u{2066}"),
        (&["run", NAME, "--wait=2s", "--", "true"], 75, "held by"),
        (&["contention"], 0, "NAME"),
        (&["contention", "--sort", "name"], 0, SHOWN),
        (&["pause", NAME, "--reason", "x"], 64, "no scheduler"),
        (&["trigger", NAME], 64, "no scheduler"),
        (&["release", NAME], 75, r"backup\u{1b}[2J\u{202e}\u{200b}\u{2066}"),
    ];
    for (look, code, words) in looks {
        let ran = bench.run(look);
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.code, code, "{look:?}: {ran:?}");
        assert!(all.contains(SHOWN) && all.contains(words) && !all.contains(is_odd), "{look:?}: {ran:?}");
    }
    for look in [&["doctor"][..], &["history", NAME], &["history"]] {
        let ran = bench.run(look);
        assert!(!format!("{}{}", ran.stdout, ran.stderr).contains(is_odd), "{look:?}: {ran:?}");
    }
    let watch = Going::start(&mut bench.command(["watch", NAME]));
    let line = watch.line();
    assert!(line.contains(SHOWN) && !line.contains(is_odd), "{line:?}");
    let again = Going::start(&mut bench.command(["ls", "--watch=100ms"]));
    let drawn = [again.line(), again.line(), again.line()].concat();
    assert!(drawn.contains(SHOWN) && !drawn.contains(is_odd), "{drawn:?}");

    let listed = bench.run(["ls", "--json"]).json();
    assert_eq!((&listed[0]["name"], &listed[0]["label"]), (&NAME.into(), &LABEL.into()));
    assert_eq!(bench.run(["status", NAME, "--json"]).json()["label"], LABEL);
    let watch = Going::start(&mut bench.command(["watch", NAME, "--json"]));
    let told = watch.json();
    assert_eq!((&told["name"], &told["label"]), (&NAME.into(), &LABEL.into()));
}

#[test]
fn status_tells_of_a_minimum_hold() {
    let bench = Bench::new();
    bench.take("a").release(Duration::from_secs(45));
    bench.run(["status", "a"]).says(&["a is released, and kept for another 4", "minimum hold"]);
    let json = bench.run(["status", "a", "--json"]).json();
    assert_eq!((json["state"].as_str(), json["holder"].as_str()), (Some("kept"), None));
}

#[test]
fn ls_shows_all_that_are_held() {
    let bench = Bench::new();
    let empty = bench.run(["ls"]);
    empty.says(&[]).fails(0, &["no lock is held"]);
    assert_eq!(empty.stdout, "");
    assert_eq!(bench.run(["ls", "--json"]).json(), serde_json::json!([]));

    let (_b, _a) = (bench.take("b"), bench.take("a"));
    let table = bench.run(["ls"]);
    table.says(&["NAME", "STATE", "HOLDER", "SINCE", "TTL LEFT", "TOKEN", "WAITING"]);
    let names: Vec<&str> = table.stdout.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(table.stdout.lines().all(|line| line == line.trim_end()) && !table.stdout.contains('\u{1b}'), "{table:?}");
    assert_eq!(bench.run(["ls", "--json"]).json()[1]["name"], "b");
}

#[test]
fn release_without_a_flag_only_explains() {
    let bench = Bench::new();
    bench.run(["release", "a"]).says(&["a is free"]);
    let held = bench.take("a");
    bench.run(["release", "a"]).fails(75, &["web-3/41/backup", "--force", "--now", "two may run"]);
    let json = bench.run(["release", "a", "--json"]);
    json.fails(75, &["--force"]);
    assert_eq!((&json.json()["done"], &json.json()["before"]["state"]), (&"refused".into(), &"held".into()));
    assert_eq!(held.renewal(), "Renewed");
}

#[test]
fn release_by_force_revokes() {
    let bench = Bench::new();
    let held = bench.take("a");
    bench.run(["release", "a", "--force"]).says(&["a is revoked", "web-3/41/backup", "is told at its next renewal"]);
    assert_eq!(held.renewal(), "Revoked");
    bench.run(["status", "a"]).says(&["held and revoked"]);
    assert_eq!(bench.run(["status", "a", "--json"]).json()["revoked"], true);
    assert_eq!(bench.run(["release", "a", "--force", "--json"]).json()["done"], "revoked", "again changes nothing");
    held.release(Duration::ZERO);
    bench.run(["release", "a", "--force"]).says(&["a is free"]);
}

#[test]
fn release_now_frees_at_once() {
    let bench = Bench::new();
    let held = bench.take("a");
    bench.run(["release", "a", "--now"]).says(&["a is free", "two may run"]);
    bench.run(["status", "a"]).says(&["a is free"]);
    assert_eq!(held.renewal(), "Gone");
    assert_eq!(bench.run(["release", "a", "--force", "--now", "--json"]).json()["done"], "nothing");
}

#[test]
fn a_minimum_hold_has_nobody_to_be_told() {
    let bench = Bench::new();
    bench.take("a").release(Duration::from_secs(45));
    bench.run(["release", "a", "--force"]).fails(75, &["nobody holds a", "--now ends that"]);
    bench.run(["release", "a", "--now"]).says(&["a is free"]);
    bench.run(["status", "a"]).says(&["a is free"]);
}

#[test]
fn doctor_reports() {
    let bench = Bench::new();
    let json = bench.run(["doctor", "--json"]).json();
    assert_eq!((&json["store"], &json["chosen_by"]), (&bench.url().into(), &"LEASEHOLD_STORE".into()));
    let findings = json["findings"].as_array().unwrap();
    assert!(!findings.is_empty());
    for finding in findings {
        assert!(["fine", "warning", "problem"].contains(&finding["severity"].as_str().unwrap()), "{finding}");
        assert!(finding["subject"].is_string() && finding["message"].is_string(), "{finding}");
        assert_eq!(finding["fix"].is_null(), finding["severity"] == "fine", "{finding}");
    }
    bench.run(["doctor"]).says(&[&bench.url(), "chosen by LEASEHOLD_STORE"]);
}

#[test]
fn a_bad_command_line_is_64_with_one_clear_error() {
    let bench = Bench::new();
    let long = "x".repeat(201);
    let cases: &[(&[&str], &[&str])] = &[
        (&["staus", "a"], &["'staus'", "'status'"]),
        (&["status"], &["<NAME>"]),
        (&["status", ""], &["lock name is empty", "1 to 200 bytes"]),
        (&["status", "a\u{1b}b"], &["control character", "\\u{1b}", "take it out"]),
        (&["run", &long, "--", "true"], &["201 bytes", "at most 200", "shorten"]),
        (&["run", "a"], &["<CMD>", "leasehold run [OPTIONS] <NAME> -- <CMD>"]),
        (&["run", "a", "--ttl", "0s", "--", "true"], &["--ttl", "0s", "1s to 1h"]),
        (&["run", "a", "--ttl", "999ms", "--", "true"], &["--ttl", "999ms", "1s to 1h"]),
        (&["run", "a", "--ttl", "2h", "--", "true"], &["--ttl", "2h", "1s to 1h"]),
        (&["run", "a", "--ttl", "30", "--", "true"], &["--ttl", "write 30s for seconds"]),
        (&["run", "a", "--ttl=-5s", "--", "true"], &["--ttl", "-5s", "for example 90s"]),
        (&["run", "a", "--tll", "5s", "--", "true"], &["'--tll'", "'--ttl'"]),
        (
            &["run", "a", "--kill-after", "16s", "--", "true"],
            &["--kill-after 16s", "half of --ttl 30s", "--ttl to 32s"],
        ),
        (&["run", "a", "--at-least-for", "25h", "--", "true"], &["--at-least-for", "25h", "at most 1d"]),
        (&["run", "a", "--max-hold", "0s", "--", "true"], &["--max-hold", "0s", "more than nothing"]),
        (&["run", "a", "--wait=soon", "--", "true"], &["--wait", "soon", "for example 90s"]),
        (&["run", "a", "--wait", "5s", "true"], &["--wait=5s"]),
        (&["run", "a", "--forever", "--wait=5s", "--", "true"], &["--forever", "--wait=5s", "take one of them out"]),
        (&["run", "a", "--forever", "--report"], &["--report"]),
        (&["watch"], &["<NAME>"]),
        (&["run", "a", "--on-down", "run", "--", "true"], &["--on-down <WHAT>: 'run' is not known", "fail, skip"]),
        (&["run", "a", "--report"], &["--report <FILE> lacks its value"]),
        (&["run", "a", "--ttl", "2s", "--ttl", "3s", "--", "true"], &["--ttl <DUR>", "given twice", "keep one"]),
        (&["run", "a", "--tz", "UTC", "--", "true"], &["--once-per <SLOT>", "is missing"]),
        (&["ls", "a"], &["'a' is one argument too many", "`leasehold ls --help`"]),
        (&["ls", "-\u{1b}[2J"], &["there is no option", "\\u{1b}"]),
        (&["--store", "sqlite:"], &["the verb is missing", "run, status"]),
        (&["watch", "a\u{1b}b"], &["control character", "\\u{1b}"]),
        (&["run", "a", "--held-exit-code", "256", "--", "true"], &["--held-exit-code", "256", "0 to 255"]),
        (&["run", "a", "-v", "-q", "--", "true"], &["--verbose", "--quiet"]),
        (&["ls", "--store", "postgress://h/d"], &["postgress", "sqlite"]),
        (&["ls", "--store", "main"], &["\"main\"", "leasehold.toml", "--config"]),
        (&["ls", "--namespace", ""], &["namespace is empty", "1 to 64 bytes"]),
        (&["ls", "--namespace", "a\nb"], &["namespace", "control character"]),
        (&["completions", "tcsh"], &["tcsh", "bash", "zsh", "fish"]),
        (&["man", "walk"], &["walk", "status"]),
    ];
    for (args, words) in cases {
        let ran = bench.run(*args);
        ran.fails(64, words);
        assert!(ran.stderr.starts_with("leasehold: ") && ran.stdout.is_empty(), "{ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
        assert!(!ran.stderr.contains('\u{1b}') && !ran.stderr.contains("error:"), "{ran:?}");
    }
    assert!(!bench.path("locks.db").exists(), "nothing was opened for them");
}

#[test]
fn a_name_that_is_not_text_is_refused() {
    Bench::new().run([OsStr::new("status"), OsStr::from_bytes(b"a\xff")]).fails(64, &["UTF-8"]);
}

#[test]
fn no_verb_shows_the_help_and_is_64() {
    Bench::new().run::<&str>([]).fails(64, &["Usage: leasehold", "Examples:"]);
}

#[test]
fn a_bad_environment_is_78() {
    let bench = Bench::new();
    let ls = |name: &str, value: &OsStr| ran(bench.bare(["ls"]).env(name, value));
    ls("LEASEHOLD_STORE", "postgress://h/d".as_ref()).fails(78, &["LEASEHOLD_STORE", "postgress"]);
    ls("LEASEHOLD_STORE", "main".as_ref()).fails(78, &["LEASEHOLD_STORE", "\"main\"", "no configuration file"]);
    ls("LEASEHOLD_STORE", OsStr::from_bytes(b"\xff")).fails(78, &["LEASEHOLD_STORE is not UTF-8"]);
    ls("LEASEHOLD_CONFIG", "/no/such.toml".as_ref()).fails(78, &["/no/such.toml", "No such file"]);
    let namespace = ran(bench.command(["ls"]).env("LEASEHOLD_NAMESPACE", "x".repeat(65)));
    namespace.fails(78, &["LEASEHOLD_NAMESPACE", "65 bytes", "at most 64"]);
}

#[test]
fn a_bad_configuration_file_is_78() {
    let bench = Bench::new();
    for (text, words) in [
        ("default = = 1", &["leasehold.toml, line 1", "not TOML"][..]),
        ("[stores.main]\nurl = \"sqlite:\"\nttl = 5", &["leasehold.toml, line 3", "\"ttl\"", "url with password_file"]),
        ("[stores.main]\nurl = \"sqlite:\"", &["no store is the default", "default = \"main\""]),
        ("default = \"mian\"\n[stores.main]\nurl = \"sqlite:\"", &["line 1", "there are: main"]),
        ("default = \"q\"\n[stores.q]\nquorum = [\"a\"]", &["line 3", "stores.q.quorum has 1 member,", "odd number"]),
        ("default = \"m\"\n[stores.m]\nurl = \"postgress://h\"", &["leasehold.toml: ", "postgress"]),
        (
            "default = \"m\"\n[stores.m]\nurl = \"sqlite:///x\"\npassword_file = \"l.toml\"",
            &["no place for a password"],
        ),
        (
            "default = \"m\"\n[stores.m]\nurl = \"r://h\"\npassword_file = \"none\"",
            &["password file ./none", "No such file"],
        ),
    ] {
        bench.write("leasehold.toml", text);
        bench.write("l.toml", "secret");
        let ran = ran(&mut bench.bare(["ls"]));
        ran.fails(78, words);
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    }
    ran(&mut bench.bare(["ls", "--config", "none.toml"])).fails(78, &["none.toml", "No such file"]);
    ran(&mut bench.bare(["ls", "--config", "."])).fails(78, &["configuration file ."]);
}

#[test]
fn a_store_can_be_named() {
    let bench = Bench::new();
    let text = format!("default = \"main\"\n[stores.main]\nurl = {:?}\n[stores.other]\nurl = {:?}", bench.url(), "x:");
    bench.write("leasehold.toml", &text);
    let _held = bench.take("a");
    let status = |args: &[&str]| ran(&mut bench.bare(["status", "a"].iter().chain(args)));
    status(&[]).says(&["a is held", &bench.url()]);
    status(&["--store", "main"]).says(&["a is held"]);
    status(&["--store", "other"]).fails(78, &["leasehold.toml: ", "x"]);
    status(&["--store", "mine"]).fails(64, &["\"mine\"", "main, other"]);

    // From elsewhere, by its path; and what is more to the point wins.
    let file = bench.write("elsewhere.toml", &text);
    fs::remove_file(bench.path("leasehold.toml")).unwrap();
    status(&["--config", "elsewhere.toml"]).says(&["a is held"]);
    ran(bench.bare(["status", "a"]).env("LEASEHOLD_CONFIG", &file)).says(&["a is held"]);
    ran(bench.bare(["status", "a", "--store", &bench.url()]).env("LEASEHOLD_STORE", "x:")).says(&["a is held"]);
    ran(bench.bare(["--store", &bench.url(), "status", "a"]).env("LEASEHOLD_CONFIG", "")).says(&["a is held"]);
}

#[test]
fn namespaces_are_apart() {
    let bench = Bench::new();
    let _held = bench.take("a");
    bench.run(["status", "a", "--namespace", "stag ing/&1"]).says(&["a is free", "namespace=stag%20ing%2F%261"]);
    ran(bench.command(["status", "a"]).env("LEASEHOLD_NAMESPACE", "staging")).says(&["a is free"]);
    ran(bench.command(["status", "a", "--namespace", "default"]).env("LEASEHOLD_NAMESPACE", "staging"))
        .says(&["a is held"]);
}

#[test]
fn secrets_are_never_shown() {
    let bench = Bench::new();
    let url = "redis://bob:hunter2@h:1/0?password=hunter3";
    bench.write("leasehold.toml", &format!("default = \"r\"\n[stores.r]\nurl = {url:?}"));
    bench.write("bad.toml", &format!("[stores]\nr = {url:?}"));
    let runs: [Ran; 7] = [
        bench.run(["ls", "--store", url]),
        bench.run(["ls", url]),
        bench.run([&format!("--store={url}"), "sl"]),
        bench.run([url]),
        ran(bench.bare(["doctor"]).env("LEASEHOLD_STORE", url)),
        ran(&mut bench.bare(["doctor"])),
        ran(&mut bench.bare(["ls", "--config", "bad.toml"])),
    ];
    for ran in runs {
        assert!([64, 78].contains(&ran.code), "{ran:?}");
        assert!(!ran.stderr.contains("hunter") && !ran.stdout.contains("hunter"), "{ran:?}");
    }
    let help = ran(bench.bare(["run", "--help"]).env("LEASEHOLD_STORE", url));
    assert!(help.code == 0 && !help.stdout.contains("hunter"));
}

#[test]
fn a_store_that_cannot_be_opened_has_its_code() {
    let bench = Bench::new();
    bench.write("file", "");
    let at = |path: &str| bench.run(["status", "a", "--store", &format!("sqlite://{}", bench.path(path).display())]);
    at("file/locks.db").fails(78, &["file"]);
    at("none/locks.db").fails(78, &["none", "create it"]);
    bench.write("locks.db", &"this is no database. ".repeat(100));
    at("locks.db").fails(78, &["locks.db"]);
    let options = bench.run(["status", "a", "--store", "sqlite:x.db?ttl=3"]);
    options.fails(64, &["no option \"ttl\"", "namespace"]);
}

#[test]
fn a_store_of_somebody_else_is_77() {
    let bench = Bench::new();
    let _held = bench.take("a");
    // Root may do everything, so root asks as somebody else. Others can't, and a checkout may be root's alone.
    let nobody = |arg: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--clear-groups", "--", env!("CARGO_BIN_EXE_leasehold"), arg]);
        command.env_clear().env("LEASEHOLD_STORE", bench.url()).current_dir("/");
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command
    };
    if nobody("--version").output().is_ok_and(|output| output.status.success()) {
        ran(&mut nobody("ls")).fails(77, &["locks.db"]);
        ran(nobody("ls").env("LEASEHOLD_STORE", "")).fails(78, &["HOME", "sqlite:///"]);
    }
}

#[test]
fn a_word_too_many_in_front_of_the_command_is_told() {
    let bench = Bench::new();
    bench
        .run(["run", "a", "no-such-program", "--", "true"])
        .fails(127, &["no-such-program", "run a -- true", "--also"]);
    let other = bench.run(["run", "a", "--", "no-such-program", "x"]);
    assert!(other.code == 127 && !other.stderr.contains("--also"), "{other:?}");
}

#[test]
fn a_store_that_is_down_fails_a_run_or_skips_it() {
    let bench = Bench::new();
    let down = "redis://127.0.0.1:1";
    let job = ["--", "touch", "ran"];
    let run = |options: &[&'static str]| {
        let words = ["run", "a", "--store"].into_iter().chain(options.iter().copied()).chain(job);
        bench.run(words.collect::<Vec<_>>())
    };
    run(&[down]).fails(69, &["refuses connections; is its server running"]);
    let skipped = run(&[down, "--on-down", "skip"]);
    skipped.fails(0, &["a: the store can't be reached", "this run is skipped"]);
    run(&[down, "--on-down", "run"]).fails(64, &["--on-down", "fail, skip"]);
    bench.write("leasehold.toml", &format!("[stores.r]\nurl = \"{down}\"\non_down = \"skip\""));
    run(&["r"]).fails(0, &["this run is skipped"]);
    run(&["r", "--on-down", "fail"]).fails(69, &[]);
    assert!(!bench.path("ran").exists(), "without a lock nothing runs");
}

#[test]
fn what_is_made_of_stores_is_composed_in_the_file() {
    let bench = Bench::new();
    bench.write(
        "leasehold.toml",
        "[stores.q]\nquorum = [\"redis://:hunter2@127.0.0.1:1\", \"redis://127.0.0.1:2\", \"redis://127.0.0.1:3\"]\n\
         [stores.two]\nfallback = { primary = \"sqlite:a.db\", arbiter = \"sqlite:b.db\" }\n",
    );
    bench.run(["ls", "--store", "q"]).fails(69, &["redis://:***@127.0.0.1:1"]);
    bench.run(["ls", "--store", "two"]).fails(78, &["can't be the primary of a fallback"]);
    bench.run(["accept-loss", "--store", "q"]).fails(64, &["--yes"]);
    bench.run(["accept-loss", "--store", "q", "--yes"]).fails(69, &["redis://:***@127.0.0.1:1"]);
    bench.run(["accept-loss", "--yes"]).fails(64, &["only a quorum"]);
    bench.run(["route"]).fails(64, &["only a fallback has a route"]);
    bench.run(["status", "a", "--store", "redlock://:hunter2@127.0.0.1:1,127.0.0.1:2"]).fails(64, &["odd number"]);
}

#[test]
fn help_and_version_are_0() {
    let bench = Bench::new();
    bench.run(["--version"]).says(&[concat!("leasehold ", env!("CARGO_PKG_VERSION"))]);
    let top = bench.run(["--help"]);
    top.says(&VERBS).says(&["LEASEHOLD_STORE", "LEASEHOLD_CONFIG", "LEASEHOLD_NAMESPACE", "Examples:", "--wait=10m"]);
    assert!(top.stdout.lines().count() <= 50, "one screen: {}", top.stdout);
    for verb in VERBS {
        bench.run([verb, "--help"]).says(&["Usage: leasehold", "Examples:", "--store"]);
    }
    bench.run(["help", "run"]).says(&["Usage: leasehold run"]);
}

#[test]
fn the_help_of_run_tells_what_the_job_sees_and_all_exit_codes() {
    let ran = Bench::new().run(["run", "--help"]);
    ran.says(&["LEASEHOLD_LOCK", "LEASEHOLD_HOLDER", "LEASEHOLD_TOKEN", "Exit codes:", "128+n"]);
    for code in [64, 69, 70, 75, 76, 77, 78, 126, 127] {
        ran.says(&[&format!("\n  {code} ")]);
    }
    ran.says(&["--forever", "--report <FILE>", "\nReport:\n"]);
    for outcome in ["running", "done", "held", "lost", "interrupted", "not_started", "unavailable", "failed"] {
        ran.says(&[&format!("{outcome} ")]);
    }
}

#[test]
fn completions_can_be_loaded() {
    let bench = Bench::new();
    for (shell, check) in [("bash", true), ("zsh", true), ("fish", true), ("elvish", false), ("powershell", false)] {
        let script = bench.run(["completions", shell]);
        script.says(&["leasehold", "at-least-for"]);
        let file = bench.write(shell, &script.stdout);
        let is_here = || Command::new(shell).arg("-c").arg(":").status().is_ok();
        if check && (shell == "bash" || is_here()) {
            let syntax = ran(Command::new(shell).arg("-n").arg(file));
            assert!(syntax.code == 0 && syntax.stderr.is_empty(), "{syntax:?}");
        }
    }
}

#[test]
fn the_manual_has_a_page_for_each_verb() {
    let bench = Bench::new();
    bench.run(["man"]).says(&[".TH leasehold 1", "EXAMPLES", "leasehold\\-run(1)"]);
    bench.run(["man", "run"]).says(&[
        "leasehold\\-run",
        ".SH EXIT CODES",
        ".SH REPORT",
        "LEASEHOLD_TOKEN",
        "\\-\\-forever",
    ]);
    bench.run(["man", "schedule-reset-mark"]).says(&[
        "leasehold\\-schedule\\-reset\\-mark",
        ".SH EXAMPLES",
        "\\-\\-reason",
    ]);
    bench.run(["man", "--dir", "."]).says(&[]);
    assert!(bench.path("leasehold.1").exists());
    for verb in VERBS {
        let page = fs::read_to_string(bench.path(format!("leasehold-{verb}.1"))).unwrap();
        assert!(page.contains(".SH NAME") && page.contains(".SH EXAMPLES"), "{verb}");
    }
    bench.run(["man", "--dir", "/no/such"]).fails(78, &["/no/such/leasehold.1", "No such file"]);
}

#[test]
fn an_answer_that_cannot_be_written_is_no_panic() {
    let bench = Bench::new();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    ran(bench.command(["status", "a"]).stdout(full())).fails(78, &["cannot write to stdout"]);
    let mut deaf = bench.command(["status", ""]);
    assert_eq!(deaf.stderr(full()).status().unwrap().code(), Some(64));

    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let nobody_reads = bench.command(["completions", "bash"]).stdout(writer).status().unwrap();
    assert_eq!(nobody_reads.code(), Some(0));
}
