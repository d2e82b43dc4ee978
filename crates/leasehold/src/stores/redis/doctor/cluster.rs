//! Whether a cluster is whole.

use super::patient::{Patient, command};
use crate::finding::Finding;
use crate::stores::redis::answer;
use crate::stores::redis::options::Topology;

const SUBJECT: &str = "cluster";

pub(super) async fn findings(patient: &Patient<'_>) -> Vec<Finding> {
    if !matches!(patient.options.topology, Topology::Cluster { .. }) {
        return Vec::new();
    }
    let asked = [command("CLUSTER", &["INFO"]), command("CLUSTER", &["NODES"])];
    let Ok(answers) = patient.ask(&asked).await else { return Vec::new() };
    let texts: Vec<_> = answers.into_iter().map(|answer| answer.ok().as_ref().and_then(answer::text)).collect();
    let [state, nodes] = texts.as_slice() else { return Vec::new() };
    let mut findings = Vec::new();
    if let Some(state) = state {
        findings.push(whole(state, patient.setting("cluster-require-full-coverage")));
    }
    findings.extend(nodes.as_ref().and_then(|nodes| failing(nodes)));
    findings
}

/// What `CLUSTER INFO` comes to.
fn whole(state: &str, full_coverage: Option<&str>) -> Finding {
    let get = |field: &str| {
        let mut lines = state.lines().filter_map(|line| line.trim().split_once(':'));
        lines.find(|(name, _)| *name == field).map_or("", |(_, value)| value)
    };
    let missing = 16384 - get("cluster_slots_ok").parse().unwrap_or(0).min(16384);
    let stops = match full_coverage {
        Some("no") => "the names in slots that nobody has are out of reach, the others work on",
        _ => "while any slot has no master, no lock works at all (cluster-require-full-coverage)",
    };
    let sizes = format!("{} nodes, {} masters with slots", get("cluster_known_nodes"), get("cluster_size"));
    if get("cluster_state") != "ok" || missing > 0 {
        let state = get("cluster_state");
        return Finding::problem(
            SUBJECT,
            format!("state {state}, {missing} slots without a master; {stops}"),
            "redis-cli --cluster fix, or start the nodes that are missing",
        );
    }
    Finding::fine(SUBJECT, format!("ok, all slots have a master; {sizes}; {stops}"))
}

/// The nodes that `CLUSTER NODES` calls failing.
fn failing(nodes: &str) -> Option<Finding> {
    let failing = |line: &str| {
        let mut parts = line.split(' ').skip(1);
        let (address, flags) = (parts.next()?, parts.next()?);
        let fails = flags.split(',').any(|flag| matches!(flag, "fail" | "fail?" | "noaddr"));
        fails.then(|| format!("{} ({flags})", address.split('@').next().unwrap_or(address)))
    };
    let mut names: Vec<_> = nodes.lines().filter_map(failing).collect();
    names.sort_unstable();
    (!names.is_empty()).then(|| {
        Finding::warning(
            SUBJECT,
            format!("nodes that fail: {}", names.join(", ")),
            "start them, or CLUSTER FORGET those that are gone for good",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn a_cluster_that_is_not_whole_is_a_problem_and_what_it_costs_is_told() {
        let state = |state, slots| {
            format!("cluster_state:{state}\r\ncluster_slots_ok:{slots}\r\ncluster_known_nodes:6\r\ncluster_size:3\r\n")
        };
        let fine = whole(&state("ok", 16384), Some("yes"));
        assert!(fine.severity == Severity::Fine && fine.message.contains("6 nodes, 3 masters"), "{fine:?}");
        let sick = whole(&state("fail", 16380), Some("yes"));
        assert!(sick.severity == Severity::Problem && sick.message.contains("4 slots"), "{sick:?}");
        assert!(whole(&state("ok", 16380), Some("no")).message.contains("others work on"));
    }

    #[test]
    fn nodes_that_fail_are_named() {
        let nodes = "a 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-16383\n\
                     b 127.0.0.1:3@4 slave,fail a 1 2 1 disconnected\n\
                     c 127.0.0.1:5@6 master,fail? - 1 2 1 disconnected\n";
        assert_eq!(
            failing(nodes).unwrap().message,
            "nodes that fail: 127.0.0.1:3 (slave,fail), 127.0.0.1:5 (master,fail?)"
        );
        assert_eq!(failing(nodes.lines().next().unwrap()), None);
    }
}
