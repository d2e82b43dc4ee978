//! The command over a PostgreSQL database.

mod common;

use common::{Bench, Ran, ran};
use leasehold_testkit::servers::Postgres;

const YEAR: &str = "0 0 1 1 *";

fn on(url: &str, bench: &Bench, args: &[&str]) -> Ran {
    ran(bench.bare(args).env("LEASEHOLD_STORE", url))
}

#[test]
fn run_and_its_verbs_do_there_what_they_do_in_a_file() {
    let (server, bench) = (Postgres::start(), Bench::new());
    let url = server.url();
    let leasehold = env!("CARGO_BIN_EXE_leasehold");
    let inner = format!("{leasehold} status a --json; {leasehold} run a -- true; echo code $?");
    let ran = on(&url, &bench, &["run", "a", "--", "sh", "-c", &inner]);
    ran.says(&["\"state\": \"held\"", "code 75"]).fails(0, &["a: held by"]);
    on(&url, &bench, &["status", "a"]).says(&["a is free"]);
    for (n, says) in [(1, "ran"), (2, "")] {
        let slot = on(&url, &bench, &["run", "s", "--once-per", YEAR, "--", "echo", "ran"]);
        assert_eq!((slot.code, slot.stdout.trim()), (0, says), "{n}: {slot:?}");
    }
    let key = ["run", "k", "--once-key", "1", "--retry-failed", "--", "sh", "-c", "[ $LEASEHOLD_ATTEMPT = 2 ]"];
    assert_eq!([0; 3].map(|_| on(&url, &bench, &key).code), [1, 0, 0]);
    let pool = format!("{leasehold} run p --permits 2 -- {leasehold} ls");
    let listed = on(&url, &bench, &["run", "p", "--permits", "2", "--", "sh", "-c", &pool]);
    assert_eq!(listed.stdout.lines().filter(|line| line.starts_with("p ")).count(), 2, "{listed:?}");
    on(&url, &bench, &["doctor"]).says(&["version: PostgreSQL", "wake-ups: messages are heard", "tables: version 4"]);
}

#[test]
fn a_server_that_is_gone_or_closed_is_no_answer() {
    let (server, bench) = (Postgres::options().login("host all bob all scram-sha-256").start(), Bench::new());
    server.sql("create role bob login password 'hunter2'; grant all on schema public to bob");
    on(&server.url_as("bob", "wrong"), &bench, &["run", "a", "--", "true"])
        .fails(77, &["refuses this user or password"]);
    let url = server.url_as("bob", "hunter2");
    on(&url, &bench, &["run", "a", "--", "true"]).says(&[]);
    server.kill();
    let gone = on(&url, &bench, &["run", "a", "--", "touch", "ran"]);
    gone.fails(69, &["can't be asked"]);
    assert!(!bench.path("ran").exists() && !gone.stderr.contains("hunter2"), "{gone:?}");
}

#[test]
fn who_may_not_create_tables_has_them_made() {
    let (server, bench) = (Postgres::start(), Bench::new());
    server.sql("create role jobs login");
    let url = server.url_as("jobs", "");
    on(&url, &bench, &["run", "a", "--", "true"]).fails(77, &["leasehold migrate --print"]);
    on(&url, &bench, &["migrate"]).fails(77, &["leasehold migrate --print"]);
    let printed = on(&url, &bench, &["migrate", "--print"]);
    server.sql(&printed.stdout);
    let grants = printed.stdout.lines().filter_map(|line| line.strip_prefix("--   "));
    server.sql(&grants.collect::<Vec<_>>().join("\n").replace("ROLE", "jobs"));
    on(&url, &bench, &["run", "a", "--", "echo", "ran"]).says(&["ran"]);
    on(&url, &bench, &["migrate"]).says(&["has what locks need"]);
    on("sqlite:x.db", &bench, &["migrate", "--print"]).fails(64, &["no tables to print"]);
}

#[test]
fn a_schema_is_made_for_who_asks_for_it_and_what_is_dropped_for_whoever_misses_it() {
    let (server, bench) = (Postgres::start(), Bench::new());
    let url = format!("{}?schema=locks", server.url());
    on(&url, &bench, &["run", "a", "--", "true"]).fails(78, &["has no schema \"locks\"", "leasehold migrate"]);
    on(&url, &bench, &["migrate"]).says(&["has what locks need"]);
    on(&url, &bench, &["run", "a", "--", "echo", "ran"]).says(&["ran"]);
    server.sql("drop table locks.leasehold_locks; drop procedure locks.leasehold_v4_arm");
    let told = on(&url, &bench, &["doctor"]);
    let missing = "missing: table leasehold_locks, procedure leasehold_v4_arm";
    assert!(told.code == 78 && told.stdout.contains(missing), "{told:?}");
    on(&url, &bench, &["run", "a", "--", "echo", "ran"]).says(&["ran"]);
    server.sql("drop table locks.leasehold_routes");
    on(&url, &bench, &["migrate"]).says(&["has what locks need"]);
    assert_eq!(server.sql("select to_regclass('locks.leasehold_routes') is null"), "f");
}

#[test]
fn session_locks_are_run_under_shown_and_ended() {
    let (server, bench) = (Postgres::start(), Bench::new());
    let url = format!("{}?mode=advisory", server.url());
    let leasehold = env!("CARGO_BIN_EXE_leasehold");
    let inner = format!("{leasehold} status a --json; {leasehold} run a -- true; echo code $?");
    let ran = on(&url, &bench, &["run", "a", "--", "sh", "-c", &inner]);
    ran.says(&["\"state\": \"held\"", "code 75"]).fails(0, &["a: held by"]);
    on(&url, &bench, &["status", "a"]).says(&["a is free"]);
    let revoked = format!("{leasehold} release a --force --now; sleep 20");
    on(&url, &bench, &["run", "a", "--", "sh", "-c", &revoked]).fails(76, &[]);
    on(&url, &bench, &["run", "a", "--once-per", YEAR, "--", "true"]).fails(78, &["lease table"]);
    on(&url, &bench, &["doctor"]).says(&["sessions: "]);
    on(&url.replace("?mode=advisory", ""), &bench, &["run", "a", "--", "true"]).fails(78, &["mode=advisory"]);
}
