//! What a store keeps beside its locks, for people: short texts that decide nothing.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::Store;
use crate::error::{Error, Result};
use crate::name::{self, LockName};

/// A store that keeps notes: which runs a schedule had, what operators asked of it, what was contended.
///
/// Notes are a record and never the decider: whoever reads none, or old ones, grants nothing that a lock or a mark would
/// refuse. So they need not be durable, and a store may lose them where it may lose leases. To be one, a store keeps this
/// contract:
///
/// - *In place of the last*: a note replaces the one with its topic and id, as a whole.
/// - *Newest first*: the store stamps each note with its own clock when it is written, and tells a topic's notes by that,
///   the latest first; of the same millisecond, in the order of their ids. Whoever reads only what is [new](Search::since) looks
///   back a few seconds: a note may be seen later than one with a later stamp.
/// - *Bounded*: of a topic no more than [`Note::most`] are kept when one is written, those told last go; and each for
///   [`Note::keep`] from when it was written, less than twice as long.
/// - *Namespaces are apart*, and so are topics.
pub trait Notes: Store {
    /// Writes notes, each in the place of the one with its topic and id. In order; not in one step.
    ///
    /// # Errors
    /// As for any call. What was written before the error stays written; writing again does no harm.
    fn note<'a>(&'a self, notes: &'a [Note]) -> BoxFuture<'a, Result<()>>;

    /// The newest notes of a topic.
    fn notes<'a>(&'a self, of: &'a Search) -> BoxFuture<'a, Result<Vec<Noted>>>;

    /// Takes notes away; those that aren't there are no error.
    fn erase<'a>(&'a self, topic: &'a Topic, ids: &'a [NoteId]) -> BoxFuture<'a, Result<()>>;
}

/// What notes are about: a sort of them, and the lock where they are about one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic {
    /// Which sort: a short word of lower-case letters.
    pub sort: &'static str,
    /// About which lock; none for a sort that is one topic.
    pub name: Option<LockName>,
}

impl Topic {
    /// The longest word for a sort, in bytes.
    pub const LONGEST_SORT: usize = 16;

    /// All notes of a sort that is one topic.
    ///
    /// # Panics
    /// If the word is not 1 to 16 lower-case letters; in a constant, when it is compiled.
    #[must_use]
    pub const fn of_all(sort: &'static str) -> Self {
        let letters = sort.as_bytes();
        assert!(!letters.is_empty() && letters.len() <= Self::LONGEST_SORT, "a sort is a short word");
        let mut nth = 0;
        while nth < letters.len() {
            assert!(letters[nth].is_ascii_lowercase(), "a sort is a word of lower-case letters");
            nth += 1;
        }
        Self { sort, name: None }
    }

    /// The notes of this sort about one lock.
    #[must_use]
    pub fn about(self, name: LockName) -> Self {
        Self { name: Some(name), ..self }
    }
}

/// What a note is called within its topic: 1 to 200 bytes of UTF-8 without control characters, as a lock.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NoteId(Box<str>);

impl NoteId {
    /// The longest, in bytes.
    pub const LONGEST: usize = 200;

    /// Checks an id.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it is empty, too long or has a control character.
    pub fn new(id: &str) -> Result<Self> {
        name::check("id of a note", id, Self::LONGEST)?;
        Ok(Self(id.into()))
    }

    /// The id as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NoteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A note to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What it is about.
    pub topic: Topic,
    /// Which one of these.
    pub id: NoteId,
    /// What it says; at most [`Note::LONGEST`] bytes.
    pub text: String,
    /// For how long it is kept from now.
    pub keep: Duration,
    /// How many of its topic are kept at most, this one with them; at least 1.
    pub most: u32,
}

impl Note {
    /// The longest text, in bytes.
    pub const LONGEST: usize = 64 * 1024;

    /// Checks what a store relies on.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the text is too long, or none were to be kept.
    pub fn check(&self) -> Result<()> {
        if self.text.len() > Self::LONGEST {
            let message = format!("a note of {} bytes is too long: 65536 are the most", self.text.len());
            return Err(Error::invalid(message));
        }
        if self.most == 0 || self.keep.is_zero() {
            return Err(Error::invalid("a note that is not to be kept can't be written"));
        }
        Ok(())
    }
}

/// Which notes to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// Of what.
    pub topic: Topic,
    /// Only those written at this time of the store's clock or later.
    pub since: Duration,
    /// Only what comes after this one, in the order in which they are told: the next page.
    pub after: Option<(Duration, NoteId)>,
    /// How many at most.
    pub most: u32,
}

impl Search {
    /// The newest `most` of a topic.
    #[must_use]
    pub fn newest(topic: Topic, most: u32) -> Self {
        Self { topic, since: Duration::ZERO, after: None, most }
    }

    /// Whether a note that was written `at` this time under this id is one that is looked for.
    #[must_use]
    pub fn is_for(&self, at: Duration, id: &NoteId) -> bool {
        let is_after = |(last_at, last): &(Duration, NoteId)| at < *last_at || (at == *last_at && id > last);
        at >= self.since && self.after.as_ref().is_none_or(is_after)
    }
}

/// A note that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    /// When, by the store's clock: the time since the beginning of 1970, in whole milliseconds.
    pub at: Duration,
    /// Which one.
    pub id: NoteId,
    /// What it says.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> NoteId {
        NoteId::new(text).expect("it is legal")
    }

    #[test]
    fn ids_are_plain() {
        assert!(NoteId::new("2026-11-30T02:00:00Z").is_ok() && NoteId::new("a b/ä").is_ok());
        for wrong in ["", "two\nlines", &"x".repeat(201)] {
            assert!(NoteId::new(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_can_not_be_kept_is_refused() {
        let note = Note {
            topic: Topic::of_all("runs"),
            id: id("1"),
            text: "x".repeat(Note::LONGEST),
            keep: Duration::from_secs(1),
            most: 1,
        };
        assert!(note.check().is_ok());
        assert!(Note { text: "x".repeat(Note::LONGEST + 1), ..note.clone() }.check().is_err());
        assert!(Note { keep: Duration::ZERO, ..note.clone() }.check().is_err());
        assert!(Note { most: 0, ..note }.check().is_err());
    }

    #[test]
    fn a_page_ends_where_the_next_begins() {
        let at = Duration::from_secs;
        let search = Search { since: at(2), after: Some((at(5), id("b"))), ..Search::newest(Topic::of_all("runs"), 9) };
        assert!(!search.is_for(at(6), &id("a")) && !search.is_for(at(5), &id("a")) && !search.is_for(at(5), &id("b")));
        assert!(search.is_for(at(5), &id("c")) && search.is_for(at(4), &id("a")) && search.is_for(at(2), &id("a")));
        assert!(!search.is_for(at(1), &id("z")));
    }
}
