//! The libraries, each used as its documentation says, with its default delay between tries.

use std::time::Duration;

use distributed_lock_core::traits::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_redis::{RedisLockHandle, RedisLockProvider};

use crate::raw;

pub const TTL: Duration = Duration::from_secs(30);

pub enum Library {
    Raw(raw::Raw),
    Leasehold(leasehold::Locks),
    Rslock(rslock::LockManager),
    DistributedLock(RedisLockProvider),
}

pub enum Held {
    Raw(raw::Held),
    Leasehold(leasehold::Guard),
    Rslock(rslock::Lock),
    DistributedLock(RedisLockHandle),
    /// Renewed by a task.
    Kept,
}

impl Library {
    pub async fn new(library: &str, url: &str, me: usize) -> Self {
        match library {
            "raw" => Self::Raw(raw::Raw::new(url, me).await),
            "leasehold" => Self::Leasehold(leasehold::Locks::connect(url).await.expect("a store")),
            "rslock" => {
                let mut manager = rslock::LockManager::new(vec![url.to_owned()]);
                manager.set_retry(1_000_000, Duration::from_millis(200)); // Its own delay, but without giving up.
                Self::Rslock(manager)
            }
            "distributed-lock" => {
                let builder = RedisLockProvider::builder().urls(&[url.to_owned()]);
                Self::DistributedLock(builder.build().await.expect("a provider"))
            }
            other => panic!("no library is called {other:?}"),
        }
    }

    pub async fn acquire(&mut self, name: &str) -> Held {
        match self {
            Self::Raw(raw) => Held::Raw(raw.acquire(name).await),
            Self::Leasehold(locks) => {
                let outcome = locks.lock(name).acquire().await.expect("answered");
                Held::Leasehold(outcome.guard().expect("it waits for ever"))
            }
            Self::Rslock(manager) => Held::Rslock(manager.lock(name, TTL).await.expect("locked")),
            Self::DistributedLock(provider) => loop {
                if let Ok(handle) = provider.create_lock(name).acquire(Some(Duration::from_secs(60))).await {
                    break Held::DistributedLock(handle);
                }
            },
        }
    }

    pub async fn release(&mut self, held: Held) {
        match (self, held) {
            (Self::Raw(raw), Held::Raw(held)) => raw.release(held).await,
            (_, Held::Leasehold(guard)) => drop(guard.release().await.expect("answered")),
            (Self::Rslock(manager), Held::Rslock(lock)) => manager.unlock(&lock).await,
            (_, Held::DistributedLock(handle)) => handle.release().await.expect("answered"),
            _ => unreachable!("each releases what it took"),
        }
    }

    /// Holds a lock and has it renewed at each third of its TTL; rslock by the loop that its users write.
    pub async fn keep(&mut self, name: &str, ttl: Duration) -> Held {
        match self {
            Self::Leasehold(locks) => {
                let outcome = locks.lock(name).ttl(ttl).acquire().await.expect("answered");
                Held::Leasehold(outcome.guard().expect("free"))
            }
            Self::Rslock(manager) => {
                let (manager, mut lock) = (manager.clone(), manager.lock(name, ttl * 20).await.expect("locked"));
                tokio::spawn(async move {
                    loop {
                        tokio::time::sleep(ttl / 3).await;
                        if let Ok(extended) = manager.extend(&lock, ttl).await {
                            lock = extended;
                        }
                    }
                });
                Held::Kept
            }
            _ => panic!("it renews nothing"),
        }
    }
}
