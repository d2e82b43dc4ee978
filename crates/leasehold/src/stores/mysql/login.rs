//! As whom we log in.

use std::fs;
use std::path::PathBuf;

use super::fault::Fault;
use crate::error::ErrorKind;

/// A user and a password.
#[derive(Clone)]
pub(super) struct Login {
    pub user: String,
    pub password: Password,
}

/// A password, or where it stands: a file is read for each connection, so that it may change.
#[derive(Clone)]
pub(super) enum Password {
    None,
    Given(String),
    InFile(PathBuf),
}

impl Password {
    pub fn read(&self) -> Result<Option<String>, Fault> {
        match self {
            Self::None => Ok(None),
            Self::Given(password) => Ok(Some(password.clone())),
            Self::InFile(path) => match fs::read_to_string(path) {
                Ok(text) => Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned())),
                Err(error) => {
                    let message = format!(
                        "the password file {} can't be read ({error}); name a file that this user may read",
                        path.display()
                    );
                    Err(Fault::Unsent(ErrorKind::Misconfigured, message))
                }
            },
        }
    }
}
