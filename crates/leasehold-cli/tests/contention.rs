//! `leasehold contention`, and what `doctor` says of jobs: counted by `run` and `schedule` themselves.

mod common;

use std::process::Command;

use common::{Bench, Going, LIMIT, Ran, ran};
use leasehold_testkit::process::eventually;
use leasehold_testkit::servers::{Postgres, Redis};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Runs the command over this store.
fn on(bench: &Bench, url: &str, args: &[&str]) -> Ran {
    ran(&mut command(bench, url, args))
}

fn command(bench: &Bench, url: &str, args: &[&str]) -> Command {
    let mut command = bench.bare(args);
    command.env("LEASEHOLD_STORE", url);
    command
}

fn lock<'a>(told: &'a Value, name: &str) -> &'a Value {
    let locks = told["locks"].as_array().unwrap();
    locks.iter().find(|lock| lock["name"] == name).unwrap_or_else(|| panic!("{name} is not in {told}"))
}

/// What a run has counted last is written if the store answers within a quarter of a second, and else is lost: so it is as it has to
/// be at one of so many places, where nothing stood still just then.
const PLACES: usize = 5;

fn contend(bench: &Bench, url: &str) {
    let and = if url.contains('?') { '&' } else { '?' };
    let mut places = (0..PLACES).map(|nth| format!("{url}{and}namespace=place-{nth}"));
    let url = places.find(|place| is_all_counted(bench, place)).expect("all is counted, once");
    is_as_it_was(bench, &url);
}

/// Has some contend at this place, where nobody was yet.
fn is_all_counted(bench: &Bench, url: &str) -> bool {
    let empty = on(bench, url, &["contention"]);
    empty.fails(0, &["nothing was counted of any lock", "leasehold run NAME -- CMD", "--since 1d"]);
    assert_eq!(empty.stdout, "");
    assert_eq!(on(bench, url, &["contention", "--json"]).json()["locks"], serde_json::json!([]));

    let leasehold = env!("CARGO_BIN_EXE_leasehold");
    let inner = format!("{leasehold} run busy -- true; {leasehold} run busy -q -- true; exit 7");
    assert_eq!(on(bench, url, &["run", "busy", "--", "sh", "-c", &inner]).code, 7, "the job's own");
    for _ in 0..3 {
        on(bench, url, &["run", "keys", "--once-key", "invoice-1", "--", "true"]);
    }
    on(bench, url, &["run", "slow", "--max-hold", "1s", "--", "sleep", "30"]).fails(76, &[]);

    assert_eq!(on(bench, url, &["run", "unseen", "--no-tally", "--", "true"]).code, 0);
    assert_eq!(ran(command(bench, url, &["run", "unseen", "--", "true"]).env("LEASEHOLD_NO_TALLY", "1")).code, 0);

    let told = on(bench, url, &["contention", "--json"]).json();
    let attempts = told["locks"].as_array().unwrap().iter().map(|lock| lock["attempts"].as_u64().unwrap()).sum::<u64>();
    assert!(attempts <= 7, "nothing is counted twice, and nothing of what was not to be counted: {told}");
    attempts == 7
}

fn is_as_it_was(bench: &Bench, url: &str) {
    let told = on(bench, url, &["contention", "--json"]).json();
    assert_eq!(told["locks"].as_array().unwrap().len(), 3, "and nothing of what was not to be counted: {told}");
    let busy = lock(&told, "busy");
    assert_eq!((&busy["attempts"], &busy["acquired"], &busy["contended"]), (&3.into(), &1.into(), &2.into()), "{busy}");
    assert!(busy["longest"][0]["label"].as_str().unwrap().ends_with("/sh"), "{busy}");
    let keys = lock(&told, "keys");
    assert_eq!((&keys["attempts"], &keys["prevented"]["marks"]), (&3.into(), &2.into()), "{keys}");
    let slow = lock(&told, "slow");
    assert_eq!((&slow["lost"], &slow["overdue"], &slow["limit_ms"]), (&1.into(), &1.into(), &1000.into()), "{slow}");

    on(bench, url, &["contention"]).says(&["NAME", "CONTENDED", "2 (67%)", "longest held:", "/sh", "keys", "slow"]);
    let first = on(bench, url, &["contention", "--sort", "lost", "--top", "1"]);
    first.says(&["slow", "and 2 more locks (--top 0 shows all"]);
    let only = on(bench, url, &["contention", "keys", "--since", "2d"]);
    assert!(only.stdout.contains("keys") && !only.stdout.contains("busy"), "{only:?}");
    on(bench, url, &["contention", "no-such"]).fails(0, &["nothing was counted of that"]);

    let doctor = on(bench, url, &["doctor"]);
    doctor.says(&["warning  hold time: slow: ", "1 was ended by that limit", "--max-hold, time_limit"]);
    let json = on(bench, url, &["doctor", "--json"]).json();
    let found = json["findings"].as_array().unwrap().iter().find(|finding| finding["subject"] == "hold time");
    assert_eq!(found.unwrap()["severity"], "warning", "{json}");
}

