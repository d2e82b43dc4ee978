//! `/store`: how the store is, and what to mend.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use leasehold::store::{Force, Reading, Target};
use leasehold::{Finding, Severity};
use serde::Serialize;
use tokio::time::timeout;

use super::Served;
use super::shown::{instant, milliseconds};
use crate::snapshot::late;

/// So long the first examination is waited for; it goes on, and is told when it is asked for again.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Serialize)]
pub(super) struct Store {
    kind: &'static str,
    shown: String,
    reachable: bool,
    /// Of the last question that was answered.
    latency_ms: Option<f64>,
    error: Option<String>,
    route: Option<Route>,
    findings: Vec<Found>,
    /// None if it could not be examined yet.
    findings_at: Option<String>,
}

#[derive(Serialize)]
struct Found {
    severity: &'static str,
    subject: &'static str,
    message: String,
    fix: Option<String>,
}

/// Of a fallback, which of its stores is in use.
#[derive(Serialize)]
struct Route {
    /// A 63-bit number, as text.
    epoch: String,
    target: &'static str,
    state: &'static str,
    since_ms: Option<u64>,
    in_ms: Option<u64>,
    complained_ms: Option<u64>,
    primary: String,
}

pub(super) async fn store(State(served): State<Arc<Served>>) -> Json<Store> {
    let snapshot = &served.snapshot;
    let answer = snapshot.answer().await;
    let (latency, error) = match answer {
        Ok(seen) => (Some(*seen.value), seen.away.map(|away| away.error).or_else(|| late(seen.read).map(Arc::new))),
        Err(away) => (None, Some(away.error)),
    };
    let route = snapshot.route().await.ok().flatten().and_then(|seen| seen.value.as_ref().as_ref().map(Route::of));
    // What was found before is shown while the store is away.
    let findings = timeout(PATIENCE, snapshot.findings()).await.ok().and_then(Result::ok).map(|seen| seen.value);
    Json(Store {
        kind: snapshot.locks().kind(),
        shown: served.shown.clone(),
        reachable: error.is_none(),
        latency_ms: latency.map(|span| (span.as_secs_f64() * 1_000_000.0).round() / 1000.0),
        error: error.map(|error| error.to_string()),
        route,
        findings_at: findings.as_ref().map(|found| instant(found.at)),
        findings: findings.iter().flat_map(|found| &found.findings).map(Found::of).collect(),
    })
}

impl Found {
    fn of(finding: &Finding) -> Self {
        let severity = match finding.severity {
            Severity::Fine => "fine",
            Severity::Warning => "warning",
            Severity::Problem => "problem",
        };
        Self { severity, subject: finding.subject, message: finding.message.clone(), fix: finding.fix.clone() }
    }
}

impl Route {
    fn of(reading: &Reading) -> Self {
        let (state, since, within) = match reading.force {
            Force::Unarmed => ("unarmed", None, None),
            Force::In(rest) => ("pending", None, Some(rest)),
            Force::Since(age) => ("in_force", Some(age), None),
        };
        Self {
            epoch: reading.route.epoch.to_string(),
            target: if reading.route.target == Target::Arbiter { "arbiter" } else { "primary" },
            state,
            since_ms: since.map(milliseconds),
            in_ms: within.map(milliseconds),
            complained_ms: reading.complained.map(milliseconds),
            primary: reading.terms.primary.clone(),
        }
    }
}
