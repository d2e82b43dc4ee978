//! The MySQL store beside real MariaDB servers that stop, forget, close connections and keep other time. What every store
//! must do is in `conformance.rs`. The numbers are those of the fault of another system that the test was made of.
#![cfg(feature = "mysql")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::stores::mysql::MySql;
use leasehold::{
    Applied, Attempt, Claim, Due, Ended, ErrorKind, HolderId, LockName, Locks, LossReason, Outcome, Release, Renewal,
    Severity, Store, Tick, Verdict, Wait,
};
use leasehold_testkit::process::{eventually, eventually_async};
use leasehold_testkit::proxy::{Direction, Proxy, Then};
use leasehold_testkit::servers::{Certificates, MariaDb};

mod claims;
use claims::{SOON, TTL, acquired, claim, is_free, lease, locks, store};

async fn works(url: &str) {
    acquired(&locks(url).await.lock("job")).await.release().await.unwrap();
}

async fn refusal(url: &str) -> leasehold::Error {
    locks(url).await.lock("job").try_acquire().await.unwrap_err()
}

async fn is_held(locks: &Locks, name: &str) -> bool {
    matches!(locks.lock(name).try_acquire().await.unwrap(), Outcome::Contended(_))
}

/// How often procedures were called until now.
fn calls(server: &MariaDb) -> u64 {
    let said = server.sql("show global status like 'Com_call_procedure'");
    said.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn l01_no_clock_of_a_node_decides() {
    let server = MariaDb::start();
    let (ours, others) = (locks(&server.url()).await, locks(&server.url()).await);
    server.sql("set global log_output = 'TABLE', global general_log = 1");
    let began = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros();
    let guard = acquired(&ours.lock("job").ttl(TTL)).await;
    assert!(is_held(&others, "job").await);
    tokio::time::sleep(TTL / 2).await; // renewed meanwhile
    let held = others.inspect("job").await.unwrap().unwrap();
    assert!(held.remaining <= TTL && held.held_for >= TTL / 2, "{held:?}");
    guard.release().await.unwrap();
    let said = server.sql("select argument from mysql.general_log where argument like '%call leasehold%'");
    let numbers = said.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<u128>().ok());
    assert!(said.contains("v1_renew") && said.contains("v3_release"), "{said}");
    for number in numbers {
        let is_instant = |unit: u128| number.abs_diff(began / unit) < 86_400_000_000 / unit;
        assert!(!is_instant(1) && !is_instant(1000) && !is_instant(1_000_000), "{number} in {said}");
    }
}

#[tokio::test]
async fn l02_l10_no_time_zone_has_a_say() {
    let server = MariaDb::options().set("default-time-zone", "+09:00").start();
    let ours = locks(&server.url()).await;
    let guard = acquired(&ours.lock("job").ttl(TTL)).await;
    for zone in ["-11:00", "+13:00", "+00:00"] {
        server.sql(&format!("set global time_zone = '{zone}'"));
        let others = locks(&server.url()).await;
        assert!(is_held(&others, "job").await, "{zone}");
        let held = others.inspect("job").await.unwrap().unwrap();
        assert!(held.remaining <= TTL && held.held_for < SOON, "{zone}: {held:?}");
        tokio::time::sleep(TTL / 2).await;
    }
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    server.sql("set global time_zone = '-11:00'");
    acquired(&locks(&server.url()).await.lock("job")).await.release().await.unwrap();
}

/// Waits until another session sleeps, with what it has locked before.
fn is_asleep(server: &MariaDb) {
    let sleeping = "select count(*) from information_schema.processlist where info like 'do sleep%'";
    eventually("it sleeps", SOON, || server.sql(sleeping) == "1");
}

#[tokio::test]
async fn l10_who_had_to_wait_for_a_row_still_gets_the_whole_ttl() {
    let server = MariaDb::start();
    let store = MySql::open(&server.url()).unwrap();
    let first = claim("job", TTL);
    assert!(matches!(store.try_acquire(&first).await.unwrap(), Attempt::Granted(_)));
    assert_eq!(store.release(&lease(&first), Ended::default()).await.unwrap(), Release::Released);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            server.sql("start transaction; select * from leasehold_names for update; do sleep(3); commit");
        });
        is_asleep(&server);
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let began = Instant::now();
                let locks = locks(&server.url()).await;
                let guard = acquired(&locks.lock("job").ttl(Duration::from_secs(30))).await;
                assert!(began.elapsed() > Duration::from_millis(800), "it had to wait");
                let held = locks.inspect("job").await.unwrap().unwrap();
                assert!(held.remaining > Duration::from_millis(29_500), "{held:?}");
                guard.release().await.unwrap();
            });
        });
    });
}

#[tokio::test]
async fn l05_racing_for_a_new_name_makes_one_holder_and_no_error() {
    let server = MariaDb::start();
    let stores: Vec<_> = (0..6).map(|_| Arc::new(MySql::open(&server.url()).unwrap())).collect();
    for round in 0..20 {
        let name = format!("new {round}");
        let racing: Vec<_> = stores
            .iter()
            .cloned()
            .map(|store| {
                let claim = claim(&name, TTL);
                tokio::spawn(async move { store.try_acquire(&claim).await.unwrap() })
            })
            .collect();
        let mut granted = 0;
        for attempt in racing {
            granted += usize::from(matches!(attempt.await.unwrap(), Attempt::Granted(_)));
        }
        assert_eq!(granted, 1, "{name}");
    }
    drop(stores);
    server.restart();
    works(&server.url()).await;
    let log = server.log();
    let bad: Vec<_> = log.lines().filter(|line| line.contains("[ERROR]") || line.contains("Aborted")).collect();
    assert!(bad.is_empty(), "{bad:?}");
}

#[tokio::test]
async fn j04_a_server_that_closes_idle_connections_costs_no_lock() {
    let server = MariaDb::options().set("wait-timeout", "2").set("interactive-timeout", "2").start();
    let proxy = Proxy::to(server.address());
    let (ours, others) = (locks(&proxy.url(&server.url())).await, locks(&server.url()).await);
    let guard = acquired(&ours.lock("job").ttl(TTL * 3)).await;
    for _ in 0..3 {
        tokio::time::sleep(TTL).await;
        assert!(is_held(&others, "job").await);
        // Also those that are not ours to set: what an operator or a proxy closes.
        proxy.cut();
        server.end_sessions("jobs");
    }
    assert!(guard.is_valid() && guard.loss().is_none(), "{:?}", guard.loss());
    guard.release().await.unwrap();
    acquired(&others.lock("job")).await.release().await.unwrap();
}

