//! What it costs the store when many look.

use std::time::Duration;

use leasehold::{Attempt, Claim, HolderId, LockName, Store, stores};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::servers::Redis;
use tokio::time::Instant;

use crate::LIMIT;
use crate::scene::Scene;

/// So many look at the dashboard, each at all of it, and Prometheus scrapes each second.
const VIEWERS: usize = 50;

/// For so long it is counted.
const SPAN: Duration = Duration::from_secs(6);

/// Commands a second, those inside scripts with them: a listing, the time, a probe, the jobs, pauses, one job's ledger, tallies. Half of it is what a
/// quiet machine has shown.
const MOST_A_SECOND: u64 = 120;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_viewers_and_a_scrape_cost_as_much_as_one_or_two() {
    let redis = Redis::start();
    let scene = Scene::at(&redis.url());
    let scheduler = scene.schedules("nightly", None);
    scene.until("/api/v1/jobs", |jobs| !jobs["jobs"][0]["last"].is_null()).await;
    drop(scheduler); // what it does is not counted
    scene.json("/api/v1/store").await; // nor is the examination, once in a minute
    let (store, name) = (stores::open(&redis.url()).unwrap(), LockName::new("backup").unwrap());
    let claim = Claim::new(name, HolderId::fresh(), "web-1/1/a".into(), Duration::from_secs(600));
    assert!(matches!(store.try_acquire(&claim).await.unwrap(), Attempt::Granted(_)));

    // What the scheduler was about is given back first.
    eventually_async("nobody looks, so nothing is asked", LIMIT, async || {
        let before = redis.commands_processed();
        tokio::time::sleep(Duration::from_secs(2)).await;
        redis.commands_processed() - before <= 4
    })
    .await;

    let (before, began) = (redis.commands_processed(), Instant::now());
    let until = began + SPAN;
    let viewer = async |nth: usize| {
        let mut events = scene.listen().await;
        while Instant::now() < until {
            for path in ["locks", "waits", "jobs", "runs", "contention", "store", "lock?name=backup"] {
                scene.get(&format!("/api/v1/{path}")).await;
            }
            let _ = events.within(Duration::from_millis(100 + 10 * nth as u64)).await;
        }
    };
    let scrape = async {
        while Instant::now() < until {
            scene.get("/metrics").await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let viewers = futures_util::future::join_all((0..VIEWERS).map(viewer));
    tokio::join!(viewers, scrape);
    // The last answers may come late.
    let (cost, span) = (redis.commands_processed() - before, began.elapsed());
    println!("{VIEWERS} viewers: {cost} commands in {span:?}; {}", redis.command(&["INFO", "commandstats"]).text());
    assert!(u128::from(cost) * 1000 <= u128::from(MOST_A_SECOND) * span.as_millis(), "{cost} commands in {span:?}");
}

#[tokio::test]
async fn ten_thousand_locks_are_paged() {
    const MANY: usize = 10_000;
    let memory: std::sync::Arc<dyn Store> = std::sync::Arc::new(leasehold::stores::Memory::default());
    for nth in 0..MANY {
        let name = LockName::new(&format!("customer/{nth:05}")).unwrap();
        let claim =
            Claim::new(name, HolderId::fresh(), format!("web-{}/1/a", nth % 7).into(), Duration::from_secs(600));
        assert!(matches!(memory.try_acquire(&claim).await.unwrap(), Attempt::Granted(_)));
    }
    let scene = Scene::of(memory.clone(), memory);
    let page = scene.json("/api/v1/locks?limit=1000&offset=9000").await;
    assert_eq!((page["total"].as_u64(), page["held"].as_u64()), (Some(10_000), Some(10_000)));
    assert_eq!(
        (page["locks"].as_array().unwrap().len(), &page["locks"][999]["name"]),
        (1000, &"customer/09999".into())
    );
    let began = Instant::now();
    for _ in 0..20 {
        assert_eq!(scene.json("/api/v1/locks?q=WEB-3&sort=-held_for").await["locks"].as_array().unwrap().len(), 100);
    }
    println!("a page of {MANY} locks, searched and sorted, takes {:?}", began.elapsed() / 20);
}
