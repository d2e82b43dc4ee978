//! The real fallback in a simulated world: clients whose clocks drift and that stop, a network that loses, delays and
//! reorders, a primary that restarts empty or from an old copy, an arbiter that is restored from a backup, and switches
//! at any time. `scripts/simulate-fallback SEEDS` plays more of it than the test does.
//!
//! That it would find a fault is shown by breaking each rule of the protocol in turn.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::simulation::{Rule, break_rule};
use leasehold::store::{Arbiter, Epoch, Primary, Route, RouteTerms, Switch, Target};
use leasehold::stores::fallback::{Fallback, Settings};
use leasehold::stores::{Memory, Saved};
use leasehold::validity::{self, Clock};
use leasehold::{
    Claim, Ended, Event, Guard, HolderId, LeaseKey, Lock, LockName, Locks, Outcome, Revoke, Store, Tick, Wait,
};
use leasehold_testkit::Random;
use leasehold_testkit::simulation::{self, Judge, Link, Machine, Network, Tally, Violation, Weather, Wire, World};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// What has happened in all worlds of a test, for it to be no empty one.
static SWITCHES: AtomicU64 = AtomicU64::new(0);
static SEEN_CARRIED: AtomicU64 = AtomicU64::new(0);

/// How a world is.
#[derive(Debug, Clone)]
struct Play {
    route_lease: Duration,
    /// One of these, for all locks of a run.
    ttls: Vec<f64>,
    /// The most; two at the least.
    clients: usize,
    names: usize,
    weather: Weather,
    span: Duration,
    /// How often something happens, at the least.
    chaos: Duration,
    /// How often, of so many, each of the things happens that may.
    happens: Vec<(u32, Happens)>,
    /// Of so many acquisitions, one is for a tick.
    ticks: usize,
    /// For how long a lock is held, as a multiple of its TTL.
    held_for: f64,
    /// The longest minimum hold, as a multiple of the TTL.
    at_least_for: f64,
    /// Of so many releases, one finds one of the two stores away.
    cut_at_the_end: Option<usize>,
    /// Of so many releases, one is the last thing that its process does.
    dies_at_the_end: Option<usize>,
    /// Of so many acquisitions, one is dropped half-way.
    dropped: Option<usize>,
    /// Nothing happens but what costs no hold: none is lost, but by its revocation.
    none_is_lost: bool,
    /// No tick is lost: what has failed and is to be tried again, and what was given back unbegun, can be had in the end.
    no_tick_is_lost: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happens {
    /// A client's process stands still.
    Stop,
    /// A client can't reach one of the two.
    Cut,
    /// Nobody can reach one of the two.
    Outage,
    /// An operator goes to the other store, or to what the primary is now.
    Switch,
    /// The primary loses everything.
    RestartEmpty,
    /// A copy of the primary that lags is promoted.
    Promotion,
    /// The arbiter is restored from a backup.
    Restore,
    /// A client's process dies, and another takes its place.
    Death,
    /// An operator revokes a lock.
    Revocation,
}

impl Default for Play {
    fn default() -> Self {
        Self {
            route_lease: 3 * SECOND,
            ttls: vec![4.5, 6.0, 12.0],
            clients: 3,
            names: 2,
            weather: Weather { silence: 3 * SECOND, ..Weather::FOUL },
            span: 20 * SECOND,
            chaos: 3 * SECOND,
            happens: vec![
                (4, Happens::Stop),
                (6, Happens::Cut),
                (2, Happens::Outage),
                (6, Happens::Switch),
                (1, Happens::RestartEmpty),
                (1, Happens::Promotion),
                (1, Happens::Restore),
            ],
            ticks: 4,
            held_for: 2.0,
            at_least_for: 0.0,
            cut_at_the_end: None,
            dies_at_the_end: None,
            dropped: None,
            none_is_lost: false,
            no_tick_is_lost: false,
        }
    }
}

/// The two stores, and who can reach them.
struct Stage {
    primary: Arc<Memory>,
    arbiter: Arc<Memory>,
    nodes: [Machine; 2],
    clients: RefCell<Vec<Machine>>,
    /// Of each client: to the primary and to the arbiter.
    links: RefCell<Vec<[Link; 2]>>,
    network: Network,
    judge: Judge,
    route_lease: Duration,
    /// Of each client: its process dies.
    deaths: Vec<Notify>,
    holds: RefCell<BTreeMap<HolderId, Holds>>,
    /// A lock that is being revoked at once.
    outlawed: RefCell<Option<LockName>>,
    /// Locks of which it isn't known what became of their revocation.
    unsure: RefCell<BTreeSet<LockName>>,
}

/// A guard, and what an operator has done to it.
struct Holds {
    guard: Judged,
    /// It was revoked, and must be over then.
    over_at: Option<Instant>,
}

enum Judged {
    AsOneOfMany(simulation::Held),
    /// Beside it another may be valid: it was taken from its holder before that could know.
    Outlawed(Guard),
}

impl Judged {
    fn look<T>(&self, at: impl FnOnce(&Guard) -> T) -> T {
        match self {
            Self::AsOneOfMany(held) => held.look(at),
            Self::Outlawed(guard) => at(guard),
        }
    }

