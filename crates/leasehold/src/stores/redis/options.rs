//! What a `redis:` URL says.

use redis::io::tcp::TcpSettings;
use redis::{ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

use super::format::Format;
use crate::error::{Error, Result};
use crate::name::Namespace;
use crate::stores::hide_secrets;

/// The parts of a URL, checked.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub server: ConnectionInfo,
    pub namespace: Namespace,
    pub format: Format,
    /// The URL, fit to be shown.
    pub shown: String,
}

/// What the client library understands; the rest is ours.
const OF_THE_LIBRARY: [&str; 3] = ["db", "user", "pass"];

impl Options {
    pub fn parse(url: &str) -> Result<Self> {
        let shown = hide_secrets(url);
        let (front, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut namespace, mut format, mut theirs) = (None, Format::Own, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                "namespace" => {
                    namespace = Some(Namespace::new(value).map_err(|error| error.context(format!("in {shown:?}")))?);
                }
                "compat" => format = Format::compat(value).map_err(|error| error.context(format!("in {shown:?}")))?,
                _ if OF_THE_LIBRARY.contains(&key) => theirs.push(pair),
                _ => {
                    return Err(Error::invalid(format!(
                        "a Redis store has no option {key:?} (in {shown:?}); it has compat and namespace"
                    )));
                }
            }
        }
        if let Some(namespace) = namespace.as_ref().filter(|_| !format.is_own()) {
            return Err(Error::invalid(format!(
                "namespace={namespace} has no room beside compat (in {shown:?}): there the key is the other library's; leave \
                 one of them out"
            )));
        }
        let theirs = if theirs.is_empty() { front.to_owned() } else { format!("{front}?{}", theirs.join("&")) };
        let server = theirs.as_str().into_connection_info().map_err(|_| {
            Error::invalid(format!(
                "{shown:?} is no URL of a Redis server; write for example redis://host:6379/0 or redis+unix:///run/redis.sock"
            ))
        })?;
        // RESP3: wake-ups come over the connection that the commands go over.
        let settings = server.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let tcp = TcpSettings::default().set_nodelay(true);
        Ok(Self {
            server: server.set_redis_settings(settings).set_tcp_settings(tcp),
            namespace: namespace.unwrap_or_default(),
            format,
            shown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_bad_ones_refused_without_their_secrets() {
        let options = Options::parse("redis://bob:hunter2@h:1234/3?namespace=staging").unwrap();
        assert_eq!(options.namespace.as_str(), "staging");
        assert_eq!(options.server.redis_settings().db(), 3);
        assert_eq!(options.server.addr().to_string(), "h:1234");
        for url in [
            "redis://bob:hunter2@h:x/0",
            "redis://bob:hunter2@h/?naemspace=x",
            "redis://h/0?namespace=",
            "redis://bob:hunter2@h?compat=x",
            "redis://bob:hunter2@h?compat=plain&namespace=x",
        ] {
            let error = Options::parse(url).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Invalid);
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
