//! A Redis Cluster.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use std::{iter, thread};

use super::options::quoted;
use super::{Redis, RedisOptions};

const SLOTS: u16 = 16384;
const SHARDS: u16 = 3;
const LIMIT: Duration = Duration::from_secs(60);

/// Six Redis servers: three masters with a third of the slots and a replica each.
///
/// All are killed when it is dropped. A master that doesn't answer is replaced after some two seconds.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Starts it, and waits until all nodes agree on the slots and take commands.
    ///
    /// # Panics
    /// If there is no `redis-server`, or the nodes don't find each other.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(Redis::options())
    }

    /// As [`start`](Self::start), with options for all nodes.
    ///
    /// # Panics
    /// If there is no `redis-server`, or the nodes don't find each other.
    #[must_use]
    pub fn start_with(options: RedisOptions) -> Self {
        let mut options = options
            .config("cluster-enabled", "yes")
            .config("cluster-node-timeout", "1500")
            .config("cluster-replica-validity-factor", "0")
            .config("cluster-allow-replica-migration", "no")
            .config("repl-ping-replica-period", "1")
            .config("hz", "50");
        options.cluster = true;
        if let Some(password) = options.password.clone() {
            options = options.config("masterauth", &quoted(&password));
        }
        let cluster = Self { nodes: start_together(&options, 2 * SHARDS) };
        cluster.introduce();
        cluster.settle();
        cluster
    }

    /// All nodes, dead or alive. At the start the first three are the masters, and the others their replicas.
    #[must_use]
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// Where all nodes are.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Redis::url).collect()
    }

    /// Where clients find it, by way of three of its nodes: `redis+cluster:` or `rediss+cluster:`, with the password.
    #[must_use]
    pub fn url(&self) -> String {
        let seeds: Vec<_> = self.nodes.iter().take(3).map(Redis::address).collect();
        self.nodes[0].url_of_many("cluster", &seeds)
    }

    /// Who serves the slot, in the eyes of the nodes that run; it may be dead already.
    ///
    /// # Panics
    /// If they don't come to agree.
    #[must_use]
    pub fn master_of(&self, slot: u16) -> &Redis {
        self.with_port(self.agreed().master_of(slot))
    }

    /// The replica of whoever serves the slot.
    ///
    /// # Panics
    /// If the nodes don't come to agree, or there is none: after a failover, until the old master is back.
    #[must_use]
    pub fn replica_of(&self, slot: u16) -> &Redis {
        self.with_port(self.agreed().replica_of(slot))
    }

    /// Makes the replica of whoever serves the slot its master, as an operator would, without losing anything; waits
    /// until all nodes know it. Answers the new master.
    ///
    /// # Panics
    /// If that doesn't happen.
    pub fn failover(&self, slot: u16) -> &Redis {
        let replica = self.replica_of(slot);
        // The old master may be busy with an earlier one.
        let deadline = Instant::now() + LIMIT;
        while replica.fact("replication", "role") != "master" {
            assert!(Instant::now() < deadline, "the replica does not take over");
            replica.ask(&["CLUSTER", "FAILOVER"]);
            // Asked again, it would begin anew.
            let given = Instant::now() + Duration::from_secs(5);
            while Instant::now() < given && replica.fact("replication", "role") != "master" {
                thread::sleep(Duration::from_millis(5));
            }
        }
        self.settle();
        assert_eq!(self.master_of(slot).port(), replica.port(), "another node serves slot {slot}");
        replica
    }

    /// Begins to move a slot from its master to another one, and leaves it there: commands for keys that the first
    /// doesn't have are answered with `ASK`. [`finish_move`](Self::finish_move) ends it.
    ///
    /// # Panics
    /// If a node doesn't do it.
    pub fn begin_move(&self, slot: u16, to: &Redis) {
        let (from, slot) = (self.master_of(slot), slot.to_string());
        told(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id_of(from)]);
        told(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id_of(to)]);
    }

    /// Moves what keys the slot still has and tells all nodes that it is moved: commands to its old master are
    /// answered with `MOVED`.
    ///
    /// # Panics
    /// If a node doesn't do it.
    pub fn finish_move(&self, slot: u16, to: &Redis) {
        let (from, slot) = (self.master_of(slot), slot.to_string());
        let port = to.port().to_string();
        let keys = from.command(&["CLUSTER", "GETKEYSINSLOT", &slot, "1000000"]);
        for key in keys.items() {
            let mut command = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000"];
            let key = key.text();
            command.extend(to.password().iter().flat_map(|&password| ["AUTH", password]));
            command.extend(["KEYS", &key]);
            told(from, &command);
        }
        // The new owner first: the old one refuses clients as soon as it knows.
        for node in [to, from] {
            told(node, &["CLUSTER", "SETSLOT", &slot, "NODE", &id_of(to)]);
        }
        self.settle();
    }

    /// Waits until all nodes that run agree on masters that run, are connected and take commands.
    ///
    /// # Panics
    /// If that doesn't happen.
    pub fn settle(&self) {
        let deadline = Instant::now() + LIMIT;
        while !self.is_settled() {
            assert!(Instant::now() < deadline, "the cluster does not settle: {:#?}", self.views().collect::<Vec<_>>());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Restarts and resumes whatever doesn't run, and waits until all is settled.
    ///
    /// # Panics
    /// If that doesn't happen.
    pub fn mend(&self) {
        for node in &self.nodes {
            node.resume();
            if !node.is_running() {
                node.restart();
            }
        }
        self.settle();
    }

    /// Deals the slots out and has everybody meet everybody: news spreads by itself, but not while a test waits.
    fn introduce(&self) {
        let (masters, replicas) = self.nodes.split_at(usize::from(SHARDS));
        for (shard, master) in (0..SHARDS).zip(masters) {
            let [first, last] = [SLOTS / SHARDS * shard, SLOTS / SHARDS * (shard + 1) - 1];
            let last = if shard == SHARDS - 1 { SLOTS - 1 } else { last };
            told(master, &["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
        }
        for (epoch, node) in self.nodes.iter().enumerate() {
            // Else they would first have to quarrel about who is older. For all before anybody meets anybody: who has
            // been met by somebody is not told an epoch any more.
            told(node, &["CLUSTER", "SET-CONFIG-EPOCH", &(epoch + 1).to_string()]);
        }
        for (nth, node) in self.nodes.iter().enumerate() {
            for other in &self.nodes[nth + 1..] {
                let bus = other.bus_port().expect("it is a cluster's").to_string();
                told(node, &["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string(), &bus]);
            }
        }
        for (replica, master) in replicas.iter().zip(masters) {
            let id = id_of(master);
            replica.wait("it has met its master", || replica.ask(&["CLUSTER", "REPLICATE", &id]).is_some());
        }
    }

    fn is_settled(&self) -> bool {
        let views: Vec<_> = self.views().collect();
        let agreed = views.windows(2).all(|pair| pair[0] == pair[1]);
        let Some(view) = views.first().filter(|view| agreed && view.covers_all()) else { return false };
        self.running().all(|node| {
            let is_up = node.fact_of_cluster("cluster_state") == "ok";
            let follows = view.following.contains_key(&node.port()) && node.is_in_sync();
            is_up && (view.is_master(node.port()) || follows)
        }) && view.masters().all(|port| self.with_port(port).is_running())
    }

    fn agreed(&self) -> View {
        let deadline = Instant::now() + LIMIT;
        loop {
            let views: Vec<_> = self.views().collect();
            if views.windows(2).all(|pair| pair[0] == pair[1])
                && let Some(view) = views.into_iter().next().filter(View::covers_all)
            {
                return view;
            }
            assert!(Instant::now() < deadline, "the nodes don't agree: {:#?}", self.views().collect::<Vec<_>>());
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn running(&self) -> impl Iterator<Item = &Redis> {
        self.nodes.iter().filter(|node| node.is_running())
    }

    fn views(&self) -> impl Iterator<Item = View> {
        self.running().map(View::of)
    }

    fn with_port(&self, port: u16) -> &Redis {
        self.nodes.iter().find(|node| node.port() == port).expect("it is one of ours")
    }
}

/// How one node sees the cluster: who serves which slots, and who follows whom.
#[derive(Debug, Default, PartialEq, Eq)]
struct View {
    /// First and last slot, and the port that serves them.
    ranges: BTreeMap<(u16, u16), u16>,
    /// A replica's port and its master's.
    following: BTreeMap<u16, u16>,
}

impl View {
    fn of(node: &Redis) -> Self {
        let text = node.ask(&["CLUSTER", "NODES"]).map(|reply| reply.text()).unwrap_or_default();
        // id, address, flags, master, ping, pong, epoch, link, slots …
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
        let port = |line: &[&str]| -> u16 {
            let address = line[1].split(['@', ',']).next().unwrap_or_default();
            address.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or_default()
        };
        let mut view = Self::default();
        for line in &lines {
            if let Some(master) = lines.iter().find(|other| other[0] == line[3]) {
                view.following.insert(port(line), port(master));
            }
            // In brackets are slots on the move.
            for range in line[8..].iter().filter(|range| !range.starts_with('[')) {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let slots = [first, last].map(|slot| slot.parse().expect("slots are numbers"));
                view.ranges.insert((slots[0], slots[1]), port(line));
            }
        }
        view
    }

    fn covers_all(&self) -> bool {
        let count: u32 = self.ranges.keys().map(|(first, last)| u32::from(last - first) + 1).sum();
        count == u32::from(SLOTS)
    }

    fn masters(&self) -> impl Iterator<Item = u16> {
        self.ranges.values().copied()
    }

    fn is_master(&self, port: u16) -> bool {
        self.masters().any(|master| master == port)
    }

    fn master_of(&self, slot: u16) -> u16 {
        let range = self.ranges.iter().find(|((first, last), _)| (*first..=*last).contains(&slot));
        *range.expect("all slots are served").1
    }

    fn replica_of(&self, slot: u16) -> u16 {
        let master = self.master_of(slot);
        *self.following.iter().find(|(_, followed)| **followed == master).expect("each master has a replica").0
    }
}

impl Redis {
    /// One field of `CLUSTER INFO`; empty if there is none.
    fn fact_of_cluster(&self, name: &str) -> String {
        let text = self.ask(&["CLUSTER", "INFO"]).map(|reply| reply.text()).unwrap_or_default();
        let mut fields = text.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| *field == name).map(|(_, value)| value.to_owned()).unwrap_or_default()
    }
}

/// A cluster's node id.
fn id_of(node: &Redis) -> String {
    node.command(&["CLUSTER", "MYID"]).text()
}

fn told(node: &Redis, command: &[&str]) {
    let answer = node.command(command);
    assert_eq!(answer.error(), None, "{command:?}");
}

fn start_together(options: &RedisOptions, count: u16) -> Vec<Redis> {
    thread::scope(|scope| {
        let starting: Vec<_> =
            iter::repeat_n(options, count.into()).map(|options| scope.spawn(|| options.start())).collect();
        starting.into_iter().map(|server| server.join().expect("it starts")).collect()
    })
}

/// The slot of a key, or of the part of it in braces.
#[must_use]
pub fn slot_of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let hashed = tag.filter(|tag| !tag.is_empty()).unwrap_or(key);
    // CRC-16/XMODEM.
    let crc = hashed.bytes().fold(0_u16, |crc, byte| {
        (0..8)
            .fold(crc ^ (u16::from(byte) << 8), |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 })
    });
    crc % SLOTS
}
