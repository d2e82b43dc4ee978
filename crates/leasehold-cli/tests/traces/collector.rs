//! A collector, as far as its clients can tell.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::{Arc, Mutex};

use leasehold_testkit::process::eventually;
use leasehold_testkit::servers::Certificates;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::runtime::Runtime;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

use crate::common::LIMIT;

/// A collector, until dropped.
pub struct Collector {
    kept: Kept,
    url: String,
    runtime: Option<Runtime>,
}

/// What it has got.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Got>>>);

/// One request, with its headers.
struct Got {
    request: ExportTraceServiceRequest,
    headers: MetadataMap,
}

/// A span, to be looked at.
#[derive(Debug, Clone)]
pub struct Seen {
    pub name: String,
    pub trace: String,
    pub id: String,
    pub parent: String,
    pub began: u64,
    pub ended: u64,
    pub set: BTreeMap<String, String>,
    pub events: Vec<(String, BTreeMap<String, String>)>,
    /// What is wrong, if something is.
    pub error: Option<String>,
    pub resource: BTreeMap<String, String>,
}

#[tonic::async_trait]
impl TraceService for Kept {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let (headers, _, request) = request.into_parts();
        self.0.lock().unwrap().push(Got { request, headers });
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    pub fn start() -> Self {
        Self::of_server(Server::builder(), "http")
    }

    /// One that shows its certificate.
    pub fn secured(certificates: &Certificates) -> Self {
        let (certificate, key) = certificates.server();
        let identity = Identity::from_pem(fs::read(certificate).unwrap(), fs::read(key).unwrap());
        let server = Server::builder().tls_config(ServerTlsConfig::new().identity(identity)).unwrap();
        Self::of_server(server, "https")
    }

    fn of_server(mut server: Server, scheme: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let kept = Kept::default();
        let incoming = {
            let _inside = runtime.enter();
            TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap()
        };
        let url = format!("{scheme}://{}", incoming.local_addr().unwrap());
        let service = TraceServiceServer::new(kept.clone()).accept_compressed(CompressionEncoding::Gzip);
        runtime.spawn(server.add_service(service).serve_with_incoming(incoming));
        Self { kept, url, runtime: Some(runtime) }
    }

    /// Has the command send its traces here.
    pub fn of<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &self.url)
    }

    /// All that it has got so far.
    pub fn spans(&self) -> Vec<Seen> {
        let kept = self.kept.0.lock().unwrap();
        let resources = kept.iter().flat_map(|got| &got.request.resource_spans);
        let spans = resources.flat_map(|of| {
            let resource = text_of(of.resource.as_ref().map_or(&[][..], |resource| &resource.attributes));
            let spans = of.scope_spans.iter().flat_map(|scope| &scope.spans);
            spans.map(move |span| Seen::of(span, resource.clone())).collect::<Vec<_>>()
        });
        spans.collect()
    }

    /// This header of each request, or nothing.
    pub fn headers(&self, name: &str) -> Vec<String> {
        let header = |got: &Got| got.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
        self.kept.0.lock().unwrap().iter().map(header).collect()
    }

    /// All of it, as text.
    pub fn text(&self) -> String {
        format!("{:?}", self.kept.0.lock().unwrap().iter().map(|got| &got.request).collect::<Vec<_>>())
    }

    /// The trace of the one run that was sent, with its root in front.
    #[track_caller]
    pub fn run(&self) -> Trace {
        let spans = self.spans();
        assert_eq!(spans.iter().filter(|span| span.name == "leasehold.run").count(), 1, "{spans:#?}");
        Trace::of("leasehold.run", |_| true, &spans)
    }

    /// A trace that is sent at some time, with such a root.
    #[track_caller]
    pub fn trace(&self, root: &str, is_it: impl Fn(&Seen) -> bool) -> Trace {
        eventually("such a trace comes", LIMIT, || self.spans().iter().any(|span| span.name == root && is_it(span)));
        Trace::of(root, is_it, &self.spans())
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

/// One trace.
#[derive(Debug)]
pub struct Trace {
    pub root: Seen,
    pub children: Vec<Seen>,
}

impl Trace {
    /// That with this root. All in it has to be documented, and to hang on the root.
    #[track_caller]
    fn of(name: &str, is_it: impl Fn(&Seen) -> bool, spans: &[Seen]) -> Self {
        let root = spans.iter().find(|span| span.name == name && is_it(span)).unwrap().clone();
        let children: Vec<_> =
            spans.iter().filter(|span| span.trace == root.trace && span.id != root.id).cloned().collect();
        for child in &children {
            assert_eq!(child.parent, root.id, "{child:#?}");
            assert!(root.began <= child.began && child.ended <= root.ended, "{child:#?} in {root:#?}");
        }
        children.iter().chain([&root]).for_each(is_documented);
        Self { root, children }
    }

    /// The one child of this name.
    #[track_caller]
    pub fn child(&self, name: &str) -> &Seen {
        let mut named = self.children.iter().filter(|child| child.name == name);
        let child = named.next().unwrap_or_else(|| panic!("{name} is not in {self:#?}"));
        assert!(named.next().is_none(), "{name} is there more than once in {self:#?}");
        child
    }

    /// The names of the children, in the order in which they began.
    pub fn steps(&self) -> Vec<&str> {
        let mut children: Vec<_> = self.children.iter().collect();
        children.sort_by_key(|child| child.began);
        children.iter().map(|child| child.name.as_str()).collect()
    }
}

impl Seen {
    fn of(span: &Span, resource: BTreeMap<String, String>) -> Self {
        let events = span.events.iter().map(|event| (event.name.clone(), text_of(&event.attributes)));
        Self {
            name: span.name.clone(),
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            began: span.start_time_unix_nano,
            ended: span.end_time_unix_nano,
            set: text_of(&span.attributes),
            events: events.collect(),
            error: span.status.as_ref().filter(|status| status.code == 2).map(|status| status.message.clone()),
            resource,
        }
    }

    /// An attribute, or nothing.
    pub fn get(&self, key: &str) -> &str {
        self.set.get(key).map_or("", String::as_str)
    }

    /// The names of its events, in order, each once.
    pub fn told(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.events.iter().map(|event| event.0.as_str()).collect();
        names.dedup();
        names
    }
}

/// `docs/traces.md` has the span, and all that stands on it.
#[track_caller]
fn is_documented(span: &Seen) {
    let page = include_str!("../../../../docs/traces.md");
    let events = span.events.iter().flat_map(|(name, set)| [name].into_iter().chain(set.keys()));
    for word in [&span.name].into_iter().chain(span.set.keys()).chain(events).chain(span.resource.keys()) {
        let is_the_sdks = word.starts_with("telemetry.sdk.");
        assert!(is_the_sdks || page.contains(&format!("`{word}`")), "docs/traces.md does not have {word}");
    }
}

fn text_of(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let set: BTreeMap<_, _> = attributes.iter().map(|set| (set.key.clone(), text(set.value.as_ref()))).collect();
    assert_eq!(set.len(), attributes.len(), "something is said twice: {attributes:?}");
    set
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
