//! A world in which locks are tried out: machines with clocks of their own, a network that loses, delays and reorders,
//! and a judge. Time is Tokio's paused time, so hours pass in milliseconds, and chance is one seed's: the same seed is
//! the same world, to the instant.
//!
//! What is tried is the real code over real stores; only the way between them is made up:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use leasehold::stores::Memory;
//! use leasehold::{Locks, Outcome};
//! use leasehold_testkit::simulation::{self, Machine, Network, Weather, Wire};
//!
//! let judged = simulation::run(7, Duration::from_secs(600), async |world| {
//!     let (client, node) = (Machine::new(), Machine::new());
//!     let memory = Arc::new(Memory::new(Arc::new(node.clone())));
//!     let network = Network::new(world.random(), Weather::FAIR);
//!     let wire = Wire::new(memory, network.link(&client, &node));
//!     let locks = Locks::builder().simulated(Arc::new(client)).over(Arc::new(wire));
//!     if let Ok(Outcome::Acquired(guard)) = locks.lock("job").try_acquire().await {
//!         let held = world.judge().holds(guard);
//!         tokio::time::sleep(Duration::from_secs(90)).await;
//!         let _ = held.given_back().release().await;
//!     }
//!     locks.shutdown().await;
//! });
//! assert_eq!(judged.unwrap().granted, 1);
//! ```

mod judge;
mod machine;
mod member;
mod network;
mod notes;
mod parts;
mod wire;

use std::time::Duration;

pub use judge::{Held, Judge, Tally, Violation};
pub use machine::Machine;
pub use network::{Link, Network, Weather};
pub use wire::Wire;

use crate::random::Random;

/// What a play is given.
#[derive(Debug)]
pub struct World {
    random: Random,
    judge: Judge,
}

impl World {
    /// Numbers that nobody else is given.
    pub fn random(&mut self) -> Random {
        Random::new(self.random.draw())
    }

    /// Who judges. Clones are the same.
    #[must_use]
    pub fn judge(&self) -> Judge {
        self.judge.clone()
    }
}

/// Plays one world to its end: at the latest after `limit` of its time, for what takes longer hangs.
///
/// # Errors
/// What the judge has found, with what had happened before.
pub fn run(seed: u64, limit: Duration, play: impl AsyncFnOnce(&mut World)) -> Result<Tally, Violation> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime can be built");
    let mut random = Random::new(seed);
    let mut ours = Random::new(random.draw());
    let _seeded = Seeded::with(move || ours.draw());
    runtime.block_on(async {
        let judge = Judge::new(seed);
        let mut world = World { random, judge: judge.clone() };
        if tokio::time::timeout(limit, play(&mut world)).await.is_err() {
            judge.finds("it hangs");
        }
        judge.verdict()
    })
}

/// While it lives, the library's chance on this thread comes from a seed.
struct Seeded;

impl Seeded {
    fn with(numbers: impl FnMut() -> u64 + 'static) -> Self {
        leasehold::simulation::draw_from(numbers);
        Self
    }
}

impl Drop for Seeded {
    fn drop(&mut self) {
        leasehold::simulation::draw_from_the_system();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use leasehold::stores::Memory;
    use leasehold::{Locks, Outcome, Wait};
    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Three clients who want one lock in foul weather, as what is read when a fault is found.
    fn story(seed: u64) -> String {
        let judged = run(seed, 600 * SECOND, async |world| {
            let node = Machine::new();
            let memory = Arc::new(Memory::new(Arc::new(node.clone())));
            let network = Network::new(world.random(), Weather::FOUL);
            let clients = (0..3).map(|number| {
                let (client, judge) = (Machine::new(), world.judge());
                client.drift(0.005 * f64::from(number));
                let wire = Wire::new(memory.clone(), network.link(&client, &node));
                let locks = Locks::builder().simulated(Arc::new(client)).over(Arc::new(wire));
                async move {
                    let lock = locks.lock("job").ttl(10 * SECOND).wait(Wait::For(60 * SECOND));
                    for _ in 0..5 {
                        if let Ok(Outcome::Acquired(guard)) = lock.acquire().await {
                            let held = judge.holds(guard);
                            sleep(SECOND).await;
                            let _ = held.given_back().release().await;
                        }
                    }
                    locks.shutdown().await;
                }
            });
            futures_util::future::join_all(clients).await;
            sleep(60 * SECOND).await;
            world.judge().finds_nothing_in(&*memory).await;
            world.judge().finds("this is all");
        });
        judged.unwrap_err().to_string()
    }

    #[test]
    fn a_seed_is_the_same_each_time() {
        let first = story(7);
        assert_eq!(first, story(7));
        assert!(first.starts_with("seed 7: this is all") && first.contains("grant 14 is given back"), "{first}");
        assert_ne!(first, story(8));
    }
}
