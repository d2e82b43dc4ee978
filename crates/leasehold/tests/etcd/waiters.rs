//! Who waits, and what wakes it.

use super::*;

#[tokio::test]
async fn f08_waiters_that_give_up_leave_nothing_behind() {
    let server = Etcd::start();
    let holder = locks(&server.url()).await;
    let guard = acquired(&holder.lock("job")).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(locks(&server.url()).await);
    }
    let waiting = clients.iter().map(|locks| {
        let lock = locks.lock("job").wait(Wait::For(Duration::from_secs(2)));
        tokio::spawn(async move { lock.acquire().await.unwrap() })
    });
    for outcome in join_all(waiting.collect::<Vec<_>>()).await {
        assert!(matches!(outcome.unwrap(), Outcome::Contended(_)));
    }
    // Nor one whose task is cancelled.
    let lock = clients[0].lock("job");
    let cancelled = tokio::spawn(async move { lock.acquire().await.map(drop) });
    waits(&holder, "job", 1).await;
    cancelled.abort();
    eventually_async("its place is gone", SOON, async || held(&holder, "job").await.unwrap().waiting == 0).await;
    assert_eq!(server.keys("default/job/").len(), 1, "the holder's");
    guard.release().await.unwrap();
    assert_eq!(server.keys(""), [""; 0]);
}

#[tokio::test]
async fn f01_a_watch_that_dies_costs_a_second_at_most() {
    let server = Etcd::start();
    let proxy = Proxy::to(server.address());
    let (holder, waiter) = (locks(&server.url()).await, locks(&proxy.url(&server.url())).await);
    let guard = acquired(&holder.lock("job")).await;
    let lock = waiter.lock("job");
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() });
    waits(&holder, "job", 1).await;
    tokio::time::sleep(Duration::from_secs(1)).await; // It watches by now.
    proxy.cut();
    guard.release().await.unwrap();
    let began = Instant::now();
    drop(tokio::time::timeout(SOON, waiting).await.expect("it finds out by itself").unwrap());
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_release_wakes_the_one_behind_it_at_once() {
    let server = Etcd::start();
    let (holder, waiter) = (locks(&server.url()).await, locks(&server.url()).await);
    let mut quick = 0;
    for _ in 0..10 {
        let guard = acquired(&holder.lock("job")).await;
        let lock = waiter.lock("job");
        let waiting = tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() });
        waits(&holder, "job", 1).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let began = Instant::now();
        guard.release().await.unwrap();
        waiting.await.unwrap().release().await.unwrap();
        quick += u32::from(began.elapsed() < Duration::from_millis(200));
    }
    assert!(quick >= 7, "only {quick} of 10 did not wait for the next look");
}

#[tokio::test]
async fn history_that_is_compacted_away_disturbs_nobody_who_waits() {
    let server = Etcd::start();
    let (holder, waiter) = (locks(&server.url()).await, locks(&server.url()).await);
    let guard = acquired(&holder.lock("job")).await;
    let lock = waiter.lock("job");
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() });
    waits(&holder, "job", 1).await;
    for n in 0..5 {
        let said = server.command(&["put", "elsewhere", &n.to_string(), "--write-out=fields"]);
        let revision = said.lines().find_map(|line| line.strip_prefix("\"Revision\" : ")).unwrap();
        server.command(&["compact", revision]);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    drop(tokio::time::timeout(SOON, waiting).await.expect("its turn came").unwrap());
}

#[tokio::test]
async fn f03_first_come_first_served_over_many_clients() {
    let server = Etcd::start();
    let (holder, order) = (locks(&server.url()).await, Arc::new(std::sync::Mutex::new(Vec::new())));
    let guard = acquired(&holder.lock("job")).await;
    let mut waiting = Vec::new();
    for n in 0..5 {
        let (locks, order) = (locks(&server.url()).await, Arc::clone(&order));
        waiting.push(tokio::spawn(async move {
            let guard = locks.lock("job").acquire().await.unwrap().guard().unwrap();
            order.lock().unwrap().push(n);
            guard.release().await.unwrap();
        }));
        waits(&holder, "job", n + 1).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await; // Their lease would have ended.
    guard.release().await.unwrap();
    for task in waiting {
        tokio::time::timeout(SOON, task).await.expect("its turn came").unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn a_waiter_of_a_dead_client_is_passed_over() {
    let server = Etcd::start();
    let holder = locks(&server.url()).await;
    let guard = acquired(&holder.lock("job")).await;
    let dead = leasehold::stores::open(&server.url()).unwrap();
    let claim = Claim::new(guard.name().clone(), HolderId::fresh(), "the dead".into(), TTL);
    let claim = Claim { queue: Some(leasehold::Place::default()), ..claim };
    assert!(matches!(dead.try_acquire(&claim).await.unwrap(), Attempt::Held(_)));
    let live = locks(&server.url()).await;
    let lock = live.lock("job");
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() });
    waits(&holder, "job", 2).await;
    guard.release().await.unwrap();
    let began = Instant::now();
    drop(tokio::time::timeout(SOON, waiting).await.expect("its turn came").unwrap());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test]
async fn f06_many_names_are_waited_for_over_one_stream() {
    let server = Etcd::start();
    let (holder, waiter) = (locks(&server.url()).await, locks(&server.url()).await);
    let names: Vec<String> = (0..200).map(|n| format!("job {n}")).collect();
    let guards = join_all(names.iter().map(async |name| acquired(&holder.lock(name)).await)).await;
    let waiting: Vec<_> = names
        .iter()
        .map(|name| {
            let lock = waiter.lock(name);
            tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap().release().await.unwrap() })
        })
        .collect();
    eventually_async("all wait", SOON, async || {
        holder.list().await.unwrap().iter().filter(|holding| holding.waiting == 1).count() == names.len()
    })
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.metric("etcd_debugging_mvcc_watch_stream_total "), Some(1.0));
    for guard in guards {
        guard.release().await.unwrap();
    }
    for task in waiting {
        tokio::time::timeout(SOON, task).await.expect("its turn came").unwrap();
    }
    eventually_async("nothing is watched any more", SOON, async || {
        server.metric("etcd_debugging_mvcc_watcher_total ") == Some(0.0)
    })
    .await;
    assert_eq!(server.keys(""), [""; 0]);
}
