//! A server, a pooler before it, a standby behind it.

use std::time::{Duration, Instant};

use leasehold::store::{Epoch, Force, Refusal, TickClaim};
use leasehold::stores::postgres::Postgres as Tables;
use leasehold::{Attempt, ErrorKind, Renewal, Severity};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::servers::{PgBouncer, PoolMode, Postgres};

use super::stories::{
    arbiter, carries, claim, claims, claims_tick, due, founded, here, is_granted, key, read, switches, terms,
};
use super::*;

const SOON: Duration = Duration::from_secs(20);

/// What `leasehold migrate --print` printed when the tables had no tags.
const VERSION_1: &str = include_str!("postgres_1.sql");

fn open(server: &Postgres) -> Arc<dyn Store> {
    leasehold::stores::open(&server.url()).unwrap()
}

fn over(url: &str, [namespace, _]: [&str; 2]) -> Subject {
    Subject::from(leasehold::stores::open(&format!("{url}?namespace={namespace}")).unwrap())
}

fn is_clean(server: &Postgres) {
    assert_eq!(server.errors(), Vec::<String>::new());
}

/// Another transaction that sleeps at its end, while the test goes on.
fn meanwhile(server: &Arc<Postgres>, statements: &str) -> tokio::task::JoinHandle<String> {
    let (server, transaction) = (Arc::clone(server), format!("begin; {statements}; commit"));
    tokio::task::spawn_blocking(move || server.sql(&transaction))
}

async fn is_asleep(server: &Postgres) {
    eventually_async("it sleeps", SOON, async || {
        server.sql("select count(*) from pg_stat_activity where wait_event = 'PgSleep'") == "1"
    })
    .await;
}

#[test]
fn the_contract() {
    let server = Postgres::start();
    run_all(&server, |server: &Postgres, names| over(&server.url(), names), ARBITER);
    is_clean(&server);
}

#[test]
fn the_contract_through_a_pooler_in_transaction_mode() {
    let server = Postgres::start();
    let pooler = PgBouncer::to(&server, PoolMode::Transaction);
    run_all(&pooler, |pooler: &PgBouncer, names| over(&pooler.url(), names), ARBITER);
    is_clean(&server);
}

#[test]
fn the_contract_where_serializable_is_the_default() {
    let server = Postgres::options().config("default_transaction_isolation", "serializable").start();
    run_all(&server, |server: &Postgres, names| over(&server.url(), names), ARBITER);
    is_clean(&server);
}

