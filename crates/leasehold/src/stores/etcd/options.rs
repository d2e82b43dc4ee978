//! What the URL of an etcd store says.

use std::path::PathBuf;

use super::address::Address;
use super::keys::Keys;
use super::login::Login;
use super::tls;
use crate::error::Result;
use crate::name::Namespace;
use crate::stores::password::Password;
use crate::stores::percent::decoded;
use crate::stores::query;
use crate::stores::secrets::{has_stray_at, hide_secrets};
use crate::stores::tls::Tls;
use crate::stores::wrong::Wrong;

/// The parts of a URL, checked.
#[derive(Clone)]
pub(super) struct Options {
    pub members: Vec<Address>,
    pub login: Option<Login>,
    pub tls: Option<Tls>,
    pub keys: Keys,
    /// The URL, fit to be shown.
    pub shown: String,
}

const ALL: &str = "namespace, compat, password_file; with etcds ca, cert, key";

/// The options behind the `?`, as they were given.
#[derive(Default)]
struct Given {
    namespace: Option<Namespace>,
    etcdctl: bool,
    password_file: Option<PathBuf>,
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
        let (front, query) = url.split_once('?').unwrap_or((url, ""));
        if has_stray_at(query) {
            return Err("has an @ behind a ?; a ? in a user or password is written %3F".into());
        }
        let secure = match front.split_once("://") {
            Some(("etcd", _)) => false,
            Some(("etcds", _)) => true,
            _ => return Err("is no URL of an etcd store; write for example etcd://host:2379,host:2379".into()),
        };
        let place = front.split_once("://").map_or("", |(_, place)| place);
        let given = Given::read(query)?;
        let (login, hosts) = match place.rsplit_once('@') {
            Some((login, hosts)) => (Some(given.login(login)?), hosts),
            None if given.password_file.is_some() => {
                return Err("has a password_file and no user; write etcd://user@host".into());
            }
            None => (None, place),
        };
        let hosts = hosts.strip_suffix('/').unwrap_or(hosts);
        if hosts.contains('/') {
            return Err("has a path, and etcd has none; a namespace is the option namespace=NAME".into());
        }
        let members = hosts.split(',').map(Address::read).collect::<Result<_, _>>()?;
        let keys = given.keys()?;
        if let Some(login) = &login {
            login.password.check().map_err(Wrong::File)?;
        }
        Ok(Self { members, login, tls: given.tls(secure)?, keys, shown: shown.to_owned() })
    }
}

impl Given {
    fn read(query: &str) -> Result<Self, String> {
        let mut given = Self::default();
        for (option, value) in query::pairs(query)? {
            given.take(option, value)?;
        }
        Ok(given)
    }

    fn take(&mut self, option: &str, value: &str) -> Result<(), String> {
        let text = || decoded(value);
        let path = || text().map(PathBuf::from);
        match option {
            "namespace" => {
                self.namespace = Some(Namespace::new(&text()?).map_err(|error| format!("is wrong: {error}"))?);
            }
            "compat" if value == "etcdctl" => self.etcdctl = true,
            "compat" => return Err(format!("has compat={value:?}, which is no tool that is known; there is etcdctl")),
            "password_file" => self.password_file = Some(path()?),
            "ca" => self.ca = Some(path()?),
            "cert" => self.cert = Some(path()?),
            "key" => self.key = Some(path()?),
            _ => return Err(format!("has an option {option:?}, which an etcd store has not; it has {ALL}")),
        }
        Ok(())
    }

    fn login(&self, text: &str) -> Result<Login, String> {
        let (user, password) = text.split_once(':').map_or((text, None), |(user, password)| (user, Some(password)));
        let password = match (password, &self.password_file) {
            (Some(_), Some(_)) => return Err("has its password twice; leave one of them out".into()),
            (Some(password), None) => Password::Given(decoded(password)?),
            (None, Some(path)) => Password::InFile(path.clone()),
            (None, None) => return Err("has a user and no password; write user:password@ or password_file=".into()),
        };
        if user.is_empty() {
            return Err("has a password and no user; etcd knows users by name, so write user:password@".into());
        }
        Ok(Login { user: decoded(user)?, password })
    }

