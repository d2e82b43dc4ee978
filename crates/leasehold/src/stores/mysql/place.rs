//! Where a server is.

use std::fmt;
use std::path::PathBuf;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl Place {
    /// Reads `host`, `host:port` or `[v6]:port`; what is wrong, if it is none.
    pub fn read(text: &str, port: u16) -> Result<Self, String> {
        let (host, given) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        if host.is_empty() {
            return Err("names no host; write host:port, or socket=/path/to/mysqld.sock".into());
        }
        match given.map_or(Ok(port), str::parse) {
            Ok(port @ 1..) => Ok(Self::Tcp(host.to_owned(), port)),
            _ => Err(format!("names no port in {text:?}; a port is a number from 1 to 65535")),
        }
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
