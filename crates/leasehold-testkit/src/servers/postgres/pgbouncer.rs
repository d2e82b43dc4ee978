//! A pooler between clients and a PostgreSQL server.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::{Postgres, user};
use crate::servers::directory::Directory;
use crate::servers::port::Port;
use crate::servers::program::{self, Program};

const LIMIT: Duration = Duration::from_secs(20);

/// For how long a client has a session of the server's to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolMode {
    /// Until it disconnects.
    Session,
    /// Until its transaction ends: the next statement may go to another one.
    Transaction,
}

/// PgBouncer on 127.0.0.1, before a server. Killed when dropped, and when the test process dies.
#[derive(Debug)]
pub struct PgBouncer {
    directory: Directory,
    port: Port,
    program: Mutex<Program>,
}

impl PgBouncer {
    /// Starts one and waits until it takes connections. Clients share few sessions, in turn.
    ///
    /// # Panics
    /// If there is no `pgbouncer`.
    #[must_use]
    pub fn to(server: &Postgres, mode: PoolMode) -> Self {
        Self::with(server, mode, "")
    }

    /// The same, with lines of a configuration that count for more than ours.
    ///
    /// # Panics
    /// If there is no `pgbouncer`, or it does not take them.
    #[must_use]
    pub fn with(server: &Postgres, mode: PoolMode, settings: &str) -> Self {
        let (directory, port) = (Directory::new(), Port::reserve());
        let path = directory.path();
        let mode = match mode {
            PoolMode::Session => "session\ndefault_pool_size = 100",
            PoolMode::Transaction => "transaction\ndefault_pool_size = 4\nserver_round_robin = 1",
        };
        let configuration = format!(
            "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}/users\nmax_client_conn = 500\npool_mode = {mode}\n{settings}\n",
            server.socket_directory().display(),
            server.port(),
            port.number(),
            path.display(),
        );
        fs::write(path.join("pgbouncer.ini"), configuration).expect("the directory is ours");
        fs::write(path.join("users"), "\"postgres\" \"\"\n").expect("the directory is ours");
        user().own(path).expect("a new folder is ours to give");
        let mut command = Command::new(program::find("pgbouncer", "pgbouncer"));
        command.arg(path.join("pgbouncer.ini")).current_dir("/");
        user().run(&mut command);
        let program = Mutex::new(Program::start(command, &path.join("log")));
        let bouncer = Self { directory, port, program };
        let deadline = Instant::now() + LIMIT;
        while TcpStream::connect(("127.0.0.1", bouncer.port.number())).is_err() {
            let log = || fs::read_to_string(bouncer.log_file()).unwrap_or_default();
            assert!(Instant::now() < deadline, "PgBouncer does not start: {}", log());
            thread::sleep(Duration::from_millis(2));
        }
        bouncer
    }

    /// Where clients find the server through it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port.number())
    }

    /// Stops it, as a machine that hangs does. Who connects meanwhile waits.
    pub fn pause(&self) {
        self.program.lock().expect("nothing panics while it is locked").pause();
    }

    /// Has it go on.
    pub fn resume(&self) {
        self.program.lock().expect("nothing panics while it is locked").resume();
    }

    fn log_file(&self) -> PathBuf {
        self.directory.path().join("log")
    }
}
