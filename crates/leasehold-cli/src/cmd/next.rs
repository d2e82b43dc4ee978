//! `leasehold next`: when a schedule is due.

use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, ZonedDateTime};
use leasehold_schedule::{Schedule, Timestamp};
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
    let shown_in = schedule.zone().or(zone).unwrap_or("UTC");
    let zone = TimeZone::get(shown_in).map_err(|error| wrong(error.to_string()))?;
    let from = args.from.unwrap_or_else(Timestamp::now);
    let mut before = from.to_zoned_datetime(zone.clone());
    let mut ticks = Vec::new();
    for tick in schedule.ticks_after(from).take(args.count) {
        let local = tick.to_zoned_datetime(zone.clone());
        ticks.push(Tick { utc: tick.to_string(), local: shown(&local), note: note(&before, &local) });
        before = local;
    }
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

/// `Sun 2027-03-14T03:00:00-04:00`, without the day in front: for scripts as for people.
fn shown(local: &ZonedDateTime) -> String {
    local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

/// What clocks have to do with it.
fn note(before: &ZonedDateTime, tick: &ZonedDateTime) -> Option<String> {
    let just_before =
        tick.timestamp().checked_sub(SignedDuration::from_secs(1)).ok()?.to_zoned_datetime(tick.time_zone().clone());
    let jump = tick.offset().duration_since(just_before.offset());
    if jump.is_positive() {
        return Some(format!("clocks go from {} to {} now", just_before.strftime("%H:%M:%S"), tick.strftime("%H:%M")));
    }
    if let AmbiguousOffset::Fold { before: first, .. } =
        tick.time_zone().to_ambiguous_timestamp(tick.datetime()).offset()
    {
        let which = if tick.offset() == first { "first" } else { "second" };
        return Some(format!("clocks show this time twice; it is the {which}"));
    }
    let moved = tick.offset().duration_since(before.offset());
    (!moved.is_zero()).then(|| {
        let by = moved.unsigned_abs();
        let where_to = if moved.is_positive() { "forward" } else { "back" };
        format!("clocks have gone {where_to} by {}", leasehold::Span(by))
    })
}
