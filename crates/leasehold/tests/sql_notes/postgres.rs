//! A PostgreSQL server.

use std::sync::Arc;

use leasehold::stores::postgres::Postgres as Tables;
use leasehold::{Attempt, Claim, Ended, ErrorKind, Release, Renewal};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::servers::{PgBouncer, PoolMode, Postgres};

use super::claims::{SOON, TTL, claim, lease, store};
use super::stories::{self, note, reads, writes};

const ROWS: &str = "select count(*) from leasehold_notes";

/// Without what version 3 brought; and procedures didn't say yet which question they answer.
const BACK_TO_VERSION_2: &str = "
    drop table leasehold_notes;
    drop procedure leasehold_v4_note, leasehold_v4_erase, leasehold_v4_reset;
    drop function leasehold_v3_notes, leasehold_v3_topic;
    do $$ declare
        one record;
    begin
        for one in
            select proname, pg_get_functiondef(oid) as made from pg_proc where proname like 'leasehold_v4%'
        loop
            execute replace(replace(one.made, 'leasehold_v4_', 'leasehold_v2_'), ', INOUT o_asked bigint', '');
            execute 'drop procedure ' || one.proname;
        end loop;
    end $$;
    update leasehold_schema set version = 2, oldest = 2";

fn is_clean(server: &Postgres) {
    assert_eq!(server.errors(), Vec::<String>::new());
}

/// Statements of another transaction that sleeps at its end, while the test goes on.
async fn asleep(server: &Arc<Postgres>, statements: &str, seconds: f32) -> tokio::task::JoinHandle<String> {
    let transaction = format!("begin; {statements}; select pg_sleep({seconds}); commit");
    let session = Arc::clone(server);
    let running = tokio::task::spawn_blocking(move || session.sql(&transaction));
    let sleeping = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
    eventually_async("it sleeps", SOON, async || server.sql(sleeping) == "1").await;
    running
}

