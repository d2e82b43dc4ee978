//! `/next`: when a job is due.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use leasehold_schedule::Preview;
use serde::{Deserialize, Serialize};

use super::Served;
use super::asked::{self, Asked};
use super::problem::Problem;
use super::shown::instant;

/// So many ticks are told where nothing else is asked for, and at most.
const USUAL: usize = 10;
const MOST: usize = 1000;

#[derive(Deserialize)]
pub(super) struct Query {
    job: Option<String>,
    from: Option<String>,
    n: Option<String>,
}

#[derive(Serialize)]
pub(super) struct Next {
    job: String,
    when: String,
    zone: String,
    ticks: Vec<Tick>,
}

#[derive(Serialize)]
struct Tick {
    utc: String,
    local: String,
    odd: Option<String>,
}

pub(super) async fn next(State(served): State<Arc<Served>>, Asked(query): Asked<Query>) -> Result<Json<Next>, Problem> {
    let name = asked::name("job", query.job.as_deref())?;
    let count = asked::number("n", query.n.as_deref(), USUAL, 1..=MOST)?;
    let from = asked::instant("from", query.from.as_deref())?;
    let from = match from {
        Some(from) => from,
        None => served.snapshot.now().await?,
    };
    served.knows(name.as_str()).await?;
    let fleet = served.snapshot.fleet().await?.value;
    let job =
        fleet.job(name.as_str()).ok_or_else(|| Problem::not_found(format!("{name} is gone"), "see /api/v1/jobs"))?;
    let schedule = job.schedule.as_ref().ok_or_else(|| {
        let fix = "use the version of leasehold that the schedulers have";
        Problem::not_found(format!("this version can't read when {name} is due: {}", job.when), fix)
    })?;
    let preview = Preview::of(schedule, from, &job.zone).map_err(|error| Problem::bad(error.to_string()))?;
    let ticks = preview.take(count).map(|tick| Tick { utc: instant(tick.utc), local: tick.local, odd: tick.odd });
    Ok(Json(Next { job: job.name.clone(), when: job.when.clone(), zone: job.zone.clone(), ticks: ticks.collect() }))
}
