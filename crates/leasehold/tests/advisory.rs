//! Session locks (`mode=advisory`) beside real servers: sessions that are ended, networks that go silent, poolers, time-outs
//! of others, other libraries. What every such store must do is in `conformance.rs`. The numbers are those of the fault of
//! another system that the test was made of.
#![cfg(any(feature = "postgres", feature = "mysql"))]
#![allow(dead_code, reason = "each database uses its part")]

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::{
    Attempt, Claim, Due, Ended, ErrorKind, Finding, Guard, HolderId, LockName, Locks, LossReason, Outcome, Release,
    Renewal, Revoke, Severity, Store, Tick,
};
use leasehold_testkit::process::{self, Worker, eventually_async};
use leasehold_testkit::proxy::{Direction, Proxy, Then};

#[path = "advisory/faults.rs"]
mod faults;

mod claims;
use claims::{SOON, TTL, acquired, lease, locks, store};

/// The name whose keys are pinned in `docs/interop.md`.
const NAME: &str = "nightly-backup";

fn claim(name: &str) -> Claim {
    Claim::new(LockName::new(name).unwrap(), HolderId::fresh(), "host/7/job".into(), TTL)
}

async fn takes(store: &dyn Store, name: &str) -> Claim {
    let claim = claim(name);
    match store.try_acquire(&claim).await.unwrap() {
        Attempt::Granted(_) => claim,
        other => panic!("not granted: {other:?}"),
    }
}

async fn is_held(store: &dyn Store, name: &str) -> bool {
    let claim = claim(name);
    match store.try_acquire(&claim).await.unwrap() {
        Attempt::Held(_) => true,
        Attempt::Granted(_) => {
            assert_eq!(store.release(&lease(&claim), Ended::default()).await.unwrap(), Release::Released);
            false
        }
        other => panic!("{other:?}"),
    }
}

async fn refusal(store: &dyn Store, claim: &Claim) -> leasehold::Error {
    match store.try_acquire(claim).await {
        Err(error) => error,
        answer => panic!("not refused: {answer:?}"),
    }
}

/// The holder is told at once, and its release afterwards is told, not thrown.
async fn is_lost_at_once(guard: Guard, within: Duration) {
    let since = Instant::now();
    assert_eq!(tokio::time::timeout(SOON, guard.lost()).await.expect("it is told"), LossReason::Gone);
    assert!(since.elapsed() < within, "told after {:?}", since.elapsed());
    assert!(!guard.is_valid());
    guard.release().await.expect("a release of what is lost is answered");
}

/// A holder whose network goes silent, in both directions and without a word: it is over for the holder before the server
/// gives the lock to another, and that is not long after.
async fn silence_ends_a_hold(server: &str, proxied: &str, proxy: &Proxy, at_most: Duration) {
    let (ours, others) = (locks(proxied).await, store(server));
    let guard = acquired(&ours.lock("job").ttl(TTL)).await;
    assert!(is_held(&*others, "job").await);
    proxy.blackhole(Direction::ToServer);
    proxy.blackhole(Direction::ToClient);
    let since = Instant::now();
    while is_held(&*others, "job").await {
        assert!(since.elapsed() < at_most, "held for {:?} of silence", since.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!guard.is_valid(), "two at a time");
    // At least what was left of the last heartbeat's validity: a heartbeat comes each third of the TTL.
    assert!(since.elapsed() > TTL / 2, "given away after {:?}", since.elapsed());
    drop(guard);
}

/// A server whose answer to the question whose session it is gets lost: the claim fails in a time that is known, and the
/// next one is answered.
async fn a_proof_that_is_not_answered_fails_the_claim(proxied: &str, proxy: &Proxy, question: &[u8]) {
    let store = store(proxied);
    proxy.drop_reply_after_request(question, Then::Silence);
    let since = Instant::now();
    let error = tokio::time::timeout(SOON, refusal(&*store, &claim("job"))).await.expect("it is told");
    assert_eq!((error.kind(), proxy.dropped_replies()), (ErrorKind::TimedOut, 1), "{error}");
    assert!(since.elapsed() < Duration::from_secs(8), "told after {:?}", since.elapsed());
    takes(&*store, "job").await;
}

#[test]
fn worker() {
    process::serve(&[("hold", hold)]);
}

/// In a process of its own: holds a lock, and says when it has lost it.
fn hold() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let guard = acquired(&locks(&process::argument("url")).await.lock("job").ttl(TTL)).await;
        process::say("held");
        guard.lost().await;
        process::say(&format!("lost {}", guard.is_valid()));
    });
}

