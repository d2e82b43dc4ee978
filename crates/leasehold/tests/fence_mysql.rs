//! Fences in transactions of sqlx, beside a real MariaDB server: who gets through, who doesn't, and what is held up
//! meanwhile.
#![cfg(feature = "fence-sqlx-mysql")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use leasehold::fence::sqlx_mysql::{CREATE_FENCES, FENCE, fenced, register_fence};
use leasehold::stores::Memory;
use leasehold::stores::mysql::MySql;
use leasehold::validity::{Clock, Moment};
use leasehold::{ErrorKind, FencingToken, Locks, Outcome, Revoke, Store};
use leasehold_testkit::servers::MariaDb;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{Connection, MySqlConnection};

mod claims;
use claims::{TTL, acquired};

const LEVELS: [&str; 3] = ["read committed", "repeatable read", "serializable"];

async fn is_held(locks: &Locks) -> bool {
    matches!(locks.lock("job").try_acquire().await.unwrap(), Outcome::Contended(_))
}

/// The job's own connection.
async fn job(server: &MariaDb, level: &str) -> MySqlConnection {
    let options = MySqlConnectOptions::new()
        .host("127.0.0.1")
        .port(server.port())
        .username("jobs")
        .password("hunter2")
        .database("jobs");
    let mut jobs = MySqlConnection::connect_with(&options).await.unwrap();
    sqlx::raw_sql("create table if not exists report(token bigint)").execute(&mut jobs).await.unwrap();
    let level = sqlx::AssertSqlSafe(format!("set session transaction isolation level {level}"));
    sqlx::raw_sql(level).execute(&mut jobs).await.unwrap();
    jobs
}

async fn write(tx: &mut MySqlConnection, token: FencingToken) {
    let token = i64::try_from(token.number()).unwrap();
    sqlx::query("insert into report values(?)").bind(token).execute(tx).await.unwrap();
}

/// A client that is paused: its clock stands still, so it renews nothing and believes in its lease for ever.
fn paused(server: &MariaDb) -> Locks {
    Locks::builder().simulated(Arc::new(Stopped)).over(Arc::new(MySql::open(&server.url()).unwrap()))
}

#[derive(Debug)]
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Moment {
        Moment::from_nanos(1 << 40)
    }

    fn sleep_until(&self, _at: Moment) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn an_open_fence_keeps_others_out_and_renewals_going() {
    let server = MariaDb::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    for level in LEVELS {
        let mut jobs = job(&server, level).await;
        let guard = acquired(&locks.lock("job").ttl(TTL)).await;
        let token = guard.token();
        let mut tx = jobs.begin().await.unwrap();
        let fence = guard.fence(&mut tx).await.unwrap();
        write(&mut tx, token).await;
        tokio::time::sleep(TTL * 2).await;
        assert!(guard.is_valid() && guard.loss().is_none(), "{level}: {:?}", guard.loss());
        // Cut by an operator, it is free for all that the table of locks says.
        locks.revoke("job", Revoke::Now).await.unwrap();
        let began = Instant::now();
        assert!(is_held(&locks).await, "{level}: fenced");
        assert!(began.elapsed() < Duration::from_secs(1), "{level}: nobody waits for a fence");
        let other = acquired(&locks.lock("another job").ttl(TTL)).await;
        other.release().await.unwrap();
        fence.commit(tx).await.unwrap();
        let next = acquired(&locks.lock("job").ttl(TTL)).await;
        assert!(next.token() > token, "{level}");
        next.release().await.unwrap();
        drop(guard);
    }
    assert_eq!(server.sql("select count(*) from report"), "3");
}

