//! Fences in transactions of sqlx, beside a real MariaDB server: who gets through, who doesn't, and what is held up
//! meanwhile.
#![cfg(feature = "fence-sqlx-mysql")]

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::BoxFuture;
use leasehold::fence::sqlx_mysql::{COMPLETE, CREATE_FENCES, FENCE, fenced, register_fence};
use leasehold::stores::Memory;
use leasehold::stores::mysql::MySql;
use leasehold::validity::{Clock, Moment};
use leasehold::{ErrorKind, FencingToken, Lock, Locks, NotDue, Outcome, Released, Revoke, Store, Tick};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::servers::MariaDb;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{Connection, MySqlConnection};

mod claims;
use claims::{SOON, TTL, acquired};

const SECOND: Duration = Duration::from_secs(1);

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

// Exactly once.

/// The same for the whole test.
fn tick() -> Tick {
    static TICK: LazyLock<i64> = LazyLock::new(|| {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        i64::try_from(since_1970.as_millis()).unwrap()
    });
    Tick::from_unix_millis(*TICK).unwrap()
}

fn next_tick() -> Tick {
    Tick::from_unix_millis(tick().as_unix_millis() + 1000).unwrap()
}

/// A claim for one tick, which is to be tried again after a failure.
fn tonight(locks: &Locks) -> Lock {
    locks.lock("job").tick(tick()).retry_failed(true)
}

async fn is_done(lock: &Lock) -> bool {
    matches!(lock.try_acquire().await.unwrap(), Outcome::NotDue(NotDue::Claimed { unfinished: false, .. }))
}

async fn locks_of(server: &MariaDb) -> Locks {
    Locks::connect(&server.url()).await.unwrap()
}

fn kind<T>(done: leasehold::Result<T>) -> Option<ErrorKind> {
    done.err().map(|error| error.kind())
}

#[tokio::test]
async fn what_was_completed_in_a_transaction_is_done_with_its_commit() {
    for level in LEVELS {
        let server = MariaDb::start();
        let (locks, others) = (locks_of(&server).await, locks_of(&server).await);
        let mut jobs = job(&server, level).await;
        let guard = acquired(&tonight(&locks)).await;
        assert!(!guard.may_be_complete());

        let mut tx = jobs.begin().await.unwrap();
        drop(guard.complete_in(&mut tx).await.unwrap());
        write(&mut tx, guard.token()).await;
        tx.rollback().await.unwrap();
        assert!(guard.may_be_complete(), "who knows");
        assert!(matches!(tonight(&others).try_acquire().await.unwrap(), Outcome::Contended(_)), "nothing has happened");

        let mut tx = jobs.begin().await.unwrap();
        let completed = guard.complete_in(&mut tx).await.unwrap();
        write(&mut tx, guard.token()).await;
        completed.commit(tx).await.unwrap();
        assert!(is_done(&tonight(&others)).await, "although nobody has said so by a release");

        let mut tx = jobs.begin().await.unwrap();
        assert_eq!(kind(guard.complete_in(&mut tx).await), Some(ErrorKind::Stale), "{level}");
        tx.rollback().await.unwrap();
        assert!(guard.is_valid(), "the lock is ours still");
        let released = if level == LEVELS[0] { guard.complete().await } else { guard.release().await };
        assert_eq!(released.unwrap(), Released::InTime);
        assert!(is_done(&tonight(&others)).await);
        assert_eq!(server.sql("select count(*) from report"), "1");
    }
}

#[tokio::test]
async fn what_was_rolled_back_is_begun_again_and_a_key_is_done_once() {
    let server = MariaDb::start();
    let (locks, mut jobs) = (locks_of(&server).await, job(&server, LEVELS[1]).await);
    let key = locks.once("invoice-1", Duration::from_secs(3600)).retry_failed(true);
    let guard = acquired(&key).await;
    let mut tx = jobs.begin().await.unwrap();
    drop(guard.complete_in(&mut tx).await.unwrap());
    tx.rollback().await.unwrap();
    guard.release().await.unwrap();
    let guard = acquired(&key).await;
    assert_eq!(guard.attempt(), 2);
    let mut tx = jobs.begin().await.unwrap();
    guard.complete_in(&mut tx).await.unwrap().commit(tx).await.unwrap();
    guard.release().await.unwrap();
    assert!(is_done(&key).await);
}

