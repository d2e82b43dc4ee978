//! What makes a server another one, though it goes on with its data.

use std::time::Duration;

use super::duty::Duty;
use super::patient::Patient;
use crate::finding::Finding;
use crate::span::Span;

const SUBJECT: &str = "replication";

pub(super) fn finding(patient: &Patient<'_>) -> Option<Finding> {
    let has_backlog = patient.info.as_ref()?.number("repl_backlog_active") == 1;
    of_backlog(has_backlog, patient.number("repl-backlog-ttl")?, patient.duty)
}

/// One that never had a replica has no backlog, and no reason to change.
fn of_backlog(has_backlog: bool, ttl: u64, duty: Duty) -> Option<Finding> {
    let costs = match duty {
        Duty::Alone => return None,
        Duty::Member => {
            "it counts as one that came back: it grants nothing for max_ttl, and has to learn from the others again"
        }
        Duty::Primary => {
            "the route follows it as if it had been replaced: nothing is granted meanwhile, and holds go along"
        }
    };
    if ttl == 0 || !has_backlog {
        return Some(Finding::fine(SUBJECT, "its replication id stays as it is, until a first replica is attached"));
    }
    let when = Span(Duration::from_secs(ttl));
    let message = format!(
        "{when} after its last replica is gone it gets another replication id (repl-backlog-ttl); then {costs}"
    );
    Some(Finding::warning(SUBJECT, message, "CONFIG SET repl-backlog-ttl 0, and CONFIG REWRITE"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn only_who_has_had_replicas_and_is_part_of_something_changes_to_its_cost() {
        assert_eq!(of_backlog(true, 3600, Duty::Alone), None);
        for duty in [Duty::Member, Duty::Primary] {
            let severity = |has_backlog, ttl| of_backlog(has_backlog, ttl, duty).unwrap().severity;
            assert_eq!(severity(true, 3600), Severity::Warning);
            assert_eq!([severity(true, 0), severity(false, 3600)], [Severity::Fine; 2]);
        }
    }
}