/// A holder that is stopped has its lock until the server has heard nothing of it for so long, and knows it when it goes on;
/// one that is killed has lost it at once.
async fn a_stopped_holder_ends(url: &str, at_most: Duration) {
    let others = store(url);
    let hold = || {
        let mut holder = Worker::start("worker", "hold", &[("url", url)]);
        holder.hear("held", SOON);
        holder
    };
    let mut killed = hold();
    assert!(is_held(&*others, "job").await);
    let since = Instant::now();
    killed.kill();
    eventually_async("it is free", SOON, async || !is_held(&*others, "job").await).await;
    assert!(since.elapsed() < TTL / 2, "held for {:?} after its end", since.elapsed());

    let mut stopped = hold();
    stopped.pause();
    let since = Instant::now();
    while is_held(&*others, "job").await {
        assert!(since.elapsed() < at_most, "held for {:?} while stopped", since.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(since.elapsed() > TTL / 2, "given away after {:?}", since.elapsed());
    stopped.resume();
    assert_eq!(stopped.hear("lost", SOON), "false");
}

async fn what_needs_rows_is_refused(url: &str) {
    let store = store(url);
    let several = Claim { permits: NonZeroU32::new(2).unwrap(), ..claim("job") };
    let due = Due { tick: Tick::from_unix_millis(1_800_000_000_000).unwrap(), retry_failed: false, keep: TTL };
    let tick = Claim { due: Some(due), ..claim("job") };
    for claim in [several, tick] {
        let error = refusal(&*store, &claim).await;
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains("the lease table"), "{error}");
    }
    let held = takes(&*store, "job").await;
    let keeps = Ended { keep_for: TTL, verdict: None };
    assert_eq!(store.release(&lease(&held), keeps).await.unwrap_err().kind(), ErrorKind::Misconfigured);
    assert_eq!(store.revoke(&held.name, None, Revoke::Gently).await.unwrap_err().kind(), ErrorKind::Misconfigured);
    assert!(is_held(&*store, "job").await);
    let minimum = locks(url).await.lock("another").at_least_for(TTL).try_acquire().await.unwrap_err();
    assert_eq!(minimum.kind(), ErrorKind::Misconfigured);
    assert!(!is_held(&*store, "another").await);
    assert!(store.traits().session_bound && !store.traits().wake_ups);
}

/// A namespace has the kind of lock that it was first used for.
async fn kinds_do_not_mix(url: &str) {
    for (first, second) in [("advisory", "lease"), ("lease", "advisory")] {
        let of = |mode| store(&format!("{url}?namespace={first}&mode={mode}"));
        takes(&*of(first), "job").await;
        let error = refusal(&*of(second), &claim("job")).await;
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains(&format!("mode={first}")), "{error}");
        takes(&*of(first), "another").await;
    }
}

/// An operator ends the session of a holder in another process.
async fn a_revocation_ends_the_session(url: &str) {
    let (ours, operator) = (locks(url).await, locks(url).await);
    let guard = acquired(&ours.lock("job")).await;
    let shown = operator.inspect("job").await.unwrap().unwrap();
    assert_ne!(shown.holder, None, "somebody");
    let hit = operator.revoke_one("job", shown.holder.unwrap(), Revoke::Now).await.unwrap().unwrap();
    assert_eq!(hit.label, shown.label);
    let next = acquired(&operator.lock("job")).await;
    assert!(next.token() > guard.token());
    is_lost_at_once(guard, Duration::from_secs(3)).await;
    assert!(next.is_valid());
}

#[cfg(feature = "postgres")]
async fn findings(url: &str) -> Vec<Finding> {
    locks(url).await.diagnose().await.unwrap()
}

/// The doctor has no problem with it, and has looked at what session locks need.
async fn fits(url: &str, also: &[&str]) {
    let findings = findings(url).await;
    assert!(findings.iter().all(|finding| finding.severity < Severity::Problem), "{findings:#?}");
    let usual = ["server", "version", "way", "tables", "failover", "clock", "latency"];
    for subject in usual.iter().chain(also) {
        assert!(findings.iter().any(|finding| finding.subject == *subject), "{subject}: {findings:#?}");
    }
}

async fn is_a_problem(url: &str, subject: &str, words: &str) {
    let findings = findings(url).await;
    let fits = |finding: &Finding| {
        finding.severity == Severity::Problem && finding.subject == subject && finding.message.contains(words)
    };
    assert!(findings.iter().any(fits), "{subject} {words:?} is not in {findings:#?}");
}

/// By who is at work and by who comes new; nobody is told an error.
async fn made_again(url: &str, things: &[&str], sql: impl Fn(&str) -> String) {
    let old = store(url);
    takes(&*old, "first").await;
    for (nth, thing) in things.iter().enumerate() {
        for (who, store) in [("old", &old), ("new", &store(url))] {
            sql(&format!("drop {}", thing.replacen(' ', " if exists ", 1)));
            takes(&**store, &format!("{nth} {who}")).await;
        }
    }
    fits(url, &[]).await;
}

mod in_postgres {
    use futures_util::FutureExt;
    use leasehold_testkit::servers::{PgBouncer, PoolMode, Postgres};

    use super::*;

    fn url(server: &Postgres) -> String {
        format!("{}?mode=advisory", server.url())
    }

    /// A part of the question whose session it is.
    const PROOF: &[u8] = b"$1 and pg_backend_pid() = $2";

    /// The sessions that have an advisory lock.
    const HOLDERS: &str = "from pg_stat_activity a where exists (select from pg_locks l where l.pid = a.pid \
                           and l.locktype = 'advisory') and application_name like 'leasehold%'";

    fn through(proxy: &Proxy, server: &Postgres) -> String {
        format!("{}?mode=advisory", proxy.url(&server.url()))
    }

    fn is_taken(server: &Postgres) -> bool {
        server.sql("select count(*) from pg_locks where locktype = 'advisory'") != "0"
    }

    /// A role that may have session locks but for the right to draw tokens.
    const POOR: &str = "create role jobs login; grant select on leasehold_schema to jobs; \
                        grant select, insert, update on leasehold_modes to jobs";

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a07_a_release_that_is_asked_for_again_ends_no_newer_hold() {
        let server = Postgres::start();
        let proxy = Proxy::to(server.address());
        let proxied = through(&proxy, &server);
        faults::a_release_that_is_asked_for_again_ends_no_newer_hold(&url(&server), &proxied, &proxy).await;
    }

