//! `ls`: what it may be given, and its help.

use std::time::Duration;

use clap::Args;

use super::values::interval;

pub(super) const ABOUT: &str = "\
List the locks that are held or waited for, a line for each holder.

Holders that are workers of another library are listed as `foreign`, with its name where that can be told.

With --watch again and again, until Ctrl-C: on a terminal the list is drawn anew each time, elsewhere it is written \
behind the last one. A store that is away is told once, and asked on.";

pub(super) const FOOTER: &str = "\
Examples:
  leasehold ls
  leasehold ls --watch
  leasehold ls --watch=5s --json | jq -c 'map(select(.waiting > 0) | .name)'
  leasehold ls --json | jq -r '.[] | select(.waiting > 0) | .name'

In JSON: an array of what `status --json` says about one, but for who waits (`queue`); with --watch an array in each line.";

/// What `ls` is given.
#[derive(Debug, Args)]
pub struct LsArgs {
    /// List them again each second, or as often as this says (--watch=DUR)
    #[arg(long, value_name = "DUR", num_args = 0..=1, require_equals = true, default_missing_value = "1s")]
    #[arg(value_parser = interval)]
    pub watch: Option<Duration>,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}
