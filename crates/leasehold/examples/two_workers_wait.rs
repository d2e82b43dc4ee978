//! Two workers want one lock and wait for it: the second begins when the first has released.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::{Guard, Locks, Ran, Result};

static AT_WORK: AtomicBool = AtomicBool::new(false);

/// Runs the scene.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let url = format!("sqlite://{}/locks.db", dir.path().display());
    // Each worker has a client of its own, as it would on another machine.
    let (first, second) = tokio::join!(worker("first", &url), worker("second", &url));
    let (first, second) = (first?, second?);
    assert_ne!(first, second, "each run has a token of its own");
    println!("both ran, one after the other: tokens {first} and {second}");
    Ok(())
}

async fn worker(name: &str, url: &str) -> Result<u64> {
    let locks = Locks::builder().job(name).connect(url)?;
    let work = async |guard: &Guard| {
        assert!(!AT_WORK.swap(true, Ordering::SeqCst), "never both at once");
        println!("{name} works");
        tokio::time::sleep(Duration::from_millis(100)).await; // The work.
        AT_WORK.store(false, Ordering::SeqCst);
        guard.token().number()
    };
    match locks.lock("report").run(work).await? {
        Ran::Done(token) => Ok(token),
        other => panic!("{name} waits for ever, so it runs: {other:?}"),
    }
}
