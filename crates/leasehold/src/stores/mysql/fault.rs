//! What went wrong, and whether the server may have done it all the same.

use std::io;

use sqlx::mysql::MySqlDatabaseError;

use super::options::Place;
use crate::error::{Error, ErrorKind};
use crate::stores::wrong::NOBODY_THERE;

/// What came instead of an answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// Nothing was done: there was nobody to ask, or nobody who took it.
    Unsent(ErrorKind, String),
    /// It is an error of ours already; nothing was asked.
    Told(Box<Error>),
    /// What the server said, or how the connection ended, once it had been asked.
    Sent(sqlx::Error),
    /// It did not answer.
    Late,
    /// The task that asked was ended with its runtime.
    Abandoned,
    /// It answered something else.
    Garbled,
}

impl Fault {
    /// No connection was made, so nothing was asked over it.
    pub fn unconnected(error: &sqlx::Error, place: &Place) -> Self {
        let (kind, message, _) = classified(error, &place.to_string());
        Self::Unsent(kind, message)
    }

    /// The number of an error of the server's.
    pub fn number(&self) -> Option<u16> {
        match self {
            Self::Sent(error) => number(error),
            _ => None,
        }
    }

    /// Somebody else was at it, and the server has taken everything back: a deadlock, or a lock that was not had in time.
    pub fn is_collision(&self) -> bool {
        matches!(self.number(), Some(1205 | 1213 | 1644))
    }

    /// Whether somebody has taken tables or procedures away, or put others in their place.
    pub fn is_of_missing_tables(&self) -> bool {
        matches!(self.number(), Some(1054 | 1146 | 1305 | 1318 | 4091))
    }

    /// Whether this user may not do it.
    pub fn is_of_rights(&self) -> bool {
        matches!(self.number(), Some(1044 | 1142 | 1143 | 1227 | 1370))
    }

    /// Whether the connection that gave this is of no more use. Of most errors it is not known what they have left open.
    pub fn breaks(&self) -> bool {
        !self.is_collision()
    }

    /// Whether the server may still be doing what was asked: it did not answer, and perhaps has not noticed that nobody
    /// hears it any more.
    pub fn leaves_it_open(&self) -> bool {
        matches!(self, Self::Late | Self::Sent(sqlx::Error::Io(_)))
    }

    /// The same for somebody else who wanted to ask.
    pub fn again(&self) -> Self {
        match self {
            Self::Unsent(kind, message) => Self::Unsent(*kind, message.clone()),
            Self::Sent(error) => {
                let (kind, message, _) = classified(error, "the server");
                Self::Unsent(kind, message)
            }
            Self::Told(error) => Self::Unsent(error.kind(), error.to_string()),
            Self::Late | Self::Abandoned | Self::Garbled => {
                Self::Unsent(ErrorKind::TimedOut, "the server did not answer".into())
            }
        }
    }

    /// Told as our error. `shown` is the store.
    pub fn told(self, shown: &str) -> Error {
        match self {
            Self::Told(error) => *error,
            Self::Unsent(kind, why) => Error::new(kind, format!("{shown} can't be asked: {why}")),
            Self::Sent(error) => {
                let (kind, message, sure) = classified(&error, shown);
                let told = Error::new(kind, message).with_source(error);
                if sure { told } else { told.maybe_applied() }
            }
            Self::Late => Error::new(ErrorKind::TimedOut, format!("{shown} did not answer in time")).maybe_applied(),
            Self::Abandoned => {
                let message = format!("the runtime on which {shown} was asked has ended");
                Error::new(ErrorKind::Unavailable, message).maybe_applied()
            }
            Self::Garbled => {
                let message = format!("a procedure of ours in {shown} gave an answer that can't be read");
                Error::new(ErrorKind::Internal, message).maybe_applied()
            }
        }
    }
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Sent(error)
    }
}

fn number(error: &sqlx::Error) -> Option<u16> {
    match error {
        sqlx::Error::Database(error) => error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number),
        _ => None,
    }
}

/// What kind of error it is, what to say, and whether it is certain that nothing was done.
type Classified = (ErrorKind, String, bool);

