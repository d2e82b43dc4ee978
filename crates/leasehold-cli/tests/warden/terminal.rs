//! With a controlling terminal: an interactive shell on a pty, whose keys the tests press.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::{
        fd::{FromRawFd, IntoRawFd},
        unix::fs::OpenOptionsExt,
    },
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    fcntl::OFlag,
    pty::{grantpt, posix_openpt, ptsname_r, unlockpt},
    sys::signal::Signal,
    unistd::{Pid, getpgid, setsid, tcgetpgrp},
};

use crate::harness::*;

const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";
const CTRL_BACKSLASH: &str = "\x1c";

/// A terminal and what runs on it as the leader of its session.
struct Terminal {
    lease: Lease,
    master: Option<File>,
    leader: Child,
    mark: String,
    shown: String,
    /// How much of it has been looked at.
    looked: usize,
}

impl Terminal {
    /// An interactive bash. `$RUN` stands for `leasehold run job …`, to be followed by `-- CMD`.
    fn with_shell() -> Terminal {
        let mut shell = Command::new("bash");
        shell.args(["--norc", "--noprofile", "--noediting", "-i"]);
        let mut terminal = Terminal::with(Lease::new(), shell, "30s");
        terminal.type_line("PS1='> '");
        terminal.expect("> ");
        terminal
    }

    fn with(lease: Lease, mut leader: Command, ttl: &str) -> Terminal {
        let (master, terminal) = open_terminal();
        let store = lease.file("store");
        let program = env!("CARGO_BIN_EXE_leasehold");
        let run = format!("{program} run job --store sqlite://{} --kill-after 300ms --ttl", store.display());
        let mut prepared = lease.run().sh("");
        let mark = prepared.mark.clone();
        for (name, value) in prepared.command.get_envs() {
            leader.env(name, value.unwrap());
        }
        leader.env("RUN", format!("{run} {ttl}")).env("SHORT", format!("{run} 3s")).env("TERM", "dumb");
        let side = || Stdio::from(terminal.try_clone().unwrap());
        prepared.command = leader;
        prepared.command.stdin(side()).stdout(side()).stderr(side());
        let leader = prepared.before_exec(take_terminal).command.spawn().unwrap();
        Terminal { lease, master: Some(master), leader, mark, shown: String::new(), looked: 0 }
    }

