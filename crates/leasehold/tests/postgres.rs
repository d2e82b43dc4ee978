//! The PostgreSQL store beside real servers: poolers, time-outs, sessions that are ended, rows changed by hand, missing
//! rights. What every store must do is in `conformance.rs`. The numbers are those of the fault of another system that the
//! test was made of.
#![cfg(feature = "postgres")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::stores::postgres::Postgres as Tables;
use leasehold::validity::Moment;
use leasehold::{
    Applied, Attempt, Claim, Due, Ended, ErrorKind, Finding, HolderId, LeaseKey, LockName, Locks, LossReason, Outcome,
    Place, Release, Severity, Store, Tick, Verdict,
};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::proxy::{Proxy, Then};
use leasehold_testkit::servers::{PgBouncer, PoolMode, Postgres};

mod claims;
use claims::{SOON, TTL, acquired, lease, locks, store};

const LONG: Duration = Duration::from_secs(60);

fn claim(name: &str) -> Claim {
    Claim::new(LockName::new(name).unwrap(), HolderId::fresh(), "test".into(), LONG)
}

async fn token(store: &dyn Store, claim: &Claim) -> u64 {
    match store.try_acquire(claim).await.unwrap() {
        Attempt::Granted(grant) => grant.token.number(),
        other => panic!("not granted: {other:?}"),
    }
}

/// Sessions that a server took along are only noticed when somebody looks.
async fn reconnected(stores: &[&dyn Store]) {
    for store in stores {
        eventually_async("it is connected", SOON, async || store.time().await.is_ok()).await;
    }
}

async fn is_contended(store: &dyn Store, name: &str) -> bool {
    matches!(store.try_acquire(&claim(name)).await.unwrap(), Attempt::Held(_))
}

async fn waits(locks: &Locks, name: &str, so_many: u64) {
    eventually_async("they wait", SOON, async || {
        locks.inspect(name).await.unwrap().is_some_and(|holding| holding.waiting == so_many)
    })
    .await;
}

