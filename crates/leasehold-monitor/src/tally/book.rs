//! What one client has counted, on its way into the store.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use leasehold::validity::{Clock, Moment};
use leasehold::{HolderId, Locks, Result};

use super::page::{MINUTES, raw_notes};
use super::sheet::Sheet;

/// For how long we go by what the store's clock has shown.
const CLOCK: Duration = Duration::from_secs(5 * 60);

/// While the store is away, so many spans of time are kept apart; of what is older the time is forgotten.
const MOST_SPANS: usize = 12;

/// What was written so long ago may have been put together with what others have counted: it is written no more.
const FORGOTTEN: Duration = Duration::from_secs(15 * 60);

/// The notes of one client.
pub(crate) struct Book {
    locks: Locks,
    clock: Arc<dyn Clock>,
    /// Who writes.
    client: String,
    /// When the store was asked for the time, and by how many milliseconds it was ahead of our clock.
    ahead: Option<(Moment, i64)>,
    /// Counted, and not sorted in by the store's clock. The oldest first.
    aside: VecDeque<(Moment, Sheet)>,
    /// What is to be written, or was and goes on.
    spans: Vec<Span>,
    /// How many spans there have been.
    begun: u32,
}

/// What was counted within one span of time.
#[derive(Debug, Default)]
struct Span {
    /// When it begins, by the store's clock.
    begin: Duration,
    /// Which of this client's.
    which: u32,
    written: Sheet,
    /// Since it was written.
    fresh: Sheet,
    /// When it was written last.
    at: Option<Moment>,
}

impl Book {
    pub fn of(locks: Locks, clock: Arc<dyn Clock>) -> Self {
        let client = HolderId::fresh().to_string().chars().take(16).collect();
        Self { locks, clock, client, ahead: None, aside: VecDeque::new(), spans: Vec::new(), begun: 0 }
    }

    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    /// Asks the store for the time, if that is not known.
    ///
    /// # Errors
    /// The store can't say.
    pub async fn look_at_the_clock(&mut self) -> Result<i64> {
        if let Some((asked, ahead)) = self.ahead
            && self.clock.now().since(asked) < CLOCK
        {
            return Ok(ahead);
        }
        let time = self.locks.time().await?;
        let now = self.clock.now();
        let ahead = millis(time).saturating_sub(millis(now.since(Moment::default())));
        self.ahead = Some((now, ahead));
        Ok(ahead)
    }

    /// Keeps what was counted by now until it is written.
    pub fn set_aside(&mut self, counted: &Sheet) {
        if counted.is_empty() {
            return;
        }
        let now = self.clock.now();
        match self.aside.back_mut() {
            Some((since, sheet)) if now.since(*since) < MINUTES.step => sheet.merge(counted),
            _ => self.aside.push_back((now, counted.clone())),
        }
        if self.aside.len() > MOST_SPANS
            && let Some((_, oldest)) = self.aside.pop_front()
            && let Some((_, next)) = self.aside.front_mut()
        {
            next.merge(&oldest);
        }
    }

    /// Writes what is new; how many notes that were. `is_last`, if nothing is counted any more.
    ///
    /// # Errors
    /// The store can't say: it is written the next time.
    pub async fn write(&mut self, is_last: bool) -> Result<usize> {
        if self.aside.is_empty() && self.spans.iter().all(|span| span.fresh.is_empty()) {
            return Ok(0);
        }
        self.locks.notes()?; // Else the time is of no use.
        let ahead = self.look_at_the_clock().await?;
        self.sort_in(ahead);
        let now = self.clock.now();
        let current = self.spans.iter().map(|span| span.begin).max();
        let (mut notes, mut totals) = (Vec::new(), Vec::new());
        let is_forgotten = |span: &Span| span.at.is_some_and(|at| now.since(at) > FORGOTTEN);
        self.spans.retain(|span| !(is_forgotten(span) && span.fresh.is_empty()));
        for span in &mut self.spans {
            if is_forgotten(span) {
                self.begun += 1;
                *span = Span { which: self.begun, written: Sheet::default(), at: None, ..std::mem::take(span) };
            }
            let mut total = span.written.clone();
            total.merge(&span.fresh);
            let is_over = is_last || Some(span.begin) != current;
            notes.extend(raw_notes(span.begin, &self.client, span.which, is_over, &total).await?);
            totals.push(total);
        }
        if let Err(error) = self.locks.notes()?.note(&notes).await {
            self.ahead = None; // Nothing more is sorted in before it answers.
            return Err(error);
        }
        for (span, total) in self.spans.iter_mut().zip(totals) {
            (span.written, span.fresh, span.at) = (total, Sheet::default(), Some(now));
        }
        self.spans.retain(|span| !is_last && Some(span.begin) == current);
        Ok(notes.len())
    }

    /// By what the store's clock has shown.
    fn sort_in(&mut self, ahead: i64) {
        for (at, mut sheet) in self.aside.drain(..) {
            let at = millis(at.since(Moment::default())).saturating_add(ahead);
            let begin = MINUTES.begin(Duration::from_millis(at.max(0).unsigned_abs()));
            sheet.shift(ahead);
            sheet.is_of(begin);
            if let Some(span) = self.spans.iter_mut().find(|span| span.begin == begin) {
                span.fresh.merge(&sheet);
                continue;
            }
            self.begun += 1;
            self.spans.push(Span { begin, which: self.begun, fresh: sheet, ..Span::default() });
        }
    }
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}
