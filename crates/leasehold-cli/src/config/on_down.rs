//! What `run` does where the store can't be reached.

use clap::ValueEnum;

/// What becomes of a run whose store can't be reached, before the job was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum OnDown {
    /// It fails, with 69.
    #[default]
    Fail,
    /// It is skipped, with a line on stderr and the code of a success: the next one will do.
    Skip,
}
