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

/// Runs the short conversation that a verb has with the store. Not for `run`, whose runtime comes after a fork.
fn block_on<T>(talk: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(exit::FAULT, format!("cannot start: {error}")))?
        .block_on(talk)
}
