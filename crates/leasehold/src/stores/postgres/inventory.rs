//! What there has to be in a schema, as the script makes it: each table with its columns, index, sequence and procedure.

use tokio_postgres::{Error, Row};

use crate::stores::sql::inventory::{Flaw, Wanted, compared};

/// What there is of that kind in a schema, named as [`Wanted`] is.
pub(super) const FOUND: &str = "
    select case relkind when 'S' then 'sequence ' else 'table ' end || relname, ''
        from pg_class where relnamespace = to_regnamespace($1) and relname like 'leasehold%' and relkind <> 'i'
    union all
    select 'index ' || x.relname || ' of ' || c.relname, ''
        from pg_index i join pg_class x on x.oid = i.indexrelid join pg_class c on c.oid = i.indrelid
        where c.relnamespace = to_regnamespace($1) and c.relname like 'leasehold%'
    union all
    select 'column ' || a.attname || ' of ' || c.relname, format_type(a.atttypid, a.atttypmod)
        from pg_class c join pg_attribute a on a.attrelid = c.oid
        where c.relnamespace = to_regnamespace($1) and c.relname like 'leasehold%' and c.relkind in ('r', 'p')
            and a.attnum > 0 and not a.attisdropped
    union all
    select 'primary key of ' || c.relname,
            (select string_agg(a.attname, ', ' order by k.place) from unnest(i.indkey::smallint[]) with ordinality k(number, place)
                join pg_attribute a on a.attrelid = c.oid and a.attnum = k.number)
        from pg_class c join pg_index i on i.indrelid = c.oid and i.indisprimary
        where c.relnamespace = to_regnamespace($1) and c.relname like 'leasehold%'
    union all
    select case prokind when 'p' then 'procedure ' else 'function ' end || proname, prosrc
        from pg_proc where pronamespace = to_regnamespace($1) and proname like 'leasehold%'";

/// All that is not as the script would make it, among what was found.
pub(super) fn flaws(found: &[Row], schema: &str, script: &str) -> Result<Vec<Flaw>, Error> {
    let found = found.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
    Ok(compared(wanted(script, schema), &found.collect::<Result<_, Error>>()?))
}

/// A column, as a script makes it.
pub(super) struct Column<'a> {
    pub table: &'a str,
    pub text: &'a str,
}

/// The columns that are missing of tables that are there.
pub(super) fn columns<'a>(flaws: &'a [Flaw], schema: &str, script: &'a str) -> Vec<Column<'a>> {
    let missing = flaws.iter().filter(|flaw| flaw.is_missing);
    missing.filter_map(|flaw| made_as(flaw.table()?, flaw.column()?, schema, script)).collect()
}

fn made_as<'a>(table: &'a str, name: &str, schema: &str, script: &'a str) -> Option<Column<'a>> {
    let (_, columns) = script.split_once(&format!("create table if not exists {schema}.{table}(\n"))?;
    let mut lines = columns.lines().take_while(|line| !line.starts_with(')'));
    let line = lines.find(|line| column(line).is_some_and(|(found, _)| found == name))?;
    let text = line.split("--").next().unwrap_or_default().trim().trim_end_matches(',');
    Some(Column { table, text })
}

/// What a script makes in a schema, in its order.
fn wanted(script: &str, schema: &str) -> Vec<Wanted> {
    let (mut wanted, mut table, mut rest) = (Vec::new(), None, script);
    while let Some((line, behind)) = rest.split_once('\n') {
        let from_here = std::mem::replace(&mut rest, behind);
        match (table, column(line), made(line.trim_start(), schema)) {
            (Some(_), ..) if line.starts_with(')') => table = None,
            (Some(table), None, _) => wanted.extend(key(line, table)),
            (Some(table), Some((name, kind)), _) => {
                wanted.push(Wanted { what: format!("column {name} of {table}"), text: kind.to_owned() });
                if line.contains(" primary key") {
                    wanted.push(Wanted { what: format!("primary key of {table}"), text: name.to_owned() });
                }
            }
            (None, _, Some((kind, name))) => {
                table = (kind == "table").then_some(name);
                let is_run = ["procedure", "function"].contains(&kind);
                let text = from_here.split("$$").nth(1).filter(|_| is_run).unwrap_or_default();
                let of = line.split_once(" on ").filter(|_| kind == "index");
                let of = of.map(|(_, table)| format!(" of {}", bare(table, schema))).unwrap_or_default();
                wanted.push(Wanted { what: format!("{kind} {name}{of}"), text: text.to_owned() });
            }
            _ => {}
        }
    }
    wanted
}

