//! Handles of single series, made once: to count is then an addition.

use std::borrow::Cow;

use metrics::{Counter, Gauge, Histogram, Label, counter, gauge, histogram};

use super::catalogue::Metric;

/// The labels of a series, and their values.
pub(super) type Labels<'a> = &'a [(&'static str, Cow<'static, str>)];

fn labels(of: Labels<'_>) -> Vec<Label> {
    of.iter().map(|(name, value)| Label::new(*name, value.clone())).collect()
}

pub(super) fn count(metric: &Metric, of: Labels<'_>) -> Counter {
    counter!(metric.name, labels(of))
}

pub(super) fn level(metric: &Metric, of: Labels<'_>) -> Gauge {
    gauge!(metric.name, labels(of))
}

pub(super) fn spread(metric: &Metric, of: Labels<'_>) -> Histogram {
    histogram!(metric.name, labels(of))
}

/// The series of one group of locks.
#[derive(Debug, Clone, Default)]
pub(super) struct Group(Option<Cow<'static, str>>);

impl Group {
    /// That of this name.
    pub fn named(name: impl Into<Cow<'static, str>>) -> Self {
        Self(Some(name.into()))
    }

    fn labels(&self, and: Labels<'_>) -> Vec<(&'static str, Cow<'static, str>)> {
        let group = self.0.iter().map(|group| ("group", group.clone()));
        and.iter().cloned().chain(group).collect()
    }

    pub fn count(&self, metric: &Metric) -> Counter {
        count(metric, &self.labels(&[]))
    }

    pub fn count_by(&self, metric: &Metric, label: &'static str, value: &'static str) -> Counter {
        count(metric, &self.labels(&[(label, value.into())]))
    }

    pub fn level(&self, metric: &Metric) -> Gauge {
        level(metric, &self.labels(&[]))
    }

    pub fn spread(&self, metric: &Metric) -> Histogram {
        spread(metric, &self.labels(&[]))
    }

    pub fn spread_by(&self, metric: &Metric, label: &'static str, value: &'static str) -> Histogram {
        spread(metric, &self.labels(&[(label, value.into())]))
    }
}
