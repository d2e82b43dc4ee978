//! What this user may do, tried: all of it harmless, and nothing is left behind.

use std::time::Duration;

use ::redis::{RedisError, RedisResult, Value};

use super::attempts::{Attempt, Feature, attempt, of_locks, of_locks_that_create, of_the_rest};
use super::patient::{Patient, command, is_denied};
use super::scripts;
use crate::error::ErrorKind;
use crate::finding::Finding;
use crate::stores::redis::cluster::tag_of;
use crate::stores::redis::fault::Fault;
use crate::stores::redis::keys;
use crate::stores::redis::restart_guard::own_slot;
use crate::stores::redis::{self, fault};

const SUBJECT: &str = "rights";

/// How long the right to subscribe may take to be tried, over a connection of its own.
const PATIENCE: Duration = Duration::from_millis(500);

/// A right that is missing.
#[derive(Debug, PartialEq, Eq)]
struct Missing {
    feature: Feature,
    right: String,
}

pub(super) async fn findings(patient: &Patient<'_>) -> Vec<Finding> {
    tried(patient).await.unwrap_or_else(|fault| {
        let why = fault::told(fault, &patient.address.to_string());
        vec![Finding::problem(SUBJECT, format!("they could not be tried: {why}"), "ask again")]
    })
}

async fn tried(patient: &Patient<'_>) -> Result<Vec<Finding>, Fault> {
    let slot = match patient.ask_one(&command("CLUSTER", &["NODES"])).await {
        Some(nodes) => own_slot(&nodes),
        None => None,
    };
    let tag = slot.map_or_else(|| "0".to_owned(), tag_of);
    let probe = keys::probe(&patient.options.namespace, &format!("{:016x}", rand::random::<u64>()), &tag);
    let other = format!("{probe}:other");

    let written = patient.ask(&[command("SET", &[&probe, "1", "PX", "60000"])]).await?.swap_remove(0);
    let mut attempts = of_locks(&probe, &other);
    if written.is_ok() || is_elsewhere(&written) {
        attempts.extend(of_locks_that_create(&probe, patient.options.format.has_signal()));
    }
    attempts.extend(of_the_rest(patient, &probe));
    attempts.push(attempt(Feature::Locks, "+del", "DEL", &[&probe]));
    let commands: Vec<_> = attempts.iter().map(|attempt| attempt.command.clone()).collect();
    let answers = patient.ask(&commands).await?;

    let mut missing = Vec::new();
    let set = attempt(Feature::Locks, "+set", "SET", &[]);
    let pairs = [&set].into_iter().zip([&written]).chain(attempts.iter().zip(&answers));
    for (attempt, answer) in pairs {
        if let Err(error) = answer {
            missing.extend(refused(error, attempt, patient));
        }
    }
    missing.extend(cannot_subscribe(patient).await);
    let loaded = scripts::load(patient).await?;
    let load = attempt(Feature::Locks, "+script|load", "SCRIPT", &[]);
    missing.extend(loaded.as_ref().err().and_then(|error| refused(error, &load, patient)));
    missing.extend(patient.info.is_none().then(|| Missing { feature: Feature::Info, right: "+info".into() }));
    missing.extend(
        patient.settings.is_none().then(|| Missing { feature: Feature::Settings, right: "+config|get".into() }),
    );
    missing.dedup();

    let mut findings = judged(&missing, patient.options.login.user.as_deref().unwrap_or("default"), &channels(patient));
    findings.extend(scripts::finding(&loaded));
    findings.extend(writes(&written));
    Ok(findings)
}

/// The right that was missing, if that is why.
fn refused(error: &RedisError, attempt: &Attempt, patient: &Patient<'_>) -> Option<Missing> {
    if !is_denied(error) {
        return None;
    }
    let detail = error.to_string();
    let right = if detail.contains("one of the keys") || detail.contains(" key") {
        keys::all_of(patient.options.format, &patient.options.namespace)
    } else if detail.contains("channel") {
        channels(patient)
    } else {
        attempt.right.to_owned()
    };
    Some(Missing { feature: attempt.feature, right })
}

