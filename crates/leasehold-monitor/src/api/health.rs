//! `/healthz` and `/readyz`, for whoever looks after the process.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use leasehold::Span;

use super::Served;
use super::security::check_host;
use crate::snapshot::late;

pub(super) async fn alive() -> &'static str {
    "alive\n"
}

/// Whoever looks after it knows no name of it. Why it is not ready is told only under its own: what a store says is nobody else's business.
pub(super) async fn ready(State(served): State<Arc<Served>>, headers: HeaderMap, uri: Uri) -> (StatusCode, String) {
    let is_ours = check_host(&served.hosts, &headers, &uri).is_ok();
    match not_ready(&served).await {
        None => (StatusCode::OK, "ready\n".into()),
        Some(why) if is_ours => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n".into()),
    }
}

/// Why it is not, if it isn't.
async fn not_ready(served: &Served) -> Option<String> {
    if served.stop.is_cancelled() {
        return Some("it is stopping".into());
    }
    let away = match served.snapshot.answer().await {
        Ok(seen) => match seen.away {
            Some(away) => away,
            None => return late(seen.read).map(|error| error.to_string()),
        },
        Err(away) => away,
    };
    Some(format!("the store has been away for {}: {}", Span(away.since.elapsed()), away.error))
}
