//! `--forever`: one daemon, started anew after each loss.

use std::{
    fs::File,
    io::Read,
    os::fd::AsFd,
    time::{Duration, Instant},
};

use nix::{
    fcntl::{FcntlArg, fcntl},
    libc,
    sys::signal::Signal::{self, *},
};

use crate::harness::*;

/// Long enough for a renewal on a loaded machine.
const TTL: Duration = Duration::from_secs(4);

/// Says that it runs, under which token, and stays.
const DAEMON: &str = "echo $LEASEHOLD_TOKEN >>$DIR/tokens; exec sleep 1000";

/// What a daemon that runs for ever tells is in `$DIR/err`.
fn forever(lease: &Lease) -> Wrapped<'_> {
    lease.run().ttl("4s").option("--forever").inside("exec $RUN 2>>$DIR/err")
}

fn tokens(lease: &Lease) -> Vec<u64> {
    lease.read("tokens").lines().map(|line| line.parse().unwrap()).collect()
}

#[track_caller]
fn until_started(lease: &Lease, times: usize) {
    until(&format!("it was started {times} times"), || tokens(lease).len() == times);
}

/// Waits until a whole tree runs that isn't `first`. From one look: while a tree is killed two would differ.
#[track_caller]
fn until_another(run: &Running, first: &[i32]) {
    until("another run is up", || {
        let job = run.job();
        job.len() == STUBBORN && !job.iter().any(|pid| first.contains(pid))
    });
}

/// How often a line with this text was told.
fn told(lease: &Lease, text: &str) -> usize {
    lease.read("err").lines().filter(|line| line.contains(text)).count()
}

#[track_caller]
fn ends(run: &mut Running, lease: &Lease, signal: Signal) {
    run.send(signal);
    assert_eq!(run.code(), 128 + signal as i32, "{}", lease.read("err"));
    assert_eq!(run.processes(), []);
    assert!(lease.is_free());
}

