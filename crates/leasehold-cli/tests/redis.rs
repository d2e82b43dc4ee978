//! The command over a Redis server.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use common::{Bench, Going, LIMIT, Ran, ran};
use leasehold_testkit::process::eventually;
use leasehold_testkit::servers::Redis;
use nix::sys::signal::Signal;

const YEAR: &str = "0 0 1 1 *";

fn on(server: &Redis, bench: &Bench, args: &[&str]) -> Ran {
    ran(bench.bare(args).env("LEASEHOLD_STORE", server.url()))
}

#[test]
fn run_and_its_verbs_do_there_what_they_do_in_a_file() {
    let (server, bench) = (Redis::start(), Bench::new());
    let leasehold = env!("CARGO_BIN_EXE_leasehold");
    let inner = format!("{leasehold} status a --json; {leasehold} run a -- true; echo code $?");
    let ran = on(&server, &bench, &["run", "a", "--", "sh", "-c", &inner]);
    ran.says(&["\"state\": \"held\"", "code 75"]).fails(0, &["a: held by"]);
    on(&server, &bench, &["status", "a"]).says(&["a is free"]);
    for (n, says) in [(1, "ran"), (2, "")] {
        let slot = on(&server, &bench, &["run", "s", "--once-per", YEAR, "--", "echo", "ran"]);
        assert_eq!((slot.code, slot.stdout.trim()), (0, says), "{n}: {slot:?}");
    }
    let key = ["run", "k", "--once-key", "1", "--retry-failed", "--", "sh", "-c", "[ $LEASEHOLD_ATTEMPT = 2 ]"];
    assert_eq!([0; 3].map(|_| on(&server, &bench, &key).code), [1, 0, 0]);
    let pool = format!("{leasehold} run p --permits 2 -- {leasehold} ls");
    let listed = on(&server, &bench, &["run", "p", "--permits", "2", "--", "sh", "-c", &pool]);
    assert_eq!(listed.stdout.lines().filter(|line| line.starts_with("p ")).count(), 2, "{listed:?}");
    on(&server, &bench, &["doctor"]).says(&["version: ", "role: master"]);
}

/// Found by a stranger: with two in the queue, the first that gave up handed the next one what another held.
#[test]
fn a_waiter_that_gives_up_takes_nothing_from_who_holds() {
    let (server, bench) = (Redis::start(), Bench::new());
    let start = |args: &[&str]| Going::start(bench.bare(args).env("LEASEHOLD_STORE", server.url()));
    let job = "echo begun; until [ -e enough ]; do sleep 0.02; done";
    let held = start(&["run", "a", "--", "sh", "-c", job]);
    assert_eq!(held.line(), "begun");
    // Not before the next one has come.
    let gives_up = start(&["run", "a", "--wait=5s", "--", "echo", "ran"]);
    let waits = |n: u64| {
        eventually("they wait", LIMIT, || on(&server, &bench, &["status", "a", "--json"]).json()["waiting"] == n);
    };
    waits(1);
    let next = start(&["run", "a", "--wait=1h", "--", "echo", "ran"]);
    waits(2);
    assert_eq!(gives_up.end().0, 75);
    waits(1);
    next.is_quiet(Duration::from_millis(200));
    bench.write("enough", "");
    assert_eq!(held.end(), (0, String::new()));
    assert_eq!((next.line().as_str(), next.end().0), ("ran", 0));
}

#[test]
fn a_server_that_is_gone_or_closed_is_no_answer() {
    let (server, bench) = (Redis::options().password("hunter2").start(), Bench::new());
    let closed = format!("redis://{}", server.address());
    ran(bench.bare(["run", "a", "--", "true"]).env("LEASEHOLD_STORE", closed)).fails(77, &["redis://"]);
    on(&server, &bench, &["run", "a", "--", "true"]).says(&[]);
    server.kill();
    let gone = on(&server, &bench, &["run", "a", "--", "touch", "ran"]);
    gone.fails(69, &["refuses connections"]);
    assert!(!bench.path("ran").exists() && !gone.stderr.contains("hunter2"), "{gone:?}");
}

#[test]
fn what_another_program_put_there_is_named_and_hides_nothing() {
    let (server, bench) = (Redis::start(), Bench::new());
    server.command(&["RPUSH", "leasehold:default:{theirs}", "job"]);
    let leasehold = env!("CARGO_BIN_EXE_leasehold");
    let inner = format!("{leasehold} ls; {leasehold} doctor; echo code $?; {leasehold} doctor --json");
    let told = on(&server, &bench, &["run", "ours", "--", "sh", "-c", &inner]);
    for words in [
        "\nours ",
        "foreign: leasehold:default:{theirs} is a list",
        "problem  keys: leasehold:default:{theirs} is a list",
        "fix: DEL 'leasehold:default:{theirs}'",
        "code 78",
        "\"severity\": \"problem\"",
    ] {
        assert!(told.stdout.contains(words), "{words:?} is not in {}", told.stdout);
    }
    on(&server, &bench, &["status", "theirs"]).fails(78, &["{theirs} is a list"]);
    on(&server, &bench, &["run", "theirs", "--", "true"]).fails(78, &["another namespace"]);
}

