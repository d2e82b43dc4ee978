//! What went wrong, and whether the server may have done it all the same.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use redis::{ErrorKind as Kind, RedisError, ServerErrorKind};

use super::address::Address;
use crate::error::{Error, ErrorKind};
use crate::stores::wrong::NOBODY_THERE;

/// What came instead of an answer.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// Nothing was done: there was nobody to ask, or nobody who took it.
    Unsent(ErrorKind, String),
    /// Nothing was done, since a restart guard lasts; it ends by itself.
    Guarded(String),
    /// It was done, and can't be relied on.
    Doubtful(String),
    /// A script came to a command that this user may not run. The server says no more than in which line: this is what stands
    /// there.
    Forbidden(String, RedisError),
    /// What the server said, or how the connection ended, once it had been asked.
    Sent(RedisError),
}

impl Fault {
    /// No connection was made, so nothing was asked over it.
    pub fn unconnected(error: &RedisError, address: &Address, over_tls: bool) -> Self {
        let address = address.to_string();
        let known = of_tls(error, &address).or_else(|| of_a_stranger(error, &address, over_tls));
        let (kind, message, _) = known.unwrap_or_else(|| classified(error, &address));
        Self::Unsent(kind, message)
    }

    /// It was asked, and did not answer in time.
    pub fn late() -> Self {
        Self::Sent(io::Error::from(io::ErrorKind::TimedOut).into())
    }

    /// In which line of a script there is a command that this user may not run, if that is what was said.
    pub fn forbidden_line(&self) -> Option<usize> {
        let Self::Sent(error) = self else { return None };
        let said = error.to_string();
        let (_, behind) = said.split_once(NO_RIGHT_IN_SCRIPT)?.1.rsplit_once("user_script:")?;
        let digits = behind.find(|other: char| !other.is_ascii_digit()).unwrap_or(behind.len());
        behind[..digits].parse().ok()
    }

    /// Whether the connection that gave this is of no use any more: it has ended, or its server is no master.
    pub fn breaks(&self) -> bool {
        let Self::Sent(error) = self else { return false };
        let gone = error.is_unrecoverable_error() || error.is_io_error() || error.kind() == Kind::Parse;
        gone || self.is_of_a_replica()
    }

    /// Whether it is what a replica says, or a server that becomes one. It may be hidden in the words of a script.
    pub fn is_of_a_replica(&self) -> bool {
        let Self::Sent(error) = self else { return false };
        let kinds = [ServerErrorKind::ReadOnly, ServerErrorKind::MasterDown, ServerErrorKind::BusyLoading];
        kinds.iter().any(|kind| error.kind() == Kind::Server(*kind))
            || error.detail().is_some_and(|detail| detail.contains("READONLY"))
    }
}

impl From<RedisError> for Fault {
    fn from(error: RedisError) -> Self {
        Self::Sent(error)
    }
}

/// A fault, told as our error. `shown` is the store.
pub(super) fn told(fault: Fault, shown: &str) -> Error {
    match fault {
        Fault::Unsent(kind, why) => Error::new(kind, format!("{shown} can't be asked: {why}")),
        Fault::Guarded(why) => Error::new(ErrorKind::Unavailable, why).passes(),
        Fault::Doubtful(why) => Error::new(ErrorKind::Unavailable, format!("{shown}: {why}")).maybe_applied(),
        Fault::Forbidden(command, error) => {
            let message = format!("{shown} does not let this user run {command}, which a script needs; {NEEDED}");
            Error::new(ErrorKind::AccessDenied, message).with_source(error).maybe_applied()
        }
        Fault::Sent(error) => {
            let (kind, message, sure) = classified(&error, shown);
            let told = Error::new(kind, message).with_source(error);
            if sure { told } else { told.maybe_applied() }
        }
    }
}

/// What Redis says up to 7.0 of a command in a script; later ones name the command, as `NOPERM`.
const NO_RIGHT_IN_SCRIPT: &str = "user executing the script can't run";

/// Where it says what a user has to be allowed.
const NEEDED: &str = "`leasehold doctor` says what locks need";

/// What kind of error it is, what to say, and whether it is certain that nothing was done.
type Classified = (ErrorKind, String, bool);

fn classified(error: &RedisError, shown: &str) -> Classified {
    match error.kind() {
        Kind::Server(server) => of_the_server(server, error, shown),
        Kind::AuthenticationFailed => {
            (ErrorKind::AccessDenied, format!("{shown} refuses this user or password ({error})"), true)
        }
        Kind::RESP3NotSupported => {
            (ErrorKind::Misconfigured, format!("{shown} is older than Redis 6; use a newer server"), true)
        }
        Kind::InvalidClientConfig => {
            (ErrorKind::Invalid, format!("{shown} can't be used as it is given: {error}"), true)
        }
        Kind::Extension => of_a_code(error.code().unwrap_or_default(), error, shown),
        _ if error.is_timeout() => (ErrorKind::TimedOut, format!("{shown} did not answer in time"), false),
        // Sure only of a connection that was never made, which is told apart: one that was may end so, too.
        _ if error.is_connection_refusal() => {
            (ErrorKind::Unavailable, format!("{shown} refuses connections; {NOBODY_THERE}"), false)
        }
        Kind::Io => (ErrorKind::Unavailable, format!("the connection to {shown} broke ({error})"), false),
        _ => (ErrorKind::Internal, format!("{shown} gave an answer that can't be read ({error})"), false),
    }
}

