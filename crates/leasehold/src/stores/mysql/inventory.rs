//! What there has to be in a database: each table with its columns, index and procedure.

use std::collections::HashMap;

use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, Row, raw_sql};

use super::fault::Fault;
use super::schema;
use crate::stores::sql::inventory::{Flaw, Wanted, compared};

/// What this user may see of it, named as [`Wanted`] is. The text of a procedure is null for who may not see it.
const FOUND: [&str; 4] = [
    "select cast(concat('table ', table_name) as char), '' from information_schema.tables
        where table_schema = database() and table_name like 'leasehold%'",
    "select cast(concat('column ', column_name, ' of ', table_name) as char), '' from information_schema.columns
        where table_schema = database() and table_name like 'leasehold%'",
    "select distinct cast(concat('index ', index_name, ' of ', table_name) as char), '' from information_schema.statistics
        where table_schema = database() and table_name like 'leasehold%'",
    "select cast(concat('procedure ', routine_name) as char), cast(routine_definition as char) from information_schema.routines
        where routine_schema = database() and routine_name like 'leasehold%'",
];

const NO_SUCH_TABLE: u16 = 1146;
const NO_SUCH_PROCEDURE: u16 = 1305;

/// All that is not as it would be made. What this user may not see counts as if it were.
pub(super) async fn flaws(db: &mut MySqlConnection) -> Result<Vec<Flaw>, Fault> {
    let mut wanted: Vec<_> = schema::all().flat_map(self::wanted).collect();
    let mut found = HashMap::new();
    for question in FOUND {
        for row in raw_sql(question).fetch_all(&mut *db).await? {
            let (what, text) = read(&row)?;
            found.insert(what, text.map(|text| plain(&text)));
        }
    }
    let mut denied = Vec::new();
    for Wanted { what, .. } in wanted.iter().filter(|wanted| !found.contains_key(&wanted.what)) {
        if !is_missing(db, what).await? {
            denied.push(what.clone());
        }
    }
    wanted.retain(|Wanted { what, .. }| !is_part_of(what, &denied) && found.get(what) != Some(&None));
    let found = found.into_iter().filter_map(|(what, text)| Some((what, text?))).collect();
    Ok(compared(wanted, &found))
}

fn read(row: &MySqlRow) -> Result<(String, Option<String>), sqlx::Error> {
    Ok((row.try_get(0)?, row.try_get(1)?))
}

/// Whether something is not there, and not merely hidden from this user. It is named, which changes nothing.
async fn is_missing(db: &mut MySqlConnection, what: &str) -> Result<bool, Fault> {
    let (question, none) = match what.split_once(' ') {
        Some(("table", name)) => (format!("select 1 from {name} limit 0"), NO_SUCH_TABLE),
        Some(("procedure", name)) => (format!("call {name}()"), NO_SUCH_PROCEDURE),
        _ => return Ok(true), // Who sees a table sees its parts.
    };
    match raw_sql(AssertSqlSafe(question)).fetch_all(db).await.map_err(Fault::from) {
        Ok(_) => Ok(false),
        Err(fault) if fault.number().is_some() => Ok(fault.number() == Some(none)),
        Err(fault) => Err(fault),
    }
}

/// Whether it is one of those, or belongs to a table among them.
fn is_part_of(what: &str, those: &[String]) -> bool {
    let table = what.split_once(" of ").map(|(_, table)| format!("table {table}"));
    those.iter().any(|one| one == what || Some(one) == table.as_ref())
}

/// What a statement makes.
fn wanted(statement: &'static str) -> Vec<Wanted> {
    let one = |what: String, text: &str| Wanted { what, text: text.to_owned() };
    let procedure = schema::name_of(statement);
    if !procedure.is_empty() {
        let body = statement.split_once("sql security invoker").map_or("", |(_, body)| body);
        return vec![one(format!("procedure {procedure}"), &plain(body))];
    }
    // The tokens are a sequence or a table, behind a comment that the other server does not read.
    if statement.contains("leasehold_tokens") {
        return vec![one("table leasehold_tokens".to_owned(), "")];
    }
    let Some((name, parts)) = table(statement) else { return Vec::new() };
    let of_it = parts.iter().map(|part| one(format!("{} of {name}", part.what), ""));
    std::iter::once(one(format!("table {name}"), "")).chain(of_it).collect()
}

/// A part of a table: a column, or an index.
#[derive(Debug)]
pub(super) struct Part {
    /// What it is, and its name.
    what: String,
    /// As it is written where the table is made.
    text: String,
    /// Whether rows are told apart by it.
    is_of_key: bool,
}

impl Part {
    /// As it is added to a table that is there.
    pub fn add(&self) -> String {
        let kind = if self.is_column() { "column " } else { "" };
        format!("add {kind}{}", self.text)
    }

