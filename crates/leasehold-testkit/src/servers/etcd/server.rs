//! One member of an etcd cluster.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use super::EtcdOptions;
#[cfg(feature = "tls")]
use crate::servers::Certificates;
use crate::servers::directory::Directory;
use crate::servers::port::Port;
use crate::servers::program::{self, Program};

/// How long a member may take to start.
pub(super) const LIMIT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);

/// A member of an etcd cluster on 127.0.0.1, or a cluster of its own. Killed when dropped, and when the test process
/// dies. What it has answered to a write is on the disk: it knows it after a restart.
#[derive(Debug)]
pub struct Etcd {
    options: EtcdOptions,
    directory: Directory,
    name: String,
    client: Port,
    peer: Port,
    /// Where it says in the clear how it is, whatever clients speak.
    metrics: Port,
    /// Every member of its cluster, as etcd wants to be told.
    cluster: String,
    program: Mutex<Option<Program>>,
}

impl Etcd {
    /// Starts a plain server and waits until it answers.
    ///
    /// # Panics
    /// If there is no `etcd`.
    #[must_use]
    pub fn start() -> Self {
        Self::options().start()
    }

    /// For a server that isn't plain.
    #[must_use]
    pub fn options() -> EtcdOptions {
        EtcdOptions::default()
    }

    pub(super) fn with(options: &EtcdOptions) -> Self {
        for _ in 0..10 {
            let mut server = Self::prepared("alone", options);
            server.cluster = server.peer_of_cluster();
            server.launch();
            match server.wait_until_it_answers() {
                Ok(()) => return server,
                Err(log) => assert!(log.contains("address already in use"), "etcd does not start: {log}"),
            }
        }
        panic!("etcd gets no port");
    }

    /// Not started yet.
    pub(super) fn prepared(name: &str, options: &EtcdOptions) -> Self {
        let [client, peer, metrics] = [(); 3].map(|()| Port::reserve());
        Self {
            options: options.clone(),
            directory: Directory::new(),
            name: name.to_owned(),
            client,
            peer,
            metrics,
            cluster: String::new(),
            program: Mutex::default(),
        }
    }

    pub(super) fn peer_of_cluster(&self) -> String {
        format!("{}=http://127.0.0.1:{}", self.name, self.peer.number())
    }

    pub(super) fn join(&mut self, cluster: &str) {
        cluster.clone_into(&mut self.cluster);
        self.launch();
    }

