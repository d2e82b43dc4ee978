//! What happens to jobs, told to whoever listens.

use std::fmt;
use std::time::Duration;

use leasehold::{Error, FencingToken, LossReason, NotDue, Tick};

use crate::state::State;

/// One thing that happened on this node.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A run begins.
    Started {
        /// The job.
        job: &'a str,
        /// For which tick.
        tick: Tick,
        /// How often this tick has been begun.
        attempt: u32,
        /// Under which token.
        token: FencingToken,
        /// How long after its tick it begins, by this node's clock: its job's jitter included, and all that an earlier attempt took.
        late: Duration,
    },
    /// A run has ended.
    Ended {
        /// The job.
        job: &'a str,
        /// For which tick.
        tick: Tick,
        /// How long it took.
        took: Duration,
        /// How it ended.
        how: &'a How,
    },
    /// A tick is not run, for good.
    NotRun {
        /// The job.
        job: &'a str,
        /// Which tick.
        tick: Tick,
        /// Why not.
        why: &'a NotRun,
    },
    /// The store says that this node's clock is fast: the tick is tried again when it is due there.
    ClockIsFast {
        /// The job.
        job: &'a str,
        /// How far the tick is ahead.
        ahead: Duration,
    },
    /// The store can't be asked; the tick is tried again.
    StoreIsAway {
        /// The job.
        job: &'a str,
        /// Why.
        error: &'a Error,
    },
    /// The store refuses the job's claims, and will until something is set up in another way: none of its ticks runs. It is
    /// tried again.
    StoreRefuses {
        /// The job.
        job: &'a str,
        /// Why.
        error: &'a Error,
    },
    /// Something about the ledger could not be written or read. It decides nothing.
    LedgerFailed {
        /// Why.
        error: &'a Error,
    },
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// As it should.
    Done,
    /// It failed, for the last time.
    Failed(String),
    /// It did not come to its end, through no doing of its own: what ran it was killed, say, or can't be told to be over.
    Died(String),
    /// The lock was lost, or its time limit was over, and it was told to end.
    Lost(LossReason),
    /// The scheduler was stopped, and it was told to end.
    Stopped,
}

/// Why a tick was not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotRun {
    /// The job was still running for an earlier one; by whom.
    Overlaps(String),
    /// The same; it stood in line until a later tick was due.
    Displaced(String),
    /// Nobody ran it when it was due, and the job's terms say that it isn't run late.
    Missed,
    /// The store can't tell any more whether it was run.
    TooOld(NotDue),
    /// The job was paused; by whom.
    Paused(String),
    /// A later tick of the job was claimed before anybody had claimed this one: which.
    Overtaken(Tick),
    /// It was due and waited, for the store or for its turn, when the job got another schedule, or was taken out of the list.
    Dropped,
    /// The store counts a later tick as claimed, of which no run is known: which.
    Counted(Tick),
}

impl How {
    pub(crate) fn state(&self) -> State {
        match self {
            Self::Done => State::Done,
            Self::Failed(_) => State::Failed,
            Self::Lost(_) | Self::Died(_) => State::Lost,
            Self::Stopped => State::Stopped,
        }
    }

    /// Whether its tick is over with it. What has hung once would hang again; what was lost or stopped, or has died, another may begin
    /// anew, if it is to be run at least once.
    pub(crate) fn is_its_end(&self) -> bool {
        match self {
            Self::Done | Self::Failed(_) => true,
            Self::Lost(reason) => matches!(reason, LossReason::HeldTooLong | LossReason::NoProgress),
            Self::Stopped | Self::Died(_) => false,
        }
    }

    /// Why, for the ledger.
    pub(crate) fn reason(&self) -> Option<String> {
        match self {
            Self::Done | Self::Stopped => None,
            Self::Failed(why) | Self::Died(why) => Some(why.clone()),
            Self::Lost(reason) => Some(reason.to_string()),
        }
    }
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlaps(whose) => write!(f, "it was still running for an earlier tick ({whose})"),
            Self::Displaced(whose) => {
                write!(f, "a later tick took its place in the line: it was still running for an earlier one ({whose})")
            }
            Self::Missed => f.write_str("nobody ran it when it was due"),
            Self::TooOld(why) => why.fmt(f),
            Self::Dropped => {
                f.write_str("it was due and waited when the job was given another schedule, or taken out of the list")
            }
            Self::Overtaken(newest) => write!(f, "the job was run for a later tick before it ({newest})"),
            Self::Counted(newest) => write!(
                f,
                "the store counts ticks up to {newest} as run, and no run of that one is known (a new quorum, a loss that was accepted, or it \
                 begins just now)"
            ),
            Self::Paused(whose) => write!(f, "the job was paused ({whose})"),
        }
    }
}

/// Whoever listens. Called on the scheduler's tasks: it must not block.
pub trait Observer: Send + Sync + 'static {
    /// Something happened.
    fn observe(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> Observer for F {
    fn observe(&self, event: &Event<'_>) {
        self(event);
    }
}
