//! What wakes the wrapper: signals, the warden's words, a timer.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags},
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
        time::TimeSpec,
        timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
    },
};
use tokio::io::{Interest, unix::AsyncFd};

use super::found::HANDLED;

/// All sources behind one descriptor, so that the runtime has one thing to watch.
///
/// They are made before there is a runtime, where a failure can still be reported, and known to it from the first
/// [`woken`](Self::woken) on.
#[derive(Debug)]
pub(super) struct Sources {
    signals: SignalFd,
    timer: TimerFd,
    all: Arc<OwnedFd>,
    known: Option<AsyncFd<Arc<OwnedFd>>>,
}

impl Sources {
    pub(super) fn new(socket: &OwnedFd) -> nix::Result<Sources> {
        let handled: SigSet = HANDLED.into_iter().collect();
        let signals = SignalFd::with_flags(&handled, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC)?;
        let all = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        for source in [signals.as_fd(), timer.as_fd(), socket.as_fd()] {
            all.add(source, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        }
        Ok(Sources { signals, timer, all: Arc::new(all.0), known: None })
    }

    /// Waits until one of them has something. Which it was, the caller looks up, until nothing is left.
    pub(super) async fn woken(&mut self) {
        let known = self.known.get_or_insert_with(|| watch(&self.all).expect("the runtime takes one more descriptor"));
        if let Ok(mut ready) = known.readable().await {
            ready.clear_ready();
        }
    }

    /// The next signal that was sent to us, and its `si_code`: where it came from.
    pub(super) fn next_signal(&self) -> Option<(Signal, i32)> {
        let info = self.signals.read_signal().ok()??;
        let signal = Signal::try_from(info.ssi_signo.cast_signed()).ok()?;
        Some((signal, info.ssi_code))
    }

    /// Whether there is a [`next_signal`](Self::next_signal).
    pub(super) fn has_signal(&self) -> bool {
        let mut signals = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        poll(&mut signals, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }

    /// Wakes us at this instant of the boot-time clock.
    pub(super) fn wake_at(&self, instant: u64) {
        let at = Expiration::OneShot(TimeSpec::from(Duration::from_nanos(instant)));
        self.timer.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME).expect("every instant after zero is valid");
    }
}

fn watch(all: &Arc<OwnedFd>) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: what is registered holds the descriptor open, and never puts another in its place.
    #[expect(unsafe_code, reason = "tokio can't know that the descriptor stays the same")]
    let known = unsafe { AsyncFd::register_with_interest(Arc::clone(all), Interest::READABLE) };
    Ok(known?)
}
