//! Who may do something, and from where.

use std::sync::Arc;

use axum::http::Method;
use leasehold::Locks;
use leasehold::stores::Memory;
use leasehold_monitor::{Monitor, router};
use serde_json::json;

use crate::scene::{Answer, Scene, TOKEN};

fn scene() -> Scene {
    let store = Arc::new(Memory::default());
    Scene::of(store.clone(), store)
}

/// An order that would be carried out, with other headers.
async fn orders(scene: &Scene, headers: &[(&str, &str)]) -> Answer {
    let usual = [
        ("host", "localhost:7676"),
        ("authorization", "Bearer correct-horse-battery-staple"),
        ("content-type", "application/json"),
    ];
    let given = |name: &str| headers.iter().any(|(given, _)| *given == name);
    let kept = usual.into_iter().filter(|(name, _)| !given(name));
    let all: Vec<_> = kept.chain(headers.iter().copied().filter(|(_, value)| !value.is_empty())).collect();
    let order = json!({"name": "a", "why": "test", "by": "ada", "confirm": "a"}).to_string();
    scene.asks(Method::POST, "/api/v1/revoke", &all, &order).await
}

#[tokio::test]
async fn orders_need_the_token_and_a_page_of_our_own() {
    let scene = scene();
    let guard = scene.take("a").await;
    for (headers, status, code) in [
        (vec![("authorization", "")], 401, "no_token"),
        (vec![("authorization", TOKEN)], 401, "no_token"),
        (vec![("authorization", "Basic Y29ycmVjdA==")], 401, "no_token"),
        (vec![("authorization", "Bearer ")], 401, "wrong_token"),
        (vec![("authorization", "Bearer correct-horse-battery-stapl")], 401, "wrong_token"),
        (vec![("authorization", "Bearer correct-horse-battery-staple2")], 401, "wrong_token"),
        (vec![("content-type", "")], 415, "not_json"),
        (vec![("content-type", "application/x-www-form-urlencoded")], 415, "not_json"),
        (vec![("content-type", "text/plain; a=application/json")], 415, "not_json"),
        (vec![("origin", "https://evil.example")], 403, "cross_site"),
        (vec![("origin", "null")], 403, "cross_site"),
        (vec![("origin", "http://localhost:8080")], 403, "cross_site"),
        (vec![("sec-fetch-site", "cross-site")], 403, "cross_site"),
        (vec![("host", "evil.example")], 403, "wrong_host"),
        (vec![("host", "")], 403, "wrong_host"),
    ] {
        let refused = orders(&scene, &headers).await;
        refused.refuses(status, code, &[]);
        assert_eq!(refused.headers.contains_key("www-authenticate"), status == 401, "{headers:?}");
    }
    assert!(
        guard.is_valid() && scene.json("/api/v1/lock?name=a").await["lock"]["state"] == "held",
        "none was carried out"
    );
    for headers in [
        vec![("origin", "http://localhost:7676"), ("sec-fetch-site", "same-origin")],
        vec![("authorization", "bearer correct-horse-battery-staple")],
        vec![("content-type", "application/json; charset=utf-8")],
        vec![("host", "locks.example.com"), ("origin", "https://locks.example.com")],
    ] {
        assert_eq!(orders(&scene, &headers).await.status, 200, "{headers:?}");
    }
}

#[tokio::test]
async fn an_order_is_short() {
    let scene = scene();
    let order = json!({"name": "a", "why": "x".repeat(20_000), "by": "ada", "confirm": "a"});
    scene.post("/api/v1/revoke", &order).await.refuses(
        413,
        "bad_request",
        &["more than 16 KiB", "why has 500 bytes at most, by 100"],
    );
}

#[tokio::test]
async fn without_a_token_nothing_can_be_done() {
    let mut scene = scene();
    scene.app = router(Monitor::over(scene.locks.clone()));
    for path in ["/api/v1/revoke", "/api/v1/trigger", "/api/v1/pause", "/api/v1/resume"] {
        scene.post(path, &json!({})).await.refuses(403, "read_only", &["--token-file"]);
    }
    assert_eq!(scene.get("/api/v1/locks").await.status, 200);
}

#[tokio::test]
async fn each_answer_tells_browsers_what_they_may_do_with_it() {
    let scene = scene();
    for (path, host) in [
        ("/", "localhost"),
        ("/api/v1/locks", "localhost"),
        ("/api/v1/nothing", "localhost"),
        ("/nothing", "localhost"),
        ("/healthz", "localhost"),
        ("/readyz", "10.0.0.7:80"),
        ("/api/v1/locks", "evil.example"),
    ] {
        let answer = scene.asks(Method::GET, path, &[("host", host)], "").await;
        let header = |name: &str| answer.headers[name].to_str().unwrap();
        let policy = header("content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!((header("x-content-type-options"), header("referrer-policy")), ("nosniff", "no-referrer"), "{path}");
        assert!(!answer.headers.contains_key("access-control-allow-origin"), "{path}");
    }
}

#[tokio::test]
async fn a_name_that_is_not_ours_is_served_nothing() {
    let scene = scene();
    for path in ["/", "/api/v1/locks", "/api/v1/events", "/metrics"] {
        let refused = scene.asks(Method::GET, path, &[("host", "evil.example:7676")], "").await;
        refused.refuses(403, "wrong_host", &["evil.example", "--host"]);
        let served = scene.asks(Method::OPTIONS, path, &[("host", "evil.example")], "").await;
        assert_eq!(served.status, 403, "{path}");
    }
    for path in ["/healthz", "/readyz"] {
        let served = scene.asks(Method::GET, path, &[("host", "anything")], "").await;
        assert_eq!(served.status, 200, "whoever looks after it knows no name: {path}");
    }
    let open = router(Monitor::over(Locks::over(Arc::new(Memory::default()))).any_host());
    let mut scene = scene;
    scene.app = open;
    assert_eq!(scene.asks(Method::GET, "/api/v1/locks", &[("host", "anything")], "").await.status, 200);
}

/// It could not read the answers, but have the store asked by each browser that looks at it.
#[tokio::test]
async fn a_page_of_another_site_asks_for_nothing() {
    let scene = scene();
    let asks = async |path: &str, site: &str| {
        scene.asks(Method::GET, path, &[("host", "localhost:7676"), ("sec-fetch-site", site)], "").await
    };
    for path in ["/api/v1/locks", "/api/v1/contention?since=61s", "/api/v1/events", "/api/v1/nothing", "/metrics"] {
        asks(path, "cross-site").await.refuses(403, "cross_site", &["page of another site"]);
    }
    assert_eq!(asks("/", "cross-site").await.status, 200, "a link may lead here");
    for site in ["same-origin", "same-site", "none"] {
        assert_eq!(asks("/api/v1/locks", site).await.status, 200, "{site}");
    }
}

/// In an application, under a path of its own.
#[tokio::test]
async fn it_can_be_mounted() {
    let scene = scene();
    let app = axum::Router::new().nest("/locks", scene.app.clone()).route("/", axum::routing::get(async || "mine"));
    let mut scene = scene;
    scene.app = app;
    assert_eq!(scene.get("/").await.body, "mine");
    let guard = scene.take("a").await;
    assert_eq!(scene.get("/locks/api/v1/locks").await.good()["total"], 1);
    assert_eq!(scene.get("/locks/healthz").await.body, "alive\n");
    drop(guard);
}
