//! A MariaDB server.

use std::time::{Duration, Instant};

use leasehold::store::{Epoch, Force};
use leasehold::stores::mysql::MySql as Tables;
use leasehold::{Attempt, Ended, ErrorKind, FencingToken, Release, Renewal, Severity};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::servers::MariaDb;

use super::stories::{
    LONG, arbiter, carries, claim, claims, due, founded, here, is_granted, key, read, switches, terms,
};
use super::*;

const SOON: Duration = Duration::from_secs(20);

/// What `leasehold migrate --print` printed when the tables had no tags.
const VERSION_1: &str = include_str!("mariadb_1.sql");

fn open(server: &MariaDb) -> Arc<dyn Store> {
    leasehold::stores::open(&server.url()).unwrap()
}

fn over(server: &MariaDb, [namespace, _]: [&str; 2]) -> Subject {
    Subject::from(leasehold::stores::open(&format!("{}?namespace={namespace}", server.url())).unwrap())
}

#[test]
fn the_contract() {
    run_all(&MariaDb::start(), over, ARBITER);
}

#[test]
fn the_contract_where_all_sessions_are_set_otherwise() {
    let server = MariaDb::options()
        .set("transaction-isolation", "SERIALIZABLE")
        .set("autocommit", "0")
        .set("default-time-zone", "+09:00")
        .set("sql-mode", "ANSI_QUOTES")
        .start();
    run_all(&server, over, ARBITER);
}

