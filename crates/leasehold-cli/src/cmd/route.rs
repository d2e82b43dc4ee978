//! `leasehold route`: which store of a fallback is used, and what to do once its arbiter was restored.

use std::sync::Arc;

use leasehold::store::{Epoch, Force, Reading, Target};
use leasehold::stores::Fallback;
use serde::Serialize;

use super::block_on;
use crate::args::{RouteArgs, RouteVerb, SetArgs};
use crate::config::Config;
use crate::exit::{self, Failure};
use crate::output::{self, duration, milliseconds};

/// Runs the verb.
///
/// # Errors
/// What a store says; 64 where the store is no fallback.
pub fn run(args: &RouteArgs, config: &Config) -> Result<i32, Failure> {
    let fallback = config.open_fallback()?.ok_or_else(|| no_fallback(config))?;
    match &args.verb {
        None => show(&fallback, args.json, config),
        Some(RouteVerb::Set(set)) => self::set(&fallback, set, args.json, config),
    }
}

fn no_fallback(config: &Config) -> Failure {
    let message = format!(
        "only a fallback has a route, and {} is none; name one with --store, or see `leasehold route --help`",
        config.shown()
    );
    Failure::new(exit::USAGE, message)
}

fn show(fallback: &Arc<Fallback>, json: bool, config: &Config) -> Result<i32, Failure> {
    let reading = block_on(async { Ok(fallback.route().await?) })?;
    if json {
        output::json(&Answer::of(reading.as_ref(), config))?;
    } else {
        let text =
            reading.as_ref().map_or_else(|| "there is no route yet: no lock was ever asked for".into(), describe);
        output::answer(&format!("{text}\nstore    {}", config.shown()))?;
    }
    Ok(exit::OK)
}

fn set(fallback: &Arc<Fallback>, set: &SetArgs, json: bool, config: &Config) -> Result<i32, Failure> {
    if !set.restored {
        let message = "this is for an arbiter whose data was lost or restored, while no client runs: all ticks up to now will \
                       count as run; say --restored if that is so";
        return Err(Failure::new(exit::USAGE, message));
    }
    block_on(async {
        let epoch = fallback.repair(set.seen.map(Epoch::new)).await?;
        if json {
            return output::json(&Answer::of(fallback.route().await?.as_ref(), config));
        }
        output::answer(&format!(
            "the route is number {epoch} now, and comes into force once a client asks for a lock; ticks up to now count as run"
        ))
    })?;
    Ok(exit::OK)
}

#[derive(Debug, Serialize)]
struct Answer {
    store: String,
    /// None if no lock was ever asked for.
    route: Option<Route>,
}

impl Answer {
    fn of(reading: Option<&Reading>, config: &Config) -> Self {
        Self { store: config.shown(), route: reading.map(Route::from) }
    }
}

/// The route. The shape is a promise to scripts: fields may be added, none goes.
#[derive(Debug, Serialize)]
pub struct Route {
    epoch: u64,
    /// `primary` or `arbiter`.
    target: &'static str,
    /// Which data set of the primary is meant.
    incarnation: Option<String>,
    /// `in_force`, `pending`, or `unarmed` (nobody has seen it yet).
    state: &'static str,
    /// For how long it has been in force.
    since_ms: Option<u64>,
    /// In how long it will be.
    in_ms: Option<u64>,
    /// How long it has to be in force before the next switch to the primary.
    patience_ms: u64,
    /// How long ago somebody last could not reach the primary.
    complained_ms: Option<u64>,
    /// The primary, as all clients have to name it.
    primary: String,
    route_lease_ms: u64,
    max_ttl_ms: u64,
}

impl From<&Reading> for Route {
    fn from(reading: &Reading) -> Self {
        let (state, since, within) = match reading.force {
            Force::Unarmed => ("unarmed", None, None),
            Force::In(rest) => ("pending", None, Some(rest)),
            Force::Since(age) => ("in_force", Some(age), None),
        };
        let (target, incarnation) = match &reading.route.target {
            Target::Primary(incarnation) => ("primary", Some(incarnation.to_string())),
            Target::Arbiter => ("arbiter", None),
        };
        Route {
            epoch: reading.route.epoch.number(),
            target,
            incarnation,
            state,
            since_ms: since.map(milliseconds),
            in_ms: within.map(milliseconds),
            patience_ms: milliseconds(reading.patience),
            complained_ms: reading.complained.map(milliseconds),
            primary: reading.terms.primary.clone(),
            route_lease_ms: milliseconds(reading.terms.lease),
            max_ttl_ms: milliseconds(reading.terms.max_ttl),
        }
    }
}

fn describe(reading: &Reading) -> String {
    let mut lines = vec![
        format!("locks are in {}", reading.route.target),
        format!("route    number {}, {}", reading.route.epoch, stands(reading.force)),
        format!("primary  {}", reading.terms.primary),
    ];
    if let Some(ago) = reading.complained {
        lines.push(format!("missed   somebody could not reach the primary {} ago", duration(ago)));
    }
    if reading.route.target == Target::Arbiter && !reading.patience.is_zero() {
        lines.push(format!("returns  after {} in force at the soonest", duration(reading.patience)));
    }
    lines.join("\n")
}

/// One line of `status`.
pub fn line(reading: &Reading) -> String {
    format!("route    {}, number {}, {}", reading.route.target, reading.route.epoch, stands(reading.force))
}

fn stands(force: Force) -> String {
    match force {
        Force::Unarmed => "not in force before somebody asks for a lock".into(),
        Force::In(rest) => format!("in force in {}", duration(rest)),
        Force::Since(age) => format!("in force for {}", duration(age)),
    }
}
