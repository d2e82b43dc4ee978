//! ShedLock's table in MySQL and MariaDB: its statements, and the table's look.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use sqlx::Row as _;
use sqlx::mysql::{MySqlConnection, MySqlRow};

use super::call::{Call, Rows as Answer};
use super::fault::Fault;
use super::lane::Site;
use super::lanes::Lanes;
use super::options::Options;
use super::{TIME, answer, doctor};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::name::LockName;
use crate::stores::sql::shedlock::{Longer, Row, Table, statement};

/// What ShedLock takes for now where it uses the database's time.
const NOW: &str = "utc_timestamp(3)";

/// A row is locked later than it was before, whatever the clock says: tokens are made of it. Columns are written in order:
/// each expression sees what those before it wrote. ShedLock itself says `insert ignore`, which cuts what is too long.
const TAKE: &str = "
    insert into @table(name, lock_until, locked_at, locked_by)
        values(?, timestampadd(microsecond, ?, @now), @now, ?)
        on duplicate key update
            locked_at = if(lock_until <= @now, greatest(@now, timestampadd(microsecond, 1000, locked_at)), locked_at),
            locked_by = if(lock_until <= @now, ?, locked_by),
            lock_until = if(@mark = ?, greatest(lock_until, timestampadd(microsecond, ?, @now)), lock_until)";

const LENGTHEN: &str = "
    update @table set lock_until = greatest(lock_until, timestampadd(microsecond, ?, @now))
        where name = ? and @mark = ? and lock_until > @now";

const FREE: &str = "
    update @table set
        lock_until = timestampadd(microsecond, ?, @now),
        locked_by = if(? > 0, concat(left(locked_by, char_length(locked_by) - 33), ':kept'), locked_by)
        where name = ? and @mark = ? and lock_until > @now";

const ROWS: &str = "
    select cast(name as char), cast(coalesce(locked_by, '') as char),
        coalesce(timestampdiff(microsecond, '1970-01-01', locked_at), 0),
        coalesce(timestampdiff(microsecond, locked_at, @now), 0),
        coalesce(timestampdiff(microsecond, @now, lock_until), 0)
        from @table";

const END: &str = "
    update @table set lock_until = @now
        where name = ? and coalesce(locked_by, '') = ? and timestampdiff(microsecond, '1970-01-01', locked_at) = ?
            and lock_until > @now";

const COLUMNS: &str = "
    select cast(column_name as char), lower(cast(data_type as char)), coalesce(cast(datetime_precision as signed), 0)
        from information_schema.columns
        where table_schema = database() and table_name = ? and column_name in ('lock_until', 'locked_at')";

/// ShedLock's table in a database.
pub(super) struct Rows {
    site: Arc<Site>,
    lanes: Lanes,
    statements: Arc<Statements>,
}

struct Statements {
    take: String,
    lengthen: String,
    free: String,
    rows: String,
    row: String,
    end: String,
}

impl Statements {
    fn of(table: &str) -> Self {
        let fill = |text: &str| statement(text, &quoted(table), NOW);
        let row = fill(ROWS) + " where name = ?";
        Self { take: fill(TAKE), lengthen: fill(LENGTHEN), free: fill(FREE), rows: fill(ROWS), row, end: fill(END) }
    }
}

impl Rows {
    /// The table with this name.
    pub fn of(table: &str, options: Options) -> Self {
        let site = Arc::new(Site::of(options));
        Self { lanes: Lanes::to(&site), site, statements: Arc::new(Statements::of(table)) }
    }

    async fn ask(&self, name: &str, call: Call) -> Result<Answer> {
        self.lanes.ask_for(name, call).await.map_err(|fault| self.told(fault))
    }

    fn told(&self, fault: Fault) -> Error {
        if fault.is_of_missing_tables() {
            let message = format!("{}: ShedLock's table, or one of its columns, is not there any more", self.shown());
            return Error::new(ErrorKind::Misconfigured, message);
        }
        fault.told(self.shown())
    }

    fn read(&self, rows: &[MySqlRow]) -> Result<Vec<Row>> {
        rows.iter().map(row).collect::<std::result::Result<_, _>>().map_err(|error| self.told(Fault::Sent(error)))
    }

    async fn lengthen_one(&self, row: &Longer<'_>) -> Result<bool> {
        let call = Call::new(self.statements.lengthen.clone()).number(row.ttl).text(row.name).bytes(&row.mark);
        Ok(self.ask(row.name, call).await?.affected > 0)
    }
}

impl Table for Rows {
    const KIND: &'static str = "mysql";

    fn shown(&self) -> &str {
        &self.site.options.shown
    }

