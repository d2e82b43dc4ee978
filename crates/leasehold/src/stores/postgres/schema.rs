//! The tables and procedures, their version, and how they come to be.

use std::collections::BTreeSet;

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::fault::Fault;
use super::inventory::{self, Column};
use super::options::Options;
use crate::error::{Error, ErrorKind};
use crate::stores::sql::inventory::{Flaw, named, way_out};

/// What this build makes. A procedure's name carries the version that brought it, or last changed it, so that builds of two
/// versions can work beside one another.
pub(super) const VERSION: i32 = 4;

/// The oldest version whose procedures, where they are there, may still use the tables of this one. Those of version 1 know
/// no tags: where one was, its token makes them refuse.
const OLDEST: i32 = 1;

/// The version that brought tags.
const TAGS: i32 = 2;

/// The oldest version that can use tables that this one has made: its procedures are among ours.
const OLDEST_OF_NEW: i32 = 4;

/// The first release with procedures.
const SERVER: i32 = 110_000;

/// How to get here from any version, or from nothing. May run twice: somebody else may have been quicker. The procedures
/// of an older version stay: others may use them.
const PARTS: [&str; 9] = [
    include_str!("schema/version.sql"),
    include_str!("schema/tables.sql"),
    include_str!("schema/common.sql"),
    include_str!("schema/acquire.sql"),
    include_str!("schema/calls.sql"),
    include_str!("schema/arbiter.sql"),
    include_str!("schema/advisory.sql"),
    include_str!("schema/notes.sql"),
    include_str!("schema/keys.sql"),
];

/// How much is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Making {
    /// What the version that was written down does not have.
    Newer,
    /// Whatever is missing, too: something has turned out to be.
    Missing,
    /// The schema, too, and what is not as it should be: somebody asked for it.
    All,
}

/// What is known of a database.
struct Found {
    has_schema: bool,
    has_tables: bool,
}

/// Sees to it that the tables are there as this build knows them, and answers which ones they are. Newer ones are left
/// untouched.
pub(super) async fn prepare(client: &Client, options: &Options, making: Making) -> Result<String, Fault> {
    let found = look(client, options).await?;
    if !found.has_schema && making != Making::All {
        return Err(without_schema(client, options).await?);
    }
    let script = script(&options.schema, !found.has_schema);
    if found.has_tables {
        let (version, home) = version(client, options).await?;
        let mut flaws = match making {
            Making::Newer => Vec::new(),
            Making::Missing | Making::All => flaws(client, &options.schema, &script).await?,
        };
        // What a newer version has changed is as it should be.
        flaws.retain(|flaw| flaw.is_missing || (making == Making::All && version == VERSION));
        if version >= VERSION && flaws.is_empty() {
            return Ok(home);
        }
        if version > 0 {
            check_may_make(client, options, version, &flaws).await?;
        }
        // What a newer version has left out is not put back.
        if version <= VERSION {
            let columns = lacking(client, options, version, &flaws, &script).await?;
            if making == Making::All {
                add_columns(client, options, &columns).await?;
            }
        }
    }
    client.batch_execute(&script).await?;
    let (version, home) = version(client, options).await?;
    if version < VERSION {
        return Err(Fault::Unsent(ErrorKind::Internal, "its tables stay old".to_owned()));
    }
    if making == Making::All && version == VERSION {
        let left = flaws(client, &options.schema, &script).await?;
        let tables: Vec<_> = left.iter().filter_map(Flaw::table).collect();
        if !tables.is_empty() {
            return Err(beyond_repair(options, &named(&left), tables));
        }
    }
    Ok(home)
}

/// The columns that somebody has dropped, of tables without rows. Whoever reads a row goes by what stands there: one that said
/// anew that no lease, mark or token was ever given out would have it given out twice.
async fn lacking<'a>(
    client: &Client,
    options: &Options,
    version: i32,
    flaws: &'a [Flaw],
    script: &'a str,
) -> Result<Vec<Column<'a>>, Fault> {
    let mut columns = inventory::columns(flaws, &options.schema, script);
    // Tables of the first version have none, and get one.
    columns.retain(|column| version >= TAGS || !(column.table == "leasehold_locks" && column.text.starts_with("tag ")));
    for column in &columns {
        let has_rows = format!("select exists(select from {}.{})", options.schema, column.table);
        if client.query_typed_one(&has_rows, &[]).await?.try_get(0)? {
            return Err(beyond_repair(options, &named(flaws), [column.table]));
        }
    }
    Ok(columns)
}