async fn cannot_subscribe(patient: &Patient<'_>) -> Option<Missing> {
    let subscribe = command("SUBSCRIBE", &[&format!("{}probe", redis::channels(patient.options))]);
    match patient.dial.ask_once(patient.address, &subscribe, PATIENCE).await {
        Err(Fault::Unsent(ErrorKind::AccessDenied, why)) => {
            let right = if why.contains("channel") { channels(patient) } else { "+subscribe".into() };
            Some(Missing { feature: Feature::WakeUps, right })
        }
        _ => None,
    }
}

/// The channels of the namespace, as `ACL SETUSER` is told them.
fn channels(patient: &Patient<'_>) -> String {
    format!("&{}*", redis::channels(patient.options))
}

fn is_elsewhere(written: &RedisResult<Value>) -> bool {
    written.as_ref().is_err_and(|error| error.code() == Some("MOVED"))
}

/// A finding for each feature that lacks something.
fn judged(missing: &[Missing], user: &str, channels: &str) -> Vec<Finding> {
    let of = |feature: Feature| {
        let mut rights: Vec<_> =
            missing.iter().filter(|missing| missing.feature == feature).map(|missing| &*missing.right).collect();
        rights.sort_unstable();
        rights.dedup();
        let (severity, cost) = feature.cost();
        let lacks = rights.join(" ");
        // Who may not use the command is not told about the channel.
        if feature == Feature::WakeUps && !rights.contains(&channels) {
            rights.insert(0, channels);
        }
        (!lacks.is_empty()).then(|| Finding {
            severity,
            subject: SUBJECT,
            message: format!("the user {user} lacks {lacks}: {cost}"),
            fix: Some(format!("ACL SETUSER {user} {}", rights.join(" "))),
        })
    };
    let findings: Vec<_> = Feature::ALL.into_iter().filter_map(of).collect();
    if findings.is_empty() {
        return vec![Finding::fine(SUBJECT, format!("the user {user} may do all that locks need"))];
    }
    findings
}

/// Whether a key could be written, whatever this user may.
fn writes(written: &RedisResult<Value>) -> Option<Finding> {
    let error = written.as_ref().err().filter(|error| !is_denied(error) && error.code() != Some("MOVED"))?;
    let detail = error.to_string();
    let fix = match error.code().unwrap_or_default() {
        "OOM" => "CONFIG SET maxmemory, or make room",
        "MISCONF" => {
            "see the server's log (often a full disk); CONFIG SET stop-writes-on-bgsave-error no, until it is mended"
        }
        "NOREPLICAS" => "bring its replicas back, or lower min-replicas-to-write",
        _ => "see the server's log",
    };
    Some(Finding::problem("writes", format!("the server refuses to write: {detail}"), fix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn each_feature_that_lacks_something_is_told_once_with_the_command_that_mends_it() {
        let missing = |feature, right: &str| Missing { feature, right: right.into() };
        let told = judged(
            &[
                missing(Feature::WakeUps, "+publish"),
                missing(Feature::Locks, "~leasehold:default:*"),
                missing(Feature::Locks, "~leasehold:default:*"),
            ],
            "jobs",
            "&leasehold:default:!*",
        );
        let fixes: Vec<_> = told.iter().map(|finding| (finding.severity, finding.fix.as_deref().unwrap())).collect();
        assert_eq!(
            fixes,
            [
                (Severity::Problem, "ACL SETUSER jobs ~leasehold:default:*"),
                (Severity::Warning, "ACL SETUSER jobs &leasehold:default:!* +publish"),
            ]
        );
        assert_eq!(judged(&[], "jobs", "")[0].severity, Severity::Fine);
    }
}
