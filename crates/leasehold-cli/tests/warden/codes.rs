//! What the wrapper's exit code says.

use nix::sys::signal::Signal;

use crate::harness::*;

/// The job's own code, or 128 + n for the signal that ended it, or why it could not be started: told apart from each
/// other and from a lost lease.
#[test]
fn p12_every_end_has_its_code() {
    let lease = Lease::new();
    let code_of = |job: &[&str]| lease.run().command(job).start().code();

    for (script, code) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("exit 76", 76),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 143),
        ("kill -SEGV $$", 139),
        ("kill -40 $$", 168), // a real-time signal
    ] {
        assert_eq!(code_of(&["bash", "-c", script]), code, "{script}");
    }
    assert_eq!(code_of(&["/no/such/program"]), 127);
    assert_eq!(code_of(&["no-such-program"]), 127);
    assert_eq!(code_of(&["/etc/passwd"]), 126, "not executable");
    assert_eq!(code_of(&["/etc"]), 126, "a directory");
    assert_eq!(code_of(&["/etc/passwd/program"]), 127, "below a file");
}

/// Lost while the job runs, and held by another: codes of their own.
#[test]
fn p12_lost_and_held_have_their_codes() {
    let lease = Lease::new();
    let mut holder = lease.run().ttl("6s").command(&["sleep", "1000"]).start();
    holder.until_job_has(1);
    assert_eq!(lease.run().sh("exit 0").start().code(), 75);

    lease.lose_store();
    assert_eq!(holder.code(), 76);
    assert_eq!(holder.processes(), []);
}

/// The lock of a job that can't be started is free at once.
#[test]
fn b12_what_cannot_start_leaves_the_lock_free() {
    let lease = Lease::new();
    for job in ["/no/such/program", "/etc/passwd"] {
        assert!(!lease.run().command(&[job]).finish().success());
        assert!(lease.is_free());
    }
    // Too many arguments for exec (E2BIG): not our limit, but the kernel's for one string.
    let long = "x".repeat(200_000);
    let refused = lease.run().sh("exit 0").env("TOO_LONG", "").command.arg(&long).status();
    assert!(refused.is_err(), "even the wrapper can't be started with that: {refused:?}");
}

/// A script without a first line is run by the shell, as every shell does it.
#[test]
fn a_script_without_interpreter_runs() {
    let lease = Lease::new();
    let script = lease.file("script");
    std::fs::write(&script, "exit 9\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(lease.run().command(&[script.to_str().unwrap()]).start().code(), 9);
}

/// A thousand quick jobs that leave orphans behind: never another one's status.
#[test]
fn p10_the_code_is_right_a_thousand_times() {
    let lease = Lease::new();
    for round in 0..rounds() {
        let code = i32::try_from(round % 200).unwrap();
        let script = format!("(sh -c 'exit 99' & exit 98) & (true &) ; exit {code}");
        assert_eq!(lease.run().sh(&script).start().code(), code);
    }
}

/// The status of a job that is reaped together with others, long after: killed by a second signal.
#[test]
fn a_job_killed_by_us_has_the_code_of_its_signal() {
    let lease = Lease::new();
    let mut run = lease.run().sh(STUBBORN_TREE).start();
    run.until_job_has(STUBBORN);
    run.send(Signal::SIGTERM);
    run.send(Signal::SIGINT);
    assert_eq!(run.code(), 137);
    assert_eq!(run.processes(), []);
}