async fn add_columns(client: &Client, options: &Options, columns: &[Column<'_>]) -> Result<(), Fault> {
    for column in columns {
        // Whoever waits for a table, to change it, holds up all who come later.
        let add = format!(
            "begin; set local lock_timeout = '1s'; alter table {}.{} add column if not exists {}; commit",
            options.schema, column.table, column.text
        );
        client.batch_execute(&add).await?;
    }
    Ok(())
}

/// The error of tables that can't be made right while they are kept.
fn beyond_repair<'a>(options: &Options, flaws: &str, tables: impl IntoIterator<Item = &'a str>) -> Fault {
    let tables: BTreeSet<_> = tables.into_iter().collect();
    let drops: Vec<_> = tables.iter().map(|table| format!("`drop table {}.{table}`", options.schema)).collect();
    let message = format!(
        "{} has tables that are not as they should be ({flaws}), and what stood there can't be brought back; {}",
        options.shown,
        way_out(&drops, tables)
    );
    Fault::Told(Error::new(ErrorKind::Misconfigured, message).into())
}

async fn flaws(client: &Client, schema: &str, script: &str) -> Result<Vec<Flaw>, Fault> {
    let found = client.query_typed(inventory::FOUND, &[(&schema, Type::TEXT)]).await?;
    Ok(inventory::flaws(&found, schema, script)?)
}

/// The error of a schema that is not there. A name that is mistyped must not become another place for locks.
async fn without_schema(client: &Client, options: &Options) -> Result<Fault, Fault> {
    let others = "select n.nspname::text from pg_namespace n left join pg_class c \
                      on c.relnamespace = n.oid and c.relname = 'leasehold_schema' \
                  where n.nspname !~ '^pg_' and n.nspname <> 'information_schema' \
                  order by c.oid is null, n.nspname limit 8";
    let others = client.query_typed(others, &[]).await?;
    let others: Vec<String> = others.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let message = format!(
        "{} has no schema {} (there {}); correct schema= in the URL, or have it made by `leasehold migrate`",
        options.shown,
        options.schema,
        if others.is_empty() { "is none".to_owned() } else { format!("are: {}", others.join(", ")) }
    );
    Ok(Fault::Told(Error::new(ErrorKind::Misconfigured, message).into()))
}

/// What has to be run, by somebody who may, before this build can work in a database.
pub(super) fn whole(options: &Options) -> String {
    let schema = &options.schema;
    format!(
        "-- The tables of Leasehold, version {VERSION}, for whoever may create them. Running it again does no harm.\n\
         -- Afterwards, for each ROLE that is to use locks:\n\
         --   grant usage on schema {schema} to ROLE;\n\
         --   grant select, insert, update, delete\n\
         --     on {schema}.leasehold_locks, {schema}.leasehold_waiters, {schema}.leasehold_ticks,\n\
         --     {schema}.leasehold_notes to ROLE;\n\
         --   grant select on {schema}.leasehold_schema to ROLE;\n\
         --   grant select, insert, update on {schema}.leasehold_modes, {schema}.leasehold_routes to ROLE;\n\
         --   grant select, usage, update on sequence {schema}.leasehold_tokens to ROLE;\n\
         {}",
        script(schema, schema != "\"public\"")
    )
}

/// Makes all of it, and the schema.
pub(super) fn script(schema: &str, with_schema: bool) -> String {
    let begin = include_str!("schema/begin.sql");
    let body = PARTS
        .join("\n")
        .replace("    --@begin\n", begin)
        .replace("'@.", &format!("'{}.", schema.replace('\'', "''")))
        .replace("@.", &format!("{schema}."));
    let create = if with_schema { format!("create schema if not exists {schema};\n") } else { String::new() };
    // One at a time: what two create at once fails for one of them. Where the tables are new, no older procedures than ours are
    // there.
    format!(
        "begin isolation level read committed;\n\
         select pg_advisory_xact_lock(7810759600743279467); -- one at a time\n\
         {create}{body}\n\
         insert into {schema}.leasehold_schema(one, version, oldest, home)\n    \
             values (1, {VERSION}, {OLDEST_OF_NEW}, md5(random()::text || clock_timestamp()))\n    \
             on conflict (one) do update set version = greatest(leasehold_schema.version, excluded.version),\n        \
                 oldest = greatest(leasehold_schema.oldest, {OLDEST});\n\
         commit;\n"
    )
}

/// The names of all procedures and functions.
pub(super) fn routines() -> impl Iterator<Item = &'static str> {
    PARTS.into_iter().flat_map(str::lines).filter_map(|line| {
        let (_, name) = line.strip_prefix("create or replace ")?.split_once(" @.")?;
        name.split('(').next()
    })
}

