//! What is left in the keys, and what others have put there.

use super::*;

#[tokio::test]
async fn g06_a_key_that_the_server_does_not_clear_away_is_told_and_can_be_released() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let granted = server.command(&["lease", "grant", "100000"]);
    let lease = granted.split(' ').nth(1).unwrap().to_owned();
    let dead = HolderId::fresh();
    server.command(&[
        "put",
        &format!("default/job/{dead}"),
        "leasehold/1 held 1 1796004000000 host/1",
        "--lease",
        &lease,
    ]);
    let told = held(&locks, "job").await.unwrap();
    assert_eq!((told.holder, told.label.as_str()), (Some(dead), "host/1"));
    let findings = locks.diagnose().await.unwrap();
    let finding = findings.iter().find(|finding| finding.message.contains("longer than any TTL")).expect("it is told");
    assert!(finding.severity == Severity::Warning && finding.message.contains(&dead.to_string()), "{finding:?}");
    assert!(locks.revoke("job", Revoke::Now).await.unwrap().is_some());
    let next = acquired(&locks.lock("job")).await;
    assert!(next.token() > told.token);
}

#[tokio::test]
async fn g08_a_key_without_a_lease_is_named_and_no_silent_wait() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job")).await;
    server.command(&["put", "default/job/x", "y"]);
    assert!(
        matches!(locks.lock("job").try_acquire().await.unwrap(), Outcome::Contended(_)),
        "it is held, to begin with"
    );
    guard.release().await.unwrap();
    for waits in [false, true] {
        let lock = if waits { locks.lock("job").wait(Wait::Forever) } else { locks.lock("job") };
        let error = match waits {
            false => lock.try_acquire().await.map(drop).unwrap_err(),
            true => tokio::time::timeout(SOON, lock.acquire()).await.expect("no endless wait").map(drop).unwrap_err(),
        };
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains("default/job/x") && error.to_string().contains("etcdctl del"), "{error}");
    }
    let told = held(&locks, "job").await.unwrap();
    assert_eq!((told.label.as_str(), told.remaining), ("foreign: default/job/x", Holding::NO_END));
    assert_eq!(told.library, None, "no lock's");
    let findings = locks.diagnose().await.unwrap();
    let problem = findings.iter().find(|finding| finding.severity == Severity::Problem).expect("it is told");
    assert_eq!(problem.fix.as_deref(), Some("etcdctl del 'default/job/x'"));
    assert_eq!(server.keys("default/job/"), ["default/job/x"], "nobody has left a place behind");
    server.command(&["del", "default/job/x"]);
    acquired(&locks.lock("job")).await.release().await.unwrap();
}

#[tokio::test]
async fn a06_no_key_is_without_an_end() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let held = acquired(&locks.lock("a").permits(3)).await;
    let _plain = acquired(&locks.lock("b")).await;
    acquired(&locks.lock("c").at_least_for(Duration::from_secs(5))).await.release().await.unwrap();
    acquired(&locks.once("d", Duration::from_secs(3600))).await.complete().await.unwrap();
    let lock = locks.lock("b");
    let waiting = tokio::spawn(async move { lock.acquire().await.map(drop) });
    waits(&locks, "b", 1).await;
    locks.revoke("a", Revoke::Gently).await.unwrap();
    let keys = server.keys("");
    assert_eq!(keys.len(), 5, "{keys:?}");
    for key in keys {
        let said = server.command(&["get", &key, "--write-out=fields"]);
        let lease = said.lines().find_map(|line| line.strip_prefix("\"Lease\" : ")).unwrap();
        assert_ne!(lease, "0", "{key}");
    }
    waiting.abort();
    drop(held);
}

#[tokio::test]
async fn who_contends_for_ticks_leaves_no_leases_behind() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let clients = join_all((0..6).map(async |_| Locks::connect(&server.url()).await.unwrap())).await;
    for round in 0..5 {
        let name = format!("piece {round}");
        let tries = join_all(
            clients.iter().map(async |locks| locks.once(&name, Duration::from_secs(3600)).try_acquire().await),
        );
        let granted: Vec<_> = tries.await.into_iter().filter_map(|outcome| outcome.unwrap().guard()).collect();
        assert_eq!(granted.len(), 1);
        for guard in granted {
            guard.complete().await.unwrap();
        }
    }
    acquired(&locks.lock("job")).await.release().await.unwrap();
    let leases = server.command(&["lease", "list"]);
    let long = leases.lines().skip(1).filter(|lease| {
        let told = server.command(&["lease", "timetolive", lease]);
        told.contains("granted with TTL(36")
    });
    assert_eq!(long.count(), 5, "one for each mark");
}

#[tokio::test]
async fn a_key_is_forgotten_when_its_time_is_over_and_not_before() {
    let server = Etcd::start();
    let store = leasehold::stores::open(&server.url()).unwrap();
    let keep = Duration::from_secs(2);
    let claim = || {
        let name = LockName::new("invoice").unwrap();
        let due = Some(Due { tick: Tick::ONLY, retry_failed: false, keep });
        Claim { due, ..Claim::new(name, HolderId::fresh(), "test".into(), Duration::from_secs(60)) }
    };
    let first = claim();
    let lease = LeaseKey { name: first.name.clone(), holder: first.holder };
    let Attempt::Granted(before) = store.try_acquire(&first).await.unwrap() else { panic!("it is new") };
    for _ in 0..6 {
        tokio::time::sleep(keep / 2).await;
        let renewed = store.renew(&[(lease.clone(), first.ttl)]).await.remove(0).unwrap();
        assert_eq!(renewed, Renewal::Renewed);
        assert!(matches!(store.try_acquire(&claim()).await.unwrap(), Attempt::Held(_)), "not while somebody has it");
    }
    let done = Ended { verdict: Some(Verdict::Done(Tick::ONLY)), ..Ended::default() };
    assert_eq!(store.release(&lease, done).await.unwrap(), Release::Released);
    assert!(matches!(store.try_acquire(&claim()).await.unwrap(), Attempt::NotDue(_)), "from its end on");
    let mut again = None;
    eventually_async("it is forgotten", SOON, async || {
        match store.try_acquire(&claim()).await.unwrap() {
            Attempt::Granted(grant) => again = Some(grant),
            other => assert!(matches!(other, Attempt::NotDue(_))),
        }
        again.is_some()
    })
    .await;
    let again = again.unwrap();
    assert!(again.token > before.token && again.attempt == 1, "{again:?}");
}

#[tokio::test]
async fn e15_environments_do_not_meet() {
    let server = Etcd::start();
    let (one, other) = (locks(&server.url()).await, locks(&format!("{}?namespace=staging", server.url())).await);
    let _guard = acquired(&one.lock("job")).await;
    acquired(&other.lock("job")).await.release().await.unwrap();
    assert_eq!((one.list().await.unwrap().len(), other.list().await.unwrap().len()), (1, 0));
}