#[tokio::test]
async fn it_answers_as_memory_does() {
    let server = MariaDb::start();
    for seed in 0..20 {
        let store = leasehold::stores::open(&format!("{}?namespace=seed-{seed}", server.url())).unwrap();
        twins::answers_as_memory_does(&store, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_connections_meet() {
    let server = MariaDb::start();
    let [a, b, c] = [(); 3].map(|()| open(&server));
    let forget = || server.sql("delete from leasehold_routes; delete from leasehold_locks");
    stories::one_of_two_switches(&a, &b).await;
    forget();
    stories::a_claim_meets_a_switch(&b, &c).await;
    forget();
    stories::a_carry_meets_a_claim(&a, &c).await;
}

#[tokio::test]
async fn all_is_there_after_restarts_of_the_server() {
    let server = MariaDb::options().durable().start();
    stories::all_is_there_after_restarts(async || {
        server.restart();
        let store = open(&server);
        eventually_async("it is up", SOON, async || store.time().await.is_ok()).await;
        store
    })
    .await;
}

#[tokio::test]
async fn a_backup_is_repaired() {
    let server = MariaDb::start();
    let tables = ["names", "locks", "fence", "waiters", "ticks", "routes"];
    let each = |statement: &str| tables.map(|table| statement.replace('@', &format!("leasehold_{table}"))).join("; ");
    let save = async || {
        server.sql(&format!("create database backup; {}", each("create table backup.@ as select * from jobs.@")));
    };
    let restore = async || {
        server.sql(&each("delete from jobs.@; insert into jobs.@ select * from backup.@"));
        open(&server)
    };
    stories::a_backup_is_repaired(save, restore, open(&server)).await;
}

#[tokio::test]
async fn namespaces_are_apart() {
    let server = MariaDb::start();
    let other = leasehold::stores::open(&format!("{}?namespace=other", server.url())).unwrap();
    stories::namespaces_are_apart(&open(&server), &other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_survives_the_way_there_and_back() {
    let server = MariaDb::start();
    stories::a_hold_survives_the_way_there_and_back(|| open(&server)).await;
}

async fn releases(store: &Arc<dyn Store>, claim: &leasehold::Claim) {
    assert_eq!(store.release(&key(claim), Ended::default()).await.unwrap(), Release::Released);
}

/// Runs statements in a session of their own, and waits until it sleeps.
async fn asleep(server: &Arc<MariaDb>, statements: &'static str) -> tokio::task::JoinHandle<String> {
    let session = Arc::clone(server);
    let running = tokio::task::spawn_blocking(move || session.sql(statements));
    let sleeping = "select count(*) from information_schema.processlist where state = 'User sleep'";
    eventually_async("it sleeps", SOON, async || server.sql(sleeping) == "1").await;
    running
}

/// H2: whoever gives a route its time reads the clock before others see it. Nobody reads the old row meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h2_a_route_is_not_read_while_it_is_given_a_time() {
    let server = Arc::new(MariaDb::start());
    let store = open(&server);
    arbiter(&store).found(&here(1), &terms()).await.unwrap();
    assert_eq!(read(&store).await.force, Force::Unarmed);
    let late = "start transaction; select 1 from leasehold_routes where ns = 'default' for update; \
                set @now = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)); \
                update leasehold_routes set not_before = @now + 60000000 where ns = 'default'; do sleep(1); commit";
    let arming = asleep(&server, late).await;
    let force = read(&store).await.force;
    assert!(matches!(force, Force::In(rest) if rest < Duration::from_secs(60)), "{force:?}");
    arming.await.unwrap();
}

/// And a switch gives none: a commit may be late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h2_a_claim_waits_for_a_switch_that_is_under_way() {
    let server = Arc::new(MariaDb::start());
    let store = open(&server);
    founded(&store).await;
    assert!(switches(&store, 1).await);
    assert_eq!(server.sql("select epoch, not_before is null from leasehold_routes"), "2\t1");
    arbiter(&store).arm(Epoch::new(2), Duration::ZERO).await.unwrap();
    let late = "start transaction; update leasehold_routes set epoch = 3, not_before = null where ns = 'default'; \
                do sleep(1); commit";
    let switching = asleep(&server, late).await;
    let answer = claims(&store, &claim("job"), 2).await;
    assert!(!is_granted(&answer), "it has checked the route before the switch, and comes after it");
    switching.await.unwrap();
}

/// A carry that had to wait for the name until the route was in force is too late: claims come first then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_carry_that_has_waited_until_the_route_is_in_force_is_refused() {
    let server = Arc::new(MariaDb::start());
    let store = open(&server);
    founded(&store).await;
    let before = claim("job");
    assert!(is_granted(&claims(&store, &before, 1).await));
    releases(&store, &before).await;
    assert!(switches(&store, 1).await);
    let locked =
        "start transaction; select 1 from leasehold_names where name = 'job' for update; do sleep(1.2); commit";
    let locking = asleep(&server, locked).await;
    arbiter(&store).arm(Epoch::new(2), Duration::from_millis(400)).await.unwrap();
    assert!(carries(&store, &claim("job"), 2).await.is_err());
    assert!(store.inspect(&before.name).await.unwrap().is_none());
    locking.await.unwrap();
    assert!(is_granted(&claims(&store, &claim("job"), 2).await));
}

/// Somebody has a name locked that comes over the same connection: the route is read all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_name_holds_up_no_route() {
    let server = Arc::new(MariaDb::start());
    let store = open(&server);
    founded(&store).await;
    let names: Vec<_> = (0..16).map(|n| claim(&format!("job {n}"))).collect();
    for one in &names {
        assert!(is_granted(&claims(&store, one, 1).await));
        releases(&store, one).await;
    }
    let locked = "start transaction; select 1 from leasehold_names for update; do sleep(1.5); commit";
    for rounds_left in (0..5).rev() {
        let locking = asleep(&server, locked).await;
        let stuck = names.iter().map(async |one| drop(arbiter(&store).claim(one, &here(1)).await));
        let route = async {
            let start = Instant::now();
            read(&store).await;
            start.elapsed()
        };
        let (_, took) = tokio::join!(futures_util::future::join_all(stuck), route);
        locking.await.unwrap();
        if took < Duration::from_millis(700) {
            return;
        }
        // The machine may be busy for a moment, and not each time.
        assert!(rounds_left > 0, "{took:?}");
    }
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_no_arbiter() {
    let server = MariaDb::start();
    // Who may write there all the same.
    server.sql("grant all on *.* to jobs@'%'");
    let store = open(&server);
    founded(&store).await;
    let due = due(&store).await;
    server.sql("set global read_only = 1");
    let one = claim("job");
    let switch = leasehold::store::Switch {
        from: Epoch::FIRST,
        to: leasehold::store::Target::Arbiter,
        dwell: Duration::ZERO,
        patience: Duration::ZERO,
    };
    let tick = leasehold::store::TickOf { lease: key(&one), due, again: false };
    let token = Epoch::FIRST.token(1).unwrap();
    let carried = leasehold::store::Carried { key: key(&one), label: String::new(), token, ttl: LONG };
    let arbiter = arbiter(&store);
    for error in [
        arbiter.route().await.unwrap_err(),
        arbiter.found(&here(1), &terms()).await.unwrap_err(),
        arbiter.switch(&switch).await.unwrap_err(),
        arbiter.arm(Epoch::FIRST, Duration::ZERO).await.unwrap_err(),
        arbiter.complain().await.unwrap_err(),
        arbiter.repair(Epoch::FIRST, &terms()).await.unwrap_err(),
        arbiter.claim(&one, &here(1)).await.unwrap_err(),
        arbiter.carry(&carried, &here(1)).await.unwrap_err(),
        arbiter.claim_tick(&tick, Epoch::FIRST).await.unwrap_err(),
        arbiter.standing(&one.name, due, None).await.unwrap_err(),
        arbiter.renew_under(&[(key(&one), LONG)], &here(1)).await.remove(0).unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, leasehold::Applied::No), "{error}");
    }
    server.sql("set global read_only = 0");
    assert_eq!(read(&store).await.route, here(1));
}

