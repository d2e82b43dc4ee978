//! What the URL of a PostgreSQL store says.

use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use crate::error::{Error, ErrorKind, Result};
use crate::name::Namespace;
use crate::stores::password::Password;
use crate::stores::secrets::hide_secrets;
use crate::stores::sql::{self, Host, KeyScheme, Mode, Url, shedlock};
use crate::stores::tls::Tls;
use crate::stores::wrong::Wrong;

/// How long a connection may take to be made.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// For how long a peer may leave what was sent unacknowledged: its machine is gone then.
const GONE: Duration = Duration::from_secs(10);

const PORT: u16 = 5432;

const ALL: &str = "namespace, mode, key_scheme, schema, compat, table, host, port, user, password, password_file, sslmode, ca, \
     cert, key, target_session_attrs";

/// The longest name of a schema or table, in bytes.
const LONGEST_NAME: usize = 63;

/// The parts of a URL, checked.
#[derive(Clone)]
pub(super) struct Options {
    hosts: Vec<Host>,
    port: Option<u16>,
    user: Option<String>,
    password: Password,
    database: Option<String>,
    pub tls: Option<Tls>,
    pub namespace: Namespace,
    pub mode: Mode,
    pub key_scheme: KeyScheme,
    /// Where the tables are, as a quoted identifier.
    pub schema: String,
    /// ShedLock's table, if that is where the locks are: quoted, its schema before it.
    pub shedlock: Option<String>,
    /// The URL, fit to be shown.
    pub shown: String,
}

/// The options behind the `?`, as they were given.
#[derive(Default)]
struct Given {
    namespace: Option<Namespace>,
    mode: Mode,
    key_scheme: KeyScheme,
    schema: Option<String>,
    shedlock: shedlock::Given,
    sslmode: Option<String>,
    tls: Tls,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl Options {
    pub fn parse(url: &str) -> Result<Self> {
        let shown = hide_secrets(url);
        Self::read(url, &shown).map_err(|why| why.told(&shown))
    }

    fn read(url: &str, shown: &str) -> Result<Self, Wrong> {
        let url = Url::read(url, &["postgres", "postgresql"])?;
        let mut given = Given::default();
        let mut options = Self {
            hosts: url.hosts,
            port: None,
            user: url.user,
            password: url.password,
            database: url.database,
            tls: None,
            namespace: Namespace::default(),
            mode: Mode::default(),
            key_scheme: KeyScheme::default(),
            schema: String::new(),
            shedlock: None,
            shown: shown.to_owned(),
        };
        for (option, value) in url.options {
            options.take(&mut given, &option, value)?;
        }
        if options.hosts.is_empty() {
            return Err("names no host; write postgres://host/database, or ?host=/run/postgresql for a socket".into());
        }
        options.schema = quoted(given.schema.as_deref().unwrap_or("public"), "schema")?;
        let table = std::mem::take(&mut given.shedlock).table(given.namespace.is_some(), given.mode)?;
        let table = table.map(|table| quoted(&table, "table")).transpose()?;
        options.shedlock = table.map(|table| format!("{}.{table}", options.schema));
        options.tls = given.tls()?;
        if options.tls.is_some() && options.hosts.iter().any(Host::is_socket) {
            return Err("asks for TLS over a Unix socket, which the server doesn't speak; leave it out".into());
        }
        sql::check_scheme(given.mode, given.key_scheme, given.namespace.is_some())?;
        (options.mode, options.key_scheme) = (given.mode, given.key_scheme);
        options.namespace = given.namespace.unwrap_or_default();
        Ok(options)
    }

    fn take(&mut self, given: &mut Given, option: &str, value: String) -> Result<(), String> {
        match option {
            "namespace" => {
                given.namespace = Some(Namespace::new(&value).map_err(|error| format!("is wrong: {error}"))?);
            }
            "mode" => given.mode = Mode::read(&value)?,
            "key_scheme" => given.key_scheme = KeyScheme::read(&value)?,
            "schema" => given.schema = Some(value),
            "compat" => given.shedlock.compat = Some(value),
            "table" => given.shedlock.table = Some(value),
            "host" if !self.hosts.is_empty() => return Err("names its host twice".into()),
            "host" => self.hosts = value.split(',').map(Host::read).collect::<Result<_, _>>()?,
            "port" => self.port = Some(Host::port(&value)?),
            "user" => self.user = Some(value),
            "password" => self.password = Password::Given(value),
            "password_file" => self.password = Password::InFile(value.into()),
            "sslmode" => given.sslmode = Some(value),
            "ca" | "sslrootcert" => given.tls.ca = Some(value.into()),
            "cert" | "sslcert" => given.cert = Some(value.into()),
            "key" | "sslkey" => given.key = Some(value.into()),
            "target_session_attrs" if matches!(&*value, "read-write" | "primary") => {}
            "target_session_attrs" => {
                return Err(format!(
                    "has target_session_attrs={value:?}; locks are written, so it is always read-write"
                ));
            }
            _ => return Err(format!("has an option {option:?}, which a PostgreSQL store has not; it has {ALL}")),
        }
        Ok(())
    }

    /// What the client library is told. A password's file is read now.
    pub fn config(&self, what_for: &str) -> Result<Config> {
        let mut config = Config::new();
        for host in &self.hosts {
            config.host(&host.name).port(host.port.or(self.port).unwrap_or(PORT));
        }
        if let Some(user) = &self.user {
            config.user(user);
        }
        let password = self.password.read();
        if let Some(password) = password.map_err(|why| Error::new(ErrorKind::Misconfigured, why))? {
            config.password(password);
        }
        if let Some(database) = &self.database {
            config.dbname(database);
        }
        config
            .application_name(format!("leasehold {what_for} {}", std::process::id()))
            .ssl_mode(if self.tls.is_some() { SslMode::Require } else { SslMode::Disable })
            .connect_timeout(PATIENCE)
            .tcp_user_timeout(GONE)
            .keepalives_idle(GONE)
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3);
        Ok(config)
    }

