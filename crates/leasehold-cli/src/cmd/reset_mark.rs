//! `leasehold schedule reset-mark`: the store is to forget which ticks of a job were claimed.

use leasehold::Locks;
use leasehold_schedule::Orders;
use serde::Serialize;

use super::block_on;
use super::fleet::{Fleet, operator};
use crate::args::ResetMarkArgs;
use crate::config::Config;
use crate::exit::{self, Failure};
use crate::output;

/// Runs the verb.
///
/// # Errors
/// What the store says; 64 for a job that nobody knows, and where nobody has said that it is meant.
pub fn run(args: &ResetMarkArgs, config: &Config) -> Result<i32, Failure> {
    let (job, by) = (&args.job, operator());
    if !args.yes {
        let message =
            format!("ticks of {job} that ran may run again, up to its catch_up back; say --yes if that is meant");
        return Err(Failure::new(exit::USAGE, message));
    }
    let reset = block_on(async {
        if !args.force && config.place().missing_file().is_some() {
            return Fleet::with(config, job).await.map(|_| false);
        }
        let locks = Locks::builder().over(config.open()?);
        let keeps_notes = locks.notes().is_ok();
        if keeps_notes && !args.force {
            Fleet::of(config)?.knows(job).await?;
        }
        let reset = locks.reset_marks(job.as_str()).await?;
        if keeps_notes
            && reset
            && let Err(error) = Orders::over(&locks).were_reset(job.as_str(), &by, &args.reason).await
        {
            output::tell(&format!("it is done, but could not be recorded: {error}"));
        }
        Ok(reset)
    })?;
    if args.json {
        output::json(&Answer { job: job.to_string(), reset, by })?;
    } else if reset {
        output::answer(&format!("it is forgotten which ticks of {job} were claimed; those that ran may run again"))?;
    } else {
        output::answer(&format!("no tick of {job} was ever claimed: there is nothing to forget"))?;
    }
    Ok(exit::OK)
}

/// The shape is a promise to scripts: fields may be added, none goes.
#[derive(Debug, Serialize)]
struct Answer {
    job: String,
    /// Whether there was a mark.
    reset: bool,
    by: String,
}
