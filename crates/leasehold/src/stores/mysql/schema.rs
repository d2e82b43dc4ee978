//! The tables, the procedures that know what to do with them, and their version.

use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, Row, raw_sql};

use super::call::Call;
use super::fault::Fault;
use super::inventory::{self, Part};
use super::options::Options;
use crate::error::{Error, ErrorKind};
use crate::stores::sql::inventory::{named, way_out};
use crate::stores::sql::{self, KeyScheme};

/// What this build makes. A procedure's name carries the version that brought it, or last changed it, so that programs of two
/// versions can be in use at a time.
pub(super) const VERSION: i64 = 4;

/// The oldest version of this program that can still use the tables that this one makes.
const OLDEST: i64 = 1;

/// Statements end with a line that is `//`, as for MySQL's own client after `delimiter //`.
const VERSIONS: &str = include_str!("schema/version.sql");
const TABLES: &str = include_str!("schema/tables.sql");
const PROCEDURES: [&str; 6] = [
    include_str!("schema/parts.sql"),
    include_str!("schema/acquire.sql"),
    include_str!("schema/calls.sql"),
    include_str!("schema/arbiter.sql"),
    include_str!("schema/notes.sql"),
    include_str!("schema/older.sql"),
];

/// Those that have been changed without another name, and since which version: programs that call them from before must get what is
/// right. Those of version 1 would grant what has a tag, and leave it; the others know no transaction that completes a tick.
const REPLACED: [(&str, i64); 6] = [
    ("leasehold_v1_acquire", TAGS),
    ("leasehold_v1_renew", TAGS),
    ("leasehold_v1_judge", COMPLETIONS),
    ("leasehold_v2_forget_key", COMPLETIONS),
    ("leasehold_v2_standing", COMPLETIONS),
    ("leasehold_v2_claim", COMPLETIONS),
];

/// The version that brought tags.
const TAGS: i64 = 2;

/// The version with which jobs complete ticks in transactions of their own.
const COMPLETIONS: i64 = 4;

/// What a procedure is to understand, whatever the session understands that calls it: the server notes it down with each. And
/// who waits for a table, to change it, holds up all who come later: not for long.
const SETTINGS: &str =
    "set names utf8mb4, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', lock_wait_timeout = 2";

/// What is printed begins with this: the client of MySQL leaves out comments, and with them what only MariaDB reads.
const CLIENT: &str = "-- For MariaDB: with its own client, or with `mysql --comments`.\n";

/// How procedures are replaced by what is printed; each server reads its own way of it, and takes the other for a comment.
const REPLACING: &str = "\
-- MariaDB puts each procedure in the place of the one before, and no call finds none. MySQL can't: it drops it first, and
-- a call that comes just then fails, and is made again.
";

/// A table, what a user needs to be allowed there who has the tables made by another, and what is lost without that.
pub(super) struct Table {
    pub name: &'static str,
    pub rights: &'static [&'static str],
    pub cost: &'static str,
    pub needed_by: Whom,
}

/// Who can't do without a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom {
    Locks,
    Schedules,
    Arbiters,
}