#[tokio::test]
async fn b01_a_grant_whose_answer_is_late_is_taken_back() {
    let server = MariaDb::start();
    let proxy = Proxy::to(server.address());
    let (ours, others) = (locks(&proxy.url(&server.url())).await, locks(&server.url()).await);
    acquired(&ours.lock("job").ttl(TTL)).await.release().await.unwrap();
    proxy.blackhole(Direction::ToClient);
    let error =
        ours.lock("job").ttl(Duration::from_secs(60)).wait(Wait::For(Duration::ZERO)).acquire().await.unwrap_err();
    assert_eq!(error.applied(), Applied::Maybe, "{error}");
    proxy.heal();
    eventually_async("nothing is left behind", SOON, async || is_free(&others, "job").await).await;
    acquired(&others.lock("job")).await.release().await.unwrap();
}

#[tokio::test]
async fn b01_a_lost_answer_is_asked_for_again_under_the_same_identity() {
    let server = MariaDb::start();
    let proxy = Proxy::to(server.address());
    let locks = locks(&proxy.url(&server.url())).await;
    acquired(&locks.lock("job").ttl(TTL)).await.release().await.unwrap();
    proxy.drop_reply_after_request(&[0x17], Then::Cut); // COM_STMT_EXECUTE
    let guard = acquired(&locks.lock("job")).await;
    assert_eq!(proxy.dropped_replies(), 1);
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    assert!(is_free(&locks, "job").await);
}

#[tokio::test]
async fn b02_nothing_that_was_asked_of_a_dead_server_reaches_the_next_one() {
    let server = MariaDb::start();
    let locks = locks(&server.url()).await;
    works(&server.url()).await;
    server.kill();
    let error = locks.lock("job").try_acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::No), "{error}");
    server.restart();
    assert_eq!(server.sql("select count(*) from leasehold_locks where holder is not null"), "0");
    acquired(&locks.lock("job")).await.release().await.unwrap();
}

#[tokio::test]
async fn c05_a_server_that_says_nothing_is_a_loss_in_time() {
    let server = MariaDb::start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    server.pause();
    let reason = tokio::time::timeout(TTL, guard.lost()).await.expect("told before the lease is over");
    assert!(matches!(reason, LossReason::Unreachable(_) | LossReason::Expired), "{reason:?}");
    server.resume();
}

#[tokio::test]
async fn a_lease_outlives_a_killed_server_and_its_connections() {
    let server = MariaDb::start();
    let (ours, others) = (locks(&server.url()).await, locks(&server.url()).await);
    let guard = acquired(&ours.lock("job").ttl(TTL * 4)).await;
    server.kill();
    server.restart();
    assert!(is_held(&others, "job").await);
    tokio::time::sleep(TTL * 4).await; // renewed meanwhile, over new connections
    assert!(guard.is_valid() && guard.loss().is_none(), "{:?}", guard.loss());
    let before = guard.token();
    guard.release().await.unwrap();
    assert!(acquired(&others.lock("job")).await.token() > before);
}

/// What was given up unanswered is done or never will be once the next call is asked.
#[tokio::test]
async fn a_call_that_hangs_in_the_server_is_ended_before_the_next_one_is_asked() {
    let server = MariaDb::start();
    let store = MySql::open(&server.url()).unwrap();
    works(&server.url()).await;
    let hung = claim("hung", Duration::from_secs(60));
    std::thread::scope(|scope| {
        scope.spawn(|| server.sql("lock tables leasehold_names write; do sleep(7); unlock tables"));
        is_asleep(&server);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        scope.spawn(move || {
            runtime.block_on(async {
                let error = store.try_acquire(&hung).await.unwrap_err();
                assert_eq!((error.kind(), error.applied()), (ErrorKind::TimedOut, Applied::Maybe), "{error}");
                // Behind it, over the same lane.
                assert_eq!(store.release(&lease(&hung), Ended::default()).await.unwrap(), Release::NotHeld);
                tokio::time::sleep(Duration::from_secs(3)).await;
                assert!(store.inspect(&hung.name).await.unwrap().is_none(), "it was not granted later");
            });
        });
    });
}

#[tokio::test]
async fn rows_deleted_by_hand_are_told_and_tokens_go_on_growing() {
    let server = MariaDb::start();
    let locks = locks(&server.url()).await;
    let mut last = acquired(&locks.lock("job").ttl(TTL)).await;
    for tables in [&["locks"][..], &["locks", "names"], &["locks", "fence"], &["locks", "names", "fence", "waiters"]] {
        for table in tables {
            server.sql(&format!("delete from leasehold_{table}"));
        }
        assert_eq!(tokio::time::timeout(TTL, last.lost()).await.unwrap(), LossReason::Gone);
        let next = acquired(&locks.lock("job").ttl(TTL)).await;
        assert!(next.token() > last.token(), "{tables:?}");
        last = next;
    }
    // What does not say who holds it may be missing: the holder stays.
    for table in ["names", "fence"] {
        server.sql(&format!("delete from leasehold_{table}"));
        assert!(is_held(&locks, "job").await);
        tokio::time::sleep(TTL).await;
        assert!(last.is_valid());
    }
    last.release().await.unwrap();
    acquired(&locks.lock("job")).await.release().await.unwrap();
}

/// A backup of an hour ago, or of yesterday, brings old leases and old counters back.
#[tokio::test]
async fn rows_restored_by_hand_do_no_harm() {
    let server = MariaDb::start();
    let locks = locks(&server.url()).await;
    let old = acquired(&locks.lock("job").ttl(TTL)).await;
    for table in ["names", "locks", "fence"] {
        server.sql(&format!("create table saved_{table} as select * from leasehold_{table}"));
    }
    let token = old.token();
    old.release().await.unwrap();
    let between = acquired(&locks.lock("job")).await;
    assert!(between.token() > token);
    let newest = between.token();
    between.release().await.unwrap();
    for table in ["names", "locks", "fence"] {
        server.sql(&format!("replace into leasehold_{table} select * from saved_{table}"));
    }
    eventually_async("the old lease runs out", SOON, async || is_free(&locks, "job").await).await;
    assert!(acquired(&locks.lock("job")).await.token() > newest);
}

