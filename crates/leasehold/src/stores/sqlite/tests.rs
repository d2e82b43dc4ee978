//! What needs another machine than this one, or a look inside. The rest is in `tests/sqlite.rs`.

use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use futures_util::FutureExt;
use tempfile::TempDir;

use super::*;
use crate::error::{Applied, ErrorKind};
use crate::lease::{FencingToken, HolderId, Place};
use crate::store::{Force, Refusal, Route, RouteTerms, Tagged, Target, TickClaim, TickOf};
use crate::tick::{Due, NotDue, Tick, Verdict};

const LONG: Duration = Duration::from_secs(60);
const HOUR_MS: i64 = 3_600_000;

/// This machine, except for what a test changes.
#[derive(Debug, Clone)]
struct Fake {
    wall_ms: Arc<AtomicI64>,
    clock_id: &'static str,
    file_system: Option<u32>,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            wall_ms: Arc::new(AtomicI64::new(ThisMachine.wall_ms())),
            clock_id: "boot-1 time:[1]",
            file_system: None,
        }
    }
}

impl Machine for Fake {
    fn now(&self) -> i64 {
        ThisMachine.now()
    }

    fn wall_ms(&self) -> i64 {
        self.wall_ms.load(Ordering::Relaxed)
    }

    fn clock_id(&self) -> Result<String> {
        Ok(self.clock_id.to_owned())
    }

    fn file_system(&self, path: &Path) -> io::Result<u32> {
        self.file_system.map_or_else(|| ThisMachine.file_system(path), Ok)
    }
}

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn url(dir: &TempDir) -> String {
    format!("sqlite:{}/locks.db", dir.path().display())
}

fn open(dir: &TempDir, machine: &Fake) -> Sqlite {
    Sqlite::open_on(&url(dir), Box::new(machine.clone())).unwrap()
}

fn refusal(dir: &TempDir, machine: &Fake) -> Error {
    Sqlite::open_on(&url(dir), Box::new(machine.clone())).unwrap_err()
}

fn claim(name: &str) -> Claim {
    Claim::new(LockName::new(name).unwrap(), HolderId::fresh(), "test".into(), LONG)
}

fn key(claim: &Claim) -> LeaseKey {
    LeaseKey { name: claim.name.clone(), holder: claim.holder }
}

async fn token(store: &Sqlite, claim: &Claim) -> Option<FencingToken> {
    match store.try_acquire(claim).await.unwrap() {
        Attempt::Granted(grant) => Some(grant.token),
        Attempt::Held(_) | Attempt::NotDue(_) => None,
    }
}

/// Another process that is writing, as far as SQLite knows.
fn writer(store: &Sqlite) -> rusqlite::Connection {
    let db = rusqlite::Connection::open(store.path()).unwrap();
    db.execute_batch("begin immediate").unwrap();
    db
}

#[tokio::test]
async fn k05_m04_a_step_of_the_wall_clock_changes_nothing() {
    let (dir, machine) = (directory(), Fake::default());
    let store = open(&dir, &machine);
    for step in [-HOUR_MS, HOUR_MS, -20 * 365 * 24 * HOUR_MS] {
        let (mine, other) = (claim("step"), claim("step"));
        let first = token(&store, &mine).await.unwrap();
        machine.wall_ms.fetch_add(step, Ordering::Relaxed);
        assert_eq!(token(&store, &other).await, None, "{step}: still held");
        let left = store.inspect(&mine.name).await.unwrap().unwrap().remaining;
        assert!(left > LONG - Duration::from_secs(10) && left <= LONG, "{step}: {left:?}");
        assert_eq!(token(&store, &mine).await, Some(first), "{step}: the same grant");
        assert!(matches!(store.renew(&[(key(&mine), LONG)]).await[..], [Ok(Renewal::Renewed)]));
        assert_eq!(store.release(&key(&mine), Ended::default()).await.unwrap(), Release::Released);
        assert!(token(&store, &other).await.unwrap() > first, "{step}: tokens grow");
        assert_eq!(store.release(&key(&other), Ended::default()).await.unwrap(), Release::Released);
    }
}

