//! Rows and tables that others have changed, and what is written to them.

use super::*;

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

/// One thing after the other, by who is at work and by who comes new; nobody is told an error.
#[tokio::test]
async fn what_is_dropped_by_hand_is_made_again_by_whoever_misses_it() {
    let server = Postgres::start();
    let old = store(&server.url());
    token(&*old, &claim("first")).await;
    for (nth, what) in [
        "table leasehold_locks",
        "table leasehold_waiters",
        "table leasehold_ticks",
        "table leasehold_modes",
        "table leasehold_schema",
        "procedure leasehold_v4_acquire",
        "procedure leasehold_v4_mode",
        "function leasehold_v2_now",
        "function leasehold_v2_own",
    ]
    .into_iter()
    .enumerate()
    {
        for (who, store) in [("old", &old), ("new", &store(&server.url()))] {
            server.sql(&format!("drop {}", what.replacen(' ', " if exists ", 1)));
            let (held, next) = (tick_claim(&format!("{nth} {who}"), 1), queued(&format!("{nth} {who}")));
            token(&**store, &held).await;
            assert!(is_contended_for(&**store, &next).await, "{what}, {who}");
        }
    }
    assert_eq!(server.sql("select mode from leasehold_modes"), "lease");
    let findings = old.diagnose().await.unwrap();
    assert!(worst(&findings).severity < Severity::Problem, "{findings:?}");
}

/// What nobody misses at once, too; and what somebody has changed.
#[tokio::test]
async fn migrate_makes_what_is_missing_or_another_and_the_doctor_names_it() {
    let server = Postgres::start();
    let (url, store) = (server.url(), store(&server.url()));
    token(&*store, &claim("job")).await;
    for (how, says) in [
        ("drop table leasehold_ticks", "missing: table leasehold_ticks"),
        (
            "drop index leasehold_forget, leasehold_queue",
            "missing: index leasehold_forget of leasehold_locks, index leasehold_queue of leasehold_waiters",
        ),
        ("alter table leasehold_locks drop constraint leasehold_locks_pkey", "missing: primary key of leasehold_locks"),
        (
            "alter table leasehold_schema drop constraint leasehold_schema_pkey",
            "missing: primary key of leasehold_schema",
        ),
        ("alter table leasehold_ticks drop constraint leasehold_ticks_pkey", "missing: primary key of leasehold_ticks"),
        ("drop procedure leasehold_v4_arm", "missing: procedure leasehold_v4_arm"),
        (
            "create or replace function leasehold_v2_now() returns bigint language sql as 'select 1::bigint'",
            "not as this Leasehold makes them: function leasehold_v2_now",
        ),
    ] {
        server.sql(how);
        let findings = store.diagnose().await.unwrap();
        assert_eq!(worst(&findings).severity, Severity::Problem, "{findings:?}");
        assert!(worst(&findings).message.contains(says), "{how}: {findings:?}");
        assert!(worst(&findings).fix.as_ref().unwrap().contains("leasehold migrate"));
        Tables::migrate(&url).await.unwrap();
        let findings = store.diagnose().await.unwrap();
        assert!(worst(&findings).severity < Severity::Problem, "{how}: {findings:?}");
    }
    assert!(is_contended(&*store, "job").await, "what is there was left as it is");
}

/// Locks go on without them.
#[tokio::test]
async fn a_table_that_nobody_needs_is_missed_and_is_no_problem() {
    let server = Postgres::start();
    let (url, store) = (server.url(), store(&server.url()));
    let session = leasehold::stores::open(&format!("{url}?mode=advisory&namespace=sessions")).unwrap();
    token(&*store, &claim("job")).await;
    for (how, by_leases, by_sessions) in [
        ("drop table leasehold_routes, leasehold_notes", Severity::Warning, Severity::Warning),
        ("drop sequence leasehold_tokens", Severity::Warning, Severity::Problem),
        ("drop table leasehold_ticks", Severity::Problem, Severity::Warning),
        ("drop table leasehold_modes", Severity::Problem, Severity::Problem),
    ] {
        server.sql(how);
        for (store, severity) in [(&store, by_leases), (&session, by_sessions)] {
            let findings = store.diagnose().await.unwrap();
            let told = findings.iter().find(|finding| finding.message.starts_with("missing: ")).unwrap();
            assert_eq!(told.severity, severity, "{how}: {findings:?}");
        }
        Tables::migrate(&url).await.unwrap();
    }
}

