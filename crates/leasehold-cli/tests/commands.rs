//! Commands as scheduled jobs: whatever dies, stops or is lost, a job never outlives its lease, and nothing is left behind.
//! Real processes, one SQLite file.

mod common;
#[path = "warden/harness.rs"]
#[allow(dead_code, reason = "the warden's tests need more of it")]
mod harness;

use std::fs::{self, File};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use common::{Bench, ran};
use harness::{MARK, STUBBORN, STUBBORN_TREE, code, kill_marked, marked, parent_of, send, state, until, until_stopped};
use leasehold::{Locks, stores};
use leasehold_schedule::{Ledger, Orders, Record, State};
use leasehold_testkit::servers::Redis;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpgid, getsid};

/// Runs until `go` is there.
const WAITS: &str = "echo $$ >up; until [ -e go ]; do sleep 0.01; done";

/// A `leasehold schedule`. When dropped, whatever is left of it is killed.
struct Daemon<'a> {
    bench: &'a Bench,
    child: Child,
    mark: String,
}

impl<'a> Daemon<'a> {
    /// Starts one whose only job, `job`, has no tick of its own within this test. It runs in the bench's directory.
    fn start(bench: &'a Bench, script: &str, terms: &str, options: &[&str]) -> Self {
        let command = serde_json::to_string(&["sh", "-c", script]).unwrap();
        Self::with_jobs(bench, &format!("[jobs.job]\nevery = \"3650d\"\ncommand = {command}\n{terms}\n"), options)
    }

    fn with_jobs(bench: &'a Bench, jobs: &str, options: &[&str]) -> Self {
        Self::over(bench, &bench.url(), jobs, options)
    }

    fn over(bench: &'a Bench, store: &str, jobs: &str, options: &[&str]) -> Self {
        bench.write("jobs.toml", jobs);
        let mark = format!("commands-{}", bench.path("").display());
        let args = ["schedule", "--store", store, "--config", "jobs.toml"];
        let mut command = bench.bare(args.iter().chain(options));
        // Not to be handed to a job.
        command.env("LEASEHOLD_STORE", "redis://:secret@127.0.0.1:1/").env("LEASEHOLD_TOKEN_2", "7");
        command.env(MARK, &mark).stdout(log(bench)).stderr(log(bench));
        Self { bench, child: command.spawn().unwrap(), mark }
    }

    /// Has the job run, once.
    fn trigger(&self) {
        self.with_locks(async |locks| Orders::over(locks).trigger("job", "a test", "").await.unwrap());
    }

    /// Has the job run, and comes back when it has made the file `up`.
    fn run(&self) {
        let _ = fs::remove_file(self.bench.path("up"));
        self.trigger();
        until("the job is up", || self.bench.path("up").metadata().is_ok_and(|file| file.len() > 0));
    }

