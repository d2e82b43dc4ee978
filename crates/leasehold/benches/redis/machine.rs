//! CPUs and memory.

use std::fs;
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Puts the server on one CPU and us on another, or both on the same; says what was done.
///
/// Left to themselves the two wander: a pair takes two or three times as long when a wake-up has to cross CPUs, and
/// that would be told as the difference between two programs.
pub fn pin(server: u32, on_one: bool) -> String {
    let allowed = sched_getaffinity(Pid::from_raw(0)).expect("the system tells");
    let cpus: Vec<usize> = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect();
    let theirs = cpus[0];
    let ours = if on_one { theirs } else { *cpus.get(1).unwrap_or(&theirs) };
    for thread in fs::read_dir(format!("/proc/{server}/task")).expect("the server is up").flatten() {
        let id = thread.file_name().to_string_lossy().parse().expect("a thread's id");
        put(id, theirs);
    }
    put(0, ours); // Threads to come are put where the one is that starts them.
    format!("server on CPU {theirs}, client on CPU {ours}")
}

fn put(thread: i32, cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu).expect("the CPU is one of ours");
    sched_setaffinity(Pid::from_raw(thread), &set).expect("a thread may be moved");
}

/// Resident memory in bytes.
pub fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").expect("/proc is mounted");
    let pages: usize = statm.split(' ').nth(1).expect("a second field").parse().expect("a number");
    pages * 4096
}

/// What this process has used of its CPUs.
pub fn cpu_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("a clock");
    Duration::from(time)
}
