//! `leasehold resume`: a job is to run again.

use serde::Serialize;

use super::block_on;
use super::fleet::{Fleet, operator};
use crate::args::ResumeArgs;
use crate::config::Config;
use crate::exit::{self, Failure};
use crate::output;

/// Runs the verb.
///
/// # Errors
/// What the store says; 64 for a job that nobody knows, 78 for a store that keeps no notes.
pub fn run(args: &ResumeArgs, config: &Config) -> Result<i32, Failure> {
    let (job, by) = (&args.job, operator());
    let resumed = block_on(async {
        if config.place().missing_file().is_some() {
            return Fleet::with(config, job).await.map(|_| false);
        }
        let fleet = Fleet::of(config)?;
        let resumed = fleet.orders().resume(job.as_str(), &by).await?;
        if !resumed {
            fleet.knows(job).await?;
        }
        Ok(resumed)
    })?;
    if args.json {
        output::json(&Answer { job: job.to_string(), resumed, by })?;
    } else if resumed {
        output::answer(&format!("{job} runs again, from its next tick on"))?;
    } else {
        output::answer(&format!("{job} was not paused"))?;
    }
    Ok(exit::OK)
}

/// The shape is a promise to scripts: fields may be added, none goes.
#[derive(Debug, Serialize)]
struct Answer {
    job: String,
    /// Whether it was paused.
    resumed: bool,
    by: String,
}
