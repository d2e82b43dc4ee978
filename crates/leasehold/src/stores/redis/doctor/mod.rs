//! What an operator should know about the servers.

mod attempts;
mod clock;
mod cluster;
mod duty;
mod failover;
mod info;
mod keys;
mod memories;
mod memory;
mod patient;
mod persistence;
mod replication;
mod rights;
mod scripts;
mod sentinels;
mod server;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};

pub(super) use self::duty::Duty;
use self::patient::Patient;
use super::address::Address;
use super::connection::{Link, Place};
use super::dial::Dial;
use super::fault::{self, Fault};
use super::options::Options;
use super::script::Scripts;
use super::servers::Servers;
use crate::error::ErrorKind;
use crate::finding::Finding;
use crate::span::Span;

/// How long the examination of a server may take: all are examined at once, and the store's answer has a limit, too.
const PATIENCE: Duration = Duration::from_secs(4);

/// Who examines servers, over connections of its own: some that can't be used can be examined all the same.
pub(super) struct Doctor<'a> {
    pub options: &'a Options,
    pub scripts: &'a Scripts,
    pub dial: &'a Dial,
    pub duty: Duty,
}

impl Doctor<'_> {
    /// What there is to say of all of them; an error only if none can be asked.
    pub async fn diagnose(&self, servers: &Servers) -> Result<Vec<Finding>, Fault> {
        let told = match servers {
            Servers::One(link) => self.examine_the_one(link).await?,
            Servers::Cluster(cluster) => self.examine_all(&cluster.masters().await?).await,
        };
        Ok([Finding::fine("server", self.options.shown.clone())].into_iter().chain(told).collect())
    }

    /// The only master, and the sentinels who name it, if some do.
    async fn examine_the_one(&self, link: &Link) -> Result<Vec<Finding>, Fault> {
        match link.place() {
            Place::Fixed(address) => self.examine(address).await,
            Place::Said(sentinels) => {
                let master = sentinels.master().await?;
                let (told, found) = join(sentinels::findings(sentinels), self.examine(&master)).await;
                Ok(told.into_iter().chain(found?).collect())
            }
        }
    }

    /// Several masters, also if one of them can't be asked.
    async fn examine_all(&self, masters: &[Arc<Link>]) -> Vec<Finding> {
        let asked = masters.iter().filter_map(|link| link.address()).map(|address| async {
            let findings = self.examine(address).await.unwrap_or_else(|fault| vec![unreachable(fault, address)]);
            (address.to_string(), findings)
        });
        merged(join_all(asked).await)
    }

    async fn examine(&self, address: &Address) -> Result<Vec<Finding>, Fault> {
        let late =
            |_| Fault::Unsent(ErrorKind::TimedOut, format!("{address} did not answer within {}", Span(PATIENCE)));
        tokio::time::timeout(PATIENCE, self.look(address)).await.map_err(late)?
    }

    async fn look(&self, address: &Address) -> Result<Vec<Finding>, Fault> {
        let patient = match Patient::meet(self, address).await {
            Ok(patient) => patient,
            Err(Fault::Sent(error)) if error.code() == Some("BUSY") => return Ok(vec![scripts::busy()]),
            Err(fault) => return Err(fault),
        };
        if let Some(wrong) = server::is_none_for_locks(&patient) {
            return Ok(vec![wrong]);
        }
        let mut findings = vec![server::version(&patient)];
        findings.extend(server::role(&patient));
        findings.extend(patient.info.iter().flat_map(memory::findings));
        findings.extend(persistence::findings(&patient));
        findings.extend(failover::findings(&patient).await);
        findings.extend(replication::finding(&patient));
        findings.extend(memories::finding(&patient).await);
        findings.extend(cluster::findings(&patient).await);
        findings.extend(rights::findings(&patient).await);
        findings.extend(clock::findings(&patient).await);
        findings.extend(keys::findings(&patient).await);
        Ok(findings)
    }
}

fn unreachable(fault: Fault, address: &Address) -> Finding {
    let why = fault::told(fault, &address.to_string());
    Finding::problem(
        "role",
        format!("a master can't be examined: {why}"),
        "see to it that it runs, or fail over to its replica",
    )
}

/// What is so everywhere is told once, and anything else with whom it is about.
fn merged(told: Vec<(String, Vec<Finding>)>) -> Vec<Finding> {
    let all = told.len();
    let mut merged: Vec<(Finding, Vec<String>)> = Vec::new();
    for (node, findings) in told {
        for finding in findings {
            match merged.iter_mut().find(|(known, _)| *known == finding) {
                Some((_, nodes)) => nodes.push(node.clone()),
                None => merged.push((finding, vec![node.clone()])),
            }
        }
    }
    let named = |(finding, nodes): (Finding, Vec<String>)| {
        if nodes.len() == all {
            return finding;
        }
        Finding { message: format!("{}: {}", nodes.join(", "), finding.message), ..finding }
    };
    let mut merged: Vec<_> = merged.into_iter().map(named).collect();
    // The nodes' findings in turn would tear subjects apart.
    let order: Vec<_> = merged.iter().map(|finding| finding.subject).collect();
    merged.sort_by_key(|finding| order.iter().position(|subject| *subject == finding.subject));
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_so_everywhere_is_told_once_and_the_rest_with_its_node() {
        let (a, b, c) = (Finding::fine("x", "a"), Finding::fine("y", "b"), Finding::fine("x", "c"));
        let told = [("n1", vec![a.clone(), b.clone()]), ("n2", vec![a.clone(), c]), ("n3", vec![a, b])];
        let merged = merged(told.map(|(node, findings)| (node.to_owned(), findings)).into());
        let told: Vec<_> = merged.iter().map(|finding| (finding.subject, &*finding.message)).collect();
        assert_eq!(told, [("x", "a"), ("x", "n2: c"), ("y", "n1, n3: b")]);
    }
}
