//! Notes at all members that keep some, and what a majority has of them.
//!
//! Each member stamps what it is told with its own clock. What is read is what the members that answer have between them, of
//! each note what has the latest stamp. So where a member is a minute fast, and was away when a note was written again within
//! a minute, its older one is told.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};

use super::ending::in_background;
use super::round::Round;
use super::{Inner, LIMIT, Quorum};
use crate::error::Result;
use crate::store::{Note, NoteId, Noted, Notes, Search, Store, Topic};

/// How long a member may take for what is written: many notes are many calls.
const WRITTEN_WITHIN: Duration = Duration::from_secs(4);

/// So many more than are asked for are read of each member at first: they need not have the same, nor in the same order.
const MORE: u32 = 32;

/// What one member has told.
struct Told {
    notes: Vec<Noted>,
    /// Whether it may have more, behind these.
    has_more: bool,
}

impl Inner {
    /// Whether so many members keep notes that a majority can have each.
    pub(super) fn keep_notes(&self) -> bool {
        self.keepers().count() >= self.majority()
    }

    /// The members that keep notes.
    fn keepers(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|member| self.nodes[*member].store.as_notes().is_some())
    }

    /// Sends it to all that keep notes. Its calls need nobody to wait for them.
    async fn to_keepers<'a, T: Send + 'a>(
        &self,
        limit: Duration,
        call: impl Fn(Arc<dyn Store>) -> BoxFuture<'a, Result<T>> + Send + Sync,
    ) -> Round<'a, T> {
        Round::send(self.keepers().map(|member| (member, call(Arc::clone(&self.nodes[member].store)))), limit).await
    }

    async fn note(&self, notes: &[Note]) -> Result<()> {
        notes.iter().try_for_each(Note::check)?;
        let notes: Arc<[Note]> = notes.into();
        let write = |store: Arc<dyn Store>| {
            let notes = Arc::clone(&notes);
            async move { kept_by(&*store).note(&notes).await }.boxed()
        };
        let mut round = self.to_keepers(WRITTEN_WITHIN, write).await;
        let (mut heard, mut failed) = (0, Vec::new());
        while heard < self.majority()
            && let Some((member, answer)) = round.next().await
        {
            match answer {
                Ok(()) => heard += 1,
                Err(error) => failed.push((member, error)),
            }
        }
        if heard < self.majority() {
            let error = self.outage(&failed);
            return Err(if heard > 0 { error.maybe_applied() } else { error });
        }
        in_background(async move { drop(round.rest().await) }).await;
        Ok(())
    }

    async fn erase(&self, topic: &Topic, ids: &[NoteId]) -> Result<()> {
        let what: Arc<(Topic, Vec<NoteId>)> = Arc::new((topic.clone(), ids.to_vec()));
        let erase = |store: Arc<dyn Store>| {
            let what = Arc::clone(&what);
            async move { kept_by(&*store).erase(&what.0, &what.1).await }.boxed()
        };
        let answers = self.to_keepers(WRITTEN_WITHIN, erase).await.rest().await;
        let all = answers.len();
        let failed: Vec<_> = answers.into_iter().filter_map(|(member, answer)| Some((member, answer.err()?))).collect();
        if failed.is_empty() {
            return Ok(());
        }
        let error = self.outage(&failed).context("who was not reached will tell the notes again");
        Err(if failed.len() < all { error.maybe_applied() } else { error })
    }

    /// Of each member so many that none is missing that belongs to those that are looked for; also those before a page, for
    /// what stands there under a later stamp is not to be told again under an earlier one.
    async fn notes(&self, of: &Search) -> Result<Vec<Noted>> {
        let mut sought = Search { after: None, most: of.most.saturating_add(MORE), ..of.clone() };
        loop {
            if let Some(notes) = merged(&self.read(&sought).await?, of) {
                return Ok(notes);
            }
            sought.most = sought.most.saturating_mul(2);
        }
    }

    async fn read(&self, search: &Search) -> Result<Vec<Told>> {
        let (search, most) = (Arc::new(search.clone()), search.most as usize);
        let read = |store: Arc<dyn Store>| {
            let search = Arc::clone(&search);
            async move { kept_by(&*store).notes(&search).await }.boxed()
        };
        let seen = self.see(self.to_keepers(LIMIT, read).await).await?;
        let told = |notes: Vec<Noted>| Told { has_more: notes.len() >= most, notes };
        Ok(seen.answers.into_iter().map(told).collect())
    }
}

