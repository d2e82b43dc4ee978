//! What a run comes to, whoever dies, stops or is silent. No store takes part.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid, read};

use super::flight::Flight;
use super::{Launch, Nursery, Order, Outcome, Report, Tell, Watched};
use crate::warden::tests::{alone, in_seconds};
use crate::warden::{Cut, Due, Found};

const LIMIT: Duration = Duration::from_secs(20);

/// A job of six processes that ignore TERM, some in sessions of their own.
const STUBBORN: &str = "trap '' TERM; sleep 1001 & (setsid sh -c 'sleep 1002 & wait' &); (sleep 1003 & wait) & wait";
const MEMBERS: usize = 6;

/// A nursery, the runtime of its scheduler, and a directory.
struct Bench {
    directory: tempfile::TempDir,
    nursery: Nursery,
    runtime: tokio::runtime::Runtime,
}

/// Runs `test` in a process of its own, for a nursery is forked before any thread.
fn with_nursery(test: impl FnOnce(Bench)) {
    let directory = tempfile::tempdir().unwrap();
    alone(|| {
        let nursery = Nursery::fork(Found::read().unwrap()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        test(Bench { directory, nursery, runtime });
    });
}

impl Bench {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn order(&self, script: &str) -> Order {
        Order {
            argv: ["sh", "-c", script].map(Into::into).to_vec(),
            remove: vec![],
            set: vec![],
            dir: Some(self.directory.path().into()),
            kill_after: Duration::from_millis(300),
            wait_group: false,
            due: Due { term_at: in_seconds(100), kill_at: in_seconds(100) },
        }
    }

    fn launch(&self, order: &Order) -> Launch {
        self.runtime.block_on(self.nursery.launch(order, None)).unwrap()
    }

    fn ended(&self, flight: &mut Flight) -> Outcome {
        let ended = async { tokio::time::timeout(LIMIT, flight.ended()).await.expect("it ends") };
        self.runtime.block_on(ended)
    }

    /// What a run comes to.
    fn outcome(&self, order: &Order) -> Outcome {
        self.ended(&mut self.launch(order).flight)
    }

    /// What it reports, and what it wrote to stdout, which fits in a pipe.
    fn ran(&self, order: &Order, stdin: Option<&[u8]>) -> (Report, String) {
        let mut launch = self.runtime.block_on(self.nursery.launch(order, stdin)).unwrap();
        let Outcome::Reported(report) = self.ended(&mut launch.flight) else { panic!("no report") };
        (report, content(&launch.stdout))
    }

    fn nursery(&self) -> i32 {
        children(getpid().as_raw())[0]
    }

    /// The only runner.
    fn runner(&self) -> i32 {
        let runners = children(self.nursery());
        runners.into_iter().find(|pid| name(*pid) == "leasehold-run").expect("there is a runner")
    }

    fn warden(&self) -> i32 {
        children(self.runner())[0]
    }

    /// A job that does not end by itself, once all of it is there.
    fn stubborn(&self) -> (Launch, Vec<i32>) {
        let launch = self.launch(&self.order(STUBBORN));
        let mut job = Vec::new();
        until("the job is there", || {
            job = descendants(self.nursery());
            job.retain(|pid| !name(*pid).starts_with("leasehold"));
            job.len() == MEMBERS && job.iter().filter(|pid| name(**pid) == "sleep").count() == 3
        });
        (launch, job)
    }
}

#[track_caller]
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "waited in vain until {what}");
        sleep(Duration::from_millis(1));
    }
}

