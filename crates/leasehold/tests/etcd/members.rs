//! Members of a cluster that stop, hang, lead no longer or are full.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g03_members_restarted_in_turn_are_no_loss() {
    let seconds = if std::env::var_os("LEASEHOLD_LONG").is_some() { 120 } else { 15 };
    let cluster = EtcdCluster::start();
    let locks = locks(&cluster.url()).await;
    // An election takes a second or two. Where one follows the other, on a busy machine, no lease of a few seconds outlasts them: members are
    // restarted as an operator does, the next when the cluster has had a leader for a while.
    let guard = acquired(&locks.lock("job").ttl(Duration::from_secs(15))).await;
    let end = Instant::now() + Duration::from_secs(seconds);
    let (restarts, told) = (AtomicU32::new(0), guard.lost());
    let restart = async {
        while Instant::now() < end {
            for member in cluster.members() {
                tokio::task::block_in_place(|| member.restart());
                restarts.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        }
    };
    tokio::select! {
        reason = told => panic!("lost: {reason:?}"),
        () = restart => {}
    }
    assert!(restarts.load(Ordering::Relaxed) >= 3);
    assert!(guard.is_valid());
    assert_eq!(held(&locks, "job").await.and_then(|held| held.holder), Some(guard.holder()));
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g05_a_leader_that_changes_lengthens_a_dead_holders_lease_and_nobody_counts_on_less() {
    let cluster = EtcdCluster::start();
    let locks = locks(&cluster.url()).await;
    let dead = leasehold::stores::open(&cluster.url()).unwrap();
    let name = LockName::new("job").unwrap();
    let claim = Claim::new(name, HolderId::fresh(), "the dead".into(), TTL);
    let Attempt::Granted(granted) = dead.try_acquire(&claim).await.unwrap() else { panic!("it is free") };
    drop(dead);
    let began = Instant::now();
    while began.elapsed() < TTL * 2 {
        tokio::task::block_in_place(|| cluster.move_leader());
        tokio::time::sleep(TTL / 2).await;
        let waiting = locks.lock("job").wait(Wait::For(Duration::from_millis(200)));
        let began = Instant::now();
        match waiting.acquire().await.unwrap() {
            Outcome::Contended(held) => {
                assert!(held.holder == Some(claim.holder) && held.label == "the dead", "{held:?}");
            }
            other => panic!("each new leader gives it its whole time again: {other:?}"),
        }
        assert!(began.elapsed() < Duration::from_secs(3), "a wait has its limit");
    }
    let lock = locks.lock("job");
    let next = tokio::time::timeout(SOON, lock.acquire()).await.expect("it ends").unwrap().guard().unwrap();
    assert!(next.token() > granted.token);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_changes_is_no_loss() {
    let cluster = EtcdCluster::start();
    let (locks, others) = (locks(&cluster.url()).await, locks(&cluster.url()).await);
    // Of a shorter one three elections may be more than may be missed.
    let guard = acquired(&locks.lock("job").ttl(Duration::from_secs(10))).await;
    let waiter = others.lock("job");
    let waiting = tokio::spawn(async move { waiter.acquire().await.unwrap().guard().unwrap() });
    for _ in 0..6 {
        tokio::task::block_in_place(|| cluster.move_leader());
        tokio::time::sleep(TTL / 2).await;
        assert!(guard.is_valid() && guard.loss().is_none());
    }
    waits(&locks, "job", 1).await;
    guard.release().await.unwrap();
    let next = tokio::time::timeout(SOON, waiting).await.expect("its turn came").unwrap();
    assert!(next.is_valid());
}

#[tokio::test]
async fn a_member_that_hangs_is_gone_round_in_time() {
    let cluster = EtcdCluster::start();
    let locks = locks(&cluster.url()).await;
    // It may be the leader: on a busy machine an election takes seconds, as in g03.
    let ttl = Duration::from_secs(10);
    let guard = acquired(&locks.lock("job").ttl(ttl)).await;
    for nth in 0..3 {
        cluster.members()[nth].pause();
        tokio::time::sleep(ttl).await;
        assert!(guard.is_valid() && guard.loss().is_none(), "{:?}", guard.loss());
        let began = Instant::now();
        eventually_async("the others answer", SOON, async || {
            let tried = locks.lock("another").try_acquire().await;
            matches!(tried, Ok(Outcome::Acquired(guard)) if guard.is_valid())
        })
        .await;
        assert!(began.elapsed() < ttl, "{:?}", began.elapsed());
        cluster.members()[nth].resume();
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_full_server_refuses_and_doctor_says_so() {
    let server = Etcd::options().flag("quota-backend-bytes", "100000").start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("before").ttl(TTL)).await;
    let big = "x".repeat(50_000);
    while server.etcdctl(&["put", "big", &big]).output().unwrap().status.success() {}
    let error = locks.lock("job").try_acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Refused, Applied::No), "{error}");
    tokio::time::sleep(TTL * 2).await;
    assert!(guard.is_valid(), "renewals write nothing");
    guard.release().await.unwrap();
    let findings = locks.diagnose().await.unwrap();
    let alarm = findings.iter().find(|finding| finding.subject == "alarms").unwrap();
    assert!(alarm.severity == Severity::Problem && alarm.message.contains("NOSPACE"), "{alarm:?}");
}

#[tokio::test]
async fn doctor_does_not_take_one_compaction_for_a_habit() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    acquired(&locks.lock("job").ttl(TTL)).await.release().await.unwrap();
    let told = async || {
        let findings = locks.diagnose().await.unwrap();
        let told = findings.into_iter().find(|finding| finding.subject == "history").expect("it is looked at");
        assert_eq!(told.severity, Severity::Fine);
        told.message
    };
    let first = told().await;
    assert!(first.contains("too few to tell"), "{first}");
    server.command(&["compact", "2"]);
    assert!(told().await.contains("too few to tell"));
}

#[tokio::test]
async fn doctor_tells_a_member_that_is_down_and_a_cluster_that_is_named_in_part() {
    let cluster = EtcdCluster::start();
    let find = async |url: &str, subject: &str, word: &str| {
        let findings = locks(url).await.diagnose().await.unwrap();
        let found =
            findings.iter().find(|finding| finding.subject == subject && finding.message.contains(word)).cloned();
        found.unwrap_or_else(|| panic!("no {word:?}: {findings:?}"))
    };
    let (all, one) = (cluster.url(), cluster.members()[0].url());
    assert_eq!(find(&all, "quorum", "3 members, of which 1 may be down").await.severity, Severity::Fine);
    assert_eq!(find(&all, "version", "etcd 3.").await.severity, Severity::Fine);
    let leader = cluster.members()[cluster.leader()].address();
    assert_eq!(find(&all, "leader", &leader).await.severity, Severity::Fine);
    assert_eq!(find(&one, "members", "names 1 of 3").await.severity, Severity::Warning);
    cluster.members()[2].kill();
    assert_eq!(find(&all, "members", &cluster.members()[2].address()).await.severity, Severity::Problem);
    cluster.members()[1].kill();
    eventually_async("the last one knows no leader", SOON, async || {
        let findings = locks(&one).await.diagnose().await.unwrap();
        findings.iter().any(|finding| finding.subject == "leader" && finding.severity == Severity::Problem)
    })
    .await;
    let error = locks(&all).await.lock("job").try_acquire().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TimedOut), "{error}");
}
