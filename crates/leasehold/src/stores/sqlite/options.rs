//! What a `sqlite:` URL says.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::name::Namespace;
use crate::stores::query;
use crate::stores::secrets::hide_secrets;

/// The parts of a URL, checked.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// The file; the default one if the URL names none.
    pub path: Option<PathBuf>,
    pub namespace: Namespace,
    pub synchronous: Synchronous,
    pub trust_file_system: bool,
}

/// What a commit waits for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Synchronous {
    /// The page cache. A crash of the machine may forget the last commits; its leases end with the boot anyway.
    #[default]
    Normal,
    /// The disk.
    Full,
}

impl Synchronous {
    /// As SQLite calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Full => "full",
        }
    }
}

impl Options {
    pub fn parse(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("sqlite:").ok_or_else(|| {
            let url = hide_secrets(url);
            Error::invalid(format!("{url:?} is no URL of a SQLite file; write for example sqlite:///srv/locks.db"))
        })?;
        // From here on for messages only. A file needs no password, but somebody may have given one.
        let url = &hide_secrets(url);
        let (file, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut options = Self { path: path(file, url)?, ..Self::default() };
        for (key, value) in query::pairs(query).map_err(|why| Error::invalid(format!("{url:?} {why}")))? {
            options.set(key, &text(value, url)?, url)?;
        }
        Ok(options)
    }

    fn set(&mut self, key: &str, value: &str, url: &str) -> Result<()> {
        let one_of =
            |known: &str| Err(Error::invalid(format!("the option {key} is {value:?} in {url:?}; it can be {known}")));
        match (key, value) {
            ("namespace", _) => self.namespace = Namespace::new(value).map_err(|e| e.context(format!("in {url:?}")))?,
            ("synchronous", "normal") => self.synchronous = Synchronous::Normal,
            ("synchronous", "full") => self.synchronous = Synchronous::Full,
            ("synchronous", _) => return one_of("normal or full"),
            ("trust_file_system", "only-this-machine-opens-it") => self.trust_file_system = true,
            ("trust_file_system", _) => return one_of("only-this-machine-opens-it"),
            _ => {
                return Err(Error::invalid(format!(
                    "a SQLite store has no option {key:?} (in {url:?}); it has namespace, synchronous and \
                     trust_file_system"
                )));
            }
        }
        Ok(())
    }
}

fn path(file: &str, url: &str) -> Result<Option<PathBuf>> {
    // `sqlite://host/path` has no meaning, and in `sqlite://locks.db` somebody forgot a slash.
    let file = match file.strip_prefix("//") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        Some(rest) => {
            let file = rest.rsplit_once('@').map_or(rest, |(_, file)| file).trim_start_matches('/');
            return Err(Error::invalid(format!(
                "{url:?} names a host where none can be; write sqlite:///{file} for an absolute path or \
                 sqlite:{file} for a relative one"
            )));
        }
        None => file,
    };
    if file.is_empty() {
        return Ok(None);
    }
    let bytes = decode(file, url)?;
    if bytes.contains(&0) {
        return Err(Error::invalid(format!("the path in {url:?} contains a NUL; take out the %00")));
    }
    if bytes == b":memory:" {
        return Err(Error::invalid(
            "a SQLite database in memory is seen by one connection only and can't hold locks; name a file",
        ));
    }
    Ok(Some(PathBuf::from(OsString::from_vec(bytes))))
}

fn text(value: &str, url: &str) -> Result<String> {
    String::from_utf8(decode(value, url)?)
        .map_err(|_| Error::invalid(format!("{value:?} in {url:?} is no UTF-8 when decoded; encode it as UTF-8")))
}

fn decode(encoded: &str, url: &str) -> Result<Vec<u8>> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut bytes = encoded.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|b| char::from(b).to_digit(16));
        let (Some(high), Some(low)) = (digit(bytes.next()), digit(bytes.next())) else {
            return Err(Error::invalid(format!(
                "{encoded:?} in {url:?} has a % that two hexadecimal digits don't follow; write %25 for a % itself"
            )));
        };
        decoded.push((high * 16 + low) as u8);
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Options {
        Options::parse(url).unwrap()
    }

    #[test]
    fn urls_name_files() {
        for (url, path) in [
            ("sqlite:///var/lib/x.db", Some("/var/lib/x.db")),
            ("sqlite:/var/lib/x.db", Some("/var/lib/x.db")),
            ("sqlite:x.db", Some("x.db")),
            ("sqlite:./a%20b%3F%25.db", Some("./a b?%.db")),
            ("sqlite:", None),
            ("sqlite://", None),
            ("sqlite:?namespace=a", None),
        ] {
            assert_eq!(parsed(url).path, path.map(PathBuf::from), "{url}");
        }
    }

    #[test]
    fn options_are_read() {
        let options = parsed("sqlite:x?namespace=a%2Fb&synchronous=full&trust_file_system=only-this-machine-opens-it");
        assert_eq!(options.namespace.as_str(), "a/b");
        assert_eq!(options.synchronous, Synchronous::Full);
        assert!(options.trust_file_system);
        assert_eq!(parsed("sqlite:x"), Options { path: Some("x".into()), ..Options::default() });
    }

    #[test]
    fn bad_urls_are_refused_with_the_fix() {
        for (url, says) in [
            ("sqlite://locks.db", "sqlite:///locks.db"),
            ("sqlite:x?synchronous=off", "normal or full"),
            ("sqlite:x?trust_file_system=yes", "only-this-machine-opens-it"),
            ("sqlite:x?ttl=3", "no option \"ttl\""),
            ("sqlite:x?namespace=a&namespace=b", "twice"),
            ("sqlite:x?namespace=", "namespace is empty"),
            ("sqlite:x?namespace=%ff", "UTF-8"),
            ("sqlite:x%zz", "%25"),
            ("sqlite:x%0", "%25"),
            ("sqlite:x%00", "NUL"),
            ("sqlite::memory:", "name a file"),
        ] {
            let error = Options::parse(url).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Invalid, "{url}");
            assert!(error.to_string().contains(says), "{url}: {error}");
        }
    }
}
