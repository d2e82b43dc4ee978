//! What was counted, as notes in the store.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::store::{Note, NoteId, Noted, Search, Topic};
use leasehold::{Locks, Result};
use serde::{Deserialize, Serialize};
use tokio::task::yield_now;

use super::sheet::{Fitted, Sheet, hash};

/// What clients have written of themselves.
pub(crate) const RAW: Topic = Topic::of_all("tally");

/// So many notes of clients there are at most: more than are written before they are put together.
pub(crate) const RAW_MOST: u32 = 8000;

/// For how long the last of them stay that nobody has put together.
pub(crate) const RAW_KEEP: Duration = A_WEEK;

pub(crate) const A_WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// So much of a note is about locks.
const RAW_ROOM: usize = 60_000;

/// How many of those that were put together last are told, so that none is counted twice.
const PUT_TOGETHER: usize = 200;

/// So many notes are read at a time.
const PAGE: u32 = 200;

/// What is counted together in time, and what becomes of it once it is put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tier {
    /// Where it stands.
    pub topic: Topic,
    /// How long a span of time is.
    pub step: Duration,
    /// For how long it is kept.
    pub keep: Duration,
    /// How many notes at most.
    most: u32,
    /// So much of a note is about locks.
    room: usize,
}

/// Five minutes each, for half a day.
pub(crate) const MINUTES: Tier = Tier {
    topic: Topic::of_all("tallyminutes"),
    step: Duration::from_secs(5 * 60),
    keep: Duration::from_secs(12 * 3600),
    most: 2560,
    room: 32_000,
};

/// Hours, for a week.
pub(crate) const HOURS: Tier = Tier {
    topic: Topic::of_all("tallyhours"),
    step: Duration::from_secs(3600),
    keep: A_WEEK,
    most: 2880,
    room: 32_000,
};

impl Tier {
    /// When the span begins that this falls into.
    pub fn begin(&self, at: Duration) -> Duration {
        Duration::from_secs(at.as_secs() - at.as_secs() % self.step.as_secs())
    }
}

/// What stands in a note.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Page {
    /// When the span of time begins that it is about: seconds since 1970 by the store's clock.
    #[serde(rename = "at")]
    pub begin: u64,
    /// Its client will not write it again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ended: bool,
    /// There were so many notes of clients that some may be missing in it.
    #[serde(rename = "cut", default, skip_serializing_if = "is_false")]
    pub is_cut: bool,
    /// The notes of clients that are counted in it and may still be there: hashes of their ids, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of: Vec<u32>,
    /// What was counted.
    #[serde(flatten)]
    pub fitted: Fitted,
}

fn is_false(truth: &bool) -> bool {
    !truth
}

/// A note of a client that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Raw {
    pub id: NoteId,
    /// When it was written last, by the store's clock.
    pub at: Duration,
    pub begin: Duration,
    pub ended: bool,
    pub sheet: Sheet,
}

impl Raw {
    /// As it is told in what it is counted in.
    pub fn mark(&self) -> u32 {
        mark(&self.id)
    }
}

fn mark(id: &NoteId) -> u32 {
    (hash(id.as_str()) >> 16) as u32
}

/// What a client has counted in one span of time, as notes. `which` is another for what is not to take the place of an earlier one.
pub(crate) async fn raw_notes(
    begin: Duration,
    client: &str,
    which: u32,
    ended: bool,
    sheet: &Sheet,
) -> Result<Vec<Note>> {
    let mut parts = Vec::new();
    if sheet.fits(RAW_ROOM) {
        parts.push(sheet.fitted(RAW_ROOM));
    } else {
        for part in sheet.parts() {
            yield_now().await; // It is much to write, on the thread of somebody who has jobs to start.
            parts.push(part.fitted(RAW_ROOM));
        }
    }
    let parts = parts.into_iter().enumerate().filter(|(nth, part)| *nth == 0 || *part != Fitted::default());
    let note = |(nth, fitted)| {
        let id = NoteId::new(&format!("{}/{client}/{which}/{nth}", begin.as_secs()))?;
        let page = Page { begin: begin.as_secs(), ended, fitted, ..Page::default() };
        Ok(Note { topic: RAW, id, text: text(&page), keep: RAW_KEEP, most: RAW_MOST })
    };
    parts.map(note).collect()
}

fn text(page: &Page) -> String {
    serde_json::to_string(page).expect("its keys are texts")
}

/// One part of what was counted by all in one span of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Merged {
    pub begin: Duration,
    pub part: usize,
    /// The notes that are counted in it, the newest first.
    of: Vec<u32>,
    /// Some may be missing.
    pub is_cut: bool,
    pub sheet: Sheet,
}

impl Merged {
    pub fn new(begin: Duration, part: usize) -> Self {
        Self { begin, part, ..Self::default() }
    }

    /// Whether this note is counted in it.
    pub fn counts(&self, mark: u32) -> bool {
        self.of.contains(&mark)
    }

    /// Counts a part of a note in it.
    pub fn take(&mut self, mark: u32, sheet: &Sheet) {
        self.of.insert(0, mark);
        self.of.truncate(PUT_TOGETHER);
        self.sheet.merge(sheet);
    }

