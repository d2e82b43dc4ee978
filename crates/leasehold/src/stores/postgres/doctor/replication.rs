//! What a failover may lose.

use super::Patient;
use crate::finding::Finding;
use crate::stores::sql::Mode;

pub(super) async fn is_standby(patient: &Patient<'_>) -> Option<Finding> {
    let is_standby: bool = patient.ask_for("select pg_is_in_recovery()").await?;
    let message = "this is a standby, which takes no writes";
    is_standby.then(|| Finding::problem("role", message, "name the primary, or all hosts: postgres://a,b/database"))
}

pub(super) async fn findings(patient: &Patient<'_>) -> Option<Finding> {
    let standbys: i64 = patient.ask_for("select count(*) from pg_stat_replication").await?;
    if patient.options.mode == Mode::Advisory {
        return Some(of_sessions(standbys));
    }
    let row = patient
        .ask("select current_setting('synchronous_standby_names'), current_setting('synchronous_commit')", &[])
        .await?;
    let (names, commit): (String, String) = (row.try_get(0).ok()?, row.try_get(1).ok()?);
    Some(failover(standbys, !names.is_empty() && !["off", "local"].contains(&&*commit)))
}

/// Locks of sessions are in no log.
fn of_sessions(standbys: i64) -> Finding {
    if standbys == 0 {
        return Finding::fine("failover", "no standby follows that this role can see");
    }
    let message = format!(
        "{standbys} follow, and know none of these locks: once one is promoted it grants them anew, while holders go on whose \
         sessions the old primary has not ended"
    );
    let fix =
        "stop the old primary before another is promoted, or use the lease table (leave out mode=advisory) and fences";
    Finding::warning("failover", message, fix)
}

fn failover(standbys: i64, waits: bool) -> Finding {
    match (standbys, waits) {
        (0, false) => Finding::fine("failover", "no standby follows that this role can see"),
        (0, true) => Finding::warning(
            "failover",
            "commits wait for a standby, and none follows that this role can see: nothing is granted while that is so",
            "start the standby, or clear synchronous_standby_names",
        ),
        (n, true) => Finding::fine("failover", format!("{n} follow, and a grant waits for as many as is set")),
        (n, false) => Finding::warning(
            "failover",
            format!(
                "{n} follow asynchronously: a promoted one may not know the last grants, whose holders learn of it at their \
                 next renewal, nor the last ticks and keys"
            ),
            "set synchronous_standby_names, stop the jobs for a TTL at a failover, or let them use fences",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn who_follows_asynchronously_is_told() {
        let severity = |standbys, waits| failover(standbys, waits).severity;
        assert_eq!(severity(1, false), Severity::Warning);
        assert_eq!((severity(0, false), severity(2, true)), (Severity::Fine, Severity::Fine));
        assert_eq!(severity(0, true), Severity::Warning);
    }
}
