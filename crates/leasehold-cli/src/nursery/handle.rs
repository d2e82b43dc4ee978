//! The scheduler's side of the nursery.

use std::fs::{self, File};
use std::future::pending;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::Signal;
use nix::sys::socket::{Shutdown, shutdown};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, pipe2};

use super::flight::Flight;
use super::order::{Order, in_memory};
use super::packet::{pair, send_descriptors};
use super::process::be_the_nursery;
use super::watched::Watched;
use crate::warden::{Found, sys};

/// How long a nursery that has more to do than it can take is left alone.
const BUSY: Duration = Duration::from_millis(10);

/// For so long a drop waits for the nursery to end, in ms.
const PATIENCE: u16 = 1000;

/// The nursery's handle.
///
/// # On drop
/// The nursery ends, once all runs have; that is waited for a little.
#[derive(Debug)]
pub struct Nursery {
    socket: Arc<OwnedFd>,
    /// The process. Needs Linux 5.3.
    process: Option<OwnedFd>,
    pid: Pid,
}

/// A run that was begun.
#[derive(Debug)]
pub struct Launch {
    /// The run.
    pub flight: Flight,
    /// What the job writes to stdout can be read here.
    pub stdout: Watched,
    /// What the job writes to stderr can be read here.
    pub stderr: Watched,
}

impl Nursery {
    /// Forks the nursery. To be called while the process has one thread only, so before the runtime and the store.
    ///
    /// # Errors
    /// Where the system refuses a process or a descriptor.
    pub fn fork(found: Found) -> io::Result<Nursery> {
        debug_assert_eq!(fs::read_dir("/proc/self/task").map_or(1, Iterator::count), 1, "forked before any thread");
        let (ours, nursery) = pair()?;
        let scheduler = getpid();
        // SAFETY: this process has one thread, so the child may go on as any program does.
        #[expect(unsafe_code, reason = "fork is unsafe where there are threads")]
        let forked = unsafe { fork() }?;
        match forked {
            ForkResult::Child => {
                drop(ours); // first: as long as we hold it we can't see its other holder die
                be_the_nursery(nursery, scheduler, found)
            }
            ForkResult::Parent { child: pid } => {
                Ok(Nursery { socket: Arc::new(ours), process: sys::pidfd_open(pid).ok(), pid })
            }
        }
    }

    /// Has a runner run `order`, with this to read on its stdin; with nothing (`/dev/null`) if there is none.
    ///
    /// As long as no descriptors are left, or the nursery has more to do than it can take, that is waited for.
    ///
    /// # Errors
    /// Where it was not begun, for certain: the nursery is gone (`EPIPE`), say.
    ///
    /// # Cancel safety
    /// Dropped, nothing is begun.
    pub async fn launch(&self, order: &Order, stdin: Option<&[u8]>) -> io::Result<Launch> {
        loop {
            match self.try_to_launch(order, stdin).await {
                Err(error) if are_used_up(&error) => tokio::time::sleep(BUSY).await,
                launched => return launched,
            }
        }
    }

    async fn try_to_launch(&self, order: &Order, stdin: Option<&[u8]>) -> io::Result<Launch> {
        let (ours, runners) = pair()?;
        let stdin = match stdin {
            Some(text) => in_memory(text)?,
            None => File::open("/dev/null")?.into(),
        };
        let (stdout, to_stdout) = output_pipe()?;
        let (stderr, to_stderr) = output_pipe()?;
        let ours = Watched::new(Arc::new(ours))?;
        let order = order.write()?;
        let delivery = [&runners, &order, &stdin, &to_stdout, &to_stderr].map(AsFd::as_fd);
        loop {
            match send_descriptors(&self.socket, delivery) {
                Ok(()) => return Ok(Launch { flight: Flight::new(ours), stdout, stderr }),
                Err(Errno::EAGAIN | Errno::ETOOMANYREFS | Errno::ENOBUFS) => tokio::time::sleep(BUSY).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Resolves when the nursery is gone: nothing can be started any more. What runs goes on.
    ///
    /// # Cancel safety
    /// Cancel safe, and may be called any number of times.
    pub async fn died(&self) {
        // It says nothing, ever: what can be read is its end.
        match Watched::new(self.end_of_it()) {
            Ok(end) => end.readable().await,
            Err(_) => pending().await,
        }
    }

    /// A descriptor of its own for each who waits, as the runtime knows each but once.
    fn end_of_it(&self) -> Arc<OwnedFd> {
        self.socket.try_clone().map_or_else(|_| Arc::clone(&self.socket), Arc::new)
    }

    /// Continues the nursery, if somebody has stopped it.
    pub fn carry_on(&self) {
        if let Some(process) = &self.process {
            sys::pidfd_send_signal(process, Signal::SIGCONT);
        }
    }
}

impl Drop for Nursery {
    fn drop(&mut self) {
        let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
        if let Some(process) = &self.process {
            let _ = poll(&mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)], PATIENCE);
        }
        let _ = waitpid(self.pid, Some(WaitPidFlag::WNOHANG)); // unless somebody else has reaped it
    }
}

/// Whether it is for want of descriptors, which are given back when other runs end.
fn are_used_up(error: &io::Error) -> bool {
    matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::EMFILE | Errno::ENFILE))
}

/// A pipe: our end, which must not block, and the job's, which must.
fn output_pipe() -> io::Result<(Watched, OwnedFd)> {
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((Watched::new(Arc::new(reader))?, writer))
}
