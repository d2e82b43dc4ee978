//! For whoever looks after it: systemd, a container, a load balancer.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use leasehold_testkit::process::eventually;
use leasehold_testkit::servers::{Port, Redis};
use nix::sys::signal::Signal;

use crate::common::{Bench, LIMIT, ran};
use crate::harness::{Node, read};

const JOB: &str = "[jobs.a]\nevery = \"1s\"\ncommand = \"echo run >>ran\"\n";

/// The status and the body of an answer; nothing if nobody answers.
fn get(address: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

#[test]
fn it_says_whether_it_is_alive_and_ready() {
    let (server, bench, port) = (Redis::start(), Bench::new(), Port::reserve());
    let address = port.address();
    server.kill();
    bench.write("leasehold.toml", "[jobs.a]\nevery = \"1s\"\ncommand = \"until [ -e go ]; do sleep 0.05; done\"\n");
    let mut command = bench.bare(["schedule", "--json", "--listen", &address]);
    command.env("LEASEHOLD_STORE", server.url());
    let mut node = Node::of(command);
    node.tells("away");
    assert_eq!(get(&address, "/healthz"), Some((200, "alive\n".into())));
    let (code, why) = get(&address, "/readyz").unwrap();
    assert!(code == 503 && why.starts_with("not ready: the store has been away for "), "{code} {why}");
    server.restart();
    eventually("it is ready", LIMIT, || get(&address, "/readyz") == Some((200, "ready\n".into())));
    assert_eq!(get(&address, "/").unwrap().0, 404);
    node.tells_of("started", "a");
    node.send(Signal::SIGTERM);
    node.tells("stopping");
    assert_eq!(get(&address, "/readyz"), Some((503, "not ready: it is stopping\n".into())));
    assert_eq!(get(&address, "/healthz").unwrap().0, 200);
    bench.write("go", "");
    assert_eq!(node.ends().0, Some(0));
}

/// The value of the first series in `text` that begins so.
fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find(|line| line.starts_with(series))?.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn it_tells_what_it_counts() {
    let (bench, port) = (Bench::new(), Port::reserve());
    let address = port.address();
    bench.write("leasehold.toml", JOB);
    let mut node = Node::start(&bench, &["--listen", &address, "--metrics-by-job"]);
    node.tells_of("done", "a");
    let mut text = String::new();
    eventually("the run and its release are counted", LIMIT, || {
        let (code, body) = get(&address, "/metrics").unwrap();
        assert_eq!(code, 200, "{body}");
        text = body;
        let done = value(&text, "leasehold_runs_total{outcome=\"done\",group=\"a\"}");
        let released = value(&text, "leasehold_releases_total{outcome=\"in_time\",group=\"a\"}");
        done >= Some(1.0) && released >= Some(1.0)
    });
    assert!(value(&text, "leasehold_run_late_seconds_count{group=\"a\"}") >= Some(1.0), "{text}");
    let claims = "leasehold_store_call_duration_seconds_count{operation=\"acquire\",store=\"sqlite\"}";
    assert!(value(&text, claims) >= Some(1.0), "{text}");
    assert!(text.contains("leasehold_build_info{version="), "{text}");
    assert_eq!(node.stop().0, Some(0));
}

#[test]
fn an_address_that_is_taken_is_told_before_anything_runs() {
    let bench = Bench::new();
    bench.write("leasehold.toml", JOB);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (address, code, words) in
        [(address.as_str(), 78, "another process listens there"), ("nonsense", 64, "127.0.0.1:9470")]
    {
        let refused = ran(&mut bench.command(["schedule", "--listen", address]));
        refused.fails(code, &["--listen", address, words]);
    }
    assert!(!bench.path("ran").exists());
}

/// What was said to systemd, up to and with this.
#[track_caller]
fn hears(socket: &UnixDatagram, wanted: &str) -> Vec<String> {
    let mut heard = Vec::new();
    loop {
        let mut words = [0; 4096];
        let length = socket.recv(&mut words).unwrap_or_else(|error| panic!("{error}; {wanted} is not in {heard:?}"));
        heard.push(String::from_utf8(words[..length].to_vec()).unwrap());
        if heard.last().unwrap().contains(wanted) {
            return heard;
        }
    }
}

#[test]
fn systemd_is_told() {
    let bench = Bench::new();
    let socket = UnixDatagram::bind(bench.path("notify")).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    bench.write("leasehold.toml", "[jobs.a]\nevery = \"1s\"\ncommand = \"echo [$NOTIFY_SOCKET$WATCHDOG_USEC]\"\n");
    let mut command = bench.command(["schedule", "--json"]);
    // So rarely that the socket, which takes but ten words that nobody has heard yet, has room for each.
    command.env("NOTIFY_SOCKET", bench.path("notify")).env("WATCHDOG_USEC", "2000000");
    let mut node = Node::of(command);
    assert!(hears(&socket, "READY=1").last().unwrap().contains("STATUS=1 job"));
    node.tells_where("output", |told| told["text"] == "[]"); // it is none of the job's
    hears(&socket, "WATCHDOG=1");
    hears(&socket, "WATCHDOG=1");
    node.send(Signal::SIGHUP);
    hears(&socket, "RELOADING=1\nMONOTONIC_USEC=");
    hears(&socket, "READY=1");
    node.send(Signal::SIGTERM);
    hears(&socket, "STOPPING=1");
    assert_eq!(node.ends().0, Some(0));
}

/// A hanging scheduler is seen: what is stopped says nothing.
#[test]
fn a_watchdog_hears_nothing_of_one_that_hangs() {
    let bench = Bench::new();
    let socket = UnixDatagram::bind(bench.path("notify")).unwrap();
    bench.write("leasehold.toml", JOB);
    let mut command = bench.command(["schedule", "--json"]);
    command.env("NOTIFY_SOCKET", bench.path("notify")).env("WATCHDOG_USEC", "100000");
    let node = Node::of(command);
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    hears(&socket, "WATCHDOG=1");
    node.send(Signal::SIGSTOP);
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut words = [0; 4096];
    while socket.recv(&mut words).is_ok() {} // what was on its way; then silence
    node.send(Signal::SIGCONT);
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    hears(&socket, "WATCHDOG=1");
}

/// A PID namespace, where this machine lets us have one.
const CONTAINER: [&str; 4] = ["unshare", "-Urpf", "--mount-proc", "--kill-child"];

/// As the first process of a container it gets everybody's orphans, and signals must reach it.
#[test]
fn p09_as_the_first_process_it_reaps_and_stops() {
    let possible = Command::new(CONTAINER[0]).args(&CONTAINER[1..]).arg("true").status();
    if !possible.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no PID namespace to be had here");
        return;
    }
    let bench = Bench::new();
    let orphans = "for i in 1 2 3 4 5; do (setsid sleep 0.1 &) ; done; echo run >>ran; ps -eo pid=,stat= >processes";
    bench.write("leasehold.toml", &format!("[jobs.a]\nevery = \"1s\"\ncommand = '''{orphans}'''\n"));
    let mut command = Command::new(CONTAINER[0]);
    command.args(&CONTAINER[1..]).arg(env!("CARGO_BIN_EXE_leasehold")).args(["schedule", "--json"]);
    command.env("LEASEHOLD_STORE", bench.url()).current_dir(bench.path("."));
    let mut node = Node::of(command);
    for _ in 0..3 {
        node.tells_of("done", "a");
    }
    // Those of this look may be dying just now; those of the runs before must be gone, but whoever reaps them may be late.
    eventually("those of the runs before are gone", LIMIT, || {
        let processes = read(&bench, "processes");
        !processes.is_empty() && processes.lines().filter(|line| line.contains('Z')).count() <= 5
    });
    let first = first_process_below(node.pid());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(first), Signal::SIGTERM).unwrap();
    let (code, told) = node.ends();
    assert_eq!(code, Some(0), "{told:#?}");
}

/// The child of `unshare`.
fn first_process_below(parent: u32) -> i32 {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    children.split_whitespace().next().expect("it has a child").parse().unwrap()
}

/// As far as this machine can say: not every one has systemd.
#[test]
fn the_unit_of_the_manual_is_one_that_systemd_takes() {
    const UNIT: &str = include_str!("../../../../examples/deploy/leasehold-schedule.service");
    let bench = Bench::new();
    let here = [("/usr/local/bin/leasehold", env!("CARGO_BIN_EXE_leasehold")), ("User=jobs", "User=root")];
    let unit = here.iter().fold(UNIT.to_owned(), |unit, (there, here)| {
        assert!(unit.contains(there), "{there}");
        unit.replace(there, here)
    });
    let unit = bench.write("leasehold-schedule.service", &unit);
    let Ok(verified) = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(unit).output() else {
        return eprintln!("systemd-analyze is not here");
    };
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && !said.contains("leasehold-schedule"), "{said}");
}
