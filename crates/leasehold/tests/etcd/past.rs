//! Clusters that go back, and others in their place.

use super::*;

/// What a cluster of its own is called.
const SAME: &str = "etcd-cluster";

#[tokio::test]
async fn a_restored_cluster_grants_and_renews_nothing_to_who_knows_better() {
    let server = Etcd::start();
    let (locks, store) = (locks(&server.url()).await, leasehold::stores::open(&server.url()).unwrap());
    let (claim, key) = claimed("held");
    assert!(matches!(store.try_acquire(&claim).await.unwrap(), Attempt::Granted(_)));
    let snapshot = server.snapshot();
    let mut last = None;
    for _ in 0..10 {
        let guard = acquired(&locks.lock("job")).await;
        last = Some(guard.token());
        guard.release().await.unwrap();
    }
    store.inspect(&claim.name).await.unwrap();

    server.restore(&snapshot, SAME);
    let error = locks.lock("job").try_acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::Maybe), "{error}");
    assert!(error.to_string().contains("has gone back, from revision"), "{error}");
    let error = store.renew(&[(key.clone(), TTL)]).await.remove(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");

    // Whoever comes anew takes it as it is: the same tokens again, which is what the error is about.
    let anew = claims::locks(&server.url()).await;
    let repeated = acquired(&anew.lock("other")).await;
    assert!(Some(repeated.token()) < last, "{} {last:?}", repeated.token());
    repeated.release().await.unwrap();
}

#[tokio::test]
async fn a_member_of_another_cluster_is_refused_at_once() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let snapshot = server.snapshot();
    acquired(&locks.lock("job")).await.release().await.unwrap();
    server.restore(&snapshot, "another");
    let lock = locks.lock("job").wait(Wait::Forever);
    let error = tokio::time::timeout(SOON, lock.acquire()).await.expect("it is not waited for").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("of another cluster"), "{error}");
}

#[tokio::test]
async fn of_members_of_several_clusters_those_of_the_first_are_used() {
    let (first, second) = (Etcd::start(), Etcd::start());
    let both = format!("{},{}", first.url(), second.address());
    let locks = locks(&both).await;
    acquired(&locks.lock("job")).await.release().await.unwrap();
    first.kill();
    let error = locks.lock("job").try_acquire().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Misconfigured | ErrorKind::Unavailable), "{error}");
    first.restart();
    let guard = eventually_granted(&locks).await;
    assert_eq!(first.keys("default/job/").len(), 1);
    guard.release().await.unwrap();
}

/// Granted once the first cluster is asked again.
async fn eventually_granted(locks: &Locks) -> leasehold::Guard {
    for _ in 0..20 {
        if let Ok(outcome) = locks.lock("job").try_acquire().await {
            return outcome.guard().expect("nobody holds it there");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it is never granted")
}