#[test]
fn session_locks_and_foreign_tables_are_no_arbiters() {
    for how in ["mode=advisory", "compat=shedlock"] {
        let store = leasehold::stores::open(&format!("mysql://root@localhost/x?{how}")).unwrap();
        assert!(store.as_arbiter().is_none(), "{how}");
    }
}

/// A fence of an earlier holder keeps a carried lease out, as it does a claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_carried_over_an_open_fence() {
    let server = Arc::new(MariaDb::start());
    let store = open(&server);
    founded(&store).await;
    let old = claim("job");
    assert!(is_granted(&claims(&store, &old, 1).await));
    assert!(switches(&store, 1).await);
    arbiter(&store).arm(Epoch::new(2), LONG).await.unwrap();
    let fence =
        "start transaction; select 1 from leasehold_fence where name = 'job' lock in share mode; do sleep(4); commit";
    let fencing = asleep(&server, fence).await;
    let new = claim("job");
    assert_eq!(carries(&store, &new, 2).await, Err(leasehold::store::Refusal::HeldByAnother));
    fencing.await.unwrap();
    assert_eq!(carries(&store, &new, 2).await, Ok(()));
    assert_eq!(server.sql("select token from leasehold_fence"), Epoch::FIRST.token(7).unwrap().number().to_string());
}

/// Tokens of a name only grow, also where somebody claims it without a route; and the largest of those that are forgotten, which is
/// for all namespaces, has no epoch.
#[tokio::test]
async fn tokens_grow_beside_a_fallback_and_after_it() {
    let server = MariaDb::start();
    let store = open(&server);
    founded(&store).await;
    let mut last = FencingToken::new(0);
    let mut grows = async |attempt: Attempt, who: &leasehold::Claim| {
        let Attempt::Granted(grant) = attempt else { panic!("{attempt:?}") };
        assert!(grant.token > last, "{} after {last}", grant.token);
        last = grant.token;
        releases(&store, who).await;
    };
    for _ in 0..2 {
        let [plain, tagged] = [(); 2].map(|()| claim("job"));
        grows(store.try_acquire(&plain).await.unwrap(), &plain).await;
        grows(claims(&store, &tagged, 1).await.unwrap(), &tagged).await;
    }
    server.sql("update leasehold_names set forget_at = 0 where name = 'job'");
    let new = claim("new");
    assert!(is_granted(&claims(&store, &new, 1).await));
    let forgotten = server.sql("select max(token) < 1 << 46, count(*) from leasehold_names where name = ''");
    assert_eq!(forgotten, "1\t1");
    let again = claim("job");
    grows(claims(&store, &again, 1).await.unwrap(), &again).await;
    let other = leasehold::stores::open(&format!("{}?namespace=other", server.url())).unwrap();
    let Attempt::Granted(grant) = other.try_acquire(&claim("job")).await.unwrap() else { panic!("it is free") };
    assert!(grant.token < Epoch::FIRST.token(0).unwrap(), "as ever");
}

