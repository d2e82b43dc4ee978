//! The masters of a cluster, and which of them has what.
//!
//! The client library's own connection to a cluster is not used: it makes connections where nobody can say what must
//! go over them first (who is it, the scripts, our channel), it sends again what may have been executed, and without
//! that it leaves redirections to the caller all the same.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::{ErrorKind as Kind, RedisError, ServerErrorKind, Value};

use super::address::Address;
use super::connection::{Answers, Call, Link, Place, Terms};
use super::fault::Fault;
use super::keys;
use super::script::Script;
use crate::error::ErrorKind;

const SLOTS: u16 = 16384;

/// How long a node may take to say who has what.
const PATIENCE: Duration = Duration::from_millis(500);

/// How soon it is asked again who has what, while that goes on being wrong: ever later.
const SOONEST: Duration = Duration::from_millis(100);
const LATEST: Duration = Duration::from_secs(1);

/// A cluster: a link to each master.
pub(super) struct Cluster {
    seeds: Vec<Address>,
    terms: Arc<Terms>,
    map: Mutex<Map>,
    asking: tokio::sync::Mutex<()>,
    /// Which seed is asked first: not always the same, which may be hung.
    turn: AtomicUsize,
}

/// Who has what, as far as we know.
#[derive(Default)]
struct Map {
    /// By slot; empty before the first time.
    slots: Vec<Option<Arc<Link>>>,
    masters: Vec<Arc<Link>>,
    /// To all nodes that we had to do with.
    links: HashMap<Address, Arc<Link>>,
    /// Something has shown that it is wrong.
    stale: bool,
    asked: Option<Instant>,
    pause: Duration,
}

/// Where a call goes.
#[derive(Clone)]
struct Way {
    link: Arc<Link>,
    /// The node is taking over the slot, and has to be told that we know.
    asking: bool,
}

/// First and last slot, and their master.
type Range = (u16, u16, Address);

impl Cluster {
    /// A cluster that is looked for when it is first used, at the seeds.
    pub fn new(seeds: Vec<Address>, terms: Arc<Terms>) -> Self {
        let asking = tokio::sync::Mutex::default();
        Self { seeds, terms, map: Mutex::default(), asking, turn: AtomicUsize::default() }
    }