async fn look(client: &Client, options: &Options) -> Result<Found, Fault> {
    let table = format!("{}.leasehold_schema", options.schema);
    let statement = "select current_setting('server_version_num')::integer, pg_is_in_recovery(), \
                     to_regnamespace($1) is not null, to_regclass($2) is not null";
    let row = client.query_typed_one(statement, &[(&options.schema, Type::TEXT), (&table, Type::TEXT)]).await?;
    let server: i32 = row.try_get(0)?;
    if server < SERVER {
        let message = "it is older than PostgreSQL 11; use a newer server".to_owned();
        return Err(Fault::Unsent(ErrorKind::Misconfigured, message));
    }
    if row.try_get(1)? {
        return Err(Fault::of_a_standby());
    }
    Ok(Found { has_schema: row.try_get(2)?, has_tables: row.try_get(3)? })
}

/// Which version the tables have, and which ones they are; 0 if they are about to be made.
async fn version(client: &Client, options: &Options) -> Result<(i32, String), Fault> {
    let statement = format!("select version, oldest, home from {}.leasehold_schema", options.schema);
    let Some(row) = client.query_typed_opt(&statement, &[]).await? else { return Ok((0, String::new())) };
    let (version, oldest): (i32, i32) = (row.try_get(0)?, row.try_get(1)?);
    if oldest > VERSION {
        let message = format!(
            "{} has tables of a newer Leasehold (version {version}, this one knows {VERSION}); upgrade this one",
            options.shown
        );
        return Err(Fault::Told(Error::new(ErrorKind::Misconfigured, message).into()));
    }
    Ok((version, row.try_get(2)?))
}

/// Whether this role may make what is missing of these tables; asked before it tries, which would be an error in the
/// server's log.
async fn check_may_make(client: &Client, options: &Options, version: i32, flaws: &[Flaw]) -> Result<(), Fault> {
    let told = |kind, lacks: String| {
        let message = format!("{} has {lacks}", options.shown);
        Err(Fault::Told(Error::new(kind, message).into()))
    };
    let flaws = named(flaws);
    if version > VERSION {
        let lacks = format!("tables of a newer Leasehold (version {version}), of which some are missing ({flaws})");
        return told(ErrorKind::Misconfigured, format!("{lacks}; have that one's `leasehold migrate` run"));
    }
    let statement = "select coalesce(pg_has_role(c.relowner, 'usage'), true) \
                         and has_schema_privilege(to_regnamespace($3)::oid, 'create') \
                     from (select 1) one left join pg_class c on c.oid = coalesce(to_regclass($1), to_regclass($2))";
    let [locks, schema] = ["locks", "schema"].map(|table| format!("{}.leasehold_{table}", options.schema));
    let given = [(&locks as _, Type::TEXT), (&schema as _, Type::TEXT), (&options.schema as _, Type::TEXT)];
    if client.query_typed_one(statement, &given).await?.try_get(0)? {
        return Ok(());
    }
    let by_whom = "have `leasehold migrate` run by a role that may, or what `leasehold migrate --print` prints";
    if version < VERSION {
        let lacks = format!("tables of version {version}, which this role may not bring to version {VERSION}");
        return told(ErrorKind::AccessDenied, format!("{lacks}; {by_whom}"));
    }
    let lacks =
        format!("tables of which some are missing or not as they should be ({flaws}), and this role may not make them");
    told(ErrorKind::AccessDenied, format!("{lacks}; {by_whom}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::FencingToken;

    #[test]
    fn the_script_names_its_schema_everywhere() {
        let script = script("\"a b\"", true);
        assert!(!script.contains("@."), "{script}");
        assert!(!script.contains("--@begin"), "{script}");
        assert!(script.contains("create schema if not exists \"a b\"") && script.contains("\"a b\".leasehold_locks"));
    }

    #[test]
    fn the_clock_is_checked_against_the_same_day_as_elsewhere() {
        let since_2020 = FencingToken::BUILT.as_millis() - 1_577_836_800_000;
        assert!(script("x", false).contains(&format!("< {since_2020}")));
    }

    #[test]
    fn every_procedure_carries_a_version_and_calls_what_is_made_along_with_it() {
        let (script, names) = (script("x", false), routines().collect::<Vec<_>>());
        assert_eq!(names.len(), script.matches("create or replace").count(), "{names:?}");
        let is_of_name = |letter: char| letter.is_ascii_lowercase() || letter == '_' || letter.is_ascii_digit();
        for called in script.split("leasehold_v").skip(1) {
            let called =
                format!("leasehold_v{}", called.split(|letter| !is_of_name(letter)).next().unwrap_or_default());
            assert!(names.contains(&&*called), "{called}");
        }
        for name in names {
            assert!((2..=VERSION).any(|version| name.starts_with(&format!("leasehold_v{version}_"))), "{name}");
        }
    }
}