#[tokio::test]
async fn whoever_was_replaced_completes_nothing() {
    for level in LEVELS {
        let server = MariaDb::start();
        let (stale, fresh) = (paused(&server), locks_of(&server).await);
        fresh.time().await.unwrap(); // It makes the tables.
        let mut jobs = job(&server, level).await;
        let guard = acquired(&tonight(&stale).ttl(TTL)).await;
        let mut tx = jobs.begin().await.unwrap();
        sqlx::query("select count(*) from report").fetch_all(&mut *tx).await.unwrap();
        let mut next = None;
        eventually_async("the lease is over", SOON, async || {
            next = tonight(&fresh).try_acquire().await.unwrap().guard();
            next.is_some()
        })
        .await;
        let next = next.unwrap();
        assert_eq!(kind(guard.complete_in(&mut tx).await), Some(ErrorKind::Stale), "{level}");
        tx.rollback().await.unwrap();
        let mut tx = jobs.begin().await.unwrap();
        next.complete_in(&mut tx).await.unwrap().commit(tx).await.unwrap();
        next.release().await.unwrap();
        assert!(is_done(&tonight(&fresh)).await);
    }
}

/// How many transactions wait for a lock of another. What the server shows is renewed only if nobody has looked for 0.1 s.
fn waiting(server: &MariaDb) -> String {
    server.sql("do sleep(0.15); select count(*) from information_schema.innodb_trx where trx_state = 'LOCK WAIT'")
}

/// Beside it a permit is free, so that its fence keeps nobody from the name: who asks for the tick is told that it runs, at once, and
/// others of the name go on.
#[tokio::test]
async fn who_takes_a_tick_over_is_held_off_by_the_transaction_that_completes_it_and_waits_for_nothing() {
    for commits in [true, false] {
        let server = MariaDb::start();
        let (stale, fresh) = (paused(&server), locks_of(&server).await);
        fresh.time().await.unwrap(); // It makes the tables.
        let mut jobs = job(&server, LEVELS[0]).await;
        let guard = acquired(&tonight(&stale).permits(3).ttl(TTL)).await;
        let mut tx = jobs.begin().await.unwrap();
        let completed = guard.complete_in(&mut tx).await.unwrap();
        write(&mut tx, guard.token()).await;
        eventually_async("the lease is over", SOON, async || fresh.inspect("job").await.unwrap().is_none()).await;
        let lock = tonight(&fresh).permits(3);
        let sibling = acquired(&fresh.lock("job").permits(3).tick(next_tick()).retry_failed(true)).await;
        let began = Instant::now();
        for _ in 0..20 {
            assert!(matches!(lock.try_acquire().await.unwrap(), Outcome::Contended(_)));
        }
        assert!(began.elapsed() < SECOND * 2, "it waited");
        sibling.complete().await.unwrap();
        if commits {
            completed.commit(tx).await.unwrap();
            assert!(is_done(&lock).await);
        } else {
            drop(completed);
            tx.rollback().await.unwrap();
            assert_eq!(acquired(&lock).await.attempt(), 2, "it was not done");
        }
    }
}

/// A key whose time is over counts as never claimed, unless it is being completed.
#[tokio::test]
async fn a_key_whose_time_is_over_is_held_while_a_transaction_completes_it() {
    let server = MariaDb::start();
    let (stale, fresh) = (paused(&server), locks_of(&server).await);
    fresh.time().await.unwrap(); // It makes the tables.
    let mut jobs = job(&server, LEVELS[0]).await;
    let key = |locks: &Locks| locks.once("invoice", SECOND * 3600).retry_failed(true).ttl(TTL);
    let guard = acquired(&key(&stale)).await;
    let mut tx = jobs.begin().await.unwrap();
    let completed = guard.complete_in(&mut tx).await.unwrap();
    server.sql("update leasehold_names set mark_until = 1; update leasehold_locks set expires = 1");
    let began = Instant::now();
    match key(&fresh).try_acquire().await {
        Ok(outcome) => assert!(outcome.guard().is_none(), "it is open"),
        Err(error) => assert!(error.is_transient(), "{error}"),
    }
    assert!(began.elapsed() < SECOND * 2, "it waited");
    completed.commit(tx).await.unwrap();
    assert_eq!(acquired(&key(&fresh)).await.attempt(), 1);
}

