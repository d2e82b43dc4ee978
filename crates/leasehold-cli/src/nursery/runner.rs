//! The runner's process: one run, from its order to its report.

use std::env;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::prctl::set_name;
use nix::unistd::{chdir, dup2_stderr, dup2_stdin, dup2_stdout};

use super::order::Order;
use super::packet::Received;
use super::watched::Watched;
use super::word::{Report, Tell, Word};
use crate::warden::sys::exit_at_once;
use crate::warden::{Due, Found, Options, Warden};

/// What the nursery is sent for a run.
#[derive(Debug)]
pub struct Delivery {
    /// The runner's end of the run's socket.
    pub socket: OwnedFd,
    /// The [`Order`], in a file.
    pub order: OwnedFd,
    /// What the job reads, and where it writes to.
    pub stdin: OwnedFd,
    /// See `stdin`.
    pub stdout: OwnedFd,
    /// See `stdin`.
    pub stderr: OwnedFd,
}

impl From<[OwnedFd; 5]> for Delivery {
    fn from([socket, order, stdin, stdout, stderr]: [OwnedFd; 5]) -> Self {
        Self { socket, order, stdin, stdout, stderr }
    }
}

/// Is the runner, and never returns. The process must have one thread, and no descriptor that a job must not have.
pub fn be_the_runner(found: Found, delivery: Delivery) -> ! {
    // A panic must not unwind into what the scheduler's `main` was doing when it forked the nursery.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let _ = set_name(c"leasehold-run");
        let socket = Arc::new(delivery.socket);
        let streams = [delivery.stdin, delivery.stdout, delivery.stderr];
        let report = match prepare(found, &socket, delivery.order, streams) {
            Ok((warden, due)) => watch(warden, due, &socket),
            Err(why) => Some(Report::NotStarted(why)),
        };
        if let Some(report) = report {
            let _ = Word::Ended(report).send(&socket);
        }
    }));
    exit_at_once()
}

/// Takes the place and the environment of the job, so that its warden, and so the job, inherit them.
fn prepare(
    found: Found,
    socket: &Arc<OwnedFd>,
    order: OwnedFd,
    streams: [OwnedFd; 3],
) -> Result<(Warden, Due), String> {
    let refused = |error: &dyn std::fmt::Display| format!("can't be started: {error}");
    inherit(streams).map_err(|error| refused(&error.desc()))?;
    let order = Order::read(order).map_err(|error| refused(&error))?;
    if let Some(dir) = &order.dir {
        let denied = |error: Errno| format!("can't be started in {}: {}", dir.to_string_lossy(), error.desc());
        chdir(dir.as_os_str()).map_err(denied)?;
    }
    if order.argv.is_empty() {
        return Err(refused(&"no program is named"));
    }
    if let Some(name) = order.impossible_variable() {
        return Err(refused(&format!("no environment can hold the variable {name:?}")));
    }
    change_environment(&order);
    // From here on nobody but the runner or the warden can say that nothing is at work.
    Word::Begins.send(socket).map_err(|error| refused(&error.desc()))?;
    let options = Options {
        kill_after: order.kill_after,
        wait_group: order.wait_group,
        again: false,
        last_word: Some(socket.as_raw_fd()),
    };
    let warden = Warden::fork(found, order.argv, options).map_err(|error| refused(&error))?;
    let_go_of_streams().map_err(|error| refused(&error))?; // the job's end, not ours, is to be seen at the other side
    Ok((warden, order.due))
}

fn inherit([stdin, stdout, stderr]: [OwnedFd; 3]) -> nix::Result<()> {
    dup2_stdin(stdin)?;
    dup2_stdout(stdout)?;
    dup2_stderr(stderr)
}

fn let_go_of_streams() -> io::Result<()> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null).and_then(|()| dup2_stdout(&null)).and_then(|()| dup2_stderr(&null))?;
    Ok(())
}

fn change_environment(order: &Order) {
    // SAFETY: this process has one thread, so nobody reads the environment meanwhile; and every name and value is one
    // that it can hold.
    #[expect(unsafe_code, reason = "changing the environment is unsafe where there are threads")]
    unsafe {
        order.remove.iter().for_each(|name| env::remove_var(name));
        order.set.iter().for_each(|(name, value)| env::set_var(name, value));
    }
}

/// Runs the job to its end. No report where the scheduler is gone: then there is no job any more, and nobody to hear it.
fn watch(mut warden: Warden, due: Due, socket: &Arc<OwnedFd>) -> Option<Report> {
    let deadlines = warden.deadlines();
    deadlines.set(due.term_at, due.kill_at);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Some(Report::NotStarted(format!("can't be started: {error}"))),
    };
    let heed = |tell| match tell {
        Tell::Until(due) => deadlines.set(due.term_at, due.kill_at),
        Tell::End(why) => deadlines.end_now(why),
        Tell::Kill(why) => deadlines.kill_now(why),
    };
    runtime.block_on(async {
        let socket = Watched::new(Arc::clone(socket)).ok()?;
        let listen = async {
            loop {
                match Tell::receive(socket.get()) {
                    Received::Packet(tell) => heed(tell),
                    Received::Nothing => socket.readable().await,
                    Received::Closed => return,
                }
            }
        };
        tokio::select! {
            biased; // what was said before the start counts for the start
            () = listen => None,
            end = warden.run(&[], &[]) => Some(Report::of(end, warden.asked_to_stop())),
        }
    })
}
