//! `/contention`: what was contended, by what clients have counted.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use leasehold::LockName;
use serde::{Deserialize, Serialize};

use super::Served;
use super::asked::{self, Asked};
use super::problem::Problem;
use super::shown::Freshness;
use crate::contention::{Contention, LockContention};

const USUAL: Duration = Duration::from_secs(3600);
const SHORTEST: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
pub(super) struct Query {
    since: Option<String>,
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    contention: &'a Contention,
    #[serde(flatten)]
    freshness: Freshness,
}

pub(super) async fn contention(
    State(served): State<Arc<Served>>,
    Asked(query): Asked<Query>,
) -> Result<Response, Problem> {
    let since = asked::span("since", query.since.as_deref(), USUAL, SHORTEST..=Contention::KEPT)?;
    let seen = served.snapshot.contention(since).await?;
    Ok(Json(Answer { contention: &seen.value, freshness: Freshness::of(&seen) }).into_response())
}

/// What was counted of one lock in the last hour; none where nothing was, or it can't be read now.
pub(super) async fn of_lock(served: &Served, name: &LockName) -> Option<LockContention> {
    let seen = served.snapshot.contention(USUAL).await.ok()?;
    seen.value.locks.iter().find(|lock| lock.name == name.as_str()).cloned()
}