#[tokio::test]
async fn a_counter_that_is_an_hour_ahead_of_the_clock_makes_no_tokens() {
    let server = MariaDb::start();
    let locks = locks(&server.url()).await;
    acquired(&locks.lock("job")).await.release().await.unwrap();
    server.sql("update leasehold_names set token = token + 3700000 * 16");
    let error = locks.lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    server.sql("update leasehold_names set token = token - 200000 * 16");
    acquired(&locks.lock("job")).await.release().await.unwrap();
}

#[tokio::test]
async fn a_row_that_somebody_locks_keeps_no_other_lease_from_being_renewed() {
    let server = MariaDb::start();
    let store = MySql::open(&server.url()).unwrap();
    let claims = ["a", "b", "c"].map(|name| claim(name, TTL * 10));
    for claim in &claims {
        assert!(matches!(store.try_acquire(claim).await.unwrap(), Attempt::Granted(_)));
    }
    let batch: Vec<_> = claims.iter().map(|claim| (lease(claim), TTL * 10)).collect();
    let mut other = locked(&server, "select * from leasehold_locks where ns = 'default' and name = 'b' for update");
    let answers = store.renew(&batch).await;
    let [a, b, c] = &answers[..] else { panic!("an answer for each") };
    assert!(matches!((a, c), (Ok(Renewal::Renewed), Ok(Renewal::Renewed))), "{answers:?}");
    let error = b.as_ref().unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::No), "{error}");
    // A claim waits for a while, and is told that it got nothing.
    let error = store.try_acquire(&Claim { holder: HolderId::fresh(), ..claims[1].clone() }).await;
    assert!(matches!(error, Ok(Attempt::Held(_))), "a look needs no lock: {error:?}");
    server.sql("select id into @other from information_schema.processlist where info like 'do sleep%'; kill @other");
    let _ = other.wait();
    eventually_async("the row is free", SOON, async || matches!(store.renew(&batch).await[1], Ok(Renewal::Renewed)))
        .await;
}

/// A client of the server's own that has locked rows and does nothing until it is killed.
fn locked(server: &MariaDb, statement: &str) -> std::process::Child {
    let mut client = std::process::Command::new("mariadb")
        .args(["--no-defaults", "--user=root", "--batch", "--unbuffered", "--database=jobs"])
        .arg(format!("--socket={}", server.socket().display()))
        .args(["--execute", &format!("start transaction; {statement}; do sleep(60)")])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + SOON;
    while !server
        .sql("select info from information_schema.processlist where info like 'do sleep%'")
        .contains("sleep(60)")
    {
        assert!(Instant::now() < deadline && client.try_wait().unwrap().is_none(), "it locks the row");
    }
    client
}

#[tokio::test]
async fn plain_contended_tries_write_nothing() {
    let server = MariaDb::start();
    let (ours, others) = (locks(&server.url()).await, locks(&server.url()).await);
    let _guard = acquired(&ours.lock("job").ttl(Duration::from_secs(60))).await;
    assert!(is_held(&others, "job").await);
    let row_writes = || {
        server.sql(
            "select variable_value from information_schema.global_status \
             where variable_name in ('INNODB_ROWS_INSERTED', 'INNODB_ROWS_UPDATED', 'INNODB_ROWS_DELETED')",
        )
    };
    let before = row_writes();
    for _ in 0..20 {
        assert!(is_held(&others, "job").await);
    }
    assert_eq!(row_writes(), before);
}

#[tokio::test]
async fn a_thousand_leases_are_renewed_in_ten_calls_over_one_connection() {
    let server = MariaDb::start();
    let store = MySql::open(&server.url()).unwrap();
    let claims: Vec<_> = (0..1000).map(|n| claim(&format!("job {n}"), Duration::from_secs(60))).collect();
    for claim in &claims {
        assert!(matches!(store.try_acquire(claim).await.unwrap(), Attempt::Granted(_)));
    }
    let keeper = store.for_keeper();
    let batch: Vec<_> = claims.iter().map(|claim| (lease(claim), Duration::from_secs(60))).collect();
    let before = calls(&server);
    let began = Instant::now();
    for batch in batch.chunks(100) {
        assert!(keeper.renew(batch).await.iter().all(|answer| matches!(answer, Ok(Renewal::Renewed))));
    }
    println!("1000 leases in {:?}", began.elapsed());
    assert_eq!(calls(&server) - before, 10);
    let connections = server.sql("select count(*) from information_schema.processlist where user = 'jobs'");
    assert!(connections.parse::<u32>().unwrap() <= 5, "{connections}");
}

