//! Marks that an operator has the store forget.

use leasehold_testkit::process::eventually;
use serde_json::json;

use crate::common::LIMIT;
use crate::schedulers::{Does, Place, Schedulers, YEARLY, operator};

#[test]
fn what_ran_may_run_again_once_its_mark_is_forgotten_and_that_is_recorded() {
    for place in Place::all() {
        let _schedulers = Schedulers::start(&place, 1, &[("nightly", YEARLY, Does::Ends)]);
        eventually("it is known", LIMIT, || place.run(&["resume", "nightly"]).code == 0);
        let slot = || place.run(&["run", "nightly", "--once-per", YEARLY, "--", "echo", "ran"]).stdout;
        assert_eq!([slot(), slot()], ["ran\n", ""]);

        place
            .run(&["schedule", "reset-mark", "nightly", "--reason", "x"])
            .fails(64, &["ticks of nightly that ran may run again", "--yes"]);
        place.run(&["schedule", "reset-mark", "nightly", "--yes"]).fails(64, &["--reason"]);
        place.run(&["schedule", "reset-mark", "nigthly", "--reason", "x", "--yes"]).fails(64, &["it knows nightly"]);
        assert_eq!((slot().as_str(), place.history(&["nightly"]).len()), ("", 0), "nothing was done");

        let reset =
            place.json(&["schedule", "reset-mark", "nightly", "--reason", "db-2 showed 2031", "--yes", "--json"]);
        assert_eq!(reset, json!({"job": "nightly", "reset": true, "by": operator()}));
        assert_eq!([slot(), slot()], ["ran\n", ""], "once, again");
        let told = place.history(&["nightly", "--state", "reset"]);
        let [act] = &told[..] else { panic!("{told:?}") };
        assert_eq!((&act["node"], &act["reason"]), (&json!(operator()), &json!("db-2 showed 2031")));

        let nothing = place.run(&["schedule", "reset-mark", "to-come", "--force", "--reason", "x", "--yes"]);
        nothing.says(&["no tick of to-come was ever claimed"]);
        assert_eq!(place.history(&["--state", "reset"]).len(), 1, "that is no act");
    }
}
