//! What an operator should know about the server.

use std::collections::HashMap;
use std::time::Duration;

use crate::finding::Finding;

/// What `INFO` says, by field.
pub(super) struct Info {
    fields: HashMap<String, String>,
}

impl Info {
    pub fn read(text: &str) -> Self {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Self { fields: fields.map(|(field, value)| (field.to_owned(), value.trim().to_owned())).collect() }
    }

    fn get(&self, field: &str) -> &str {
        self.fields.get(field).map_or("", String::as_str)
    }

    fn number(&self, field: &str) -> u64 {
        self.get(field).parse().unwrap_or(0)
    }
}

/// A round trip slower than this eats into short TTLs.
const SLOW: Duration = Duration::from_millis(50);

/// What the server says of itself; none if this user may not ask.
pub(super) fn diagnose(shown: &str, info: Option<&Info>, round_trip: Duration) -> Vec<Finding> {
    let mut findings = vec![Finding::fine("server", shown.to_owned()), latency(round_trip)];
    match info {
        Some(info) => findings.extend([version(info), role(info), eviction(info), persistence(info)]),
        None => findings.push(Finding::warning(
            "rights",
            "this user may not ask for INFO, so eviction, persistence and replication can't be examined",
            "ACL SETUSER … +info",
        )),
    }
    findings
}

fn latency(round_trip: Duration) -> Finding {
    let message = format!("{round_trip:.1?} for a round trip");
    if round_trip > SLOW {
        return Finding::warning("latency", message, "give locks a TTL of many round trips, or move the server nearer");
    }
    Finding::fine("latency", message)
}

fn version(info: &Info) -> Finding {
    let message = format!("{} ({})", info.get("redis_version"), info.get("redis_mode"));
    match info.get("redis_mode") {
        "cluster" => Finding::problem(
            "version",
            format!("{message}: a member of a cluster, which this store does not follow"),
            "use a server that is alone",
        ),
        _ => Finding::fine("version", message),
    }
}

fn role(info: &Info) -> Finding {
    if info.get("role") != "master" {
        let master = format!("{}:{}", info.get("master_host"), info.get("master_port"));
        return Finding::problem("role", format!("a replica of {master}: it takes no writes"), "name the master");
    }
    match info.number("connected_slaves") {
        0 => Finding::fine("role", "master, without replicas"),
        replicas => Finding::warning(
            "role",
            format!(
                "master with replicas: {replicas}. Replication is asynchronous: a promoted replica may not know of the last grants"
            ),
            "after a failover two may hold a lock for up to a TTL; let the job's writes check the fencing token",
        ),
    }
}

fn eviction(info: &Info) -> Finding {
    let policy = info.get("maxmemory_policy");
    if info.number("maxmemory") == 0 || policy == "noeviction" {
        return Finding::fine("eviction", format!("{policy}, limit {}", info.get("maxmemory_human")));
    }
    Finding::problem(
        "eviction",
        format!(
            "{policy} with a limit of {}: a full server throws locks away while they are held",
            info.get("maxmemory_human")
        ),
        "CONFIG SET maxmemory-policy noeviction, or give locks a server of their own",
    )
}

fn persistence(info: &Info) -> Finding {
    if info.number("aof_enabled") == 1 {
        return Finding::fine("persistence", "append-only file");
    }
    Finding::warning(
        "persistence",
        "no append-only file: a restart forgets locks that are held, and which ticks and keys were done",
        "CONFIG SET appendonly yes (with appendfsync always for --once-per and --once-key)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    fn worst(info: &str) -> (Severity, String) {
        let found = diagnose("redis://h", Some(&Info::read(info)), Duration::from_millis(1));
        let worst = found.into_iter().max_by_key(|finding| finding.severity).unwrap();
        (worst.severity, format!("{}: {}", worst.subject, worst.message))
    }

    #[test]
    fn what_is_not_safe_is_a_problem() {
        let good = "redis_mode:standalone\r\nrole:master\r\nconnected_slaves:0\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\naof_enabled:1\r\n";
        assert_eq!(worst(good).0, Severity::Fine);
        for (bad, severity, says) in [
            ("maxmemory:100", Severity::Problem, "eviction: allkeys-lru"),
            ("role:slave", Severity::Problem, "role: a replica"),
            ("redis_mode:cluster", Severity::Problem, "version:"),
            ("connected_slaves:2", Severity::Warning, "role: master with replicas: 2"),
            ("aof_enabled:0", Severity::Warning, "persistence: no append-only"),
        ] {
            let found = worst(&format!("{good}{bad}\r\n"));
            assert!(found.0 == severity && found.1.contains(says), "{bad}: {found:?}");
        }
    }

    #[test]
    fn who_may_not_ask_is_told_what_was_not_examined() {
        let found = diagnose("redis://h", None, Duration::from_secs(1));
        let warnings: Vec<_> = found.iter().filter(|finding| finding.severity == Severity::Warning).collect();
        assert_eq!(warnings.iter().map(|finding| finding.subject).collect::<Vec<_>>(), ["latency", "rights"]);
    }
}
