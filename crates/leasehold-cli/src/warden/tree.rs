//! The tree of processes below us: who is in it, telling them something, killing them all.
//!
//! We are a subreaper, so whatever descends from us stays below us, however it forks. Pids of our own children are
//! safe, for only we reap them; any other pid may be recycled between look and signal, so these get signals through a
//! descriptor, and only once it is proven that the process is still where we saw it.

use std::{fs, path::Path, sync::OnceLock, thread, time::Duration};

use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::{Pid, getpgid, getpid},
};

use super::{
    page::{boottime, nanos},
    sys,
};

/// How long [`kill_all`] tries to kill what doesn't die.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A process and the parent under which it was seen.
#[derive(Clone, Copy, Debug)]
struct Process {
    pid: Pid,
    parent: Pid,
}

impl Process {
    fn send(self, signals: &[Signal]) {
        let me = getpid();
        if self.parent == me {
            return signal_by_pid(self.pid, signals);
        }
        // First the descriptor, then the proof that it is still the one we saw, or came to us as an orphan.
        let fd = sys::pidfd_open(self.pid);
        if !parent_of(self.pid).is_some_and(|parent| parent == self.parent || parent == me) {
            return;
        }
        match fd {
            Ok(fd) => signals.iter().for_each(|signal| sys::pidfd_send_signal(&fd, *signal)),
            Err(Errno::ENOSYS) => signal_by_pid(self.pid, signals),
            Err(_) => {}
        }
    }
}

fn signal_by_pid(pid: Pid, signals: &[Signal]) {
    for signal in signals {
        let _ = kill(pid, *signal);
    }
}

/// Sends `signals` to everybody below us, except for the members of a group that has been told as a whole.
pub(super) fn tell(signals: &[Signal], told: Option<Pid>) {
    visit(children(getpid()), |process| {
        if told.is_none() || getpgid(Some(process.pid)).ok() != told {
            process.send(signals);
        }
    });
}

/// Kills everybody below us except `spared` and what descends from them; `reap` collects the dead and says whether
/// nobody is left. Gives up, with `false`, after [`PATIENCE`].
pub(super) fn kill_all(spared: &[Pid], mut reap: impl FnMut() -> bool) -> bool {
    let give_up = boottime() + nanos(PATIENCE);
    let mut pause = Duration::from_micros(200);
    loop {
        kill_once(spared);
        if reap() {
            return true;
        }
        if boottime() > give_up {
            return false;
        }
        thread::sleep(pause);
        pause = (pause * 5 / 4).min(Duration::from_millis(20));
    }
}

/// One pass over the tree. Children are looked up just before their parent is killed, and each is killed at once: a
/// list of the whole tree would be stale before it is complete.
fn kill_once(spared: &[Pid]) {
    let own: Vec<Process> = children(getpid()).into_iter().filter(|child| !spared.contains(&child.pid)).collect();
    for child in &own {
        child.send(&[Signal::SIGSTOP]); // so that it forks no more while we look below it
    }
    visit(own, |process| process.send(&[Signal::SIGKILL]));
}

/// Everybody below us except `spared` and what descends from them.
pub(super) fn everybody(spared: &[Pid]) -> Vec<Pid> {
    let mut found = Vec::new();
    let own = children(getpid()).into_iter().filter(|child| !spared.contains(&child.pid));
    visit(own.collect(), |process| found.push(process.pid));
    found
}

/// The pids of our own children.
pub(super) fn own_children() -> Vec<Pid> {
    children(getpid()).into_iter().map(|child| child.pid).collect()
}

fn visit(mut left: Vec<Process>, mut act: impl FnMut(Process)) {
    while let Some(process) = left.pop() {
        left.extend(children(process.pid));
        act(process);
    }
}

/// The children of `parent`: of each of its threads, where the kernel lists them (`CONFIG_PROC_CHILDREN`).
fn children(parent: Pid) -> Vec<Process> {
    static LISTED: OnceLock<bool> = OnceLock::new();
    let listed = *LISTED.get_or_init(|| Path::new("/proc/thread-self/children").exists());
    if listed { listed_children(parent) } else { scanned_children(parent) }
}

fn listed_children(parent: Pid) -> Vec<Process> {
    let Ok(threads) = fs::read_dir(format!("/proc/{parent}/task")) else {
        return Vec::new();
    };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| list.split_ascii_whitespace().filter_map(pid).collect::<Vec<_>>())
        .map(|pid| Process { pid, parent })
        .collect()
}

/// The slow way: asks every process of the system for its parent.
fn scanned_children(parent: Pid) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| pid(entry.file_name().to_str()?))
        .filter(|pid| parent_of(*pid) == Some(parent))
        .map(|pid| Process { pid, parent })
        .collect()
}

/// The parent of a process.
pub(super) fn parent_of(process: Pid) -> Option<Pid> {
    pid(&stat(process, 1)?)
}

/// Whether a process is stopped.
pub(super) fn is_stopped(process: Pid) -> bool {
    stat(process, 0).is_some_and(|state| state == "T")
}

/// A field of `/proc/PID/stat`, counted from after the *last* parenthesis: the name before may contain some.
fn stat(process: Pid, field: usize) -> Option<String> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = str::from_utf8(&stat[name_end + 1..]).ok()?;
    rest.split_ascii_whitespace().nth(field).map(str::to_owned)
}

fn pid(text: &str) -> Option<Pid> {
    text.parse().ok().map(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn both_ways_find_the_same_children() {
        let mut child = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
        let own = Pid::from_raw(child.id().cast_signed());

        for found in [listed_children(getpid()), scanned_children(getpid())] {
            assert!(found.iter().any(|process| process.pid == own), "{found:?}");
        }
        assert_eq!(parent_of(own), Some(getpid()));

        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(parent_of(own), None);
    }

    #[test]
    fn a_name_full_of_parentheses_hides_no_parent() {
        let directory = std::env::temp_dir().join(format!("warden-{}", getpid()));
        fs::create_dir_all(&directory).unwrap();
        let program = directory.join("a) R 1 (b)");
        let _ = fs::remove_file(&program);
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut child = Command::new(&program).arg("60").spawn().unwrap();

        assert_eq!(parent_of(Pid::from_raw(child.id().cast_signed())), Some(getpid()));

        child.kill().unwrap();
        child.wait().unwrap();
        fs::remove_dir_all(directory).unwrap();
    }
}
