//! Notes: a sorted set and a hash for each topic.

use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::Value;

use super::answer::Fields;
use super::connection::Session;
use super::script::Script;
use super::{Redis, keys, millis};
use crate::error::Result;
use crate::store::{Note, NoteId, Noted, Notes, Search, Topic};

/// What one call may carry: other clients wait meanwhile.
const AT_ONCE: usize = 200;

impl Redis {
    /// Runs a script over a topic.
    async fn over(&self, topic: &Topic, script: &Script, arguments: &[String]) -> Result<Value> {
        let keys = keys::notes(&self.options.namespace, topic);
        let make = |session: Session<'_>| {
            let bytes = arguments.iter().map(|argument| argument.len() + 16).sum::<usize>() + 256;
            let mut call = script.begin(session, keys.len(), arguments.len(), bytes);
            keys.iter().chain(arguments).for_each(|argument| _ = call.arg(argument));
            call
        };
        self.run(&self.servers, script, &keys[0], make).await
    }

    /// Notes of one topic that are kept alike.
    async fn write(&self, notes: &[Note]) -> Result<()> {
        let first = &notes[0];
        let mut arguments = vec![first.most.to_string(), millis(first.keep).to_string()];
        for note in notes {
            arguments.push(note.id.to_string());
            arguments.push(note.text.clone());
        }
        self.over(&first.topic, &self.scripts.notes.note, &arguments).await.map(drop)
    }
}

impl Notes for Redis {
    fn note<'a>(&'a self, notes: &'a [Note]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            notes.iter().try_for_each(Note::check)?;
            let is_alike =
                |one: &Note, other: &Note| (&one.topic, one.most, one.keep) == (&other.topic, other.most, other.keep);
            for alike in notes.chunk_by(is_alike) {
                for some in alike.chunks(AT_ONCE) {
                    self.write(some).await?;
                }
            }
            Ok(())
        })
    }

    fn notes<'a>(&'a self, of: &'a Search) -> BoxFuture<'a, Result<Vec<Noted>>> {
        Box::pin(async move {
            let mut arguments = vec![of.since.as_millis().to_string(), of.most.to_string()];
            if let Some((at, id)) = &of.after {
                arguments.extend([at.as_millis().to_string(), id.to_string()]);
            }
            let mut fields = Fields::of(self.over(&of.topic, &self.scripts.notes.notes, &arguments).await?)?;
            let mut notes = Vec::new();
            while !fields.is_empty() {
                let at = Duration::from_millis(fields.number()?.unsigned_abs());
                let id = NoteId::new(&fields.text()?)?;
                notes.push(Noted { at, id, text: fields.text()? });
            }
            Ok(notes)
        })
    }

    fn erase<'a>(&'a self, topic: &'a Topic, ids: &'a [NoteId]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
            for some in ids.chunks(AT_ONCE) {
                self.over(topic, &self.scripts.notes.erase, some).await?;
            }
            Ok(())
        })
    }
}