/// Who drops a column takes what stood there along. Where there are rows, it is for somebody to decide what becomes of them.
#[tokio::test]
async fn migrate_adds_a_column_that_was_dropped_or_says_what_to_do() {
    let server = Postgres::start();
    let (url, store) = (server.url(), store(&server.url()));
    Tables::migrate(&url).await.unwrap();
    for (table, column) in
        [("locks", "tag"), ("locks", "mark"), ("locks", "forget_at"), ("waiters", "ticket"), ("ticks", "ns")]
    {
        server.sql(&format!("alter table leasehold_{table} drop column {column}"));
        let findings = store.diagnose().await.unwrap();
        let told =
            |finding: &leasehold::Finding| finding.message.contains(&format!("column {column} of leasehold_{table}"));
        assert!(findings.iter().any(told), "{findings:?}");
        Tables::migrate(&url).await.unwrap();
        let findings = store.diagnose().await.unwrap();
        assert!(worst(&findings).severity < Severity::Problem, "{table}.{column}: {findings:?}");
    }
    let before = token(&*store, &claim("job")).await;
    assert!(is_contended_for(&*store, &queued("job")).await);
    assert!(token(&*store, &tick_claim("hourly", 1)).await > before);
    for (how, back) in [
        ("alter table leasehold_locks drop column name", "drop table public.leasehold_locks"),
        ("alter table leasehold_ticks alter column once type text", "drop table public.leasehold_ticks"),
    ] {
        server.sql(how);
        for _ in 0..2 {
            let error = Tables::migrate(&url).await.unwrap_err();
            assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
            let says = |words: &str| error.to_string().contains(words);
            assert!(says(&back.replace("public", "\"public\"")) && says("`leasehold migrate`"), "{error}");
        }
        server.sql(back);
        Tables::migrate(&url).await.unwrap();
        let findings = store.diagnose().await.unwrap();
        assert!(worst(&findings).severity < Severity::Problem, "{how}: {findings:?}");
    }
    let again = self::store(&url);
    assert!(token(&*again, &claim("another")).await > before);
}

/// Begun anew it would say that no lease, mark or token was ever given out: two would hold the lock, or a slot run twice.
#[tokio::test]
async fn a_column_that_rows_have_lost_is_begun_anew_by_nobody() {
    let server = Postgres::start();
    let url = server.url();
    Tables::migrate(&url).await.unwrap();
    for column in ["expires", "mark", "keep", "key_ends", "permits", "token", "tag", "revoked", "forget_at"] {
        token(&*store(&url), &tick_claim("hourly", 1)).await;
        // Who misses the function has all that is missing made.
        server.sql(&format!("alter table leasehold_locks drop column {column}; drop function leasehold_v2_now"));
        for by_whom in ["client", "client", "migrate", "migrate"] {
            let error = match by_whom {
                "client" => store(&url).try_acquire(&tick_claim("hourly", 1)).await.unwrap_err(),
                _ => Tables::migrate(&url).await.unwrap_err(),
            };
            assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{column}: {error}");
            let says = |words: &str| error.to_string().contains(words);
            assert!(says(&format!("column {column} of leasehold_locks")), "{error}");
            assert!(says("stop all jobs") && says("`drop table \"public\".leasehold_locks`"), "{error}");
            assert!(says("`leasehold migrate`") && says("which ticks, slots and keys were claimed"), "{error}");
        }
        let columns = "select count(*) from information_schema.columns where table_name = 'leasehold_locks'";
        assert_eq!(server.sql(&format!("{columns} and column_name = '{column}'")), "0");
        server.sql("drop table leasehold_locks");
        Tables::migrate(&url).await.unwrap();
    }
}

