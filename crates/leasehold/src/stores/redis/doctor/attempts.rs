//! What needs which rights, and what tries them.

use ::redis::Cmd;

use super::patient::{Patient, command};
use crate::finding::Severity;
use crate::stores::redis;
use crate::stores::redis::options::Topology;

/// What needs a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feature {
    Locks,
    Notes,
    WakeUps,
    Info,
    Settings,
    Listing,
    Guard,
    Replicas,
    Cluster,
}

impl Feature {
    pub const ALL: [Self; 9] = [
        Self::Locks,
        Self::Notes,
        Self::Guard,
        Self::Replicas,
        Self::Cluster,
        Self::WakeUps,
        Self::Info,
        Self::Settings,
        Self::Listing,
    ];

    /// What it costs to go without.
    pub fn cost(self) -> (Severity, &'static str) {
        match self {
            Self::Locks => (Severity::Problem, "no lock can be taken, renewed and released"),
            Self::Notes => (
                Severity::Problem,
                "`schedule` runs nothing, `history` and `contention` show nothing, and nobody can pause or trigger a job",
            ),
            Self::Guard => {
                (Severity::Warning, "each new connection waits for the whole max_ttl before it grants anything")
            }
            Self::Replicas => (Severity::Problem, "nothing is granted or renewed (wait_replicas)"),
            Self::Cluster => (Severity::Problem, "nobody knows which master has which lock"),
            Self::WakeUps => (Severity::Warning, "whoever waits for a lock is not woken, and looks twice a second"),
            Self::Info => (
                Severity::Warning,
                "replicas and restarted servers are not recognised; memory, persistence and replication aren't examined",
            ),
            Self::Settings => {
                (Severity::Warning, "nobody can tell how the disk is written and how long an old master goes on")
            }
            Self::Listing => (Severity::Warning, "`ls` shows nothing, and keys can't be examined"),
        }
    }
}

/// A right, as `ACL SETUSER` is told it, and what tries it.
pub(super) struct Attempt {
    pub feature: Feature,
    pub right: &'static str,
    pub command: Cmd,
}

pub(super) fn attempt(feature: Feature, right: &'static str, name: &str, arguments: &[&str]) -> Attempt {
    Attempt { feature, right, command: command(name, arguments) }
}

/// Commands of the scripts. `probe` is a key with a text in it: what changes keys of other kinds fails over it, once it
/// is known that this user may.
pub(super) fn of_locks(probe: &str, other: &str) -> Vec<Attempt> {
    let of = |right, arguments: &[&str]| attempt(Feature::Locks, right, &right[1..], arguments);
    vec![
        attempt(Feature::Locks, "+evalsha", "EVALSHA", &["0000000000000000000000000000000000000000", "1", probe]),
        of("+get", &[probe]),
        of("+exists", &[probe]),
        of("+type", &[probe]),
        of("+time", &[]),
        of("+pttl", &[probe]),
        of("+pexpire", &[other, "1000"]),
        of("+pexpireat", &[other, "1000"]),
        of("+hget", &[probe, "a"]),
        of("+hmget", &[probe, "a"]),
        of("+hgetall", &[probe]),
        of("+hkeys", &[probe]),
        of("+hdel", &[probe, "a"]),
        of("+zrem", &[probe, "a"]),
        of("+zrange", &[probe, "0", "0"]),
        of("+zrangebyscore", &[probe, "0", "0"]),
        of("+zremrangebyscore", &[probe, "0", "0"]),
        of("+zscore", &[probe, "a"]),
        of("+zrank", &[probe, "a"]),
        of("+zcard", &[probe]),
        of("+zcount", &[probe, "0", "0"]),
    ]
}

/// What would leave something behind if the probe were not there.
pub(super) fn of_locks_that_create(probe: &str, has_signal: bool) -> Vec<Attempt> {
    let of = |right, arguments: &[&str]| attempt(Feature::Locks, right, &right[1..], arguments);
    let signal = has_signal.then(|| of("+lpush", &[probe, "a"]));
    [of("+hset", &[probe, "a", "1"]), of("+zadd", &[probe, "1", "a"])].into_iter().chain(signal).collect()
}

pub(super) fn of_the_rest(patient: &Patient<'_>, probe: &str) -> Vec<Attempt> {
    let options = patient.options;
    let channel = format!("{}probe", redis::channels(options));
    let mut attempts = vec![
        attempt(Feature::WakeUps, "+publish", "PUBLISH", &[&channel, "- - - probe"]),
        Attempt { feature: Feature::Listing, right: "+scan", command: redis::scan(options, "0") },
    ];
    // Beside another library's keys there are no notes.
    if options.format.is_own() {
        attempts.push(attempt(Feature::Notes, "+zrevrangebyscore", "ZREVRANGEBYSCORE", &[probe, "0", "0"]));
    }
    if options.guard().is_some() {
        attempts.push(attempt(Feature::Guard, "+eval", "EVAL", &["return 1", "0"]));
    }
    if options.replicas.is_some() {
        attempts.push(attempt(Feature::Replicas, "+wait", "WAIT", &["0", "1"]));
    }
    if matches!(options.topology, Topology::Cluster { .. }) {
        attempts.push(attempt(Feature::Cluster, "+cluster|slots", "CLUSTER", &["SLOTS"]));
        if options.guard().is_some() {
            attempts.push(attempt(Feature::Cluster, "+cluster|nodes", "CLUSTER", &["NODES"]));
        }
    }
    attempts
}