#[tokio::test]
async fn rights_on_the_route_are_for_arbiters_only() {
    let server = MariaDb::start();
    server.script(&Tables::migration(&server.url()).unwrap());
    server.sql(
        "grant select on jobs.leasehold_schema to poor@'%'; grant select, insert on jobs.leasehold_modes to poor@'%'; \
         grant select, insert, update on jobs.leasehold_tokens to poor@'%'; grant execute on jobs.* to poor@'%'",
    );
    for table in ["names", "locks", "fence", "waiters", "ticks", "notes"] {
        server.sql(&format!("grant select, insert, update, delete on jobs.leasehold_{table} to poor@'%'"));
    }
    let grant = || drop(server.sql("grant select, insert, update on jobs.leasehold_routes to poor@'%'"));
    let store = leasehold::stores::open(&server.url_as("poor", "hunter3")).unwrap();
    stories::rights_on_the_route_are_for_arbiters_only(&store, grant).await;
}

/// A claim as version 1 sends it; what it is answered.
fn claims_as_version_1(server: &MariaDb, name: &str, holder: &str) -> String {
    server.sql(&format!(
        "call leasehold_v1_acquire('default', '{name}', '{holder}', 'old', 60000000, 1, null, 0, null, 0, null, 0)"
    ))
}

fn is_granted_by_version_1(server: &MariaDb, name: &str, holder: &str) -> bool {
    claims_as_version_1(server, name, holder).starts_with("1\t")
}

fn renewed_by_version_1(server: &MariaDb, name: &str, holder: &str) -> String {
    server.sql(&format!("call leasehold_v1_renew('default', '[[\"{name}\", \"{holder}\", 60000000]]')"))
}

#[tokio::test]
async fn tables_of_version_1_are_upgraded_with_their_leases_and_go_on_to_be_used_by_version_1() {
    let server = MariaDb::start();
    server.script(VERSION_1);
    let (held, other) = (claim("held"), claim("held"));
    assert!(is_granted_by_version_1(&server, "held", &held.holder.to_string()));
    let lease = "select token, expires, home from leasehold_locks join leasehold_fence using(ns, name, slot), \
                 leasehold_schema where name = 'held'";
    let before = server.sql(lease);

    let store = open(&server);
    assert!(matches!(store.try_acquire(&other).await.unwrap(), Attempt::Held(_)));
    assert_eq!(server.sql(lease), before);
    assert_eq!(server.sql("select version, oldest from leasehold_schema"), "4\t1");
    assert_eq!(server.sql("select tag is null from leasehold_locks"), "1");
    assert_eq!(server.sql("select epoch is null from leasehold_names"), "1");
    assert_eq!(renewed_by_version_1(&server, "held", &held.holder.to_string()), "1");
    assert!(matches!(store.renew(&[(key(&held), LONG)]).await[..], [Ok(Renewal::Renewed)]));

    founded(&store).await;
    assert!(matches!(claims(&store, &other, 1).await, Ok(Attempt::Held(_))), "it has no tag, and lives");
    let tagged = claim("tagged");
    assert!(is_granted(&claims(&store, &tagged, 1).await));
    assert!(claims_as_version_1(&server, "tagged", "old").starts_with("2\t"), "it sees who holds it");
    assert!(is_granted_by_version_1(&server, "new", "old"));
    assert_eq!(renewed_by_version_1(&server, "new", "old"), "1");
    assert!(matches!(claims(&store, &claim("new"), 1).await, Ok(Attempt::Held(_))));
    // What it forgets has no epoch, or nobody could have a new name any more.
    store.leave(&key(&tagged)).await.unwrap();
    server.sql("update leasehold_names set forget_at = 0 where name = 'tagged'");
    for name in ["newer", "newest"] {
        assert!(is_granted_by_version_1(&server, name, "old"), "{name}");
    }
    assert_eq!(server.sql("select count(*) from leasehold_names where name = 'tagged'"), "0");
}

