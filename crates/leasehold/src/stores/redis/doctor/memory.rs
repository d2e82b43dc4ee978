//! Whether there is room for locks, and whether they stay.

use super::info::Info;
use crate::finding::Finding;

pub(super) fn findings(info: &Info) -> Vec<Finding> {
    let (policy, limit, used) = (info.get("maxmemory_policy"), info.number("maxmemory"), info.number("used_memory"));
    if limit == 0 {
        return vec![Finding::fine("eviction", format!("none, for there is no limit ({policy})"))];
    }
    let shown = info.get("maxmemory_human");
    let eviction = match policy {
        "noeviction" => Finding::fine("eviction", format!("noeviction, with a limit of {shown}")),
        _ => Finding::problem(
            "eviction",
            format!("{policy} with a limit of {shown}: a full server throws locks away while they are held"),
            "CONFIG SET maxmemory-policy noeviction, or give locks a server of their own",
        ),
    };
    let message = format!("{} of {shown} used", info.get("used_memory_human"));
    let memory = if used >= limit && policy == "noeviction" {
        Finding::problem(
            "memory",
            format!("{message}: no lock is granted any more"),
            "CONFIG SET maxmemory, or make room",
        )
    } else if used.saturating_mul(10) >= limit.saturating_mul(9) {
        Finding::warning(
            "memory",
            format!("{message}: a full server grants no lock"),
            "CONFIG SET maxmemory, or make room",
        )
    } else {
        Finding::fine("memory", message)
    };
    vec![eviction, memory]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn eviction_and_a_server_that_fills_up_are_told() {
        let told = |text: &str| -> Vec<_> {
            findings(&Info::read(text)).iter().map(|finding| (finding.subject, finding.severity)).collect()
        };
        assert_eq!(told("maxmemory:0\nmaxmemory_policy:allkeys-lru"), [("eviction", Severity::Fine)]);
        for (used, policy, memory, eviction) in [
            (50, "noeviction", Severity::Fine, Severity::Fine),
            (90, "noeviction", Severity::Warning, Severity::Fine),
            (101, "noeviction", Severity::Problem, Severity::Fine),
            (50, "volatile-ttl", Severity::Fine, Severity::Problem),
        ] {
            let info = format!("maxmemory:100\nused_memory:{used}\nmaxmemory_policy:{policy}");
            assert_eq!(told(&info), [("eviction", eviction), ("memory", memory)], "{info}");
        }
    }
}
