//! `/waits`: who waits behind whom.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::Served;
use super::problem::Problem;
use super::shown::{Freshness, instant, milliseconds};

/// So many are told.
const MOST: usize = 1000;

#[derive(Serialize)]
pub(super) struct Waits {
    at: String,
    #[serde(flatten)]
    freshness: Freshness,
    waits: Vec<Wait>,
}

#[derive(Serialize)]
struct Wait {
    name: String,
    waiter: Waiter,
    holder: Option<Holder>,
}

#[derive(Serialize)]
struct Waiter {
    label: String,
    waited_ms: Option<u64>,
}

#[derive(Serialize)]
struct Holder {
    label: String,
}

pub(super) async fn waits(State(served): State<Arc<Served>>) -> Result<Json<Waits>, Problem> {
    let seen = served.snapshot.waits().await?;
    let each = seen.value.iter().flat_map(|queue| queue.waiters.iter().map(move |waiter| (queue, waiter)));
    let wait = |(queue, waiter): (&crate::snapshot::Queue, &leasehold::Waiter)| Wait {
        name: queue.name.to_string(),
        waiter: Waiter { label: waiter.label.clone(), waited_ms: waiter.waited.map(milliseconds) },
        holder: queue.holder.clone().map(|label| Holder { label }),
    };
    let waits = each.take(MOST).map(wait).collect();
    Ok(Json(Waits { at: instant(served.snapshot.now().await?), freshness: Freshness::of(&seen), waits }))
}
