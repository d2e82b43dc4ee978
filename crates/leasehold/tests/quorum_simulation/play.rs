//! One world: what its clients want and what befalls them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::member::Member;
use leasehold::stores::{Memory, Quorum, Saved};
use leasehold::validity::Clock;
use leasehold::{ErrorKind, Guard, HolderId, Holding, Lock, LockName, Locks, Outcome, Revoke, Store, Tick, Wait};
use leasehold_testkit::Random;
use leasehold_testkit::simulation::{
    self, Held, Judge, Link, Machine, Network, Tally, Violation, Weather, Wire, World,
};
use tokio::time::{Instant, sleep, sleep_until, timeout};

pub const SECOND: Duration = Duration::from_secs(1);

/// The usual TTL; short, so that little time makes many locks.
pub const TTL: Duration = SECOND.saturating_mul(2);

/// Of clocks' rates.
const DRIFT: f64 = 0.0099;

/// After which all is over that was left behind: what straggles, what it leaves, the guard of a member, and what is
/// tried again.
const QUIET: Duration = Duration::from_secs(30);

/// No world takes longer.
const LIMIT: Duration = Duration::from_secs(300);

/// What the members' clocks show at the beginning, and how far apart ticks are.
pub const UTC: Duration = Duration::from_secs(1_796_000_000);
const EVERY: Duration = SECOND;

const NAMES: [&str; 2] = ["job", "other"];

/// For ever.
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// A kind of world.
#[derive(Debug, Clone, Copy)]
pub struct Play {
    pub nodes: usize,
    pub clients: usize,
    pub ttl: Duration,
    pub weather: Weather,
    /// For how long it is foul, and how long it takes at the most until something strikes again.
    pub foul_for: Duration,
    pub strikes_within: Duration,
    /// Of ten strikes, how many let a member come back empty; and for how long it then grants nothing.
    pub restarts: usize,
    pub guard: Duration,
    /// Only so many of the members, whatever strikes; and whether they have an old copy of their data instead.
    pub emptied: usize,
    pub copies: bool,
    /// Whether they come back so one after another only, each when all others know everything again.
    pub rolling: bool,
    /// Whether it is about ticks, or keys, else about plain locks; and of how many names.
    pub ticks: bool,
    pub keys: bool,
    pub names: usize,
    /// Of ten strikes, how many are an operator's who revokes a hold, and how many the end of a client.
    pub revoked: usize,
    pub deaths: usize,
    /// Whether what happened is told as if it were a fault.
    pub telling: bool,
}

/// A member and the machine that it runs on.
pub struct Node {
    pub machine: Machine,
    pub memory: Memory,
    /// What it has on its disk.
    copy: Mutex<Saved>,
}

/// A client, the machine that it runs on, and its ways to the members.
pub struct Client {
    pub machine: Machine,
    /// Whether it has died, and everything with it that it would have done.
    is_dead: AtomicBool,
    pub locks: Locks,
    pub quorum: Arc<Quorum>,
    pub links: Vec<Link>,
}

impl Play {
    pub fn foul() -> Self {
        let weather = Weather { late: (0.05, SECOND), ..Weather::FOUL };
        Self {
            nodes: 3,
            clients: 3,
            ttl: TTL,
            weather,
            foul_for: SECOND * 3,
            strikes_within: SECOND,
            restarts: 0,
            guard: TTL,
            emptied: usize::MAX,
            copies: false,
            rolling: false,
            ticks: false,
            keys: false,
            names: 1,
            revoked: 0,
            deaths: 0,
            telling: false,
        }
    }

    pub fn run(self, seed: u64) -> Result<Tally, Violation> {
        simulation::run(seed, LIMIT, async |world| self.play(world).await)
    }

    async fn play(self, world: &mut World) {
        let nodes: Vec<_> = (0..self.nodes).map(|_| Node::start()).collect();
        let network = Network::new(world.random(), self.weather);
        let clients: Vec<_> = (0..self.clients).map(|_| Client::start(&nodes, &network)).collect();
        let end = Instant::now() + self.foul_for;
        let revoked = Mutex::default();
        let work = clients.iter().map(|client| Worker {
            play: self,
            client,
            random: world.random(),
            judge: world.judge(),
            revoked: &revoked,
            end,
        });
        let work: Vec<_> = work.collect();
        let chaos = self.strike(world.random(), world.judge(), &nodes, &clients, &revoked, end);
        tokio::join!(chaos, join_all(work.into_iter().map(Worker::lives)));
        network.set_weather(Weather::FAIR);
        clients.iter().flat_map(|client| &client.links).for_each(Link::mend);
        sleep(QUIET + self.ttl * 2).await;
        for node in &nodes {
            world.judge().finds_nothing_in(&node.memory).await;
        }
        // A mark without it, at a member that came back empty, may have closed one.
        if self.restarts == 0 {
            let cut = &clients[0].links[world.random().below(self.nodes)];
            cut.cut();
            self.grants_or_fails(&world.judge(), &clients[0]).await;
            cut.mend();
            self.grants_again(&world.judge(), &clients[0]).await;
        }
        self.goes_on(&world.judge(), &clients[0]).await;
        if self.telling {
            world.judge().finds("this is all");
        }
    }