#[test]
fn a_worker_of_another_library_is_listed_as_one() {
    let (server, bench) = (Redis::start(), Bench::new());
    let url = format!("{}?compat=redis-py", server.url());
    let on = |args: &[&str]| ran(bench.bare(args).env("LEASEHOLD_STORE", &url));
    on(&["run", "job", "--", "true"]).says(&[]); // A name that one of ours has had is listed.
    server.command(&["SET", "job", "6f1ed002ab5595859014ebf0951522d9", "PX", "60000"]);
    let shown = "foreign: redis-py 6f1ed002ab5595859014ebf0951522d9";
    on(&["ls"]).says(&[shown]);
    on(&["status", "job"]).says(&["job is held", shown, "waiting  0"]);
    for json in [on(&["status", "job", "--json"]).json(), on(&["ls", "--json"]).json()[0].clone()] {
        assert_eq!((&json["library"], &json["label"]), (&"redis-py".into(), &shown.into()), "{json}");
    }
    let waits = Going::start(bench.bare(["run", "job", "--wait", "-q", "--", "true"]).env("LEASEHOLD_STORE", &url));
    let queue = || on(&["status", "job", "--json"]).json()["queue"].clone();
    eventually("one of ours waits", LIMIT, || {
        queue()[0]["label"].as_str().is_some_and(|label| label.ends_with("/true"))
    });
    server.command(&["DEL", "job"]);
    assert_eq!(waits.end().0, 0);
}

#[test]
fn who_waits_for_a_restart_guard_says_so_once() {
    let (server, bench) = (Redis::start(), Bench::new());
    let guarded = format!("{}?restart_guard=on&max_ttl=6", server.url());
    let run = ["run", "a", "--ttl", "2s", "--wait", "--", "true"];
    let waited = ran(bench.bare(run).env("LEASEHOLD_STORE", guarded));
    waited.says(&[]);
    assert_eq!(waited.stderr.matches("waiting for a: ").count(), 1, "{waited:?}");
    assert!(waited.stderr.contains("grants nothing for"), "{waited:?}");
}

#[test]
fn a_url_of_another_kind_of_server_is_told_with_the_right_one() {
    let (server, bench) = (Redis::start(), Bench::new());
    let run = |url: String| ran(bench.bare(["run", "a", "--", "true"]).env("LEASEHOLD_STORE", url));
    run(format!("redis+cluster://{}", server.address())).fails(78, &["no member of a cluster", "write redis://"]);
    run(format!("rediss://{}", server.address())).fails(69, &["speaks no TLS there", "write redis for rediss"]);
}

#[test]
fn doctor_tells_of_a_password_that_everybody_may_read() {
    let (bench, redis) = (Bench::new(), Redis::options().password("hunter2").start());
    let file = bench.write("password", "hunter2\n");
    let store = format!("[stores.r]\nurl = \"redis://{}\"\npassword_file = \"password\"\n", redis.address());
    bench.write("leasehold.toml", &format!("default = \"r\"\n{store}"));
    for (mode, is_told) in [(0o644, true), (0o600, false)] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let doctor = ran(&mut bench.bare(["doctor"]));
        assert_eq!(doctor.code, 0, "it works all the same: {doctor:?}");
        let told = ["warning  password file: ", "password (mode 644)", "fix: chmod 600 ./password"];
        assert_eq!(told.map(|words| doctor.stdout.contains(words)), [is_told; 3], "{mode:o}: {doctor:?}");
    }
}

/// Found by an adversary: with exactly the rights of the page no tick ran, and two commands were refused.
#[test]
fn with_the_least_of_rights_a_schedule_runs_and_what_it_did_is_shown() {
    let page = include_str!("../../../docs/stores/redis.md");
    let rights = page.split("ACL SETUSER jobs on >secret ").nth(1).expect("it is there").split("\n\n").next().unwrap();
    let rights = rights.split_whitespace().collect::<Vec<_>>().join(" ");
    let (server, bench) = (Redis::options().acl(&[&format!("user least on >secret {rights}")]).start(), Bench::new());
    bench.write("leasehold.toml", "[jobs.one]\nevery = \"1s\"\ncommand = \"echo ran >>witness\"\n");
    let as_least = |args: &[&str]| {
        let mut command = bench.bare(args);
        command.env("LEASEHOLD_STORE", server.url_as("least", "secret"));
        command
    };
    let node = Going::start(&mut as_least(&["schedule"]));
    eventually("two ticks have run", LIMIT, || {
        fs::read_to_string(bench.path("witness")).is_ok_and(|ran| ran.lines().count() >= 2)
    });
    eventually("both are recorded", LIMIT, || {
        let runs = ran(&mut as_least(&["history", "one", "--json"])).json();
        runs.as_array().is_some_and(|runs| runs.len() >= 2)
    });
    ran(&mut as_least(&["contention"])).says(&[]);
    ran(&mut as_least(&["pause", "one"])).says(&[]);
    ran(&mut as_least(&["resume", "one"])).says(&[]);
    node.send(Signal::SIGTERM);
    assert_eq!(node.end().0, 0);
}

