//! At the deadline the job ends, whatever else happens.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use crate::harness::*;

const TTL: Duration = Duration::from_secs(1);

/// The wrapper is stopped, so nothing is renewed: the whole tree is dead before anybody else can have the lock.
#[test]
fn the_tree_of_a_stopped_wrapper_dies_before_the_lease_ends() {
    let lease = Lease::new();
    let mut run = lease.run().ttl("3s").sh(STUBBORN_TREE).start();
    run.until_job_has(STUBBORN);
    let job: Vec<String> = run.job().iter().map(ToString::to_string).collect();

    run.send(Signal::SIGSTOP);
    // Whoever has the lock next looks who is alive then: what this process sees, it may see late.
    let look = "for pid; do grep -s '^State:' /proc/$pid/status | grep -v '[ZX] (' >>$DIR/alive; done; echo looked";
    let mut next = vec!["sh", "-c", look, "sh"];
    next.extend(job.iter().map(String::as_str));
    let other = lease.run().option("--wait -q").command(&next).output();
    assert_eq!(String::from_utf8_lossy(&other.stdout), "looked\n", "{other:?}");
    assert_eq!((job.len(), lease.read("alive").as_str()), (STUBBORN, ""));

    run.send(Signal::SIGCONT);
    assert_eq!(run.code(), 76);
    assert!(lease.is_free());
}

/// As long as the lease is renewed the job runs on, and its own code counts.
#[test]
fn a_renewed_job_outlives_the_ttl() {
    let lease = Lease::new();
    let start = Instant::now();
    assert_eq!(lease.run().ttl("4s").sh("sleep 4.5; exit 4").start().code(), 4);
    assert!(start.elapsed() > Duration::from_secs(4));
}

/// TERM within a second of the loss, KILL after the grace, both before the lease can be another's.
#[test]
fn p06_a_lost_lease_is_told_with_term_then_kill() {
    let lease = Lease::new();
    let script = "trap 'echo told >>$DIR/term' TERM; echo up >$DIR/up; while :; do sleep 0.01; done";
    let mut run = lease.run().ttl("4s").grace("2s").sh(script).start();
    lease.until_written("up", "up");

    lease.lose_store();
    let lost = Instant::now();
    until("TERM is told", || !lease.read("term").is_empty());
    let told = lost.elapsed();
    run.until_job_is_dead();
    let dead = lost.elapsed();
    assert_eq!(run.code(), 76);

    // Noticed at the next renewal, a third of the ttl later at most.
    assert!(told < TTL * 4, "told after {told:?}");
    assert!(dead < TTL * 5, "dead after {dead:?}, when another may hold it"); // and what this process sees late
    assert!(dead - told > Duration::from_millis(200), "no grace: told after {told:?}, dead after {dead:?}");
    assert_eq!(lease.read("term").lines().count(), 1, "TERM is told once");
}

/// A job that heeds TERM ends within the grace, and has lost all the same.
#[test]
fn a_job_that_ends_in_the_grace_has_still_lost() {
    let lease = Lease::new();
    let mut run =
        lease.run().ttl("4s").sh("trap 'exit 0' TERM; echo up >$DIR/up; while :; do sleep 0.01; done").start();
    lease.until_written("up", "up");
    lease.lose_store();
    assert_eq!(run.code(), 76);
}

/// The job that was stopped hears TERM, because it is continued.
#[test]
fn a_stopped_job_hears_of_the_deadline() {
    let lease = Lease::new();
    let mut run = lease
        .run()
        .ttl("4s")
        .grace("2s")
        .sh("trap 'echo told >$DIR/told; exit' TERM; echo up >$DIR/up; while :; do sleep 0.01; done")
        .start();
    lease.until_written("up", "up");
    send(run.job_leader(), Signal::SIGSTOP);
    lease.lose_store();
    assert_eq!(run.code(), 76);
    assert_eq!(lease.read("told"), "told\n");
}

/// `--max-hold` ends a job that hangs.
#[test]
fn a_job_held_too_long_is_ended() {
    let lease = Lease::new();
    let mut run = lease.run().option("--max-hold 3s").sh(STUBBORN_TREE).start();
    run.until_job_has(STUBBORN);
    assert_eq!(run.code(), 76);
    assert_eq!(run.processes(), []);
    assert!(lease.is_free());
}

/// Runner and child stopped for three times the ttl; another node runs; then they are continued.
#[test]
fn l08_a_stopped_runner_does_nothing_when_it_wakes() {
    let lease = Lease::new();
    let beat = "while :; do echo beat >>$DIR/beats; sleep 0.01; done";
    let mut run = lease.run().ttl("3s").sh(beat).start();
    lease.until_written("beats", "beat");

    let job = run.job_leader();
    run.send(Signal::SIGSTOP);
    send(job, Signal::SIGSTOP);
    assert_eq!(lease.run().option("--wait").sh("echo other >>$DIR/beats; sleep 1").start().code(), 0);

    assert!(lease.read("beats").ends_with("other\n"), "the first ran on beside the second");
    run.send(Signal::SIGCONT);
    send(job, Signal::SIGCONT);
    assert_eq!(run.code(), 76);
    assert!(lease.read("beats").ends_with("other\n"), "the first did something after it woke");
    assert_eq!(run.processes(), []);
}

