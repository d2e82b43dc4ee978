//! What the role may do, and what it costs if it may not.

use tokio_postgres::types::Type;

use super::super::options::Options;
use super::super::schema;
use super::Patient;
use crate::finding::Finding;
use crate::stores::sql::{KeyScheme, Mode};

/// What most can do without: a table, the rights on it, and what is lost without them.
const SPECIAL: (&str, &str, &str) = ("routes", "select,insert,update", "it can't be the arbiter of a fallback");

/// What nobody who has schedules can do without.
const OF_SCHEDULES: (&str, &str, &str) = (
    "notes",
    "select,insert,update,delete",
    "schedules run nothing, for they can't read what is paused, nor write down what ran",
);

/// What session locks take their tokens from.
const TOKENS: (&str, &str) = ("tokens", "select,usage,update");

/// The tables of leases, and what each right on them is for.
const OF_LEASES: [(&str, &str, &str); 3] = [
    ("locks", "select,insert,update,delete", "nothing can be granted"),
    ("waiters", "select,insert,update,delete", "nobody can wait in line"),
    ("ticks", "select,insert,update,delete", "ticks and keys can't be claimed"),
];

/// The tables that are for all.
const OF_ALL: [(&str, &str, &str); 2] = [
    ("modes", "select,insert,update", "nothing works: which kind of lock the namespace has can't be agreed on"),
    ("schema", "select", "nothing works: the tables' version can't be read"),
];

/// Whether the kind of locks that is asked for can't do without a table.
pub(super) fn is_needed(table: &str, options: &Options) -> bool {
    let is_one_of =
        |tables: &[(&str, &str, &str)]| tables.iter().any(|(name, ..)| table == format!("leasehold_{name}"));
    let is_of_leases = options.mode == Mode::Lease;
    let is_of_kind = if is_of_leases { is_one_of(&OF_LEASES) } else { table == format!("leasehold_{}", TOKENS.0) };
    is_of_kind || is_one_of(&OF_ALL)
}

pub(super) async fn findings(patient: &Patient<'_>) -> Vec<Finding> {
    let schema = &patient.options.schema;
    let may = |right: &'static str| async move {
        let usage = "select has_schema_privilege(to_regnamespace($1), $2) where to_regnamespace($1) is not null";
        let row = patient.ask(usage, &[(schema, Type::TEXT), (&right, Type::TEXT)]).await;
        row.and_then(|row| row.try_get::<_, bool>(0).ok())
    };
    if may("usage").await == Some(false) {
        let message = format!("this role may not use the schema {schema}: nothing works");
        return vec![Finding::problem("rights", message, format!("grant usage on schema {schema} to this role"))];
    }
    if !patient.has("schema").await {
        return match may("create").await {
            Some(false) => vec![cannot_create(schema)],
            _ => Vec::new(),
        };
    }
    let mut findings = Vec::new();
    let is_of_leases = patient.options.mode == Mode::Lease;
    let of_leases = OF_LEASES.iter().filter(|_| is_of_leases);
    let has_modes = patient.options.key_scheme == KeyScheme::Leasehold;
    for (table, rights, cost) in of_leases.chain(OF_ALL.iter().filter(|(table, ..)| has_modes || *table != "modes")) {
        let missing = missing(patient, &patient.table(table), rights).await;
        findings.extend(lacking(&missing, &patient.table(table), cost));
    }
    if !is_of_leases {
        let (sequence, rights) = TOKENS;
        let may = "select has_sequence_privilege($1, $2)";
        let missing = refused(patient, may, &patient.table(sequence), rights).await;
        findings.extend(lacking(&missing, &format!("sequence {}", patient.table(sequence)), "nothing can be granted"));
    }
    findings.extend(cannot_execute(patient).await);
    if findings.is_empty() {
        findings.push(Finding::fine("rights", "all that locks need"));
    }
    if is_of_leases {
        findings.extend(without(patient, SPECIAL, Finding::warning).await);
        findings.extend(without(patient, OF_SCHEDULES, Finding::problem).await);
    }
    findings
}

fn lacking(missing: &[&str], what: &str, cost: &str) -> Option<Finding> {
    if missing.is_empty() {
        return None;
    }
    let missing = missing.join(", ");
    let message = format!("this role has no right to {missing} on {what}: {cost}");
    Some(Finding::problem("rights", message, format!("grant {missing} on {what} to this role")))
}

/// Everybody may execute what is made, unless that was taken away.
async fn cannot_execute(patient: &Patient<'_>) -> Option<Finding> {
    let ours: Vec<&str> = schema::routines().collect();
    let denied = "select string_agg(proname, ', ' order by proname) from pg_proc \
                  where pronamespace = to_regnamespace($1) and proname = any($2) \
                      and not has_function_privilege(oid, 'execute')";
    let row = patient.ask(denied, &[(&patient.options.schema, Type::TEXT), (&ours, Type::TEXT_ARRAY)]).await?;
    let denied: String = row.try_get::<_, Option<String>>(0).ok()??;
    let schema = &patient.options.schema;
    let message = format!("this role may not execute {denied}: what needs them fails");
    Some(Finding::problem("rights", message, format!("grant execute on all routines in schema {schema} to this role")))
}

/// Tables of an older version may not have it.
async fn without(
    patient: &Patient<'_>,
    (table, rights, cost): (&str, &str, &str),
    finding: fn(&'static str, String, String) -> Finding,
) -> Option<Finding> {
    if !patient.has(table).await {
        return None;
    }
    let name = patient.table(table);
    let missing = missing(patient, &name, rights).await.join(", ");
    if missing.is_empty() {
        return None;
    }
    let message = format!("this role has no right to {missing} on {name}: {cost}");
    Some(finding("rights", message, format!("grant {missing} on {name} to this role, if it is to have that")))
}

pub(super) async fn missing<'a>(patient: &Patient<'_>, table: &String, rights: &'a str) -> Vec<&'a str> {
    refused(patient, "select has_table_privilege($1, $2)", table, rights).await
}

/// Which of the rights it has not, asked in this way.
async fn refused<'a>(patient: &Patient<'_>, may: &str, what: &String, rights: &'a str) -> Vec<&'a str> {
    let mut refused = Vec::new();
    for right in rights.split(',') {
        let row = patient.ask(may, &[(what, Type::TEXT), (&right, Type::TEXT)]).await;
        if row.and_then(|row| row.try_get(0).ok()) == Some(false) {
            refused.push(right);
        }
    }
    refused
}

fn cannot_create(schema: &str) -> Finding {
    Finding::problem(
        "rights",
        format!("the tables are not there, and this role may not make them in the schema {schema}"),
        "have somebody run what `leasehold migrate --print` prints",
    )
}
