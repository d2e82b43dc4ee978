//! Notes in the file: a row for each.

use std::time::Duration;

use futures_util::future::BoxFuture;
use rusqlite::{Row, params};

use super::Sqlite;
use super::connection::{Connection, Writing};
use super::fault::Fault;
use super::lane::Kind;
use crate::error::Result;
use crate::store::{Note, NoteId, Noted, Notes, Search, Topic};

/// What is under way needs no disk: notes decide nothing.
const WRITES: Kind = Kind::Claim { durable: false };

/// What stands for the name in topics that are about none: no lock is called so.
fn name_of(topic: &Topic) -> &str {
    topic.name.as_ref().map_or("", |name| name.as_str())
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

fn write(connection: &mut Connection, notes: &[Note]) -> Result<(), Fault> {
    connection.write(|writing| {
        let now = millis(writing.utc());
        writing.db.prepare_cached("delete from leasehold_notes where until <= ?1")?.execute([now])?;
        notes.iter().try_for_each(|note| put(writing, note, now))?;
        // Once for those of one topic that come together: it looks at all that are kept.
        notes
            .chunk_by(|one, other| (&one.topic, one.most) == (&other.topic, other.most))
            .try_for_each(|of_one| trim(writing, &of_one[0]))
    })
}

fn put(writing: &Writing<'_>, note: &Note, now: i64) -> Result<(), Fault> {
    let (namespace, sort, name) = (writing.namespace(), note.topic.sort, name_of(&note.topic));
    let mut write = writing.db.prepare_cached(
        "insert into leasehold_notes(ns, sort, name, id, at, until, text) values(?1, ?2, ?3, ?4, ?5, ?6, ?7)
         on conflict do update set at = excluded.at, until = excluded.until, text = excluded.text",
    )?;
    let until = now.saturating_add(millis(note.keep));
    write.execute(params![namespace, sort, name, note.id.as_str(), now, until, note.text])?;
    Ok(())
}

/// Takes away what is more than its topic keeps.
fn trim(writing: &Writing<'_>, note: &Note) -> Result<(), Fault> {
    let (namespace, sort, name) = (writing.namespace(), note.topic.sort, name_of(&note.topic));
    let mut trim = writing.db.prepare_cached(
        "delete from leasehold_notes where rowid in (
            select rowid from leasehold_notes where ns = ?1 and sort = ?2 and name = ?3
            order by at desc, id limit -1 offset ?4)",
    )?;
    trim.execute(params![namespace, sort, name, note.most])?;
    Ok(())
}

fn read(connection: &Connection, search: &Search) -> Result<Vec<Noted>, Fault> {
    let mut statement = connection.db.prepare_cached(
        "select at, id, text from leasehold_notes
         where ns = ?1 and sort = ?2 and name = ?3 and until > ?4 and at >= ?5 and (at < ?6 or (at = ?6 and id > ?7))
         order by at desc, id limit ?8",
    )?;
    let now = millis(connection.database.machine.utc());
    let (last, id) = search.after.as_ref().map_or((i64::MAX, ""), |(at, id)| (millis(*at), id.as_str()));
    let (topic, since) = (&search.topic, millis(search.since));
    let sought = params![connection.namespace(), topic.sort, name_of(topic), now, since, last, id, search.most];
    let found = statement.query_map(sought, told)?;
    found.map(|row| row?.map_err(Fault::Told)).collect()
}

fn told(row: &Row<'_>) -> rusqlite::Result<Result<Noted>> {
    let (at, id, text): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
    Ok(NoteId::new(&id).map(|id| Noted { at: Duration::from_millis(at.unsigned_abs()), id, text }))
}

fn erase(connection: &mut Connection, topic: &Topic, ids: &[NoteId]) -> Result<(), Fault> {
    connection.write(|writing| {
        let mut erase = writing
            .db
            .prepare_cached("delete from leasehold_notes where ns = ?1 and sort = ?2 and name = ?3 and id = ?4")?;
        for id in ids {
            erase.execute(params![writing.namespace(), topic.sort, name_of(topic), id.as_str()])?;
        }
        Ok(())
    })
}

impl Notes for Sqlite {
    fn note<'a>(&'a self, notes: &'a [Note]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            notes.iter().try_for_each(Note::check)?;
            let notes = notes.to_vec();
            let answer = self.lane.run(WRITES, move |connection| write(connection, &notes)).await;
            answer.map_err(|fault| self.told(&fault))
        })
    }

    fn notes<'a>(&'a self, of: &'a Search) -> BoxFuture<'a, Result<Vec<Noted>>> {
        Box::pin(async move {
            let of = of.clone();
            let answer = self.lane.run(Kind::Survey, move |connection| read(connection, &of)).await;
            answer.map_err(|fault| self.told(&fault))
        })
    }

    fn erase<'a>(&'a self, topic: &'a Topic, ids: &'a [NoteId]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (topic, ids) = (topic.clone(), ids.to_vec());
            let answer = self.lane.run(WRITES, move |connection| erase(connection, &topic, &ids)).await;
            answer.map_err(|fault| self.told(&fault))
        })
    }
}
