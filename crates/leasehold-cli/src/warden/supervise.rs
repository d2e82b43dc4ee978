//! The wrapper's side: forks the warden, talks to it, and stands in for it should it fail.

use std::{
    ffi::{CString, OsString},
    fs, io,
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::ffi::OsStringExt,
    },
    sync::Arc,
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::{
        prctl::set_child_subreaper,
        signal::{SigSet, Signal, kill},
        socket::{AddressFamily, Shutdown, SockFlag, SockType, shutdown, socketpair},
        wait::waitpid,
    },
    unistd::{ForkResult, Pid, fork, getpid},
};

use super::{
    end::{Cut, End, Fatal, Status},
    found::{Found, stop_unless},
    inside::be_the_warden,
    message::{self, Change, Message, Received, Stops},
    page::{Deadlines, Page, State, boottime, nanos},
    sources::Sources,
    sys::{self, Waited},
    tree,
};

/// How long after the KILL is due we wait for the warden before we continue it, and then before we take its place.
const LATE: Duration = Duration::from_millis(100);

/// How long a job that nobody else could continue is left stopped. It may stop again at once, so not at once.
const STOPPED: Duration = Duration::from_millis(100);

/// How a run is to be kept.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The grace (`--kill-after`): how long after TERM the KILL comes, where a run is ended early or where what an
    /// ordered end left behind is cleared.
    pub kill_after: Duration,
    /// Wait for everything that the job started, not only for the job itself.
    pub wait_group: bool,
    /// Several runs, one after another (`--forever`): the warden stays when one is over.
    pub again: bool,
    /// A packet socket that gets [`IS_OVER`] from the warden itself once the lease may be given back: for whoever is to
    /// know it even if the wrapper is killed. Where that doesn't come, somebody may be left.
    pub last_word: Option<RawFd>,
}

/// What [`Options::last_word`] gets.
pub const IS_OVER: &[u8] = b"over";

/// The wrapper's handle of its warden.
///
/// While it lives, all children of this process are reaped by it: nothing else here may start any.
///
/// # On drop
/// The warden kills whatever still runs and ends; drop waits for that. Drop it before `exit`.
#[derive(Debug)]
pub struct Warden {
    page: &'static Page,
    socket: Arc<OwnedFd>,
    found: Found,
    grace: Duration,
    again: bool,
    /// `None` once it is reaped.
    pid: Option<Pid>,
    sources: Sources,
    /// Somebody told the job to end. The second one has it killed.
    ordered: bool,
    /// The last signal that was meant to end us, while a job ran.
    asked: Option<Fatal>,
    /// What the terminal sent meanwhile.
    by_terminal: SigSet,
    /// Whether the job is in our group, as far as we have heard.
    joined: bool,
    /// How often the job has been stopped without our doing, as far as we have heard.
    stops: Stops,
    /// How many of our [`Message::Continue`] are not answered yet.
    unanswered: u32,
    /// A SIGCONT of our warden may reach the job *after* a Ctrl-Z that is pressed now, and undo it.
    continuing: bool,
    /// When the job was started.
    started: u64,
    /// When the warden was continued, because it missed its deadline.
    continued: Option<u64>,
}

impl Warden {
    /// Forks the warden, which waits until it is told to [`run`](Self::run) `argv` (the program and its arguments).
    ///
    /// To be called while the process has one thread only, so before the runtime and the store. It starts in parallel.
    ///
    /// # Errors
    /// Where the system refuses a process, a page or a descriptor.
    pub fn fork(found: Found, argv: Vec<OsString>, options: Options) -> io::Result<Warden> {
        debug_assert_eq!(fs::read_dir("/proc/self/task").map_or(1, Iterator::count), 1, "forked before any thread");
        let argv = argv.into_iter().map(|argument| CString::new(argument.into_vec())).collect::<Result<Vec<_>, _>>()?;
        let page = Page::map()?;
        let (ours, wardens) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        )?;
        let wrapper = getpid();

