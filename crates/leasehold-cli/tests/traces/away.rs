//! A collector that takes nothing changes nothing.

use std::net::TcpListener;

use nix::sys::signal::Signal;
use tokio::net::TcpSocket;

use crate::common::{Bench, Going, Ran, ran};

/// An address where nobody listens, nor will before this is dropped.
pub struct Nobody(TcpSocket);

impl Nobody {
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self(socket)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().unwrap())
    }
}

fn run_of(bench: &Bench, url: &str, options: &[&str]) -> Ran {
    let command = [&["run", "a"], options, &["--", "sh", "-c", "echo ran; exit 3"]].concat();
    ran(bench.command(command).env("OTEL_EXPORTER_OTLP_ENDPOINT", url))
}

#[test]
fn one_that_is_away_is_told_in_a_line_and_the_exit_code_is_the_jobs() {
    let (bench, nobody) = (Bench::new(), Nobody::new());
    let away = run_of(&bench, &nobody.url(), &[]);
    assert_eq!((away.code, away.stdout.as_str(), away.stderr.lines().count()), (3, "ran\n", 1), "{away:?}");
    away.fails(3, &["leasehold: the collector has not taken the whole trace of this run: "]);
    // Or, on a machine that stands still for a second, that it was not waited for any longer.
    let is_why = |why: &str| away.stderr.contains(why);
    assert!(is_why("Unavailable") || is_why("it has not answered within a second"), "{away:?}");
    assert_eq!(run_of(&bench, &nobody.url(), &["-q"]).stderr, "");
    bench.run(["run", "a", "--", "true"]).says(&[]);
}

/// It takes the connection, and never says a word. The lock is free, and the job is over, long before anybody waits for that.
#[test]
fn one_that_never_answers_is_given_up_and_holds_nothing_up() {
    let bench = Bench::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let ran = run_of(&bench, &url, &["--report", "report.json"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.lines().count()), (3, "ran\n", 1), "{ran:?}");
    ran.fails(3, &["has not answered within a second"]);
    let held = serde_json::from_slice::<serde_json::Value>(&std::fs::read(bench.path("report.json")).unwrap()).unwrap();
    assert_eq!((&held["outcome"], &held["exit_code"]), (&"done".into(), &3.into()));
}

/// While the end waits for the collector, everything else is over: another may have the lock.
#[test]
fn the_lock_is_given_back_before_the_collector_is_waited_for() {
    let bench = Bench::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let job = ["run", "a", "--report", "/dev/stdout", "--", "true"];
    let mut first = bench.command(job);
    let first = Going::start(first.env("OTEL_EXPORTER_OTLP_ENDPOINT", &url));
    // The report is written behind the release, and before the collector is waited for.
    while first.line() != "}" {}
    bench.run(["run", "a", "--", "true"]).says(&[]);
    first.send(Signal::SIGTERM);
    assert_eq!(first.end().0, 0, "its job is done, whoever asks it to stop now");
}

#[test]
fn what_can_not_be_sent_is_told_and_the_job_runs() {
    let (bench, nobody) = (Bench::new(), Nobody::new());
    let run_with = |name: &str, value: &str| {
        let mut command = bench.command(["run", "a", "--", "true"]);
        ran(command.env("OTEL_EXPORTER_OTLP_ENDPOINT", nobody.url()).env(name, value))
    };
    let http = run_with("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
    http.fails(0, &["no traces are sent: OTEL_EXPORTER_OTLP_PROTOCOL asks for another protocol than grpc"]);
    let wrong = run_with("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:hunter2@no where");
    wrong.fails(0, &["OTEL_EXPORTER_OTLP_ENDPOINT or another variable of the exporter is not as it has to be"]);
    assert!(!wrong.stderr.contains("hunter2") && wrong.stderr.lines().count() == 1, "{wrong:?}");
}
