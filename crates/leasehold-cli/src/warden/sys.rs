//! The few system calls that nix has no wrapper for, or one that is too narrow for us.

use std::{
    mem::MaybeUninit,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    ptr,
};

use libc::c_int;
use nix::{
    errno::Errno,
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        signal::Signal,
    },
    unistd::Pid,
};

/// A descriptor of the process, which stays its own when the pid is used again. Needs Linux 5.3.
pub(crate) fn pidfd_open(pid: Pid) -> nix::Result<OwnedFd> {
    // SAFETY: the call takes two integers; the descriptor that it returns is new and ours.
    #[expect(unsafe_code, reason = "no wrapper in nix")]
    unsafe {
        let fd = Errno::result(libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0))?;
        Ok(OwnedFd::from_raw_fd(fd as RawFd))
    }
}

/// Sends a signal to the process behind a [`pidfd_open`], if that is still there and we may.
pub(crate) fn pidfd_send_signal(process: &OwnedFd, signal: Signal) {
    let no_info = ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open, and a null `info` asks for the one that `kill` would send.
    #[expect(unsafe_code, reason = "no wrapper in nix")]
    unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), signal as c_int, no_info, 0);
    }
}

/// Closes every descriptor from `first` to `last`. Before Linux 5.9 they stay open.
fn close_range(first: RawFd, last: RawFd) {
    // SAFETY: only called by processes that never drop the objects that stand for these descriptors.
    #[expect(unsafe_code, reason = "no wrapper in nix")]
    unsafe {
        libc::syscall(libc::SYS_close_range, first, last, 0);
    }
}

/// Closes every descriptor beyond the first three, but for these.
pub(crate) fn close_all_but(mut kept: Vec<RawFd>) {
    kept.sort_unstable();
    let mut first = 3;
    for fd in kept.into_iter().filter(|fd| *fd >= 3) {
        if first < fd {
            close_range(first, fd - 1);
        }
        first = fd + 1;
    }
    close_range(first, RawFd::MAX);
}

/// Whether this process ignores the signal.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: a null new action only asks; the kernel fills in the old one, which is read only if it did.
    #[expect(unsafe_code, reason = "nix can ask for a disposition only by changing it")]
    unsafe {
        libc::sigaction(signal as c_int, ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Lets this process have as many descriptors as it ever may. Processes that it has forked before keep their limit.
pub(crate) fn raise_descriptors() -> nix::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard { setrlimit(Resource::RLIMIT_NOFILE, hard, hard) } else { Ok(()) }
}

/// What [`wait_any`] learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// This child ended, with this raw status, and is reaped.
    Ended(Pid, c_int),
    /// This child was stopped by this signal.
    Stopped(Pid, c_int),
    /// There are children, but no news.
    NoNews,
    /// There are no children: nobody below us is left, for we are a subreaper.
    NoChildren,
}

/// News of any child, without waiting for it. Not by nix, which loses children that a real-time signal ended.
pub(crate) fn wait_any() -> Waited {
    let mut status = 0;
    let flags = libc::WNOHANG | libc::WUNTRACED | libc::__WALL;
    // SAFETY: the kernel writes one integer through the pointer.
    #[expect(unsafe_code, reason = "nix's wait loses statuses")]
    let answer = unsafe { libc::waitpid(-1, &raw mut status, flags) };
    match answer {
        0 => Waited::NoNews,
        -1 if Errno::last() == Errno::EINTR => Waited::NoNews,
        -1 => Waited::NoChildren,
        pid if libc::WIFSTOPPED(status) => Waited::Stopped(Pid::from_raw(pid), libc::WSTOPSIG(status)),
        pid => Waited::Ended(Pid::from_raw(pid), status),
    }
}

/// Ends a forked process: the exit handlers and buffers of the process that it was forked from are not its to run and flush.
pub(crate) fn exit_at_once() -> ! {
    // SAFETY: ends the process.
    #[expect(unsafe_code, reason = "std has no exit without destructors")]
    unsafe {
        libc::_exit(0)
    }
}
