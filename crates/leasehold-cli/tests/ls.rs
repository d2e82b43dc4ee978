//! `leasehold ls --watch`: the list again and again, for people and for programs.

mod common;

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Bench, Going, LIMIT, ran};
use leasehold_testkit::process::eventually;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::Signal::{SIGINT, SIGTERM};

const SECOND: Duration = Duration::from_secs(1);

/// The next list that is of these names.
#[track_caller]
fn list_of(going: &Going, names: &[&str]) -> serde_json::Value {
    loop {
        let list = going.json();
        let listed: Vec<_> = list.as_array().expect("an array").iter().map(|lock| lock["name"].as_str()).collect();
        if listed == names.iter().map(|name| Some(*name)).collect::<Vec<_>>() {
            return list;
        }
    }
}

#[test]
fn each_list_is_a_line_for_programs() {
    let bench = Bench::new();
    let going = Going::start(&mut bench.command(["ls", "--watch=100ms", "--json"]));
    assert_eq!(going.line(), "[]");
    let (held, _other) = (bench.take("a"), bench.take("b"));
    let list = list_of(&going, &["a", "b"]);
    assert_eq!((&list[0]["holder"], &list[0]["waiting"]), (&held.holder().into(), &0.into()));
    assert!(list[0].get("queue").is_none() && list[0]["library"].is_null(), "{list}");
    let _waiter = bench.wait_for("a");
    eventually("it is told who waits", LIMIT, || going.json()[0]["waiting"] == 1);
    held.release(Duration::ZERO);
    list_of(&going, &["b"]);
    going.send(SIGINT);
    assert_eq!(going.end(), (0, String::new()));
}

/// Ctrl-C is how people end it, and no failure; where it is ignored it goes on.
#[test]
fn a_signal_ends_it_unless_it_is_ignored() {
    let bench = Bench::new();
    let mut command = Command::new("sh");
    let script = "trap '' INT; exec \"$0\" ls --watch=100ms --json";
    command.args(["-c", script, env!("CARGO_BIN_EXE_leasehold")]).env("LEASEHOLD_STORE", bench.url());
    let going = Going::start(&mut command);
    assert_eq!(going.line(), "[]");
    going.send(SIGINT);
    let _held = bench.take("a");
    list_of(&going, &["a"]);
    going.send(SIGTERM);
    assert_eq!(going.end(), (0, String::new()));
}

/// Without a terminal it is written below one another, each with what it is of and when.
#[test]
fn tables_follow_one_another_where_nobody_could_see_them_drawn() {
    let bench = Bench::new();
    let going = Going::start(bench.command(["ls", "--watch"]).env("TERM", "xterm"));
    let head = going.line();
    assert!(head.starts_with(&bench.url()) && head.ends_with("Z, every 1s: 0 held, 0 waiting"), "{head}");
    assert_eq!(
        (going.line().as_str(), going.line()),
        (&*format!("no lock is held or waited for in {}", bench.url()), String::new())
    );
    let _held = bench.take("a");
    eventually("it is listed", LIMIT, || going.line().starts_with("a     held   web-3/41/backup\\u{1b}[2J"));
}

/// What runs on a terminal of its own, ten rows high.
struct Terminal {
    child: Child,
    keys: File,
    shown: String,
}

