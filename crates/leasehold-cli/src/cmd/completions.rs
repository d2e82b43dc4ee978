//! `leasehold completions`: for a shell's start-up files.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::exit::{self, Failure};
use crate::output;

/// Runs the verb.
///
/// # Errors
/// Where stdout can't be written to.
pub fn run(args: &CompletionsArgs) -> Result<i32, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "leasehold", &mut script);
    output::exact(String::from_utf8_lossy(&script).trim_end()).map(drop)?;
    Ok(exit::OK)
}