/// Found by an adversary: it said that the store had not answered, and left the lock held for its whole TTL.
#[test]
fn a_run_that_too_few_replicas_have_says_so_and_leaves_no_lock_behind() {
    let (server, bench) = (Redis::start(), Bench::new());
    let url = format!("{}?wait_replicas=1", server.url());
    for ttl in ["3s", "5s", "10s"] {
        let ran = ran(bench.bare(["run", "job", "--ttl", ttl, "--", "true"]).env("LEASEHOLD_STORE", &url));
        ran.fails(69, &["0 of the 1 replicas"]);
        on(&server, &bench, &["status", "job"]).says(&["job is free"]);
    }
}

/// Found by an adversary: it was granted or refused by what the name hashed to, and without the restart guard. Who may not
/// ask for `INFO` is told, too.
#[test]
fn a_node_of_a_cluster_is_no_server_on_its_own() {
    let user = "user blind on >secret ~* &* +@all -info";
    let (server, bench) = (Redis::options().config("cluster-enabled", "yes").acl(&[user]).start(), Bench::new());
    let right = format!("write redis+cluster://{}", server.address());
    for url in [server.url(), server.url_as("blind", "secret")] {
        let ran = ran(bench.bare(["run", "job", "--", "true"]).env("LEASEHOLD_STORE", url));
        ran.fails(78, &["a node of a cluster", &right]);
    }
}

/// A stranger's lock says nothing of when it was taken.
#[test]
fn how_long_another_librarys_worker_has_held_a_lock_is_not_made_up() {
    let (server, bench) = (Redis::start(), Bench::new());
    for library in ["redis-py", "plain"] {
        let url = format!("{}?compat={library}", server.url());
        let on = |args: &[&str]| ran(bench.bare(args).env("LEASEHOLD_STORE", &url));
        on(&["run", "job", "--", "true"]).says(&[]); // A name that one of ours has had is listed.
        server.command(&["SET", "job", "6f1ed002ab5595859014ebf0951522d9", "PX", "60000"]);
        on(&["status", "job"]).says(&["since    unknown"]);
        assert_eq!(on(&["status", "job", "--json"]).json()["held_for_ms"], serde_json::Value::Null);
        on(&["ls"]).says(&["unknown"]);
        let refused = on(&["run", "job", "--", "true"]);
        refused.fails(75, &["6f1ed002ab5595859014ebf0951522d9; not run"]);
        on(&["release", "job"]).fails(75, &["6f1ed002ab5595859014ebf0951522d9; unless renewed"]);
        let watch = Going::start(bench.bare(["watch", "job"]).env("LEASEHOLD_STORE", &url));
        assert!(watch.line().contains("job: held by foreign: "), "for nobody knows how long");
        server.command(&["DEL", "job"]);
        assert!(watch.line().contains("job: ended: foreign: "));
    }
}

#[test]
fn doctor_looks_for_it_also_where_a_url_names_its_file_and_where_it_stands_beside_the_store() {
    let (bench, redis) = (Bench::new(), Redis::options().password("hunter2").start());
    let password = bench.write("pass word", "hunter2\n");
    let named =
        format!("redis://{}?password_file={}", redis.address(), password.display().to_string().replace(' ', "%20"));
    let beside = format!("default = \"r\"\n[stores.r]\nurl = \"redis://:hunter2@{}\"\n", redis.address());
    let config = bench.write("leasehold.toml", &beside);
    let in_file =
        ["warning  configuration file: a password stands in it, and ", "leasehold.toml (mode 644)", "fix: chmod 600 "];
    let in_url = ["warning  password file: ", "pass word (mode 644)", "fix: chmod 600 "];
    for (file, store, told) in [(&password, Some(named.as_str()), in_url), (&config, None, in_file)] {
        for (mode, is_told) in [(0o644, true), (0o600, false)] {
            fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
            let doctor = ran(bench.bare(["doctor"]).env("LEASEHOLD_STORE", store.unwrap_or_default()));
            assert_eq!(doctor.code, 0, "it works all the same: {doctor:?}");
            assert_eq!(told.map(|words| doctor.stdout.contains(words)), [is_told; 3], "{mode:o}: {doctor:?}");
            assert!(!doctor.stdout.contains("hunter2"), "{doctor:?}");
        }
    }
}
