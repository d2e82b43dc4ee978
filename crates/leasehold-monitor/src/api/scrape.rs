//! `/metrics`, for Prometheus: who scrapes looks, as any other.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::Served;
use super::problem::Problem;
use super::runs::Tells;
use crate::metrics::{Exposition, Overview};
use crate::snapshot::late;
use crate::snapshot::reading::Away;

pub(super) async fn metrics(State(served): State<Arc<Served>>) -> Response {
    match look(&served).await {
        Ok(overview) => overview.record(),
        Err(_) => Overview::is_unknown(),
    }
    match &served.exposition {
        Some(exposition) => ([(header::CONTENT_TYPE, Exposition::CONTENT_TYPE)], exposition.render()).into_response(),
        None => {
            let fix = "give the monitor an Exposition, or read them where the recorder of this process is read";
            Problem::not_found("the metrics of this process are not served here", fix).into_response()
        }
    }
}

async fn look(served: &Served) -> Result<Overview, Away> {
    // Whether the store answers its locks say, and sooner a look at one of them; its ledgers may take longer.
    let (listing, runs) = (served.snapshot.listing().await?, served.snapshot.runs(None).await.ok());
    let answer = served.snapshot.answer().await?;
    let now = served.snapshot.now().await?;
    let tells = Tells { listing: &listing.value, now, whole: false };
    Ok(Overview {
        is_up: listing.away.is_none() && answer.away.is_none() && late(answer.read).is_none(),
        age: listing.read.elapsed(),
        held: listing.value.held(),
        waited: listing.value.waited(),
        kept: listing.value.locks.iter().filter(|lock| lock.holder.is_none()).count(),
        waiters: listing.value.locks.iter().map(|lock| lock.waiting).sum(),
        running: runs.map(|runs| runs.value.running().filter(|entry| tells.is_running(entry)).count()),
    })
}
