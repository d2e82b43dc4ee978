//! Whether a lock has one holder also when a replica takes over.

use std::time::Duration;

use super::duty::Duty;
use super::info::Info;
use super::patient::Patient;
use crate::finding::Finding;
use crate::span::Span;
use crate::stores::redis::fault;
use crate::stores::redis::node::Node;
use crate::stores::redis::options::Topology;
use crate::stores::redis::restart_guard::stops_within;

/// A replica that has not been heard of for so long is told.
const LATE: u64 = 10;

/// What decides on it (docs/stores/redis.md).
struct Terms {
    replicas: u64,
    /// How many replicas each grant and renewal waits for.
    waits_for: u64,
    guard: Option<Duration>,
    /// For how long a master that was replaced goes on, if that is known. None at all: this user may not ask.
    stops: Option<Option<Duration>>,
    /// Whether anybody would promote one.
    is_alone: bool,
    duty: Duty,
}

pub(super) async fn findings(patient: &Patient<'_>) -> Vec<Finding> {
    let mut findings = vec![guard(patient).await];
    let Some(info) = &patient.info else { return findings };
    let replicas = info.number("connected_slaves");
    let settings = patient.number("min-replicas-to-write").zip(patient.number("min-replicas-max-lag"));
    let terms = Terms {
        replicas,
        waits_for: patient.options.replicas.map_or(0, |wanted| wanted.get().into()),
        guard: patient.options.guard(),
        stops: settings.map(|(to_write, max_lag)| stops_within(to_write, max_lag, replicas)),
        is_alone: matches!(patient.options.topology, Topology::One(_)),
        duty: patient.duty,
    };
    findings.extend(lag(info).filter(|_| patient.duty == Duty::Alone));
    findings.push(terms.failover());
    findings
}

/// The restart guard, and whether it holds grants up now.
async fn guard(patient: &Patient<'_>) -> Finding {
    let subject = "restart guard";
    if patient.duty == Duty::Primary {
        let message = "without a say: the route leads to one data set, and what was restarted or promoted is another";
        return Finding::fine(subject, message);
    }
    let Some(guard) = patient.options.restart_guard() else {
        if patient.duty == Duty::Member {
            let message = "off: a member that came back would grant what others still hold, and is refused";
            return Finding::problem(subject, message, "write restart_guard=on");
        }
        return Finding::fine(subject, "off: grants begin as soon as the server does, whatever it has forgotten");
    };
    let max_ttl = guard.max_ttl;
    let standing = guard.examine(&mut patient.connection.clone(), &Node::read(&patient.said)).await;
    match standing.map(|standing| (standing.grants_in(), standing.largest)) {
        Ok((None, largest)) if largest > max_ttl => Finding::warning(
            subject,
            format!(
                "on, for {}: other clients give that as max_ttl, and {} stands in this URL. Should the server lose its data it \
                 may wait for that alone, and grant what they hold still",
                Span(largest),
                Span(max_ttl)
            ),
            format!("write max_ttl={} in the URLs of all clients", largest.as_secs_f64().ceil()),
        ),
        Ok((None, _)) => {
            Finding::fine(subject, format!("on, for {} (max_ttl) after a restart or a promotion; over", Span(max_ttl)))
        }
        Ok((Some(left), _)) => Finding::warning(
            subject,
            format!("the server was started or promoted lately: nothing is granted for {} more", Span(left)),
            "wait; a smaller max_ttl makes it shorter, and so are all TTLs then",
        ),
        Err(fault) => {
            let why = fault::told(fault, &patient.options.shown);
            Finding::problem(
                subject,
                format!("{why}: nothing is granted"),
                "ACL SETUSER … +info +cluster|nodes, or restart_guard=off",
            )
        }
    }
}

fn lag(info: &Info) -> Option<Finding> {
    let behind = |replica: &std::collections::HashMap<&str, &str>| {
        let lag = replica.get("lag").and_then(|lag| lag.parse().ok()).unwrap_or(0);
        let state = replica.get("state").copied().unwrap_or_default();
        let place = format!("{}:{}", replica.get("ip").unwrap_or(&"?"), replica.get("port").unwrap_or(&"?"));
        (state != "online" || lag > LATE).then(|| format!("{place} ({state}, last heard of {lag} s ago)"))
    };
    let late: Vec<_> = info.replicas().iter().filter_map(behind).collect();
    (!late.is_empty()).then(|| {
        let message = format!("replicas that are behind: {}", late.join(", "));
        Finding::warning("replicas", message, "see to them: one that is promoted doesn't know of the last grants")
    })
}

