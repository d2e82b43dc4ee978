//! Where a member of the cluster is.

use std::fmt;

use crate::stores::secrets::shown_host;

/// Where a member listens for clients.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Address {
    pub host: String,
    pub port: u16,
}

impl Address {
    const PORT: u16 = 2379;

    /// Reads `host`, `host:port` or `[v6]:port`; what is wrong, if it is none.
    pub fn read(text: &str) -> Result<Self, String> {
        let (host, given) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let is_host = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-_:".contains(c));
        if !is_host {
            return Err(format!("names no host in {:?}; write host:port", shown_host(text)));
        }
        match given.map_or(Ok(Self::PORT), str::parse) {
            Ok(port @ 1..) => Ok(Self { host: host.to_owned(), port }),
            _ => Err(format!("names no port in {:?}; a port is a number from 1 to 65535", shown_host(text))),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}
