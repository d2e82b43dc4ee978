//! Into which buckets each histogram sorts.

use super::catalogue::{HELD, Metric, RENEWAL_LATE, RENEWAL_MARGIN, RUN_LATE, RUN_TOOK, STORE_CALL, WAITED};

/// A round trip in a data centre, up to the time limit of a call.
const CALLS: &[f64] = &[0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// Nobody waits, somebody waits for a short job, for a long one.
const WAITS: &[f64] = &[0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0];

/// A critical section, a job, a day's work.
const HOLDS: &[f64] = &[0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 43_200.0, 86_400.0];

/// A round trip, up to the third of the longest TTL that there usually is.
const LATE: &[f64] = &[0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0];

/// Two thirds of a TTL where all is well; of 30 s, ten are kept for the job to stop.
const MARGINS: &[f64] = &[0.1, 0.5, 1.0, 2.0, 5.0, 7.5, 10.0, 12.5, 15.0, 17.5, 19.0, 30.0, 60.0, 300.0, 1200.0];

/// A tick that is run when it is due, one that waits for a busy machine, one that is caught up with.
const BEGINS: &[f64] = &[0.05, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0];

/// Those of each histogram that there is.
pub(super) const BUCKETS: [(Metric, &[f64]); 7] = [
    (STORE_CALL, CALLS),
    (WAITED, WAITS),
    (HELD, HOLDS),
    (RENEWAL_LATE, LATE),
    (RENEWAL_MARGIN, MARGINS),
    (RUN_TOOK, HOLDS),
    (RUN_LATE, BEGINS),
];

#[cfg(test)]
mod tests {
    use super::super::catalogue::{Kind, METRICS};
    use super::*;

    #[test]
    fn each_histogram_has_buckets_in_order() {
        let histograms = METRICS.iter().filter(|metric| metric.kind == Kind::Histogram);
        for histogram in histograms {
            let (_, buckets) = BUCKETS.iter().find(|(metric, _)| metric == histogram).expect(histogram.name);
            assert!(buckets.is_sorted() && (10..=15).contains(&buckets.len()), "{}", histogram.name);
        }
    }
}
