//! Who the members are, and whether they may be.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::{Inner, Node};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Attempt, Claim};
use crate::member::Identity;

/// What is known of the members' servers. Each is asked once, before its first claim.
#[derive(Debug)]
pub(super) struct Census {
    servers: Mutex<Vec<Option<Box<str>>>>,
    /// Why this is no quorum; found once, it stays so until the members are changed.
    refused: OnceLock<String>,
}

impl Census {
    pub fn of(members: usize) -> Self {
        Self { servers: Mutex::new(vec![None; members]), refused: OnceLock::new() }
    }

    fn servers(&self) -> MutexGuard<'_, Vec<Option<Box<str>>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes down who a member is, unless it may not be one.
    fn admit(&self, index: usize, nodes: &[Node], identity: Identity) {
        let Identity { server, unfit, .. } = identity;
        let (mut servers, name) = (self.servers(), &nodes[index].name);
        let twice = servers.iter().position(|known| known.as_ref() == Some(&server)).filter(|other| *other != index);
        if let Some(other) = twice {
            let other = &nodes[other].name;
            let _ = self.refused.set(format!("{other} and {name} are the same server: its loss would be that of both"));
        }
        if let Some(why) = unfit {
            let _ = self.refused.set(format!("{name} can't be a member of a quorum: {why}"));
        }
        servers[index] = Some(server);
    }
}

impl Inner {
    /// Whether this is a quorum, as far as is known.
    ///
    /// # Errors
    /// The same server is in it twice, or one that can't be a member.
    pub(super) fn check_members(&self) -> Result<()> {
        match self.census.refused.get() {
            Some(why) => Err(Error::new(ErrorKind::Misconfigured, why.clone())),
            None => Ok(()),
        }
    }

    /// A claim to one member; who that is, is asked first, once.
    pub(super) async fn claim(&self, member: usize, claim: &Claim) -> Result<Attempt> {
        let node = &self.nodes[member];
        let is_known = self.census.servers()[member].is_some();
        if !is_known {
            // Nothing was claimed yet.
            let identity = node.member().identity().await.map_err(certainly_not)?;
            self.census.admit(member, &self.nodes, identity);
        }
        self.check_members()?;
        node.store.try_acquire(claim).await
    }
}

fn certainly_not(error: Error) -> Error {
    let is_passing = error.is_passing();
    let certain = Error::new(error.kind(), error.to_string()).with_source(error);
    if is_passing { certain.passes() } else { certain }
}
