//! `completions`: what it may be given, and its help.

use clap::Args;

pub(super) const FOOTER: &str = "\
Examples:
  leasehold completions bash > /etc/bash_completion.d/leasehold
  leasehold completions zsh > /usr/local/share/zsh/site-functions/_leasehold
  leasehold completions fish > ~/.config/fish/completions/leasehold.fish";

/// What `completions` is given.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}
