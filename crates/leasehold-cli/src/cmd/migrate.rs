//! `leasehold migrate`: what has to be there before locks can be.

use super::block_on;
use crate::args::MigrateArgs;
use crate::config::Config;
use crate::exit::{self, Failure};
use crate::output;

/// Runs the verb.
///
/// # Errors
/// What the store says if it can't be asked; a wrong command line if there is nothing to print.
pub fn run(args: &MigrateArgs, config: &Config) -> Result<i32, Failure> {
    if args.print {
        let statements = config.place().migration().map_err(|error| config.blame(error))?;
        let none = || {
            let message = format!("there are no tables to print: {} makes what it needs by itself", config.shown());
            Failure::new(exit::USAGE, message)
        };
        output::exact(statements.ok_or_else(none)?.trim_end()).map(drop)?;
        return Ok(exit::OK);
    }
    block_on(async {
        config.place().migrate().await.map_err(|error| config.blame(error))?;
        // Whatever is asked, the store first sees to it that it can be answered.
        Ok(config.open()?.list().await?)
    })?;
    output::answer(&format!("{} has what locks need", config.shown()))?;
    Ok(exit::OK)
}
