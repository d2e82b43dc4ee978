//! Answers that are late, lost or come from nobody.

use super::*;

#[tokio::test]
async fn b01_a_grant_whose_answer_is_late_is_taken_back() {
    let server = Etcd::start();
    let proxy = Proxy::to(server.address());
    let (ours, others) = (locks(&proxy.url(&server.url())).await, locks(&server.url()).await);
    let ttl = Duration::from_secs(60);
    acquired(&ours.lock("warm").ttl(ttl)).await.release().await.unwrap();
    proxy.blackhole(Direction::ToClient);
    let waiting = ours.lock("job").ttl(ttl).wait(Wait::For(Duration::ZERO));
    let error = waiting.acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::TimedOut, Applied::Maybe), "{error}");
    assert!(held(&others, "job").await.is_some(), "it was granted, and nobody knows");
    proxy.heal();
    eventually_async("nothing is left behind", SOON, async || held(&others, "job").await.is_none()).await;
    acquired(&others.lock("job")).await.release().await.unwrap();
}

#[tokio::test]
async fn b01_a_lost_answer_is_asked_for_again_under_the_same_identity() {
    let server = Etcd::start();
    let proxy = Proxy::to(server.address());
    let (locks, others) = (locks(&proxy.url(&server.url())).await, locks(&server.url()).await);
    acquired(&locks.lock("warm")).await.release().await.unwrap();
    proxy.drop_reply_after_request(b"default/job/", Then::Cut);
    let guard = acquired(&locks.lock("job")).await;
    assert_eq!(proxy.dropped_replies(), 1);
    assert!(guard.is_valid());
    assert_eq!(
        held(&others, "job").await.map(|held| (held.holder, held.token)),
        Some((Some(guard.holder()), guard.token()))
    );
    guard.release().await.unwrap();
    assert_eq!(server.keys("default/job/"), [""; 0]);
}

#[tokio::test]
async fn b02_nobody_there_is_told_as_that_and_nothing_was_done() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    server.kill();
    let error = locks.lock("job").try_acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::No), "{error}");
    server.restart();
    assert_eq!(server.keys(""), [""; 0]);
    acquired(&locks.lock("job")).await.release().await.unwrap();
}

#[tokio::test]
async fn c12_a_connection_that_breaks_is_no_loss() {
    let server = Etcd::start();
    let proxy = Proxy::to(server.address());
    let locks = locks(&proxy.url(&server.url())).await;
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    for _ in 0..3 {
        tokio::time::sleep(TTL / 2).await;
        proxy.cut();
        assert!(guard.is_valid() && guard.loss().is_none());
    }
    tokio::time::sleep(TTL).await;
    assert!(guard.is_valid() && guard.loss().is_none());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_client_outlives_the_runtime_that_it_was_first_used_on() {
    let server = Etcd::start();
    let url = server.url();
    let on_its_own = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let locks = locks(&url).await;
            let guard = acquired(&locks.lock("job").ttl(TTL)).await;
            (locks, guard)
        })
    };
    let (locks, guard) = std::thread::spawn(on_its_own).join().unwrap();
    tokio::time::sleep(TTL).await;
    assert!(guard.is_valid(), "the keeper has connections of its own");
    guard.release().await.unwrap();
    acquired(&locks.lock("job")).await.release().await.unwrap();
}

/// Its message was on its way when it was given up, and comes behind what takes it back.
#[tokio::test]
async fn a_claim_that_is_executed_after_it_was_taken_back_ends_all_the_same() {
    let server = Etcd::start();
    let proxy = Proxy::to(server.address());
    let store = leasehold::stores::open(&proxy.url(&server.url())).unwrap();
    let ((live, live_key), (late, late_key)) = (claimed("live"), claimed("late"));
    assert!(matches!(store.try_acquire(&live).await.unwrap(), Attempt::Granted(_)));
    proxy.blackhole(Direction::ToServer);
    let error = store.try_acquire(&late).await.unwrap_err();
    assert_eq!(error.applied(), Applied::Maybe, "{error}");
    proxy.cut();
    proxy.heal();
    store.leave(&late_key).await.unwrap();
    let said = server.command(&["get", &server.keys("default/live/")[0], "--write-out=fields"]);
    let lease: i64 = said.lines().find_map(|line| line.strip_prefix("\"Lease\" : ")).unwrap().parse().unwrap();
    let key = format!("default/late/{}", late.holder);
    server.command(&["put", &key, "leasehold/1 held 1 0 test", &format!("--lease={lease:x}")]);
    assert_eq!(server.keys("default/late/"), [key]);
    renewed_until(&*store, &live_key, || server.keys("default/late/").is_empty()).await;
}
