//! What begins traces, and sees to it that they are sent.

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{SpanKind, Tracer as _, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

use super::courier::{Courier, LastRound};
use super::span::Span;
use super::wanted::wanted;
use crate::traces::{CONTEXT, endpoint, set};

/// For so long the end of the command waits for the collector.
const LAST_SPANS: Duration = Duration::from_secs(1);

/// Where the traces of this process begin. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tracer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tracer: SdkTracer,
    last_round: Mutex<Option<LastRound>>,
}

impl Tracer {
    /// One where the environment asks for traces. To be begun when nothing is to be forked any more: a thread carries them. The first time
    /// that the collector takes none, `tell` hears why, on that thread.
    ///
    /// # Errors
    /// Why there is none, though it asks for some.
    pub fn begin(tell: impl Fn(&str) + Send + 'static) -> Result<Option<Tracer>, String> {
        if !wanted(endpoint(), set)? {
            return Ok(None);
        }
        let resource = resource();
        let (courier, last_round) = Courier::start(resource.clone(), tell)
            .map_err(|error| format!("the system has no thread for traces: {error}"))?;
        let provider = SdkTracerProvider::builder().with_resource(resource).with_span_processor(courier).build();
        let tracer = provider.tracer("leasehold");
        Ok(Some(Self(Arc::new(Inner { tracer, last_round: Mutex::new(Some(last_round)) }))))
    }

    /// A trace of its own.
    pub fn root(&self, name: &'static str, since: SystemTime) -> Span {
        self.span(name, since, SpanKind::Internal, &Context::new())
    }

    /// The same; but the caller's trace goes on in it, if there is one.
    pub fn continued(&self, name: &'static str, since: SystemTime) -> Span {
        self.span(name, since, SpanKind::Internal, &callers())
    }

    pub(super) fn span(&self, name: &'static str, since: SystemTime, kind: SpanKind, parent: &Context) -> Span {
        Span::begin(self.clone(), self.0.tracer.span_builder(name).with_kind(kind).with_start_time(since), parent)
    }

    pub(super) fn sdk(&self) -> &SdkTracer {
        &self.0.tracer
    }

    /// Has the last spans sent, within a second; whether they were. Only the first call does. Not to be called on a runtime.
    pub fn end(&self) -> bool {
        let last_round = self.0.last_round.lock().unwrap_or_else(PoisonError::into_inner).take();
        last_round.is_none_or(|last| last.ends_within(LAST_SPANS))
    }
}

/// The trace that the caller is in, by its environment.
fn callers() -> Context {
    let said: HashMap<String, String> =
        CONTEXT.iter().filter_map(|name| Some((name.to_ascii_lowercase(), set(name)?))).collect();
    TraceContextPropagator::new().extract_with_context(&Context::new(), &said)
}

/// The variables by which a trace goes on under this span.
pub(super) fn variables(context: &Context) -> Vec<(OsString, OsString)> {
    let mut said = HashMap::new();
    TraceContextPropagator::new().inject_context(context, &mut said);
    let variable = |(name, value): (String, String)| (name.to_ascii_uppercase().into(), value.into());
    said.into_iter().filter(|(_, value)| !value.is_empty()).map(variable).collect()
}

/// Who tells: this process, and what the environment says of it, which counts more.
fn resource() -> Resource {
    let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
    let ours = [
        KeyValue::new("service.name", "leasehold"),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("host.name", host.unwrap_or_default()),
        KeyValue::new("process.pid", i64::from(std::process::id())),
    ];
    let resource = Resource::builder_empty()
        .with_attributes(ours)
        .with_detectors(&[Box::new(TelemetryResourceDetector), Box::new(EnvResourceDetector::new())]);
    match set("OTEL_SERVICE_NAME") {
        Some(name) => resource.with_service_name(name).build(),
        None => resource.build(),
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{Span as SdkSpan, SpanData, SpanProcessor};

    use super::*;

    /// Keeps what has ended.
    #[derive(Debug, Clone, Default)]
    struct Keeper(Arc<Mutex<Vec<SpanData>>>);

    impl SpanProcessor for Keeper {
        fn on_start(&self, _: &mut SdkSpan, _: &Context) {}

        fn on_end(&self, span: SpanData) {
            self.0.lock().unwrap().push(span);
        }

        fn force_flush(&self) -> OTelSdkResult {
            Ok(())
        }

        fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
            Ok(())
        }
    }

    impl Tracer {
        /// One that sends nothing, and what it would have sent.
        pub fn keeping() -> (Self, Arc<Mutex<Vec<SpanData>>>) {
            let keeper = Keeper::default();
            let provider = SdkTracerProvider::builder().with_span_processor(keeper.clone()).build();
            (Self(Arc::new(Inner { tracer: provider.tracer("test"), last_round: Mutex::new(None) })), keeper.0)
        }
    }
}
