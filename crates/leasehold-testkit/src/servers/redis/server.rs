//! One Redis server.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use super::clock::OwnClock;
use super::{Connection, Monitor, RedisOptions, Reply};
#[cfg(feature = "tls")]
use crate::servers::Certificates;
use crate::servers::directory::Directory;
use crate::servers::port::Port;
use crate::servers::program::{self, Program};

/// The user by which the testkit itself asks a server, whatever others may do there.
const OURSELVES: &str = "leasehold-testkit";
/// How long a server may take to start, or to catch up.
pub(super) const LIMIT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(1);

/// A Redis server on 127.0.0.1. Killed when dropped, and when the test process dies.
///
/// The testkit asks it over a Unix socket in its directory, as a user of its own: that works whatever the port speaks
/// and whoever may log in there, and can't be answered by somebody else's server.
#[derive(Debug)]
pub struct Redis {
    options: RedisOptions,
    directory: Directory,
    port: Port,
    /// For the other nodes of a cluster.
    bus: Option<Port>,
    clock: Option<OwnClock>,
    run: Mutex<Run>,
}

/// What changes when the server is restarted.
#[derive(Debug, Default)]
struct Run {
    program: Option<Program>,
    /// Commands of our own that the server has counted.
    own: u64,
}

/// Why a server didn't start.
enum Trouble {
    PortTaken,
    Other(String),
}

impl Redis {
    /// Starts a plain server and waits until it answers.
    ///
    /// # Panics
    /// If there is no `redis-server`.
    #[must_use]
    pub fn start() -> Self {
        Self::options().start()
    }

    /// Starts a server that follows `master`, and waits until it has all that its master has.
    ///
    /// # Panics
    /// If there is no `redis-server`.
    #[must_use]
    pub fn replica_of(master: &Redis) -> Self {
        Self::options().replica_of(master).start()
    }

    /// For a server that isn't plain.
    #[must_use]
    pub fn options() -> RedisOptions {
        RedisOptions::default()
    }

    pub(super) fn started_with(&self) -> &RedisOptions {
        &self.options
    }

    pub(super) fn with(options: &RedisOptions) -> Self {
        // A port may be lost to another program between its reservation and the start.
        for _ in 0..10 {
            let bus = options.cluster.then(Port::reserve);
            let directory = Directory::new();
            let clock = options.own_clock.then(|| OwnClock::in_folder(directory.path()));
            let (options, port) = (options.clone(), Port::reserve());
            let server = Self { options, directory, port, bus, clock, run: Mutex::default() };
            // Only now: it may rewrite it, as sentinels do, and is to find that again.
            fs::write(server.configuration_file(), server.configuration()).expect("the directory is ours");
            match server.launch() {
                Ok(()) => {
                    if server.options.is_replica() {
                        server.wait("it is in sync with its master", || server.is_in_sync());
                    }
                    return server;
                }
                Err(Trouble::PortTaken) => {}
                Err(Trouble::Other(why)) => panic!("redis-server does not start: {why}"),
            }
        }
        panic!("redis-server gets no port");
    }

    /// Where clients find it, with the password: `redis:`, `rediss:` or `redis+unix:`.
    #[must_use]
    pub fn url(&self) -> String {
        match (self.password(), self.options.no_port) {
            (None, _) => self.url_with("", ""),
            (Some(password), false) => self.url_with(&format!(":{}@", escaped(password)), ""),
            (Some(password), true) => self.url_with("", &format!("?pass={}", escaped(password))),
        }
    }

    /// Where clients find it, as a user of its [`acl`](RedisOptions::acl).
    #[must_use]
    pub fn url_as(&self, user: &str, password: &str) -> String {
        let (user, password) = (escaped(user), escaped(password));
        if self.options.no_port {
            self.url_with("", &format!("?user={user}&pass={password}"))
        } else {
            self.url_with(&format!("{user}:{password}@"), "")
        }
    }

    /// Where clients find what it is one of, by these addresses.
    pub(super) fn url_of_many(&self, kind: &str, addresses: &[String]) -> String {
        let scheme = if self.options.has_tls() { "rediss" } else { "redis" };
        let login = self.password().map(|password| format!(":{}@", escaped(password))).unwrap_or_default();
        format!("{scheme}+{kind}://{login}{}", addresses.join(","))
    }

