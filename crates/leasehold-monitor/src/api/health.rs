//! `/healthz` and `/readyz`, for whoever looks after the process.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use leasehold::Span;

use super::Served;
use super::security::check_host;
use crate::snapshot::{ANSWER, SECOND};

/// A store that has not answered for so long is away, whatever it last said: so long an answer holds, and so long the next may take. Whoever
/// asks now and then is not to wait for that to be over.
const LATE: Duration = Duration::from_secs(SECOND.as_secs() + ANSWER.as_secs());

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
        Ok(seen) if seen.away.is_none() && seen.read.elapsed() > LATE => {
            return Some(format!("the store has not answered for {}", Span(seen.read.elapsed())));
        }
        Ok(seen) => seen.away?,
        Err(away) => away,
    };
    Some(format!("the store has been away for {}: {}", Span(away.since.elapsed()), away.error))
}