#[tokio::test]
async fn first_come_first_served_though_nobody_is_woken() {
    let server = MariaDb::start();
    let (holder, order) = (locks(&server.url()).await, Arc::new(std::sync::Mutex::new(Vec::new())));
    let guard = acquired(&holder.lock("job")).await;
    let mut waiting = Vec::new();
    for n in 0..4 {
        let (locks, order) = (locks(&server.url()).await, Arc::clone(&order));
        waiting.push(tokio::spawn(async move {
            let guard = locks.lock("job").acquire().await.unwrap().guard().unwrap();
            order.lock().unwrap().push(n);
            guard.release().await.unwrap();
        }));
        eventually_async("it waits", SOON, async || {
            holder.inspect("job").await.unwrap().is_some_and(|holding| holding.waiting == n + 1)
        })
        .await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await; // three lives of an entry
    guard.release().await.unwrap();
    for task in waiting {
        tokio::time::timeout(SOON, task).await.expect("its turn came").unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
}

#[tokio::test]
async fn a_key_is_forgotten_when_its_time_is_over_and_not_before() {
    let server = MariaDb::start();
    let store = leasehold::stores::open(&server.url()).unwrap();
    let keep = Duration::from_secs(2);
    let new = || {
        let due = Some(Due { tick: Tick::ONLY, retry_failed: false, keep });
        Claim { due, ..claim("invoice", TTL) }
    };
    let first = new();
    let Attempt::Granted(before) = store.try_acquire(&first).await.unwrap() else { panic!("it is new") };
    tokio::time::sleep(keep + Duration::from_millis(200)).await;
    assert!(matches!(store.try_acquire(&new()).await.unwrap(), Attempt::Held(_)), "not while somebody has it");
    let done = Ended { verdict: Some(Verdict::Done(Tick::ONLY)), ..Ended::default() };
    assert_eq!(store.release(&lease(&first), done).await.unwrap(), Release::Released);
    assert!(matches!(store.try_acquire(&new()).await.unwrap(), Attempt::NotDue(_)), "from its end on");
    tokio::time::sleep(keep + Duration::from_millis(200)).await;
    let Attempt::Granted(again) = store.try_acquire(&new()).await.unwrap() else { panic!("it is forgotten") };
    assert!(again.token > before.token && again.attempt == 1, "{again:?}");
}

#[tokio::test]
async fn names_that_are_not_used_for_long_leave_nothing_but_their_largest_token() {
    let server = MariaDb::start();
    let locks = locks(&server.url()).await;
    for n in 0..3 {
        acquired(&locks.lock(&format!("old {n}"))).await.release().await.unwrap();
    }
    let held = acquired(&locks.lock("held")).await;
    let soon = server
        .sql("select min(forget_at - timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))) from leasehold_names");
    assert!(soon.parse::<i64>().unwrap() > 8 * 86_400_000_000, "{soon}");
    server.sql("update leasehold_names set forget_at = 1, token = token + 1000 where name <> ''");
    acquired(&locks.lock("new")).await.release().await.unwrap();
    let left = server.sql("select name from leasehold_names where name <> '' order by name");
    assert_eq!(left, "held\nnew", "and what is held");
    for table in ["locks", "fence"] {
        assert_eq!(server.sql(&format!("select count(*) from leasehold_{table}")), "2");
    }
    let floor: u64 = server.sql("select token from leasehold_names where name = ''").parse().unwrap();
    assert!(acquired(&locks.lock("old 1")).await.token().number() > floor);
    assert!(held.is_valid());
}

#[tokio::test]
async fn whatever_is_set_for_all_sessions_changes_nothing() {
    let server = MariaDb::options()
        .set("transaction-isolation", "SERIALIZABLE")
        .set("sql-mode", "ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH")
        .set("innodb-lock-wait-timeout", "0")
        .set("autocommit", "0")
        .set("character-set-server", "latin1")
        .start();
    // Not for the statements that set the server up.
    server.sql(
        "set global max_statement_time = 0.001, global completion_type = 2, global tx_read_only = 1, \
         global sql_select_limit = 0, global max_join_size = 1",
    );
    let findings = locks(&server.url()).await.diagnose().await.unwrap();
    let is_read =
        |subject: &str| findings.iter().any(|found| found.subject == subject && found.severity == Severity::Fine);
    assert!(is_read("version") && is_read("durability"), "{findings:?}");
    let (ours, others) = (locks(&server.url()).await, locks(&server.url()).await);
    let guard = acquired(&ours.lock("job é \\ \" '").ttl(TTL)).await;
    assert!(is_held(&others, "job é \\ \" '").await);
    tokio::time::sleep(TTL).await;
    assert!(guard.is_valid());
    let held = others.list().await.unwrap();
    assert_eq!(held[0].name.as_str(), "job é \\ \" '");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn tables_of_a_newer_version_are_refused_and_left_alone() {
    let server = MariaDb::start();
    works(&server.url()).await;
    server.sql("update leasehold_schema set version = 5");
    works(&server.url()).await; // It says that this one may.
    server.sql("update leasehold_schema set version = 6, oldest = 5");
    let error = refusal(&server.url()).await;
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
    assert!(error.to_string().contains("newer Leasehold (version 6"), "{error}");
    assert_eq!(server.sql("select version from leasehold_schema"), "6");
}

/// One thing after the other, by who is at work and by who comes new; nobody is told an error.
#[tokio::test]
async fn what_is_dropped_by_hand_is_made_again_by_whoever_misses_it() {
    let server = MariaDb::start();
    let old = store(&server.url());
    assert!(matches!(old.try_acquire(&claim("first", TTL)).await.unwrap(), Attempt::Granted(_)));
    for (nth, what) in [
        "table leasehold_names",
        "table leasehold_locks",
        "table leasehold_fence",
        "table leasehold_waiters",
        "table leasehold_ticks",
        "table leasehold_modes",
        "table leasehold_schema",
        "procedure leasehold_v2_acquire",
        "procedure leasehold_v2_own",
        "procedure leasehold_v1_told",
        "procedure leasehold_v3_release",
    ]
    .into_iter()
    .enumerate()
    {
        for (who, store) in [("old", &old), ("new", &store(&server.url()))] {
            server.sql(&format!("drop {}", what.replacen(' ', " if exists ", 1)));
            let name = format!("{nth} {who}");
            let held = Claim { due: Some(hourly(1)), ..claim(&name, TTL) };
            assert!(matches!(store.try_acquire(&held).await.unwrap(), Attempt::Granted(_)), "{what}, {who}");
            let next = Claim { queue: Some(leasehold::Place::default()), ..claim(&name, TTL) };
            assert!(matches!(store.try_acquire(&next).await.unwrap(), Attempt::Held(_)), "{what}, {who}");
            assert_eq!(
                store.release(&lease(&held), Ended::default()).await.unwrap(),
                Release::Released,
                "{what}, {who}"
            );
        }
    }
    assert_eq!(server.sql("select version, oldest from leasehold_schema"), "4\t1");
    assert_eq!(server.sql("select mode from leasehold_modes"), "lease");
}

/// For a tick some time ago.
fn hourly(hours: i64) -> Due {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let tick = Tick::from_unix_millis((i64::try_from(now.as_secs()).unwrap() / 3600 - hours) * 3_600_000).unwrap();
    Due { tick, retry_failed: false, keep: Duration::from_secs(86400) }
}

/// What nobody misses at once, too; and what somebody has changed.
#[tokio::test]
async fn migrate_makes_what_is_missing_and_the_doctor_names_it_and_what_is_another() {
    use leasehold::Severity::{Fine, Problem, Warning};
    let server = MariaDb::start();
    let url = server.url();
    works(&url).await;
    for (how, severity, says) in [
        ("drop table leasehold_routes", Warning, "missing: table leasehold_routes; locks do without"),
        ("drop sequence leasehold_tokens", Warning, "missing: table leasehold_tokens; locks do without"),
        ("drop table leasehold_ticks", Problem, "missing: table leasehold_ticks"),
        ("drop procedure leasehold_v2_arm", Problem, "missing: procedure leasehold_v2_arm"),
        ("drop procedure leasehold_v1_release", Problem, "missing: procedure leasehold_v1_release"),
    ] {
        server.sql(how);
        is_told(&url, severity, "tables", says).await;
        MySql::migrate(&url).await.unwrap();
        assert_eq!(told(&url, "tables").await.iter().map(|finding| finding.severity).max(), Some(Fine), "{how}");
    }
    // Its text is shown to whom it belongs.
    let another = "create definer = jobs@'%' procedure leasehold_v2_forget_key(a int, b int) sql security invoker do 0";
    server.sql(&format!("drop procedure leasehold_v2_forget_key; {another}"));
    is_told(&url, Problem, "tables", "not as this Leasehold makes them: procedure leasehold_v2_forget_key").await;
    server.script(&MySql::migration(&url).unwrap());
    assert_eq!(told(&url, "tables").await.iter().map(|finding| finding.severity).max(), Some(Fine), "as printed");
}

/// Who drops a column takes what stood there along. Where there are rows, it is for somebody to decide what becomes of them.
#[tokio::test]
async fn migrate_adds_a_column_that_was_dropped_or_says_what_to_do() {
    use leasehold::Severity::{Fine, Problem};
    let server = MariaDb::start();
    let url = server.url();
    MySql::migrate(&url).await.unwrap();
    for (table, how, says) in [
        (
            "names",
            "drop column mark_keep, drop key leasehold_forget",
            "column mark_keep of leasehold_names, index leasehold_forget of",
        ),
        ("locks", "drop primary key, drop column tag", "column tag of leasehold_locks, index PRIMARY of"),
        ("waiters", "drop column ticket", "column ticket of leasehold_waiters"),
    ] {
        server.sql(&format!("alter table leasehold_{table} {how}"));
        is_told(&url, Problem, "tables", says).await;
        if table == "names" {
            server.sql("drop procedure leasehold_v2_acquire"); // Else nobody would miss anything.
            let error = refusal(&url).await;
            assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
            assert!(error.to_string().contains("have `leasehold migrate` run"), "nobody else does: {error}");
        }
        MySql::migrate(&url).await.unwrap();
        assert_eq!(told(&url, "tables").await.iter().map(|finding| finding.severity).max(), Some(Fine), "{how}");
    }
    works(&url).await;
    let without_ns = "drop primary key, drop column ns, add primary key(name, tick)";
    for (table, how) in [("locks", "drop column expires"), ("ticks", without_ns)] {
        server.sql(&format!("alter table leasehold_{table} {how}"));
        for _ in 0..2 {
            let error = MySql::migrate(&url).await.unwrap_err();
            assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
            let says = |words: &str| error.to_string().contains(words);
            assert!(says(&format!("`drop table leasehold_{table}`")) && says("`leasehold migrate`"), "{error}");
        }
        server.sql(&format!("drop table leasehold_{table}"));
        MySql::migrate(&url).await.unwrap();
        works(&url).await;
    }
}

/// Begun anew it would say that no lease, mark or token was ever given out: two would hold the lock, or a slot run twice.
#[tokio::test]
async fn a_column_that_rows_have_lost_is_begun_anew_by_nobody() {
    let server = MariaDb::start();
    let url = server.url();
    MySql::migrate(&url).await.unwrap();
    for (table, column) in [
        ("locks", "expires"),
        ("locks", "tag"),
        ("locks", "revoked"),
        ("names", "mark"),
        ("names", "mark_keep"),
        ("names", "mark_until"),
        ("names", "keep"),
        ("names", "permits"),
        ("names", "token"),
        ("names", "epoch"),
        ("fence", "token"),
    ] {
        works(&url).await;
        // Who misses the procedure has all that is missing made.
        server.sql(&format!("alter table leasehold_{table} drop column {column}; drop procedure leasehold_v2_acquire"));
        for by_whom in ["client", "client", "migrate", "migrate"] {
            let error = if by_whom == "client" { refusal(&url).await } else { MySql::migrate(&url).await.unwrap_err() };
            assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{column}: {error}");
            let says = |words: &str| error.to_string().contains(words);
            assert!(says(&format!("column {column} of leasehold_{table}")), "{error}");
            assert!(says("stop all jobs") && says(&format!("`drop table leasehold_{table}`")), "{error}");
            assert!(says("`leasehold migrate`") && says("that forgets"), "{error}");
        }
        let columns = format!("select count(*) from information_schema.columns where table_name = 'leasehold_{table}'");
        assert_eq!(server.sql(&format!("{columns} and column_name = '{column}'")), "0");
        server.sql(&format!("drop table leasehold_{table}"));
        MySql::migrate(&url).await.unwrap();
    }
}

/// A living client that may make nothing, while somebody has them all made anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn procedures_are_replaced_under_the_hands_of_who_calls_them() {
    let server = MariaDb::start();
    MySql::migrate(&server.url()).await.unwrap();
    server.sql("grant select, insert, update, delete on jobs.* to poor@'%'");
    let printed = MySql::migration(&server.url()).unwrap();
    let granted = printed.lines().filter_map(|line| line.strip_prefix("--   grant execute"));
    let granted: Vec<_> = granted.map(|rest| format!("grant execute{}", rest.replace("USER", "poor@'%'"))).collect();
    server.sql(&granted.concat());
    let store = store(&server.url_as("poor", "hunter3"));
    let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let calls = tokio::spawn({
        let is_over = Arc::clone(&is_over);
        async move {
            let mut calls = 0;
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let job = claim("job", TTL);
                assert!(matches!(store.try_acquire(&job).await.unwrap(), Attempt::Granted(_)));
                assert_eq!(store.release(&lease(&job), Ended::default()).await.unwrap(), Release::Released);
                calls += 1;
            }
            calls
        }
    });
    tokio::task::block_in_place(|| (0..10).for_each(|_| server.script(&printed)));
    is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(calls.await.unwrap() > 20);
}

#[tokio::test]
async fn who_may_not_make_what_is_missing_is_told_what_it_is() {
    let server = MariaDb::start();
    MySql::migrate(&server.url()).await.unwrap();
    server.sql("grant select, insert, update, delete, execute on jobs.* to poor@'%'");
    let url = server.url_as("poor", "hunter3");
    let (ours, held) = (store(&url), claim("held", Duration::from_secs(60)));
    assert!(matches!(ours.try_acquire(&held).await.unwrap(), Attempt::Granted(_)));
    server.sql("drop table leasehold_waiters; drop procedure leasehold_v2_arm");
    for _ in 0..2 {
        let queued = Claim { queue: Some(leasehold::Place::default()), ..claim("held", TTL) };
        let error = ours.try_acquire(&queued).await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (ErrorKind::AccessDenied, Applied::No), "{error}");
        let says = |words| error.to_string().contains(words);
        assert!(
            says("table leasehold_waiters, ") && says("leasehold_v2_arm") && says("`leasehold migrate`"),
            "{error}"
        );
        let renewals = ours.renew(&[(lease(&held), Duration::from_secs(60))]).await;
        assert!(matches!(renewals[0], Ok(Renewal::Renewed)), "it needs none of that: {renewals:?}");
    }
    MySql::migrate(&server.url()).await.unwrap();
    works(&url).await;
}

