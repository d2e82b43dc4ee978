//! What the URL of a MySQL store says.

use std::path::PathBuf;

use super::login::{Login, Password};
use super::place::Place;
use super::tls::{Mode, Tls};
use crate::error::{Error, Result};
use crate::name::Namespace;
use crate::stores::{has_stray_at, hide_secrets};

/// The parts of a URL, checked.
#[derive(Clone)]
pub(super) struct Options {
    pub place: Place,
    pub login: Login,
    pub database: String,
    pub tls: Tls,
    pub namespace: Namespace,
    /// The URL, fit to be shown.
    pub shown: String,
}

const ALL: &str = "namespace, socket, password_file, ssl-mode, ca, cert, key";

const PORT: u16 = 3306;

/// The options behind the `?`, as they were given.
#[derive(Default)]
struct Given {
    namespace: Option<Namespace>,
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
        Self::read(url, &shown).map_err(|why| Error::invalid(format!("{shown:?} {why}")))
    }

    fn read(url: &str, shown: &str) -> Result<Self, String> {
        let (front, query) = url.split_once('?').unwrap_or((url, ""));
        if has_stray_at(query) {
            return Err("has an @ behind a ?; a ? in a user or password is written %3F".into());
        }
        let place = match front.split_once("://") {
            Some(("mysql" | "mariadb", place)) => place,
            _ => return Err("is no URL of a MySQL store; write for example mysql://jobs@host:3306/app".into()),
        };
        let mut given = Given::read(query)?;
        let (user, place) = place.rsplit_once('@').ok_or("names no user; write mysql://USER:PASSWORD@host/database")?;
        let (host, database) = place.split_once('/').unwrap_or((place, ""));
        let database = decoded(database)?;
        if database.is_empty() || database.contains(['/', '`', '\0']) {
            return Err("names no database; write mysql://USER:PASSWORD@host/database".into());
        }
        let place = match (given.socket.take(), host) {
            (Some(socket), "" | "localhost") => Place::Unix(socket),
            (Some(_), _) => return Err("names both a host and a socket; a socket needs no host".into()),
            (None, host) => Place::read(host, PORT)?,
        };
        Ok(Self {
            login: given.login(user)?,
            tls: given.tls(&place)?,
            place,
            database,
            namespace: given.namespace.unwrap_or_default(),
            shown: shown.to_owned(),
        })
    }
}

impl Given {
    fn read(query: &str) -> Result<Self, String> {
        let mut given = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (option, value) = pair.split_once('=').unwrap_or((pair, ""));
            given.take(option, value)?;
        }
        Ok(given)
    }

    fn take(&mut self, option: &str, value: &str) -> Result<(), String> {
        let path = || decoded(value).map(PathBuf::from);
        match option {
            "namespace" => {
                let namespace = Namespace::new(&decoded(value)?).map_err(|error| format!("is wrong: {error}"))?;
                self.namespace = Some(namespace);
            }
            "socket" => self.socket = Some(path()?),
            "password_file" => self.password_file = Some(path()?),
            "ssl-mode" => self.mode = Some(Mode::read(value)?),
            "ca" => self.ca = Some(path()?),
            "cert" => self.cert = Some(path()?),
            "key" => self.key = Some(path()?),
            _ => return Err(format!("has an option {option:?}, which a MySQL store has not; it has {ALL}")),
        }
        Ok(())
    }

    fn login(&mut self, given: &str) -> Result<Login, String> {
        let (user, password) = given.split_once(':').map_or((given, None), |(user, password)| (user, Some(password)));
        if user.is_empty() {
            return Err("names no user; write mysql://USER:PASSWORD@host/database".into());
        }
        let password = match (password, self.password_file.take()) {
            (Some(_), Some(_)) => return Err("has a password and a password_file; one of them is too many".into()),
            (Some(password), None) => Password::Given(decoded(password)?),
            (None, Some(path)) => Password::InFile(path),
            (None, None) => Password::None,
        };
        Ok(Login { user: decoded(user)?, password })
    }

    fn tls(&mut self, place: &Place) -> Result<Tls, String> {
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
        let tls = Tls { mode, ca: self.ca.take(), client };
        tls.check_files().map_err(|why| format!("is wrong: {why}"))?;
        Ok(tls)
    }
}

