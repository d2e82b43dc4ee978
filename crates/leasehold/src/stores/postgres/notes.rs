//! Notes in a table: a row for each.

use std::sync::atomic::Ordering;

use futures_util::future::BoxFuture;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::link::Given;
use super::{Fault, Postgres, rows};
use crate::error::Result;
use crate::store::{Note, NoteId, Noted, Notes, Search, Topic};
use crate::stores::sql::notes::{after, batches, ids, last, millis, name_of};

impl Postgres {
    /// Asks beside all that has to do with locks: none of it waits for this.
    async fn ask_aside(&self, statement: &str, given: &[Given<'_>]) -> Result<Vec<Row>> {
        self.aside.call(statement, given).await.map_err(|fault| self.told(fault))
    }

    /// Notes of one topic that are kept alike.
    async fn write(&self, notes: &[Note]) -> Result<()> {
        let Note { topic, keep, most, .. } = &notes[0];
        let ids: Vec<_> = notes.iter().map(|note| note.id.as_str()).collect();
        let said: Vec<_> = notes.iter().map(|note| note.text.as_bytes()).collect();
        let given: [Given<'_>; 7] = [
            (&self.namespace(), Type::TEXT),
            (&topic.sort, Type::TEXT),
            (&name_of(topic), Type::TEXT),
            (&ids, Type::TEXT_ARRAY),
            (&said, Type::BYTEA_ARRAY),
            (&millis(*keep), Type::INT8),
            (&i64::from(*most), Type::INT8),
        ];
        let statement = &self.server.statements.note;
        if self.is_first(notes)
            && let Some(answer) = self.link.call_while_it_rests(statement, &given).await
            && !answer.as_ref().is_err_and(Fault::is_worth_another_try)
        {
            return answer.map(drop).map_err(|fault| self.told(fault));
        }
        self.ask_aside(statement, &given).await.map(drop)
    }

    /// Who asks for a lock, writes one note of it and is gone needs no second connection: that may be a whole fleet at once, each time
    /// a job is due. Whoever goes on has the next ones written aside.
    fn is_first(&self, notes: &[Note]) -> bool {
        notes.len() == 1 && !self.has_noted.swap(true, Ordering::Relaxed)
    }

    async fn read(&self, of: &Search) -> Result<Vec<Noted>> {
        let (last, id) = last(of.after.as_ref());
        let given: [Given<'_>; 7] = [
            (&self.namespace(), Type::TEXT),
            (&of.topic.sort, Type::TEXT),
            (&name_of(&of.topic), Type::TEXT),
            (&millis(of.since), Type::INT8),
            (&last, Type::INT8),
            (&id, Type::TEXT),
            (&i64::from(of.most), Type::INT8),
        ];
        let found = self.ask_aside(&self.server.statements.notes, &given).await?;
        let read = |row| rows::noted(row).map_err(|error| self.told(Fault::Sent(error))).transpose();
        found.into_iter().filter_map(read).map(Result::flatten).collect()
    }

    async fn put_away(&self, topic: &Topic, ids: &[NoteId]) -> Result<()> {
        let ids: Vec<_> = ids.iter().map(NoteId::as_str).collect();
        let given: [Given<'_>; 4] = [
            (&self.namespace(), Type::TEXT),
            (&topic.sort, Type::TEXT),
            (&name_of(topic), Type::TEXT),
            (&ids, Type::TEXT_ARRAY),
        ];
        self.ask_aside(&self.server.statements.erase, &given).await.map(drop)
    }
}

impl Notes for Postgres {
    fn note<'a>(&'a self, notes: &'a [Note]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            notes.iter().try_for_each(Note::check)?;
            for (nth, batch) in batches(notes).enumerate() {
                self.write(batch).await.map_err(|error| after(nth, error))?;
            }
            Ok(())
        })
    }

    fn notes<'a>(&'a self, of: &'a Search) -> BoxFuture<'a, Result<Vec<Noted>>> {
        Box::pin(self.read(of))
    }

    fn erase<'a>(&'a self, topic: &'a Topic, erased: &'a [NoteId]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            for (nth, some) in ids(erased).enumerate() {
                self.put_away(topic, some).await.map_err(|error| after(nth, error))?;
            }
            Ok(())
        })
    }
}