impl Terms {
    fn failover(&self) -> Finding {
        let Self { replicas, waits_for, .. } = *self;
        if waits_for > replicas {
            return Finding::problem(
                "failover",
                format!("wait_replicas={waits_for}, and there are {replicas}: nothing is granted or renewed"),
                format!("wait_replicas={replicas}, or add replicas"),
            );
        }
        match self.duty {
            Duty::Alone => {}
            Duty::Member => {
                let message =
                    "what takes its place is a member that came back: it learns from the others before it counts";
                return Finding::fine("failover", message);
            }
            Duty::Primary => {
                let message = "what takes its place is another one to the route: exclusion survives it";
                return Finding::fine("failover", message);
            }
        }
        match (replicas, self.is_alone) {
            (0, true) => return Finding::fine("failover", "no replica could be promoted"),
            (0, false) => {
                let message =
                    "without a replica: when this master is gone, its locks are out of reach until it is back";
                return Finding::warning("failover", message, "add a replica");
            }
            _ if waits_for == replicas => {
                let which = if replicas == 1 { "the only replica".into() } else { format!("all {replicas} replicas") };
                let message = format!("every grant and renewal waits for {which}: exclusion survives a failover");
                return Finding::fine("failover", message);
            }
            _ => {}
        }
        match (self.guard, self.stops) {
            (Some(guard), Some(Some(stops))) => Finding::fine(
                "failover",
                format!(
                    "exclusion survives it: a master without its {} stops within {} \
                     (min-replicas-to-write), and nobody is granted anything for {} after",
                    if replicas == 1 { "only replica".into() } else { format!("{replicas} replicas") },
                    Span(stops),
                    Span(guard + stops)
                ),
            ),
            (Some(_), Some(None)) => Finding::warning(
                "failover",
                "exclusion survives it only if the old master is dead: one that is cut off goes on granting and \
                 renewing, for it does not need all of its replicas",
                self.remedy(),
            ),
            (Some(_), None) => Finding::warning(
                "failover",
                "this user may not ask what stops an old master (CONFIG GET), so it is taken to go on",
                format!("ACL SETUSER … +config|get; {}", self.remedy()),
            ),
            (None, _) => Finding::warning(
                "failover",
                "exclusion does not survive it: replication is asynchronous, and the replica that is promoted may not know of the \
                 last grants",
                format!("restart_guard=on, and {}", self.remedy()),
            ),
        }
    }

    fn remedy(&self) -> String {
        let replicas = self.replicas;
        format!(
            "CONFIG SET min-replicas-to-write {replicas} and min-replicas-max-lag 10 (all replicas, or any that \
             is left keeps an old master going); or wait_replicas={replicas}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    const STOPS: Option<Option<Duration>> = Some(Some(Duration::from_secs(12)));
    const GUARD: Option<Duration> = Some(Duration::from_secs(60));

    fn told(
        replicas: u64,
        waits_for: u64,
        guard: Option<Duration>,
        stops: Option<Option<Duration>>,
    ) -> (Severity, String) {
        let finding = Terms { replicas, waits_for, guard, stops, is_alone: false, duty: Duty::Alone }.failover();
        (finding.severity, finding.message + " / " + &finding.fix.unwrap_or_default())
    }

    /// The rows of the model: which of them hold.
    #[test]
    fn what_survives_a_failover_and_what_does_not() {
        for (replicas, waits_for, guard, stops, severity, says) in [
            (2, 0, GUARD, STOPS, Severity::Fine, "for 1m12s after"),
            (2, 2, None, Some(None), Severity::Fine, "waits for all 2"),
            (2, 1, GUARD, Some(None), Severity::Warning, "only if the old master is dead"),
            (2, 0, GUARD, Some(None), Severity::Warning, "min-replicas-to-write 2"),
            (2, 0, GUARD, None, Severity::Warning, "+config|get"),
            (2, 0, None, STOPS, Severity::Warning, "restart_guard=on"),
            (2, 3, GUARD, STOPS, Severity::Problem, "wait_replicas=2"),
            (0, 1, GUARD, STOPS, Severity::Problem, "there are 0"),
            (0, 0, GUARD, STOPS, Severity::Warning, "add a replica"),
        ] {
            let found = told(replicas, waits_for, guard, stops);
            assert!(
                found.0 == severity && found.1.contains(says),
                "{replicas} {waits_for} {guard:?} {stops:?}: {found:?}"
            );
        }
    }

    #[test]
    fn replicas_that_are_behind_are_named() {
        let lag = |text: &str| lag(&Info::read(text)).map(|finding| finding.message);
        assert_eq!(lag("connected_slaves:1\nslave0:ip=h,port=1,state=online,offset=1,lag=1"), None);
        let late = lag(
            "connected_slaves:2\nslave0:ip=h,port=1,state=online,lag=99\nslave1:ip=h,port=2,state=wait_bgsave,lag=0",
        );
        let late = late.unwrap();
        assert!(late.contains("h:1 (online, last heard of 99 s ago), h:2 (wait_bgsave"), "{late}");
    }
}
