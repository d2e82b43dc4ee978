//! What the command line can't bring about.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::wait::{WaitStatus, waitpid},
    unistd::{ForkResult, fork},
};

use super::end::Status;
use super::page::boottime;
use super::{Cut, End, Found, Options, Warden};

/// Runs `test` in a process of its own, which has one thread as [`Warden::fork`] wants it.
pub(crate) fn alone(test: impl FnOnce()) {
    // SAFETY: of the libraries' locks only the allocator's matter here, and it frees them at a fork.
    #[expect(unsafe_code, reason = "fork is unsafe where there are threads")]
    let forked = unsafe { fork() }.unwrap();
    match forked {
        ForkResult::Child => {
            let failed = catch_unwind(AssertUnwindSafe(test)).is_err();
            // SAFETY: ends the process.
            #[expect(unsafe_code, reason = "the test harness must not go on in here")]
            unsafe {
                libc::_exit(i32::from(failed))
            }
        }
        ForkResult::Parent { child } => assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 0))),
    }
}

/// A warden whose job appends a line to a file, and whatever `script` does.
fn warden(ran: &Path, script: &str, again: bool) -> Warden {
    let script = format!("echo ran >>{}; {script}", ran.display());
    let argv = ["sh", "-c", &script].map(Into::into).to_vec();
    let options = Options { kill_after: Duration::from_millis(100), wait_group: false, again, last_word: None };
    Warden::fork(Found::read().unwrap(), argv, options).unwrap()
}

fn run(warden: &mut Warden) -> End {
    block_on(warden.run(&[], &[]))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// This instant of the boot-time clock.
pub(crate) fn in_seconds(seconds: u64) -> u64 {
    boottime() + seconds * 1_000_000_000
}

fn lines(file: &Path) -> usize {
    fs::read_to_string(file).unwrap_or_default().lines().count()
}

#[test]
fn a_deadline_in_the_past_starts_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let ran = directory.path().join("ran");
    alone(|| {
        let mut warden = warden(&ran, "", false);
        warden.deadlines().set(boottime() - 1, in_seconds(10));
        assert_eq!(run(&mut warden), End::TooLate(Cut::Deadline));
    });
    assert_eq!(lines(&ran), 0);
}

#[test]
fn without_a_deadline_nothing_starts() {
    let directory = tempfile::tempdir().unwrap();
    let ran = directory.path().join("ran");
    alone(|| assert_eq!(run(&mut warden(&ran, "", false)), End::TooLate(Cut::Deadline)));
    assert_eq!(lines(&ran), 0);
}

#[test]
fn an_order_before_the_start_keeps_it_from_starting() {
    let directory = tempfile::tempdir().unwrap();
    let ran = directory.path().join("ran");
    alone(|| {
        let mut warden = warden(&ran, "", false);
        let deadlines = warden.deadlines();
        deadlines.end_now(Cut::Lost);
        deadlines.end_now(Cut::MaxHold);
        deadlines.set(in_seconds(10), in_seconds(10)); // a renewal on its way takes nothing back
        assert_eq!(run(&mut warden), End::TooLate(Cut::Lost));
    });
    assert_eq!(lines(&ran), 0);
}

#[test]
fn a_deadline_that_is_pulled_in_counts_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let ran = directory.path().join("ran");
    alone(|| {
        let mut warden = warden(&ran, "sleep 1000", false);
        let deadlines = warden.deadlines();
        deadlines.set(in_seconds(100), in_seconds(100));
        let file = ran.clone();
        let renewals = std::thread::spawn(move || {
            while lines(&file) == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            deadlines.set(boottime(), in_seconds(100));
        });
        assert_eq!(run(&mut warden), End::Cut { why: Cut::Deadline, job: Some(Status::Signaled(libc::SIGTERM)) });
        renewals.join().unwrap();
    });
}

/// For `--forever`.
#[test]
fn one_warden_serves_several_runs() {
    let directory = tempfile::tempdir().unwrap();
    let ran = directory.path().join("ran");
    alone(|| {
        let mut warden = warden(&ran, "exit 3", true);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for count in 1..=20 {
            assert_eq!(runtime.block_on(warden.run(&[], &[])), End::TooLate(Cut::Deadline));
            warden.deadlines().set(in_seconds(10), in_seconds(10));
            assert_eq!(runtime.block_on(warden.run(&[], &[])), End::Exited(3));
            assert_eq!(lines(&ran), count);
        }
    });
}

#[test]
fn an_environment_that_is_too_long_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let ran = directory.path().join("ran");
    alone(|| {
        let mut warden = warden(&ran, "", false);
        warden.deadlines().set(in_seconds(10), in_seconds(10));
        let end = block_on(warden.run(&[("LONG".into(), "x".repeat(100_000).into())], &[]));
        assert_eq!(end, End::NotStarted(Errno::E2BIG));
    });
    assert_eq!(lines(&ran), 0);
}

#[test]
fn a_dropped_warden_kills_its_job() {
    let directory = tempfile::tempdir().unwrap();
    let (ran, alive) = (directory.path().join("ran"), directory.path().join("alive"));
    alone(|| {
        let script = format!("trap '' TERM; while :; do echo >>{}; sleep 0.01; done", alive.display());
        let mut warden = warden(&ran, &script, false);
        warden.deadlines().set(in_seconds(100), in_seconds(100));
        block_on(async {
            let until_alive = async {
                while lines(&alive) == 0 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::select! {
                end = warden.run(&[], &[]) => panic!("{end:?}"),
                () = until_alive => {}
            }
        });
        drop(warden);
    });
    let dead = lines(&alive);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(lines(&alive), dead);
}
