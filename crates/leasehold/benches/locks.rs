//! What a lock costs: `Locks` beside the same SQLite statements by hand in the same run; the keeper's CPU per
//! renewal and the memory of a held lease over the memory store.
//!
//! ```text
//! cargo bench -p leasehold --features sqlite --bench locks -- --rounds 15
//! ```
//! Rounds are interleaved; the figures are medians, and the ratio is the median of the rounds' ratios.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use leasehold::stores::Memory;
use leasehold::{Event, Locks, blocking};

const PAIRS: usize = 2_000;
const PAIRS_TO_DISK: usize = 150;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let rounds = arguments.iter().position(|a| a == "--rounds").and_then(|at| arguments.get(at + 1));
    let rounds: usize = rounds.map_or(15, |n| n.parse().expect("--rounds takes a number"));
    let dir = tempfile::tempdir().expect("a folder to work in");
    for (synchronous, pairs) in [("normal", PAIRS), ("full", PAIRS_TO_DISK)] {
        sqlite(dir.path(), synchronous, pairs, rounds);
    }
    keeper();
}

fn sqlite(dir: &std::path::Path, synchronous: &str, pairs: usize, rounds: usize) {
    let url = format!("sqlite://{}/locks-{synchronous}.db?synchronous={synchronous}", dir.display());
    let raw = Raw::open(&dir.join(format!("raw-{synchronous}.db")), synchronous);
    let blocking = blocking::Locks::connect(&url).expect("the store opens");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let locks = runtime.block_on(Locks::connect(&url)).expect("the store opens");
    let mut by_hand = Vec::new();
    let mut results = [("async", Vec::new()), ("blocking", Vec::new())];
    for round in 0..rounds + 1 {
        let hand = per_pair(pairs, || raw.pair());
        let lock = locks.lock("job");
        let ours = runtime.block_on(async {
            let began = Instant::now();
            for _ in 0..pairs {
                let guard = lock.try_acquire().await.expect("answered").guard().expect("free");
                guard.release().await.expect("answered");
            }
            began.elapsed() / u32::try_from(pairs).expect("few")
        });
        let lock = blocking.lock("job");
        let sync = per_pair(pairs, || {
            let blocking::Outcome::Acquired(guard) = lock.try_acquire().expect("answered") else { panic!("free") };
            guard.release().expect("answered");
        });
        if round > 0 {
            by_hand.push(hand);
            results[0].1.push((ours, ours.as_secs_f64() / hand.as_secs_f64()));
            results[1].1.push((sync, sync.as_secs_f64() / hand.as_secs_f64()));
        }
    }
    by_hand.sort_unstable();
    println!("sqlite {synchronous:6}  by hand  {:>9.2?} per pair", by_hand[rounds / 2]);
    for (face, mut times) in results {
        times.sort_by_key(|time| time.0);
        let middle = times[rounds / 2].0;
        times.sort_by(|a, b| a.1.total_cmp(&b.1));
        println!("sqlite {synchronous:6}  {face:8} {middle:>9.2?} per pair  x{:.2}", times[rounds / 2].1);
    }
}

fn per_pair(pairs: usize, mut pair: impl FnMut()) -> Duration {
    let began = Instant::now();
    for _ in 0..pairs {
        pair();
    }
    began.elapsed() / u32::try_from(pairs).expect("few")
}

/// The two statements by hand: what anybody would write who needs a lease with a token.
struct Raw {
    db: rusqlite::Connection,
}

impl Raw {
    fn open(path: &std::path::Path, synchronous: &str) -> Self {
        let db = rusqlite::Connection::open(path).expect("it opens");
        db.pragma_update(None, "journal_mode", "WAL").expect("WAL");
        db.pragma_update(None, "synchronous", synchronous).expect("a mode");
        db.execute_batch(
            "create table l(name text primary key, owner blob, fence integer not null, exp integer not null) without rowid",
        )
        .expect("a table");
        Self { db }
    }

    fn pair(&self) {
        let owner: [u8; 16] = rand::random();
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis() as i64;
        let sql = "insert into l values(?1,?2,1,?3) on conflict(name) do update set owner=excluded.owner, \
                   fence=fence+1, exp=excluded.exp where l.exp<=?4 returning fence";
        let mut acquire = self.db.prepare_cached(sql).expect("SQL");
        let fence: i64 =
            acquire.query_row(rusqlite::params!["job", &owner[..], now + 30_000, now], |row| row.get(0)).expect("free");
        assert!(fence > 0);
        let sql = "update l set exp=0, owner=null where name=?1 and owner=?2";
        let mut release = self.db.prepare_cached(sql).expect("SQL");
        assert_eq!(release.execute(rusqlite::params!["job", &owner[..]]).expect("released"), 1);
    }
}

/// Ten thousand leases over a store that costs next to nothing: what is left is the keeper's own work.
fn keeper() {
    const LEASES: usize = 10_000;
    let renewed = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&renewed);
    let observer = move |event: &Event<'_>| {
        if let Event::Renewed { .. } = event {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    };
    let store = Arc::new(Memory::default());
    let locks = Locks::builder().observer(observer).over(store);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let names: Vec<String> = (0..LEASES).map(|i| format!("job-{i}")).collect();
    let before = resident();
    let guards: Vec<_> = runtime.block_on(async {
        let mut guards = Vec::with_capacity(LEASES);
        for name in &names {
            let lock = locks.lock(name).ttl(Duration::from_secs(3));
            guards.push(lock.try_acquire().await.expect("answered").guard().expect("free"));
        }
        guards
    });
    let memory = resident().saturating_sub(before);
    println!("keeper         {} bytes of memory per held lease, the memory store's row included", memory / LEASES);
    let (cpu, count) = (cpu_time(), renewed.load(Ordering::Relaxed));
    std::thread::sleep(Duration::from_secs(6));
    let (cpu, count) = (cpu_time() - cpu, renewed.load(Ordering::Relaxed) - count);
    println!(
        "keeper         {:.2} µs of CPU per renewal, the memory store's work included ({count} renewals)",
        cpu.as_secs_f64() * 1e6 / count as f64
    );
    assert!(guards.iter().all(leasehold::Guard::is_valid));
}

/// Resident memory in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("/proc is mounted");
    let pages: usize = statm.split(' ').nth(1).expect("a second field").parse().expect("a number");
    pages * 4096
}

fn cpu_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("a clock");
    Duration::from(time)
}
