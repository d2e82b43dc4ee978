//! Several hosts of one URL: whether they are one server and its standbys.

use std::time::Duration;

use super::super::hosts::{self, Identity};
use super::Patient;
use crate::finding::Finding;

/// How long a host may take to say who it is.
const PATIENCE: Duration = Duration::from_millis(1500);

const ONE: &str = "name one server and its own standbys; end the other one, or have it follow again";

pub(super) async fn findings(patient: &Patient<'_>) -> Vec<Finding> {
    if !patient.options.has_several_hosts() {
        return Vec::new();
    }
    told(&hosts::all(patient.options, PATIENCE).await)
}

fn told(hosts: &[(String, Option<Identity>)]) -> Vec<Finding> {
    let known: Vec<_> = hosts.iter().filter_map(|(host, who)| Some((host, who.as_ref()?))).collect();
    let mut findings = Vec::new();
    if let Some(((one, a), (other, b))) = pairs(&known).find(|((_, a), (_, b))| a.cluster != b.cluster) {
        let message = format!(
            "{one} and {other} are no copies of one another (system_identifier {} and {}): each grants the same locks",
            a.cluster, b.cluster
        );
        findings.push(Finding::problem("hosts", message, ONE));
    }
    // Two names of one server are no two servers.
    let both_lead =
        |a: &Identity, b: &Identity| a.cluster == b.cluster && !a.is_standby && !b.is_standby && a.started != b.started;
    if let Some(((one, _), (other, _))) = pairs(&known).find(|((_, a), (_, b))| both_lead(a, b)) {
        let message = format!("{one} and {other} both take writes: each grants the same locks");
        findings.push(Finding::problem("hosts", message, ONE));
    }
    for (host, _) in hosts.iter().filter(|(_, who)| who.is_none()) {
        let message = format!("{host} does not say who it is: it is down, or can't be reached or asked by this role");
        findings.push(Finding::warning("hosts", message, "start it, or take it out of the URL"));
    }
    if findings.is_empty() {
        findings.push(Finding::fine("hosts", "one of them takes writes, and the others are its standbys"));
    }
    findings
}

fn pairs<T: Copy>(all: &[T]) -> impl Iterator<Item = (T, T)> {
    all.iter().enumerate().flat_map(|(nth, &one)| all[nth + 1..].iter().map(move |&other| (one, other)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn two_that_lead_are_told_and_two_names_of_one_are_not() {
        let server = |cluster: &str, is_standby, started: &str| {
            Some(Identity { cluster: cluster.into(), is_standby, started: started.into() })
        };
        let worst = |a, b| {
            let findings = told(&[("a".into(), a), ("b".into(), b)]);
            findings.iter().map(|finding| finding.severity).max()
        };
        let first = || server("1", false, "noon");
        assert_eq!(worst(first(), server("1", true, "one")), Some(Severity::Fine));
        assert_eq!(worst(first(), first()), Some(Severity::Fine));
        assert_eq!(worst(first(), server("1", false, "one")), Some(Severity::Problem));
        assert_eq!(worst(first(), server("2", true, "noon")), Some(Severity::Problem));
        assert_eq!(worst(first(), None), Some(Severity::Warning));
    }
}
