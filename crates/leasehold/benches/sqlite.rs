//! Acquire and release in the SQLite store, against the same two statements written by hand.
//!
//! `cargo bench -p leasehold --features sqlite --bench sqlite -- [--rounds N] [--pairs N] [--dir DIR]`
//!
//! Both run in turn, round by round, on files beside each other, so that whatever else the machine does hits both.
//! A line shows the median of the rounds' medians in microseconds, and the median of the rounds' ratios.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::stores::sqlite::Sqlite;
use leasehold::{Attempt, Claim, Ended, HolderId, LeaseKey, LockName, Release, Store};
use rusqlite::{Connection, params};
use tokio::runtime::Runtime;

const TTL: Duration = Duration::from_secs(30);

fn main() {
    let settings = Settings::parse();
    let dir = tempfile::tempdir_in(&settings.dir).expect("a directory for the files");
    println!("{} rounds of {} pairs (FULL: a tenth) in {}", settings.rounds, settings.pairs, settings.dir.display());
    for (synchronous, pairs) in [("normal", settings.pairs), ("full", settings.pairs / 10)] {
        let mut raw = Raw::open(&dir.path().join(format!("raw-{synchronous}.db")), synchronous);
        let ours = Ours::open(&dir.path().join(format!("ours-{synchronous}.db")), synchronous);
        compare(synchronous, settings.rounds, || median(pairs, || raw.pair()), || ours.medians(pairs));
    }
    let path = dir.path().join("ours-normal.db");
    let runs = median(500, || {
        let ours = Ours::open(&path, "normal");
        ours.runtime.block_on(ours.pair());
    });
    println!("open, a pair, drop {runs:8.1} us (a runtime included)");
}

struct Settings {
    rounds: usize,
    pairs: usize,
    dir: PathBuf,
}

impl Settings {
    fn parse() -> Self {
        let mut settings = Self { rounds: 15, pairs: 2000, dir: std::env::temp_dir() };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().expect("a value after the option");
            match argument.as_str() {
                "--rounds" => settings.rounds = value().parse().expect("a number of rounds"),
                "--pairs" => settings.pairs = value().parse().expect("a number of pairs"),
                "--dir" => settings.dir = value().into(),
                // Cargo passes --bench.
                _ => {}
            }
        }
        settings
    }
}

/// The two statements, prepared once, on the caller's thread.
struct Raw {
    db: Connection,
    number: u128,
    started: Instant,
}

impl Raw {
    fn open(path: &Path, synchronous: &str) -> Self {
        let db = Connection::open(path).expect("it opens");
        db.pragma_update(None, "journal_mode", "wal").expect("a log");
        db.pragma_update(None, "synchronous", synchronous).expect("a mode");
        db.execute_batch(
            "create table l(name text primary key, owner blob, fence integer not null, exp integer not null) \
             without rowid",
        )
        .expect("a table");
        Self { db, number: 0, started: Instant::now() }
    }

    fn pair(&mut self) {
        self.number += 1;
        let owner = self.number.to_le_bytes();
        let now = self.started.elapsed().as_millis() as i64;
        let mut acquire = self
            .db
            .prepare_cached(
                "insert into l values(?1, ?2, 1, ?3) on conflict(name) do update set owner = excluded.owner, \
                 fence = fence + 1, exp = excluded.exp where l.exp <= ?4 returning fence",
            )
            .expect("a statement");
        let token: i64 =
            acquire.query_row(params!["job", &owner[..], now + 30_000, now], |row| row.get(0)).expect("a grant");
        assert!(token > 0);
        let mut release = self
            .db
            .prepare_cached("update l set exp = 0, owner = null where name = ?1 and owner = ?2")
            .expect("a statement");
        assert_eq!(release.execute(params!["job", &owner[..]]).expect("a release"), 1);
    }
}

/// The store, on a runtime like that of a small program.
struct Ours {
    runtime: Runtime,
    store: Sqlite,
    name: LockName,
    label: Arc<str>,
}

impl Ours {
    fn open(path: &Path, synchronous: &str) -> Self {
        Self {
            runtime: tokio::runtime::Builder::new_current_thread().build().expect("a runtime"),
            store: Sqlite::open(&url(path, synchronous)).expect("it opens"),
            name: LockName::new("job").expect("a name"),
            label: "host/1/job".into(),
        }
    }

    fn medians(&self, pairs: usize) -> f64 {
        self.runtime.block_on(async {
            let mut times = Vec::with_capacity(pairs);
            for _ in 0..pairs {
                let started = Instant::now();
                self.pair().await;
                times.push(started.elapsed());
            }
            middle(times)
        })
    }

    async fn pair(&self) {
        let claim = Claim::new(self.name.clone(), HolderId::fresh(), Arc::clone(&self.label), TTL);
        let attempt = self.store.try_acquire(&claim).await.expect("an answer");
        assert!(matches!(attempt, Attempt::Granted(_)));
        let lease = LeaseKey { name: claim.name, holder: claim.holder };
        assert_eq!(self.store.release(&lease, Ended::default()).await.expect("an answer"), Release::Released);
    }
}

fn url(path: &Path, synchronous: &str) -> String {
    format!("sqlite:{}?synchronous={synchronous}", path.display())
}

fn compare(what: &str, rounds: usize, mut raw: impl FnMut() -> f64, mut ours: impl FnMut() -> f64) {
    // The first round warms up.
    let (mut raws, mut theirs, mut ratios) = (vec![], vec![], vec![]);
    for round in 0..=rounds {
        let (by_hand, store) = (raw(), ours());
        if round > 0 {
            raws.push(by_hand);
            theirs.push(store);
            ratios.push(store / by_hand);
        }
    }
    let (low, high) = ratios.iter().fold((f64::MAX, 0_f64), |(l, h), r| (l.min(*r), h.max(*r)));
    println!(
        "{what:9} raw {:8.1} us   leasehold {:8.1} us   ratio {:.3} ({low:.2}..{high:.2})",
        of_middle(raws),
        of_middle(theirs),
        of_middle(ratios)
    );
}

fn median(times: usize, mut what: impl FnMut()) -> f64 {
    let one = |_| {
        let started = Instant::now();
        what();
        started.elapsed()
    };
    middle((0..times).map(one).collect())
}

fn middle(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn of_middle(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
