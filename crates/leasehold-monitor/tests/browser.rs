//! The page in a real browser: Chromium, driven by `tests/browser/suite.mjs`. What that needs is installed by `scripts/servers` and
//! `scripts/browser`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use axum::Router;
use leasehold_monitor::dashboard;

/// The page as it is served, with a made-up fleet behind it: each view in light, dark and on a phone; keys; hostile names; 10,000 locks; what it
/// says when it is not live; actions.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_in_a_browser() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let page = format!("http://{}/", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(listener, dashboard::routes::<()>() as Router).await });

    let mut node = Command::new("node");
    node.arg(here().join("tests/browser/suite.mjs")).env("LEASEHOLD_PAGE", page).env("LEASEHOLD_BROWSER", installed());
    let ends = tokio::task::spawn_blocking(move || node.stdin(Stdio::null()).output());
    let output = ends.await.unwrap().expect("node can be started");
    serving.abort();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    println!("{told}");
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn installed() -> PathBuf {
    let path = here().join("../../target/browser");
    let browser = path.canonicalize();
    browser.unwrap_or_else(|_| {
        panic!("what drives the browser is not installed: run scripts/browser (no {})", path.display())
    })
}