    fn given_back(self) -> Guard {
        match self {
            Self::AsOneOfMany(held) => held.given_back(),
            Self::Outlawed(guard) => guard,
        }
    }
}

impl Play {
    fn run(&self, seed: u64) -> Result<Tally, Violation> {
        simulation::run(seed, self.span + 600 * SECOND, async |world| self.play(world).await)
    }

    async fn play(&self, world: &mut World) {
        let mut random = world.random();
        let ttl = Duration::from_secs_f64(self.ttls[random.below(self.ttls.len())]);
        let clients = 2 + random.below(self.clients - 1);
        let stage = Stage::new(self, clients, world);
        let fallbacks: Vec<_> = (0..clients).map(|number| stage.client(number)).collect();
        let works = fallbacks.into_iter().enumerate().map(|(number, locks)| {
            let machine = stage.clients.borrow()[number].clone();
            let worker =
                Worker { stage: &stage, number, locks, machine, judge: world.judge(), random: world.random(), ttl };
            worker.works(self)
        });
        let works = futures_util::future::join_all(works);
        let chaos = stage.chaos(self, ttl, world.random());
        let (fallbacks, ()) = tokio::join!(works, chaos);
        stage.is_quiet(self, ttl, fallbacks).await;
    }
}

impl Stage {
    fn new(play: &Play, clients: usize, world: &mut World) -> Self {
        let nodes = [Machine::new(), Machine::new()];
        let clients: Vec<_> = (0..clients).map(|_| Machine::new()).collect();
        let network = Network::new(world.random(), play.weather);
        let links = clients.iter().map(|client| [0, 1].map(|node| network.link(client, &nodes[node]))).collect();
        let memory = |node: usize| Arc::new(Memory::new(Arc::new(nodes[node].clone())));
        Self {
            primary: memory(0),
            arbiter: memory(1),
            nodes: nodes.clone(),
            deaths: clients.iter().map(|_| Notify::new()).collect(),
            clients: RefCell::new(clients),
            links: RefCell::new(links),
            network,
            judge: world.judge(),
            route_lease: play.route_lease,
            holds: RefCell::default(),
            outlawed: RefCell::default(),
            unsure: RefCell::default(),
        }
    }

    /// Each way has a weather of its own.
    fn with_weathers(self, world: &mut World, weathers: [[Weather; 2]; 2]) -> Self {
        let link = |client: usize, node: usize, random: Random| {
            Network::new(random, weathers[client][node]).link(&self.clients.borrow()[client], &self.nodes[node])
        };
        let links = (0..2).map(|client| [0, 1].map(|node| link(client, node, world.random()))).collect();
        Self { links: RefCell::new(links), ..self }
    }

    fn client(&self, number: usize) -> Locks {
        let machine: Arc<dyn Clock> = Arc::new(self.clients.borrow()[number].clone());
        let wire = |store: &Arc<Memory>, node: usize| {
            Arc::new(Wire::new(store.clone() as Arc<dyn Store>, self.links.borrow()[number][node].clone()))
        };
        let judge = self.judge.clone();
        let observer = move |event: &Event<'_>| {
            if let Event::Switched { .. } = event {
                judge.note(format!("client {number} hears of {event:?}"));
            }
        };
        let settings = Settings::default()
            .route_lease(self.route_lease)
            .down_after(4 * SECOND)
            .up_after(6 * SECOND)
            .simulated(machine.clone());
        let fallback = Fallback::over(wire(&self.primary, 0), wire(&self.arbiter, 1), settings);
        Locks::builder().observer(observer).simulated(machine).over(Arc::new(fallback.expect("they go together")))
    }

    /// The process stands still for ever, and another takes its place.
    fn dies(&self, number: usize) {
        self.clients.borrow()[number].stop_for(3600 * SECOND);
        let machine = Machine::new();
        self.links.borrow_mut()[number] = [0, 1].map(|node| self.network.link(&machine, &self.nodes[node]));
        self.clients.borrow_mut()[number] = machine;
    }

    /// Things happen until the span is over; then they are made good.
    async fn chaos(&self, play: &Play, ttl: Duration, mut random: Random) {
        let revokes = play.happens.iter().any(|(_, what)| *what == Happens::Revocation);
        let operator = revokes.then(|| self.operator());
        let end = Instant::now() + play.span;
        let mut copies = [Saved::default(), Saved::default()];
        let weights: u32 = play.happens.iter().map(|(weight, _)| weight).sum();
        while Instant::now() < end {
            sleep(play.chaos.mul_f64(random.share())).await;
            for machine in self.clients.borrow().iter().chain(&self.nodes) {
                machine.drift(0.0098 * (random.share() * 2.0 - 1.0));
            }
            if random.one_in(3) {
                copies = [self.primary.save(), self.arbiter.save()];
            }
            let mut drawn = random.below(weights as usize) as u32;
            let what = play.happens.iter().find(|(weight, _)| {
                let is_it = drawn < *weight;
                drawn = drawn.saturating_sub(*weight);
                is_it
            });
            if let Some((_, what)) = what {
                match (what, &operator) {
                    (Happens::Revocation, Some(operator)) => self.revoke(operator, play, ttl, &mut random).await,
                    _ => self.happens(*what, &copies, &mut random).await,
                }
            }
            self.count_the_carried().await;
        }
        let route = self.arbiter.route().await.unwrap();
        SWITCHES.fetch_add(route.map_or(0, |reading| reading.route.epoch.number()), Ordering::Relaxed);
        self.network.set_weather(Weather::FAIR);
        self.links.borrow().iter().flatten().for_each(Link::mend);
    }