    /// Runs a script, once for each call, at the master that has the call's key. A call that a node sends elsewhere has
    /// not been executed, and goes there, once; nothing that may have been executed is sent again. Where several nodes
    /// are asked, each has its own `limit`.
    pub async fn call(&self, script: &Script, calls: &[Call<'_>], limit: Duration) -> Answers {
        if let Err(fault) = self.look().await {
            return calls.iter().map(|_| Err(fault.clone())).collect();
        }
        let slots: Vec<_> = calls.iter().map(|call| slot_of(call.key)).collect();
        let mut answers: Answers = slots.iter().map(|&slot| Err(nobody_has(slot))).collect();
        let first = (0..calls.len()).filter_map(|nth| Some((nth, self.owner(slots[nth])?))).collect();
        let gone = self.send(script, calls, first, limit, &mut answers).await;
        let second: Vec<_> =
            gone.iter().filter_map(|(nth, way)| Some((*nth, self.elsewhere(way, &answers[*nth])?))).collect();
        self.send(script, calls, second, limit, &mut answers).await;
        answers.into_iter().map(|answer| answer.map_err(settled)).collect()
    }

    /// All masters.
    pub async fn masters(&self) -> Result<Vec<Arc<Link>>, Fault> {
        self.look().await?;
        Ok(self.map().masters.clone())
    }

    /// What was asked of a master is of interest here, too.
    pub fn notice(&self, answer: &Result<Value, Fault>) {
        if answer.as_ref().is_err_and(makes_stale) {
            self.map().stale = true;
        }
    }

    /// Sends each call its way, those for one node behind one another, and puts the answers into their places.
    async fn send(
        &self,
        script: &Script,
        calls: &[Call<'_>],
        ways: Vec<(usize, Way)>,
        limit: Duration,
        answers: &mut Answers,
    ) -> Vec<(usize, Way)> {
        let mut by_node: Vec<(Way, Vec<usize>)> = Vec::new();
        for (nth, way) in &ways {
            match by_node.iter_mut().find(|(node, _)| node.is(way)) {
                Some((_, calls)) => calls.push(*nth),
                None => by_node.push((way.clone(), vec![*nth])),
            }
        }
        let alone = by_node.len() < 2;
        let asked = by_node.iter().map(|(way, numbers)| async move {
            let calls: Vec<_> = numbers.iter().map(|&nth| calls[nth]).collect();
            let call = way.link.call(script, &calls, way.asking);
            if alone {
                return (numbers, call.await); // Whoever asked has a limit of its own.
            }
            let late = |_| calls.iter().map(|_| Err(Fault::late())).collect();
            (numbers, tokio::time::timeout(limit, call).await.unwrap_or_else(late))
        });
        for (numbers, got) in join_all(asked).await {
            for (nth, answer) in numbers.iter().zip(got) {
                self.notice(&answer);
                answers[*nth] = answer;
            }
        }
        ways
    }

    /// The master of a slot, as far as we know.
    fn owner(&self, slot: u16) -> Option<Way> {
        let link = self.map().slots.get(usize::from(slot))?.clone()?;
        Some(Way { link, asking: false })
    }

    /// Where a node has sent us.
    fn elsewhere(&self, from: &Way, answer: &Result<Value, Fault>) -> Option<Way> {
        let Err(Fault::Sent(error)) = answer else { return None };
        let (address, slot) = error.redirect_node()?;
        let address = Address::announced(address, from.link.address()?)?;
        let map = &mut *self.map();
        let link = self.link(map, &address);
        let asking = error.kind() == Kind::Server(ServerErrorKind::Ask);
        if !asking && let Some(owner) = map.slots.get_mut(usize::from(slot)) {
            *owner = Some(Arc::clone(&link));
            map.take_for_master(&link);
        }
        Some(Way { link, asking })
    }

    fn link(&self, map: &mut Map, address: &Address) -> Arc<Link> {
        let new = || Arc::new(Link::new(Place::Fixed(address.clone()), Arc::clone(&self.terms)));
        Arc::clone(map.links.entry(address.clone()).or_insert_with(new))
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks who has what, if that is not known or in doubt, and it was not asked just now. An error only if nothing is
    /// known.
    async fn look(&self) -> Result<(), Fault> {
        if !self.map().is_to_be_asked() {
            return Ok(());
        }
        let _one = self.asking.lock().await;
        if !self.map().is_to_be_asked() {
            return Ok(());
        }
        let mut why = Fault::Unsent(ErrorKind::Unavailable, "no node says who has what".into());
        self.map().is_being_asked();
        for node in self.witnesses() {
            match self.ranges(&node).await {
                Ok(ranges) => {
                    self.learn(&ranges);
                    return Ok(());
                }
                Err(fault) => why = fault,
            }
        }
        if self.map().slots.is_empty() { Err(why) } else { Ok(()) }
    }

    /// Who is asked, in this order: masters that answer, seeds, the rest.
    fn witnesses(&self) -> Vec<Address> {
        let map = self.map();
        let answers = |link: &Arc<Link>| link.is_up() && !link.is_silent();
        let (good, others): (Vec<_>, Vec<_>) = map.links.iter().partition(|(_, link)| answers(link));
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % self.seeds.len();
        let seeds = self.seeds[first..].iter().chain(&self.seeds[..first]);
        let good = good.iter().map(|(address, _)| *address);
        let mut witnesses: Vec<Address> = Vec::new();
        for address in good.chain(seeds).chain(others.iter().map(|(address, _)| *address)) {
            if !witnesses.contains(address) {
                witnesses.push(address.clone());
            }
        }
        witnesses
    }

    /// What a node says, over a connection of its own: it may be a replica.
    async fn ranges(&self, node: &Address) -> Result<Vec<Range>, Fault> {
        let mut question = redis::cmd("CLUSTER"); // Not SHARDS, which came with Redis 7.
        question.arg("SLOTS");
        let answer = self.terms.dial.ask_once(node, &question, PATIENCE).await?;
        let ranges = read(answer, node);
        if ranges.is_empty() {
            let message = format!("{node} is a member of no cluster that is ready");
            return Err(Fault::Unsent(ErrorKind::Unavailable, message));
        }
        Ok(ranges)
    }

    fn learn(&self, ranges: &[Range]) {
        let mut map = self.map();
        let mut slots = vec![None; usize::from(SLOTS)];
        map.masters.clear();
        for (first, last, master) in ranges {
            let link = self.link(&mut map, master);
            link.trust();
            map.take_for_master(&link);
            slots[usize::from(*first)..=usize::from(*last)].fill(Some(link));
        }
        map.slots = slots;
        map.stale = false;
        // A node that has lost its slots may still be answering: what comes next must not overtake that.
        let is_master = |address: &Address| ranges.iter().any(|(_, _, master)| master == address);
        map.links.retain(|address, link| is_master(address) || link.is_up());
    }
}

impl Map {
    fn is_to_be_asked(&self) -> bool {
        let waits = self.asked.is_some_and(|asked| asked.elapsed() < self.pause);
        let doubtful = self.stale || self.masters.iter().any(|link| link.is_silent());
        self.slots.is_empty() || (doubtful && !waits)
    }

    fn take_for_master(&mut self, link: &Arc<Link>) {
        if !self.masters.iter().any(|master| Arc::ptr_eq(master, link)) {
            self.masters.push(Arc::clone(link));
        }
    }

    fn is_being_asked(&mut self) {
        let calm = self.asked.is_none_or(|asked| asked.elapsed() > 4 * LATEST);
        self.pause = if calm { SOONEST } else { (self.pause * 2).min(LATEST) };
        self.asked = Some(Instant::now());
    }
}

impl Way {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.link, &other.link) && self.asking == other.asking
    }
}

/// What `CLUSTER SLOTS` says.
fn read(answer: Value, by: &Address) -> Vec<Range> {
    let ranges: Vec<Vec<Value>> = redis::from_redis_value(answer).unwrap_or_default();
    let range = |range: Vec<Value>| {
        let [first, last, master, ..] = <[Value; 3]>::try_from(range.into_iter().take(3).collect::<Vec<_>>()).ok()?;
        let first: u16 = redis::from_redis_value(first).ok()?;
        let last: u16 = redis::from_redis_value(last).ok()?;
        let mut master: Vec<Value> = redis::from_redis_value(master).ok()?;
        master.truncate(2);
        let port: u16 = redis::from_redis_value(master.pop()?).ok()?;
        let host: Option<String> = redis::from_redis_value(master.pop()?).ok()?;
        let address = Address::of_a_member(host.as_deref().unwrap_or_default(), port, by)?;
        (first <= last && last < SLOTS).then_some((first, last, address))
    };
    ranges.into_iter().filter_map(range).collect()
}

fn nobody_has(slot: u16) -> Fault {
    Fault::Unsent(ErrorKind::Unavailable, format!("no master has slot {slot}"))
}

/// Whether what came instead of an answer shows that somebody else may have the slot by now.
fn makes_stale(fault: &Fault) -> bool {
    match fault {
        Fault::Guarded(_) | Fault::Doubtful(_) | Fault::Forbidden(..) => false,
        Fault::Unsent(kind, _) => matches!(kind, ErrorKind::Unavailable | ErrorKind::TimedOut),
        Fault::Sent(error) => {
            fault.breaks() || redirects(error) || error.kind() == Kind::Server(ServerErrorKind::ClusterDown)
        }
    }
}

fn redirects(error: &RedisError) -> bool {
    matches!(error.kind(), Kind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask))
}

