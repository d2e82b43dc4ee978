//! Names that are meant to break something.

use serde_json::json;

use crate::scene::Scene;

/// As it stands in a URL.
fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

pub async fn names_are_told_as_they_are(scene: &Scene) {
    let long = "x".repeat(200);
    let names = [
        "<script>alert(1)</script>",
        "\"'><img src=x onerror=alert(1)>",
        "a/b/../c",
        "%2F",
        "a&name=b#c?d=e+f",
        "\u{202e}gnp.exe",
        " blank ",
        "日本語 🔒",
        "{braces}",
        "${jndi:ldap://x}",
        "'; drop table leasehold_locks; --",
        &long,
    ];
    let mut guards = Vec::new();
    for name in names {
        guards.push(scene.take(name).await);
    }
    let found = scene.until("/api/v1/locks", |found| found["total"] == names.len()).await;
    for name in names {
        let shown = found["locks"].as_array().unwrap().iter().filter(|lock| lock["name"] == name).count();
        assert_eq!(shown, 1, "{name:?} in {found}");
        let one = scene.json(&format!("/api/v1/lock?name={}", escaped(name))).await;
        assert_eq!(one["lock"]["name"], name);
        let searched = scene.json(&format!("/api/v1/locks?q={}", escaped(name))).await;
        assert!(searched["total"].as_u64().unwrap() >= 1, "{name:?}");
    }
    assert_eq!(scene.json("/api/v1/lock?name=%252F").await["lock"]["name"], "%2F", "unescaped once");
    assert_eq!(scene.json("/api/v1/lock?name=+blank+").await["lock"]["name"], " blank ");
    let order = json!({"name": names[0], "why": "<b>", "by": "<i>", "confirm": names[0]});
    scene.post("/api/v1/revoke", &order).await.good();
    let told = scene.get(&format!("/api/v1/lock?name={}", escaped(names[0]))).await;
    assert_eq!(told.headers["content-type"], "application/json");
    assert_eq!(told.headers["x-content-type-options"], "nosniff");
    assert_eq!(told.value()["revocations"][0]["why"], "<b>");
}
