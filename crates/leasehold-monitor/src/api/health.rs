//! `/healthz` and `/readyz`, for whoever looks after the process.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use leasehold::Span;

use super::Served;

/// A store that has not answered for so long is away, whatever it last said.
const LATE: Duration = Duration::from_secs(10);

pub(super) async fn alive() -> &'static str {
    "alive\n"
}

pub(super) async fn ready(State(served): State<Arc<Served>>) -> (StatusCode, String) {
    match not_ready(&served).await {
        None => (StatusCode::OK, "ready\n".into()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
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
