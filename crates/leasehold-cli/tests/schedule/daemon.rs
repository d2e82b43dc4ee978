//! What it tells people, and what it does where nobody listens.

use std::io::Read;
use std::process::{Child, Stdio};

use leasehold_testkit::process::eventually;
use nix::sys::signal::Signal;

use crate::common::{Bench, Going, LIMIT};
use crate::harness::{Node, lines, read};

/// Each line of a job comes where the job wrote it, with the job's name in front; what happens to jobs, on stderr.
#[test]
fn people_read_a_line_for_each_event() {
    let bench = Bench::new();
    let job = "[jobs.a]\nevery = \"1s\"\ncommand = \"echo out; echo err >&2; echo ran >>ran; exit 3\"\n";
    bench.write("leasehold.toml", job);
    let going = Going::start(&mut bench.command(["schedule"]));
    assert_eq!([going.line(), going.line()], ["a: out", "a: out"]);
    going.send(Signal::SIGTERM);
    let (code, told) = going.end();
    assert_eq!(code, 0, "{told}");
    for words in [
        "leasehold: 1 job in ./leasehold.toml; locks are in sqlite://",
        "next is a at ",
        "leasehold: a: started for ",
        "a: err\n",
        "leasehold: a: failed for ",
        ": exit code 3\n",
        "leasehold: stopping (SIGTERM): no more ticks are taken; what runs may take 30s to end\n",
        "leasehold: stopped\n",
    ] {
        assert!(told.contains(words), "{words:?} is not in {told}");
    }
}

#[test]
fn quiet_is_told_only_what_went_wrong_and_what_jobs_write() {
    let bench = Bench::new();
    let jobs =
        "[jobs.good]\nevery = \"1s\"\ncommand = \"echo out\"\n[jobs.bad]\nevery = \"1s\"\ncommand = \"exit 3\"\n";
    bench.write("leasehold.toml", jobs);
    let mut node = Node::start(&bench, &["-q"]);
    node.tells_of("output", "good");
    let failed = node.tells_of("failed", "bad");
    assert_eq!(failed["reason"], "exit code 3");
    let (code, told) = node.stop();
    let told: Vec<_> = told.iter().map(|told| told["event"].as_str().unwrap()).collect();
    assert_eq!(code, Some(0));
    // On a busy machine a tick may be left out, which is told, too.
    assert!(told.iter().all(|event| ["output", "failed", "not_run"].contains(event)), "{told:?}");
}

/// A scheduler that nobody reads, until dropped.
struct Unread(Child);

impl Drop for Unread {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Nobody reads what it says, and a job says much: jobs go on.
#[test]
fn a_reader_who_stops_reading_holds_no_job_up() {
    let bench = Bench::new();
    let chatter =
        "[jobs.chatter]\nevery = \"1s\"\ncommand = \"head -c 200000 /dev/zero | tr '\\\\0' '\\\\n'; echo ran >>ran\"\n";
    bench.write("leasehold.toml", chatter);
    let child = bench.command(["schedule"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let Unread(child) = &mut Unread(child);
    eventually("three runs", LIMIT * 2, || read(&bench, "ran").lines().count() >= 3);
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, Signal::SIGTERM).unwrap();
    let status = {
        let mut status = None;
        eventually("it ends all the same", LIMIT, || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    };
    assert_eq!(status.code(), Some(0));
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    for words in ["chatter: started", "lines were left out, as nobody read them in time", "leasehold: stopped"] {
        assert!(told.contains(words), "{words:?} is not in {told}");
    }
}

/// The terms of the file are the library's: a run that fails is tried again, and one that takes too long is cut.
#[test]
fn terms_hold() {
    let bench = Bench::new();
    let jobs = r#"
[jobs.fails]
every = "10s"
command = "echo attempt $LEASEHOLD_ATTEMPT; [ $LEASEHOLD_ATTEMPT = 3 ]"
retries = { most = 2, first = "100ms" }
env = { NAME = "value" }

[jobs.hangs]
every = "1s"
command = ["sh", "-c", "echo $NAME in $(basename $(pwd)) read $(cat); sleep 1000"]
time_limit = "500ms"
kill_after = "200ms"
dir = "there"
stdin = "this"
env = { NAME = "value" }
"#;
    bench.write("leasehold.toml", jobs);
    std::fs::create_dir(bench.path("there")).unwrap();
    let mut node = Node::start(&bench, &[]);
    let line = node.tells_of("output", "hangs");
    assert_eq!(line["text"], "value in there read this");
    let lost = node.tells_of("lost", "hangs");
    assert!(lost["took_ms"].as_u64().unwrap() >= 500 && lost["reason"].as_str().unwrap().contains("longer"), "{lost}");
    let done = node.tells_of("done", "fails");
    let attempts: Vec<_> = node
        .heard()
        .iter()
        .filter(|told| told["event"] == "output" && told["job"] == "fails")
        .map(|told| told["text"].clone())
        .collect();
    // Two ticks, if the first one was due as it started.
    let as_often = |of_tick: &[_]| of_tick == ["attempt 1", "attempt 2", "attempt 3"];
    assert!(!attempts.is_empty() && attempts.chunks(3).all(as_often), "{attempts:?} {done}");
    assert_eq!(node.stop().0, Some(0));
}

/// Without the process that starts commands nothing can be started: it ends, for its supervisor to start it again.
#[test]
fn without_its_nursery_it_ends_with_70() {
    let bench = Bench::new();
    bench.write("leasehold.toml", "[jobs.a]\nevery = \"1s\"\ncommand = \"echo ran >>ran\"\n");
    let mut node = Node::start(&bench, &[]);
    node.tells_of("done", "a");
    let nursery = child_of(node.pid());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(nursery), Signal::SIGKILL).unwrap();
    let warning = node.tells("warning");
    assert!(warning["message"].as_str().unwrap().contains("no job can be started any more"), "{warning}");
    let (code, told) = node.ends();
    assert_eq!(code, Some(70), "{told:#?}");
    assert!(!lines(&bench, "ran").is_empty());
}

fn child_of(parent: u32) -> i32 {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    children.split_whitespace().next().expect("it has a child").parse().unwrap()
}
