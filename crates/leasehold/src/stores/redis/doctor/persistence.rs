//! What a restart forgets.

use super::duty::Duty;
use super::info::Info;
use super::patient::Patient;
use crate::finding::Finding;

/// How it keeps what it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Always,
    /// All but the last second or so.
    Lately(&'static str),
    /// Since the last snapshot.
    Snapshots,
    Not,
    Unknown,
}

pub(super) fn findings(patient: &Patient<'_>) -> Vec<Finding> {
    let Some(info) = &patient.info else { return Vec::new() };
    let kept = kept(info, patient.setting("appendfsync"), patient.setting("save"));
    let stops = patient.setting("stop-writes-on-bgsave-error") != Some("no");
    let mut findings = vec![of_kept(kept, patient.options.guard().is_some(), patient.duty)];
    findings.extend(failed(info, stops && patient.setting("save") != Some("")));
    findings
}

fn kept(info: &Info, fsync: Option<&str>, save: Option<&str>) -> Kept {
    match (info.number("aof_enabled"), fsync, save) {
        (1, Some("always"), _) => Kept::Always,
        (1, Some("no"), _) => Kept::Lately("append-only file, written when the system likes (appendfsync no)"),
        (1, ..) => Kept::Lately("append-only file, written once a second (appendfsync everysec)"),
        (_, _, Some("")) => Kept::Not,
        (_, _, Some(_)) => Kept::Snapshots,
        _ => Kept::Unknown,
    }
}

fn of_kept(kept: Kept, guarded: bool, duty: Duty) -> Finding {
    let (how, forgets) = match kept {
        Kept::Always => {
            let message =
                "append-only file, written before each answer (appendfsync always): a restart forgets nothing";
            return Finding::fine("persistence", message);
        }
        Kept::Lately(how) => (how, "what came last"),
        Kept::Snapshots => ("snapshots only", "all since the last one"),
        Kept::Not => ("none", "everything"),
        Kept::Unknown => ("no append-only file", "all since the last snapshot, if there is any"),
    };
    let others = match duty {
        Duty::Alone => None,
        Duty::Member => Some("The other members remember it, and this one learns it from them: it need not be kept"),
        Duty::Primary => {
            Some("The route does not lead to what comes back, and ticks are the arbiter's: it need not be kept")
        }
    };
    if let Some(others) = others {
        return Finding::fine("persistence", format!("{how}: a restart forgets {forgets}. {others}"));
    }
    let leases = if guarded {
        "Leases are covered by the restart guard; not so ticks and keys that were done"
    } else {
        "Another may be granted a lock that is held, until its holder is told at its next renewal; ticks and keys that \
         were done may be run again"
    };
    let message = format!("{how}: a restart forgets {forgets}. {leases}");
    let fix = "CONFIG SET appendonly yes and appendfsync always";
    Finding::warning(
        "persistence",
        message,
        if guarded { fix.to_owned() } else { format!("{fix}; or restart_guard=on, for leases") },
    )
}

/// A write to the disk that failed.
fn failed(info: &Info, stops: bool) -> Option<Finding> {
    let fix = "see the server's log (often a full disk); then BGSAVE";
    if info.get("aof_last_write_status") == "err" {
        let message = "the last write to the append-only file failed: nothing is granted, renewed or released";
        return Some(Finding::problem("persistence", message, "see the server's log (often a full disk)"));
    }
    if info.get("rdb_last_bgsave_status") == "err" {
        let message = "the last snapshot failed";
        return Some(if stops {
            let message =
                format!("{message}, and so the server refuses writes: nothing is granted, renewed or released");
            Finding::problem("persistence", message, format!("{fix}, or CONFIG SET stop-writes-on-bgsave-error no"))
        } else {
            Finding::warning("persistence", message, fix)
        });
    }
    (info.get("aof_last_bgrewrite_status") == "err")
        .then(|| Finding::warning("persistence", "the append-only file could not be rewritten and grows", fix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn what_is_kept_is_told_apart() {
        let (on, off) = (Info::read("aof_enabled:1"), Info::read("aof_enabled:0"));
        assert_eq!(kept(&on, Some("always"), Some("")), Kept::Always);
        assert!(matches!(kept(&on, Some("everysec"), None), Kept::Lately(how) if how.contains("second")));
        assert!(matches!(kept(&on, Some("no"), None), Kept::Lately(how) if how.contains("system")));
        assert_eq!(kept(&off, Some("always"), Some("3600 1")), Kept::Snapshots);
        assert_eq!(kept(&off, Some("always"), Some("")), Kept::Not);
        assert_eq!(kept(&off, None, None), Kept::Unknown);
        assert_eq!(of_kept(Kept::Always, false, Duty::Alone).severity, Severity::Fine);
        for duty in [Duty::Member, Duty::Primary] {
            assert_eq!(of_kept(Kept::Not, false, duty).severity, Severity::Fine);
        }
        assert!(of_kept(Kept::Not, true, Duty::Alone).message.contains("covered by the restart guard"));
        assert!(of_kept(Kept::Not, false, Duty::Alone).fix.unwrap().contains("restart_guard=on"));
    }

    #[test]
    fn what_could_not_be_written_is_told_with_what_it_costs() {
        let severity = |text: &str, stops| failed(&Info::read(text), stops).map(|finding| finding.severity);
        assert_eq!(severity("rdb_last_bgsave_status:err", true), Some(Severity::Problem));
        assert_eq!(severity("rdb_last_bgsave_status:err", false), Some(Severity::Warning));
        assert_eq!(severity("aof_last_write_status:err", false), Some(Severity::Problem));
        assert_eq!(severity("aof_last_bgrewrite_status:err", true), Some(Severity::Warning));
        assert_eq!(severity("rdb_last_bgsave_status:ok\naof_last_write_status:ok", true), None);
    }
}
