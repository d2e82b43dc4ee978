//! The SQLite store among other processes, on full disks and in strange places. What every store must do is in
//! `conformance.rs`.
#![cfg(feature = "sqlite")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::stores::sqlite::Sqlite;
use leasehold::{
    Applied, Attempt, Claim, Ended, Error, ErrorKind, FencingToken, HolderId, Holding, LeaseKey, LockName, Place,
    Release, Renewal, Severity, Store,
};
use leasehold_testkit::history::{self, History, Hold};
use leasehold_testkit::process::{self, Worker, argument, eventually, eventually_async, say};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(30);

#[test]
fn worker() {
    process::serve(&[
        ("take_turns", take_turns),
        ("hold", hold),
        ("hold_again_and_again", hold_again_and_again),
        ("keep_writing", keep_writing),
        ("queue_once", queue_once),
        ("leave_nothing", leave_nothing),
        ("come_and_go", come_and_go),
        ("fill_the_disk", fill_the_disk),
        ("write_nowhere", write_nowhere),
        ("be_nobody", be_nobody),
        ("bind_the_file", bind_the_file),
        ("bind_the_directory", bind_the_directory),
    ]);
}

// What all tests use.

struct File {
    dir: TempDir,
}

impl File {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("locks.db")
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.path().display())
    }

    fn store(&self) -> Sqlite {
        Sqlite::open(&self.url()).unwrap()
    }

    fn worker(&self, function: &str, more: &[(&str, &str)]) -> Worker {
        let (url, dir) = (self.url(), self.dir.path().display().to_string());
        let arguments = [&[("STORE", &*url), ("DIR", &*dir)], more].concat();
        Worker::start("worker", function, &arguments)
    }

    fn assert_sound(&self) {
        let db = rusqlite::Connection::open(self.path()).unwrap();
        let says: String = db.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(says, "ok");
    }
}

fn in_worker() -> Sqlite {
    Sqlite::open(&argument("STORE")).unwrap()
}

fn block_on<T>(what: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(what)
}

fn claim(name: &str, ttl: Duration) -> Claim {
    let label = format!("test/{}", std::process::id());
    Claim::new(LockName::new(name).unwrap(), HolderId::fresh(), label.into(), ttl)
}

fn key(claim: &Claim) -> LeaseKey {
    LeaseKey { name: claim.name.clone(), holder: claim.holder }
}

async fn granted(store: &dyn Store, claim: &Claim) -> Option<FencingToken> {
    match store.try_acquire(claim).await.unwrap() {
        Attempt::Granted(grant) => Some(grant.token),
        Attempt::Held(_) | Attempt::NotDue(_) => None,
    }
}

async fn release(store: &dyn Store, claim: &Claim) -> Release {
    store.release(&key(claim), Ended::default()).await.unwrap()
}

