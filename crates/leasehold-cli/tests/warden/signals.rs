//! Signals to the wrapper, without a terminal.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal::{self, *};

use crate::harness::*;

/// A job with a child of its own, up and running.
fn with_child(lease: &Lease) -> Running {
    let run = lease.run().sh("sleep 1000; exit 5").start();
    run.until_asleep();
    run
}

/// TERM ends the job, the wrapper waits for that, then releases.
#[test]
fn p01_term_ends_the_job_and_its_children() {
    let lease = Lease::new();
    let mut run = with_child(&lease);
    run.send(SIGTERM);
    assert_eq!(run.code(), 143);
    assert_eq!(run.processes(), []);
    assert!(lease.is_free());
}

/// Each other signal that would end a process ends the job too, with all that it started.
#[test]
fn p02_every_fatal_signal_ends_the_job() {
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM] {
        let lease = Lease::new();
        let mut run = with_child(&lease);
        run.send(signal);
        assert_eq!(run.code(), 128 + signal as i32, "{signal}");
        assert_eq!(run.processes(), [], "{signal} left something");
        assert!(lease.is_free());
    }
}

/// Signals that we don't hand on end the wrapper, and the warden ends the job.
#[test]
fn p02_a_signal_that_is_not_handed_on_ends_the_job_too() {
    for signal in [SIGABRT, SIGVTALRM, SIGXCPU] {
        let lease = Lease::new();
        let mut run = with_child(&lease);
        run.send(signal);
        assert_eq!(run.code(), 1000 + signal as i32, "{signal}");
        run.until_all_dead();
    }
}

/// SIGPIPE is ignored by the wrapper: job and lock go on together.
#[test]
fn p02_sigpipe_ends_neither() {
    let lease = Lease::new();
    let mut run = with_child(&lease);
    run.send(SIGPIPE);
    run.send(SIGTERM);
    assert_eq!(run.code(), 143);
    assert_eq!(run.processes(), []);
}

/// The job's handler sees the first, and the second one kills.
#[test]
fn the_second_signal_kills() {
    let lease = Lease::new();
    let script = "trap 'echo first >>$DIR/seen' TERM; echo up >$DIR/up; while :; do sleep 0.01; done";
    let mut run = lease.run().sh(script).start();
    lease.until_written("up", "up");
    run.send(SIGTERM);
    lease.until_written("seen", "first");
    run.send(SIGTERM);
    assert_eq!(run.code(), 137);
    assert_eq!(run.processes(), []);
}

/// Hang-ups are for daemons to read their configuration again, as often as one likes.
#[test]
fn hang_ups_are_not_counted() {
    let lease = Lease::new();
    let script =
        "trap 'echo again >>$DIR/seen' HUP; trap 'exit 3' TERM; echo up >$DIR/up; while :; do sleep 0.01; done";
    let mut run = lease.run().sh(script).start();
    lease.until_written("up", "up");
    for count in 1..=3 {
        run.send(SIGHUP);
        until("the job has seen it", || lease.read("seen").lines().count() == count);
    }
    run.send(SIGTERM);
    assert_eq!(run.code(), 3);
}

/// What was ignored when we started is ignored by the job, and never an order.
#[test]
fn an_ignored_signal_is_no_order() {
    let lease = Lease::new();
    let mut run = lease.run().inside("trap '' INT; exec $RUN").sh("sleep 1000; exit 5").start();
    run.until_asleep();
    for _ in 0..3 {
        run.send(SIGINT);
    }
    run.send(SIGTERM);
    assert_eq!(run.code(), 143);
}

/// A burst of all signals at once: never a job without its lease, nor one left over.
#[test]
fn a_burst_of_signals_leaves_nothing() {
    for _ in 0..5 {
        let lease = Lease::new();
        let mut run = with_child(&lease);
        for signal in [SIGUSR1, SIGHUP, SIGTERM, SIGUSR2, SIGINT, SIGALRM, SIGQUIT, SIGCONT, SIGTERM] {
            run.send(signal);
        }
        assert!(run.code() > 128);
        assert_eq!(run.processes(), []);
        assert!(lease.is_free());
    }
}

/// TSTP stops job and wrapper, CONT continues both.
#[test]
fn tstp_and_cont_reach_the_job() {
    let lease = Lease::new();
    let mut run = lease.run().sh("sleep 1000; exit 5").before_exec(own_group).start();
    run.until_asleep();
    let job = run.job();
    for _ in 0..3 {
        run.send(SIGTSTP);
        until_stopped(run.pid());
        job.iter().for_each(|pid| until_stopped(*pid));
        run.send(SIGCONT);
        for pid in job.iter().chain([&run.pid()]) {
            until("all are continued", || state(*pid) != Some('T'));
        }
    }
    run.send(SIGTERM);
    assert_eq!(run.code(), 143);
    assert_eq!(run.processes(), []);
}

/// A CONT that comes before the wrapper has heard that the TSTP stopped the job; and a TSTP that comes before the job is
/// continued. The last one counts.
#[test]
fn the_last_of_tstp_and_cont_counts() {
    let lease = Lease::new();
    let run = lease.run().sh("sleep 1000; exit 5").before_exec(own_group).start();
    run.until_asleep();
    let all: Vec<i32> = run.job().into_iter().chain([run.pid()]).collect();
    let settled = |stopped: bool| {
        let mut since = Instant::now();
        until(&format!("they stay as they are: stopped {stopped}"), || {
            if all.iter().any(|pid| (state(*pid) == Some('T')) != stopped) {
                since = Instant::now();
            }
            since.elapsed() > Duration::from_millis(20)
        });
    };
    // Not many: who is put off the processor just as it stops may lose a CONT, which the kernel discards then.
    for round in 0..rounds() / 5 {
        let delay = Duration::from_micros(u64::from(200 * round % 2000));
        run.send(SIGTSTP);
        spin(delay);
        run.send(SIGCONT);
        settled(false);
        run.send(SIGTSTP);
        settled(true);
        run.send(SIGCONT);
        spin(delay);
        run.send(SIGTSTP);
        settled(true);
        run.send(SIGCONT);
        settled(false);
    }
}

/// TERM at a runner while its store (a) works, (b) is gone.
#[test]
fn c15_term_ends_it_whether_the_store_answers_or_not() {
    for store_answers in [true, false] {
        let lease = Lease::new();
        let mut run = with_child(&lease);
        if !store_answers {
            lease.lose_store();
        }
        run.send(SIGTERM);
        let start = std::time::Instant::now();
        assert_eq!(run.code(), 143, "the job's own status, store answers: {store_answers}");
        assert!(start.elapsed() < std::time::Duration::from_secs(10));
        assert_eq!(run.processes(), []);
        assert!(lease.is_free());
    }
}

/// A user's signal reaches the direct child only.
#[test]
fn usr1_reaches_the_direct_child_alone() {
    let lease = Lease::new();
    let script = "trap 'echo child >>$DIR/seen' USR1
        sh -c \"trap 'echo grandchild >>$DIR/seen' USR1; echo up >$DIR/up; while :; do sleep 0.01; done\" &
        while :; do wait; done";
    let mut run = lease.run().sh(script).start();
    lease.until_written("up", "up");
    run.send(Signal::SIGUSR1);
    lease.until_written("seen", "child");
    run.send(SIGTERM);
    assert_eq!(run.code(), 143);
    assert_eq!(lease.read("seen"), "child\n");
}