    /// Whether there is one of them to be chosen.
    pub fn has_several_hosts(&self) -> bool {
        self.hosts.len() > 1
    }

    /// Each host by itself.
    pub fn by_host(&self) -> Vec<(String, Self)> {
        let alone = |host: &Host| (host.to_string(), Self { hosts: vec![host.clone()], ..self.clone() });
        self.hosts.iter().map(alone).collect()
    }

    /// Whether what is said may be read on its way.
    pub fn is_open_to_readers(&self) -> bool {
        let is_local = |host: &Host| host.is_socket() || ["localhost", "127.0.0.1", "::1"].contains(&&*host.name);
        self.tls.is_none() && !self.hosts.iter().all(is_local)
    }
}

impl Given {
    /// Whom is trusted, if there is to be TLS. Half of it is refused: either the server is who it says, or nothing is
    /// kept from anybody.
    fn tls(&mut self) -> Result<Option<Tls>, Wrong> {
        self.tls.client = match (self.cert.take(), self.key.take()) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err("has one of cert and key; a client's certificate needs both".into()),
        };
        if self.tls.client.is_some() && self.tls.ca.is_none() {
            return Err("has cert and key without ca; name who signs the server, too".into());
        }
        let has_files = self.tls != Tls::default();
        match self.sslmode.as_deref() {
            None if !has_files => return Ok(None),
            Some("disable") if has_files => return Err("has sslmode=disable, and options of TLS".into()),
            Some("disable") => return Ok(None),
            None | Some("require" | "verify-ca" | "verify-full") => {}
            Some(mode) => {
                return Err(format!(
                    "has sslmode={mode:?}, which may end in no TLS at all; write require (the server's certificate is \
                     checked) or disable"
                )
                .into());
            }
        }
        self.tls.read().map_err(Wrong::File)?;
        Ok(Some(self.tls.clone()))
    }
}

