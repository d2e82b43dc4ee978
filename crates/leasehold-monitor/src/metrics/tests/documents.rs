//! What is written about metrics, beside those that there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::super::{Kind, METRICS};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn read(name: &str) -> String {
    fs::read_to_string(docs().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Names, kinds and labels, as the table has them.
fn table() -> Vec<(String, String, Vec<String>)> {
    let text = read("metrics.md");
    let rows = text.lines().filter(|line| line.starts_with("| `leasehold_"));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 5, "{row}");
        assert!(cells[3].len() > 10 && cells[4].len() > 10, "it says what it means and when to worry: {row}");
        let labels =
            cells[2].split(", ").map(|label| label.trim_matches('`').to_owned()).filter(|label| !label.is_empty());
        (cells[0].trim_matches('`').to_owned(), cells[1].to_owned(), labels.collect())
    })
    .collect()
}

#[test]
fn the_table_has_all_metrics_and_no_others() {
    let expected: Vec<_> = METRICS
        .iter()
        .map(|metric| {
            let labels = metric.labels.iter().map(|label| (*label).to_owned()).collect();
            (metric.name.to_owned(), metric.kind.name().to_owned(), labels)
        })
        .collect();
    assert_eq!(table(), expected);
}

/// The names in a query that are series of ours.
fn queried(query: &str) -> BTreeSet<String> {
    let words = query.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("leasehold_")).map(ToOwned::to_owned).collect()
}

/// The series of all metrics.
fn series() -> BTreeSet<String> {
    let of = |name: &str, kind| match kind {
        Kind::Histogram => ["_bucket", "_sum", "_count"].map(|suffix| format!("{name}{suffix}")).to_vec(),
        Kind::Counter | Kind::Gauge => vec![name.to_owned()],
    };
    METRICS.iter().flat_map(|metric| of(metric.name, metric.kind)).collect()
}

fn is_known(queries: &BTreeSet<String>, known: &BTreeSet<String>) {
    let unknown: Vec<_> = queries.difference(known).collect();
    assert!(unknown.is_empty(), "no such series: {unknown:?}");
}

/// All texts under the key `expr`, wherever they are.
fn expressions(of: &Value) -> Vec<&str> {
    match of {
        Value::Object(fields) => {
            let nested = fields.values().flat_map(expressions);
            fields.get("expr").and_then(Value::as_str).into_iter().chain(nested).collect()
        }
        Value::Array(items) => items.iter().flat_map(expressions).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn the_dashboard_queries_what_there_is() {
    let dashboard: Value = serde_json::from_str(&read("metrics/leasehold-dashboard.json")).unwrap();
    let expressions = expressions(&dashboard);
    assert!(expressions.len() > 40, "{}", expressions.len());
    let queries: BTreeSet<_> = expressions.into_iter().flat_map(queried).collect();
    is_known(&queries, &series());
    let shown: BTreeSet<_> = METRICS
        .iter()
        .map(|metric| metric.name)
        .filter(|name| queries.iter().any(|query| query.starts_with(name)))
        .collect();
    let unshown: Vec<_> = METRICS.iter().map(|metric| metric.name).filter(|name| !shown.contains(name)).collect();
    assert!(unshown.is_empty(), "on no panel: {unshown:?}");
    let ids: Vec<_> =
        dashboard["panels"].as_array().unwrap().iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "each panel has an id of its own");
}

#[test]
fn alerts_query_what_there_is_and_each_is_tried_out() {
    let (rules, tests) = (read("metrics/leasehold-alerts.yaml"), read("metrics/leasehold-alerts-test.yaml"));
    is_known(&queried(&rules), &series());
    is_known(&queried(&tests), &series());
    let alerts: Vec<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() >= 15);
    let untried: Vec<_> =
        alerts.iter().filter(|alert| !tests.contains(&format!("ALERTS{{alertname=\"{alert}\""))).collect();
    assert!(untried.is_empty(), "{untried:?}");
}

fn promtool(arguments: &[&str]) {
    let ran = Command::new("promtool").args(arguments).current_dir(docs().join("metrics")).output();
    let ran = ran.expect("promtool is needed: run scripts/servers");
    let said = [ran.stdout, ran.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(ran.status.success(), "{said}");
}

#[test]
fn promtool_accepts_the_alerts() {
    promtool(&["check", "rules", "leasehold-alerts.yaml"]);
}

#[test]
fn alerts_fire_when_they_should_and_not_otherwise() {
    promtool(&["test", "rules", "leasehold-alerts-test.yaml"]);
}
