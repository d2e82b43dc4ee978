//! `leasehold accept-loss`: what a quorum remembered of ticks is gone.

use super::block_on;
use crate::args::AcceptLossArgs;
use crate::config::Config;
use crate::exit::{self, Failure};
use crate::output;

/// Runs the verb.
///
/// # Errors
/// What the members say; 64 where the store is no quorum, or nobody has said that it is meant.
pub fn run(args: &AcceptLossArgs, config: &Config) -> Result<i32, Failure> {
    let quorum = config.place().open_quorum().map_err(|error| config.blame(error))?.ok_or_else(|| {
        Failure::new(exit::USAGE, format!("only a quorum has members to lose, and {} is none", config.shown()))
    })?;
    if !args.yes {
        let message = "ticks up to five minutes from now will count as run, and keys (--once-key) be forgotten; say --yes if that \
                       is meant, and no job holds a lock in this quorum";
        return Err(Failure::new(exit::USAGE, message));
    }
    block_on(async { Ok(quorum.accept_loss().await?) })?;
    output::answer("accepted: locks are granted again; ticks up to five minutes from now count as run")?;
    Ok(exit::OK)
}
