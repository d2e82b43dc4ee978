//! What somebody with the token can do, and what is known of it afterwards.

use std::time::Duration;

use leasehold::LossReason;
use serde_json::{Value, json};

use crate::scene::{Answer, Scene};

pub async fn a_hold_is_ended_and_recorded(scene: &Scene) {
    let free = json!({"name": "free", "why": "test", "by": "ada", "confirm": "free"});
    assert_eq!(scene.post("/api/v1/revoke", &free).await.good(), json!({"done": "nothing", "before": null}));

    let guard = scene.take_for("stuck", Duration::from_secs(9)).await;
    let holder = guard.holder().to_string();
    let order = json!({"name": "stuck", "why": "it hangs", "by": "ada", "confirm": "stuck"});
    let gently = scene.post("/api/v1/revoke", &order).await.good();
    assert_eq!((&gently["done"], &gently["before"]["holder"]["id"]), (&json!("revoked"), &json!(holder)));
    let shown = scene.json("/api/v1/lock?name=stuck").await;
    assert_eq!(shown["lock"]["state"], "revoked", "who looks next sees it: {shown}");
    assert_eq!(guard.lost().await, LossReason::Revoked);
    let written = &shown["revocations"][0];
    assert_eq!((&written["by"], &written["why"], &written["now"]), (&json!("ada"), &json!("it hangs"), &json!(false)));
    assert_eq!((&written["outcome"], &written["label"]), (&json!("revoked"), &json!("web-3/41/scene")));
    drop(guard);
    scene.until("/api/v1/lock?name=stuck", |shown| shown["lock"].is_null()).await;

    let guard = scene.take("dead").await;
    let mut order = json!({"name": "dead", "why": "its machine burns", "by": "grace", "confirm": "dead", "now": true});
    order["holder"] = json!(leasehold::HolderId::fresh().to_string());
    assert_eq!(scene.post("/api/v1/revoke", &order).await.good()["done"], "nothing", "that one doesn't hold it");
    order["holder"] = json!(guard.holder().to_string());
    assert_eq!(scene.post("/api/v1/revoke", &order).await.good()["done"], "freed");
    let shown = scene.json("/api/v1/lock?name=dead").await;
    assert_eq!((&shown["lock"], &shown["revocations"][0]["outcome"]), (&Value::Null, &json!("freed")));
    assert_eq!(shown["revocations"][0]["holder"], guard.holder().to_string());
    assert_eq!(shown["revocations"].as_array().unwrap().len(), 1, "only what was done");
}

pub async fn jobs_are_paused_resumed_and_triggered(scene: &Scene) {
    let scheduler = scene.schedules("nightly", None);
    scene.until("/api/v1/jobs", |jobs| jobs["jobs"][0]["last"]["state"] == "done").await;
    let order = |why: &str| json!({"job": "nightly", "why": why, "by": "ada", "confirm": "nightly"});

    let mut pause = order("maintenance");
    pause["for_ms"] = json!(3_600_000);
    let paused = scene.post("/api/v1/pause", &pause).await.good();
    assert_eq!((&paused["by"], &paused["why"]), (&json!("ada"), &json!("maintenance")));
    assert!(paused["until"].is_string(), "{paused}");
    let shown = scene.json("/api/v1/jobs").await["jobs"][0]["paused"].clone();
    assert_eq!((&shown["why"], &shown["until"]), (&json!("maintenance"), &paused["until"]), "who looks next sees it");
    scene
        .post("/api/v1/pause", &json!({"job": "nightly", "why": "w", "by": "b", "confirm": "nightly", "for_ms": 0}))
        .await
        .refuses(400, "bad_request", &["is over at once"]);

    // Once the scheduler has heard of it no later tick is claimed before what is asked for now.
    let is_paused =
        |run: &Value| run["state"] == "skipped" && run["reason"].as_str().is_some_and(|why| why.contains("was paused"));
    let is_skipped = |runs: &Value| runs["runs"].as_array().unwrap().iter().any(is_paused);
    scene.until("/api/v1/runs", is_skipped).await;
    let triggered = scene.post("/api/v1/trigger", &order("at once")).await.good();
    let tick = triggered["tick"].clone();
    let of = |runs: &Value, is_it: &dyn Fn(&Value) -> bool| {
        runs["runs"].as_array().unwrap().iter().find(|run| is_it(run)).cloned()
    };
    let is_done = |run: &Value| run["tick"] == tick && run["state"] == "done";
    let runs = scene.until("/api/v1/runs", |runs| of(runs, &is_done).is_some()).await;
    assert_eq!(of(&runs, &is_done).unwrap()["asked"], "ada: at once");

    assert_eq!(scene.post("/api/v1/resume", &order("done with it")).await.good()["resumed"], true);
    assert_eq!(scene.post("/api/v1/resume", &order("again")).await.good()["resumed"], false);
    assert_eq!(scene.json("/api/v1/jobs").await["jobs"][0]["paused"], Value::Null);
    let runs =
        scene.until("/api/v1/runs?job=nightly", |runs| of(runs, &|run| run["state"] == "resumed").is_some()).await;
    let act = |state: &str| of(&runs, &|run| run["state"] == state).unwrap();
    for (state, why) in [("paused", "maintenance"), ("resumed", "done with it")] {
        assert_eq!((&act(state)["node"], &act(state)["reason"]), (&json!("ada"), &json!(why)), "{state}");
    }
    drop(scheduler);
    let Answer { status, .. } = scene.post("/api/v1/pause", &order("for ever")).await;
    assert_eq!(status, 200);
    assert_eq!(scene.json("/api/v1/jobs").await["jobs"][0]["paused"]["until"], Value::Null);
}
