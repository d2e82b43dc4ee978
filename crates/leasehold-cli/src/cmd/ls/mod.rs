//! `leasehold ls`: all locks that are held or waited for.

mod again;
mod screen;

use leasehold::{Holder, Holding};

use super::block_on;
use super::status::{State, Status};
use crate::args::LsArgs;
use crate::config::Config;
use crate::exit::{self, Failure};
use crate::output::{self, duration, known};

const HEAD: [&str; 7] = ["NAME", "STATE", "HOLDER", "SINCE", "TTL LEFT", "TOKEN", "WAITING"];

/// Runs the verb.
///
/// # Errors
/// What the store says.
pub fn run(args: &LsArgs, config: &Config) -> Result<i32, Failure> {
    if let Some(every) = args.watch {
        return again::run(every, args.json, config);
    }
    let locks = block_on(async { Ok(config.open_to_look()?.list().await?) })?;
    if args.json {
        output::json(&all(&locks, config))?;
    } else if locks.is_empty() {
        output::tell(&nothing(config));
    } else {
        output::answer(&table(&locks))?;
    }
    Ok(exit::OK)
}

/// For programs.
fn all(locks: &[Holding], config: &Config) -> Vec<Status> {
    locks.iter().map(|lock| Status::new(&lock.name, Some(lock), config)).collect()
}

/// For people.
fn table(locks: &[Holding]) -> String {
    output::table(HEAD, locks.iter().flat_map(rows))
}

fn nothing(config: &Config) -> String {
    format!("no lock is held or waited for in {}", config.shown())
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
        library: lock.library,
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
        if held { holder.label.clone() } else { "-".into() },
        if held {
            known(holder.held_for, holder.library, holder.token).map_or_else(|| "unknown".into(), duration)
        } else {
            "-".into()
        },
        duration(holder.remaining),
        holder.token.to_string(),
        lock.waiting.to_string(),
    ]
}