impl Table {
    const fn of(name: &'static str, rights: &'static [&'static str], cost: &'static str) -> Self {
        Self { name, rights, cost, needed_by: Whom::Locks }
    }
}

const ALL: &[&str] = &["select", "insert", "update", "delete"];

pub(super) const RIGHTS: [Table; 10] = [
    Table::of("schema", &["select"], "nothing works: the tables' version can't be read"),
    Table::of("names", ALL, "nothing can be granted"),
    Table::of("locks", ALL, "nothing can be granted"),
    Table::of("fence", ALL, "nothing can be granted"),
    Table::of("waiters", ALL, "nobody can wait in line"),
    Table::of("ticks", ALL, "ticks and keys can't be claimed"),
    Table::of("modes", &["select", "insert"], "nothing works: which kind of lock the namespace has can't be agreed on"),
    Table::of("tokens", &["select", "insert", "update"], "session locks can't be granted"),
    Table {
        needed_by: Whom::Arbiters,
        ..Table::of("routes", &["select", "insert", "update"], "it can't be the arbiter of a fallback")
    },
    Table {
        needed_by: Whom::Schedules,
        ..Table::of("notes", ALL, "schedules run nothing, for they can't read what is paused, nor write down what ran")
    },
];

const ALREADY_THERE: u16 = 1304;

/// Everything that a user with the right to create has to run, for MySQL's own client; the last lines are the rights that
/// another user needs then. May be run again.
pub(super) fn print(database: &str) -> String {
    let mut text = format!("{CLIENT}use `{database}`;\n{SETTINGS};\ndelimiter //\n{VERSIONS}{TABLES}{REPLACING}");
    for procedure in PROCEDURES.into_iter().flat_map(statements) {
        let put = procedure.replacen("create procedure", "create /*M! or replace */ procedure", 1);
        text.push_str(&format!("/*!80000 {} */\n//\n{put}\n//\n", drop_of(procedure)));
    }
    text.push_str(&format!("{}\n//\ndelimiter ;\n", note_version()));
    text.push_str("-- For a user who may create nothing, by its name:\n");
    let rights = RIGHTS
        .iter()
        .map(|Table { name, rights, .. }| format!("grant {} on `{database}`.leasehold_{name}", rights.join(", ")));
    let execute = procedures().map(|name| format!("grant execute on procedure `{database}`.{name}"));
    for grant in rights.chain(execute) {
        text.push_str(&format!("--   {grant} to USER;\n"));
    }
    text
}

/// Which kind of lock a namespace has: the first one that is used there.
async fn agree(db: &mut MySqlConnection, options: &Options) -> Result<(), Fault> {
    if options.key_scheme != KeyScheme::Leasehold {
        return Ok(()); // Others' locks, which know no namespaces.
    }
    let (namespace, kind) = (options.namespace.as_str(), options.kind.name());
    for _ in 0..2 {
        if let Some(agreed) = mode(db, options).await? {
            if agreed == kind {
                return Ok(());
            }
            return Err(Fault::Told(Box::new(sql::another_mode(&options.shown, &options.namespace, &agreed))));
        }
        Call::new("insert ignore into leasehold_modes(ns, mode) values(?, ?)")
            .bytes(namespace)
            .bytes(kind)
            .run(db)
            .await?;
    }
    Err(Fault::Garbled)
}

/// Which kind of lock a namespace has, if it has been used.
pub(super) async fn mode(db: &mut MySqlConnection, options: &Options) -> Result<Option<String>, Fault> {
    let look = Call::new("select cast(mode as char) from leasehold_modes where ns = ?");
    let rows = look.bytes(options.namespace.as_str()).run(db).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

/// How much is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Making {
    /// What the version that was written down does not have.
    Newer,
    /// Whatever is missing but columns, too: something has turned out to be.
    Missing,
    /// Columns, too: somebody asked for it.
    All,
}

/// What the tables say of themselves.
#[derive(Debug)]
pub(super) struct Version {
    pub number: i64,
    /// The oldest version of this program that may use them.
    pub oldest: i64,
    /// What no other tables say.
    pub home: String,
}

/// Sees to it that tables and procedures are there as this build knows them, and that this kind of lock is the namespace's;
/// answers which tables they are. Newer ones are left untouched.
pub(super) async fn prepare(db: &mut MySqlConnection, options: &Options, making: Making) -> Result<String, Fault> {
    if making != Making::Newer {
        return made_and_agreed(db, options, making).await;
    }
    match made_and_agreed(db, options, making).await {
        Err(fault) if fault.is_of_missing_tables() => made_and_agreed(db, options, Making::Missing).await,
        made => made,
    }
}

async fn made_and_agreed(db: &mut MySqlConnection, options: &Options, making: Making) -> Result<String, Fault> {
    let home = made(db, options, making).await?;
    agree(db, options).await.map(|()| home)
}

async fn made(db: &mut MySqlConnection, options: &Options, making: Making) -> Result<String, Fault> {
    let lacks = making != Making::Newer;
    if let Some(home) = current(db).await?
        && !lacks
    {
        return Ok(home);
    }
    // One at a time: who comes later finds it done.
    run(db, "do get_lock(concat('leasehold ', sha1(database())), 5)").await?;
    let made = make(db, options, making).await;
    run(db, "do release_lock(concat('leasehold ', sha1(database())))").await?;
    match made {
        Err(fault) if lacks && fault.is_of_rights() => check_is_whole(db, options, fault).await?,
        made => made?,
    }
    current(db).await?.ok_or(Fault::Garbled)
}

/// Of a user who may make nothing: what is missing is named. Nothing may be, for somebody else has made it.
async fn check_is_whole(db: &mut MySqlConnection, options: &Options, denied: Fault) -> Result<(), Fault> {
    if current(db).await?.is_none() {
        return Err(denied);
    }
    let flaws = inventory::flaws(db).await?;
    let missing = named(flaws.iter().filter(|flaw| flaw.is_missing));
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{} has tables of which some are missing ({missing}), and this user may not make them; have `leasehold migrate` run by \
         one who may, or what `leasehold migrate --print` prints",
        options.shown
    );
    Err(Fault::Told(Box::new(Error::new(ErrorKind::AccessDenied, message))))
}

