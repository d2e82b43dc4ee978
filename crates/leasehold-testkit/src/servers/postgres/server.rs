//! One PostgreSQL server.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{PostgresOptions, find, template, user};
#[cfg(feature = "tls")]
use crate::servers::Certificates;
use crate::servers::directory::Directory;
use crate::servers::port::Port;
use crate::servers::program::Program;

/// How long a server may take to start, or to catch up.
const LIMIT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(2);

/// A PostgreSQL server on 127.0.0.1. Killed when dropped, and when the test process dies.
///
/// Its superuser is `postgres`, without a password; so is its database. Root can't run PostgreSQL, so then it is run by
/// another user.
#[derive(Debug)]
pub struct Postgres {
    options: PostgresOptions,
    directory: Directory,
    port: Port,
    program: Mutex<Option<Program>>,
}

impl Postgres {
    /// Starts a plain server and waits until it takes connections.
    ///
    /// # Panics
    /// If there is no PostgreSQL.
    #[must_use]
    pub fn start() -> Self {
        Self::options().start()
    }

    /// For a server that isn't plain.
    #[must_use]
    pub fn options() -> PostgresOptions {
        PostgresOptions::default()
    }

    /// Starts a standby of `primary`, which follows it asynchronously.
    ///
    /// # Panics
    /// If it doesn't start.
    #[must_use]
    pub fn standby_of(primary: &Self) -> Self {
        Self::make(&primary.options, |data| {
            let mut copy = Command::new(find("pg_basebackup"));
            copy.args(["-R", "-X", "stream", "-c", "fast", "-U", "postgres", "-h"]).arg(primary.socket_directory());
            copy.args(["-p", &primary.port().to_string(), "-D"]).arg(data).current_dir("/");
            user().run(&mut copy);
            template::run(&mut copy);
        })
    }

    pub(super) fn with(options: &PostgresOptions) -> Self {
        Self::make(options, if options.is_apart { template::make } else { template::copy_to })
    }

    fn make(options: &PostgresOptions, fill: impl Fn(&Path)) -> Self {
        let directory = Directory::new();
        user().own(directory.path()).expect("a new folder is ours to give");
        let server = Self { options: options.clone(), directory, port: Port::reserve(), program: Mutex::default() };
        fill(&server.data());
        server.configure();
        server.launch();
        server
    }

