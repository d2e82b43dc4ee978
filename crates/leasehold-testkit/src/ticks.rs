//! Ticks at random: claims, answers that are lost, retries, deaths and late words; and a judge of what came of it.
//!
//! A [`Play`] is what three nodes do that share a store and are told by chance what befalls them. It is the same each
//! time for one seed, and it tells the seed when the judge finds fault:
//!
//! ```
//! use std::sync::Arc;
//! use leasehold::Store;
//! use leasehold::stores::Memory;
//! use leasehold_testkit::ticks::Play;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let memory = Memory::default();
//! let played = Play::new(7).over(|| Arc::new(memory.clone())).await.unwrap();
//! assert!(played.begun > 0);
//! # }
//! ```
//!
//! What the judge holds a store to, whoever dies and whatever is lost, late or said twice:
//!
//! - A tick that was begun under a claim that wanted it once at most is begun once.
//! - A tick is never granted anew after its `Done` arrived, or after it was given up.
//! - A tick is never granted while another holder of it has a live lease.
//! - Tokens grow; attempts count those that were begun; a claim sent again gets the same of both.
//! - A tick newer than all that were granted is due.
//! - In the end, when all that never began have said so, each tick that was granted and not done may be claimed again,
//!   unless it was begun under a claim that wanted it once at most.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{
    Attempt, Claim, Due, Ended, FencingToken, Grant, HolderId, LeaseKey, LockName, NotDue, Revoke, Store, Tick, Verdict,
};
use tokio::time::sleep;

use crate::random::Random;

/// A history that one seed makes.
#[derive(Debug, Clone)]
pub struct Play {
    /// What decides everything.
    pub seed: u64,
    /// How much happens.
    pub steps: usize,
    /// Whether leases also end by time, for a store whose clock is [`PausedClock`](crate::PausedClock). Without, only an
    /// operator ends them; to a tick that is the same.
    pub time_passes: bool,
    /// Whether the nodes lie as a careless client would: who gets an answer to a claim that it has done with says that
    /// it never began, though it may have. No store can stand that; the judge has to find it.
    pub lies: bool,
}

/// What was played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Played {
    /// How many claims were granted, each once.
    pub granted: usize,
    /// How often work was begun.
    pub begun: usize,
    /// How many ticks were done.
    pub done: usize,
    /// How many ticks were granted more than once.
    pub again: usize,
    /// How many were given up, so many being open.
    pub given_up: usize,
}

impl std::ops::AddAssign for Played {
    fn add_assign(&mut self, other: Self) {
        let Self { granted, begun, done, again, given_up } = other;
        self.granted += granted;
        self.begun += begun;
        self.done += done;
        self.again += again;
        self.given_up += given_up;
    }
}

/// What the judge has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    seed: u64,
    step: usize,
    what: String,
    /// What had happened to the tick.
    before: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, step {}: {}", self.seed, self.step, self.what)?;
        self.before.iter().try_for_each(|before| write!(f, "\n  {before}"))
    }
}

impl std::error::Error for Violation {}

const NODES: usize = 3;
const TTL: Duration = Duration::from_secs(60);
const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);

impl Play {
    /// The usual: 200 steps, told the truth, at no time.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, steps: 200, time_passes: false, lies: false }
    }

    /// Plays it over a store that `open` opens; again when a node starts again, after the others if all do.
    ///
    /// # Errors
    /// What the judge finds.
    ///
    /// # Panics
    /// If the store answers with an error.
    pub async fn over(&self, open: impl Fn() -> Arc<dyn Store>) -> Result<Played, Violation> {
        let mut scene = Scene::new(self, &open).await;
        for step in 0..self.steps {
            scene.judge.step = step;
            scene.goes_on(&open).await?;
        }
        scene.comes_to_its_end().await?;
        Ok(scene.judge.played())
    }
}

