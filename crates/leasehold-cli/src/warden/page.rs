//! The page of memory that wrapper, warden and (until its exec) the job's child share.

use std::{
    io,
    mem::size_of,
    num::NonZeroUsize,
    os::fd::{AsRawFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use nix::{
    sys::mman::{MapFlags, ProtFlags, mmap_anonymous},
    time::{ClockId, clock_gettime},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};

use super::{
    end::Cut,
    message::{self, Message},
};

/// No such instant.
pub(super) const NEVER: u64 = u64::MAX;

/// The clock of all deadlines: nanoseconds of `CLOCK_BOOTTIME`, which goes on while the machine is suspended.
pub fn boottime() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has a boot-time clock since 2.6.39");
    nanos(Duration::from(now))
}

/// A span in nanoseconds; 584 years are for ever.
pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(NEVER)
}

/// Where a run stands. Written by the warden, except where the wrapper starts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No job yet.
    Idle = 0,
    /// The job runs.
    Running = 1,
    /// The warden is in its kill loop.
    Killing = 2,
    /// Over: [`Page::status`] holds the job's raw wait status.
    Ended = 3,
    /// Over: the time was up before the program was executed.
    TooLate = 4,
    /// Over: the program could not be executed; [`Page::errno`] says why.
    NotStarted = 5,
    /// Over: somebody is left who can't be killed.
    Unkillable = 6,
}

impl State {
    const ALL: [State; 7] = [
        State::Idle,
        State::Running,
        State::Killing,
        State::Ended,
        State::TooLate,
        State::NotStarted,
        State::Unkillable,
    ];

    /// Whether the run is over, one way or another.
    pub(super) fn is_over(self) -> bool {
        !matches!(self, State::Idle | State::Running | State::Killing)
    }
}

/// When to tell the job to end, and when to kill it, both in [`boottime`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    /// TERM from here on.
    pub term_at: u64,
    /// KILL from here on.
    pub kill_at: u64,
}

/// The shared page. All zeroes mean a deadline in the past: nothing starts before [`Deadlines::set`].
#[derive(Debug)]
pub(super) struct Page {
    /// The lease's own instants; each renewal moves them.
    term_at: AtomicU64,
    kill_at: AtomicU64,
    /// An order to end early. Apart from the lease's, so that a renewal on its way can't undo it.
    order_term_at: AtomicU64,
    order_kill_at: AtomicU64,
    order: AtomicU32,
    state: AtomicU32,
    /// The [`Cut`] that the warden acted upon, or 0.
    cut: AtomicU32,
    /// The pid of the direct child, once there is one.
    job: AtomicI32,
    /// The raw wait status of the direct child.
    status: AtomicI32,
    /// Why the program could not be executed: an errno, [`TOO_LATE`](Self::TOO_LATE), or 0.
    errno: AtomicI32,
}

impl Page {
    /// The child found that the time was over just before it executed the program.
    pub(super) const TOO_LATE: i32 = -1;

