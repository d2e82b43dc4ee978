//! A MariaDB server.

use std::sync::Arc;

use leasehold::stores::mysql::MySql as Tables;
use leasehold::{Attempt, Claim, Ended, ErrorKind, Release, Renewal};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::servers::MariaDb;

use super::claims::{SOON, TTL, claim, lease, store};
use super::stories::{self, note, writes};

const ROWS: &str = "select count(*) from leasehold_notes";

/// What version 4 brought.
const BACK_TO_VERSION_3: &str = "
    drop table leasehold_notes;
    drop procedure leasehold_v4_note; drop procedure leasehold_v4_notes; drop procedure leasehold_v4_erase;
    drop procedure leasehold_v4_turn; drop procedure leasehold_v4_reset;
    update leasehold_schema set version = 3";

/// Statements of another session that sleeps at its end, while the test goes on.
async fn asleep(server: &Arc<MariaDb>, statements: &'static str) -> tokio::task::JoinHandle<String> {
    let session = Arc::clone(server);
    let running = tokio::task::spawn_blocking(move || session.sql(statements));
    let sleeping = "select count(*) from information_schema.processlist where state = 'User sleep'";
    eventually_async("it sleeps", SOON, async || server.sql(sleeping) == "1").await;
    running
}

#[tokio::test]
async fn what_is_over_goes_with_what_is_written() {
    let server = MariaDb::start();
    stories::what_is_over_goes_with_what_is_written(&server.url(), || server.sql(ROWS)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_are_kept_than_are_to_be() {
    let server = MariaDb::start();
    stories::no_more_are_kept_than_are_to_be(&server.url(), || server.sql(ROWS)).await;
}

#[tokio::test]
async fn many_notes_are_written_in_few_calls() {
    let server = MariaDb::start();
    stories::many_notes_are_written_in_few_calls(&store(&server.url())).await;
}

#[tokio::test]
async fn who_writes_one_note_needs_no_second_connection() {
    let server = MariaDb::start();
    let count = "select count(*) from information_schema.processlist where user = 'jobs'";
    let connections = || server.sql(count);
    stories::who_writes_one_note_needs_no_second_connection(&store(&server.url()), connections).await;
}

#[tokio::test]
async fn what_is_dropped_is_made_again() {
    let server = MariaDb::start();
    let drops = [
        "drop table if exists leasehold_notes",
        "drop procedure if exists leasehold_v4_note",
        "drop procedure if exists leasehold_v4_notes",
        "drop procedure if exists leasehold_v4_turn",
    ];
    stories::what_is_dropped_is_made_again(&server.url(), &drops, |statement| drop(server.sql(statement))).await;
}

#[tokio::test]
async fn rights_on_notes_are_for_schedules_only() {
    let server = MariaDb::start();
    Tables::migrate(&server.url()).await.unwrap();
    for table in ["names", "locks", "fence", "waiters", "ticks"] {
        server.sql(&format!("grant select, insert, update, delete on jobs.leasehold_{table} to poor@'%'"));
    }
    server.sql(
        "grant select, insert on jobs.leasehold_modes to poor@'%'; \
         grant select, insert, update on jobs.leasehold_routes to poor@'%'; \
         grant select on jobs.leasehold_schema to poor@'%'; grant execute on jobs.* to poor@'%'",
    );
    let grant = || drop(server.sql("grant select, insert, update, delete on jobs.leasehold_notes to poor@'%'"));
    stories::rights_on_notes_are_for_schedules_only(&store(&server.url_as("poor", "hunter3")), grant).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_somebody_is_at_holds_up_no_lock() {
    let server = Arc::new(MariaDb::start());
    let store = store(&server.url());
    writes(&store, note("job", "1")).await;
    let hold = "call leasehold_v4_turn('default', 'runs', 'job', @turn); do sleep(1)";
    stories::a_topic_that_somebody_is_at_holds_up_no_lock(&store, asleep(&server, hold).await).await;
}

#[tokio::test] // On one thread: so its connection rests by the time the lock is granted.
async fn a_first_note_holds_up_no_release() {
    let server = Arc::new(MariaDb::start());
    Tables::migrate(&server.url()).await.unwrap();
    let hold = "call leasehold_v4_turn('default', 'runs', 'job', @turn); do sleep(2.5)";
    let held = asleep(&server, hold).await;
    let waiting = "select count(*) from information_schema.processlist where state = 'User lock'";
    stories::a_first_note_holds_up_no_release(&store(&server.url()), held, || server.sql(waiting) == "1").await;
}

/// Whoever gives up leaves nothing locked, in its session or anywhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_get_a_turn_is_told_that_others_are_at_it() {
    let server = Arc::new(MariaDb::start());
    let store = store(&server.url());
    writes(&store, note("job", "1")).await;
    let held = asleep(&server, "call leasehold_v4_turn('default', 'runs', 'job', @turn); do sleep(7)").await;
    let error = store.as_notes().unwrap().note(&[note("job", "2")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!held.is_finished());
    writes(&store, note("another", "1")).await;
    held.await.unwrap();
    writes(&store, note("job", "2")).await;
    assert_eq!(stories::reads(&store, "job").await.len(), 2);
}

#[tokio::test]
async fn session_locks_and_foreign_tables_keep_none() {
    for how in ["mode=advisory", "compat=shedlock"] {
        assert!(store(&format!("mysql://root@localhost/x?{how}")).as_notes().is_none(), "{how}");
    }
}

/// A claim as version 3 sends it; the outcome.
fn claims_as_version_3(server: &MariaDb, claim: &Claim) -> String {
    server.sql(&format!(
        "call leasehold_v2_acquire('default', '{}', '{}', 'old', 60000000, 1, null, 0, null, 0, null, 0, null)",
        claim.name, claim.holder
    ))
}

#[tokio::test]
async fn tables_of_version_3_get_a_place_for_notes_and_go_on_to_be_used_by_version_3() {
    let server = MariaDb::start();
    Tables::migrate(&server.url()).await.unwrap();
    server.sql(BACK_TO_VERSION_3);
    server.sql("grant execute on procedure jobs.leasehold_v2_acquire to poor@'%'");
    let (held, other) = (claim("held", TTL), claim("held", TTL));
    assert!(claims_as_version_3(&server, &held).starts_with("1\t"));
    let lives = "select expires, home from leasehold_locks, leasehold_schema where name = 'held'";
    let before = server.sql(lives);

    let store = store(&server.url());
    writes(&store, note("held", "1")).await;
    assert_eq!(server.sql(lives), before);
    assert_eq!(server.sql("select version, oldest from leasehold_schema"), "4\t1");
    assert_eq!(server.sql("select count(*) from mysql.procs_priv where user = 'poor'"), "1", "what was granted is");
    assert!(matches!(store.try_acquire(&other).await.unwrap(), Attempt::Held(_)));
    assert!(matches!(store.renew(&[(lease(&held), TTL)]).await[..], [Ok(Renewal::Renewed)]));
    assert!(claims_as_version_3(&server, &other).starts_with("2\t"));
    assert_eq!(store.release(&lease(&held), Ended::default()).await.unwrap(), Release::Released);
    assert!(claims_as_version_3(&server, &other).starts_with("1\t"));
    assert!(matches!(store.try_acquire(&held).await.unwrap(), Attempt::Held(_)));
}

#[tokio::test]
async fn who_may_not_upgrade_is_told_what_to_have_run() {
    let server = MariaDb::start();
    Tables::migrate(&server.url()).await.unwrap();
    server.sql(BACK_TO_VERSION_3);
    server.sql("grant select, insert, update, delete, execute on jobs.* to poor@'%'");
    let store = store(&server.url_as("poor", "hunter3"));
    for _ in 0..2 {
        let error = store.try_acquire(&claim("job", TTL)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
        assert!(error.to_string().contains("migrate --print"), "{error}");
    }
    server.script(&Tables::migration(&server.url()).unwrap());
    assert!(matches!(store.try_acquire(&claim("job", TTL)).await.unwrap(), Attempt::Granted(_)));
    writes(&store, note("job", "1")).await;
}
