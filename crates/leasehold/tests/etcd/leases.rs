//! Leases that end, and for how long they are believed in.

#[cfg(feature = "fence-rusqlite")]
use leasehold::{
    Guard,
    fence::rusqlite::{fenced, register_fence},
};
use leasehold_testkit::Random;

use super::*;

/// A waiter that gives up at any instant around that at which its turn comes.
#[tokio::test]
async fn b08_cancelled_around_a_release_it_has_the_lock_or_leaves_no_key() {
    let server = Etcd::start();
    let (holder, waiter) = (locks(&server.url()).await, locks(&server.url()).await);
    let mut random = Random::new(8);
    let mut ends = [0; 2];
    for round in 0..150 {
        let before = acquired(&holder.lock("job").ttl(TTL)).await;
        let lock = waiter.lock("job").ttl(TTL);
        let [release_at, give_up_at] = [(); 2].map(|()| Duration::from_micros(random.below(20_000) as u64));
        let release = async {
            tokio::time::sleep(release_at).await;
            before.release().await.unwrap();
        };
        let (got, ()) = tokio::join!(tokio::time::timeout(give_up_at, lock.acquire()), release);
        ends[usize::from(got.is_ok())] += 1;
        if let Ok(outcome) = got {
            let guard = outcome.unwrap().guard().expect("it waits for ever");
            let held = held(&holder, "job").await.expect("its key is there");
            assert!(held.holder == Some(guard.holder()) && !held.remaining.is_zero(), "round {round}: {held:?}");
            assert!(guard.is_valid(), "round {round}");
            guard.release().await.unwrap();
        }
        eventually_async("no key is left", SOON, async || server.keys("default/job/").is_empty()).await;
    }
    assert!(ends.iter().all(|count| *count > 0), "given up, got: {ends:?}");
}

#[tokio::test]
async fn g02_a_waiter_whose_lease_is_gone_stands_in_line_again() {
    let server = Etcd::start();
    let (holder, waiter) = (locks(&server.url()).await, locks(&server.url()).await);
    let guard = acquired(&holder.lock("job").ttl(Duration::from_secs(60))).await;
    let lock = waiter.lock("job");
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() });
    waits(&holder, "job", 1).await;
    let place =
        server.keys("default/job/").into_iter().find(|key| !key.ends_with(&guard.holder().to_string())).unwrap();
    let said = server.command(&["get", &place, "--write-out=fields"]);
    let lease = said.lines().find_map(|line| line.strip_prefix("\"Lease\" : ")).unwrap();
    server.command(&["lease", "revoke", &format!("{:x}", lease.parse::<u64>().unwrap())]);
    waits(&holder, "job", 1).await;
    guard.release().await.unwrap();
    drop(tokio::time::timeout(SOON, waiting).await.expect("its turn came").unwrap());
}

#[tokio::test]
async fn g03_keep_alives_that_are_swallowed_are_a_loss_in_time() {
    let server = Etcd::start();
    let proxy = Proxy::to(server.address());
    let (ours, others) = (locks(&proxy.url(&server.url())).await, locks(&server.url()).await);
    let guard = acquired(&ours.lock("job").ttl(TTL)).await;
    proxy.blackhole(Direction::ToServer); // Accepted, and never executed.
    let reason = tokio::time::timeout(TTL, guard.lost()).await.expect("told before the lease is over");
    assert!(matches!(reason, LossReason::Unreachable(_) | LossReason::Expired), "{reason:?}");
    let lock = others.lock("job");
    let next = tokio::time::timeout(SOON, lock.acquire()).await.expect("it ends").unwrap().guard().unwrap();
    assert!(!guard.is_valid() && next.token() > guard.token());
}

#[tokio::test]
async fn g03_a_lease_that_ended_is_a_loss_though_its_answer_is_no_error() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    for lease in server.command(&["lease", "list"]).lines().skip(1) {
        server.command(&["lease", "revoke", lease]);
    }
    assert_eq!(tokio::time::timeout(TTL, guard.lost()).await.expect("told"), LossReason::Gone);
    let next = acquired(&locks.lock("job").ttl(TTL)).await;
    assert!(next.token() > guard.token());
    next.release().await.unwrap();
}

