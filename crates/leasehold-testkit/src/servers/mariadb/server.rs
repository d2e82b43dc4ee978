//! One MariaDB server.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::{MariaDbOptions, template, user};
#[cfg(feature = "tls")]
use crate::servers::Certificates;
use crate::servers::directory::Directory;
use crate::servers::port::Port;
use crate::servers::program::{self, Program};

const LIMIT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);

/// What the data is made with, and has to be opened with.
pub(super) const SMALL: [&str; 2] = ["--innodb-log-file-size=8M", "--innodb-data-file-path=ibdata1:3M:autoextend"];

/// A database, a user who may do everything in it, and one who may do nothing yet. `root` is the testkit's own.
const PREPARE: &str = "
    create database if not exists jobs;
    create user if not exists jobs@'%' identified by 'hunter2';
    create user if not exists poor@'%' identified by 'hunter3';
    grant all on jobs.* to jobs@'%';
";

/// A MariaDB server on 127.0.0.1. Killed when dropped, and when the test process dies.
///
/// It has a database `jobs`, a user `jobs` who may do everything there, and a user `poor` who may do nothing. The testkit
/// asks it as `root`, over a Unix socket in its directory, by the program `mariadb`.
#[derive(Debug)]
pub struct MariaDb {
    options: MariaDbOptions,
    directory: Directory,
    port: Port,
    program: Mutex<Option<Program>>,
}

impl MariaDb {
    /// Starts a server and waits until it answers: about half a second, and three more for the first on this machine.
    ///
    /// # Panics
    /// If there is no `mariadbd`.
    #[must_use]
    pub fn start() -> Self {
        Self::options().start()
    }

    /// For a server that isn't plain.
    #[must_use]
    pub fn options() -> MariaDbOptions {
        MariaDbOptions::default()
    }

    pub(super) fn with(options: MariaDbOptions) -> Self {
        let server = Self { options, directory: Directory::new(), port: Port::reserve(), program: Mutex::default() };
        let path = server.directory.path();
        user().own(path).expect("a new folder is ours to give");
        template::copy_to(&path.join("data"));
        fs::write(path.join("prepare.sql"), PREPARE.replace("\n    ", "\n")).expect("the directory is ours");
        server.take_certificates();
        server.launch();
        server
    }

    /// Where clients find its database, as the user `jobs`.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_as("jobs", "hunter2")
    }

    /// Where clients find its database, as another user.
    #[must_use]
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("mysql://{user}:{password}@{}/jobs", self.address())
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

    /// What it shows to clients over TLS, and what a client may show it.
    ///
    /// # Panics
    /// If it was not started with TLS.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn certificates(&self) -> &Certificates {
        self.options.certificates.as_deref().expect("the server was started with TLS")
    }

    /// Runs statements as `root` in the database `jobs`, and answers what they say: a line for each row, columns apart by
    /// tabs.
    ///
    /// # Panics
    /// If the server answers with an error, or not at all.
    pub fn sql(&self, statements: &str) -> String {
        let Output { status, stdout, stderr } = self.ask(&["--database=jobs", "--execute", statements]);
        assert!(status.success(), "{statements}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8_lossy(&stdout).trim_end().to_owned()
    }

    /// Runs a script in the database `jobs`, as its own client reads it.
    ///
    /// # Panics
    /// If the server answers with an error, or not at all.
    pub fn script(&self, text: &str) {
        let file = self.directory.path().join("script.sql");
        fs::write(&file, text).expect("the directory is ours");
        self.sql(&format!("source {}", file.display()));
    }

    /// Ends all sessions of a user, as an operator would.
    pub fn end_sessions(&self, user: &str) {
        let all = format!("select id from information_schema.processlist where user = '{user}'");
        for id in self.sql(&all).lines() {
            // It may have ended by itself.
            self.ask(&["--force", "--execute", &format!("kill {id}")]);
        }
    }

    /// What it has to say for itself.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Stops it, as a suspended machine would be: connections stay, the system still accepts new ones, nothing is
    /// answered. When this returns, it does nothing any more.
    pub fn pause(&self) {
        if let Some(program) = &mut *self.program() {
            program.pause();
        }
    }

    /// Lets it go on.
    pub fn resume(&self) {
        if let Some(program) = &mut *self.program() {
            program.resume();
        }
    }

    /// Ends it like `kill -9` and waits until it is gone.
    pub fn kill(&self) {
        *self.program() = None;
    }

    /// Starts it again on the same port with what it had, killing it first if need be.
    ///
    /// # Panics
    /// If it doesn't start.
    pub fn restart(&self) {
        self.kill();
        self.launch();
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        let mut client = Command::new(program::find("mariadb", "mariadb-client"));
        client.args(["--no-defaults", "--user=root", "--batch", "--skip-column-names"]);
        client.arg(format!("--socket={}", self.socket().display())).args(arguments);
        client.output().expect("the client can be started")
    }

    fn launch(&self) {
        let path = self.directory.path();
        let mut command = Command::new(program::find("mariadbd", "mariadb-server"));
        command.arg("--no-defaults").args(SMALL).args([
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--innodb-buffer-pool-size=24M",
            "--key-buffer-size=1M",
            "--aria-pagecache-buffer-size=1M",
            "--performance-schema=OFF",
        ]);
        command.arg(format!("--port={}", self.port()));
        // A server that starts clears the folder of what it takes for its own.
        command.arg(format!("--tmpdir={}", path.display()));
        for (option, file) in
            [("datadir", "data"), ("socket", "socket"), ("pid-file", "pid"), ("init-file", "prepare.sql")]
        {
            command.arg(format!("--{option}={}", path.join(file).display()));
        }
        #[cfg(feature = "tls")]
        if self.options.certificates.is_some() {
            let file = |option, name| format!("--ssl-{option}={}", path.join(name).display());
            command.args([file("ca", "ca.crt"), file("cert", "server.crt"), file("key", "server.key")]);
        }
        if !self.options.durable {
            // Tables that are made are synced by the server itself, whatever the engine does.
            command.args(["--innodb-flush-method=nosync", "--debug-no-sync", "--skip-sync-frm"]);
        }
        command.args(&self.options.arguments);
        user().run(&mut command);
        *self.program() = Some(Program::start(command, &path.join("log")));
        self.wait_until_it_answers();
    }

    /// Copies them to where the server may read them.
    fn take_certificates(&self) {
        #[cfg(feature = "tls")]
        if let Some(certificates) = &self.options.certificates {
            let (cert, key) = certificates.server();
            for (file, name) in [(certificates.authority(), "ca.crt"), (cert, "server.crt"), (key, "server.key")] {
                let copy = self.directory.path().join(name);
                fs::copy(file, &copy).expect("the directory is ours");
                user().own(&copy).expect("it is ours to give");
            }
        }
    }

    fn wait_until_it_answers(&self) {
        let deadline = Instant::now() + LIMIT;
        while !self.ask(&["--execute", "select 1"]).status.success() {
            let ended = self.program().as_mut().and_then(Program::ended);
            assert!(ended.is_none() && Instant::now() < deadline, "mariadbd does not start: {}", self.log());
            thread::sleep(LOOK);
        }
    }

    fn program(&self) -> MutexGuard<'_, Option<Program>> {
        // A test that panicked while it held this must not hide why.
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
