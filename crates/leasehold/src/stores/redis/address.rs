//! Where a server is.

use std::fmt;
use std::path::PathBuf;

use crate::stores::secrets::shown_host;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Address {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl Address {
    /// Reads `host`, `host:port` or `[v6]:port`; what is wrong, if it is none.
    pub fn read(text: &str, port: u16) -> Result<Self, String> {
        let (host, given) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        if host.is_empty() {
            return Err(format!("names no host in {:?}; write host:port", shown_host(text)));
        }
        match given.map_or(Ok(port), str::parse) {
            Ok(port @ 1..) => Ok(Self::Tcp(host.to_owned(), port)),
            _ => Err(format!("names no port in {:?}; a port is a number from 1 to 65535", shown_host(text))),
        }
    }

    /// What a server calls another one, `host:port`; where it leaves out the host, that is its own.
    pub fn announced(text: &str, by: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        Self::of_a_member(host, port.parse().ok()?, by)
    }

    /// The same, in two parts.
    pub fn of_a_member(host: &str, port: u16, by: &Self) -> Option<Self> {
        match (host, by) {
            ("?", _) => None, // It doesn't know itself.
            ("", Self::Tcp(host, _)) => Some(Self::Tcp(host.clone(), port)),
            ("", Self::Unix(_)) => None,
            _ => Some(Self::Tcp(host.trim_matches(['[', ']']).to_owned(), port)),
        }
    }
}

impl fmt::Display for Address {
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

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp(host.into(), port)
    }

    #[test]
    fn what_a_node_announces_may_lack_its_host() {
        let asked = tcp("seed", 1);
        assert_eq!(Address::announced("h:7", &asked), Some(tcp("h", 7)));
        assert_eq!(Address::announced(":7", &asked), Some(tcp("seed", 7)));
        assert_eq!(Address::announced("::1:7", &asked), Some(tcp("::1", 7)));
        assert_eq!(Address::announced("?:7", &asked), None);
        assert_eq!(Address::read("[::1]:7", 6379), Ok(tcp("::1", 7)));
        assert_eq!(Address::read("[::1]", 6379).unwrap().to_string(), "[::1]:6379");
    }
}