/// Its renewals go over the same session as releases that its keeper asks for again.
#[tokio::test]
async fn a_release_that_has_to_wait_for_a_transaction_stands_in_nobodys_way() {
    let server = MariaDb::start();
    let (locks, others) = (locks_of(&server).await, locks_of(&server).await);
    others.time().await.unwrap(); // It makes the tables.
    let mut jobs = job(&server, LEVELS[0]).await;
    let sibling = acquired(&locks.lock("sibling").ttl(TTL)).await;
    for (lock, is_once) in [(tonight(&locks), false), (locks.lock("once").tick(tick()), true)] {
        let guard = acquired(&lock.ttl(TTL)).await;
        let mut tx = jobs.begin().await.unwrap();
        drop(guard.complete_in(&mut tx).await.unwrap());
        let began = Instant::now();
        let released = if is_once { guard.release().await } else { guard.complete().await };
        let error = released.unwrap_err();
        assert!(error.is_transient(), "{error}");
        assert!(began.elapsed() < SECOND * 2, "it waited");
        let end = Instant::now() + TTL * 2;
        while Instant::now() < end {
            assert_eq!(waiting(&server), "0", "the keeper asks again, and waits for nothing");
        }
        assert!(sibling.is_valid() && sibling.loss().is_none(), "renewed all the while");
        tx.commit().await.unwrap();
    }
}

#[tokio::test]
async fn a_transaction_waits_for_one_that_completes_the_same_tick() {
    for level in LEVELS {
        for commits in [true, false] {
            let server = MariaDb::start();
            let locks = locks_of(&server).await;
            let (mut first, mut second) = (job(&server, level).await, job(&server, level).await);
            let guard = acquired(&tonight(&locks)).await;
            let mut tx = first.begin().await.unwrap();
            drop(guard.complete_in(&mut tx).await.unwrap());
            let again = async {
                let mut tx = second.begin().await.unwrap();
                let again = kind(guard.complete_in(&mut tx).await);
                tx.rollback().await.unwrap();
                again
            };
            let end = async {
                eventually_async("the other waits", SOON, async || waiting(&server) == "1").await;
                if commits { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
            };
            let (again, ()) = tokio::join!(again, end);
            assert_eq!(again, commits.then_some(ErrorKind::Stale), "{level}");
            assert!(guard.is_valid());
        }
    }
}

#[tokio::test]
async fn an_open_completion_holds_up_no_more_than_a_fence() {
    for level in LEVELS {
        let server = MariaDb::start();
        let (locks, others) = (locks_of(&server).await, locks_of(&server).await);
        others.time().await.unwrap(); // It makes the tables.
        let mut jobs = job(&server, level).await;
        let guard = acquired(&tonight(&locks).ttl(TTL)).await;
        let mut tx = jobs.begin().await.unwrap();
        let completed = guard.complete_in(&mut tx).await.unwrap();
        let end = Instant::now() + TTL * 2;
        while Instant::now() < end {
            let began = Instant::now();
            let Outcome::Contended(_) = tonight(&others).try_acquire().await.unwrap() else { panic!("it is open") };
            // Its neighbours: what is locked is one row.
            for name in ["jo", "job1", "jpb"] {
                acquired(&others.lock(name).tick(tick()).retry_failed(true)).await.release().await.unwrap();
            }
            assert!(began.elapsed() < SECOND * 3, "{level}: it waited");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(guard.is_valid() && guard.loss().is_none(), "renewed all the while");
        completed.commit(tx).await.unwrap();
        guard.release().await.unwrap();
    }
}

/// Its tick stays open, and so its release has nothing to wait for.
#[tokio::test]
async fn who_gives_up_waits_for_no_transaction_that_completes_its_tick() {
    let server = MariaDb::start();
    let (locks, mut jobs) = (locks_of(&server).await, job(&server, LEVELS[1]).await);
    let guard = acquired(&tonight(&locks)).await;
    let mut tx = jobs.begin().await.unwrap();
    drop(guard.complete_in(&mut tx).await.unwrap());
    let began = Instant::now();
    assert_eq!(guard.release().await.unwrap(), Released::InTime);
    assert!(began.elapsed() < SECOND * 2);
    assert!(matches!(tonight(&locks).try_acquire().await.unwrap(), Outcome::Contended(_)), "nobody is granted it");
    tx.commit().await.unwrap();
    assert!(is_done(&tonight(&locks)).await);
}

#[tokio::test]
async fn a_table_of_ticks_that_is_missing_is_named() {
    let server = MariaDb::start();
    let (locks, mut jobs) = (locks_of(&server).await, job(&server, LEVELS[0]).await);
    let guard = acquired(&tonight(&locks)).await;
    server.sql("drop table leasehold_ticks");
    let mut tx = jobs.begin().await.unwrap();
    let error = guard.complete_in(&mut tx).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("leasehold_ticks") && error.to_string().contains("migrate"), "{error}");
}

#[tokio::test]
async fn what_cannot_be_completed_is_told() {
    let (server, other) = (MariaDb::start(), MariaDb::start());
    MySql::open(&server.url()).unwrap().time().await.unwrap();
    let mut jobs = job(&server, LEVELS[0]).await;
    let memory = Locks::over(Arc::new(Memory::default()));
    let (here, elsewhere) = (locks_of(&server).await, locks_of(&other).await);
    for (lock, way_out) in [
        (tonight(&memory), "register_fence"),
        (tonight(&elsewhere), "another server"),
        (here.lock("job"), "Lock::tick"),
    ] {
        let guard = acquired(&lock).await;
        let mut tx = jobs.begin().await.unwrap();
        let error = guard.complete_in(&mut tx).await.map(|_| ()).unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(way_out), "{error}");
        tx.rollback().await.unwrap();
        assert!(guard.is_valid() && !guard.may_be_complete());
    }
}

