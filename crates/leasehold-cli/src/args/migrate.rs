//! `migrate`: what it may be given, and its help.

use clap::Args;

pub(super) const ABOUT: &str = "\
Make the tables that the store needs, also those that somebody has dropped, or bring them to this version.

Only this makes a schema in PostgreSQL (?schema=NAME). For the rest, locks do that by themselves at their first use, \
where their user may create tables. Where it may not, --print shows the statements and the rights, for somebody who may. Running them again does no harm.";

pub(super) const FOOTER: &str = "\
Examples:
  leasehold migrate
  leasehold migrate --print --store postgres://jobs@db/jobs | psql -U postgres jobs
  leasehold migrate --print --store mysql://jobs@db/jobs | mysql -u root -p";

/// What `migrate` is given.
#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// Print the statements instead; asks nobody
    #[arg(long)]
    pub print: bool,
}