/// Keeps others from a part of a file, as a process does that uses it and hangs; until dropped.
struct Blocked(#[expect(dead_code, reason = "the lock is the file's")] File);

impl Blocked {
    fn new(path: &std::path::Path, start: i64, length: i64) -> Blocked {
        let file = File::options().create(true).truncate(false).read(true).write(true).open(path).unwrap();
        let range = libc::flock {
            l_type: libc::F_WRLCK as i16,
            l_whence: libc::SEEK_SET as i16,
            l_start: start,
            l_len: length,
            l_pid: 0,
        };
        until("the file is ours", || fcntl(file.as_fd(), FcntlArg::F_OFD_SETLK(&range)).is_ok());
        Blocked(file)
    }

    /// Nobody can open the store: these are SQLite's lock bytes.
    fn from_opening(lease: &Lease) -> Blocked {
        Blocked::new(&lease.file("store"), 0x4000_0000, 512)
    }

    /// Nobody can write into the open store: the writers' lock of SQLite's log.
    fn from_writing(lease: &Lease) -> Blocked {
        Blocked::new(&lease.file("store-shm"), 120, 1)
    }
}

/// A leader that has lost its lock competes again, and its next run is as good as the first.
#[test]
fn c16_after_a_loss_it_queues_again_and_the_daemon_is_started_anew() {
    let lease = Lease::new();
    let mut run = forever(&lease).sh(DAEMON).start();
    until_started(&lease, 1);
    for times in 2..=3 {
        std::fs::remove_file(lease.file("store")).unwrap();
        until_started(&lease, times);
        assert!(run.job().len() <= 1, "the one before is gone");
    }
    let tokens = tokens(&lease);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    assert_eq!(told(&lease, "held no longer; the job was stopped; queuing for it again"), 2, "{}", lease.read("err"));
    ends(&mut run, &lease, SIGTERM);
}

/// The store is away when the lock is lost, for longer than the lock lives, and comes back.
#[test]
fn c16_a_leader_that_lost_its_store_leads_again_when_it_is_back() {
    let lease = Lease::new();
    std::fs::create_dir(lease.file("disk")).unwrap();
    let mut run = forever(&lease).store("disk/locks").sh(DAEMON).start();
    until_started(&lease, 1);
    std::fs::rename(lease.file("disk"), lease.file("away")).unwrap();
    until("the outage is told", || told(&lease, "it is asked again until it answers") == 1);
    assert_eq!(run.job(), []);
    std::fs::rename(lease.file("away"), lease.file("disk")).unwrap();
    until_started(&lease, 2);
    assert_eq!((told(&lease, "it is asked again"), told(&lease, "the store answers again")), (1, 1));
    run.send(SIGTERM);
    assert_eq!(run.code(), 143);
}

/// Nobody can write for a while: renewals fail, the daemon is stopped in time, and started when writing goes on.
#[test]
fn c16_a_store_that_hangs_is_waited_for() {
    let lease = Lease::new();
    let mut run = forever(&lease).sh(DAEMON).start();
    until_started(&lease, 1);
    let blocked = Blocked::from_writing(&lease);
    until("the loss is told", || told(&lease, "was lost") == 1);
    assert_eq!(run.job(), []);
    until("the outage is told", || told(&lease, "it is asked again until it answers") == 1);
    drop(blocked);
    until_started(&lease, 2);
    assert_eq!(told(&lease, "it is asked again"), 1, "once: {}", lease.read("err"));
    ends(&mut run, &lease, SIGTERM);
}

/// At the very first the store is away.
#[test]
fn n05_it_starts_without_the_store_and_recovers_without_a_restart() {
    let lease = Lease::new();
    let blocked = Blocked::from_opening(&lease);
    let mut run = forever(&lease).sh(DAEMON).start();
    until("the outage is told", || told(&lease, "it is asked again until it answers") == 1);
    assert_eq!(tokens(&lease), []);
    drop(blocked);
    until_started(&lease, 1);
    assert_eq!((told(&lease, "it is asked again"), told(&lease, "the store answers again")), (1, 1));
    ends(&mut run, &lease, SIGTERM);
}

/// Who waits for a store that is away still hears a signal, and at once.
#[test]
fn n05_a_signal_during_the_outage_ends_it() {
    for signal in [SIGTERM, SIGINT, SIGQUIT] {
        let lease = Lease::new();
        let blocked = Blocked::from_opening(&lease);
        let mut run = forever(&lease).sh(DAEMON).start();
        until("the warden is there", || run.warden().is_some());
        let sent = Instant::now();
        run.send(signal);
        assert_eq!(run.code(), 128 + signal as i32);
        assert!(sent.elapsed() < Duration::from_secs(3), "after {:?}: no try is waited for", sent.elapsed());
        assert_eq!(run.processes(), []);
        drop(blocked);
        assert_eq!(tokens(&lease), []);
    }
}

/// Without `--forever` an outage is an answer.
#[test]
fn an_outage_ends_what_does_not_run_for_ever() {
    let lease = Lease::new();
    let _blocked = Blocked::from_opening(&lease);
    assert_eq!(lease.run().sh(DAEMON).finish().code(), Some(69));
}

/// What asking again doesn't mend ends it at once.
#[test]
fn errors_that_cannot_pass_end_it() {
    let lease = Lease::new();
    std::fs::write(lease.file("text"), "this is no database. ".repeat(100)).unwrap();
    for store in ["none/store", "text"] {
        let mut run = forever(&lease).store(store).sh(DAEMON).start();
        assert_eq!(run.code(), 78, "{}", lease.read("err"));
    }
    let mut run = forever(&lease).command(&["/no/such/program"]).start();
    assert_eq!(run.code(), 127);
    assert_eq!(tokens(&lease), []);
}

/// A daemon that ends by itself is its supervisor's business.
#[test]
fn a_daemon_that_ends_by_itself_ends_it_too() {
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)] {
        let lease = Lease::new();
        let mut run = forever(&lease).sh(&format!("echo 1 >>$DIR/tokens; {script}")).start();
        assert_eq!(run.code(), code);
        assert_eq!(run.processes(), []);
        assert_eq!(tokens(&lease).len(), 1);
        assert!(lease.is_free());
    }
}

/// In its second run it ends by itself as well, and what it left in the background then is left alone.
#[test]
fn a_daemon_that_ends_by_itself_later_leaves_what_it_left() {
    let lease = Lease::new();
    let script = "echo 1 >>$DIR/tokens; test $(wc -l <$DIR/tokens) = 1 && exec sleep 1000; sleep 1001 & exit 9";
    let mut run = forever(&lease).sh(script).start();
    until_started(&lease, 1);
    lease.lose_store();
    assert_eq!(run.code(), 9);
    assert_eq!(run.processes().len(), 1, "the sleeper, and no warden");
}

/// It takes turns with whoever waits.
#[test]
fn after_max_hold_others_come_first() {
    let lease = Lease::new();
    let daemon = "echo daemon >>$DIR/order; exec sleep 1000";
    let mut run = forever(&lease).option("--max-hold 2s").sh(daemon).start();
    lease.until_written("order", "daemon");
    let mut other = lease.run().option("--wait -q").sh("echo other >>$DIR/order").start();
    assert_eq!(other.code(), 0);
    lease.until_written("order", "daemon\nother\ndaemon\n");
    assert!(told(&lease, "held for longer than allowed") >= 1);
    run.send(SIGTERM);
    assert_eq!(run.code(), 143);
}

