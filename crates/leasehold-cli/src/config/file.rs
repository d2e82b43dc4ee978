//! `leasehold.toml`: which stores it has, and how one is found by its name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use leasehold::stores::fallback;

use super::place::{Place, percent_encoded};
use super::reader::Reader;
use super::secrets::holds_password;
use super::{CONFIG, Config, DEFAULT_URL, OnDown, Origin, PLACES, code_for, is_url, variable};
use crate::args::StoreArgs;
use crate::exit::{self, Failure};

/// A `leasehold.toml`, read and checked as a whole: a typing error shows even if another store is used today.
pub(super) struct ConfigFile {
    pub path: PathBuf,
    pub default: Option<String>,
    pub stores: Vec<StoreEntry>,
}

/// `[stores.NAME]`
pub(super) struct StoreEntry {
    pub name: String,
    pub kind: Kind,
    /// What `run` does where the store can't be reached.
    pub on_down: OnDown,
    pub line: usize,
}

/// What a store is made of. Parts are URLs, or names of stores of the same file that are no more than a URL.
pub(super) enum Kind {
    Url { url: String, password_file: Option<PathBuf> },
    Quorum(Vec<String>),
    Fallback { primary: String, arbiter: String, settings: fallback::Settings },
}

impl ConfigFile {
    pub fn find(args: &StoreArgs) -> Result<Option<ConfigFile>, Failure> {
        Self::path(args)?.map(|path| ConfigFile::read(&path)).transpose()
    }

    /// The file that is meant, if there is one.
    pub fn path(args: &StoreArgs) -> Result<Option<PathBuf>, Failure> {
        let named = match &args.config {
            Some(path) => Some(path.clone()),
            None => variable(CONFIG)?.map(PathBuf::from),
        };
        named.map_or_else(first_that_exists, |path| Ok(Some(path)))
    }

    fn read(path: &Path) -> Result<ConfigFile, Failure> {
        let text = fs::read_to_string(path).map_err(|error| unreadable("configuration file", path, &error))?;
        Reader { path, text: &text }.read()
    }

    pub fn default_store(&self) -> Result<Config, Failure> {
        match &self.default {
            Some(name) => self.store(name, &Origin::File(self.path.clone())),
            None if self.stores.is_empty() => Ok(Config::of(Place::Url(DEFAULT_URL.into()), Origin::Default)),
            None => Err(Failure::new(
                exit::CONFIG,
                format!(
                    "{}: no store is the default; write default = {:?} at the top, or choose one with --store ({})",
                    self.path.display(),
                    self.stores[0].name,
                    self.names()
                ),
            )),
        }
    }

    pub fn store(&self, name: &str, asked_by: &Origin) -> Result<Config, Failure> {
        let entry = self.entry(name).ok_or_else(|| {
            let message = format!(
                "{asked_by} names the store {name:?}, which {} does not have; it has: {}",
                self.path.display(),
                self.names()
            );
            Failure::new(code_for(asked_by), message)
        })?;
        let place = match &entry.kind {
            Kind::Url { url, password_file } => Place::at(self.url(entry, url, password_file.as_deref())?)
                .map_err(|error| self.fault(entry, &error.to_string()))?,
            Kind::Quorum(members) => {
                Place::Quorum(members.iter().map(|part| self.part(entry, part)).collect::<Result<_, _>>()?)
            }
            Kind::Fallback { primary, arbiter, settings } => Place::Fallback {
                primary: self.part(entry, primary)?,
                arbiter: self.part(entry, arbiter)?,
                settings: settings.clone(),
            },
        };
        let (password_files, file_is_secret) = (self.password_files(entry), self.holds_password());
        let config = Config::of(place, Origin::File(self.path.clone()));
        Ok(Config { on_down: entry.on_down, password_files, file_is_secret, ..config })
    }