#[tokio::test]
async fn it_answers_as_memory_does() {
    let server = Postgres::start();
    for seed in 0..20 {
        let store = leasehold::stores::open(&format!("{}?namespace=seed-{seed}", server.url())).unwrap();
        twins::answers_as_memory_does(&store, seed).await;
    }
    is_clean(&server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_connections_meet() {
    let server = Postgres::start();
    let [a, b, c] = [(); 3].map(|()| open(&server));
    stories::one_of_two_switches(&a, &b).await;
    server.sql("truncate leasehold_routes, leasehold_locks");
    stories::a_claim_meets_a_switch(&b, &c).await;
    server.sql("truncate leasehold_routes, leasehold_locks");
    stories::a_carry_meets_a_claim(&a, &c).await;
    is_clean(&server);
}

#[tokio::test]
async fn all_is_there_after_restarts_of_the_server() {
    let server = Postgres::options().durable().start();
    stories::all_is_there_after_restarts(async || {
        server.kill();
        server.restart();
        let store = open(&server);
        eventually_async("it is up", SOON, async || store.time().await.is_ok()).await;
        store
    })
    .await;
}

#[tokio::test]
async fn routes_and_ticks_are_on_the_disk_though_other_commits_need_not_be() {
    let server = Postgres::options()
        .durable()
        .config("wal_writer_delay", "10s")
        .config("wal_writer_flush_after", "0")
        .config("synchronous_commit", "off")
        .start();
    let comes_back = async || {
        server.kill();
        server.restart();
        let store = open(&server);
        eventually_async("it is up", SOON, async || store.time().await.is_ok()).await;
        store
    };
    let mut store = open(&server);
    let due = due(&store).await;
    arbiter(&store).found(&here(1), &terms()).await.unwrap();
    store = comes_back().await;
    arbiter(&store).arm(Epoch::FIRST, Duration::ZERO).await.unwrap();
    store = comes_back().await;
    assert!(matches!(claims_tick(&store, &claim("job"), due, 1).await, Ok(TickClaim::Claimed { .. })));
    store = comes_back().await;
    assert!(matches!(claims_tick(&store, &claim("job"), due, 1).await, Ok(TickClaim::NotDue(_))));
    assert!(switches(&store, 1).await);
    store = comes_back().await;
    assert_eq!(read(&store).await.route, here(2));
    assert_eq!(arbiter(&store).repair(Epoch::new(2), &terms()).await.unwrap(), Epoch::new(4));
    store = comes_back().await;
    assert_eq!(read(&store).await.route, here(4));
}

#[tokio::test]
async fn a_backup_is_repaired() {
    let server = Postgres::start();
    let tables = ["leasehold_locks", "leasehold_ticks", "leasehold_routes"];
    let each = |statement: &str| tables.map(|table| statement.replace('@', table)).join("; ");
    let save = async || {
        server.sql(&format!("create schema backup; {}", each("create table backup.@ as table public.@")));
    };
    let restore = async || {
        server.sql(&each("delete from public.@; insert into public.@ table backup.@"));
        open(&server)
    };
    stories::a_backup_is_repaired(save, restore, open(&server)).await;
    is_clean(&server);
}

#[tokio::test]
async fn namespaces_are_apart() {
    let server = Postgres::start();
    let other = leasehold::stores::open(&format!("{}?namespace=other", server.url())).unwrap();
    stories::namespaces_are_apart(&open(&server), &other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_survives_the_way_there_and_back() {
    let server = Postgres::start();
    stories::a_hold_survives_the_way_there_and_back(|| open(&server)).await;
    is_clean(&server);
}

/// H2: whoever gives a route its time reads the clock before others see it. Nobody reads the old row meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h2_a_route_is_not_read_while_it_is_given_a_time() {
    let server = Arc::new(Postgres::start());
    let store = open(&server);
    arbiter(&store).found(&here(1), &terms()).await.unwrap();
    assert_eq!(read(&store).await.force, Force::Unarmed);
    let arming = meanwhile(&server, "call leasehold_v4_arm('default', 1, 60000000, null, null); select pg_sleep(1)");
    is_asleep(&server).await;
    let force = read(&store).await.force;
    assert!(matches!(force, Force::In(rest) if rest < Duration::from_secs(60)), "{force:?}");
    arming.await.unwrap();
}

/// And the other way round: a route that is switched has no time.
#[tokio::test]
async fn h2_a_switch_gives_no_time() {
    let server = Postgres::start();
    let store = open(&server);
    founded(&store).await;
    assert!(switches(&store, 1).await);
    assert_eq!(server.sql("select epoch, not_before is null from leasehold_routes"), "2|t");
}

/// Who is merely at the row is waited for; a fence keeps everybody out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_carry_waits_for_its_turn_and_heeds_a_fence() {
    let server = Arc::new(Postgres::start());
    let store = open(&server);
    founded(&store).await;
    for name in ["busy", "fenced"] {
        let before = claim(name);
        assert!(is_granted(&claims(&store, &before, 1).await));
        store.leave(&key(&before)).await.unwrap();
    }
    assert!(switches(&store, 1).await);
    arbiter(&store).arm(Epoch::new(2), stories::LONG).await.unwrap();
    for (name, statement, seconds) in [
        ("busy", "update leasehold_locks set label = 'x' where name = 'busy'", 1),
        ("fenced", "select 1 from leasehold_locks where name = 'fenced' for key share", 4),
    ] {
        let holding = meanwhile(&server, &format!("{statement}; select pg_sleep({seconds})"));
        is_asleep(&server).await;
        let carried = carries(&store, &claim(name), 2).await;
        assert_eq!(carried, if name == "busy" { Ok(()) } else { Err(Refusal::HeldByAnother) }, "{name}");
        holding.await.unwrap();
    }
    assert_eq!(carries(&store, &claim("fenced"), 2).await, Ok(()));
    is_clean(&server);
}

/// What waited for a name's row goes by the route as it is then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_route_is_compared_once_the_row_is_had() {
    let server = Arc::new(Postgres::start());
    let [store, other] = [(); 2].map(|()| open(&server));
    founded(&store).await;
    let before = claim("job");
    assert!(is_granted(&claims(&store, &before, 1).await));
    store.leave(&key(&before)).await.unwrap();
    let hold = || meanwhile(&server, "update leasehold_locks set label = 'x'; select pg_sleep(1.5)");

    let mut epoch = 1;
    let late = loop {
        // The row is held for as long at least.
        let (late, began) = (claim("job"), Instant::now());
        let is_held = || began.elapsed() < Duration::from_millis(1500);
        let holding = hold();
        is_asleep(&server).await;
        let switched = async {
            let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
            while server.sql(waits) != "1" && is_held() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert!(switches(&other, epoch).await);
            is_held()
        };
        let (answer, is_in_time) = tokio::join!(claims(&store, &late, epoch), switched);
        holding.await.unwrap();
        if is_in_time {
            assert_eq!(answer.unwrap_err(), Refusal::OtherRoute);
            break late;
        }
        // On a busy machine the row may have been free before the switch: then with the next one.
        store.leave(&key(&late)).await.unwrap();
        epoch += 1;
        arbiter(&other).arm(Epoch::new(epoch), Duration::ZERO).await.unwrap();
    };

    let holding = hold();
    is_asleep(&server).await;
    arbiter(&other).arm(Epoch::new(epoch + 1), Duration::from_millis(500)).await.unwrap();
    let carried = carries(&store, &late, epoch + 1).await;
    assert_eq!(carried, Err(Refusal::OtherRoute), "it has come into force meanwhile");
    holding.await.unwrap();
    assert!(is_granted(&claims(&store, &claim("job"), epoch + 1).await));
    is_clean(&server);
}

#[tokio::test]
async fn a_standby_tells_no_route() {
    let primary = Postgres::start();
    let first = open(&primary);
    founded(&first).await;
    let standby = Postgres::standby_of(&primary);
    standby.catch_up_with(&primary);
    let second = open(&standby);
    for error in [
        arbiter(&second).route().await.unwrap_err(),
        arbiter(&second).arm(Epoch::FIRST, Duration::ZERO).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    standby.promote();
    eventually_async("it is promoted", SOON, async || arbiter(&second).route().await.is_ok()).await;
    assert_eq!(read(&second).await.route, here(1));
}

#[tokio::test]
async fn session_locks_and_foreign_tables_are_no_arbiters() {
    for how in ["mode=advisory", "compat=shedlock"] {
        let store = leasehold::stores::open(&format!("postgres://localhost/x?{how}")).unwrap();
        assert!(store.as_arbiter().is_none(), "{how}");
    }
}

#[tokio::test]
async fn rights_on_the_route_are_for_arbiters_only() {
    let server = Postgres::start();
    server.sql("create role jobs login; create schema locks");
    let url = format!("{}?schema=locks", server.url_as("jobs", ""));
    server.sql(&Tables::migration(&url).unwrap());
    server.sql(
        "grant usage on schema locks to jobs; grant select on locks.leasehold_schema to jobs; \
         grant select, insert, update on locks.leasehold_modes to jobs; \
         grant select, insert, update, delete on locks.leasehold_locks, locks.leasehold_waiters, locks.leasehold_ticks, \
         locks.leasehold_notes to jobs",
    );
    let grant = || drop(server.sql("grant select, insert, update on locks.leasehold_routes to jobs"));
    let store = leasehold::stores::open(&url).unwrap();
    stories::rights_on_the_route_are_for_arbiters_only(&store, grant).await;
}

/// A claim as version 1 sends it; the outcome.
fn claims_as_version_1(server: &Postgres, name: &str, holder: &str) -> String {
    server.sql(&format!(
        "call leasehold_v1_acquire('default', '{name}', '{holder}', 'old', 60000000, 1, null, false, null, false, null, '', \
         null, null, null, null, null, null, null, null, null, null, null, null, null, null)"
    ))
}

fn is_granted_by_version_1(server: &Postgres, name: &str, holder: &str) -> bool {
    claims_as_version_1(server, name, holder).starts_with("1|")
}

#[tokio::test]
async fn tables_of_version_1_are_upgraded_with_their_leases_and_go_on_to_be_used_by_version_1() {
    let server = Postgres::start();
    server.sql(VERSION_1);
    let (held, other) = (claim("held"), claim("held"));
    assert!(is_granted_by_version_1(&server, "held", &held.holder.to_string()));
    let before = server.sql("select token, expires, home from leasehold_locks, leasehold_schema where name = 'held'");

    let store = open(&server);
    assert!(matches!(store.try_acquire(&other).await.unwrap(), Attempt::Held(_)));
    let after = server.sql("select token, expires, home from leasehold_locks, leasehold_schema where name = 'held'");
    assert_eq!(before, after);
    assert_eq!(server.sql("select version, oldest from leasehold_schema"), "4|1");
    assert_eq!(server.sql("select tag is null from leasehold_locks"), "t");
    assert!(matches!(store.renew(&[(key(&held), stories::LONG)]).await[..], [Ok(Renewal::Renewed)]));

    founded(&store).await;
    assert!(matches!(claims(&store, &other, 1).await, Ok(Attempt::Held(_))), "it has no tag, and lives");
    let tagged = claim("tagged");
    assert!(is_granted(&claims(&store, &tagged, 1).await));
    assert!(claims_as_version_1(&server, "tagged", "old").starts_with("2|"), "it sees who holds it");
    assert!(is_granted_by_version_1(&server, "new", "old"), "what no fallback ever had");
    store.leave(&key(&tagged)).await.unwrap();
    assert!(
        claims_as_version_1(&server, "tagged", "old").starts_with("7|"),
        "it could not keep the tag apart: refused"
    );
    assert!(matches!(store.try_acquire(&claim("tagged")).await.unwrap(), Attempt::Granted(_)));
    is_clean(&server);
}

#[tokio::test]
async fn new_tables_are_refused_by_version_1() {
    let server = Postgres::start();
    open(&server).time().await.unwrap();
    assert_eq!(server.sql("select version, oldest from leasehold_schema"), "4|4", "its procedures are not there");
    server.sql(&Tables::migration(&server.url()).unwrap());
    assert_eq!(server.sql("select version, oldest from leasehold_schema"), "4|4");
}

#[tokio::test]
async fn who_may_not_upgrade_is_told_what_to_have_run() {
    let server = Postgres::start();
    server.sql(&format!("create role jobs login; {VERSION_1}"));
    server.sql("grant select, insert, update, delete on all tables in schema public to jobs");
    let upgrade = || {
        is_clean(&server);
        server.sql(&Tables::migration(&server.url()).unwrap());
        server.sql("grant select, insert, update on leasehold_routes to jobs");
    };
    let store = leasehold::stores::open(&server.url_as("jobs", "")).unwrap();
    stories::who_may_not_upgrade_is_told_what_to_have_run(&store, upgrade).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_transaction_completes_is_claimed_by_nobody_else() {
    let server = Arc::new(Postgres::start());
    stories::nobody_claims_what_a_transaction_completes(&open(&server), async |commits| {
        server.sql("update leasehold_locks set key_ends = 1 where key_ends is not null");
        let end = if commits { "" } else { "; rollback; begin" };
        let transaction = meanwhile(&server, &format!("delete from leasehold_ticks; select pg_sleep(4){end}"));
        is_asleep(&server).await;
        stories::OpenTransaction(transaction)
    })
    .await;
    is_clean(&server);
}

#[tokio::test]
async fn an_arbiter_that_may_lose_a_switch_is_a_problem() {
    let server = Postgres::start(); // Without fsync, as tests are.
    let store = open(&server);
    store.time().await.unwrap();
    let severity = async || {
        let findings = store.diagnose().await.unwrap();
        findings.iter().find(|finding| finding.subject == "durability").expect("it is looked at").severity
    };
    assert_eq!(severity().await, Severity::Warning);
    founded(&store).await;
    assert_eq!(severity().await, Severity::Problem);
}

/// Old transactions hold the upgrade up, and it holds up nobody for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_has_to_wait_gives_up_soon() {
    let server = Arc::new(Postgres::start());
    server.sql(VERSION_1);
    assert!(is_granted_by_version_1(&server, "held", "old"));
    let reading = meanwhile(&server, "select count(*) from leasehold_locks; select pg_sleep(6)");
    is_asleep(&server).await;
    let start = Instant::now();
    let error = open(&server).try_acquire(&claim("job")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::TimedOut && start.elapsed() < Duration::from_secs(5), "{error}");
    assert!(is_granted_by_version_1(&server, "another", "old"));
    reading.await.unwrap();
    let store = open(&server);
    assert!(matches!(store.try_acquire(&claim("job")).await.unwrap(), Attempt::Granted(_)));
    assert!(matches!(carries(&store, &claim("x"), 1).await, Err(Refusal::OtherRoute)));
}
