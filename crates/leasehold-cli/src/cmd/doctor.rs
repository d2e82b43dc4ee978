//! `leasehold doctor`: is the store fit for its work, and what of the jobs?

use leasehold::{Finding, Locks, Severity};
use serde::Serialize;

use super::block_on;
use crate::args::DoctorArgs;
use crate::config::Config;
use crate::exit::{self, Failure};
use crate::output::{self, plain};
use crate::secret_file::Open;

/// Runs the verb.
///
/// # Errors
/// What the store says if it can't be examined.
pub fn run(args: &DoctorArgs, config: &Config) -> Result<i32, Failure> {
    let mut findings = block_on(async {
        let store = config.open()?;
        let mut findings = store.diagnose().await?;
        findings.extend(of_secrets(config));
        findings.extend(of_jobs(&Locks::over(store), &findings).await);
        Ok(findings)
    })?;
    for finding in &mut findings {
        finding.message = config.commands().completed(&finding.message);
        finding.fix = finding.fix.as_ref().map(|fix| config.commands().completed(fix));
    }
    if args.json {
        output::json(&Report {
            store: config.shown(),
            chosen_by: config.origin().to_string(),
            findings: findings.iter().map(Line::from).collect(),
        })?;
    } else {
        output::answer(&for_people(&findings, config))?;
    }
    let sick = findings.iter().any(|finding| finding.severity == Severity::Problem);
    Ok(if sick { exit::CONFIG } else { exit::OK })
}

/// Files with passwords that are not for everybody.
fn of_secrets(config: &Config) -> Vec<Finding> {
    let open = config.password_files().into_iter().filter_map(|file| Open::of(&file));
    let apart = open.map(|Open { what, fix }| Finding::warning("password file", what, fix));
    let itself = config.secret_file().and_then(Open::of).map(|Open { what, fix }| {
        let fix = format!("{fix}, or move the password into a file of its own, as password_file");
        Finding::warning("configuration file", format!("a password stands in it, and {what}"), fix)
    });
    apart.chain(itself).collect()
}

/// What was counted of locks and recorded of jobs says, where there can be anything: a store that can't do its work has enough to mend,
/// and looking is not to make the tables of one that nobody has used.
async fn of_jobs(locks: &Locks, of_store: &[Finding]) -> Vec<Finding> {
    let is_unused = |finding: &Finding| finding.subject == "tables" && finding.message.starts_with("not there yet");
    let is_sick = |finding: &Finding| finding.severity == Severity::Problem;
    if locks.notes().is_err() || of_store.iter().any(|finding| is_unused(finding) || is_sick(finding)) {
        return Vec::new();
    }
    leasehold_monitor::diagnose(locks).await.unwrap_or_else(|error| {
        let message = format!("what was counted of locks and recorded of jobs can't be read: {error}");
        vec![Finding::warning("jobs", message, "see that the store answers, and that this user may read its notes")]
    })
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    store: String,
    /// Which option, variable or file chose this store.
    chosen_by: String,
    findings: Vec<Line<'a>>,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    severity: &'static str,
    subject: &'static str,
    message: &'a str,
    fix: Option<&'a str>,
}

impl<'a> From<&'a Finding> for Line<'a> {
    fn from(finding: &'a Finding) -> Self {
        Line {
            severity: word(finding.severity),
            subject: finding.subject,
            message: &finding.message,
            fix: finding.fix.as_deref(),
        }
    }
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Fine => "fine",
        Severity::Warning => "warning",
        Severity::Problem => "problem",
    }
}

fn for_people(findings: &[Finding], config: &Config) -> String {
    let head = format!("store: {} (chosen by {})\n\n", config.shown(), config.origin());
    let lines = findings.iter().map(|finding| {
        let fix = finding.fix.iter().map(|fix| format!("\n         fix: {}", plain(fix)));
        let message = plain(&finding.message);
        format!("{:<8} {}: {message}{}", word(finding.severity), finding.subject, fix.collect::<String>())
    });
    head + &lines.collect::<Vec<_>>().join("\n")
}