    /// Maps a page that a later fork shares. It stays for the life of the process.
    pub(super) fn map() -> io::Result<&'static Page> {
        let length = NonZeroUsize::new(size_of::<Page>()).expect("a page has fields");
        // SAFETY: a fresh anonymous mapping aliases nothing; it is zeroed, which is a valid value of every atomic in
        // it, aligned to a page, large enough, and never unmapped.
        #[expect(unsafe_code, reason = "shared memory comes as a raw pointer")]
        let page: &'static Page = unsafe {
            mmap_anonymous(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED)?
                .cast()
                .as_ref()
        };
        page.forget();
        Ok(page)
    }

    /// Back to the beginning, for another run. The deadlines are over until they are set again.
    pub(super) fn forget(&self) {
        self.term_at.store(0, SeqCst);
        self.kill_at.store(0, SeqCst);
        self.order_term_at.store(NEVER, SeqCst);
        self.order_kill_at.store(NEVER, SeqCst);
        self.order.store(0, SeqCst);
        self.cut.store(0, SeqCst);
        self.job.store(0, SeqCst);
        self.status.store(0, SeqCst);
        self.errno.store(0, SeqCst);
        self.set_state(State::Idle);
    }

    /// The instants that count: whichever of lease and order comes first.
    pub(super) fn due(&self) -> Due {
        Due {
            term_at: self.term_at.load(SeqCst).min(self.order_term_at.load(SeqCst)),
            kill_at: self.kill_at.load(SeqCst).min(self.order_kill_at.load(SeqCst)),
        }
    }

    /// Where the run stands.
    pub(super) fn state(&self) -> State {
        let number = self.state.load(SeqCst);
        State::ALL.into_iter().find(|state| *state as u32 == number).expect("only states are stored")
    }

    /// Says where the run stands.
    pub(super) fn set_state(&self, state: State) {
        self.state.store(state as u32, SeqCst);
    }

    /// The direct child, if there is one.
    pub(super) fn job(&self) -> Option<Pid> {
        Some(self.job.load(SeqCst)).filter(|pid| *pid > 0).map(Pid::from_raw)
    }

    /// Says which the direct child is, and that it runs.
    pub(super) fn set_running(&self, job: Pid) {
        self.job.store(job.as_raw(), SeqCst);
        self.set_state(State::Running);
    }

    /// The raw wait status of the direct child.
    pub(super) fn status(&self) -> i32 {
        self.status.load(SeqCst)
    }

    /// Keeps the raw wait status of the direct child.
    pub(super) fn set_status(&self, status: i32) {
        self.status.store(status, SeqCst);
    }

    /// Why the program could not be executed: an errno, [`TOO_LATE`](Self::TOO_LATE), or 0.
    pub(super) fn errno(&self) -> i32 {
        self.errno.load(SeqCst)
    }

    /// Says why the program could not be executed. The job's child does, or the warden where there is none.
    pub(super) fn set_errno(&self, errno: i32) {
        self.errno.store(errno, SeqCst);
    }

    /// Notes that the run is cut short: by the order, if there is one, else by the deadline. The first note stays.
    pub(super) fn note_cut(&self) {
        let why = match self.order.load(SeqCst) {
            0 => Cut::Deadline as u32,
            order => order,
        };
        let _ = self.cut.compare_exchange(0, why, SeqCst, SeqCst);
    }

    /// What cut the run short, if anything did.
    pub(super) fn cut(&self) -> Option<Cut> {
        Cut::from_number(self.cut.load(SeqCst))
    }
}

/// The instants at which the job is told to end and is killed, shared with the warden.
///
/// Cheap to clone; any thread may set them. Nothing here waits, and a renewal makes no system call.
#[derive(Clone, Debug)]
pub struct Deadlines {
    page: &'static Page,
    socket: Arc<OwnedFd>,
    grace: Duration,
}

impl Deadlines {
    pub(super) fn new(page: &'static Page, socket: Arc<OwnedFd>, grace: Duration) -> Deadlines {
        Deadlines { page, socket, grace }
    }

    /// The lease as it is now known: at `term_at` the job gets TERM, at `kill_at` KILL, both in [`boottime`].
    /// [`Reserve`](super::Reserve) says what is safe.
    pub fn set(&self, term_at: u64, kill_at: u64) {
        let before = self.page.kill_at.swap(kill_at, SeqCst);
        let before = self.page.term_at.swap(term_at, SeqCst).min(before);
        if term_at.min(kill_at) < before {
            self.poke();
        }
    }

    /// Ends the job early: TERM now, KILL after the grace or at the lease's own instant, whichever comes first.
    ///
    /// The first call counts, and no later [`set`](Self::set) takes it back. Before [`Warden::run`](super::Warden::run)
    /// it keeps the job from being started.
    pub fn end_now(&self, why: Cut) {
        if self.page.order.compare_exchange(0, why as u32, SeqCst, SeqCst).is_err() {
            return;
        }
        let now = boottime();
        self.page.order_kill_at.store(now.saturating_add(nanos(self.grace)), SeqCst);
        self.page.order_term_at.store(now, SeqCst);
        self.poke();
    }

    /// Kills the job now: the second word to one that was told to end, or the first.
    pub fn kill_now(&self, why: Cut) {
        self.end_now(why);
        self.page.order_kill_at.fetch_min(boottime(), SeqCst);
        self.poke();
    }

    /// Has the warden look at the page now, not only when its timer fires. A full socket wakes it as well.
    fn poke(&self) {
        let _ = message::send(self.socket.as_raw_fd(), &Message::Poke);
    }
}

/// For tests of those who set deadlines.
#[cfg(test)]
impl Deadlines {
    /// Deadlines that nobody watches.
    pub fn unwatched() -> Deadlines {
        let (socket, _nobody) = std::os::unix::net::UnixDatagram::pair().unwrap();
        Deadlines::new(Page::map().unwrap(), Arc::new(socket.into()), Duration::ZERO)
    }

    /// When the job is told to end.
    pub fn term_at(&self) -> u64 {
        self.page.due().term_at
    }
}
