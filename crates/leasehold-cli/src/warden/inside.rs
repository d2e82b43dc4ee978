//! The warden's process: from the fork until it knows that nothing is left to watch.

use std::{
    ffi::CString,
    fs::OpenOptions,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl::{set_child_subreaper, set_name},
        signal::{SigSet, SigmaskHow, Signal, sigprocmask},
        signalfd::{SfdFlags, SignalFd},
        socket::{MsgFlags, send},
        timerfd::{ClockId, TimerFd, TimerFlags},
    },
    unistd::{Pid, dup2_stderr, dup2_stdin, dup2_stdout, getppid, setpgid},
};

use super::{
    found::Found,
    job::Job,
    message::{self, Change, Message, Received},
    page::{Page, State, boottime},
    supervise::{IS_OVER, Options},
    sys::{self, Waited},
    watch::Watch,
};

/// The warden, as it sees itself.
pub(super) struct Inside {
    pub(super) page: &'static Page,
    pub(super) options: Options,
    pub(super) timer: TimerFd,
    socket: OwnedFd,
    /// Readable when a child has news.
    children: SignalFd,
    /// Readable when the wrapper is dead. Unlike the socket, nobody else can hold it open. Needs Linux 5.3.
    wrapper: Option<OwnedFd>,
    found: Found,
    argv: Vec<CString>,
}

/// Is the warden, and never returns. `socket` must be the only end that this process has.
pub(super) fn be_the_warden(
    page: &'static Page,
    socket: OwnedFd,
    wrapper: Pid,
    found: Found,
    argv: Vec<CString>,
    options: Options,
) -> ! {
    // A panic must not unwind into what the wrapper's `main` was doing when it forked us.
    let _ = catch_unwind(AssertUnwindSafe(|| match Inside::new(page, socket, wrapper, found, argv, options) {
        Ok(inside) => inside.serve(),
        Err(_) => say_over(options), // for nothing was begun
    }));
    // SAFETY: ends the process; the wrapper's exit handlers and buffers are not ours to run and flush.
    #[expect(unsafe_code, reason = "std has no exit without destructors")]
    unsafe {
        libc::_exit(0)
    }
}

impl Inside {
    fn new(
        page: &'static Page,
        socket: OwnedFd,
        wrapper: Pid,
        found: Found,
        argv: Vec<CString>,
        options: Options,
    ) -> nix::Result<Inside> {
        if !found.is_orphaned() {
            let own_group = Pid::from_raw(0);
            setpgid(own_group, own_group)?; // signals to the wrapper's group, and Ctrl-Z, are not for us
        }
        set_child_subreaper(true)?;
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&SigSet::all()), None)?;
        let _ = set_name(c"leasehold-warden");
        let inside = Inside {
            page,
            options,
            timer: TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC)?,
            socket,
            children: SignalFd::with_flags(
                &SigSet::from(Signal::SIGCHLD),
                SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK,
            )?,
            wrapper: sys::pidfd_open(wrapper).ok(),
            found,
            argv,
        };
        // Only now: had the wrapper died before, the descriptor would be of another process.
        if getppid() == wrapper { Ok(inside) } else { Err(Errno::ESRCH) }
    }

    fn serve(self) {
        while let Some(changes) = self.wait_for_start() {
            let state = self.run(&changes);
            if state != State::Unkillable {
                say_over(self.options); // first: once the page says so, the wrapper may end us
            }
            self.page.set_state(state);
            if !self.options.again {
                return; // which wakes the wrapper, too
            }
            let _ = self.timer.unset();
            self.tell_wrapper(&Message::Over);
        }
        say_over(self.options);
    }

    /// Waits for the order to start; `None` when there will be none.
    fn wait_for_start(&self) -> Option<Vec<Change>> {
        loop {
            match self.receive() {
                Received::Message(Message::Start(changes)) => return Some(changes),
                Received::Message(_) => continue,
                Received::Closed => return None,
                Received::Nothing => {}
            }
            if self.wait() == Woken::WrapperGone {
                return None;
            }
            // Daemons that an earlier run left behind.
            while matches!(sys::wait_any(), Waited::Ended(..) | Waited::Stopped(..)) {}
        }
    }

    /// Runs the job once.
    fn run(&self, changes: &[Change]) -> State {
        if boottime() >= self.page.due().term_at {
            self.page.note_cut();
            return State::TooLate;
        }
        match Job::start(&self.found, &self.argv, changes, self.page) {
            Ok(job) => {
                self.page.set_running(job.pid);
                if self.found.job_shares_group() {
                    self.tell_wrapper(&Message::Joined);
                }
                if !self.options.again {
                    self.let_go_of_files();
                }
                Watch::new(self, job).watch()
            }
            Err(error) => {
                self.page.set_errno(error as i32);
                State::NotStarted
            }
        }
    }

    /// Waits until something happens; what, the caller looks up.
    pub(super) fn wait(&self) -> Woken {
        let source = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut sources = vec![source(self.socket.as_fd()), source(self.children.as_fd()), source(self.timer.as_fd())];
        sources.extend(self.wrapper.as_ref().map(|wrapper| source(wrapper.as_fd())));
        let _ = poll(&mut sources, PollTimeout::NONE);

        let is_ready = |source: &PollFd<'_>| source.any().unwrap_or_default();
        if is_ready(&sources[1]) {
            let _ = self.children.read_signal();
        }
        if sources.get(3).is_some_and(is_ready) { Woken::WrapperGone } else { Woken::Look }
    }

    pub(super) fn receive(&self) -> Received {
        message::receive(self.socket.as_raw_fd())
    }

    pub(super) fn tell_wrapper(&self, message: &Message) {
        let _ = message::send(self.socket.as_raw_fd(), message);
    }

    /// Closes all that is not ours: copies of the caller's pipes and locks must not live as long as we do.
    fn let_go_of_files(&self) {
        if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
            let _ = dup2_stdin(&null).and_then(|()| dup2_stdout(&null)).and_then(|()| dup2_stderr(&null));
        }
        let own = [Some(&self.socket), self.wrapper.as_ref()].into_iter().flatten().map(AsRawFd::as_raw_fd);
        let own = own.chain([self.children.as_raw_fd(), self.timer.as_fd().as_raw_fd()]);
        sys::close_all_but(own.chain(self.options.last_word).collect());
    }
}

/// The warden's last word, to whoever outlives its wrapper.
fn say_over(options: Options) {
    if let Some(listener) = options.last_word {
        let _ = send(listener, IS_OVER, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL);
    }
}

/// What ended a [`Inside::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// Something: look.
    Look,
    /// The wrapper is dead.
    WrapperGone,
}