/// One acquisition of one node.
struct Acquisition {
    node: usize,
    claim: Claim,
    due: Due,
    state: State,
    began: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It waits for an answer.
    Asking,
    Working,
    /// The node has done with it, or has died; answers may still come.
    Over,
}

/// What is on its way to the store, or comes there after all.
#[derive(Debug, Clone, Copy)]
enum Request {
    Claim,
    Say(Verdict),
    Leave,
}

struct Scene<'a> {
    play: &'a Play,
    random: Random,
    nodes: Vec<Arc<dyn Store>>,
    name: LockName,
    permits: NonZeroU32,
    /// The first tick, and after how many steps there is a new one.
    first: Duration,
    pace: usize,
    acquisitions: Vec<Acquisition>,
    requests: Vec<(usize, Request)>,
    answers: Vec<(usize, Attempt)>,
    judge: Judge,
}

impl<'a> Scene<'a> {
    async fn new(play: &'a Play, open: impl Fn() -> Arc<dyn Store>) -> Self {
        let mut random = Random::new(play.seed);
        let nodes: Vec<_> = (0..NODES).map(|_| open()).collect();
        let first = nodes[0].time().await.expect("the time is told") - Duration::from_secs(24 * 3600);
        let permits = NonZeroU32::new(if random.one_in(3) { 2 } else { 1 }).expect("not none");
        let pace = [4, 10, 40][random.below(3)];
        Self {
            play,
            random,
            nodes,
            name: LockName::new(&format!("play {}", play.seed)).expect("a name"),
            permits,
            first,
            pace,
            acquisitions: Vec::new(),
            requests: Vec::new(),
            answers: Vec::new(),
            judge: Judge { seed: play.seed, permits: permits.get(), ..Judge::default() },
        }
    }

    /// One thing happens.
    async fn goes_on(&mut self, open: impl Fn() -> Arc<dyn Store>) -> Result<(), Violation> {
        match self.random.below(100) {
            0..20 => self.asks(),
            20..26 => self.asks_again(),
            26..56 => self.delivers().await?,
            56..76 => self.is_answered()?,
            76..86 => self.finishes(),
            86..89 => self.gives_up(),
            89..96 => self.lapses().await,
            96..98 => self.dies(open),
            _ if self.play.time_passes => sleep(TTL / 3).await,
            _ => {}
        }
        Ok(())
    }

    /// Somebody wants one of the newest ticks.
    fn asks(&mut self) {
        let number = self.judge.step / self.pace + self.random.below(3);
        let at = self.first + Duration::from_secs(60) * number as u32;
        let tick = Tick::from_unix_millis(at.as_millis() as i64).expect("a tick");
        let due = Due { tick, retry_failed: self.random.one_in(2), keep: KEEP };
        let node = self.random.below(NODES);
        let label = format!("node {node}").into();
        let claim = Claim::new(self.name.clone(), HolderId::fresh(), label, TTL);
        let claim = Claim { permits: self.permits, due: Some(due), ..claim };
        self.requests.push((self.acquisitions.len(), Request::Claim));
        self.acquisitions.push(Acquisition { node, claim, due, state: State::Asking, began: false });
    }

    /// Somebody sends its claim again.
    fn asks_again(&mut self) {
        if let Some(who) = self.one_that_is(State::Asking) {
            self.requests.push((who, Request::Claim));
        }
    }

    /// A request comes to the store, or is lost; and it may come once more later.
    async fn delivers(&mut self) -> Result<(), Violation> {
        if self.requests.is_empty() {
            return Ok(());
        }
        let index = self.random.below(self.requests.len());
        let (who, request) = self.requests[index];
        if !self.random.one_in(8) {
            self.requests.swap_remove(index);
        }
        if self.random.one_in(10) {
            return Ok(());
        }
        self.arrives(who, request).await
    }

