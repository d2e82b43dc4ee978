//! ShedLock's table in PostgreSQL: its statements, and the table's look.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row as Columns};

use super::fault::{self, Fault};
use super::link::{Given, Link, Server};
use super::options::Options;
use super::{again, doctor};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::name::LockName;
use crate::stores::sql::shedlock::{Longer, Row, Table, statement};

/// What ShedLock takes for now where it uses the database's time: the beginning of the statement.
const NOW: &str = "timezone('utc', current_timestamp)";

/// What a [`Row`] is read of.
const READ: &str = "name::text, coalesce(locked_by, '')::text, \
                    coalesce((extract(epoch from locked_at) * 1000000)::bigint, 0), \
                    coalesce((extract(epoch from @now - locked_at) * 1000000)::bigint, 0), \
                    coalesce((extract(epoch from lock_until - @now) * 1000000)::bigint, 0)";

/// A row is locked later than it was before, whatever the clock says: tokens are made of it. A conflict is with the newest
/// row, the look after it is at the rows of when the statement began: what was the claimant's then may be another's by now.
const TAKE: &str = "
    with taken as (
        insert into @table as t (name, lock_until, locked_at, locked_by)
            values ($1, @now + make_interval(secs => $4), @now, $2)
            on conflict (name) do update set
                lock_until = greatest(t.lock_until, @now + make_interval(secs => $4)),
                locked_at = case when t.lock_until <= @now
                    then greatest(@now, t.locked_at + interval '1 millisecond') else t.locked_at end,
                locked_by = case when t.lock_until <= @now then $2 else t.locked_by end
            where t.lock_until <= @now or right(t.locked_by, 33) = $3
            returning @read
    ),
    answer as (
        select * from taken
        union all
        select @read from @table
            where name = $1 and not exists (select from taken) and right(locked_by, 33) is distinct from $3
    )
    select answer.*, $5::bigint from (select 1) one left join answer on true";

const LENGTHEN: &str = "
    update @table as t set lock_until = greatest(t.lock_until, @now + make_interval(secs => asked.ttl))
        from unnest($1::text[], $2::text[], $3::float8[]) as asked(name, mark, ttl)
        where t.name = asked.name and @mark = asked.mark and t.lock_until > @now
        returning asked.name, asked.mark";

const FREE: &str = "
    update @table set
        lock_until = @now + make_interval(secs => $3),
        locked_by = case when $3 > 0 then left(locked_by, -33) || ':kept' else locked_by end
        where name = $1 and @mark = $2 and lock_until > @now
        returning name";

const ROWS: &str = "select @read from @table where $1 is null or name = $1";

const END: &str = "
    update @table set lock_until = @now
        where name = $1 and coalesce(locked_by, '') = $2 and (extract(epoch from locked_at) * 1000000)::bigint = $3
            and lock_until > @now
        returning name";

/// The columns that have to be instants without a time zone, as precise as milliseconds.
const COLUMNS: &str = "
    select attname::text, format_type(atttypid, atttypmod), atttypid = 'timestamp'::regtype and atttypmod not between 0 and 2
        from pg_attribute where attrelid = to_regclass($1) and attname in ('lock_until', 'locked_at')";

/// ShedLock's table in a database.
pub(super) struct Rows {
    server: Arc<Server>,
    link: Arc<Link>,
    statements: Arc<Statements>,
}

/// As [`Link::call`] wants them: the last thing that is given comes back in the last column.
struct Statements {
    take: String,
    lengthen: String,
    free: String,
    rows: String,
    end: String,
}

impl Statements {
    fn of(table: &str) -> Self {
        let fill = |text: &str| statement(&text.replace("@read", READ), table, NOW);
        // An answer without a row could be to any question.
        let answering = |text: &str, number: &str| {
            let select = "select answer.*, @number::bigint from (select 1) one left join answer on true";
            fill(&format!("with answer as ({text})\n    {select}").replace("@number", number))
        };
        Self {
            take: fill(TAKE),
            lengthen: answering(LENGTHEN, "$4"),
            free: answering(FREE, "$4"),
            rows: answering(ROWS, "$2"),
            end: answering(END, "$4"),
        }
    }
}

impl Rows {
    /// The table, with its name quoted and its schema before it.
    pub fn of(table: &str, options: Options) -> Self {
        let statements = Arc::new(Statements::of(table));
        let server = Arc::new(Server::new(options));
        Self { link: Arc::new(Link::new(Arc::clone(&server), "locks")), server, statements }
    }