fn classified(error: &sqlx::Error, shown: &str) -> Classified {
    if let Some(number) = number(error) {
        return of_the_server(number, error, shown);
    }
    match error {
        sqlx::Error::Io(cause) => of_the_connection(cause, shown),
        sqlx::Error::Tls(cause) => of_tls(&cause.to_string(), shown),
        sqlx::Error::Configuration(cause) if cause.to_string().contains("RSA") => {
            let message = format!(
                "{shown} asks for the password in a way that needs TLS or a socket (caching_sha2_password); write \
                 ssl-mode=required, or better ssl-mode=verify_identity&ca=FILE"
            );
            (ErrorKind::AccessDenied, message, true)
        }
        sqlx::Error::Protocol(message) if message.contains("plugin") => {
            let message = format!(
                "{shown} wants this user to log in in a way that is not known here ({message}); have it identified by \
                 mysql_native_password, or caching_sha2_password over TLS"
            );
            (ErrorKind::AccessDenied, message, true)
        }
        _ => (ErrorKind::Internal, format!("{shown} gave an answer that can't be read ({error})"), false),
    }
}

fn of_the_connection(cause: &io::Error, shown: &str) -> Classified {
    if let Some(tls) = cause.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()) {
        return of_tls(&tls.to_string(), shown);
    }
    match cause.kind() {
        // Sure only of a connection that was never made, which is told apart.
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
            (ErrorKind::Unavailable, format!("nobody listens at {shown} ({cause}); {NOBODY_THERE}"), false)
        }
        io::ErrorKind::PermissionDenied => {
            (ErrorKind::AccessDenied, format!("the socket of {shown} may not be used ({cause})"), false)
        }
        _ => (ErrorKind::Unavailable, format!("the connection to {shown} broke ({cause})"), false),
    }
}

/// Why the two sides did not come to speak TLS.
fn of_tls(cause: &str, shown: &str) -> Classified {
    if cause.contains("certificate") && cause.contains("alert") {
        let message = format!("{shown} wants another certificate of ours ({cause}); name one with cert=FILE&key=FILE");
        return (ErrorKind::AccessDenied, message, true);
    }
    if cause.contains("certificate") {
        let message =
            format!("{shown} shows a certificate that is not trusted ({cause}); name its authority with ca=FILE");
        return (ErrorKind::Misconfigured, message, true);
    }
    (ErrorKind::Misconfigured, format!("{shown} does not speak TLS as we do ({cause})"), true)
}

/// The server said no. What a procedure has begun it takes back, and so has done nothing; but for what came at a commit.
fn of_the_server(number: u16, error: &sqlx::Error, shown: &str) -> Classified {
    match number {
        1044 => {
            let message = format!(
                "{shown} lets this user into no database of that name ({error}); correct the name in the URL, or have the \
                 database created and rights on it granted (docs/stores/mysql.md)"
            );
            (ErrorKind::AccessDenied, message, true)
        }
        1045 | 1698 | 1820 | 1862 => {
            (ErrorKind::AccessDenied, format!("{shown} refuses this user or password ({error})"), true)
        }
        1142 | 1143 | 1227 | 1370 => (
            ErrorKind::AccessDenied,
            format!(
                "{shown} does not let this user do that ({error}); `leasehold doctor` says what locks need, and `leasehold \
                 migrate --print` what makes the tables"
            ),
            true,
        ),
        1049 => (ErrorKind::Misconfigured, format!("{shown} has no such database ({error}); create it"), true),
        1040 | 1203 | 1226 => (ErrorKind::Unavailable, format!("{shown} takes no more connections ({error})"), true),
        1205 | 1213 | 1644 => {
            (ErrorKind::Unavailable, format!("{shown} was busy with others who want the same ({error})"), true)
        }
        1290 | 1792 | 1836 => (
            ErrorKind::Unavailable,
            format!("{shown} takes no writes ({error}); it may be a replica, or was the primary once"),
            true,
        ),
        1021 | 1037 | 1038 | 1041 | 1114 => (ErrorKind::Refused, format!("{shown} refuses to write ({error})"), true),
        1665 => (
            ErrorKind::Misconfigured,
            format!("{shown} logs statements, which locks can't go along with ({error}); set binlog_format = ROW"),
            true,
        ),
        1054 | 1146 | 1305 | 1318 | 4091 => (
            ErrorKind::Misconfigured,
            format!(
                "{shown} lacks some of Leasehold's tables or procedures, or has others in their place ({error}); run `leasehold \
                 migrate`, and `leasehold doctor` to see which"
            ),
            true,
        ),
        1053 | 1317 | 1927 | 1969 | 3024 | 3169 | 4031 => {
            (ErrorKind::Unavailable, format!("{shown} ended what was asked ({error})"), false)
        }
        _ => (ErrorKind::Internal, format!("{shown} answered with an error ({error})"), false),
    }
}