    /// As it is written.
    pub fn note(&self, tier: &Tier) -> Result<Note> {
        let fitted = self.sheet.fitted(tier.room);
        let (begin, of) = (self.begin.as_secs(), self.of.clone());
        let page = Page { begin, ended: false, is_cut: self.is_cut, of, fitted };
        let id = NoteId::new(&format!("{}/{}", page.begin, self.part))?;
        Ok(Note { topic: tier.topic.clone(), id, text: text(&page), keep: tier.keep, most: tier.most })
    }
}

/// The notes of clients that were written since then, the latest first, and whether there were so many that some may be gone.
pub(crate) async fn read_raw(locks: &Locks, since: Duration) -> Result<(Vec<Raw>, bool)> {
    let notes = read(locks, &RAW, since).await?;
    let is_full = notes.len() >= RAW_MOST as usize;
    let raw = |Noted { at, id, text }: Noted| {
        // What a later version has written in another way can't be counted by this one.
        let page: Page = serde_json::from_str(&text).ok()?;
        let begin = Duration::from_secs(page.begin);
        Some(Raw { id, at, begin, ended: page.ended, sheet: page.fitted.into() })
    };
    Ok((notes.into_iter().filter_map(raw).collect(), is_full))
}

/// What is put together of the spans of time that begin then or later.
pub(crate) async fn read_merged(locks: &Locks, tier: &Tier, since: Duration) -> Result<Vec<Merged>> {
    let merged = |Noted { id, text, .. }: Noted| {
        let page: Page = serde_json::from_str(&text).ok()?;
        let part = id.as_str().rsplit('/').next()?.parse().ok()?;
        let begin = Duration::from_secs(page.begin);
        let Page { is_cut, of, fitted, .. } = page;
        (begin >= since).then(|| Merged { begin, part, of, is_cut, sheet: fitted.into() })
    };
    Ok(read(locks, &tier.topic, since).await?.into_iter().filter_map(merged).collect())
}

/// All notes of a topic that were written since then.
async fn read(locks: &Locks, topic: &Topic, since: Duration) -> Result<Vec<Noted>> {
    // A note may be seen later than one with a later stamp, and a store's clock may have been set back a little.
    let mut search = Search { since: since.saturating_sub(A_LITTLE), ..Search::newest(topic.clone(), PAGE) };
    let (mut notes, mut seen) = (Vec::new(), BTreeSet::new());
    let (mut is_first, mut is_again) = (true, false);
    loop {
        let page = locks.notes()?.notes(&search).await?;
        let is_last = page.len() < PAGE as usize;
        search.after = page.last().map(|Noted { at, id, .. }| (*at, id.clone()));
        // One that is written again meanwhile comes twice.
        notes.extend(page.into_iter().filter(|noted| seen.insert(noted.id.clone())));
        if is_again || is_last && is_first {
            return Ok(notes);
        }
        if is_last {
            // What was still to come and was written again meanwhile is among the first by now.
            (is_again, search.after) = (true, None);
        }
        is_first = false;
    }
}

const A_LITTLE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::super::count::Count;
    use super::*;

    fn many(locks: usize) -> Sheet {
        let mut sheet = Sheet::default();
        for nth in 0..locks {
            *sheet.of(&format!("a-job-with-a-name-of-some-length-{nth}")) = Count { acquired: 1, ..Count::default() };
        }
        sheet
    }

    #[tokio::test]
    async fn what_one_client_writes_is_one_note_or_a_few() {
        let begin = Duration::from_secs(1_796_068_800);
        for (locks, notes) in [(0, 1), (1, 1), (500, 1), (10_000, 16)] {
            let written = raw_notes(begin, "client", 0, false, &many(locks)).await.unwrap();
            assert_eq!(written.len(), notes, "for {locks} locks");
            written.iter().for_each(|note| note.check().unwrap());
            let read = written.iter().map(|note| serde_json::from_str::<Page>(&note.text).unwrap());
            let mut whole = Sheet::default();
            read.for_each(|page| whole.merge(&page.fitted.into()));
            assert_eq!(whole, many(locks), "nothing is lost of {locks} locks");
        }
    }

    #[test]
    fn what_is_put_together_stays_a_note() {
        let mut merged = Merged::new(Duration::from_secs(300), 3);
        (0..5000).for_each(|mark| merged.take(mark, &many(1)));
        assert!(merged.counts(4999) && merged.counts(4801) && !merged.counts(4799));
        merged.take(5000, &many(9999));
        merged.is_cut = true;
        for tier in [MINUTES, HOURS] {
            let note = merged.note(&tier).unwrap();
            note.check().unwrap();
            let page: Page = serde_json::from_str(&note.text).unwrap();
            assert!(page.is_cut && !text(&Page::default()).contains("cut"));
            let read: Sheet = page.fitted.into();
            let all = read.locks.values().chain([&read.others.count]).map(|count| count.acquired).sum::<u64>();
            assert_eq!((all, note.id.as_str()), (5000 + 9999, "300/3"));
        }
    }

    #[test]
    fn a_span_of_time_begins_where_its_clock_is_round() {
        let at = Duration::from_millis(1_796_068_799_999);
        assert_eq!(MINUTES.begin(at), Duration::from_secs(1_796_068_500));
        assert_eq!(HOURS.begin(at), Duration::from_secs(1_796_065_200));
    }
}