    fn for_keeper(&self) -> Self {
        let (site, statements) = (Arc::clone(&self.site), Arc::clone(&self.statements));
        Self { lanes: Lanes::to(&site), site, statements }
    }

    async fn take(&self, name: &LockName, locked_by: &str, mark: &str, ttl: i64) -> Result<Option<Row>> {
        let call = Call::new(self.statements.take.clone()).text(name.as_str()).number(ttl).text(locked_by);
        self.ask(name.as_str(), call.text(locked_by).bytes(mark).number(ttl)).await?;
        Ok(self.rows(Some(name)).await.map_err(Error::maybe_applied)?.pop())
    }

    async fn lengthen(&self, rows: &[Longer<'_>]) -> Vec<Result<bool>> {
        join_all(rows.iter().map(|row| self.lengthen_one(row))).await
    }

    async fn free(&self, name: &LockName, mark: &str, keep_for: i64) -> Result<bool> {
        let call = Call::new(self.statements.free.clone()).number(keep_for).number(keep_for);
        Ok(self.ask(name.as_str(), call.text(name.as_str()).bytes(mark)).await?.affected > 0)
    }

    async fn rows(&self, name: Option<&LockName>) -> Result<Vec<Row>> {
        let rows = match name.map(LockName::as_str) {
            Some(name) => self.ask(name, Call::new(self.statements.row.clone()).text(name)).await?,
            None => self.lanes.ask(Call::new(self.statements.rows.clone())).await.map_err(|fault| self.told(fault))?,
        };
        self.read(&rows)
    }

    async fn end(&self, row: &Row) -> Result<bool> {
        let call = Call::new(self.statements.end.clone()).text(&row.name).text(&row.locked_by).number(row.locked_at);
        Ok(self.ask(&row.name, call).await?.affected > 0)
    }

    async fn time(&self) -> Result<Duration> {
        let time = self.lanes.ask(Call::new(TIME)).await.and_then(|rows| answer::time(&rows));
        time.map_err(|fault| self.told(fault))
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        doctor::diagnose(&self.site.options).await.map_err(|fault| self.told(fault))
    }
}

/// The statement that makes the table, and the rights on it, for whoever may. A `datetime` is the same for every session,
/// which ShedLock's own choice, a `timestamp`, is not; its names may be equal to the server though they are not.
pub(super) fn print(database: &str, table: &str) -> String {
    format!(
        "-- The table of ShedLock. Java services that have one already need no other.\n\
         use `{database}`;\n{};\n\
         -- Afterwards, for each user that is to use locks:\n\
         --   grant select, insert, update on {} to USER;\n",
        create(table),
        quoted(table)
    )
}

fn create(table: &str) -> String {
    format!(
        "create table if not exists {} (name varchar(64) not null primary key, lock_until datetime(3) not null, \
         locked_at datetime(3) not null, locked_by varchar(255) not null) \
         engine = InnoDB default character set utf8mb4 collate utf8mb4_bin",
        quoted(table)
    )
}

/// Sees to it that the table is there; whether its instants depend on a session's time zone.
pub(super) async fn check(db: &mut MySqlConnection, table: &str) -> Result<bool, Fault> {
    let wrong = |why| Err(Fault::Unsent(ErrorKind::Misconfigured, why));
    let columns = Call::new(COLUMNS).text(table).run(db).await?;
    if columns.is_empty() {
        return wrong(format!(
            "there is no table {table}, or none that this user may see; name ShedLock's with table=, or have this run, which \
             `leasehold migrate --print` prints: {}",
            create(table)
        ));
    }
    let mut has_zone = false;
    for column in columns.iter() {
        let (name, kind, digits): (String, String, i64) = (column.try_get(0)?, column.try_get(1)?, column.try_get(2)?);
        if !["timestamp", "datetime"].contains(&&*kind) || digits < 3 {
            return wrong(format!(
                "the column {name} of {table} is of the type {kind}({digits}), which holds no milliseconds; while nobody \
                 holds a lock, have it made a datetime(3)"
            ));
        }
        has_zone |= kind == "timestamp";
    }
    Ok(has_zone)
}

pub(super) fn quoted(table: &str) -> String {
    format!("`{}`", table.replace('`', "``"))
}

fn row(columns: &MySqlRow) -> Result<Row, sqlx::Error> {
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
        let Statements { take, lengthen, free, rows, row, end } = Statements::of("shed`lock");
        for statement in [take, lengthen, free, rows, row, end] {
            assert!(!statement.contains('@') && statement.contains("`shed``lock`"), "{statement}");
            assert!(!statement.contains("delete") && !statement.contains("replace"), "{statement}");
            assert!(!statement.contains("now()") && !statement.contains("current_timestamp"), "{statement}");
        }
    }
}
