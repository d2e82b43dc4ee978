//! What a failover may lose, and what other nodes don't know.

use super::Patient;
use crate::finding::Finding;
use crate::stores::sql::Mode;

pub(super) async fn findings(patient: &mut Patient<'_>) -> Option<Finding> {
    let is_of_sessions = patient.options.kind == Mode::Advisory;
    if patient.is_on("wsrep_on") {
        return Some(if is_of_sessions { galera_has_no_session_locks() } else { galera() });
    }
    if !patient.is_on("log_bin") {
        return Some(Finding::fine("failover", "it logs nothing for replicas"));
    }
    let waits = ["rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled"].iter().any(|name| patient.is_on(name));
    let following = "select count(*) from information_schema.processlist where command like 'Binlog Dump%'";
    let replicas = patient.number(following).await?;
    Some(if is_of_sessions { of_sessions(replicas) } else { failover(replicas, waits) })
}

fn galera_has_no_session_locks() -> Finding {
    let message =
        "this is a node of a Galera cluster (wsrep_on), whose nodes do not know one another's locks: all is refused";
    Finding::problem("galera", message, "leave out mode=advisory: the lease table works there")
}

/// Locks of sessions are in no log.
fn of_sessions(replicas: i64) -> Finding {
    if replicas == 0 {
        return Finding::fine("failover", "no replica follows that this user can see");
    }
    let message = format!(
        "{replicas} follow, and know none of these locks: once one is promoted it grants them anew, while holders go on whose \
         sessions the old primary has not ended"
    );
    let fix =
        "stop the old primary, or make it read_only, before another is promoted; or use the lease table and fences";
    Finding::warning("failover", message, fix)
}

fn galera() -> Finding {
    Finding::warning(
        "galera",
        "this is a node of a Galera cluster: a fence locks rows on one node only, and the others hear of a grant a moment \
         later",
        "name one node, the same for all locks and fenced transactions, and keep the others for when it fails",
    )
}

fn failover(replicas: i64, waits: bool) -> Finding {
    match (replicas, waits) {
        (0, false) => Finding::fine("failover", "no replica follows that this user can see"),
        (_, true) => Finding::warning(
            "failover",
            "replicas are waited for (semi-synchronous), but only until a time-out: after that, a promoted one may not know \
             the last grants and ticks",
            "set the time-out higher than an outage lasts, and promote only a replica that was waited for",
        ),
        (n, false) => Finding::warning(
            "failover",
            format!(
                "{n} follow asynchronously: a promoted one may not know the last grants, whose holders learn of it at their \
                 next renewal, nor the last ticks and keys"
            ),
            "use semi-synchronous replication, stop the jobs for a TTL at a failover, or let them use fences",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn what_may_be_lost_is_told() {
        assert_eq!(failover(0, false).severity, Severity::Fine);
        assert_eq!((failover(2, false).severity, failover(1, true).severity), (Severity::Warning, Severity::Warning));
        assert!(galera().message.contains("fence"));
        assert_eq!((of_sessions(0).severity, of_sessions(1).severity), (Severity::Fine, Severity::Warning));
    }
}
