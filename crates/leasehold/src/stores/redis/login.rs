//! As whom we log in.

use redis::{ProtocolVersion, RedisConnectionInfo};

use super::fault::Fault;
use crate::error::ErrorKind;
use crate::stores::password::Password;

/// A user, a password and a database.
#[derive(Clone, Default)]
pub(super) struct Login {
    pub user: Option<String>,
    pub password: Password,
    pub db: i64,
}

impl Login {
    /// What the client library is told.
    pub fn settings(&self, protocol: ProtocolVersion) -> Result<RedisConnectionInfo, Fault> {
        let mut settings =
            RedisConnectionInfo::default().set_db(self.db).set_protocol(protocol).set_skip_set_lib_name();
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        let unusable = |why| Fault::Unsent(ErrorKind::Misconfigured, why);
        if let Some(password) = self.password.read().map_err(unusable)? {
            settings = settings.set_password(password);
        }
        Ok(settings)
    }
}
