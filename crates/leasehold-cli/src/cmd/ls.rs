//! `leasehold ls`: all locks that are held or waited for.

use leasehold::{Holder, Holding};

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
        output::answer(&output::table(HEAD, locks.iter().flat_map(rows)))?;
    }
    Ok(exit::OK)
}

/// One for each holder.
fn rows(lock: &Holding) -> impl Iterator<Item = [String; 7]> {
    let others = lock.others.iter().map(|other| {
        let state = if other.holder.is_some() { State::Held } else { State::Kept };
        row(lock, other, state)
    });
    let first = Holder {
        holder: lock.holder,
        label: lock.label.clone(),
        token: lock.token,
        held_for: lock.held_for,
        remaining: lock.remaining,
        revoked: lock.revoked,
    };
    std::iter::once(row(lock, &first, State::of(Some(lock)))).chain(others)
}

fn row(lock: &Holding, holder: &Holder, state: State) -> [String; 7] {
    let held = holder.holder.is_some();
    let state = if holder.revoked { "revoked" } else { state.word() };
    [
        lock.name.to_string(),
        state.into(),
        if held { plain(&holder.label) } else { "-".into() },
        if held { duration(holder.held_for) } else { "-".into() },
        duration(holder.remaining),
        holder.token.to_string(),
        lock.waiting.to_string(),
    ]
}