/// An operator takes the lock away, softly or not: it queues again.
#[test]
fn a_revoked_daemon_queues_again() {
    for how in ["--force", "--now"] {
        let lease = Lease::new();
        let mut run = forever(&lease).sh(DAEMON).start();
        until_started(&lease, 1);
        let store = format!("sqlite://{}", lease.file("store").display());
        let release = ["release", "job", how, "--store", &store];
        let released = std::process::Command::new(env!("CARGO_BIN_EXE_leasehold")).args(release).output().unwrap();
        assert!(released.status.success(), "{released:?}");
        until_started(&lease, 2);
        ends(&mut run, &lease, SIGTERM);
    }
}

/// `kill -9` of the wrapper, in a later run.
#[test]
fn p05_a_killed_wrapper_takes_the_second_run_along() {
    let lease = Lease::new();
    let mut run = forever(&lease).sh(STUBBORN_TREE).start();
    run.until_job_has(STUBBORN);
    let first = run.job();
    lease.lose_store();
    until_another(&run, &first);
    let killed = Instant::now();
    run.send(SIGKILL);
    run.until_all_dead();
    assert!(killed.elapsed() < TTL, "dead after {:?}", killed.elapsed());
    assert_eq!(run.code(), 1009);
}

/// `kill -9` of the wrapper while it queues again.
#[test]
fn p05_a_wrapper_killed_between_two_runs_leaves_nothing() {
    let lease = Lease::new();
    let mut run = forever(&lease).sh(DAEMON).start();
    until_started(&lease, 1);
    let blocked = Blocked::from_writing(&lease);
    until("it queues again", || told(&lease, "queuing for it again") == 1);
    run.send(SIGKILL);
    run.until_all_dead();
    assert_eq!(run.code(), 1009);
    drop(blocked);
    assert_eq!(tokens(&lease).len(), 1);
}

/// A wrapper that is stopped past its deadline: the daemon is dead by then; continued, it queues again, and the deadline
/// that is over is not the next run's.
#[test]
fn l08_a_stopped_wrapper_goes_on_with_another_run() {
    let lease = Lease::new();
    let run = forever(&lease).ttl("3s").sh(STUBBORN_TREE).start();
    for _ in 0..2 {
        run.until_job_has(STUBBORN);
        run.send(SIGSTOP);
        run.until_job_is_dead();
        run.send(SIGCONT);
    }
    run.until_job_has(STUBBORN);
    let job = run.job();
    std::thread::sleep(TTL); // the span in which it is looked whether the run lasts
    let now = run.job();
    assert!(job.iter().all(|pid| now.contains(pid)) && now.len() == STUBBORN, "the third run was cut short");
    run.send(SIGKILL);
    run.until_all_dead();
}

/// Stopped after it was lost, while it queues: nothing runs, and after CONT it gets the lock.
#[test]
fn l08_a_wrapper_stopped_while_it_queues_again_goes_on() {
    let lease = Lease::new();
    let mut run = forever(&lease).sh(DAEMON).start();
    until_started(&lease, 1);
    let blocked = Blocked::from_writing(&lease);
    until("it queues again", || told(&lease, "queuing for it again") == 1);
    run.send(SIGSTOP);
    until_stopped(run.pid());
    drop(blocked);
    assert_eq!(tokens(&lease).len(), 1);
    run.send(SIGCONT);
    until_started(&lease, 2);
    ends(&mut run, &lease, SIGTERM);
}

/// The warden dies, in a later run or while there is none: the tree is killed, and that is a fault.
#[test]
fn a_killed_warden_ends_it() {
    let lease = Lease::new();
    let mut run = forever(&lease).sh(STUBBORN_TREE).start();
    run.until_job_has(STUBBORN);
    let first = run.job();
    lease.lose_store();
    until_another(&run, &first);
    send(run.warden().unwrap(), SIGKILL);
    assert_eq!(run.code(), 70);
    assert_eq!(run.processes(), []);

    let lease = Lease::new();
    let mut run = forever(&lease).sh(DAEMON).start();
    until_started(&lease, 1);
    let blocked = Blocked::from_writing(&lease);
    until("it queues again", || told(&lease, "queuing for it again") == 1);
    send(run.warden().unwrap(), SIGKILL);
    drop(blocked);
    assert_eq!(run.code(), 70);
    assert_eq!(tokens(&lease).len(), 1);
    assert!(lease.is_free());
}

