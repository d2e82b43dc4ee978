//! Notes: two keys for each, changed together, under a lease that many share.
//!
//! Below the topic's prefix, `told/<stamp>/<id>` has until when it counts and what it says; the stamp counts backwards, so
//! that the keys stand in the order in which notes are told, and what is looked for is a range. `of/<id>` has under which
//! stamp that is. Stamps are of the clock of whoever writes: etcd tells nobody its own.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::calls::Limit;
use super::fault::{Cause, Fault};
use super::generated::{KeyValue, RangeRequest};
use super::keys::behind;
use super::txn::{MOST, Txn, below, count_below, one};
use super::{Core, Etcd, time_of_day};
use crate::error::{ErrorKind, Result};
use crate::store::{Note, NoteId, Noted, Notes, Search, Topic};

/// What stands in a key begins so: the number is the format's.
const FORMAT: &str = "leasehold/1 ";

/// How many notes are changed in one transaction, each by three operations, and how many bytes of text they may have: a
/// request has a megabyte and a half.
const AT_ONCE: usize = (MOST - 1) / 3; // they are counted, too
const BYTES: usize = 512 * 1024;

/// How many keys are read in one go.
const PAGE: usize = 500;

/// How often it is tried anew since others have written the same notes.
const TRIES: usize = 20;

/// The keys of a topic's notes.
struct Page {
    told: Vec<u8>,
    of: Vec<u8>,
}

/// Where a note stands.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    id: NoteId,
    at: u64,
    until: u64,
    /// When this was last changed.
    modified: i64,
}

impl Page {
    fn of(core: &Core, topic: &Topic) -> Self {
        let prefix = core.options.keys.notes(topic);
        Self { told: [&prefix[..], b"told/"].concat(), of: [&prefix[..], b"of/"].concat() }
    }

    fn of_note(&self, id: &NoteId) -> Vec<u8> {
        [&self.of[..], id.as_str().as_bytes()].concat()
    }

    /// Below which those stand that were written in this millisecond.
    fn told_at(&self, at: u64) -> Vec<u8> {
        [&self.told[..], format!("{:016x}/", u64::MAX - at).as_bytes()].concat()
    }

    fn told(&self, at: u64, id: &NoteId) -> Vec<u8> {
        [&self.told_at(at)[..], id.as_str().as_bytes()].concat()
    }

    /// From where and up to where those stand that are looked for.
    fn range(&self, of: &Search) -> (Vec<u8>, Vec<u8>) {
        let from = match &of.after {
            None => self.told.clone(),
            Some((at, _)) if at.subsec_nanos() % 1_000_000 > 0 => self.told_at(millis(*at)),
            Some((at, id)) => [&self.told(millis(*at), id)[..], &[0]].concat(),
        };
        (from, behind(&self.told_at(millis(of.since))))
    }

    /// None if it is not one that this version writes.
    fn read(&self, found: &KeyValue, now: u64) -> Option<Noted> {
        let (stamp, id) = text(found.key.strip_prefix(&self.told[..])?)?.split_once('/')?;
        let at = u64::MAX - u64::from_str_radix(stamp, 16).ok()?;
        let (until, said) = text(&found.value)?.strip_prefix(FORMAT)?.split_once(' ')?;
        let is_over = until.parse::<u64>().ok()? <= now;
        (!is_over).then_some(Noted { at: Duration::from_millis(at), id: NoteId::new(id).ok()?, text: said.to_owned() })
    }

    fn place(&self, found: &KeyValue) -> Result<Place, Fault> {
        let place = || {
            let id = NoteId::new(text(found.key.strip_prefix(&self.of[..])?)?).ok()?;
            let (at, until) = text(&found.value)?.strip_prefix(FORMAT)?.split_once(' ')?;
            Some(Place { id, at: at.parse().ok()?, until: until.parse().ok()?, modified: found.mod_revision })
        };
        place().ok_or_else(|| {
            let key = String::from_utf8_lossy(&found.key);
            let why = format!("the key {key} holds something else than where a note stands; delete it");
            Fault::unsent(ErrorKind::Misconfigured, why)
        })
    }

    /// Puts a note, in the place of what was there.
    fn put(&self, txn: Txn, note: &Note, before: Option<&Place>, now: u64, lease: i64) -> Txn {
        let until = now.saturating_add(millis(note.keep));
        let key = self.of_note(&note.id);
        let mut txn = txn.if_modified_at(&key, before.map_or(0, |before| before.modified));
        if let Some(before) = before.filter(|before| before.at != now) {
            txn = txn.delete(&self.told(before.at, &note.id));
        }
        let said = format!("{FORMAT}{until} {}", note.text);
        txn.put(&key, format!("{FORMAT}{now} {until}").into_bytes(), lease).put(
            &self.told(now, &note.id),
            said.into_bytes(),
            lease,
        )
    }
}