/// Asks again until it is granted, keeping its place in the queue. Answers when the claim that was granted was sent.
async fn wait_for(store: &dyn Store, claim: &mut Claim) -> (Instant, FencingToken) {
    loop {
        claim.queue.get_or_insert_default();
        let sent = Instant::now();
        match store.try_acquire(claim).await.unwrap() {
            Attempt::Granted(grant) => return (sent, grant.token),
            Attempt::Held(holding) => claim.queue = Some(Place { ticket: holding.ticket, sent: None }),
            Attempt::NotDue(why) => panic!("there is no tick: {why}"),
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

async fn inspect(store: &dyn Store, name: &str) -> Option<Holding> {
    store.inspect(&LockName::new(name).unwrap()).await.unwrap()
}

/// Says so where the machine doesn't allow a test.
fn skipped(why: &str) {
    println!("SKIPPED: {why}");
    eprintln!("SKIPPED: {why}");
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

// Many at once.

#[test]
fn k01_eight_processes_make_and_share_one_file() {
    let file = File::new();
    let history = file.dir.path().join("history");
    let start = |n: usize| {
        file.worker("take_turns", &[("NAME", &*format!("own-{n}")), ("HISTORY", &*history.display().to_string())])
    };
    let mut workers: Vec<Worker> = (0..8).map(start).collect();
    for worker in &mut workers {
        worker.succeeds(Duration::from_secs(120));
    }
    let holds = history::read(&history).unwrap();
    assert_eq!(holds.len(), 8 * 50);
    history::check(holds).unwrap();
    file.assert_sound();
}

/// A thousand locks of its own, and some that all want.
fn take_turns() {
    block_on(async {
        let (store, name) = (in_worker(), argument("NAME"));
        let history = History::open(Path::new(&argument("HISTORY"))).unwrap();
        for round in 0..1000 {
            let own = claim(&name, LONG);
            assert!(granted(&store, &own).await.is_some());
            assert_eq!(release(&store, &own).await, Release::Released);
            if round % 20 == 0 {
                let mut shared = claim("shared", LONG);
                let (_, token) = wait_for(&store, &mut shared).await;
                let from = history::now();
                tokio::task::yield_now().await;
                note(&history, &shared, token, from);
                assert_eq!(release(&store, &shared).await, Release::Released);
            }
        }
    });
}

fn note(history: &History, held: &Claim, token: FencingToken, from: u64) {
    let (who, name) = (held.holder.to_string(), held.name.to_string());
    history.note(&Hold { who, name, token: token.number(), from, until: history::now() }).unwrap();
}

#[test]
fn processes_killed_at_any_moment_leave_a_sound_file() {
    let kills = if std::env::var_os("LEASEHOLD_LONG").is_some() { 200 } else { 20 };
    let file = File::new();
    let history = file.dir.path().join("history");
    let shown = history.display().to_string();
    let start = || file.worker("hold_again_and_again", &[("HISTORY", &shown)]);
    let mut workers: Vec<Worker> = (0..4).map(|_| start()).collect();
    for round in 0..kills {
        let victim = &mut workers[round % 4];
        victim.hear("begun", SOON);
        std::thread::sleep(Duration::from_micros(rand::random_range(0..60_000)));
        victim.kill();
        *victim = start();
    }
    drop(workers);
    file.assert_sound();
    let holds = history::read(&history).unwrap();
    assert!(holds.len() > kills, "{} holds", holds.len());
    history::check(holds).unwrap();
    // Whoever was killed with the lock keeps it for its TTL, no longer.
    let (store, killed) = (file.store(), Instant::now());
    block_on(eventually_async("the lock is free", SOON, async || {
        granted(&store, &claim("shared", LONG)).await.is_some()
    }));
    assert!(killed.elapsed() < Duration::from_secs(2), "{:?}", killed.elapsed());
}

fn hold_again_and_again() {
    block_on(async {
        let store = in_worker();
        let history = History::open(Path::new(&argument("HISTORY"))).unwrap();
        for round in 0.. {
            let mut shared = claim("shared", Duration::from_millis(200));
            let (sent, token) = wait_for(&store, &mut shared).await;
            let from = history::now();
            if sent.elapsed() < Duration::from_millis(150) {
                note(&history, &shared, token, from);
            }
            let _ = release(&store, &shared).await;
            if round == 0 {
                say("begun");
            }
        }
    });
}

#[test]
fn k02_a_process_that_keeps_writing_holds_up_nobodys_thread() {
    let file = File::new();
    let (store, keeper) = (file.store(), file.store().for_keeper());
    let mut writer = file.worker("keep_writing", &[]);
    writer.hear("writing", SOON);
    block_on(async {
        let (mine, renewed) = (claim("busy", LONG), [(key(&claim("busy", LONG)), LONG)]);
        let asked = Instant::now();
        let both = async { tokio::join!(store.try_acquire(&mine), keeper.renew(&renewed)) };
        tokio::pin!(both);
        let mut longest = Duration::ZERO;
        let (attempt, renewals) = loop {
            let beat = Instant::now();
            tokio::select! {
                done = &mut both => break done,
                () = tokio::time::sleep(Duration::from_millis(5)) => longest = longest.max(beat.elapsed()),
            }
        };
        assert!(matches!(attempt.unwrap(), Attempt::Granted(_)));
        assert!(matches!(renewals[..], [Ok(Renewal::Gone)]));
        assert!(asked.elapsed() > Duration::from_secs(1), "the writer kept it waiting");
        assert!(longest < Duration::from_millis(500), "held up for {longest:?}");
    });
}

fn keep_writing() {
    let path = argument("STORE").replacen("sqlite:", "", 1);
    let db = rusqlite::Connection::open(path).unwrap();
    db.execute_batch("begin immediate; update leasehold_clock set home = home").unwrap();
    say("writing");
    std::thread::sleep(Duration::from_millis(1500));
}

/// Begun anew it would say that no lease or mark was ever there: two would hold the lock, or a slot run twice.
#[test]
fn a_column_that_was_dropped_is_begun_anew_by_nobody() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let tick = leasehold::Tick::from_unix_millis(i64::try_from(now).unwrap() - 60_000).unwrap();
    let slot = || {
        let due = leasehold::Due { tick, retry_failed: false, keep: Duration::from_secs(86_400) };
        Claim { due: Some(due), ..claim("job", LONG) }
    };
    for column in ["expires", "mark", "token", "tag"] {
        let file = File::new();
        block_on(async {
            granted(&file.store(), &slot()).await.expect("it is free");
            let db = rusqlite::Connection::open(file.path()).unwrap();
            db.execute_batch(&format!("alter table leasehold_locks drop column {column}")).unwrap();
            for _ in 0..2 {
                let error = file.store().try_acquire(&slot()).await.unwrap_err();
                assert_eq!(error.applied(), leasehold::Applied::No, "{error}");
                assert!(error.to_string().contains(column), "{error}");
            }
            let found = "select count(*) from pragma_table_info('leasehold_locks') where name = ?";
            assert_eq!(db.query_row(found, [column], |row| row.get::<_, i64>(0)).unwrap(), 0, "{column}");
        });
    }
}

// Ends that nobody announced.

#[test]
fn a_killed_holder_leaves_the_lock_for_its_ttl() {
    let file = File::new();
    let store = file.store();
    let mut holder = file.worker("hold", &[("TTL_MS", "2000")]);
    let token: u64 = holder.hear("held", SOON).parse().unwrap();
    holder.kill();
    block_on(async {
        let mine = claim("held", LONG);
        assert_eq!(granted(&store, &mine).await, None, "it is not known to be dead");
        let asked = Instant::now();
        let left = inspect(&store, "held").await.unwrap().remaining;
        let next = std::cell::Cell::new(None);
        eventually_async("its TTL is over", SOON, async || {
            next.set(granted(&store, &mine).await);
            next.get().is_some()
        })
        .await;
        assert!(asked.elapsed() >= left.saturating_sub(Duration::from_millis(5)), "not before");
        assert!(next.get().unwrap().number() > token);
    });
}

#[test]
fn l08_m01_a_paused_holder_is_told_when_it_goes_on() {
    let file = File::new();
    let store = file.store();
    let mut holder = file.worker("hold", &[("TTL_MS", "300")]);
    holder.hear("held", SOON);
    holder.pause();
    let mine = claim("held", LONG);
    block_on(eventually_async("its TTL is over", SOON, async || granted(&store, &mine).await.is_some()));
    holder.resume();
    assert_eq!(holder.hear("afterwards", SOON), "[Ok(Gone)] NotHeld");
    assert_eq!(block_on(inspect(&store, "held")).unwrap().holder, Some(mine.holder));
}

/// Holds, and after a while renews and releases.
fn hold() {
    block_on(async {
        let store = in_worker();
        let ttl = Duration::from_millis(argument("TTL_MS").parse().unwrap());
        let mine = claim("held", ttl);
        let token = granted(&store, &mine).await.unwrap();
        say(&format!("held {token}"));
        tokio::time::sleep(ttl + ttl / 2).await;
        let renewals = store.renew(&[(key(&mine), ttl)]).await;
        let released = release(&store, &mine).await;
        say(&format!("afterwards {renewals:?} {released:?}"));
    });
}

#[test]
fn a_waiter_that_died_is_passed_over() {
    let file = File::new();
    let store = file.store();
    block_on(async {
        let mine = claim("queue", LONG);
        assert!(granted(&store, &mine).await.is_some());
        let mut first = file.worker("queue_once", &[]);
        first.hear("queued", SOON);
        let mut second = Claim { queue: Some(Place::default()), ..claim("queue", LONG) };
        let Attempt::Held(holding) = store.try_acquire(&second).await.unwrap() else { panic!("held") };
        assert_eq!(holding.waiting, 1, "behind the other process");
        second.queue = Some(Place { ticket: holding.ticket, sent: None });
        first.kill();
        assert_eq!(release(&store, &mine).await, Release::Released);
        assert_eq!(granted(&store, &claim("queue", LONG)).await, None, "a stranger stands behind those who wait");
        let asked = Instant::now();
        wait_for(&store, &mut second).await;
        assert!(asked.elapsed() < Duration::from_millis(1500), "{:?}", asked.elapsed());
    });
}

fn queue_once() {
    block_on(async {
        let store = in_worker();
        let waiter = Claim { queue: Some(Place::default()), ..claim("queue", LONG) };
        assert_eq!(granted(&store, &waiter).await, None);
        say("queued");
        std::thread::sleep(SOON);
    });
}

// Wake-ups.

#[test]
fn a_release_in_another_process_wakes_the_first_waiter() {
    let file = File::new();
    let (store, stranger) = (file.store(), file.store());
    block_on(async {
        let mut holder = file.worker("hold", &[("TTL_MS", "60000")]);
        holder.hear("held", SOON);
        let mut ours = store.subscribe(&LockName::new("held").unwrap()).await.unwrap();
        let mut theirs = stranger.subscribe(&LockName::new("held").unwrap()).await.unwrap();
        let waiter = Claim { queue: Some(Place::default()), ..claim("held", LONG) };
        assert_eq!(granted(&store, &waiter).await, None);
        let revoked = store.revoke(&waiter.name, None, leasehold::Revoke::Now).await.unwrap();
        assert!(revoked.is_some());
        let asked = Instant::now();
        tokio::time::timeout(SOON, ours.next()).await.expect("it rings");
        assert!(asked.elapsed() < Duration::from_millis(500), "{:?}", asked.elapsed());
        // The other's turn it isn't: it is not woken to be refused.
        assert!(tokio::time::timeout(Duration::from_millis(60), theirs.next()).await.is_err());
    });
}

#[test]
fn subscriptions_leave_nothing_behind() {
    let file = File::new();
    file.worker("leave_nothing", &[]).succeeds(SOON);
}

fn leave_nothing() {
    let count = |what: &str| fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    block_on(async {
        let store = in_worker();
        let (threads, descriptors) = (count("task"), count("fd"));
        for _ in 0..5 {
            let mut all = Vec::new();
            for n in 0..20 {
                all.push(store.subscribe(&LockName::new(&format!("n{}", n % 7)).unwrap()).await.unwrap());
            }
            tokio::time::timeout(SOON, all[0].next()).await.expect("a free name rings at once");
            assert_eq!(count("task"), threads + 1, "one thread for all");
            drop(all);
            eventually("the thread is gone", SOON, || count("task") == threads);
        }
        // SQLite keeps one descriptor of the file for the next to open it: closing it would drop our locks.
        assert!(count("fd") <= descriptors + 1, "{} instead of {descriptors}", count("fd"));
    });
}

#[test]
fn stores_leave_nothing_behind_when_they_are_dropped() {
    let file = File::new();
    file.worker("come_and_go", &[]).succeeds(SOON);
    let log = fs::metadata(file.dir.path().join("locks.db-wal")).unwrap().len();
    assert!(log < 200 * 4120, "those who come and go keep the log short: {log} bytes");
}

fn come_and_go() {
    let count = |what: &str| fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    let (threads, descriptors) = (count("task"), count("fd"));
    for _ in 0..200 {
        let store = in_worker();
        let keeper = store.for_keeper();
        block_on(async {
            let mine = claim("short", LONG);
            assert!(granted(&store, &mine).await.is_some());
            assert!(matches!(keeper.renew(&[(key(&mine), LONG)]).await[..], [Ok(Renewal::Renewed)]));
            assert_eq!(release(&store, &mine).await, Release::Released);
        });
    }
    eventually("the threads are gone", SOON, || count("task") == threads);
    assert_eq!(count("fd"), descriptors);
}

// The file itself.

#[test]
fn a_file_pulled_away_ends_its_leases_and_is_made_anew() {
    let file = File::new();
    let (store, keeper) = (file.store(), file.store().for_keeper());
    block_on(async {
        let mine = claim("gone", LONG);
        assert!(granted(&store, &mine).await.is_some());
        assert!(matches!(keeper.renew(&[(key(&mine), LONG)]).await[..], [Ok(Renewal::Renewed)]));
        for suffix in ["", "-wal", "-shm"] {
            fs::remove_file(format!("{}{suffix}", file.path().display())).unwrap();
        }
        assert!(matches!(keeper.renew(&[(key(&mine), LONG)]).await[..], [Ok(Renewal::Gone)]), "missing");
        assert!(!file.path().exists(), "a renewal makes no file");
        let next = claim("gone", LONG);
        assert!(granted(&store, &next).await.is_some(), "it recovers");
        assert!(matches!(keeper.renew(&[(key(&mine), LONG)]).await[..], [Ok(Renewal::Gone)]), "another");
        assert!(matches!(keeper.renew(&[(key(&next), LONG)]).await[..], [Ok(Renewal::Renewed)]), "in the new one");
        assert_eq!(release(&store, &mine).await, Release::NotHeld);
        assert_eq!(inspect(&file.store(), "gone").await.unwrap().holder, Some(next.holder), "for all to see");
    });
}

#[test]
fn k04_links_to_a_file_are_that_file() {
    let file = File::new();
    let store = file.store();
    let link = file.dir.path().join("link.db");
    std::os::unix::fs::symlink("locks.db", &link).unwrap();
    let linked = Sqlite::open(&format!("sqlite:{}", link.display())).unwrap();
    assert_eq!(linked.path(), store.path());
    block_on(async {
        assert!(granted(&store, &claim("one", LONG)).await.is_some());
        assert_eq!(granted(&linked, &claim("one", LONG)).await, None);
    });
    assert!(!file.dir.path().join("link.db-wal").exists());
}

#[test]
fn what_is_no_lock_file_is_refused_and_left_alone() {
    let file = File::new();
    let refusal = || Sqlite::open(&file.url()).unwrap_err();
    fs::write(file.path(), vec![b'x'; 8192]).unwrap();
    assert_eq!(refusal().kind(), ErrorKind::Misconfigured, "{}", refusal());
    assert_eq!(fs::read(file.path()).unwrap(), vec![b'x'; 8192]);
    fs::remove_file(file.path()).unwrap();
    fs::create_dir(file.path()).unwrap();
    assert!(refusal().to_string().contains("is a directory"), "{}", refusal());
    let error = Sqlite::open("sqlite:/nowhere/at/all.db").unwrap_err();
    assert!(error.to_string().contains("there is no directory"), "{error}");
}

#[test]
fn k03_a_file_in_proc_is_refused() {
    let error = Sqlite::open("sqlite:/proc/self/locks.db").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("is on proc"), "{error}");
}

#[test]
fn permissions_that_are_missing_are_named() {
    let file = File::new();
    drop(file.store());
    fs::set_permissions(file.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    if !is_root() {
        return skipped("only root can become nobody");
    }
    for (file_mode, directory_mode, missing) in [
        (0o644, 0o755, "its directory"),
        (0o644, 0o777, "the file"),
        (0o600, 0o777, "the file"),
        (0o666, 0o700, "search"),
    ] {
        fs::set_permissions(file.path(), fs::Permissions::from_mode(file_mode)).unwrap();
        fs::set_permissions(file.dir.path(), fs::Permissions::from_mode(directory_mode)).unwrap();
        let mut nobody = file.worker("be_nobody", &[]);
        let says = nobody.hear("AccessDenied", SOON);
        assert!(says.contains(missing) && says.contains("locks.db"), "{file_mode:o} {directory_mode:o}: {says}");
    }
}

fn be_nobody() {
    nix::unistd::setgid(65534.into()).unwrap();
    nix::unistd::setuid(65534.into()).unwrap();
    let error = Sqlite::open(&argument("STORE")).unwrap_err();
    say(&format!("{:?} {error}", error.kind()));
}

#[test]
fn doctor_finds_nothing_wrong_with_a_good_file() {
    let file = File::new();
    let store = file.store();
    let findings = block_on(store.diagnose()).unwrap();
    for subject in ["file", "file system", "permissions", "clock", "format", "log", "space", "integrity"] {
        let finding = findings.iter().find(|finding| finding.subject == subject).expect(subject);
        assert_eq!(finding.severity, Severity::Fine, "{finding:?}");
    }
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o666)).unwrap();
    let findings = block_on(store.diagnose()).unwrap();
    let permissions = findings.iter().find(|finding| finding.subject == "permissions").unwrap();
    assert_eq!(permissions.severity, Severity::Warning, "{permissions:?}");
    assert!(permissions.fix.as_ref().unwrap().starts_with("chmod"), "{permissions:?}");
}

// Other mounts, other clocks.

/// Whether this process may mount; in a mount namespace of its own, which nobody else sees.
fn may_mount() -> bool {
    // Unshares this thread only. Tests have a thread each.
    is_root() && unshare(CloneFlags::CLONE_NEWNS).is_ok()
}

fn mount_privately(source: Option<&str>, target: &Path, kind: Option<&str>, flags: MsFlags, data: Option<&str>) {
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
    mount(source, target, kind, flags, data).unwrap();
}

#[test]
fn a_full_disk_refuses_and_nobody_holds_twice() {
    if !may_mount() {
        return skipped("only root can mount a small disk");
    }
    File::new().worker("fill_the_disk", &[]).succeeds(SOON);
}

fn fill_the_disk() {
    let dir = argument("DIR");
    let dir = Path::new(&dir);
    mount_privately(Some("none"), dir, Some("tmpfs"), MsFlags::empty(), Some("size=1m"));
    block_on(async {
        let store = in_worker();
        let keeper = store.for_keeper();
        let held = claim("held", LONG);
        let first = granted(&store, &held).await.unwrap();
        assert!(matches!(keeper.renew(&[(key(&held), LONG)]).await[..], [Ok(Renewal::Renewed)]));
        fs::write(dir.join("ballast"), vec![0; 1 << 20]).unwrap_err();

        let error = until_refused(&store).await;
        assert_eq!((error.kind(), error.applied()), (ErrorKind::Refused, Applied::No), "{error}");
        assert!(error.to_string().contains("disk is full"), "{error}");
        let [Err(renewal)] = &keeper.renew(&[(key(&held), LONG)]).await[..] else { panic!("renewed on a full disk") };
        assert_eq!(renewal.kind(), ErrorKind::Refused, "{renewal}");
        let error = store.release(&key(&held), Ended::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        let asked = store.try_acquire(&claim("held", LONG)).await;
        assert!(!matches!(asked, Ok(Attempt::Granted(_))), "{asked:?}");
        assert_eq!(inspect(&store, "held").await.unwrap().holder, Some(held.holder), "it can still be read");

        fs::remove_file(dir.join("ballast")).unwrap();
        assert!(matches!(keeper.renew(&[(key(&held), LONG)]).await[..], [Ok(Renewal::Renewed)]));
        assert_eq!(release(&store, &held).await, Release::Released);
        assert!(granted(&store, &claim("held", LONG)).await.unwrap() > first);
        let db = rusqlite::Connection::open(dir.join("locks.db")).unwrap();
        let says: String = db.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(says, "ok");
    });
}

/// Takes locks until there is no room for another.
async fn until_refused(store: &Sqlite) -> Error {
    for n in 0..10_000 {
        match store.try_acquire(&claim(&format!("filler-{n}"), LONG)).await {
            Ok(_) => {}
            Err(error) => return error,
        }
    }
    panic!("a full disk took 10,000 locks");
}

#[test]
fn a_read_only_file_system_refuses() {
    if !may_mount() {
        return skipped("only root can mount read-only");
    }
    let file = File::new();
    drop(file.store());
    file.worker("write_nowhere", &[]).succeeds(SOON);
}

fn write_nowhere() {
    let dir = argument("DIR");
    mount_privately(Some(&dir), Path::new(&dir), None, MsFlags::MS_BIND, None);
    let read_only = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(None::<&str>, &*dir, None::<&str>, read_only, None::<&str>).unwrap();
    let error = Sqlite::open(&argument("STORE")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("read-only"), "{error}");
}

#[test]
fn k04_a_bind_mount_of_the_file_alone_is_refused_while_it_is_in_use() {
    if !may_mount() {
        return skipped("only root can bind a file");
    }
    let file = File::new();
    let store = file.store();
    assert!(block_on(granted(&store, &claim("bound", LONG))).is_some());
    file.worker("bind_the_file", &[]).succeeds(SOON);
}

fn bind_the_file() {
    let dir = argument("DIR");
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("locks.db");
    fs::write(&target, "").unwrap();
    mount_privately(Some(&format!("{dir}/locks.db")), &target, None, MsFlags::MS_BIND, None);
    let error = Sqlite::open(&format!("sqlite:{}", target.display())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("bind mount of the file"), "{error}");
}

#[test]
fn k04_a_bind_mount_of_the_directory_is_the_same_place() {
    if !may_mount() {
        return skipped("only root can bind a directory");
    }
    let file = File::new();
    let store = file.store();
    assert!(block_on(granted(&store, &claim("bound", LONG))).is_some());
    file.worker("bind_the_directory", &[]).succeeds(SOON);
}

fn bind_the_directory() {
    let elsewhere = tempfile::tempdir().unwrap();
    mount_privately(Some(&argument("DIR")), elsewhere.path(), None, MsFlags::MS_BIND, None);
    let store = Sqlite::open(&format!("sqlite:{}/locks.db", elsewhere.path().display())).unwrap();
    assert_eq!(block_on(granted(&store, &claim("bound", LONG))), None);
}

/// What the test below runs in a time namespace of its own.
#[test]
fn in_another_time_namespace() {
    let Ok(url) = std::env::var("LEASEHOLD_TEST_OTHER_CLOCK") else { return };
    match Sqlite::open(&url) {
        Ok(store) => println!("\nopened, {} held", block_on(store.list()).unwrap().len()),
        Err(error) => println!("\nrefused, {:?}: {error}", error.kind()),
    }
}

#[test]
fn a_file_in_use_is_refused_in_another_time_namespace() {
    let with_another_clock = || Command::new("unshare");
    let allowed = with_another_clock().args(["--time", "--boottime", "100000", "-f", "--", "true"]).output();
    if !allowed.is_ok_and(|done| done.status.success()) {
        return skipped("time namespaces can't be made here");
    }
    let file = File::new();
    let store = file.store();
    let mine = claim("namespace", LONG);
    assert!(block_on(granted(&store, &mine)).is_some());
    let there = || {
        let done = with_another_clock()
            .args(["--time", "--boottime", "100000", "-f", "--"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "in_another_time_namespace", "--nocapture"])
            .env("LEASEHOLD_TEST_OTHER_CLOCK", file.url())
            .output()
            .unwrap();
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let says = there();
    assert!(says.contains("refused, Misconfigured") && says.contains("time namespace"), "{says}");
    assert_eq!(block_on(inspect(&store, "namespace")).unwrap().holder, Some(mine.holder));
    drop(store);
    let says = there();
    assert!(says.contains("opened, 0 held"), "{says}");
    // And back: nobody of the other is alive.
    assert_eq!(block_on(inspect(&file.store(), "namespace")), None);
}

#[test]
fn the_default_file_is_made_with_its_directories() {
    let binary = std::env::current_exe().unwrap();
    let reachable = binary.ancestors().skip(1).all(|dir| fs::metadata(dir).unwrap().permissions().mode() & 0o001 != 0);
    if !is_root() || !reachable {
        return skipped("only root can become somebody else, who must reach the test's binary");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let home = dir.path().canonicalize().unwrap().display().to_string();
    let open = |variable: &str, expected: &str| {
        let done = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "at_the_default", "--nocapture"])
            .env_clear()
            .env(variable, &home)
            .env("LEASEHOLD_TEST_DEFAULT", "1")
            .uid(65534)
            .gid(65534)
            .output()
            .unwrap();
        let says = String::from_utf8_lossy(&done.stdout).into_owned();
        let expected = format!("opened {home}/{expected}");
        assert!(says.contains(&expected), "{says} instead of {expected}");
    };
    open("XDG_STATE_HOME", "leasehold/locks.db");
    open("HOME", ".local/state/leasehold/locks.db");
}

/// What the test above runs as somebody else.
#[test]
fn at_the_default() {
    if std::env::var_os("LEASEHOLD_TEST_DEFAULT").is_some() {
        println!("\nopened {}", Sqlite::open("sqlite:").unwrap().path().display());
    }
}

#[test]
fn one_file_holds_many_namespaces() {
    let file = File::new();
    let open = |namespace: &str| Sqlite::open(&format!("{}?namespace={namespace}", file.url())).unwrap();
    let (staging, production) = (open("staging"), open("production"));
    block_on(async {
        assert!(granted(&staging, &claim("job", LONG)).await.is_some());
        assert!(granted(&production, &claim("job", LONG)).await.is_some());
        assert_eq!(granted(&open("staging"), &claim("job", LONG)).await, None);
        assert_eq!(staging.list().await.unwrap().len(), 1);
    });
}

#[test]
fn one_store_serves_many_tasks() {
    let file = File::new();
    let store: Arc<dyn Store> = Arc::new(file.store());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    runtime.block_on(async {
        let one = |n: usize, store: Arc<dyn Store>| async move {
            for _ in 0..50 {
                let own = claim(&format!("task-{n}"), LONG);
                assert!(granted(&*store, &own).await.is_some());
                assert_eq!(release(&*store, &own).await, Release::Released);
            }
        };
        let tasks: Vec<_> = (0..64).map(|n| tokio::spawn(one(n, Arc::clone(&store)))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}
