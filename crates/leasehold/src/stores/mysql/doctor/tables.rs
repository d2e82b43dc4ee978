//! The tables and procedures: whether they are there, and their version.

use sqlx::Row;

use super::{Patient, rights};
use crate::finding::Finding;
use crate::stores::mysql::inventory;
use crate::stores::mysql::schema::{self, VERSION, Version};
use crate::stores::sql::inventory::{Flaw, named};
use crate::stores::sql::{self, KeyScheme};

pub(super) async fn findings(patient: &mut Patient<'_>) -> Vec<Finding> {
    let version = match schema::version(&mut patient.db).await {
        Ok(Some(version)) => version,
        Ok(None) => return vec![Finding::fine("tables", "not there yet; they are made at the first use")],
        Err(_) => return Vec::new(), // What this user may not do is told elsewhere.
    };
    let mut findings = vec![told(&version)];
    if version.number >= VERSION {
        findings.extend(flaws(patient, version.number).await);
    }
    findings.extend(mode(patient).await);
    let others = "select table_name, engine from information_schema.tables \
                  where table_schema = database() and table_name like 'leasehold\\_%' and engine <> 'InnoDB'";
    for row in patient.ask(others).await.unwrap_or_default() {
        let (table, engine): (String, String) =
            (row.try_get(0).unwrap_or_default(), row.try_get(1).unwrap_or_default());
        let message = format!("{table} is kept by {engine}, which has no transactions: locks are not safe");
        findings.push(Finding::problem("tables", message, format!("alter table {table} engine = InnoDB")));
    }
    findings.extend(procedures(patient).await);
    findings
}

/// What is missing, or is another than this build makes.
async fn flaws(patient: &mut Patient<'_>, version: i64) -> Vec<Finding> {
    let flaws = inventory::flaws(&mut patient.db).await.unwrap_or_default();
    let (missing, others): (Vec<_>, Vec<_>) = flaws.into_iter().partition(|flaw| flaw.is_missing);
    let is_needed = |flaw: &Flaw| flaw.table().is_none_or(|table| rights::needs(table, patient.options));
    let (missing, unused): (Vec<_>, Vec<_>) = missing.into_iter().partition(is_needed);
    let fix = "run `leasehold migrate`, as a user who may make them";
    let mut findings = Vec::new();
    if !missing.is_empty() {
        findings.push(Finding::problem("tables", format!("missing: {}", named(&missing)), fix));
    }
    if !unused.is_empty() {
        let message = format!("missing: {}; locks do without", named(&unused));
        findings.push(Finding::warning("tables", message, fix));
    }
    // A newer version may have changed them.
    if !others.is_empty() && version == VERSION {
        let message = format!("not as this Leasehold makes them: {}", named(&others));
        let fix = "run what `leasehold migrate --print` prints; then grant execute again";
        findings.push(Finding::problem("tables", message, fix));
    }
    findings
}

/// Which kind of lock the namespace has.
async fn mode(patient: &mut Patient<'_>) -> Option<Finding> {
    let options = patient.options;
    if options.key_scheme != KeyScheme::Leasehold {
        return None;
    }
    let agreed = schema::mode(&mut patient.db, options).await.ok()??;
    Some(sql::mode_finding(options.kind, &options.namespace, &agreed))
}

fn told(version: &Version) -> Finding {
    let Version { number, oldest, .. } = version;
    if *oldest > VERSION {
        let message = format!("they are of version {number}, of a newer Leasehold; this one knows {VERSION}");
        return Finding::problem("tables", message, "upgrade this Leasehold");
    }
    if *number < VERSION {
        return Finding::fine("tables", format!("version {number}; brought to {VERSION} at the next use"));
    }
    Finding::fine("tables", format!("version {number}"))
}

/// Only who may execute them sees them.
async fn procedures(patient: &mut Patient<'_>) -> Option<Finding> {
    let loose = "select count(*) from information_schema.routines where routine_schema = database() \
                 and routine_name like 'leasehold\\_v%' and sql_mode not like '%STRICT%'";
    if patient.number(loose).await? == 0 {
        return None;
    }
    let message = "some procedures were made by a session that is not strict: what is too long would be cut";
    Some(Finding::warning("tables", message, "run again what `leasehold migrate --print` prints"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn newer_tables_are_a_problem_unless_this_build_may_use_them() {
        let told = |number, oldest| told(&Version { number, oldest, home: String::new() }).severity;
        assert_eq!((told(VERSION, VERSION), told(VERSION + 1, VERSION)), (Severity::Fine, Severity::Fine));
        assert_eq!(told(VERSION + 1, VERSION + 1), Severity::Problem);
    }
}
