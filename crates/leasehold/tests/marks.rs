//! An operator has a database forget which ticks of a name were claimed.
#![cfg(any(feature = "mysql", feature = "postgres"))]

mod claims;

use std::sync::Arc;
use std::time::Duration;

use leasehold::{
    Applied, Attempt, Claim, Due, Ended, Grant, LockName, NotDue, Release, Renewal, Revoke, Store, Tick, Verdict,
};
use leasehold_testkit::servers;

use claims::lease;

/// Long enough for a test.
const LONG: Duration = Duration::from_secs(60);

fn claim(name: &str, due: Option<Due>) -> Claim {
    Claim { due, ..claims::claim(name, LONG) }
}

/// The tick of the last hour.
async fn last_hour(store: &Arc<dyn Store>) -> Due {
    let hours = store.time().await.unwrap().as_secs() / 3600;
    let tick = Tick::from_unix_millis(i64::try_from(hours * 3_600_000).unwrap()).unwrap();
    Due { tick, retry_failed: false, keep: Duration::from_secs(86400) }
}

async fn granted(store: &Arc<dyn Store>, claim: &Claim) -> Grant {
    match store.try_acquire(claim).await.unwrap() {
        Attempt::Granted(grant) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

async fn is_over(store: &Arc<dyn Store>, claim: &Claim) -> bool {
    matches!(store.try_acquire(claim).await.unwrap(), Attempt::NotDue(NotDue::Claimed { .. }))
}

async fn ends(store: &Arc<dyn Store>, claim: &Claim, verdict: Verdict) -> Release {
    store.release(&lease(claim), Ended { verdict: Some(verdict), ..Ended::default() }).await.unwrap()
}

async fn resets(store: &Arc<dyn Store>, claim: &Claim) -> bool {
    store.reset_marks(&claim.name).await.unwrap()
}

/// As if it had never been: of a job and of a key, finished or not.
async fn what_was_claimed_is_granted_again_under_a_larger_token(store: &Arc<dyn Store>) {
    let hourly = last_hour(store).await;
    let again = Due { retry_failed: true, ..hourly };
    let key = Due { tick: Tick::ONLY, ..hourly };
    for (name, due, verdict) in [
        ("done", hourly, Verdict::Done(hourly.tick)),
        ("failed", hourly, Verdict::Failed),
        ("failed and open", again, Verdict::Failed),
        ("never begun", hourly, Verdict::NotStarted),
        ("key", key, Verdict::Done(key.tick)),
    ] {
        let first = claim(name, Some(due));
        assert!(!resets(store, &first).await, "{name}: nobody knows it");
        let before = granted(store, &first).await;
        assert_eq!(ends(store, &first, verdict).await, Release::Released, "{name}");
        assert!(resets(store, &first).await, "{name}");
        assert!(!resets(store, &first).await, "{name}: it is forgotten");
        let second = claim(name, Some(due));
        let after = granted(store, &second).await;
        assert!(after.token > before.token && after.attempt == 1, "{name}: {after:?} after {before:?}");
        assert_eq!(ends(store, &second, Verdict::Done(due.tick)).await, Release::Released, "{name}");
        assert!(is_over(store, &claim(name, Some(due))).await, "{name}: and it is claimed once");
    }
}

/// A name that has no tick is none of it.
async fn a_lease_lives_on(store: &Arc<dyn Store>) {
    let plain = claim("plain", None);
    let grant = granted(store, &plain).await;
    assert!(!resets(store, &plain).await);
    assert_eq!(granted(store, &plain).await.token, grant.token);

    let running = claim("running", Some(last_hour(store).await));
    let grant = granted(store, &running).await;
    assert!(resets(store, &running).await);
    assert!(matches!(store.renew(&[(lease(&running), LONG)]).await[..], [Ok(Renewal::Renewed)]));
    let other = claim("running", running.due);
    assert!(matches!(store.try_acquire(&other).await.unwrap(), Attempt::Held(_)), "it has the lock");
    assert_eq!(granted(store, &running).await.token, grant.token, "asked once more");
    assert_eq!(ends(store, &running, Verdict::Done(running.due.unwrap().tick)).await, Release::Released);
    assert!(granted(store, &other).await.token > grant.token, "its tick is due again");
}

/// What the holder of then says finds nothing to close, and takes nothing from who has claimed the tick since.
async fn late_words_do_no_harm(store: &Arc<dyn Store>) {
    let due = Due { retry_failed: true, ..last_hour(store).await };
    let words = [Verdict::Done(due.tick), Verdict::Failed, Verdict::NotStarted];
    for (nth, word) in words.into_iter().enumerate() {
        let name = format!("late {nth}");
        let [old, new, next] = [(); 3].map(|()| claim(&name, Some(due)));
        granted(store, &old).await;
        assert!(resets(store, &old).await);
        store.revoke(&old.name, None, Revoke::Now).await.unwrap().expect("it is held");
        assert_eq!(ends(store, &old, word).await, Release::NotHeld);
        let grant = granted(store, &new).await;
        assert_eq!(grant.attempt, 1, "{word:?}");
        if nth > 0 {
            assert_eq!(ends(store, &old, word).await, Release::NotHeld);
        }
        assert!(matches!(store.try_acquire(&next).await.unwrap(), Attempt::Held(_)), "{word:?}");
        assert_eq!(ends(store, &new, Verdict::Failed).await, Release::Released);
        assert_eq!(granted(store, &next).await.attempt, 2, "{word:?}: it was open");
    }
}

/// A clock that was years ahead.
async fn a_mark_that_nothing_is_newer_than(store: &Arc<dyn Store>, set: impl Fn(i64)) {
    let job = claim("ahead", Some(last_hour(store).await));
    let before = granted(store, &job).await;
    assert_eq!(ends(store, &job, Verdict::Done(job.due.unwrap().tick)).await, Release::Released);
    set(job.due.unwrap().tick.as_unix_millis() + 30 * 365 * 86_400_000);
    let next = claim("ahead", Some(Due { tick: last_hour(store).await.tick, ..job.due.unwrap() }));
    assert!(is_over(store, &next).await);
    assert!(resets(store, &next).await);
    assert!(granted(store, &next).await.token > before.token);
}

/// Another namespace has its own.
async fn names_are_apart(store: &Arc<dyn Store>, other: &Arc<dyn Store>) {
    let due = last_hour(store).await;
    let of = |name: &str| claim(name, Some(due));
    for (store, claim) in [(store, of("job")), (other, of("job")), (store, of("job "))] {
        granted(store, &claim).await;
        assert_eq!(ends(store, &claim, Verdict::Done(due.tick)).await, Release::Released);
    }
    assert!(resets(store, &of("job")).await);
    assert!(is_over(other, &of("job")).await && is_over(store, &of("job ")).await);
}

async fn all(store: &Arc<dyn Store>, other: &Arc<dyn Store>, set_mark: impl Fn(i64)) {
    what_was_claimed_is_granted_again_under_a_larger_token(store).await;
    a_lease_lives_on(store).await;
    late_words_do_no_harm(store).await;
    a_mark_that_nothing_is_newer_than(store, set_mark).await;
    names_are_apart(store, other).await;
}

/// Asked of nobody.
#[tokio::test]
async fn what_has_no_ticks_has_no_marks() {
    let name = LockName::new("job").unwrap();
    for scheme in [cfg!(feature = "postgres").then_some("postgres"), cfg!(feature = "mysql").then_some("mysql")] {
        let Some(scheme) = scheme else { continue };
        for (how, says) in [("mode=advisory", "no marks of ticks"), ("compat=shedlock", "job has no mark")] {
            let store = claims::store(&format!("{scheme}://nobody@localhost:1/x?{how}"));
            let error = store.reset_marks(&name).await.unwrap_err();
            assert_eq!(error.applied(), Applied::No, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn marks_are_forgotten_in_postgres() {
    let server = servers::Postgres::start();
    let [store, other] = ["", "?namespace=other"].map(|how| claims::store(&format!("{}{how}", server.url())));
    let set = |mark| drop(server.sql(&format!("update leasehold_locks set mark = {mark} where name = 'ahead'")));
    all(&store, &other, set).await;
    assert_eq!(server.errors(), Vec::<String>::new());
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn marks_are_forgotten_in_mariadb() {
    let server = servers::MariaDb::start();
    let [store, other] = ["", "?namespace=other"].map(|how| claims::store(&format!("{}{how}", server.url())));
    let set = |mark| drop(server.sql(&format!("update leasehold_names set mark = {mark} where name = 'ahead'")));
    all(&store, &other, set).await;
}