/// Of each note the latest, in order; none if there may be more among those that were not told.
fn merged(told: &[Told], of: &Search) -> Option<Vec<Noted>> {
    let mut all: Vec<_> = told.iter().flat_map(|told| &told.notes).collect();
    all.sort_by(|one, other| place(one).cmp(&place(other)));
    // Behind the last that a member has told, it may know of one that is not here.
    let complete_to = told.iter().filter(|told| told.has_more).filter_map(|told| told.notes.last()).map(place).min();
    let (mut seen, mut notes) = (BTreeSet::new(), Vec::new());
    for noted in all {
        if notes.len() == of.most as usize {
            return Some(notes);
        }
        if complete_to.as_ref().is_some_and(|last| place(noted) > *last) {
            return None;
        }
        if seen.insert(&noted.id) && of.is_for(noted.at, &noted.id) {
            notes.push(noted.clone());
        }
    }
    (complete_to.is_none() || notes.len() == of.most as usize).then_some(notes)
}

/// Where a note stands in the order in which they are told.
fn place(noted: &Noted) -> (Reverse<Duration>, &NoteId) {
    (Reverse(noted.at), &noted.id)
}

fn kept_by(store: &dyn Store) -> &dyn Notes {
    store.as_notes().expect("only who keeps notes is asked for them")
}

impl Notes for Quorum {
    fn note<'a>(&'a self, notes: &'a [Note]) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.inner.note(notes))
    }

    fn notes<'a>(&'a self, of: &'a Search) -> BoxFuture<'a, Result<Vec<Noted>>> {
        Box::pin(self.inner.notes(of))
    }

    fn erase<'a>(&'a self, topic: &'a Topic, ids: &'a [NoteId]) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.inner.erase(topic, ids))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(has_more: bool, notes: &[(u64, &str, &str)]) -> Told {
        let noted = |(at, id, text): &(u64, &str, &str)| Noted {
            at: Duration::from_secs(*at),
            id: NoteId::new(id).unwrap(),
            text: (*text).to_owned(),
        };
        Told { notes: notes.iter().map(noted).collect(), has_more }
    }

    fn newest(most: u32) -> Search {
        Search::newest(Topic::of_all("tests"), most)
    }

    fn texts(told: &[Told], of: &Search) -> Option<Vec<String>> {
        Some(merged(told, of)?.into_iter().map(|noted| noted.text).collect())
    }

    #[test]
    fn of_each_note_the_latest_is_told() {
        let one = told(false, &[(9, "a", "new a"), (5, "b", "b")]);
        let other = told(false, &[(8, "c", "c"), (3, "a", "old a")]);
        assert_eq!(texts(&[one, other], &newest(9)).unwrap(), ["new a", "c", "b"]);
    }

    #[test]
    fn what_was_told_on_a_page_is_not_told_again_on_the_next() {
        let one = told(false, &[(9, "a", "new a"), (5, "b", "b")]);
        let other = told(false, &[(3, "a", "old a"), (2, "d", "d")]);
        let next = Search { after: Some((Duration::from_secs(5), NoteId::new("b").unwrap())), ..newest(9) };
        assert_eq!(texts(&[one, other], &next).unwrap(), ["d"]);
    }

    #[test]
    fn more_is_read_where_a_member_may_know_of_one_that_comes_before() {
        let whole = [(9, "a", "a"), (7, "c", "c"), (6, "d", "d")];
        let cut = || told(true, &[(9, "a", "a"), (8, "b", "b")]);
        assert_eq!(texts(&[told(false, &whole), cut()], &newest(2)).unwrap(), ["a", "b"]);
        assert_eq!(texts(&[told(false, &whole), cut()], &newest(3)), None, "it may have one between b and c");
        assert_eq!(texts(&[cut(), cut()], &newest(3)), None);
        assert_eq!(texts(&[told(false, &whole), told(false, &[])], &newest(3)).unwrap(), ["a", "c", "d"]);
    }
}
