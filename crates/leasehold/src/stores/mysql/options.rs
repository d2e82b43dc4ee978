//! What the URL of a MySQL store says.

use std::fmt;
use std::path::PathBuf;

use super::tls::{Mode, Tls};
use crate::error::Result;
use crate::name::Namespace;
use crate::stores::password::Password;
use crate::stores::secrets::hide_secrets;
use crate::stores::sql::{self, Host, KeyScheme, Mode as Kind, Url, shedlock};
use crate::stores::tls::Tls as Files;
use crate::stores::wrong::Wrong;

const ALL: &str = "namespace, mode, key_scheme, compat, table, socket, password_file, ssl-mode, ca, cert, key";

const PORT: u16 = 3306;

/// The longest name of a table, in bytes, whatever its characters.
const LONGEST_TABLE: usize = 64;

/// The parts of a URL, checked.
#[derive(Clone)]
pub(super) struct Options {
    pub place: Place,
    pub user: String,
    pub password: Password,
    pub database: String,
    pub tls: Tls,
    pub namespace: Namespace,
    pub kind: Kind,
    pub key_scheme: KeyScheme,
    /// The name of ShedLock's table, if that is where the locks are.
    pub shedlock: Option<String>,
    /// The URL, fit to be shown.
    pub shown: String,
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Tcp(String, u16),
    Unix(PathBuf),
}

/// The options behind the `?`, as they were given.
#[derive(Default)]
struct Given {
    namespace: Option<Namespace>,
    kind: Kind,
    key_scheme: KeyScheme,
    shedlock: shedlock::Given,
    socket: Option<PathBuf>,
    password_file: Option<PathBuf>,
    mode: Option<Mode>,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl Options {
    pub fn parse(url: &str) -> Result<Self> {
        let shown = hide_secrets(url);
        Self::read(url, &shown).map_err(|why| why.told(&shown))
    }

    fn read(url: &str, shown: &str) -> Result<Self, Wrong> {
        let url = Url::read(url, &["mysql", "mariadb"])?;
        let mut given = Given::default();
        for (option, value) in url.options {
            given.take(&option, value)?;
        }
        let place = given.place(&url.hosts)?;
        sql::check_scheme(given.kind, given.key_scheme, given.namespace.is_some())?;
        let database = url.database.filter(|database| !database.contains(['/', '`', '\0']));
        Ok(Self {
            user: url.user.ok_or("names no user; write mysql://USER:PASSWORD@host/database")?,
            database: database.ok_or("names no database; write mysql://USER:PASSWORD@host/database")?,
            password: given.password(url.password)?,
            tls: given.tls(&place)?,
            place,
            kind: given.kind,
            key_scheme: given.key_scheme,
            shedlock: given.shedlock()?,
            namespace: given.namespace.unwrap_or_default(),
            shown: shown.to_owned(),
        })
    }
}

impl Given {
    fn take(&mut self, option: &str, value: String) -> Result<(), String> {
        match option {
            "namespace" => {
                self.namespace = Some(Namespace::new(&value).map_err(|error| format!("is wrong: {error}"))?);
            }
            "mode" => self.kind = Kind::read(&value)?,
            "key_scheme" => self.key_scheme = KeyScheme::read(&value)?,
            "compat" => self.shedlock.compat = Some(value),
            "table" => self.shedlock.table = Some(value),
            "socket" => self.socket = Some(value.into()),
            "password_file" => self.password_file = Some(value.into()),
            "ssl-mode" => self.mode = Some(Mode::read(&value)?),
            "ca" => self.ca = Some(value.into()),
            "cert" => self.cert = Some(value.into()),
            "key" => self.key = Some(value.into()),
            _ => return Err(format!("has an option {option:?}, which a MySQL store has not; it has {ALL}")),
        }
        Ok(())
    }

    /// The name of ShedLock's table, if that is where the locks are.
    fn shedlock(&mut self) -> Result<Option<String>, String> {
        let table = std::mem::take(&mut self.shedlock).table(self.namespace.is_some(), self.kind)?;
        let is_none =
            |table: &String| table.is_empty() || table.len() > LONGEST_TABLE || table.contains(char::is_control);
        if let Some(table) = table.as_ref().filter(|table| is_none(table)) {
            return Err(format!("has table={table:?}, which is no name of a table"));
        }
        Ok(table)
    }

    fn place(&mut self, hosts: &[Host]) -> Result<Place, String> {
        match (self.socket.take(), hosts) {
            (Some(socket), []) => Ok(Place::Unix(socket)),
            (Some(_), _) => Err("names both a host and a socket; a socket needs no host".into()),
            (None, [host]) => Ok(Place::Tcp(host.name.clone(), host.port.unwrap_or(PORT))),
            (None, []) => Err("names no host; write host:port, or ?socket=/path/to/mysqld.sock".into()),
            (None, _) => Err("names several hosts; name the primary, or what always leads to it".into()),
        }
    }

