//! Tests with several processes: the test binary runs itself again as a worker.
//!
//! A file of tests has one test that is the workers' way in; run by itself it does nothing:
//!
//! ```no_run
//! use std::time::Duration;
//! use leasehold_testkit::process::{self, Worker};
//!
//! // #[test]
//! fn worker() {
//!     process::serve(&[("hold", hold)]);
//! }
//!
//! fn hold() {
//!     let url = process::argument("STORE");
//!     // … take the lock …
//!     process::say("held");
//!     std::thread::sleep(Duration::from_secs(600));
//! }
//!
//! // #[test]
//! fn a_killed_holder_leaves_the_lock_for_its_ttl() {
//!     let mut worker = Worker::start("worker", "hold", &[("STORE", "sqlite:///tmp/x.db")]);
//!     worker.hear("held", Duration::from_secs(10));
//!     worker.kill();
//!     // …
//! }
//! ```

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Names the worker's function to the test binary that runs again.
const WORKER: &str = "LEASEHOLD_TESTKIT_WORKER";
const ARGUMENT: &str = "LEASEHOLD_TESTKIT_ARGUMENT_";
/// Tells what a worker says from what the test harness prints.
const SAID: &str = "worker says: ";

/// The body of the test that is the workers' way in: runs the function that the parent has named, or nothing.
///
/// # Panics
/// If the parent has named another function.
pub fn serve(functions: &[(&str, fn())]) {
    let Ok(wanted) = std::env::var(WORKER) else { return };
    let function = functions.iter().find(|(name, _)| *name == wanted);
    function.unwrap_or_else(|| panic!("no worker is called {wanted:?}")).1();
}

/// In a worker: what the parent gave it under this name.
///
/// # Panics
/// If it gave none.
#[must_use]
pub fn argument(name: &str) -> String {
    std::env::var(format!("{ARGUMENT}{name}")).unwrap_or_else(|_| panic!("the worker was given no {name}"))
}

/// In a worker: says a line to the parent.
///
/// # Panics
/// If the parent is gone.
pub fn say(line: &str) {
    // Past the harness, which captures what is printed; in one write, so that lines stay whole.
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{SAID}{line}\n").as_bytes()).and_then(|()| out.flush()).expect("the parent listens");
}

/// Another process of this test binary. Killed when dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    said: Receiver<String>,
}

impl Worker {
    /// Runs this test binary again as a worker: the test `entry`, by its full name (`module::worker`), calls
    /// [`serve`], which calls `function`.
    ///
    /// # Panics
    /// If the process can't be started.
    #[must_use]
    pub fn start(entry: &str, function: &str, arguments: &[(&str, &str)]) -> Self {
        let this = std::env::current_exe().expect("this binary has a path");
        let mut child = Command::new(this)
            .args(["--exact", entry, "--nocapture", "--test-threads=1", "--include-ignored"])
            .env(WORKER, function)
            .envs(arguments.iter().map(|(name, value)| (format!("{ARGUMENT}{name}"), value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this binary can be started");
        let said = listen(child.stdout.take().expect("it is piped"));
        Self { child, said }
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has said a line that starts with `start`; answers the rest of it.
    ///
    /// # Panics
    /// If it doesn't within `limit`, or ends before.
    pub fn hear(&mut self, start: &str, limit: Duration) -> String {
        let deadline = Instant::now() + limit;
        loop {
            match self.said.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(start) {
                        return rest.trim_start().to_owned();
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("the worker did not say {start:?} within {limit:?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("the worker ended without saying {start:?}"),
            }
        }
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it doesn't end within `limit`.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let mut status = None;
        eventually("the worker ends", limit, || {
            status = self.child.try_wait().expect("it is our child");
            status.is_some()
        });
        status.expect("it has ended")
    }

    /// Waits for its end, which must be a good one.
    ///
    /// # Panics
    /// If it doesn't end within `limit`, or failed.
    pub fn succeeds(&mut self, limit: Duration) {
        let status = self.wait(limit);
        assert!(status.success(), "the worker failed: {status}");
    }

    /// Ends it like `kill -9` and waits until it is gone.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Stops it, as a suspended machine would be.
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("process ids fit");
        kill(Pid::from_raw(id), signal).expect("it is our child and not waited for yet");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Hands on what the worker says; the rest of its output goes where the tests' own goes.
fn listen(output: ChildStdout) -> Receiver<String> {
    let (sender, said) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            match line.strip_prefix(SAID) {
                // Nobody may be listening any more.
                Some(line) => drop(sender.send(line.to_owned())),
                None => println!("{line}"),
            }
        }
    });
    said
}

/// Looks every 5 ms until `condition` holds.
///
/// # Panics
/// If it doesn't within `limit`; says `what` was waited for.
pub fn eventually(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        std::thread::sleep(LOOK);
    }
}

/// [`eventually`] for an asynchronous condition, in Tokio's time.
///
/// # Panics
/// If it doesn't hold within `limit`; says `what` was waited for.
pub async fn eventually_async(what: &str, limit: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + limit;
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "not within {limit:?}: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

const LOOK: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn worker() {
        serve(&[("greet", greet), ("hang", hang), ("fail", || panic!("as it was told"))]);
    }

    fn greet() {
        say(&format!("hello {}", argument("WHOM")));
    }

    fn hang() {
        say("hanging");
        std::thread::sleep(Duration::from_secs(600));
    }

    fn start(function: &str) -> Worker {
        Worker::start("process::tests::worker", function, &[("WHOM", "world")])
    }

    fn state_of(id: u32) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        stat.rsplit(')').next()?.trim_start().chars().next()
    }

    #[test]
    fn a_worker_is_another_process_that_says_something_and_ends_well() {
        let mut worker = start("greet");
        assert_ne!(worker.id(), std::process::id());
        assert_eq!(worker.hear("hello", SOON), "world");
        worker.succeeds(SOON);
    }

    #[test]
    fn a_worker_that_panics_has_failed() {
        assert!(!start("fail").wait(SOON).success());
    }

    #[test]
    fn a_worker_dies_with_the_test() {
        let mut worker = start("hang");
        worker.hear("hanging", SOON);
        let id = worker.id();
        drop(worker);
        assert_eq!(state_of(id), None);
    }

    #[test]
    fn a_worker_can_be_stopped_and_go_on() {
        let mut worker = start("hang");
        worker.hear("hanging", SOON);
        worker.pause();
        eventually("it is stopped", SOON, || state_of(worker.id()) == Some('T'));
        worker.resume();
        eventually("it is not", SOON, || state_of(worker.id()) == Some('S'));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_in_paused_time_takes_none() {
        let start = tokio::time::Instant::now();
        eventually_async("a minute is over", SOON * 10, async || start.elapsed() > Duration::from_secs(60)).await;
    }

    #[test]
    #[should_panic(expected = "not within 20ms: pigs fly")]
    fn what_does_not_happen_is_told() {
        eventually("pigs fly", Duration::from_millis(20), || false);
    }
}
