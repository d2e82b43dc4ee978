//! Answers that are late or lost, servers that say nothing, and connections that break or can't be had.

use leasehold::Wait;

use super::*;

#[tokio::test]
async fn a12_a_label_that_two_have_is_nobodys_right() {
    let server = Postgres::start();
    let [ours, others] = [(), ()].map(|()| Locks::builder().label("same").connect(&server.url()).unwrap());
    let guard = acquired(&ours.lock("job").ttl(LONG)).await;
    let outcome = others.lock("job").wait(Wait::For(Duration::from_secs(2))).acquire().await.unwrap();
    assert!(matches!(outcome, Outcome::Contended(_)), "{outcome:?}");
    others.shutdown().await;
    assert!(guard.is_valid() && is_contended(&*store(&server.url()), "job").await);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn b01_a_grant_whose_answer_is_late_is_taken_back() {
    let server = Postgres::start();
    let proxy = Proxy::to(server.address());
    let (ours, others) = (locks(&proxy.url(&server.url())).await, locks(&server.url()).await);
    acquired(&ours.lock("warm").ttl(TTL)).await.release().await.unwrap();
    proxy.blackhole(Direction::ToClient);
    let lock = ours.lock("job").ttl(LONG).wait(Wait::For(Duration::ZERO));
    let asked = tokio::spawn(async move { lock.acquire().await.map(drop) });
    eventually_async("it is granted", SOON, async || !claims::is_free(&others, "job").await).await;
    let error = asked.await.unwrap().expect_err("nobody knows that");
    assert_eq!((error.kind(), error.applied()), (ErrorKind::TimedOut, Applied::Maybe), "{error}");
    proxy.heal();
    eventually_async("nothing is left behind", SOON, async || claims::is_free(&others, "job").await).await;
    acquired(&others.lock("job")).await.release().await.unwrap();
}

#[tokio::test]
async fn b01_a_lost_answer_is_asked_for_again_under_the_same_identity() {
    let server = Postgres::start();
    let proxy = Proxy::to(server.address());
    let (ours, others) = (locks(&proxy.url(&server.url())).await, locks(&server.url()).await);
    acquired(&ours.lock("warm").ttl(TTL)).await.release().await.unwrap();
    proxy.drop_reply_after_request(b"leasehold_v4_acquire", Then::Cut);
    let guard = acquired(&ours.lock("job").ttl(LONG)).await;
    assert_eq!(proxy.dropped_replies(), 1);
    let held = others.inspect("job").await.unwrap().expect("it is held");
    assert_eq!((held.holder, held.token), (Some(guard.holder()), guard.token()));
    guard.release().await.unwrap();
    assert!(claims::is_free(&others, "job").await);
}

/// The answer breaks off in the middle.
#[tokio::test]
async fn b01_a_cut_answer_is_asked_for_again_under_the_same_identity() {
    let server = Postgres::start();
    let proxy = Proxy::to(server.address());
    let (ours, others) = (locks(&proxy.url(&server.url())).await, locks(&server.url()).await);
    acquired(&ours.lock("warm").ttl(TTL)).await.release().await.unwrap();
    let before = proxy.connections();
    proxy.cut_after(Direction::ToClient, 20);
    let guard = acquired(&ours.lock("job").ttl(LONG)).await;
    assert!(proxy.connections() > before, "the first was cut");
    let held = others.inspect("job").await.unwrap().expect("it is held");
    assert_eq!((held.holder, held.token), (Some(guard.holder()), guard.token()));
    guard.release().await.unwrap();
}

/// While the answer is on its way nobody waits for it any more.
#[tokio::test]
async fn b09_a_claim_that_is_dropped_while_it_is_answered_leaves_nothing() {
    let server = Postgres::start();
    let proxy = Proxy::to(server.address());
    let (ours, others) = (locks(&proxy.url(&server.url())).await, locks(&server.url()).await);
    acquired(&ours.lock("warm").ttl(TTL)).await.release().await.unwrap();
    proxy.delay(Direction::ToClient, Duration::from_millis(500));
    let lock = ours.lock("job").ttl(LONG);
    let asked = tokio::spawn(async move { lock.try_acquire().await.map(drop) });
    eventually_async("it is granted", SOON, async || !claims::is_free(&others, "job").await).await;
    asked.abort();
    assert!(asked.await.is_err_and(|ended| ended.is_cancelled()), "it was dropped before the answer came");
    eventually_async("nothing is left behind", SOON, async || claims::is_free(&others, "job").await).await;
}

/// When the server lets nobody in any more, a lock is released over the connection that is there.
#[tokio::test]
async fn b06_a_release_needs_no_second_connection() {
    let server = Postgres::start();
    Tables::migrate(&server.url()).await.unwrap();
    server.sql("create role jobs login; grant select, insert, update, delete on all tables in schema public to jobs");
    let (ours, others) = (locks(&server.url_as("jobs", "")).await, locks(&server.url()).await);
    let guard = acquired(&ours.lock("job").ttl(LONG)).await;
    server.sql("alter role jobs connection limit 1");
    let error = locks(&server.url_as("jobs", "")).await.lock("another").try_acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::No), "{error}");
    guard.release().await.unwrap();
    assert!(claims::is_free(&others, "job").await);
}

#[tokio::test]
async fn c05_a_server_that_says_nothing_is_a_loss_in_time() {
    let server = Postgres::start();
    let proxy = Proxy::to(server.address());
    let locks = locks(&proxy.url(&server.url())).await;
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    let since = Instant::now();
    for direction in [Direction::ToServer, Direction::ToClient] {
        proxy.blackhole(direction);
    }
    let reason = tokio::time::timeout(TTL, guard.lost()).await.expect("told before the lease is over");
    assert!(matches!(reason, LossReason::Unreachable(_) | LossReason::Expired), "{reason:?}");
    assert!(since.elapsed() < TTL, "told after {:?}", since.elapsed());
    eventually_async("it is invalid", TTL, async || !guard.is_valid()).await;
    assert!(since.elapsed() <= TTL + TTL / 3, "invalid after {:?}, though the server never answers", since.elapsed());
}

#[tokio::test]
async fn c12_a_connection_that_breaks_is_no_loss() {
    let server = Postgres::start();
    let proxy = Proxy::to(server.address());
    let locks = locks(&proxy.url(&server.url())).await;
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    let before = proxy.connections();
    for _ in 0..3 {
        tokio::time::sleep(TTL / 2).await;
        proxy.cut();
    }
    tokio::time::sleep(TTL).await; // renewed meanwhile
    assert!(guard.is_valid() && guard.loss().is_none(), "{:?}", guard.loss());
    assert!(proxy.connections() > before, "others were made");
    guard.release().await.unwrap();
}
