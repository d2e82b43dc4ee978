//! MariaDB servers.

mod options;
mod server;
mod template;

pub use options::MariaDbOptions;
pub use server::MariaDb;

use super::unprivileged::Unprivileged;

/// As whom the servers run.
fn user() -> Unprivileged {
    Unprivileged::one_of(&["mysql"])
}