/// What the other tables know of a name is enough.
#[tokio::test]
async fn tokens_grow_though_a_table_that_has_them_is_lost() {
    let server = MariaDb::start();
    let store = store(&server.url());
    let token = async || {
        let job = claim("job", TTL);
        let Attempt::Granted(grant) = store.try_acquire(&job).await.unwrap() else { panic!("it is free") };
        assert_eq!(store.release(&lease(&job), Ended::default()).await.unwrap(), Release::Released);
        grant.token
    };
    token().await;
    // Ahead of the clock, by which they would begin anew.
    server.sql(
        "update leasehold_names set token = token + 16000000; update leasehold_fence set token = token + 16000000",
    );
    let mut last = token().await;
    for table in ["names", "fence", "locks"] {
        server.sql(&format!("drop table leasehold_{table}"));
        let next = token().await;
        assert!(next > last, "{table}: {next} after {last}");
        last = next;
    }
}

/// A holder that never began its work ends nothing that is to be remembered.
#[tokio::test]
async fn who_did_not_begin_prolongs_no_key() {
    let server = MariaDb::start();
    let store = store(&server.url());
    let keep = Duration::from_secs(30 * 86400);
    let job = Claim { due: Some(Due { tick: Tick::ONLY, retry_failed: false, keep }), ..claim("job", TTL) };
    assert!(matches!(store.try_acquire(&job).await.unwrap(), Attempt::Granted(_)));
    let ends = || server.sql("select mark_until from leasehold_names where name = 'job'");
    let before = ends();
    let unbegun = Ended { verdict: Some(Verdict::NotStarted), ..Ended::default() };
    let stranger = lease(&claim("job", TTL));
    assert_eq!(store.release(&stranger, unbegun).await.unwrap(), Release::NotHeld);
    assert_eq!(ends(), before, "somebody else's word");
    assert_eq!(store.release(&lease(&job), unbegun).await.unwrap(), Release::Released);
    assert_eq!(ends(), before);
    assert!(matches!(store.try_acquire(&job).await.unwrap(), Attempt::Granted(_)));
    let (before, done) = (ends(), Ended { verdict: Some(Verdict::Done(Tick::ONLY)), ..Ended::default() });
    assert_eq!(store.release(&lease(&job), done).await.unwrap(), Release::Released);
    assert_ne!(ends(), before, "it is remembered from its end on");
}

