//! The notes of a store that can be broken.

use futures_util::future::BoxFuture;
use leasehold::Result;
use leasehold::store::{Note, NoteId, Noted, Notes, Search, Topic};

use super::{Faulty, Operation};

impl Faulty {
    fn notebook(&self) -> &dyn Notes {
        self.inner.as_notes().expect("only who keeps notes is asked for them")
    }
}

impl Notes for Faulty {
    fn note<'a>(&'a self, notes: &'a [Note]) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.answer(Operation::WriteNotes, self.notebook().note(notes)))
    }

    fn notes<'a>(&'a self, of: &'a Search) -> BoxFuture<'a, Result<Vec<Noted>>> {
        Box::pin(self.answer(Operation::ReadNotes, self.notebook().notes(of)))
    }

    fn erase<'a>(&'a self, topic: &'a Topic, ids: &'a [NoteId]) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.answer(Operation::WriteNotes, self.notebook().erase(topic, ids)))
    }
}
