//! `leasehold watch`: what happens to a lock, as it happens.

use std::ops::ControlFlow;
use std::time::Duration;

use leasehold::validity::{BootClock, Clock};
use leasehold::{Locks, Watching};

use self::chronicle::Chronicle;
use super::block_on;
use crate::args::WatchArgs;
use crate::config::Config;
use crate::exit::{self, Failure, code_of};
use crate::output;

mod chronicle;
mod news;

/// How often it is asked whether anybody reads: else `watch | head -1` would stay until the next event.
const ASK: Duration = Duration::from_millis(250);

/// Runs the verb, until a signal ends the process or nobody reads any more.
///
/// # Errors
/// The store can't be opened, or says what asking again doesn't mend.
pub fn run(args: &WatchArgs, config: &Config) -> Result<i32, Failure> {
    block_on(async {
        let store = config.place().open().map_err(|error| config.blame(error))?;
        let locks = Locks::builder().over(store);
        let watching = locks.watch(args.name.as_str())?;
        tokio::select! {
            told = tell(watching, args.json) => told,
            () = until_nobody_reads() => Ok(()),
        }
    })?;
    Ok(exit::OK)
}

async fn tell(mut watching: Watching, json: bool) -> Result<(), Failure> {
    let mut chronicle = Chronicle::new(watching.name().clone());
    loop {
        let news = match watching.next().await {
            Ok(found) => chronicle.stands(found, BootClock.now()),
            Err(error) if code_of(error.kind()) == exit::UNAVAILABLE => vec![chronicle.away(&error)],
            Err(error) => return Err(error.into()),
        };
        for news in news {
            let goes_on = if json { output::exact(&news.json()?)? } else { output::line(&news.text())? };
            if goes_on == ControlFlow::Break(()) {
                return Ok(());
            }
        }
    }
}

/// Resolves once nobody reads the output any more.
pub(super) async fn until_nobody_reads() {
    while output::is_read() {
        tokio::time::sleep(ASK).await;
    }
}
