//! Requests that make no sense.

use serde_json::json;

use crate::scene::Scene;

pub async fn what_can_not_be_is_refused(scene: &Scene) {
    let long = format!("/api/v1/lock?name={}", "x".repeat(201));
    for (path, words) in [
        ("/api/v1/locks?limit=0", ["limit", "1 to 1000"]),
        ("/api/v1/locks?limit=1001", ["limit", "1 to 1000"]),
        ("/api/v1/locks?limit=ten", ["limit", "ten"]),
        ("/api/v1/locks?limit=1&limit=2", ["limit", "duplicate"]),
        ("/api/v1/locks?offset=-1", ["offset", "-1"]),
        ("/api/v1/locks?state=lost", ["state", "all, held, waited, kept"]),
        ("/api/v1/locks?sort=token", ["sort", "-held_for"]),
        ("/api/v1/lock", ["name", "missing"]),
        ("/api/v1/lock?name=", ["name", "empty"]),
        ("/api/v1/lock?name=a%00b", ["name", "control character"]),
        (&long, ["name", "200"]),
        ("/api/v1/contention?since=never", ["since", "never"]),
        ("/api/v1/contention?since=1s", ["since", "from 1m to 7d"]),
        ("/api/v1/runs?from=2026-11-30T00:00:00Z&to=2026-11-29T00:00:00Z", ["after", "2026-11-30"]),
        ("/api/v1/runs?from=yesterday", ["from", "2026-11-30T20:15:00Z"]),
        ("/api/v1/runs?limit=5001", ["limit", "5000"]),
        ("/api/v1/runs?job=%00", ["job", "control character"]),
        ("/api/v1/next", ["job", "missing"]),
        ("/api/v1/next?job=a&n=0", ["n=", "1 to 1000"]),
    ] {
        scene.get(path).await.refuses(400, "bad_request", &words);
    }
    for path in ["/api/v1/runs?job=nobody%27s", "/api/v1/next?job=nobody%27s"] {
        scene.get(path).await.refuses(404, "not_found", &["nobody's", "/api/v1/jobs"]);
    }
    for path in ["/api/v1/nothing", "/nothing.html", "/api/v2/locks", "/api/v1/../../etc/passwd"] {
        scene.get(path).await.refuses(404, "not_found", &["nothing at this path"]);
    }

    let signed = |name: &str, why: &str, by: &str, confirm: &str| json!({"name": name, "why": why, "by": by, "confirm": confirm});
    for (order, code, word) in [
        (signed("a", "", "ada", "a"), "bad_request", "why is empty"),
        (signed("a", "  ", "ada", "a"), "bad_request", "why is empty"),
        (signed("a", "dead", "", "a"), "bad_request", "by is empty"),
        (signed("a", "dead", "ada", "A"), "not_confirmed", "letter by letter"),
        (signed("a", "dead", "ada", ""), "not_confirmed", "confirm"),
        (signed("a\0", "dead", "ada", "a\0"), "bad_request", "control character"),
        (signed("a", "two\nlines", "ada", "a"), "bad_request", "one line"),
        (signed("a", &"x".repeat(501), "ada", "a"), "bad_request", "500"),
        (json!({"name": "a", "by": "ada", "confirm": "a"}), "bad_request", "why"),
        (json!({"name": "a", "why": "dead", "by": "ada"}), "bad_request", "confirm"),
        (json!({"name": "a", "why": "dead", "by": "ada", "confirm": "a", "nwo": true}), "bad_request", "nwo"),
        (json!({"name": "a", "why": "dead", "by": "ada", "confirm": "a", "holder": "me"}), "bad_request", "holder"),
        (json!(["a"]), "bad_request", "map"),
    ] {
        scene.post("/api/v1/revoke", &order).await.refuses(400, code, &[word]);
    }
    let order = json!({"job": "nobody's", "why": "test", "by": "ada", "confirm": "nobody's"});
    for path in ["/api/v1/trigger", "/api/v1/pause", "/api/v1/resume"] {
        scene.post(path, &order).await.refuses(404, "not_found", &["nobody's"]);
    }
}
