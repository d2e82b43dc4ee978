//! The scheduler's side of one run.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{Shutdown, shutdown};

use super::packet::Received;
use super::watched::Watched;
use super::word::{Report, Tell, Word};
use crate::warden::Cut;

/// For so long a drop waits for the end of a job that is killed: a little longer than its killers try.
const PATIENCE: Duration = Duration::from_secs(12);

/// A run that a runner has been asked for.
///
/// # On drop
/// The job is killed, and the drop waits until it is dead: some milliseconds, as a rule. Wait for
/// [`ended`](Self::ended) instead.
#[derive(Debug)]
pub struct Flight {
    socket: Watched,
    begun: bool,
    is_over: bool,
    is_closed: bool,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Its runner says so.
    Reported(Report),
    /// Its runner was killed before it could.
    Lost {
        /// Whether the job may have been started.
        begun: bool,
        /// Whether the warden has said that nothing of it is at work any more.
        is_over: bool,
    },
}

impl Outcome {
    /// Whether the job's time was over, as far as its warden had heard.
    pub fn is_late(&self) -> bool {
        matches!(self, Outcome::Reported(Report::Cut(Cut::Deadline) | Report::TooLate(Cut::Deadline)))
    }
}

impl Flight {
    /// A run at the other end of `socket`, which the nursery has got.
    pub(super) fn new(socket: Watched) -> Self {
        Self { socket, begun: false, is_over: false, is_closed: false }
    }

    /// Where the runner listens, for whoever tells it of renewals.
    pub fn socket(&self) -> Arc<OwnedFd> {
        Arc::clone(self.socket.get())
    }

    /// Tells the runner something. That it can't be told is no error: then it is gone, or hangs and its warden ends the job
    /// in time.
    pub fn tell(&self, tell: Tell) {
        let _ = tell.send(self.socket.get());
    }

    /// Whether the job may be at work, as far as has been heard while [`ended`](Self::ended) was waited for.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Resolves when the run has ended.
    ///
    /// # Cancel safety
    /// Nothing is lost. Once it has resolved it is not to be called again.
    pub async fn ended(&mut self) -> Outcome {
        loop {
            match self.hear() {
                Received::Packet(outcome) => return outcome,
                Received::Nothing | Received::Closed => self.socket.readable().await,
            }
        }
    }

    /// What the run has come to, by what has been said so far.
    fn hear(&mut self) -> Received<Outcome> {
        loop {
            match Word::receive(self.socket.get()) {
                Received::Packet(Word::Begins) => self.begun = true,
                Received::Packet(Word::Over) => self.is_over = true,
                Received::Packet(Word::Ended(report)) => {
                    self.is_closed = true;
                    return Received::Packet(Outcome::Reported(report));
                }
                Received::Nothing => return Received::Nothing,
                Received::Closed => {
                    self.is_closed = true;
                    return Received::Packet(Outcome::Lost { begun: self.begun, is_over: self.is_over });
                }
            }
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let _ = shutdown(self.socket.get().as_raw_fd(), Shutdown::Write);
        let give_up = Instant::now() + PATIENCE;
        while !self.is_closed && Instant::now() < give_up {
            if self.hear() == Received::Nothing {
                let mut sources = [PollFd::new(self.socket.get().as_fd(), PollFlags::POLLIN)];
                let _ = poll(&mut sources, PollTimeout::from(100_u16));
            }
        }
    }
}