impl Terminal {
    fn with(command: &mut Command) -> Self {
        let size = Winsize { ws_row: 10, ws_col: 40, ws_xpixel: 0, ws_ypixel: 0 };
        let terminal = openpty(&size, None).unwrap();
        fcntl(terminal.master.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let side = || Stdio::from(terminal.slave.try_clone().unwrap());
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        Self { child, keys: File::from(terminal.master), shown: String::new() }
    }

    fn look(&mut self) -> &str {
        let mut buffer = [0; 4096];
        loop {
            match self.keys.read(&mut buffer) {
                Ok(length @ 1..) => self.shown.push_str(&String::from_utf8_lossy(&buffer[..length])),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return &self.shown,
            }
        }
    }

    /// Waits for a drawing that has these words, of those that are whole.
    #[track_caller]
    fn draws(&mut self, words: &[&str]) -> String {
        let start = Instant::now();
        loop {
            let drawings = self.look().rsplit_once("\u{1b}[J").map_or("", |(whole, _)| whole);
            let last = drawings.rsplit("\u{1b}[H").next().unwrap_or_default().to_owned();
            if words.iter().all(|word| last.contains(word)) {
                return last;
            }
            assert!(start.elapsed() < LIMIT, "no {words:?} in {:?}", self.shown);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn on_a_terminal_it_is_drawn_anew_until_ctrl_c() {
    let bench = Bench::new();
    // So that the key reaches it.
    let mut command = Command::new("setsid");
    command.args(["--ctty", env!("CARGO_BIN_EXE_leasehold"), "ls", "--watch=100ms"]);
    let mut terminal = Terminal::with(command.env("LEASEHOLD_STORE", bench.url()).env("TERM", "xterm"));
    terminal.draws(&["every 100ms: 0 held", "no lock is held"]);

    let held: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| bench.take(name)).into();
    let last = terminal.draws(&["8 held, 0 waiting", "NAME", "\ne ", "… and 3 more"]);
    assert!(last.lines().count() < 10 && !last.contains("\nf "), "no more than there is room for: {last:?}");
    assert!(last.contains("web-3/41/backup\\u{1b}[2J") && !last.contains("\u{1b}[2J"), "{last:?}");
    held.into_iter().for_each(|held| held.release(Duration::ZERO));
    terminal.draws(&["0 held", "no lock is held"]);

    terminal.keys.write_all(b"\x03").unwrap();
    let mut status = None;
    eventually("it ends", LIMIT, || {
        terminal.look();
        status = terminal.child.try_wait().unwrap();
        status.is_some()
    });
    let status = status.unwrap();
    assert_eq!((status.code(), status.signal()), (Some(0), None));
    assert!(terminal.look().contains("\u{1b}[?7h"), "long lines go on below again");
}

/// A terminal that knows no drawing gets the tables one below the other.
#[test]
fn a_dumb_terminal_is_not_drawn_on() {
    let bench = Bench::new();
    let mut terminal = Terminal::with(bench.command(["ls", "--watch=100ms"]).env("TERM", "dumb"));
    eventually("it is listed twice", LIMIT, || terminal.look().matches("no lock is held").count() > 1);
    assert!(!terminal.look().contains('\u{1b}'), "{:?}", terminal.shown);
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let bench = Bench::new();
    let script = "\"$0\" ls --watch=1d --json | head -1; echo ${PIPESTATUS[0]}";
    let mut command = Command::new("bash");
    command.args(["-c", script, env!("CARGO_BIN_EXE_leasehold")]).env("LEASEHOLD_STORE", bench.url());
    let piped = ran(&mut command);
    assert_eq!((piped.stdout.as_str(), piped.stderr.as_str()), ("[]\n0\n", ""));
    let full = File::options().write(true).open("/dev/full").unwrap();
    ran(bench.command(["ls", "--watch"]).stdout(full)).fails(78, &["cannot write to stdout"]);
}

#[test]
fn an_outage_is_told_once_and_asked_through() {
    let bench = Bench::new();
    fs::create_dir(bench.path("disk")).unwrap();
    let url = format!("sqlite://{}", bench.path("disk/locks.db").display());
    let going = Going::start(&mut bench.command(["ls", "--watch=100ms", "--json", "--store", &url]));
    assert_eq!(going.line(), "[]");
    fs::rename(bench.path("disk"), bench.path("away")).unwrap();
    // What was under way is told, then nothing.
    let start = Instant::now();
    while let Some(line) = going.next_within(SECOND) {
        assert!(start.elapsed() < LIMIT, "it goes on: {line}");
    }
    going.is_quiet(SECOND);
    fs::rename(bench.path("away"), bench.path("disk")).unwrap();
    assert_eq!(going.line(), "[]");
    going.send(SIGINT);
    let (code, said) = going.end();
    assert_eq!((code, said.matches("the store does not answer").count()), (0, 1), "{said}");
}

#[test]
fn a_store_that_cannot_be_opened_is_no_outage() {
    let bench = Bench::new();
    bench.run(["ls", "--watch", "--store", "sqlite:none/locks.db"]).fails(78, &["none", "create it"]);
}