    async fn happens(&self, what: Happens, copies: &[Saved; 2], random: &mut Random) {
        let (client, node) = (random.below(self.deaths.len()), random.below(2));
        let span = SECOND.mul_f64(0.2 + 8.0 * random.share());
        self.judge.note(format!("{what:?} of client {client}, node {node} for {span:?}"));
        match what {
            Happens::Stop => self.clients.borrow()[client].stop_for(span),
            Happens::Cut => self.cut(client, node, span),
            Happens::Outage => {
                cut_for(self.links.borrow().iter().map(|links| links[node].clone()).collect(), span);
            }
            Happens::Switch => self.switch().await,
            Happens::RestartEmpty => self.primary.start_from(&Saved::default()),
            Happens::Promotion => self.primary.start_from(&copies[0]),
            Happens::Restore => self.restore(&copies[1]).await,
            Happens::Death => self.deaths[client].notify_one(),
            Happens::Revocation => unreachable!("an operator does it"),
        }
    }

    fn cut(&self, client: usize, node: usize, span: Duration) {
        cut_for(vec![self.links.borrow()[client][node].clone()], span);
    }

    /// Another client, whom nothing befalls.
    fn operator(&self) -> Locks {
        let number = self.clients.borrow().len();
        let machine = Machine::new();
        self.links.borrow_mut().push([0, 1].map(|node| self.network.link(&machine, &self.nodes[node])));
        self.clients.borrow_mut().push(machine);
        self.client(number)
    }

    async fn revoke(&self, operator: &Locks, play: &Play, ttl: Duration, random: &mut Random) {
        let name = LockName::new(&format!("job {}", random.below(play.names))).unwrap();
        let how = if random.one_in(2) { Revoke::Now } else { Revoke::Gently };
        if how == Revoke::Now {
            self.outlaw(&name);
        }
        let answer = operator.revoke(name.as_str(), how).await;
        self.outlawed.replace(None);
        self.judge.note(format!("{how:?} {name} is revoked: {answer:?}"));
        match answer {
            // Whoever renews is told; whoever doesn't ends with what the store has left for it.
            Ok(Some(revoked)) => {
                let at_most = if how == Revoke::Now { ttl / 2 } else { revoked.remaining.mul_f64(1.03) };
                let over_at = Instant::now() + at_most + SECOND / 2;
                let mut holds = self.holds.borrow_mut();
                if let Some(holds) = revoked.holder.and_then(|holder| holds.get_mut(&holder)) {
                    holds.over_at = Some(over_at);
                }
            }
            Ok(None) => {}
            Err(_) => drop(self.unsure.borrow_mut().insert(name)),
        }
    }

    /// Until they hear of it those who hold this lock hold it beside others, and that is no fault.
    fn outlaw(&self, name: &LockName) {
        self.outlawed.replace(Some(name.clone()));
        let all = std::mem::take(&mut *self.holds.borrow_mut());
        let outlawed = all.into_iter().map(|(holder, Holds { guard, over_at })| {
            let is_meant = guard.look(|guard| guard.name() == name);
            let guard = if is_meant { Judged::Outlawed(guard.given_back()) } else { guard };
            (holder, Holds { guard, over_at })
        });
        *self.holds.borrow_mut() = outlawed.collect();
    }

    /// Whether what is left of a hold is as it should be.
    fn is_as_it_should_be(&self, holder: HolderId) {
        let holds = self.holds.borrow();
        let Holds { guard, over_at } = &holds[&holder];
        let (name, is_valid) = guard.look(|guard| (guard.name().clone(), guard.is_valid()));
        if self.unsure.borrow().contains(&name) {
            return;
        }
        match over_at {
            Some(over_at) if is_valid && Instant::now() > *over_at => {
                self.judge.finds(&format!("the revocation of {name} was undone: {holder}"));
            }
            None if !is_valid && matches!(guard, Judged::AsOneOfMany(_)) => {
                let why = guard.look(Guard::loss);
                self.judge.finds(&format!("{name} was lost for nothing: {holder}, {why:?}"));
            }
            _ => {}
        }
    }

    /// Its process has ended: what is not under way by now never will be.
    async fn is_left_nowhere(&self, holder: HolderId) {
        sleep(SECOND / 4).await;
        for store in [&self.primary, &self.arbiter] {
            let left = store.list().await.unwrap();
            if let Some(held) = left.iter().find(|held| held.holder == Some(holder)) {
                self.judge.finds(&format!("it was released, and is held: {held:?}"));
            }
        }
    }

