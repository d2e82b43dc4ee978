//! What went wrong, and whether the cluster may have done it all the same.

use std::error::Error as StdError;
use std::sync::Arc;

use tonic::{Code, ConnectError, Status};

use super::address::Address;
use crate::error::{Error, ErrorKind};
use crate::stores::wrong::NOBODY_THERE;

/// What the client library says of whatever happens to a connection.
const TRANSPORT: &str = "transport error";

/// What came instead of an answer.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub kind: ErrorKind,
    why: String,
    /// It is certain that nothing was done.
    pub sure: bool,
    pub cause: Cause,
    source: Option<Arc<Status>>,
}

/// What is to be done about it, where something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// This member can't answer; another one may.
    Member,
    /// The lease that was named is no more.
    NoLease,
    /// The login has run out, or users were changed: it was not even looked at.
    Login,
    /// The connection is of no use any more, and nothing was sent over it: its runtime has ended.
    Stale,
    /// There are no users here: nothing to log in to.
    NoUsers,
    Other,
}

impl Fault {
    /// Nothing was sent.
    pub fn unsent(kind: ErrorKind, why: impl Into<String>) -> Self {
        Self { kind, why: why.into(), sure: true, cause: Cause::Member, source: None }
    }

    /// Nothing was sent, nor can be to any member: a file of ours is no use.
    pub fn unusable(why: impl Into<String>) -> Self {
        Self { cause: Cause::Other, ..Self::unsent(ErrorKind::Misconfigured, why) }
    }

    /// It was asked, and did not answer in time.
    pub fn late(why: impl Into<String>) -> Self {
        Self { sure: false, ..Self::unsent(ErrorKind::TimedOut, why) }
    }

    /// An answer that can't be read: something was done.
    pub fn strange(why: impl Into<String>) -> Self {
        let kind = ErrorKind::Internal;
        Self { kind, why: why.into(), sure: false, cause: Cause::Other, source: None }
    }

    /// Others came in between.
    pub fn changed() -> Self {
        Self { cause: Cause::Other, ..Self::unsent(ErrorKind::Unavailable, "the key has changed meanwhile") }
    }

    pub fn of(status: Status) -> Self {
        let (kind, sure, cause) = classified(&status);
        let why = match status.message() {
            // What it was is told by its cause.
            TRANSPORT if causes(&status).contains("Connection refused") => {
                format!("{}; {NOBODY_THERE}", causes(&status))
            }
            TRANSPORT => causes(&status),
            message => message.trim_start_matches("etcdserver: ").to_owned(),
        };
        Self { kind, why, sure, cause, source: Some(Arc::new(status)) }
    }

    /// The same, of who has answered nothing yet: it may be no etcd at all, or speak something else.
    pub fn of_a_stranger(self, address: &Address, other_scheme: &str) -> Self {
        // What a server says has no cause here; what happens to a connection has.
        let breaks = |status: &Arc<Status>| status.source().is_some() && !was_never_sent(status);
        if self.cause != Cause::Member || !self.source.as_ref().is_some_and(breaks) {
            return self;
        }
        let fix = format!("name the port that clients of etcd use, or {other_scheme}");
        let why = self.why;
        if why.contains("http2 error") {
            let why = format!("{address} does not answer as an etcd does ({why}); {fix}");
            return Self { source: self.source, ..Self::unsent(ErrorKind::Misconfigured, why) };
        }
        let why = format!("{address} ended the connection when it was greeted ({why}); if it goes on so, {fix}");
        Self { why, ..self }
    }

    /// What was asked for is so long ago that it was thrown away.
    pub fn is_of_the_past(&self) -> bool {
        self.source.as_ref().is_some_and(|status| status.code() == Code::OutOfRange && self.why.contains("compacted"))
    }

    /// The same, of something that changes nothing of a lock.
    pub fn surely(self) -> Self {
        Self { sure: true, ..self }
    }

    /// The same, but something may have been done before it.
    pub fn maybe(self) -> Self {
        Self { sure: false, ..self }
    }
}

