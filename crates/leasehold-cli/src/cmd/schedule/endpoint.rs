//! `--listen`: answers to whoever looks after us.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;

use super::health::Health;
use crate::exit::{self, Failure};

/// Takes the address, before anything else is begun.
///
/// # Errors
/// 64 if it is none, or can't be had.
pub fn bind(address: &str) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|error| {
        let hint = "give an address of this machine and a free port, as 127.0.0.1:9470";
        Failure::new(exit::USAGE, format!("--listen: cannot listen at {address}: {error}; {hint}"))
    })
}

/// Answers for ever.
///
/// # Cancel safety
/// Dropped, it answers no more.
pub async fn serve(listener: TcpListener, health: Arc<Health>) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let routes =
        Router::new().route("/healthz", get(async || "alive\n")).route("/readyz", get(readiness)).with_state(health);
    axum::serve(listener, routes).await
}

async fn readiness(State(health): State<Arc<Health>>) -> (StatusCode, String) {
    match health.not_ready(Instant::now()) {
        None => (StatusCode::OK, "ready\n".into()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
    }
}
