//! Whether what happened can be true.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use leasehold::store::Store;
use leasehold::{FencingToken, Guard, LockName, Tick, validity};
use tokio::time::Instant;

/// Sees who holds what and what is begun, and finds fault. Clones are the same.
///
/// - Two guards of one name are never valid at the same instant, each by its own machine's clock. A guard that is invalid
///   stays so; hence it is enough to look whenever another one begins.
/// - Tokens grow from each holder to the next.
/// - A tick that is to run once at most is begun once; none is begun by a claim that was sent after its `Done` was
///   acknowledged. (Who was too slow and has lost the lock may still say `Done`, while another is being granted the tick.)
/// - In the end, when all is quiet, nothing is left in the store; and a tick that has failed and is to be tried again, or
///   that was given back unbegun, is granted again: [`Judge::to_be_granted_again`] says which.
#[derive(Debug, Clone)]
pub struct Judge(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    seed: u64,
    began: Instant,
    /// By the number of the grant.
    living: BTreeMap<usize, Arc<Mutex<Option<Guard>>>>,
    tokens: BTreeMap<LockName, FencingToken>,
    ticks: BTreeMap<(LockName, Tick), Begun>,
    tally: Tally,
    log: Vec<String>,
    found: Option<String>,
}

#[derive(Debug, Default)]
struct Begun {
    is_once: bool,
    done: Option<Instant>,
    is_begun: bool,
    /// Whether somebody was told that it is given back unbegun.
    is_unbegun: bool,
    /// Whether it isn't known how it ended.
    is_uncertain: bool,
}

/// What has happened, for tests that must not be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// How many guards there were.
    pub granted: usize,
    /// How often a tick was begun.
    pub begun: usize,
    /// How many of these were acknowledged as done.
    pub done: usize,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        let Self { granted, begun, done } = other;
        self.granted += granted;
        self.begun += begun;
        self.done += done;
    }
}

/// What was found, and what had happened before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    seed: u64,
    what: String,
    log: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {}", self.seed, self.what)?;
        self.log.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl std::error::Error for Violation {}

/// A guard that the judge knows of.
#[derive(Debug)]
#[must_use = "dropping it gives the lock back"]
pub struct Held {
    judge: Judge,
    number: usize,
    asked: Instant,
    guard: Arc<Mutex<Option<Guard>>>,
}

