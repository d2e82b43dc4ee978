//! A piece of a trace.

use std::ffi::OsString;
use std::time::SystemTime;

use opentelemetry::trace::{SpanBuilder, SpanKind, Status, TraceContextExt};
use opentelemetry::{Context, KeyValue, Value};

use super::tracer::{Tracer, variables};

/// One span. It ends when it is dropped, unless it has ended before.
#[derive(Debug)]
pub struct Span {
    tracer: Tracer,
    context: Context,
}

impl Span {
    pub(super) fn begin(tracer: Tracer, builder: SpanBuilder, parent: &Context) -> Self {
        let span = builder.start_with_context(tracer.sdk(), parent);
        Self { tracer, context: parent.with_span(span) }
    }

    /// A part of it, that began then.
    pub fn child(&self, name: &'static str, since: SystemTime) -> Span {
        self.tracer.span(name, since, SpanKind::Internal, &self.context)
    }

    /// A part of it that is the call of another program, which begins now.
    pub fn calls(&self, name: &'static str) -> Span {
        self.tracer.span(name, SystemTime::now(), SpanKind::Client, &self.context)
    }

    /// Says something of it.
    pub fn set(&self, key: &'static str, value: impl Into<Value>) {
        self.context.span().set_attribute(KeyValue::new(key, value));
    }

    /// Something happens in it.
    pub fn event(&self, name: &'static str, attributes: impl IntoIterator<Item = (&'static str, String)>) {
        let attributes = attributes.into_iter().map(|(key, value)| KeyValue::new(key, value)).collect();
        self.context.span().add_event(name, attributes);
    }

    /// It did not come to what it should.
    pub fn fails(&self, why: impl Into<String>) {
        self.context.span().set_status(Status::error(why.into()));
    }

    /// It ends now, though it is not dropped yet.
    pub fn ends(&self) {
        self.context.span().end();
    }

    /// It has ended then.
    pub fn ended_at(&self, then: SystemTime) {
        self.context.span().end_with_timestamp(then);
    }

    /// What tells another program that it runs within this span.
    pub fn variables(&self) -> Vec<(OsString, OsString)> {
        variables(&self.context)
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.context.span().end(); // not again, where it has ended
    }
}