#[tokio::test]
async fn a_first_token_needs_a_plausible_wall_clock() {
    let (dir, machine) = (directory(), Fake::default());
    let store = open(&dir, &machine);
    const EPOCH_2020_MS: i64 = 1_577_836_800_000;
    let right = machine.wall_ms();
    for wrong in [0, right / 2, EPOCH_2020_MS + (1 << 42)] {
        machine.wall_ms.store(wrong, Ordering::Relaxed);
        let error = store.try_acquire(&claim("new")).await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No));
        assert!(error.to_string().contains("set it"), "{error}");
    }
    machine.wall_ms.store(right, Ordering::Relaxed);
    assert!(token(&store, &claim("new")).await.unwrap().number() >= ((right - EPOCH_2020_MS) as u64) << 4);
}

#[tokio::test]
async fn another_boot_ends_all_leases_once_nobody_of_the_old_one_is_alive() {
    let (dir, machine) = (directory(), Fake::default());
    let store = open(&dir, &machine);
    let (mine, waiter) = (claim("reboot"), Claim { queue: Some(Place::default()), ..claim("reboot") });
    let first = token(&store, &mine).await.unwrap();
    assert_eq!(token(&store, &waiter).await, None);

    for clock_id in ["boot-2 time:[1]", "boot-1 time:[2]"] {
        let error = refusal(&dir, &Fake { clock_id, ..machine.clone() });
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains("boot id"), "{error}");
    }
    assert!(matches!(store.renew(&[(key(&mine), LONG)]).await[..], [Ok(Renewal::Renewed)]), "untouched");

    drop(store);
    let rebooted = open(&dir, &Fake { clock_id: "boot-2 time:[1]", ..machine });
    assert!(rebooted.list().await.unwrap().is_empty());
    assert!(matches!(rebooted.renew(&[(key(&mine), LONG)]).await[..], [Ok(Renewal::Gone)]));
    assert!(token(&rebooted, &claim("reboot")).await.unwrap() > first, "the counter outlives the boot");
}

#[test]
fn after_a_reboot_many_may_come_at_once() {
    let (dir, machine) = (directory(), Fake::default());
    drop(open(&dir, &machine));
    let rebooted = Fake { clock_id: "boot-2 time:[1]", ..machine };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| open(&dir, &rebooted))).collect();
        let stores: Vec<_> = all.into_iter().map(|one| one.join().unwrap()).collect();
        assert_eq!(stores.len(), 8);
    });
}

#[tokio::test]
async fn k04_one_file_under_two_names_is_refused_while_it_is_in_use() {
    let (dir, machine) = (directory(), Fake::default());
    let store = open(&dir, &machine);
    let mine = claim("two-names");
    assert!(token(&store, &mine).await.is_some());
    let other_name = dir.path().join("other.db");
    std::fs::hard_link(store.path(), &other_name).unwrap();
    let other_url = format!("sqlite:{}", other_name.display());
    let error = Sqlite::open_on(&other_url, Box::new(machine.clone())).unwrap_err();
    assert!(error.kind() == ErrorKind::Misconfigured && error.to_string().contains("another name"), "{error}");
    let findings = store.diagnose().await.unwrap();
    assert!(findings.iter().any(|finding| finding.message.contains("hard links")), "{findings:?}");
    drop(store);
    // A file that was merely moved is nobody else's.
    assert!(Sqlite::open_on(&other_url, Box::new(machine)).is_ok());
}

#[tokio::test]
async fn k03_a_foreign_file_system_is_refused_unless_it_is_trusted() {
    let (dir, machine) = (directory(), Fake { file_system: Some(0x6969), ..Fake::default() });
    let error = refusal(&dir, &machine);
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    for word in ["NFS", "trust_file_system=only-this-machine-opens-it", "one kernel"] {
        assert!(error.to_string().contains(word), "{error}");
    }
    assert!(!dir.path().join("locks.db").exists(), "refused before anything was made");
    let trusting = format!("{}?trust_file_system=only-this-machine-opens-it", url(&dir));
    let store = Sqlite::open_on(&trusting, Box::new(machine)).unwrap();
    assert!(token(&store, &claim("trusted")).await.is_some());
    let findings = store.diagnose().await.unwrap();
    assert!(findings.iter().any(|finding| finding.message.contains("trusted because")), "{findings:?}");
}