/// A fault, told as our error. `shown` is the store.
pub(super) fn told(fault: Fault, shown: &str) -> Error {
    let Fault { kind, why, sure, cause, source } = fault;
    let message = match kind {
        ErrorKind::AccessDenied => format!("{shown} denies access ({why}); `leasehold doctor` says what locks need"),
        ErrorKind::TimedOut => format!("{shown} did not answer in time ({why})"),
        ErrorKind::Refused => format!("{shown} refuses to write ({why}); `leasehold doctor` says what to do"),
        ErrorKind::Unavailable if cause == Cause::Member => format!("{shown} can't be asked: {why}"),
        ErrorKind::Misconfigured => format!("{shown} can't be used as it is: {why}"),
        _ => format!("{shown} answered with an error ({why})"),
    };
    let error = Error::new(kind, message);
    let error = if sure { error } else { error.maybe_applied() };
    match source {
        Some(status) => error.with_source(Status::clone(&status)),
        None => error,
    }
}

/// What kind of error it is, whether it is certain that nothing was done, and what is to be done about it.
fn classified(status: &Status) -> (ErrorKind, bool, Cause) {
    let says = |word: &str| status.message().contains(word);
    if says("requested lease not found") {
        return (ErrorKind::Unavailable, true, Cause::NoLease);
    }
    if says("invalid auth token") || says("revision of auth store is old") {
        return (ErrorKind::AccessDenied, true, Cause::Login);
    }
    if says("authentication is not enabled") {
        return (ErrorKind::AccessDenied, true, Cause::NoUsers);
    }
    if ["permission denied", "user name is empty", "authentication failed", "invalid auth management"]
        .iter()
        .any(|word| says(word))
    {
        return (ErrorKind::AccessDenied, true, Cause::Other);
    }
    if says("database space exceeded") || says("request is too large") || says("too many requests") {
        return (ErrorKind::Refused, true, Cause::Other);
    }
    if says("Service was not ready") {
        return (ErrorKind::Unavailable, true, Cause::Stale);
    }
    if says("no leader") || says("learner") || was_never_sent(status) {
        return (ErrorKind::Unavailable, true, Cause::Member);
    }
    match status.code() {
        Code::DeadlineExceeded => (ErrorKind::TimedOut, false, Cause::Member),
        // A connection that broke, a member that stops, a leader that changed: what it did before is not known.
        Code::Unavailable | Code::Cancelled | Code::Unknown | Code::Internal => {
            (ErrorKind::Unavailable, false, Cause::Member)
        }
        Code::Unauthenticated | Code::PermissionDenied => (ErrorKind::AccessDenied, true, Cause::Other),
        Code::Unimplemented => (ErrorKind::Misconfigured, true, Cause::Other),
        // A member of another cluster, or one that has gone back: what it was asked for it may have done. Another member
        // may be the right one.
        Code::DataLoss => (ErrorKind::Misconfigured, false, Cause::Member),
        _ => (ErrorKind::Internal, false, Cause::Other),
    }
}

/// Whether no connection could be made.
fn was_never_sent(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// What caused it.
fn causes(status: &Status) -> String {
    status.source().map_or_else(|| status.message().to_owned(), whole)
}

/// An error and what caused it, in one line.
pub(super) fn whole(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_says_is_told_apart() {
        for (status, kind, sure, cause) in [
            (Status::not_found("etcdserver: requested lease not found"), ErrorKind::Unavailable, true, Cause::NoLease),
            (Status::unauthenticated("etcdserver: invalid auth token"), ErrorKind::AccessDenied, true, Cause::Login),
            (Status::permission_denied("etcdserver: permission denied"), ErrorKind::AccessDenied, true, Cause::Other),
            (
                Status::resource_exhausted("etcdserver: mvcc: database space exceeded"),
                ErrorKind::Refused,
                true,
                Cause::Other,
            ),
            (Status::unavailable("etcdserver: no leader"), ErrorKind::Unavailable, true, Cause::Member),
            (Status::unavailable("etcdserver: leader changed"), ErrorKind::Unavailable, false, Cause::Member),
            (Status::unavailable("etcdserver: request timed out"), ErrorKind::Unavailable, false, Cause::Member),
            (Status::cancelled("etcdserver: server stopped"), ErrorKind::Unavailable, false, Cause::Member),
            (Status::data_loss("it has gone back"), ErrorKind::Misconfigured, false, Cause::Member),
        ] {
            let fault = Fault::of(status.clone());
            assert_eq!((fault.kind, fault.sure, fault.cause), (kind, sure, cause), "{status}");
        }
    }
}
