//! The nursery's process: forks a runner for each delivery, and reaps what falls to it.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::{set_child_subreaper, set_name};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{ForkResult, Pid, dup2_stdin, dup2_stdout, fork, getppid};

use super::packet::{Received, receive_descriptors};
use super::runner::{Delivery, be_the_runner};
use super::word::{Report, Word};
use crate::warden::Found;
use crate::warden::sys::{self, Waited, exit_at_once};

/// The nursery, as it sees itself.
struct Inside {
    /// Deliveries come from here. No end of it is the scheduler's death, or its wish that this be the end.
    socket: OwnedFd,
    /// Readable when a child has news.
    children: SignalFd,
    /// Readable when the scheduler is dead. Needs Linux 5.3.
    scheduler: Option<OwnedFd>,
    found: Found,
    runners: BTreeSet<Pid>,
}

/// Is the nursery, and never returns. `socket` must be the only end that this process has.
pub(super) fn be_the_nursery(socket: OwnedFd, scheduler: Pid, found: Found) -> ! {
    // A panic must not unwind into what the scheduler's `main` was doing when it forked us.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if let Ok(inside) = Inside::new(socket, scheduler, found) {
            inside.serve();
        }
    }));
    exit_at_once()
}

impl Inside {
    fn new(socket: OwnedFd, scheduler: Pid, mut found: Found) -> io::Result<Self> {
        found.detach()?;
        let _ = set_name(c"leasehold-nurse");
        // Jobs get three descriptors, whatever the scheduler was started with; it keeps its stderr to tell of a fault.
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        dup2_stdin(&null).and_then(|()| dup2_stdout(&null))?;
        drop(null);
        sys::close_all_but(vec![socket.as_raw_fd()]);
        set_child_subreaper(true)?; // what jobs leave behind, and all that a killed runner does, is reaped here
        let inside = Self {
            socket,
            children: SignalFd::with_flags(
                &SigSet::from(Signal::SIGCHLD),
                SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK,
            )?,
            scheduler: sys::pidfd_open(scheduler).ok(),
            found,
            runners: BTreeSet::new(),
        };
        // Only now: had the scheduler died before, the descriptor would be of another process.
        if getppid() == scheduler { Ok(inside) } else { Err(Errno::ESRCH.into()) }
    }

    fn serve(mut self) {
        loop {
            match receive_descriptors(&self.socket) {
                Received::Packet(delivery) => self = self.hatch(Delivery::from(delivery)),
                Received::Nothing if self.wait() == Woken::Look => {}
                Received::Nothing | Received::Closed => break,
            }
            self.reap();
        }
        let Self { socket, children, mut runners, .. } = self;
        drop(socket); // so that it is seen that no more is started
        // The runners see for themselves that the scheduler is gone; whatever falls to us by that is reaped.
        reap(&mut runners); // news that was heard together with that end, and not looked at
        while !runners.is_empty() {
            let _ = poll(&mut [PollFd::new(children.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE);
            let _ = children.read_signal();
            reap(&mut runners);
        }
    }

    /// Forks a runner, in which this does not return.
    fn hatch(mut self, delivery: Delivery) -> Self {
        // SAFETY: this process has one thread, so the child may go on as any program does.
        #[expect(unsafe_code, reason = "fork is unsafe where there are threads")]
        let forked = unsafe { fork() };
        match forked {
            Ok(ForkResult::Child) => {
                let Self { socket, children, scheduler, found, .. } = self;
                drop((socket, children, scheduler)); // none of these is to live on with a job
                be_the_runner(found, delivery)
            }
            Ok(ForkResult::Parent { child }) => {
                self.runners.insert(child);
            }
            Err(error) => {
                let _ = Word::Ended(Report::not_started(error)).send(&delivery.socket);
            }
        }
        self
    }

    /// Waits until something happens; what, the caller looks up.
    fn wait(&self) -> Woken {
        let source = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut sources = vec![source(self.socket.as_fd()), source(self.children.as_fd())];
        sources.extend(self.scheduler.as_ref().map(|scheduler| source(scheduler.as_fd())));
        let _ = poll(&mut sources, PollTimeout::NONE);
        let is_ready = |source: &PollFd<'_>| source.any().unwrap_or_default();
        if is_ready(&sources[1]) {
            let _ = self.children.read_signal();
        }
        if sources.get(2).is_some_and(is_ready) { Woken::SchedulerGone } else { Woken::Look }
    }

    fn reap(&mut self) {
        reap(&mut self.runners);
    }
}

/// What ended a [`Inside::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    /// Something: look.
    Look,
    /// The scheduler is dead.
    SchedulerGone,
}

/// Takes the news of all children. A runner that somebody has stopped is continued: it has renewals to hand on.
fn reap(runners: &mut BTreeSet<Pid>) {
    loop {
        match sys::wait_any() {
            Waited::Stopped(pid, _) if runners.contains(&pid) => {
                let _ = kill(pid, Signal::SIGCONT);
            }
            Waited::Stopped(..) => {}
            Waited::Ended(pid, _) => {
                runners.remove(&pid);
            }
            Waited::NoNews | Waited::NoChildren => return,
        }
    }
}