/// While it waits for another, at first and again.
#[test]
fn a_signal_while_it_queues_ends_it() {
    for signal in [SIGTERM, SIGINT, SIGQUIT] {
        let lease = Lease::new();
        let mut other = lease.run().command(&["sleep", "1000"]).start();
        other.until_job_has(1);
        let mut run = forever(&lease).sh(DAEMON).start();
        until("it waits", || told(&lease, "waiting for job: held by") == 1);
        run.send(signal);
        assert_eq!(run.code(), 128 + signal as i32);
        assert_eq!(run.processes(), []);
        other.send(SIGTERM);
        assert_eq!(other.code(), 143);
    }
}

/// A signal that comes while the lock is being lost is not forgotten over it: no run follows it.
#[test]
fn p04_a_signal_in_the_instant_of_the_loss_ends_it() {
    for round in 0..rounds() / 5 {
        let lease = Lease::new();
        let mut run = forever(&lease).ttl("1s").grace("50ms").sh(DAEMON).start();
        until_started(&lease, 1);
        lease.lose_store();
        // Renewed after a third of a second at most: that is when it is found out.
        let offset = Duration::from_millis(u64::from(round * 37 % 450));
        std::thread::sleep(offset);
        run.send(SIGTERM);
        let code = run.code();
        assert!([143, 76].contains(&code), "{code} after {offset:?}: {}", lease.read("err"));
        assert_eq!(run.processes(), []);
    }
}

/// A daemon that doesn't heed TERM, and is lost then, is not started anew.
#[test]
fn a_signal_that_the_daemon_ignored_still_counts() {
    let lease = Lease::new();
    let script = "trap 'echo told >>$DIR/told' TERM; echo 1 >>$DIR/tokens; while :; do sleep 0.01; done";
    let mut run = forever(&lease).sh(script).start();
    until_started(&lease, 1);
    run.send(SIGTERM);
    lease.until_written("told", "told");
    lease.lose_store();
    assert_eq!(run.code(), 76);
    assert_eq!(tokens(&lease).len(), 1);
    assert_eq!(told(&lease, "queuing for it again"), 0);
}

/// A hang-up is for the daemon ("read your configuration again"), and a later loss is a loss.
#[test]
fn a_hang_up_is_no_order_to_stop() {
    let lease = Lease::new();
    let script = "trap 'echo reread >>$DIR/hup' HUP; echo 1 >>$DIR/tokens; while :; do sleep 0.01; done";
    let mut run = forever(&lease).sh(script).start();
    until_started(&lease, 1);
    run.send(SIGHUP);
    lease.until_written("hup", "reread");
    lease.lose_store();
    until_started(&lease, 2);
    ends(&mut run, &lease, SIGTERM);
}

/// Neither wrapper nor warden spins while there is nothing to run.
#[test]
fn while_it_queues_again_it_uses_no_cpu() {
    let lease = Lease::new();
    let mut run = forever(&lease).option("--max-hold 1s").sh(DAEMON).start();
    until_started(&lease, 1);
    let mut other = lease.run().option("--wait -q").command(&["sleep", "1000"]).start();
    until("it waits for the other", || told(&lease, "waiting for job: ") == 1);
    other.until_job_has(1);
    let warden = run.warden().unwrap();
    until("the warden is asleep", || state(warden) == Some('S'));
    let before = (ticks(warden), ticks(run.pid()));
    std::thread::sleep(TTL); // the span that is measured
    assert!(ticks(warden) - before.0 <= 2, "the warden");
    assert!(ticks(run.pid()) - before.1 <= 40, "the wrapper: {} ticks in {TTL:?}", ticks(run.pid()) - before.1);
    other.send(SIGTERM);
    assert_eq!(other.code(), 143);
    until("it runs again", || tokens(&lease).len() >= 2);
    run.send(SIGTERM);
    assert_eq!(run.code(), 143);
}

/// The second run finds everything as the first did.
#[test]
fn each_run_gets_what_the_first_got() {
    let lease = Lease::new();
    let script = "echo line; (echo $LEASEHOLD_LOCK $(ls /proc/self/fd) $(trap)) >>$DIR/seen; \
                  echo $LEASEHOLD_HOLDER >>$DIR/holders; exec sleep 1000";
    let mut run = forever(&lease).sh(script).start();
    lease.until_written("holders", "\n");
    lease.lose_store();
    until("the second has seen it", || lease.read("holders").lines().count() == 2);
    for (file, same) in [("seen", true), ("holders", false)] {
        let text = lease.read(file);
        let (one, other) = text.split_once('\n').unwrap();
        assert_eq!(one == other.trim_end(), same, "{text}");
    }
    run.send(SIGTERM);
    assert_eq!(run.code(), 143);
    let mut out = String::new();
    run.child.stdout.as_mut().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(out, "line\nline\n", "both had our stdout");
}
