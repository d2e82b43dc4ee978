//! `run --metrics-file FILE`: what was counted, for a collector that reads files.

mod common;

use std::fs;

use common::Bench;

fn files(bench: &Bench) -> Vec<String> {
    let names = fs::read_dir(bench.path(".")).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".prom") || name.contains("report")).collect()
}

fn written(bench: &Bench) -> String {
    fs::read_to_string(bench.path("a.prom")).unwrap()
}

#[test]
fn a_run_leaves_what_was_counted() {
    let bench = Bench::new();
    bench.write("a.prom", "of yesterday");
    let ran = bench.run(["run", "a", "--once-key", "k7", "--metrics-file", "a.prom", "--", "sh", "-c", "exit 3"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (3, ""));
    let text = written(&bench);
    for line in [
        "leasehold_acquisitions_total{lock=\"a\",outcome=\"acquired\"} 1",
        "leasehold_releases_total{lock=\"a\",outcome=\"in_time\"} 1",
        "leasehold_leases_held{lock=\"a\"} 0",
        "leasehold_store_call_duration_seconds_count{lock=\"a\",operation=\"acquire\",store=\"sqlite\"} 1",
    ] {
        assert!(text.lines().any(|written| written == line), "{line} is not in {text}");
    }
    let samples = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert!(samples.clone().count() > 100 && samples.clone().all(|line| line.contains("lock=\"a\"")), "{text}");
    assert!(!text.contains("k7"), "keys are without number");
    assert_eq!(files(&bench), ["a.prom"]);
}

#[test]
fn so_does_one_that_did_not_get_its_lock() {
    let bench = Bench::new();
    let _held = bench.take("a");
    bench.run(["run", "a", "--metrics-file", "a.prom", "--", "true"]).fails(75, &[]);
    let line = "leasehold_acquisitions_total{lock=\"a\",outcome=\"contended\"} 1";
    assert!(written(&bench).lines().any(|written| written == line), "{}", written(&bench));
}

#[test]
fn a_file_that_can_not_be_written_is_told_and_changes_no_exit_code() {
    let bench = Bench::new();
    let ran = bench.run(["run", "a", "--metrics-file", "no/such/a.prom", "--", "sh", "-c", "exit 3"]);
    ran.fails(3, &["--metrics-file no/such/a.prom", "No such file"]);
}