/// Claims, renewals and releases of many at once, with waiters among them.
async fn traffic(url: &str) {
    let locks = locks(url).await;
    let tasks: Vec<_> = (0..60)
        .map(|nth| {
            let lock = locks.lock(&format!("job {}", nth % 12)).ttl(Duration::from_secs(10));
            tokio::spawn(async move {
                for _ in 0..5 {
                    let guard = lock.acquire().await.unwrap().guard().unwrap();
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(SOON * 3, task).await.expect("its turn comes").unwrap();
    }
    locks.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i14_a_pooler_in_transaction_mode_is_no_hindrance() {
    let server = Postgres::start();
    let pooler = PgBouncer::to(&server, PoolMode::Transaction);
    traffic(&pooler.url()).await;
    assert_eq!(server.errors(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i02_behind_a_pooler_a_lock_outlives_nobody_by_more_than_its_ttl() {
    let server = Postgres::start();
    let pooler = PgBouncer::to(&server, PoolMode::Transaction);
    let gone = Claim { ttl: TTL, ..claim("job") };
    token(&*store(&pooler.url()), &gone).await; // And its store is dropped.
    let others = store(&pooler.url());
    assert!(is_contended(&*others, "job").await);
    tokio::time::sleep(TTL).await;
    token(&*others, &claim("job")).await;
}

#[tokio::test]
async fn i06_i13_nothing_stands_open_while_locks_are_held_and_waited_for() {
    let server = Postgres::start();
    let (holder, waiter) = (locks(&server.url()).await, locks(&server.url()).await);
    let guard = acquired(&holder.lock("job").ttl(TTL)).await;
    let waiting = tokio::spawn(async move { waiter.lock("job").acquire().await.unwrap().guard().unwrap() });
    waits(&holder, "job", 1).await;
    for _ in 0..20 {
        let open = server.sql(
            "select state, query from pg_stat_activity where application_name like 'leasehold%' and \
             (state like 'idle in%' or clock_timestamp() - xact_start > interval '300 ms')",
        );
        assert_eq!(open, "");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let names = server.sql(
        "select distinct split_part(application_name, ' ', 2) from pg_stat_activity \
         where application_name like 'leasehold%' order by 1",
    );
    assert_eq!(names.lines().collect::<Vec<_>>(), ["keeper", "locks", "waits"]);
    guard.release().await.unwrap();
    drop(waiting.await.unwrap());
}

#[tokio::test]
async fn i07_time_outs_of_a_role_hit_nobody_who_waits() {
    let server = Postgres::start();
    server.sql(
        "alter role postgres set statement_timeout = '1s'; alter role postgres set lock_timeout = '1ms'; \
         alter role postgres set idle_in_transaction_session_timeout = '10ms'; \
         alter role postgres set idle_session_timeout = '1s'",
    );
    let (holder, waiter) = (locks(&server.url()).await, locks(&server.url()).await);
    let guard = acquired(&holder.lock("job").ttl(TTL)).await;
    let waiting = tokio::spawn(async move { waiter.lock("job").acquire().await });
    tokio::time::sleep(TTL + TTL / 2).await; // renewed meanwhile
    assert!(guard.is_valid() && !waiting.is_finished());
    guard.release().await.unwrap();
    let given = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap();
    assert!(matches!(given, Outcome::Acquired(_)), "{given:?}");
    // Sessions that were idle are ended, which the server logs as fatal to them.
    let errors: Vec<_> = server.errors().into_iter().filter(|line| !line.contains("idle-session timeout")).collect();
    assert_eq!(errors, Vec::<String>::new());
}

#[tokio::test]
async fn i03_i12_a_session_that_is_ended_takes_no_lock_along() {
    let server = Postgres::start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job").ttl(TTL * 2)).await;
    for _ in 0..4 {
        server.end_sessions();
        tokio::time::sleep(TTL).await;
        assert!(guard.is_valid());
    }
    assert!(is_contended(&*store(&server.url()), "job").await);
    server.end_sessions();
    guard.release().await.unwrap();
    acquired(&locks.lock("job")).await.release().await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_killed_and_comes_back_knows_who_holds_what() {
    let server = Postgres::start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job").ttl(LONG)).await;
    server.kill();
    let error = locks.lock("other").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    server.restart();
    let others = store(&server.url());
    assert!(is_contended(&*others, "job").await);
    let before = guard.token().number();
    guard.release().await.unwrap();
    assert!(token(&*others, &claim("job")).await > before);
}

#[tokio::test]
async fn unreachable_is_certain_to_have_done_nothing() {
    let server = Postgres::start();
    server.kill();
    let error = store(&server.url()).try_acquire(&claim("job")).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::No), "{error}");
}

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l05_first_claims_that_race_have_one_winner_and_log_nothing() {
    let server = Postgres::start();
    // Who is first makes the tables, too.
    let stores: Vec<_> = (0..16).map(|_| store(&server.url())).collect();
    for name in ["one", "two", "three", "four", "five"] {
        let tries: Vec<_> = stores
            .iter()
            .map(|store| {
                let (store, claim) = (Arc::clone(store), claim(name));
                tokio::spawn(async move { store.try_acquire(&claim).await.unwrap() })
            })
            .collect();
        let mut granted = 0;
        for attempt in tries {
            granted += i32::from(matches!(attempt.await.unwrap(), Attempt::Granted(_)));
        }
        assert_eq!(granted, 1, "{name}");
    }
    drop(stores);
    assert_eq!(server.errors(), Vec::<String>::new());
    server.restart();
    assert!(is_contended(&*store(&server.url()), "one").await, "its row is there");
    assert_eq!(server.errors(), Vec::<String>::new());
}

/// Runs statements while the test goes on.
fn meanwhile(server: &Arc<Postgres>, statements: &'static str) -> tokio::task::JoinHandle<String> {
    let server = Arc::clone(server);
    tokio::task::spawn_blocking(move || server.sql(statements))
}

async fn is_asleep(server: &Postgres) {
    eventually_async("it sleeps", SOON, async || {
        server.sql("select count(*) from pg_stat_activity where wait_event = 'PgSleep'") == "1"
    })
    .await;
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
async fn rows_that_are_deleted_or_restored_by_hand_do_no_harm() {
    let server = Postgres::start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    server.sql("create table backup as select * from leasehold_locks; delete from leasehold_locks");
    assert_eq!(tokio::time::timeout(TTL, guard.lost()).await.unwrap(), LossReason::Gone);
    let next = acquired(&locks.lock("job").ttl(TTL)).await;
    assert!(next.token() > guard.token());
    server.sql("delete from leasehold_locks; insert into leasehold_locks select * from backup");
    assert_eq!(tokio::time::timeout(TTL, next.lost()).await.unwrap(), LossReason::Gone);
    let store = store(&server.url());
    let last = claim("job");
    let mut granted = None;
    eventually_async("the restored lease is over", SOON, async || {
        if let Attempt::Granted(grant) = store.try_acquire(&last).await.unwrap() {
            granted = Some(grant.token);
        }
        granted.is_some()
    })
    .await;
    assert!(granted.unwrap() > next.token(), "tokens don't go back");
}

#[tokio::test]
async fn tables_that_are_dropped_are_made_again() {
    let server = Postgres::start();
    let store = store(&server.url());
    let (first, second) = (claim("job"), claim("job"));
    let before = token(&*store, &first).await;
    server.sql("drop schema public cascade; create schema public");
    let renewals = store.renew(&[(lease(&first), TTL)]).await;
    assert!(matches!(renewals[0], Ok(leasehold::Renewal::Gone)), "{renewals:?}");
    assert!(token(&*store, &second).await > before);
}

#[tokio::test]
async fn an_older_version_is_upgraded_and_a_newer_one_refused() {
    let server = Postgres::start();
    server.sql(
        "create table leasehold_schema(one integer primary key check (one = 1), version integer not null, \
         oldest integer not null, home text not null); insert into leasehold_schema values (1, 0, 0, 'here')",
    );
    token(&*store(&server.url()), &claim("job")).await;
    assert_eq!(server.sql("select version, home from leasehold_schema"), "1|here");
    server.sql("update leasehold_schema set version = 7, oldest = 1");
    assert!(is_contended(&*store(&server.url()), "job").await, "a newer one that lets this one be");
    server.sql("update leasehold_schema set oldest = 7");
    let error = store(&server.url()).try_acquire(&claim("job")).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
    assert!(error.to_string().contains("newer Leasehold"), "{error}");
    assert!(worst(&store(&server.url()).diagnose().await.unwrap()).message.contains("newer"));
}

fn worst(findings: &[Finding]) -> &Finding {
    findings.iter().max_by_key(|finding| finding.severity).unwrap()
}

#[tokio::test]
async fn who_may_not_create_tables_is_told_what_to_have_run() {
    let server = Postgres::start();
    server.sql("create role jobs login; create schema locks");
    let url = format!("{}?schema=locks", server.url_as("jobs", ""));
    for url in [url.clone(), server.url_as("jobs", "")] {
        let error = store(&url).try_acquire(&claim("job")).await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (ErrorKind::AccessDenied, Applied::No), "{error}");
        assert!(error.to_string().contains("migrate --print"), "{error}");
        let findings = store(&url).diagnose().await.unwrap();
        assert!(worst(&findings).severity == Severity::Problem && worst(&findings).subject == "rights", "{findings:?}");
    }
    server.sql(&Tables::migration(&url).unwrap());
    server.sql(
        "grant usage on schema locks to jobs; grant select on locks.leasehold_schema to jobs; \
         grant select, insert, update on locks.leasehold_modes to jobs; \
         grant select, insert, update, delete on locks.leasehold_locks, locks.leasehold_ticks to jobs",
    );
    let findings = store(&url).diagnose().await.unwrap();
    assert!(worst(&findings).message.contains("nobody can wait"), "{findings:?}");
    server.sql("grant select, insert, update, delete on locks.leasehold_waiters to jobs");
    let store = store(&url);
    let held = claim("job");
    token(&*store, &held).await;
    assert!(is_contended(&*store, "job").await);
    assert_eq!(store.release(&lease(&held), Ended::default()).await.unwrap(), Release::Released);
    let findings = store.diagnose().await.unwrap();
    assert!(worst(&findings).severity < Severity::Problem, "{findings:?}");
    server.sql(&Tables::migration(&url).unwrap()); // Again, which does no harm.
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_isolation_is_the_default_contention_is_no_error() {
    let server = Postgres::start();
    for level in ["serializable", "repeatable read"] {
        server.sql(&format!("alter database postgres set default_transaction_isolation = '{level}'"));
        traffic(&server.url()).await;
    }
    assert_eq!(server.errors(), Vec::<String>::new());
}

#[tokio::test]
async fn who_tries_in_vain_writes_nothing() {
    let server = Postgres::start();
    let store = store(&server.url());
    let (held, tick) = (claim("job"), tick_claim("tick", 1));
    token(&*store, &held).await;
    token(&*store, &tick).await;
    let next = || server.sql("select pg_snapshot_xmax(pg_current_snapshot())");
    // What the server does by itself now and then, as vacuuming, is no doing of ours.
    eventually_async("nobody else writes", SOON, async || {
        let before = next();
        for _ in 0..30 {
            assert!(is_contended(&*store, "job").await);
            assert!(matches!(store.try_acquire(&tick_claim("tick", 1)).await.unwrap(), Attempt::Held(_)));
        }
        let late = LeaseKey { name: held.name.clone(), holder: HolderId::fresh() };
        assert_eq!(store.release(&late, Ended::default()).await.unwrap(), Release::NotHeld);
        next() == before
    })
    .await;
}

/// For a tick some time ago.
fn tick_claim(name: &str, hours: i64) -> Claim {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let tick = Tick::from_unix_millis((i64::try_from(now.as_secs()).unwrap() / 3600 - hours) * 3_600_000).unwrap();
    let due = Some(Due { tick, retry_failed: false, keep: Duration::from_secs(86400) });
    Claim { due, ..claim(name) }
}

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
    token(&*store, &plain).await;
    server.kill();
    server.restart();
    reconnected(&[&*store]).await;
    assert_eq!(server.sql("select count(*) from leasehold_locks where name = 'plain'"), "0", "a grant that was not");
    assert!(matches!(store.try_acquire(&tick_claim("tick", 1)).await.unwrap(), Attempt::NotDue(_)));
    assert_eq!(server.sql("select count(*) from leasehold_ticks where name = 'tick'"), "0");
    assert!(is_contended_for(&*store, &tick_claim("open", 1)).await);
}

async fn is_contended_for(store: &dyn Store, claim: &Claim) -> bool {
    matches!(store.try_acquire(claim).await.unwrap(), Attempt::Held(_))
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
async fn f01_f02_a_wake_up_that_is_lost_costs_a_second_at_most() {
    let server = Postgres::start();
    let (holder, waiter) = (locks(&server.url()).await, locks(&server.url()).await);
    let guard = acquired(&holder.lock("job")).await;
    let waiting = tokio::spawn(async move { waiter.lock("job").acquire().await.unwrap().guard().unwrap() });
    waits(&holder, "job", 1).await;
    server.end_sessions();
    let _ = guard.release().await; // its session was ended, too; the background sees to it
    drop(tokio::time::timeout(SOON, waiting).await.expect("it finds out by itself").unwrap());
}

#[tokio::test]
async fn f06_f07_many_names_are_held_and_waited_for_over_few_sessions() {
    let server = Postgres::start();
    let (holder, waiter) = (locks(&server.url()).await, locks(&server.url()).await);
    let names: Vec<String> = (0..200).map(|n| format!("job {n}")).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(acquired(&holder.lock(name)).await);
    }
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
    let sessions = server.sql("select count(*) from pg_stat_activity where application_name like 'leasehold%'");
    assert!(sessions.parse::<u32>().unwrap() <= 5, "{sessions}: three for each client, and one does not wait");
    for guard in guards {
        guard.release().await.unwrap();
    }
    for task in waiting {
        tokio::time::timeout(SOON, task).await.expect("its turn came").unwrap();
    }
    drop((holder, waiter));
    eventually_async("nobody is connected any more", SOON, async || {
        server.sql("select count(*) from pg_stat_activity where application_name like 'leasehold%'") == "0"
    })
    .await;
}

/// A claim that queues, and may be handed the lock.
fn queuing(name: &str) -> Claim {
    Claim { queue: Some(Place { ticket: None, sent: Some(Moment::from_nanos(1)) }), ..claim(name) }
}

#[tokio::test]
async fn the_lock_is_not_handed_to_a_process_that_has_ended() {
    let server = Postgres::start();
    let (holder, gone) = (store(&server.url()), store(&server.url()));
    let (held, waiter) = (claim("job"), queuing("job"));
    token(&*holder, &held).await;
    let bell = gone.subscribe(&waiter.name).await.unwrap();
    assert!(is_contended_for(&*gone, &waiter).await);
    let listens = || server.sql("select count(*) from pg_locks where locktype = 'advisory'");
    assert_eq!(listens(), "1");
    drop((bell, gone));
    eventually_async("its session has ended", SOON, async || listens() == "0").await;
    assert_eq!(holder.release(&lease(&held), Ended::default()).await.unwrap(), Release::Released);
    let holding = holder.inspect(&held.name).await.unwrap();
    assert!(holding.is_none_or(|holding| holding.holder.is_none()), "handed to somebody dead");
    eventually_async("its entry is over", Duration::from_secs(2), async || !is_contended(&*holder, "job").await).await;
}

#[tokio::test]
async fn whoever_stands_behind_a_process_that_has_ended_is_handed_the_lock_at_once() {
    let server = Postgres::start();
    let (holder, gone, next) = (store(&server.url()), store(&server.url()), store(&server.url()));
    let (held, before, behind) = (claim("job"), queuing("job"), queuing("job"));
    token(&*holder, &held).await;
    let mut bell = next.subscribe(&behind.name).await.unwrap();
    let dead = gone.subscribe(&before.name).await.unwrap();
    assert!(is_contended_for(&*gone, &before).await);
    let listens = || server.sql("select count(*) from pg_locks where locktype = 'advisory'");
    assert_eq!(listens(), "2");
    drop((dead, gone));
    eventually_async("its session has ended", SOON, async || listens() == "1").await;
    // Whether its entry still counts or not.
    server.sql("update leasehold_waiters set seen = (extract(epoch from clock_timestamp()) * 1000000)::bigint");
    assert!(is_contended_for(&*next, &behind).await);
    assert_eq!(holder.release(&lease(&held), Ended::default()).await.unwrap(), Release::Released);
    let given = tokio::time::timeout(SOON, bell.next()).await.unwrap().expect("it is handed over");
    assert_eq!(given.holder, behind.holder);
}

#[tokio::test]
async fn a_process_whose_listening_session_was_ended_is_handed_locks_again() {
    let server = Postgres::start();
    let (holder, waiter) = (store(&server.url()), store(&server.url()));
    let (held, waits) = (claim("job"), queuing("job"));
    let mut bell = waiter.subscribe(&waits.name).await.unwrap();
    token(&*holder, &held).await;
    let channel = || server.sql("select distinct client from leasehold_waiters");
    assert!(is_contended_for(&*waiter, &waits).await);
    let before = channel();
    server.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'leasehold waits%'");
    assert_eq!(bell.next().await, None, "nobody knows what was missed");
    eventually_async("it listens again", SOON, async || {
        assert!(is_contended_for(&*waiter, &waits).await);
        !["", &before].contains(&&*channel())
    })
    .await;
    assert_eq!(holder.release(&lease(&held), Ended::default()).await.unwrap(), Release::Released);
    let given = tokio::time::timeout(SOON, bell.next()).await.unwrap().expect("it is handed over");
    assert_eq!(given.holder, waits.holder);
}

/// A pooler gives a message to whoever has the session at that moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_takes_the_message_of_another_for_its_own() {
    let server = Postgres::start();
    let pooler = PgBouncer::to(&server, PoolMode::Transaction);
    let stores: Vec<_> = (0..24).map(|_| store(&pooler.url())).collect();
    let name = LockName::new("job").unwrap();
    let tries = stores.iter().map(async |store| {
        eventually_async("it was tried", SOON * 2, async || {
            drop(store.subscribe(&name).await.unwrap());
            !store.traits().wake_ups
        })
        .await;
    });
    futures_util::future::join_all(tries).await;
    assert_eq!(server.sql("select count(*) from pg_locks where locktype = 'advisory'"), "0", "and leaves nothing");
}

#[tokio::test]
async fn where_nothing_is_heard_nothing_is_handed_over() {
    let server = Postgres::start();
    let pooler = PgBouncer::to(&server, PoolMode::Transaction);
    let (holder, waiter) = (store(&pooler.url()), store(&pooler.url()));
    let (held, waits) = (claim("job"), queuing("job"));
    token(&*holder, &held).await;
    let _bell = waiter.subscribe(&waits.name).await.unwrap();
    eventually_async("it was tried", SOON, async || !waiter.traits().wake_ups).await;
    assert!(!waiter.for_keeper().traits().hands_over);
    assert!(is_contended_for(&*waiter, &waits).await);
    assert_eq!(holder.release(&lease(&held), Ended::default()).await.unwrap(), Release::Released);
    assert!(holder.inspect(&held.name).await.unwrap().unwrap().holder.is_none(), "it is free, and kept for who waits");
    assert!(matches!(waiter.try_acquire(&waits).await.unwrap(), Attempt::Granted(_)));
    let findings = waiter.diagnose().await.unwrap();
    assert!(findings.iter().any(|finding| finding.message.contains("a pooler stands")), "{findings:?}");
}

#[tokio::test]
async fn environments_and_schemas_do_not_meet() {
    let server = Postgres::start();
    let url = server.url();
    for url in [url.clone(), format!("{url}?namespace=staging"), format!("{url}?schema=else%20where")] {
        let store = store(&url);
        token(&*store, &claim("job")).await;
        assert_eq!(store.list().await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn tls_is_checked_and_never_left_out() {
    let server = Postgres::options().tls().start();
    let ca = server.certificates().authority();
    let url = |query: &str| format!("{}{query}", server.url());
    token(&*store(&url(&format!("?sslmode=verify-full&ca={}", ca.display()))), &claim("a")).await;
    assert_eq!(
        server.sql("select distinct ssl from pg_stat_ssl join pg_stat_activity using(pid) where client_port > 0"),
        "t"
    );
    let error = store(&url("?sslmode=require")).try_acquire(&claim("b")).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
    assert!(error.to_string().contains("ca=FILE"), "{error}");
    let error = store(&url("")).try_acquire(&claim("b")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    let plain = Postgres::start();
    let insecure = format!("{}?ca={}", plain.url(), ca.display());
    let error = store(&insecure).try_acquire(&claim("b")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Misconfigured && error.to_string().contains("ssl = on"), "{error}");
}

#[tokio::test]
async fn a_client_shows_its_certificate_where_one_is_wanted() {
    let server = Postgres::options().tls_both_ways().start();
    let (ca, (cert, key)) = (server.certificates().authority(), server.certificates().client());
    let url = format!("{}?ca={}", server.url(), ca.display());
    let error = store(&url).try_acquire(&claim("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    token(&*store(&format!("{url}&cert={}&key={}", cert.display(), key.display())), &claim("a")).await;
}

#[tokio::test]
async fn over_a_unix_socket() {
    let server = Postgres::start();
    let host = server.socket_directory().display();
    let url = format!("postgres:///postgres?host={host}&port={}&user=postgres", server.port());
    token(&*store(&url), &claim("job")).await;
    assert!(is_contended(&*store(&server.url()), "job").await);
}

#[tokio::test]
async fn wrong_passwords_and_databases_are_told_as_what_they_are() {
    let server = Postgres::options().login("host all bob 127.0.0.1/32 scram-sha-256").start();
    server.sql("create role bob login password 'hunter2'; grant all on schema public to bob");
    for (url, kind) in [
        (server.url_as("bob", "wrong"), ErrorKind::AccessDenied),
        (server.url_as("bob", ""), ErrorKind::AccessDenied),
        (server.url_as("nobody", ""), ErrorKind::AccessDenied),
        (format!("postgres://postgres@{}/elsewhere", server.address()), ErrorKind::Misconfigured),
    ] {
        let error = store(&url).try_acquire(&claim("job")).await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (kind, Applied::No), "{error}");
        assert!(!error.to_string().contains("wrong@"), "{error}");
    }
    token(&*store(&server.url_as("bob", "hunter2")), &claim("job")).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "hunter2\n").unwrap();
    let url = format!("{}?password_file={}", server.url_as("bob", ""), file.path().display());
    assert!(is_contended(&*store(&url), "job").await);
}

#[tokio::test]
async fn a_standby_grants_nothing_until_it_is_promoted() {
    let primary = Postgres::start();
    let first = store(&primary.url());
    let before = token(&*first, &claim("job")).await;
    let standby = Postgres::standby_of(&primary);
    standby.catch_up_with(&primary);
    let second = store(&standby.url());
    let error = second.try_acquire(&claim("job")).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::No), "{error}");
    assert!(worst(&second.diagnose().await.unwrap()).message.contains("standby"));
    assert!(worst(&first.diagnose().await.unwrap()).message.contains("asynchronously"));
    let (one, other) = (primary.address(), standby.address());
    let both = store(&format!("postgres://postgres@{other},{one}/postgres"));
    assert!(is_contended(&*both, "job").await);
    primary.kill();
    standby.promote();
    standby.sql("update leasehold_locks set expires = 0");
    let mut after = 0;
    let next = claim("job");
    eventually_async("it has found the other one", SOON, async || {
        if let Ok(Attempt::Granted(grant)) = both.try_acquire(&next).await {
            after = grant.token.number();
        }
        after > 0
    })
    .await;
    assert!(after > before);
    assert!(is_contended(&*second, "job").await);
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

#[tokio::test]
async fn short_time_outs_are_told_by_the_doctor() {
    let server = Postgres::start();
    server.sql("alter role postgres set statement_timeout = '900ms'; alter role postgres set synchronous_commit = off");
    let findings = store(&server.url()).diagnose().await.unwrap();
    assert!(findings.iter().any(|finding| finding.message.contains("statement_timeout is 900 ms")), "{findings:?}");
    let findings = store(&Postgres::options().durable().start().url()).diagnose().await.unwrap();
    assert!(findings.iter().all(|finding| finding.severity == Severity::Fine), "{findings:?}");
}

#[tokio::test]
async fn thousands_of_leases_are_renewed_in_few_statements() {
    let server = Postgres::start();
    let store = store(&server.url());
    let claims: Vec<_> = (0..1000).map(|nth| claim(&format!("job {nth}"))).collect();
    let granted = claims.iter().map(|claim| token(&*store, claim));
    futures_util::future::join_all(granted).await;
    let leases: Vec<_> = claims.iter().map(|claim| (lease(claim), LONG)).collect();
    let commits = || {
        let count = "select xact_commit from pg_stat_database where datname = 'postgres'";
        server
            .sql(&format!("select pg_stat_force_next_flush(); {count}"))
            .lines()
            .last()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let told = || tokio::time::sleep(Duration::from_millis(1500)); // Sessions tell what they did once in a second.
    told().await;
    store.time().await.unwrap();
    let before = commits();
    for batch in leases.chunks(100) {
        for renewal in store.renew(batch).await {
            assert!(matches!(renewal, Ok(leasehold::Renewal::Renewed)), "{renewal:?}");
        }
    }
    told().await;
    store.time().await.unwrap();
    let spent = commits() - before;
    assert!(spent < 100, "10 statements, and what the server and this test do: {spent}");
}

#[tokio::test]
async fn a_row_that_is_locked_by_hand_holds_up_no_other_lease() {
    let server = Arc::new(Postgres::start());
    let store = store(&server.url());
    let (locked, other) = (claim("locked"), claim("other"));
    token(&*store, &locked).await;
    token(&*store, &other).await;
    let hand = meanwhile(
        &server,
        "begin; select 1 from leasehold_locks where name = 'locked' for update; select pg_sleep(6); commit",
    );
    is_asleep(&server).await;
    let began = Instant::now();
    let answers = store.renew(&[(lease(&locked), LONG), (lease(&other), LONG)]).await;
    assert!(answers[0].is_err() && answers[1].is_ok(), "{answers:?}");
    let answers = store.renew(&[(lease(&other), LONG)]).await;
    assert!(answers[0].is_ok(), "{answers:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "it waited for the row");
    hand.await.unwrap();
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

#[tokio::test]
async fn the_clock_of_a_standby_does_not_count() {
    let primary = Postgres::start();
    primary.sql(
        "create table shedlock(name varchar(64) primary key, lock_until timestamp not null, \
         locked_at timestamp not null, locked_by varchar(255) not null)",
    );
    let standby = Postgres::standby_of(&primary);
    let proxy = Proxy::to(primary.address());
    let url = proxy.url(&primary.url());
    let stores = ["", "?compat=shedlock", "?mode=advisory&namespace=sessions"].map(|how| store(&format!("{url}{how}")));
    for store in &stores {
        store.time().await.unwrap();
    }
    proxy.lead_to(standby.address());
    proxy.cut();
    for store in &stores {
        eventually_async("it says what it is", SOON, async || match store.time().await {
            Err(error) => error.kind() == ErrorKind::Unavailable && error.to_string().contains("standby"),
            Ok(time) => panic!("a time of no use: {time:?}"),
        })
        .await;
    }
    standby.promote();
    let stores: Vec<_> = stores.iter().map(|store| &**store).collect();
    reconnected(&stores).await;
}

#[tokio::test]
async fn a_session_that_is_silent_for_so_long_is_given_up() {
    let server = Postgres::start();
    let proxy = Proxy::to(server.address());
    let store = store(&proxy.url(&server.url()));
    token(&*store, &claim("job")).await;
    let before = proxy.connections();
    proxy.drop_reply_after_request(b"leasehold_v1_acquire", Then::Silence);
    let (began, unheard) = (Instant::now(), claim("other"));
    let limit = |what| tokio::time::timeout(Duration::from_millis(200), what);
    assert!(limit(store.try_acquire(&unheard)).await.is_err(), "nobody answers");
    // What is asked behind it isn't answered either, nor does it begin the silence anew.
    let behind = claim("another");
    while limit(store.try_acquire(&behind)).await.is_err() {
        assert!(began.elapsed() < SOON);
    }
    let silence = Duration::from_millis(3500);
    assert!(began.elapsed() >= silence && began.elapsed() < silence + TTL, "given up after {:?}", began.elapsed());
    assert_eq!(proxy.connections(), before + 1);
    assert!(is_contended(&*store, "other").await, "it had arrived");
}