    async fn ask(&self, statement: &str, given: &[Given<'_>]) -> Result<Vec<Columns>> {
        let mut rows = self.link.call(statement, given).await.map_err(|fault| self.told(fault))?;
        rows.retain(|row| !matches!(row.try_get::<_, Option<&str>>(0), Ok(None))); // There was none.
        Ok(rows)
    }

    async fn read(&self, statement: &str, given: &[Given<'_>]) -> Result<Vec<Row>> {
        let rows = self.ask(statement, given).await?;
        let rows: Result<_, _> = rows.iter().map(row).collect();
        rows.map_err(|error| self.told(Fault::Sent(error)))
    }

    fn told(&self, fault: Fault) -> Error {
        fault::told(fault, self.shown())
    }
}

impl Table for Rows {
    const KIND: &'static str = "postgres";

    fn shown(&self) -> &str {
        &self.server.options.shown
    }

    fn for_keeper(&self) -> Self {
        let (server, statements) = (Arc::clone(&self.server), Arc::clone(&self.statements));
        Self { link: Arc::new(Link::new(Arc::clone(&server), "keeper")), server, statements }
    }

    async fn take(&self, name: &LockName, locked_by: &str, mark: &str, ttl: i64) -> Result<Option<Row>> {
        let given: [Given<'_>; 4] = [
            (&name.as_str(), Type::TEXT),
            (&locked_by, Type::TEXT),
            (&mark, Type::TEXT),
            (&seconds(ttl), Type::FLOAT8),
        ];
        Ok(self.read(&self.statements.take, &given).await?.pop())
    }

    async fn lengthen(&self, rows: &[Longer<'_>]) -> Vec<Result<bool>> {
        let names: Vec<_> = rows.iter().map(|row| row.name).collect();
        let marks: Vec<_> = rows.iter().map(|row| row.mark.as_str()).collect();
        let ttls: Vec<_> = rows.iter().map(|row| seconds(row.ttl)).collect();
        let given: [Given<'_>; 3] =
            [(&names, Type::TEXT_ARRAY), (&marks, Type::TEXT_ARRAY), (&ttls, Type::FLOAT8_ARRAY)];
        let answer = self.ask(&self.statements.lengthen, &given).await.and_then(|answer| {
            let pair = |row: &Columns| Ok((row.try_get(0)?, row.try_get(1)?));
            let done: Result<HashSet<(String, String)>, _> = answer.iter().map(pair).collect();
            done.map_err(|error| self.told(Fault::Sent(error)))
        });
        match answer {
            Ok(done) => rows.iter().map(|row| Ok(done.contains(&(row.name.to_owned(), row.mark.clone())))).collect(),
            Err(error) => rows.iter().map(|_| Err(again(&error))).collect(),
        }
    }

    async fn free(&self, name: &LockName, mark: &str, keep_for: i64) -> Result<bool> {
        let given: [Given<'_>; 3] =
            [(&name.as_str(), Type::TEXT), (&mark, Type::TEXT), (&seconds(keep_for), Type::FLOAT8)];
        Ok(!self.ask(&self.statements.free, &given).await?.is_empty())
    }

    async fn rows(&self, name: Option<&LockName>) -> Result<Vec<Row>> {
        self.read(&self.statements.rows, &[(&name.map(LockName::as_str), Type::TEXT)]).await
    }

    async fn end(&self, row: &Row) -> Result<bool> {
        let given: [Given<'_>; 3] =
            [(&row.name, Type::TEXT), (&row.locked_by, Type::TEXT), (&row.locked_at, Type::INT8)];
        Ok(!self.ask(&self.statements.end, &given).await?.is_empty())
    }

    async fn time(&self) -> Result<Duration> {
        self.link.time().await.map_err(|fault| self.told(fault))
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        doctor::diagnose(&self.server, doctor::User::ShedLock).await.map_err(|fault| self.told(fault))
    }
}

/// The statement that makes the table, and the rights on it, for whoever may.
pub(super) fn whole(table: &str) -> String {
    format!(
        "-- The table of ShedLock. Java services that have one already need no other.\n\
         -- Afterwards, for each ROLE that is to use locks:\n\
         --   grant select, insert, update on {table} to ROLE;\n\
         {};\n",
        create(table)
    )
}

fn create(table: &str) -> String {
    format!(
        "create table if not exists {table} (name varchar(64) primary key, lock_until timestamp not null, \
         locked_at timestamp not null, locked_by varchar(255) not null)"
    )
}

/// Sees to it that the table is there, and reads the same for every session.
pub(super) async fn check(client: &Client, table: &str) -> Result<(), Fault> {
    let wrong = |why| Err(Fault::Unsent(ErrorKind::Misconfigured, why));
    let columns = client.query_typed(COLUMNS, &[(&table, Type::TEXT)]).await?;
    if columns.is_empty() {
        return wrong(format!(
            "there is no table {table}; name ShedLock's with table= and schema=, or have this run, which `leasehold migrate \
             --print` prints: {}",
            create(table)
        ));
    }
    for column in columns {
        let (name, kind, is_right): (String, String, bool) =
            (column.try_get(0)?, column.try_get(1)?, column.try_get(2)?);
        if !is_right {
            return wrong(format!(
                "the column {name} of {table} is of the type {kind}, which sessions in different time zones read \
                 differently, or which holds no milliseconds; while nobody holds a lock, have it made a timestamp: alter \
                 table {table} alter {name} type timestamp using {name}::timestamptz at time zone 'utc'"
            ));
        }
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a century fit")]
fn seconds(micros: i64) -> f64 {
    micros as f64 / 1_000_000.0
}

fn row(columns: &Columns) -> Result<Row, tokio_postgres::Error> {
    Ok(Row {
        name: columns.try_get(0)?,
        locked_by: columns.try_get(1)?,
        locked_at: columns.try_get(2)?,
        age: columns.try_get(3)?,
        rest: columns.try_get(4)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_whole_and_take_no_row_away() {
        let Statements { take, lengthen, free, rows, end } = Statements::of("\"public\".\"shedlock\"");
        for statement in [take, lengthen, free, rows, end] {
            assert!(!statement.contains('@') && statement.contains("\"public\".\"shedlock\""), "{statement}");
            assert!(!statement.contains("delete") && !statement.contains("truncate"), "{statement}");
            assert!(!statement.contains("now()") && !statement.contains("clock_timestamp"), "{statement}");
        }
    }
}
