//! `/events`: that something has changed, as it changes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::{Stream, StreamExt, stream};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;

use super::Served;
use super::problem::Problem;
use super::runs::Tells;
use super::shown::instant;
use crate::snapshot::reading::Away;

/// So many may listen at a time.
pub(super) const LISTENERS: usize = 500;

/// At most one event in this time.
const APART: Duration = Duration::from_secs(1);

/// So that whoever stands between knows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What is told: enough to see whether to ask for more.
#[derive(Serialize)]
struct Change {
    at: String,
    version: u64,
    held: usize,
    waited: usize,
    /// None if no ledger could be read yet.
    running: Option<usize>,
    /// Whether the store is: then this is how it stood last.
    away: bool,
}

/// Somebody who listens.
struct Listener {
    served: Arc<Served>,
    /// What it has heard last: the version, and whether the store was away.
    heard: Option<(u64, bool)>,
    _place: OwnedSemaphorePermit,
}

pub(super) async fn events(
    State(served): State<Arc<Served>>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let place = Arc::clone(&served.listeners).try_acquire_owned().map_err(|_| {
        let message = format!("{LISTENERS} listen already");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many", message, "ask again later, or poll")
    })?;
    let stop = served.stop.clone();
    let listener = Listener { served, heard: None, _place: place };
    let events = stream::unfold(listener, |mut listener| async move {
        let change = listener.next().await;
        let event = Event::default().event("change").json_data(change).unwrap_or_default();
        Some((Ok(event), listener))
    });
    // A server that ends waits for its answers, and this one has no other end.
    let events = events.take_until(stop.cancelled_owned());
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE).text("alive")))
}

impl Listener {
    /// The first at once, then each that differs from the one before.
    async fn next(&mut self) -> Change {
        loop {
            if self.heard.is_some() {
                sleep(APART).await;
            }
            let Ok(change) = look(&self.served).await else {
                sleep(APART).await; // nothing is known yet, so there is nothing to tell
                continue;
            };
            let heard = Some((change.version, change.away));
            if self.heard != heard {
                self.heard = heard;
                return change;
            }
        }
    }
}

async fn look(served: &Served) -> Result<Change, Away> {
    let (listing, runs) = (served.snapshot.listing().await?, served.snapshot.runs(None).await.ok());
    let now = served.snapshot.now().await?;
    let tells = Tells { listing: &listing.value, now, whole: false };
    Ok(Change {
        at: instant(listing.value.at),
        version: served.snapshot.version(),
        held: listing.value.held(),
        waited: listing.value.waited(),
        running: runs.map(|runs| runs.value.running().filter(|entry| tells.is_running(entry)).count()),
        away: listing.away.is_some(),
    })
}
