//! While the lock is another's.

use nix::sys::signal::Signal::{self, *};

use crate::harness::*;

fn holder(lease: &Lease) -> Running {
    let holder = lease.run().command(&["sleep", "1000"]).start();
    holder.until_job_has(1);
    holder
}

fn waiter(lease: &Lease) -> Running {
    let waiter = lease.run().option("--wait").sh("echo ran >>$DIR/ran").start();
    until("the warden is there", || waiter.warden().is_some());
    waiter
}

/// A signal while waiting gives up: nothing ran, and nothing is left.
#[test]
fn a_signal_while_waiting_gives_up() {
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] {
        let lease = Lease::new();
        let _holder = holder(&lease);
        let mut waiter = waiter(&lease);
        waiter.send(signal);
        assert_eq!(waiter.code(), 128 + signal as i32);
        assert_eq!(waiter.processes(), []);
        assert_eq!(lease.read("ran"), "");
    }
}

/// TSTP stops a waiting wrapper, and after CONT it waits on and gets the lock.
#[test]
fn a_stopped_waiter_goes_on() {
    let lease = Lease::new();
    let holder = holder(&lease);
    let mut waiter = lease.run().option("--wait").sh("echo ran >>$DIR/ran").before_exec(own_group).start();
    until("the warden is there", || waiter.warden().is_some());
    waiter.send(Signal::SIGTSTP);
    until_stopped(waiter.pid());
    waiter.send(Signal::SIGCONT);
    until("the waiter goes on", || state(waiter.pid()) != Some('T'));
    holder.send(SIGTERM);
    assert_eq!(waiter.code(), 0);
    assert_eq!(lease.read("ran"), "ran\n");
}
