//! A worker that locks with rslock: URL, then as worker.py.

use std::fs::{OpenOptions, read_to_string, remove_file};
use std::io::{Write, stdin};
use std::path::Path;
use std::time::{Duration, Instant};

use rslock::{Lock, LockManager};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(4);

fn millis(word: &str) -> Duration {
    Duration::from_millis(word.parse().expect("a number"))
}

async fn acquire(manager: &LockManager, name: &str, ttl: Duration, wait: Duration) -> Option<Lock> {
    let began = Instant::now();
    loop {
        match manager.lock(name, ttl).await {
            Ok(lock) => return Some(lock),
            Err(_) if began.elapsed() >= wait => return None,
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Whether it was ours: the library itself doesn't say.
async fn release(manager: &LockManager, lock: &Lock) -> bool {
    let held = matches!(manager.is_freed(lock).await, Ok(false));
    manager.unlock(lock).await;
    held
}

/// Each round alone in the witness, or somebody else was let in beside us.
async fn rounds(manager: &LockManager, name: &str, count: usize, directory: &Path) -> &'static str {
    let (witness, order) = (directory.join("inside"), directory.join("order"));
    let mut enough = false;
    while !enough {
        let Some(lock) = acquire(manager, name, TTL, LONG).await else { continue };
        OpenOptions::new().write(true).create_new(true).open(&witness).expect("nobody else is inside");
        writeln!(OpenOptions::new().append(true).create(true).open(&order).unwrap(), "theirs").unwrap();
        let lines = read_to_string(&order).unwrap();
        enough = ["ours", "theirs"].iter().all(|side| lines.lines().filter(|line| line == side).count() >= count);
        sleep(Duration::from_millis(1)).await;
        remove_file(&witness).unwrap();
        if !release(manager, &lock).await {
            return "a release was refused";
        }
        sleep(PAUSE).await;
    }
    "done"
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let url = std::env::args().nth(1).expect("a URL");
    let mut manager = LockManager::new(vec![url.as_str()]);
    manager.set_retry(0, Duration::ZERO);
    let mut held: Option<Lock> = None;
    for line in stdin().lines().map_while(Result::ok) {
        let yes = match line.split(' ').collect::<Vec<_>>()[..] {
            ["rounds", name, count, directory] => {
                let count = count.parse().expect("a number");
                println!("= {}", rounds(&manager, name, count, Path::new(directory)).await);
                continue;
            }
            ["acquire", name, ttl, wait] => {
                held = acquire(&manager, name, millis(ttl), millis(wait)).await;
                held.is_some()
            }
            ["extend", ttl] => manager.extend(held.as_ref().expect("it had it"), millis(ttl)).await.is_ok(),
            ["release"] => release(&manager, &held.take().expect("it had it")).await,
            ref other => panic!("{other:?}"),
        };
        println!("= {}", if yes { "yes" } else { "no" });
    }
}
