//! A server's process.

use std::fs::File;
use std::os::unix::process::{CommandExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::process::eventually;

const SOON: Duration = Duration::from_secs(20);

/// A running server. Killed when dropped, and by the kernel when this process dies.
#[derive(Debug)]
pub(super) struct Program {
    child: Child,
    paused: bool,
}

impl Program {
    /// Starts it; what it prints goes to the file `log`.
    pub(super) fn start(mut command: Command, log: &Path) -> Self {
        let output = File::create(log).expect("the log can be written");
        command.stdin(Stdio::null()).stderr(output.try_clone().expect("files can be shared")).stdout(output);
        die_with_us(&mut command);
        let name = command.get_program().to_owned();
        let child = spawn(command).unwrap_or_else(|error| panic!("{} can't be started: {error}", name.display()));
        Self { child, paused: false }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did by itself.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Stops it; when this returns, it does nothing any more.
    pub(super) fn pause(&mut self) {
        self.signal(Signal::SIGSTOP);
        self.paused = true;
        eventually("the server is stopped", SOON, || self.threads_are_stopped());
    }

    pub(super) fn resume(&mut self) {
        self.paused = false;
        self.signal(Signal::SIGCONT);
    }

    /// Has it end by itself, for a server to which SIGQUIT means that. Perhaps it doesn't, within two seconds.
    pub(super) fn quit(&mut self) {
        if self.ended().is_some() {
            return;
        }
        self.signal(Signal::SIGQUIT);
        self.resume();
        let asked = Instant::now();
        while self.ended().is_none() && asked.elapsed() < Duration::from_secs(2) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.id()).expect("process ids fit");
        kill(Pid::from_raw(id), signal).expect("it is our child and not waited for yet");
    }

    fn threads_are_stopped(&self) -> bool {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.id())) else { return true };
        threads.flatten().all(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // After the name, which may hold anything. A thread without a state is gone.
            stat.rsplit(')').next().is_none_or(|rest| rest.trim_start().chars().next().is_none_or(|state| state == 'T'))
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where the program is: on the PATH, or where Debian keeps servers.
pub(super) fn find(name: &str, package: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let found = folders.map(|folder| folder.join(name)).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("there is no {name}: install Debian's package {package}, or run scripts/servers"))
}

/// Has the kernel kill the server when the thread that starts it ends.
fn die_with_us(command: &mut Command) {
    let us = std::process::id();
    let prepare = move || {
        set_pdeathsig(Signal::SIGKILL)?;
        // Had we died before that, nobody would have told it.
        if parent_id() == us { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    #[expect(unsafe_code, reason = "two system calls that are safe between fork and exec")]
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Starts a process from a thread that lives as long as this process: to the kernel the *thread* is the parent whose
/// death it tells, and that of a test ends with the test, while its servers may be shared with others.
fn spawn(command: Command) -> io::Result<Child> {
    type Order = (Command, Sender<io::Result<Child>>);
    static PARENT: LazyLock<Mutex<Sender<Order>>> = LazyLock::new(|| {
        let (sender, orders) = channel::<Order>();
        let serve = move || {
            for (mut command, answer) in orders {
                // Whoever ordered it waits for the answer.
                let _ = answer.send(command.spawn());
            }
        };
        thread::Builder::new().name("parent of servers".into()).spawn(serve).expect("a thread can be started");
        Mutex::new(sender)
    });
    let (answer, started) = channel();
    PARENT.lock().expect("nothing panics while it is locked").send((command, answer)).expect("the thread never ends");
    started.recv().expect("the thread answers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "install Debian's package hen-house")]
    fn a_program_that_is_not_there_is_told_with_its_package() {
        find("no-such-program", "hen-house");
    }

    fn sleep(log: &Path) -> Program {
        let mut command = Command::new(find("sleep", "coreutils"));
        command.arg("600");
        Program::start(command, log)
    }

    #[test]
    fn a_program_outlives_the_thread_that_wanted_it_but_not_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let mut program = thread::spawn(move || sleep(&log)).join().unwrap();
        program.pause();
        program.resume();
        assert_eq!(program.ended(), None);
        let id = program.id();
        drop(program);
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }
}
