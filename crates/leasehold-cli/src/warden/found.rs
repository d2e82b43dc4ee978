//! What the process was given when it started: the job is to get the same.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use nix::{
    errno::Errno,
    sys::{
        signal::{SigHandler, SigSet, SigmaskHow, Signal, raise, signal, sigprocmask},
        termios::{SetArg, Termios, tcgetattr, tcsetattr},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::{Pid, getpgid, getpgrp, getppid, getsid, setsid, tcgetpgrp},
};

use super::{sys, tree};

/// The signals that are read instead of taken: to be handed on, and news of children and of `fg`.
pub(super) const HANDLED: [Signal; 10] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGTSTP,
    Signal::SIGCONT,
    Signal::SIGCHLD,
];

/// Whether SIGPIPE was ignored. By the time of `main` Rust's runtime has set it to be ignored, so this is asked
/// before: the job of a shell that doesn't ignore it must die of it too (`leasehold run … | head`).
static PIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

extern "C" fn look_before_main() {
    PIPE_WAS_IGNORED.store(sys::is_ignored(Signal::SIGPIPE), Relaxed);
}

/// Called by the C runtime before `main`.
#[expect(unsafe_code, reason = "there is no other way to run before the runtime")]
// SAFETY: the section is a list of functions without arguments of interest; this one needs no runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_BEFORE_MAIN: extern "C" fn() = look_before_main;

/// What the process looked like when it started.
#[derive(Debug)]
pub struct Found {
    mask: SigSet,
    child_was_ignored: bool,
    file_size_was_ignored: bool,
    group: Pid,
    terminal: Option<Terminal>,
    strangers: Vec<Pid>,
}

/// The controlling terminal.
#[derive(Debug)]
struct Terminal {
    tty: File,
    /// Its modes, if we were in the foreground: else they are somebody else's.
    modes: Option<Termios>,
    /// Whether nobody could continue our process group if it stopped; the kernel then ignores Ctrl-Z.
    orphaned: bool,
}

impl Found {
    /// Looks at the process, and blocks the signals that `run` handles. The first thing to do in `main`, so that no
    /// signal ends us half-way.
    ///
    /// # Errors
    /// Where the system refuses to block the signals.
    pub fn read() -> io::Result<Found> {
        let mut mask = SigSet::empty();
        let handled: SigSet = HANDLED.into_iter().collect();
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&handled), Some(&mut mask))?;
        let group = getpgrp();
        Ok(Found {
            mask,
            child_was_ignored: heed_children()?,
            file_size_was_ignored: ignore_file_size()?,
            group,
            terminal: Terminal::open(group),
            strangers: strangers(),
        })
    }

    /// Leaves the terminal and the session, and is the leader of new ones without a terminal: for a child that is to have
    /// nothing of Ctrl-C, Ctrl-Z and hang-ups, nor what comes from it. Children of before are none of this process's.
    ///
    /// # Errors
    /// Where the system refuses, as it does a process that leads a group.
    pub fn detach(&mut self) -> io::Result<()> {
        self.group = setsid()?;
        self.terminal = None;
        self.strangers.clear();
        Ok(())
    }

    /// The process group of the wrapper.
    pub(super) fn group(&self) -> Pid {
        self.group
    }

    /// Children that we had before: an `exec` in a shell leaves us its background jobs. They are none of ours.
    pub(super) fn strangers(&self) -> &[Pid] {
        &self.strangers
    }

    /// With a terminal the job stays in our process group: Ctrl-C, Ctrl-Z, `fg` and pipelines then work as without us.
    pub(super) fn job_shares_group(&self) -> bool {
        self.terminal.is_some()
    }

    /// Whether the warden must stay in our group. In one of its own it would be a parent outside, so the kernel would
    /// take the group for one that somebody can continue, and Ctrl-Z would stop it for ever.
    pub(super) fn is_orphaned(&self) -> bool {
        self.terminal.as_ref().is_some_and(|terminal| terminal.orphaned)
    }

    /// Whether the job has got this signal already, from the terminal itself.
    pub(super) fn terminal_told_job(&self, signal: Signal, code: i32) -> bool {
        // At a hang-up the kernel tells the session's leader only.
        let leader_alone = signal == Signal::SIGHUP && getsid(None).is_ok_and(|leader| leader == Pid::this());
        self.job_shares_group() && code == libc::SI_KERNEL && !leader_alone
    }

    /// Gives this process, about to become the job, the signals as they were found.
    pub(super) fn restore_signals(&self) -> nix::Result<()> {
        if !PIPE_WAS_IGNORED.load(Relaxed) {
            set(Signal::SIGPIPE, SigHandler::SigDfl)?;
        }
        if !self.file_size_was_ignored {
            set(Signal::SIGXFSZ, SigHandler::SigDfl)?;
        }
        if self.child_was_ignored {
            set(Signal::SIGCHLD, SigHandler::SigIgn)?;
        }
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&self.mask), None)
    }

    /// Gives the terminal the modes back that a killed job has left changed.
    pub(super) fn restore_terminal(&self) {
        if let Some(terminal) = &self.terminal
            && let Some(modes) = &terminal.modes
            && terminal.is_ours(self.group)
        {
            let _ = with_ttou_blocked(|| tcsetattr(&terminal.tty, SetArg::TCSANOW, modes));
        }
    }

    /// Whether Ctrl-Z may stop this process: somebody could continue it, and the caller of ours didn't forbid it.
    pub(super) fn may_be_stopped(&self) -> bool {
        !sys::is_ignored(Signal::SIGTSTP) && !is_orphaned(self.group)
    }
}

