//! What is answered over HTTP. `openapi.json` beside this crate says it for programs, and is held to by tests.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{StatusCode, header};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::dashboard;
use crate::metrics::{Exposition, Overview};
use crate::monitor::{Hosts, Monitor};
use crate::snapshot::Snapshot;
use crate::token::Token;

use self::problem::Problem;

mod actions;
mod asked;
mod contention;
mod events;
mod health;
mod jobs;
mod locks;
mod next;
mod problem;
mod revocations;
mod runs;
mod scrape;
mod security;
mod shown;
mod store;
mod waits;

/// The API, for programs.
const OPENAPI: &str = include_str!("../../openapi.json");

/// An order is short.
const LONGEST_BODY: usize = 16 * 1024;

/// What all answers share.
pub(crate) struct Served {
    snapshot: Arc<Snapshot>,
    shown: String,
    token: Token,
    hosts: Hosts,
    exposition: Option<Exposition>,
    stop: CancellationToken,
    listeners: Arc<Semaphore>,
}

impl Served {
    fn new(monitor: Monitor) -> Self {
        let Monitor { locks, shown, fallback, token, hosts, exposition, stop } = monitor;
        Overview::describe();
        let listeners = Arc::new(Semaphore::new(events::LISTENERS));
        Self { snapshot: Arc::new(Snapshot::of(locks, fallback)), shown, token, hosts, exposition, stop, listeners }
    }

    /// Refuses a job that no scheduler has ever had.
    async fn knows(&self, job: &str) -> Result<(), Problem> {
        if self.snapshot.fleet().await?.value.job(job).is_some() {
            return Ok(());
        }
        let message = format!("no scheduler over {} has ever had a job {job:?}", self.shown);
        Err(Problem::not_found(message, "see /api/v1/jobs; or is it the wrong store or namespace?"))
    }
}

/// All that a monitor serves: the dashboard at `/`, the API under `/api/v1`, `/metrics`, `/healthz` and `/readyz`.
///
/// It can be mounted in an application, under a path of its own. Who may see it is then the application's business, and so is under
/// which names it can be asked for; who may act is decided by the [token](Monitor::token).
///
/// ```no_run
/// use axum::Router;
/// use leasehold::Locks;
/// use leasehold_monitor::{CancellationToken, Monitor, router};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = Locks::connect("redis://cache.internal").await?;
/// let stop = CancellationToken::new();
/// let monitor = Monitor::over(locks).shown("redis://cache.internal").any_host().until(stop.clone());
///
/// let app = Router::new().nest("/locks", router(monitor));
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
/// // Cancel `stop` when the application is to end: streams of events end then, and nothing else waits for them.
/// axum::serve(listener, app).with_graceful_shutdown(stop.cancelled_owned()).await?;
/// # Ok(()) }
/// ```
pub fn router(monitor: Monitor) -> Router {
    let served = Arc::new(Served::new(monitor));
    let health = Router::new().route("/healthz", get(health::alive)).route("/readyz", get(health::ready));
    let guarded = Router::new()
        .nest("/api/v1", api())
        .route("/metrics", get(scrape::metrics))
        .merge(dashboard::routes())
        .fallback(no_such_path)
        .layer(from_fn_with_state(Arc::clone(&served), security::by_its_own_name));
    health.merge(guarded).layer(map_response(security::tell_browsers)).with_state(served)
}

fn api() -> Router<Arc<Served>> {
    Router::new()
        .route("/locks", get(locks::locks))
        .route("/lock", get(locks::lock))
        .route("/waits", get(waits::waits))
        .route("/contention", get(contention::contention))
        .route("/jobs", get(jobs::jobs))
        .route("/runs", get(runs::runs))
        .route("/next", get(next::next))
        .route("/store", get(store::store))
        .route("/events", get(events::events))
        .route("/openapi.json", get(openapi))
        .route("/revoke", post(actions::revoke))
        .route("/trigger", post(actions::trigger))
        .route("/pause", post(actions::pause))
        .route("/resume", post(actions::resume))
        .method_not_allowed_fallback(wrong_method)
        .fallback(no_such_path)
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(map_response(security::never_stored))
}

async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI)
}

async fn no_such_path() -> Problem {
    Problem::not_found("there is nothing at this path", "see /api/v1/openapi.json")
}

async fn wrong_method() -> Problem {
    let (message, fix) = ("this path is not asked in this way", "GET to look, POST to act; see /api/v1/openapi.json");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", message, fix)
}
