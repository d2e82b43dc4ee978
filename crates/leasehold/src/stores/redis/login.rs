//! As whom we log in.

use std::fs;
use std::path::PathBuf;

use redis::{ProtocolVersion, RedisConnectionInfo};

use super::fault::Fault;
use crate::error::ErrorKind;

/// A user, a password and a database.
#[derive(Clone, Default)]
pub(super) struct Login {
    pub user: Option<String>,
    pub password: Password,
    pub db: i64,
}

/// A password, or where it stands: a file is read for each connection, so that it may change.
#[derive(Clone, Default)]
pub(super) enum Password {
    #[default]
    None,
    Given(String),
    InFile(PathBuf),
}

impl Login {
    /// What the client library is told.
    pub fn settings(&self, protocol: ProtocolVersion) -> Result<RedisConnectionInfo, Fault> {
        let mut settings =
            RedisConnectionInfo::default().set_db(self.db).set_protocol(protocol).set_skip_set_lib_name();
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = self.password.read()? {
            settings = settings.set_password(password);
        }
        Ok(settings)
    }
}

impl Password {
    fn read(&self) -> Result<Option<String>, Fault> {
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