        // SAFETY: this process has one thread, so the child may go on as any program does.
        #[expect(unsafe_code, reason = "fork is unsafe where there are threads")]
        let forked = unsafe { fork() }?;
        let ForkResult::Parent { child } = forked else {
            drop(ours); // first: as long as we hold it we can't see its other holder die
            be_the_warden(page, wardens, wrapper, found, argv, options);
        };

        set_child_subreaper(true)?;
        let sources = Sources::new(&ours)?;
        Ok(Warden {
            page,
            socket: Arc::new(ours),
            found,
            grace: options.kill_after,
            again: options.again,
            pid: Some(child),
            sources,
            ordered: false,
            asked: None,
            by_terminal: SigSet::empty(),
            joined: false,
            stops: 0,
            unanswered: 0,
            continuing: false,
            started: 0,
            continued: None,
        })
    }

    /// The deadlines, for whoever renews the lease. Until they are set they are over.
    pub fn deadlines(&self) -> Deadlines {
        Deadlines::new(self.page, Arc::clone(&self.socket), self.grace)
    }

    /// The signal that asked for an end while a job ran (TERM, INT, QUIT), whether it reached the job or not: for whoever
    /// would start another one.
    pub fn asked_to_stop(&self) -> Option<Fatal> {
        self.asked
    }

    /// Whether the warden is there to start another job.
    pub fn is_alive(&self) -> bool {
        self.pid.is_some()
    }

    /// Resolves when a signal asks us to give up, while nothing runs. Ctrl-Z stops us, and `fg` lets us go on.
    ///
    /// The warden is gone when it resolves: nothing will be started any more.
    ///
    /// # Cancel safety
    /// A signal is lost if this resolves and the answer is not looked at; otherwise nothing is:
    /// [`run`](Self::run) looks for a waiting signal first.
    pub async fn stop_requested(&mut self) -> Fatal {
        loop {
            if let Some(fatal) = self.waiting_signal() {
                return fatal;
            }
            self.sources.woken().await;
        }
    }

    /// Starts the job, unless its time is over, and stays with it until it, and where ordered its tree, is gone.
    ///
    /// The job gets the inherited environment with `env` over it and without `remove`. It is told to end and killed
    /// at the instants of [`deadlines`](Self::deadlines), which must be set before. When this returns, whatever the
    /// answer, the lease may be given back; except where the answer says that something can't be killed.
    ///
    /// # Cancel safety
    /// Dropping it leaves the job running; dropping the [`Warden`] kills it.
    pub async fn run(&mut self, env: &[(OsString, OsString)], remove: &[OsString]) -> End {
        if let Some(fatal) = self.waiting_signal() {
            return End::NeverStarted(fatal);
        }
        if let Err(error) = self.start(env, remove) {
            return self.not_started(error);
        }
        let end = self.supervise().await;
        self.page.forget();
        if !self.again {
            self.dismiss(); // it is about to end, and is not to be seen when we are gone
        }
        if !matches!(end, End::Exited(_)) {
            self.found.restore_terminal();
        }
        end
    }

    /// Whether a signal asks us to give up. For the time before the job runs.
    fn waiting_signal(&mut self) -> Option<Fatal> {
        let mut stopped = false;
        loop {
            match self.sources.next_signal() {
                Some((Signal::SIGCHLD, _)) => self.reap(),
                Some((Signal::SIGCONT, _)) => stopped = false,
                Some((Signal::SIGTSTP, _)) => stopped = self.found.may_be_stopped(),
                Some((ignored, _)) if sys::is_ignored(ignored) => {}
                Some((fatal, code)) => {
                    self.dismiss();
                    return Some(Fatal { signal: fatal as i32, by_terminal: code == libc::SI_KERNEL });
                }
                None if stopped => stopped = !self.stop(),
                None => return None,
            }
        }
    }

    fn start(&mut self, env: &[(OsString, OsString)], remove: &[OsString]) -> nix::Result<()> {
        self.hear(); // what was said of an earlier job is not about this one
        self.ordered = false;
        self.joined = false;
        self.stops = 0;
        self.unanswered = 0;
        self.continuing = false;
        self.started = boottime();
        self.continued = None;
        self.by_terminal = SigSet::empty();
        let set = env.iter().map(|(name, value)| Change::Set(name.clone(), value.clone()));
        let removed = remove.iter().map(|name| Change::Remove(name.clone()));
        self.tell(&Message::Start(set.chain(removed).collect()))
    }

    fn not_started(&mut self, error: Errno) -> End {
        match error {
            // It has not heard of the job.
            Errno::EPIPE | Errno::ECONNRESET => match self.take_over() {
                End::Cut { why, .. } => End::TooLate(why),
                End::WardenLost { .. } => End::WardenLost { started: false },
                end => end,
            },
            error => End::NotStarted(error),
        }
    }

    /// From the start of the job to its end. One signal at a time: a storm of them must not keep us from the clock.
    async fn supervise(&mut self) -> End {
        let (mut stopped, mut settled) = (false, false);
        loop {
            stopped |= self.hear();
            let signal = self.sources.next_signal();
            match signal {
                Some((signal, code)) => {
                    stopped |= signal == Signal::SIGTSTP; // the job may be, from before
                    self.hand_on(signal, code, settled);
                }
                None => {
                    settled = self.joined;
                    self.continuing = self.unanswered > 0;
                }
            }
            if self.page.state().is_over() {
                return self.end();
            }
            if self.pid.is_none() || self.watch_the_warden() {
                return self.take_over();
            }
            match signal {
                Some(_) => {}
                // Not while the job is being continued: it may have been stopped before that.
                None if !self.continuing && stopped => stopped = !self.stop_too().await,
                None => self.sources.woken().await,
            }
        }
    }

    /// Hears what the warden says; answers whether the terminal has stopped the job.
    fn hear(&mut self) -> bool {
        let mut stopped = false;
        while let Received::Message(message) = message::receive(self.socket.as_raw_fd()) {
            match message {
                Message::Joined => self.joined = true,
                Message::Stopped(stops) => {
                    self.stops = stops;
                    stopped = true;
                }
                Message::Continued => self.unanswered = self.unanswered.saturating_sub(1),
                _ => {}
            }
        }
        stopped
    }

    /// Hands a signal on to the job; the second one that tells it to end has it killed.
    ///
    /// A hang-up is none of these: daemons take it for "read your configuration again", and some supervisors send it
    /// on top of a TERM.
    ///
    /// `settled`: the signal came after the job had joined our group. Of one that lay there when we heard of that nobody
    /// knows, and rather is it handed on twice, to a job that is just beginning, than lost. So is a Ctrl-Z right after
    /// `fg`, which the SIGCONT of that may undo.
    fn hand_on(&mut self, signal: Signal, code: i32, settled: bool) {
        let message = match signal {
            Signal::SIGCHLD => return self.reap(),
            Signal::SIGCONT => return self.continue_job(),
            _ => {
                let by_terminal = code == libc::SI_KERNEL;
                if by_terminal {
                    self.by_terminal.add(signal);
                }
                let order =
                    matches!(signal, Signal::SIGTERM | Signal::SIGINT | Signal::SIGQUIT) && !sys::is_ignored(signal);
                if order {
                    self.asked = Some(Fatal { signal: signal as i32, by_terminal });
                }
                let lasts = settled && !(self.continuing && signal == Signal::SIGTSTP);
                if lasts && self.found.terminal_told_job(signal, code) {
                    return;
                }
                let second = order && self.ordered;
                self.ordered |= order;
                if second { Message::Kill } else { Message::Forward { signal, order } }
            }
        };
        let _ = self.tell(&message);
    }

    /// Has the job continued, unless it has been stopped again meanwhile.
    fn continue_job(&mut self) {
        self.continuing = true;
        self.unanswered += u32::from(self.tell(&Message::Continue(self.stops)).is_ok());
    }

    /// The terminal stopped the job: stop as well, for it is us that the shell looks at. The SIGCONT that ends this is
    /// handed on like any other signal. `false`: a signal has come, which is to be looked at first.
    async fn stop_too(&mut self) -> bool {
        if !self.page.job().is_some_and(tree::is_stopped) {
            return true; // somebody has continued it since
        }
        if self.found.may_be_stopped() {
            return self.stop();
        }
        tokio::time::sleep(STOPPED).await;
        self.continue_job();
        true
    }

    /// Stops this process, until somebody continues it. `false`: a signal has come, maybe the SIGCONT that would end this
    /// and be lost; it is to be looked at first.
    fn stop(&self) -> bool {
        stop_unless(|| self.sources.has_signal())
    }

    /// Reaps all children: the warden, and as PID 1 or after the warden's death whatever falls to us.
    fn reap(&mut self) {
        loop {
            match sys::wait_any() {
                Waited::Ended(pid, _) if Some(pid) == self.pid => self.pid = None,
                // If more is to be reaped, the SIGCHLD that follows brings us back.
                Waited::Stopped(pid, _) if Some(pid) == self.pid => return self.signal_warden(Signal::SIGCONT),
                Waited::Ended(..) | Waited::Stopped(..) => {}
                Waited::NoNews | Waited::NoChildren => return,
            }
        }
    }

    /// Looks after the warden at the instant when it should have killed the job: continues it, and if that doesn't
    /// help kills it. Then, `true`, the rest is ours.
    fn watch_the_warden(&mut self) -> bool {
        let now = boottime();
        let patience = match self.page.state() {
            State::Killing => tree::PATIENCE + LATE,
            _ => LATE,
        };
        let due = self.page.due().kill_at.max(self.started).saturating_add(nanos(patience));
        if now >= due && self.continued.is_none() {
            self.continued = Some(now);
            self.signal_warden(Signal::SIGCONT);
        }
        let last = self.continued.map(|continued| continued.saturating_add(nanos(LATE)).max(due));
        self.sources.wake_at(last.unwrap_or(due));
        last.is_some_and(|last| now >= last)
    }

    /// The warden is dead, or has to be: what it had below it falls to us, and is killed.
    fn take_over(&mut self) -> End {
        self.signal_warden(Signal::SIGKILL);
        let strangers = self.found.strangers().to_vec();
        let dead = tree::kill_all(&strangers, || {
            self.reap();
            tree::own_children().iter().all(|child| strangers.contains(child))
        });
        let over = boottime() >= self.page.due().kill_at;
        match self.page.cut().or(over.then_some(Cut::Deadline)) {
            _ if !dead => End::Unkillable(tree::everybody(&strangers)),
            Some(why) => End::Cut { why, job: None },
            None => End::WardenLost { started: true },
        }
    }

    /// What the warden left in the page.
    fn end(&self) -> End {
        let status = Status::from_raw(self.page.status());
        match (self.page.state(), self.page.cut(), status) {
            (State::Unkillable, ..) => End::Unkillable(tree::everybody(self.found.strangers())),
            (State::NotStarted, ..) => End::NotStarted(Errno::from_raw(self.page.errno())),
            (State::TooLate, cut, _) => End::TooLate(cut.unwrap_or(Cut::Deadline)),
            (_, Some(why), job) => End::Cut { why, job: Some(job) },
            (_, None, Status::Exited(code)) => End::Exited(code),
            (_, None, Status::Signaled(signal)) => {
                let by_terminal = Signal::try_from(signal).is_ok_and(|signal| self.by_terminal.contains(signal));
                End::Signaled(Fatal { signal, by_terminal })
            }
        }
    }

    /// Safe by pid: nobody but [`reap`](Self::reap) waits for it.
    fn signal_warden(&self, signal: Signal) {
        if let Some(warden) = self.pid {
            let _ = kill(warden, signal);
        }
    }

    /// Ends the warden, which watches nothing, and waits for that. Without it nothing can be started any more.
    ///
    /// By KILL: should somebody have stopped it, in its last breath even, nothing else would reach it.
    fn dismiss(&mut self) {
        self.signal_warden(Signal::SIGKILL);
        if let Some(warden) = self.pid.take() {
            while waitpid(warden, None) == Err(Errno::EINTR) {}
        }
    }

    fn tell(&self, message: &Message) -> nix::Result<()> {
        message::send(self.socket.as_raw_fd(), message)
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        // It may have a job to kill, so it is asked; if it is stopped, it is continued.
        let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
        self.reap();
        while self.pid.is_some() {
            std::thread::sleep(Duration::from_micros(100));
            self.reap();
        }
    }
}
