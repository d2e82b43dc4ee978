//! A guard releases on every way out of its scope: return, error, panic, cancellation.

use std::time::Duration;

use leasehold::{Guard, Locks, Outcome, Result};

/// Runs the scene.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let locks = Locks::connect(&format!("sqlite://{}/locks.db", dir.path().display())).await?;

    returns(&locks).await;
    free_again(&locks, "return").await;

    fails(&locks).await.expect_err("it fails");
    free_again(&locks, "error").await;

    let task = tokio::spawn(panics(locks.clone()));
    assert!(task.await.expect_err("it panics").is_panic());
    free_again(&locks, "panic").await;

    let task = tokio::spawn(never_ends(locks.clone()));
    tokio::task::yield_now().await;
    task.abort();
    assert!(task.await.expect_err("it never ends").is_cancelled());
    free_again(&locks, "cancellation").await;
    Ok(())
}

async fn returns(locks: &Locks) {
    let _guard = acquire(locks).await;
}

async fn fails(locks: &Locks) -> std::result::Result<(), std::num::ParseIntError> {
    let _guard = acquire(locks).await;
    "no number".parse::<u8>()?;
    Ok(())
}

async fn panics(locks: Locks) {
    let _guard = acquire(&locks).await;
    panic!("as this scene wants it");
}

async fn never_ends(locks: Locks) {
    let _guard = acquire(&locks).await;
    std::future::pending::<()>().await;
}

async fn acquire(locks: &Locks) -> Guard {
    let outcome = locks.lock("scope").try_acquire().await.expect("the store answers");
    outcome.guard().expect("it is free")
}

/// The release of a dropped guard goes on in the background: free at once, not after the TTL of 30 s.
async fn free_again(locks: &Locks, way: &str) {
    let free = async {
        while !matches!(locks.lock("scope").try_acquire().await, Ok(Outcome::Acquired(_))) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), free).await.expect("free well before its TTL");
    // The guard of that try was dropped; let its release end as well before the next way out.
    while locks.inspect("scope").await.is_ok_and(|holding| holding.is_some()) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("free again after {way}");
}
