//! `ls`: what it may be given, and its help.

use clap::Args;

pub(super) const FOOTER: &str = "\
Examples:
  leasehold ls
  leasehold ls --json | jq -r '.[] | select(.waiting > 0) | .name'

In JSON: an array of what `status --json` says about one.";

/// What `ls` is given.
#[derive(Debug, Args)]
pub struct LsArgs {
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}
