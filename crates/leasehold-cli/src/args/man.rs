//! `man`: what it may be given, and its help.

use std::path::PathBuf;

use clap::{Args, ValueHint};

pub(super) const FOOTER: &str = "\
Examples:
  leasehold man run | man -l -
  leasehold man --dir /usr/local/share/man/man1";

/// What `man` is given.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The verb whose page to print; without one, the page of leasehold itself
    pub verb: Option<String>,
    /// Write all pages into this directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "verb", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
}
