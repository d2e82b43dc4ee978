//! What a scrape reads.

use std::collections::BTreeMap;

use metrics_exporter_prometheus::PrometheusHandle;

/// A line of a scrape.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// All samples of a text. No value of a label in a test has a comma in it.
pub fn samples(text: &str) -> Vec<Sample> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(sample).collect()
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').expect("a value stands behind the series");
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let pairs = labels.trim_end_matches('}').split(',').filter(|pair| !pair.is_empty());
    let labels = pairs.map(|pair| {
        let (label, value) = pair.split_once('=').expect("a label has a value");
        (label.to_owned(), value.trim_matches('"').to_owned())
    });
    Sample { name: name.to_owned(), labels: labels.collect(), value: value.parse().expect("a number") }
}

/// The sum of the series of this name that have these labels.
pub fn sum(handle: &PrometheusHandle, name: &str, labels: &[(&str, &str)]) -> f64 {
    let samples = samples(&handle.render());
    let has_them = |sample: &&Sample| {
        let has = |(label, value): &(&str, &str)| sample.labels.get(*label).is_some_and(|found| found == value);
        sample.name == name && labels.iter().all(has)
    };
    samples.iter().filter(has_them).map(|sample| sample.value).sum()
}