    /// The files in which the passwords of a store stand, and of those that it is made of.
    fn password_files(&self, entry: &StoreEntry) -> Vec<PathBuf> {
        let parts: Vec<&StoreEntry> = match &entry.kind {
            Kind::Url { .. } => vec![entry],
            Kind::Quorum(members) => members.iter().filter_map(|part| self.entry(part)).collect(),
            Kind::Fallback { primary, arbiter, .. } => {
                [primary, arbiter].into_iter().filter_map(|part| self.entry(part)).collect()
            }
        };
        let file = |part: &StoreEntry| match &part.kind {
            Kind::Url { password_file: Some(file), .. } => Some(self.beside(file)),
            _ => None,
        };
        parts.into_iter().filter_map(file).collect()
    }

    /// Whether a password stands in the file itself.
    fn holds_password(&self) -> bool {
        self.stores.iter().any(|entry| match &entry.kind {
            Kind::Url { url, .. } => holds_password(url),
            Kind::Quorum(members) => members.iter().any(|part| holds_password(part)),
            Kind::Fallback { primary, arbiter, .. } => holds_password(primary) || holds_password(arbiter),
        })
    }

    fn entry(&self, name: &str) -> Option<&StoreEntry> {
        self.stores.iter().find(|entry| entry.name == name)
    }

    /// The URL of a part of a store.
    fn part(&self, whole: &StoreEntry, part: &str) -> Result<String, Failure> {
        if is_url(part) {
            return Ok(self.with_absolute_file(part));
        }
        let why = match self.entry(part) {
            Some(entry) => match &entry.kind {
                Kind::Url { url, password_file } => return self.url(entry, url, password_file.as_deref()),
                Kind::Quorum(_) | Kind::Fallback { .. } => "is made of stores itself; name those",
            },
            None => "is not in this file; write a URL, or the name of a store that is",
        };
        Err(self.fault(whole, &format!("the store {:?} is made of {part:?}, which {why}", whole.name)))
    }

    fn url(&self, entry: &StoreEntry, url: &str, password_file: Option<&Path>) -> Result<String, Failure> {
        match password_file {
            Some(file) => self.with_password(entry, url, file),
            None => Ok(self.with_absolute_file(url)),
        }
    }

    /// A relative `password_file` is relative to the configuration file, wherever the command is started.
    fn with_password(&self, entry: &StoreEntry, url: &str, file: &Path) -> Result<String, Failure> {
        let file = self.beside(file);
        let password = fs::read_to_string(&file).map_err(|error| unreadable("password file", &file, &error))?;
        let password = password.trim_end_matches(['\r', '\n']);
        if password.is_empty() {
            let message = format!("the password file {} is empty; write the password into it", file.display());
            return Err(Failure::new(exit::CONFIG, message));
        }
        insert_password(url, password).ok_or_else(|| {
            let message = format!(
                "the store {:?} has a password_file, but its URL has no place for a password, or has one already; take one \
                 of them out",
                entry.name
            );
            self.fault(entry, &message)
        })
    }

    /// A path of this file, wherever the command is started.
    fn beside(&self, file: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new(".")).join(file)
    }

    /// As for the password file: with another lock file in each directory, jobs would not exclude each other.
    fn with_absolute_file(&self, url: &str) -> String {
        let relative =
            url.strip_prefix("sqlite:").filter(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', ':']));
        match (relative, self.path.parent().and_then(Path::to_str)) {
            (Some(file), Some(directory)) if !directory.is_empty() => {
                let parts: Vec<String> = directory.split('/').map(percent_encoded).collect();
                format!("sqlite:{}/{file}", parts.join("/"))
            }
            _ => url.to_owned(),
        }
    }

    fn fault(&self, entry: &StoreEntry, message: &str) -> Failure {
        Failure::new(exit::CONFIG, format!("{}, line {}: {message}", self.path.display(), entry.line))
    }

    pub fn names(&self) -> String {
        let names: Vec<&str> = self.stores.iter().map(|entry| entry.name.as_str()).collect();
        if names.is_empty() { "no stores".into() } else { names.join(", ") }
    }
}

