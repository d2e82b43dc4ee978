//! Puts together what all clients have written, so that it takes little room however many there are and however short they live.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::store::{Note, NoteId};
use leasehold::{ErrorKind, Guard, Locks, Outcome, Result, Tick};
use tokio::task::yield_now;

use super::page::{HOURS, MINUTES, Merged, RAW, RAW_KEEP, Raw, Tier, read_merged, read_raw};

/// Whoever holds this puts together.
const CLERK: &str = "leasehold:tally";

/// In each of these spans of the store's time one client does so, whoever comes first.
const TURN: Duration = Duration::from_secs(15);

/// Who dies at it keeps nobody else from it for longer.
const TTL: Duration = Duration::from_secs(5);

/// For how long it is known that one had its turn.
const REMEMBER: Duration = Duration::from_secs(15 * 60);

/// How often a client that goes on comes for it.
pub(super) const EVERY: Duration = Duration::from_secs(5 * 60);

/// What was not written again for so long will not be: its client has gone, or has nothing to say of that span of time.
const SETTLED: Duration = Duration::from_secs(20 * 60);

/// So many notes are put together at a time: half as many as are remembered, so that whoever reads meanwhile counts none twice.
const AT_ONCE: usize = 100;

/// So often in one turn.
const ROUNDS: usize = 20;

/// So many notes are written in one call.
const WRITTEN_AT_ONCE: usize = 32;

/// Puts together what is settled, unless another has just done so, or does; for as long as it `goes_on`, which is looked at between
/// two calls. So who ends leaves no lock behind.
///
/// Nothing is lost or counted twice by a turn that is broken off anywhere. Only a write that is still on its way when its turn is over, some
/// seconds later, may undo what the next turn has counted.
///
/// # Errors
/// The store can't say.
pub(super) async fn put_together(locks: &Locks, goes_on: impl Fn() -> bool) -> Result<()> {
    let now = locks.time().await?;
    let turn = now.as_millis() - now.as_millis() % TURN.as_millis();
    let Some(tick) = i64::try_from(turn).ok().and_then(Tick::from_unix_millis) else { return Ok(()) };
    let lock = locks.lock(CLERK).tick(tick).remember(REMEMBER);
    let outcome = match lock.clone().ttl(TTL).try_acquire().await {
        // This client may hold nothing for so long.
        Err(error) if error.kind() == ErrorKind::Invalid => lock.try_acquire().await,
        outcome => outcome,
    };
    if let Outcome::Acquired(guard) = outcome? {
        let done = go_through(locks, &guard, now, goes_on).await;
        guard.complete().await?;
        return done;
    }
    Ok(())
}

async fn go_through(locks: &Locks, guard: &Guard, now: Duration, goes_on: impl Fn() -> bool) -> Result<()> {
    let goes_on = || guard.is_valid() && goes_on();
    let (raw, is_full) = read_raw(locks, now.saturating_sub(RAW_KEEP)).await?;
    let is_settled = |raw: &Raw| raw.ended || raw.at + SETTLED <= now;
    let mut settled: Vec<_> = raw.into_iter().filter(is_settled).collect();
    settled.reverse(); // The oldest first.
    for some in settled.chunks(AT_ONCE).take(ROUNDS) {
        for tier in [MINUTES, HOURS] {
            let notes = counted_in(locks, &tier, some, now, is_full).await?;
            for notes in notes.chunks(WRITTEN_AT_ONCE) {
                // Whoever was stopped since it read them would write over what the next one has counted, and erased.
                if !goes_on() {
                    return Ok(());
                }
                locks.notes()?.note(notes).await?;
            }
        }
        // The next one may have read what we had not written yet: it needs them.
        if !goes_on() {
            return Ok(());
        }
        let ids: Vec<NoteId> = some.iter().map(|raw| raw.id.clone()).collect();
        locks.notes()?.erase(&RAW, &ids).await?;
    }
    Ok(())
}

/// What is put together, with these notes counted in it, as it is to be written. Each counts once: what a turn that was broken off has
/// counted already is told there. `is_cut`, if some may be missing that were written then.
async fn counted_in(locks: &Locks, tier: &Tier, raw: &[Raw], now: Duration, is_cut: bool) -> Result<Vec<Note>> {
    let is_kept = |raw: &&Raw| {
        let begin = tier.begin(raw.begin);
        begin <= now + MINUTES.step && begin.saturating_add(tier.keep) > now
    };
    let Some(earliest) = raw.iter().filter(is_kept).map(|raw| tier.begin(raw.begin)).min() else {
        return Ok(Vec::new());
    };
    let before = read_merged(locks, tier, earliest).await?;
    let mut merged: BTreeMap<_, _> = before.into_iter().map(|merged| ((merged.begin, merged.part), merged)).collect();
    let mut changed = BTreeSet::new();
    for raw in raw.iter().filter(is_kept) {
        yield_now().await; // With thousands of locks there is much to do, on the thread of somebody who has jobs to start.
        let begin = tier.begin(raw.begin);
        for (part, sheet) in raw.sheet.parts().iter().enumerate().filter(|(_, sheet)| !sheet.is_empty()) {
            let into = merged.entry((begin, part)).or_insert_with(|| Merged::new(begin, part));
            if !into.counts(raw.mark()) {
                into.take(raw.mark(), sheet);
                into.is_cut |= is_cut;
                changed.insert((begin, part));
            }
        }
    }
    let mut notes = Vec::new();
    for key in &changed {
        notes.push(merged[key].note(tier)?);
        yield_now().await;
    }
    Ok(notes)
}