async fn make(db: &mut MySqlConnection, options: &Options, making: Making) -> Result<(), Fault> {
    let lacks = making != Making::Newer;
    let is_current = current(db).await?.is_some();
    if is_current && !lacks {
        return Ok(());
    }
    let found = version(db).await?.map_or(0, |version| version.number);
    let is_outdated = |name| !is_current && REPLACED.iter().any(|(old, since)| *old == name && found < *since);
    run(db, SETTINGS).await?;
    for statement in statements(VERSIONS).chain(statements(TABLES)) {
        run(db, statement).await?;
    }
    if lacks {
        mend_tables(db, options, making).await?;
    }
    for procedure in PROCEDURES.into_iter().flat_map(statements) {
        match run(db, procedure).await {
            // Not dropped where there is none: that takes more rights.
            Err(fault) if fault.number() == Some(ALREADY_THERE) => {
                if is_outdated(name_of(procedure)) {
                    replace(db, procedure).await?;
                }
            }
            made => made?,
        }
    }
    run(db, &note_version()).await?;
    run(db, "set lock_wait_timeout = default").await
}

/// Adds what somebody has taken out of the tables; columns only where that is asked for, and where there are no rows. Whoever reads
/// a row goes by what stands there: one that said anew that no lease, mark or token was ever given out would have it given out
/// twice.
async fn mend_tables(db: &mut MySqlConnection, options: &Options, making: Making) -> Result<(), Fault> {
    let flaws = inventory::flaws(db).await?;
    for (table, parts) in inventory::lacking(&flaws) {
        let lacks_columns = parts.iter().any(Part::is_column);
        let way_out = if parts.iter().any(Part::makes_the_table) || (lacks_columns && has_rows(db, table).await?) {
            way_out(&[format!("`drop table {table}`")], [table])
        } else if lacks_columns && making != Making::All {
            "have `leasehold migrate` run".to_owned()
        } else {
            let added: Vec<_> = parts.iter().map(Part::add).collect();
            run(db, &format!("alter table {table} {}", added.join(", "))).await?;
            continue;
        };
        let message = format!(
            "{} has tables that are not as they should be (missing: {}), and what stood there can't be brought back; {way_out}",
            options.shown,
            named(&flaws)
        );
        return Err(Fault::Told(Box::new(Error::new(ErrorKind::Misconfigured, message))));
    }
    Ok(())
}

async fn has_rows(db: &mut MySqlConnection, table: &str) -> Result<bool, Fault> {
    let has_rows = format!("select exists(select 1 from {table})");
    let row = raw_sql(AssertSqlSafe(has_rows)).fetch_one(db).await?;
    Ok(row.try_get::<i64, _>(0)? != 0)
}

