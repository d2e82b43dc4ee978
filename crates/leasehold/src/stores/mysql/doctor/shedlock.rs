//! ShedLock's table, and what the user may do with it.

use super::{Patient, rights};
use crate::finding::Finding;
use crate::stores::mysql::shedlock::{check, quoted};

pub(super) async fn findings(patient: &mut Patient<'_>, table: &str) -> Vec<Finding> {
    let has_zone = match check(&mut patient.db, table).await {
        Ok(has_zone) => has_zone,
        Err(fault) => {
            let error = fault.told(&patient.options.shown).to_string();
            return vec![Finding::problem("table", error, "name ShedLock's table as Java services have it")];
        }
    };
    let missing = rights::missing(patient, &quoted(table), &["select", "insert", "update"]).await.join(", ");
    if !missing.is_empty() {
        let message = format!("this user has no right to {missing} on {table}: nothing can be granted");
        return vec![Finding::problem("rights", message, format!("grant {missing} on {table} to it"))];
    }
    let zone = match patient.variable("time_zone") {
        "system" => patient.variable("system_time_zone"),
        zone => zone,
    };
    let instants = if has_zone { instants(zone) } else { Finding::fine("time zone", "the table's instants have none") };
    vec![
        Finding::fine("table", format!("{table}, shared with ShedLock")),
        instants,
        Finding::fine("rights", "all that locks need"),
    ]
}

/// Of a table with timestamps, which the server turns into the time zone of each session.
fn instants(zone: &str) -> Finding {
    if ["utc", "+00:00", "etc/utc"].contains(&zone) {
        return Finding::fine("time zone", "the table's instants are read in that of the session, which is UTC");
    }
    let message = format!(
        "the table's instants are read in the time zone of each session, here {zone}: a session with another one is not kept \
         out, and where its clocks change an hour is missing or comes twice"
    );
    let fix =
        "set default_time_zone = '+00:00', or, while nobody holds a lock, make lock_until and locked_at datetime(3)";
    Finding::warning("time zone", message, fix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn time_zones_that_matter_are_told() {
        assert_eq!((instants("utc").severity, instants("+00:00").severity), (Severity::Fine, Severity::Fine));
        assert_eq!(instants("+09:00").severity, Severity::Warning);
    }
}
