//! What the tests share: a lease in a store of its own, a running `leasehold run`, and a look at its processes.

use std::{
    env, fs,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

/// The variable by which a run's processes are found, wherever they end up.
pub const MARK: &str = "WARDEN_TEST_MARK";

/// More than anything takes on a loaded machine.
pub const LIMIT: Duration = Duration::from_secs(20);

/// A job of 22 processes that ignore TERM, INT and HUP: three levels deep, with daemons in sessions of their own.
pub const STUBBORN_TREE: &str = r#"
    trap '' TERM INT HUP
    for i in 1 2 3; do
        (sleep 1001 & (sleep 1002 & sleep 1003 & wait) & wait) &
        (setsid sh -c 'sleep 1004 & wait' &)
    done
    wait
    sleep 1000
"#;

/// How many processes [`STUBBORN_TREE`] has.
pub const STUBBORN: usize = 22;

/// How often a loop that hunts for a race goes round.
pub fn rounds() -> u32 {
    if env::var_os("LEASEHOLD_LONG").is_some() { 1000 } else { 50 }
}

/// Waits until `condition` holds, and says how long it took.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(2));
    }
    start.elapsed()
}

/// A lock in a store that nobody else uses.
pub struct Lease {
    directory: TempDir,
}

impl Lease {
    pub fn new() -> Lease {
        Lease { directory: tempfile::tempdir().unwrap() }
    }

    /// A file in the test's directory, which the job finds as `$DIR`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What the job wrote to a file, or nothing.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// Waits until the job has written `text` to a file.
    #[track_caller]
    pub fn until_written(&self, name: &str, text: &str) {
        until(&format!("{name} contains {text:?}"), || self.read(name).contains(text));
    }

    /// Takes the store away from under the holder: the lease is lost.
    pub fn lose_store(&self) {
        fs::rename(self.file("store"), self.file("store-away")).unwrap();
    }

    /// Whether nobody holds the lock.
    pub fn is_free(&self) -> bool {
        self.run().sh("exit 0").finish().code() == Some(0)
    }

    /// `leasehold run`, to be given a job.
    pub fn run(&self) -> Wrapped<'_> {
        Wrapped { lease: self, store: "store", ttl: "30s", grace: "300ms", options: Vec::new(), outer: None }
    }
}

/// A `leasehold run` that is being put together.
#[derive(Clone)]
pub struct Wrapped<'a> {
    lease: &'a Lease,
    store: &'a str,
    ttl: &'a str,
    grace: &'a str,
    options: Vec<&'a str>,
    outer: Option<&'a str>,
}

impl<'a> Wrapped<'a> {
    /// The store's file, in the test's directory.
    pub fn store(mut self, store: &'a str) -> Self {
        self.store = store;
        self
    }

    pub fn ttl(mut self, ttl: &'a str) -> Self {
        self.ttl = ttl;
        self
    }

    pub fn grace(mut self, grace: &'a str) -> Self {
        self.grace = grace;
        self
    }

    pub fn option(mut self, option: &'a str) -> Self {
        self.options.extend(option.split(' '));
        self
    }

    /// Has a shell run it: `$RUN` stands for the whole command line in this script.
    pub fn inside(mut self, script: &'a str) -> Self {
        self.outer = Some(script);
        self
    }

    /// The job is a shell script.
    pub fn sh(&self, script: &str) -> Prepared {
        self.command(&["sh", "-c", script])
    }

