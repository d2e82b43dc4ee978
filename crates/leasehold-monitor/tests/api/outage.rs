//! A store that is away, and a server that ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Method;
use leasehold::stores::fallback::Settings;
use leasehold::stores::{self, Fallback, Memory};
use leasehold::{ErrorKind, Locks, Store};
use leasehold_monitor::{Monitor, router};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::servers::Redis;
use leasehold_testkit::{Fault, Faulty, Operation};
use serde_json::Value;

use crate::LIMIT;
use crate::scene::Scene;

#[tokio::test]
async fn a_store_that_is_away_leaves_the_last_state_with_its_age() {
    let redis = Redis::start();
    let scene = Scene::at(&redis.url());
    let guard = scene.take("backup").await;
    scene.until("/api/v1/locks", |found| found["total"] == 1).await;
    assert_eq!(scene.get("/readyz").await.body, "ready\n");
    for path in ["/api/v1/runs", "/api/v1/waits", "/api/v1/jobs"] {
        assert!(scene.json(path).await["away"].is_null(), "{path}");
    }
    let mut events = scene.listen().await;
    assert_eq!(events.next().await.unwrap()["away"], false);
    redis.kill();

    let away =
        scene.until("/api/v1/locks", |found| !found["away"].is_null() && found["age_ms"].as_u64() > Some(1500)).await;
    assert_eq!(away["locks"][0]["name"], "backup");
    assert!(away["away"]["message"].is_string() && away["away"]["for_ms"].is_u64(), "{away}");
    while events.next().await.unwrap()["away"] != true {}
    eventually_async("it is not ready", LIMIT, async || scene.get("/readyz").await.status == 503).await;
    assert!(scene.get("/readyz").await.body.starts_with("not ready: the store has been away for "));
    let under_another_name = scene.asks(Method::GET, "/readyz", &[("host", "evil.example")], "").await;
    assert_eq!((under_another_name.status.as_u16(), under_another_name.body.as_str()), (503, "not ready\n"));
    assert_eq!(scene.get("/healthz").await.status, 200);
    let store = scene.json("/api/v1/store").await;
    assert!(store["reachable"] == false && store["error"].is_string(), "{store}");

    for path in ["/api/v1/runs", "/api/v1/waits", "/api/v1/jobs"] {
        let empty = scene.until(path, |found| !found["away"].is_null()).await;
        assert!(empty["age_ms"].as_u64() > Some(1500), "that there is nothing is not known of now: {empty}");
    }

    redis.restart();
    eventually_async("it is ready again", LIMIT, async || scene.get("/readyz").await.status == 200).await;
    scene.until("/api/v1/locks", |found| found["away"].is_null()).await;
    assert_eq!(scene.json("/api/v1/store").await["reachable"], true);
    drop(guard);
}

/// Its connections stand, and nothing comes.
#[tokio::test]
async fn a_store_that_hangs_is_told_in_seconds() {
    let redis = Redis::start();
    let scene = Scene::at(&redis.url());
    eventually_async("it is ready", LIMIT, async || scene.get("/readyz").await.status == 200).await;
    let began = Instant::now();
    redis.pause();
    eventually_async("it is not ready", LIMIT, async || scene.get("/readyz").await.status == 503).await;
    // Within four, where nothing else keeps it.
    assert!(began.elapsed() < Duration::from_secs(14), "{:?}", began.elapsed());
    let store = scene.json("/api/v1/store").await;
    assert!(store["reachable"] == false && store["error"].is_string(), "{store}");
    redis.resume();
    eventually_async("it is ready again", LIMIT, async || scene.get("/readyz").await.status == 200).await;
}

#[tokio::test]
async fn a_store_that_was_never_there_is_told_as_such() {
    let store = Faulty::over(Arc::new(Memory::default()));
    let faults = store.faults();
    faults.cut();
    let scene = Scene::of(Arc::new(store), Arc::new(Memory::default()));
    for path in
        ["/api/v1/locks", "/api/v1/lock?name=a", "/api/v1/waits", "/api/v1/jobs", "/api/v1/runs", "/api/v1/contention"]
    {
        scene.get(path).await.refuses(503, "store_away", &["see whether the store runs"]);
    }
    let store = scene.json("/api/v1/store").await;
    assert_eq!(
        (&store["reachable"], &store["latency_ms"], &store["findings_at"]),
        (&false.into(), &Value::Null, &Value::Null)
    );
    let order = serde_json::json!({"name": "a", "why": "test", "by": "ada", "confirm": "a"});
    scene.post("/api/v1/revoke", &order).await.refuses(503, "store_away", &[]);
    faults.heal();
    scene.until_good("/api/v1/locks").await;
}