#[tokio::test]
async fn g04_a_server_that_is_gone_for_good_is_a_loss_at_the_deadline() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    server.kill();
    let reason = tokio::time::timeout(TTL, guard.lost()).await.expect("told before the lease is over");
    assert!(matches!(reason, LossReason::Unreachable(_)), "{reason:?}");
    tokio::time::sleep(TTL / 2).await;
    assert!(!guard.is_valid());
}

#[tokio::test]
async fn c05_a_server_that_says_nothing_is_a_loss_in_time() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    server.pause();
    let reason = tokio::time::timeout(TTL, guard.lost()).await.expect("told before the lease is over");
    assert!(matches!(reason, LossReason::Unreachable(_) | LossReason::Expired), "{reason:?}");
    server.resume();
}

#[tokio::test]
async fn g10_ttls_that_the_server_can_not_keep_are_refused_and_parts_of_seconds_are_whole_ones() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    for ttl in [300, 1500, 1999] {
        let error = locks.lock("job").ttl(Duration::from_millis(ttl)).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("2s"), "{error}");
    }
    let guard = acquired(&locks.lock("job").ttl(Duration::from_millis(2500))).await;
    assert!(guard.remaining() <= Duration::from_millis(2500));
    let other = leasehold::stores::open(&server.url()).unwrap();
    let told = other.inspect(guard.name()).await.unwrap().unwrap();
    assert!(told.remaining <= Duration::from_millis(3000), "{told:?}");
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(guard.is_valid(), "{:?}", guard.loss());
}

/// Both write to one table, each with its token; the one that was cut off writes on, late.
#[cfg(feature = "fence-rusqlite")]
#[tokio::test]
async fn g12_what_a_holder_that_is_cut_off_writes_late_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let open = || rusqlite::Connection::open(file.path()).unwrap();
    open().execute_batch("create table results (said text)").unwrap();
    let begins = |guard: &Guard| register_fence(&open(), "results", guard.token()).unwrap();
    let writes = |guard: &Guard, said: &str| -> leasehold::Result<()> {
        let mut db = open();
        let tx = db.transaction().unwrap();
        tx.execute("insert into results values (?1)", [said]).unwrap();
        fenced(&tx, "results", guard.token())?;
        tx.commit().unwrap();
        Ok(())
    };
    let proxied = Proxied::start();
    let (ours, others) = (locks(&proxied.url()).await, locks(&proxied.cluster.url()).await);
    let guard = acquired(&ours.lock("job").ttl(TTL)).await;
    begins(&guard);
    writes(&guard, "the first").unwrap();
    for proxy in &proxied.proxies {
        proxy.blackhole(Direction::ToServer);
        proxy.blackhole(Direction::ToClient);
    }
    let lock = others.lock("job");
    let next = tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() });
    tokio::time::timeout(TTL, guard.lost()).await.expect("told before the lease is over");
    let next = tokio::time::timeout(SOON, next).await.expect("it ends").unwrap();
    assert!(!guard.is_valid(), "never two at a time");
    begins(&next);
    assert_eq!(writes(&guard, "the first, late").unwrap_err().kind(), ErrorKind::Stale);
    writes(&next, "the next").unwrap();
    let mut written = open();
    let written = written.transaction().unwrap();
    let mut said = written.prepare("select said from results order by rowid").unwrap();
    let said: Vec<String> = said.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(said, ["the first", "the next"]);
}

/// A renewal may be confirmed in between the look at the key and its change.
#[tokio::test]
async fn what_is_revoked_lasts_as_long_as_what_was_renewed_just_before() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job").ttl(Duration::from_secs(10))).await;
    locks.revoke("job", Revoke::Gently).await.unwrap();
    let said = server.command(&["get", &server.keys("").remove(0), "--write-out=fields"]);
    let lease: i64 = said.lines().find_map(|line| line.strip_prefix("\"Lease\" : ")).unwrap().parse().unwrap();
    let said = server.command(&["lease", "timetolive", &format!("{lease:x}")]);
    assert!(said.contains("granted with TTL(15s)"), "{said}");
    drop(guard);
}

