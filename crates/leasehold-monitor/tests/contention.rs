//! Clients that contend for locks over real stores, and what is read of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::stores::Memory;
use leasehold::{ErrorKind, Guard, Locks, Outcome, Revoke, Severity, Tick, Wait};
use leasehold_monitor::{Contention, Keeping, LockContention, Tally, diagnose};
use leasehold_schedule::{Job, Schedule, Scheduler};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::servers::{Postgres, Redis};
use leasehold_testkit::{Faulty, Operation};

const HOUR: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_secs(20);

/// A client that counts.
struct Client {
    locks: Locks,
    keeping: Keeping,
}

impl Client {
    fn of(label: &str, url: &str) -> Self {
        let tally = Tally::new();
        let locks = Locks::builder().label(label).observer(tally.clone()).connect(url).unwrap();
        Self { keeping: tally.kept_in(&locks), locks }
    }

    async fn acquired(&self, name: &str) -> Guard {
        self.locks.lock(name).acquire().await.unwrap().guard().expect("it waits for it")
    }
}

/// As the command reads it.
async fn read(url: &str) -> Contention {
    Contention::read(&Locks::connect(url).await.unwrap(), HOUR).await.unwrap()
}

fn of<'a>(contention: &'a Contention, name: &str) -> &'a LockContention {
    contention.locks.iter().find(|lock| lock.name == name).unwrap_or_else(|| panic!("{name} is not in {contention:?}"))
}

/// Three clients and one lock: each of the last two waits for those before it. And one that asks and goes.
async fn contend(url: &str) {
    let clients = ["web-1/1/a", "web-2/2/b", "web-3/3/c"].map(|label| Client::of(label, url));
    let first = clients[0].acquired("busy").await;
    assert!(matches!(clients[1].locks.lock("busy").try_acquire().await.unwrap(), Outcome::Contended(_)));
    let waits = async |client: &Client| {
        let guard = client.acquired("busy").await;
        guard.release().await.unwrap();
    };
    let ends = async {
        eventually_async("both wait", SOON, async || {
            clients[0].locks.inspect("busy").await.unwrap().is_some_and(|holding| holding.waiting == 2)
        })
        .await;
        first.release().await.unwrap();
    };
    tokio::join!(waits(&clients[1]), waits(&clients[2]), ends);

    let tick = Tick::from_unix_millis(clients[0].locks.time().await.unwrap().as_millis() as i64).unwrap();
    for client in &clients {
        let outcome = client.locks.lock("ticks").tick(tick).try_acquire().await.unwrap();
        if let Outcome::Acquired(guard) = outcome {
            guard.complete().await.unwrap();
        }
    }
    let cut = clients[2].acquired("cut\u{202e}<b>").await;
    clients[0].locks.revoke("cut\u{202e}<b>", Revoke::Now).await.unwrap();
    cut.release().await.unwrap();
    for client in clients {
        client.keeping.end(SOON).await;
    }
}

fn is_as_it_was(contention: &Contention) {
    let busy = of(contention, "busy");
    assert_eq!((busy.attempts, busy.acquired, busy.contended, busy.failed), (4, 3, 3, 0), "{busy:?}");
    assert!((busy.contended_share - 0.75).abs() < 1e-9);
    let (waited, held) = (busy.waited.unwrap(), busy.held.unwrap());
    assert!(waited.p50 <= waited.p99 && waited.p99 <= waited.max && waited.max > Duration::ZERO, "{waited:?}");
    // Most often the first, whom both wait for; on a busy machine it may be another.
    assert!(busy.longest.iter().any(|hold| hold.label == "web-1/1/a"), "{busy:?}");
    assert_eq!(busy.longest[0].held.as_millis(), held.max.as_millis());
    assert!(contention.since <= busy.longest[0].at && busy.longest[0].at <= contention.until, "{busy:?}");
    let ticks = of(contention, "ticks");
    assert_eq!((ticks.attempts, ticks.acquired, ticks.prevented.marks, ticks.contended), (3, 1, 2, 0), "{ticks:?}");
    let cut = of(contention, "cut\u{202e}<b>");
    assert_eq!((cut.acquired, cut.late_releases), (1, 1), "{cut:?}");
    let steps: u64 = contention.series.iter().map(|step| step.attempts).sum();
    assert_eq!((steps, contention.locks.len(), contention.others), (8, 3, None), "{contention:?}");
    assert!((12..=14).contains(&contention.series.len()), "an hour of five minutes each: {}", contention.series.len());
}