impl Core {
    async fn note(&self, notes: &[Note]) -> Result<()> {
        notes.iter().try_for_each(Note::check)?;
        let is_alike =
            |one: &Note, other: &Note| (&one.topic, one.most, one.keep) == (&other.topic, other.most, other.keep);
        for alike in notes.chunk_by(is_alike) {
            self.note_alike(alike).await.map_err(|fault| self.told(fault))?;
        }
        Ok(())
    }

    /// Notes of one topic that are kept alike.
    async fn note_alike(&self, mut notes: &[Note]) -> Result<(), Fault> {
        let (page, most) = (Page::of(self, &notes[0].topic), notes[0].most);
        while !notes.is_empty() {
            let (some, rest) = notes.split_at(so_many_at_once(notes));
            if self.write(&page, some).await? > u64::from(most) {
                self.trim(&page, most as usize).await?;
            }
            notes = rest;
        }
        Ok(())
    }

    /// How many the topic has then: counted by the keys that stay the same, for of the others etcd passes by each that was ever deleted
    /// until it is compacted.
    async fn write(&self, page: &Page, notes: &[Note]) -> Result<u64, Fault> {
        for _ in 0..TRIES {
            let lease = self.lease_for_notes(notes[0].keep).await?;
            let before = self.places_of(page, notes.iter().map(|note| &note.id)).await?;
            let now = millis(time_of_day());
            let put = |txn, (note, before): (&Note, &Option<Place>)| page.put(txn, note, before.as_ref(), now, lease);
            let txn = notes.iter().zip(&before).fold(Txn::default(), put).look([count_below(&page.of)]);
            match self.members.repeat(Limit::LONGEST, txn).await {
                Ok(done) if done.held => return Ok(done.counts.first().map_or(0, |count| count.unsigned_abs())),
                Ok(_) => {}
                Err(fault) if fault.cause == Cause::NoLease => self.shared.note_leases.forget(lease),
                Err(fault) => return Err(fault),
            }
        }
        Err(crowd())
    }

    /// Where each of these stands, if it does.
    async fn places_of<'a>(
        &self,
        page: &Page,
        ids: impl Iterator<Item = &'a NoteId>,
    ) -> Result<Vec<Option<Place>>, Fault> {
        let looking = Txn::default().look(ids.map(|id| one(&page.of_note(id))));
        let done = self.members.read(Limit::LONGEST, looking).await?;
        done.found.iter().map(|found| found.first().map(|found| page.place(found)).transpose()).collect()
    }

    /// Takes out those that are told last, and those whose time is over.
    async fn trim(&self, page: &Page, most: usize) -> Result<(), Fault> {
        for _ in 0..TRIES {
            let now = millis(time_of_day());
            let (mut kept, mut out): (Vec<_>, Vec<_>) =
                self.places(page).await?.into_iter().partition(|place| place.until > now);
            kept.sort_unstable_by(|one, other| (Reverse(one.at), &one.id).cmp(&(Reverse(other.at), &other.id)));
            out.extend(kept.into_iter().skip(most));
            if self.remove(page, &out).await? {
                return Ok(());
            }
        }
        Err(crowd())
    }

    /// Where all notes of a topic stand.
    async fn places(&self, page: &Page) -> Result<Vec<Place>, Fault> {
        let RangeRequest { key: mut from, range_end: end, .. } = below(&page.of);
        let mut places = Vec::new();
        loop {
            let range =
                RangeRequest { key: from, range_end: end.clone(), limit: PAGE as i64, ..RangeRequest::default() };
            let found = self.members.range(Limit::LONGEST, &range).await?;
            for found in &found.kvs {
                places.push(page.place(found)?);
            }
            match found.kvs.last().filter(|_| found.more) {
                Some(last) => from = [&last.key[..], &[0]].concat(),
                None => return Ok(places),
            }
        }
    }

    /// Takes notes away as they were seen; false if some have changed, which are left.
    async fn remove(&self, page: &Page, places: &[Place]) -> Result<bool, Fault> {
        let mut all = true;
        for some in places.chunks(AT_ONCE) {
            let remove = |txn: Txn, place: &Place| {
                let key = page.of_note(&place.id);
                txn.if_modified_at(&key, place.modified).delete(&key).delete(&page.told(place.at, &place.id))
            };
            let txn = some.iter().fold(Txn::default(), remove);
            all &= self.members.repeat(Limit::LONGEST, txn).await?.held;
        }
        Ok(all)
    }

    async fn erase(&self, topic: &Topic, ids: &[NoteId]) -> Result<(), Fault> {
        let (page, ids): (_, Vec<_>) =
            (Page::of(self, topic), ids.iter().collect::<BTreeSet<_>>().into_iter().collect());
        for some in ids.chunks(AT_ONCE) {
            let mut tries = 0;
            loop {
                let places: Vec<_> = self.places_of(&page, some.iter().copied()).await?.into_iter().flatten().collect();
                if self.remove(&page, &places).await? {
                    break;
                }
                tries += 1;
                if tries == TRIES {
                    return Err(crowd());
                }
            }
        }
        Ok(())
    }

    async fn notes(&self, of: &Search) -> Result<Vec<Noted>, Fault> {
        let (page, most, mut notes) = (Page::of(self, &of.topic), of.most as usize, Vec::new());
        let (mut from, end) = page.range(of);
        let now = millis(time_of_day());
        while notes.len() < most {
            let limit = (most - notes.len()).min(PAGE) as i64;
            let range = RangeRequest { key: from, range_end: end.clone(), limit, ..RangeRequest::default() };
            let found = self.members.range(Limit::LONGEST, &range).await?;
            let read = found.kvs.iter().filter_map(|found| page.read(found, now));
            notes.extend(read.filter(|noted| of.is_for(noted.at, &noted.id)));
            match found.kvs.last().filter(|_| found.more) {
                Some(last) => from = [&last.key[..], &[0]].concat(),
                None => break,
            }
        }
        Ok(notes)
    }
}