    /// Where clients find it: `etcd:` or `etcds:`.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.options.scheme() == "https" { "etcds" } else { "etcd" };
        format!("{scheme}://{}", self.address())
    }

    /// Its address, as `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.client.number())
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

    /// Etcd's own client, not started yet, that asks this member.
    ///
    /// # Panics
    /// If there is no `etcdctl`.
    #[must_use]
    pub fn etcdctl(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program::find("etcdctl", "etcd-client"));
        command.env("ETCDCTL_API", "3").stdin(Stdio::null());
        command.arg(format!("--endpoints={}://{}", self.options.scheme(), self.address()));
        #[cfg(feature = "tls")]
        if let Some(certificates) = &self.options.certificates {
            let (cert, key) = certificates.client();
            command.arg("--cacert").arg(certificates.authority()).arg("--cert").arg(cert).arg("--key").arg(key);
        }
        command.args(arguments);
        command
    }

    /// Asks it something by etcd's own client, and answers what that prints.
    ///
    /// # Panics
    /// If the client says that it failed.
    pub fn command(&self, arguments: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.etcdctl(arguments).output().expect("etcdctl can be run");
        let said = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "etcdctl {arguments:?}: {status}: {said}");
        String::from_utf8(stdout).expect("it prints text").trim_end().to_owned()
    }

    /// All keys that begin with `prefix`.
    #[must_use]
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let said = self.command(&["get", "--prefix", "--keys-only", prefix]);
        said.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// How many requests of a method it has answered since its start: `Txn`, `LeaseKeepAlive`.
    ///
    /// # Panics
    /// If it doesn't answer.
    #[must_use]
    pub fn answered(&self, method: &str) -> u64 {
        let metrics = self.ask("/metrics").expect("it answers");
        let is_meant = |line: &&str| {
            line.starts_with("grpc_server_msg_sent_total{") && line.contains(&format!("grpc_method=\"{method}\""))
        };
        let counts = metrics.lines().filter(is_meant).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        counts.sum::<f64>() as u64
    }

    /// Stops it, as a suspended machine would be: connections stay, the system still accepts new ones, nothing is
    /// answered. When this returns, it does nothing any more.
    pub fn pause(&self) {
        if let Some(program) = self.program().as_mut() {
            program.pause();
        }
    }

    /// Lets it go on.
    pub fn resume(&self) {
        if let Some(program) = self.program().as_mut() {
            program.resume();
        }
    }

    /// Ends it like `kill -9` and waits until it is gone.
    pub fn kill(&self) {
        *self.program() = None;
    }

    /// Starts it again on the same ports, killing it first if need be, and waits until it has a leader.
    ///
    /// # Panics
    /// If it doesn't start.
    pub fn restart(&self) {
        self.kill();
        let deadline = Instant::now() + LIMIT;
        loop {
            self.launch();
            match self.wait_until_it_answers() {
                Ok(()) => return,
                Err(log) => assert!(Instant::now() < deadline, "etcd does not start again: {log}"),
            }
        }
    }

    /// A backup of all that it has by now.
    ///
    /// # Panics
    /// If it can't be made.
    #[must_use]
    pub fn snapshot(&self) -> Vec<u8> {
        let path = self.path().join("snapshot");
        self.command(&["snapshot", "save", &path.to_string_lossy()]);
        fs::read(path).expect("it was just made")
    }

    /// Kills it, and starts it again with what a backup holds and nothing else, as a cluster with this token: with
    /// `etcd-cluster`, as it was at first, it takes itself for the same cluster as before.
    ///
    /// # Panics
    /// If it doesn't start.
    pub fn restore(&self, snapshot: &[u8], token: &str) {
        self.kill();
        let (path, data) = (self.path().join("snapshot"), self.path().join("data"));
        fs::write(&path, snapshot).and_then(|()| fs::remove_dir_all(&data)).expect("its directory can be written");
        self.command(&[
            "snapshot",
            "restore",
            &path.to_string_lossy(),
            &format!("--data-dir={}", data.display()),
            &format!("--name={}", self.name),
            &format!("--initial-cluster={}", self.cluster),
            &format!("--initial-cluster-token={token}"),
            &format!("--initial-advertise-peer-urls=http://127.0.0.1:{}", self.peer.number()),
        ]);
        self.restart();
    }

    /// Whether it answers, and knows a leader.
    pub(super) fn is_healthy(&self) -> bool {
        self.ask("/health").is_ok_and(|said| said.contains("\"true\""))
    }

    /// One of its metrics, by its whole name with the blank behind it; none if it doesn't answer.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<f64> {
        let metrics = self.ask("/metrics").ok()?;
        metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    /// Asks for a page where it says how it is.
    fn ask(&self, page: &str) -> io::Result<String> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.metrics.number()))?;
        connection.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(connection, "GET {page} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut said = String::new();
        connection.read_to_string(&mut said)?;
        Ok(said)
    }

    pub(super) fn wait_until_it_answers(&self) -> Result<(), String> {
        let deadline = Instant::now() + LIMIT;
        while !self.is_healthy() {
            let ended = self.program().as_mut().and_then(Program::ended);
            if ended.is_some() || Instant::now() > deadline {
                return Err(self.log());
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    fn launch(&self) {
        let local = |scheme: &str, port: &Port| format!("{scheme}://127.0.0.1:{}", port.number());
        let scheme = self.options.scheme();
        let mut command = Command::new(program::find("etcd", "etcd-server"));
        command.current_dir(self.path()).arg("--data-dir").arg(self.path().join("data"));
        for (flag, value) in [
            ("name", self.name.clone()),
            ("listen-client-urls", local(scheme, &self.client)),
            ("advertise-client-urls", local(scheme, &self.client)),
            ("listen-peer-urls", local("http", &self.peer)),
            ("initial-advertise-peer-urls", local("http", &self.peer)),
            ("initial-cluster", self.cluster.clone()),
            ("listen-metrics-urls", local("http", &self.metrics)),
            ("log-level", "error".to_owned()),
        ] {
            command.arg(format!("--{flag}={value}"));
        }
        command.args(&self.options.flags);
        *self.program() = Some(Program::start(command, &self.path().join("log")));
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path().join("log")).unwrap_or_default()
    }

    fn program(&self) -> MutexGuard<'_, Option<Program>> {
        // A test that panicked while it held this must not hide why.
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
