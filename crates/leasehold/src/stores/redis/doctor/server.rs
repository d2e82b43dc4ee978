//! What server it is, and whether it is one for locks at all.

use super::info::Info;
use super::patient::Patient;
use crate::finding::Finding;
use crate::span::Span;
use crate::stores::redis::node::Node;
use crate::stores::redis::options::Topology;

/// Why there is nothing else to be said of it, if it is the wrong one.
pub(super) fn is_none_for_locks(patient: &Patient<'_>) -> Option<Finding> {
    let scheme = if patient.options.tls.is_some() { "rediss" } else { "redis" };
    let alone = matches!(patient.options.topology, Topology::One(_));
    wrong_place(patient.info.as_ref()?, alone, scheme, &patient.address.to_string())
}

fn wrong_place(info: &Info, alone: bool, scheme: &str, address: &str) -> Option<Finding> {
    match info.get("redis_mode") {
        "sentinel" => {
            let masters = info.get("master0").split(',').find_map(|part| part.strip_prefix("name="));
            let master = masters.unwrap_or("NAME");
            return Some(Finding::problem(
                "role",
                "a sentinel: it keeps no locks, it knows where the master is",
                format!("write {scheme}+sentinel://{address}/{master}, with all its sentinels"),
            ));
        }
        "cluster" if alone => {
            return Some(Finding::problem(
                "role",
                "a member of a cluster: it has only some of the names",
                format!("write {scheme}+cluster://{address}"),
            ));
        }
        _ => {}
    }
    if info.number("loading") == 1 {
        return Some(Finding::problem("role", "still loading its data: nothing can be asked of it", "wait for it"));
    }
    let master = format!("{}:{}", info.get("master_host"), info.get("master_port"));
    (info.get("role") == "slave").then(|| {
        let fix = if alone {
            format!("name its master: {scheme}://{master}")
        } else {
            "ask again: it may just be changing".into()
        };
        Finding::problem("role", format!("a replica of {master}: it takes no writes"), fix)
    })
}

pub(super) fn version(patient: &Patient<'_>) -> Finding {
    patient.info.as_ref().map_or_else(
        || Finding::warning("version", "not known: this user may not ask for INFO", "see below, rights"),
        of_version,
    )
}

fn of_version(info: &Info) -> Finding {
    let (redis, valkey, mode) = (info.get("redis_version"), info.get("valkey_version"), info.get("redis_mode"));
    let message =
        if valkey.is_empty() { format!("Redis {redis} ({mode})") } else { format!("Valkey {valkey} ({mode})") };
    match redis.split('.').next().and_then(|major| major.parse::<u32>().ok()) {
        Some(..6) => Finding::problem("version", format!("{message} knows nothing of RESP3"), "use Redis 6 or later"),
        _ => Finding::fine("version", message),
    }
}

/// What it is among others.
pub(super) fn role(patient: &Patient<'_>) -> Option<Finding> {
    let (info, node) = (patient.info.as_ref()?, Node::read(&patient.said));
    let uptime = node.uptime.unwrap_or_default();
    let replicas = match info.number("connected_slaves") {
        1 => "1 replica".into(),
        many => format!("{many} replicas"),
    };
    Some(Finding::fine("role", format!("master with {replicas}, up for {}", Span(uptime))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn a_server_in_the_wrong_place_is_told_with_the_right_url() {
        let wrong = |text: &str, alone| wrong_place(&Info::read(text), alone, "rediss", "h:1");
        for (text, fix) in [
            ("redis_mode:sentinel\nmaster0:name=jobs,status=ok,address=a:1", "write rediss+sentinel://h:1/jobs"),
            ("redis_mode:cluster\nrole:master", "write rediss+cluster://h:1"),
            ("role:slave\nmaster_host:m\nmaster_port:2", "name its master: rediss://m:2"),
            ("role:master\nloading:1", "wait for it"),
        ] {
            let finding = wrong(text, true).unwrap();
            assert!(finding.severity == Severity::Problem && finding.fix.unwrap().starts_with(fix), "{text}");
        }
        assert_eq!(wrong("redis_mode:cluster\nrole:master", false), None);
        assert_eq!(wrong("redis_mode:standalone\nrole:master", true), None);
    }

    #[test]
    fn old_servers_are_told() {
        let severity = |version: &str| of_version(&Info::read(&format!("redis_version:{version}"))).severity;
        let told = ["5.0.9", "6.2.1", "7.0.15", "8.2.0"].map(severity);
        assert_eq!(told, [Severity::Problem, Severity::Fine, Severity::Fine, Severity::Fine]);
        let valkey = of_version(&Info::read("redis_version:7.2.4\nvalkey_version:8.0.1\nredis_mode:standalone"));
        assert_eq!(valkey.message, "Valkey 8.0.1 (standalone)");
    }
}
