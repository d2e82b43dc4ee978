//! What the environment says: a trace that goes on, where to, and by what name.

use std::path::Path;

use leasehold_testkit::servers::Certificates;

use crate::collector::Collector;
use crate::common::{Bench, ran};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Of a shell: what it has for these variables.
const SHOW: &str = "echo \"${TRACEPARENT-none} ${TRACESTATE-none}\"";

#[test]
fn the_callers_trace_goes_on_and_so_does_ours_in_the_job() {
    let (collector, bench) = (Collector::start(), Bench::new());
    let mut command = bench.command(["run", "a", "--", "sh", "-c", SHOW]);
    command.env("TRACEPARENT", CALLER).env("TRACESTATE", "vendor=7");
    let shown = ran(collector.of(&mut command)).stdout;
    let trace = collector.run();
    assert_eq!((trace.root.trace.as_str(), trace.root.parent.as_str()), (TRACE, "b7ad6b7169203331"));
    let job = trace.child("leasehold.job");
    assert_eq!(shown, format!("00-{TRACE}-{}-01 vendor=7\n", job.id));
}

#[test]
fn what_makes_no_sense_is_replaced_and_not_handed_on() {
    let (collector, bench) = (Collector::start(), Bench::new());
    let mut command = bench.command(["run", "a", "--", "sh", "-c", SHOW]);
    command.env("TRACEPARENT", "00-nonsense").env("TRACESTATE", "vendor=7");
    let shown = ran(collector.of(&mut command)).stdout;
    let trace = collector.run();
    assert_eq!(trace.root.parent, "");
    assert_eq!(shown, format!("00-{}-{}-01 none\n", trace.root.trace, trace.child("leasehold.job").id));
}

/// A caller who does not keep its trace is followed; the job still knows whose it is.
#[test]
fn what_the_caller_does_not_sample_is_not_sent() {
    let (collector, bench) = (Collector::start(), Bench::new());
    let mut command = bench.command(["run", "a", "--", "sh", "-c", SHOW]);
    command.env("TRACEPARENT", CALLER.replace("-01", "-00"));
    let shown = ran(collector.of(&mut command)).stdout;
    assert!(shown.starts_with(&format!("00-{TRACE}-")) && shown.ends_with("-00 none\n"), "{shown}");
    assert!(collector.spans().is_empty());
    let mut command = bench.command(["run", "a", "--", "true"]);
    ran(collector.of(&mut command).env("OTEL_TRACES_SAMPLER", "always_off"));
    assert!(collector.spans().is_empty());
}

#[test]
fn where_nothing_is_traced_the_job_gets_what_was_there() {
    let (collector, bench) = (Collector::start(), Bench::new());
    let shown = |name: &str, value: &str| {
        let mut command = bench.command(["run", "a", "--", "sh", "-c", SHOW]);
        collector.of(&mut command).env("TRACEPARENT", CALLER).env("TRACESTATE", "vendor=7").env(name, value);
        let ran = ran(&mut command);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        ran.stdout
    };
    for (name, value) in
        [("OTEL_EXPORTER_OTLP_ENDPOINT", ""), ("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")]
    {
        assert_eq!(shown(name, value), format!("{CALLER} vendor=7\n"), "{name}");
    }
    assert!(collector.spans().is_empty());
}

#[test]
fn the_collector_is_trusted_as_the_system_says() {
    let certificates = Certificates::new();
    let (collector, bench) = (Collector::secured(&certificates), Bench::new());
    let run = |authority: &Path| {
        let mut command = bench.command(["run", "a", "--", "true"]);
        ran(collector.of(&mut command).env("SSL_CERT_FILE", authority))
    };
    run(Certificates::new().authority().as_path()).fails(0, &["has not taken the whole trace of this run"]);
    assert!(collector.spans().is_empty());
    assert_eq!(run(&certificates.authority()).stderr, "");
    assert_eq!(collector.run().root.get("leasehold.outcome"), "done");
}

#[test]
fn it_is_compressed_where_that_is_asked_for() {
    let (collector, bench) = (Collector::start(), Bench::new());
    let mut command = bench.command(["run", "a", "--", "true"]);
    assert_eq!(ran(collector.of(&mut command).env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")).stderr, "");
    collector.run();
    assert_eq!(collector.headers("grpc-encoding"), ["gzip"]);
}

#[test]
fn who_tells_is_named_by_the_usual_variables() {
    let bench = Bench::new();
    let resource = |variables: &[(&str, &str)]| {
        let collector = Collector::start();
        ran(collector.of(&mut bench.command(["run", "a", "--", "true"])).envs(variables.iter().copied()));
        collector.run().root.resource
    };
    let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=nightly,host.name=web-3");
    let named = resource(&[attributes]);
    assert_eq!((named["service.name"].as_str(), named["host.name"].as_str()), ("nightly", "web-3"));
    assert_eq!(resource(&[attributes, ("OTEL_SERVICE_NAME", "backup")])["service.name"], "backup");
}
