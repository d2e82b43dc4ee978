//! As whom we log in.

use crate::stores::password::Password;

/// A user and a password.
#[derive(Clone)]
pub(super) struct Login {
    pub user: String,
    pub password: Password,
}
