//! The verbs, a file each.

use std::future::Future;

use crate::exit::{self, Failure};

pub mod accept_loss;
pub mod completions;
pub mod contention;
pub mod doctor;
pub mod fleet;
pub mod history;
mod listen;
pub mod ls;
pub mod man;
pub mod migrate;
pub mod next;
pub mod pause;
pub mod release;
pub mod reset_mark;
pub mod resume;
pub mod route;
pub mod run;
pub mod schedule;
pub mod serve;
pub mod status;
pub mod trigger;
pub mod watch;

/// Runs what a verb has to do with the store. What is to be forked must be forked before.
///
/// The runtime is left as it is when that has ended, as the process is about to: nobody waits for the opening of a store that was given up,
/// and other threads, which may be at a connection still, would panic at the timers of one that is shut down. So what a store is asked for
/// is asked for in one go: its connections go no further in another one.
fn block_on<T>(talk: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(exit::FAULT, format!("cannot make an event queue: {error}")))?;
    let said = runtime.block_on(talk);
    std::mem::forget(runtime);
    said
}