#[test]
fn what_runs_over_a_file_is_counted() {
    let bench = Bench::new();
    contend(&bench, &bench.url());
}

#[test]
fn what_runs_over_redis_is_counted() {
    contend(&Bench::new(), &Redis::start().url());
}

#[test]
fn what_runs_over_postgresql_is_counted() {
    contend(&Bench::new(), &Postgres::start().url());
}

#[test]
fn a_scheduler_counts_its_jobs() {
    let bench = Bench::new();
    bench.write("leasehold.toml", "[jobs.often]\nevery = \"1s\"\ncommand = \"true\"\ntime_limit = \"1m\"\n");
    let done = || {
        let ran = bench.run(["history", "often", "--json"]);
        let is_done = |line: &&Value| line["state"] == "done";
        if ran.code == 0 { ran.json().as_array().map_or(0, |all| all.iter().filter(is_done).count()) } else { 0 }
    };
    let counts = |_: &usize| {
        let before = done();
        let scheduler = Going::start(&mut bench.command(["schedule"]));
        eventually("it has run twice", LIMIT, || done() >= before + 2);
        scheduler.send(Signal::SIGTERM);
        assert_eq!(scheduler.end().0, 0);
        bench.run(["contention", "--json"]).json()["locks"] != serde_json::json!([])
    };
    (0..PLACES).find(counts).expect("it is counted, once");
    let told = bench.run(["contention", "--json"]).json();
    let often = lock(&told, "often");
    assert!(often["runs"]["ended"].as_u64().unwrap() >= 2 && often["limit_ms"] == 60_000, "{often}");
    let label = often["longest"][0]["label"].as_str().unwrap();
    assert!(label.contains("/often@"), "the job and its tick, as `ls` shows them: {label}");
}

/// Once, but where what was counted could not be written in time.
fn is_run_until_it_is_counted(bench: &Bench, name: &str) {
    let counts = |_: &usize| {
        bench.run(["run", name, "--", "true"]).says(&[]);
        bench.run(["contention", "--json"]).json()["locks"] != serde_json::json!([])
    };
    (0..PLACES).find(counts).expect("it is counted, once");
}

#[test]
fn what_is_hostile_drives_no_terminal() {
    let bench = Bench::new();
    let name = "<script>\u{202e}éx";
    is_run_until_it_is_counted(&bench, name);
    let told = bench.run(["contention"]);
    assert!(told.stdout.contains("<script>\\u{202e}éx"), "{told:?}");
    assert_eq!(lock(&bench.run(["contention", "--json"]).json(), name)["acquired"], 1);
}

#[test]
fn a_longer_time_than_is_kept_is_told_as_what_it_is() {
    let bench = Bench::new();
    is_run_until_it_is_counted(&bench, "a");
    let told = bench.run(["contention", "--since", "30d"]);
    told.says(&["for 7d"]);
    assert!(told.stderr.contains("--since 30d: what was counted is kept for 7d"), "{told:?}");
    let json = bench.run(["contention", "--since", "30d", "--json"]).json();
    let at = |field: &str| json[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert_eq!(at("until").duration_since(at("since")).as_hours() / 24, 7, "{json}");
    assert_eq!(bench.run(["contention", "--since", "7d"]).stderr, "");
    let none = bench.run(["contention", "none", "--since", "30d"]);
    none.fails(0, &["nothing was counted of that", "within 7d", "look with `leasehold ls`"]);
}

#[test]
fn where_nothing_can_be_counted_it_says_so() {
    let (bench, redis) = (Bench::new(), Redis::start());
    let url = format!("{}?compat=redis-py", redis.url());
    assert_eq!(on(&bench, &url, &["run", "a", "--", "true"]).code, 0);
    on(&bench, &url, &["contention"]).fails(78, &["keeps no notes", "without compat="]);
    bench.run(["contention", "--sort", "size"]).fails(64, &["contended"]);
    bench.run(["contention", "--since", "0s"]).fails(64, &["more than nothing"]);
}

/// The store goes away while the job runs: what was counted is lost, and nothing else is different.
#[test]
fn a_store_that_goes_away_changes_no_exit_code() {
    let (bench, redis) = (Bench::new(), Redis::start());
    let job = "echo began; until [ -e gone ]; do sleep 0.05; done; exit 3";
    let going = Going::start(&mut command(&bench, &redis.url(), &["run", "a", "--", "sh", "-c", job]));
    assert_eq!(going.line(), "began");
    redis.kill();
    bench.write("gone", "");
    assert_eq!(going.end().0, 3);
}