/// Why the two sides did not come to speak TLS.
fn of_tls(error: &RedisError, shown: &str) -> Option<Classified> {
    // The client library keeps the cause in an `Arc`, and the system's error keeps it in a box.
    let cause = error.source()?.downcast_ref::<Arc<dyn StdError + Send + Sync>>()?;
    let cause = cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref::<rustls::Error>()?;
    let (kind, message) = match cause {
        rustls::Error::InvalidCertificate(_) => (
            ErrorKind::Misconfigured,
            format!("{shown} shows a certificate that is not trusted ({cause}); name its authority with ca=FILE"),
        ),
        rustls::Error::AlertReceived(_) => (
            ErrorKind::AccessDenied,
            format!("{shown} wants another certificate of ours ({cause}); name one with cert=FILE&key=FILE"),
        ),
        _ => {
            let fix = "perhaps it speaks none there: then write redis for rediss, or name the port of a Redis server";
            (ErrorKind::Misconfigured, format!("{shown} does not speak TLS as we do ({cause}); {fix}"))
        }
    };
    Some((kind, message, true))
}

/// Whom we have reached is no server of ours, or has not what we want of it: that shows as soon as it is greeted.
fn of_a_stranger(error: &RedisError, shown: &str, over_tls: bool) -> Option<Classified> {
    let fix = if over_tls {
        "name the port of a Redis server, or write redis for rediss if it speaks no TLS there"
    } else {
        "name the port of a Redis server, or write rediss for redis if it speaks TLS there"
    };
    let (kind, message) = if error.kind() == Kind::Parse {
        (ErrorKind::Misconfigured, format!("{shown} does not answer as a Redis server does; {fix}"))
    } else if error.is_connection_dropped() && !error.is_connection_refusal() {
        (ErrorKind::Unavailable, format!("{shown} ended the connection when it was greeted; if it goes on so, {fix}"))
    } else if error.to_string().contains("refused to switch database") {
        let fix = "name another (redis://host/0), or raise `databases` in its configuration";
        (
            ErrorKind::Misconfigured,
            format!("{shown} has no such database ({}); {fix}", error.detail().unwrap_or_default()),
        )
    } else {
        return None;
    };
    Some((kind, message, true))
}

/// The server said no: nothing was done.
fn of_the_server(kind: ServerErrorKind, error: &RedisError, shown: &str) -> Classified {
    match kind {
        ServerErrorKind::BusyLoading => (ErrorKind::Unavailable, format!("{shown} is still loading its data"), true),
        ServerErrorKind::ReadOnly => (
            ErrorKind::Unavailable,
            format!("{shown} is a replica and takes no writes; it may have been a master"),
            true,
        ),
        ServerErrorKind::NoPerm => {
            // Of a command inside a script: what stood before it in there was done.
            let sure = !error.to_string().contains("in script");
            (ErrorKind::AccessDenied, format!("{shown} does not let this user do that ({error}); {NEEDED}"), sure)
        }
        ServerErrorKind::MasterDown | ServerErrorKind::ClusterDown | ServerErrorKind::TryAgain => {
            (ErrorKind::Unavailable, format!("{shown} can't answer now ({error})"), true)
        }
        ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::CrossSlot => (
            ErrorKind::Misconfigured,
            format!("{shown} is a member of a cluster; write redis+cluster:// for it ({error})"),
            true,
        ),
        _ => of_a_code(error.code().unwrap_or_default(), error, shown),
    }
}

fn of_a_code(code: &str, error: &RedisError, shown: &str) -> Classified {
    let detail = error.to_string();
    let says = |word: &str| code == word || detail.contains(word);
    if says("OOM") || says("MISCONF") {
        return (ErrorKind::Refused, format!("{shown} refuses to write ({detail})"), true);
    }
    if code == "CLOCK" {
        let message = format!(
            "the clock of {shown} was set back, or is before this program was built ({detail}); fencing tokens start from \
             it, so set it"
        );
        return (ErrorKind::Misconfigured, message, true);
    }
    if says("unknown command") {
        let message = format!("{shown} knows no such command, or lets nobody use it ({detail}); {NEEDED}");
        return (ErrorKind::AccessDenied, message, true);
    }
    // Of a command inside a script: what stood before it in there was done.
    if says(NO_RIGHT_IN_SCRIPT) {
        let message = format!("{shown} does not let this user run a command that locks need ({detail}); {NEEDED}");
        return (ErrorKind::AccessDenied, message, false);
    }
    if says("cluster support disabled") {
        let message =
            format!("{shown} is a server on its own and no member of a cluster; write redis:// for it, or rediss://");
        return (ErrorKind::Misconfigured, message, true);
    }
    if says("NOREPLICAS") {
        let message = format!("{shown} writes nothing while it has too few replicas ({detail})");
        return (ErrorKind::Unavailable, message, true);
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