/// Twice, and by somebody who was quicker.
#[tokio::test]
async fn what_is_printed_upgrades_as_well() {
    let server = MariaDb::start();
    server.script(VERSION_1);
    assert!(is_granted_by_version_1(&server, "held", "old"));
    for _ in 0..2 {
        server.script(&Tables::migration(&server.url()).unwrap());
        assert_eq!(server.sql("select version, oldest from leasehold_schema"), "4\t1");
    }
    assert!(is_granted_by_version_1(&server, "another", "old"));
    let store = open(&server);
    assert!(matches!(store.try_acquire(&claim("held")).await.unwrap(), Attempt::Held(_)));
    founded(&store).await;
    // Those of version 1 are ours now, and know tags.
    let tagged = claim("tagged");
    assert!(is_granted(&claims(&store, &tagged, 1).await));
    store.leave(&key(&tagged)).await.unwrap();
    assert!(is_granted_by_version_1(&server, "tagged", "old"));
    assert_eq!(server.sql("select tag is null from leasehold_locks where name = 'tagged'"), "1");
}

/// An upgrade by itself, too: else theirs would leave the tag of the lease before, and a living lease could be buried.
#[tokio::test]
async fn what_version_1_grants_after_an_upgrade_has_no_tag() {
    let server = MariaDb::start();
    server.script(VERSION_1);
    let store = open(&server);
    founded(&store).await;
    let tagged = claim("job");
    let Ok(Attempt::Granted(before)) = claims(&store, &tagged, 1).await else { panic!("it is free") };
    releases(&store, &tagged).await;
    assert!(is_granted_by_version_1(&server, "job", "old"));
    let lease = "select tag is null, token from leasehold_locks join leasehold_fence using(ns, name, slot)";
    let (tag, token) = server.sql(lease).split_once('\t').map(|(tag, token)| (tag == "1", token.parse())).unwrap();
    assert!(tag && token.unwrap_or(0) > before.token.number());
    assert!(switches(&store, 1).await);
    arbiter(&store).arm(Epoch::new(2), Duration::ZERO).await.unwrap();
    assert!(matches!(claims(&store, &claim("job"), 2).await, Ok(Attempt::Held(_))), "it lives");
    assert_eq!(renewed_by_version_1(&server, "job", "old"), "1");
}

