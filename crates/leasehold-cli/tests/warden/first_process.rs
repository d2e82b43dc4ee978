//! As PID 1 of a container.

use std::process::Command;

use nix::sys::signal::Signal;

use crate::harness::*;

/// A PID namespace, where this machine lets us have one.
const CONTAINER: &str = "exec unshare -Urpf --mount-proc --kill-child $RUN";

fn is_possible() -> bool {
    let possible = Command::new("unshare").args(["-Urpf", "--mount-proc", "--kill-child", "true"]).status();
    let possible = possible.is_ok_and(|status| status.success());
    if !possible {
        eprintln!("skipped: no PID namespace to be had here");
    }
    possible
}

/// Codes are right where no signal's default can end us, and orphans are reaped.
#[test]
fn p09_the_first_process_reaps_and_tells_codes() {
    if !is_possible() {
        return;
    }
    let lease = Lease::new();
    // Whoever reaps them may be late.
    let orphans =
        "look() { ps -eo stat= 2>/dev/null | grep Z; }; for i in 1 2 3 4 5; do (sleep 0.05 &) ; done; sleep 0.5
        n=0; while [ $n -lt 50 ] && look >$DIR/zombies; do sleep 0.1; n=$((n + 1)); done; exit 7";
    assert_eq!(lease.run().inside(CONTAINER).sh(orphans).start().code(), 7);
    assert_eq!(lease.read("zombies"), "");
    assert_eq!(lease.run().inside(CONTAINER).sh("kill -TERM $$").start().code(), 143);
    assert!(lease.is_free(), "the next run gets it");
}

/// A child that is put below PID 1 from outside is reaped as well.
#[test]
fn p09_orphans_from_outside_are_reaped() {
    if !is_possible() {
        return;
    }
    let lease = Lease::new();
    let mut run = lease.run().inside(CONTAINER).sh("echo up >$DIR/up; sleep 1000").start();
    lease.until_written("up", "up");
    let first = run.processes().into_iter().find(|pid| inner_pid(*pid) == Some(1)).unwrap();
    let enter =
        ["-t", &first.to_string(), "-U", "-p", "-m", "--preserve-credentials", "sh", "-c", "(sleep 0.1 &) ; exit 0"];
    assert!(Command::new("nsenter").args(enter).status().unwrap().success());

    let below = || pids().filter(|pid| parent_of(*pid) == Some(first)).count();
    until("only the warden is below", || below() == 1);
    send(first, Signal::SIGTERM);
    assert_eq!(run.code(), 143);
}

/// The pid that a process has in its own namespace.
fn inner_pid(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find(|line| line.starts_with("NSpid:"))?.split_whitespace().nth(2)?.parse().ok()
}