fn send(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

fn name(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// State and parent of every process that is not a zombie.
fn processes() -> BTreeMap<i32, (char, i32)> {
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let look = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut rest = stat.rsplit_once(") ")?.1.split(' ');
        Some((pid, (rest.next()?.chars().next()?, rest.next()?.parse().ok()?)))
    };
    pids.filter_map(look).filter(|(_, (state, _))| *state != 'Z').collect()
}

fn children(pid: i32) -> Vec<i32> {
    processes().into_iter().filter(|(_, (_, parent))| *parent == pid).map(|(pid, _)| pid).collect()
}

fn descendants(pid: i32) -> Vec<i32> {
    children(pid).into_iter().flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}

fn alive(pids: &[i32]) -> Vec<i32> {
    let processes = processes();
    pids.iter().copied().filter(|pid| processes.contains_key(pid)).collect()
}

fn is_stopped(pid: i32) -> bool {
    processes().get(&pid).is_some_and(|(state, _)| *state == 'T')
}

fn descriptors(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

fn content(pipe: &Watched) -> String {
    let mut text = vec![0; 64 * 1024];
    let length = read(pipe.get(), &mut text).unwrap_or(0);
    String::from_utf8(text[..length].to_vec()).unwrap()
}

fn lines(file: &Path) -> usize {
    fs::read_to_string(file).unwrap_or_default().lines().count()
}

/// Other runs give theirs back: it has not failed.
#[test]
fn a_launch_waits_for_descriptors() {
    with_nursery(|bench| {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, 3, hard).unwrap();
        let order = bench.order("true");
        let launch =
            async { tokio::time::timeout(Duration::from_millis(100), bench.nursery.launch(&order, None)).await };
        assert!(bench.runtime.block_on(launch).is_err(), "it waits");
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
        assert_eq!(bench.outcome(&order), Outcome::Reported(Report::Exited(0)));
    });
}

#[test]
fn a_run_ends_as_its_command_does() {
    with_nursery(|bench| {
        let at = |script: &str| bench.ran(&bench.order(script), None).0;
        assert_eq!(at("exit 0"), Report::Exited(0));
        assert_eq!(at("exit 255"), Report::Exited(255));
        assert_eq!(at("kill -SEGV $$"), Report::Signaled(libc::SIGSEGV));
        assert_eq!(at("kill -35 $$"), Report::Signaled(35));
    });
}

#[test]
fn what_cannot_be_started_says_why() {
    with_nursery(|bench| {
        let told = |order: Order| {
            let report = bench.ran(&order, None).0;
            assert!(!report.was_started(), "{report:?}");
            report.result().unwrap_err()
        };
        let order = || bench.order("echo ran >ran");
        let missing = "can't be started: No such file or directory";
        assert_eq!(told(Order { argv: vec!["/nowhere/program".into()], ..order() }), missing);
        assert_eq!(told(Order { argv: vec!["/etc/passwd".into()], ..order() }), "can't be started: Permission denied");
        assert!(told(Order { argv: vec![], ..order() }).starts_with("can't be started"));
        assert!(told(Order { argv: vec!["a\0b".into()], ..order() }).starts_with("can't be started"));
        let elsewhere = told(Order { dir: Some("/nowhere".into()), ..order() });
        assert_eq!(elsewhere, "can't be started in /nowhere: No such file or directory");
        let set = vec![("A=B".into(), "1".into())];
        assert!(told(Order { set, ..order() }).contains("no environment can hold the variable \"A=B\""));
        let due = Due { term_at: 1, kill_at: 1 };
        assert_eq!(told(Order { due, ..order() }), "not started: its lock was not renewed in time");
        assert!(!bench.path("ran").exists());
    });
}

#[test]
fn a_job_gets_what_was_ordered_and_nothing_else() {
    with_nursery(|bench| {
        let script = "echo $A-$B-${HOME-none}; pwd -P; cat; ls -m /proc/$$/fd; cut -d' ' -f5,7 /proc/$$/stat; echo $$";
        let order = Order {
            set: vec![("A".into(), "1".into()), ("B".into(), "x".repeat(200_000).into()), ("B".into(), "2".into())],
            remove: vec!["HOME".into()],
            ..bench.order(script)
        };
        let (report, written) = bench.ran(&order, Some(b"read me\n"));
        assert_eq!(report, Report::Exited(0));
        let lines: Vec<&str> = written.lines().collect();
        let directory = bench.directory.path().canonicalize().unwrap();
        assert_eq!(lines[..4], ["1-2-none", directory.to_str().unwrap(), "read me", "0, 1, 2"]);
        assert_eq!(lines[4], format!("{} 0", lines[5]), "a group of its own, and no terminal");
        assert_eq!(bench.ran(&bench.order("cat; readlink /proc/$$/fd/0"), None).1, "/dev/null\n");
        assert_eq!(
            bench.ran(&Order { set: vec![("PATH".into(), "/nowhere".into())], ..bench.order("true") }, None).0,
            Report::NotStarted("can't be started: No such file or directory".into()),
            "programs are looked for along the PATH that was ordered"
        );
        let long = "y".repeat(100_000);
        let stdin: Vec<u8> = long.bytes().chain(*b"\n").cycle().take(3_000_000).collect();
        assert_eq!(bench.ran(&bench.order("wc -c"), Some(&stdin)).1.trim(), "3000000");
    });
}

#[test]
fn five_hundred_runs_leave_nothing_behind() {
    with_nursery(|bench| {
        assert_eq!(bench.outcome(&bench.order("true")), Outcome::Reported(Report::Exited(0)));
        let ours = getpid().as_raw();
        until("the first is gone", || children(bench.nursery()).is_empty());
        let before = (descriptors(ours), descriptors(bench.nursery()));
        for _ in 0..25 {
            let script = "(setsid sh -c 'exit 1' &); echo $$; exit 3";
            let mut launches: Vec<_> = (0..20).map(|_| bench.launch(&bench.order(script))).collect();
            for launch in &mut launches {
                assert_eq!(bench.ended(&mut launch.flight), Outcome::Reported(Report::Exited(3)));
            }
        }
        until("all are gone", || children(bench.nursery()).is_empty());
        assert_eq!((descriptors(ours), descriptors(bench.nursery())), before);
    });
}

#[test]
fn without_news_of_a_renewal_the_job_ends_in_time() {
    with_nursery(|bench| {
        let in_ms = |ms: u64| in_seconds(0) + ms * 1_000_000;
        let script = "trap 'echo told >term' TERM; while :; do echo >>beats; sleep 0.01; done";
        let due = Due { term_at: in_ms(400), kill_at: in_ms(700) };
        let began = Instant::now();
        let mut launch = bench.launch(&Order { due, ..bench.order(script) });
        until("it runs", || lines(&bench.path("beats")) > 0);
        launch.flight.tell(Tell::Until(Due { term_at: in_ms(1000), kill_at: in_ms(1300) }));
        let renewed = Instant::now();
        assert_eq!(bench.ended(&mut launch.flight), Outcome::Reported(Report::Cut(Cut::Deadline)));
        assert!(renewed.elapsed() < Duration::from_millis(1600), "{:?}", renewed.elapsed());
        assert!(began.elapsed() > Duration::from_millis(1200), "{:?}", began.elapsed());
        assert_eq!(lines(&bench.path("term")), 1);
    });
}

#[test]
fn told_to_end_it_gets_term_and_then_kill() {
    with_nursery(|bench| {
        for (why, script) in [(Cut::Stopped, "trap 'exit 0' TERM"), (Cut::Lost, "trap '' TERM")] {
            let up = bench.path("up");
            let mut launch = bench.launch(&bench.order(&format!("{script}; echo >up; while :; do sleep 0.01; done")));
            until("it runs", || up.exists());
            launch.flight.tell(Tell::End(why));
            launch.flight.tell(Tell::End(Cut::MaxHold)); // the first word counts
            assert_eq!(bench.ended(&mut launch.flight), Outcome::Reported(Report::Cut(why)));
            fs::remove_file(up).unwrap();
        }
    });
}

#[test]
fn killed_at_once_it_gets_no_grace() {
    with_nursery(|bench| {
        let order =
            Order { kill_after: LIMIT * 10, ..bench.order("trap '' TERM; echo >up; while :; do sleep 0.01; done") };
        let mut launch = bench.launch(&order);
        until("it runs", || bench.path("up").exists());
        launch.flight.tell(Tell::End(Cut::Stopped));
        launch.flight.tell(Tell::Kill(Cut::Stopped));
        assert_eq!(bench.ended(&mut launch.flight), Outcome::Reported(Report::Cut(Cut::Stopped)));
    });
}

#[test]
fn told_to_end_before_the_start_it_is_not_started() {
    with_nursery(|bench| {
        send(bench.nursery(), Signal::SIGSTOP);
        until("it is stopped", || is_stopped(bench.nursery()));
        let mut launch = bench.launch(&bench.order("echo >ran"));
        launch.flight.tell(Tell::End(Cut::Stopped));
        bench.nursery.carry_on();
        assert_eq!(bench.ended(&mut launch.flight), Outcome::Reported(Report::TooLate(Cut::Stopped)));
        assert!(!bench.path("ran").exists());
    });
}

#[test]
fn a_dropped_flight_kills_its_job_before_the_drop_comes_back() {
    with_nursery(|bench| {
        let (launch, job) = bench.stubborn();
        drop(launch);
        assert_eq!(alive(&job), Vec::<i32>::new());
        until("the runner is gone", || children(bench.nursery()).is_empty());
    });
}

#[test]
fn a_killed_runner_takes_its_job_along_and_the_warden_says_so() {
    with_nursery(|bench| {
        for _ in 0..5 {
            let (mut launch, job) = bench.stubborn();
            send(bench.runner(), Signal::SIGKILL);
            assert_eq!(bench.ended(&mut launch.flight), Outcome::Lost { begun: true, is_over: true });
            assert_eq!(alive(&job), Vec::<i32>::new(), "it was said that nothing is at work");
        }
        until("all are gone", || children(bench.nursery()).is_empty());
    });
}

#[test]
fn a_killed_warden_takes_its_job_along() {
    with_nursery(|bench| {
        for _ in 0..5 {
            let (mut launch, job) = bench.stubborn();
            send(bench.warden(), Signal::SIGKILL);
            let lost = Report::WardenLost { started: true };
            assert_eq!(bench.ended(&mut launch.flight), Outcome::Reported(lost));
            assert_eq!(alive(&job), Vec::<i32>::new());
        }
    });
}

/// Nobody is left who knows the tree: then nothing is claimed of it.
#[test]
fn with_runner_and_warden_killed_at_once_nobody_says_that_it_is_over() {
    with_nursery(|bench| {
        let (mut launch, job) = bench.stubborn();
        let (runner, warden) = (bench.runner(), bench.warden());
        // In this order, or each would be continued by the one before.
        for pid in [bench.nursery(), runner, warden] {
            send(pid, Signal::SIGSTOP);
            until("it is stopped", || is_stopped(pid));
        }
        for pid in [warden, runner] {
            send(pid, Signal::SIGKILL);
        }
        bench.nursery.carry_on();
        let outcome = bench.ended(&mut launch.flight);
        let left = alive(&job);
        for pid in &left {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL); // Some go along with others.
        }
        assert_eq!(outcome, Outcome::Lost { begun: true, is_over: false });
        assert!(!left.is_empty(), "or this shows nothing");
    });
}

