//! Which kind of lock a database keeps.

use super::keys::KeyScheme;
use crate::error::{Error, ErrorKind};
use crate::finding::Finding;
use crate::name::Namespace;

/// The kind of lock. All users of a namespace have the same: one kind doesn't see the other's holders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Mode {
    /// Rows of a table, which end by time.
    #[default]
    Lease,
    /// The server's own locks, which end with a session.
    Advisory,
}

impl Mode {
    pub fn read(text: &str) -> Result<Self, String> {
        match text {
            "lease" => Ok(Self::Lease),
            "advisory" => Ok(Self::Advisory),
            _ => Err(format!("has mode={text:?}; write lease (the default) or advisory")),
        }
    }

    /// As it is written down.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Advisory => "advisory",
        }
    }
}

/// What is wrong with a scheme of keys, beside the other options.
pub(crate) fn check_scheme(mode: Mode, scheme: KeyScheme, has_namespace: bool) -> Result<(), String> {
    match (mode, scheme) {
        (_, KeyScheme::Leasehold) => Ok(()),
        (Mode::Lease, _) => Err("has a key_scheme, which session locks have alone; write mode=advisory, too".into()),
        (Mode::Advisory, _) if has_namespace => {
            Err("has a namespace and key_scheme=with_advisory_lock, which has no namespaces; leave one out".into())
        }
        (Mode::Advisory, _) => Ok(()),
    }
}

/// The error of a namespace whose users have agreed on another kind.
pub(crate) fn another_mode(shown: &str, namespace: &Namespace, agreed: &str) -> Error {
    let message = format!(
        "{shown} has locks of mode={agreed} in the namespace {namespace}, and this is another kind, which would not see \
         them: write mode={agreed}, or another namespace; or, once nobody uses it, delete its row in leasehold_modes"
    );
    Error::new(ErrorKind::Misconfigured, message)
}

/// What a doctor says of the kind that was agreed on.
pub(crate) fn mode_finding(mode: Mode, namespace: &Namespace, agreed: &str) -> Finding {
    if agreed == mode.name() {
        return Finding::fine("mode", format!("the namespace {namespace} has locks of mode={agreed}"));
    }
    let message = format!(
        "the namespace {namespace} has locks of mode={agreed}, and this URL asks for mode={}, which would not see them: all is \
         refused",
        mode.name()
    );
    let fix = format!(
        "write mode={agreed}, or another namespace; or, once nobody uses it, delete its row in leasehold_modes"
    );
    Finding::problem("mode", message, fix)
}

/// The error of a URL that is handed to the other store.
pub(crate) fn of_another_mode(shown: &str) -> Error {
    Error::invalid(format!(
        "{shown} has mode=advisory or compat, which are stores of their own; open it by stores::open"
    ))
}