    async fn arrives(&mut self, who: usize, request: Request) -> Result<(), Violation> {
        let Acquisition { node, claim, due, .. } = &self.acquisitions[who];
        let (store, lease) = (&self.nodes[*node], LeaseKey { name: claim.name.clone(), holder: claim.holder });
        match request {
            Request::Claim => {
                let alive = alive(&**store, &claim.name).await;
                let answer = store.try_acquire(claim).await.expect("a claim is answered");
                self.judge.answered(who, claim.holder, *due, &answer, &alive)?;
                if !self.random.one_in(5) {
                    self.answers.push((who, answer));
                }
            }
            Request::Say(verdict) => {
                let how = Ended { verdict: Some(verdict), ..Ended::default() };
                let _ = store.release(&lease, how).await.expect("a release is answered");
                self.judge.heard(who, *due, verdict);
            }
            Request::Leave => {
                store.leave(&lease).await.expect("leaving is answered");
                self.judge.heard(who, *due, Verdict::NotStarted);
            }
        }
        Ok(())
    }

    /// An answer comes back, however late.
    fn is_answered(&mut self) -> Result<(), Violation> {
        if self.answers.is_empty() {
            return Ok(());
        }
        let (who, answer) = self.answers.swap_remove(self.random.below(self.answers.len()));
        let is_granted = matches!(answer, Attempt::Granted(_));
        let asked = &mut self.acquisitions[who];
        match asked.state {
            State::Asking if is_granted && !self.random.one_in(4) => {
                (asked.state, asked.began) = (State::Working, true);
                self.judge.begins(who, asked.due)?;
            }
            State::Asking => {
                asked.state = State::Over;
                if is_granted || self.random.one_in(2) {
                    self.requests.push((who, Request::Say(Verdict::NotStarted)));
                }
            }
            State::Over if is_granted && (!asked.began || self.play.lies) => {
                self.requests.push((who, Request::Say(Verdict::NotStarted)));
            }
            State::Working | State::Over => {}
        }
        Ok(())
    }

    /// Somebody's work ends.
    fn finishes(&mut self) {
        if let Some(who) = self.one_that_is(State::Working) {
            let asked = &mut self.acquisitions[who];
            asked.state = State::Over;
            let verdict = if self.random.one_in(2) { Verdict::Done(asked.due.tick) } else { Verdict::Failed };
            self.requests.push((who, Request::Say(verdict)));
        }
    }

    /// Somebody waits no longer for an answer.
    fn gives_up(&mut self) {
        if let Some(who) = self.one_that_is(State::Asking) {
            self.acquisitions[who].state = State::Over;
            self.requests.push((who, Request::Leave));
        }
    }

    /// A lease ends under its holder.
    async fn lapses(&mut self) {
        let store = &self.nodes[0];
        let alive = alive(&**store, &self.name).await;
        if !alive.is_empty() {
            let holder = alive[self.random.below(alive.len())];
            store.revoke(&self.name, Some(holder), Revoke::Now).await.expect("a revocation is answered");
        }
    }

    /// A node dies without a word, or all do, and starts again. What it had sent may still arrive.
    fn dies(&mut self, open: impl Fn() -> Arc<dyn Store>) {
        let first = self.random.below(NODES);
        let all = self.random.one_in(3);
        let dead = if all { 0..NODES } else { first..first + 1 };
        for asked in self.acquisitions.iter_mut().filter(|asked| dead.contains(&asked.node)) {
            asked.state = State::Over;
        }
        let acquisitions = &self.acquisitions;
        self.answers.retain(|(who, _)| !dead.contains(&acquisitions[*who].node));
        if all {
            self.nodes.clear();
            self.nodes.extend((0..NODES).map(|_| open()));
        } else {
            self.nodes[first] = open();
        }
    }

