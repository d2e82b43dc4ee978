//! `/jobs`: what schedulers over this store have, and how it goes.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use leasehold_schedule::Entry;
use serde::Serialize;

use super::Served;
use super::problem::Problem;
use super::runs::{Run, Tells};
use super::shown::{Freshness, instant};
use crate::snapshot::fleet::Fleet;
use crate::snapshot::fleet::Job as Known;

/// So many of the ticks to come are told.
const NEXT: usize = 3;

#[derive(Serialize)]
pub(super) struct Jobs {
    at: String,
    #[serde(flatten)]
    freshness: Freshness,
    jobs: Vec<Job>,
}

#[derive(Serialize)]
struct Job {
    name: String,
    when: String,
    zone: String,
    since: String,
    paused: Option<Paused>,
    next: Vec<String>,
    last: Option<Run>,
    running: Vec<Run>,
}

#[derive(Serialize)]
struct Paused {
    by: String,
    why: String,
    since: String,
    until: Option<String>,
}

pub(super) async fn jobs(State(served): State<Arc<Served>>) -> Result<Json<Jobs>, Problem> {
    let (fleet, now) = (served.snapshot.fleet().await?, served.snapshot.now().await?);
    let (runs, listing) = (served.snapshot.runs(None).await?, served.snapshot.listing().await?.value);
    let tells = Tells { listing: &listing, now, whole: false };
    let jobs = fleet.value.jobs.iter().map(|job| {
        let records = runs.value.newest(Some(&job.name));
        Job::of(job, &fleet.value, &records, &tells)
    });
    Ok(Json(Jobs { at: instant(now), freshness: Freshness::of(&fleet), jobs: jobs.collect() }))
}

impl Job {
    fn of(job: &Known, fleet: &Fleet, records: &[&Entry], tells: &Tells<'_>) -> Self {
        let (running, over): (Vec<&Entry>, Vec<&Entry>) =
            records.iter().copied().partition(|entry| tells.is_running(entry));
        let last = over.into_iter().find(|entry| entry.record.tick.is_some());
        Self {
            name: job.name.clone(),
            when: job.when.clone(),
            zone: job.zone.clone(),
            since: instant(job.since),
            paused: fleet.pause(&job.name).map(|pause| Paused {
                by: pause.by.clone(),
                why: pause.why.clone(),
                since: instant(pause.since),
                until: pause.until.map(instant),
            }),
            next: next(job, tells.now),
            last: last.map(|entry| tells.run(entry)),
            running: running.into_iter().map(|entry| tells.run(entry)).collect(),
        }
    }
}

fn next(job: &Known, now: Timestamp) -> Vec<String> {
    job.schedule.iter().flat_map(|schedule| schedule.ticks_after(now).take(NEXT)).map(instant).collect()
}
