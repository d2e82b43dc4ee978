//! Notes in a table: a row for each.

use futures_util::future::BoxFuture;

use super::call::{Call, Rows};
use super::{MySql, answer};
use crate::error::Result;
use crate::store::{Note, NoteId, Noted, Notes, Search, Topic};
use crate::stores::sql::notes::{after, batches, ids, last, millis, name_of};

const NOTE: &str = "call leasehold_v4_note(?, ?, ?, ?, ?, ?)";
const NOTES: &str = "call leasehold_v4_notes(?, ?, ?, ?, ?, ?, ?)";
const ERASE: &str = "call leasehold_v4_erase(?, ?, ?, ?)";

impl MySql {
    /// A call that begins with a topic.
    fn about(&self, sql: &'static str, topic: &Topic) -> Call {
        Call::new(sql).bytes(self.site.options.namespace.as_str()).bytes(topic.sort).bytes(name_of(topic))
    }

    async fn ask_aside(&self, call: Call) -> Result<Rows> {
        self.lanes.ask_aside(call).await.map_err(|fault| self.told(fault))
    }

    /// Notes of one topic that are kept alike.
    async fn write(&self, notes: &[Note]) -> Result<()> {
        let Note { topic, keep, most, .. } = &notes[0];
        let call = self.about(NOTE, topic).bytes(written_down(notes)).number(millis(*keep)).number(i64::from(*most));
        let answer = if notes.len() == 1 { self.lanes.write_one(call).await } else { self.lanes.ask_aside(call).await };
        answer.map(drop).map_err(|fault| self.told(fault))
    }

    async fn read(&self, of: &Search) -> Result<Vec<Noted>> {
        let (last, id) = last(of.after.as_ref());
        let call = self.about(NOTES, &of.topic).number(millis(of.since)).number(last).bytes(id);
        let rows = self.ask_aside(call.number(i64::from(of.most))).await?;
        rows.iter().map(|row| answer::noted(row).map_err(|fault| self.told(fault))?).collect()
    }
}

/// Notes as `leasehold_v4_note` reads them.
fn written_down(notes: &[Note]) -> Vec<u8> {
    let mut text = Vec::new();
    for Note { id, text: said, .. } in notes {
        text.extend(format!("{:03}{:05}{id}{said}", id.as_str().len(), said.len()).into_bytes());
    }
    text
}

/// Ids as `leasehold_v4_erase` reads them.
fn named(ids: &[NoteId]) -> String {
    ids.iter().map(|id| format!("{:03}{id}", id.as_str().len())).collect()
}

impl Notes for MySql {
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
                let call = self.about(ERASE, topic).bytes(named(some));
                self.ask_aside(call).await.map_err(|error| after(nth, error))?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_written_down_says_how_long_it_is() {
        let id = |text: &str| NoteId::new(text).unwrap();
        let note = |name: &str, text: &str| {
            let topic = Topic::of_all("runs");
            Note { topic, id: id(name), text: text.into(), keep: Duration::from_secs(1), most: 1 }
        };
        assert_eq!(written_down(&[note("a", ""), note("ä", "x\0y")]), "00100000a00200003äx\0y".as_bytes());
        assert_eq!(named(&[id("a"), id(&"x".repeat(200))]), format!("001a200{}", "x".repeat(200)));
        let longest = written_down(&[note("a", &"x".repeat(Note::LONGEST))]);
        assert!(longest.starts_with(b"00165536ax") && longest.len() == 9 + Note::LONGEST);
    }
}
