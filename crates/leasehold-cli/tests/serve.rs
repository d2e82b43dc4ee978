//! `leasehold serve`: where it listens, who may act, how it ends.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Bench, Going, LIMIT, ran};
use leasehold_testkit::process::eventually;
use nix::sys::signal::Signal;
use serde_json::Value;

const TOKEN: &str = "correct-horse-battery-staple";

/// A server that runs, and where.
struct Server {
    going: Going,
    address: String,
    told: String,
}

impl Server {
    fn start(command: &mut Command) -> Server {
        let going = Going::start(command);
        let told = going.line();
        let address = told.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect(&told).to_owned();
        Server { going, address, told }
    }

    fn asks(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = self.connect();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {length}\r\n",
            self.address
        );
        write!(stream, "{head}{headers}\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect(&answer);
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.asks("GET", path, "", "")
    }

    fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }
}

#[test]
fn it_says_where_to_look_and_shows_what_is_locked() {
    let bench = Bench::new();
    let held = bench.take("backup");
    let server = Server::start(&mut bench.command(["serve", "--listen", "127.0.0.1:0"]));
    assert!(server.told.contains(&format!("shows the locks in {}", bench.url())), "{}", server.told);
    assert!(server.told.contains("nobody can act (see --token-file)"), "{}", server.told);
    let shown = server.json("/api/v1/locks");
    assert_eq!(
        (&shown["locks"][0]["name"], &shown["locks"][0]["token"]),
        (&"backup".into(), &held.token.to_string().into())
    );
    let (status, page) = server.get("/");
    assert!(status == 200 && page.contains("<html"), "{page}");
    assert_eq!((server.get("/healthz").0, server.get("/readyz").0), (200, 200));
    let (status, metrics) = server.get("/metrics");
    assert_eq!(status, 200);
    for line in ["leasehold_snapshot_locks{state=\"held\"} 1", "leasehold_snapshot_up 1", "leasehold_build_info{"] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    assert!(!metrics.contains("backup"), "names are no labels");
    let (status, refused) = server.asks("POST", "/api/v1/revoke", "Content-Type: application/json\r\n", "{}");
    assert!(status == 403 && refused.contains("--token-file"), "{refused}");
}