impl Terminal {
    /// Opens the terminal itself: standard input may be a file although there is one.
    fn open(group: Pid) -> Option<Terminal> {
        let tty = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open("/dev/tty").ok()?;
        let mut terminal = Terminal { tty, modes: None, orphaned: is_orphaned(group) };
        if terminal.is_ours(group) {
            terminal.modes = tcgetattr(&terminal.tty).ok();
        }
        Some(terminal)
    }

    /// Whether we are in the foreground.
    fn is_ours(&self, group: Pid) -> bool {
        tcgetpgrp(&self.tty).is_ok_and(|foreground| foreground == group)
    }
}

/// Whether no ancestor of ours is in this session, but outside of the group: then nobody would continue the group.
fn is_orphaned(group: Pid) -> bool {
    let Ok(session) = getsid(None) else { return true };
    let mut parent = getppid();
    while parent.as_raw() != 0 && getsid(Some(parent)) == Ok(session) {
        if getpgid(Some(parent)) != Ok(group) {
            return false;
        }
        match tree::parent_of(parent) {
            Some(above) => parent = above,
            None => return true,
        }
    }
    true
}

/// Has a write beyond the file size limit fail instead of ending us: the store tells of it. Says whether the caller had
/// it so already.
fn ignore_file_size() -> nix::Result<bool> {
    let ignored = sys::is_ignored(Signal::SIGXFSZ);
    if !ignored {
        set(Signal::SIGXFSZ, SigHandler::SigIgn)?;
    }
    Ok(ignored)
}

/// Has the kernel keep dead children until they are waited for. Says whether the caller had it drop them.
fn heed_children() -> nix::Result<bool> {
    let ignored = sys::is_ignored(Signal::SIGCHLD);
    if ignored {
        set(Signal::SIGCHLD, SigHandler::SigDfl)?;
    }
    Ok(ignored)
}

/// Asks the kernel first, because nearly always there are none.
fn strangers() -> Vec<Pid> {
    let look_only = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    match waitid(Id::All, look_only) {
        Err(Errno::ECHILD) => Vec::new(),
        _ => tree::own_children(),
    }
}

fn set(which: Signal, handler: SigHandler) -> nix::Result<()> {
    debug_assert!(matches!(handler, SigHandler::SigDfl | SigHandler::SigIgn));
    // SAFETY: neither the default nor ignoring calls any code of ours.
    #[expect(unsafe_code, reason = "nix can't know that no handler is installed here")]
    unsafe {
        signal(which, handler).map(drop)
    }
}

/// Sets terminal modes even from the background, where it would stop us otherwise.
fn with_ttou_blocked(act: impl FnOnce() -> nix::Result<()>) -> nix::Result<()> {
    let mut before = SigSet::empty();
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&SigSet::from(Signal::SIGTTOU)), Some(&mut before))?;
    let done = act();
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
    done
}

/// Stops this process as Ctrl-Z does, until somebody continues it; `false`: it was called off. That is asked last, for
/// the kernel discards a SIGCONT that comes before the stop.
pub(super) fn stop_unless(called_off: impl FnOnce() -> bool) -> bool {
    let stop = SigSet::from(Signal::SIGTSTP);
    let _ = sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&stop), None);
    let stops = !called_off();
    if stops {
        let _ = raise(Signal::SIGTSTP);
    }
    let _ = sigprocmask(SigmaskHow::SIG_BLOCK, Some(&stop), None);
    stops
}
