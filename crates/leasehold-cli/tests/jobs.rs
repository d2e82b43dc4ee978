//! `run` for jobs that run once per slot, once per key, so many at a time, or under several locks: real processes, one
//! SQLite file. The numbers are those of the fault of another system that the test was made of.

mod common;

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use common::{Bench, Ran, ran};
use leasehold_testkit::process::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const SOON: Duration = Duration::from_secs(30);
/// A slot that no test outlives.
const YEAR: &str = "0 0 1 1 *";

/// A job that runs until the file `go` is there; come back once it does.
struct Job {
    child: Child,
}

impl Job {
    fn start(bench: &Bench, options: &[&str]) -> Self {
        let script = "echo $$ >began; while [ ! -e go ]; do sleep 0.02; done";
        let _ = fs::remove_file(bench.path("began"));
        let args = [&["run"], options, &["--", "sh", "-c", script]].concat();
        let child = bench.command(args).stderr(Stdio::null()).spawn().unwrap();
        eventually("the job has begun", SOON, || {
            fs::read_to_string(bench.path("began")).is_ok_and(|pid| !pid.is_empty())
        });
        Self { child }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    fn ends(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn runs(bench: &Bench, options: &[&str], script: &str) -> Ran {
    bench.run([&["run"], options, &["--", "sh", "-c", script]].concat())
}

#[track_caller]
fn is_skipped(ran: &Ran, why: &str) {
    ran.fails(0, &[why, "not run"]);
    assert_eq!(ran.stdout, "");
}

// ---- slots

#[test]
fn q01_a_slot_is_run_once_even_after_its_run_has_ended() {
    let bench = Bench::new();
    let nightly = ["nightly", "--once-per", YEAR, "--tz", "Europe/London"];
    let first = runs(&bench, &nightly, "echo ran for $LEASEHOLD_TICK, attempt $LEASEHOLD_ATTEMPT");
    first.says(&["ran for 20", "-01-01T00:00:00Z, attempt 1"]);
    for _ in 0..3 {
        is_skipped(&runs(&bench, &nightly, "echo again"), "has had its run");
    }
    let quiet = runs(&bench, &[&nightly[..], &["-q"]].concat(), "echo again");
    assert_eq!((quiet.code, quiet.stdout.as_str(), quiet.stderr.as_str()), (0, "", ""));
    runs(&bench, &["hourly", "--once-per", YEAR], "echo another job").says(&["another job"]);
}

#[test]
fn the_name_says_what_h_is_in_a_slot() {
    let bench = Bench::new();
    let slot = |name: &str| {
        let ran = runs(&bench, &[name, "--once-per", "H H 1 1 *"], "echo $LEASEHOLD_TICK");
        ran.stdout.trim().to_owned()
    };
    let due = |name: &str| {
        let next = ["next", "H H 1 1 *", "--job", name, "-n", "1", "--json"];
        ran(&mut bench.bare(next)).json()[0]["utc"].as_str().unwrap().to_owned()
    };
    let (a, b) = (slot("a"), slot("b"));
    assert_eq!((&a[4..], &b[4..]), (&due("a")[4..], &due("b")[4..]), "at the same time in each year");
    assert_ne!(a, b);
    is_skipped(&runs(&bench, &["a", "--once-per", "H H 1 1 *"], "echo again"), "has had its run");
}

#[test]
fn q02_a_period_is_counted_from_the_epoch() {
    let bench = Bench::new();
    runs(&bench, &["a", "--once-per", "365d"], "echo $LEASEHOLD_TICK").says(&["T00:00:00Z"]);
    is_skipped(&runs(&bench, &["a", "--once-per", "365d"], "echo again"), "has had its run");
}

#[test]
fn a_slot_that_runs_elsewhere_is_held() {
    let bench = Bench::new();
    let job = Job::start(&bench, &["a", "--once-per", YEAR]);
    runs(&bench, &["a", "--once-per", YEAR], "echo two").fails(75, &["a: held by", "not run"]);
    let waiting = bench.command(["run", "a", "--once-per", YEAR, "--wait", "--", "echo", "two"]);
    let waiting = { waiting }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    bench.write("go", "");
    assert_eq!(job.ends(), Some(0));
    let waited = waiting.wait_with_output().unwrap();
    let told = String::from_utf8(waited.stderr).unwrap();
    assert!(waited.status.success() && told.contains("has had its run") && waited.stdout.is_empty(), "{told}");
}

#[test]
fn q15_a_machine_that_dies_in_the_middle_is_replaced_with_retry_failed_and_not_without() {
    for retry in [false, true] {
        let bench = Bench::new();
        let options: Vec<&str> =
            ["a", "--ttl", "4s", "--once-per", YEAR].into_iter().chain(retry.then_some("--retry-failed")).collect();
        let job = Job::start(&bench, &options);
        let pid = fs::read_to_string(bench.path("began")).unwrap();
        job.signal(Signal::SIGKILL);
        eventually("the job is killed as well", SOON, || !fs::exists(format!("/proc/{}", pid.trim())).unwrap());
        bench.write("go", "");
        let mut last = runs(&bench, &options, "echo attempt $LEASEHOLD_ATTEMPT");
        eventually("its time is over", SOON, || {
            if last.code == 75 {
                last = runs(&bench, &options, "echo attempt $LEASEHOLD_ATTEMPT");
            }
            last.code != 75
        });
        if retry {
            last.says(&["attempt 2"]);
            is_skipped(&runs(&bench, &options, "echo three"), "has had its run");
        } else {
            is_skipped(&last, "begun before and is not known to have succeeded");
            last.fails(0, &["--retry-failed"]);
            let late = [&options[..], &["--retry-failed"]].concat();
            is_skipped(&runs(&bench, &late, "echo two"), "begun without --retry-failed");
        }
    }
}

#[test]
fn a_run_that_fails_is_repeated_only_if_asked() {
    let bench = Bench::new();
    let once = ["a", "--once-per", YEAR];
    assert_eq!(runs(&bench, &once, "exit 3").code, 3);
    is_skipped(&runs(&bench, &once, "echo two"), "has had its run");
    let retried = ["b", "--once-per", YEAR, "--retry-failed"];
    assert_eq!(runs(&bench, &retried, "exit 3").code, 3);
    assert_eq!(runs(&bench, &retried, "kill -9 $$").code, 137);
    runs(&bench, &retried, "echo attempt $LEASEHOLD_ATTEMPT").says(&["attempt 3"]);
    is_skipped(&runs(&bench, &retried, "echo four"), "has had its run");
}

#[test]
fn a_run_that_was_told_to_end_and_did_so_politely_has_not_succeeded() {
    let bench = Bench::new();
    let options = ["a", "--once-key", "k", "--retry-failed"];
    let script = "trap 'exit 0' TERM; echo $$ >began; while :; do sleep 0.02; done";
    let mut child = bench.command([&["run"], &options[..], &["--", "sh", "-c", script]].concat()).spawn().unwrap();
    eventually("it has begun", SOON, || fs::read_to_string(bench.path("began")).is_ok_and(|pid| !pid.is_empty()));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    runs(&bench, &options, "echo attempt $LEASEHOLD_ATTEMPT").says(&["attempt 2"]);
}

#[test]
fn a_run_that_is_cut_has_failed() {
    let bench = Bench::new();
    // It has to begin before that.
    let cut = ["a", "--kill-after", "200ms", "--max-hold", "2s", "--once-per", YEAR, "--retry-failed"];
    runs(&bench, &cut, "sleep 60").fails(76, &["held for longer"]);
    runs(&bench, &cut, "echo attempt $LEASEHOLD_ATTEMPT").says(&["attempt 2"]);
}

#[test]
fn b12_a_command_that_could_not_be_started_has_not_run() {
    let bench = Bench::new();
    for (program, code) in [("./nowhere", 127), ("./locks.db", 126)] {
        let tried = bench.run(["run", "a", "--once-per", YEAR, "--", program]);
        tried.fails(code, &[program]);
    }
    runs(&bench, &["a", "--once-per", YEAR], "echo attempt $LEASEHOLD_ATTEMPT").says(&["attempt 1"]);
}

#[test]
fn p04_who_is_stopped_while_waiting_takes_no_slot_along() {
    let bench = Bench::new();
    let held = bench.take("a");
    let mut waiting = bench.command(["run", "a", "--once-per", YEAR, "--wait", "-q", "--", "true"]).spawn().unwrap();
    eventually("it waits", SOON, || bench.run(["status", "a", "--json"]).json()["waiting"] == 1);
    kill(Pid::from_raw(waiting.id() as i32), Signal::SIGTERM).unwrap();
    assert!(!waiting.wait().unwrap().success());
    held.release(Duration::ZERO);
    runs(&bench, &["a", "--once-per", YEAR], "echo attempt $LEASEHOLD_ATTEMPT").says(&["attempt 1"]);
}

#[test]
fn an_outer_slot_is_none_of_an_inner_lock() {
    let bench = Bench::new();
    let inner = format!(
        "{} run b -- sh -c 'echo inner: $LEASEHOLD_TICK$LEASEHOLD_KEY$LEASEHOLD_ATTEMPT$LEASEHOLD_TOKEN_2.'",
        env!("CARGO_BIN_EXE_leasehold")
    );
    runs(&bench, &["a", "--also", "c", "--once-per", YEAR], &inner).says(&["inner: ."]);
}

#[test]
fn the_report_tells_of_slots() {
    let bench = Bench::new();
    let options = ["a", "--once-per", YEAR, "--report", "r.json"];
    let report =
        || serde_json::from_str::<serde_json::Value>(&fs::read_to_string(bench.path("r.json")).unwrap()).unwrap();
    runs(&bench, &options, "true");
    let first = report();
    assert_eq!((first["outcome"].as_str(), first["attempt"].as_i64()), (Some("done"), Some(1)), "{first}");
    assert!(first["tick"].as_str().is_some_and(|tick| tick.ends_with("-01-01T00:00:00Z")), "{first}");
    runs(&bench, &options, "true");
    let second = report();
    assert_eq!((second["outcome"].as_str(), second["exit_code"].as_i64()), (Some("skipped"), Some(0)), "{second}");
    assert_eq!((&second["tick"], second["child"].is_null()), (&first["tick"], true), "{second}");
    assert!(second["reason"].as_str().is_some_and(|why| why.contains("has had its run")), "{second}");
}

// ---- keys

#[test]
fn a_key_is_running_elsewhere_or_done_before() {
    let bench = Bench::new();
    let job = Job::start(&bench, &["billing", "--once-key", "invoice-1"]);
    runs(&bench, &["billing", "--once-key", "invoice-1"], "echo two").fails(75, &["held by"]);
    runs(&bench, &["billing", "--once-key", "invoice-2"], "echo $LEASEHOLD_LOCK $LEASEHOLD_KEY")
        .says(&["billing/invoice-2 invoice-2"]);
    bench.write("go", "");
    assert_eq!(job.ends(), Some(0));
    is_skipped(&runs(&bench, &["billing", "--once-key", "invoice-1"], "echo two"), "this key has had its run");
}

#[test]
fn a_key_is_done_until_it_succeeds() {
    let bench = Bench::new();
    let options = ["mail", "--once-key", "welcome", "--retry-failed"];
    assert_eq!(runs(&bench, &options, "exit 1").code, 1);
    runs(&bench, &options, "echo attempt $LEASEHOLD_ATTEMPT").says(&["attempt 2"]);
    is_skipped(&runs(&bench, &options, "echo three"), "this key has had its run");
}

#[test]
fn two_names_with_keys_are_never_one() {
    let bench = Bench::new();
    for (name, key) in [("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c")] {
        runs(&bench, &[name, "--once-key", key], "echo ran").says(&["ran"]);
    }
}

#[test]
fn twelve_at_once_do_a_key_once() {
    let bench = Bench::new();
    let start =
        |_| bench.command(["run", "k", "-q", "--once-key", "1", "--", "sh", "-c", "echo x >>done"]).spawn().unwrap();
    for mut child in (0..12).map(start).collect::<Vec<_>>() {
        let code = child.wait().unwrap().code();
        assert!(matches!(code, Some(0 | 75)), "{code:?}");
    }
    assert_eq!(fs::read_to_string(bench.path("done")).unwrap(), "x\n");
}

// ---- permits

#[test]
fn so_many_hold_it_and_no_more() {
    let bench = Bench::new();
    let jobs = [Job::start(&bench, &["p", "--permits", "2"]), Job::start(&bench, &["p", "--permits", "2"])];
    runs(&bench, &["p", "--permits", "2"], "echo third").fails(75, &["p: held by"]);
    runs(&bench, &["p", "--permits", "3"], "true").fails(78, &["permits: 3", "with 2", "same number"]);
    runs(&bench, &["p"], "true").fails(78, &["permits: 1", "with 2"]);
    let status = bench.run(["status", "p", "--json"]).json();
    assert_eq!((status["permits"].as_i64(), status["others"].as_array().map(Vec::len)), (Some(2), Some(1)), "{status}");
    bench.run(["status", "p"]).says(&["p is held", "also  ", "permits  2 of 2 taken"]);
    let listed = bench.run(["ls"]).stdout.lines().filter(|line| line.starts_with("p ")).count();
    assert_eq!(listed, 2);
    bench.write("go", "");
    for job in jobs {
        assert_eq!(job.ends(), Some(0));
    }
    runs(&bench, &["p", "--permits", "3"], "echo now three").says(&["now three"]);
}

#[test]
fn an_operator_ends_one_of_several_holds() {
    let bench = Bench::new();
    let options = ["p", "--permits", "2", "--ttl", "9s"];
    let jobs = [Job::start(&bench, &options), Job::start(&bench, &options)];
    let status = bench.run(["status", "p", "--json"]).json();
    let (first, second) = (status["holder"].as_str().unwrap(), status["others"][0]["holder"].as_str().unwrap());
    bench.run(["release", "p"]).fails(75, &["and 1 other", "--force"]);
    let one = bench.run(["release", "p", "--holder", second]);
    assert!(!one.fails(75, &["--force"]).stderr.contains(" other "), "it is about the one that is meant: {one:?}");
    bench.run(["release", "p", "--force", "--holder", &"0".repeat(32)]).says(&["is not held by"]);
    bench.run(["release", "p", "--force", "--holder", "me"]).fails(64, &["--holder", "32 digits"]);
    let done = bench.run(["release", "p", "--force", "--holder", first]);
    done.says(&["the hold of p is revoked"]);
    eventually("the one has stopped", SOON, || {
        bench.run(["status", "p", "--json"]).json()["others"] == serde_json::json!([])
    });
    assert_eq!(bench.run(["status", "p", "--json"]).json()["holder"], second);
    bench.write("go", "");
    let mut codes: Vec<_> = jobs.into_iter().map(Job::ends).collect();
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(76)]);
}

// ---- several locks

#[test]
fn i15_all_or_none_in_whatever_order_they_are_given() {
    let bench = Bench::new();
    let held = bench.take("b");
    runs(&bench, &["c", "--also", "b", "--also", "a"], "true").fails(75, &["b: held by"]);
    let left = bench.run(["ls"]).stdout;
    assert_eq!(left.lines().count(), 2, "the head and b: {left}");
    held.release(Duration::ZERO);
    let tokens = runs(
        &bench,
        &["c", "--also", "b", "--also", "a"],
        "echo $LEASEHOLD_LOCK $((LEASEHOLD_TOKEN_2 > 0)) $((LEASEHOLD_TOKEN_3 > 0))",
    );
    tokens.says(&["c 1 1"]);
    let start = |names: [&str; 2]| {
        let script = "set -C; echo $$ >inside || exit 9; sleep 0.01; rm inside";
        bench.command(["run", names[0], "--also", names[1], "--wait", "-q", "--", "sh", "-c", script]).spawn().unwrap()
    };
    let orders = [["x", "y"], ["y", "x"]].into_iter().cycle().take(12);
    for mut child in orders.map(start).collect::<Vec<_>>() {
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn the_loss_of_any_of_them_stops_the_job() {
    let bench = Bench::new();
    for lost in ["a", "b"] {
        let job = Job::start(&bench, &["a", "--also", "b", "--ttl", "6s"]);
        bench.run(["release", lost, "--now"]).says(&["is free"]);
        assert_eq!(job.ends(), Some(76));
        assert_eq!(bench.run(["ls"]).stdout, "");
    }
}

#[test]
fn a_slot_is_not_used_up_by_another_lock_that_is_held() {
    let bench = Bench::new();
    let held = bench.take("b");
    let options = ["a", "--also", "b", "--once-per", YEAR];
    runs(&bench, &options, "true").fails(75, &["b: held by"]);
    held.release(Duration::ZERO);
    runs(&bench, &options, "echo attempt $LEASEHOLD_ATTEMPT").says(&["attempt 1"]);
    is_skipped(&runs(&bench, &options, "true"), "has had its run");
}

#[test]
fn the_time_limit_does_not_count_while_another_lock_is_waited_for() {
    let bench = Bench::new();
    for [name, other] in [["a", "b"], ["b", "a"]] {
        let held = bench.take("b");
        let options = [name, "--also", other, "--wait", "-q", "--max-hold", "2s"];
        let mut child = bench.command([&["run"], &options[..], &["--", "true"]].concat()).spawn().unwrap();
        eventually("it waits", SOON, || bench.run(["status", "b", "--json"]).json()["waiting"] == 1);
        std::thread::sleep(Duration::from_millis(2500)); // longer than the limit
        held.release(Duration::ZERO);
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

// ---- what is refused

#[test]
fn q13_what_makes_no_sense_together_is_refused_before_anything_runs() {
    let bench = Bench::new();
    for (options, words) in [
        (&["a", "--once-per", "nonsense"][..], &["--once-per", "nonsense", "5 fields"][..]),
        (&["a", "--once-per", ""], &["--once-per"]),
        (&["a", "--once-per", "0 0 31 2 *"], &["--once-per"]),
        (&["a", "--once-per", "100ms"], &["--once-per"]),
        (&["a", "--once-per", "1h", "--tz", "Mars/Olympus"], &["Mars/Olympus", "IANA"]),
        (&["a", "--tz", "UTC"], &["--once-per"]),
        (&["a", "--retry-failed"], &["--once-per or --once-key"]),
        (&["a", "--remember", "1h"], &["--once-key"]),
        (&["a", "--once-key", "k", "--remember", "1m"], &["--remember", "10m"]),
        (&["a", "--once-key", ""], &["--once-key is empty"]),
        (&["a", "--once-key", &"k".repeat(199)], &["--once-key", "at most 200"]),
        (&["a", "--once-key", "k", "--once-per", "1h"], &["can't be given together with"]),
        (&["a", "--once-per", "1h", "--forever"], &["can't be given together with"]),
        (&["a", "--once-key", "k", "--forever"], &["can't be given together with"]),
        (&["a", "--permits", "0"], &["--permits", "1 to 1000"]),
        (&["a", "--permits", "1001"], &["--permits", "1 to 1000"]),
        (&["a", "--permits", "two"], &["--permits", "two"]),
        (&["a", "--also", "a"], &["--also a", "twice"]),
        (&["a", "--also", "b", "--also", "b"], &["--also b", "twice"]),
        (&["a", "--also", ""], &["--also", "empty"]),
        (
            &["a", "--also", "b", "--max-hold", "1s", "--at-least-for", "2s"],
            &["--at-least-for", "longer than --max-hold"],
        ),
    ] {
        let refused = runs(&bench, options, "touch ran");
        refused.fails(64, words);
        assert!(!bench.path("ran").exists() && !refused.stderr.contains('\u{1b}'), "{refused:?}");
    }
}

#[test]
fn control_characters_are_shown_as_what_they_are() {
    let bench = Bench::new();
    let refused = ran(&mut bench.command(["run", "a", "--once-per", "\u{1b}[2J", "--tz", "\u{1b}x", "--", "true"]));
    refused.fails(64, &["--once-per"]);
    assert!(!refused.stderr.contains('\u{1b}'), "{refused:?}");
}

#[test]
fn a_slot_is_not_used_up_by_a_run_that_another_lock_kept_from_beginning() {
    let bench = Bench::new();
    let other = Job::start(&bench, &["pool", "--permits", "3"]);
    for _ in 0..5 {
        let both = ["a", "--once-per", YEAR, "--also", "pool"];
        runs(&bench, &both, "echo ran").fails(78, &["permits"]);
        runs(&bench, &["a"], "echo free").says(&["free"]);
    }
    bench.write("go", "");
    assert_eq!(other.ends(), Some(0));
    runs(&bench, &["a", "--once-per", YEAR], "echo ran").says(&["ran"]);
}