    /// Until the end, something happens to somebody now and then.
    async fn strike(
        self,
        mut random: Random,
        judge: Judge,
        nodes: &[Node],
        clients: &[Client],
        revoked: &Mutex<Vec<Revoked>>,
        end: Instant,
    ) {
        while Instant::now() < end {
            sleep(self.strikes_within.mul_f64(random.share())).await;
            let span = (self.ttl * 2).mul_f64(random.share());
            let (client, node) = (random.below(clients.len()), random.below(nodes.len()));
            if random.below(10) < self.restarts {
                if self.rolling && !are_whole(nodes).await {
                    continue;
                }
                let node = node % self.emptied;
                if self.copies && random.one_in(2) {
                    nodes[node].is_copied();
                    continue;
                }
                judge.note(format_args!("node {node} is restarted"));
                nodes[node].restart(self.guard);
                continue;
            }
            if self.revoked > 0 && random.below(10) < self.revoked {
                let name = NAMES[random.below(self.names)];
                let held = clients[client].locks.inspect(name).await;
                let asked = Instant::now();
                if let Ok(Some(Holding { holder: Some(holder), .. })) = held
                    && let Ok(Some(held)) = clients[client].locks.revoke_one(name, holder, Revoke::Gently).await
                {
                    judge.note(format_args!("{name}: token {} of {holder} is revoked", held.token));
                    revoked.lock().expect("nothing panics").push(Revoked { holder, asked, since: Instant::now() });
                }
                continue;
            }
            if self.deaths > 0 && client > 0 && random.below(10) < self.deaths {
                judge.note(format_args!("client {client} dies"));
                clients[client].dies();
                continue;
            }
            match random.below(9) {
                0..4 => {
                    let link = clients[client].links[node].clone();
                    judge.note(format_args!("client {client} is cut from node {node} for {span:?}"));
                    link.cut();
                    tokio::spawn(async move {
                        sleep(span).await;
                        link.mend();
                    });
                }
                4 | 5 => {
                    judge.note(format_args!("client {client} stops for {span:?}"));
                    clients[client].machine.stop_for(span);
                }
                6 => nodes[node].machine.stop_for(span / 4),
                7 => nodes[node].set_time(random.share()),
                _ => {
                    nodes.iter().for_each(|node| node.machine.drift(DRIFT * (2.0 * random.share() - 1.0)));
                    clients.iter().for_each(|client| client.machine.drift(DRIFT * (2.0 * random.share() - 1.0)));
                }
            }
        }
    }

    /// The same while a member can't be reached: others may not have heard of the tick, but none says that it is over.
    async fn grants_or_fails(self, judge: &Judge, client: &Client) {
        for (name, tick) in judge.to_be_granted_again() {
            let lock = client.locks.lock(name.as_str()).ttl(self.ttl).tick(tick).retry_failed(true);
            match lock.wait(Wait::For(2 * SECOND)).acquire().await {
                Ok(Outcome::Acquired(guard)) => drop(judge.holds(guard).given_back().not_started().await),
                Err(_) => {}
                other => judge.finds(&format!("{name}: {tick} is over while a member is away: {other:?}")),
            }
        }
    }

    /// In fair weather a tick that has failed, or was given back unbegun, is granted again.
    async fn grants_again(self, judge: &Judge, client: &Client) {
        for (name, tick) in judge.to_be_granted_again() {
            let lock = client.locks.lock(name.as_str()).ttl(self.ttl).tick(tick).retry_failed(true);
            match lock.wait(Wait::For(5 * SECOND)).acquire().await {
                Ok(Outcome::Acquired(guard)) => drop(judge.holds(guard).given_back().complete().await),
                other => judge.finds(&format!("{name}: {tick} is not granted again: {other:?}")),
            }
        }
    }

