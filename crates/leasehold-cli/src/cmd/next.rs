//! `leasehold next`: when a schedule is due.

use leasehold_schedule::{Preview, Schedule, Shown, Timestamp};
use serde::Serialize;

use crate::args::NextArgs;
use crate::exit::{self, Failure};
use crate::output;

/// Runs the verb.
///
/// # Errors
/// 64 for an expression or a zone that is wrong, and for a schedule that is never due again.
pub fn run(args: &NextArgs) -> Result<i32, Failure> {
    let wrong = |why: String| Failure::new(exit::USAGE, why);
    let (text, zone) = (&args.expression, args.tz.as_deref());
    let schedule = match &args.job {
        Some(job) => Schedule::parse_for(job, text, zone),
        None => Schedule::parse(text, zone),
    };
    let schedule = schedule.map_err(|error| {
        let lacks_a_name = args.job.is_none() && Schedule::parse_for("any", text, zone).is_ok();
        let hint = if lacks_a_name { ", or the job's name with --job" } else { "" };
        wrong(format!("{error}{hint}"))
    })?;
    // A period has no zone, but may be shown in one.
    let from = args.from.unwrap_or_else(Timestamp::now);
    let preview = Preview::of(&schedule, from, zone.unwrap_or("UTC")).map_err(|error| wrong(error.to_string()))?;
    let ticks: Vec<Tick> = preview.take(args.count).map(Tick::from).collect();
    if ticks.is_empty() {
        return Err(wrong(format!("{schedule} is not due any more after {from}")));
    }
    if args.json {
        output::json(&ticks)?;
    } else {
        let row = |tick: Tick| [tick.local, tick.utc, tick.note.unwrap_or_default()];
        output::answer(&output::table(["LOCAL", "UTC", "NOTE"], ticks.into_iter().map(row)))?;
        schedule.lints().iter().for_each(|lint| output::tell(&lint.to_string()));
    }
    Ok(exit::OK)
}

/// A tick. The shape is a promise to scripts: fields may be added, none goes.
#[derive(Debug, Serialize)]
struct Tick {
    utc: String,
    local: String,
    /// What is odd about it; none on usual days.
    note: Option<String>,
}

impl From<Shown> for Tick {
    fn from(shown: Shown) -> Self {
        Self { utc: shown.utc.to_string(), local: shown.local, note: shown.odd }
    }
}
