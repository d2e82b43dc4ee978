//! A password, and where it stands.

use std::fmt;
use std::fs;
use std::path::PathBuf;

/// A password, or where it stands: a file is read for each connection, so that it may change.
#[derive(Clone, Default)]
pub(super) enum Password {
    #[default]
    None,
    Given(String),
    InFile(PathBuf),
}

impl Password {
    /// The password; what is wrong with its file, if that can't be read.
    pub fn read(&self) -> Result<Option<String>, String> {
        match self {
            Self::None => Ok(None),
            Self::Given(password) => Ok(Some(password.clone())),
            Self::InFile(path) => match fs::read_to_string(path) {
                Ok(text) => match text.trim_end_matches(['\r', '\n']) {
                    "" => Err(format!("the password file {} is empty; write the password into it", path.display())),
                    password => Ok(Some(password.to_owned())),
                },
                Err(error) => Err(format!(
                    "the password file {} can't be read ({error}); name a file that this user may read",
                    path.display()
                )),
            },
        }
    }
}

impl Password {
    /// Whether it can be read: what is wrong with its file, if not.
    #[cfg(any(feature = "etcd", feature = "redis"))]
    pub fn check(&self) -> Result<(), String> {
        self.read().map(drop)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}
