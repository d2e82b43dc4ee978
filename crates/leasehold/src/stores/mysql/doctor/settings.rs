//! What the server is, and what it is set to.

use sqlx::Row;

use super::Patient;
use crate::finding::Finding;
use crate::stores::mysql::options::{Options, Place};
use crate::stores::sql::Mode;

/// What all is tried with.
const TRIED: &str = "10.11";

pub(super) fn version(patient: &Patient<'_>) -> Finding {
    version_of(patient.variable("version"))
}

fn version_of(version: &str) -> Finding {
    let is_mariadb = version.contains("mariadb");
    // Some say 5.5.5- first, for clients that are older than their two digits.
    let version = version.strip_prefix("5.5.5-").unwrap_or(version);
    let shown = version.split('-').next().unwrap_or_default();
    let mut numbers = shown.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    let number = (next(), next(), next());
    let (name, oldest) = if is_mariadb { ("MariaDB", (10, 6, 0)) } else { ("MySQL", (8, 0, 4)) };
    if number < oldest {
        let message = format!("{name} {shown} can't skip locked rows, or read tables from JSON, which locks need");
        return Finding::problem("version", message, "use MariaDB 10.6, MySQL 8.0, or later");
    }
    let is_tried = is_mariadb && shown.starts_with(TRIED);
    let tried = if is_tried { String::new() } else { format!("; Leasehold is tried with MariaDB {TRIED}") };
    Finding::fine("version", format!("{name} {shown}{tried}"))
}

/// Whether somebody can listen in.
pub(super) async fn way(patient: &mut Patient<'_>) -> Finding {
    let rows = patient.ask("show session status like 'Ssl_cipher'").await.unwrap_or_default();
    let cipher = rows.first().and_then(|row| row.try_get::<String, _>(1).ok()).unwrap_or_default();
    let is_checked = patient.options.tls.mode.verifies();
    match (is_near(patient.options), cipher.is_empty()) {
        (true, true) => Finding::fine("way", "on this machine"),
        (false, true) => Finding::warning(
            "way",
            "the connection is not encrypted: who can read it learns names, and may use the session",
            "have the server offer TLS, and add ssl-mode=verify_identity, with ca=FILE if an authority of yours signs",
        ),
        (false, false) if !is_checked => Finding::warning(
            "way",
            "over TLS, but nobody checks that it is the right server",
            "add ssl-mode=verify_identity, with ca=FILE if an authority of yours signs",
        ),
        _ if is_checked => Finding::fine("way", "over TLS, and the server is checked"),
        _ => Finding::fine("way", "on this machine, over TLS"),
    }
}

fn is_near(options: &Options) -> bool {
    match &options.place {
        Place::Unix(_) => true,
        Place::Tcp(host, _) => host == "localhost" || host == "::1" || host.starts_with("127."),
    }
}

/// Whether it takes writes at all.
pub(super) fn role(patient: &Patient<'_>) -> Option<Finding> {
    let is_on = |name: &&str| !matches!(patient.variable(name), "" | "off" | "0"); // There is more than one way to be on.
    let reason = ["super_read_only", "read_only", "innodb_read_only"].into_iter().find(is_on)?;
    let message = format!(
        "it takes no writes ({reason} is on): it is a replica, or was the primary once; nothing is granted, whatever this user may \
         do there"
    );
    Some(Finding::problem("role", message, "name the primary"))
}

pub(super) async fn findings(patient: &mut Patient<'_>) -> Vec<Finding> {
    if patient.options.kind == Mode::Advisory {
        return Vec::new(); // Nothing is written that has to last, or to be logged.
    }
    let ours = "our sessions set isolation, sql_mode, time-outs and lock waits for themselves; names are bytes, of no collation";
    let mut findings = vec![Finding::fine("sessions", ours)];
    let routes = patient.number("select count(*) from leasehold_routes").await.unwrap_or(0);
    findings.push(durability(
        patient.variable("innodb_flush_log_at_trx_commit"),
        patient.is_on("log_bin").then(|| patient.variable("sync_binlog")),
        routes > 0,
    ));
    if patient.is_on("log_bin") && patient.variable("binlog_format") == "statement" {
        let message =
            "statements are logged for replicas, which READ COMMITTED transactions can't be: nothing is granted";
        findings.push(Finding::problem("binlog", message, "set binlog_format = ROW"));
    }
    findings
}

/// What a crash of the server's machine forgets.
fn durability(flush: &str, sync_binlog: Option<&str>, is_arbiter: bool) -> Finding {
    let loose = match (flush, sync_binlog) {
        ("1", None | Some("1")) => return Finding::fine("durability", "a grant is on the disk before it is answered"),
        ("1", Some(_)) => "sync_binlog",
        _ => "innodb_flush_log_at_trx_commit",
    };
    if is_arbiter {
        let message = format!(
            "it is the arbiter of a fallback, and commits don't wait for the disk ({loose} is not 1): a crash of its machine \
             may take back a switch that others have acted on, or the mark of a tick, and two hold one lock"
        );
        return Finding::problem("durability", message, format!("set {loose} = 1"));
    }
    let message = format!(
        "commits don't wait for the disk ({loose} is not 1): a crash of its machine forgets the last second's grants and \
         ticks, and another one may be given the lock, or the tick, that somebody has"
    );
    Finding::warning("durability", message, format!("set {loose} = 1, or let jobs use fences"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn versions_are_told_apart() {
        for (version, severity, says) in [
            ("10.11.19-mariadb-0+deb12u1", Severity::Fine, "MariaDB 10.11.19"),
            ("5.5.5-10.5.8-mariadb", Severity::Problem, "MariaDB 10.5.8"),
            ("11.4.2-mariadb", Severity::Fine, "tried with MariaDB 10.11"),
            ("8.0.36-0ubuntu0.22.04.1", Severity::Fine, "MySQL 8.0.36; Leasehold is tried"),
            ("5.7.44", Severity::Problem, "MySQL 5.7.44"),
        ] {
            let finding = version_of(version);
            assert_eq!(finding.severity, severity, "{version}");
            assert!(finding.message.contains(says), "{version}: {finding:?}");
        }
    }

    #[test]
    fn what_a_crash_forgets_is_told_with_the_setting() {
        for (is_arbiter, severity) in [(false, Severity::Warning), (true, Severity::Problem)] {
            let told = |flush, sync_binlog| durability(flush, sync_binlog, is_arbiter);
            assert_eq!(told("1", None).severity, Severity::Fine);
            assert_eq!(told("1", Some("1")).severity, Severity::Fine);
            for (finding, setting) in
                [(told("1", Some("0")), "sync_binlog"), (told("2", None), "innodb_flush_log_at_trx_commit")]
            {
                assert!(finding.severity == severity && finding.message.contains(setting), "{finding:?}");
            }
        }
    }
}