    /// A lease whose token is of an earlier epoch than its store came into use in.
    async fn count_the_carried(&self) {
        let Some(reading) = self.arbiter.route().await.unwrap() else { return };
        let used = if reading.route.target == Target::Arbiter { &self.arbiter } else { &self.primary };
        let oldest = reading.route.epoch.token(0).expect("there are few epochs");
        let held = used.list().await.unwrap();
        let carried = held.iter().filter(|holding| holding.holder.is_some() && holding.token < oldest);
        SEEN_CARRIED.fetch_add(carried.count() as u64, Ordering::Relaxed);
    }

    /// As a client does, at any time; whoever reads it next gives it its time.
    async fn switch(&self) {
        let Some(reading) = self.arbiter.route().await.unwrap() else { return };
        let serving = self.primary.serves().await.unwrap().incarnation;
        let to = match reading.route.target {
            Target::Primary(known) if known == serving => Target::Arbiter,
            _ => Target::Primary(serving),
        };
        let from = reading.route.epoch;
        let switch = Switch { from, to, dwell: Duration::ZERO, patience: Duration::ZERO };
        let _ = self.arbiter.switch(&switch).await.unwrap();
    }

    async fn restore(&self, backup: &Saved) {
        let Some(reading) = self.arbiter.route().await.unwrap() else { return };
        self.arbiter.start_from(backup);
        if Rule::ARestoredArbiterSkipsAnEpoch.holds() {
            let seen = self.primary.serves().await.unwrap().watermark.max(reading.route.epoch);
            let _: Epoch = self.arbiter.repair(seen, &reading.terms).await.unwrap();
        }
    }

    async fn have_their_run(&self, ttl: Duration, locks: &Locks) {
        for (name, tick) in self.judge.to_be_granted_again() {
            let is_once = is_once(&name);
            let lock = locks.lock(name.as_str()).ttl(ttl).tick(tick).retry_failed(!is_once);
            match lock.wait(Wait::For(60 * SECOND)).acquire().await {
                Ok(Outcome::Acquired(guard)) => drop(self.judge.holds(guard).given_back().complete().await),
                other => self.judge.finds(&format!("{name}: {tick} is lost: {other:?}")),
            }
        }
    }

    /// When all is well again locks can be had, and in the end nothing is left of them.
    async fn is_quiet(&self, play: &Play, ttl: Duration, clients: Vec<Locks>) {
        sleep(12 * SECOND).await;
        if play.no_tick_is_lost {
            sleep(ttl).await;
            self.have_their_run(ttl, &clients[0]).await;
        }
        for (number, locks) in clients.into_iter().enumerate() {
            match locks.lock("in the end").ttl(ttl).wait(Wait::For(60 * SECOND)).acquire().await {
                Ok(Outcome::Acquired(guard)) => drop(self.judge.holds(guard).given_back().release().await),
                other => self.judge.finds(&format!("client {number} can't go on: {other:?}")),
            }
            locks.shutdown().await;
        }
        sleep(2 * ttl + 10 * SECOND).await;
        for store in [&self.primary, &self.arbiter] {
            self.judge.finds_nothing_in(&**store).await;
        }
    }
}

/// A process as one that has ended does nothing any more.
enum Life {
    Goes,
    IsOver,
}

fn cut_for(links: Vec<Link>, span: Duration) {
    links.iter().for_each(Link::cut);
    tokio::spawn(async move {
        sleep(span).await;
        links.iter().for_each(Link::mend);
    });
}

/// A name has one mode: that its runs are to be retried, or not.
fn is_once(name: &LockName) -> bool {
    !name.as_str().ends_with(['1', '3', '5', '7', '9'])
}

/// Somebody who wants locks.
struct Worker<'a> {
    stage: &'a Stage,
    number: usize,
    locks: Locks,
    machine: Machine,
    judge: Judge,
    random: Random,
    ttl: Duration,
}

