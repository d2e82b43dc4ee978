//! Notes, in memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::Memory;
use crate::error::Result;
use crate::store::{Note, NoteId, Noted, Notes, Search, Topic};

/// The notes of one topic.
#[derive(Debug, Clone, Default)]
pub(super) struct Page {
    notes: BTreeMap<NoteId, Kept>,
}

#[derive(Debug, Clone)]
struct Kept {
    at: Duration,
    /// Until when, by the store's clock.
    until: Duration,
    text: String,
}

impl Page {
    fn write(&mut self, note: &Note, utc: Duration) {
        let at = Duration::from_millis(u64::try_from(utc.as_millis()).unwrap_or(u64::MAX));
        let kept = Kept { at, until: utc.saturating_add(note.keep), text: note.text.clone() };
        self.notes.insert(note.id.clone(), kept);
        self.notes.retain(|_, kept| kept.until > utc);
        while self.notes.len() > note.most as usize {
            let oldest = self.notes.iter().max_by_key(|(id, kept)| (Reverse(kept.at), *id)).map(|(id, _)| id.clone());
            oldest.and_then(|oldest| self.notes.remove(&oldest));
        }
    }

    fn read(&self, search: &Search, utc: Duration) -> Vec<Noted> {
        let are_for = self.notes.iter().filter(|(id, kept)| kept.until > utc && search.is_for(kept.at, id));
        let told = |(id, kept): (&NoteId, &Kept)| Noted { at: kept.at, id: id.clone(), text: kept.text.clone() };
        let mut notes: Vec<_> = are_for.map(told).collect();
        notes.sort_by(|one, other| (other.at, &one.id).cmp(&(one.at, &other.id)));
        notes.truncate(search.most as usize);
        notes
    }
}

impl Notes for Memory {
    fn note<'a>(&'a self, notes: &'a [Note]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            notes.iter().try_for_each(Note::check)?;
            self.with_all(|contents, now| {
                let utc = contents.utc(now);
                for note in notes {
                    contents.notes.entry(note.topic.clone()).or_default().write(note, utc);
                }
            });
            Ok(())
        })
    }

    fn notes<'a>(&'a self, of: &'a Search) -> BoxFuture<'a, Result<Vec<Noted>>> {
        Box::pin(async move {
            let read = self.with_all(|contents, now| {
                let utc = contents.utc(now);
                contents.notes.get(&of.topic).map(|page| page.read(of, utc))
            });
            Ok(read.unwrap_or_default())
        })
    }

    fn erase<'a>(&'a self, topic: &'a Topic, ids: &'a [NoteId]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.with_all(|contents, _| {
                if let Some(page) = contents.notes.get_mut(topic) {
                    page.notes.retain(|id, _| !ids.contains(id));
                }
            });
            Ok(())
        })
    }
}
