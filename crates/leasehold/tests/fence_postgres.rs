//! Fences in transactions of tokio-postgres: who gets through, who doesn't, and what is held up meanwhile.
#![cfg(feature = "fence-tokio-postgres")]

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::BoxFuture;
use leasehold::fence::tokio_postgres::{COMPLETE, CREATE_FENCES, FENCE, fenced, register_fence};
use leasehold::stores::Memory;
use leasehold::validity::{Clock, Moment};
use leasehold::{ErrorKind, FencingToken, Lock, Locks, NotDue, Outcome, Released, Revoke, Store, Tick};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::servers::Postgres;
use tokio_postgres::{Client, IsolationLevel, NoTls, Transaction};

mod claims;
use claims::{SOON, TTL, acquired};

const LEVELS: [IsolationLevel; 3] =
    [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead, IsolationLevel::Serializable];

fn store(server: &Postgres) -> Arc<dyn Store> {
    leasehold::stores::open(&server.url()).unwrap()
}

/// A client that is paused: its clock stands still, so it renews nothing and believes in its lease for ever.
fn paused(server: &Postgres) -> Locks {
    Locks::builder().simulated(Arc::new(Stopped)).over(store(server))
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

/// The job's own connection.
async fn jobs(server: &Postgres) -> Client {
    let config = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", server.port());
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("create table if not exists writes(token bigint)").await.unwrap();
    client
}

async fn begun(jobs: &mut Client, level: IsolationLevel) -> Transaction<'_> {
    jobs.build_transaction().isolation_level(level).start().await.unwrap()
}

async fn write(tx: &Transaction<'_>, token: FencingToken) {
    let token = i64::try_from(token.number()).unwrap();
    tx.execute("insert into writes values ($1)", &[&token]).await.unwrap();
}

#[tokio::test]
async fn who_holds_the_lock_gets_through() {
    let server = Postgres::start();
    let (locks, mut jobs) = (Locks::over(store(&server)), jobs(&server).await);
    for level in LEVELS {
        let guard = acquired(&locks.lock("job")).await;
        let tx = begun(&mut jobs, level).await;
        let fence = guard.fence(&tx).await.unwrap();
        write(&tx, guard.token()).await;
        fence.commit(tx).await.unwrap();
        guard.release().await.unwrap();
    }
    assert_eq!(server.sql("select count(*) from writes"), "3");
}