#[tokio::test]
async fn the_statements_of_a_completion_are_for_any_client() {
    let server = MariaDb::start();
    let locks = locks_of(&server).await;
    let guard = acquired(&tonight(&locks)).await;
    let tick = tick().as_unix_millis();
    let complete = |holder: &str| {
        let given = format!("set @n = 'default', @l = 'job', @t = {tick}, @h = '{holder}'");
        server.sql(&format!("{given}; prepare c from '{COMPLETE}'; execute c using @n, @l, @t, @h; select row_count()"))
    };
    assert_eq!(complete("somebody else"), "0");
    assert_eq!(complete(&guard.holder().to_string()), "1");
    assert_eq!(complete(&guard.holder().to_string()), "0");
    assert!(is_done(&tonight(&locks)).await);
}

/// They keep their names, so what is there of an earlier version is taken away.
#[tokio::test]
async fn tables_of_an_earlier_version_learn_that_ticks_are_completed_in_transactions() {
    let server = MariaDb::start();
    locks_of(&server).await.time().await.unwrap();
    let changed = ["leasehold_v1_judge", "leasehold_v2_claim", "leasehold_v2_forget_key", "leasehold_v2_standing"];
    server.sql("create user least");
    for name in changed {
        server.sql(&format!("drop procedure {name}; create procedure {name}() sql security invoker do 0"));
        server.sql(&format!("grant execute on procedure jobs.{name} to least"));
    }
    server.sql("update leasehold_schema set version = 2");
    let locks = locks_of(&server).await;
    acquired(&tonight(&locks)).await.complete().await.unwrap();
    assert!(is_done(&tonight(&locks)).await);
    let texts = "select group_concat(routine_name order by 1) from information_schema.routines \
                 where routine_schema = 'jobs' and routine_definition like '%skip locked%' \
                 and routine_name in ('leasehold_v1_judge', 'leasehold_v2_claim', 'leasehold_v2_forget_key', 'leasehold_v2_standing')";
    assert_eq!(server.sql(texts), changed.join(","));
    let granted = "select count(*) from mysql.procs_priv where user = 'least'";
    assert_eq!(server.sql(granted), changed.len().to_string(), "who was allowed to execute them still is");
}
