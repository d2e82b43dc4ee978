//! The page in a real browser: Chromium, driven from `tests/browser`. What that needs is installed by `scripts/servers` and
//! `scripts/browser`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use axum::Router;
use leasehold::{Guard, Locks, Wait};
use leasehold_monitor::{Monitor, Tally, dashboard, router};
use leasehold_schedule::{Job, Schedule, Scheduler};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::servers::{Postgres, Redis};

const SOON: Duration = Duration::from_secs(30);

/// What the page needs to act.
const TOKEN: &str = "correct-horse-battery-staple";

/// The page as it is served, with a made-up fleet behind it: each view in light, dark and on a phone; keys; hostile names; 10,000 locks; what it
/// says when it is not live; actions.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_in_a_browser() {
    let page = served(dashboard::routes()).await;
    drives("suite.mjs", format!("{page}/")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_redis_in_a_browser() {
    let server = Redis::start();
    a_real_store(&server.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_postgres_in_a_browser() {
    let server = Postgres::start();
    a_real_store(&server.url()).await;
}

/// The whole monitor, as an application mounts it, over a store in which locks are held and waited for and a job runs.
async fn a_real_store(url: &str) {
    let (holder, waiter) = (client("web-3/41/nightly", url), client("web-4/7/nightly", url));
    let tally = Tally::new();
    let counted = Locks::builder().label("web-5/9/count").observer(tally.clone()).connect(url).unwrap();
    let keeping = tally.kept_in(&counted);
    let hostile = acquired(&holder, "<script>window.hacked = 1</script>").await;
    let held = acquired(&holder, "billing/nightly").await;
    assert!(counted.lock("billing/nightly").try_acquire().await.unwrap().guard().is_none());
    keeping.flush().await.unwrap();

    // Who is told to stop stops; and whoever waits has it then, until this test ends.
    let stops = tokio::spawn(async move {
        held.lost().await;
        held.release().await
    });
    let lock = waiter.lock("billing/nightly").wait(Wait::Forever);
    let waits = tokio::spawn(async move { lock.acquire().await.unwrap().guard().expect("its turn comes") });
    eventually_async("it waits", SOON, async || {
        holder.inspect("billing/nightly").await.unwrap().is_some_and(|holding| holding.waiting == 1)
    })
    .await;
    let every_second = Schedule::parse("@every 1s", None).unwrap();
    let job = Job::new("heartbeat", every_second, |_| Box::pin(async { Ok(()) }));
    let schedules = tokio::spawn(Scheduler::over(holder.clone()).job(job).unwrap().run(std::future::pending()));

    let monitor = Monitor::over(client("monitor", url)).any_host().token(TOKEN).unwrap();
    let origin = served(Router::new().nest("/ops/locks", router(monitor))).await;
    drives("real.mjs", format!("{origin}/ops/locks")).await;
    stops.await.unwrap().unwrap();
    drop((waits.await.unwrap(), hostile));
    schedules.abort();
}

fn client(label: &str, url: &str) -> Locks {
    Locks::builder().label(label).connect(url).unwrap()
}

async fn acquired(locks: &Locks, name: &str) -> Guard {
    // A browser is much for a machine: that is not to be a loss.
    locks.lock(name).ttl(Duration::from_secs(12)).acquire().await.unwrap().guard().expect("it is free")
}

/// Serves them for as long as this process lives; the origin.
async fn served(routes: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    origin
}

/// Runs a script with the browser; what it demands must be so.
async fn drives(script: &str, page: String) {
    let mut node = Command::new("node");
    node.arg(here().join("tests/browser").join(script));
    node.env("LEASEHOLD_PAGE", page).env("LEASEHOLD_TOKEN", TOKEN).env("LEASEHOLD_BROWSER", installed());
    let ends = tokio::task::spawn_blocking(move || node.stdin(Stdio::null()).output());
    let output = ends.await.unwrap().expect("node can be started");
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