    /// Everything arrives; all that never began say so; all leases end. Then somebody wants each tick again.
    async fn comes_to_its_end(&mut self) -> Result<(), Violation> {
        self.judge.step = self.play.steps;
        while !self.requests.is_empty() {
            let (who, request) = self.requests.swap_remove(self.random.below(self.requests.len()));
            self.arrives(who, request).await?;
        }
        let mut silent: Vec<_> = (0..self.acquisitions.len()).filter(|who| !self.acquisitions[*who].began).collect();
        while !silent.is_empty() {
            let who = silent.swap_remove(self.random.below(silent.len()));
            self.acquisitions[who].state = State::Over;
            self.arrives(who, Request::Say(Verdict::NotStarted)).await?;
        }
        let store = self.nodes[0].clone();
        store.revoke(&self.name, None, Revoke::Now).await.expect("a revocation is answered");
        for tick in self.judge.ticks.keys().copied().collect::<Vec<_>>() {
            // One that was claimed to be retried may be left so that only another such claim gets it.
            let due = Due { tick, retry_failed: true, keep: KEEP };
            let label = "the last".into();
            let claim = Claim::new(self.name.clone(), HolderId::fresh(), label, TTL);
            let claim = Claim { permits: self.permits, due: Some(due), ..claim };
            let answer = store.try_acquire(&claim).await.expect("a claim is answered");
            self.judge.answered(self.acquisitions.len(), claim.holder, due, &answer, &[])?;
            self.judge.ends(tick, &answer)?;
            let lease = LeaseKey { name: claim.name, holder: claim.holder };
            store.leave(&lease).await.expect("leaving is answered");
        }
        Ok(())
    }

    fn one_that_is(&mut self, state: State) -> Option<usize> {
        let all: Vec<_> = (0..self.acquisitions.len()).filter(|who| self.acquisitions[*who].state == state).collect();
        (!all.is_empty()).then(|| all[self.random.below(all.len())])
    }
}

/// Who has a lease.
async fn alive(store: &dyn Store, name: &LockName) -> Vec<HolderId> {
    let Some(told) = store.inspect(name).await.expect("a look is answered") else { return Vec::new() };
    told.holder.into_iter().chain(told.others.iter().filter_map(|other| other.holder)).collect()
}

/// Remembers what the store has said and what the nodes have done, and compares.
#[derive(Default)]
struct Judge {
    seed: u64,
    step: usize,
    permits: u32,
    token: FencingToken,
    grants: BTreeMap<HolderId, Grant>,
    ticks: BTreeMap<Tick, Told>,
}

/// What became of one tick.
#[derive(Debug, Default)]
struct Told {
    granted: u32,
    begun: u32,
    /// Begun by somebody who wanted it once at most.
    begun_once: bool,
    /// Who was granted it last.
    holder: Option<HolderId>,
    done: bool,
    given_up: bool,
    log: Vec<String>,
}

impl Judge {
    /// A claim was answered, while these had leases.
    fn answered(
        &mut self,
        who: usize,
        holder: HolderId,
        due: Due,
        answer: &Attempt,
        alive: &[HolderId],
    ) -> Result<(), Violation> {
        let mode = if due.retry_failed { "until it is done" } else { "once" };
        match answer {
            Attempt::Granted(grant) => {
                self.note(due.tick, &format!("{who} is granted it {mode}: {grant:?}"));
                if self.grants.get(&holder).is_some_and(|known| known.token == grant.token) {
                    return self.granted_the_same(holder, due, grant);
                }
                self.granted(holder, due, grant, alive)
            }
            Attempt::NotDue(why) => {
                self.note(due.tick, &format!("{who} is refused it {mode}: {why:?}"));
                let is_newest = self.ticks.iter().all(|(tick, told)| told.granted == 0 || *tick < due.tick);
                let is_timely = matches!(why, NotDue::Claimed { .. });
                self.holds(due.tick, !is_newest, "it is newer than all that were granted, and not due")?;
                self.holds(due.tick, is_timely, "it is neither early nor old")
            }
            Attempt::Held(_) => Ok(()),
        }
    }