    fn url_with(&self, before: &str, after: &str) -> String {
        if self.options.no_port {
            return format!("redis+unix://{}{after}", self.socket().display());
        }
        let scheme = if self.options.has_tls() { "rediss" } else { "redis" };
        format!("{scheme}://{before}127.0.0.1:{}", self.port())
    }

    /// Its port on 127.0.0.1: the same for its whole life, also while it is down.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Its address, as `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// Its Unix socket, where clients may come too.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// The password that clients need, if any.
    #[must_use]
    pub fn password(&self) -> Option<&str> {
        self.options.password.as_deref()
    }

    /// What it shows to clients over TLS, and what a client may show it.
    ///
    /// # Panics
    /// If it was not started with TLS.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn certificates(&self) -> &Certificates {
        self.options.certificates.as_deref().expect("the server was started with TLS")
    }

    /// Asks it something, as a user who may do everything. An error of the server's is an answer.
    ///
    /// # Panics
    /// If it doesn't answer: it is down, or paused for 20 s.
    pub fn command(&self, command: &[&str]) -> Reply {
        self.connect().and_then(|mut connection| connection.ask(command)).expect("the server answers")
    }

    /// A connection of its own, as a user who may do everything: for `MULTI`, `SUBSCRIBE` and the like.
    ///
    /// # Errors
    /// If it is down.
    pub fn connect(&self) -> io::Result<Connection> {
        let mut connection = Connection::unix(&self.socket())?;
        let answer = connection.ask(&["AUTH", OURSELVES, "any"])?;
        if answer.error().is_none() {
            self.count_own();
        }
        Ok(connection)
    }

    pub(super) fn count_own(&self) {
        self.run().own += 1;
    }

    /// [`command`](Self::command), if it answers without an error; taken off [`commands_processed`].
    ///
    /// [`commands_processed`]: Self::commands_processed
    pub(super) fn ask(&self, command: &[&str]) -> Option<Reply> {
        let answer = self.connect().and_then(|mut connection| connection.ask(command)).ok()?;
        if answer.error().is_some() {
            return None;
        }
        self.count_own();
        Some(answer)
    }

    /// The fields of `INFO section`; none if it doesn't answer.
    pub(super) fn info(&self, section: &str) -> Vec<(String, String)> {
        let text = self.ask(&["INFO", section]).map(|reply| reply.text()).unwrap_or_default();
        text.lines().filter_map(|line| line.split_once(':')).map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// One field of `INFO section`; empty if there is none.
    pub(super) fn fact(&self, section: &str, name: &str) -> String {
        self.info(section).into_iter().find(|(field, _)| field == name).map(|(_, value)| value).unwrap_or_default()
    }

    /// How many commands it has run since its start, those of scripts among them; without the testkit's own questions,
    /// but with what [`command`](Self::command) was told.
    ///
    /// A master, a replica and a member of a cluster also count what they ask each other.
    ///
    /// # Panics
    /// If it doesn't answer.
    #[must_use]
    pub fn commands_processed(&self) -> u64 {
        let connection = &mut self.connect().expect("the server answers");
        let own = self.run().own;
        let answer = connection.ask(&["INFO", "stats"]).expect("the server answers").text();
        self.count_own();
        let total = answer.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
        // The answer was written before its own command was counted.
        total.and_then(|total| total.parse::<u64>().ok()).expect("it counts commands") - own
    }

    /// Listens to the commands that it runs from now on.
    ///
    /// # Panics
    /// If it doesn't answer.
    #[must_use]
    pub fn monitor(&self) -> Monitor<'_> {
        Monitor::of(self)
    }

    /// Stops it, as a suspended machine would be: connections stay, the system still accepts new ones, nothing is
    /// answered. When this returns, it does nothing any more.
    pub fn pause(&self) {
        if let Some(program) = &mut self.run().program {
            program.pause();
        }
    }

    /// Lets it go on.
    pub fn resume(&self) {
        if let Some(program) = &mut self.run().program {
            program.resume();
        }
    }

    /// Ends it like `kill -9` and waits until it is gone.
    pub fn kill(&self) {
        self.run().program = None;
    }

    /// Whether it is up, and not paused.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.run().program.as_mut().is_some_and(|program| !program.is_paused() && program.ended().is_none())
    }

    /// Its process id.
    ///
    /// # Panics
    /// If it is down.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.run().program.as_ref().expect("the server is up").id()
    }

    /// Starts it again on the same port, killing it first if need be. It knows what its files hold: nothing, unless it
    /// is [`append_only`](RedisOptions::append_only) or was told to `SAVE`. A replica may not be in sync yet.
    ///
    /// # Panics
    /// If it doesn't start.
    pub fn restart(&self) {
        self.kill();
        let deadline = Instant::now() + LIMIT;
        loop {
            match self.launch() {
                Ok(()) => return,
                // Nobody of ours; perhaps it goes away.
                Err(Trouble::PortTaken) => assert!(Instant::now() < deadline, "port {} is taken", self.port()),
                Err(Trouble::Other(why)) => panic!("redis-server does not start again: {why}"),
            }
        }
    }

    /// Sets its clock so many seconds ahead of the machine's, or behind it. It stays so over a restart. What it measures without
    /// that clock goes on at its pace.
    ///
    /// # Panics
    /// If it was started without one of its [`own`](RedisOptions::own_clock).
    pub fn set_clock(&self, seconds_ahead: i64) {
        let clock = self.clock.as_ref().expect("it was started with a clock of its own");
        clock.set_ahead(seconds_ahead * 1000);
    }

    /// Waits until this replica has all that `master` had when this was called.
    ///
    /// # Panics
    /// If it doesn't catch up.
    pub fn catch_up_with(&self, master: &Redis) {
        let reached = |server: &Redis, field| server.fact("replication", field).parse::<u64>().ok();
        let goal = reached(master, "master_repl_offset").expect("the master answers");
        self.wait("it has caught up", || {
            self.is_in_sync() && reached(self, "slave_repl_offset").is_some_and(|at| at >= goal)
        });
    }

    /// Whether it is a replica that is connected to its master and has had its first copy.
    pub(super) fn is_in_sync(&self) -> bool {
        self.fact("replication", "master_link_status") == "up"
    }

    /// Waits for a condition that its log may explain.
    pub(super) fn wait(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !condition() {
            assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}; its log: {}", self.log());
            thread::sleep(LOOK);
        }
    }

    fn launch(&self) -> Result<(), Trouble> {
        let mut command = Command::new(program::find("redis-server", "redis-server"));
        command.arg(self.configuration_file()).args(self.options.sentinel.then_some("--sentinel"));
        if let Some(clock) = &self.clock {
            clock.rule(&mut command);
        }
        let program = Program::start(command, &self.directory.path().join("log"));
        *self.run() = Run { program: Some(program), own: 0 };
        self.wait_until_it_answers()
    }

    fn configuration_file(&self) -> PathBuf {
        self.directory.path().join("redis.conf")
    }

    fn wait_until_it_answers(&self) -> Result<(), Trouble> {
        let deadline = Instant::now() + LIMIT;
        // While it loads its files, it answers with an error.
        while self.ask(&["PING"]).is_none() {
            let ended = self.run().program.as_mut().and_then(Program::ended);
            if ended.is_some() || Instant::now() > deadline {
                let log = self.log();
                let taken = log.contains("Address already in use");
                return Err(if taken { Trouble::PortTaken } else { Trouble::Other(log) });
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    fn configuration(&self) -> String {
        let mut text = String::new();
        let mut line = |line: String| writeln!(text, "{line}").expect("strings take everything");
        let path = self.directory.path().display();
        line(format!("bind 127.0.0.1\ndir \"{path}\"\nunixsocket \"{path}/socket\""));
        line(format!("user {OURSELVES} on nopass ~* &* +@all"));
        let (plain, tls) = match self.port() {
            _ if self.options.no_port => (0, 0),
            port if self.options.has_tls() => (0, port),
            port => (port, 0),
        };
        line(format!("port {plain}\nprotected-mode no"));
        if tls != 0 {
            line(format!("tls-port {tls}"));
        }
        if !self.options.sentinel {
            // A first copy is sent at once; by default it waits for more replicas to come.
            line("save \"\"\nrepl-diskless-sync yes\nrepl-diskless-sync-delay 0".into());
        }
        if let Some(bus) = &self.bus {
            line(format!("cluster-port {}", bus.number()));
        }
        self.options.lines.iter().cloned().for_each(line);
        text
    }

    pub(super) fn bus_port(&self) -> Option<u16> {
        self.bus.as_ref().map(Port::number)
    }

    fn run(&self) -> MutexGuard<'_, Run> {
        // A test that panicked while it held this must not hide why.
        self.run.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// For the part of a URL before the `@`, or behind the `?`.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => escaped.push(byte.into()),
            _ => write!(escaped, "%{byte:02X}").expect("strings take everything"),
        }
    }
    escaped
}
