//! The servers that are one store.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use super::cluster::Cluster;
use super::connection::{Answers, Call, Link, Place, Terms};
use super::dial::Dial;
use super::fault::Fault;
use super::options::Topology;
use super::script::Script;
use super::sentinel::Sentinels;
use crate::error::ErrorKind;

/// One master that has everything, or several that share it.
pub(super) enum Servers {
    One(Arc<Link>),
    Cluster(Box<Cluster>),
}

impl Servers {
    /// Servers that are connected to when they are first used.
    pub fn new(topology: &Topology, terms: Terms) -> Self {
        let place = match topology.clone() {
            Topology::One(address) => Place::Fixed(address),
            Topology::Sentinel { sentinels, master, login } => {
                let dial = Dial { login, tls: terms.dial.tls.clone() };
                Place::Said(Sentinels { addresses: sentinels, name: master, dial })
            }
            Topology::Cluster { seeds } => return Self::Cluster(Box::new(Cluster::new(seeds, Arc::new(terms)))),
        };
        Self::One(Arc::new(Link::new(place, Arc::new(terms))))
    }

    /// Runs a script, once for each call. Calls to several servers are given up after `limit`, each on its own: one that
    /// hangs keeps no answer of the others back.
    pub async fn call(&self, script: &Script, calls: &[Call<'_>], limit: Duration) -> Answers {
        match self {
            Self::One(link) => link.call(script, calls, false).await,
            // Apart: it is large, and calls of one server need not carry the room for it about.
            Self::Cluster(cluster) => Box::pin(cluster.call(script, calls, limit)).await,
        }
    }

    /// All masters.
    pub async fn masters(&self) -> Result<Vec<Arc<Link>>, Fault> {
        match self {
            Self::One(link) => Ok(vec![Arc::clone(link)]),
            Self::Cluster(cluster) => cluster.masters().await,
        }
    }

    /// What the server is that is connected, if it is one alone, and as far as it has said.
    pub fn life(&self) -> Option<Arc<str>> {
        match self {
            Self::One(link) => link.life(),
            Self::Cluster(_) => None,
        }
    }

    /// Asks one of the masters.
    pub async fn ask(&self, master: &Arc<Link>, command: &Cmd) -> Result<Value, Fault> {
        let answer = master.ask(command).await;
        if let Self::Cluster(cluster) = self {
            cluster.notice(&answer);
        }
        answer
    }

    /// Asks any of the masters; the next one, if it can't be asked.
    pub async fn ask_any(&self, command: &Cmd) -> Result<Value, Fault> {
        let mut masters = self.masters().await?;
        masters.sort_by_key(|master| !master.is_up() || master.is_silent());
        let mut answer = Err(Fault::Unsent(ErrorKind::Unavailable, "there is no master".into()));
        for master in masters {
            answer = self.ask(&master, command).await;
            if !matches!(answer, Err(Fault::Unsent(..))) {
                break;
            }
        }
        answer
    }

    /// Whether two names can't be asked about in one call.
    pub fn are_many(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }
}
