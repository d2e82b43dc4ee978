//! `route`: what it may be given, and its help.

use clap::{Args, Subcommand};

pub(super) const ABOUT: &str = "\
Say which store of a fallback is in use.

A fallback is a primary (a Redis) and an arbiter (a database), named in leasehold.toml:

    [stores.jobs]
    fallback = { primary = \"redis://r:6379\", arbiter = \"postgres://jobs@db/jobs\" }

The arbiter keeps the route, which says which of the two has the locks. Clients move it by themselves when the \
primary goes away and comes back.";

pub(super) const FOOTER: &str = "\
Examples:
  leasehold route --store jobs
  leasehold route --store jobs --json | jq -r .route.target
  leasehold route set --restored --store jobs      the database was restored from a backup, and no client runs";

/// What `route` is given.
#[derive(Debug, Args)]
pub struct RouteArgs {
    /// Answer in JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do with it; without one, it is shown.
    #[command(subcommand)]
    pub verb: Option<RouteVerb>,
}

/// What may be done with a route.
#[derive(Debug, Subcommand)]
pub enum RouteVerb {
    /// Go to a route that no client has seen, after the arbiter's data was lost or restored
    ///
    /// A backup, or a copy that was promoted, doesn't know the last switches, leases and ticks. Stop all clients, restore the
    /// database, run this, start the clients again. Leases that it knew end with the switch, and every tick up to five minutes from now counts
    /// as run, as nobody can say which were.
    Set(SetArgs),
}

/// What `route set` is given.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// The arbiter's data was lost or restored, and no client runs
    #[arg(long)]
    pub restored: bool,
    /// The largest route that a client has seen, where the primary can't be asked for it
    #[arg(long, value_name = "NUMBER")]
    pub seen: Option<u64>,
}
