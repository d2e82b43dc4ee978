//! Sessions that a pooler shares, that are ended, that time out or fall silent.

use leasehold_testkit::process::{self, Worker};

use super::*;

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
    let others = store(&pooler.url());
    let mut holder = Worker::start("sessions::worker", "hold", &[("url", &pooler.url())]);
    holder.hear("held", SOON);
    let since = Instant::now();
    holder.kill();
    assert!(is_contended(&*others, "job").await, "the pooler goes on, and the server knows of no end");
    eventually_async("it ends by itself", TTL + Duration::from_secs(1), async || {
        matches!(others.try_acquire(&claim("job")).await.unwrap(), Attempt::Granted(_))
    })
    .await;
    assert!(since.elapsed() > TTL / 2, "given away after {:?}", since.elapsed());
}

#[test]
fn worker() {
    process::serve(&[("hold", hold)]);
}

/// In a process of its own: holds a lock until it is killed.
fn hold() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let guard = acquired(&locks(&process::argument("url")).await.lock("job").ttl(TTL)).await;
        process::say("held");
        guard.lost().await;
    });
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
async fn a_session_that_is_silent_for_so_long_is_given_up() {
    let server = Postgres::start();
    let proxy = Proxy::to(server.address());
    let store = store(&proxy.url(&server.url()));
    token(&*store, &claim("job")).await;
    let before = proxy.connections();
    proxy.drop_reply_after_request(b"leasehold_v4_acquire", Then::Silence);
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