/// What a line begins to make: its kind and name.
fn made<'a>(line: &'a str, schema: &str) -> Option<(&'a str, &'a str)> {
    let made = line.strip_prefix("create ")?;
    let made = made.strip_prefix("or replace ").unwrap_or(made);
    let (kind, name) = made.split_once(' ')?;
    let name = bare(name.strip_prefix("if not exists ").unwrap_or(name), schema);
    name.starts_with("leasehold_").then_some((kind, name))
}

/// The name at the front of a text, without its schema.
fn bare<'a>(text: &'a str, schema: &str) -> &'a str {
    let name = text.strip_prefix(schema).and_then(|name| name.strip_prefix('.')).unwrap_or(text);
    name.split([' ', '(', ';']).next().unwrap_or_default()
}

/// The primary key in a line of a table: without it a name could be there twice, and two be granted it.
fn key(line: &str, table: &str) -> Option<Wanted> {
    let columns = line.trim_start().strip_prefix("primary key(")?.split(')').next()?;
    Some(Wanted { what: format!("primary key of {table}"), text: columns.to_owned() })
}

/// The name and type of the column in a line of a table.
fn column(line: &str) -> Option<(&str, &str)> {
    let mut words = line.strip_prefix("    ")?.split([' ', ',']);
    let (name, kind) = (words.next()?, words.next()?);
    (!name.starts_with("--") && name != "primary").then_some((name, kind))
}

#[cfg(test)]
mod tests {
    use super::super::schema::script;
    use super::*;

    #[test]
    fn all_that_is_made_is_wanted() {
        let script = script("\"a b\"", true);
        let wanted = wanted(&script, "\"a b\"");
        let of = |kind: &str| wanted.iter().filter(|one| one.what.starts_with(kind)).count();
        assert_eq!(of("table "), script.matches("\ncreate table").count());
        assert_eq!(of("index "), script.matches(" create index ").count());
        assert_eq!(of("sequence "), 1);
        assert_eq!(of("primary key "), of("table "));
        let procedures = of("procedure ") + of("function ");
        assert_eq!(procedures, script.matches("\ncreate or replace").count());
        assert_eq!(procedures, wanted.iter().filter(|one| one.text.len() > 20).count());
        for (what, text) in [("column tag of leasehold_locks", "bigint"), ("column once of leasehold_ticks", "boolean")]
        {
            assert!(wanted.contains(&Wanted { what: what.into(), text: text.into() }), "{wanted:#?}");
        }
        for (table, name, text) in [
            ("locks", "token", "token bigint not null default 0"),
            ("locks", "tag", "tag bigint"),
            ("ticks", "once", "once boolean not null"),
            ("schema", "one", "one integer primary key check (one = 1)"),
        ] {
            let flaw = Flaw { what: format!("column {name} of leasehold_{table}"), is_missing: true };
            let flaws = [flaw];
            let made = columns(&flaws, "\"a b\"", &script);
            assert_eq!(made[0].text, text);
        }
        let kinds = ["bigint", "text", "integer", "boolean", "bytea"];
        assert!(wanted.iter().all(|one| !one.what.starts_with("column") || kinds.contains(&&*one.text)), "{wanted:#?}");
    }
}