    fn keys(&self) -> Result<Keys, String> {
        match (&self.namespace, self.etcdctl) {
            (Some(namespace), true) => Err(format!(
                "has namespace={namespace}, which has no room beside compat: there the key is the other tool's; leave one of \
                 them out"
            )),
            (None, true) => Ok(Keys::of_etcdctl()),
            (namespace, false) => Ok(Keys::of(&namespace.clone().unwrap_or_default())),
        }
    }

    fn tls(self, secure: bool) -> Result<Option<Tls>, Wrong> {
        let client = match (self.cert, self.key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err("has one of cert and key; a client's certificate needs both".into()),
        };
        let tls = Tls { ca: self.ca, client };
        if !secure {
            let none = tls == Tls::default();
            return if none { Ok(None) } else { Err("has options of TLS; write etcds for it".into()) };
        }
        tls::config(&tls, "localhost").map_err(Wrong::File)?;
        Ok(Some(tls))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_members_is_read() {
        let options = Options::parse("etcd://bob:hunt%40r2@a,b:2,[::1]:3?namespace=staging").unwrap();
        let shown: Vec<_> = options.members.iter().map(Address::to_string).collect();
        assert_eq!(shown, ["a:2379", "b:2", "[::1]:3"]);
        assert!(!options.shown.contains("hunt"), "{}", options.shown);
        let login = options.login.unwrap();
        assert!(login.user == "bob" && matches!(login.password, Password::Given(given) if given == "hunt@r2"));
        assert!(Options::parse("etcds://h").unwrap().tls.is_some());
        assert!(Options::parse("etcd://h/").unwrap().tls.is_none());
    }

    #[test]
    fn a_mistake_is_one_clear_error_without_secrets() {
        for (url, says) in [
            ("etcd://bob:hunter2@h:x", "a port is a number"),
            ("etcd://bob:hunter2@h:0", "a port is a number"),
            ("etcd://bob:hunter2@:1", "names no host"),
            ("etcd://bob:hunter2@a,,b", "names no host"),
            ("etcd://", "names no host"),
            ("etcd://bob:hunter2@h/x", "has a path"),
            ("etcd://bob:hunter2@h?naemspace=x", "it has namespace, compat, "),
            ("etcd://bob:hunt%4r2@h", "has a % that"),
            ("etcd://h?namespace=", "is wrong"),
            ("etcd://h?namespace=a&namespace=b", "\"namespace\" twice"),
            ("etcd:h", "is no URL of an etcd store"),
            ("ETCD://bob:hunter2@h", "is no URL of an etcd store"),
            ("etcd://bob:hun?ter2@h", "is written %3F"),
            ("etcd://:hunter2@h", "no user"),
            ("etcd://bob@h", "no password"),
            ("etcd://bob:hunter2@h?password_file=/x", "twice"),
            ("etcd://h?password_file=/x", "no user"),
            ("etcd://h?compat=redis-py", "there is etcdctl"),
            ("etcd://h?compat=etcdctl&namespace=x", "no room beside compat"),
            ("etcd://h?ca=/x", "write etcds"),
            ("etcds://h?cert=/x", "needs both"),
        ] {
            let error = Options::parse(url).map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Invalid);
            assert!(error.to_string().contains(says), "{url}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_no_use_is_not_the_urls_fault() {
        let error = Options::parse("etcds://h?ca=/does/not/exist").map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Misconfigured);
        assert!(error.to_string().contains("ca=/does/not/exist can't be read"), "{error}");
    }

    #[test]
    fn a_namespace_is_decoded() {
        let keys = |url: &str| Options::parse(url).unwrap().keys.ticks_of_all();
        assert_eq!(keys("etcd://h?namespace=a%20b"), keys("etcd://h?namespace=a b"));
    }
}
