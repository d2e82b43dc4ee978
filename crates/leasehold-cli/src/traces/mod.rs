//! Traces over OTLP, where the environment names a collector: a trace of each run, for Jaeger, Tempo and the like.
//!
//! They are told what has been decided, and decide nothing: a collector that is away, or never answers, delays no lock and no job. Without
//! the feature `otel` there is no [`Tracer`], so none of it is ever asked.
//!
//! What a trace is made of (`docs/traces.md` has all of it): [`RunTrace`] of `run`, [`TickTraces`] of `schedule`; in both a [`Hold`].

mod hold;
#[cfg(not(feature = "otel"))]
mod none;
#[cfg(feature = "otel")]
mod otel;
mod run;
mod ticks;

use std::env;
use std::ffi::OsString;
use std::path::Path;

use hold::Hold;
#[cfg(not(feature = "otel"))]
use none::{Span, Tracer};
#[cfg(feature = "otel")]
use otel::{Span, Tracer};
pub use run::RunTrace;
pub use ticks::TickTraces;

/// Where traces go to; the first that is set counts.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// The variables by which a trace goes on in another process.
pub const CONTEXT: [&str; 2] = ["TRACEPARENT", "TRACESTATE"];

/// A variable that is set, and not to nothing: which is as if it were not.
fn set(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// The variable that says where to, if one does.
fn endpoint() -> Option<&'static str> {
    ENDPOINTS.into_iter().find(|name| set(name).is_some())
}

/// What a program is called, as the conventions have it. Its arguments are in no trace: they may hold a secret.
fn executable(program: Option<&OsString>) -> String {
    let name = program.map(Path::new).and_then(Path::file_name).unwrap_or_default();
    name.to_string_lossy().into_owned()
}
