//! How a run ends, and how the wrapper then ends itself.

use std::process;

use nix::{
    errno::Errno,
    sys::{
        resource::{Resource, setrlimit},
        signal::{SigHandler, SigSet, SigmaskHow, Signal, raise, signal, sigprocmask},
    },
    unistd::Pid,
};
use serde::{Deserialize, Serialize};

/// How a job's run ended: the answer of [`Warden::run`](super::Warden::run).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The job exited by itself with this code. What it left in the background lives on, unless the end was ordered
    /// by a signal or `wait_group` was asked for.
    Exited(i32),
    /// The job was ended by a signal, and whatever it left behind has been cleared: exit with [`Fatal::exit`].
    Signaled(Fatal),
    /// The program could not be started, see [`not_started_code`](Self::not_started_code).
    NotStarted(Errno),
    /// A stop signal came in the instant of the grant, before the job was started: it never ran. Give the lock (and
    /// a tick's attempt) back, then [`Fatal::exit`].
    NeverStarted(Fatal),
    /// The run was cut short: its time was over before the job had ended (76), or
    /// [`Deadlines::end_now`](super::Deadlines::end_now) was called. The whole tree is dead.
    Cut {
        /// What cut it.
        why: Cut,
        /// What became of the job; `None` where the warden died with it, so that nobody knows.
        job: Option<Status>,
    },
    /// The same, and the job was not even started, because the time was already over.
    TooLate(Cut),
    /// Something is left that can't be killed, for it became another user's or hangs inside the kernel (76). Don't
    /// release the lease: let it run out, and name these processes on stderr.
    Unkillable(Vec<Pid>),
    /// The warden was killed. The tree is dead all the same (70).
    WardenLost {
        /// Whether the job may have been started.
        started: bool,
    },
}

impl End {
    /// What became of the job, as far as it is known.
    pub fn job(&self) -> Option<Status> {
        match self {
            End::Exited(code) => Some(Status::Exited(*code)),
            End::Signaled(fatal) => Some(Status::Signaled(fatal.signal)),
            End::Cut { job, .. } => *job,
            End::NotStarted(_)
            | End::NeverStarted(_)
            | End::TooLate(_)
            | End::Unkillable(_)
            | End::WardenLost { .. } => None,
        }
    }

    /// Whether the job was started, or may have been.
    pub fn was_started(&self) -> bool {
        !matches!(
            self,
            End::NotStarted(_) | End::NeverStarted(_) | End::TooLate(_) | End::WardenLost { started: false }
        )
    }

    /// The exit code for [`NotStarted`](Self::NotStarted): 127 where there is no such program, else 126.
    pub fn not_started_code(error: Errno) -> i32 {
        match error {
            Errno::ENOENT | Errno::ENOTDIR => 127,
            _ => 126,
        }
    }
}

/// What cuts a run short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cut {
    /// The instant of [`Deadlines::set`](super::Deadlines::set) passed without a renewal.
    Deadline = 1,
    /// The caller learned that the lease is gone: taken, revoked, expired.
    Lost = 2,
    /// The job ran longer than `--max-hold` allows.
    MaxHold = 3,
    /// Whoever runs it was told to stop.
    Stopped = 4,
}

impl Cut {
    /// The cut that was written into the page as a number, if any.
    pub(super) fn from_number(number: u32) -> Option<Cut> {
        [Cut::Deadline, Cut::Lost, Cut::MaxHold, Cut::Stopped].into_iter().find(|cut| *cut as u32 == number)
    }
}

/// What became of a job's direct child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signaled(i32),
}

impl Status {
    /// Reads the raw status of `waitpid`; by hand, since nix knows no real-time signals.
    pub(super) fn from_raw(status: i32) -> Status {
        if libc::WIFSIGNALED(status) {
            Status::Signaled(libc::WTERMSIG(status))
        } else {
            Status::Exited(libc::WEXITSTATUS(status))
        }
    }
}

/// `SIGKILL`, or `signal 34` where it has no name.
pub fn signal_name(number: i32) -> String {
    Signal::try_from(number).map_or_else(|_| format!("signal {number}"), |signal| signal.as_str().to_owned())
}

/// A signal that ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fatal {
    /// Its number. Not a [`Signal`]: it may be a real-time one.
    pub signal: i32,
    /// Whether the terminal sent it (Ctrl-C, Ctrl-\, a hang-up).
    pub by_terminal: bool,
}

impl Fatal {
    /// What it is called.
    pub fn name(self) -> String {
        signal_name(self.signal)
    }

    /// The code that stands for this signal: 128 + n.
    pub fn code(self) -> i32 {
        128 + self.signal
    }

    /// Ends this process as the caller expects it: by [`code`](Self::code); or, where the terminal sent the signal,
    /// *by that signal*, because a shell stops its script at Ctrl-C only if the command died of it.
    ///
    /// Nothing is dropped or flushed: release the lease first.
    pub fn exit(self) -> ! {
        if self.by_terminal
            && let Ok(signal) = Signal::try_from(self.signal)
        {
            let _ = die_by(signal);
        }
        // Not ended by the terminal, or PID 1, which no default action can end.
        process::exit(self.code())
    }
}

/// Raises `signal` with its default action, and without a core dump: it would be the wrapper's, not the job's.
fn die_by(fatal: Signal) -> nix::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    // SAFETY: the default action is no handler, so no code of ours is called.
    #[expect(unsafe_code, reason = "nix can't know that no handler is installed here")]
    unsafe {
        signal(fatal, SigHandler::SigDfl)?;
    }
    let mut mask = SigSet::empty();
    mask.add(fatal);
    sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&mask), None)?;
    raise(fatal)
}