#[test]
fn a_run_goes_on_without_the_nursery_and_nothing_new_begins() {
    with_nursery(|bench| {
        let mut launch = bench.launch(&bench.order("echo >up; until [ -e go ]; do sleep 0.01; done; exit 4"));
        until("it runs", || bench.path("up").exists());
        send(bench.nursery(), Signal::SIGKILL);
        bench.runtime.block_on(async { tokio::time::timeout(LIMIT, bench.nursery.died()).await.expect("it is seen") });
        let refused = bench.runtime.block_on(bench.nursery.launch(&bench.order("echo >ran"), None)).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPIPE), "{refused}");
        fs::write(bench.path("go"), "").unwrap();
        assert_eq!(bench.ended(&mut launch.flight), Outcome::Reported(Report::Exited(4)));
        assert!(!bench.path("ran").exists());
    });
}

#[test]
fn a_nursery_killed_with_an_order_in_its_hands_has_begun_nothing() {
    with_nursery(|bench| {
        send(bench.nursery(), Signal::SIGSTOP);
        until("it is stopped", || is_stopped(bench.nursery()));
        let mut launch = bench.launch(&bench.order("echo >ran"));
        send(bench.nursery(), Signal::SIGKILL);
        assert_eq!(bench.ended(&mut launch.flight), Outcome::Lost { begun: false, is_over: false });
        assert!(!bench.path("ran").exists());
    });
}