    fn press(&mut self, keys: &str) {
        self.master.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    fn type_line(&mut self, line: &str) {
        self.press(line);
        self.press("\n");
    }

    /// Waits until this is shown, after what was waited for before.
    #[track_caller]
    fn expect(&mut self, text: &str) {
        let start = Instant::now();
        while !self.look().contains(text) {
            assert!(start.elapsed() < LIMIT, "no {text:?} in {:?}", self.look());
            thread::sleep(Duration::from_millis(2));
        }
        self.looked += self.look().find(text).unwrap() + text.len();
    }

    /// Takes what is shown, and returns what has not been looked at.
    fn look(&mut self) -> &str {
        let mut buffer = [0; 4096];
        while let Some(Ok(length @ 1..)) = self.master.as_mut().map(|master| master.read(&mut buffer)) {
            self.shown.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
        &self.shown[self.looked..]
    }

    /// Asks the shell for the code of the last command.
    #[track_caller]
    fn expect_code(&mut self, code: i32) {
        self.type_line("echo code=$?.");
        self.expect(&format!("code={code}."));
    }

    /// Everything that runs on it but the shell.
    fn running(&self) -> Vec<i32> {
        let leader = self.leader.id().cast_signed();
        marked(&self.mark).into_iter().filter(|pid| *pid != leader).collect()
    }

    /// Who runs this command.
    fn wrapper(&self) -> i32 {
        let leader = self.leader.id().cast_signed();
        *self.running().iter().find(|pid| parent_of(**pid) == Some(leader)).unwrap()
    }

    /// After `fg`: waits until the command has the terminal and runs.
    #[track_caller]
    fn until_in_front(&self) {
        let group = getpgid(Some(Pid::from_raw(self.wrapper()))).unwrap();
        until("it is in front", || {
            tcgetpgrp(self.master.as_ref().unwrap()) == Ok(group)
                && self.running().iter().all(|pid| state(*pid) != Some('T'))
        });
    }

    /// Waits until the job has come to its `sleep`.
    #[track_caller]
    fn until_asleep(&self) {
        until("a sleep runs", || self.running().into_iter().any(is_sleep));
    }

    #[track_caller]
    fn until_nothing_runs(&self) {
        until("nothing runs", || self.running().is_empty());
    }

    /// The connection breaks.
    fn close(&mut self) {
        self.master = None;
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        kill_marked(&self.mark);
        let _ = self.leader.kill();
        let _ = self.leader.wait();
    }
}

/// Both sides of a new terminal. Neither is inherited: a copy would keep it from being closed.
fn open_terminal() -> (File, File) {
    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname_r(&master).unwrap();
    let terminal = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(name).unwrap();
    // SAFETY: the descriptor was the master's alone.
    #[expect(unsafe_code, reason = "nix's type can't be turned into a file")]
    let master = unsafe { File::from_raw_fd(master.into_raw_fd()) };
    (master, terminal)
}

/// Makes standard input the controlling terminal of a new session.
fn take_terminal() {
    setsid().unwrap();
    // SAFETY: an ioctl with an integer argument, on an open descriptor.
    #[expect(unsafe_code, reason = "no wrapper in nix")]
    unsafe {
        libc::ioctl(0, libc::TIOCSCTTY, 0);
    }
}

/// A job of two processes that wait to be ended.
const SLEEPER: &str = "sh -c 'sleep 1000; exit 3'";

#[test]
fn ctrl_c_ends_the_job() {
    let mut terminal = Terminal::with_shell();
    for _ in 0..3 {
        terminal.type_line(&format!("$RUN -- {SLEEPER}"));
        terminal.until_asleep();
        terminal.press(CTRL_C);
        terminal.expect_code(130);
        terminal.until_nothing_runs();
    }
    terminal.type_line(&format!("$RUN -- {SLEEPER}"));
    terminal.until_asleep();
    terminal.press(CTRL_BACKSLASH);
    terminal.expect_code(131);
    assert!(terminal.lease.is_free());
}

/// Not even while the job is being forked, when it may be too late to be asked, and too early to be told by the terminal.
#[test]
fn ctrl_c_ends_the_job_however_early() {
    for delay in 0..100 {
        let mut shell = Command::new("bash");
        shell.args(["--norc", "-m", "-c", "$RUN -- cat; exit $?"]);
        let mut terminal = Terminal::with(Lease::new(), shell, "30s");
        let leader = Pid::from_raw(terminal.leader.id().cast_signed());
        until("it is in front", || tcgetpgrp(terminal.master.as_ref().unwrap()).is_ok_and(|group| group != leader));
        thread::sleep(Duration::from_micros(150 * delay));
        terminal.press(CTRL_C);
        until(&format!("it ends of what came {delay} times 150 µs after"), || {
            terminal.leader.try_wait().unwrap().is_some()
        });
    }
}

/// A shell goes on with its script unless the command *died* of the signal.
#[test]
fn ctrl_c_ends_a_script() {
    let mut terminal = Terminal::with_shell();
    terminal.type_line(&format!("bash -c \"$RUN -- {SLEEPER}; echo next$((1+1))\"; echo rest"));
    terminal.until_asleep();
    terminal.press(CTRL_C);
    terminal.expect_code(130);
    assert!(!terminal.shown.contains("next2"));
}

/// Ctrl-C while waiting ends the script as well.
#[test]
fn ctrl_c_while_waiting_ends_a_script() {
    let mut terminal = Terminal::with_shell();
    let holder = terminal.lease.run().command(&["sleep", "1000"]).start();
    holder.until_job_has(1);
    terminal.type_line("bash -c \"$RUN --wait -- true; echo next$((1+1))\"");
    // The inner shell, the wrapper and its warden: by then signals are blocked.
    until("it waits", || terminal.running().len() >= 3);
    terminal.press(CTRL_C);
    terminal.expect_code(130);
    assert!(!terminal.shown.contains("next2"));
    terminal.until_nothing_runs();
}

/// A REPL gets Ctrl-C once and as often as it is pressed: none of them kills.
#[test]
fn ctrl_c_is_the_job_s_own() {
    let mut terminal = Terminal::with_shell();
    // It waits in a builtin: where a child has just ended as the key is pressed, bash takes the signal for that child's and runs no trap.
    terminal.type_line("$RUN -- bash -c 'mkfifo $DIR/never; exec 3<>$DIR/never; trap \"echo caught$((1+1))\" INT; echo up$((1+1)); while [ ! -e $DIR/end ]; do read -t 0.05 -u 3; done; exit 9'");
    terminal.expect("up2");
    for _ in 0..4 {
        terminal.press(CTRL_C);
        terminal.expect("caught2");
    }
    std::fs::write(terminal.lease.file("end"), "").unwrap();
    terminal.expect_code(9);
}

#[test]
fn the_job_reads_the_terminal() {
    let mut terminal = Terminal::with_shell();
    terminal.type_line("$RUN -- sh -c 'echo up$((1+1)); read a; echo got-$a'");
    terminal.expect("up2");
    terminal.type_line("hello");
    terminal.expect("got-hello");
    terminal.expect_code(0);

    terminal.type_line("echo | $RUN -- sh -c 'echo up$((1+1)); read a </dev/tty; echo got-$a'");
    terminal.expect("up2");
    terminal.type_line("tty");
    terminal.expect("got-tty");
    terminal.expect_code(0);
}

#[test]
fn ctrl_z_and_fg() {
    let mut terminal = Terminal::with_shell();
    terminal.type_line("$RUN -- sh -c 'echo up$((1+1)); read a; echo got-$a; exit 4'");
    terminal.expect("up2");
    for _ in 0..3 {
        terminal.press(CTRL_Z);
        terminal.expect("Stopped");
        terminal.expect("> ");
        terminal.type_line("fg");
        terminal.until_in_front();
    }
    terminal.type_line("hello");
    terminal.expect("got-hello");
    terminal.expect_code(4);
}

/// The warden, too, continues the job after `fg`; which must not undo a Ctrl-Z that is pressed meanwhile.
#[test]
fn ctrl_z_right_after_fg() {
    let mut terminal = Terminal::with_shell();
    terminal.type_line("$RUN -- sh -c 'echo up$((1+1)); read a; echo got-$a; exit 4'");
    terminal.expect("up2");
    let wrapper = terminal.wrapper();
    let processes: Vec<i32> = terminal.running();
    let group = getpgid(Some(Pid::from_raw(wrapper))).unwrap();
    terminal.press(CTRL_Z);
    for round in 0..rounds() {
        terminal.expect("Stopped");
        terminal.expect("> ");
        terminal.type_line("fg");
        let start = Instant::now();
        while tcgetpgrp(terminal.master.as_ref().unwrap()) != Ok(group)
            || processes.iter().any(|pid| state(*pid) == Some('T'))
        {
            assert!(start.elapsed() < LIMIT, "not in front in round {round}");
        }
        spin(Duration::from_micros(u64::from(10 * round % 1000)));
        terminal.press(CTRL_Z);
    }
    terminal.expect("Stopped");
    terminal.expect("> ");
    terminal.type_line("fg");
    terminal.until_in_front();
    terminal.type_line("hello");
    terminal.expect("got-hello");
    terminal.expect_code(4);
}

/// A job that stops itself, as an editor does at Ctrl-Z, stops us too.
#[test]
fn a_job_that_stops_itself_gives_the_shell_back() {
    let mut terminal = Terminal::with_shell();
    terminal.type_line("$RUN -- sh -c 'kill -TSTP $$; echo on$((1+1))'");
    terminal.expect("Stopped");
    terminal.type_line("fg");
    terminal.expect("on2");
    terminal.expect_code(0);
}

#[test]
fn ctrl_z_and_bg() {
    let mut terminal = Terminal::with_shell();
    terminal.type_line("mkfifo $DIR/end; $RUN -- sh -c 'echo up$((1+1)); read a <$DIR/end; exit 6'");
    terminal.expect("up2");
    terminal.press(CTRL_Z);
    terminal.expect("Stopped");
    terminal.type_line("bg");
    terminal.type_line("echo >$DIR/end; wait %1; echo code=$?.");
    terminal.expect("code=6.");
}

/// Stopped by Ctrl-Z for longer than the lease: the job is dead by then, and `fg` says so.
#[test]
fn ctrl_z_past_the_deadline() {
    let mut terminal = Terminal::with_shell();
    terminal.type_line("$SHORT -- sh -c 'echo up$((1+1)); read a'");
    terminal.expect("up2");
    terminal.press(CTRL_Z);
    terminal.expect("Stopped");
    until("only wrapper is left", || terminal.running().len() <= 1);
    assert!(terminal.lease.run().option("--wait").sh("exit 0").finish().success());
    terminal.type_line("fg");
    terminal.expect_code(76);
}

/// `--forever`, stopped by Ctrl-Z for longer than the lease: `fg` brings another run, with the terminal and its keys.
#[test]
fn ctrl_z_past_the_deadline_of_a_daemon() {
    let mut terminal = Terminal::with_shell();
    terminal.type_line("$SHORT --forever -- sh -c 'echo up$((1+1)); read a; exit 4'");
    for _ in 0..2 {
        terminal.expect("up2");
        terminal.press(CTRL_Z);
        terminal.expect("Stopped");
        until("wrapper and warden are left", || terminal.running().len() <= 2);
        terminal.type_line("fg");
    }
    terminal.expect("up2");
    terminal.press(CTRL_C);
    terminal.expect("> "); // a reader that dies may take what is typed at once along
    terminal.expect_code(130);
    terminal.until_nothing_runs();
}

#[test]
fn a_background_job_that_reads_is_stopped_until_fg() {
    let mut terminal = Terminal::with_shell();
    terminal.type_line("set -b; $RUN -- sh -c 'read a; echo got-$a' &");
    terminal.expect("Stopped");
    terminal.type_line("fg");
    terminal.until_in_front();
    terminal.type_line("hello");
    terminal.expect("got-hello");
    terminal.expect_code(0);
}

#[test]
fn a_background_job_brought_forward_takes_ctrl_c() {
    let mut terminal = Terminal::with_shell();
    terminal.type_line(&format!("$RUN -- {SLEEPER} &"));
    terminal.until_asleep();
    terminal.type_line("fg");
    terminal.until_in_front();
    terminal.press(CTRL_C);
    terminal.expect_code(130);
    terminal.until_nothing_runs();
}

/// A job killed in raw mode: the terminal is as it was, without a shell that would mend it.
#[test]
fn a_killed_job_leaves_the_terminal_as_it_was() {
    let mut terminal = Terminal::with_shell();
    let job = "sh -c 'stty raw -echo; sleep 1000'";
    terminal.type_line(&format!(
        "sh -c \"stty -a >$DIR/before; $RUN --max-hold 1s -- {job}; stty -a >$DIR/after; echo done$((1+1))\""
    ));
    terminal.expect("done2");
    assert!(!terminal.lease.read("before").is_empty());
    assert_eq!(terminal.lease.read("after"), terminal.lease.read("before"));
}

/// The connection breaks: the job hangs up, as it would without us.
#[test]
fn p02_a_closed_terminal_ends_the_job() {
    let mut terminal = Terminal::with_shell();
    terminal.type_line(&format!("$RUN -- {SLEEPER}"));
    terminal.until_asleep();
    terminal.close();
    terminal.until_nothing_runs();
    assert!(terminal.lease.is_free());
}

/// … and goes on where hang-ups are ignored.
#[test]
fn a_closed_terminal_spares_what_ignores_hang_ups() {
    let mut terminal = Terminal::with_shell();
    terminal.type_line(&format!("trap '' HUP; $RUN -- {SLEEPER}"));
    terminal.until_asleep();
    terminal.close();
    thread::sleep(Duration::from_millis(300)); // nothing is to happen
    assert_eq!(terminal.running().len(), 4, "wrapper, warden, sh and sleep");
    assert!(!terminal.lease.is_free());
}

#[test]
fn a_stopped_shell_job_goes_on() {
    let mut terminal = Terminal::with_shell();
    terminal.type_line(&format!("$RUN -- {SLEEPER} &"));
    terminal.until_asleep();
    terminal.type_line("set -b; kill -STOP %1");
    terminal.expect("Stopped");
    terminal.type_line("fg");
    terminal.until_in_front();
    until("it goes on", || state(terminal.wrapper()) != Some('T'));
    terminal.press(CTRL_C);
    terminal.expect_code(130);
}

/// Others in our pipeline have the terminal as well.
#[test]
fn a_pipeline_shares_the_terminal() {
    let mut terminal = Terminal::with_shell();
    terminal.type_line("$RUN -- echo data | sh -c 'read d; read a </dev/tty; echo $d-$a'");
    until("only the reader is left", || terminal.running().len() == 1);
    terminal.type_line("hello");
    terminal.expect("data-hello");

    terminal.type_line("$RUN -- echo one | ${RUN/run job/run other} -- sh -c 'read a; echo got-$a'");
    terminal.expect("got-one");
    terminal.expect_code(0);

    terminal.type_line(&format!("$RUN -- {SLEEPER} | ${{RUN/run job/run other}} -- cat"));
    terminal.until_asleep();
    terminal.press(CTRL_C);
    terminal.expect_code(130);
    terminal.until_nothing_runs();
}

#[test]
fn killing_a_shell_job_ends_it() {
    let mut terminal = Terminal::with_shell();
    terminal.type_line(&format!("$RUN -- {SLEEPER} &"));
    terminal.until_asleep();
    terminal.type_line("kill %1; wait %1; echo code=$?.");
    terminal.expect("code=143.");
    terminal.until_nothing_runs();
}

/// As the leader of the session (`docker run -it`), where nobody could continue what Ctrl-Z stops.
#[test]
fn ctrl_z_does_not_stop_a_session_leader() {
    for script in ["exec $RUN -- sh -c \"$JOB\"", "$RUN -- sh -c \"$JOB\"; exit $?"] {
        let mut leader = Command::new("sh");
        leader.args(["-c", script]).env("JOB", "echo up$((1+1)); read a; echo got-$a; exit 5");
        let mut terminal = Terminal::with(Lease::new(), leader, "30s");
        terminal.expect("up2");
        for _ in 0..3 {
            terminal.press(CTRL_Z);
        }
        terminal.type_line("hello");
        terminal.expect("got-hello");
        assert_eq!(code(terminal.leader.wait().unwrap()), 5, "{script}");
    }
}

/// The hang-up reaches only the session's leader, so if that's us we hand it on.
#[test]
fn a_hang_up_of_the_session_leader_reaches_the_job() {
    let mut leader = Command::new("sh");
    leader.args([
        "-c",
        "exec $RUN -- sh -c 'trap \"echo hup >$DIR/hup; exit 3\" HUP; echo up$((1+1)); while :; do sleep 0.05; done'",
    ]);
    let mut terminal = Terminal::with(Lease::new(), leader, "30s");
    terminal.expect("up2");
    terminal.close();
    terminal.lease.until_written("hup", "hup");
    assert_eq!(code(terminal.leader.wait().unwrap()), 3);
}

/// An interactive shell as the job has job control of its own.
#[test]
fn an_interactive_shell_works_inside() {
    let mut terminal = Terminal::with_shell();
    terminal.type_line("PS1='in> ' $RUN -- bash --norc --noprofile --noediting -i");
    terminal.expect("in> ");
    terminal.type_line("sh -c 'echo up$((1+1)); read a; echo got-$a; sleep 1000; exit 3'");
    terminal.expect("up2");
    terminal.press(CTRL_Z);
    terminal.expect("Stopped");
    terminal.type_line("fg");
    terminal.type_line("hello");
    terminal.expect("got-hello");
    terminal.until_asleep();
    terminal.press(CTRL_C);
    terminal.expect_code(130);
    terminal.type_line("exit 5");
    terminal.expect("> ");
    terminal.expect_code(5);
    terminal.until_nothing_runs();
}

/// Two Ctrl-Z and signals between: nothing is lost that is sent to a stopped wrapper.
#[test]
fn a_stopped_wrapper_hears_what_was_sent_meanwhile() {
    let mut terminal = Terminal::with_shell();
    terminal.type_line(&format!("$RUN -- {SLEEPER}"));
    terminal.until_asleep();
    terminal.press(CTRL_Z);
    terminal.expect("Stopped");
    send(terminal.wrapper(), Signal::SIGTERM);
    terminal.type_line("fg");
    terminal.expect_code(143);
    terminal.until_nothing_runs();
}