impl Judge {
    pub(super) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            seed,
            began: Instant::now(),
            living: BTreeMap::new(),
            tokens: BTreeMap::new(),
            ticks: BTreeMap::new(),
            tally: Tally::default(),
            log: Vec::new(),
            found: None,
        })))
    }

    /// Somebody has been granted a lock, this instant.
    pub fn holds(&self, guard: Guard) -> Held {
        let mut state = self.state();
        let (name, token, number) = (guard.name().clone(), guard.token(), state.tally.granted);
        state.tally.granted += 1;
        state.note(&format!("grant {number} of {name}: token {token}, holder {}", guard.holder()));
        if guard.is_valid()
            && let Some(other) = state.valid_beside(&name)
        {
            state.finds(format!("two holders of {name}: grant {number} while {other} is valid"));
        }
        let last = state.tokens.insert(name.clone(), token);
        if last.is_some_and(|last| last >= token) {
            state.finds(format!("a token of {name} did not grow: {token} after {}", last.unwrap_or_default()));
        }
        let asked = if guard.is_valid() { Instant::now() - age_of(&guard) } else { state.began };
        let guard = Arc::new(Mutex::new(Some(guard)));
        state.living.insert(number, Arc::clone(&guard));
        drop(state);
        Held { judge: self.clone(), number, asked, guard }
    }

    /// The work of a tick is begun, this instant, by who [`asked`](Held::asked) for it then; `is_once` if it is to run once at
    /// most.
    pub fn begins(&self, name: &LockName, tick: Tick, is_once: bool, asked: Instant) {
        let mut state = self.state();
        state.tally.begun += 1;
        state.note(&format!("{name}: {tick} begins"));
        let fault = match state.ticks.get(&(name.clone(), tick)) {
            Some(begun) if begun.done.is_some_and(|done| done < asked) => Some("after it was done"),
            Some(begun) if begun.is_begun && (begun.is_once || is_once) => Some("twice, though once at most"),
            _ => None,
        };
        if let Some(fault) = fault {
            state.finds(format!("{name}: {tick} was begun {fault}"));
        }
        let begun = state.ticks.entry((name.clone(), tick)).or_default();
        begun.is_once |= is_once;
        begun.is_begun = true;
    }

    /// The store has acknowledged that a tick was not begun.
    pub fn is_unbegun(&self, name: &LockName, tick: Tick) {
        let mut state = self.state();
        state.note(&format!("{name}: {tick} was not begun"));
        state.ticks.entry((name.clone(), tick)).or_default().is_unbegun = true;
    }

    /// The store has not acknowledged how a tick ended: it may have heard of it all the same.
    pub fn is_uncertain(&self, name: &LockName, tick: Tick) {
        self.state().ticks.entry((name.clone(), tick)).or_default().is_uncertain = true;
    }

    /// Once all is quiet, ticks that are to be granted to whoever asks for them.
    #[must_use]
    pub fn to_be_granted_again(&self) -> Vec<(LockName, Tick)> {
        let has_failed = |begun: &Begun| begun.is_begun && !begun.is_once;
        let never_was = |begun: &Begun| begun.is_unbegun && !begun.is_begun;
        let is_due =
            |begun: &Begun| begun.done.is_none() && !begun.is_uncertain && (has_failed(begun) || never_was(begun));
        let state = self.state();
        state.ticks.iter().filter(|(_, begun)| is_due(begun)).map(|(which, _)| which.clone()).collect()
    }

    /// The store has acknowledged that the work of a tick is done.
    pub fn is_done(&self, name: &LockName, tick: Tick) {
        let mut state = self.state();
        state.tally.done += 1;
        state.note(&format!("{name}: {tick} is done"));
        let _ = state.ticks.entry((name.clone(), tick)).or_default().done.get_or_insert_with(Instant::now);
    }

    /// All is quiet, and has been for longer than any lease: whatever `store` has still is a leak.
    pub async fn finds_nothing_in(&self, store: &dyn Store) {
        match store.list().await {
            Ok(left) if left.is_empty() => {}
            Ok(left) => self.finds(&format!("a leak: {left:?}")),
            Err(error) => self.finds(&format!("in quiet weather the store can't be listed: {error}")),
        }
    }

    /// Something that a test sees for itself: it is a fault.
    pub fn finds(&self, what: &str) {
        self.state().finds(what.to_owned());
    }

    /// Something to be read if a fault is found.
    pub fn note(&self, what: impl fmt::Display) {
        self.state().note(&what.to_string());
    }

    pub(super) fn verdict(&self) -> Result<Tally, Violation> {
        let mut state = self.state();
        let State { seed, tally, .. } = *state;
        match state.found.take() {
            Some(what) => Err(Violation { seed, what, log: std::mem::take(&mut state.log) }),
            None => Ok(tally),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nothing panics while it is locked")
    }
}

impl State {
    fn note(&mut self, what: &str) {
        self.log.push(format!("{:?}: {what}", self.began.elapsed()));
    }

    /// The first fault is the one to look at: what follows may come of it.
    fn finds(&mut self, what: String) {
        self.note(&what);
        let _ = self.found.get_or_insert(what);
    }

    /// The number of a living guard of this name that is valid.
    fn valid_beside(&self, name: &LockName) -> Option<usize> {
        let is_valid = |guard: &Mutex<Option<Guard>>| {
            let guard = guard.lock().expect("nothing panics while it is locked");
            guard.as_ref().is_some_and(|guard| guard.name() == name && guard.is_valid())
        };
        self.living.iter().find(|(_, guard)| is_valid(guard)).map(|(number, _)| *number)
    }
}

/// At least as long ago the claim was sent for which it was granted: its machine's clock may be a little off.
fn age_of(guard: &Guard) -> Duration {
    validity::of(guard.ttl()).saturating_sub(guard.remaining()).mul_f64(1.0 + 2.0 * validity::DRIFT)
}

impl Held {
    /// When its claim was sent, or a little before that; for a guard whose end is its TTL's. Of one that was invalid when it came
    /// nothing is known.
    #[must_use]
    pub fn asked(&self) -> Instant {
        self.asked
    }

    /// Looks at the guard.
    pub fn look<T>(&self, at: impl FnOnce(&Guard) -> T) -> T {
        let guard = self.guard.lock().expect("nothing panics while it is locked");
        at(guard.as_ref().expect("it is held until it is given back"))
    }