#[test]
fn a_stopped_runner_is_continued() {
    with_nursery(|bench| {
        let mut launch = bench.launch(&bench.order("echo >up; until [ -e go ]; do sleep 0.01; done"));
        until("it runs", || bench.path("up").exists());
        let runner = bench.runner();
        for _ in 0..20 {
            send(runner, Signal::SIGSTOP);
            until("the runner is continued", || !is_stopped(runner));
        }
        fs::write(bench.path("go"), "").unwrap();
        assert_eq!(bench.ended(&mut launch.flight), Outcome::Reported(Report::Exited(0)));
    });
}

#[test]
fn a_signal_to_the_runner_is_the_jobs_and_no_success() {
    with_nursery(|bench| {
        let mut launch = bench.launch(&bench.order("trap 'exit 0' TERM; echo >up; while :; do sleep 0.01; done"));
        until("it runs", || bench.path("up").exists());
        send(bench.runner(), Signal::SIGTERM);
        let interrupted = Report::Interrupted { signal: libc::SIGTERM, started: true };
        assert_eq!(bench.ended(&mut launch.flight), Outcome::Reported(interrupted));
    });
}

#[test]
fn what_a_job_leaves_alone_lives_on_and_what_a_crash_leaves_does_not() {
    with_nursery(|bench| {
        let daemon = "sleep 1000 & echo $! >daemon;";
        let left = || fs::read_to_string(bench.path("daemon")).unwrap().trim().parse::<i32>().unwrap();
        assert_eq!(bench.outcome(&bench.order(&format!("{daemon} exit 5"))), Outcome::Reported(Report::Exited(5)));
        assert_eq!(alive(&[left()]).len(), 1);
        send(left(), Signal::SIGKILL);
        let crash = Outcome::Reported(Report::Signaled(libc::SIGSEGV));
        assert_eq!(bench.outcome(&bench.order(&format!("{daemon} kill -SEGV $$"))), crash);
        assert_eq!(alive(&[left()]), Vec::<i32>::new());
        let order = Order { wait_group: true, ..bench.order("(sleep 0.3; echo >late) & exit 6") };
        assert_eq!(bench.outcome(&order), Outcome::Reported(Report::Exited(6)));
        assert!(bench.path("late").exists());
    });
}

/// Nothing but the job's own processes keeps its pipes open: the end of its output is its end.
#[test]
fn its_output_ends_with_the_job() {
    with_nursery(|bench| {
        let mut launch = bench.launch(&bench.order("exec >&- 2>&-; echo >up; until [ -e go ]; do sleep 0.01; done"));
        until("it runs", || bench.path("up").exists());
        let mut byte = [0];
        until("stdout has ended", || read(launch.stdout.get(), &mut byte) == Ok(0));
        until("stderr has ended", || read(launch.stderr.get(), &mut byte) == Ok(0));
        fs::write(bench.path("go"), "").unwrap();
        assert_eq!(bench.ended(&mut launch.flight), Outcome::Reported(Report::Exited(0)));
        assert!(launch.flight.socket().as_raw_fd() > 2);
    });
}
