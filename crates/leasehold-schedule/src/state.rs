//! How a run stands.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It runs; or its node has died, and nobody has said so yet.
    Running,
    /// It did what it should.
    Done,
    /// It failed.
    Failed,
    /// Its lock was lost, or its time limit was over; or something else than itself has ended it.
    Lost,
    /// Its node was stopped.
    Stopped,
    /// It was not run: the job was still running, or paused.
    Skipped,
    /// It was not run: nobody was there.
    Missed,
    /// An operator had the job pause.
    Paused,
    /// An operator ended the pause.
    Resumed,
    /// An operator had the store forget which ticks were claimed.
    Reset,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Lost,
        Self::Stopped,
        Self::Skipped,
        Self::Missed,
        Self::Paused,
        Self::Resumed,
        Self::Reset,
    ];

    /// As it is written.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::Stopped => "stopped",
            Self::Skipped => "skipped",
            Self::Missed => "missed",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Reset => "reset",
        }
    }

    /// Whether it was begun.
    pub(crate) fn is_of_a_run(self) -> bool {
        matches!(self, Self::Running | Self::Done | Self::Failed | Self::Lost | Self::Stopped)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_shown_as_it_is_written() {
        for state in State::ALL {
            assert_eq!(serde_json::to_string(&state).unwrap(), format!("\"{state}\""));
        }
    }
}
