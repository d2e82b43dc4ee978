//! What is known of a store, by whoever serves it: of all its clients, and not of one process.

use std::time::Duration;

use metrics::describe_gauge;

use super::catalogue::{Kind, Metric};
use super::series;

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels, help }
}

const UP: Metric = gauge("leasehold_snapshot_up", &[], "1 while the store answers whoever serves it, else 0.");
const AGE: Metric =
    gauge("leasehold_snapshot_age_seconds", &[], "How long ago the store was read for what is told of it.");
const LOCKS: Metric =
    gauge("leasehold_snapshot_locks", &["state"], "Locks in the store: those held, those kept, those waited for.");
const WAITERS: Metric = gauge("leasehold_snapshot_waiters", &[], "Who waits in the store, for whatever lock.");
const RUNNING: Metric = gauge("leasehold_snapshot_runs_running", &[], "Runs of jobs that go on, on whatever node.");

/// Those that only whoever serves a store has; `docs/serve.md` explains them.
const OVERVIEW: [Metric; 5] = [UP, AGE, LOCKS, WAITERS, RUNNING];

/// The store as it was seen last.
#[derive(Debug, Clone)]
pub(crate) struct Overview {
    /// Whether it answers.
    pub is_up: bool,
    /// How long ago it was read.
    pub age: Duration,
    /// Locks that somebody holds.
    pub held: usize,
    /// Locks that nobody holds and not everybody gets.
    pub kept: usize,
    /// Locks that somebody waits for.
    pub waited: usize,
    /// How many wait, for whatever.
    pub waiters: u64,
    /// Runs of jobs, if that is known.
    pub running: Option<usize>,
}

impl Overview {
    /// Tells the recorder what these are.
    pub fn describe() {
        OVERVIEW.iter().for_each(|metric| describe_gauge!(metric.name, metric.help));
    }

    /// Has it shown by whoever reads the metrics.
    pub fn record(&self) {
        set(&UP, u64::from(self.is_up));
        series::level(&AGE, &[]).set(self.age.as_secs_f64());
        for (state, count) in [("held", self.held), ("kept", self.kept), ("waited", self.waited)] {
            series::level(&LOCKS, &[("state", state.into())]).set(count as f64);
        }
        set(&WAITERS, self.waiters);
        if let Some(running) = self.running {
            set(&RUNNING, running as u64);
        }
    }

    /// The store does not answer, and nothing is known of it.
    pub fn is_unknown() {
        set(&UP, 0);
    }
}

fn set(metric: &Metric, to: u64) {
    series::level(metric, &[]).set(to as f64);
}

#[cfg(test)]
mod tests {
    use metrics::with_local_recorder;

    use super::super::exposition::builder;
    use super::*;

    #[test]
    fn each_is_told_and_stands_in_the_page_about_serving() {
        let recorder = builder().build_recorder();
        let seen = Overview {
            is_up: true,
            age: Duration::from_millis(500),
            held: 3,
            kept: 1,
            waited: 2,
            waiters: 5,
            running: Some(4),
        };
        with_local_recorder(&recorder, || (Overview::describe(), seen.record()));
        let (told, page) = (recorder.handle().render(), include_str!("../../../../docs/serve.md"));
        for metric in OVERVIEW {
            let (name, help) = (metric.name, metric.help);
            assert!(told.contains(&format!("# HELP {name} {help}\n# TYPE {name} gauge\n")), "{name}: {told}");
            assert!(page.contains(&format!("| `{name}`")), "{name}");
        }
        for line in ["leasehold_snapshot_up 1", "leasehold_snapshot_age_seconds 0.5", "leasehold_snapshot_waiters 5"] {
            assert!(told.contains(line), "{line} is not in {told}");
        }
        for (state, count) in [("held", 3), ("kept", 1), ("waited", 2)] {
            assert!(told.contains(&format!("leasehold_snapshot_locks{{state=\"{state}\"}} {count}\n")), "{told}");
        }
        with_local_recorder(&recorder, Overview::is_unknown);
        assert!(recorder.handle().render().contains("leasehold_snapshot_up 0\n"));
    }
}
