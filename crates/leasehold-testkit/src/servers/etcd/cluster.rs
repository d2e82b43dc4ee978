//! Three members that are a cluster.

use super::server::LIMIT;
use super::{Etcd, EtcdOptions};
use crate::process::eventually;

/// An etcd cluster of three members on 127.0.0.1.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<Etcd>,
}

impl EtcdCluster {
    /// Starts three members and waits until all know their leader.
    ///
    /// # Panics
    /// If there is no `etcd`.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&EtcdOptions::default())
    }

    /// The same with options, which all members have.
    ///
    /// # Panics
    /// If there is no `etcd`, or it doesn't take the options.
    #[must_use]
    pub fn start_with(options: &EtcdOptions) -> Self {
        let mut members: Vec<_> = ["a", "b", "c"].map(|name| Etcd::prepared(name, options)).into();
        let cluster = members.iter().map(Etcd::peer_of_cluster).collect::<Vec<_>>().join(",");
        for member in &mut members {
            member.join(&cluster);
        }
        for member in &members {
            member.wait_until_it_answers().unwrap_or_else(|log| panic!("etcd does not start: {log}"));
        }
        Self { members }
    }

    /// Its members.
    #[must_use]
    pub fn members(&self) -> &[Etcd] {
        &self.members
    }

    /// Where clients find all of them.
    #[must_use]
    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.members.iter().map(Etcd::address).collect();
        format!("{}://{}", self.members[0].url().split(':').next().unwrap_or_default(), addresses.join(","))
    }

    /// The place of the leader among the members.
    ///
    /// # Panics
    /// If there is none for long.
    #[must_use]
    pub fn leader(&self) -> usize {
        let mut leader = None;
        eventually("there is a leader", LIMIT, || {
            leader = self.members.iter().position(|member| member.metric("etcd_server_is_leader ") == Some(1.0));
            leader.is_some()
        });
        leader.expect("it was just found")
    }

    /// Has another member lead; answers which.
    ///
    /// # Panics
    /// If it can't be had.
    pub fn move_leader(&self) -> usize {
        let leader = self.leader();
        let next = (leader + 1) % self.members.len();
        let status = self.members[next].command(&["endpoint", "status", "--write-out=simple"]);
        let id = status.split(", ").nth(1).expect("the second column is the member's id").to_owned();
        self.members[leader].command(&["move-leader", &id]);
        eventually("the other one leads", LIMIT, || self.members[next].metric("etcd_server_is_leader ") == Some(1.0));
        next
    }

    /// Makes it whole again: all members run, and know a leader.
    ///
    /// # Panics
    /// If that can't be.
    pub fn mend(&self) {
        for member in &self.members {
            member.resume();
            if !member.is_healthy() {
                member.restart();
            }
        }
    }
}