#[tokio::test]
async fn ten_thousand_leases_are_renewed_by_a_hundred_requests() {
    let server = Etcd::start();
    let store = leasehold::stores::open(&server.url()).unwrap();
    let ttl = Duration::from_secs(60);
    let claims: Vec<_> = (0..10_000)
        .map(|n| Claim::new(LockName::new(&format!("job {n}")).unwrap(), HolderId::fresh(), "test".into(), ttl))
        .collect();
    for claims in claims.chunks(250) {
        for attempt in join_all(claims.iter().map(|claim| store.try_acquire(claim))).await {
            assert!(matches!(attempt.unwrap(), Attempt::Granted(_)));
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let count = || server.answered("Txn") + server.answered("LeaseKeepAlive") + server.answered("LeaseTimeToLive");
    let before = count();
    let leases: Vec<_> =
        claims.iter().map(|claim| (LeaseKey { name: claim.name.clone(), holder: claim.holder }, ttl)).collect();
    let batches = join_all(leases.chunks(100).map(|batch| store.renew(batch))).await;
    assert!(batches.into_iter().flatten().all(|answer| answer.unwrap() == Renewal::Renewed));
    let requests = count() - before;
    assert!(requests <= 100, "{requests}");
    assert!(requests >= 80, "all keys were looked at: {requests}");
}

#[tokio::test]
async fn a_key_that_is_renewed_no_more_ends_though_its_lease_is_kept() {
    let server = Etcd::start();
    let (store, other) =
        (leasehold::stores::open(&server.url()).unwrap(), leasehold::stores::open(&server.url()).unwrap());
    let claim = |name: &str| Claim::new(LockName::new(name).unwrap(), HolderId::fresh(), "test".into(), TTL);
    let (dead, live) = (claim("dead"), claim("live"));
    for claim in [&dead, &live] {
        assert!(matches!(store.try_acquire(claim).await.unwrap(), Attempt::Granted(_)));
    }
    let began = Instant::now();
    let key = LeaseKey { name: live.name.clone(), holder: live.holder };
    loop {
        assert_eq!(store.renew(&[(key.clone(), TTL)]).await.remove(0).unwrap(), Renewal::Renewed);
        if other.inspect(&dead.name).await.unwrap().is_none() {
            break;
        }
        assert!(began.elapsed() < TTL * 3, "it is there after {:?}", began.elapsed());
        tokio::time::sleep(TTL / 6).await;
    }
    assert!(began.elapsed() >= leasehold::validity::of(TTL), "not before its time: {:?}", began.elapsed());
}

#[tokio::test]
async fn a_minimum_hold_lasts_though_nobody_heard_that_it_began() {
    let server = Etcd::start();
    let proxy = Proxy::to(server.address());
    let store = leasehold::stores::open(&proxy.url(&server.url())).unwrap();
    let ((live, live_key), (kept, kept_key)) = (claimed("live"), claimed("kept-job"));
    for claim in [&live, &kept] {
        assert!(matches!(store.try_acquire(claim).await.unwrap(), Attempt::Granted(_)));
    }
    let how = Ended { keep_for: Duration::from_secs(60), ..Ended::default() };
    // Another frame that etcd sends just then is an answer to the proxy, too: the request may be lost instead.
    while !server.command(&["get", "--prefix", "--print-value-only", "default/kept-job/"]).contains("/1 kept ") {
        proxy.drop_reply_after_request(b"/1 kept ", Then::Cut);
        let error = store.release(&kept_key, how).await.unwrap_err();
        assert_eq!(error.applied(), Applied::Maybe, "{error}");
    }
    renewed_until(&*store, &live_key, || true).await;
    assert_eq!(server.keys("default/kept-job/").len(), 1);
    let (other, _) = claimed("kept-job");
    let attempt = store.try_acquire(&other).await.unwrap();
    assert!(matches!(attempt, Attempt::Held(_)), "{attempt:?}");
}