    #[tokio::test]
    async fn a12_a_label_that_two_have_is_nobodys_right() {
        let server = Postgres::start();
        faults::a_label_that_two_have_is_nobodys_right(&url(&server), || is_taken(&server)).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn b05_a_holder_that_panics_leaves_no_lock() {
        let server = Postgres::start();
        faults::a_holder_that_panics_leaves_no_lock(&url(&server), || is_taken(&server)).await;
    }

    #[tokio::test]
    async fn b06_a_release_needs_no_second_session() {
        let server = Postgres::start();
        leasehold::stores::postgres::Postgres::migrate(&server.url()).await.unwrap();
        server.sql(&format!("{POOR}; grant select, usage, update on sequence leasehold_tokens to jobs"));
        let url = format!("{}?mode=advisory", server.url_as("jobs", ""));
        let let_nobody_in = || drop(server.sql("alter role jobs connection limit 1"));
        faults::a_release_needs_no_second_session(&url, let_nobody_in, || is_taken(&server)).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn b09_a_claim_that_is_cancelled_leaves_no_lock() {
        let server = Postgres::start();
        let proxy = Proxy::to(server.address());
        let (proxied, request) = (through(&proxy, &server), format!("leasehold {NAME}"));
        let taken = || is_taken(&server);
        faults::a_claim_that_is_cancelled_leaves_no_lock(&proxied, &proxy, request.as_bytes(), taken).await;
    }

    /// What was taken before the error stays with the session, whatever becomes of the statement.
    #[tokio::test]
    async fn b14_a_claim_that_fails_once_it_has_the_lock_leaves_none() {
        let server = Postgres::start();
        leasehold::stores::postgres::Postgres::migrate(&server.url()).await.unwrap();
        server.sql(POOR);
        let store = store(&format!("{}?mode=advisory", server.url_as("jobs", "")));
        for _ in 0..5 {
            let error = refusal(&*store, &claim(NAME)).await;
            assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
            assert!(error.to_string().contains("leasehold_tokens"), "it had the lock by then: {error}");
            eventually_async("it is given back", TTL / 3, async || !is_taken(&server)).await;
        }
        server.sql("grant select, usage, update on sequence leasehold_tokens to jobs");
        takes(&*store, NAME).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn i01_behind_a_pooler_in_transaction_mode_it_is_refused() {
        let server = Postgres::start();
        let pooler = PgBouncer::to(&server, PoolMode::Transaction);
        for _ in 0..2 {
            let error = refusal(&*store(&format!("{}?mode=advisory", pooler.url())), &claim("job")).await;
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
            assert!(error.to_string().contains("pooler"), "{error}");
        }
        assert_eq!(server.sql("select count(*) from pg_locks where locktype = 'advisory'"), "0");
        takes(&*store(&format!("{}?namespace=other", pooler.url())), "job").await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn i02_behind_a_pooler_in_session_mode_no_lock_outlives_its_client() {
        let server = Postgres::start();
        let pooler = PgBouncer::to(&server, PoolMode::Session);
        let pooled = format!("{}?mode=advisory", pooler.url());
        let others = store(&url(&server));
        let mut gone = Worker::start("worker", "hold", &[("url", &pooled)]);
        gone.hear("held", SOON);
        assert!(is_held(&*others, "job").await);
        gone.kill();
        eventually_async("it is free", SOON, async || !is_held(&*others, "job").await).await;
        assert!(!is_held(&*store(&pooled), "job").await);
    }

    #[tokio::test]
    async fn i03_i12_a_session_that_is_ended_is_a_loss_at_once() {
        let server = Postgres::start();
        let ours = locks(&url(&server)).await;
        let guard = acquired(&ours.lock("job")).await;
        server.end_sessions();
        is_lost_at_once(guard, Duration::from_millis(500)).await;
        let guard = acquired(&ours.lock("job")).await;
        server.restart();
        is_lost_at_once(guard, Duration::from_millis(500)).await;
        eventually_async("another session takes it", SOON, async || {
            matches!(ours.lock("job").try_acquire().await, Ok(Outcome::Acquired(_)))
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn i04_a_holder_that_falls_silent_loses_the_lock_in_a_time_that_is_known() {
        let server = Postgres::start();
        let proxy = Proxy::to(server.address());
        let proxied = format!("{}?mode=advisory", proxy.url(&server.url()));
        silence_ends_a_hold(&url(&server), &proxied, &proxy, TTL * 5 / 4 + Duration::from_secs(1)).await;
    }

    #[tokio::test]
    async fn a_proof_that_is_not_answered_fails_the_claim() {
        let server = Postgres::start();
        let proxy = Proxy::to(server.address());
        let proxied = format!("{}?mode=advisory", proxy.url(&server.url()));
        super::a_proof_that_is_not_answered_fails_the_claim(&proxied, &proxy, PROOF).await;
    }

    #[tokio::test]
    async fn who_stands_still_in_a_claim_keeps_nobody_waiting() {
        let server = Postgres::start();
        let proxy = Proxy::to(server.address());
        let store = store(&format!("{}?mode=advisory", proxy.url(&server.url())));
        proxy.drop_reply_after_request(PROOF, Then::Silence);
        let first = claim("first");
        let mut still = store.try_acquire(&first);
        eventually_async("it proves that its sessions are its own", SOON, async || {
            assert!((&mut still).now_or_never().is_none());
            proxy.dropped_replies() == 1
        })
        .await;
        tokio::time::timeout(SOON, takes(&*store, "second")).await.expect("nobody waits for it");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn j07_a_stopped_holder_ends() {
        let server = Postgres::start();
        a_stopped_holder_ends(&url(&server), TTL * 5 / 4 + Duration::from_secs(1)).await;
    }

    #[tokio::test]
    async fn i06_i13_a_holder_is_an_idle_session_that_says_who_it_is() {
        let server = Postgres::start();
        let ours = Locks::builder().label("db1/77").connect(&url(&server)).unwrap();
        let guard = acquired(&ours.lock("nightly backup").ttl(TTL)).await;
        let mut seen_idle = 0;
        for _ in 0..20 {
            let shown =
                server.sql(&format!("select state, coalesce(backend_xmin::text, 'none'), application_name {HOLDERS}"));
            // Its heartbeat is a statement, too.
            let idle = shown.starts_with("idle|none|leasehold nightly backup db1/77");
            let between = shown.starts_with("active|");
            assert!(idle || between, "{shown}");
            seen_idle += u32::from(idle);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(seen_idle >= 15, "idle {seen_idle} times of 20");
        let listed = locks(&url(&server)).await.list().await.unwrap();
        assert_eq!(listed.iter().map(|held| held.name.as_str()).collect::<Vec<_>>(), ["nightly backup"]);
        assert!(listed[0].label.starts_with("db1/77"), "{listed:?}");
        guard.release().await.unwrap();
    }

    #[tokio::test]
    async fn i07_time_outs_of_a_role_hit_neither_holders_nor_who_waits() {
        let server = Postgres::start();
        server.sql(
            "alter role postgres set statement_timeout = '1s'; alter role postgres set lock_timeout = '1ms'; \
             alter role postgres set idle_session_timeout = '1s'; alter role postgres set tcp_user_timeout = '1s'; \
             alter role postgres set idle_in_transaction_session_timeout = '10ms'",
        );
        let (ours, others) = (locks(&url(&server)).await, locks(&url(&server)).await);
        let guard = acquired(&ours.lock("job").ttl(Duration::from_secs(30))).await;
        let waiting = others.lock("job").wait(leasehold::Wait::For(Duration::from_secs(3))).acquire().await.unwrap();
        assert!(matches!(waiting, Outcome::Contended(_)), "{waiting:?}");
        assert!(guard.is_valid());
        assert_eq!(guard.release().await.unwrap(), leasehold::Released::InTime);
        let settings = server.sql(&format!("select count(*) {HOLDERS}"));
        assert_eq!(settings, "0");
    }

    #[tokio::test]
    async fn i08_names_that_collide_in_other_hashes_are_two_locks() {
        let server = Postgres::start();
        let store = store(&url(&server));
        for name in ["plumless", "buckeroo"] {
            takes(&*store, name).await;
        }
    }

    /// As another program holds it, for a second or two.
    fn held_elsewhere(server: &Arc<Postgres>, lock: &str) -> tokio::task::JoinHandle<String> {
        let (server, lock) = (Arc::clone(server), lock.to_owned());
        tokio::task::spawn_blocking(move || server.sql(&format!("select pg_advisory_lock({lock}); select pg_sleep(2)")))
    }

    async fn is_one_lock(server: &Arc<Postgres>, url: &str, name: &str, lock: &str) {
        let store = store(url);
        let held = takes(&*store, name).await;
        assert_eq!(server.sql(&format!("select pg_try_advisory_lock({lock})")), "f");
        assert_eq!(store.release(&lease(&held), Ended::default()).await.unwrap(), Release::Released);
        let elsewhere = held_elsewhere(server, lock);
        eventually_async("the other has it", SOON, async || is_held(&*store, name).await).await;
        let shown = store.inspect(&held.name).await.unwrap().unwrap();
        let by = shown.library.expect("it is none of ours");
        assert_eq!(by, if url.contains("key_scheme") { "with_advisory_lock" } else { "pg_locks" });
        assert!(shown.label.starts_with(&format!("foreign: {by} testkit, session ")), "{shown:?}");
        elsewhere.await.unwrap();
        eventually_async("it is free", SOON, async || !is_held(&*store, name).await).await;
    }

    /// Ours never wait in the server. Others may, and are told in the order in which they began to.
    async fn strangers_who_wait_are_told(key_scheme: &str, name: &str, key: &str, other: &str) {
        let server = Arc::new(Postgres::start());
        let (url, name) = (format!("{}{key_scheme}", url(&server)), LockName::new(name).unwrap());
        let [ours, waits] = [locks(&url).await, locks(&url).await];
        let guard = acquired(&ours.lock(name.as_str()).ttl(Duration::from_secs(30))).await;
        let lock = waits.lock(name.as_str()).wait(leasehold::Wait::For(SOON * 3));
        let waiting = tokio::spawn(async move { lock.acquire().await });
        let elsewhere = [(); 2].map(|()| held_elsewhere(&server, other));
        eventually_async("one waits for another lock", SOON, async || {
            server.sql("select count(*) from pg_locks where locktype = 'advisory' and not granted") == "1"
        })
        .await;
        assert_eq!(ours.queue(&name).await.unwrap(), []);
        for other in elsewhere {
            other.await.unwrap();
        }
        let mut strangers = Vec::new();
        for so_many in 1..=2 {
            strangers.push(held_elsewhere(&server, key));
            eventually_async("they wait", SOON, async || ours.queue(&name).await.unwrap().len() == so_many).await;
        }
        let line = ours.queue(&name).await.unwrap();
        for stranger in &line {
            assert!(stranger.label.contains(" testkit, session ") && stranger.holder.is_none(), "{line:?}");
        }
        assert!(line[0].waited.is_some() && line[0].waited >= line[1].waited, "{line:?}");
        assert_ne!(line[0].label, line[1].label, "each is a session of its own");
        let [first, second] = [&line[0].label, &line[1].label];
        guard.release().await.unwrap();
        eventually_async("the first has it", SOON, async || {
            let line = ours.queue(&name).await.unwrap();
            line.len() == 1 && line[0].label == *second
        })
        .await;
        assert_eq!(ours.inspect(name.as_str()).await.unwrap().unwrap().label, *first);
        for stranger in strangers {
            stranger.await.unwrap();
        }
        drop(waiting.await.unwrap().unwrap().guard().expect("ours gets it at last"));
        assert_eq!(ours.queue(&name).await.unwrap(), []);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn strangers_who_wait_for_a_key_of_ours_are_told() {
        strangers_who_wait_are_told("", NAME, "-3765677259177562136", "7").await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn strangers_who_wait_for_a_lock_of_with_advisory_lock_are_told() {
        strangers_who_wait_are_told("&key_scheme=with_advisory_lock", "42", "42, 0", "42").await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn i09_keys_are_those_of_the_documentation() {
        let server = Arc::new(Postgres::start());
        is_one_lock(&server, &url(&server), NAME, "-3765677259177562136").await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn locks_of_with_advisory_lock_are_the_same() {
        let server = Arc::new(Postgres::start());
        let url = format!("{}&key_scheme=with_advisory_lock", url(&server));
        is_one_lock(&server, &url, "lock_name", "1222411496, 0").await;
        is_one_lock(&server, &url, "42", "42, 0").await;
    }

    #[tokio::test]
    async fn i11_a_standby_grants_nothing_and_when_promoted_larger_tokens() {
        let primary = Postgres::start();
        let ours = locks(&url(&primary)).await;
        let guard = acquired(&ours.lock("job")).await;
        let standby = Postgres::standby_of(&primary);
        standby.catch_up_with(&primary);
        let error = refusal(&*store(&url(&standby)), &claim("job")).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        standby.promote();
        let next = acquired(&locks(&url(&standby)).await.lock("job")).await;
        assert!(next.token() > guard.token());
        primary.kill();
        is_lost_at_once(guard, Duration::from_millis(500)).await;
    }

    #[tokio::test]
    async fn a_session_whose_lock_was_given_back_is_used_again() {
        let server = Postgres::start();
        let store = store(&url(&server));
        let pids = || server.sql("select count(*) from pg_stat_activity where application_name like 'leasehold%'");
        let mut seen = Vec::new();
        for _ in 0..20 {
            let held = takes(&*store, "job").await;
            assert_eq!(store.release(&lease(&held), Ended::default()).await.unwrap(), Release::Released);
            seen.push(pids());
        }
        assert!(seen.iter().all(|count| *count == seen[0]), "{seen:?}");
        server.end_sessions(); // What was kept is of no use: nobody sees an error of it.
        takes(&*store, "job").await;
    }

    #[tokio::test]
    async fn tokens_grow_though_their_sequence_is_lost() {
        let server = Postgres::start();
        let store = store(&url(&server));
        let token = async |name: &str| match store.try_acquire(&claim(name)).await.unwrap() {
            Attempt::Granted(grant) => grant.token.number(),
            other => panic!("not granted: {other:?}"),
        };
        let first = token("a").await;
        tokio::time::sleep(Duration::from_secs(1)).await; // It is ahead by so much.
        server.sql("alter sequence leasehold_tokens restart with 1");
        assert!(token("b").await > first);
        server.sql("select setval('leasehold_tokens', 1::bigint << 60)");
        let error = refusal(&*store, &claim("c")).await;
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains("the clock"), "{error}");
        server.sql("select setval('leasehold_tokens', 1)");
        token("c").await;
    }

    #[tokio::test]
    async fn what_needs_rows_is_refused() {
        super::what_needs_rows_is_refused(&url(&Postgres::start())).await;
    }

    #[tokio::test]
    async fn kinds_do_not_mix() {
        super::kinds_do_not_mix(&Postgres::start().url()).await;
    }

    #[tokio::test]
    async fn a_revocation_ends_the_session() {
        super::a_revocation_ends_the_session(&url(&Postgres::start())).await;
    }

    #[tokio::test]
    async fn the_doctor_finds_a_server_fit() {
        let server = Postgres::start();
        fits(&url(&server), &["silence", "holders", "sessions", "time-outs"]).await;
        assert_eq!(server.errors(), Vec::<String>::new());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_doctor_says_why_no_session_can_have_a_lock() {
        let server = Postgres::start();
        let ours = url(&server);
        takes(&*store(&ours), "job").await;
        let pooler = PgBouncer::to(&server, PoolMode::Transaction);
        is_a_problem(&format!("{}?mode=advisory", pooler.url()), "sessions", "a pooler in transaction mode").await;
        is_a_problem(&server.url(), "mode", "locks of mode=advisory").await;
        server.sql("alter role postgres set default_transaction_read_only = on");
        is_a_problem(&ours, "read-only", "nothing can be granted").await;
        server.sql("begin read write; alter role postgres reset all; commit");
        server.sql("drop sequence leasehold_tokens");
        is_a_problem(&ours, "tables", "missing: sequence leasehold_tokens").await;
        assert_eq!(server.sql("select to_regclass('leasehold_tokens') is null"), "t", "it only looks");
        takes(&*store(&ours), "another").await;
        fits(&ours, &[]).await;
        let standby = Postgres::standby_of(&server);
        is_a_problem(&url(&standby), "role", "a standby").await;
        let waits = findings(&ours).await.into_iter().find(|finding| finding.subject == "failover").unwrap();
        assert!(waits.severity == Severity::Warning && waits.message.contains("none of these locks"), "{waits:?}");
    }

    /// Those of another database of the server are not ours, nor is who waits for leases and only listens.
    #[tokio::test]
    async fn the_doctor_counts_no_locks_of_others() {
        let server = Postgres::start();
        server.sql("create database other");
        let others = store(&url(&server).replace("/postgres?", "/other?"));
        takes(&*others, "theirs").await;
        let leases = store(&format!("{}?namespace=leases", server.url()));
        takes(&*leases, "job").await;
        leases.subscribe(&LockName::new("job").unwrap()).await.unwrap();
        assert_ne!(server.sql("select count(*) from pg_locks where locktype = 'advisory'"), "1", "they listen, too");
        let holders = async || {
            let findings = findings(&url(&server)).await;
            findings.into_iter().find(|finding| finding.subject == "holders").unwrap().message
        };
        assert_eq!(holders().await, "nobody has a lock");
        let ours = store(&url(&server));
        takes(&*ours, "ours").await;
        assert!(holders().await.starts_with("1 have locks"));
    }

    #[tokio::test]
    async fn what_is_dropped_by_hand_is_made_again_by_whoever_misses_it() {
        let server = Postgres::start();
        let things = [
            "sequence leasehold_tokens",
            "function leasehold_v2_token",
            "procedure leasehold_v4_mode",
            "table leasehold_modes",
        ];
        made_again(&url(&server), &things, |statement| server.sql(statement)).await;
    }
}

#[cfg(feature = "mysql")]
mod in_mariadb {
    use leasehold_testkit::servers::MariaDb;
    use sqlx::Connection;

    use super::*;

    fn url(server: &MariaDb) -> String {
        format!("{}?mode=advisory", server.url())
    }

    /// What `docs/interop.md` says of [`NAME`] in the database `jobs`.
    const LOCK: &str = "leasehold:793d5f318a7944e312d62f080018308c03965608";

    fn is_taken(server: &MariaDb) -> bool {
        server.sql(&format!("select is_used_lock('{LOCK}') is not null")) != "0"
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a07_a_release_that_is_asked_for_again_ends_no_newer_hold() {
        let server = MariaDb::start();
        let proxy = Proxy::to(server.address());
        let proxied = through(&proxy, &server);
        faults::a_release_that_is_asked_for_again_ends_no_newer_hold(&url(&server), &proxied, &proxy).await;
    }

    #[tokio::test]
    async fn a12_a_label_that_two_have_is_nobodys_right() {
        let server = MariaDb::start();
        faults::a_label_that_two_have_is_nobodys_right(&url(&server), || is_taken(&server)).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn b05_a_holder_that_panics_leaves_no_lock() {
        let server = MariaDb::start();
        faults::a_holder_that_panics_leaves_no_lock(&url(&server), || is_taken(&server)).await;
    }

    #[tokio::test]
    async fn b06_a_release_needs_no_second_session() {
        let server = MariaDb::start();
        let let_nobody_in = || drop(server.sql("grant usage on *.* to jobs@'%' with max_user_connections 1"));
        faults::a_release_needs_no_second_session(&url(&server), let_nobody_in, || is_taken(&server)).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn b09_a_claim_that_is_cancelled_leaves_no_lock() {
        let server = MariaDb::start();
        let proxy = Proxy::to(server.address());
        let taken = || is_taken(&server);
        faults::a_claim_that_is_cancelled_leaves_no_lock(&through(&proxy, &server), &proxy, LOCK.as_bytes(), taken)
            .await;
    }

    fn kill_holder(server: &MariaDb, name: &str) {
        server.sql(&format!("kill {}", server.sql(&format!("select is_used_lock('{name}')"))));
    }

    #[tokio::test]
    async fn i03_i12_a_session_that_is_killed_is_a_loss_within_a_second() {
        let server = MariaDb::start();
        let ours = locks(&url(&server)).await;
        let guard = acquired(&ours.lock(NAME)).await;
        kill_holder(&server, LOCK);
        is_lost_at_once(guard, Duration::from_secs(2)).await;
        let guard = acquired(&ours.lock(NAME)).await;
        server.restart();
        is_lost_at_once(guard, Duration::from_secs(2)).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn i04_a_holder_that_falls_silent_loses_the_lock_in_a_time_that_is_known() {
        let server = MariaDb::start();
        let proxy = Proxy::to(server.address());
        let proxied = format!("{}?mode=advisory", proxy.url(&server.url()));
        // In whole seconds.
        silence_ends_a_hold(&url(&server), &proxied, &proxy, TTL * 5 / 4 + Duration::from_secs(2)).await;
    }

    fn through(proxy: &Proxy, server: &MariaDb) -> String {
        format!("{}?mode=advisory", proxy.url(&server.url()))
    }

    #[tokio::test]
    async fn a_proof_that_is_not_answered_fails_the_claim() {
        let server = MariaDb::start();
        let proxy = Proxy::to(server.address());
        let proxied = through(&proxy, &server);
        super::a_proof_that_is_not_answered_fails_the_claim(&proxied, &proxy, b"select connection_id() = ?").await;
    }

    /// A part of the question whether a session is there, to a server that takes writes.
    const LOOK: &[u8] = b"or @@global.innodb_read_only";

    /// Long enough for no heartbeat to come meanwhile.
    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_session_that_is_silent_keeps_nobody_from_looking_after_the_others() {
        let server = MariaDb::start();
        let proxy = Proxy::to(server.address());
        let ours = locks(&through(&proxy, &server)).await;
        let silent = acquired(&ours.lock("silent").ttl(LONG)).await;
        proxy.drop_reply_after_request(LOOK, Then::Silence);
        eventually_async("its look is not answered", SOON, async || proxy.dropped_replies() == 1).await;
        let guard = acquired(&ours.lock(NAME).ttl(LONG)).await;
        kill_holder(&server, LOCK);
        is_lost_at_once(guard, Duration::from_secs(3)).await;
        assert!(silent.is_valid(), "nobody has said anything of it");
    }

    /// A server that has come in the place of another after a failover, which has the next number for a session.
    fn counts_to(server: &MariaDb, number: u64) {
        while server.sql("select connection_id()").parse::<u64>().unwrap() + 1 < number {}
    }

    fn sessions_of_jobs(server: &MariaDb) -> Vec<u64> {
        let ids = server.sql("select id from information_schema.processlist where user = 'jobs' order by id");
        ids.lines().map(|id| id.parse().unwrap()).collect()
    }

    /// Two servers with the tables; the sessions of the first have larger numbers.
    async fn before_a_failover() -> (MariaDb, MariaDb) {
        let (first, second) = (MariaDb::start(), MariaDb::start());
        takes(&*store(&url(&second)), "other").await;
        eventually_async("its sessions are gone", SOON, async || sessions_of_jobs(&second).is_empty()).await;
        counts_to(&first, second.sql("select connection_id()").parse::<u64>().unwrap() + 50);
        (first, second)
    }

    #[tokio::test]
    async fn a_session_that_has_the_number_of_one_before_the_failover_is_not_ended() {
        let (first, second) = before_a_failover().await;
        let proxy = Proxy::to(first.address());
        let store = store(&through(&proxy, &first));
        takes(&*store, "job").await;
        let [_, ready] = sessions_of_jobs(&first)[..] else { panic!("one that has the lock, and one that is ready") };
        counts_to(&second, ready);
        let mut theirs = sqlx::MySqlConnection::connect(&second.url()).await.unwrap();
        assert_eq!(sessions_of_jobs(&second), [ready]);
        proxy.lead_to(second.address());
        proxy.drop_reply_after_request(b"get_lock", Then::Silence);
        let error = refusal(&*store, &claim("another")).await;
        assert_eq!((error.kind(), proxy.dropped_replies()), (ErrorKind::TimedOut, 1), "{error}");
        assert!(sessions_of_jobs(&second).len() > 1, "it has asked there for the end of its own");
        theirs.ping().await.unwrap();
    }

    #[tokio::test]
    async fn of_two_sessions_with_the_same_number_only_the_one_that_ended_is_forgotten() {
        let (first, second) = before_a_failover().await;
        let proxy = Proxy::to(first.address());
        let (store, ttl) = (store(&through(&proxy, &first)), Duration::from_secs(6));
        let old = Claim { ttl, ..claim(NAME) };
        assert!(matches!(store.try_acquire(&old).await.unwrap(), Attempt::Granted(_)));
        let over = Instant::now() + ttl;
        let holder: u64 = first.sql(&format!("select is_used_lock('{LOCK}')")).parse().unwrap();
        proxy.drop_reply_after_request(LOOK, Then::Silence);
        eventually_async("its look is not answered", SOON, async || proxy.dropped_replies() == 1).await;
        for session in sessions_of_jobs(&first).into_iter().filter(|&session| session != holder) {
            first.sql(&format!("kill {session}")); // It is ready for the next lock.
        }
        counts_to(&second, holder);
        proxy.lead_to(second.address());
        let new = Claim { ttl: LONG, ..claim("new") };
        assert!(matches!(store.try_acquire(&new).await.unwrap(), Attempt::Granted(_)));
        assert_eq!(sessions_of_jobs(&second), [holder]);
        let shown = async || store.inspect(&new.name).await.unwrap().unwrap().holder;
        assert_eq!(shown().await, Some(new.holder));
        assert!(Instant::now() < over, "the old one is known until now");
        tokio::time::sleep(over - Instant::now() + Duration::from_millis(500)).await;
        let gone = store.renew(&[(lease(&old), ttl)]).await;
        assert!(matches!(gone[0], Ok(Renewal::Gone)), "{gone:?}");
        assert_eq!(shown().await, Some(new.holder), "and the new one still is");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn j07_a_stopped_holder_ends() {
        let server = MariaDb::start();
        a_stopped_holder_ends(&url(&server), TTL * 5 / 4 + Duration::from_secs(2)).await;
    }

    #[tokio::test]
    async fn j01_any_name_is_one_lock() {
        let server = MariaDb::start();
        let store = store(&url(&server));
        for name in ["x".repeat(64), "x".repeat(65), "x".repeat(200), "é".repeat(33)] {
            let held = takes(&*store, &name).await;
            assert!(is_held(&*store, &name).await);
            assert_eq!(store.inspect(&held.name).await.unwrap().unwrap().name.as_str(), name);
        }
        takes(&*store, "Job").await;
        takes(&*store, "job").await;
    }

    #[tokio::test]
    async fn j03_a_node_of_galera_is_refused() {
        let server = MariaDb::options().set("wsrep-on", "ON").start();
        let error = refusal(&*store(&url(&server)), &claim("job")).await;
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains("Galera") && error.to_string().contains("lease table"), "{error}");
    }

    #[tokio::test]
    async fn j04_a_server_that_closes_idle_sessions_costs_no_lock() {
        let server = MariaDb::start();
        server.sql("set global wait_timeout = 2, global interactive_timeout = 2");
        let (ours, others) = (locks(&url(&server)).await, store(&url(&server)));
        let guard = acquired(&ours.lock("job").ttl(Duration::from_secs(30))).await;
        for _ in 0..10 {
            assert!(is_held(&*others, "job").await);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        assert!(guard.is_valid());
        assert_eq!(guard.release().await.unwrap(), leasehold::Released::InTime);
    }

    #[tokio::test]
    async fn j05_databases_of_a_server_do_not_meet() {
        let server = MariaDb::start();
        server.sql("create database other; grant all on other.* to jobs@'%'");
        let other = format!("{}other", server.url().trim_end_matches("jobs"));
        takes(&*store(&url(&server)), "job").await;
        takes(&*store(&format!("{other}?mode=advisory")), "job").await;
    }

    async fn is_one_lock(server: &Arc<MariaDb>, url: &str, name: &str, lock: &str) {
        let store = store(url);
        let held = takes(&*store, name).await;
        assert_eq!(server.sql(&format!("select get_lock('{lock}', 0)")), "0");
        assert_eq!(server.sql(&format!("select is_used_lock('{lock}') is null")), "0");
        assert_eq!(store.release(&lease(&held), Ended::default()).await.unwrap(), Release::Released);
        let elsewhere = {
            let (server, lock) = (Arc::clone(server), lock.to_owned());
            // It waits: who looks whether the lock is held may have it for that moment.
            tokio::task::spawn_blocking(move || server.sql(&format!("do get_lock('{lock}', 20), sleep(2)")))
        };
        eventually_async("the other has it", SOON, async || is_held(&*store, name).await).await;
        elsewhere.await.unwrap();
        eventually_async("it is free", SOON, async || !is_held(&*store, name).await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn i09_names_are_those_of_the_documentation() {
        let server = Arc::new(MariaDb::start());
        is_one_lock(&server, &url(&server), NAME, LOCK).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn locks_of_with_advisory_lock_are_the_same() {
        let server = Arc::new(MariaDb::start());
        is_one_lock(&server, &format!("{}&key_scheme=with_advisory_lock", url(&server)), "lock_name", "lock_name")
            .await;
    }

    #[tokio::test]
    async fn a_lock_is_taken_once_and_let_go_once() {
        let server = MariaDb::start();
        let store = store(&url(&server));
        for _ in 0..3 {
            let held = takes(&*store, NAME).await;
            assert_eq!(store.release(&lease(&held), Ended::default()).await.unwrap(), Release::Released);
            assert_eq!(server.sql(&format!("select is_free_lock('{LOCK}')")), "1");
        }
    }

    #[tokio::test]
    async fn tokens_grow_though_their_sequence_is_set_back() {
        let server = MariaDb::start();
        let store = store(&url(&server));
        let token = async |name: &str| match store.try_acquire(&claim(name)).await.unwrap() {
            Attempt::Granted(grant) => grant.token.number(),
            other => panic!("not granted: {other:?}"),
        };
        let first = token("a").await;
        tokio::time::sleep(Duration::from_secs(1)).await; // It is ahead by so much.
        server.sql("alter sequence leasehold_tokens restart with 1");
        assert!(token("b").await > first);
        server.sql("do setval(leasehold_tokens, 1152921504606846976)");
        assert_eq!(refusal(&*store, &claim("c")).await.kind(), ErrorKind::Misconfigured);
    }

    #[tokio::test]
    async fn the_doctor_finds_a_server_fit() {
        fits(&url(&MariaDb::start()), &["silence", "list", "sessions"]).await;
    }

    #[tokio::test]
    async fn the_doctor_says_why_no_session_can_have_a_lock() {
        let server = MariaDb::start();
        let ours = url(&server);
        takes(&*store(&ours), "job").await;
        is_a_problem(&server.url(), "mode", "locks of mode=advisory").await;
        let galera = MariaDb::options().set("wsrep-on", "ON").start();
        is_a_problem(&url(&galera), "galera", "do not know one another's locks").await;
        server.sql("set global read_only = 1");
        is_a_problem(&ours, "role", "read_only is on").await;
        server.sql("set global read_only = 0; drop sequence leasehold_tokens");
        is_a_problem(&ours, "tables", "missing: table leasehold_tokens").await;
        assert_eq!(server.sql("show tables like 'leasehold_tokens'"), "", "it only looks");
        takes(&*store(&ours), "another").await;
        fits(&ours, &[]).await;
        server.sql("revoke all on jobs.* from jobs@'%'; grant select on jobs.leasehold_schema to jobs@'%'");
        is_a_problem(&ours, "rights", "on leasehold_tokens: session locks can't be granted").await;
    }

    #[tokio::test]
    async fn what_is_dropped_by_hand_is_made_again_by_whoever_misses_it() {
        let server = MariaDb::start();
        made_again(&url(&server), &["sequence leasehold_tokens", "table leasehold_modes"], |statement| {
            server.sql(statement)
        })
        .await;
    }

    /// A time-out that is negative is for ever on one server, and NULL on the other; so no statement waits at all.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn j09_who_waits_for_ever_waits_in_no_statement() {
        let server = MariaDb::start();
        let (ours, others) = (locks(&url(&server)).await, locks(&url(&server)).await);
        let guard = acquired(&ours.lock("job")).await;
        let briefly =
            others.lock("job").wait(leasehold::Wait::For(Duration::from_millis(1500))).acquire().await.unwrap();
        assert!(matches!(briefly, Outcome::Contended(_)), "parts of a second are a time, too");
        let waits = || {
            let lock = others.lock("job").wait(leasehold::Wait::Forever);
            tokio::spawn(async move { lock.acquire().await })
        };
        let (given_up, waiting) = (waits(), waits());
        for _ in 0..20 {
            let asleep = "select count(*) from information_schema.processlist where state = 'User lock'";
            assert_eq!(server.sql(asleep), "0");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        given_up.abort();
        assert!(given_up.await.unwrap_err().is_cancelled());
        guard.release().await.unwrap();
        let got = tokio::time::timeout(SOON, waiting).await.expect("it is free").unwrap().unwrap();
        assert!(matches!(got, Outcome::Acquired(_)), "{got:?}");
    }

    /// A user who may write on a replica gets no locks there, neither on a new session nor on one that it has.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_server_that_takes_no_writes_grants_nobody_a_lock() {
        let server = MariaDb::start();
        server.sql("grant all on *.* to jobs@'%'");
        let old = store(&url(&server));
        takes(&*old, "job").await;
        server.sql("set global read_only = 1");
        let error = refusal(&*store(&url(&server)), &claim("new")).await;
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        tokio::time::sleep(Duration::from_millis(1100)).await; // It is asked once a second.
        let error = refusal(&*old, &claim("other")).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        server.sql("set global read_only = 0");
        takes(&*old, "other").await;
    }

    #[tokio::test]
    async fn what_needs_rows_is_refused() {
        super::what_needs_rows_is_refused(&url(&MariaDb::start())).await;
    }

    #[tokio::test]
    async fn kinds_do_not_mix() {
        super::kinds_do_not_mix(&MariaDb::start().url()).await;
    }

    #[tokio::test]
    async fn a_revocation_ends_the_session() {
        super::a_revocation_ends_the_session(&url(&MariaDb::start())).await;
    }
}
