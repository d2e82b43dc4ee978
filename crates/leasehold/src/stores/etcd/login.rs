//! As whom we log in.

use std::fs;
use std::path::PathBuf;

/// A user and a password.
#[derive(Clone)]
pub(super) struct Login {
    pub user: String,
    pub password: Password,
}

/// A password, or where it stands: a file is read for each login, so that it may change.
#[derive(Clone)]
pub(super) enum Password {
    Given(String),
    InFile(PathBuf),
}

impl Password {
    /// The password; why it can't be had.
    pub fn read(&self) -> Result<String, String> {
        match self {
            Self::Given(password) => Ok(password.clone()),
            Self::InFile(path) => match fs::read_to_string(path) {
                Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
                Err(error) => Err(format!(
                    "the password file {} can't be read ({error}); name a file that this user may read",
                    path.display()
                )),
            },
        }
    }
}
