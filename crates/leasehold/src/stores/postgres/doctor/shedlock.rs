//! ShedLock's table, and what the role may do with it.

use super::super::shedlock::check;
use super::{Patient, rights};
use crate::finding::Finding;

pub(super) async fn findings(patient: &Patient<'_>) -> Vec<Finding> {
    let Some(table) = &patient.options.shedlock else { return Vec::new() };
    if let Err(fault) = check(&patient.client, table).await {
        let error = super::super::fault::told(fault, &patient.options.shown).to_string();
        return vec![Finding::problem("table", error, "name ShedLock's table as Java services have it")];
    }
    let missing = rights::missing(patient, table, "select,insert,update").await.join(", ");
    if !missing.is_empty() {
        let message = format!("this role has no right to {missing} on {table}: nothing can be granted");
        return vec![Finding::problem("rights", message, format!("grant {missing} on {table} to this role"))];
    }
    vec![
        Finding::fine("table", format!("{table}, shared with ShedLock: its instants have no time zone")),
        Finding::fine("rights", "all that locks need"),
    ]
}
