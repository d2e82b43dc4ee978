//! What the user may do, and what it costs if it may not.

use super::Patient;
use crate::finding::Finding;
use crate::stores::mysql::options::Options;
use crate::stores::mysql::schema::{self, Table, Whom};
use crate::stores::sql::{KeyScheme, Mode};

const DENIED: [u16; 4] = [1044, 1142, 1143, 1370];

const NO_SUCH_TABLE: u16 = 1146;

/// Tries each right with a statement that changes nothing: what was granted by a role counts, too.
pub(super) async fn findings(patient: &mut Patient<'_>) -> Vec<Finding> {
    match patient.ask("select version from leasehold_schema").await {
        Err(NO_SUCH_TABLE) => return cannot_create(patient).await.into_iter().collect(),
        Err(number) if DENIED.contains(&number) => {
            let message = "this user has no right to select from leasehold_schema: nothing works, and perhaps the tables are \
                           not there";
            let fix =
                "have somebody run what `leasehold migrate --print` prints, and grant what docs/stores/mysql.md names";
            return vec![Finding::problem("rights", message, fix)];
        }
        _ => {}
    }
    let mut findings = Vec::new();
    let is_of_leases = patient.options.kind == Mode::Lease;
    for Table { name, rights, cost, needed_by } in
        schema::RIGHTS.into_iter().filter(|table| is_needed(table, patient.options))
    {
        let missing = missing(patient, &format!("leasehold_{name}"), rights).await.join(", ");
        if !missing.is_empty() {
            let message = format!("this user has no right to {missing} on leasehold_{name}: {cost}");
            let fix = format!("grant {missing} on leasehold_{name} to it");
            findings.push(if needed_by == Whom::Arbiters {
                Finding::warning("rights", message, fix)
            } else {
                Finding::problem("rights", message, fix)
            });
        }
    }
    let denied = if is_of_leases { may_not_execute(patient).await.join(", ") } else { String::new() };
    if !denied.is_empty() {
        let message = format!("this user may not execute the procedures {denied}: what needs them fails");
        findings.push(Finding::problem("rights", message, "grant execute on the database, or on each of them, to it"));
    }
    if findings.is_empty() {
        findings.push(Finding::fine("rights", "all that locks need"));
    }
    findings
}

/// Whether the kind of locks that is asked for has to do with a table.
fn is_needed(table: &Table, options: &Options) -> bool {
    match table.name {
        "schema" => true,
        "modes" => options.key_scheme == KeyScheme::Leasehold,
        "tokens" => options.kind == Mode::Advisory,
        _ => options.kind == Mode::Lease,
    }
}

/// Whether the kind of locks that is asked for can't do without a table.
pub(super) fn needs(name: &str, options: &Options) -> bool {
    let mut tables = schema::RIGHTS.iter().filter(|table| is_needed(table, options) && table.needed_by == Whom::Locks);
    tables.any(|table| name == format!("leasehold_{}", table.name))
}

/// Which of the procedures it may not execute. Each is called without what it has to be given, which comes to nothing.
async fn may_not_execute(patient: &mut Patient<'_>) -> Vec<&'static str> {
    let mut denied = Vec::new();
    for name in schema::procedures() {
        if patient.ask(&format!("call {name}()")).await.is_err_and(|number| DENIED.contains(&number)) {
            denied.push(name);
        }
    }
    denied
}

/// Which of the `rights` on a table it hasn't got.
pub(super) async fn missing(patient: &mut Patient<'_>, table: &str, rights: &[&str]) -> Vec<&'static str> {
    let mut missing = Vec::new();
    for (right, statement) in [
        ("select", "select 1 from TABLE limit 0"),
        ("insert", "insert into TABLE select * from TABLE where 1 = 0"),
        ("update", "update TABLE set name = name where 1 = 0"),
        ("delete", "delete from TABLE where 1 = 0"),
    ] {
        if !rights.contains(&right) {
            continue;
        }
        let tried = patient.ask(&statement.replace("TABLE", table)).await;
        if tried.is_err_and(|number| DENIED.contains(&number)) {
            missing.push(right);
        }
    }
    missing
}

/// The tables are not there: whether the user may make them. Rights by a role are not seen.
async fn cannot_create(patient: &mut Patient<'_>) -> Option<Finding> {
    let statement = "select count(distinct privilege_type) from (
            select grantee, privilege_type from information_schema.user_privileges union all
            select grantee, privilege_type from information_schema.schema_privileges where database() like table_schema
        ) g where privilege_type in ('CREATE', 'CREATE ROUTINE')
            and grantee = concat('''', replace(current_user(), '@', '''@'''), '''')";
    if patient.number(statement).await? == 2 {
        return None;
    }
    let message = "the tables are not there, and this user may not make them: that needs CREATE and CREATE ROUTINE";
    Some(Finding::problem("rights", message, "have somebody run what `leasehold migrate --print` prints"))
}