#[tokio::test]
async fn where_the_user_may_create_nothing_somebody_else_does_it_before() {
    let server = MariaDb::start();
    let url = server.url_as("poor", "hunter3");
    let error = refusal(&url).await;
    assert_eq!((error.kind(), error.applied()), (ErrorKind::AccessDenied, Applied::No), "{error}");
    server.sql("create table theirs(x int); grant select on jobs.theirs to poor@'%'");
    let error = refusal(&url).await;
    assert_eq!((error.kind(), error.applied()), (ErrorKind::AccessDenied, Applied::No), "{error}");
    assert!(error.to_string().contains("migrate --print") && !error.to_string().contains("hunter3"), "{error}");
    server.script(&MySql::migration(&server.url()).unwrap());
    server.script(&MySql::migration(&server.url()).unwrap()); // Again does no harm.
    let printed = MySql::migration(&server.url()).unwrap();
    let grants: Vec<_> = printed.lines().filter_map(|line| line.strip_prefix("--   ")).collect();
    server.sql(&grants.join("\n").replace("USER", "poor@'%'"));
    works(&url).await;
    works(&server.url()).await;
}

#[tokio::test]
async fn wrong_passwords_and_databases_are_told_as_what_they_are() {
    let server = MariaDb::start();
    let error = refusal(&server.url_as("jobs", "wrong")).await;
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    assert!(!error.to_string().contains("wrong@"), "{error}");
    let error = refusal(&server.url().replace("/jobs", "/other")).await;
    assert!(matches!(error.kind(), ErrorKind::AccessDenied | ErrorKind::Misconfigured), "{error}");
    server.sql("set global read_only = 1");
    let error = refusal(&server.url()).await;
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
    server.sql("set global read_only = 0; set global max_connections = 10");
    works(&server.url()).await;
}

/// Who may write there all the same, as an administrator may, is granted nothing: it is a replica, or was the primary once.
#[tokio::test]
async fn a_server_that_takes_no_writes_grants_nobody_a_lock() {
    let server = MariaDb::start();
    server.sql(
        "grant all on *.* to jobs@'%'; create table jobs.shedlock(name varchar(64) primary key, lock_until datetime(3) not null, \
         locked_at datetime(3) not null, locked_by varchar(255) not null)",
    );
    for how in ["", "?compat=shedlock"] {
        let (url, held) = (format!("{}{how}", server.url()), claim("held", Duration::from_secs(60)));
        let old = store(&url);
        assert!(matches!(old.try_acquire(&held).await.unwrap(), Attempt::Granted(_)));
        server.sql("set global read_only = 1");
        let error = store(&url).try_acquire(&claim("new", TTL)).await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
        assert!(error.to_string().contains("read_only"), "{error}");
        // What it has a session to is asked once a second; and again after each login.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        for _ in 0..2 {
            let error = old.try_acquire(&claim("new", TTL)).await.unwrap_err();
            assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::No), "{error}");
            server.end_sessions("jobs");
        }
        let renewal = old.renew(&[(lease(&held), TTL)]).await.remove(0);
        assert!(renewal.is_err(), "{renewal:?}");
        server.sql("set global read_only = 0");
        assert!(matches!(old.try_acquire(&claim("new", TTL)).await.unwrap(), Attempt::Granted(_)));
        assert_eq!(old.release(&lease(&held), Ended::default()).await.unwrap(), Release::Released);
    }
}

