//! What all clients have counted, read.

use std::collections::HashMap;
use std::time::Duration;

use leasehold::{Locks, Result};

use super::page::{HOURS, MINUTES, Merged, read_merged, read_raw};
use super::sheet::{PARTS, Sheet};

/// What was counted within some time, by spans of it.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    /// Since when, by the store's clock: where a span begins.
    pub since: Duration,
    /// What that shows now.
    pub until: Duration,
    /// How long a span is.
    pub step: Duration,
    /// When each begins, and what was counted in it: by one client or by several, so that one may be there more than once.
    pub sheets: Vec<(Duration, Sheet)>,
    /// There were so many clients that what some have written may be gone.
    pub is_cut: bool,
}

impl Counted {
    /// What was counted within this time until now, and a step before that; of a longer time than is kept, within that.
    ///
    /// # Errors
    /// The store keeps no notes, or can't say.
    pub async fn within(locks: &Locks, span: Duration) -> Result<Self> {
        let span = span.min(HOURS.keep);
        let tier = if span <= MINUTES.keep { MINUTES } else { HOURS };
        let until = locks.time().await?;
        let since = tier.begin(until.saturating_sub(span));
        // In this order: what is put together meanwhile is found there, and is told apart.
        let (raw, mut is_cut) = read_raw(locks, since).await?;
        let merged = read_merged(locks, &tier, since).await?;
        let by_part: HashMap<_, _> = merged.iter().map(|merged| ((merged.begin, merged.part), merged)).collect();
        let is_wanted = |begin: Duration| since <= begin && begin <= until.saturating_add(tier.step);
        let mut sheets = Vec::new();
        for raw in raw.into_iter().filter(|raw| is_wanted(tier.begin(raw.begin))) {
            let begin = tier.begin(raw.begin);
            sheets.push((begin, not_in(&by_part, begin, raw.mark(), raw.sheet)));
        }
        for merged in merged.into_iter().filter(|merged| is_wanted(merged.begin)) {
            is_cut |= merged.is_cut;
            sheets.push((merged.begin, merged.sheet));
        }
        Ok(Self { since, until, step: tier.step, sheets, is_cut })
    }
}

/// What of a client's note is not counted in what is put together.
fn not_in(merged: &HashMap<(Duration, usize), &Merged>, begin: Duration, mark: u32, sheet: Sheet) -> Sheet {
    let is_counted = |part| merged.get(&(begin, part)).is_some_and(|merged| merged.counts(mark));
    if !(0..PARTS).any(is_counted) {
        return sheet;
    }
    let mut rest = Sheet::default();
    let parts = sheet.parts().into_iter().enumerate().filter(|(part, _)| !is_counted(*part));
    parts.for_each(|(_, part)| rest.merge(&part));
    rest
}