#[tokio::test]
async fn of_a_fallback_it_is_told_where_the_route_leads() {
    let memory = || Arc::new(Memory::default()) as Arc<dyn Store>;
    let fallback = Arc::new(Fallback::over(memory(), memory(), Settings::default()).unwrap());
    let mut scene = Scene::of(fallback.clone(), fallback.clone());
    scene.app = router(Monitor::over(Locks::over(fallback.clone())).fallback(fallback));
    let known = scene.json("/api/v1/store").await;
    assert_eq!((&known["kind"], &known["shown"]), (&"fallback".into(), &"fallback".into()));
    // Whoever looks first founds the route, whether or not anything is granted yet.
    let found = scene.until("/api/v1/store", |store| !store["route"].is_null()).await;
    assert_eq!((&found["route"]["target"], &found["route"]["epoch"]), (&"primary".into(), &"1".into()), "{found}");
}

/// What can't be recorded is not done.
#[tokio::test]
async fn a_hold_whose_end_can_not_be_recorded_is_not_ended() {
    let memory: Arc<dyn Store> = Arc::new(Memory::default());
    let store = Faulty::over(Arc::clone(&memory));
    store.faults().always(Operation::WriteNotes, Fault::Fail(ErrorKind::Refused));
    let scene = Scene::of(Arc::new(store), memory);
    let guard = scene.take("a").await;
    let order = serde_json::json!({"name": "a", "why": "test", "by": "ada", "confirm": "a", "now": true});
    scene.post("/api/v1/revoke", &order).await.refuses(503, "store_refuses", &[]);
    assert_eq!(scene.json("/api/v1/lock?name=a").await["lock"]["holder"]["id"], guard.holder().to_string());
}

/// Ledgers may take longer than locks, or fail alone.
#[tokio::test]
async fn locks_are_told_of_where_ledgers_are_not_answered() {
    let memory: Arc<dyn Store> = Arc::new(Memory::default());
    let store = Faulty::over(Arc::clone(&memory));
    let faults = store.faults();
    faults.always(Operation::ReadNotes, Fault::Fail(ErrorKind::Refused));
    let scene = Scene::of(Arc::new(store), memory);
    let guard = scene.take("a").await;
    let change = scene.listen().await.next().await.unwrap();
    assert_eq!((&change["held"], &change["running"], &change["away"]), (&1.into(), &Value::Null, &false.into()));
    faults.heal();
    let mut events = scene.listen().await;
    while events.next().await.unwrap()["running"] != 0 {
        events = scene.listen().await; // that nothing runs is no change
    }
    drop(guard);
}

/// Redis's keys of another library have no room for notes.
#[tokio::test]
async fn a_store_without_notes_is_watched_but_for_what_stands_in_notes() {
    let redis = Redis::start();
    let url = format!("{}?compat=redis-py", redis.url());
    let scene = Scene::of(stores::open(&url).unwrap(), stores::open(&url).unwrap());
    redis.command(&["SET", "theirs", "some-worker", "PX", "60000"]);
    let guard = scene.take("ours").await;
    let order = serde_json::json!({"name": "ours", "why": "test", "by": "ada", "confirm": "ours"});
    scene.post("/api/v1/revoke", &order).await.refuses(409, "not_recordable", &["leasehold release"]);
    let theirs = scene.json("/api/v1/lock?name=theirs").await;
    assert_eq!(theirs["revocations"], serde_json::json!([]));
    assert_eq!(theirs["lock"]["held_for_ms"], Value::Null, "they alone know");
    assert_eq!(scene.json("/api/v1/jobs").await["jobs"], serde_json::json!([]));
    assert_eq!(scene.json("/api/v1/runs").await["runs"], serde_json::json!([]));
    assert!(scene.listen().await.next().await.is_some());
    drop(guard);
}

#[tokio::test]
async fn streams_end_when_the_server_is_to_end() {
    let scene = Scene::of(Arc::new(Memory::default()), Arc::new(Memory::default()));
    let mut events = scene.listen().await;
    assert!(events.next().await.is_some());
    scene.stop.cancel();
    assert_eq!(events.next().await, None);
    assert_eq!(scene.get("/readyz").await.body, "not ready: it is stopping\n");
}

#[tokio::test]
async fn what_changes_is_told_as_an_event_and_what_does_not_is_not() {
    let memory: Arc<dyn Store> = Arc::new(Memory::default());
    let scene = Scene::of(Arc::clone(&memory), memory);
    let mut events = scene.listen().await;
    let mut first = events.next().await.unwrap();
    while first["running"].is_null() {
        events = scene.listen().await; // ledgers may take longer, and that nothing runs is no change
        first = events.next().await.unwrap();
    }
    assert_eq!(
        (first["held"].as_u64(), first["waited"].as_u64(), first["running"].as_u64()),
        (Some(0), Some(0), Some(0))
    );
    let guard = scene.take("a").await;
    let taken = events.next().await.unwrap();
    assert_eq!(taken["held"], 1);
    assert!(taken["version"].as_u64() > first["version"].as_u64(), "{taken}");
    assert_eq!(scene.json("/api/v1/locks").await["version"], taken["version"]);
    assert_eq!(events.within(Duration::from_millis(2500)).await, None, "time passes, nothing else");
    drop(guard);
    assert_eq!(events.next().await.unwrap()["held"], 0);
}