#[tokio::test]
async fn who_may_not_make_what_is_missing_is_told_what_it_is() {
    let server = Postgres::start();
    server.sql("create role jobs login");
    Tables::migrate(&server.url()).await.unwrap();
    server.sql("grant select, insert, update, delete on all tables in schema public to jobs");
    let (ours, held) = (store(&server.url_as("jobs", "")), claim("job"));
    token(&*ours, &held).await;
    server.sql("drop table leasehold_waiters; drop procedure leasehold_v4_arm");
    for _ in 0..2 {
        let error = ours.try_acquire(&queued("job")).await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (ErrorKind::AccessDenied, Applied::No), "{error}");
        let says = |words| error.to_string().contains(words);
        assert!(
            says("table leasehold_waiters, ") && says("leasehold_v4_arm") && says("`leasehold migrate`"),
            "{error}"
        );
    }
    Tables::migrate(&server.url()).await.unwrap();
    server.sql("grant select, insert, update, delete on leasehold_waiters to jobs");
    assert!(is_contended_for(&*ours, &queued("job")).await);
}

/// A name that is mistyped is not another place for locks.
#[tokio::test]
async fn a_schema_is_made_only_by_who_asks_for_it() {
    let server = Postgres::start();
    let typo = format!("{}?schema=lokcs", server.url());
    server.sql("create schema locks; create schema others");
    Tables::migrate(&format!("{}?schema=locks", server.url())).await.unwrap();
    for store in [store(&typo), store(&format!("{typo}&mode=advisory"))] {
        let error = store.try_acquire(&claim("job")).await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
        let says = |words| error.to_string().contains(words);
        assert!(says("no schema \"lokcs\" (there are: locks, others, public)"), "{error}");
        assert!(says("schema=") && says("`leasehold migrate`"), "{error}");
        let findings = store.diagnose().await.unwrap();
        assert!(worst(&findings).message.contains("no schema \"lokcs\""), "{findings:?}");
        assert_eq!(server.sql("select count(*) from pg_namespace where nspname = 'lokcs'"), "0");
    }
    Tables::migrate(&typo).await.unwrap();
    token(&*store(&typo), &claim("job")).await;
}

#[tokio::test]
async fn an_older_version_is_upgraded_and_a_newer_one_refused() {
    let server = Postgres::start();
    server.sql(
        "create table leasehold_schema(one integer primary key check (one = 1), version integer not null, \
         oldest integer not null, home text not null); insert into leasehold_schema values (1, 0, 0, 'here')",
    );
    token(&*store(&server.url()), &claim("job")).await;
    assert_eq!(server.sql("select version, home from leasehold_schema"), "4|here");
    server.sql("update leasehold_schema set version = 7, oldest = 1");
    assert!(is_contended(&*store(&server.url()), "job").await, "a newer one that lets this one be");
    server.sql("update leasehold_schema set oldest = 7");
    let error = store(&server.url()).try_acquire(&claim("job")).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
    assert!(error.to_string().contains("newer Leasehold"), "{error}");
    assert!(worst(&store(&server.url()).diagnose().await.unwrap()).message.contains("newer"));
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
    let is_told = |findings: &[Finding], words: &str| {
        findings.iter().any(|one| one.severity == Severity::Problem && one.message.contains(words))
    };
    assert!(is_told(&findings, "nobody can wait") && is_told(&findings, "schedules run nothing"), "{findings:?}");
    server.sql("grant select, insert, update, delete on locks.leasehold_waiters to jobs");
    let store = store(&url);
    let held = claim("job");
    token(&*store, &held).await;
    assert!(is_contended(&*store, "job").await);
    assert_eq!(store.release(&lease(&held), Ended::default()).await.unwrap(), Release::Released);
    let findings = store.diagnose().await.unwrap();
    assert!(!is_told(&findings, "nobody can wait") && is_told(&findings, "schedules run nothing"), "{findings:?}");
    server.sql("grant select, insert, update, delete on locks.leasehold_notes to jobs");
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

#[tokio::test]
async fn environments_and_schemas_do_not_meet() {
    let server = Postgres::start();
    let url = server.url();
    let elsewhere = format!("{url}?schema=else%20where");
    Tables::migrate(&elsewhere).await.unwrap();
    for url in [url.clone(), format!("{url}?namespace=staging"), elsewhere] {
        let store = store(&url);
        token(&*store, &claim("job")).await;
        assert_eq!(store.list().await.unwrap().len(), 1);
    }
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
