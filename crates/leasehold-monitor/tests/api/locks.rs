//! Who holds what, and who waits.

use leasehold::Outcome;
use serde_json::{Value, json};

use crate::scene::Scene;

pub async fn who_holds_and_who_waits(scene: &Scene) {
    let nothing = scene.json("/api/v1/locks").await;
    assert_eq!((&nothing["total"], &nothing["held"], &nothing["locks"]), (&json!(0), &json!(0), &json!([])));
    let guard = scene.take("backup").await;
    let waiter = scene.waits("backup", "web-4/7/report");
    let waited = scene.until("/api/v1/locks?state=waited", |found| found["total"] == 1).await;
    let lock = &waited["locks"][0];
    assert_eq!(lock["name"], "backup");
    assert_eq!((&lock["state"], &lock["waiting"], &lock["permits"]), (&json!("held"), &json!(1), &json!(1)));
    assert_eq!(lock["token"], guard.token().to_string(), "as text");
    let holder = json!({"id": guard.holder().to_string(), "label": "web-3/41/scene", "host": "web-3", "library": null});
    assert_eq!(lock["holder"], holder);
    let left = lock["remaining_ms"].as_u64().unwrap();
    assert!((1..=30_000).contains(&left) && lock["held_for_ms"].as_u64().unwrap() < 30_000, "{lock}");
    assert_eq!(waited["away"], Value::Null);

    // One that is late to say so does not wait for a moment.
    let is_there = |detail: &Value| detail["queue"][0]["label"] == "web-4/7/report";
    let detail = scene.until("/api/v1/lock?name=backup", is_there).await;
    assert_eq!(detail["lock"]["holder"], holder);
    let waits = scene.until("/api/v1/waits", |waits| !waits["waits"].as_array().unwrap().is_empty()).await;
    assert_eq!(
        (&waits["waits"][0]["name"], &waits["waits"][0]["holder"]["label"]),
        (&json!("backup"), &holder["label"])
    );

    drop(waiter);
    guard.release().await.unwrap();
    scene.until("/api/v1/locks", |found| found["total"] == 0).await;
    let free = scene.json("/api/v1/lock?name=backup").await;
    assert_eq!((&free["lock"], &free["queue"]), (&Value::Null, &json!([])));
}

pub async fn many_are_searched_sorted_and_paged(scene: &Scene) {
    let mut guards = Vec::new();
    for nth in 0..25 {
        guards.push(scene.take(&format!("Report-{nth:02}")).await);
    }
    let waiter = scene.waits("Report-07", "web-9/1/late");
    scene.until("/api/v1/locks", |found| found["total"] == 25 && found["waited"] == 1).await;
    let names = async |query: &str| {
        let found = scene.json(&format!("/api/v1/locks?{query}")).await;
        let locks = found["locks"].as_array().unwrap().iter();
        let names: Vec<String> = locks.map(|lock| lock["name"].as_str().unwrap().to_owned()).collect();
        (found["total"].as_u64().unwrap(), names)
    };
    let (total, page) = names("limit=10&offset=20").await;
    assert_eq!((total, page.len(), page[0].as_str()), (25, 5, "Report-20"));
    assert_eq!(names("offset=99").await, (25, Vec::new()));
    assert_eq!(names("q=rePORT-1").await.0, 10, "whatever the case");
    assert_eq!(names("q=WEB-3&limit=1").await.0, 25, "holders are searched, too");
    assert_eq!(names("q=nothing%20of%20that").await.0, 0);
    assert_eq!(names("state=kept").await.0, 0);
    // One that is late to say so does not wait for a moment.
    scene.until("/api/v1/locks?sort=-waiting&limit=1", |found| found["locks"][0]["name"] == "Report-07").await;
    assert_eq!(names("sort=name&limit=1").await.1, ["Report-00"]);
    let mut held = names("sort=-held_for&limit=1000").await.1;
    assert_eq!(held.remove(0), "Report-00", "it was taken first");
    assert_eq!(names("sort=remaining").await.0, 25);
    drop(waiter);
}

pub async fn semaphores_show_all_holders(scene: &Scene) {
    let lock = scene.locks.lock("pool").permits(3);
    let mut guards = Vec::new();
    for _ in 0..2 {
        let Outcome::Acquired(guard) = lock.try_acquire().await.unwrap() else { panic!("there is room") };
        guards.push(guard);
    }
    let found = scene.until("/api/v1/locks", |found| found["locks"][0]["others"][0].is_object()).await;
    let pool = &found["locks"][0];
    assert_eq!((&pool["permits"], pool["others"].as_array().unwrap().len()), (&json!(3), 1));
    let mut shown = [&pool["token"], &pool["others"][0]["token"]].map(|token| token.as_str().unwrap().to_owned());
    let mut tokens = [guards[0].token().to_string(), guards[1].token().to_string()];
    shown.sort();
    tokens.sort();
    assert_eq!(shown, tokens);
    assert!(pool["others"][0]["remaining_ms"].as_u64().unwrap() > 0, "{pool}");
}
