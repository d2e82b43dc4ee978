//! Names that nobody knows, and stores that keep no notes.

use leasehold_testkit::process::eventually;
use leasehold_testkit::servers::Redis;

use crate::common::{Bench, LIMIT, ran};
use crate::schedulers::{Does, Place, Schedulers, YEARLY};

const ORDERS: [&[&str]; 4] =
    [&["history", "nigthly"], &["trigger", "nigthly"], &["pause", "nigthly"], &["resume", "nigthly"]];

#[test]
fn a_job_that_nobody_has_ever_had_is_refused_with_those_that_are_known() {
    for place in Place::all() {
        for order in ORDERS {
            place.run(order).fails(64, &["\"nigthly\"", "nor any other", "namespace"]);
        }
        place.run(&["history"]).fails(0, &["nothing that was asked for is recorded"]);
        let names: Vec<_> = (0..12).map(|nth| format!("weekly-{nth:02}")).chain(["nightly".into()]).collect();
        let jobs: Vec<_> = names.iter().map(|name| (name.as_str(), YEARLY, Does::Ends)).collect();
        let schedulers = Schedulers::start(&place, 1, &jobs);
        eventually("they are known", LIMIT, || place.run(&["resume", "nightly"]).code == 0);
        for order in ORDERS {
            place.run(order).fails(
                64,
                &["has ever had a job \"nigthly\"; it knows nightly, weekly-0", " and 3 more (see `leasehold history"],
            );
        }
        assert!(schedulers.began().is_empty());
        // Known is known, whether a scheduler runs or not.
        drop(schedulers);
        place.run(&["pause", "nightly"]).says(&["nightly is paused"]);
        place.run(&["pause", "nigthly", "--force"]).says(&["nigthly is paused"]);
        place.run(&["resume", "nigthly"]).says(&["nigthly runs again"]);
    }
}

#[test]
fn a_store_that_keeps_no_notes_is_78() {
    let (server, bench) = (Redis::start(), Bench::new());
    let url = format!("{}?compat=redis-py", server.url());
    for order in ORDERS {
        ran(bench.bare(order).env("LEASEHOLD_STORE", &url))
            .fails(78, &["keeps no notes", "have no history and hear of no orders", "compat="]);
    }
}

/// Who only looks leaves nothing behind.
#[test]
fn where_there_is_no_file_none_is_made() {
    let bench = Bench::new();
    for order in ORDERS.into_iter().chain([&["schedule", "reset-mark", "nigthly", "--reason", "x", "--yes"][..]]) {
        bench.run(order).fails(64, &["has ever had a job \"nigthly\"", "there is no file ", "locks.db yet"]);
        assert!(!bench.path("locks.db").exists(), "{order:?}");
    }
    let all = bench.run(["history", "--json"]);
    all.fails(0, &["nothing that was asked for is recorded in sqlite://", "there is no file "]);
    assert!(all.json() == serde_json::json!([]) && !bench.path("locks.db").exists(), "{all:?}");
    bench.run(["pause", "nightly", "--force"]).says(&["nightly is paused"]);
    assert!(bench.path("locks.db").exists());
}
