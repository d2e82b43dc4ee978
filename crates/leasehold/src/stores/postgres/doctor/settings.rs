//! What the server, the database and the role are set to, as it counts for our sessions.

use super::{Patient, rights};
use crate::finding::Finding;
use crate::stores::sql::Mode;

/// The release that all is tried with.
const TRIED: i32 = 150_000;

/// Shorter time-outs could end an operation on a busy server.
const SHORT_MS: i64 = 5000;

/// Shorter ones end it on any server, now and then.
const TOO_SHORT_MS: i64 = 100;

pub(super) async fn version(patient: &Patient<'_>) -> Option<Finding> {
    let number: i32 = patient.ask_for("select current_setting('server_version_num')::integer").await?;
    let shown: String = patient.ask_for("select current_setting('server_version')").await?;
    if number < 110_000 {
        let message = format!("PostgreSQL {shown} has no procedures, which locks are made of");
        return Some(Finding::problem("version", message, "use PostgreSQL 11 or later"));
    }
    let tried = if number / 10_000 == TRIED / 10_000 { "" } else { "; Leasehold is tried with 15" };
    Some(Finding::fine("version", format!("PostgreSQL {shown}{tried}")))
}

/// Whether somebody can listen in.
pub(super) fn way(patient: &Patient<'_>) -> Option<Finding> {
    if patient.options.is_open_to_readers() {
        let message = "the connection is not encrypted: who can read it learns names, and may use the session";
        return Some(Finding::warning(
            "way",
            message,
            "add sslmode=require, and ca=FILE if an authority of yours signs",
        ));
    }
    let how = if patient.options.tls.is_some() { "over TLS, and the server is checked" } else { "on this machine" };
    Some(Finding::fine("way", how))
}

pub(super) async fn findings(patient: &Patient<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_of_leases = patient.options.mode == Mode::Lease;
    // What a new session has: here it is put aside for each question.
    let timeouts = "select name, reset_val::bigint from pg_settings where reset_val::bigint > 0 and name in \
                    ('statement_timeout', 'idle_session_timeout', 'transaction_timeout')";
    for row in patient.rows(timeouts, &[]).await {
        if let (Ok(name), Ok(ms)) = (row.try_get::<_, String>(0), row.try_get::<_, i64>(1))
            && (is_of_leases || name != "idle_session_timeout")
        // Sessions that have locks set it for themselves.
        {
            findings.push(timeout(&name, ms));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::fine("time-outs", "none that ends our sessions or statements"));
    }
    if patient.ask_for::<String>("select current_setting('default_transaction_read_only')").await.as_deref()
        == Some("on")
    {
        let message = "transactions of this role or database are read-only by default: nothing can be granted";
        findings.push(Finding::problem("read-only", message, "set default_transaction_read_only = off for this role"));
    }
    if is_of_leases {
        findings.extend(durability(patient).await);
    }
    findings
}

fn timeout(name: &str, ms: i64) -> Finding {
    let message = match name {
        "idle_session_timeout" => {
            format!("{name} is {ms} ms: sessions that are idle end, and are made again when needed")
        }
        _ => format!("{name} is {ms} ms; an operation takes few, and is undone if it takes longer"),
    };
    let fix = format!("set {name} to 5 s or more for this role: alter role … set {name} = '5s'");
    match ms {
        SHORT_MS.. => Finding::fine("time-outs", message),
        // Nothing would come to its end.
        ..TOO_SHORT_MS if name != "idle_session_timeout" => Finding::problem("time-outs", message, fix),
        _ => Finding::warning("time-outs", message, fix),
    }
}

async fn durability(patient: &Patient<'_>) -> Option<Finding> {
    let row = patient.ask("select current_setting('fsync'), current_setting('synchronous_commit')", &[]).await?;
    let (fsync, commit): (String, String) = (row.try_get(0).ok()?, row.try_get(1).ok()?);
    Some(lasting(&fsync, &commit, is_arbiter(patient).await))
}

/// Whether some fallback has its route there, as far as this role may see.
async fn is_arbiter(patient: &Patient<'_>) -> bool {
    let routes = patient.table("routes");
    if !patient.has("routes").await || !rights::missing(patient, &routes, "select").await.is_empty() {
        return false;
    }
    patient.ask_for(&format!("select exists(select from {routes})")).await.unwrap_or(false)
}

/// What a crash of the server's machine forgets.
fn lasting(fsync: &str, commit: &str, is_arbiter: bool) -> Finding {
    if fsync == "off" && is_arbiter {
        let message = "it is the arbiter of a fallback, and fsync is off: a crash of its machine may take back a switch that \
                       others have acted on, or the mark of a tick, and two hold one lock";
        return Finding::problem("durability", message, "set fsync = on");
    }
    if fsync == "off" {
        let message = "fsync is off: a crash of the machine may lose or spoil everything, locks too";
        return Finding::warning("durability", message, "set fsync = on");
    }
    if commit == "off" {
        let message = "synchronous_commit is off: a crash of the machine may forget the last grants, while their holders go on. \
                       Claims with a tick or a key are on the disk all the same";
        let fix = "set synchronous_commit = on for this role, or let jobs use fences";
        return Finding::warning("durability", message, fix);
    }
    Finding::fine(
        "durability",
        format!("grants are on the disk before they are answered (synchronous_commit {commit})"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn what_a_crash_forgets_is_told() {
        let severity = |fsync, commit, is_arbiter| lasting(fsync, commit, is_arbiter).severity;
        assert_eq!(severity("off", "on", false), Severity::Warning);
        assert_eq!(severity("off", "on", true), Severity::Problem);
        // What an arbiter must not forget is on the disk whatever is set here.
        for is_arbiter in [false, true] {
            assert_eq!(severity("on", "off", is_arbiter), Severity::Warning);
            assert_eq!(severity("on", "on", is_arbiter), Severity::Fine);
        }
    }

    #[test]
    fn short_timeouts_are_told() {
        assert_eq!(timeout("statement_timeout", 1000).severity, Severity::Warning);
        assert_eq!(timeout("statement_timeout", 30_000).severity, Severity::Fine);
        assert_eq!(timeout("statement_timeout", 1).severity, Severity::Problem);
        assert_eq!(timeout("idle_session_timeout", 1).severity, Severity::Warning);
    }
}