    /// In fair weather the lock is granted, once an operator has accepted what is lost for good; and if nothing was, a name that
    /// nobody has asked for before.
    async fn goes_on(self, judge: &Judge, client: &Client) {
        if self.rolling {
            for name in ["job", "a new one"] {
                let lock = client.locks.lock(name).ttl(self.ttl).wait(Wait::For(5 * SECOND));
                match lock.acquire().await {
                    Ok(Outcome::Acquired(guard)) => drop(judge.holds(guard).given_back().release().await),
                    other => judge.finds(&format!("{name} is not granted after a rolling restart: {other:?}")),
                }
            }
        }
        let lock = client.locks.lock("job").ttl(self.ttl).wait(Wait::For(5 * SECOND));
        let mut outcome = lock.acquire().await;
        if matches!(&outcome, Err(error) if error.kind() == ErrorKind::Refused) {
            // Refused: they have been filled meanwhile.
            let accepted = client.quorum.accept_loss().await;
            if let Err(error) =
                accepted.or_else(|error| (error.kind() == ErrorKind::Refused).then_some(()).ok_or(error))
            {
                judge.finds(&format!("the loss can't be accepted: {error}"));
            }
            outcome = lock.acquire().await;
        }
        match outcome {
            Ok(Outcome::Acquired(guard)) => drop(judge.holds(guard).given_back().release().await),
            other => judge.finds(&format!("in fair weather it is not granted: {other:?}")),
        }
        client.locks.shutdown().await;
    }
}

/// Whether all members are full for all names.
async fn are_whole(nodes: &[Node]) -> bool {
    let pages = join_all(nodes.iter().map(|node| node.memory.names(0, 1))).await;
    pages.into_iter().all(|page| page.is_ok_and(|page| page.whole.is_some()))
}

impl Node {
    pub fn start() -> Self {
        let machine = Machine::new();
        let memory = Memory::new(Arc::new(machine.clone()));
        memory.set_time(UTC);
        Self { machine, memory, copy: Mutex::default() }
    }

    /// What it has in its memory is written to its disk.
    fn is_copied(&self) {
        *self.copy.lock().expect("nothing panics") = self.memory.save();
    }

    /// Without any data if it has never been copied.
    fn restart(&self, guard: Duration) {
        self.memory.restart_from(&self.copy.lock().expect("nothing panics"), guard);
    }

    /// Its wall clock is set, up to 50 s off, which a quorum may be founded with.
    fn set_time(&self, share: f64) {
        let since = self.machine.now().as_nanos().saturating_sub(3_600_000_000_000);
        self.memory.set_time(UTC + Duration::from_nanos(since) + (50 * SECOND).mul_f64(share));
    }
}

impl Client {
    pub fn start(nodes: &[Node], network: &Network) -> Self {
        let machine = Machine::new();
        let links: Vec<_> = nodes.iter().map(|node| network.link(&machine, &node.machine)).collect();
        let wires = nodes.iter().zip(&links).enumerate().map(|(number, (node, link))| {
            let wire = Wire::new(Arc::new(node.memory.clone()), link.clone());
            (format!("node {number}"), Arc::new(wire) as Arc<dyn Store>)
        });
        let quorum = Arc::new(Quorum::of(wires).expect("an odd number of members"));
        let locks = Locks::builder().simulated(Arc::new(machine.clone())).over(quorum.clone());
        Self { machine, is_dead: AtomicBool::new(false), locks, quorum, links }
    }

    /// What it has sent is under way; nothing else of it ever is.
    fn dies(&self) {
        self.machine.stop_for(YEAR);
        self.is_dead.store(true, Ordering::Relaxed);
    }

    async fn is_gone(&self) {
        while !self.is_dead.load(Ordering::Relaxed) {
            sleep(SECOND / 20).await;
        }
    }
}

/// A hold that an operator was told is revoked. A grant that comes later, to a claim that the same caller sends once more, is
/// another: the store's own answer to a claim whose lease was revoked before its holder has heard of it.
struct Revoked {
    holder: HolderId,
    asked: Instant,
    since: Instant,
}

/// If its client dies while this lives, nobody knows what became of a tick.
struct Unsure<'a> {
    judge: &'a Judge,
    client: &'a Client,
    name: &'a LockName,
    tick: Tick,
}

impl Drop for Unsure<'_> {
    fn drop(&mut self) {
        if self.client.is_dead.load(Ordering::Relaxed) {
            self.judge.is_uncertain(self.name, self.tick);
        }
    }
}

/// What a client does.
struct Worker<'a> {
    play: Play,
    client: &'a Client,
    random: Random,
    judge: Judge,
    revoked: &'a Mutex<Vec<Revoked>>,
    end: Instant,
}

