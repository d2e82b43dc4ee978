//! Wrapper or warden die.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::*;

/// `kill -9` of the process that the caller sees.
#[test]
fn p05_a_killed_wrapper_takes_the_whole_tree_along() {
    for _ in 0..8 {
        let lease = Lease::new();
        let mut run = lease.run().ttl("15s").sh(STUBBORN_TREE).start();
        run.until_job_has(STUBBORN);
        let killed = Instant::now();
        run.send(Signal::SIGKILL);
        run.until_all_dead();
        // Long before anybody else can have the lock.
        assert!(killed.elapsed() < Duration::from_secs(8), "dead after {:?}", killed.elapsed());
        assert_eq!(run.code(), 1009);
    }
}

/// The wrapper is a subreaper too: the tree falls to it, and is killed.
#[test]
fn a_killed_warden_takes_the_whole_tree_along() {
    for _ in 0..8 {
        let lease = Lease::new();
        let mut run = lease.run().sh(STUBBORN_TREE).start();
        run.until_job_has(STUBBORN);
        send(run.warden().unwrap(), Signal::SIGKILL);
        assert_eq!(run.code(), 70);
        assert_eq!(run.processes(), []);
        assert!(lease.is_free());
    }
}

/// A kill of the wrapper's process group misses the warden.
#[test]
fn killing_the_group_of_the_wrapper_takes_the_tree_along() {
    let lease = Lease::new();
    let mut run = lease
        .run()
        .sh(STUBBORN_TREE)
        .before_exec(|| nix::unistd::setpgid(nix::unistd::Pid::from_raw(0), nix::unistd::Pid::from_raw(0)).unwrap())
        .start();
    run.until_job_has(STUBBORN);
    send(-run.pid(), Signal::SIGKILL);
    run.until_all_dead();
    assert_eq!(run.code(), 1009);
}

/// A wrapper killed while it waits leaves nothing behind either.
#[test]
fn a_wrapper_killed_while_it_waits_leaves_nothing() {
    let lease = Lease::new();
    let holder = lease.run().command(&["sleep", "1000"]).start();
    holder.until_job_has(1);
    let mut run = lease.run().option("--wait").command(&["sleep", "1000"]).start();
    until("the warden is there", || run.warden().is_some());
    run.send(Signal::SIGKILL);
    run.until_all_dead();
    assert_eq!(run.code(), 1009);
}

/// A warden killed before the grant: the job is never started, and the lock is free.
#[test]
fn a_warden_killed_while_it_waits_starts_nothing() {
    let lease = Lease::new();
    let mut holder = lease.run().command(&["sleep", "1000"]).start();
    holder.until_job_has(1);
    let mut run = lease.run().option("--wait").sh("echo ran >$DIR/ran").start();
    until("the warden is there", || run.warden().is_some());
    send(run.warden().unwrap(), Signal::SIGKILL);
    until("the warden is gone", || run.warden().is_none());
    holder.send(Signal::SIGTERM);
    assert_eq!(holder.code(), 143);
    assert_eq!(run.code(), 70);
    assert_eq!(lease.read("ran"), "");
    assert!(lease.is_free());
}

/// The children that a shell left us by `exec` are not the job's, and live on.
#[test]
fn children_from_before_are_spared() {
    let lease = Lease::new();
    let mut run = lease.run().inside("sleep 1234 & echo $! >$DIR/stranger; exec $RUN").sh(STUBBORN_TREE).start();
    run.until_job_has(STUBBORN + 1);
    let stranger: i32 = lease.read("stranger").trim().parse().unwrap();
    let warden =
        run.processes().into_iter().find(|pid| parent_of(*pid) == Some(run.pid()) && *pid != stranger).unwrap();
    send(warden, Signal::SIGKILL);
    assert_eq!(run.code(), 70);
    assert_eq!(run.processes(), [stranger]);
}
