//! What went wrong, and whether the server may have done it all the same.

use std::error::Error as StdError;
use std::io;

use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::error::{Error, ErrorKind};
use crate::stores::wrong::NOBODY_THERE;

/// What came instead of an answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// Nothing was done: there was nobody to ask, or nobody who took it.
    Unsent(ErrorKind, String),
    /// What the server said, or how the connection ended, once it had been asked.
    Sent(tokio_postgres::Error),
    /// It had been asked, and what came was the answer to another question.
    AnothersAnswer,
    /// It is an error of ours already.
    Told(Box<Error>),
}

impl Fault {
    /// Nobody was logged in.
    pub fn unconnected(error: &tokio_postgres::Error) -> Self {
        let (kind, why) = match (error.as_db_error(), cause::<rustls::Error>(error)) {
            (Some(said), _) => of_the_server(said),
            (_, Some(tls)) => of_tls(tls),
            _ if is_out_of_turn(error) => {
                let why = "it is no PostgreSQL server, or does not answer as one does; name the port of one";
                (ErrorKind::Misconfigured, why.to_owned())
            }
            _ => of_the_way(error),
        };
        Self::Unsent(kind, why)
    }

    /// The same fault, where nothing had been asked yet that changes anything.
    pub fn into_unsent(self) -> Self {
        match self {
            // What has other columns was no answer to this, either.
            Self::Sent(error) if error.to_string().starts_with("error deserializing") => {
                Self::AnothersAnswer.into_unsent()
            }
            Self::Sent(error) => {
                let (kind, why) = error.as_db_error().map_or_else(|| of_the_way(&error), of_the_server);
                Self::Unsent(kind, why)
            }
            Self::AnothersAnswer => Self::Unsent(ErrorKind::Unavailable, ANOTHERS_ANSWER.to_owned()),
            told => told,
        }
    }

    /// Whether it may be what somebody else was answered. Only the end of a session is everybody's.
    pub fn may_be_anothers(&self) -> bool {
        match self {
            Self::AnothersAnswer => true,
            Self::Sent(error) => error.as_db_error().map_or_else(|| is_out_of_turn(error), |said| !is_fatal(said)),
            Self::Unsent(..) | Self::Told(_) => false,
        }
    }

    /// What it answers is of no use, whatever that is.
    pub fn of_a_standby() -> Self {
        Self::Unsent(ErrorKind::Unavailable, "it is a standby and takes no writes; name its primary".to_owned())
    }

    /// Whether the connection that gave this is of no use any more: it has ended, or its server takes no writes.
    pub fn breaks(&self) -> bool {
        let error = match self {
            Self::AnothersAnswer => return true, // Each that follows would be, too.
            Self::Sent(error) => error,
            Self::Unsent(..) | Self::Told(_) => return false,
        };
        let Some(said) = error.as_db_error() else { return true };
        is_fatal(said) || *said.code() == SqlState::READ_ONLY_SQL_TRANSACTION || self.is_of_missing_tables()
    }

    /// Whether the tables or procedures are not there (any more).
    pub fn is_of_missing_tables(&self) -> bool {
        let missing = [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_FUNCTION, SqlState::INVALID_SCHEMA_NAME];
        self.code().is_some_and(|code| missing.contains(code))
    }

    /// Whether nothing was done, and the same may go well at once.
    pub fn is_worth_another_try(&self) -> bool {
        let passing = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
        self.is_of_missing_tables() || self.code().is_some_and(|code| passing.contains(code))
    }

    fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Sent(error) => error.code(),
            _ => None,
        }
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sent(error)
    }
}

/// A fault, told as our error. `shown` is the store.
pub(super) fn told(fault: Fault, shown: &str) -> Error {
    match fault {
        Fault::Told(error) => *error,
        Fault::Unsent(kind, why) => Error::new(kind, format!("{shown} can't be asked: {why}")),
        Fault::AnothersAnswer => {
            Error::new(ErrorKind::Unavailable, format!("{shown}: {ANOTHERS_ANSWER}")).maybe_applied()
        }
        Fault::Sent(error) => {
            let (kind, why, sure) = match error.as_db_error() {
                // One statement, and it failed: what it did was undone. Unless the session was ended over it.
                Some(said) => {
                    let (kind, why) = of_the_server(said);
                    (kind, why, !is_fatal(said))
                }
                None => {
                    let (kind, why) = of_the_way(&error);
                    (kind, why, false)
                }
            };
            let told = Error::new(kind, format!("{shown}: {why}")).with_source(error);
            if sure { told } else { told.maybe_applied() }
        }
    }
}

/// Whose fault it may be that answers come out of turn.
const ANOTHERS_ANSWER: &str = "it gave the answer to another question, as a pooler may do after a client has died \
                               (PgBouncer before 1.21 does; use a newer one)";

