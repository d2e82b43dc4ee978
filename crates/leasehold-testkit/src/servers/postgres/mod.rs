//! PostgreSQL, alone, as a standby, or behind PgBouncer.

mod options;
mod pgbouncer;
mod server;
mod template;

pub use options::PostgresOptions;
pub use pgbouncer::{PgBouncer, PoolMode};
pub use server::Postgres;

use std::path::PathBuf;
use std::{env, fs};

use super::program;
use super::unprivileged::Unprivileged;

/// As whom the servers run.
fn user() -> Unprivileged {
    Unprivileged::one_of(&["postgres"])
}

/// Where a program of PostgreSQL's is: Debian keeps those of each release apart.
fn find(name: &str) -> PathBuf {
    let releases = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path());
    let number = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let wanted = env::var("LEASEHOLD_POSTGRES").ok().and_then(|release| release.parse::<u32>().ok());
    let newest = releases.filter(|path| wanted.is_none_or(|wanted| number(path) == Some(wanted))).max_by_key(number);
    let found = newest.map(|release| release.join("bin").join(name)).filter(|file| file.is_file());
    found.unwrap_or_else(|| program::find(name, "postgresql"))
}