#[tokio::test]
async fn a_stale_token_is_refused_also_by_an_old_snapshot() {
    let server = MariaDb::start();
    let others = Locks::connect(&server.url()).await.unwrap();
    for level in LEVELS {
        let mut jobs = job(&server, level).await;
        let locks = paused(&server);
        let guard = acquired(&locks.lock("job").ttl(TTL)).await;
        let mut tx = jobs.begin().await.unwrap();
        // It looks, and then it is paused until another one has the lock.
        sqlx::query("select count(*) from leasehold_schema").fetch_all(&mut *tx).await.unwrap();
        tokio::time::sleep(TTL + Duration::from_millis(200)).await;
        let next = acquired(&others.lock("job").ttl(TTL)).await;
        let error = guard.fence(&mut tx).await.map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Stale, "{level}: {error}");
        tx.rollback().await.unwrap();
        let mut tx = jobs.begin().await.unwrap();
        next.fence(&mut tx).await.unwrap().commit(tx).await.unwrap();
        next.release().await.unwrap();
    }
}

#[tokio::test]
async fn of_several_permits_each_holder_has_its_own_fence() {
    let server = MariaDb::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let (one, two) = (acquired(&locks.lock("pool").permits(2)).await, acquired(&locks.lock("pool").permits(2)).await);
    let (mut first, mut second) = (job(&server, LEVELS[0]).await, job(&server, LEVELS[0]).await);
    let (mut a, mut b) = (first.begin().await.unwrap(), second.begin().await.unwrap());
    let fence = one.fence(&mut a).await.unwrap();
    two.fence(&mut b).await.unwrap().commit(b).await.unwrap();
    two.release().await.unwrap();
    // The permit that is free and not fenced is given out.
    let third = acquired(&locks.lock("pool").permits(2)).await;
    fence.commit(a).await.unwrap();
    third.release().await.unwrap();
    one.release().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_fenced_is_refused_with_the_way_out() {
    let (server, other) = (MariaDb::start(), MariaDb::start());
    let mut jobs = job(&server, LEVELS[0]).await;
    let guard = acquired(&Locks::over(Arc::new(Memory::default())).lock("job")).await;
    let mut tx = jobs.begin().await.unwrap();
    let error = guard.fence(&mut tx).await.map(|_| ()).unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("register_fence"), "{error}");
    let guard = acquired(&Locks::connect(&other.url()).await.unwrap().lock("job")).await;
    for made in [false, true] {
        if made {
            MySql::open(&server.url()).unwrap().time().await.unwrap(); // Now there are tables here, too.
        }
        let error = guard.fence(&mut tx).await.map(|_| ()).unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("another server"), "{error}");
    }
    assert!(guard.is_valid(), "it was not asked for");
}

#[tokio::test]
async fn the_resource_refuses_older_tokens() {
    let server = MariaDb::start();
    let mut jobs = job(&server, LEVELS[1]).await;
    let token = FencingToken::new;
    let mut tx = jobs.begin().await.unwrap();
    let error = fenced(&mut tx, "report", token(41)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Misconfigured && error.to_string().contains("register_fence"), "{error}");
    tx.rollback().await.unwrap();
    register_fence(&mut jobs, "report", token(41)).await.unwrap();
    for _ in 0..2 {
        let mut tx = jobs.begin().await.unwrap();
        fenced(&mut tx, "report", token(41)).await.unwrap();
        write(&mut tx, token(41)).await;
        fenced(&mut tx, "report", token(41)).await.unwrap();
        tx.commit().await.unwrap();
    }
    register_fence(&mut jobs, "report", token(42)).await.unwrap();
    let mut tx = jobs.begin().await.unwrap();
    let error = fenced(&mut tx, "report", token(41)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Stale && error.to_string().contains("42"), "{error}");
    tx.rollback().await.unwrap();
    assert_eq!(register_fence(&mut jobs, "report", token(41)).await.unwrap_err().kind(), ErrorKind::Stale);
    register_fence(&mut jobs, "other", token(1)).await.unwrap();
    assert_eq!(server.sql("select count(*) from report"), "2");
}

#[tokio::test]
async fn the_public_statements_are_what_they_say() {
    let server = MariaDb::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let guard = acquired(&locks.lock("job")).await;
    let fence = |token| {
        let given = format!("set @n = 'default', @l = 'job', @t = {token}");
        server.sql(&format!("{given}; prepare f from '{FENCE}'; execute f using @n, @l, @t"))
    };
    assert_eq!((fence(guard.token().number()).as_str(), fence(1).as_str()), ("1", ""));
    server.sql(CREATE_FENCES);
}
