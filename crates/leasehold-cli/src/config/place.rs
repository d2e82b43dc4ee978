//! Where the locks are: one store, or one that is made of several.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use leasehold::stores::fallback::{self, Fallback};
use leasehold::stores::sqlite::Sqlite;
use leasehold::stores::{self, Quorum, hide_secrets, redlock};
use leasehold::{Namespace, Store};

/// A store, by what is needed to open it. Its URLs have secrets in them: never to be shown.
#[derive(Debug, Clone)]
pub enum Place {
    /// One store.
    Url(String),
    /// A majority of these.
    Quorum(Vec<String>),
    /// The primary, or the arbiter while that is away.
    Fallback {
        /// The primary's URL.
        primary: String,
        /// The arbiter's.
        arbiter: String,
        /// What the two are told.
        settings: fallback::Settings,
    },
}

impl Place {
    /// What a URL names.
    ///
    /// # Errors
    /// It is that of a quorum, and wrong.
    pub fn at(url: String) -> leasehold::Result<Self> {
        if url.starts_with("redlock") { redlock::members(&url).map(Self::Quorum) } else { Ok(Self::Url(url)) }
    }

    /// The same locks under this namespace, instead of the one that was named.
    pub fn under(self, namespace: &Namespace) -> Self {
        let under = |url: String| with_namespace(&url, namespace);
        match self {
            Self::Url(url) => Self::Url(under(url)),
            Self::Quorum(members) => Self::Quorum(members.into_iter().map(under).collect()),
            Self::Fallback { primary, arbiter, settings } => {
                Self::Fallback { primary: under(primary), arbiter: under(arbiter), settings }
            }
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// What the store says.
    pub fn open(&self) -> leasehold::Result<Arc<dyn Store>> {
        match self {
            Self::Url(url) => stores::open(url),
            Self::Quorum(members) => Ok(Arc::new(stores::open_quorum(members)?)),
            Self::Fallback { primary, arbiter, settings } => Ok(opened(primary, arbiter, settings)?),
        }
    }

    /// Opens it, if it is a quorum.
    ///
    /// # Errors
    /// What one of the members says.
    pub fn open_quorum(&self) -> leasehold::Result<Option<Quorum>> {
        match self {
            Self::Quorum(members) => stores::open_quorum(members).map(Some),
            _ => Ok(None),
        }
    }

    /// Opens it, if it is a fallback.
    ///
    /// # Errors
    /// What one of the two says.
    pub fn open_fallback(&self) -> leasehold::Result<Option<Arc<Fallback>>> {
        match self {
            Self::Fallback { primary, arbiter, settings } => opened(primary, arbiter, settings).map(Some),
            _ => Ok(None),
        }
    }

    /// The statements that make the tables it needs, if it needs any.
    ///
    /// # Errors
    /// A URL is wrong.
    pub fn migration(&self) -> leasehold::Result<Option<String>> {
        match self {
            Self::Url(url) => stores::migration(url),
            Self::Quorum(_) => Ok(None),
            Self::Fallback { arbiter, .. } => stores::migration(arbiter),
        }
    }

    /// Makes what is missing of it.
    ///
    /// # Errors
    /// A URL is wrong, or what the store says.
    pub async fn migrate(&self) -> leasehold::Result<()> {
        match self {
            Self::Url(url) => stores::migrate(url).await,
            Self::Quorum(_) => Ok(()),
            Self::Fallback { arbiter, .. } => stores::migrate(arbiter).await,
        }
    }

    /// The URLs that it is made of.
    pub fn urls(&self) -> Vec<&str> {
        match self {
            Self::Url(url) => vec![url],
            Self::Quorum(members) => members.iter().map(String::as_str).collect(),
            Self::Fallback { primary, arbiter, .. } => vec![primary, arbiter],
        }
    }

    /// For people: with the path of the default file, without secrets.
    pub fn shown(&self) -> String {
        match self {
            Self::Url(url) => shown(url),
            Self::Quorum(members) => {
                let members: Vec<_> = members.iter().map(|url| shown(url)).collect();
                format!("a quorum of {}", members.join(" and "))
            }
            Self::Fallback { primary, arbiter, .. } => format!("{} or {}", shown(primary), shown(arbiter)),
        }
    }

    /// The file that opening it would make, if it is one that isn't there.
    pub fn missing_file(&self) -> Option<PathBuf> {
        let Self::Url(url) = self else { return None };
        let file = Sqlite::file_of(url).ok().filter(|_| url.starts_with("sqlite:"))?;
        file.try_exists().is_ok_and(|is_there| !is_there).then_some(file)
    }

    /// How long its locks outlive a machine that dies, where nothing is said of it.
    pub fn usual_ttl(&self) -> Duration {
        match self {
            Self::Url(url) => stores::usual_ttl(url),
            Self::Quorum(members) => stores::usual_ttl_of_quorum(members),
            Self::Fallback { settings, .. } => settings.usual_ttl(),
        }
    }

    /// For how long it may grant nothing before another of its stores is used, if there is another.
    pub fn moves_within(&self) -> Option<Duration> {
        match self {
            Self::Fallback { settings, .. } => Some(settings.moves_within()),
            _ => None,
        }
    }

    /// The longest that a job may need to stop.
    pub fn longest_stop_grace(&self) -> Duration {
        match self {
            Self::Fallback { settings, .. } => settings.longest_stop_grace(),
            _ => Duration::MAX,
        }
    }
}

fn opened(primary: &str, arbiter: &str, settings: &fallback::Settings) -> leasehold::Result<Arc<Fallback>> {
    Fallback::over(stores::open(primary)?, stores::open(arbiter)?, settings.clone()).map(Arc::new)
}

fn shown(url: &str) -> String {
    let query = url.strip_prefix("sqlite:").map(|rest| rest.trim_start_matches("//"));
    let default = query.filter(|query| query.is_empty() || query.starts_with('?'));
    match (default, Sqlite::default_path()) {
        (Some(query), Ok(path)) => format!("sqlite://{}{query}", path.display()),
        _ => hide_secrets(url),
    }
}

/// `url` with this namespace, instead of the one that it may have had.
fn with_namespace(url: &str, namespace: &Namespace) -> String {
    let (front, query) = url.split_once('?').unwrap_or((url, ""));
    let others = query.split('&').filter(|pair| !pair.is_empty() && pair.split('=').next() != Some("namespace"));
    let ours = format!("namespace={}", percent_encoded(namespace.as_str()));
    let query: Vec<&str> = others.chain([ours.as_str()]).collect();
    format!("{front}?{}", query.join("&"))
}

/// All but the characters that mean nothing anywhere in a URL (RFC 3986, "unreserved").
pub fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte.into());
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_goes_into_the_query() {
        for (url, wanted) in [
            ("sqlite:", "sqlite:?namespace=a%20%26%2Fb"),
            ("sqlite:///x?namespace=old", "sqlite:///x?namespace=a%20%26%2Fb"),
            ("sqlite:///x?k=v&namespace=old", "sqlite:///x?k=v&namespace=a%20%26%2Fb"),
        ] {
            assert_eq!(with_namespace(url, &Namespace::new("a &/b").unwrap()), wanted);
        }
    }

    #[test]
    fn what_is_made_of_stores_is_shown_without_secrets_and_has_one_namespace() {
        let members = ["redis://:hunter2@a", "redis://b?namespace=old"].map(String::from).to_vec();
        let quorum = Place::Quorum(members).under(&Namespace::new("n").unwrap());
        assert_eq!(quorum.shown(), "a quorum of redis://:***@a?namespace=n and redis://b?namespace=n");
        let (primary, arbiter) = ("redis://:hunter2@a".to_owned(), "postgres://u:hunter2@b/d".to_owned());
        let fallback = Place::Fallback { primary, arbiter, settings: fallback::Settings::default() };
        let fallback = fallback.under(&Namespace::new("n").unwrap());
        assert_eq!(fallback.shown(), "redis://:***@a?namespace=n or postgres://u:***@b/d?namespace=n");
    }
}
