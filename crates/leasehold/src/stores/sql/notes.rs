//! Notes, as they are written and read.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::store::{Note, NoteId, Noted, Topic};

/// How many one call may carry.
const AT_ONCE: usize = 200;

/// And how much they may say together: a packet that every server takes, in no time.
const BYTES_AT_ONCE: usize = 256 * 1024;

/// What stands for the name in topics that are about none: no lock is called so.
pub(crate) fn name_of(topic: &Topic) -> &str {
    topic.name.as_ref().map_or("", |name| name.as_str())
}

/// Whole milliseconds, in which notes are stamped; less than one is one.
pub(crate) fn millis(span: Duration) -> i64 {
    super::micros(span).saturating_add(999) / 1000
}

/// Notes as they go out, in order: each time some of one topic, that are kept alike, and not too many.
pub(crate) fn batches(mut notes: &[Note]) -> impl Iterator<Item = &[Note]> {
    std::iter::from_fn(move || {
        let first = notes.first()?;
        let mut bytes = 0;
        let belongs = |note: &&Note| {
            bytes += note.text.len();
            (&note.topic, note.most, note.keep) == (&first.topic, first.most, first.keep) && bytes <= BYTES_AT_ONCE
        };
        let many = notes.iter().take(AT_ONCE).take_while(belongs).count().max(1);
        let (batch, rest) = notes.split_at(many);
        notes = rest;
        Some(batch)
    })
}

/// Ids as they go out.
pub(crate) fn ids(ids: &[NoteId]) -> impl Iterator<Item = &[NoteId]> {
    ids.chunks(AT_ONCE)
}

/// The error of a call that came behind so many: these did what they should.
pub(crate) fn after(calls: usize, error: Error) -> Error {
    if calls == 0 { error } else { error.maybe_applied() }
}

/// Which notes come next: those that were written at this time and have a larger id, or were before.
pub(crate) fn last(after: Option<&(Duration, NoteId)>) -> (i64, &str) {
    after.map_or((i64::MAX, ""), |(at, id)| (millis(*at), id.as_str()))
}

/// One that was written, as it stands there.
pub(crate) fn noted(written: i64, id: &[u8], said: &[u8]) -> Result<Noted> {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let at = Duration::from_millis(u64::try_from(written).unwrap_or(0));
    Ok(Noted { at, id: NoteId::new(&text(id))?, text: text(said) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Applied, ErrorKind};
    use crate::name::LockName;

    fn note(name: &str, length: usize) -> Note {
        let topic = Topic::of_all("runs").about(LockName::new(name).unwrap());
        let keep = Duration::from_secs(1);
        Note { topic, id: NoteId::new("1").unwrap(), text: "x".repeat(length), keep, most: 9 }
    }

    fn sizes(notes: &[Note]) -> Vec<usize> {
        batches(notes).map(<[Note]>::len).collect()
    }

    #[test]
    fn a_call_carries_what_is_kept_alike_and_not_too_much() {
        assert!(sizes(&[]).is_empty());
        assert_eq!(sizes(&[note("a", 1), note("a", 1), note("b", 1), note("a", 1)]), [2, 1, 1]);
        assert_eq!(sizes(&[note("a", 1), Note { most: 8, ..note("a", 1) }]), [1, 1]);
        assert_eq!(sizes(&[note("a", 1), Note { keep: Duration::from_secs(2), ..note("a", 1) }]), [1, 1]);
        assert_eq!(sizes(&vec![note("a", 0); 450]), [200, 200, 50]);
        assert_eq!(sizes(&vec![note("a", Note::LONGEST); 9]), [4, 4, 1]);
    }

    #[test]
    fn nothing_is_kept_for_no_time_or_beyond_all_time() {
        assert_eq!(millis(Duration::from_nanos(1)), 1);
        assert_eq!(millis(Duration::from_millis(1500)), 1500);
        assert!(millis(Duration::MAX).checked_add(i64::MAX / 2).is_some());
    }

    #[test]
    fn what_came_before_an_error_may_be_there() {
        let error = || Error::new(ErrorKind::Unavailable, "it is gone");
        assert_eq!(after(0, error()).applied(), Applied::No);
        assert_eq!(after(1, error()).applied(), Applied::Maybe);
    }
}