    fn with_locks<T>(&self, talk: impl AsyncFnOnce(&Locks) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let locks = Locks::builder().over(stores::open(&self.bench.url()).unwrap());
            let said = talk(&locks).await;
            locks.shutdown().await;
            said
        })
    }

    fn records(&self, job: &str) -> Vec<Record> {
        self.with_locks(async |locks| Ledger::of(locks, job).unwrap().newest(100).await.unwrap())
    }

    /// The newest record of `job` that tells of an end.
    #[track_caller]
    fn ended(&self, job: &str) -> Record {
        let mut ended = None;
        until("the run is recorded", || {
            ended = self.records(job).into_iter().find(|record| record.ended.is_some());
            ended.is_some()
        });
        ended.unwrap()
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The only process of ours of this name, once it is there.
    #[track_caller]
    fn process(&self, called: &str) -> i32 {
        until(&format!("there is a {called}"), || self.processes(called).len() == 1);
        self.processes(called)[0]
    }

    fn processes(&self, called: &str) -> Vec<i32> {
        marked(&self.mark).into_iter().filter(|pid| name(*pid) == called).collect()
    }

    fn nursery(&self) -> i32 {
        self.process("leasehold-nurse")
    }

    fn runner(&self) -> i32 {
        self.process("leasehold-run")
    }

    fn warden(&self) -> i32 {
        let runner = self.runner();
        marked(&self.mark).into_iter().find(|pid| parent_of(*pid) == Some(runner)).expect("there is a warden")
    }

    /// The job's processes.
    fn job(&self) -> Vec<i32> {
        marked(&self.mark).into_iter().filter(|pid| !name(*pid).starts_with("leasehold")).collect()
    }

    /// A tree that ignores TERM runs.
    fn run_stubborn(&self) {
        self.trigger();
        until("the tree is there", || self.job().len() == STUBBORN);
    }

    /// Whether the lock can be had.
    fn is_free(&self) -> bool {
        let free = self.bench.run(["run", "job", "-q", "--", "true"]);
        assert!(matches!(free.code, 0 | 75), "{free:?}");
        free.code == 0
    }

    fn log(&self) -> String {
        fs::read_to_string(self.bench.path("log")).unwrap()
    }

    fn send(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    #[track_caller]
    fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        until("the scheduler ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Ends it, and demands that nothing of it is left.
    #[track_caller]
    fn stop(mut self) {
        self.send(Signal::SIGTERM);
        assert_eq!(code(self.wait()), 0, "{}", self.log());
        until("nothing is left", || marked(&self.mark).is_empty());
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        kill_marked(&self.mark);
    }
}

fn log(bench: &Bench) -> File {
    File::options().create(true).append(true).open(bench.path("log")).unwrap()
}

fn name(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

#[test]
fn what_a_command_did_stands_in_the_ledger() {
    let bench = Bench::new();
    let told = "echo $LEASEHOLD_LOCK $LEASEHOLD_TICK $LEASEHOLD_ATTEMPT; echo $LEASEHOLD_TOKEN $LEASEHOLD_HOLDER; \
                echo ${LEASEHOLD_STORE-none} ${LEASEHOLD_TOKEN_2-none}; ls -m /proc/$$/fd; pwd; cat";
    let script = |text: &str| serde_json::to_string(&["sh", "-c", text]).unwrap();
    let jobs = [
        ("good", script("echo out; echo err >&2; printf 'no end'")),
        ("bad", script("echo before; exit 3")),
        ("crash", script("kill -SEGV $$")),
        ("missing", "[\"/nowhere/program\"]".to_owned()),
        ("lost", "[\"true\"]\ndir = \"/nowhere\"".to_owned()),
        ("told", script(told) + "\ndir = \"/\"\nstdin = \"read me\\n\""),
        ("raw", script("printf '\\377\\n'; seq 1000")),
    ];
    let jobs = jobs.map(|(name, command)| format!("[jobs.{name}]\nevery = \"1s\"\ncommand = {command}\n"));
    let daemon = Daemon::with_jobs(&bench, &jobs.concat(), &[]);
    let ended = |job| {
        let record = daemon.ended(job);
        (record.state, record.reason.unwrap_or_default(), record.output)
    };

    let (state, reason, output) = ended("good");
    assert_eq!((state, reason.as_str()), (State::Done, ""));
    for line in ["out\n", "err\n", "no end\n"] {
        assert!(output.contains(line), "{output:?}");
    }
    assert_eq!(ended("bad"), (State::Failed, "exit code 3".into(), "before\n".into()));
    assert_eq!(ended("crash"), (State::Failed, "killed by SIGSEGV".into(), String::new()));
    let missing = "can't be started: No such file or directory";
    assert_eq!(ended("missing"), (State::Failed, missing.into(), String::new()));
    assert_eq!(ended("lost").1, "can't be started in /nowhere: No such file or directory");
    let (_, _, output) = ended("raw");
    assert!(output.ends_with("999\n1000\n") && output.len() <= 8 * 1024, "{output}");
    assert!(!output.contains("\n1\n"), "the last lines alone");

    let record = daemon.ended("told");
    let lines: Vec<&str> = record.output.lines().collect();
    assert_eq!(lines[0], format!("told {} 1", record.tick.unwrap()), "{record:?}");
    assert!(lines[1].starts_with(&format!("{} ", record.token.unwrap())), "{lines:?}");
    assert_eq!(lines[2..], ["none none", "0, 1, 2", "/", "read me"]);
    until("it is told, too", || daemon.log().contains("\\xff"));
    daemon.stop();
}

/// A daemon that holds on to the job's output keeps neither run nor lock, and goes on being heard.
#[test]
fn p07_what_a_job_leaves_behind_keeps_neither_run_nor_lock() {
    let bench = Bench::new();
    let script = "(until [ -e go ]; do sleep 0.01; done; echo late words) & echo up >up; exit 0";
    let daemon = Daemon::start(&bench, script, "", &[]);
    daemon.run();
    assert_eq!(daemon.ended("job").state, State::Done);
    assert!(daemon.is_free());
    assert!(!daemon.job().is_empty(), "it lives on");
    bench.write("go", "");
    until("it is heard", || daemon.log().contains("late words"));
    daemon.stop();
}

/// … however much they write.
#[test]
fn what_is_left_behind_and_writes_for_ever_keeps_no_run() {
    let bench = Bench::new();
    let script = "yes & echo $! >up; exit 0";
    let daemon = Daemon::start(&bench, script, "", &[]);
    daemon.run();
    let record = daemon.ended("job");
    let endless: i32 = fs::read_to_string(bench.path("up")).unwrap().trim().parse().unwrap();
    assert_eq!((record.state, state(endless).is_some()), (State::Done, true));
    until("it is heard", || daemon.log().len() > 100_000);
    send(endless, Signal::SIGKILL);
    assert!(daemon.is_free());
    daemon.stop();
}

#[test]
fn a_run_is_renewed_for_as_long_as_it_takes_and_so_is_one_beside_it() {
    let bench = Bench::new();
    let terms = "ttl = \"4s\"\nkill_after = \"200ms\"\noverlap = { allow = 2 }";
    let daemon = Daemon::start(&bench, WAITS, terms, &[]);
    let both = [(); 2].map(|()| {
        daemon.run();
        fs::read_to_string(bench.path("up")).unwrap().trim().parse::<i32>().unwrap()
    });
    std::thread::sleep(Duration::from_secs(5)); // longer than the TTL
    assert!(both[0] != both[1] && both.iter().all(|pid| daemon.job().contains(pid)), "{both:?}");
    bench.write("go", "");
    until("both are done", || daemon.records("job").iter().filter(|record| record.state == State::Done).count() == 2);
    daemon.stop();
}

#[test]
fn what_fails_is_tried_again_as_a_new_attempt() {
    let bench = Bench::new();
    let terms = "retries = { most = 3, first = \"10ms\", longest = \"20ms\" }";
    let daemon = Daemon::start(&bench, "echo $LEASEHOLD_ATTEMPT >>tries; [ $LEASEHOLD_ATTEMPT = 3 ]", terms, &[]);
    daemon.trigger();
    let record = daemon.ended("job");
    assert_eq!((record.state, record.attempts), (State::Done, 3));
    assert_eq!(fs::read_to_string(bench.path("tries")).unwrap(), "1\n2\n3\n");
    daemon.stop();
}

/// TERM, then KILL; the lock is given back when the tree is dead, and not before.
#[test]
fn p11_a_job_that_outlasts_the_grace_gets_term_and_then_kill() {
    let bench = Bench::new();
    let script = format!("echo last words; {STUBBORN_TREE}");
    let mut daemon = Daemon::start(&bench, &script, "kill_after = \"300ms\"", &["--grace", "200ms"]);
    daemon.run_stubborn();
    daemon.send(Signal::SIGTERM);
    assert_eq!(code(daemon.wait()), 0, "{}", daemon.log());
    until("nothing is left", || marked(&daemon.mark).is_empty());
    let record = daemon.ended("job");
    assert_eq!((record.state, record.output.as_str()), (State::Stopped, "last words\n"));
    assert!(daemon.is_free());
}

#[test]
fn a_job_that_ends_politely_when_told_to_was_stopped_and_is_not_done() {
    let bench = Bench::new();
    let script = "trap 'echo cleaned up; exit 0' TERM; echo up >up; while :; do sleep 0.01; done";
    let mut daemon = Daemon::start(&bench, script, "", &["--grace", "100ms"]);
    daemon.run();
    daemon.send(Signal::SIGTERM);
    assert_eq!(code(daemon.wait()), 0, "{}", daemon.log());
    let record = daemon.ended("job");
    assert_eq!(record.state, State::Stopped);
    assert!(record.output.contains("cleaned up\n"), "{record:?}");
}

#[test]
fn a_time_limit_ends_the_tree() {
    let bench = Bench::new();
    let script = format!("echo last words; {STUBBORN_TREE}");
    // Longer than the tree takes to grow.
    let daemon = Daemon::start(&bench, &script, "time_limit = \"4s\"\nkill_after = \"200ms\"", &[]);
    daemon.run_stubborn();
    until("the tree is dead", || daemon.job().is_empty());
    let record = daemon.ended("job");
    assert_eq!((record.state, record.output.as_str()), (State::Lost, "last words\n"));
    let reason = record.reason.unwrap();
    assert!(reason.contains("time_limit of 4s"), "{reason}");
    assert!(daemon.is_free());
    daemon.stop();
}

#[test]
fn a_lock_that_is_taken_away_ends_the_tree() {
    let bench = Bench::new();
    let daemon = Daemon::start(&bench, STUBBORN_TREE, "ttl = \"6s\"\nkill_after = \"200ms\"", &[]);
    daemon.run_stubborn();
    bench.run(["release", "job", "--now"]).says(&["is free"]);
    until("the tree is dead", || daemon.job().is_empty());
    assert_eq!(daemon.ended("job").state, State::Lost);
    daemon.stop();
}

/// The warden keeps time a little before the lock does: the job is dead when the loss is told, and has not failed by itself.
#[test]
fn a_store_that_is_away_for_too_long_is_a_loss() {
    let (bench, server) = (Bench::new(), Redis::start());
    let script = "trap 'echo told >term; exit 7' TERM; echo up >up; while :; do sleep 0.01; done";
    let command = serde_json::to_string(&["sh", "-c", script]).unwrap();
    // Told to end, it has time to say so.
    let terms = "ttl = \"6s\"\nkill_after = \"2500ms\"";
    let jobs = format!("[jobs.job]\nevery = \"1s\"\ncommand = {command}\n{terms}\n");
    let mut daemon = Daemon::over(&bench, &server.url(), &jobs, &["--json"]);
    until("the job is up", || bench.path("up").exists());
    server.pause();
    until("the loss is told", || daemon.log().contains("\"event\":\"lost\""));
    assert!(bench.path("term").exists() && daemon.job().is_empty(), "{}", daemon.log());
    assert!(!daemon.log().contains("\"event\":\"failed\""), "{}", daemon.log());
    daemon.send(Signal::SIGKILL);
    daemon.wait();
}

/// A job whose runner can hear of no renewal is ended in time; its lock is fine, and it has not failed.
#[test]
fn a_runner_that_nobody_continues_cannot_let_its_job_outlive_the_lease() {
    let bench = Bench::new();
    let daemon = Daemon::start(&bench, WAITS, "ttl = \"4s\"\nkill_after = \"200ms\"", &[]);
    daemon.run();
    let (nursery, runner) = (daemon.nursery(), daemon.runner());
    for pid in [nursery, runner] {
        send(pid, Signal::SIGSTOP);
        until_stopped(pid);
    }
    until("the job is dead", || daemon.processes("sh").is_empty() && daemon.job().is_empty());
    send(nursery, Signal::SIGCONT);
    send(runner, Signal::SIGCONT);
    let record = daemon.ended("job");
    assert_eq!(record.state, State::Lost, "{record:?}");
    assert!(record.reason.as_deref().unwrap().contains("not renewed in time"), "{record:?}");
    assert!(daemon.is_free());
    daemon.stop();
}

#[test]
fn p05_a_killed_scheduler_takes_its_jobs_along() {
    for _ in 0..3 {
        let bench = Bench::new();
        let mut daemon = Daemon::start(&bench, STUBBORN_TREE, "", &[]);
        daemon.run_stubborn();
        let killed = Instant::now();
        daemon.send(Signal::SIGKILL);
        until("all are dead", || marked(&daemon.mark).is_empty());
        // Long before the lock ends, after 30 s.
        assert!(killed.elapsed() < Duration::from_secs(12), "dead after {:?}", killed.elapsed());
        assert_eq!(code(daemon.wait()), 1009);
    }
}

/// Nobody tells the job's warden of renewals: the tree is dead before another gets the lock, and stays so.
#[test]
fn l08_a_stopped_scheduler_cannot_let_its_job_outlive_the_lease() {
    let bench = Bench::new();
    let script = "trap '' TERM; echo up >up; while :; do echo beat >>beats; sleep 0.01; done";
    let daemon = Daemon::start(&bench, script, "ttl = \"3s\"\nkill_after = \"200ms\"", &[]);
    daemon.run();
    daemon.send(Signal::SIGSTOP);
    let other = "echo other >>beats; sleep 1";
    let mut waiting = bench.command(["run", "job", "-q", "--wait", "--", "sh", "-c", other]);
    let mut waiting = waiting.spawn().unwrap();
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
    assert!(daemon.job().is_empty());
    let beats = fs::read_to_string(bench.path("beats")).unwrap();
    assert!(beats.ends_with("other\n") && beats.contains("beat\n"), "the job ran on beside another");
    assert_eq!(state(daemon.pid()), Some('T'), "it was stopped all the while");
    daemon.send(Signal::SIGCONT);
    let record = daemon.ended("job");
    assert_eq!(record.state, State::Lost, "{record:?}");
    assert_eq!(fs::read_to_string(bench.path("beats")).unwrap(), beats, "it did something after it woke");
    daemon.stop();
}

#[test]
fn a_killed_runner_takes_its_job_along_and_the_lock_is_free_at_once() {
    let bench = Bench::new();
    let daemon = Daemon::start(&bench, STUBBORN_TREE, "ttl = \"1h\"\nkill_after = \"200ms\"", &["--grace", "200ms"]);
    daemon.run_stubborn();
    send(daemon.runner(), Signal::SIGKILL);
    let record = daemon.ended("job");
    assert!(daemon.job().is_empty(), "it is said that it has ended");
    assert_eq!(record.state, State::Lost);
    assert!(record.reason.as_deref().unwrap().contains("our process that ran it was killed"), "{record:?}");
    until("the lock is free", || daemon.is_free());
    daemon.run_stubborn(); // and the scheduler goes on
    daemon.stop();
}

#[test]
fn a_killed_warden_takes_its_job_along_and_the_lock_is_free_at_once() {
    let bench = Bench::new();
    let daemon = Daemon::start(&bench, STUBBORN_TREE, "ttl = \"1h\"", &[]);
    daemon.run_stubborn();
    send(daemon.warden(), Signal::SIGKILL);
    let record = daemon.ended("job");
    assert!(daemon.job().is_empty(), "it is said that it has ended");
    assert_eq!(record.state, State::Lost);
    assert!(record.reason.as_deref().unwrap().contains("our process that watched over it was killed"), "{record:?}");
    until("the lock is free", || daemon.is_free());
    daemon.stop();
}

/// Each run takes some; the jobs are to find the limit that they were given.
#[test]
fn the_scheduler_has_as_many_descriptors_as_it_may() {
    let bench = Bench::new();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, soft.min(200), hard).unwrap();
    let daemon = Daemon::start(&bench, "ulimit -n >limit; echo up >up", "", &[]);
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    daemon.run();
    let limits = fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().nth(3), Some(hard.to_string().as_str()), "{files}");
    assert_eq!(fs::read_to_string(bench.path("limit")).unwrap().trim(), soft.min(200).to_string());
    daemon.stop();
}

/// As where systemd stops all of a service at once, or the kernel is out of memory: the job has not failed.
#[test]
fn what_dies_with_its_runner_is_begun_again_where_it_is_to_run_at_least_once() {
    let script = "echo $LEASEHOLD_ATTEMPT >>begun; [ $(wc -l <begun) -gt 1 ] && exit 0; echo up >up; while :; do sleep 0.01; done";
    type Killed = fn(&Daemon<'_>);
    let ways: [(&str, Killed); 3] = [
        ("TERM to the runner", |daemon| send(daemon.runner(), Signal::SIGTERM)),
        ("KILL to the runner", |daemon| send(daemon.runner(), Signal::SIGKILL)),
        ("KILL to the warden", |daemon| send(daemon.warden(), Signal::SIGKILL)),
    ];
    for (way, kill) in ways {
        let bench = Bench::new();
        let daemon = Daemon::start(&bench, script, "ttl = \"1h\"\nkill_after = \"200ms\"\nat_least_once = true", &[]);
        daemon.run();
        kill(&daemon);
        until("it is done", || daemon.records("job").iter().any(|record| record.state == State::Done));
        let begun = fs::read_to_string(bench.path("begun")).unwrap();
        assert_eq!(begun, "1\n2\n", "{way}: {}", daemon.log());
        assert!(daemon.log().contains("job: lost for "), "{way}: {}", daemon.log());
        daemon.stop();
    }
}

/// Nobody can say that the tree is dead, and it isn't: the lock is kept for as long as a dead machine's.
#[test]
fn with_runner_and_warden_killed_at_once_the_lock_ends_by_itself() {
    let bench = Bench::new();
    let daemon = Daemon::start(&bench, STUBBORN_TREE, "ttl = \"9s\"\nkill_after = \"200ms\"", &[]);
    daemon.run_stubborn();
    let (nursery, runner, warden) = (daemon.nursery(), daemon.runner(), daemon.warden());
    // In this order, or each would be continued by the one before.
    for pid in [nursery, runner, warden] {
        send(pid, Signal::SIGSTOP);
        until_stopped(pid);
    }
    let killed = Instant::now();
    for pid in [warden, runner] {
        send(pid, Signal::SIGKILL);
    }
    send(nursery, Signal::SIGCONT);
    let record = daemon.ended("job");
    assert!(!daemon.job().is_empty(), "or this shows nothing");
    assert!(record.reason.as_deref().unwrap().contains("the lock is left to end by itself"), "{record:?}");
    until("the lock is free", || daemon.is_free());
    // It was renewed after a third of its TTL, last; that may have been late.
    let held = killed.elapsed();
    assert!(held > Duration::from_millis(3500), "held for another {held:?}");
    daemon.job().into_iter().for_each(|pid| send(pid, Signal::SIGKILL)); // nobody else does
    daemon.stop();
}

/// What runs goes on; nothing new can begin, so the scheduler ends and says why.
#[test]
fn a_killed_nursery_ends_the_scheduler_but_not_its_jobs() {
    let bench = Bench::new();
    let mut daemon = Daemon::start(&bench, WAITS, "", &["--grace", "20s"]);
    daemon.run();
    send(daemon.nursery(), Signal::SIGKILL);
    until("it is told", || daemon.log().contains("starts commands"));
    assert!(!daemon.job().is_empty(), "the job goes on");
    bench.write("go", "");
    assert_eq!(code(daemon.wait()), 70, "{}", daemon.log());
    assert_eq!(daemon.ended("job").state, State::Done);
    until("nothing is left", || marked(&daemon.mark).is_empty());
}

#[test]
fn a_nursery_or_a_runner_that_is_stopped_is_continued() {
    let bench = Bench::new();
    let daemon = Daemon::start(&bench, WAITS, "ttl = \"4s\"\nkill_after = \"200ms\"", &[]);
    send(daemon.nursery(), Signal::SIGSTOP);
    until_stopped(daemon.nursery());
    daemon.run();
    let runner = daemon.runner();
    send(runner, Signal::SIGSTOP);
    std::thread::sleep(Duration::from_secs(5)); // longer than the TTL: without it there would be no renewal
    bench.write("go", "");
    assert_eq!(daemon.ended("job").state, State::Done);
    daemon.stop();
}

/// A terminal's Ctrl-C is for the scheduler alone, which lets jobs end.
#[test]
fn a_signal_to_its_process_group_reaches_no_job() {
    let bench = Bench::new();
    let daemon = Daemon::start(&bench, WAITS, "", &["--grace", "20s"]);
    daemon.run();
    let place = |pid: i32| {
        let pid = Some(Pid::from_raw(pid));
        Some((getpgid(pid).ok()?, getsid(pid).ok()?)) // none of one that has ended since
    };
    let (group, session) = place(daemon.pid()).unwrap();
    let others: Vec<i32> = marked(&daemon.mark).into_iter().filter(|pid| *pid != daemon.pid()).collect();
    assert!(others.len() >= 4, "nursery, runner, warden and job: {others:?}");
    for pid in others {
        assert!(place(pid).is_none_or(|other| other.0 != group && other.1 != session), "{}", name(pid));
    }
    bench.write("go", "");
    daemon.stop();
}

#[test]
fn no_secret_of_ours_is_handed_on() {
    let bench = Bench::new();
    let daemon = Daemon::start(&bench, "env >environment; echo up >up", "", &[]);
    daemon.run();
    let environment = fs::read_to_string(bench.path("environment")).unwrap();
    assert!(!environment.contains("secret") && environment.contains("LEASEHOLD_LOCK=job"), "{environment}");
    assert!(ran(&mut bench.bare(["--version"])).code == 0);
    daemon.stop();
}
