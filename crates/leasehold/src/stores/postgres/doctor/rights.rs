//! What the role may do, and what it costs if it may not.

use tokio_postgres::types::Type;

use super::Patient;
use crate::finding::Finding;

/// What the arbiter of a fallback needs beside that.
const ARBITERS: (&str, &str) = ("routes", "select,insert,update");

/// The tables, and what each right on them is for.
const NEEDED: [(&str, &str, &str); 5] = [
    ("locks", "select,insert,update,delete", "nothing can be granted"),
    ("waiters", "select,insert,update,delete", "nobody can wait in line"),
    ("ticks", "select,insert,update,delete", "ticks and keys can't be claimed"),
    ("modes", "select,insert,update", "nothing works: which kind of lock the namespace has can't be agreed on"),
    ("schema", "select", "nothing works: the tables' version can't be read"),
];

pub(super) async fn findings(patient: &Patient<'_>) -> Vec<Finding> {
    let schema = &patient.options.schema;
    let usage = "select has_schema_privilege(to_regnamespace($1), $2) where to_regnamespace($1) is not null";
    let may = |right: &'static str| async move {
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
    for (table, rights, cost) in NEEDED {
        let missing = missing(patient, &patient.table(table), rights).await;
        if !missing.is_empty() {
            let name = patient.table(table);
            let missing = missing.join(", ");
            let message = format!("this role has no right to {missing} on {name}: {cost}");
            findings.push(Finding::problem("rights", message, format!("grant {missing} on {name} to this role")));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::fine("rights", "all that locks need"));
    }
    findings.extend(for_an_arbiter(patient).await);
    findings
}

/// Most never need it. Tables of an older version have none of it.
async fn for_an_arbiter(patient: &Patient<'_>) -> Option<Finding> {
    let (table, rights) = ARBITERS;
    if !patient.has(table).await {
        return None;
    }
    let name = patient.table(table);
    let missing = missing(patient, &name, rights).await.join(", ");
    if missing.is_empty() {
        return None;
    }
    let message =
        format!("this role has no right to {missing} on {name}: it can't be the arbiter of a fallback with it");
    Some(Finding::warning("rights", message, format!("grant {missing} on {name} to this role, if it is to be one")))
}

pub(super) async fn missing<'a>(patient: &Patient<'_>, table: &String, rights: &'a str) -> Vec<&'a str> {
    let mut missing = Vec::new();
    for right in rights.split(',') {
        let row = patient.ask("select has_table_privilege($1, $2)", &[(table, Type::TEXT), (&right, Type::TEXT)]).await;
        if row.and_then(|row| row.try_get(0).ok()) == Some(false) {
            missing.push(right);
        }
    }
    missing
}

fn cannot_create(schema: &str) -> Finding {
    Finding::problem(
        "rights",
        format!("the tables are not there, and this role may not make them in the schema {schema}"),
        "have somebody run what `leasehold migrate --print` prints",
    )
}