#[tokio::test]
async fn what_is_over_goes_with_what_is_written() {
    let server = Postgres::start();
    stories::what_is_over_goes_with_what_is_written(&server.url(), || server.sql(ROWS)).await;
    is_clean(&server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_are_kept_than_are_to_be() {
    let server = Postgres::start();
    stories::no_more_are_kept_than_are_to_be(&server.url(), || server.sql(ROWS)).await;
    is_clean(&server);
}

#[tokio::test]
async fn many_notes_are_written_in_few_calls() {
    let server = Postgres::start();
    let pooler = PgBouncer::to(&server, PoolMode::Transaction);
    stories::many_notes_are_written_in_few_calls(&store(&pooler.url())).await;
    is_clean(&server);
}

#[tokio::test]
async fn what_is_dropped_is_made_again() {
    let server = Postgres::start();
    let drops = [
        "drop table if exists leasehold_notes",
        "drop procedure if exists leasehold_v4_note",
        "drop function if exists leasehold_v3_notes",
        "drop function if exists leasehold_v3_topic",
    ];
    stories::what_is_dropped_is_made_again(&server.url(), &drops, |statement| drop(server.sql(statement))).await;
}

#[tokio::test]
async fn rights_on_notes_are_for_schedules_only() {
    let server = Postgres::start();
    server.sql("create role jobs login");
    Tables::migrate(&server.url()).await.unwrap();
    server.sql(
        "grant select, insert, update, delete on leasehold_locks, leasehold_waiters, leasehold_ticks to jobs; \
         grant select, insert, update on leasehold_modes, leasehold_routes to jobs; \
         grant select on leasehold_schema to jobs",
    );
    let grant = || drop(server.sql("grant select, insert, update, delete on leasehold_notes to jobs"));
    stories::rights_on_notes_are_for_schedules_only(&store(&server.url_as("jobs", "")), grant).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_somebody_is_at_holds_up_no_lock() {
    let server = Arc::new(Postgres::start());
    let store = store(&server.url());
    writes(&store, note("job", "1")).await;
    let held = asleep(&server, "select leasehold_v3_topic('default', 'runs', 'job')", 1.0).await;
    stories::a_topic_that_somebody_is_at_holds_up_no_lock(&store, held).await;
    is_clean(&server);
}

#[tokio::test] // On one thread: so its connection rests by the time the lock is granted.
async fn a_first_note_holds_up_no_release() {
    let server = Arc::new(Postgres::start());
    Tables::migrate(&server.url()).await.unwrap();
    let held = asleep(&server, "select leasehold_v3_topic('default', 'runs', 'job')", 2.5).await;
    let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted";
    stories::a_first_note_holds_up_no_release(&store(&server.url()), held, || server.sql(waiting) == "1").await;
    is_clean(&server);
}

#[tokio::test]
async fn who_writes_one_note_needs_no_second_connection() {
    let server = Postgres::start();
    let count = "select count(*) from pg_stat_activity where application_name ~ '^leasehold (locks|notes)'";
    let connections = || server.sql(count);
    stories::who_writes_one_note_needs_no_second_connection(&store(&server.url()), connections).await;
}

/// Their text is UTF-8, whatever the database has.
#[tokio::test]
async fn a_database_of_another_encoding_keeps_any_text() {
    let server = Postgres::start();
    server.sql("create database other encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0");
    let store = store(&format!("{}/other", server.url().trim_end_matches("/postgres")));
    let text = "ä 漢 🔒 \0".to_owned();
    writes(&store, leasehold::store::Note { text: text.clone(), ..note("job", "ä") }).await;
    let found = reads(&store, "job").await;
    assert_eq!((found[0].id.as_str(), &found[0].text), ("ä", &text));
}

#[tokio::test]
async fn a_standby_tells_no_notes() {
    let primary = Postgres::start();
    writes(&store(&primary.url()), note("job", "1")).await;
    let standby = Postgres::standby_of(&primary);
    standby.catch_up_with(&primary);
    let second = store(&standby.url());
    let search = leasehold::store::Search::newest(stories::about("job"), 1);
    let error = second.as_notes().unwrap().notes(&search).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    standby.promote();
    eventually_async("it is promoted", SOON, async || second.time().await.is_ok()).await;
    assert_eq!(reads(&second, "job").await.len(), 1);
}

#[tokio::test]
async fn session_locks_and_foreign_tables_keep_none() {
    for how in ["mode=advisory", "compat=shedlock"] {
        assert!(store(&format!("postgres://localhost/x?{how}")).as_notes().is_none(), "{how}");
    }
}

/// A claim as version 2 sends it; the outcome.
fn claims_as_version_2(server: &Postgres, claim: &Claim) -> String {
    server.sql(&format!(
        "call leasehold_v2_acquire('default', '{}', '{}', 'old', 60000000, 1, null, false, null, false, null, '', null, null, \
         null, null, null, null, null, null, null, null, null, null, null, null, null)",
        claim.name, claim.holder
    ))
}

/// Though somebody is writing there all the while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_version_2_get_a_place_for_notes_and_go_on_to_be_used_by_version_2() {
    let server = Arc::new(Postgres::start());
    Tables::migrate(&server.url()).await.unwrap();
    server.sql(BACK_TO_VERSION_2);
    let (held, other) = (claim("held", TTL), claim("held", TTL));
    assert!(claims_as_version_2(&server, &held).starts_with("1|"));
    let lives = "select token, expires, home from leasehold_locks, leasehold_schema where name = 'held'";
    let before = server.sql(lives);

    let writes_there = "insert into leasehold_locks(ns, name, slot) values ('x', 'x', 0); \
                        insert into leasehold_waiters values ('x', 'x', 'x', '', '', 0, 0, null, 0)";
    let writing = asleep(&server, writes_there, 5.0).await;
    let store = store(&server.url());
    writes(&store, note("held", "1")).await;
    assert!(!writing.is_finished(), "nobody is waited for");
    assert_eq!(server.sql(lives), before);
    assert_eq!(server.sql("select version, oldest from leasehold_schema"), "4|2");
    assert!(matches!(store.try_acquire(&other).await.unwrap(), Attempt::Held(_)));
    assert!(matches!(store.renew(&[(lease(&held), TTL)]).await[..], [Ok(Renewal::Renewed)]));
    assert!(claims_as_version_2(&server, &other).starts_with("2|"));
    assert_eq!(store.release(&lease(&held), Ended::default()).await.unwrap(), Release::Released);
    assert!(claims_as_version_2(&server, &other).starts_with("1|"));
    assert!(matches!(store.try_acquire(&held).await.unwrap(), Attempt::Held(_)));
    writing.await.unwrap();
    is_clean(&server);
}

#[tokio::test]
async fn who_may_not_upgrade_is_told_what_to_have_run() {
    let server = Postgres::start();
    Tables::migrate(&server.url()).await.unwrap();
    server.sql(&format!("{BACK_TO_VERSION_2}; create role jobs login"));
    server.sql("grant select, insert, update, delete on all tables in schema public to jobs");
    let store = store(&server.url_as("jobs", ""));
    for _ in 0..2 {
        let error = store.try_acquire(&claim("job", TTL)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
        assert!(error.to_string().contains("of version 2") && error.to_string().contains("migrate --print"), "{error}");
    }
    is_clean(&server);
    server.sql(&Tables::migration(&server.url()).unwrap());
    assert!(matches!(store.try_acquire(&claim("job", TTL)).await.unwrap(), Attempt::Granted(_)));
    server.sql("grant select, insert, update, delete on leasehold_notes to jobs");
    writes(&store, note("job", "1")).await;
}
