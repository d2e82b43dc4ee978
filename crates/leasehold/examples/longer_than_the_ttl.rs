//! A job runs one and a half times its TTL: the lease renews itself. A second worker that waits for half a
//! TTL gives up and says so; the first finishes.

use std::time::Duration;

use leasehold::{Locks, Outcome, Ran, Result, Wait};

const TTL: Duration = Duration::from_secs(4);

/// Runs the scene.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let locks = Locks::connect(&format!("sqlite://{}/locks.db", dir.path().display())).await?;
    let lock = locks.lock("import").ttl(TTL);

    let Outcome::Acquired(guard) = lock.try_acquire().await? else { panic!("the lock is free") };
    let long_job = async {
        tokio::time::sleep(TTL.mul_f64(1.5)).await; // The work.
        assert!(guard.is_valid(), "renewed meanwhile");
        guard.release().await
    };
    let impatient = async {
        let patience = locks.lock("import").ttl(TTL).wait(Wait::For(TTL / 2));
        match patience.run(async |_guard| ()).await {
            Ok(Ran::Contended(other)) => println!("gave up: {} has had it for {:?}", other.label, other.held_for),
            other => panic!("it is held for longer than that: {other:?}"),
        }
    };
    let (released, ()) = tokio::join!(long_job, impatient);
    println!("the long job is done: {:?}", released?);
    Ok(())
}