#[tokio::test]
async fn an_operation_waits_on_its_own_thread_and_in_order() {
    let dir = directory();
    let store = open(&dir, &Fake::default());
    let busy = writer(&store);
    let (first, second) = (claim("order"), claim("order"));
    // Two claims whose callers give up: the first is at it by then or is the next, the second can't have begun.
    let mut attempt = store.try_acquire(&first);
    assert!((&mut attempt).now_or_never().is_none());
    assert!(store.try_acquire(&second).now_or_never().is_none());
    drop(attempt);
    let (first, second) = (key(&first), key(&second));
    let releases =
        futures_util::future::join(store.release(&first, Ended::default()), store.release(&second, Ended::default()));
    let mut releases = Box::pin(releases);
    assert!(releases.as_mut().now_or_never().is_none(), "queued behind the claims");
    busy.execute_batch("rollback").unwrap();
    let (_, second) = releases.await;
    assert_eq!(second.unwrap(), Release::NotHeld, "it was skipped");
    assert!(store.list().await.unwrap().is_empty(), "nothing is left");
}

#[tokio::test]
async fn a_release_that_nobody_waits_for_is_done_all_the_same() {
    let dir = directory();
    let store = open(&dir, &Fake::default());
    let mine = claim("a11");
    assert!(token(&store, &mine).await.is_some());
    let busy = writer(&store);
    assert!(store.release(&key(&mine), Ended::default()).now_or_never().is_none());
    busy.execute_batch("rollback").unwrap();
    assert!(store.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn k02_a_busy_file_is_waited_for_off_the_callers_thread_and_not_for_ever() {
    let dir = directory();
    let store = open(&dir, &Fake::default());
    let busy = writer(&store);
    let started = Instant::now();
    let error = {
        let mine = claim("busy");
        let attempt = store.try_acquire(&mine);
        tokio::pin!(attempt);
        let mut beats = 0;
        loop {
            tokio::select! {
                answer = &mut attempt => break answer.unwrap_err(),
                () = tokio::time::sleep(Duration::from_millis(10)) => beats += 1,
            }
            // As many as there would be otherwise, or nearly: the thread is not held up.
            assert!(started.elapsed() < Duration::from_millis(200) * (beats + 2), "{beats} beats");
        }
    };
    assert_eq!((error.kind(), error.applied()), (ErrorKind::TimedOut, Applied::No));
    assert!(started.elapsed() >= connection::PATIENCE);
    drop(busy);
    assert!(token(&store, &claim("busy")).await.is_some());
}

#[tokio::test]
async fn a_log_taken_away_ends_the_leases_and_is_told() {
    let (dir, machine) = (directory(), Fake::default());
    let store = open(&dir, &machine);
    let keeper = store.for_keeper();
    let mine = claim("torn");
    assert!(token(&store, &mine).await.is_some());
    assert!(matches!(keeper.renew(&[(key(&mine), LONG)]).await[..], [Ok(Renewal::Renewed)]));
    std::fs::remove_file(dir.path().join("locks.db-wal")).unwrap();
    std::fs::remove_file(dir.path().join("locks.db-shm")).unwrap();
    assert!(matches!(keeper.renew(&[(key(&mine), LONG)]).await[..], [Ok(Renewal::Gone)]));
    // Within the tenth of a second for which a look at the log's files is good, claims may still be granted.
    std::thread::sleep(Duration::from_millis(101));
    let error = store.try_acquire(&claim("torn")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("-wal"), "{error}");
    drop((store, keeper));
    // Once nobody has it open any more, it is a good file again. The keeper's thread needs a moment to close it.
    let started = Instant::now();
    let again = loop {
        match Sqlite::open_on(&url(&dir), Box::new(machine.clone())) {
            Ok(store) => break store,
            Err(error) => assert!(started.elapsed() < LONG, "{error}"),
        }
    };
    assert!(token(&again, &claim("torn")).await.is_some());
}

#[tokio::test]
async fn a_slow_disk_is_not_forgotten_over_answers_that_needed_none() {
    let dir = directory();
    let store = Sqlite::open_on(&format!("{}?synchronous=full", url(&dir)), Box::new(Fake::default())).unwrap();
    let mine = claim("slow");
    assert!(token(&store, &mine).await.is_some());
    store.database.committed_in(Duration::from_secs(1));
    assert_eq!(token(&store, &claim("slow")).await, None);
    assert_eq!(store.release(&key(&claim("slow")), Ended::default()).await.unwrap(), Release::NotHeld);
    assert!(!store.database.commits_quickly(false));
    assert_eq!(store.release(&key(&mine), Ended::default()).await.unwrap(), Release::Released);
}

#[tokio::test]
async fn the_log_starts_over_under_constant_use() {
    let dir = directory();
    let store = open(&dir, &Fake::default());
    let view = rusqlite::Connection::open(store.path()).unwrap();
    let pages = || view.query_row("pragma wal_checkpoint(noop)", [], |row| row.get::<_, u32>(1)).unwrap();
    let (started, mut longest) = (Instant::now(), 0);
    loop {
        let mine = claim("log");
        assert!(token(&store, &mine).await.is_some());
        assert_eq!(store.release(&key(&mine), Ended::default()).await.unwrap(), Release::Released);
        let now = pages();
        if longest > database::LOG_PAGES && now < database::LOG_PAGES {
            break;
        }
        longest = longest.max(now);
        assert!(started.elapsed() < LONG, "{now} pages and growing");
    }
}

#[tokio::test]
async fn a_keepers_store_opens_nothing_until_it_is_used() {
    let dir = directory();
    let store = open(&dir, &Fake::default());
    let mine = claim("keeper");
    assert!(token(&store, &mine).await.is_some());
    let keeper = store.for_keeper();
    drop(store);
    std::fs::remove_file(dir.path().join("locks.db")).unwrap();
    // No file, and a renewal makes none.
    assert!(matches!(keeper.renew(&[(key(&mine), LONG)]).await[..], [Ok(Renewal::Gone)]));
    assert_eq!(keeper.release(&key(&mine), Ended::default()).await.unwrap(), Release::NotHeld);
    keeper.leave(&key(&mine)).await.unwrap();
    assert!(!dir.path().join("locks.db").exists());
}

const DAY: Duration = Duration::from_secs(86_400);

fn due(tick: Tick) -> Due {
    Due { tick, retry_failed: false, keep: DAY }
}

/// A claim for the tick at this many milliseconds after what the machine's clock shows.
fn ticking(name: &str, machine: &Fake, ms: i64) -> Claim {
    let tick = Tick::from_unix_millis(machine.wall_ms() + ms).unwrap();
    Claim { due: Some(due(tick)), ..claim(name) }
}

fn keyed(name: &str, keep: Duration) -> Claim {
    Claim { due: Some(Due { keep, ..due(Tick::ONLY) }), ..claim(name) }
}

fn done(claim: &Claim) -> Ended {
    Ended { verdict: claim.due.map(|due| Verdict::Done(due.tick)), ..Ended::default() }
}

async fn complete(store: &Sqlite, claim: &Claim) {
    assert!(token(store, claim).await.is_some(), "{} is due", claim.name);
    assert_eq!(store.release(&key(claim), done(claim)).await.unwrap(), Release::Released);
}

fn rows(store: &Sqlite, table: &str) -> i64 {
    let db = rusqlite::Connection::open(store.path()).unwrap();
    db.query_row(&format!("select count(*) from {table}"), [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_claim_with_a_tick_waits_for_the_disk_and_others_do_not() {
    let dir = directory();
    let store = open(&dir, &Fake::default());
    let mut connection = connection::Connection::open(&store.database, false).unwrap();
    let synchronous =
        |db: &rusqlite::Connection| db.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0));
    let (normal, full) = (1, 2);
    assert_eq!(connection.write_durably(|writing| Ok(synchronous(&writing.db)?)).unwrap(), full);
    assert_eq!(connection.write(|writing| Ok(synchronous(&writing.db)?)).unwrap(), normal);
    let failed = connection.write_durably(|_| Err::<(), _>(Fault::Moved));
    assert!(failed.is_err());
    assert_eq!(synchronous(&connection.db).unwrap(), normal);
}

#[tokio::test]
async fn on_a_slow_disk_only_what_waits_for_it_goes_to_another_thread() {
    let (dir, machine) = (directory(), Fake::default());
    let store = open(&dir, &machine);
    store.database.committed_in(Duration::from_secs(1));
    assert!(!store.database.commits_quickly(true) && store.database.commits_quickly(false));
    let mine = ticking("slow", &machine, 0);
    assert!(store.try_acquire(&mine).now_or_never().is_none(), "it waits elsewhere");
    assert!(
        store.try_acquire(&claim("plain")).now_or_never().is_some() || store.try_acquire(&claim("p")).await.is_ok()
    );
}

#[tokio::test]
async fn ticks_are_judged_by_the_wall_clock_and_leases_are_not() {
    let (dir, machine) = (directory(), Fake::default());
    let store = open(&dir, &machine);
    let tomorrow = ticking("job", &machine, 24 * HOUR_MS);
    assert!(matches!(
        store.try_acquire(&tomorrow).await.unwrap(),
        Attempt::NotDue(NotDue::InFuture { ahead }) if ahead == DAY
    ));
    let today = ticking("job", &machine, 0);
    complete(&store, &today).await;
    // Set back by a day: what would be due now is older than what was claimed.
    machine.wall_ms.fetch_sub(24 * HOUR_MS, Ordering::Relaxed);
    let again = ticking("job", &machine, 0);
    assert!(matches!(store.try_acquire(&again).await.unwrap(), Attempt::NotDue(NotDue::Claimed { .. })));
    machine.wall_ms.fetch_add(48 * HOUR_MS, Ordering::Relaxed);
    assert!(matches!(store.try_acquire(&today).await.unwrap(), Attempt::NotDue(NotDue::TooOld { .. })));
    complete(&store, &tomorrow).await;
}

#[tokio::test]
async fn marks_survive_another_boot_and_leases_do_not() {
    let (dir, machine) = (directory(), Fake::default());
    let store = open(&dir, &machine);
    let now = ticking("job", &machine, 0);
    let retried = |claim: Claim| Claim { due: claim.due.map(|due| Due { retry_failed: true, ..due }), ..claim };
    let again = retried(ticking("again", &machine, 0));
    let pool = Claim { permits: std::num::NonZeroU32::new(3).unwrap(), ..claim("pool") };
    for claim in [&now, &again, &pool] {
        assert!(token(&store, claim).await.is_some());
    }
    let path = store.path().to_owned();
    drop(store);
    let started = Instant::now();
    let later = Fake { clock_id: "boot-2 time:[1]", ..machine.clone() };
    let store = loop {
        match Sqlite::open_on(&url(&dir), Box::new(later.clone())) {
            Ok(store) => break store,
            Err(error) => assert!(started.elapsed() < LONG, "{error}"),
        }
    };
    assert_eq!(store.path(), path);
    let same = Claim { holder: HolderId::fresh(), ..now.clone() };
    let told = store.try_acquire(&same).await.unwrap();
    assert!(matches!(told, Attempt::NotDue(NotDue::Claimed { unfinished: true, .. })), "{told:?}");
    let next = Claim { holder: HolderId::fresh(), ..again.clone() };
    assert!(matches!(store.try_acquire(&next).await.unwrap(), Attempt::Granted(grant) if grant.attempt == 2));
    assert!(token(&store, &claim("pool")).await.is_some(), "nobody of the old boot holds it");
}

#[tokio::test]
async fn a_key_is_remembered_from_its_end_on_and_then_forgotten() {
    let (dir, machine) = (directory(), Fake::default());
    let store = open(&dir, &machine);
    let first = keyed("invoice-1", DAY);
    assert!(token(&store, &first).await.is_some());
    machine.wall_ms.fetch_add(20 * HOUR_MS, Ordering::Relaxed);
    assert_eq!(store.release(&key(&first), done(&first)).await.unwrap(), Release::Released);
    machine.wall_ms.fetch_add(23 * HOUR_MS, Ordering::Relaxed);
    complete(&store, &keyed("invoice-2", DAY)).await;
    assert_eq!(token(&store, &keyed("invoice-1", DAY)).await, None, "43 h after its beginning, 23 h after its end");
    machine.wall_ms.fetch_add(HOUR_MS, Ordering::Relaxed);
    complete(&store, &keyed("invoice-3", DAY)).await;
    complete(&store, &keyed("invoice-1", DAY)).await;
    assert_eq!(token(&store, &keyed("invoice-2", DAY)).await, None);
}

#[tokio::test]
async fn a_key_is_forgotten_though_nobody_claims_another() {
    let (dir, machine) = (directory(), Fake::default());
    let store = open(&dir, &machine);
    let first = keyed("daily", DAY);
    let before = token(&store, &first).await.unwrap();
    assert_eq!(store.release(&key(&first), done(&first)).await.unwrap(), Release::Released);
    assert_eq!(token(&store, &keyed("daily", DAY)).await, None);
    machine.wall_ms.fetch_add(24 * HOUR_MS, Ordering::Relaxed);
    let second = keyed("daily", DAY);
    let Attempt::Granted(grant) = store.try_acquire(&second).await.unwrap() else { panic!("it is a day ago") };
    assert!(grant.token > before && grant.attempt == 1, "{grant:?}");
    // Begun and not finished: remembered for a day all the same, and no longer.
    assert_eq!(store.release(&key(&second), Ended::default()).await.unwrap(), Release::Released);
    assert_eq!(token(&store, &keyed("daily", DAY)).await, None);
    machine.wall_ms.fetch_add(24 * HOUR_MS, Ordering::Relaxed);
    let third = Claim { permits: std::num::NonZeroU32::new(2).unwrap(), ..keyed("daily", DAY) };
    assert!(matches!(store.try_acquire(&third).await.unwrap(), Attempt::Granted(grant) if grant.attempt == 1));
    machine.wall_ms.fetch_add(48 * HOUR_MS, Ordering::Relaxed);
    let running = Claim { holder: HolderId::fresh(), ..third };
    assert!(matches!(store.try_acquire(&running).await.unwrap(), Attempt::Held(_)), "not while it runs");
}

#[tokio::test]
async fn tokens_of_a_key_grow_though_it_was_forgotten_and_the_wall_clock_set_back() {
    let (dir, machine) = (directory(), Fake::default());
    let store = open(&dir, &machine);
    let (forgotten, others) = (["plain", "tick"], |n: i32| keyed(&format!("other-{n}"), DAY));
    let mut before = Vec::new();
    for name in forgotten {
        let claim = keyed(name, DAY);
        before.push(token(&store, &claim).await.unwrap());
        assert_eq!(store.release(&key(&claim), done(&claim)).await.unwrap(), Release::Released);
    }
    machine.wall_ms.fetch_add(48 * HOUR_MS, Ordering::Relaxed);
    complete(&store, &others(1)).await;
    assert_eq!(rows(&store, "leasehold_locks"), 2, "both are forgotten, and one row says how far they had counted");
    machine.wall_ms.fetch_sub(72 * HOUR_MS, Ordering::Relaxed);
    assert!(token(&store, &claim("plain")).await.unwrap() > before[0]);
    assert!(token(&store, &keyed("tick", DAY)).await.unwrap() > before[1]);
    assert_eq!(store.list().await.unwrap().len(), 2);
}

#[tokio::test]
async fn keys_do_not_pile_up_and_held_ones_are_not_forgotten() {
    let (dir, machine) = (directory(), Fake::default());
    let store = open(&dir, &machine);
    complete(&store, &ticking("job", &machine, 0)).await;
    let held = keyed("held", Duration::from_secs(60));
    assert!(token(&store, &held).await.is_some());
    for n in 0..300 {
        machine.wall_ms.fetch_add(60_000, Ordering::Relaxed);
        complete(&store, &keyed(&format!("mail-{n}"), Duration::from_secs(600))).await;
    }
    assert!(rows(&store, "leasehold_locks") < 30, "{} rows", rows(&store, "leasehold_locks"));
    assert_eq!(rows(&store, "leasehold_ticks"), 1, "the one that is not finished");
    assert_eq!(token(&store, &keyed("held", LONG)).await, None);
    assert!(matches!(store.renew(&[(key(&held), LONG)]).await[..], [Ok(Renewal::Renewed)]));
    let again = ticking("job", &machine, -300 * 60_000);
    assert!(matches!(store.try_acquire(&again).await.unwrap(), Attempt::NotDue(_)), "a job's mark stays");
}

fn terms() -> RouteTerms {
    let (lease, max_ttl) = (Duration::from_secs(10), Duration::from_secs(3600));
    RouteTerms { lease, drift: 10_000, max_ttl, primary: "redis".into() }
}

#[tokio::test]
async fn another_boot_takes_a_route_out_of_force_and_leaves_the_marks() {
    let (dir, machine) = (directory(), Fake::default());
    let store = open(&dir, &machine);
    let route = Route { epoch: Epoch::FIRST, target: Target::Arbiter };
    store.found(&route, &terms()).await.unwrap();
    store.arm(route.epoch, Duration::ZERO).await.unwrap();
    store.complain().await.unwrap();
    assert!(matches!(Tagged::claim(&store, &claim("job"), &route).await, Ok(Ok(Attempt::Granted(_)))));
    let ran = ticking("job", &machine, 0);
    let tick = TickOf { lease: key(&ran), due: ran.due.unwrap(), again: false };
    assert!(matches!(store.claim_tick(&tick, route.epoch).await, Ok(Ok(TickClaim::Claimed { .. }))));

    drop(store);
    let rebooted = open(&dir, &Fake { clock_id: "boot-2 time:[1]", ..machine });
    let read = rebooted.route().await.unwrap().unwrap();
    assert_eq!((read.route, read.force, read.complained), (route.clone(), Force::Unarmed, None));
    let other = claim("job");
    assert_eq!(Tagged::claim(&rebooted, &other, &route).await.unwrap().unwrap_err(), Refusal::OtherRoute);
    rebooted.arm(route.epoch, Duration::ZERO).await.unwrap();
    assert!(matches!(Tagged::claim(&rebooted, &other, &route).await, Ok(Ok(Attempt::Granted(_)))), "leases are over");
    let again = TickOf { lease: key(&other), ..tick };
    let answer = rebooted.claim_tick(&again, route.epoch).await.unwrap().unwrap();
    assert!(matches!(answer, TickClaim::NotDue(NotDue::Claimed { unfinished: true, .. })), "{answer:?}");
}

#[tokio::test]
async fn tokens_grow_within_an_epoch_though_the_name_was_forgotten_and_the_wall_clock_set_back() {
    let (dir, machine) = (directory(), Fake::default());
    let store = open(&dir, &machine);
    let route = Route { epoch: Epoch::new(7), target: Target::Arbiter };
    store.found(&route, &terms()).await.unwrap();
    store.arm(route.epoch, Duration::ZERO).await.unwrap();
    let tagged = async |claim: &Claim| match Tagged::claim(&store, claim, &route).await {
        Ok(Ok(Attempt::Granted(grant))) => grant.token,
        other => panic!("it is free: {other:?}"),
    };
    let mine = keyed("daily", DAY);
    let before = tagged(&Claim { due: None, ..mine.clone() }).await;
    let tick = TickOf { lease: key(&mine), due: mine.due.unwrap(), again: false };
    assert!(matches!(store.claim_tick(&tick, route.epoch).await, Ok(Ok(TickClaim::Claimed { .. }))));
    assert_eq!(store.release(&key(&mine), done(&mine)).await.unwrap(), Release::Released);
    machine.wall_ms.fetch_add(48 * HOUR_MS, Ordering::Relaxed);
    complete(&store, &keyed("other", DAY)).await;
    assert_eq!(rows(&store, "leasehold_locks"), 2, "one is forgotten, and a row says how far it had counted");
    let plain = claim("plain");
    let counter = token(&store, &plain).await.unwrap();
    assert_eq!(store.release(&key(&plain), Ended::default()).await.unwrap(), Release::Released);
    machine.wall_ms.fetch_sub(72 * HOUR_MS, Ordering::Relaxed);
    assert!(tagged(&claim("daily")).await > before);
    assert!(tagged(&claim("plain")).await > route.epoch.token(counter.number()).unwrap());
}

#[tokio::test]
async fn a_route_is_read_only_once_it_is_written_whole() {
    let (dir, machine) = (directory(), Fake::default());
    let store = open(&dir, &machine);
    store.found(&Route { epoch: Epoch::FIRST, target: Target::Arbiter }, &terms()).await.unwrap();
    // Somebody gives it a time: the clock is read, and the disk is slow.
    let arming = writer(&store);
    arming.execute("update leasehold_routes set not_before = ?1", [machine.now() + 1_000_000_000]).unwrap();
    let mut reading = store.route();
    assert!((&mut reading).now_or_never().is_none(), "what is read now would be too old");
    arming.execute_batch("commit").unwrap();
    assert!(matches!(reading.await.unwrap().unwrap().force, Force::In(_)));
}

#[tokio::test]
async fn the_counter_of_a_forgotten_key_is_kept_without_its_epoch() {
    let (dir, machine) = (directory(), Fake::default());
    let store = open(&dir, &machine);
    let route = Route { epoch: Epoch::new(7), target: Target::Arbiter };
    store.found(&route, &terms()).await.unwrap();
    store.arm(route.epoch, Duration::ZERO).await.unwrap();
    let mine = keyed("daily", DAY);
    let plain = Claim { due: None, ..mine.clone() };
    let Ok(Ok(Attempt::Granted(grant))) = Tagged::claim(&store, &plain, &route).await else { panic!("it is free") };
    let tick = TickOf { lease: key(&mine), due: mine.due.unwrap(), again: false };
    assert!(matches!(store.claim_tick(&tick, route.epoch).await, Ok(Ok(TickClaim::Claimed { .. }))));
    assert_eq!(store.release(&key(&mine), done(&mine)).await.unwrap(), Release::Released);
    machine.wall_ms.fetch_add(48 * HOUR_MS, Ordering::Relaxed);
    complete(&store, &keyed("other", DAY)).await;
    machine.wall_ms.fetch_sub(72 * HOUR_MS, Ordering::Relaxed);
    let later = token(&store, &claim("daily")).await.unwrap();
    let first = route.epoch.token(0).unwrap().number();
    assert!(later.number() < first && later.number() > grant.token.number() - first, "{later} after {}", grant.token);
}

#[test]
fn a_url_says_which_file_it_names_and_makes_none() {
    let dir = TempDir::new().unwrap();
    let url = format!("sqlite://{}/a%20b.db?namespace=n", dir.path().display());
    assert_eq!(Sqlite::file_of(&url).unwrap(), dir.path().join("a b.db"));
    assert!(!dir.path().join("a b.db").exists());
    assert_eq!(Sqlite::file_of("sqlite:").unwrap(), Sqlite::default_path().unwrap());
    assert_eq!(Sqlite::file_of("redis://h").unwrap_err().kind(), ErrorKind::Invalid);
}
