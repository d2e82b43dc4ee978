//! `leasehold pause`: a job is not to run for a while.

use leasehold_schedule::{Pause, Timestamp};
use serde::Serialize;

use super::block_on;
use super::fleet::{Fleet, operator};
use crate::args::PauseArgs;
use crate::config::Config;
use crate::exit::{self, Failure};
use crate::output;

/// Runs the verb.
///
/// # Errors
/// What the store says; 64 for a job that nobody knows and for an end that is over, 78 for a store that keeps no notes.
pub fn run(args: &PauseArgs, config: &Config) -> Result<i32, Failure> {
    let pause = block_on(async {
        let fleet = if args.force { Fleet::of(config)? } else { Fleet::with(config, &args.job).await? };
        pause(&fleet, args).await
    })?;
    if args.json {
        let Pause { by, why: reason, since, until, .. } = pause;
        output::json(&Answer { job: args.job.to_string(), paused: true, by, reason, since, until })?;
    } else {
        let job = &args.job;
        let end =
            pause.until.map_or_else(|| format!("it is resumed: `leasehold resume {job}`"), |until| until.to_string());
        output::answer(&format!("{job} is paused until {end}; what was due meanwhile is not made up for"))?;
    }
    Ok(exit::OK)
}

async fn pause(fleet: &Fleet, args: &PauseArgs) -> Result<Pause, Failure> {
    let (orders, job, by, why) = (fleet.orders(), args.job.as_str(), operator(), &args.reason);
    let until = match args.span {
        Some(span) => Some(fleet.now().await?.checked_add(span).unwrap_or(Timestamp::MAX)),
        None => args.until,
    };
    Ok(match until {
        Some(until) => orders.pause_until(job, &by, why, until).await?,
        None => orders.pause(job, &by, why).await?,
    })
}

/// The shape is a promise to scripts: fields may be added, none goes.
#[derive(Debug, Serialize)]
struct Answer {
    job: String,
    paused: bool,
    by: String,
    reason: String,
    since: Timestamp,
    /// None if until it is resumed.
    until: Option<Timestamp>,
}
