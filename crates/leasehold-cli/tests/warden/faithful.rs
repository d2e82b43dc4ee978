//! The job sees what it would see without us.

use std::{
    io::{Read, Write},
    process::{Command, Stdio},
    thread,
};

use nix::sys::signal::{SigHandler, SigSet, Signal, signal, sigprocmask};

use crate::harness::*;

/// 50 MB through stdin and stdout, byte for byte.
#[test]
fn fifty_megabytes_pass_intact() {
    let lease = Lease::new();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let sent: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .take(50 * 1024 * 1024 / 8)
    .flatten()
    .collect();

    let mut prepared = lease.run().command(&["cat"]);
    prepared.command.stdin(Stdio::piped());
    let mut run = prepared.start();
    let mut input = run.child.stdin.take().unwrap();
    let mut output = run.child.stdout.take().unwrap();
    let mut received = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            input.write_all(&sent).unwrap();
            drop(input);
        });
        output.read_to_end(&mut received).unwrap();
    });
    assert_eq!(run.code(), 0);
    assert!(sent == received, "{} bytes sent, {} received", sent.len(), received.len());
}

/// A full disk, a closed pipe: the job dies of SIGPIPE as in any pipeline.
#[test]
fn sigpipe_ends_the_job() {
    let lease = Lease::new();
    let mut run = lease.run().inside("$RUN | head -1 >/dev/null; exit ${PIPESTATUS[0]}").command(&["yes"]).start();
    assert_eq!(run.code(), 141);
}

/// Ignored signals and the mask reach the job exactly as they reach it without us.
#[test]
fn dispositions_and_mask_pass_through() {
    let setups: [(&str, fn()); 6] = [
        ("nothing", || {}),
        ("nohup", || ignore(Signal::SIGHUP)),
        ("in the background of a script", || {
            ignore(Signal::SIGINT);
            ignore(Signal::SIGQUIT);
        }),
        ("no SIGPIPE", || ignore(Signal::SIGPIPE)),
        ("no SIGCHLD", || ignore(Signal::SIGCHLD)),
        ("a mask", || {
            let blocked: SigSet = [Signal::SIGUSR1, Signal::SIGTERM, Signal::SIGWINCH].into_iter().collect();
            sigprocmask(nix::sys::signal::SigmaskHow::SIG_SETMASK, Some(&blocked), None).unwrap();
        }),
    ];
    let lease = Lease::new();
    let show = ["grep", "-E", "^Sig(Blk|Ign|Pnd)|^ShdPnd", "/proc/self/status"];
    for (what, setup) in setups {
        let mut plain = Prepared { command: Command::new(show[0]), mark: "plain".to_owned() };
        plain.command.args(&show[1..]);
        let without = plain.before_exec(setup).output();
        let with = lease.run().command(&show).before_exec(setup).output();
        assert_eq!(String::from_utf8_lossy(&with.stdout), String::from_utf8_lossy(&without.stdout), "{what}");
        assert_eq!(with.status.code(), Some(0));
    }
}

fn ignore(which: Signal) {
    // SAFETY: ignoring calls no code.
    #[expect(unsafe_code, reason = "nix can't know that no handler is installed here")]
    unsafe {
        signal(which, SigHandler::SigIgn).unwrap();
    }
}

/// No descriptor of ours reaches the job, and the warden holds none but its own.
#[test]
fn descriptors_stay_apart() {
    let lease = Lease::new();
    let list = "for fd in /proc/$$/fd/*; do echo ${fd##*/}; done";
    let without = Command::new("sh").args(["-c", list]).stdin(Stdio::null()).output().unwrap();
    let with = lease.run().sh(list).output();
    assert_eq!(String::from_utf8_lossy(&with.stdout), String::from_utf8_lossy(&without.stdout));

    // The warden lets go of the caller's files when the job has started.
    let wait = "while readlink /proc/$PPID/fd/1 | grep -qv /dev/null; do :; done";
    // Of all of them, which may take it a while.
    let settle = "n=0; while [ $(ls /proc/$PPID/fd | wc -l) -ne 7 ] && [ $n -lt 50 ]; do sleep 0.1; n=$((n + 1)); done";
    let show = format!("exec 2>/dev/null; {wait}; sleep 0.1; {settle}; readlink /proc/$PPID/fd/*");
    let of_warden = lease.run().sh(&show).output();
    let mut targets: Vec<String> = String::from_utf8_lossy(&of_warden.stdout)
        .lines()
        .map(|line| line.split(['[', ':']).take(2).collect::<Vec<_>>().join(":").replace("]", ""))
        .map(|line| if line.starts_with("socket") { "socket".to_owned() } else { line })
        .collect();
    targets.sort();
    let null = "/dev/null";
    let own = ["anon_inode:", "anon_inode:", "anon_inode:", "socket"];
    assert_eq!(targets, [null, null, null].into_iter().chain(own).collect::<Vec<_>>(), "{of_warden:?}");
}

/// A pipe that the job hands to nobody ends with the job, though the warden has inherited it.
#[test]
fn the_warden_keeps_no_pipe_open() {
    let lease = Lease::new();
    let mut run = lease.run().sh("echo done; exec >&- 2>&-; sleep 1000").start();
    lease_output_is(&mut run, "done\n");
    let warden = run.warden().unwrap();
    until("the warden has let go", || {
        std::fs::read_link(format!("/proc/{warden}/fd/1")).is_ok_and(|file| file.ends_with("null"))
    });
}

fn lease_output_is(run: &mut Running, text: &str) {
    let mut read = vec![0; text.len()];
    run.child.stdout.as_mut().unwrap().read_exact(&mut read).unwrap();
    assert_eq!(read, text.as_bytes());
}

/// Ours override inherited variables; all else is inherited as it is.
#[test]
fn our_variables_override_inherited_ones() {
    let lease = Lease::new();
    let show = "echo $LEASEHOLD_LOCK; echo $LEASEHOLD_TOKEN; echo $KEPT; env | grep -c ^LEASEHOLD_TOKEN=";
    let run = lease.run().sh(show).env("LEASEHOLD_LOCK", "stale").env("LEASEHOLD_TOKEN", "stale").env("KEPT", "a=b c");
    let output = run.output();
    let output = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], "job");
    assert!(lines[1].parse::<u64>().is_ok(), "{output}");
    assert_eq!(lines[2..], ["a=b c", "1"]);
}

/// Arguments that are no text reach the job as they are.
#[test]
fn arguments_pass_byte_for_byte() {
    use std::os::unix::ffi::OsStrExt;
    let lease = Lease::new();
    let mut prepared = lease.run().command(&["printf", "%s|", "a b", "", "--", "*"]);
    prepared.command.arg(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
    assert_eq!(prepared.output().stdout, b"a b||--|*|\xff\xfe|");
}

/// Working directory, niceness and limits are the caller's.
#[test]
fn the_rest_is_inherited() {
    let lease = Lease::new();
    // What is asked of the caller just before; the tests themselves may run under some `nice`.
    let asked = "pwd; ulimit -n; ulimit -c; umask; nice";
    let script = format!("cd /; ulimit -n 512; ulimit -c 0; umask 027; nice -n 5 sh -c '{asked}'; exec nice -n 5 $RUN");
    let output = lease.run().inside(&script).sh(asked).output();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let (callers, jobs) = said.split_at(said.len() / 2);
    assert_eq!(callers, jobs);
    assert!(jobs.starts_with("/\n512\n0\n0027\n"), "{said}");
}
