//! The tables: their version, and whether they are kept clean.

use tokio_postgres::types::Type;

use super::super::inventory;
use super::super::schema::{VERSION, script};
use super::{Patient, rights};
use crate::finding::{Finding, Severity};
use crate::stores::sql::inventory::{Flaw, named};
use crate::stores::sql::{self, KeyScheme, Mode};

/// So many dead rows for each that lives slow renewals down.
const BLOATED: i64 = 20;

/// Fewer don't matter.
const FEW: i64 = 10_000;

/// A transaction that is older keeps what was renewed since from being cleaned up.
const OLD_SECONDS: i64 = 300;

/// What may be waited for is whether they can be used.
pub(super) fn are_usable(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.severity < Severity::Problem)
}

pub(super) async fn findings(patient: &Patient<'_>) -> Vec<Finding> {
    let schema = &patient.options.schema;
    let there = patient.ask("select to_regnamespace($1) is not null", &[(schema, Type::TEXT)]).await;
    if there.and_then(|row| row.try_get(0).ok()) == Some(false) {
        let message = format!("there is no schema {schema}: nothing works");
        return vec![Finding::problem("tables", message, "correct schema= in the URL, or run `leasehold migrate`")];
    }
    if !patient.has("schema").await {
        return vec![Finding::fine("tables", "not there yet; they are made at the first use")];
    }
    let statement = format!("select version, oldest from {}", patient.table("schema"));
    let Some(row) = patient.ask(&statement, &[]).await else { return Vec::new() };
    let (version, oldest): (i32, i32) = (row.try_get(0).unwrap_or(0), row.try_get(1).unwrap_or(0));
    let mut findings = vec![self::version(version, oldest)];
    if version >= VERSION {
        findings.extend(flaws(patient, version).await);
    }
    findings.extend(mode(patient).await);
    if patient.options.mode == Mode::Lease {
        findings.extend(bloat(patient).await);
        findings.extend(old_transaction(patient).await);
    }
    findings
}

/// What is missing, or is another than this build makes.
async fn flaws(patient: &Patient<'_>, version: i32) -> Vec<Finding> {
    let schema = &patient.options.schema;
    let found = patient.rows(inventory::FOUND, &[(schema, Type::TEXT)]).await;
    let flaws = inventory::flaws(&found, schema, &script(schema, false)).unwrap_or_default();
    let (missing, others): (Vec<_>, Vec<_>) = flaws.into_iter().partition(|flaw| flaw.is_missing);
    let is_needed = |flaw: &Flaw| flaw.table().is_none_or(|table| rights::is_needed(table, patient.options));
    let (missing, unused): (Vec<_>, Vec<_>) = missing.into_iter().partition(is_needed);
    let fix = "run `leasehold migrate`, as a role that may make them";
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
        findings.push(Finding::problem("tables", message, fix));
    }
    findings
}

/// Which kind of lock the namespace has.
async fn mode(patient: &Patient<'_>) -> Option<Finding> {
    let options = patient.options;
    if options.key_scheme != KeyScheme::Leasehold {
        return None;
    }
    let statement = format!("select mode from {} where ns = $1", patient.table("modes"));
    let row = patient.ask(&statement, &[(&options.namespace.as_str(), Type::TEXT)]).await?;
    let agreed: String = row.try_get(0).ok()?;
    Some(sql::mode_finding(options.mode, &options.namespace, &agreed))
}

fn version(version: i32, oldest: i32) -> Finding {
    if oldest > VERSION {
        let message = format!("they are of version {version}, of a newer Leasehold; this one knows {VERSION}");
        return Finding::problem("tables", message, "upgrade this Leasehold");
    }
    if version < VERSION {
        return Finding::fine("tables", format!("version {version}; brought to {VERSION} at the next use"));
    }
    Finding::fine("tables", format!("version {version}"))
}

async fn bloat(patient: &Patient<'_>) -> Option<Finding> {
    let statement = "select n_dead_tup, n_live_tup from pg_stat_all_tables where relid = to_regclass($1)";
    let row = patient.ask(statement, &[(&patient.table("locks"), Type::TEXT)]).await?;
    let (dead, live): (i64, i64) = (row.try_get(0).ok()?, row.try_get(1).ok()?);
    if dead < FEW || dead < live.saturating_mul(BLOATED) {
        return None;
    }
    let message = format!("{dead} dead rows beside {live} live ones: renewals get slower");
    let table = patient.table("locks");
    Some(Finding::warning("bloat", message, format!("vacuum {table}, and see why autovacuum does not")))
}

async fn old_transaction(patient: &Patient<'_>) -> Option<Finding> {
    let statement = "select extract(epoch from max(clock_timestamp() - xact_start))::bigint from pg_stat_activity \
                     where backend_xmin is not null and datname = current_database() and pid <> pg_backend_pid()";
    let age = patient.ask_for::<Option<i64>>(statement).await?.filter(|age| *age > OLD_SECONDS)?;
    let message = format!(
        "a transaction in this database has been open for {age} s: what is renewed meanwhile can't be cleaned up, and renewals \
         get slower"
    );
    let fix = "end it (pg_stat_activity shows it), or give locks that live beside such ones a long TTL";
    Some(Finding::warning("old transaction", message, fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_tables_are_a_problem_unless_this_build_may_use_them() {
        assert_eq!(version(VERSION + 1, VERSION + 1).severity, Severity::Problem);
        assert_eq!(version(VERSION + 1, VERSION).severity, Severity::Fine);
        assert_eq!(version(VERSION, VERSION).severity, Severity::Fine);
    }
}
