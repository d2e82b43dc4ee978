//! What Prometheus reads.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use leasehold::{Error, ErrorKind, Result};
use metrics::gauge;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use super::buckets::BUCKETS;
use super::catalogue::{self, BUILD_INFO};

/// How often what was recorded is sorted into its buckets. Until then it takes memory, each value by itself.
const UPKEEP: Duration = Duration::from_secs(5);

/// The metrics of this process, as text that Prometheus reads. Cheap to clone; ends with the last clone, but what was counted can be counted no
/// more by another.
#[derive(Debug, Clone)]
pub struct Exposition {
    handle: PrometheusHandle,
    /// Dropped with the last clone, it ends the upkeep.
    _upkeep: Arc<Sender<()>>,
}

impl Exposition {
    /// What [`render`](Self::render) makes, as an HTTP header has it.
    pub const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Installs the recorder of this process. Before any [`Meter`](super::Meter) and [`Measured`](super::Measured) is made: they count with the
    /// recorder that is there by then. A thread of its own looks after it.
    ///
    /// # Errors
    /// [`Misconfigured`](ErrorKind::Misconfigured): this process has a recorder already, and has only one. `Internal`: a thread can't be started.
    pub fn install() -> Result<Self> {
        Self::labelled([])
    }

    /// The same, with these labels on each series: names and values. For processes whose texts come together in one place.
    ///
    /// # Errors
    /// As [`install`](Self::install).
    pub fn labelled<'a>(with: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        let with = with.into_iter().fold(builder(), |builder, (name, value)| builder.add_global_label(name, value));
        let recorder = with.build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|_| {
            let message = "this process has a recorder of metrics already; make Meter and Measured without an Exposition, and read \
                           them where that one is read";
            Error::new(ErrorKind::Misconfigured, message)
        })?;
        let exposition = Self { _upkeep: Arc::new(look_after(handle.clone())?), handle };
        announce();
        Ok(exposition)
    }

    /// The metrics as they stand now: what to answer to a `GET /metrics`, of the type [`CONTENT_TYPE`](Self::CONTENT_TYPE).
    #[must_use]
    pub fn render(&self) -> String {
        self.handle.render()
    }
}

/// What is so whatever happens.
pub(super) fn announce() {
    catalogue::describe();
    gauge!(BUILD_INFO.name, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
}

/// A recorder that knows our histograms.
pub(super) fn builder() -> PrometheusBuilder {
    BUCKETS.iter().fold(PrometheusBuilder::new(), |builder, (metric, buckets)| {
        let histogram = Matcher::Full(metric.name.to_owned());
        builder.set_buckets_for_metric(histogram, buckets).expect("no histogram is without buckets")
    })
}

/// The recorder does nothing by itself.
fn look_after(handle: PrometheusHandle) -> Result<Sender<()>> {
    let (until_dropped, dropped) = mpsc::channel();
    let upkeep = move || {
        while dropped.recv_timeout(UPKEEP) == Err(RecvTimeoutError::Timeout) {
            handle.run_upkeep();
        }
    };
    std::thread::Builder::new().name("leasehold-upkeep".into()).spawn(upkeep).map_err(|error| {
        Error::new(ErrorKind::Internal, format!("the thread that looks after metrics can't be started: {error}"))
    })?;
    Ok(until_dropped)
}
