//! All that is ever emitted, beside what is said of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use leasehold::member::Vote;
use leasehold::store::{Ballot, Epoch, Incarnation, Target};
use leasehold::stores::Memory;
use leasehold::validity::Moment;
use leasehold::{Answer, Error, ErrorKind, Event, FencingToken, HolderId, LockName, LossReason, NotDue, Tick};
use leasehold_schedule::{Event as JobEvent, How, NotRun};
use metrics::set_default_local_recorder;

use super::super::exposition::{announce, builder};
use super::super::{METRICS, Measured, Meter};
use super::scrape::samples;

const SECOND: Duration = Duration::from_secs(1);

/// The text of a process to which everything has happened that can.
fn everything() -> String {
    let recorder = builder().build_recorder();
    let _installed = set_default_local_recorder(&recorder);
    announce();
    let meter = Meter::grouped(|name| (name.as_str() != "alone").then(|| "invoice".to_owned()));
    drop(Measured::over(Arc::new(Memory::default())));
    tell_of_locks(&meter);
    tell_of_stores(&meter);
    tell_of_jobs(&meter);
    recorder.handle().render()
}

fn tell_of_locks(meter: &Meter) {
    let (name, holder) = (&LockName::new("invoice/1").unwrap(), HolderId::fresh());
    let (waited, valid_until, tick) = (SECOND, Moment::from_nanos(1), Tick::ONLY);
    let error = &Error::new(ErrorKind::Unavailable, "away");
    let answers = [Answer::Acquired, Answer::Failed(error)];
    let told = answers.map(|answer| Event::Answered { name, waited, contended: true, answer });
    let lost = [LossReason::Gone, LossReason::Expired];
    let lost = lost.each_ref().map(|reason| Event::Lost { name, holder, reason });
    let others = [
        Event::Asked { name },
        Event::Withdrawn { name, waited },
        Event::Acquired { name, holder, token: FencingToken::new(1), waited, valid_until },
        Event::Renewed { name, holder, valid_until, margin: SECOND, late: SECOND },
        Event::RenewalFailed { name, holder, error, remaining: SECOND },
        Event::Stale { name, holder, error },
        Event::LetGo { name, holder },
        Event::Released { name, holder, label: "web/1/job", held: SECOND, in_time: true },
        Event::ReleaseFailed { name, holder, error },
        Event::GaveUp { name, tick },
    ];
    told.iter().chain(&lost).chain(&others).for_each(|event| leasehold::Observer::observe(meter, event));
}

fn tell_of_stores(meter: &Meter) {
    let (from, to) = (&Target::Primary(Incarnation::new("a")), &Target::Arbiter);
    let epoch = Epoch::FIRST;
    let member = "redis://a";
    let events = [
        Event::Routed { to: from, epoch },
        Event::Switched { from, to, epoch: epoch.later(1), within: None },
        Event::Voted { member, on: Vote::Claim, ballot: Ballot::Granted, times: 1 },
        Event::Voted { member, on: Vote::Renewal, ballot: Ballot::Late, times: 100 },
    ];
    events.iter().for_each(|event| leasehold::Observer::observe(meter, event));
}

fn tell_of_jobs(meter: &Meter) {
    let (job, tick, token) = ("invoice/nightly", Tick::ONLY, FencingToken::new(1));
    let error = &Error::new(ErrorKind::Unavailable, "away");
    let started = JobEvent::Started { job, tick, attempt: 1, token, late: SECOND };
    let ended = JobEvent::Ended { job, tick, took: SECOND, how: &How::Done };
    let too_old = NotRun::TooOld(NotDue::Claimed { newest: tick, unfinished: false });
    let others = [
        JobEvent::NotRun { job, tick, why: &NotRun::Missed },
        JobEvent::NotRun { job, tick, why: &too_old },
        JobEvent::ClockIsFast { job, ahead: SECOND },
        JobEvent::StoreIsAway { job: "", error },
        JobEvent::StoreRefuses { job, error },
        JobEvent::LedgerFailed { error },
    ];
    [started, ended].iter().chain(&others).for_each(|event| leasehold_schedule::Observer::observe(meter, event));
}

/// The metric that a sample belongs to.
fn metric_of(sample: &str, histograms: &BTreeSet<&str>) -> String {
    let stem = ["_bucket", "_sum", "_count"].into_iter().find_map(|suffix| sample.strip_suffix(suffix));
    stem.filter(|stem| histograms.contains(stem)).unwrap_or(sample).to_owned()
}

#[test]
fn what_is_emitted_is_in_the_catalogue_and_the_reverse() {
    let text = everything();
    let types: BTreeMap<_, _> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let expected: BTreeMap<_, _> = METRICS.iter().map(|metric| (metric.name, metric.kind.name())).collect();
    assert_eq!(types, expected);

    let histograms = types.iter().filter(|(_, kind)| **kind == "histogram").map(|(name, _)| *name).collect();
    let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for sample in samples(&text) {
        let its_labels = sample.labels.into_keys().filter(|label| label != "le");
        labels.entry(metric_of(&sample.name, &histograms)).or_default().extend(its_labels);
    }
    for metric in METRICS {
        let expected: BTreeSet<_> = metric.labels.iter().map(|label| (*label).to_owned()).collect();
        assert_eq!(labels[metric.name], expected, "{}", metric.name);
        let help = format!("# HELP {} {}", metric.name, metric.help);
        assert!(text.lines().any(|line| line == help), "{help}");
    }
}

#[test]
fn promtool_accepts_what_is_emitted() {
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = promtool.expect("promtool is needed: run scripts/servers");
    promtool.stdin.take().unwrap().write_all(everything().as_bytes()).unwrap();
    let checked = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && said.is_empty(), "{said}");
}
