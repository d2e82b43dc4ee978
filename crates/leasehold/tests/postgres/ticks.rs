//! Ticks and keys, and for how long they are remembered.

use super::*;

#[tokio::test]
async fn ticks_are_on_the_disk_though_other_commits_need_not_be() {
    let server = Postgres::options()
        .durable()
        .config("wal_writer_delay", "10s")
        .config("wal_writer_flush_after", "0")
        .config("synchronous_commit", "off")
        .start();
    server.sql("select 1");
    let store = store(&server.url());
    let (plain, first) = (claim("plain"), tick_claim("tick", 1));
    token(&*store, &first).await;
    let done = Ended { verdict: Some(Verdict::Done(first.due.unwrap().tick)), ..Ended::default() };
    let second = tick_claim("open", 1);
    token(&*store, &second).await;
    assert_eq!(store.release(&lease(&first), done).await.unwrap(), Release::Released);
    // A log page that is full is written at once, with what is behind it: this begins a new one.
    server.sql("select pg_switch_wal()");
    token(&*store, &plain).await;
    server.kill();
    server.restart();
    reconnected(&[&*store]).await;
    assert_eq!(server.sql("select count(*) from leasehold_locks where name = 'plain'"), "0", "a grant that was not");
    assert!(matches!(store.try_acquire(&tick_claim("tick", 1)).await.unwrap(), Attempt::NotDue(_)));
    assert_eq!(server.sql("select count(*) from leasehold_ticks where name = 'tick'"), "0");
    assert!(is_contended_for(&*store, &tick_claim("open", 1)).await);
}

#[tokio::test]
async fn names_that_were_used_once_leave_nothing() {
    let server = Postgres::start();
    let store = store(&server.url());
    for nth in 0..20 {
        let key_of_work = Claim {
            due: Some(Due { tick: Tick::ONLY, retry_failed: false, keep: Duration::from_secs(60) }),
            ..claim(&format!("old {nth}"))
        };
        token(&*store, &key_of_work).await;
        let done = Ended { verdict: Some(Verdict::Done(Tick::ONLY)), ..Ended::default() };
        assert_eq!(store.release(&lease(&key_of_work), done).await.unwrap(), Release::Released);
    }
    let held = claim("old and held");
    token(&*store, &held).await;
    let days = server.sql("select distinct (forget_at - granted) / 86400000000 from leasehold_locks");
    assert_eq!(days, "9");
    server.sql("update leasehold_locks set forget_at = 1");
    for nth in 0..6 {
        token(&*store, &claim(&format!("new {nth}"))).await;
    }
    assert_eq!(server.sql("select count(*) from leasehold_locks where name like 'old%'"), "1");
    assert_eq!(server.sql("select count(*) from leasehold_ticks"), "0");
    assert!(is_contended(&*store, "old and held").await);
}

#[tokio::test]
async fn a_key_is_forgotten_when_its_time_is_over_and_not_before() {
    let server = Postgres::start();
    let store = store(&server.url());
    let keep = Duration::from_secs(1);
    let of_work = || {
        let due = Some(Due { tick: Tick::ONLY, retry_failed: false, keep });
        Claim { due, ..claim("invoice") }
    };
    let first = of_work();
    let before = token(&*store, &first).await;
    tokio::time::sleep(keep + Duration::from_millis(200)).await;
    assert!(is_contended_for(&*store, &of_work()).await, "not while somebody has it");
    let done = Ended { verdict: Some(Verdict::Done(Tick::ONLY)), ..Ended::default() };
    assert_eq!(store.release(&lease(&first), done).await.unwrap(), Release::Released);
    assert!(matches!(store.try_acquire(&of_work()).await.unwrap(), Attempt::NotDue(_)), "from its end on");
    tokio::time::sleep(keep + Duration::from_millis(200)).await;
    let Attempt::Granted(again) = store.try_acquire(&of_work()).await.unwrap() else { panic!("it is forgotten") };
    assert!(again.token.number() > before && again.attempt == 1, "{again:?}");
}

#[tokio::test]
async fn a_tick_that_is_given_back_is_due_to_whoever_looks_then() {
    let server = Arc::new(Postgres::start());
    let (ours, theirs) = (store(&server.url()), store(&server.url()));
    let due = |claim: Claim| Claim {
        due: Some(Due { tick: Tick::ONLY, retry_failed: false, keep: Duration::from_secs(3600) }),
        ..claim
    };
    let (first, second) = (due(claim("job")), due(claim("job")));
    token(&*ours, &first).await;
    let how = Ended { verdict: Some(Verdict::NotStarted), ..Ended::default() };
    assert_eq!(ours.release(&lease(&first), how).await.unwrap(), Release::Released);
    token(&*theirs, &second).await;
}

#[tokio::test]
async fn who_only_leaves_prolongs_no_key_and_long_work_is_remembered_as_long_as_its_key() {
    let server = Postgres::start();
    let store = store(&server.url());
    let keep = Duration::from_secs(30 * 86400);
    let job = Claim { due: Some(Due { tick: Tick::ONLY, retry_failed: false, keep }), ..claim("job") };
    token(&*store, &job).await;
    // As if it had been running for three days.
    let three_days = 3 * 86400 * 1_000_000_i64;
    server.sql(&format!(
        "update leasehold_locks set forget_at = forget_at - {three_days}, key_ends = key_ends - {three_days}"
    ));
    let how = Ended { verdict: Some(Verdict::Done(Tick::ONLY)), ..Ended::default() };
    assert_eq!(store.release(&lease(&job), how).await.unwrap(), Release::Released);
    assert_eq!(server.sql("select forget_at > key_ends from leasehold_locks"), "t");
    let ends = server.sql("select key_ends from leasehold_locks");
    store.leave(&lease(&claim("job"))).await.unwrap();
    assert_eq!(server.sql("select key_ends from leasehold_locks"), ends);
}
