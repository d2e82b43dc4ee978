//! Groups of locks.

use std::time::Duration;

use leasehold::{Answer, Event, LockName, Observer};
use metrics::set_default_local_recorder;

use super::super::Meter;
use super::super::exposition::builder;
use super::super::groups::{MOST, OTHERS};
use super::scrape::{samples, sum};

const ACQUISITIONS: &str = "leasehold_acquisitions_total";

fn is_acquired(meter: &Meter, name: &str) {
    let name = LockName::new(name).unwrap();
    meter.observe(&Event::Asked { name: &name });
    let (waited, contended, answer) = (Duration::ZERO, false, Answer::Acquired);
    meter.observe(&Event::Answered { name: &name, waited, contended, answer });
}

#[test]
fn names_are_no_labels() {
    let recorder = builder().build_recorder();
    let _installed = set_default_local_recorder(&recorder);
    let meter = Meter::new();
    (0..100).for_each(|number| is_acquired(&meter, &format!("invoice/{number}")));
    let text = recorder.handle().render();
    assert!(!text.contains("invoice"), "{text}");
    assert_eq!(sum(&recorder.handle(), ACQUISITIONS, &[]), 100.0);
}

#[test]
fn groups_are_counted_apart_and_are_few() {
    let recorder = builder().build_recorder();
    let _installed = set_default_local_recorder(&recorder);
    let meter = Meter::grouped(|name| name.as_str().split_once('/').map(|(group, _)| group.to_owned()));
    for name in ["invoice/1", "invoice/2", "report/1", "nightly"] {
        is_acquired(&meter, name);
    }
    let acquired = |group: &str| sum(&recorder.handle(), ACQUISITIONS, &[("outcome", "acquired"), ("group", group)]);
    assert_eq!([acquired("invoice"), acquired("report")], [2.0, 1.0]);
    assert_eq!(sum(&recorder.handle(), ACQUISITIONS, &[]), 4.0, "and the one that has no group");

    (0..200).for_each(|number| is_acquired(&meter, &format!("group-{number}/1")));
    assert_eq!(acquired(OTHERS), 200.0 - (MOST as f64 - 2.0));
    is_acquired(&meter, "invoice/3");
    assert_eq!(acquired("invoice"), 3.0, "who is known stays so");
    let samples = samples(&recorder.handle().render());
    let groups =
        samples.iter().filter(|sample| sample.name == ACQUISITIONS).filter_map(|sample| sample.labels.get("group"));
    assert_eq!(groups.collect::<std::collections::BTreeSet<_>>().len(), MOST + 1);
}

#[test]
fn what_others_wrote_may_panic_and_go_on_for_ever() {
    let recorder = builder().build_recorder();
    let _installed = set_default_local_recorder(&recorder);
    let meter = Meter::grouped(|name| match name.as_str() {
        "bad" => panic!("a fault of whoever wrote it"),
        other => Some(other.repeat(200)),
    });
    is_acquired(&meter, "bad");
    is_acquired(&meter, "ü");
    let acquired = |group: &str| sum(&recorder.handle(), ACQUISITIONS, &[("outcome", "acquired"), ("group", group)]);
    assert_eq!(acquired(&"ü".repeat(100)), 1.0);
    assert_eq!(sum(&recorder.handle(), ACQUISITIONS, &[("outcome", "acquired")]), 2.0);
}
