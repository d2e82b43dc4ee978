//! `leasehold contention`: what was contended, and who held it so long.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::{LockName, Locks};
use leasehold_monitor::{Contention, LockContention, Quantiles};

use super::block_on;
use crate::args::{ContentionArgs, SortBy};
use crate::config::Config;
use crate::exit::{self, Failure};
use crate::output::{self, duration};

const HEAD: [&str; 9] =
    ["NAME", "ATTEMPTS", "GOT", "CONTENDED", "WAITED 50/90/99%", "HELD 50/90/99%", "TWICE", "LOST", "FAILED"];

/// So many of the longest holds are told.
const LONGEST: usize = 5;

const A_DAY: Duration = Duration::from_secs(24 * 3600);

/// Runs the verb.
///
/// # Errors
/// What the store says; 78 for one that keeps no notes.
pub fn run(args: &ContentionArgs, config: &Config) -> Result<i32, Failure> {
    let mut told = block_on(async {
        let locks = Locks::over(config.open_to_look()?);
        locks.notes().map_err(|error| Failure::new(exit::CONFIG, keeps_none(&error)))?;
        let names: BTreeSet<_> = args.names.iter().map(LockName::as_str).collect();
        if names.is_empty() {
            return Ok(Contention::read(&locks, args.since).await?);
        }
        Ok(Contention::read_of(&locks, args.since, |name| names.contains(name)).await?)
    })?;
    if args.since > Contention::KEPT {
        output::tell(&only_kept(args.since));
    }
    sort(&mut told.locks, args.sort);
    let all = told.locks.len();
    if args.top > 0 {
        told.locks.truncate(args.top);
    }
    if args.json {
        output::json(&told)?;
    } else if told.locks.is_empty() {
        output::tell(&nothing(args, config));
    } else {
        output::answer(&for_people(&told, all, args))?;
    }
    Ok(exit::OK)
}

fn keeps_none(error: &leasehold::Error) -> String {
    format!("{error}: nothing is counted there; name the store without compat= and mode=advisory")
}

/// The answer says since when it is; whoever asked for more is told why it isn't that.
fn only_kept(asked: Duration) -> String {
    let kept = duration(Contention::KEPT);
    format!("--since {}: what was counted is kept for {kept}, so this is about the last {kept}", duration(asked))
}

fn nothing(args: &ContentionArgs, config: &Config) -> String {
    let of = if args.names.is_empty() { "of any lock" } else { "of that" };
    let further = if args.since < A_DAY { "look further back with --since 1d, or with" } else { "look with" };
    format!(
        "nothing was counted {of} in {} within {}. `leasehold run NAME -- CMD` and `leasehold schedule` count, and clients of the library \
         that have a Tally, some ten seconds late; {further} `leasehold ls` at what is held now",
        config.shown(),
        duration(args.since.min(Contention::KEPT))
    )
}

fn sort(locks: &mut [LockContention], by: SortBy) {
    // By name they come.
    let longest = |spans: &Option<Quantiles>| spans.map_or(Duration::ZERO, |spans| spans.max);
    match by {
        SortBy::Contended => locks.sort_by_key(|lock| Reverse((lock.contended, lock.attempts))),
        SortBy::Waited => locks.sort_by_key(|lock| Reverse(longest(&lock.waited))),
        SortBy::Held => locks.sort_by_key(|lock| Reverse(longest(&lock.held))),
        SortBy::Attempts => locks.sort_by_key(|lock| Reverse(lock.attempts)),
        SortBy::Lost => locks.sort_by_key(|lock| Reverse((lost(lock), lock.failed))),
        SortBy::Name => (),
    }
}

/// The table, who held longest, and what else there is to say.
fn for_people(told: &Contention, all: usize, args: &ContentionArgs) -> String {
    let mut text = format!("since {:.0}, for {}\n\n", told.since, duration(span(told)));
    text += &output::table(HEAD, told.locks.iter().map(row));
    let longest = longest(&told.locks);
    if !longest.is_empty() {
        text += "\n\nlongest held:\n";
        text += &output::table(["NAME", "HELD", "SINCE", "BY"], longest);
    }
    let more = all - told.locks.len();
    if more > 0 {
        text += &format!(
            "\n\nand {} (--top 0 shows all, --sort {} what comes first)",
            output::counted(more, "more lock"),
            other_order(args.sort)
        );
    }
    if let Some(others) = &told.others {
        text += &format!(
            "\n\nand of up to {}, for each of which there was no room: {}, {} contended, {} lost",
            output::counted(others.names, "quiet lock"),
            output::counted(others.attempts, "attempt"),
            others.contended,
            others.lost
        );
    }
    if told.is_cut {
        text += "\n\nmore clients have written than are kept: what some have counted is missing";
    }
    text
}

fn span(told: &Contention) -> Duration {
    Duration::try_from(told.until.duration_since(told.since)).unwrap_or_default()
}

fn other_order(by: SortBy) -> &'static str {
    if by == SortBy::Held { "waited" } else { "held" }
}

fn row(lock: &LockContention) -> [String; 9] {
    let contended = match lock.contended {
        0 => "-".into(),
        some => format!("{some} ({:.0}%)", lock.contended_share * 100.0),
    };
    [
        lock.name.clone(),
        lock.attempts.to_string(),
        lock.acquired.to_string(),
        contended,
        spans(&lock.waited),
        spans(&lock.held),
        or_none(lock.prevented.marks.saturating_add(lock.prevented.fences)),
        or_none(lost(lock)),
        or_none(lock.failed),
    ]
}

/// `1ms/9ms/1.2s`
fn spans(spans: &Option<Quantiles>) -> String {
    spans.map_or_else(|| "-".into(), |of| [of.p50, of.p90, of.p99].map(duration).join("/"))
}

fn lost(lock: &LockContention) -> u64 {
    lock.lost.max(lock.late_releases)
}

fn or_none(number: u64) -> String {
    if number == 0 { "-".into() } else { number.to_string() }
}

fn longest(locks: &[LockContention]) -> Vec<[String; 4]> {
    let mut longest: Vec<_> = locks.iter().flat_map(|lock| lock.longest.iter().map(move |long| (lock, long))).collect();
    longest.sort_by_key(|(_, long)| Reverse(long.held));
    longest.truncate(LONGEST);
    let row = |(lock, long): (&LockContention, &leasehold_monitor::LongHold)| {
        [lock.name.clone(), duration(long.held), format!("{:.0}", long.at), long.label.clone()]
    };
    longest.into_iter().map(row).collect()
}
