//! A command that was built without traces.

use std::convert::Infallible;
use std::ffi::OsString;
use std::time::SystemTime;

use super::endpoint;

/// There is none.
#[derive(Debug, Clone)]
pub struct Tracer(Infallible);

/// Nor is there one of these.
#[derive(Debug)]
pub struct Span(Infallible);

impl Tracer {
    /// None; and why, if somebody may expect one.
    ///
    /// # Errors
    /// Where one is asked for.
    pub fn begin(_: impl Fn(&str) + Send + 'static) -> Result<Option<Tracer>, String> {
        endpoint().map_or(Ok(None), |name| {
            Err(format!("{name} is set, but this leasehold was built without traces (its feature otel)"))
        })
    }

    pub fn root(&self, _: &'static str, _: SystemTime) -> Span {
        match self.0 {}
    }

    pub fn continued(&self, _: &'static str, _: SystemTime) -> Span {
        match self.0 {}
    }

    pub fn end(&self) -> bool {
        match self.0 {}
    }
}

impl Span {
    pub fn child(&self, _: &'static str, _: SystemTime) -> Span {
        match self.0 {}
    }

    pub fn calls(&self, _: &'static str) -> Span {
        match self.0 {}
    }

    pub fn set<V>(&self, _: &'static str, _: V) {
        match self.0 {}
    }

    pub fn event(&self, _: &'static str, _: impl IntoIterator<Item = (&'static str, String)>) {
        match self.0 {}
    }

    pub fn fails(&self, _: impl Into<String>) {
        match self.0 {}
    }

    pub fn ends(&self) {
        match self.0 {}
    }

    pub fn ended_at(&self, _: SystemTime) {
        match self.0 {}
    }

    pub fn variables(&self) -> Vec<(OsString, OsString)> {
        match self.0 {}
    }
}
