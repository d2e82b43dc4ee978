//! The error of a quorum of which too few members answer.

use super::Inner;
use crate::error::{Applied, Error, ErrorKind};

impl Inner {
    /// Names each member that failed, and why.
    pub(super) fn outage(&self, failed: &[(usize, Error)]) -> Error {
        let mut by_member: Vec<_> = failed.iter().collect();
        by_member.sort_unstable_by_key(|(member, _)| *member);
        let cause = |(member, error): &&(usize, Error)| format!("{}: {error}", self.nodes[*member].name);
        let causes: Vec<_> = by_member.iter().map(cause).collect();
        let (count, all) = (failed.len(), self.nodes.len());
        let message = format!("{count} of the {all} members of the quorum failed ({})", causes.join("; "));
        let error = Error::new(kind_of(failed), message);
        let is_passing = !failed.is_empty() && failed.iter().all(|(_, error)| error.is_passing());
        let error = if is_passing { error.passes() } else { error };
        let may_have = failed.iter().any(|(_, error)| error.applied() == Applied::Maybe);
        if may_have { error.maybe_applied() } else { error }
    }
}

/// What they have in common, if they have: all refuse these credentials, say.
fn kind_of(failed: &[(usize, Error)]) -> ErrorKind {
    let mut kinds = failed.iter().map(|(_, error)| error.kind());
    let first = kinds.next().unwrap_or(ErrorKind::Unavailable);
    if kinds.all(|kind| kind == first) { first } else { ErrorKind::Unavailable }
}