impl Worker<'_> {
    /// Until the span is over, in as many processes as it takes; the client that is left.
    async fn works(mut self, play: &Play) -> Locks {
        let end = Instant::now() + play.span;
        loop {
            tokio::select! {
                biased;
                () = self.stage.deaths[self.number].notified() => {}
                life = self.work(play, end) => if matches!(life, Life::Goes) { return self.locks },
            }
            self.stage.dies(self.number);
            sleep(2 * SECOND.mul_f64(self.random.share())).await;
            self.locks = self.stage.client(self.number);
            self.machine = self.stage.clients.borrow()[self.number].clone();
        }
    }

    async fn work(&mut self, play: &Play, end: Instant) -> Life {
        while Instant::now() < end {
            let number = self.random.below(play.names);
            let lock = self.locks.lock(&format!("job {number}")).ttl(self.ttl).wait(Wait::For(self.ttl));
            let is_once = number.is_multiple_of(2);
            let tick = if self.random.one_in(play.ticks) { self.tick().await } else { None };
            let lock = tick.into_iter().fold(lock, |lock, tick| lock.tick(tick).retry_failed(!is_once));
            let lock = if play.at_least_for > 0.0 {
                lock.at_least_for(self.ttl.mul_f64(play.at_least_for * self.random.share()))
            } else {
                lock
            };
            if let Life::IsOver = self.run(&lock, tick, is_once, play).await {
                return Life::IsOver;
            }
            self.machine.idles(SECOND.mul_f64(self.random.share())).await;
        }
        Life::Goes
    }

    fn one_in(&mut self, so_many: Option<usize>) -> bool {
        so_many.is_some_and(|so_many| self.random.one_in(so_many))
    }

    /// The latest of those that are due every four seconds.
    async fn tick(&self) -> Option<Tick> {
        let now = self.locks.time().await.ok()?.as_millis() as i64;
        Tick::from_unix_millis(now - now % 4000)
    }

    async fn run(&mut self, lock: &Lock, tick: Option<Tick>, is_once: bool, play: &Play) -> Life {
        let patience = if self.one_in(play.dropped) { SECOND.mul_f64(self.random.share()) } else { 3600 * SECOND };
        let Ok(Ok(Outcome::Acquired(guard))) = timeout(patience, lock.acquire()).await else { return Life::Goes };
        let (name, holder) = (guard.name().clone(), guard.holder());
        let guard = Judged::AsOneOfMany(self.judge.holds(guard));
        if guard.look(|guard| !guard.is_valid()) {
            match (guard.given_back().not_started().await, tick) {
                (Ok(_), Some(tick)) => self.judge.is_unbegun(&name, tick),
                (Err(_), Some(tick)) => self.judge.is_uncertain(&name, tick),
                (_, None) => {}
            }
            return Life::Goes;
        }
        if let Some(tick) = tick {
            // How long ago it was asked for can't be told from a guard whose time the route cuts short.
            self.judge.begins(&name, tick, is_once, Instant::now());
        }
        let span = self.ttl.mul_f64(play.held_for * self.random.share());
        let hold = Hold::of(self.stage, holder, guard);
        self.keeps(holder, span, play.none_is_lost).await;
        let guard = hold.given_back();
        if self.one_in(play.cut_at_the_end) {
            let span = SECOND.mul_f64(8.0 * self.random.share());
            self.stage.cut(self.number, self.random.below(2), span);
        }
        if self.random.one_in(4) {
            return Life::Goes; // Dropped: it has failed.
        }
        match (guard.complete().await.is_ok(), tick) {
            (true, Some(tick)) => self.judge.is_done(&name, tick),
            (false, Some(tick)) => self.judge.is_uncertain(&name, tick),
            (is_certain, None) => {
                if is_certain && self.one_in(play.dies_at_the_end) {
                    self.machine.stop_for(3600 * SECOND);
                    self.stage.is_left_nowhere(holder).await;
                    return Life::IsOver;
                }
            }
        }
        Life::Goes
    }

    async fn keeps(&self, holder: HolderId, span: Duration, is_looked_at: bool) {
        if !is_looked_at {
            return self.machine.idles(span).await;
        }
        let end = Instant::now() + span;
        while Instant::now() < end {
            self.machine.idles(SECOND / 2).await;
            self.stage.is_as_it_should_be(holder);
        }
    }
}

/// A hold where an operator can be seen to take it; it ends with its process.
struct Hold<'a> {
    stage: &'a Stage,
    holder: HolderId,
}

impl<'a> Hold<'a> {
    fn of(stage: &'a Stage, holder: HolderId, guard: Judged) -> Self {
        let name = guard.look(|guard| guard.name().clone());
        let is_outlawed = stage.outlawed.borrow().as_ref() == Some(&name);
        let guard = if is_outlawed { Judged::Outlawed(guard.given_back()) } else { guard };
        stage.holds.borrow_mut().insert(holder, Holds { guard, over_at: None });
        Self { stage, holder }
    }

    fn given_back(self) -> Guard {
        let holds = self.stage.holds.borrow_mut().remove(&self.holder);
        holds.expect("it is held until it is given back").guard.given_back()
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let holds = self.stage.holds.borrow_mut().remove(&self.holder);
        drop(holds);
    }
}

/// Plays these seeds on all processors.
fn play(play: &Play, seeds: std::ops::Range<u64>) -> Result<Tally, Violation> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let results = std::thread::scope(|scope| {
        let started: Vec<_> = (0..workers)
            .map(|worker| {
                let seeds = seeds.clone().skip(worker as usize).step_by(workers as usize);
                scope.spawn(move || seeds.map(|seed| play.run(seed)).collect::<Vec<_>>())
            })
            .collect();
        started.into_iter().flat_map(|worker| worker.join().expect("no world panics")).collect::<Vec<_>>()
    });
    results.into_iter().try_fold(Tally::default(), |mut all, one| {
        all += one?;
        Ok(all)
    })
}