/// As an identifier that stands for itself.
fn quoted(name: &str, what: &str) -> Result<String, String> {
    if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
        return Err(format!("has {what}={name:?}, which is no name of a {what}"));
    }
    Ok(format!("\"{}\"", name.replace('"', "\"\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Options {
        Options::parse(url).unwrap()
    }

    #[test]
    fn urls_are_read() {
        let options = read("postgres://bob:hunt%40r2@h:1234/jobs?namespace=staging&schema=lo\"cks");
        assert_eq!((options.namespace.as_str(), &*options.schema), ("staging", "\"lo\"\"cks\""));
        let config = options.config("test").unwrap();
        assert_eq!((config.get_user(), config.get_password()), (Some("bob"), Some(&b"hunt@r2"[..])));
        assert_eq!((config.get_dbname(), config.get_ports()), (Some("jobs"), &[1234][..]));
        assert_eq!(config.get_ssl_mode(), SslMode::Disable);
        assert!(!options.shown.contains("hunt"), "{}", options.shown);
        let config = read("postgresql://a,b:6432/jobs").config("test").unwrap();
        assert_eq!(config.get_ports(), [5432, 6432]);
        let config = read("postgres:///jobs?host=/run/postgresql&port=5433&user=bob").config("test").unwrap();
        assert_eq!(config.get_ports(), [5433]);
        assert_eq!(config.get_hosts(), [tokio_postgres::config::Host::Unix("/run/postgresql".into())]);
        assert_eq!(read("postgres://h/jobs").schema, "\"public\"");
        assert_eq!(read("postgres://h/jobs").shedlock, None);
        let table = |query| read(&format!("postgres://h/jobs?compat=shedlock{query}")).shedlock.unwrap();
        assert_eq!(table(""), "\"public\".\"shedlock\"");
        assert_eq!(table("&table=Lo\"cks&schema=app"), "\"app\".\"Lo\"\"cks\"");
    }

    #[test]
    fn tls_is_there_if_it_is_asked_for() {
        for (query, is_there) in
            [("", false), ("?sslmode=disable", false), ("?sslmode=require", true), ("?sslmode=verify-full", true)]
        {
            let options = read(&format!("postgres://h/jobs{query}"));
            assert_eq!(options.tls.is_some(), is_there, "{query}");
            let mode = options.config("test").unwrap().get_ssl_mode();
            assert_eq!(mode == SslMode::Require, is_there, "{query}");
        }
        assert!(read("postgres://h/jobs").is_open_to_readers());
        assert!(!read("postgres://127.0.0.1/jobs").is_open_to_readers());
    }

    #[test]
    fn wrong_urls_are_refused_and_say_why() {
        for (url, why) in [
            ("postgres:///jobs", "names no host"),
            ("postgres://h/jobs?sslmode=prefer", "no TLS at all"),
            ("postgres://h/jobs?sslmode=disable&ca=/x", "options of TLS"),
            ("postgres://h/jobs?ca=/nowhere.pem", "can't be read"),
            ("postgres://h/jobs?cert=/x", "needs both"),
            ("postgres:///jobs?host=/run&sslmode=require", "Unix socket"),
            ("postgres://h/jobs?host=/run", "twice"),
            ("postgres://h/jobs?compat=quartz", "known is shedlock"),
            ("postgres://h/jobs?table=shedlock", "is for compat=shedlock"),
            ("postgres://h/jobs?compat=shedlock&table=", "no name of a table"),
            ("postgres://h/jobs?compat=shedlock&namespace=x", "no room beside compat"),
            ("postgres://h/jobs?mode=turbo", "lease (the default) or advisory"),
            ("postgres://h/jobs?key_scheme=with_advisory_lock", "mode=advisory"),
            ("postgres://h/jobs?mode=advisory&key_scheme=with_advisory_lock&namespace=x", "no namespaces"),
            ("postgres://h/jobs?mode=advisory&key_scheme=md5", "with_advisory_lock"),
            ("postgres://h/jobs?target_session_attrs=standby", "read-write"),
            ("postgres://h/jobs?schema=", "schema"),
            ("postgres://h/jobs?namespace=", "namespace"),
        ] {
            let error = Options::parse(url).map(drop).unwrap_err().to_string();
            assert!(error.contains(why), "{url}: {error}");
        }
    }
}
