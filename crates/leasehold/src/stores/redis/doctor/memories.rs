//! Whether a member of a quorum knows what it has to.

use super::duty::Duty;
use super::patient::{Patient, command};
use crate::finding::Finding;
use crate::stores::redis::keys;
use crate::stores::redis::node::Node;

const SUBJECT: &str = "memories";

pub(super) async fn finding(patient: &Patient<'_>) -> Option<Finding> {
    if patient.duty != Duty::Member {
        return None;
    }
    let life = Node::read(&patient.said).identity()?;
    let key = keys::life(&patient.options.namespace);
    let known = patient.ask_one(&command("HMGET", &[&key, "life", "founded"])).await?;
    let (last, founded): (Option<String>, Option<String>) = redis::from_redis_value(known).ok()?;
    Some(of_life(&life, last.as_deref(), founded.as_deref()))
}

/// Its life, that in which it last learnt something, and that in which a quorum was founded with it.
fn of_life(life: &str, last: Option<&str>, founded: Option<&str>) -> Finding {
    let fix = "nothing, as long as enough others remember: it learns each name when that is next used, and all in the background";
    match (last, founded) {
        (_, Some(founded)) if founded == life => {
            Finding::fine(SUBJECT, "it has been there since the quorum was founded")
        }
        (Some(last), _) if last == life => Finding::warning(
            SUBJECT,
            "it came back since, and is not full: it knows the names that were used after that, and no others",
            fix,
        ),
        (None, _) => Finding::warning(SUBJECT, "it knows nothing yet: it is new, or came back empty", fix),
        _ => Finding::warning(SUBJECT, "it came back, and has learnt nothing since: what it knows doesn't count", fix),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn a_member_that_is_not_full_is_told() {
        assert_eq!(of_life("b", Some("b"), Some("b")).severity, Severity::Fine);
        for (last, founded, says) in [
            (Some("b"), Some("a"), "not full"),
            (Some("b"), None, "not full"),
            (Some("a"), Some("a"), "learnt nothing since"),
            (None, None, "nothing yet"),
        ] {
            let finding = of_life("b", last, founded);
            assert!(finding.severity == Severity::Warning && finding.message.contains(says), "{finding:?}");
        }
    }
}
