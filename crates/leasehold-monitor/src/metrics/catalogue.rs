//! All metrics that there are.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// What it is called.
    pub name: &'static str,
    /// Of which kind.
    pub kind: Kind,
    /// Its labels, in order of the alphabet. `group` is there only where locks have [groups](super::Meter::grouped).
    pub labels: &'static [&'static str],
    /// What it counts, in a line.
    pub help: &'static str,
}

/// What can be done with a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How values are spread, in buckets; all of ours are of seconds.
    Histogram,
}

impl Kind {
    /// As Prometheus has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

pub(super) const ACQUISITIONS: Metric = Metric {
    name: "leasehold_acquisitions_total",
    kind: Kind::Counter,
    labels: &["group", "outcome"],
    help: "Acquisitions that have ended, by what they came to.",
};
pub(super) const CONTENDED: Metric = Metric {
    name: "leasehold_acquisitions_contended_total",
    kind: Kind::Counter,
    labels: &["group"],
    help: "Acquisitions that met another holder or waiter, whatever they came to.",
};
pub(super) const WAITED: Metric = Metric {
    name: "leasehold_acquire_wait_seconds",
    kind: Kind::Histogram,
    labels: &["group", "outcome"],
    help: "From when a lock was asked for until it was acquired or given up.",
};
pub(super) const WAITERS: Metric = Metric {
    name: "leasehold_waiters",
    kind: Kind::Gauge,
    labels: &["group"],
    help: "Acquisitions under way: they ask the store or wait for another holder.",
};
pub(super) const LEASES: Metric = Metric {
    name: "leasehold_leases_held",
    kind: Kind::Gauge,
    labels: &["group"],
    help: "Guards that are alive, so leases that this process holds and renews.",
};
pub(super) const HELD: Metric = Metric {
    name: "leasehold_lease_held_seconds",
    kind: Kind::Histogram,
    labels: &["group"],
    help: "From when a lock was acquired until the store had heard of its release.",
};
pub(super) const RENEWALS: Metric = Metric {
    name: "leasehold_renewals_total",
    kind: Kind::Counter,
    labels: &["group", "outcome"],
    help: "Renewals of leases that were answered, or failed and are tried again.",
};
pub(super) const RENEWAL_LATE: Metric = Metric {
    name: "leasehold_renewal_late_seconds",
    kind: Kind::Histogram,
    labels: &["group"],
    help: "From when a renewal was due, at a third of the TTL, until its answer came.",
};
pub(super) const RENEWAL_MARGIN: Metric = Metric {
    name: "leasehold_renewal_margin_seconds",
    kind: Kind::Histogram,
    labels: &["group"],
    help: "What was left of a lease's validity when it was renewed.",
};
pub(super) const LOSSES: Metric = Metric {
    name: "leasehold_losses_total",
    kind: Kind::Counter,
    labels: &["group", "reason"],
    help: "Holders that were told to stop before they were done, by reason.",
};
pub(super) const FENCE_REFUSALS: Metric = Metric {
    name: "leasehold_fence_refusals_total",
    kind: Kind::Counter,
    labels: &["group"],
    help: "Transactions that a fence has refused since the lock, or its tick, was another's.",
};
pub(super) const RELEASES: Metric = Metric {
    name: "leasehold_releases_total",
    kind: Kind::Counter,
    labels: &["group", "outcome"],
    help: "Releases, by whether the lock was still its holder's.",
};
pub(super) const TICKS_GIVEN_UP: Metric = Metric {
    name: "leasehold_ticks_given_up_total",
    kind: Kind::Counter,
    labels: &["group"],
    help: "Ticks that were begun, never finished and will not be tried again.",
};
pub(super) const RUNS: Metric = Metric {
    name: "leasehold_runs_total",
    kind: Kind::Counter,
    labels: &["group", "outcome"],
    help: "Runs of jobs that have ended on this node, by how.",
};
pub(super) const RUNNING: Metric = Metric {
    name: "leasehold_runs_running",
    kind: Kind::Gauge,
    labels: &["group"],
    help: "Runs of jobs that are going on on this node.",
};
pub(super) const RUN_TOOK: Metric = Metric {
    name: "leasehold_run_duration_seconds",
    kind: Kind::Histogram,
    labels: &["group"],
    help: "How long runs of jobs took, retries included.",
};
pub(super) const RUN_LATE: Metric = Metric {
    name: "leasehold_run_late_seconds",
    kind: Kind::Histogram,
    labels: &["group"],
    help: "From when a tick was due until its run began, by this node's clock.",
};
pub(super) const NOT_RUN: Metric = Metric {
    name: "leasehold_ticks_not_run_total",
    kind: Kind::Counter,
    labels: &["group", "reason"],
    help: "Ticks that this node has seen go by without a run, by reason.",
};
pub(super) const CLOCK_IS_FAST: Metric = Metric {
    name: "leasehold_clock_fast_total",
    kind: Kind::Counter,
    labels: &["group"],
    help: "Ticks that this node asked for before they were due by the store's clock.",
};
pub(super) const SCHEDULER_TROUBLE: Metric = Metric {
    name: "leasehold_scheduler_trouble_total",
    kind: Kind::Counter,
    labels: &["what"],
    help: "What the scheduler could not do for now: ask the store, be granted a claim, use the ledger.",
};
pub(super) const STORE_CALL: Metric = Metric {
    name: "leasehold_store_call_duration_seconds",
    kind: Kind::Histogram,
    labels: &["operation", "store"],
    help: "From when the store was asked until it answered, failed or was given up.",
};
pub(super) const STORE_ERRORS: Metric = Metric {
    name: "leasehold_store_errors_total",
    kind: Kind::Counter,
    labels: &["kind", "operation", "store"],
    help: "Failures of the store by kind; in a batch of renewals, one for each lease.",
};
pub(super) const VOTES: Metric = Metric {
    name: "leasehold_quorum_votes_total",
    kind: Kind::Counter,
    labels: &["about", "member", "vote"],
    help: "How the members of a quorum have voted on claims and renewals.",
};
pub(super) const ROUTE_TARGET: Metric = Metric {
    name: "leasehold_route_target",
    kind: Kind::Gauge,
    labels: &["target"],
    help: "1 for the store of a fallback to which the latest known route leads, else 0.",
};
pub(super) const ROUTE_EPOCH: Metric = Metric {
    name: "leasehold_route_epoch",
    kind: Kind::Gauge,
    labels: &[],
    help: "The number of the latest known route of a fallback.",
};
pub(super) const ROUTE_SWITCHES: Metric = Metric {
    name: "leasehold_route_switches_total",
    kind: Kind::Counter,
    labels: &["target"],
    help: "How often the locks were seen to move to that store of a fallback.",
};
pub(super) const BUILD_INFO: Metric = Metric {
    name: "leasehold_build_info",
    kind: Kind::Gauge,
    labels: &["version"],
    help: "Always 1; which version of Leasehold this process has.",
};

/// All metrics that there are, as `docs/metrics.md` explains them.
pub const METRICS: &[Metric] = &[
    ACQUISITIONS,
    CONTENDED,
    WAITED,
    WAITERS,
    LEASES,
    HELD,
    RENEWALS,
    RENEWAL_LATE,
    RENEWAL_MARGIN,
    LOSSES,
    FENCE_REFUSALS,
    RELEASES,
    TICKS_GIVEN_UP,
    RUNS,
    RUNNING,
    RUN_TOOK,
    RUN_LATE,
    NOT_RUN,
    CLOCK_IS_FAST,
    SCHEDULER_TROUBLE,
    STORE_CALL,
    STORE_ERRORS,
    VOTES,
    ROUTE_TARGET,
    ROUTE_EPOCH,
    ROUTE_SWITCHES,
    BUILD_INFO,
];

/// Tells the recorder what they are.
pub(super) fn describe() {
    for metric in METRICS {
        match metric.kind {
            Kind::Counter => describe_counter!(metric.name, metric.help),
            Kind::Gauge => describe_gauge!(metric.name, metric.help),
            Kind::Histogram => describe_histogram!(metric.name, Unit::Seconds, metric.help),
        }
    }
}