#[tokio::test]
async fn whoever_was_replaced_during_a_pause_is_refused_at_every_level() {
    let server = Postgres::start();
    let mut jobs = jobs(&server).await;
    for level in LEVELS {
        // Before the transaction, and between its beginning (which fixes what it sees) and the fence.
        for begins_before in [false, true] {
            let (stale, fresh) = (paused(&server), Locks::over(store(&server)));
            let guard = acquired(&stale.lock("job").ttl(Duration::from_secs(1))).await;
            let tx = begun(&mut jobs, level).await;
            if begins_before {
                tx.query("select count(*) from writes", &[]).await.unwrap();
            }
            let mut next = None;
            eventually_async("the lease is over", SOON, async || {
                next = fresh.lock("job").try_acquire().await.unwrap().guard();
                next.is_some()
            })
            .await;
            let error = guard.fence(&tx).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Stale, "{level:?} {begins_before}: {error}");
            let sees_the_newest = matches!(level, IsolationLevel::ReadCommitted);
            assert_eq!(guard.is_valid(), !sees_the_newest, "what it sees may be from before our own grant, too");
            drop(tx);
            next.unwrap().release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_transaction_from_before_the_grant_is_refused_and_the_lock_stays() {
    let server = Postgres::start();
    let locks = Locks::over(store(&server));
    acquired(&locks.lock("job")).await.release().await.unwrap();
    let mut jobs = jobs(&server).await;
    let tx = begun(&mut jobs, IsolationLevel::RepeatableRead).await;
    tx.query("select count(*) from writes", &[]).await.unwrap();
    let guard = acquired(&locks.lock("job")).await;
    let error = guard.fence(&tx).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stale, "{error}");
    assert!(guard.is_valid() && guard.loss().is_none());
    drop(tx);
    let tx = begun(&mut jobs, IsolationLevel::RepeatableRead).await;
    guard.fence(&tx).await.unwrap().commit(tx).await.unwrap();
}

#[tokio::test]
async fn an_open_fence_keeps_the_next_one_out_and_holds_up_nothing_else() {
    let server = Postgres::start();
    let (stale, others) = (paused(&server), Locks::over(store(&server)));
    let mut jobs = jobs(&server).await;
    for level in LEVELS {
        let guard = acquired(&stale.lock("job").ttl(Duration::from_secs(1))).await;
        let tx = begun(&mut jobs, level).await;
        let fence = guard.fence(&tx).await.unwrap();
        let end = Instant::now() + Duration::from_millis(2500);
        while Instant::now() < end {
            let began = Instant::now();
            let Outcome::Contended(_) = others.lock("job").try_acquire().await.unwrap() else { panic!("{level:?}") };
            acquired(&others.lock("another")).await.release().await.unwrap();
            assert!(began.elapsed() < Duration::from_secs(1), "it waited for the fence");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        write(&tx, guard.token()).await;
        fence.commit(tx).await.unwrap();
        let next = acquired(&others.lock("job")).await;
        assert!(next.token() > guard.token());
        next.release().await.unwrap();
    }
}

#[tokio::test]
async fn an_open_fence_does_not_stall_renewals_nor_releases_nor_operators() {
    let server = Postgres::start();
    let (locks, others) = (Locks::over(store(&server)), Locks::over(store(&server)));
    let mut jobs = jobs(&server).await;
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    let tx = begun(&mut jobs, IsolationLevel::ReadCommitted).await;
    let fence = guard.fence(&tx).await.unwrap();
    tokio::time::sleep(TTL * 3 / 2).await;
    assert!(guard.is_valid(), "renewed all the while");
    let waiting = tokio::spawn({
        let lock = others.lock("job");
        async move { lock.acquire().await.unwrap().guard().unwrap().token() }
    });
    eventually_async("it waits", SOON, async || {
        locks.inspect("job").await.unwrap().is_some_and(|holding| holding.waiting == 1)
    })
    .await;
    locks.revoke("job", Revoke::Now).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!waiting.is_finished(), "nobody is granted it, nor handed it");
    fence.commit(tx).await.unwrap();
    let next = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
    assert!(next > guard.token());
    assert_eq!(server.errors(), Vec::<String>::new());
}

#[tokio::test]
async fn a_lock_in_another_store_or_database_is_told() {
    let server = Postgres::start();
    server.sql("create database elsewhere");
    let mut jobs = jobs(&server).await;
    let memory = Locks::over(Arc::new(Memory::default()));
    let elsewhere = format!("postgres://postgres@{}/elsewhere", server.address());
    for locks in [memory, Locks::connect(&elsewhere).await.unwrap()] {
        let guard = acquired(&locks.lock("job")).await;
        for there in [false, true] {
            if there {
                // Tables, but others.
                acquired(&Locks::over(store(&server)).lock("other")).await.release().await.unwrap();
            }
            let tx = begun(&mut jobs, IsolationLevel::ReadCommitted).await;
            let error = guard.fence(&tx).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(guard.is_valid());
        }
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn the_statement_is_for_any_client() {
    let server = Postgres::start();
    let (locks, jobs) = (Locks::over(store(&server)), jobs(&server).await);
    let guard = acquired(&locks.lock("job")).await;
    let token = i64::try_from(guard.token().number()).unwrap();
    let stands = async || jobs.query(FENCE, &[&"default", &"job", &token]).await.unwrap().len();
    assert_eq!(stands().await, 1);
    guard.release().await.unwrap();
    assert_eq!(stands().await, 0);
}

#[tokio::test]
async fn a_registered_fence_refuses_smaller_tokens() {
    let server = Postgres::start();
    let mut jobs = jobs(&server).await;
    let (old, new) = (FencingToken::new(41), FencingToken::new(42));
    let tx = jobs.transaction().await.unwrap();
    assert_eq!(fenced(&tx, "report", old).await.unwrap_err().kind(), ErrorKind::Misconfigured);
    drop(tx);
    register_fence(&jobs, "report", old).await.unwrap();
    jobs.batch_execute(CREATE_FENCES).await.unwrap();
    for level in LEVELS {
        let tx = begun(&mut jobs, level).await;
        fenced(&tx, "report", old).await.unwrap();
        fenced(&tx, "report", old).await.unwrap();
        write(&tx, old).await;
        tx.commit().await.unwrap();
    }
    register_fence(&jobs, "report", new).await.unwrap();
    assert_eq!(register_fence(&jobs, "report", old).await.unwrap_err().kind(), ErrorKind::Stale);
    register_fence(&jobs, "another", old).await.unwrap();
    for level in LEVELS {
        let tx = begun(&mut jobs, level).await;
        assert_eq!(fenced(&tx, "report", old).await.unwrap_err().kind(), ErrorKind::Stale);
        drop(tx);
    }
    let error = register_fence(&jobs, "report", FencingToken::new(u64::MAX)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// `create table if not exists` fails for one of two that make it at the same moment.
#[tokio::test]
async fn jobs_that_register_for_the_first_time_at_once_are_all_registered() {
    let server = Postgres::start();
    let mut all = Vec::new();
    for _ in 0..8 {
        all.push(jobs(&server).await);
    }
    for round in 0..20 {
        server.sql(&format!("create schema round{round}"));
        let registers = all.iter().enumerate().map(async |(nth, jobs)| {
            jobs.batch_execute(&format!("set search_path = round{round}")).await.unwrap();
            register_fence(jobs, &format!("report {nth}"), FencingToken::new(1)).await.unwrap();
        });
        futures_util::future::join_all(registers).await;
        assert_eq!(server.sql(&format!("select count(*) from round{round}.leasehold_fences")), "8");
    }
}

#[tokio::test]
async fn a_newer_holder_waits_for_the_transaction_of_an_older_one() {
    let server = Postgres::start();
    let (mut older, newer) = (jobs(&server).await, jobs(&server).await);
    register_fence(&older, "report", FencingToken::new(1)).await.unwrap();
    let tx = older.transaction().await.unwrap();
    fenced(&tx, "report", FencingToken::new(1)).await.unwrap();
    let registers = tokio::spawn(async move { register_fence(&newer, "report", FencingToken::new(2)).await });
    eventually_async("it waits", SOON, async || {
        server.sql("select count(*) from pg_stat_activity where wait_event_type = 'Lock'") == "1"
    })
    .await;
    assert!(!registers.is_finished());
    tx.commit().await.unwrap();
    registers.await.unwrap().unwrap();
}

// Exactly once.

/// A claim for one tick, which is to be tried again after a failure.
fn tonight(locks: &Locks) -> Lock {
    locks.lock("job").tick(tick()).retry_failed(true)
}

fn next_tick() -> Tick {
    Tick::from_unix_millis(tick().as_unix_millis() + 1000).unwrap()
}

/// The same for the whole test.
fn tick() -> Tick {
    static TICK: LazyLock<i64> = LazyLock::new(|| {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        i64::try_from(since_1970.as_millis()).unwrap()
    });
    Tick::from_unix_millis(*TICK).unwrap()
}

async fn is_done(lock: &Lock) -> bool {
    matches!(lock.try_acquire().await.unwrap(), Outcome::NotDue(NotDue::Claimed { unfinished: false, .. }))
}

#[tokio::test]
async fn what_was_completed_in_a_transaction_is_done_with_its_commit() {
    for level in LEVELS {
        let server = Postgres::start();
        let (locks, others, mut jobs) = (Locks::over(store(&server)), Locks::over(store(&server)), jobs(&server).await);
        let guard = acquired(&tonight(&locks)).await;
        assert!(!guard.may_be_complete());

        let tx = begun(&mut jobs, level).await;
        let completed = guard.complete_in(&tx).await.unwrap();
        write(&tx, guard.token()).await;
        drop(completed);
        tx.rollback().await.unwrap();
        assert!(guard.may_be_complete(), "who knows");
        assert!(matches!(tonight(&others).try_acquire().await.unwrap(), Outcome::Contended(_)), "nothing has happened");

        let tx = begun(&mut jobs, level).await;
        let completed = guard.complete_in(&tx).await.unwrap();
        write(&tx, guard.token()).await;
        completed.commit(tx).await.unwrap();
        assert!(is_done(&tonight(&others)).await, "although nobody has said so by a release");

        let tx = begun(&mut jobs, level).await;
        let error = guard.complete_in(&tx).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Stale, "{level:?}: {error}");
        drop(tx);
        assert!(guard.is_valid(), "the lock is ours still");
        let is_first = matches!(level, IsolationLevel::ReadCommitted);
        let released = if is_first { guard.complete().await } else { guard.release().await };
        assert_eq!(released.unwrap(), Released::InTime);
        assert!(is_done(&tonight(&others)).await);
        assert_eq!(server.sql("select count(*) from writes"), "1");
        assert_eq!(server.errors(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn what_was_rolled_back_is_begun_again_and_a_key_is_done_once() {
    let server = Postgres::start();
    let (locks, mut jobs) = (Locks::over(store(&server)), jobs(&server).await);
    let key = locks.once("invoice-1", Duration::from_secs(3600)).retry_failed(true);
    let guard = acquired(&key).await;
    let tx = jobs.transaction().await.unwrap();
    drop(guard.complete_in(&tx).await.unwrap());
    tx.rollback().await.unwrap();
    guard.release().await.unwrap();
    let guard = acquired(&key).await;
    assert_eq!(guard.attempt(), 2);
    let tx = jobs.transaction().await.unwrap();
    guard.complete_in(&tx).await.unwrap().commit(tx).await.unwrap();
    guard.release().await.unwrap();
    assert!(is_done(&key).await);
}

#[tokio::test]
async fn whoever_was_replaced_completes_nothing() {
    for level in LEVELS {
        let server = Postgres::start();
        let mut jobs = jobs(&server).await;
        let (stale, fresh) = (paused(&server), Locks::over(store(&server)));
        let guard = acquired(&tonight(&stale).ttl(TTL)).await;
        let tx = begun(&mut jobs, level).await;
        tx.query("select count(*) from writes", &[]).await.unwrap();
        let mut next = None;
        eventually_async("the lease is over", SOON, async || {
            next = tonight(&fresh).try_acquire().await.unwrap().guard();
            next.is_some()
        })
        .await;
        let next = next.unwrap();
        assert_eq!(guard.complete_in(&tx).await.unwrap_err().kind(), ErrorKind::Stale, "{level:?}");
        drop(tx);
        assert!(matches!(tonight(&stale).try_acquire().await.unwrap(), Outcome::Contended(_)));
        let tx = begun(&mut jobs, level).await;
        next.complete_in(&tx).await.unwrap().commit(tx).await.unwrap();
        next.release().await.unwrap();
        assert!(is_done(&tonight(&fresh)).await);
    }
}

/// Beside it a permit is free, so that its fence keeps nobody from the name: who asks for the tick is told that it runs, at once, and
/// others of the name go on.
#[tokio::test]
async fn who_takes_a_tick_over_is_held_off_by_the_transaction_that_completes_it_and_waits_for_nothing() {
    for commits in [true, false] {
        let server = Postgres::start();
        let (stale, fresh, mut jobs) = (paused(&server), Locks::over(store(&server)), jobs(&server).await);
        let guard = acquired(&tonight(&stale).permits(3).ttl(TTL)).await;
        let tx = begun(&mut jobs, IsolationLevel::ReadCommitted).await;
        let completed = guard.complete_in(&tx).await.unwrap();
        write(&tx, guard.token()).await;
        eventually_async("the lease is over", SOON, async || fresh.inspect("job").await.unwrap().is_none()).await;
        let lock = tonight(&fresh).permits(3);
        let sibling = acquired(&fresh.lock("job").permits(3).tick(next_tick()).retry_failed(true)).await;
        let began = Instant::now();
        for _ in 0..20 {
            assert!(matches!(lock.try_acquire().await.unwrap(), Outcome::Contended(_)));
        }
        assert!(began.elapsed() < Duration::from_secs(2), "it waited");
        sibling.complete().await.unwrap();
        if commits {
            completed.commit(tx).await.unwrap();
            assert!(is_done(&lock).await);
        } else {
            drop(completed);
            tx.rollback().await.unwrap();
            assert_eq!(acquired(&lock).await.attempt(), 2, "it was not done");
        }
        assert_eq!(server.errors(), Vec::<String>::new());
    }
}

/// A key whose time is over counts as never claimed, unless it is being completed.
#[tokio::test]
async fn a_key_whose_time_is_over_is_held_while_a_transaction_completes_it() {
    let server = Postgres::start();
    let (stale, fresh, mut jobs) = (paused(&server), Locks::over(store(&server)), jobs(&server).await);
    let key = |locks: &Locks| locks.once("invoice", Duration::from_secs(3600)).retry_failed(true).ttl(TTL);
    let guard = acquired(&key(&stale)).await;
    let tx = begun(&mut jobs, IsolationLevel::ReadCommitted).await;
    let completed = guard.complete_in(&tx).await.unwrap();
    server.sql("update leasehold_locks set key_ends = 1, expires = 1");
    let began = Instant::now();
    assert!(matches!(key(&fresh).try_acquire().await.unwrap(), Outcome::Contended(_)));
    assert!(began.elapsed() < Duration::from_secs(2), "it waited");
    completed.commit(tx).await.unwrap();
    assert_eq!(acquired(&key(&fresh)).await.attempt(), 1);
}

/// Its renewals go over the same session as releases that its keeper asks for again.
#[tokio::test]
async fn a_release_that_has_to_wait_for_a_transaction_stands_in_nobodys_way() {
    let server = Postgres::start();
    let (locks, mut jobs) = (Locks::over(store(&server)), jobs(&server).await);
    let sibling = acquired(&locks.lock("sibling").ttl(TTL)).await;
    for (lock, is_once) in [(tonight(&locks), false), (locks.lock("once").tick(tick()), true)] {
        let guard = acquired(&lock.ttl(TTL)).await;
        let tx = begun(&mut jobs, IsolationLevel::ReadCommitted).await;
        drop(guard.complete_in(&tx).await.unwrap());
        let began = Instant::now();
        let released = if is_once { guard.release().await } else { guard.complete().await };
        let error = released.unwrap_err();
        assert!(error.is_transient(), "{error}");
        assert!(began.elapsed() < Duration::from_secs(2), "it waited");
        let end = Instant::now() + TTL * 2;
        while Instant::now() < end {
            let longest = "select coalesce(max(now() - query_start) > '1s', false) from pg_stat_activity \
                           where wait_event_type = 'Lock'";
            assert_eq!(server.sql(longest), "f", "the keeper asks again, and waits for a moment only");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(sibling.is_valid() && sibling.loss().is_none(), "renewed all the while");
        tx.commit().await.unwrap();
    }
}

#[tokio::test]
async fn a_transaction_waits_for_one_that_completes_the_same_tick() {
    for level in LEVELS {
        for commits in [true, false] {
            let server = Postgres::start();
            let (locks, mut first, mut second) =
                (Locks::over(store(&server)), jobs(&server).await, jobs(&server).await);
            let guard = acquired(&tonight(&locks)).await;
            let tx = begun(&mut first, level).await;
            let completed = guard.complete_in(&tx).await.unwrap();
            let again = async {
                let tx = begun(&mut second, level).await;
                guard.complete_in(&tx).await.map(|_| ())
            };
            let end = async {
                eventually_async("the other waits", SOON, async || {
                    server.sql("select count(*) from pg_stat_activity where wait_event_type = 'Lock'") == "1"
                })
                .await;
                drop(completed);
                if commits { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
            };
            let (again, ()) = tokio::join!(again, end);
            assert_eq!(again.map_err(|error| error.kind()).err(), commits.then_some(ErrorKind::Stale), "{level:?}");
            assert!(guard.is_valid());
        }
    }
}

#[tokio::test]
async fn an_open_completion_holds_up_no_more_than_a_fence() {
    let server = Postgres::start();
    let (locks, others, mut jobs) = (Locks::over(store(&server)), Locks::over(store(&server)), jobs(&server).await);
    let guard = acquired(&tonight(&locks).ttl(TTL)).await;
    let tx = begun(&mut jobs, IsolationLevel::ReadCommitted).await;
    let completed = guard.complete_in(&tx).await.unwrap();
    let end = Instant::now() + TTL * 2;
    while Instant::now() < end {
        let began = Instant::now();
        let Outcome::Contended(_) = tonight(&others).try_acquire().await.unwrap() else { panic!("it is open") };
        acquired(&others.lock("another").tick(tick()).retry_failed(true)).await.release().await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(3), "it waited");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(guard.is_valid() && guard.loss().is_none(), "renewed all the while");
    completed.commit(tx).await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(server.errors(), Vec::<String>::new());
}

#[tokio::test]
async fn a_table_of_ticks_that_is_missing_is_named() {
    let server = Postgres::start();
    let (locks, mut jobs) = (Locks::over(store(&server)), jobs(&server).await);
    let guard = acquired(&tonight(&locks)).await;
    server.sql("drop table leasehold_ticks");
    let tx = begun(&mut jobs, IsolationLevel::ReadCommitted).await;
    let error = guard.complete_in(&tx).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("leasehold_ticks") && error.to_string().contains("migrate"), "{error}");
}

#[tokio::test]
async fn what_cannot_be_completed_is_told() {
    let server = Postgres::start();
    server.sql("create database elsewhere");
    let mut jobs = jobs(&server).await;
    let memory = Locks::over(Arc::new(Memory::default()));
    let elsewhere = Locks::connect(&format!("postgres://postgres@{}/elsewhere", server.address())).await.unwrap();
    for (lock, way_out) in [
        (tonight(&memory), "register_fence"),
        (tonight(&elsewhere), "another database"),
        (Locks::over(store(&server)).lock("job"), "Lock::tick"),
    ] {
        let guard = acquired(&lock).await;
        let tx = jobs.transaction().await.unwrap();
        let error = guard.complete_in(&tx).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(way_out), "{error}");
        assert!(guard.is_valid() && !guard.may_be_complete());
    }
}

#[tokio::test]
async fn a_job_needs_few_rights_to_complete_its_tick() {
    let server = Postgres::start();
    let locks = Locks::over(store(&server));
    let guard = acquired(&tonight(&locks)).await;
    server.sql(
        "create role job login; create table invoice(customer text); grant insert on invoice to job; \
         grant select, update(slot) on leasehold_locks to job; grant select on leasehold_schema to job",
    );
    let config = format!("host=127.0.0.1 port={} user=job dbname=postgres", server.port());
    let (mut client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    let tx = client.transaction().await.unwrap();
    let error = guard.complete_in(&tx).await.unwrap_err();
    assert!(error.kind() == ErrorKind::AccessDenied && error.to_string().contains("leasehold_ticks"), "{error}");
    drop(tx);
    server.sql("grant select, delete on leasehold_ticks to job");
    let tx = client.transaction().await.unwrap();
    let completed = guard.complete_in(&tx).await.unwrap();
    tx.execute("insert into invoice values('ada')", &[]).await.unwrap();
    completed.commit(tx).await.unwrap();
    assert!(is_done(&tonight(&locks)).await);
}

#[tokio::test]
async fn the_statements_of_a_completion_are_for_any_client() {
    let server = Postgres::start();
    let (locks, jobs) = (Locks::over(store(&server)), jobs(&server).await);
    let guard = acquired(&tonight(&locks)).await;
    let tick = guard.tick().unwrap().as_unix_millis();
    let completes = async |holder: &str| jobs.execute(COMPLETE, &[&"default", &"job", &tick, &holder]).await.unwrap();
    assert_eq!(completes("somebody else").await, 0);
    assert_eq!(completes(&guard.holder().to_string()).await, 1);
    assert_eq!(completes(&guard.holder().to_string()).await, 0);
    assert!(is_done(&tonight(&locks)).await);
}