/// A login takes longer than any call may, as with short TTLs and a network that is slow. What was asked by who has gone
/// meanwhile is not sent after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_that_outlasts_each_call_comes_to_its_end() {
    let server = MariaDb::start();
    let proxy = Proxy::to(server.address());
    for how in ["", "?mode=advisory&namespace=sessions"] {
        let url = format!("{}{how}", server.url());
        assert!(matches!(store(&url).try_acquire(&claim("made", TTL)).await.unwrap(), Attempt::Granted(_)));
        let slow = store(&format!("{}{how}", proxy.url(&server.url())));
        for direction in [Direction::ToServer, Direction::ToClient] {
            proxy.delay(direction, Duration::from_millis(40));
        }
        let name = LockName::new("job").unwrap();
        let limit = Duration::from_millis(250);
        assert!(tokio::time::timeout(limit, slow.try_acquire(&claim("job", TTL))).await.is_err(), "it is slow");
        eventually_async("it is found done", SOON, async || {
            matches!(tokio::time::timeout(limit, slow.inspect(&name)).await, Ok(Ok(None)))
        })
        .await;
        proxy.heal();
        if how.is_empty() {
            assert_eq!(server.sql("select count(*) from leasehold_names where name = 'job'"), "0", "it was never sent");
        }
    }
}

#[tokio::test]
async fn a_server_that_takes_no_writes_tells_neither_time_nor_holders() {
    let server = MariaDb::start();
    server.sql(
        "create table jobs.shedlock(name varchar(64) primary key, lock_until datetime(3) not null, \
         locked_at datetime(3) not null, locked_by varchar(255) not null)",
    );
    let url = server.url();
    let stores = ["", "?compat=shedlock", "?mode=advisory&namespace=sessions"].map(|how| store(&format!("{url}{how}")));
    for store in &stores {
        store.time().await.unwrap();
    }
    server.sql("set global read_only = 1");
    for store in &stores {
        let error = store.time().await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::No), "{error}");
    }
    let [leases, ..] = &stores;
    let name = LockName::new("job").unwrap();
    let queue = leases.queue(&name).await.map(drop);
    for error in [leases.inspect(&name).await.unwrap_err(), leases.list().await.unwrap_err(), queue.unwrap_err()] {
        assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::No), "{error}");
    }
    server.sql("set global read_only = 0");
    for store in &stores {
        store.time().await.unwrap();
    }
    assert_eq!(leases.list().await.unwrap(), []);
}

#[tokio::test]
async fn over_a_unix_socket_and_with_a_password_file() {
    let server = MariaDb::start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "hunter2\n").unwrap();
    let (socket, file) = (server.socket(), file.display().to_string());
    works(&format!("mariadb://jobs@/jobs?socket={}&password_file={file}", socket.display())).await;
    std::fs::write(&file, "hunter3\n").unwrap();
    let url = format!("mysql://jobs@{}/jobs?password_file={file}", server.address());
    assert_eq!(refusal(&url).await.kind(), ErrorKind::AccessDenied);
    std::fs::remove_file(&file).unwrap();
    let error = refusal(&url).await;
    assert!(error.kind() == ErrorKind::Misconfigured && error.to_string().contains("can't be read"), "{error}");
}

#[tokio::test]
async fn over_tls_to_whom_we_trust() {
    let server = MariaDb::options().tls().start();
    let others = Certificates::new();
    let trusting = |files: &Certificates| format!("{}?ca={}", server.url(), files.authority().display());
    works(&trusting(server.certificates())).await;
    works(&format!("{}&ssl-mode=verify_ca", trusting(server.certificates()))).await;
    works(&format!("{}?ssl-mode=required", server.url())).await;
    for url in [trusting(&others), format!("{}?ssl-mode=verify_identity", server.url())] {
        let error = refusal(&url).await;
        assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
        assert!(error.to_string().contains("not trusted") && error.to_string().contains("ca=FILE"), "{error}");
    }
    server.sql("alter user jobs@'%' require x509");
    assert_eq!(refusal(&trusting(server.certificates())).await.kind(), ErrorKind::AccessDenied);
    let (cert, key) = server.certificates().client();
    works(&format!("{}&cert={}&key={}", trusting(server.certificates()), cert.display(), key.display())).await;
    assert_eq!(refusal(&format!("{}?ssl-mode=disabled", server.url())).await.kind(), ErrorKind::AccessDenied);
}

#[tokio::test]
async fn tls_that_is_asked_for_is_never_left_out() {
    let server = MariaDb::start();
    for mode in ["required", "verify_ca", "verify_identity"] {
        let error = refusal(&format!("{}?ssl-mode={mode}", server.url())).await;
        assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{mode}: {error}");
    }
    works(&format!("{}?ssl-mode=preferred", server.url())).await;
}

#[tokio::test]
async fn environments_do_not_meet() {
    let server = MariaDb::start();
    let (one, other) = (locks(&server.url()).await, locks(&format!("{}?namespace=staging", server.url())).await);
    let _guard = acquired(&one.lock("job")).await;
    acquired(&other.lock("job")).await.release().await.unwrap();
    assert_eq!((one.list().await.unwrap().len(), other.list().await.unwrap().len()), (1, 0));
}

/// A handle may outlive the runtime that it was first used on.
#[test]
fn a_handle_goes_on_over_the_next_runtime() {
    let server = MariaDb::start();
    let store = MySql::open(&server.url()).unwrap();
    for _ in 0..2 {
        let claim = claim("job", TTL);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            assert!(matches!(store.try_acquire(&claim).await.unwrap(), Attempt::Granted(_)));
            assert_eq!(store.release(&lease(&claim), Ended::default()).await.unwrap(), Release::Released);
        });
    }
}

