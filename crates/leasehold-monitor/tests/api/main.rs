//! What is answered over HTTP: each answer is held to `openapi.json`, over real stores.

mod actions;
mod contract;
mod cost;
mod hostile;
mod locks;
mod outage;
mod runs;
mod scene;
mod security;
mod wrong;

use std::time::Duration;

use leasehold_testkit::servers::{Postgres, Redis};

use scene::Scene;

/// More than anything takes on a loaded machine.
const LIMIT: Duration = Duration::from_secs(30);

/// All that does not depend on which store it is, each in a namespace of its own.
async fn all(url: &str) {
    let scene = |namespace: &str| Scene::at(&format!("{url}?namespace={namespace}"));
    locks::who_holds_and_who_waits(&scene("locks")).await;
    locks::many_are_searched_sorted_and_paged(&scene("many")).await;
    locks::semaphores_show_all_holders(&scene("semaphores")).await;
    runs::what_runs_and_what_ran(&scene("runs")).await;
    hostile::names_are_told_as_they_are(&scene("hostile")).await;
    actions::a_hold_is_ended_and_recorded(&scene("revoke")).await;
    actions::jobs_are_paused_resumed_and_triggered(&scene("orders")).await;
    wrong::what_can_not_be_is_refused(&scene("wrong")).await;
    contract::all_routes_answer_as_is_written(&scene("contract")).await;
}

#[tokio::test]
async fn over_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    all(&format!("sqlite://{}", folder.path().join("locks.db").display())).await;
}

#[tokio::test]
async fn over_redis() {
    let redis = Redis::start();
    all(&redis.url()).await;
}

#[tokio::test]
async fn over_postgres() {
    let postgres = Postgres::start();
    all(&postgres.url()).await;
}