#[test]
fn whoever_has_the_token_can_act() {
    let bench = Bench::new();
    let held = bench.take("stuck");
    let file = bench.write("token", &format!("{TOKEN}\n"));
    let order = r#"{"name":"stuck","now":true,"why":"it hangs","by":"ada","confirm":"stuck"}"#;
    let headers = format!("Content-Type: application/json\r\nAuthorization: Bearer {TOKEN}\r\n");
    let listen = ["serve", "--listen", "127.0.0.1:0"];
    let of_a_file = Server::start(bench.command(listen).arg("--token-file").arg(&file));
    assert!(of_a_file.told.contains("whoever has the token can act"), "{}", of_a_file.told);
    let (status, _) = of_a_file.asks("POST", "/api/v1/revoke", &headers.replace("horse", "mouse"), order);
    assert_eq!(status, 401);
    let (status, done) = of_a_file.asks("POST", "/api/v1/revoke", &headers, order);
    assert!(status == 200 && done.contains(r#""done":"freed""#), "{done}");
    assert_eq!(held.renewal(), "Gone");
    let of_the_environment = Server::start(bench.command(listen).env("LEASEHOLD_SERVE_TOKEN", TOKEN));
    let (status, done) = of_the_environment.asks("POST", "/api/v1/revoke", &headers, order);
    assert!(status == 200 && done.contains(r#""done":"nothing""#), "{done}");
    assert_eq!(of_the_environment.json("/api/v1/lock?name=stuck")["revocations"][0]["by"], "ada");
}

/// Supervisors send it SIGHUP to have files read again: nobody's page is to go for that.
#[test]
fn a_hangup_has_the_token_read_again() {
    let bench = Bench::new();
    let file = bench.write("token", TOKEN);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = bench.command(["serve", "--listen", "127.0.0.1:0", "--token-file"]);
    let server = Server::start(command.arg(&file));
    let order = r#"{"name":"a","now":true,"why":"a test","by":"ada","confirm":"a"}"#;
    let with = |token: &str| {
        let headers = format!("Content-Type: application/json\r\nAuthorization: Bearer {token}\r\n");
        server.asks("POST", "/api/v1/revoke", &headers, order).0
    };
    assert_eq!(with(TOKEN), 200);
    bench.write("token", "another-token-of-this-server\n");
    server.going.send(Signal::SIGHUP);
    eventually("the new token counts", LIMIT, || with("another-token-of-this-server") == 200);
    assert_eq!(with(TOKEN), 401);
    bench.write("token", "guess-me\n");
    server.going.send(Signal::SIGHUP);
    server.going.send(Signal::SIGTERM);
    let (code, told) = server.going.end();
    assert_eq!(code, 0);
    let lines: Vec<_> = told.lines().collect();
    assert!(lines[0].contains("SIGHUP: the token in ") && lines[0].ends_with(" counts now"), "{told}");
    assert!(lines[1].contains("8 characters") && lines[1].ends_with("the token before still counts"), "{told}");
    assert_eq!(lines.len(), 2, "{told}");
}

#[test]
fn a_hangup_ends_no_server_that_has_nothing_to_read() {
    let bench = Bench::new();
    let server = Server::start(&mut bench.command(["serve", "--listen", "127.0.0.1:0"]));
    server.going.send(Signal::SIGHUP);
    assert_eq!(server.get("/healthz").0, 200);
    server.going.send(Signal::SIGTERM);
    let (code, told) = server.going.end();
    assert!(code == 0 && told.contains("SIGHUP: there is nothing to read again"), "{code} {told}");
}

#[test]
fn a_token_that_everybody_may_read_is_told_with_the_fix() {
    let bench = Bench::new();
    let file = bench.write("token", TOKEN);
    for (mode, is_told) in [(0o644, true), (0o600, false), (0o640, false)] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let mut command = bench.command(["serve", "--listen", "127.0.0.1:0", "--token-file"]);
        let server = Server::start(command.arg(&file));
        server.going.send(Signal::SIGTERM);
        let (code, told) = server.going.end();
        let fix = format!("chmod 600 {}", file.display());
        assert_eq!((code, told.contains("(mode 644)") && told.contains(&fix)), (0, is_told), "{mode:o}: {told}");
    }
}

#[test]
fn what_is_not_safe_is_refused_before_it_listens() {
    let bench = Bench::new();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let refused = ran(&mut bench.command(["serve", "--listen", address]));
        refused.fails(64, &["--listen", address, "--token-file", "openssl rand -hex 32", "127.0.0.1"]);
    }
    let (short, empty) = (bench.write("short", "guess-me\n"), bench.write("empty", "\n"));
    for (file, words) in [
        (short, ["8 characters", "openssl"]),
        (empty, ["0 characters", "openssl"]),
        (bench.path("none"), ["can't be read", "none"]),
    ] {
        ran(bench.command(["serve", "--listen", "127.0.0.1:0", "--token-file"]).arg(file)).fails(78, &words);
    }
    let refused = ran(bench.command(["serve", "--listen", "127.0.0.1:0"]).env("LEASEHOLD_SERVE_TOKEN", "guess-me"));
    refused.fails(78, &["LEASEHOLD_SERVE_TOKEN", "8 characters"]);
    assert!(!refused.stderr.contains("guess-me"), "{refused:?}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let port = format!("ss -ltnp 'sport = :{}'", taken.local_addr().unwrap().port());
    let refused = ran(&mut bench.command(["serve", "--listen", &address]));
    refused.fails(78, &["--listen", &address, "in use", &port, "take another port"]);
    ran(&mut bench.command(["serve", "--listen", "nonsense"])).fails(64, &["--listen", "nonsense", "127.0.0.1:7676"]);
}

/// With a token others may reach it; under a name only if it was given.
#[test]
fn other_machines_need_a_token_and_a_name() {
    let bench = Bench::new();
    let mut command = bench.command(["serve", "--listen", "0.0.0.0:0", "--host", "Locks.Example.com"]);
    let server = Server::start(command.env("LEASEHOLD_SERVE_TOKEN", TOKEN));
    let port = server.address.rsplit_once(':').unwrap().1.to_owned();
    let asks = |host: &str| {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        write!(stream, "GET /api/v1/locks HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    assert_eq!(["locks.example.com", "127.0.0.1", "evil.example"].map(asks), [200, 200, 403]);
}

#[test]
fn a_signal_ends_it_soon_also_with_open_streams() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let bench = Bench::new();
        let server = Server::start(&mut bench.command(["serve", "--listen", "127.0.0.1:0"]));
        let mut streams = Vec::new();
        for _ in 0..5 {
            let mut stream = server.connect();
            write!(stream, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
            assert!(lines.any(|line| line == "event: change"));
            streams.push(lines);
        }
        let mut idle = server.connect(); // which never asks
        server.going.send(signal);
        let began = Instant::now();
        assert_eq!(server.going.end(), (0, String::new()), "{signal}");
        assert!(began.elapsed() < Duration::from_secs(10), "{signal}: {:?}", began.elapsed());
        for mut lines in streams {
            assert!(lines.by_ref().all(|line| line != "event: change"), "it ends, with nothing new");
        }
        assert_eq!(idle.read(&mut [0]).unwrap_or(0), 0);
    }
}

#[test]
fn systemd_is_told() {
    let bench = Bench::new();
    let socket = UnixDatagram::bind(bench.path("notify")).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let heard = |wanted: &str| loop {
        let mut words = [0; 4096];
        let length = socket.recv(&mut words).unwrap_or_else(|error| panic!("{error}: {wanted}"));
        let words = String::from_utf8(words[..length].to_vec()).unwrap();
        if words.contains(wanted) {
            return words;
        }
    };
    // So rarely that the socket, which takes but ten words that nobody has heard yet, has room for each.
    let mut command = bench.command(["serve", "--listen", "127.0.0.1:0"]);
    let server = Server::start(command.env("NOTIFY_SOCKET", bench.path("notify")).env("WATCHDOG_USEC", "1000000"));
    assert!(heard("READY=1").contains(&format!("STATUS=http://{}/", server.address)));
    heard("WATCHDOG=1");
    heard("WATCHDOG=1");
    server.going.send(Signal::SIGHUP);
    assert!(heard("RELOADING=1").contains("MONOTONIC_USEC="));
    heard("READY=1");
    server.going.send(Signal::SIGTERM);
    heard("STOPPING=1");
    assert_eq!(server.going.end().0, 0);
}

/// It shows its token to nobody, also not in what the system shows of it.
#[test]
fn the_token_is_not_on_the_command_line() {
    let bench = Bench::new();
    let file = bench.write("token", TOKEN);
    let server = Server::start(bench.command(["serve", "--listen", "127.0.0.1:0", "--token-file"]).arg(file));
    let line = fs::read(format!("/proc/{}/cmdline", server.going.child.id())).unwrap();
    assert!(!String::from_utf8_lossy(&line).contains(TOKEN));
    let help = bench.run(["serve", "--help"]);
    help.says(&["--token-file", "LEASEHOLD_SERVE_TOKEN", "--host", "/metrics", "docs/serve.md"]);
    assert!(!help.stdout.contains("--token "), "{}", help.stdout);
}

/// They would never match what a browser sends.
#[test]
fn a_host_is_a_name_alone() {
    let bench = Bench::new();
    for host in ["", "a b", "*", "http://locks.example.com/", "locks.example.com:443"] {
        bench.run(["serve", "--host", host]).fails(64, &["is no name of a host", "locks.example.com, without scheme"]);
    }
}
