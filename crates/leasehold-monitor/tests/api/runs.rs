//! What schedulers run, and what they have run.

use std::sync::Arc;

use leasehold_schedule::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::scene::Scene;

pub async fn what_runs_and_what_ran(scene: &Scene) {
    assert_eq!(scene.json("/api/v1/jobs").await["jobs"], json!([]));
    assert_eq!(scene.json("/api/v1/runs").await["runs"], json!([]));
    let holds = Arc::new(Notify::new());
    let scheduler = scene.schedules("nightly", Some(Arc::clone(&holds)));
    let jobs = scene.until("/api/v1/jobs", |jobs| !jobs["jobs"][0]["running"][0].is_null()).await;
    let job = &jobs["jobs"][0];
    assert_eq!((&job["name"], &job["when"], &job["zone"]), (&json!("nightly"), &json!("@every 1s"), &json!("UTC")));
    assert_eq!((&job["paused"], job["next"].as_array().unwrap().len()), (&Value::Null, 3));
    let running = &job["running"][0];
    assert_eq!((&running["state"], &running["ended"]), (&json!("running"), &Value::Null));
    assert!(running["token"].is_string() && running["node"].is_string(), "{running}");
    assert_eq!(scene.listen().await.next().await.unwrap()["running"], 1);

    holds.notify_one();
    let tick = running["tick"].as_str().unwrap().to_owned();
    let is_it = |run: &&Value| run["tick"] == tick.as_str() && run["state"] == "done";
    let done = |found: &Value| found["runs"].as_array().unwrap().iter().any(|run| is_it(&run));
    let found = scene.until("/api/v1/runs", done).await;
    let run = found["runs"].as_array().unwrap().iter().find(is_it).unwrap().clone();
    assert_eq!((&run["job"], &run["attempts"], &run["output"]), (&json!("nightly"), &json!(1), &json!("")));
    assert_eq!(scene.json("/api/v1/runs?job=nightly&limit=1").await["runs"].as_array().unwrap().len(), 1);
    let at: Timestamp = tick.parse().unwrap();
    let (before, after) = (at - std::time::Duration::from_secs(7200), at - std::time::Duration::from_secs(3600));
    assert_eq!(
        scene.json(&format!("/api/v1/runs?from={before}&to={after}")).await["runs"],
        json!([]),
        "none so long ago"
    );
    let wide = scene.json(&format!("/api/v1/runs?from={}", at - std::time::Duration::from_secs(600 * 3600))).await;
    assert!(done(&wide), "further back than before: {wide}");

    let next = scene.json("/api/v1/next?job=nightly&n=2&from=2027-01-01T00:00:00Z").await;
    let tick = |utc: &str, local: &str| json!({"utc": utc, "local": local, "odd": null});
    let ticks = [
        tick("2027-01-01T00:00:01Z", "2027-01-01T00:00:01+00:00"),
        tick("2027-01-01T00:00:02Z", "2027-01-01T00:00:02+00:00"),
    ];
    assert_eq!(next["ticks"], json!(ticks));
    assert_eq!(scene.json("/api/v1/next?job=nightly").await["ticks"].as_array().unwrap().len(), 10);
    drop(scheduler);
}