/// MariaDB keeps who may execute it. MySQL knows no other way than to drop it, and with it that.
async fn replace(db: &mut MySqlConnection, procedure: &str) -> Result<(), Fault> {
    const SYNTAX_ERROR: u16 = 1064;
    match run(db, &procedure.replacen("create procedure", "create or replace procedure", 1)).await {
        Err(fault) if fault.number() == Some(SYNTAX_ERROR) => {
            run(db, &drop_of(procedure)).await?;
            run(db, procedure).await
        }
        replaced => replaced,
    }
}

fn note_version() -> String {
    format!(
        "insert into leasehold_schema(one, version, oldest, home) values(1, {VERSION}, {OLDEST}, uuid()) \
         on duplicate key update version = greatest(version, {VERSION}), oldest = greatest(oldest, {OLDEST})"
    )
}

/// Which tables they are, if all is there; an error if they were made by a version that this one can't go along with.
async fn current(db: &mut MySqlConnection) -> Result<Option<String>, Fault> {
    let Some(version) = version(db).await? else { return Ok(None) };
    if version.oldest > VERSION {
        let message = format!(
            "the tables were made by a newer Leasehold (version {}, this one knows {VERSION}); upgrade this one",
            version.number
        );
        return Err(Fault::Unsent(ErrorKind::Misconfigured, message));
    }
    Ok((version.number >= VERSION).then_some(version.home))
}

/// What the tables say of themselves; none if there are none.
pub(super) async fn version(db: &mut MySqlConnection) -> Result<Option<Version>, Fault> {
    const NO_SUCH_TABLE: u16 = 1146;
    let look = raw_sql("select version, oldest, home from leasehold_schema");
    let row = match look.fetch_all(db).await.map_err(Fault::from) {
        Ok(mut rows) => rows.pop(),
        Err(fault) if fault.number() == Some(NO_SUCH_TABLE) => None,
        Err(fault) => return Err(fault),
    };
    Ok(row.as_ref().map(Version::read).transpose()?)
}

impl Version {
    fn read(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        Ok(Self { number: row.try_get(0)?, oldest: row.try_get(1)?, home: row.try_get(2)? })
    }
}

async fn run(db: &mut MySqlConnection, statement: &str) -> Result<(), Fault> {
    raw_sql(AssertSqlSafe(statement)).execute(db).await?;
    Ok(())
}

/// The statements that make tables, and those that make procedures.
pub(super) fn all() -> impl Iterator<Item = &'static str> {
    [VERSIONS, TABLES].into_iter().chain(PROCEDURES).flat_map(statements)
}

fn statements(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n//\n").filter(|statement| !statement.is_empty())
}

/// The names of all procedures.
pub(super) fn procedures() -> impl Iterator<Item = &'static str> {
    PROCEDURES.into_iter().flat_map(statements).map(name_of)
}

fn drop_of(procedure: &str) -> String {
    format!("drop procedure if exists {}", name_of(procedure))
}

pub(super) fn name_of(procedure: &str) -> &str {
    let behind = procedure.split("create procedure ").nth(1).unwrap_or_default();
    behind.split('(').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_procedure_carries_a_version_and_calls_what_is_made_along_with_it() {
        let all = PROCEDURES.concat();
        let names: Vec<_> = procedures().collect();
        assert_eq!(names.len(), 35, "{names:?}");
        for called in all.split("call ").skip(1) {
            let called = called.split('(').next().unwrap_or_default();
            assert!(names.contains(&called), "{called}");
        }
        for name in names {
            assert!((1..=VERSION).any(|version| name.starts_with(&format!("leasehold_v{version}_"))), "{name}");
        }
    }

    #[test]
    fn what_is_printed_is_all_of_it() {
        let text = print("app");
        assert_eq!(text.matches("create table if not exists").count(), 10);
        let puts = text.matches("\ncreate /*M! or replace */ procedure").count();
        assert_eq!((puts, text.matches("\n/*!80000 drop procedure if exists").count()), (procedures().count(), puts));
        assert!(text.contains("\nuse `app`;\n") && text.contains("\n//\ndelimiter ;\n"));
        assert_eq!(text.matches("\n--   grant ").count(), 10 + puts);
    }
}