/// How many of these go into one transaction: no id is twice in it.
fn so_many_at_once(notes: &[Note]) -> usize {
    let (mut ids, mut bytes) = (BTreeSet::new(), 0);
    for note in notes.iter().take(AT_ONCE) {
        bytes += note.text.len();
        if bytes > BYTES || !ids.insert(&note.id) {
            break;
        }
    }
    ids.len()
}

fn crowd() -> Fault {
    Fault::unsent(ErrorKind::Unavailable, "so many write the same notes that nothing gets through")
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl Notes for Etcd {
    fn note<'a>(&'a self, notes: &'a [Note]) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.core.note(notes))
    }

    fn notes<'a>(&'a self, of: &'a Search) -> BoxFuture<'a, Result<Vec<Noted>>> {
        Box::pin(async move { self.core.notes(of).await.map_err(|fault| self.core.told(fault.surely())) })
    }

    fn erase<'a>(&'a self, topic: &'a Topic, ids: &'a [NoteId]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.core.erase(topic, ids).await.map_err(|fault| self.core.told(fault)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(texts: &[(&str, usize)]) -> Vec<Note> {
        let note = |(id, length): &(&str, usize)| Note {
            topic: Topic::of_all("tests"),
            id: NoteId::new(id).unwrap(),
            text: "x".repeat(*length),
            keep: Duration::from_secs(60),
            most: 9,
        };
        texts.iter().map(note).collect()
    }

    #[test]
    fn a_transaction_has_each_note_once_and_fits_into_a_request() {
        assert_eq!(so_many_at_once(&notes(&[("a", 1), ("b", 1), ("a", 1)])), 2);
        let ids: Vec<_> = (0..100).map(|nth| nth.to_string()).collect();
        let of = |length| notes(&ids.iter().map(|id| (id.as_str(), length)).collect::<Vec<_>>());
        assert_eq!([so_many_at_once(&of(1)), so_many_at_once(&of(Note::LONGEST))], [AT_ONCE, BYTES / Note::LONGEST]);
    }

    #[test]
    fn what_is_looked_for_is_a_range() {
        let page = Page { told: b"told/".to_vec(), of: b"of/".to_vec() };
        let id = |id: &str| NoteId::new(id).unwrap();
        let mut keys =
            vec![page.told(7, &id("b")), page.told(9, &id("z")), page.told(9, &id("a")), page.told(9, &id("a/b"))];
        keys.sort_unstable();
        let in_order = [(9, "a"), (9, "a/b"), (9, "z"), (7, "b")].map(|(at, name)| page.told(at, &id(name)));
        assert_eq!(keys, in_order);
        let found = |since: u64, after: Option<(u64, &str)>| {
            let after = after.map(|(at, name)| (Duration::from_millis(at), id(name)));
            let search = Search { since: Duration::from_millis(since), after, ..Search::newest(Topic::of_all("t"), 9) };
            let (from, end) = page.range(&search);
            keys.iter().filter(|key| **key >= from && **key < end).count()
        };
        assert_eq!([found(0, None), found(8, None), found(9, None), found(10, None)], [4, 3, 3, 0]);
        assert_eq!([found(0, Some((9, "a"))), found(8, Some((9, "a"))), found(0, Some((8, "x")))], [3, 2, 1]);
    }

    #[test]
    fn a_note_is_read_as_it_was_written_until_its_time_is_over() {
        let page = Page { told: b"told/".to_vec(), of: b"of/".to_vec() };
        let key = page.told(1_796_004_000_123, &NoteId::new("a/b c").unwrap());
        let found = |value: &str| KeyValue { key: key.clone(), value: value.into(), ..KeyValue::default() };
        let noted = page.read(&found("leasehold/1 1796004060123  two\nlines "), 1_796_004_060_122).unwrap();
        assert_eq!((noted.at.as_millis(), noted.id.as_str()), (1_796_004_000_123, "a/b c"));
        assert_eq!(noted.text, " two\nlines ");
        assert_eq!(page.read(&found("leasehold/1 1796004060123 x"), 1_796_004_060_123), None, "it is over");
        assert_eq!(page.read(&found("leasehold/2 1796004060123 x"), 0), None, "a later version's");
    }
}