    fn password(&mut self, given: Password) -> Result<Password, String> {
        match (given, self.password_file.take()) {
            (given, None) => Ok(given),
            (Password::None, Some(file)) => Ok(Password::InFile(file)),
            _ => Err("has a password and a password_file; one of them is too many".into()),
        }
    }

    fn tls(&mut self, place: &Place) -> Result<Tls, Wrong> {
        let client = match (self.cert.take(), self.key.take()) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err("has one of cert and key; a client's certificate needs both".into()),
        };
        let mode = match (self.mode, &self.ca, place) {
            (Some(mode), Some(_), _) if !mode.verifies() => {
                return Err("has a ca that is not looked at; write ssl-mode=verify_identity or verify_ca".into());
            }
            (Some(mode), ..) => mode,
            (None, Some(_), _) => Mode::VerifyIdentity,
            (None, None, _) if client.is_some() => Mode::Required,
            // What goes over a socket leaves no machine.
            (None, None, Place::Unix(_)) => Mode::Disabled,
            (None, None, Place::Tcp(..)) => Mode::Preferred,
        };
        if mode == Mode::Disabled && client.is_some() {
            return Err("has a certificate that is not shown; write ssl-mode=required or verify_identity".into());
        }
        let files = Files { ca: self.ca.take(), client };
        files.read().map_err(Wrong::File)?;
        Ok(Tls { mode, files })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read() {
        let options = Options::parse("mysql://bob:hunt%40r2@h:1234/app?namespace=staging").unwrap();
        assert_eq!((options.namespace.as_str(), &*options.database, &*options.user), ("staging", "app", "bob"));
        assert_eq!(options.place, Place::Tcp("h".into(), 1234));
        assert!(matches!(options.password, Password::Given(password) if password == "hunt@r2"));
        assert_eq!(options.tls.mode, Mode::Preferred);
        let options = Options::parse("mariadb://bob@/app?socket=/run/a%20b.sock&password_file=/p").unwrap();
        assert_eq!(options.place, Place::Unix("/run/a b.sock".into()));
        assert!(matches!(options.password, Password::InFile(_)));
        assert_eq!(options.tls.mode, Mode::Disabled);
        assert_eq!(options.shedlock, None);
        let options = Options::parse("mysql://bob@h/app?compat=shedlock").unwrap();
        assert_eq!(options.shedlock.as_deref(), Some("shedlock"));
        let options = Options::parse("mysql://bob@[::1]/app?ssl-mode=VERIFY_CA").unwrap();
        assert_eq!((options.place, options.tls.mode), (Place::Tcp("::1".into(), 3306), Mode::VerifyCa));
    }

    #[test]
    fn a_mistake_is_one_clear_error_without_secrets() {
        for (url, says) in [
            ("mysql://bob:hunter2@h:x/app", "a port is a number"),
            ("mysql://bob:hunter2@/app", "names no host"),
            ("mysql://bob:hunter2@a,b/app", "several hosts"),
            ("mysql://h/app", "names no user"),
            ("mysql://:hunter2@h/app", "names no user"),
            ("mysql://bob:hunter2@h", "names no database"),
            ("mysql://bob:hunter2@h/a/b", "names no database"),
            ("mysql://bob:hunter2@h/app?naemspace=x", "it has namespace, mode, "),
            ("mysql://bob:hunter2@h/app?compat=quartz", "known is shedlock"),
            ("mysql://bob:hunter2@h/app?table=x", "is for compat=shedlock"),
            ("mysql://bob:hunter2@h/app?compat=shedlock&table=", "no name of a table"),
            ("mysql://bob:hunter2@h/app?compat=shedlock&namespace=x", "no room beside compat"),
            ("mysql://bob:hunter2@h/app?mode=turbo", "lease (the default) or advisory"),
            ("mysql://bob:hunter2@h/app?key_scheme=with_advisory_lock", "mode=advisory"),
            ("mysql://bob:hunt%4r2@h/app", "has a % that"),
            ("mysql://bob:hunter2@h/app?namespace=", "is wrong"),
            ("mysql://bob:hun?ter2@h/app", "is written %3F"),
            ("mysql://bob:hunter2@h/app?password_file=/x", "one of them is too many"),
            ("mysql://bob:hunter2@h/app?socket=/x", "both a host and a socket"),
            ("mysql://bob:hunter2@h/app?ssl-mode=on", "write disabled, preferred"),
            ("mysql://bob:hunter2@h/app?ca=/x&ssl-mode=required", "not looked at"),
            ("mysql://bob:hunter2@h/app?cert=/x", "needs both"),
            ("mysql://bob:hunter2@h/app?cert=/x&key=/y&ssl-mode=disabled", "not shown"),
            ("mysql:bob:hunter2@h/app", "is no URL of such a store"),
        ] {
            let error = Options::parse(url).map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Invalid);
            assert!(error.to_string().contains(says), "{url}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
