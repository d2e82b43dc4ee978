//! `run --report FILE`: how it went, for programs.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use common::{Bench, Going, LIMIT, ran};
use leasehold_testkit::process::eventually;
use nix::sys::signal::Signal::{self, SIGKILL, SIGTERM};
use serde_json::{Value, json};

const NULL: Value = Value::Null;

/// What stands in `report.json`; null if that isn't there.
fn report(bench: &Bench) -> Value {
    match fs::read_to_string(bench.path("report.json")) {
        Ok(text) => serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")),
        Err(_) => NULL,
    }
}

/// `run a --report report.json` with these options, and this script as the job.
fn run(bench: &Bench, options: &[&str], script: &str) -> Command {
    let run = ["run", "a", "--report", "report.json"];
    bench.command(run.iter().chain(options).chain(&["--", "sh", "-c", script]))
}

#[track_caller]
fn until(bench: &Bench, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let mut seen = NULL;
    eventually(what, LIMIT, || {
        seen = report(bench);
        holds(&seen)
    });
    seen
}

/// Nothing but the report and the store may be left in the directory.
#[track_caller]
fn leaves_nothing_else(bench: &Bench) {
    let names = fs::read_dir(bench.path(".")).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = names.filter(|name| name.contains("leasehold-report")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_job_that_ends_is_done_whatever_its_code() {
    for code in [0, 3, 255] {
        let bench = Bench::new();
        assert_eq!(ran(&mut run(&bench, &[], &format!("exit {code}"))).code, code);
        let report = report(&bench);
        let object = report.as_object().unwrap();
        let mut fields: Vec<&str> = object.keys().map(String::as_str).collect();
        fields.sort_unstable();
        let known = [
            "also",
            "attempt",
            "child",
            "ended_at",
            "exit_code",
            "held_by",
            "held_ms",
            "holder",
            "label",
            "lock",
            "outcome",
            "reason",
            "runs",
            "started_at",
            "tick",
            "token",
            "waited_ms",
        ];
        assert_eq!(fields, known);
        assert_eq!((&report["lock"], &report["outcome"], &report["reason"]), (&"a".into(), &"done".into(), &NULL));
        assert_eq!((&report["exit_code"], &report["child"]), (&code.into(), &json!({ "exit_code": code })));
        assert_eq!((&report["runs"], &report["held_by"]), (&1.into(), &NULL));
        assert_eq!(report["holder"].as_str().unwrap().len(), 32);
        assert!(report["token"].as_str().unwrap().parse::<u64>().is_ok(), "as text: {report}");
        assert!(report["label"].as_str().unwrap().ends_with("/sh"), "{report}");
        assert!(report["waited_ms"].is_u64() && report["held_ms"].is_u64(), "{report}");
        assert!(report["started_at"].as_str() <= report["ended_at"].as_str(), "{report}");
        leaves_nothing_else(&bench);
    }
}

#[test]
fn a_job_that_a_signal_ends_is_done_and_the_signal_is_named() {
    let bench = Bench::new();
    assert_eq!(ran(&mut run(&bench, &[], "kill -9 $$")).code, 137);
    let report = report(&bench);
    assert_eq!((&report["outcome"], &report["exit_code"]), (&"done".into(), &137.into()));
    assert_eq!(report["child"], json!({ "signal": 9, "name": "SIGKILL" }));
}

#[test]
fn while_it_runs_the_report_says_so() {
    let bench = Bench::new();
    bench.write("report.json", r#"{"outcome": "done", "left": "by yesterday"}"#);
    fs::set_permissions(bench.path("report.json"), fs::Permissions::from_mode(0o640)).unwrap();
    let job = Going::start(&mut run(&bench, &[], "cat report.json; exec sleep 1000"));
    let running = until(&bench, "it runs", |report| report["runs"] == 1);
    assert_eq!((&running["outcome"], &running["exit_code"], &running["child"]), (&"running".into(), &NULL, &NULL));
    assert!(
        running["holder"].is_string() && running["waited_ms"].is_u64() && running["held_ms"].is_null(),
        "{running}"
    );

    // Killed, it leaves no success behind.
    job.send(SIGKILL);
    assert_eq!(job.end().0, 1009);
    assert_eq!(report(&bench), running);
    let mode = fs::metadata(bench.path("report.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640, "as it was");
}

#[test]
fn a_lock_that_is_held_is_told_with_whose_it_is() {
    for (options, code) in [(&[][..], 75), (&["--wait=1s"], 75), (&["--held-exit-code", "0"], 0)] {
        let bench = Bench::new();
        let held = bench.take("a");
        assert_eq!(ran(&mut run(&bench, options, "exit 1")).code, code);
        let report = report(&bench);
        assert_eq!((&report["outcome"], &report["exit_code"]), (&"held".into(), &code.into()));
        assert!(report["reason"].as_str().unwrap().contains("held by web-3/41/backup"), "{report}");
        assert_eq!((&report["child"], &report["holder"], &report["runs"]), (&NULL, &NULL, &0.into()));
        let theirs = &report["held_by"];
        assert_eq!((&theirs["holder"], &theirs["token"]), (&held.holder().into(), &held.token.to_string().into()));
        let waited = report["waited_ms"].as_u64().unwrap();
        assert!(!options.contains(&"--wait=1s") || waited >= 1000, "{report}");
    }
}

#[test]
fn a_lost_lock_is_told_with_what_became_of_the_job() {
    let bench = Bench::new();
    assert_eq!(ran(&mut run(&bench, &["--max-hold", "2s"], "exec sleep 1000")).code, 76);
    let report = report(&bench);
    assert_eq!((&report["outcome"], &report["exit_code"]), (&"lost".into(), &76.into()));
    assert_eq!(report["reason"], "it was held for longer than allowed");
    assert_eq!(report["child"], json!({ "signal": 15, "name": "SIGTERM" }));
    assert!(report["held_ms"].as_u64().is_some_and(|ms| ms >= 2000), "{report}");
}

/// The job's result is its own, and that the lock was another's by then is told all the same.
#[test]
fn a_lock_that_was_taken_before_the_job_ended_by_itself_is_lost() {
    for (job, code, child) in [
        ("exit 0", 0, json!({ "exit_code": 0 })),
        ("exit 3", 3, json!({ "exit_code": 3 })),
        ("kill -9 $$", 137, json!({ "signal": 9, "name": "SIGKILL" })),
    ] {
        let bench = Bench::new();
        let take = format!("{} release a --force --now --json >/dev/null", env!("CARGO_BIN_EXE_leasehold"));
        let ran = ran(&mut run(&bench, &[], &format!("{take} && {job}")));
        ran.fails(code, &["the lock a was lost", "another may have run beside the job"]);
        let report = report(&bench);
        assert_eq!(
            (&report["outcome"], &report["exit_code"], &report["child"]),
            (&"lost".into(), &code.into(), &child)
        );
        assert!(report["reason"].as_str().unwrap().contains("not ours any more"), "{report}");
    }
    // A revocation that leaves the lock to its holder until that has ended takes nothing from it.
    let bench = Bench::new();
    let revoke = format!("{} release a --force >/dev/null; exit 0", env!("CARGO_BIN_EXE_leasehold"));
    assert_eq!(ran(&mut run(&bench, &[], &revoke)).code, 0);
    assert_eq!(report(&bench)["outcome"], "done");
}

#[test]
fn an_interruption_is_told_apart_from_an_end() {
    // While it waits: there is no job.
    let bench = Bench::new();
    let _held = bench.take("a");
    let waiter = Going::start(&mut run(&bench, &["--wait", "-q"], "exit 0"));
    eventually("it waits", LIMIT, || bench.run(["status", "a", "--json"]).json()["waiting"] == 1);
    waiter.send(SIGTERM);
    assert_eq!(waiter.end().0, 143);
    let told = report(&bench);
    assert_eq!((&told["outcome"], &told["exit_code"], &told["child"]), (&"interrupted".into(), &143.into(), &NULL));
    assert!(told["reason"].as_str().unwrap().contains("SIGTERM") && told["waited_ms"].is_u64(), "{told}");

    // While the job runs: it says what the job made of it.
    for (script, code, child) in [
        ("echo >up; exec sleep 1000", 143, json!({ "signal": 15, "name": "SIGTERM" })),
        ("trap 'exit 5' TERM; echo >up; while :; do sleep 0.01; done", 5, json!({ "exit_code": 5 })),
    ] {
        let bench = Bench::new();
        let job = Going::start(&mut run(&bench, &[], script));
        eventually("the job is up", LIMIT, || bench.path("up").exists());
        job.send(SIGTERM);
        assert_eq!(job.end().0, code);
        let told = report(&bench);
        assert_eq!(
            (&told["outcome"], &told["exit_code"], &told["child"]),
            (&"interrupted".into(), &code.into(), &child)
        );
        assert!(told["reason"].as_str().unwrap().contains("SIGTERM"), "{told}");
    }
}

/// Dying by a signal is a way out as well: Ctrl-C on a terminal.
#[test]
fn it_is_written_before_the_signal_of_a_terminal_ends_us() {
    let bench = Bench::new();
    let press = "import os, pty, sys, time\n\
        pid, terminal = pty.fork()\n\
        if pid == 0: os.execv(sys.argv[1], sys.argv[1:])\n\
        while not os.path.exists('up'): time.sleep(0.01)\n\
        os.write(terminal, b'\\x03')\n\
        print(os.WTERMSIG(os.waitpid(pid, 0)[1]))";
    let mut python = Command::new("python3");
    if !python.arg("--version").output().is_ok_and(|output| output.status.success()) {
        return; // nothing else here makes a terminal; the warden's tests do without the report
    }
    let mut python = Command::new("python3");
    python.args(["-c", press, env!("CARGO_BIN_EXE_leasehold"), "run", "a", "--report", "report.json", "--"]);
    python.args(["sh", "-c", "echo >up; exec sleep 1000"]).env("LEASEHOLD_STORE", bench.url());
    let output = ran(python.current_dir(bench.path(".")));
    assert_eq!(output.stdout.trim(), "2", "{output:?}");
    let told = report(&bench);
    assert_eq!((&told["outcome"], &told["exit_code"]), (&"interrupted".into(), &130.into()));
    assert_eq!(told["child"], json!({ "signal": 2, "name": "SIGINT" }));
}

#[test]
fn a_program_that_cannot_be_started_is_told() {
    for (program, code) in [("/no/such/program", 127), ("/etc/passwd", 126)] {
        let bench = Bench::new();
        assert_eq!(bench.run(["run", "a", "--report", "report.json", "--", program]).code, code);
        let report = report(&bench);
        assert_eq!((&report["outcome"], &report["exit_code"]), (&"not_started".into(), &code.into()));
        assert!(report["reason"].as_str().unwrap().contains(program), "{report}");
        assert_eq!((&report["runs"], &report["child"]), (&0.into(), &NULL));
    }
}

#[test]
fn errors_of_store_and_configuration_are_told() {
    // The store can't be opened, or asked.
    let bench = Bench::new();
    bench.write("report.json", r#"{"outcome": "done"}"#);
    assert_eq!(ran(&mut run(&bench, &["--store", "sqlite:none/locks.db"], "exit 0")).code, 78);
    let told = report(&bench);
    assert_eq!((&told["outcome"], &told["exit_code"], &told["child"]), (&"failed".into(), &78.into(), &NULL));
    assert!(told["reason"].as_str().unwrap().contains("create it"), "{told}");

    // A configuration that isn't there, found out before there is a store.
    bench.write("report.json", r#"{"outcome": "done"}"#);
    assert_eq!(ran(&mut run(&bench, &["--config", "none.toml", "--store", "x"], "exit 0")).code, 78);
    assert_eq!(report(&bench)["outcome"], "failed");

    // Terms that contradict each other.
    assert_eq!(ran(&mut run(&bench, &["--at-least-for", "5s", "--max-hold", "1s"], "exit 0")).code, 64);
    assert_eq!((&report(&bench)["outcome"], &report(&bench)["exit_code"]), (&"failed".into(), &64.into()));

    // A disk that takes no more: the limit on the size of files stands for it, and spares the small report.
    let bench = Bench::new();
    bench.run(["ls"]).fails(0, &[]);
    let limited = "ulimit -f 1; exec \"$0\" run a --report report.json -- true";
    let mut command = Command::new("sh");
    command.args(["-c", limited, env!("CARGO_BIN_EXE_leasehold")]).env("LEASEHOLD_STORE", bench.url());
    let output = ran(command.current_dir(bench.path(".")));
    assert_eq!(output.code, 69, "{output:?}");
    assert_eq!((&report(&bench)["outcome"], &report(&bench)["exit_code"]), (&"unavailable".into(), &69.into()));
}

/// A success of yesterday must not be taken for one of today.
#[test]
fn a_wrong_command_line_leaves_no_report_from_before() {
    let bench = Bench::new();
    for wrong in [
        &["run", "a", "--tll", "5s", "--report", "report.json", "--", "true"][..],
        &["run", "a", "--report=report.json", "--ttl", "2h", "--", "true"],
        &["run", "a", "--report", "report.json", "--kill-after", "29s", "--", "true"],
        &["run", "a", "--report", "report.json"],
    ] {
        assert_eq!(ran(&mut run(&bench, &[], "exit 0")).code, 0);
        let ran = bench.run(wrong);
        ran.fails(64, &[]);
        let report = report(&bench);
        let is = (&report["lock"], &report["outcome"], &report["exit_code"], &report["runs"]);
        assert_eq!(is, (&"a".into(), &"failed".into(), &64.into(), &0.into()), "{wrong:?}");
        assert_eq!(format!("leasehold: {}", report["reason"].as_str().unwrap()), ran.stderr.trim_end());
    }
    // What is the job's own is left alone, and what can't be written is no second error.
    bench.write("jobs", "as it was");
    bench.run(["run", "a", "--tll", "5s", "--", "tool", "--report", "jobs"]).fails(64, &["'--tll'"]);
    assert_eq!(fs::read_to_string(bench.path("jobs")).unwrap(), "as it was");
    let ran = bench.run(["run", "a", "--report", "none/report.json", "--tll", "5s", "--", "true"]);
    ran.fails(64, &["'--tll'"]);
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    leaves_nothing_else(&bench);
}

#[test]
fn a_killed_warden_is_told_as_a_fault() {
    let bench = Bench::new();
    // The warden is the job's parent.
    assert_eq!(ran(&mut run(&bench, &[], "kill -9 $PPID; exec sleep 1000")).code, 70);
    assert_eq!((&report(&bench)["outcome"], &report(&bench)["runs"]), (&"failed".into(), &1.into()));
}

#[test]
fn each_run_of_a_daemon_is_counted() {
    let bench = Bench::new();
    let script = "echo >>starts; test $(wc -l <starts) = 3 && exit 6; exec sleep 1000";
    assert_eq!(ran(&mut run(&bench, &["--forever", "--max-hold", "2s"], script)).code, 6);
    let told = report(&bench);
    assert_eq!(
        (&told["outcome"], &told["runs"], &told["child"]),
        (&"done".into(), &3.into(), &json!({ "exit_code": 6 }))
    );

    // While it queues again it holds nothing.
    let bench = Bench::new();
    let daemon = Going::start(&mut run(
        &bench,
        &["--forever", "-q", "--max-hold", "1s", "--at-least-for", "1s"],
        "exec sleep 1000",
    ));
    until(&bench, "it runs", |report| report["holder"].is_string());
    let other = Going::start(&mut bench.command(["run", "a", "--wait", "-q", "--", "sleep", "1000"]));
    let queuing =
        until(&bench, "it queues again", |report| report["runs"].as_u64() >= Some(1) && report["holder"].is_null());
    assert_eq!((&queuing["outcome"], &queuing["token"], &queuing["held_ms"]), (&"running".into(), &NULL, &NULL));
    daemon.send(SIGTERM);
    assert_eq!(daemon.end().0, 143);
    let told = report(&bench);
    assert_eq!((&told["outcome"], &told["exit_code"]), (&"interrupted".into(), &143.into()));
    drop(other);
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_before_anything_runs() {
    let bench = Bench::new();
    fs::create_dir(bench.path("directory")).unwrap();
    symlink("loop", bench.path("loop")).unwrap();
    nix::unistd::mkfifo(&bench.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (file, words) in [
        ("directory", "is a directory"),
        ("none/report.json", "No such file"),
        ("report.json/x", "Not a directory"),
        ("loop", "symbolic links"),
        ("/dev/fd/77", "No such file"),
        ("fifo", "No such device"), // that nobody reads
    ] {
        bench.write("report.json", "");
        let run = bench.run(["run", "a", "--report", file, "--", "touch", "ran"]);
        run.fails(78, &["cannot write the report", file, words]);
        assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
    }
    assert!(!bench.path("ran").exists());
    assert!(!bench.path("locks.db").exists(), "nothing was opened for them");
    leaves_nothing_else(&bench);
}

/// A pipe and a device get one object, at the end; and whoever's stdout is a file keeps what the job wrote there.
#[test]
fn what_cannot_be_replaced_gets_one_object_at_the_end() {
    let bench = Bench::new();
    let piped = bench.run(["run", "a", "--report", "/dev/stdout", "--", "echo", "the job's own"]);
    let object = piped.stdout.strip_prefix("the job's own\n").unwrap();
    assert_eq!(serde_json::from_str::<Value>(object).unwrap()["outcome"], "done");

    let file = File::create(bench.path("out")).unwrap();
    let job = ["run", "a", "--report", "/dev/stdout", "--", "echo", "the job's own"];
    assert!(bench.command(job).stdout(file).status().unwrap().success());
    let out = fs::read_to_string(bench.path("out")).unwrap();
    let object = out.strip_prefix("the job's own\n").unwrap_or_else(|| panic!("{out}"));
    assert_eq!(serde_json::from_str::<Value>(object).unwrap()["outcome"], "done");
    assert!(fs::symlink_metadata("/dev/stdout").unwrap().is_symlink(), "still there");

    // The job has the caller's third descriptor, and none of ours.
    let third = |options: &str| {
        let job = "sh -c 'echo own; ls /proc/self/fd >fds'";
        let script = format!("\"$0\" run a {options} -- {job} 3>&1 >other");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_leasehold")]).env("LEASEHOLD_STORE", bench.url());
        (ran(command.current_dir(bench.path("."))), fs::read_to_string(bench.path("fds")).unwrap())
    };
    let (told, fds) = third("--report /dev/fd/3");
    assert_eq!(told.json()["outcome"], "done");
    assert_eq!(fs::read_to_string(bench.path("other")).unwrap(), "own\n");
    assert_eq!(fds, third("").1);

    assert_eq!(bench.run(["run", "a", "--report", "/dev/null", "--", "true"]).code, 0);
    // Where the end can't be written, that is told, and the job's result stays.
    bench
        .run(["run", "a", "--report", "/dev/full", "--", "sh", "-c", "exit 4"])
        .fails(4, &["cannot write the report /dev/full"]);
}

#[test]
fn a_link_is_followed_and_stays() {
    let bench = Bench::new();
    fs::create_dir(bench.path("reports")).unwrap();
    symlink("reports/today.json", bench.path("report.json")).unwrap();
    for outcome in [0, 1] {
        assert_eq!(ran(&mut run(&bench, &[], &format!("exit {outcome}"))).code, outcome);
        assert!(fs::symlink_metadata(bench.path("report.json")).unwrap().is_symlink());
        assert_eq!(report(&bench)["exit_code"], outcome);
        assert!(fs::symlink_metadata(bench.path("reports/today.json")).unwrap().is_file());
    }
}

/// The directory is gone at the end.
#[test]
fn a_report_that_cannot_be_written_at_the_end_changes_no_result() {
    let bench = Bench::new();
    fs::create_dir(bench.path("reports")).unwrap();
    let job = ["run", "a", "--report", "reports/a.json", "--", "sh", "-c", "rm -r reports; exit 3"];
    bench.run(job).fails(3, &["cannot write the report reports/a.json", "No such file"]);
}

/// A reader sees a whole report at any time.
#[test]
fn it_is_replaced_as_a_whole() {
    let bench = Bench::new();
    for _ in 0..20 {
        let mut job = run(&bench, &[], "exit 0").spawn().unwrap();
        while job.try_wait().unwrap().is_none() {
            let _whole_or_not_there = report(&bench);
        }
        assert_eq!(report(&bench)["outcome"], "done");
    }
}

/// HUP and others while nothing runs.
#[test]
fn every_signal_that_gives_up_waiting_is_told() {
    for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGUSR1] {
        let bench = Bench::new();
        let _held = bench.take("a");
        let waiter = Going::start(&mut run(&bench, &["--wait", "-q"], "exit 0"));
        eventually("it waits", LIMIT, || bench.run(["status", "a", "--json"]).json()["waiting"] == 1);
        waiter.send(signal);
        assert_eq!(waiter.end().0, 128 + signal as i32);
        assert_eq!(
            (&report(&bench)["outcome"], &report(&bench)["exit_code"]),
            (&"interrupted".into(), &(128 + signal as i32).into())
        );
    }
}

#[test]
fn a_file_that_stdout_stands_for_is_written_after_what_is_there() {
    let bench = Bench::new();
    for (options, descriptor) in [("/dev/stdout", 1), ("/dev/fd/3", 3), ("/proc/self/fd/3", 3)] {
        let leasehold = env!("CARGO_BIN_EXE_leasehold");
        let script = format!(
            "exec {descriptor}>log; echo before >&{descriptor}; {leasehold} run a --report {options} -- true; \
             echo after >&{descriptor}; {leasehold} run a --report {options} -- false; echo end >&{descriptor}"
        );
        let ran = Command::new("sh")
            .arg("-c")
            .arg(script)
            .current_dir(bench.path("."))
            .env("LEASEHOLD_STORE", bench.url())
            .output();
        assert!(ran.unwrap().status.success());
        let log = std::fs::read_to_string(bench.path("log")).unwrap();
        let objects: Vec<&str> = log.split("before\n").nth(1).unwrap().split("after\n").collect();
        let last = objects[1].strip_suffix("end\n").unwrap_or_else(|| panic!("{log}"));
        let codes = [objects[0], last].map(|text| serde_json::from_str::<Value>(text).unwrap()["exit_code"].clone());
        assert_eq!(codes, [0, 1], "{log}");
    }
}