fn seeds() -> u64 {
    std::env::var("LEASEHOLD_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(2000)
}

#[test]
fn nobody_holds_what_another_holds_whatever_happens() {
    let began = std::time::Instant::now();
    let tally = play(&Play::default(), 0..seeds()).unwrap_or_else(|violation| panic!("{violation}"));
    let [switches, carried] = [&SWITCHES, &SEEN_CARRIED].map(|count| count.load(Ordering::Relaxed));
    println!("{tally:?}, {switches} switches, {carried} carried in {:?}", began.elapsed());
    assert!(switches > seeds() && carried > seeds() / 20, "{switches} switches, {carried} carried");
    assert!(tally.granted as u64 > seeds() && tally.done > 0, "{tally:?}");
}

/// Plays so many of these for each of the tests below.
fn a_few() -> u64 {
    seeds() * 3 / 20
}

fn goes_well(of: &Play) -> Tally {
    play(of, 0..a_few()).unwrap_or_else(|violation| panic!("{violation}"))
}

/// Whatever happens to whom: that a lock was revoked is not undone by a switch, and who holds it after that keeps it.
#[test]
fn what_is_revoked_stays_so() {
    let happens = vec![(3, Happens::Switch), (3, Happens::Revocation)];
    let tally = goes_well(&Play {
        happens,
        weather: Weather { delay: (Duration::ZERO, SECOND / 20), ..Weather::FAIR },
        ttls: vec![12.0],
        chaos: 2 * SECOND,
        span: 40 * SECOND,
        none_is_lost: true,
        ..Play::default()
    });
    assert!(tally.granted as u64 > a_few(), "{tally:?}");
}

/// A command ends as soon as its lock is released: nothing is left anywhere.
#[test]
fn who_has_released_may_end_at_once() {
    let tally = goes_well(&Play {
        happens: vec![(1, Happens::Switch)],
        weather: Weather { delay: (Duration::ZERO, SECOND / 25), ..Weather::FAIR },
        chaos: 2 * SECOND,
        ticks: usize::MAX,
        held_for: 1.0,
        dies_at_the_end: Some(2),
        ..Play::default()
    });
    assert!(tally.granted as u64 > a_few(), "{tally:?}");
}

/// Processes die for good, acquisitions are dropped, minimum holds run, and at the end of a hold a store is away.
#[test]
fn ends_of_all_kinds_go_well() {
    let mut happens = Play::default().happens;
    happens.push((3, Happens::Death));
    let tally = goes_well(&Play {
        happens,
        at_least_for: 0.5,
        cut_at_the_end: Some(2),
        dies_at_the_end: None,
        dropped: Some(3),
        ..Play::default()
    });
    assert!(tally.granted as u64 > a_few() && tally.done > 0, "{tally:?}");
}

/// Whoever fails or gives back, and whatever is away meanwhile: the next one who asks for the tick is given it.
#[test]
fn no_tick_is_lost() {
    let happens = vec![(3, Happens::Stop), (4, Happens::Cut), (2, Happens::Outage), (6, Happens::Switch)];
    let tally = goes_well(&Play {
        happens,
        ticks: 1,
        held_for: 1.0,
        cut_at_the_end: Some(3),
        dropped: Some(4),
        no_tick_is_lost: true,
        ..Play::default()
    });
    assert!(tally.begun as u64 > a_few() && tally.done > 0, "{tally:?}");
}

/// Within so many seeds, a world without this rule goes wrong in this way.
fn is_found(rule: Rule, fault: &str, world: impl Fn(u64) -> Result<Tally, Violation>, seeds: u64) {
    break_rule(Some(rule));
    let found = (0..seeds).find_map(|seed| {
        let story = world(seed).err()?.to_string();
        story.lines().next().is_some_and(|found| found.contains(fault)).then_some((seed, story))
    });
    break_rule(None);
    let (seed, story) = found.unwrap_or_else(|| panic!("not found in {seeds} seeds"));
    println!("{seed}: {}", story.lines().next().unwrap_or_default());
}

mod a_world_without_it_goes_wrong {
    use super::*;

    /// One lock that everybody wants, and a route that goes to and fro.
    fn one_lock() -> Play {
        Play {
            names: 1,
            ticks: usize::MAX,
            held_for: 3.0,
            happens: vec![(2, Happens::Stop), (2, Happens::Cut), (6, Happens::Switch)],
            ..Play::default()
        }
    }

    /// The same, and much is executed late.
    fn straggling() -> Play {
        let weather = Weather { stragglers: (0.3, 12 * SECOND), doubled: 0.3, ..Play::default().weather };
        Play { weather, ..one_lock() }
    }

    /// The primary's data is lost time and again.
    fn restarting() -> Play {
        Play { happens: vec![(3, Happens::RestartEmpty), (1, Happens::Stop), (1, Happens::Switch)], ..one_lock() }
    }

    /// The arbiter is restored time and again.
    fn restoring() -> Play {
        Play { happens: vec![(3, Happens::Restore), (1, Happens::Cut), (2, Happens::Switch)], ..one_lock() }
    }

    /// Leases are shorter than the drain.
    fn short() -> Play {
        Play {
            ttls: vec![1.2, 2.0],
            chaos: SECOND,
            weather: Weather::FAIR,
            happens: vec![(4, Happens::Cut), (3, Happens::Switch)],
            ..one_lock()
        }
    }

    /// Who holds it goes along many times, and copies of that come late.
    fn to_and_fro() -> Play {
        let weather = Weather { stragglers: (0.1, 12 * SECOND), doubled: 0.6, ..Weather::FAIR };
        Play {
            weather,
            ttls: vec![12.0],
            held_for: 5.0,
            chaos: SECOND / 2,
            span: 60 * SECOND,
            happens: vec![(1, Happens::Switch)],
            ..one_lock()
        }
    }

    /// Some faults need so much to come together that chance alone takes thousands of worlds to find them. These are staged:
    /// two clients, of whom the first holds the lock and the second tries all the time, and one switch. When exactly what
    /// happens is left to chance.
    struct Scene {
        stage: Stage,
        random: Random,
        ttl: Duration,
        first: Locks,
        second: Locks,
    }

    const LONG: Duration = Duration::from_secs(12);

    /// Messages that take up to this long, one way.
    fn slow(millis: u64) -> Weather {
        Weather { delay: (Duration::ZERO, Duration::from_millis(millis)), ..Weather::FAIR }
    }

    impl Scene {
        /// The route leads to the primary, or else to the arbiter; the clients' ways to the two are so.
        async fn new(world: &mut World, to_primary: bool, ttl: Duration, weathers: [[Weather; 2]; 2]) -> Self {
            let stage = Stage::new(&one_lock(), 2, world).with_weathers(world, weathers);
            let terms = RouteTerms {
                lease: stage.route_lease,
                drift: validity::parts_per_million(),
                max_ttl: Duration::from_secs(3600),
                primary: stage.primary.identity(),
            };
            let serving = stage.primary.serves().await.unwrap().incarnation;
            let target = if to_primary { Target::Primary(serving) } else { Target::Arbiter };
            stage.arbiter.found(&Route { epoch: Epoch::FIRST, target }, &terms).await.unwrap();
            stage.arbiter.arm(Epoch::FIRST, Duration::ZERO).await.unwrap();
            let (first, second) = (stage.client(0), stage.client(1));
            Self { random: world.random(), stage, ttl, first, second }
        }

        /// Takes the lock and keeps it to the end of the scene.
        async fn takes(&self, who: &Locks) -> Option<simulation::Held> {
            let taken = who.lock("job 0").ttl(self.ttl).try_acquire().await;
            taken.ok().and_then(Outcome::guard).map(|guard| self.stage.judge.holds(guard))
        }

        async fn passes(&mut self, from: f64, to: f64) {
            sleep(SECOND.mul_f64(from + (to - from) * self.random.share())).await;
        }

        async fn switches(&self) {
            self.stage.switch().await;
            self.stage.arbiter.arm(Epoch::FIRST.later(1), self.stage.route_lease).await.unwrap();
        }

        /// One of the clients can't reach the arbiter any more.
        fn cuts(&self, client: usize) {
            self.stage.links.borrow()[client][1].cut();
        }

        /// The second tries until it has the lock.
        async fn ends(self) {
            let end = Instant::now() + 7 * SECOND;
            while Instant::now() < end {
                if let Some(held) = self.takes(&self.second).await {
                    sleep(end - Instant::now()).await;
                    return drop(held);
                }
                sleep(SECOND / 50).await;
            }
        }
    }

    /// The answer to the first's read is late, and it can't read again.
    async fn a_late_answer(world: &mut World) {
        let mut scene = Scene::new(world, true, LONG, [[Weather::FAIR, slow(250)], [Weather::FAIR; 2]]).await;
        let switch_in = SECOND.mul_f64(0.3 * scene.random.share());
        let (held, ()) = tokio::join!(scene.takes(&scene.first), async {
            sleep(switch_in).await;
            scene.switches().await;
        });
        sleep((SECOND.mul_f64(0.6)).saturating_sub(switch_in)).await;
        scene.cuts(0);
        scene.ends().await;
        drop(held);
    }

    /// The first has just read; the question of the second takes long.
    async fn a_late_question(world: &mut World) {
        let mut scene = Scene::new(world, false, LONG, [[Weather::FAIR; 2], [Weather::FAIR, slow(400)]]).await;
        let held = scene.takes(&scene.first).await;
        scene.passes(0.0, 0.05).await;
        scene.cuts(0);
        scene.switches().await;
        scene.ends().await;
        drop(held);
    }

    /// The lease of the first ends about when the route does; the second goes by the old one until then.
    async fn a_close_end(world: &mut World) {
        let mut scene = Scene::new(world, true, 3 * SECOND, [[Weather::FAIR, slow(450)], [Weather::FAIR; 2]]).await;
        // So that the first reads the route at another time than it renews.
        drop(scene.first.lock("another").try_acquire().await);
        scene.passes(0.4, 0.8).await;
        let held = scene.takes(&scene.first).await;
        scene.passes(0.1, 0.45).await;
        drop(scene.second.lock("another").try_acquire().await);
        scene.cuts(1);
        scene.switches().await;
        scene.ends().await;
        drop(held);
    }

    /// The first goes along, renews on the way, and can't reach the arbiter from then on.
    async fn a_renewal_on_the_way(world: &mut World, primary: Weather) {
        let ttl = SECOND.mul_f64(1.6);
        let mut scene = Scene::new(world, true, ttl, [[primary, slow(250)], [Weather::FAIR; 2]]).await;
        let held = scene.takes(&scene.first).await;
        scene.passes(0.0, 1.0).await;
        scene.switches().await;
        for _ in 0..800 {
            let there = scene.stage.arbiter.inspect(&LockName::new("job 0").unwrap()).await.unwrap();
            if there.is_some() {
                break;
            }
            sleep(SECOND / 200).await;
        }
        scene.passes(0.0, 0.35).await;
        scene.cuts(0);
        scene.ends().await;
        drop(held);
    }

    /// Of two holds of the first only one can go along: somebody is in the way of the other, and goes when it is too late.
    async fn two_holds(world: &mut World) {
        let mut scene = Scene::new(world, true, LONG, [[Weather::FAIR; 2]; 2]).await;
        let held = scene.takes(&scene.first).await;
        let other = scene.first.lock("job 1").ttl(LONG).try_acquire().await.ok().and_then(Outcome::guard);
        let name = LockName::new("job 0").unwrap();
        let stranger = Claim::new(name.clone(), HolderId::fresh(), "a stranger".into(), LONG);
        drop(scene.stage.arbiter.try_acquire(&stranger).await);
        scene.passes(0.0, 1.0).await;
        scene.switches().await;
        sleep(scene.stage.route_lease).await;
        let key = LeaseKey { name, holder: stranger.holder };
        let _ = scene.stage.arbiter.release(&key, Ended::default()).await;
        scene.ends().await;
        drop((held, other));
    }

    macro_rules! staged {
        ($($name:ident: $rule:ident, $scene:expr, $seeds:expr;)*) => {
            $(
                #[test]
                fn $name() {
                    let scene = |seed| simulation::run(seed, 60 * SECOND, async |world| ($scene)(world).await);
                    for seed in 0..100 {
                        let _: Tally = scene(seed).unwrap_or_else(|violation| panic!("{violation}"));
                    }
                    is_found(Rule::$rule, "two holders", scene, $seeds);
                }
            )*
        };
    }

    // Each is fine as long as the rule is kept.
    staged! {
        n04_route_leases_count_from_the_reply: RouteLeasesCountFromTheSend, a_late_answer, 300;
        s02_early_is_taken_for_late_in_a_claim: AcquireOnlyAfterLate, a_late_question, 300;
        s01_early_is_taken_for_late_in_a_carry: CarryIsJudgedByLate, a_close_end, 300;
        b06_guards_share_a_bound: BoundsAreNotShared, two_holds, 300;
        b03_a_carry_never_lowers_the_deadline: ACarrySetsTheDeadline, |world| a_renewal_on_the_way(world, Weather::FAIR), 300;
        b02_late_answers_of_the_source_count: LateAnswersOfTheSourceAreDropped, |world| a_renewal_on_the_way(world, slow(250)), 300;
    }

    macro_rules! found {
        ($($name:ident: $rule:ident, $fault:expr, $play:expr, $seeds:expr;)*) => {
            $(
                #[test]
                fn $name() {
                    for seed in 0..20 {
                        let _: Tally = $play.run(seed).unwrap_or_else(|violation| panic!("{violation}"));
                    }
                    is_found(Rule::$rule, $fault, |seed| $play.run(seed), $seeds);
                }
            )*
        };
    }

    found! {
        h1_a_lease_that_ends_before_late_is_carried: CarryNeedsALeaseUntilLate, "two holders", short(), 300;
        n01_no_drain: ADrain, "two holders", one_lock(), 300;
        n02_half_a_drain: AWholeDrain, "two holders", one_lock(), 300;
        n03_guards_ignore_the_route: GuardsHeedTheRoute, "two holders", one_lock(), 300;
        s03_guards_revive: GuardsRememberTheirEpoch, "two holders", one_lock(), 300;
        v14_tokens_without_an_epoch: TokensHaveTheEpoch, "did not grow", restarting(), 300;
        h5_an_empty_primary_goes_unseen: RestartsAreSeen, "two holders", restarting(), 300;
        h4_the_source_is_cleaned_up: NoCleanUpBehindACarry, "two holders", straggling(), 300;
        h3_tags_are_lowered: TagsAreNeverLowered, "two holders", to_and_fro(), 300;
        x04_a_restored_arbiter_is_obeyed: ARestoredArbiterSkipsAnEpoch, "did not grow", restoring(), 300;
        x07_a_restored_arbiter_grants_without_a_look: TheArbiterComparesTheRoute, "did not grow", restoring(), 300;
        f07_restored_marks_are_believed: RestoredMarksAreRaised, "was begun", Play { ticks: 1, ..restoring() }, 300;
    }
}
