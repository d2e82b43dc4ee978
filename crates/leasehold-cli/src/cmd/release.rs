//! `leasehold release`: an operator ends somebody else's hold.

use leasehold::{Holder, HolderId, Holding, Revoke};
use serde::Serialize;

use super::block_on;
use super::status::Status;
use crate::args::ReleaseArgs;
use crate::config::Config;
use crate::exit::{self, Failure};
use crate::output::{self, duration, known, plain};

/// Runs the verb.
///
/// # Errors
/// What the store says.
pub fn run(args: &ReleaseArgs, config: &Config) -> Result<i32, Failure> {
    let how = how(args);
    let found = block_on(async {
        let store = config.open_to_look()?;
        Ok(match how {
            Some(how) => store.revoke(&args.name, args.holder, how).await?,
            None => store.inspect(&args.name).await?.filter(ends_later).and_then(|held| hit(held, args.holder)),
        })
    })?;
    let done = Done::new(how, found.as_ref());
    if args.json {
        output::json(&Answer { done, before: Status::new(&args.name, found.as_ref(), config) })?;
    }
    match &found {
        Some(held) if done == Done::Refused => output::tell(&refusal(held)),
        _ if args.json => {}
        Some(held) => output::answer(&told(held, done, args.holder.is_some()))?,
        None => output::answer(&match args.holder {
            Some(holder) => format!("{} is not held by {holder}", args.name),
            None => format!("{} is free", args.name),
        })?,
    }
    Ok(if done == Done::Refused { exit::HELD } else { exit::OK })
}

/// A name that is free and waits for its first waiter has nothing to be released.
fn ends_later(found: &Holding) -> bool {
    found.holder.is_some() || !found.remaining.is_zero()
}

/// Of several holders those that would be hit.
fn hit(held: Holding, holder: Option<HolderId>) -> Option<Holding> {
    let Some(holder) = holder.filter(|holder| held.holder != Some(*holder)) else {
        let others = if holder.is_some() { Vec::new() } else { held.others.clone() };
        return Some(Holding { others, ..held });
    };
    let one = held.others.iter().find(|other| other.holder == Some(holder))?.clone();
    let Holder { holder, label, library, token, held_for, remaining, revoked } = one;
    Some(Holding { holder, label, library, token, held_for, remaining, revoked, others: Vec::new(), ..held })
}

/// `--now` goes further than `--force`, with it or without.
fn how(args: &ReleaseArgs) -> Option<Revoke> {
    if args.now { Some(Revoke::Now) } else { args.force.then_some(Revoke::Gently) }
}

#[derive(Debug, Serialize)]
struct Answer {
    done: Done,
    /// How the lock stood before.
    before: Status,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Done {
    /// Nobody held it.
    Nothing,
    /// Neither `--force` nor `--now` was given; or there is nobody who could be told, and no `--now`.
    Refused,
    /// The holder is to stop; until it has, the lock is still held.
    Revoked,
    /// It is free.
    Freed,
}

impl Done {
    fn new(how: Option<Revoke>, found: Option<&Holding>) -> Done {
        match (found, how) {
            (None, _) => Done::Nothing,
            (Some(_), None) => Done::Refused,
            (Some(kept), Some(Revoke::Gently)) if kept.holder.is_none() => Done::Refused,
            (Some(_), Some(Revoke::Gently)) => Done::Revoked,
            (Some(_), Some(Revoke::Now)) => Done::Freed,
        }
    }
}

/// Those that are hit, or would be.
fn who(held: &Holding) -> String {
    let first = plain(&held.label);
    match held.others.len() {
        0 => first,
        more => format!("{first} and {} (see --holder)", output::counted(more, "other")),
    }
}

fn refusal(held: &Holding) -> String {
    let name = &held.name;
    let left = duration(held.remaining);
    let ends = match held.remaining {
        Holding::NO_END => "it does not end by itself".into(),
        _ => format!("unless renewed, it ends in {left}"),
    };
    if held.holder.is_none() {
        return format!("nobody holds {name}, but it is kept for another {left}; --now ends that");
    }
    let (who, since) = (who(held), known(held.held_for, held.library, held.token));
    let since = since.map_or_else(String::new, |since| format!(" for {}", duration(since)));
    format!(
        "{name} is held by {who}{since}; {ends}. To end it:
  --force  revoke it: it is renewed no more. The holder is told, stops its job and
           releases the lock; if it can't, the TTL ends it. Never do two run
  --now    free it at once: two may run until the old holder notices.
           For a holder that is known to be dead"
    )
}

/// What was done. `one` of several holders: the lock may have others.
fn told(held: &Holding, done: Done, one: bool) -> String {
    let (name, left) = (&held.name, duration(held.remaining));
    if held.holder.is_none() {
        return format!("{name} is free");
    }
    let (who, what) = (who(held), if one { format!("the hold of {name}") } else { name.to_string() });
    let (learns, stops) =
        if held.others.is_empty() { ("learns", "stops its job") } else { ("learn", "stop their jobs") };
    let is_told =
        if held.others.is_empty() { "is told at its next renewal" } else { "are told at their next renewals" };
    if done == Done::Freed {
        return format!(
            "{what} is free. {who} held it and {learns} of this at the next renewal: until then two may run"
        );
    }
    format!("{what} is revoked. {who} {is_told} and {stops}; in {left} the lock is free at the latest")
}