async fn counts(url: &str) {
    assert_eq!(read(url).await.locks, [], "nothing was counted");
    contend(url).await;
    let contention = read(url).await;
    is_as_it_was(&contention);
    let locks = Locks::connect(url).await.unwrap();
    let some = Contention::read_of(&locks, 24 * HOUR, |name| name == "ticks").await.unwrap();
    assert_eq!((some.locks.len(), some.step, some.locks[0].attempts), (1, HOUR, 3));
    let findings = diagnose(&locks).await.unwrap();
    assert!(
        findings.iter().any(|finding| finding.subject == "losses" && finding.message.contains("cut")),
        "{findings:?}"
    );
}

#[tokio::test]
async fn clients_of_a_file_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    counts(&format!("sqlite://{}/locks.db", directory.path().display())).await;
}

#[tokio::test]
async fn clients_of_redis_are_counted() {
    counts(&Redis::start().url()).await;
}

#[tokio::test]
async fn clients_of_postgresql_are_counted() {
    counts(&Postgres::start().url()).await;
}

#[tokio::test]
async fn it_is_told_as_the_api_has_it() {
    let tally = Tally::new();
    let locks = Locks::builder().observer(tally.clone()).over(Arc::new(Memory::default()));
    let keeping = tally.kept_in(&locks);
    tally.limit("job", Duration::from_secs(9));
    locks.lock("job").acquire().await.unwrap().guard().unwrap().release().await.unwrap();
    keeping.flush().await.unwrap();
    let told = serde_json::to_value(Contention::read(&locks, HOUR).await.unwrap()).unwrap();
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(keys(&told), "is_cut locks others series since step_ms until");
    let job = &told["locks"][0];
    assert_eq!(
        keys(job),
        "acquired attempts contended contended_share failed held late_releases limit_ms longest lost name overdue prevented renewals runs waited"
    );
    assert_eq!((&job["name"], &job["limit_ms"], &job["runs"]), (&"job".into(), &9000.into(), &serde_json::Value::Null));
    assert_eq!(keys(&job["waited"]), "max_ms p50_ms p90_ms p99_ms");
    assert_eq!((keys(&job["longest"][0]), keys(&job["prevented"])), ("at held_ms label".into(), "fences marks".into()));
    assert_eq!(
        (keys(&told["series"][0]), &told["step_ms"]),
        ("at attempts contended waited_p90_ms".into(), &300_000.into())
    );
}

/// As a reload does: a limit that was taken away is told no more.
#[tokio::test]
async fn all_limits_are_replaced() {
    let tally = Tally::new();
    let locks = Locks::builder().observer(tally.clone()).over(Arc::new(Memory::default()));
    let keeping = tally.kept_in(&locks);
    tally.limits([("one", HOUR), ("other", HOUR)]);
    tally.limits([("other", Duration::from_secs(9))]);
    for name in ["one", "other"] {
        locks.lock(name).acquire().await.unwrap().guard().unwrap().release().await.unwrap();
    }
    keeping.end(SOON).await;
    let told = serde_json::to_value(Contention::read(&locks, HOUR).await.unwrap()).unwrap();
    let limits: BTreeMap<_, _> = told["locks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lock| (&lock["name"], &lock["limit_ms"]))
        .map(|(name, limit)| (name.as_str().unwrap(), limit.as_u64()))
        .collect();
    assert_eq!(limits, BTreeMap::from([("one", None), ("other", Some(9000))]));
}

#[tokio::test]
async fn keys_are_counted_under_what_they_are_about() {
    let tally = Tally::grouped(|name| name.starts_with("invoice-").then(|| "invoices".into()));
    tally.limit("invoice-0", HOUR);
    let locks = Locks::builder().observer(tally.clone()).over(Arc::new(Memory::default()));
    let keeping = tally.kept_in(&locks);
    for nth in 0..30 {
        let key = locks.once(&format!("invoice-{}", nth % 10), HOUR);
        if let Outcome::Acquired(guard) = key.try_acquire().await.unwrap() {
            guard.complete().await.unwrap();
        }
    }
    locks.lock("job").acquire().await.unwrap().guard().unwrap().release().await.unwrap();
    keeping.end(SOON).await;
    let told = Contention::read(&locks, HOUR).await.unwrap();
    let invoices = of(&told, "invoices");
    assert_eq!((invoices.acquired, invoices.prevented.marks, invoices.limit), (10, 20, Some(HOUR)), "{invoices:?}");
    assert_eq!((told.locks.len(), of(&told, "job").acquired), (2, 1));
}

#[tokio::test]
async fn a_store_that_is_away_costs_nobody_any_time() {
    let redis = Redis::start();
    let client = Client::of("web/1/a", &redis.url());
    client.acquired("job").await.release().await.unwrap();
    redis.kill();
    let error = client.locks.lock("job").wait(Wait::For(Duration::ZERO)).try_acquire().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TimedOut), "{error}");
    let limit = Duration::from_secs(3600);
    // It is known to be away: nothing is waited for, however long it might be.
    tokio::time::timeout(SOON, client.keeping.end(limit)).await.expect("it is not asked");

    redis.restart();
    let client = Client::of("web/1/a", &redis.url());
    client.acquired("job").await.release().await.unwrap();
    redis.pause();
    // It is not known to be away, and answers nothing: as long as was said.
    tokio::time::timeout(SOON, client.keeping.end(Duration::from_millis(50))).await.expect("in time");
    redis.resume();
}

