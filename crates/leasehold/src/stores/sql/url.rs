//! The URL of a server, in its parts.

use std::fmt;

use crate::stores::password::Password;
use crate::stores::percent::decoded;
use crate::stores::query;
use crate::stores::secrets::{has_stray_at, shown_host, shown_port};

/// `scheme://[user[:password]@]host[:port],…[/database][?option=value&…]`, decoded. It is not known here which options
/// there are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Url {
    pub user: Option<String>,
    pub password: Password,
    pub hosts: Vec<Host>,
    pub database: Option<String>,
    pub options: Vec<(String, String)>,
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// A name, an address, or the folder of a Unix socket.
    pub name: String,
    pub port: Option<u16>,
}

impl Url {
    /// Reads it; what is wrong with it, if it is none.
    pub fn read(url: &str, schemes: &[&str]) -> Result<Self, String> {
        let (front, query) = url.split_once('?').unwrap_or((url, ""));
        if has_stray_at(query) {
            return Err("has an @ behind a ?; a ? in a user or password is written %3F".into());
        }
        let place = match front.split_once("://") {
            Some((scheme, place)) if schemes.contains(&scheme) => place,
            _ => return Err(format!("is no URL of such a store; write {}://user@host/database", schemes[0])),
        };
        let mut url = Self::default();
        let place = url.behind_the_login(place)?;
        let (hosts, database) = place.split_once('/').unwrap_or((place, ""));
        if !hosts.is_empty() {
            url.hosts = hosts.split(',').map(Host::read).collect::<Result<_, _>>()?;
        }
        url.database = Some(decoded(database)?).filter(|database| !database.is_empty());
        for (option, value) in query::pairs(query)? {
            url.options.push((option.to_owned(), decoded(value)?));
        }
        Ok(url)
    }

    /// Takes `user:password@` off the front.
    fn behind_the_login<'a>(&mut self, place: &'a str) -> Result<&'a str, String> {
        let Some((login, rest)) = place.rsplit_once('@') else { return Ok(place) };
        let (user, password) = login.split_once(':').map_or((login, None), |(u, p)| (u, Some(p)));
        self.user = Some(decoded(user)?).filter(|user| !user.is_empty());
        if let Some(password) = password {
            self.password = Password::Given(decoded(password)?);
        }
        Ok(rest)
    }
}

impl Host {
    /// Reads `host`, `host:port` or `[v6]:port`.
    pub fn read(text: &str) -> Result<Self, String> {
        let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, rest)) => (name, rest.strip_prefix(':')),
            None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
        };
        let name = decoded(name)?;
        if name.is_empty() {
            return Err(format!("names no host in {:?}; write host:port", shown_host(text)));
        }
        Ok(Self { name, port: port.map(Self::port).transpose()? })
    }

    /// Reads a port.
    pub fn port(text: &str) -> Result<u16, String> {
        match text.parse() {
            Ok(port @ 1..) => Ok(port),
            _ => Err(format!("names no port in {:?}; a port is a number from 1 to 65535", shown_port(text))),
        }
    }

    /// Whether it is the folder of a Unix socket.
    pub fn is_socket(&self) -> bool {
        self.name.starts_with('/')
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.contains(':') { format!("[{}]", self.name) } else { self.name.clone() };
        match self.port {
            Some(port) => write!(f, "{name}:{port}"),
            None => f.write_str(&name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<Url, String> {
        Url::read(url, &["db"])
    }

    #[test]
    fn a_url_is_taken_apart() {
        let url = read("db://bob:hunt%40r2@h:1234,[::1]:5,i/jobs?host=%2Frun&a=b").unwrap();
        assert_eq!((url.user.as_deref(), url.database.as_deref()), (Some("bob"), Some("jobs")));
        assert!(matches!(url.password, Password::Given(password) if password == "hunt@r2"));
        let hosts: Vec<_> = url.hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["h:1234", "[::1]:5", "i"]);
        assert_eq!(url.options, [("host".into(), "/run".into()), ("a".into(), "b".into())]);
        let url = read("db:///jobs").unwrap();
        assert!(url.hosts.is_empty() && url.user.is_none());
    }

    #[test]
    fn what_is_none_is_told() {
        for url in [
            "other://h",
            "db:h",
            "db://h:0/x",
            "db://h:x/x",
            "db://:1/x",
            "db://h/%zz",
            "db://u:p?w@h/x",
            "db://h/x?a=1&a=2",
        ] {
            assert!(read(url).is_err(), "{url}");
        }
    }
}