/// Who may make procedures, and not drop those of others, leaves the tables as they were.
#[tokio::test]
async fn who_may_not_put_away_procedures_of_version_1_is_told_what_to_have_run() {
    let server = MariaDb::start();
    server.script(VERSION_1);
    server.sql("grant select, insert, update, delete, execute, create, alter, create routine on jobs.* to poor@'%'");
    let store = leasehold::stores::open(&server.url_as("poor", "hunter3")).unwrap();
    for _ in 0..2 {
        let error = store.try_acquire(&claim("job")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
        assert!(error.to_string().contains("migrate --print"), "{error}");
        assert_eq!(server.sql("select version from leasehold_schema"), "1");
        assert!(is_granted_by_version_1(&server, "other", "old"));
        assert_eq!(server.sql("delete from leasehold_locks"), "");
    }
    server.script(&Tables::migration(&server.url()).unwrap());
    assert!(matches!(store.try_acquire(&claim("job")).await.unwrap(), Attempt::Granted(_)));
}

/// What version 2 brought and version 3 did not change stays, and with it the rights on it; its programs go on.
#[tokio::test]
async fn tables_of_version_2_get_what_is_new_and_keep_the_rest() {
    let server = MariaDb::start();
    server.script(&Tables::migration(&server.url()).unwrap());
    let release = VERSION_1.split("\n//\n").find(|one| one.contains("create procedure leasehold_v1_release")).unwrap();
    server.script(&format!(
        "drop procedure leasehold_v3_release;\ndrop procedure leasehold_v1_release;\ndelimiter //\n{release}\n//\ndelimiter ;\n\
         update leasehold_schema set version = 2;\n"
    ));
    for procedure in ["acquire", "renew", "release"] {
        server.sql(&format!("grant execute on procedure jobs.leasehold_v1_{procedure} to poor@'%'"));
    }
    assert!(is_granted_by_version_1(&server, "held", "old"));
    let store = open(&server);
    assert!(matches!(store.try_acquire(&claim("held")).await.unwrap(), Attempt::Held(_)));
    assert_eq!(server.sql("select version, oldest from leasehold_schema"), "4\t1");
    let granted = "select count(*) from mysql.procs_priv where user = 'poor'";
    assert_eq!(server.sql(granted), "3", "what was granted on them is");
    assert_eq!(server.sql("call leasehold_v1_release('default', 'held', 'old', 0, null, null)"), "1");
    let ours = claim("held");
    assert!(matches!(store.try_acquire(&ours).await.unwrap(), Attempt::Granted(_)));
    releases(&store, &ours).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_transaction_completes_is_claimed_by_nobody_else() {
    let server = Arc::new(MariaDb::start());
    stories::nobody_claims_what_a_transaction_completes(&open(&server), async |commits| {
        server.sql("update leasehold_names set mark_until = 1 where mark_until is not null");
        let statements = if commits {
            "begin; delete from leasehold_ticks; do sleep(4); commit"
        } else {
            "begin; delete from leasehold_ticks; do sleep(4); rollback"
        };
        stories::OpenTransaction(asleep(&server, statements).await)
    })
    .await;
}

#[tokio::test]
async fn an_arbiter_that_may_lose_a_switch_is_a_problem() {
    let server = MariaDb::start();
    server.sql("set global innodb_flush_log_at_trx_commit = 2");
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

#[tokio::test]
async fn new_tables_can_be_used_by_version_1() {
    let server = MariaDb::start();
    let store = open(&server);
    store.time().await.unwrap();
    assert!(is_granted_by_version_1(&server, "job", "old"));
    assert_eq!(renewed_by_version_1(&server, "job", "old"), "1");
    assert!(matches!(store.try_acquire(&claim("job")).await.unwrap(), Attempt::Held(_)));
}

#[tokio::test]
async fn who_may_not_upgrade_is_told_what_to_have_run() {
    let server = MariaDb::start();
    server.script(VERSION_1);
    server.sql("grant select, insert, update, delete, execute on jobs.* to poor@'%'");
    let upgrade = || server.script(&Tables::migration(&server.url()).unwrap());
    let store = leasehold::stores::open(&server.url_as("poor", "hunter3")).unwrap();
    stories::who_may_not_upgrade_is_told_what_to_have_run(&store, upgrade).await;
}

/// Old transactions hold the upgrade up, and it holds up nobody for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_has_to_wait_gives_up_soon() {
    let server = Arc::new(MariaDb::start());
    server.script(VERSION_1);
    assert!(is_granted_by_version_1(&server, "held", "old"));
    let reading = asleep(&server, "start transaction; select count(*) from leasehold_locks; do sleep(8); commit").await;
    let start = Instant::now();
    let error = open(&server).try_acquire(&claim("job")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && start.elapsed() < Duration::from_secs(7), "{error}");
    assert!(is_granted_by_version_1(&server, "another", "old"));
    reading.await.unwrap();
    let store = open(&server);
    assert!(matches!(store.try_acquire(&claim("job")).await.unwrap(), Attempt::Granted(_)));
    founded(&store).await;
}
