//! One world: what its clients want and what befalls them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::stores::{Memory, Quorum};
use leasehold::validity::Clock;
use leasehold::{ErrorKind, Guard, Lock, LockName, Locks, Outcome, Store, Tick, Wait};
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
    /// Whether it is about ticks, else about plain locks.
    pub ticks: bool,
    /// Whether what happened is told as if it were a fault.
    pub telling: bool,
}

/// A member and the machine that it runs on.
pub struct Node {
    pub machine: Machine,
    pub memory: Memory,
}

/// A client, the machine that it runs on, and its ways to the members.
pub struct Client {
    pub machine: Machine,
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
            ticks: false,
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
        let work = clients.iter().map(|client| Worker {
            play: self,
            client,
            random: world.random(),
            judge: world.judge(),
            end,
        });
        let work: Vec<_> = work.collect();
        let chaos = self.strike(world.random(), world.judge(), &nodes, &clients, end);
        tokio::join!(chaos, join_all(work.into_iter().map(Worker::works)));
        network.set_weather(Weather::FAIR);
        clients.iter().flat_map(|client| &client.links).for_each(Link::mend);
        sleep(QUIET + self.ttl * 2).await;
        for node in &nodes {
            world.judge().finds_nothing_in(&node.memory).await;
        }
        self.goes_on(&world.judge(), &clients[0]).await;
        if self.telling {
            world.judge().finds("this is all");
        }
    }

    /// Until the end, something happens to somebody now and then.
    async fn strike(self, mut random: Random, judge: Judge, nodes: &[Node], clients: &[Client], end: Instant) {
        while Instant::now() < end {
            sleep(self.strikes_within.mul_f64(random.share())).await;
            let span = (self.ttl * 2).mul_f64(random.share());
            let (client, node) = (random.below(clients.len()), random.below(nodes.len()));
            if random.below(10) < self.restarts {
                judge.note(format_args!("node {node} is restarted"));
                nodes[node].memory.restart(self.guard);
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

    /// In fair weather the lock is granted, once an operator has accepted what is lost for good.
    async fn goes_on(self, judge: &Judge, client: &Client) {
        let lock = client.locks.lock("job").ttl(self.ttl).wait(Wait::For(5 * SECOND));
        let mut outcome = lock.acquire().await;
        if matches!(&outcome, Err(error) if error.kind() == ErrorKind::Refused) {
            if let Err(error) = client.quorum.accept_loss().await {
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

impl Node {
    pub fn start() -> Self {
        let machine = Machine::new();
        let memory = Memory::new(Arc::new(machine.clone()));
        memory.set_time(UTC);
        Self { machine, memory }
    }

    /// Its wall clock is set, up to a minute off.
    fn set_time(&self, share: f64) {
        let since = self.machine.now().as_nanos().saturating_sub(3_600_000_000_000);
        self.memory.set_time(UTC + Duration::from_nanos(since) + (60 * SECOND).mul_f64(share));
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
        Self { machine, locks, quorum, links }
    }
}

/// What a client does.
struct Worker<'a> {
    play: Play,
    client: &'a Client,
    random: Random,
    judge: Judge,
    end: Instant,
}

impl Worker<'_> {
    async fn works(mut self) {
        let (name, began) = (LockName::new("job").expect("a name"), Instant::now());
        while Instant::now() < self.end {
            let pause = SECOND.mul_f64(self.random.share());
            self.client.machine.idles(pause).await;
            let lock = self.client.locks.lock("job").ttl(self.play.ttl).stop_grace(Duration::from_millis(200));
            if self.play.ticks {
                self.runs_a_tick(lock, &name, began).await;
            } else {
                self.holds_it(lock).await;
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

    /// Some tick of the last few; each is to be run once, or until it is done.
    async fn runs_a_tick(&mut self, lock: Lock, name: &LockName, began: Instant) {
        let number = (began.elapsed().as_secs() / EVERY.as_secs()).saturating_sub(self.random.below(3) as u64);
        let at = UTC + EVERY * u32::try_from(number).expect("a short time");
        let tick = Tick::from_unix_millis(i64::try_from(at.as_millis()).expect("a time")).expect("a tick");
        let is_once = !number.is_multiple_of(3);
        let lock = lock.tick(tick).retry_failed(!is_once);
        let Some(guard) = self.acquires(lock).await else { return };
        let held = self.judge.holds(guard);
        if self.random.one_in(6) {
            return drop(held.given_back().not_started().await);
        }
        self.judge.begins(name, tick, is_once);
        self.is_busy(&held).await;
        match self.random.below(4) {
            0 => drop(held),
            1 => drop(held.given_back().release().await),
            _ => {
                if held.given_back().complete().await.is_ok() {
                    self.judge.is_done(name, tick);
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
        let until = Instant::now() + (self.play.ttl * 2).mul_f64(self.random.share());
        while Instant::now() < until && held.look(Guard::is_valid) {
            sleep_until(until.min(Instant::now() + SECOND / 4)).await;
            self.client.machine.runs().await;
        }
    }
}