/// Sent elsewhere twice, or to nobody knows where: the nodes don't agree yet, and nothing was done.
fn settled(fault: Fault) -> Fault {
    match fault {
        Fault::Sent(error) if redirects(&error) => {
            Fault::Unsent(ErrorKind::Unavailable, format!("its nodes don't agree who has the lock's slot ({error})"))
        }
        fault => fault,
    }
}

/// A text whose slot this is.
pub(super) fn tag_of(slot: u16) -> String {
    (0_u32..).map(|number| number.to_string()).find(|tag| slot_of(tag) == slot).expect("the hash reaches all slots")
}

fn slot_of(key: &str) -> u16 {
    // CRC-16/XMODEM. The client library has it only together with its cluster client.
    let step = |crc: u16| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
    let crc = keys::hashed(key)
        .bytes()
        .fold(0_u16, |crc, byte| (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| step(crc)));
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        for (key, slot) in
            [("123456789", 0x31C3), ("leasehold:x:{123456789}:h", 0x31C3), ("foo", 12182), ("a{foo}b", 12182)]
        {
            assert_eq!(slot_of(key), slot, "{key}");
        }
    }

    #[test]
    fn a_map_is_read_and_an_empty_host_is_the_one_that_was_asked() {
        let node = |host: Value, port| Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec())]);
        let text = |text: &str| Value::BulkString(text.into());
        let range = |first, last, node| Value::Array(vec![Value::Int(first), Value::Int(last), node]);
        let answer = Value::Array(vec![
            range(0, 99, node(text("h"), 1)),
            range(100, 199, node(text(""), 2)),
            range(200, 299, node(Value::Nil, 3)),
            range(300, 399, node(text("?"), 4)),
            range(400, 16384, node(text("h"), 5)),
        ]);
        let tcp = |host: &str, port| Address::Tcp(host.into(), port);
        let known = [(0, 99, tcp("h", 1)), (100, 199, tcp("seed", 2)), (200, 299, tcp("seed", 3))];
        assert_eq!(read(answer, &tcp("seed", 9)), known);
    }
}
