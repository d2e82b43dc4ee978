//! Whether the sentinels would replace a master, and agree on it.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;

use super::patient::command;
use crate::finding::Finding;
use crate::span::Span;
use crate::stores::redis::address::Address;
use crate::stores::redis::sentinel::Sentinels;

const PATIENCE: Duration = Duration::from_millis(500);
const SUBJECT: &str = "sentinels";

/// What a sentinel says of the master, by field; none if it can't be asked.
type Said = Option<HashMap<String, String>>;

pub(super) async fn findings(sentinels: &Sentinels) -> Vec<Finding> {
    let question = command("SENTINEL", &["MASTER", &sentinels.name]);
    let asked = sentinels.addresses.iter().map(|sentinel| async {
        let answer = sentinels.dial.ask_once(sentinel, &question, PATIENCE).await.ok()?;
        redis::from_redis_value(answer).ok()
    });
    judged(&sentinels.addresses, &join_all(asked).await)
}

fn judged(addresses: &[Address], said: &[Said]) -> Vec<Finding> {
    let answers: Vec<_> = said.iter().flatten().collect();
    let number =
        |field: &str| -> Option<usize> { answers.iter().filter_map(|said| said.get(field)?.parse().ok()).max() };
    let named = addresses.len();
    let known = number("num-other-sentinels").map_or(named, |others| others + 1).max(named);
    let (quorum, majority) = (number("quorum").unwrap_or(0), known / 2 + 1);
    let mut findings = Vec::new();
    let silent: Vec<_> =
        addresses.iter().zip(said).filter(|(_, said)| said.is_none()).map(|(address, _)| address.to_string()).collect();
    if !silent.is_empty() {
        let message = format!("of {named} that the URL names these don't answer: {}", silent.join(", "));
        findings.push(if answers.len() < majority.max(quorum) {
            Finding::problem(SUBJECT, format!("{message}: too few are left to replace a master"), "start them")
        } else {
            Finding::warning(SUBJECT, message, "start them")
        });
    }
    let mut masters: Vec<_> = answers.iter().map(|said| place(said)).collect();
    masters.sort_unstable();
    masters.dedup();
    if masters.len() > 1 {
        let message = format!("they don't agree who the master is: {}", masters.join(", "));
        findings.push(Finding::warning(
            SUBJECT,
            message,
            "ask again; if it stays so, SENTINEL RESET NAME at those that are wrong",
        ));
    }
    if known > named {
        let message = format!(
            "there are {known}, and the URL names {named}: who is cut off with a minority may follow its old master"
        );
        findings.push(Finding::warning(SUBJECT, message, "name all of them in the URL"));
    }
    if known < 3 {
        let message = format!("there are {known}: with one gone there is no majority, and no failover");
        findings.push(Finding::warning(SUBJECT, message, "run three or more"));
    }
    if quorum > known {
        let message = format!("the quorum is {quorum}, of {known}: no master is ever replaced");
        findings.push(Finding::problem(SUBJECT, message, format!("SENTINEL SET NAME quorum {majority}")));
    }
    if findings.is_empty() {
        findings.push(as_it_should_be(&masters.concat(), known, quorum, majority, number("down-after-milliseconds")));
    }
    findings
}

fn place(said: &HashMap<String, String>) -> String {
    let part = |field| said.get(field).map_or("?", String::as_str);
    format!("{}:{}", part("ip"), part("port"))
}

fn as_it_should_be(master: &str, known: usize, quorum: usize, majority: usize, after: Option<usize>) -> Finding {
    let after = Duration::from_millis(after.unwrap_or(0).try_into().unwrap_or(0));
    let message = format!(
        "{known} agree on {master}; {quorum} call it down after {} of silence, and {majority} have to elect \
         who replaces it",
        Span(after)
    );
    Finding::fine(SUBJECT, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    fn said(port: &str, others: &str, quorum: &str) -> Said {
        let fields = [
            ("ip", "h"),
            ("port", port),
            ("num-other-sentinels", others),
            ("quorum", quorum),
            ("down-after-milliseconds", "5000"),
        ];
        Some(fields.into_iter().map(|(field, value)| (field.to_owned(), value.to_owned())).collect())
    }

    #[test]
    fn each_way_not_to_agree_is_told() {
        let good = || said("1", "2", "2");
        for (answers, severity, says) in [
            (vec![good(), good(), good()], Severity::Fine, "3 agree on h:1; 2 call it down after 5s"),
            (vec![good(), good(), None], Severity::Warning, "don't answer: s:2"),
            (vec![good(), None, None], Severity::Problem, "too few"),
            (vec![good(), good(), said("2", "2", "2")], Severity::Warning, "who the master is: h:1, h:2"),
            (vec![good(), good()], Severity::Warning, "the URL names 2"),
            (vec![said("1", "1", "1"), said("1", "1", "1")], Severity::Warning, "no majority"),
            (vec![said("1", "2", "4"), good(), good()], Severity::Problem, "quorum is 4, of 3"),
        ] {
            let addresses: Vec<_> =
                (0..answers.len()).map(|nth| Address::Tcp("s".into(), nth.try_into().unwrap())).collect();
            let found = judged(&addresses, &answers);
            let worst = found.iter().max_by_key(|finding| finding.severity).unwrap();
            assert!(worst.severity == severity && worst.message.contains(says), "{says}: {found:?}");
        }
    }
}
