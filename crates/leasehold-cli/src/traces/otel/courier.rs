//! Carries ended spans to the collector, on a thread of its own.
//!
//! Not the SDK's batch processor: that panics where the system has no thread for it, and a panic ends this process; and the client of gRPC
//! needs a runtime that runs while the others are blocked or gone.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter as _, SpanProcessor};
use tokio::sync::{mpsc as queue, oneshot};

use crate::output::plain;
use crate::traces::{endpoint, set};

/// So many spans wait for their way; more are dropped, for nobody waits for them.
const MOST_WAITING: usize = 2048;

/// So many go at a time.
const MOST_AT_ONCE: usize = 512;

/// How long an ended span waits for others at most.
const LINGER: Duration = Duration::from_secs(1);

/// Where ended spans are left. Never blocks.
#[derive(Debug)]
pub struct Courier(queue::Sender<SpanData>);

/// What has the last spans sent.
#[derive(Debug)]
pub struct LastRound {
    last: oneshot::Sender<()>,
    is_over: mpsc::Receiver<()>,
}

/// What went wrong first, and whoever is told of it.
struct Trouble<F> {
    tell: F,
    was_told: bool,
}

impl Courier {
    /// Starts the thread. The first time that the collector takes no spans, `tell` hears why.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start(resource: Resource, tell: impl Fn(&str) + Send + 'static) -> io::Result<(Courier, LastRound)> {
        let (spans, waiting) = queue::channel(MOST_WAITING);
        let (last, is_last) = oneshot::channel();
        let (over, is_over) = mpsc::channel();
        let carry = move || {
            let mut trouble = Trouble { tell, was_told: false };
            match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(async {
                    carry(&resource, waiting, is_last, &mut trouble).await;
                    // Before the runtime goes, which waits for a name that is being looked up.
                    let _ = over.send(());
                }),
                Err(error) => trouble.is(&error.to_string()),
            }
        };
        thread::Builder::new().name("traces".into()).spawn(carry)?;
        Ok((Courier(spans), LastRound { last, is_over }))
    }
}

impl LastRound {
    /// Sends what is there. Whether that was over in time.
    pub fn ends_within(self, most: Duration) -> bool {
        let _ = self.last.send(());
        // A thread that is gone has said why.
        !matches!(self.is_over.recv_timeout(most), Err(RecvTimeoutError::Timeout))
    }
}

impl SpanProcessor for Courier {
    fn on_start(&self, _: &mut Span, _: &opentelemetry::Context) {}

    fn on_end(&self, span: SpanData) {
        let _ = self.0.try_send(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    /// [`LastRound`] does that, which knows of nothing that holds a span still.
    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl<F: Fn(&str)> Trouble<F> {
    fn is(&mut self, why: &str) {
        if !std::mem::replace(&mut self.was_told, true) {
            (self.tell)(&plain(why));
        }
    }
}

/// Until it is told that this is the last round.
async fn carry<F: Fn(&str)>(
    resource: &Resource,
    mut waiting: queue::Receiver<SpanData>,
    mut is_last: oneshot::Receiver<()>,
    trouble: &mut Trouble<F>,
) {
    let exporter = exporter(resource);
    let mut goes_on = true;
    while goes_on {
        goes_on = tokio::select! {
            biased;
            _ = &mut is_last => false,
            () = tokio::time::sleep(LINGER) => true,
        };
        while let Some(batch) = take(&mut waiting) {
            let sent = match &exporter {
                Ok(exporter) => exporter.export(batch).await.map_err(why),
                Err(why) => Err(why.clone()),
            };
            if let Err(why) = sent {
                trouble.is(&why);
            }
        }
    }
}

/// What waits, if anything does.
fn take(waiting: &mut queue::Receiver<SpanData>) -> Option<Vec<SpanData>> {
    let spans: Vec<_> = std::iter::from_fn(|| waiting.try_recv().ok()).take(MOST_AT_ONCE).collect();
    (!spans.is_empty()).then_some(spans)
}

/// The client of the collector, which it connects to when there is something to send. Set up by the variables that the exporter reads itself.
fn exporter(resource: &Resource) -> Result<SpanExporter, String> {
    let builder = SpanExporter::builder().with_tonic().with_retry_policy(RetryPolicy::disabled());
    let is_plain = endpoint().and_then(set).is_some_and(|url| url.starts_with("http://"));
    // Without this no certificate is trusted at all; and to read those of the system takes its time.
    let builder = if is_plain { builder } else { builder.with_tls_config(ClientTlsConfig::new().with_enabled_roots()) };
    // The error has the address in it, and that perhaps a password.
    let mut exporter = builder.build().map_err(|_| {
        format!("{} or another variable of the exporter is not as it has to be", endpoint().unwrap_or_default())
    })?;
    exporter.set_resource(resource);
    Ok(exporter)
}

fn why(error: OTelSdkError) -> String {
    match error {
        // The client's own name for itself stands in front.
        OTelSdkError::InternalFailure(why) => {
            why.split_once("export failed with ").map_or(why.clone(), |(_, why)| why.to_owned())
        }
        error => error.to_string(),
    }
}