/// What the doctor says of a subject.
async fn told(url: &str, subject: &str) -> Vec<leasehold::Finding> {
    let findings = locks(url).await.diagnose().await.unwrap();
    let found: Vec<_> = findings.iter().filter(|finding| finding.subject == subject).cloned().collect();
    assert!(!found.is_empty(), "nothing of {subject} in {findings:#?}");
    found
}

async fn is_told(url: &str, severity: leasehold::Severity, subject: &str, words: &str) {
    let found = told(url, subject).await;
    let fits = |finding: &leasehold::Finding| {
        let text = format!("{} / {}", finding.message, finding.fix.as_deref().unwrap_or_default());
        finding.severity == severity && text.contains(words)
    };
    assert!(found.iter().any(fits), "{severity:?} {words:?} is not in {found:#?}");
}

#[tokio::test]
async fn the_doctor_says_what_is_well() {
    use leasehold::Severity::Fine;
    let server = MariaDb::start();
    let url = server.url();
    is_told(&url, Fine, "tables", "not there yet").await;
    works(&url).await;
    for (subject, words) in [
        ("version", "MariaDB 10."),
        ("way", "on this machine"),
        ("tables", "version 4"),
        ("rights", "all that locks need"),
        ("durability", "on the disk"),
        ("failover", "logs nothing"),
        ("clock", "at most 1 s"),
        ("latency", "round trip"),
    ] {
        is_told(&url, Fine, subject, words).await;
    }
    let findings = locks(&url).await.diagnose().await.unwrap();
    assert!(findings.iter().all(|finding| finding.severity == Fine), "{findings:#?}");
    let shown = format!("{findings:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[tokio::test]
async fn the_doctor_says_what_is_missing_and_what_it_costs() {
    use leasehold::Severity::Problem;
    let server = MariaDb::start();
    let url = server.url_as("poor", "hunter3");
    let error = locks(&url).await.diagnose().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "it may not even come in: {error}");
    server.sql("create table theirs(x int); grant select on jobs.theirs to poor@'%'");
    is_told(&url, Problem, "rights", "migrate --print").await;
    server.script(&MySql::migration(&server.url()).unwrap());
    for table in ["schema", "names", "locks", "fence"] {
        server.sql(&format!("grant select, insert, update, delete on jobs.leasehold_{table} to poor@'%'"));
    }
    server.sql("grant select, update on jobs.leasehold_waiters to poor@'%'");
    is_told(&url, Problem, "rights", "insert, delete on leasehold_waiters: nobody can wait in line").await;
    is_told(&url, Problem, "rights", "on leasehold_ticks: ticks and keys can't be claimed").await;
    is_told(&url, Problem, "rights", "select, insert on leasehold_modes: nothing works").await;
    let sessions = format!("{url}?mode=advisory");
    is_told(&sessions, Problem, "rights", "select, insert, update on leasehold_tokens: session locks").await;
    server.sql("grant execute on procedure jobs.leasehold_v1_inspect to poor@'%'");
    is_told(&url, Problem, "rights", "may not execute the procedures leasehold_v1_told").await;
}

/// What is under way there of a user's sessions, by their numbers.
fn under_way(server: &MariaDb) -> Vec<String> {
    let busy = "select id from information_schema.processlist where user = 'jobs' and command <> 'Sleep'";
    server.sql(busy).lines().map(str::to_owned).collect()
}

/// A claim that waits for a row that somebody has, over a network that breaks; the server doesn't notice until the row
/// is free, and would grant it then to somebody who has gone on meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_asked_over_a_connection_that_broke_is_ended_before_anything_else_is_asked() {
    let server = Arc::new(MariaDb::start());
    let proxy = Proxy::to(server.address());
    let store = store(&proxy.url(&server.url()));
    let first = claim("job", TTL);
    assert!(matches!(store.try_acquire(&first).await.unwrap(), Attempt::Granted(_)));
    assert_eq!(store.release(&lease(&first), Ended::default()).await.unwrap(), Release::Released);
    let blocker = {
        let server = Arc::clone(&server);
        let hold = "start transaction; select * from leasehold_names for update; do sleep(1.8); rollback";
        tokio::task::spawn_blocking(move || server.sql(hold))
    };
    eventually_async("the row is had", SOON, async || {
        server.sql("select count(*) from information_schema.processlist where info like 'do sleep%'") == "1"
    })
    .await;
    let claiming = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.try_acquire(&claim("job", TTL)).await })
    };
    eventually_async("the claim waits for it", SOON, async || !under_way(&server).is_empty()).await;
    proxy.cut();
    let error = claiming.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::Maybe), "{error}");
    store.inspect(&first.name).await.unwrap();
    eventually_async("nobody is at it any more", Duration::from_millis(500), async || under_way(&server).is_empty())
        .await;
    assert!(!blocker.is_finished(), "it was ended, and did not end by itself");
    blocker.await.unwrap();
    assert!(store.inspect(&first.name).await.unwrap().is_none());
}

#[tokio::test]
async fn the_doctor_says_what_the_server_may_lose() {
    use leasehold::Severity::{Problem, Warning};
    let server = MariaDb::options()
        .set("log-bin", "log")
        .set("server-id", "1")
        .set("innodb-flush-log-at-trx-commit", "2")
        .set("rpl-semi-sync-master-enabled", "1")
        .start();
    let url = server.url();
    is_told(&url, Warning, "durability", "innodb_flush_log_at_trx_commit").await;
    is_told(&url, Warning, "failover", "semi-synchronous").await;
    server.sql("set global binlog_format = 'STATEMENT'");
    is_told(&url, Problem, "binlog", "binlog_format = ROW").await;
    let error = refusal(&url).await;
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
    server.sql("set global binlog_format = 'MIXED', global innodb_flush_log_at_trx_commit = 1, global sync_binlog = 0");
    is_told(&url, Warning, "durability", "sync_binlog").await;
    works(&url).await;
    server.sql("set global read_only = 1");
    is_told(&url, Problem, "role", "name the primary").await;
    server.sql("set global read_only = 0; update leasehold_schema set version = 9, oldest = 9");
    is_told(&url, Problem, "tables", "upgrade this Leasehold").await;
    server.sql("update leasehold_schema set version = 1, oldest = 1; alter table leasehold_ticks engine = MyISAM");
    is_told(&url, Problem, "tables", "leasehold_ticks is kept by MyISAM").await;
}
