//! `/trigger`, `/pause` and `/resume`: orders to all schedulers over the store.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use jiff::SignedDuration;
use leasehold::Error;
use leasehold_schedule::Orders;
use serde::{Deserialize, Serialize};

use super::order::{Order, Signed, Terms};
use super::to_the_end;
use crate::api::Served;
use crate::api::problem::Problem;
use crate::api::shown::instant;

#[derive(Deserialize)]
pub(in crate::api) struct Trigger {
    job: String,
    #[serde(flatten)]
    signed: Signed,
}

impl Terms for Trigger {
    const FIELDS: &'static [&'static str] = &["job"];
}

#[derive(Serialize)]
pub(in crate::api) struct Triggered {
    job: String,
    /// As the run of which tick it is recorded.
    tick: String,
}

pub(in crate::api) async fn trigger(
    State(served): State<Arc<Served>>,
    Order(Trigger { job, signed }): Order<Trigger>,
) -> Result<Json<Triggered>, Problem> {
    let (job, signed) = signed.about("job", &job)?;
    to_the_end(async move {
        served.knows(job.as_str()).await?;
        let orders = Orders::over(served.snapshot.locks());
        let tick = orders.trigger(job.as_str(), &signed.by, &signed.why).await?;
        served.snapshot.has_acted(&job);
        Ok(Json(Triggered { job: job.to_string(), tick: instant(tick) }))
    })
    .await
}

#[derive(Deserialize)]
pub(in crate::api) struct Pause {
    job: String,
    for_ms: Option<u64>,
    #[serde(flatten)]
    signed: Signed,
}

impl Terms for Pause {
    const FIELDS: &'static [&'static str] = &["job", "for_ms"];
}

#[derive(Serialize)]
pub(in crate::api) struct Paused {
    job: String,
    by: String,
    why: String,
    since: String,
    until: Option<String>,
}

pub(in crate::api) async fn pause(
    State(served): State<Arc<Served>>,
    Order(Pause { job, for_ms, signed }): Order<Pause>,
) -> Result<Json<Paused>, Problem> {
    let (job, signed) = signed.about("job", &job)?;
    to_the_end(async move {
        served.knows(job.as_str()).await?;
        let orders = Orders::over(served.snapshot.locks());
        let (name, by, why) = (job.as_str(), &signed.by, &signed.why);
        let pause = match for_ms {
            Some(0) => return Err(Problem::bad("for_ms=0 is over at once; leave it out for a pause without an end")),
            Some(millis) => {
                let span = SignedDuration::try_from(Duration::from_millis(millis)).unwrap_or(SignedDuration::MAX);
                let until = served.snapshot.now().await?.checked_add(span);
                let until = until.map_err(|_| Error::invalid(format!("for_ms={millis} ends past the calendar")))?;
                orders.pause_until(name, by, why, until).await?
            }
            None => orders.pause(name, by, why).await?,
        };
        served.snapshot.has_acted(&job);
        let (since, until) = (instant(pause.since), pause.until.map(instant));
        Ok(Json(Paused { job: job.to_string(), by: pause.by, why: pause.why, since, until }))
    })
    .await
}

#[derive(Deserialize)]
pub(in crate::api) struct Resume {
    job: String,
    #[serde(flatten)]
    signed: Signed,
}

impl Terms for Resume {
    const FIELDS: &'static [&'static str] = &["job"];
}

#[derive(Serialize)]
pub(in crate::api) struct Resumed {
    job: String,
    /// Whether it was paused.
    resumed: bool,
}

pub(in crate::api) async fn resume(
    State(served): State<Arc<Served>>,
    Order(Resume { job, signed }): Order<Resume>,
) -> Result<Json<Resumed>, Problem> {
    let (job, signed) = signed.about("job", &job)?;
    to_the_end(async move {
        served.knows(job.as_str()).await?;
        let orders = Orders::over(served.snapshot.locks());
        let resumed = orders.resume_because(job.as_str(), &signed.by, &signed.why).await?;
        served.snapshot.has_acted(&job);
        Ok(Json(Resumed { job: job.to_string(), resumed }))
    })
    .await
}
