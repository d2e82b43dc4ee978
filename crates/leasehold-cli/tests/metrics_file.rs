//! `run --metrics-file FILE`: what was counted, for a collector that reads files.

mod common;

use std::fs;

use common::{Bench, Going};
use leasehold_testkit::servers::Redis;

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
    // What is counted for `contention` is put together by one of eight, which would be calls of the store, too.
    let run = ["run", "a", "--no-tally", "--once-key", "k7", "--metrics-file", "a.prom", "--", "sh", "-c", "exit 3"];
    let ran = bench.run(run);
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

/// As for a report: what is no file is written to, and not replaced.
#[test]
fn a_link_stays_one_and_so_does_a_pipe() {
    let bench = Bench::new();
    std::os::unix::fs::symlink("a.prom", bench.path("link.prom")).unwrap();
    bench.run(["run", "a", "--metrics-file", "link.prom", "--", "true"]).fails(0, &[]);
    assert!(bench.path("link.prom").is_symlink() && written(&bench).contains("leasehold_acquisitions_total"));
    let ran = bench.run(["run", "a", "--metrics-file", "/dev/stdout", "--", "true"]);
    assert!(ran.stdout.contains("leasehold_acquisitions_total{lock=\"a\",outcome=\"acquired\"} 1"), "{ran:?}");
}

/// Also where the warden comes before the guard, for it ends the job before the lease's end.
#[test]
fn a_loss_is_counted_once_whoever_sees_it_first() {
    let (server, bench) = (Redis::start(), Bench::new());
    let url = server.url();
    let lost = |reason: &str| {
        let text = written(&bench);
        let of = |line: &&str| line.starts_with("leasehold_losses_total{") && !line.ends_with(" 0");
        let lines: Vec<_> = text.lines().filter(of).collect();
        assert_eq!(lines, [format!("leasehold_losses_total{{lock=\"a\",reason=\"{reason}\"}} 1")], "{text}");
    };
    let on = ["run", "a", "--store", &url, "--metrics-file", "a.prom", "--ttl", "4s"];
    let too_long = on.iter().chain(&["--max-hold", "1s", "--", "sleep", "30"]);
    bench.run(too_long).fails(76, &[]);
    lost("held_too_long");
    let going = Going::start(&mut bench.command(on.iter().chain(&["--", "sh", "-c", "echo began; exec sleep 30"])));
    assert_eq!(going.line(), "began");
    server.kill();
    assert_eq!(going.end().0, 76);
    lost("unreachable");
}

/// Both leases end at the same instant, and so does the job by the warden's word alone.
#[test]
fn what_is_lost_along_with_a_lock_is_counted_too() {
    let (server, bench) = (Redis::start(), Bench::new());
    let url = server.url();
    let on = ["run", "a", "--also", "b", "--store", &url, "--metrics-file", "a.prom", "--ttl", "4s"];
    let going = Going::start(&mut bench.command(on.iter().chain(&["--", "sh", "-c", "echo began; exec sleep 30"])));
    assert_eq!(going.line(), "began");
    server.kill();
    assert_eq!(going.end().0, 76);
    let both = "leasehold_losses_total{lock=\"a\",reason=\"unreachable\"} 2";
    assert!(written(&bench).lines().any(|line| line == both), "{}", written(&bench));
}
