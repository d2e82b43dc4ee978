//! Signals around the instant at which the job starts.

use std::{thread::sleep, time::Duration};

use nix::sys::signal::Signal::{SIGKILL, SIGTERM};

use crate::harness::*;

/// A little later each round, from before the start to after it.
fn pause(round: u32) -> Duration {
    Duration::from_micros(u64::from(round * 160 % 8000))
}

/// TERM around the start: the wrapper ends, and no job outlives it.
#[test]
fn p04_term_around_the_start_leaves_no_job() {
    let lease = Lease::new();
    for round in 0..rounds() {
        let mut run = lease.run().command(&["sleep", "1000"]).start();
        sleep(pause(round));
        run.send(SIGTERM);
        let code = run.code();
        assert!(code == 143 || code == 1015, "{code}"); // by the signal itself only before `main`
        until("nothing is left", || run.processes().is_empty());
    }
    assert!(lease.is_free());
}

/// TERM in the instant of the grant, while the holder releases.
#[test]
fn p04_term_at_the_grant_leaves_no_job() {
    let lease = Lease::new();
    for round in 0..rounds() {
        let mut holder = lease.run().command(&["sleep", "1000"]).start();
        holder.until_job_has(1);
        let mut waiter = lease.run().option("--wait").command(&["sleep", "1000"]).start();
        until("the warden is there", || waiter.warden().is_some());
        holder.send(SIGTERM);
        sleep(pause(round) * 2);
        waiter.send(SIGTERM);
        let code = waiter.code();
        assert!(code == 143, "{code}");
        assert_eq!(waiter.processes(), []);
        assert_eq!(holder.code(), 143);
    }
    assert!(lease.is_free());
}

/// The wrapper is killed somewhere between fork, prctl and exec.
#[test]
fn p13_a_wrapper_killed_around_the_start_leaves_no_job() {
    for round in 0..rounds() {
        let lease = Lease::new();
        let run = lease.run().sh(STUBBORN_TREE).start();
        sleep(pause(round));
        run.send(SIGKILL);
        run.until_all_dead();
    }
}

/// … and the warden.
#[test]
fn p13_a_warden_killed_around_the_start_leaves_no_job() {
    for round in 0..rounds() {
        let lease = Lease::new();
        let mut run = lease.run().sh(STUBBORN_TREE).start();
        until("the warden is there", || run.warden().is_some());
        sleep(pause(round) / 2);
        send(run.warden().unwrap(), SIGKILL);
        assert_eq!(run.code(), 70);
        run.until_all_dead();
        assert!(lease.is_free());
    }
}

/// The job is not tied to a thread: it lives on while the wrapper's threads come and go.
#[test]
fn p13_no_thread_takes_the_job_along() {
    let lease = Lease::new();
    // Renewed twice meanwhile, each time by the keeper's thread.
    assert_eq!(lease.run().ttl("4s").sh("sleep 3; exit 6").start().code(), 6);
}