/// A file that is there and can't be looked at, or a link that leads nowhere, is not passed over: the locks would
/// silently be in another store than everybody else's.
fn first_that_exists() -> Result<Option<PathBuf>, Failure> {
    for path in PLACES.map(Path::new) {
        match fs::symlink_metadata(path) {
            Ok(_) => return Ok(Some(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable("configuration file", path, &error)),
        }
    }
    Ok(None)
}

fn unreadable(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(exit::CONFIG, format!("cannot read the {what} {}: {error}", path.display()))
}

/// `scheme://user@host` → `scheme://user:password@host`; none if the URL names no host or has a password.
fn insert_password(url: &str, password: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (user, host) = rest.split_once('@').unwrap_or(("", rest));
    let possible = scheme != "sqlite" && !host.is_empty() && !user.contains(':');
    possible.then(|| format!("{scheme}://{user}:{}@{host}", percent_encoded(password)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ConfigFile {
        Reader { path: Path::new("/etc/l.toml"), text }.read().unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    #[test]
    fn a_relative_file_is_relative_to_the_configuration_file() {
        for (config, url, wanted) in [
            ("/etc/a b/l.toml", "sqlite:x.db?namespace=n", "sqlite:/etc/a%20b/x.db?namespace=n"),
            ("./l.toml", "sqlite:x.db", "sqlite:./x.db"),
            ("l.toml", "sqlite:x.db", "sqlite:x.db"),
            ("/etc/l.toml", "sqlite:///x.db", "sqlite:///x.db"),
            ("/etc/l.toml", "sqlite:/x.db", "sqlite:/x.db"),
            ("/etc/l.toml", "sqlite:", "sqlite:"),
            ("/etc/l.toml", "sqlite:?namespace=n", "sqlite:?namespace=n"),
        ] {
            let file = ConfigFile { path: config.into(), default: None, stores: Vec::new() };
            assert_eq!(file.with_absolute_file(url), wanted);
        }
    }

    #[test]
    fn the_default_store_is_found() {
        let config = read("default = \"a\"\n[stores.a]\nurl = \"sqlite:///x.db\"").default_store().unwrap();
        assert!(matches!(&config.place, Place::Url(url) if url == "sqlite:///x.db"));
        assert_eq!(config.origin, Origin::File("/etc/l.toml".into()));
        assert!(read("").default_store().is_ok_and(|config| config.origin == Origin::Default));
    }

    #[test]
    fn several_stores_and_no_default_is_no_silent_sqlite() {
        let failure = read("[stores.a]\nurl = \"x:\"").default_store().err().unwrap();
        assert!(failure.code == 78 && failure.message.contains("default = \"a\""), "{failure:?}");
    }

    #[test]
    fn parts_are_urls_or_names() {
        let file = read(
            "[stores.r]\nurl = \"redis://r\"\n[stores.q]\nquorum = [\"r\", \"redis://s\", \"redis://t\"]\n\
             [stores.f]\nfallback = { primary = \"r\", arbiter = \"sqlite:a.db\", up_after = \"2m\" }\non_down = \"skip\"\n\
             [stores.w]\nquorum = [\"r\", \"q\", \"r\"]\n[stores.x]\nfallback = { primary = \"nobody\", arbiter = \"r\" }",
        );
        let by = Origin::CommandLine;
        assert_eq!(file.store("q", &by).unwrap().shown(), "a quorum of redis://r and redis://s and redis://t");
        let fallback = file.store("f", &by).unwrap();
        assert_eq!((fallback.shown(), fallback.on_down), ("redis://r or sqlite:/etc/a.db".into(), OnDown::Skip));
        for (name, part) in [("w", "is made of stores itself"), ("x", "is not in this file")] {
            let failure = file.store(name, &by).err().unwrap();
            assert!(failure.code == 78 && failure.message.contains(part), "{failure:?}");
        }
    }

    #[test]
    fn a_password_goes_into_the_url() {
        assert_eq!(insert_password("redis://bob@h:1/0", "p@ss:/").unwrap(), "redis://bob:p%40ss%3A%2F@h:1/0");
        assert_eq!(insert_password("redis://h", "x").unwrap(), "redis://:x@h");
        assert_eq!(insert_password("redis://bob:y@h", "x"), None);
        assert_eq!(insert_password("sqlite:///a.db", "x"), None);
    }
}
