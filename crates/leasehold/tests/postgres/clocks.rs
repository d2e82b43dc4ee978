//! Whose clock counts.

use super::*;

#[tokio::test]
async fn l01_only_the_servers_clock_counts() {
    let server = Postgres::start();
    let now = || server.sql("select (extract(epoch from clock_timestamp()) * 1000000)::bigint").parse::<i64>().unwrap();
    let before = now();
    token(&*store(&server.url()), &claim("job")).await;
    let row = server.sql("select granted, expires - granted from leasehold_locks");
    let (granted, ttl) = row.split_once('|').unwrap();
    assert!((before..=now()).contains(&granted.parse::<i64>().unwrap()), "{row}");
    assert_eq!(ttl.parse::<u128>().unwrap(), LONG.as_micros());
    // Nor does the time at which the statement or its transaction began: see l10.
    let types = server.sql(
        "select distinct data_type from information_schema.columns \
         where table_name like 'leasehold%' and data_type like '%time%'",
    );
    assert_eq!(types, "", "nothing that a time zone has a say in");
}

#[tokio::test]
async fn l02_time_zones_have_no_say() {
    let server = Postgres::options().config("timezone", "Asia/Seoul").start();
    let (seoul, long) = (store(&server.url()), Duration::from_secs(3600));
    let held = Claim { ttl: long, ..claim("a") };
    token(&*seoul, &held).await;
    server.sql("alter database postgres set timezone = 'America/New_York'");
    let new_york = store(&server.url());
    assert!(is_contended(&*new_york, "a").await);
    let left = new_york.inspect(&held.name).await.unwrap().unwrap().remaining;
    assert!(left <= long && left > long - SOON, "{left:?}");
    token(&*new_york, &Claim { ttl: long, ..claim("b") }).await;
    assert!(is_contended(&*seoul, "b").await);
    server.sql("alter database postgres reset timezone");
    server.restart();
    reconnected(&[&*seoul, &*new_york]).await;
    assert!(is_contended(&*seoul, "a").await && is_contended(&*new_york, "b").await);
}

#[tokio::test]
async fn l10_the_clock_is_read_when_the_row_is_had() {
    let server = Arc::new(Postgres::start());
    let store = store(&server.url());
    let first = claim("job");
    token(&*store, &first).await;
    assert_eq!(store.release(&lease(&first), Ended::default()).await.unwrap(), Release::Released);
    let blocker =
        meanwhile(&server, "begin; select 1 from leasehold_locks for no key update; select pg_sleep(2.8); commit");
    is_asleep(&server).await;
    let (began, second) = (Instant::now(), claim("job"));
    token(&*store, &second).await;
    assert!(began.elapsed() > Duration::from_secs(1), "it waited for the row");
    let left = store.inspect(&second.name).await.unwrap().unwrap().remaining;
    assert!(left > LONG - Duration::from_secs(1), "the whole TTL from then on: {left:?}");
    blocker.await.unwrap();
}

#[tokio::test]
async fn a_clock_that_was_set_back_grants_nothing() {
    let server = Postgres::start();
    let store = store(&server.url());
    let first = claim("job");
    token(&*store, &first).await;
    assert_eq!(store.release(&lease(&first), Ended::default()).await.unwrap(), Release::Released);
    let from_then = |ms: u64| server.sql(&format!("update leasehold_locks set token = token + ({ms}::bigint << 4)"));
    from_then(3_500_000);
    let error = token(&*store, &claim("job")).await;
    assert!(error > 0, "behind by less than an hour");
    server.sql("update leasehold_locks set holder = null, expires = 0");
    from_then(3_700_000);
    let error = store.try_acquire(&claim("job")).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
    assert_eq!(server.errors(), Vec::<String>::new());
}
