//! MariaDB servers.

mod options;
mod server;

pub use options::MariaDbOptions;
pub use server::MariaDb;