#[tokio::test]
async fn a_client_writes_by_itself_and_rests_when_nothing_happens() {
    let store = Faulty::over(Arc::new(Memory::default()));
    let faults = store.faults();
    let tally = Tally::new();
    let locks = Locks::builder().observer(tally.clone()).over(Arc::new(store));
    let _keeping = tally.kept_in(&locks);
    assert_eq!([Operation::WriteNotes, Operation::Time].map(|call| faults.calls(call)), [0, 0]);
    for _ in 0..100 {
        locks.lock("job").acquire().await.unwrap().guard().unwrap().release().await.unwrap();
    }
    eventually_async("it is written", SOON * 2, async || faults.calls(Operation::WriteNotes) == 1).await;
    let asked = faults.calls(Operation::Time);
    assert!((1..=2).contains(&asked), "{asked}: for its notes, and if it is the one of eight who puts together");
    assert_eq!(of(&Contention::read(&locks, HOUR).await.unwrap(), "job").acquired, 100);
}

#[tokio::test]
async fn where_no_notes_are_kept_nothing_is_counted_and_nothing_fails() {
    let redis = Redis::start();
    let client = Client::of("web/1/a", &format!("{}?compat=redis-py", redis.url()));
    client.acquired("job").await.release().await.unwrap();
    assert_eq!(client.keeping.flush().await.unwrap_err().kind(), ErrorKind::Misconfigured);
    client.keeping.end(SOON).await;
    assert_eq!(Contention::read(&client.locks, HOUR).await.unwrap_err().kind(), ErrorKind::Misconfigured);
}

#[tokio::test]
async fn runs_of_a_schedule_are_counted_and_examined() {
    let tally = Tally::new();
    let locks = Locks::builder().observer(tally.clone()).over(Arc::new(Memory::default()));
    let keeping = tally.kept_in(&locks);
    let schedule = Schedule::parse("@every 1s", None).unwrap();
    let job = Job::new("slow", schedule, |_run| {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(1100)).await;
            Err("as the test wants it".into())
        })
    });
    let scheduler = Scheduler::over(locks.clone()).observer(tally.clone()).job(job).unwrap();
    let reader = locks.clone();
    let enough = async || {
        keeping.flush().await.unwrap();
        let told = Contention::read(&reader, HOUR).await.unwrap();
        told.locks
            .first()
            .and_then(|lock| lock.runs)
            .is_some_and(|runs| runs.ended >= 5 && runs.unsuccessful == runs.ended)
    };
    scheduler.run(eventually_async("five runs have failed", SOON * 3, enough)).await;
    let findings = diagnose(&reader).await.unwrap();
    let period = findings.iter().find(|finding| finding.subject == "period").unwrap_or_else(|| panic!("{findings:?}"));
    assert!(period.severity == Severity::Warning && period.message.contains("slow: it is due every 1s"), "{period:?}");
    let told = Contention::read(&reader, HOUR).await.unwrap();
    let label = &of(&told, "slow").longest[0].label;
    assert!(label.contains("/slow@"), "it is the job's and its tick's, not the program's: {label}");
}

/// Who asks for more than is kept is told since when it is, and no steps of the time before.
#[tokio::test]
async fn no_longer_time_is_told_of_than_is_kept() {
    let locks = Locks::over(Arc::new(Memory::default()));
    for asked in [Contention::KEPT, 30 * 24 * HOUR, 40_000 * 24 * HOUR] {
        let told = Contention::read(&locks, asked).await.unwrap();
        let span = Duration::try_from(told.until.duration_since(told.since)).unwrap();
        assert!((Contention::KEPT..=Contention::KEPT + HOUR).contains(&span), "{span:?} of {asked:?}");
        assert_eq!(told.series.len(), 7 * 24 + 1, "{asked:?}");
    }
}