/// Where it says what a role has to be allowed.
const NEEDED: &str = "`leasehold migrate --print` shows the tables and rights that locks need";

/// Whether what came can't follow what was sent. The library keeps the kinds of its errors to itself.
fn is_out_of_turn(error: &tokio_postgres::Error) -> bool {
    error.to_string().contains("unexpected message") || error.to_string().contains("unexpected number of")
}

fn is_fatal(said: &DbError) -> bool {
    // Where messages are translated the severity is, too; the parsed one is not.
    !matches!(said.parsed_severity(), None | Some(Severity::Error))
}

fn of_the_server(said: &DbError) -> (ErrorKind, String) {
    let (code, message) = (said.code().code(), said.message());
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    match code {
        "28P01" | "28000" => (ErrorKind::AccessDenied, format!("it refuses this user or password ({message})")),
        // What poolers say of it.
        "08P01" if says(&["auth", "password", "no such user"]) => {
            (ErrorKind::AccessDenied, format!("it refuses this user or password ({message})"))
        }
        "3D000" => (ErrorKind::Misconfigured, format!("it has no such database ({message})")),
        "08P01" if says(&["no such database"]) => {
            (ErrorKind::Misconfigured, format!("it has no such database ({message})"))
        }
        "42501" => (ErrorKind::AccessDenied, format!("this role may not do that ({message}); {NEEDED}")),
        "42P01" | "42883" | "3F000" => {
            (ErrorKind::Misconfigured, format!("tables of ours are missing ({message}); run `leasehold migrate`"))
        }
        "42703" | "42804" => {
            let why = "tables of ours are not as they should be";
            (ErrorKind::Misconfigured, format!("{why} ({message}); `leasehold doctor` says which"))
        }
        "25006" => (ErrorKind::Unavailable, format!("it takes no writes, as a standby does ({message})")),
        "57014" | "55P03" => {
            (ErrorKind::TimedOut, format!("it gave up, for a time-out of its own or of this role ({message})"))
        }
        "57P03" => (ErrorKind::Unavailable, format!("it does not take connections now ({message})")),
        "53300" => (ErrorKind::Unavailable, format!("it has too many connections ({message})")),
        _ => match &code[..2] {
            "53" | "58" => (ErrorKind::Refused, format!("it refuses to write ({message})")),
            "08" | "57" | "40" => (ErrorKind::Unavailable, format!("it ended what was asked ({message})")),
            _ => (ErrorKind::Internal, format!("it answered with an error ({code}: {message})")),
        },
    }
}

/// The connection was not made, or did not last.
fn of_the_way(error: &tokio_postgres::Error) -> (ErrorKind, String) {
    let why = error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
    let kind = cause::<io::Error>(error).map(io::Error::kind);
    if kind == Some(io::ErrorKind::TimedOut) {
        return (ErrorKind::TimedOut, format!("it did not answer in time ({why})"));
    }
    if is_out_of_turn(error) {
        return (ErrorKind::Unavailable, ANOTHERS_ANSWER.to_owned());
    }
    if why.contains("does not support TLS") {
        return (ErrorKind::Misconfigured, "it does not speak TLS; set `ssl = on` there".to_owned());
    }
    if why.starts_with("authentication error") || why.starts_with("invalid configuration") {
        let message = format!("it wants another way of logging in, or a password that was not given ({why})");
        return (ErrorKind::AccessDenied, message);
    }
    if why.starts_with("error deserializing") || why.starts_with("error parsing") {
        return (ErrorKind::Internal, format!("it gave an answer that can't be read ({why})"));
    }
    if kind == Some(io::ErrorKind::ConnectionRefused) {
        return (ErrorKind::Unavailable, format!("nobody listens there ({why}); {NOBODY_THERE}"));
    }
    (ErrorKind::Unavailable, format!("the connection broke or was not made ({why})"))
}

/// Why the two sides did not come to speak TLS.
fn of_tls(error: &rustls::Error) -> (ErrorKind, String) {
    match error {
        rustls::Error::InvalidCertificate(_) => (
            ErrorKind::Misconfigured,
            format!("it shows a certificate that is not trusted ({error}); name its authority with ca=FILE"),
        ),
        rustls::Error::AlertReceived(_) => (
            ErrorKind::AccessDenied,
            format!("it wants another certificate of ours ({error}); name one with cert=FILE&key=FILE"),
        ),
        _ => (ErrorKind::Misconfigured, format!("it does not speak TLS as we do ({error})")),
    }
}

/// The error of a kind that is behind another. The system's error keeps its own in a box.
fn cause<T: StdError + 'static>(error: &tokio_postgres::Error) -> Option<&T> {
    let mut next = error.source();
    while let Some(cause) = next {
        if let Some(found) = cause.downcast_ref() {
            return Some(found);
        }
        next = match cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => cause.source(),
        };
    }
    None
}
