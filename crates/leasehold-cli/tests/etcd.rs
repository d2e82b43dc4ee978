//! The command over an etcd cluster.

mod common;

use common::{Bench, Ran, ran};
use leasehold_testkit::servers::Etcd;

const YEAR: &str = "0 0 1 1 *";

fn on(url: &str, bench: &Bench, args: &[&str]) -> Ran {
    ran(bench.bare(args).env("LEASEHOLD_STORE", url))
}

#[test]
fn run_and_its_verbs_do_there_what_they_do_in_a_file() {
    let (server, bench) = (Etcd::start(), Bench::new());
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
    on(&url, &bench, &["doctor"]).says(&["version: etcd 3.", "quorum: one member"]);
    on(&url, &bench, &["run", "a", "--ttl", "1s", "--", "true"]).fails(64, &["2s"]);
}

#[test]
fn a_server_that_is_gone_is_no_answer() {
    let (server, bench) = (Etcd::start(), Bench::new());
    let url = server.url();
    on(&url, &bench, &["run", "a", "--", "true"]).says(&[]);
    server.kill();
    on(&url, &bench, &["run", "a", "--", "touch", "ran"]).fails(69, &["can't be asked"]);
    assert!(!bench.path("ran").exists());
}

#[test]
fn a_job_of_etcdctl_and_one_of_ours_exclude_each_other() {
    let (server, bench) = (Etcd::start(), Bench::new());
    let url = format!("{}?compat=etcdctl", server.url());
    let leasehold = env!("CARGO_BIN_EXE_leasehold");
    let inner = format!("{leasehold} run job -- true; echo code $?; {leasehold} status job");
    let mut theirs = server.etcdctl(&["lock", "job", "--", "sh", "-c", &inner]);
    let theirs = theirs.env("LEASEHOLD_STORE", &url).output().unwrap();
    let said = String::from_utf8(theirs.stdout).unwrap();
    assert!(said.contains("code 75") && said.contains("foreign: etcdctl job/"), "{said}");
    on(&url, &bench, &["run", "job", "--", "true"]).says(&[]);
}