/// `%40` is `@`.
fn decoded(text: &str) -> Result<String, String> {
    let wrong = || "has a % that doesn't begin %XX in UTF-8; write %25 for it".to_owned();
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let byte;
        (byte, rest) = if first == b'%' {
            let (hex, behind) = behind.split_at_checked(2).ok_or_else(wrong)?;
            let hex = std::str::from_utf8(hex).ok().filter(|hex| !hex.starts_with('+')).ok_or_else(wrong)?;
            (u8::from_str_radix(hex, 16).map_err(|_| wrong())?, behind)
        } else {
            (first, behind)
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read() {
        let options = Options::parse("mysql://bob:hunt%40r2@h:1234/app?namespace=staging").unwrap();
        assert_eq!((options.namespace.as_str(), &*options.database, &*options.login.user), ("staging", "app", "bob"));
        assert_eq!(options.place, Place::Tcp("h".into(), 1234));
        assert!(matches!(options.login.password, Password::Given(password) if password == "hunt@r2"));
        assert_eq!(options.tls.mode, Mode::Preferred);
        let options = Options::parse("mariadb://bob@/app?socket=/run/a%20b.sock&password_file=/p").unwrap();
        assert_eq!(options.place, Place::Unix("/run/a b.sock".into()));
        assert!(matches!(options.login.password, Password::InFile(_)));
        assert_eq!(options.tls.mode, Mode::Disabled);
        let options = Options::parse("mysql://bob@[::1]/app?ssl-mode=VERIFY_CA").unwrap();
        assert_eq!((options.place, options.tls.mode), (Place::Tcp("::1".into(), 3306), Mode::VerifyCa));
    }

    #[test]
    fn a_mistake_is_one_clear_error_without_secrets() {
        for (url, says) in [
            ("mysql://bob:hunter2@h:x/app", "a port is a number"),
            ("mysql://bob:hunter2@/app", "names no host"),
            ("mysql://h/app", "names no user"),
            ("mysql://:hunter2@h/app", "names no user"),
            ("mysql://bob:hunter2@h", "names no database"),
            ("mysql://bob:hunter2@h/a/b", "names no database"),
            ("mysql://bob:hunter2@h/app?naemspace=x", "it has namespace, socket, "),
            ("mysql://bob:hunter2@h/app?mode=advisory", "has an option \"mode\""),
            ("mysql://bob:hunter2@h/app?compat=shedlock", "has an option \"compat\""),
            ("mysql://bob:hunt%4r2@h/app", "has a % that"),
            ("mysql://bob:hunter2@h/app?namespace=", "is wrong"),
            ("mysql://bob:hun?ter2@h/app", "is written %3F"),
            ("mysql://bob:hunter2@h/app?password_file=/x", "one of them is too many"),
            ("mysql://bob:hunter2@h/app?socket=/x", "both a host and a socket"),
            ("mysql://bob:hunter2@h/app?ssl-mode=on", "write disabled, preferred"),
            ("mysql://bob:hunter2@h/app?ca=/x&ssl-mode=required", "not looked at"),
            ("mysql://bob:hunter2@h/app?cert=/x", "needs both"),
            ("mysql://bob:hunter2@h/app?cert=/x&key=/y&ssl-mode=disabled", "not shown"),
            ("mysql://bob:hunter2@h/app?ca=/does/not/exist", "ca=/does/not/exist can't be read"),
            ("mysql:bob:hunter2@h/app", "is no URL of a MySQL store"),
        ] {
            let error = Options::parse(url).map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Invalid);
            assert!(error.to_string().contains(says), "{url}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