impl Worker<'_> {
    async fn lives(self) {
        let client = self.client;
        if self.play.deaths == 0 {
            return self.works().await;
        }
        tokio::select! {
            biased;
            () = client.is_gone() => {}
            () = self.works() => {}
        }
    }

    async fn works(mut self) {
        let began = Instant::now();
        while Instant::now() < self.end {
            let pause = SECOND.mul_f64(self.random.share());
            self.client.machine.idles(pause).await;
            let name = if self.play.names > 1 { NAMES[self.random.below(self.play.names)] } else { NAMES[0] };
            let number = began.elapsed().as_secs() / EVERY.as_secs();
            if self.play.ticks {
                self.runs_a_tick(name, number).await;
            } else if self.play.keys {
                self.runs_a_key(name, number).await;
            } else {
                self.holds_it(self.lock(name)).await;
            }
        }
    }

    async fn holds_it(&mut self, lock: Lock) {
        let Some(guard) = self.acquires(lock).await else { return };
        let held = self.judge.holds(guard);
        self.is_busy(&held).await;
        if self.random.one_in(3) {
            drop(held);
        } else {
            drop(held.given_back().release().await);
        }
    }

    fn lock(&self, name: &str) -> Lock {
        self.client.locks.lock(name).ttl(self.play.ttl).stop_grace(Duration::from_millis(200))
    }

    /// Some tick of the last few; each is to be run once, or until it is done.
    async fn runs_a_tick(&mut self, name: &str, number: u64) {
        let number = self.one_of(number);
        let at = UTC + EVERY * u32::try_from(number).expect("a short time");
        let tick = Tick::from_unix_millis(i64::try_from(at.as_millis()).expect("a time")).expect("a tick");
        self.runs_it(LockName::new(name).expect("a name"), tick, !number.is_multiple_of(3)).await;
    }

    /// One of the last few; where members forget and learn again, of all there were.
    fn one_of(&mut self, number: u64) -> u64 {
        let few = if self.play.rolling { usize::try_from(number).expect("a short time") + 1 } else { 3 };
        number.saturating_sub(self.random.below(few) as u64)
    }

    /// Some piece of work of the last few.
    async fn runs_a_key(&mut self, name: &str, number: u64) {
        let number = self.one_of(number);
        let name = LockName::new(&format!("{name}-{number}")).expect("a name");
        self.runs_it(name, Tick::ONLY, !number.is_multiple_of(3)).await;
    }

    async fn runs_it(&mut self, name: LockName, tick: Tick, is_once: bool) {
        let (judge, name) = (self.judge.clone(), &name);
        let unsure = || Unsure { judge: &judge, client: self.client, name, tick };
        let asked = unsure();
        let lock = self.lock(name.as_str()).tick(tick).retry_failed(!is_once);
        let Some(guard) = self.acquires(lock).await else { return };
        drop(asked);
        let held = self.judge.holds(guard);
        if self.random.one_in(6) || held.look(|guard| !guard.is_valid()) {
            let _told = unsure();
            return match held.given_back().not_started().await {
                Ok(_) => self.judge.is_unbegun(name, tick),
                Err(_) => self.judge.is_uncertain(name, tick),
            };
        }
        self.judge.begins(name, tick, is_once, held.asked());
        self.is_busy(&held).await;
        match self.random.below(4) {
            0 => drop(held),
            1 => drop(held.given_back().release().await),
            _ => {
                let _told = unsure();
                match held.given_back().complete().await {
                    Ok(_) => self.judge.is_done(name, tick),
                    Err(_) => self.judge.is_uncertain(name, tick),
                }
            }
        }
    }

    /// Asks, waits for a while, and may go away at any moment.
    async fn acquires(&mut self, lock: Lock) -> Option<Guard> {
        let patience = (self.play.ttl * 2).mul_f64(self.random.share());
        let lock = lock.wait(Wait::For(patience));
        let asked = Instant::now();
        let outcome = match self.random.below(4) {
            0 => timeout(SECOND.mul_f64(self.random.share()), lock.acquire()).await.ok()?,
            1 => lock.try_acquire().await,
            _ => lock.acquire().await,
        };
        if asked.elapsed() > patience + 10 * SECOND {
            self.judge.finds(&format!("it took {:?} to say {outcome:?}", asked.elapsed()));
        }
        match outcome {
            Ok(Outcome::Acquired(guard)) => Some(guard),
            Ok(_) => None,
            Err(error) => {
                self.judge.note(format_args!("no lock: {error}"));
                None
            }
        }
    }

    /// Until its work is done or the lock is lost, and a little after.
    async fn is_busy(&mut self, held: &Held) {
        let granted = Instant::now();
        let until = Instant::now() + (self.play.ttl * 2).mul_f64(self.random.share());
        while Instant::now() < until && held.look(Guard::is_valid) {
            self.is_not_revoked(held, granted);
            sleep_until(until.min(Instant::now() + SECOND / 4)).await;
            self.client.machine.runs().await;
        }
    }

    /// What was revoked ends within a TTL by any clock.
    fn is_not_revoked(&self, held: &Held, granted: Instant) {
        let holder = held.look(Guard::holder);
        let revoked = self.revoked.lock().expect("nothing panics");
        let is_meant = |it: &&Revoked| it.holder == holder && granted <= it.asked;
        if revoked.iter().filter(is_meant).any(|it| it.since.elapsed() > self.play.ttl.mul_f64(1.02)) {
            self.judge.finds(&format!("{holder} was revoked and is valid still"));
        }
    }
}