    fn granted_the_same(&mut self, holder: HolderId, due: Due, grant: &Grant) -> Result<(), Violation> {
        let told = &self.ticks[&due.tick];
        let is_forgotten = told.done || told.given_up;
        let same = self.grants[&holder].attempt == grant.attempt;
        self.holds(due.tick, same || is_forgotten, "the same claim counts another attempt")
    }

    fn granted(&mut self, holder: HolderId, due: Due, grant: &Grant, alive: &[HolderId]) -> Result<(), Violation> {
        let told = self.ticks.entry(due.tick).or_default();
        let (done, given_up, begun_once) = (told.done, told.given_up, told.begun_once);
        let runs = told.holder.is_some_and(|last| last != holder && alive.contains(&last));
        let counts = told.begun < grant.attempt && grant.attempt <= told.granted + 1;
        (told.granted, told.holder) = (told.granted + 1, Some(holder));
        let last = std::mem::replace(&mut self.token, grant.token);
        self.grants.insert(holder, grant.clone());
        if let Some(oldest) = grant.gave_up {
            self.note(oldest, "it is given up");
            self.ticks.entry(oldest).or_default().given_up = true;
        }
        self.holds(due.tick, !done, "it is granted although it is done")?;
        self.holds(due.tick, !given_up, "it is granted although it was given up")?;
        self.holds(due.tick, !begun_once, "it is granted although it was begun and was to be once")?;
        self.holds(due.tick, !runs, "it is granted while it runs elsewhere")?;
        self.holds(due.tick, counts, "its attempts are counted wrong")?;
        self.holds(due.tick, (alive.len() as u32) < self.permits, "there was no free permit")?;
        self.holds(due.tick, last < grant.token, "tokens don't grow")
    }

    /// The store has answered a verdict.
    fn heard(&mut self, who: usize, due: Due, verdict: Verdict) {
        self.note(due.tick, &format!("{who} has said {verdict:?}"));
        if let Verdict::Done(tick) = verdict {
            self.ticks.entry(tick).or_default().done = true;
        }
    }

    fn begins(&mut self, who: usize, due: Due) -> Result<(), Violation> {
        self.note(due.tick, &format!("{who} begins"));
        let told = self.ticks.entry(due.tick).or_default();
        told.begun += 1;
        told.begun_once |= !due.retry_failed;
        let fine = told.begun == 1 || !told.begun_once;
        self.holds(due.tick, fine, "it is begun again and was to be once")
    }

    /// When all is said, somebody has asked for it once more.
    fn ends(&mut self, tick: Tick, answer: &Attempt) -> Result<(), Violation> {
        let told = &self.ticks[&tick];
        // The last claim was counted, too.
        let was_granted = told.granted > u32::from(matches!(answer, Attempt::Granted(_)));
        let is_over = told.done || told.given_up || told.begun_once;
        let lost = was_granted && !is_over && !matches!(answer, Attempt::Granted(_));
        self.holds(tick, !lost, "it is lost: not done, and not due either")
    }

    fn note(&mut self, tick: Tick, what: &str) {
        let step = self.step;
        self.ticks.entry(tick).or_default().log.push(format!("{step}: {what}"));
    }

    fn holds(&self, tick: Tick, holds: bool, what: &str) -> Result<(), Violation> {
        if holds {
            return Ok(());
        }
        let before = self.ticks.get(&tick).map(|told| told.log.clone()).unwrap_or_default();
        Err(Violation { seed: self.seed, step: self.step, what: format!("tick {tick}: {what}"), before })
    }

    fn played(&self) -> Played {
        let ticks = self.ticks.values();
        Played {
            granted: ticks.clone().map(|told| told.granted as usize).sum(),
            begun: ticks.clone().map(|told| told.begun as usize).sum(),
            done: ticks.clone().filter(|told| told.done).count(),
            again: ticks.clone().filter(|told| told.granted > 1).count(),
            given_up: ticks.filter(|told| told.given_up).count(),
        }
    }
}