    /// The job is a command.
    pub fn command(&self, job: &[&str]) -> Prepared {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let store = format!("sqlite://{}", self.lease.file(self.store).display());
        let run = ["run", "job", "--store", &store, "--ttl", self.ttl, "--kill-after", self.grace];
        let all = [env!("CARGO_BIN_EXE_leasehold")].iter().chain(&run).chain(&self.options).chain(&["--"]).chain(job);
        let all: Vec<&str> = all.copied().collect();
        let mut command = Command::new(if self.outer.is_some() { "bash" } else { all[0] });
        match self.outer {
            Some(script) => command.args(["-c", &script.replace("$RUN", r#""$@""#), "outer"]).args(&all),
            None => command.args(&all[1..]),
        };
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        command.env(MARK, &mark).env("DIR", self.lease.directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Prepared { command, mark }
    }
}

/// A command about to be started.
pub struct Prepared {
    pub command: Command,
    pub mark: String,
}

impl Prepared {
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Does something in the new process before it becomes `leasehold`.
    pub fn before_exec(mut self, act: fn()) -> Self {
        // SAFETY: what the tests do here are plain system calls.
        #[expect(unsafe_code, reason = "runs between fork and exec")]
        unsafe {
            self.command.pre_exec(move || {
                act();
                Ok(())
            });
        }
        self
    }

    pub fn start(mut self) -> Running {
        Running { child: self.command.spawn().unwrap(), mark: self.mark }
    }

    pub fn finish(self) -> ExitStatus {
        self.start().wait()
    }

    pub fn output(mut self) -> Output {
        self.command.output().unwrap()
    }
}

/// A running `leasehold run`. When dropped, whatever is left of it is killed.
pub struct Running {
    pub child: Child,
    mark: String,
}

impl Running {
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Every living process of this run: wrapper, warden and job.
    pub fn processes(&self) -> Vec<i32> {
        marked(&self.mark)
    }

    /// The warden: the wrapper's only child.
    pub fn warden(&self) -> Option<i32> {
        self.warden_and_job().0
    }

    /// The job's living processes.
    pub fn job(&self) -> Vec<i32> {
        self.warden_and_job().1
    }

    /// From one look: between two, the warden might be born and be taken for the job.
    fn warden_and_job(&self) -> (Option<i32>, Vec<i32>) {
        let mut others = self.processes();
        others.retain(|pid| *pid != self.pid());
        let warden = others.iter().copied().find(|pid| parent_of(*pid) == Some(self.pid()));
        others.retain(|pid| Some(*pid) != warden);
        (warden, others)
    }

    /// The direct child of the warden.
    pub fn job_leader(&self) -> i32 {
        let (warden, job) = self.warden_and_job();
        job.into_iter().find(|pid| parent_of(*pid) == warden).expect("the job has a leader")
    }

    #[track_caller]
    pub fn until_job_has(&self, count: usize) {
        until(&format!("the job has {count} processes"), || self.job().len() == count);
    }

    /// Waits until the job has come to its `sleep`. A shell that is just forking one may lose what ends it, with us and
    /// without: the new process has the shell's handlers still, and takes the signal for its own.
    #[track_caller]
    pub fn until_asleep(&self) {
        until("a sleep runs", || self.job().into_iter().any(is_sleep));
    }

    /// Waits until nothing is left but the wrapper; says how long it took.
    #[track_caller]
    pub fn until_job_is_dead(&self) -> Duration {
        until("the job is dead", || self.job().is_empty())
    }

    /// Waits until nothing at all is left; says how long it took.
    #[track_caller]
    pub fn until_all_dead(&self) -> Duration {
        until("all are dead", || self.processes().is_empty())
    }

    pub fn send(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Waits for the wrapper.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        until("the wrapper ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Waits for the wrapper; its code, or 1000 + n where signal n ended it.
    #[track_caller]
    pub fn code(&mut self) -> i32 {
        code(self.wait())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        kill_marked(&self.mark);
    }
}

/// An exit code, or 1000 + n where signal n ended the process.
pub fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 1000 + signal)).unwrap()
}

pub fn send(pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}

/// The living processes that carry a mark.
pub fn marked(mark: &str) -> Vec<i32> {
    let wanted = format!("{MARK}={mark}").into_bytes();
    pids()
        .filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
                && state(*pid).is_some_and(|state| state != 'Z')
        })
        .collect()
}

pub fn kill_marked(mark: &str) {
    for pid in marked(mark) {
        send(pid, Signal::SIGKILL);
    }
}

/// All processes.
pub fn pids() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A field of /proc/PID/stat, counted from the state as 0.
fn stat(pid: i32, field: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(field).map(str::to_owned)
}

/// `R`unning, `S`leeping, s`T`opped, `Z`ombie …
pub fn state(pid: i32) -> Option<char> {
    stat(pid, 0)?.chars().next()
}

/// Whether this is a `sleep`, no shell that is about to be one.
pub fn is_sleep(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
}

pub fn parent_of(pid: i32) -> Option<i32> {
    stat(pid, 1)?.parse().ok()
}

/// Clock ticks of CPU that a process has used.
pub fn ticks(pid: i32) -> u64 {
    [11, 12].into_iter().map(|field| stat(pid, field).unwrap().parse::<u64>().unwrap()).sum()
}

/// Waits without giving the processor away.
pub fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// To be done before exec: a process group of its own, in the session of the test.
pub fn own_group() {
    let zero = Pid::from_raw(0);
    nix::unistd::setpgid(zero, zero).unwrap();
}

#[track_caller]
pub fn until_stopped(pid: i32) {
    until("the process is stopped", || state(pid) == Some('T'));
}
