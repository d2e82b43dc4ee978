//! A job is paused for longer than its TTL, right before it writes. Another takes over and writes. When the first goes
//! on, its write is refused and rolled back: by its guard's fence, and by the token that the resource remembers.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use leasehold::Wait;
use leasehold::blocking::{Guard, Locks, Outcome};
use leasehold::fence::rusqlite::{fenced, register_fence};
use leasehold_testkit::process::{self, Worker, argument, eventually, say};
use rusqlite::Connection;

const TTL: Duration = Duration::from_secs(3);
const SOON: Duration = Duration::from_secs(30);

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;
type Write = fn(&mut Connection, &Guard, &str) -> Result;

/// Runs the scene, once with each kind of fence.
pub fn main() -> Result {
    // The paused job is this program, run again; in it, this goes no further.
    process::serve(&[("with_the_guards_fence", || paused_job(write)), ("with_fenced", || paused_job(write_fenced))]);
    scene("with_the_guards_fence", write)?;
    scene("with_fenced", write_fenced)
}

fn scene(name: &str, write: Write) -> Result {
    let dir = tempfile::tempdir()?;
    let shown = dir.path().display().to_string();
    let mut first = Worker::start("scene_5_a_paused_holder_is_refused", name, &[("DIR", &shown)]);
    first.hear("about to write", SOON);
    first.pause(); // SIGSTOP

    // Its time runs out; the next one is granted the lock, and writes.
    let (mut report, second) = start(dir.path())?;
    write(&mut report, &second, "the second")?;
    second.release()?;

    std::fs::write(dir.path().join("go-on"), "")?;
    first.resume(); // SIGCONT
    println!("{name}: the first was told that {}", first.hear("told that", SOON));
    let lines: String = report.query_row("select group_concat(line) from report", [], |row| row.get(0))?;
    assert_eq!(lines, "the second");
    Ok(())
}

/// In a process of its own.
fn paused_job(write: Write) {
    let dir = argument("DIR");
    let (mut report, guard) = start(Path::new(&dir)).expect("it is the first");
    assert!(guard.is_valid());
    say("about to write");
    eventually("it goes on", SOON * 2, || Path::new(&dir).join("go-on").exists()); // Here it is paused.
    let refused = write(&mut report, &guard, "the first").expect_err("it holds the lock no longer");
    say(&format!("told that {refused}"));
    std::process::exit(0);
}

/// What each job does first.
fn start(dir: &Path) -> Result<(Connection, Guard)> {
    let locks_db = dir.join("locks.db").display().to_string();
    let lock = Locks::connect(&format!("sqlite:{locks_db}"))?.lock("nightly-report").ttl(TTL);
    let Outcome::Acquired(guard) = lock.wait(Wait::For(SOON)).acquire()? else { panic!("its time must end") };

    let report = Connection::open(dir.join("jobs.db"))?;
    report.execute_batch("create table if not exists report(line)")?;
    report.execute("attach database ?1 as locks", [locks_db])?; // For the guard's fence.
    register_fence(&report, "report", guard.token())?; // For `fenced`.
    Ok((report, guard))
}

/// The lock is in a file that the transaction can reach: the fence comes last.
fn write(report: &mut Connection, guard: &Guard, line: &str) -> Result {
    let tx = report.transaction()?;
    tx.execute("insert into report values(?1)", [line])?;
    guard.fence(&tx)?.commit(tx)?;
    Ok(())
}

/// The lock may be anywhere: its token is all that is needed.
fn write_fenced(report: &mut Connection, guard: &Guard, line: &str) -> Result {
    let tx = report.transaction()?;
    fenced(&tx, "report", guard.token())?;
    tx.execute("insert into report values(?1)", [line])?;
    tx.commit()?;
    Ok(())
}