    /// Whether it says something in each row.
    pub fn is_column(&self) -> bool {
        self.what.starts_with("column ")
    }

    /// Whether a table that is there is another without it.
    pub fn makes_the_table(&self) -> bool {
        self.is_of_key
    }
}

/// The parts that a table lacks which is there, in the order of the table.
pub(super) fn lacking(flaws: &[Flaw]) -> Vec<(&'static str, Vec<Part>)> {
    let is_missing = |table: &str, part: &Part| {
        let what = format!("{} of {table}", part.what);
        flaws.iter().any(|flaw| flaw.is_missing && flaw.what == what)
    };
    let tables = schema::all().filter_map(table);
    let lacking = tables.map(|(name, mut parts)| {
        parts.retain(|part| is_missing(name, part));
        (name, parts)
    });
    lacking.filter(|(_, parts)| !parts.is_empty()).collect()
}

/// The name of the table that a statement makes, and its parts.
fn table(statement: &'static str) -> Option<(&'static str, Vec<Part>)> {
    let (_, table) = statement.split_once("create table if not exists ")?;
    let (name, columns) = table.split_once("(\n")?;
    let lines = columns.lines().take_while(|line| !line.starts_with(')'));
    let plain: Vec<_> = lines.map(|line| line.split("--").next().unwrap_or_default()).collect();
    let texts: Vec<_> = outermost(&plain.join(" ")).collect();
    let key = texts.iter().find_map(|text| text.strip_prefix("primary key(")?.strip_suffix(')')).unwrap_or_default();
    let key: Vec<_> = key.split(", ").collect();
    let parts = texts.iter().map(|text| {
        let name = text.split([' ', '(']).next().unwrap_or_default();
        let what = match name {
            "primary" => "index PRIMARY".to_owned(),
            "key" => format!("index {}", text["key ".len()..].split('(').next().unwrap_or_default()),
            _ => format!("column {name}"),
        };
        Part { what, text: text.clone(), is_of_key: key.contains(&name) || text.contains(" primary key") }
    });
    Some((name, parts.collect()))
}

/// What stands between commas, but for those in brackets.
fn outermost(text: &str) -> impl Iterator<Item = String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for letter in text.chars() {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        match (letter, depth) {
            (',', 0) => parts.push(String::new()),
            _ => parts.last_mut().expect("there is one").push(letter),
        }
    }
    let trimmed = parts.into_iter().map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    trimmed.filter(|part| !part.is_empty())
}

/// A procedure's text as it is compared: clients and servers may leave out comments, or break lines elsewhere.
fn plain(body: &str) -> String {
    let lines = body.lines().map(|line| line.split("-- ").next().unwrap_or_default());
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_made_is_wanted() {
        let wanted: Vec<_> = schema::all().flat_map(wanted).collect();
        let of = |kind: &str| wanted.iter().filter(|one| one.what.starts_with(kind)).count();
        assert_eq!(of("table "), schema::RIGHTS.len());
        assert_eq!(of("procedure "), schema::procedures().count());
        assert_eq!(of("index PRIMARY"), 6, "{wanted:#?}");
        let has = |what: &str| wanted.iter().any(|one| one.what == what);
        for what in
            ["column ns of leasehold_names", "column name of leasehold_names", "column epoch of leasehold_names"]
        {
            assert!(has(what), "{what}: {wanted:#?}");
        }
        assert!(has("index leasehold_forget of leasehold_names") && has("column floor of leasehold_routes"));
        assert_eq!(wanted.iter().filter(|one| one.what.ends_with(" of leasehold_notes")).count(), 10, "{wanted:#?}");
        let one = |what: &str| Flaw { what: what.into(), is_missing: true };
        let flaws = ["column mark_keep of leasehold_names", "index leasehold_forget of leasehold_names"].map(one);
        let [(table, parts)] = &lacking(&flaws)[..] else { panic!("{:?}", lacking(&flaws)) };
        let add: Vec<_> = parts.iter().map(Part::add).collect();
        let expected = ["add column mark_keep bigint", "add key leasehold_forget(forget_at)"];
        assert!(*table == "leasehold_names" && add == expected, "{add:?}");
        assert!(parts.iter().all(|part| !part.makes_the_table()));
        assert!(parts[0].is_column() && !parts[1].is_column());
        let flaws = ["column ns of leasehold_ticks", "column ns of leasehold_modes"].map(one);
        assert!(lacking(&flaws).iter().all(|(_, parts)| parts[0].makes_the_table()));
        assert_eq!(wanted.iter().filter(|one| one.text.ends_with("; end")).count(), of("procedure "), "{wanted:#?}");
    }
}