/// A batch that is paused beyond its ttl is stopped, and has the fence to show for what it did.
#[test]
fn m05_a_paused_batch_is_stopped_and_knows_its_fence() {
    let lease = Lease::new();
    let pay =
        "echo $LEASEHOLD_TOKEN >>$DIR/fences; while :; do echo $LEASEHOLD_TOKEN paid >>$DIR/paid; sleep 0.01; done";
    let mut run = lease.run().ttl("3s").sh(pay).start();
    lease.until_written("paid", "paid");
    let warden = run.warden().unwrap();

    // The whole machine pauses, as nearly as it can be had: wrapper first, so that it can't continue the warden.
    for pid in [vec![run.pid(), warden], run.job()].concat() {
        send(pid, Signal::SIGSTOP);
    }
    std::thread::sleep(TTL * 3); // the pause itself, not a wait for something
    for pid in [warden, run.pid()] {
        send(pid, Signal::SIGCONT);
    }
    assert_eq!(run.code(), 76);
    assert_eq!(run.processes(), []);
    let fence: u64 = lease.read("fences").trim().parse().expect("a number");
    assert!(fence > 0);
}

/// A warden that is stopped is continued at once, and keeps the deadline.
#[test]
fn a_stopped_warden_is_continued() {
    let lease = Lease::new();
    let mut run = lease.run().ttl("4s").sh(STUBBORN_TREE).start();
    run.until_job_has(STUBBORN);
    let warden = run.warden().unwrap();
    for _ in 0..20 {
        send(warden, Signal::SIGSTOP);
        until("the warden is continued", || state(warden) == Some('S'));
    }
    lease.lose_store();
    assert_eq!(run.code(), 76);
    assert_eq!(run.processes(), []);
}

/// A job that was begun is not taken for one that never was because its warden died: its key is used up.
#[test]
fn a_key_is_begun_though_the_warden_dies_at_the_deadline() {
    let lease = Lease::new();
    let script = "trap 'echo told >$DIR/term' TERM; echo ran >>$DIR/ran; while :; do sleep 0.01; done";
    let limited = lease.run().ttl("20s").grace("5s").option("--once-key work --max-hold 2s");
    let mut run = limited.sh(script).start();
    lease.until_written("term", "told");
    send(run.warden().unwrap(), Signal::SIGKILL);
    assert_eq!(run.code(), 76);
    assert_eq!(run.processes(), []);
    assert_eq!(lease.run().option("--once-key work").sh("echo again >>$DIR/ran").start().code(), 0);
    assert_eq!(lease.read("ran"), "ran\n");
}

/// Both stopped: nothing of ours runs. The one that is continued first kills.
#[test]
fn the_first_of_both_to_be_continued_kills() {
    for continue_warden in [true, false] {
        let lease = Lease::new();
        let mut run = lease.run().ttl("3s").sh(STUBBORN_TREE).start();
        run.until_job_has(STUBBORN);
        let warden = run.warden().unwrap();
        run.send(Signal::SIGSTOP);
        until_stopped(run.pid());
        send(warden, Signal::SIGSTOP);
        until_stopped(warden);
        std::thread::sleep(TTL * 3 + Duration::from_millis(500)); // past the deadline and past the wrapper's own timer
        assert_eq!(run.job().len(), STUBBORN);

        send(if continue_warden { warden } else { run.pid() }, Signal::SIGCONT);
        let dead = run.until_job_is_dead();
        assert!(dead < Duration::from_secs(10), "dead after {dead:?}");
        run.send(Signal::SIGCONT);
        assert_eq!(run.code(), 76);
        assert_eq!(run.processes(), []);
    }
}

/// A warden that hangs: stopped again and again. The wrapper kills it at last, and the tree itself.
#[test]
fn a_warden_that_misses_the_deadline_is_replaced() {
    let lease = Lease::new();
    let mut run = lease.run().ttl("3s").sh(STUBBORN_TREE).start();
    run.until_job_has(STUBBORN);
    let warden = run.warden().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Bounded: a failure below must not leave this thread spinning.
            let end = Instant::now() + LIMIT / 2;
            while !done.load(Ordering::Relaxed) && Instant::now() < end {
                send(warden, Signal::SIGSTOP);
                std::thread::sleep(Duration::from_micros(20));
            }
        });
        lease.lose_store();
        let status = run.code();
        done.store(true, Ordering::Relaxed);
        assert_eq!(status, 76);
    });
    assert_eq!(run.processes(), []);
}

/// Each generation forks the next and dies: nobody is ever a child for long.
#[test]
fn a_chain_of_forks_is_killed() {
    for width in [1, 8] {
        let lease = Lease::new();
        let link = lease.file("link");
        std::fs::write(&link, "#!/bin/sh\n\"$0\" &\n").unwrap();
        std::fs::set_permissions(&link, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let script = format!("for i in $(seq {width}); do $DIR/link & done; echo up >$DIR/up; sleep 1000");
        let mut run = lease.run().option("--max-hold 2s").sh(&script).start();
        lease.until_written("up", "up");
        assert_eq!(run.code(), 76);
        assert_eq!(run.processes(), []);
    }
}

/// A thousand processes are killed well inside the margin of a lease of usual length.
#[test]
fn a_tree_of_three_hundred_is_killed() {
    let lease = Lease::new();
    let script = "trap '' TERM; for i in $(seq 300); do sleep 1000 & done; echo up >$DIR/up; wait";
    let mut run = lease.run().option("--max-hold 5s").sh(script).start();
    lease.until_written("up", "up");
    assert_eq!(run.code(), 76);
    assert_eq!(run.processes(), []);
}

/// The warden sleeps while nothing happens.
#[test]
fn an_idle_warden_uses_no_cpu() {
    let lease = Lease::new();
    let run = lease.run().command(&["sleep", "1000"]).start();
    run.until_job_has(1);
    let warden = run.warden().unwrap();
    let switches = || {
        let status = std::fs::read_to_string(format!("/proc/{warden}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    // It may have something left to do at first.
    until("the warden sleeps for a whole second", || {
        let before = (switches(), ticks(warden));
        std::thread::sleep(TTL); // the span that is measured
        switches() - before.0 <= 2 && ticks(warden) - before.1 <= 1
    });
}
