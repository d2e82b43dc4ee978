//! What the job leaves in the background.

use std::{
    io::Read,
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use crate::harness::*;

/// A daemon that holds on to the job's output, and whatever else it inherited, keeps neither wrapper nor lock.
#[test]
fn p07_a_daemon_keeps_neither_wrapper_nor_lock() {
    let lease = Lease::new();
    let mut run = lease.run().sh("sleep 1000 >&1 & exit 5").start();
    assert_eq!(run.code(), 5);
    assert_eq!(run.processes().len(), 1, "the daemon lives on");
    assert!(lease.is_free());
}

/// `--wait-group`: the lock covers what runs in the background.
#[test]
fn p08_wait_group_covers_the_background() {
    let lease = Lease::new();
    let start = Instant::now();
    let mut run = lease.run().option("--wait-group").sh("(sleep 0.7 &) ; (setsid sleep 0.8 &) ; exit 5").start();
    assert_eq!(run.code(), 5);
    assert!(start.elapsed() > Duration::from_millis(700));
    assert_eq!(run.processes(), []);
    assert!(lease.is_free());
}

/// … and the deadline, too.
#[test]
fn p08_a_group_past_the_deadline_is_killed() {
    let lease = Lease::new();
    let mut run = lease.run().option("--wait-group --max-hold 1s").sh("trap '' TERM; sleep 1000 & exit 5").start();
    assert_eq!(run.code(), 76);
    assert_eq!(run.processes(), []);
}

/// A child that a signal ended could not clean up, so we do: TERM for what it left, then KILL, then the release.
#[test]
fn a_crash_leaves_nothing_behind() {
    let lease = Lease::new();
    let script = "trap '' TERM; sleep 1000 & (setsid sleep 1000 &) ; kill -SEGV $$";
    let mut run = lease.run().grace("200ms").command(&["bash", "-c", script]).start();
    assert_eq!(run.code(), 139);
    assert_eq!(run.processes(), []);
    assert!(lease.is_free());
}

/// What heeds TERM has the grace to end by itself.
#[test]
fn what_a_crash_leaves_is_asked_first() {
    let lease = Lease::new();
    let helper = "trap 'echo asked >$DIR/asked; exit' TERM; echo up >$DIR/up; while :; do sleep 0.01; done";
    let script = format!("sh -c \"{helper}\" & while [ ! -e $DIR/up ]; do :; done; kill -KILL $$");
    let mut run = lease.run().grace("10s").sh(&script).start();
    assert_eq!(run.code(), 137);
    assert_eq!(lease.read("asked"), "asked\n");
    assert_eq!(run.processes(), []);
}

/// TERM that the job heeds itself is an ordered end: what it leaves is cleared, though it exits normally.
#[test]
fn an_ordered_end_leaves_nothing_behind() {
    let lease = Lease::new();
    let script =
        "(trap '' TERM; exec setsid sleep 1000) & trap 'exit 7' TERM; echo up >$DIR/up; while :; do sleep 0.01; done";
    let mut run = lease.run().grace("200ms").sh(script).start();
    lease.until_written("up", "up");
    run.send(Signal::SIGTERM);
    assert_eq!(run.code(), 7);
    assert_eq!(run.processes(), []);
    assert!(lease.is_free());
}

/// A process that became another user's can't be killed by us. That is said, and the lock is left to run out.
#[test]
fn what_cannot_be_killed_is_named() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can prepare a program that becomes root");
        return;
    }
    let lease = Lease::new();
    let becomes_root = lease.file("setpriv");
    let everybody =
        |file: &std::path::Path, mode| std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode));
    std::fs::copy("/usr/bin/setpriv", &becomes_root).unwrap();
    everybody(&becomes_root, 0o4755).unwrap();
    everybody(&lease.file(""), 0o777).unwrap();

    let as_nobody = "exec setpriv --reuid 65534 --clear-groups $RUN";
    let script = "$DIR/setpriv --reuid 0 sleep 1000 & echo $! >$DIR/root; wait";
    // Longer than it takes to become root.
    let mut run = lease.run().option("--max-hold 3s").inside(as_nobody).sh(script).start();
    let code = run.code();

    let root = lease.read("root").trim().to_owned();
    let alive = root.parse().ok().and_then(state);
    kill_marked(run.mark()); // it holds the pipe that is read to its end below
    let mut said = String::new();
    run.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    if root.is_empty() {
        eprintln!("skipped: nobody can't reach the command here: {said}");
        return;
    }
    assert!(matches!(alive, Some('S' | 'T')), "{alive:?}: {said}");
    assert_eq!(code, 76, "{said}");
    assert!(said.contains(&root), "{said}");
    assert!(!lease.is_free(), "the lock is not given away while its job runs");
}
