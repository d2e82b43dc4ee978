//! `leasehold ls`: all locks that are held or waited for.

use leasehold::Holding;

use super::block_on;
use super::status::{State, Status};
use crate::args::LsArgs;
use crate::config::Config;
use crate::exit::{self, Failure};
use crate::output::{self, duration, plain};

const HEAD: [&str; 7] = ["NAME", "STATE", "HOLDER", "SINCE", "TTL LEFT", "TOKEN", "WAITING"];

/// Runs the verb.
///
/// # Errors
/// What the store says.
pub fn run(args: &LsArgs, config: &Config) -> Result<i32, Failure> {
    let locks = block_on(async { Ok(config.open()?.list().await?) })?;
    if args.json {
        let all: Vec<Status> = locks.iter().map(|lock| Status::new(&lock.name, Some(lock), config)).collect();
        output::json(&all)?;
    } else if locks.is_empty() {
        output::tell(&format!("no lock is held or waited for in {}", config.shown()));
    } else {
        output::answer(&output::table(HEAD, locks.iter().map(row)))?;
    }
    Ok(exit::OK)
}

fn row(lock: &Holding) -> [String; 7] {
    let held = lock.holder.is_some();
    let state = if lock.revoked { "revoked" } else { State::of(Some(lock)).word() };
    [
        lock.name.to_string(),
        state.into(),
        if held { plain(&lock.label) } else { "-".into() },
        if held { duration(lock.held_for) } else { "-".into() },
        duration(lock.remaining),
        lock.token.to_string(),
        lock.waiting.to_string(),
    ]
}
