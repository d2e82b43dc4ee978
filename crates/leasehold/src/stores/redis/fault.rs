//! What went wrong, and whether the server may have done it all the same.

use redis::{ErrorKind as Kind, RedisError, ServerErrorKind};

use crate::error::{Error, ErrorKind};

/// An error of the client library, told as ours. `shown` is the server.
pub(super) fn told(error: RedisError, shown: &str) -> Error {
    let (kind, message, sure) = match error.kind() {
        Kind::Server(server) => of_the_server(server, &error, shown),
        Kind::AuthenticationFailed => {
            (ErrorKind::AccessDenied, format!("{shown} refuses this user or password ({error})"), true)
        }
        Kind::RESP3NotSupported => {
            (ErrorKind::Misconfigured, format!("{shown} is older than Redis 6; use a newer server"), true)
        }
        Kind::InvalidClientConfig => {
            (ErrorKind::Invalid, format!("{shown} can't be used as it is given: {error}"), true)
        }
        Kind::Extension => of_a_code(error.code().unwrap_or_default(), &error, shown),
        _ if error.is_timeout() => (ErrorKind::TimedOut, format!("{shown} did not answer in time"), false),
        _ if error.is_connection_refusal() => (ErrorKind::Unavailable, format!("{shown} refuses connections"), true),
        Kind::Io => (ErrorKind::Unavailable, format!("the connection to {shown} broke ({error})"), false),
        _ => (ErrorKind::Internal, format!("{shown} gave an answer that can't be read ({error})"), false),
    };
    let told = Error::new(kind, message).with_source(error);
    if sure { told } else { told.maybe_applied() }
}

/// The server said no: nothing was done.
fn of_the_server(kind: ServerErrorKind, error: &RedisError, shown: &str) -> (ErrorKind, String, bool) {
    match kind {
        ServerErrorKind::BusyLoading => (ErrorKind::Unavailable, format!("{shown} is still loading its data"), true),
        ServerErrorKind::ReadOnly => (
            ErrorKind::Unavailable,
            format!("{shown} is a replica and takes no writes; it may have been a master"),
            true,
        ),
        ServerErrorKind::NoPerm => {
            (ErrorKind::AccessDenied, format!("{shown} does not let this user do that ({error})"), true)
        }
        ServerErrorKind::MasterDown | ServerErrorKind::ClusterDown | ServerErrorKind::TryAgain => {
            (ErrorKind::Unavailable, format!("{shown} can't answer now ({error})"), true)
        }
        ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::CrossSlot => (
            ErrorKind::Misconfigured,
            format!("{shown} is a member of a cluster, which this URL doesn't say ({error})"),
            true,
        ),
        _ => of_a_code(error.code().unwrap_or_default(), error, shown),
    }
}

fn of_a_code(code: &str, error: &RedisError, shown: &str) -> (ErrorKind, String, bool) {
    let detail = error.to_string();
    let says = |word: &str| code == word || detail.contains(word);
    if says("OOM") || says("MISCONF") {
        return (ErrorKind::Refused, format!("{shown} refuses to write ({detail})"), true);
    }
    if says("NOAUTH") || says("WRONGPASS") || says("NOPERM") {
        return (ErrorKind::AccessDenied, format!("{shown} denies access ({detail})"), true);
    }
    if says("READONLY") {
        return of_the_server(ServerErrorKind::ReadOnly, error, shown);
    }
    if says("BUSY") {
        return (ErrorKind::Unavailable, format!("{shown} is busy with somebody's script ({detail})"), true);
    }
    if says("WRONGTYPE") {
        let message = format!(
            "{shown} has something else under a lock's name; delete it, or use another name or another namespace ({detail})"
        );
        return (ErrorKind::Misconfigured, message, false); // a script may have come half-way
    }
    (ErrorKind::Internal, format!("{shown} answered with an error ({detail})"), false)
}