    /// The guard, to be given back at once: from here on its holder does nothing under it.
    pub fn given_back(self) -> Guard {
        self.judge.note(format!("grant {} is given back", self.number));
        self.take().expect("it is held until it is given back")
    }

    fn take(&self) -> Option<Guard> {
        self.judge.state().living.remove(&self.number);
        self.guard.lock().expect("nothing panics while it is locked").take()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(test)]
mod tests {
    use leasehold::stores::Memory;
    use leasehold::{Locks, Outcome, Revoke};

    use super::*;
    use crate::simulation::{Machine, run};

    const LIMIT: Duration = Duration::from_secs(60);

    fn locks(store: &Memory, machine: &Machine) -> Locks {
        Locks::builder().simulated(Arc::new(machine.clone())).over(Arc::new(store.clone()))
    }

    #[tokio::test(start_paused = true)]
    async fn ticks_that_failed_or_were_not_begun_are_to_be_granted_again() {
        let (judge, name) = (Judge::new(7), LockName::new("job").unwrap());
        let ticks: Vec<_> = (1..=7).map(|millis| Tick::from_unix_millis(millis).unwrap()).collect();
        let [failed, done, uncertain, once, unbegun, begun_later, unknown] = ticks[..] else { panic!("seven") };
        for tick in [failed, done, uncertain] {
            judge.begins(&name, tick, false, Instant::now());
        }
        judge.is_done(&name, done);
        judge.is_uncertain(&name, uncertain);
        judge.is_unbegun(&name, unbegun);
        judge.is_unbegun(&name, begun_later);
        for tick in [once, begun_later] {
            judge.begins(&name, tick, true, Instant::now());
        }
        judge.is_unbegun(&name, unknown);
        judge.is_uncertain(&name, unknown);
        assert_eq!(judge.to_be_granted_again(), [(name.clone(), failed), (name, unbegun)]);
        assert!(judge.verdict().is_ok());
    }

    async fn guard(locks: &Locks) -> Guard {
        match locks.lock("job").try_acquire().await {
            Ok(Outcome::Acquired(guard)) => guard,
            other => panic!("{other:?}"),
        }
    }

    fn fault(judged: Result<Tally, Violation>) -> String {
        judged.unwrap_err().what
    }

    #[test]
    fn two_valid_guards_are_found() {
        let judged = run(1, LIMIT, async |world| {
            let machine = Machine::new();
            let store = Memory::new(Arc::new(machine.clone()));
            let locks = locks(&store, &machine);
            let first = world.judge().holds(guard(&locks).await);
            store.revoke(&LockName::new("job").unwrap(), None, Revoke::Now).await.unwrap();
            let second = world.judge().holds(guard(&locks).await);
            drop((first, second));
        });
        assert_eq!(fault(judged), "two holders of job: grant 1 while 0 is valid");
    }

    #[test]
    fn tokens_that_do_not_grow_are_found() {
        let judged = run(1, LIMIT, async |world| {
            let machine = Machine::new();
            for _ in 0..2 {
                let held = world.judge().holds(guard(&locks(&Memory::new(Arc::new(machine.clone())), &machine)).await);
                let _ = held.given_back().release().await;
            }
        });
        assert_eq!(fault(judged), "a token of job did not grow: 1 after 1");
    }

    #[test]
    fn ticks_begun_twice_leaks_and_hangs_are_found() {
        let (name, tick) = (LockName::new("job").unwrap(), Tick::ONLY);
        let twice = run(1, LIMIT, async |world| {
            world.judge().begins(&name, tick, false, Instant::now());
            world.judge().begins(&name, tick, true, Instant::now());
        });
        assert_eq!(fault(twice), "job: its only run was begun twice, though once at most");
        let done = run(1, LIMIT, async |world| {
            world.judge().begins(&name, tick, false, Instant::now());
            world.judge().is_done(&name, tick);
            tokio::time::sleep(Duration::from_millis(1)).await;
            world.judge().begins(&name, tick, false, Instant::now());
        });
        assert_eq!(fault(done), "job: its only run was begun after it was done");
        let leak = run(1, LIMIT, async |world| {
            let machine = Machine::new();
            let store = Memory::new(Arc::new(machine.clone()));
            let held = world.judge().holds(guard(&locks(&store, &machine)).await);
            world.judge().finds_nothing_in(&store).await;
            drop(held);
        });
        assert!(fault(leak).starts_with("a leak"));
        assert_eq!(fault(run(1, LIMIT, async |_| std::future::pending().await)), "it hangs");
    }
}
