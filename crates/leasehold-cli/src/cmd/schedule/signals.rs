//! Signals, one after the other.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::nursery::Watched;
use crate::warden::sys::{self, Waited};

/// Those that mean something to a process that goes on until it is told to end. They are blocked since
/// [`Found::read`](crate::warden::Found::read), or [`Signals::block`].
const HANDLED: [Signal; 5] = [Signal::SIGHUP, Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGCHLD];

/// Those by which people stop and continue it: no job outlives its lease by that, its warden sees to it.
const LEFT_ALONE: [Signal; 2] = [Signal::SIGTSTP, Signal::SIGCONT];

/// What a signal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Read the file again.
    Reload,
    /// Come to an end; by what.
    Stop(&'static str),
}

/// What this process is told.
pub struct Signals {
    signals: SignalFd,
    ready: Watched,
}

impl Signals {
    /// Blocks them, so that they wait to be heard. Before any thread exists: each inherits it.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn block() -> io::Result<()> {
        Ok(HANDLED.into_iter().collect::<SigSet>().thread_block()?)
    }

    /// Within a runtime, and before any thread that is to take none.
    ///
    /// # Errors
    /// Where the system gives no descriptor.
    pub fn listen() -> io::Result<Self> {
        let handled: SigSet = HANDLED.into_iter().collect();
        let signals = SignalFd::with_flags(&handled, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let ready = Watched::new(Arc::new(signals.as_fd().try_clone_to_owned()?))?;
        LEFT_ALONE.into_iter().collect::<SigSet>().thread_unblock()?;
        Ok(Self { signals, ready })
    }

    /// The next thing. Children that have died meanwhile are reaped: as the first process of a container we get everybody's.
    ///
    /// # Cancel safety
    /// No signal is lost.
    pub async fn next(&self) -> Told {
        loop {
            match self.signals.read_signal() {
                Ok(Some(info)) => match Signal::try_from(info.ssi_signo.cast_signed()) {
                    Ok(Signal::SIGCHLD) | Err(_) => reap(),
                    // A terminal that is closed; by hand it means something else.
                    Ok(Signal::SIGHUP) if info.ssi_code == libc::SI_KERNEL => {
                        // Blocked, a signal comes also where it is ignored: by nohup.
                        if !sys::is_ignored(Signal::SIGHUP) {
                            return Told::Stop("the terminal is gone");
                        }
                    }
                    Ok(Signal::SIGHUP) => return Told::Reload,
                    Ok(signal) => return Told::Stop(signal.as_str()),
                },
                Ok(None) | Err(_) => self.ready.readable().await,
            }
        }
    }
}

fn reap() {
    while let Waited::Ended(..) | Waited::Stopped(..) = sys::wait_any() {}
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;
    use crate::warden::tests::alone;

    /// nix knows no real-time signals, and would leave such a child and all behind it.
    #[test]
    fn children_are_reaped_whatever_ended_them() {
        alone(|| {
            let children = ["kill -40 $$", "exit 3", "kill $$"]
                .map(|script| Command::new("sh").args(["-c", script]).spawn().unwrap().id());
            let is_left = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists();
            for _ in 0..2000 {
                reap();
                if !children.iter().any(is_left) {
                    return;
                }
                sleep(Duration::from_millis(5));
            }
            panic!("some are left");
        });
    }
}
