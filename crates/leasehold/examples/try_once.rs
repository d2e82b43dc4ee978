//! Two workers try once on a database file: one works, the other is told who has it and leaves. After the
//! release the lock is free.

use leasehold::{Locks, Outcome, Result};

/// Runs the scene.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let url = format!("sqlite://{}/locks.db", dir.path().display());
    let one = Locks::builder().label("web-1/17/backup").connect(&url)?;
    let two = Locks::builder().label("web-2/99/backup").connect(&url)?;

    let Outcome::Acquired(guard) = one.lock("backup").try_acquire().await? else { panic!("nobody has it yet") };
    match two.lock("backup").try_acquire().await? {
        Outcome::Contended(other) => {
            assert_eq!(other.label, "web-1/17/backup");
            println!("{} has it; leaving", other.label);
        }
        other => panic!("never both: {other:?}"),
    }
    let first = guard.token();
    guard.release().await?;

    let Outcome::Acquired(guard) = two.lock("backup").try_acquire().await? else { panic!("it is free again") };
    assert!(guard.token() > first, "tokens grow");
    println!("after the release the other one gets it, with a larger token: {} > {first}", guard.token());
    guard.release().await?;
    Ok(())
}