    /// Where clients find it, as its superuser.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_as("postgres", "")
    }

    /// Where clients find it, as somebody else. Both as they stand in a URL.
    #[must_use]
    pub fn url_as(&self, user: &str, password: &str) -> String {
        let password = if password.is_empty() { String::new() } else { format!(":{password}") };
        format!("postgres://{user}{password}@{}/postgres", self.address())
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

    /// The folder of its Unix socket.
    #[must_use]
    pub fn socket_directory(&self) -> &Path {
        self.directory.path()
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

    /// Runs statements as its superuser, over its socket; what they answer, a line for each row, `|` between columns.
    ///
    /// # Panics
    /// If one of them fails, with what the server says.
    pub fn sql(&self, statements: &str) -> String {
        self.try_sql(statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// The same.
    ///
    /// # Errors
    /// What the server says, if one of them fails.
    pub fn try_sql(&self, statements: &str) -> Result<String, String> {
        let mut psql = Command::new(find("psql"));
        psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"]).arg(self.socket_directory());
        psql.args(["-p", &self.port().to_string(), "-c", statements, "postgres"]);
        psql.env("PGAPPNAME", "testkit").env_remove("PGOPTIONS");
        let output = psql.output().map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// All that is in it, as statements that put it back.
    ///
    /// # Panics
    /// If `pg_dump` fails.
    #[must_use]
    pub fn dump(&self) -> String {
        let mut dump = Command::new(find("pg_dump"));
        dump.args(["--clean", "--if-exists", "-U", "postgres", "-h"]).arg(self.socket_directory());
        let output = dump.args(["-p", &self.port().to_string(), "postgres"]).output().expect("pg_dump is there");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("we write text only")
    }

    /// Goes back to what was dumped.
    ///
    /// # Panics
    /// If a statement fails.
    pub fn restore(&self, dump: &str) {
        let mut psql = Command::new(find("psql"));
        psql.args(["-Xq1", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"]).arg(self.socket_directory());
        psql.args(["-p", &self.port().to_string(), "postgres"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut psql = psql.spawn().expect("psql is there");
        psql.stdin.take().expect("it is piped").write_all(dump.as_bytes()).expect("psql reads it");
        assert!(psql.wait().expect("psql ends").success());
    }

    /// What it has logged since its last start.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// The lines of its log that tell of something that failed.
    #[must_use]
    pub fn errors(&self) -> Vec<String> {
        let is_error = |line: &&str| ["ERROR:", "FATAL:", "PANIC:"].iter().any(|word| line.contains(word));
        self.log().lines().filter(is_error).map(str::to_owned).collect()
    }

    /// Ends all sessions but the testkit's, as an administrator may.
    ///
    /// # Panics
    /// If it is down.
    pub fn end_sessions(&self) {
        self.sql(
            "select pg_terminate_backend(pid) from pg_stat_activity \
             where backend_type = 'client backend' and application_name <> 'testkit'",
        );
    }

    /// Makes a primary of a standby, and waits until it takes writes.
    ///
    /// # Panics
    /// If it is none.
    pub fn promote(&self) {
        self.sql("select pg_promote()");
        self.wait("it takes writes", || self.sql("select pg_is_in_recovery()") == "f");
    }

    /// Waits until this standby has all that `primary` has now.
    ///
    /// # Panics
    /// If it doesn't catch up.
    pub fn catch_up_with(&self, primary: &Self) {
        let goal = primary.sql("select pg_current_wal_lsn()");
        self.wait("it has caught up", || self.sql(&format!("select pg_last_wal_replay_lsn() >= '{goal}'")) == "t");
    }

    /// Ends it like `kill -9`, all its processes, and waits until they are gone.
    ///
    /// # Panics
    /// Never, while the system shows its processes.
    pub fn kill(&self) {
        let Some(mut program) = self.program().take() else { return };
        if program.ended().is_none() {
            // A child that it had meanwhile would outlive it, and keep the next one from starting.
            program.pause();
        }
        let children = children_of(program.id());
        drop(program);
        for &child in &children {
            let _ = kill(Pid::from_raw(child), Signal::SIGKILL); // It may have ended by itself.
        }
        self.wait("its processes are gone", || {
            children.iter().all(|child| !Path::new(&format!("/proc/{child}")).exists() || is_dead(*child))
        });
    }

    /// Starts it again on the same port, killing it first if need be.
    ///
    /// # Panics
    /// If it doesn't start.
    pub fn restart(&self) {
        self.kill();
        self.launch();
    }

    fn launch(&self) {
        let _ = fs::remove_file(self.data().join("postmaster.pid")); // One that was killed leaves it.
        let mut command = Command::new(find("postgres"));
        command.arg("-D").arg(self.data()).current_dir("/").env_remove("PGOPTIONS");
        user().run(&mut command);
        *self.program() = Some(Program::start(command, &self.log_file()));
        self.wait("it takes connections", || {
            let ended = self.program().as_mut().and_then(Program::ended);
            assert!(ended.is_none(), "PostgreSQL does not start: {}", self.log());
            let status = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
            status.lines().nth(7).is_some_and(|status| ["ready", "standby"].contains(&status.trim()))
        });
    }

    fn configure(&self) {
        let mut text = String::new();
        let mut line = |line: &str| writeln!(text, "{line}").expect("strings take everything");
        let path = self.directory.path().display();
        line(&format!("listen_addresses = '127.0.0.1'\nport = {}", self.port()));
        line(&format!("unix_socket_directories = '{path}'"));
        line("fsync = off\nfull_page_writes = off\nshared_buffers = 16MB\nmax_connections = 200\ntimezone = 'UTC'");
        // Others than files of its own outlive a server that is killed, in the machine's memory.
        line("dynamic_shared_memory_type = mmap");
        line("wal_level = replica\nmax_wal_senders = 4\nlogging_collector = off\nlog_line_prefix = '%m [%p] %a '");
        line("autovacuum_naptime = 5s\nmax_wal_size = 64MB\nmin_wal_size = 4MB\nlc_messages = 'C'");
        self.options.lines.iter().for_each(|own| line(own));
        #[cfg(feature = "tls")]
        if let Some(certificates) = &self.options.certificates {
            let (certificate, key) = certificates.server();
            // Only its own user may read a key.
            for (file, name) in [(certificate, "server.crt"), (key, "server.key"), (certificates.authority(), "ca.crt")]
            {
                let copy = self.data().join(name);
                fs::copy(&file, &copy).expect("the folder can be written");
                let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
                fs::set_permissions(&copy, private).expect("it is ours");
                user().own(&copy).expect("it is ours to give");
            }
            line("ssl_ca_file = 'ca.crt'");
        }
        let file = self.data().join("postgresql.conf");
        fs::write(file, text).expect("the folder can be written");
        let hba = self.data().join("pg_hba.conf");
        let logins = self.options.logins.join("\n");
        let all = "local all all trust\nlocal replication all trust\nhost all all 127.0.0.1/32 trust";
        fs::write(hba, format!("{logins}\n{all}\n")).expect("the folder can be written");
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn log_file(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    fn program(&self) -> MutexGuard<'_, Option<Program>> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a condition that its log may explain.
    fn wait(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !condition() {
            assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}; its log: {}", self.log());
            thread::sleep(LOOK);
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // One that is killed leaves a segment of shared memory behind, and a machine has room for 4096.
        if let Some(program) = &mut *self.program() {
            program.quit();
        }
        self.kill();
    }
}

/// The fields of a process that come after its name: state, parent and so on.
fn stat(process: i32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    Some(stat.rsplit(')').next()?.split_whitespace().map(str::to_owned).collect())
}

fn is_dead(process: i32) -> bool {
    stat(process).is_none_or(|fields| fields.first().is_none_or(|state| state == "Z"))
}

fn children_of(parent: u32) -> Vec<i32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |id: &i32| stat(*id).is_some_and(|fields| fields.get(1) == Some(&parent.to_string()));
    ids.filter(is_child).collect()
}
