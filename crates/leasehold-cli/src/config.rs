//! Where the store comes from: the command line, the environment, `leasehold.toml`, or nowhere (then: SQLite).

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold::layers::Timeout;
use leasehold::stores::{self, hide_secrets};
use leasehold::{ErrorKind, Namespace, Store};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::args::StoreArgs;
use crate::exit::{self, Failure};

/// Where a configuration file is looked for if none is named. The first that exists counts, alone.
const PLACES: [&str; 2] = ["./leasehold.toml", "/etc/leasehold/leasehold.toml"];

const STORE: &str = "LEASEHOLD_STORE";
const CONFIG: &str = "LEASEHOLD_CONFIG";
const NAMESPACE: &str = "LEASEHOLD_NAMESPACE";

/// SQLite in its default file.
const DEFAULT_URL: &str = "sqlite:";

/// The store that this invocation works on. Nothing has been opened yet.
pub struct Config {
    url: String,
    origin: Origin,
}

/// Who named the store, and so who is to blame for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// `--store URL`.
    CommandLine,
    /// `LEASEHOLD_STORE`, as a URL.
    Environment,
    /// A store of this file.
    File(PathBuf),
    /// Nobody.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::CommandLine => f.write_str("--store"),
            Origin::Environment => f.write_str(STORE),
            Origin::File(path) => write!(f, "{}", path.display()),
            Origin::Default => f.write_str("default"),
        }
    }
}

impl Config {
    /// Finds out which store is meant. Reads a configuration file only where one is needed.
    ///
    /// # Errors
    /// 64 for what was typed, 78 for what stands in the environment or in a file.
    pub fn find(args: &StoreArgs) -> Result<Config, Failure> {
        let mut config = Config::without_namespace(args)?;
        if let Some(namespace) = namespace(args)? {
            config.url = with_namespace(&config.url, &namespace);
        }
        Ok(config)
    }

    fn without_namespace(args: &StoreArgs) -> Result<Config, Failure> {
        let wanted = match &args.store {
            Some(store) => Some((store.clone(), Origin::CommandLine)),
            None => variable(STORE)?.map(|store| (store, Origin::Environment)),
        };
        if let Some((url, origin)) = wanted.clone().filter(|(store, _)| is_url(store)) {
            return Ok(Config { url, origin });
        }
        match (ConfigFile::find(args)?, wanted) {
            (Some(file), Some((name, origin))) => file.store(&name, &origin),
            (Some(file), None) => file.default_store(),
            (None, Some((name, origin))) => Err(no_file(&name, &origin)),
            (None, None) => Ok(Config { url: DEFAULT_URL.into(), origin: Origin::Default }),
        }
    }

    /// The URL, secrets and all: to open the store with, never to be shown.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL for people: with the path of the default file, without secrets.
    pub fn shown(&self) -> String {
        let query = self.url.strip_prefix("sqlite:").map(|rest| rest.trim_start_matches("//"));
        let default = query.filter(|query| query.is_empty() || query.starts_with('?'));
        match (default, stores::sqlite::Sqlite::default_path()) {
            (Some(query), Ok(path)) => format!("sqlite://{}{query}", path.display()),
            _ => hide_secrets(&self.url),
        }
    }

    /// Who named the store.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Opens the store; its answers are waited for only so long.
    ///
    /// # Errors
    /// What the store says; a bad URL is blamed on whoever wrote it.
    pub fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        let store = stores::open(&self.url).map_err(|error| self.blame(error))?;
        Ok(Arc::new(Timeout::over(store)))
    }

    /// The failure that `error` of the store is: bad input is the fault of the command line only if it stood there.
    pub fn blame(&self, error: leasehold::Error) -> Failure {
        match &self.origin {
            _ if error.kind() != ErrorKind::Invalid => error.into(),
            Origin::CommandLine => error.into(),
            // No HOME, so no default file: nobody named anything wrong.
            Origin::Default => Failure::new(exit::CONFIG, error.to_string()),
            origin => Failure::new(exit::CONFIG, format!("{origin}: {error}")),
        }
    }

    /// The variables that carry a secret, not to be handed to a job.
    pub fn secret_variables() -> Vec<OsString> {
        let secret = std::env::var(STORE).is_ok_and(|store| hide_secrets(&store) != store);
        secret.then(|| STORE.into()).into_iter().collect()
    }
}

/// Names of stores have no colon, URLs do.
fn is_url(store: &str) -> bool {
    store.contains(':')
}

/// So that `--store NAME` is never taken for a URL, and a name can stand in any message.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
}

/// A variable's value. An empty one counts as not set: that is how a script unsets it for one command.
fn variable(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var_os(name).map(OsString::into_string) {
        None => Ok(None),
        Some(Ok(value)) => Ok(Some(value).filter(|value| !value.is_empty())),
        Some(Err(_)) => Err(Failure::new(exit::CONFIG, format!("{name} is not UTF-8; set it to text, or unset it"))),
    }
}

fn namespace(args: &StoreArgs) -> Result<Option<Namespace>, Failure> {
    if let Some(namespace) = &args.namespace {
        return Ok(Some(Namespace::new(namespace)?));
    }
    let Some(namespace) = variable(NAMESPACE)? else { return Ok(None) };
    let namespace = Namespace::new(&namespace);
    namespace.map(Some).map_err(|error| Failure::new(exit::CONFIG, format!("{NAMESPACE}: {error}")))
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
fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte.into());
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}

fn no_file(name: &str, origin: &Origin) -> Failure {
    let message = format!(
        "{origin} names the store {name:?}, but there is no configuration file to look it up ({}); \
         write one, name it with --config, or give a URL such as sqlite:///var/lib/leasehold/locks.db",
        PLACES.join(", ")
    );
    Failure::new(code_for(origin), message)
}

fn code_for(origin: &Origin) -> i32 {
    if *origin == Origin::CommandLine { exit::USAGE } else { exit::CONFIG }
}

/// A `leasehold.toml`, read and checked as a whole: a typing error shows even if another store is used today.
struct ConfigFile {
    path: PathBuf,
    default: Option<String>,
    stores: Vec<StoreEntry>,
}

/// `[stores.NAME]`
struct StoreEntry {
    name: String,
    url: String,
    password_file: Option<PathBuf>,
    line: usize,
}

impl ConfigFile {
    fn find(args: &StoreArgs) -> Result<Option<ConfigFile>, Failure> {
        let named = match &args.config {
            Some(path) => Some(path.clone()),
            None => variable(CONFIG)?.map(PathBuf::from),
        };
        let path = named.map_or_else(first_that_exists, |path| Ok(Some(path)))?;
        path.map(|path| ConfigFile::read(&path)).transpose()
    }

    fn read(path: &Path) -> Result<ConfigFile, Failure> {
        let text = fs::read_to_string(path).map_err(|error| unreadable("configuration file", path, &error))?;
        Reader { path, text: &text }.read()
    }

    fn default_store(&self) -> Result<Config, Failure> {
        match &self.default {
            Some(name) => self.store(name, &Origin::File(self.path.clone())),
            None if self.stores.is_empty() => Ok(Config { url: DEFAULT_URL.into(), origin: Origin::Default }),
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

    fn store(&self, name: &str, asked_by: &Origin) -> Result<Config, Failure> {
        let entry = self.stores.iter().find(|entry| entry.name == name).ok_or_else(|| {
            let message = format!(
                "{asked_by} names the store {name:?}, which {} does not have; it has: {}",
                self.path.display(),
                self.names()
            );
            Failure::new(code_for(asked_by), message)
        })?;
        let url = match &entry.password_file {
            Some(file) => self.with_password(entry, file)?,
            None => self.with_absolute_file(&entry.url),
        };
        Ok(Config { url, origin: Origin::File(self.path.clone()) })
    }

    /// A relative `password_file` is relative to the configuration file, wherever the command is started.
    fn with_password(&self, entry: &StoreEntry, file: &Path) -> Result<String, Failure> {
        let file = self.path.parent().unwrap_or(Path::new(".")).join(file);
        let password = fs::read_to_string(&file).map_err(|error| unreadable("password file", &file, &error))?;
        insert_password(&entry.url, password.trim_end_matches(['\r', '\n'])).ok_or_else(|| {
            let message = format!(
                "{}, line {}: the store {:?} has a password_file, but its URL has no place for a password, or has one \
                 already; take one of them out",
                self.path.display(),
                entry.line,
                entry.name
            );
            Failure::new(exit::CONFIG, message)
        })
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

    fn names(&self) -> String {
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

/// Checks a file key by key. Values never go into a message: they may be secrets.
struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn read(&self) -> Result<ConfigFile, Failure> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        // The first one: those after it are mostly its consequences.
        if let Some(error) = errors.iter().min_by_key(|error| error.span().map(|span| span.start)) {
            let message = format!("this is not TOML: {}", error.message());
            return Err(self.fault(error.span().unwrap_or_default(), &message));
        }
        let mut file = ConfigFile { path: self.path.to_owned(), default: None, stores: Vec::new() };
        for (key, value) in table.get_ref() {
            match key.get_ref().as_ref() {
                "default" => file.default = Some(self.text_of("default", value)?),
                "stores" => file.stores = self.stores(value)?,
                _ => return Err(self.unknown(key, "default and [stores.NAME]")),
            }
        }
        self.check_default(&file, table.get_ref())?;
        Ok(file)
    }

    fn check_default(&self, file: &ConfigFile, table: &DeTable<'_>) -> Result<(), Failure> {
        match (&file.default, table.get("default")) {
            (Some(name), Some(at)) if file.stores.iter().all(|entry| entry.name != *name) => {
                Err(self
                    .fault(at.span(), &format!("default names a store that is not here; there are: {}", file.names())))
            }
            _ => Ok(()),
        }
    }

    fn stores(&self, value: &Spanned<DeValue<'_>>) -> Result<Vec<StoreEntry>, Failure> {
        self.table_of("stores", value)?.iter().map(|(name, value)| self.store(name, value)).collect()
    }

    fn store(&self, name: &Spanned<DeString<'_>>, value: &Spanned<DeValue<'_>>) -> Result<StoreEntry, Failure> {
        let key = format!("stores.{}", name.get_ref());
        if !is_plain(name.get_ref()) {
            return Err(self.fault(name.span(), "a store's name is made of letters, digits, - and _; choose another"));
        }
        let (mut url, mut password_file) = (None, None);
        for (field, value) in self.table_of(&key, value)? {
            match field.get_ref().as_ref() {
                "url" => url = Some(self.text_of(&format!("{key}.url"), value)?),
                "password_file" => password_file = Some(self.text_of(&format!("{key}.password_file"), value)?.into()),
                composed @ ("quorum" | "fallback") => {
                    let message = format!(
                        "{key}.{composed}: stores made of stores come in a later release; give one store with url = \"…\""
                    );
                    return Err(self.fault(field.span(), &message));
                }
                _ => return Err(self.unknown(field, "url and password_file")),
            }
        }
        let url =
            url.ok_or_else(|| self.fault(name.span(), &format!("{key} has no url; add url = \"sqlite:///…\"")))?;
        Ok(StoreEntry { name: name.get_ref().to_string(), url, password_file, line: self.line(&name.span()) })
    }

    fn text_of(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<String, Failure> {
        let text = value.get_ref().as_str().map(str::to_owned);
        text.ok_or_else(|| self.wrong_type(key, value, "text in quotes"))
    }

    fn table_of<'v>(&self, key: &str, value: &'v Spanned<DeValue<'v>>) -> Result<&'v DeTable<'v>, Failure> {
        value.get_ref().as_table().ok_or_else(|| {
            self.wrong_type(
                key,
                value,
                if key == "stores" { "tables; write [stores.NAME]" } else { "a table with an url" },
            )
        })
    }

    fn wrong_type(&self, key: &str, value: &Spanned<DeValue<'_>>, wanted: &str) -> Failure {
        self.fault(
            value.span(),
            &format!("{key} is of the type {}, but has to be {wanted}", value.get_ref().type_str()),
        )
    }

    fn unknown(&self, key: &Spanned<DeString<'_>>, known: &str) -> Failure {
        let message =
            format!("unknown key {:?}; known here: {known}. Correct its spelling, or take it out", key.get_ref());
        self.fault(key.span(), &message)
    }

    fn fault(&self, at: Range<usize>, message: &str) -> Failure {
        Failure::new(exit::CONFIG, format!("{}, line {}: {message}", self.path.display(), self.line(&at)))
    }

    fn line(&self, at: &Range<usize>) -> usize {
        self.text.as_bytes().iter().take(at.start).filter(|byte| **byte == b'\n').count() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ConfigFile, String> {
        Reader { path: Path::new("/etc/l.toml"), text }.read().map_err(|failure| {
            assert_eq!(failure.code, exit::CONFIG);
            failure.message
        })
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

    const GOOD: &str = r#"
default = "main"

[stores.main]
url = "sqlite:///var/lib/leasehold/locks.db"

[stores.other]
url = "redis://bob@h:1/0"
password_file = "secret"
"#;

    #[test]
    fn a_good_file_is_read() {
        let file = read(GOOD).unwrap();
        let config = file.default_store().unwrap();
        assert_eq!(config.url, "sqlite:///var/lib/leasehold/locks.db");
        assert_eq!(config.origin, Origin::File("/etc/l.toml".into()));
        assert_eq!(file.stores[1].line, 7);
        assert!(read("").unwrap().default_store().is_ok_and(|config| config.origin == Origin::Default));
    }

    #[test]
    fn a_bad_file_is_refused_with_line_key_rule_and_fix() {
        for (text, wanted) in [
            (
                "defualt = \"x\"",
                &["/etc/l.toml, line 1: ", "\"defualt\"", "default and [stores.NAME]", "take it out"][..],
            ),
            ("\n[stores.a]\nulr = \"x\"", &["line 3: ", "\"ulr\"", "url and password_file"]),
            ("[stores.a]\nurl = 5", &["line 2: stores.a.url", "integer", "text in quotes"]),
            ("[stores.a]\n", &["line 1: stores.a has no url", "add url ="]),
            ("stores = 5", &["line 1: stores", "[stores.NAME]"]),
            ("[stores]\na = \"redis://:hunter2@h\"", &["line 2: stores.a is of the type string"]),
            ("[stores.q]\nquorum = [\"a\", \"b\"]", &["line 2: stores.q.quorum", "later release", "url ="]),
            ("[stores.q]\nfallback = { primary = \"a\" }", &["line 2: stores.q.fallback", "later release"]),
            ("[stores.\"a:b\"]\nurl = \"x:\"", &["line 1: ", "letters, digits"]),
            ("default = \"b\"\n[stores.a]\nurl = \"x:\"", &["line 1: default names a store that is not here", "a"]),
            ("x = = 5", &["line 1: this is not TOML"]),
            ("[stores.a]\nurl = \"redis://:hunter2@h\nx", &["line 2: this is not TOML"]),
            ("[stores.a]\nurl = \"x:\"\nurl = \"redis://:hunter2@h\"", &["line 3: this is not TOML"]),
        ] {
            let message = read(text).err().unwrap_or_else(|| panic!("accepted: {text}"));
            for part in wanted {
                assert!(message.contains(part), "{part} not in {message}");
            }
            assert!(!message.contains("hunter2") && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn several_stores_and_no_default_is_no_silent_sqlite() {
        let failure = read("[stores.a]\nurl = \"x:\"").unwrap().default_store().err().unwrap();
        assert!(failure.code == 78 && failure.message.contains("default = \"a\""), "{failure:?}");
    }

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
    fn a_password_goes_into_the_url_and_not_out_of_it() {
        assert_eq!(insert_password("redis://bob@h:1/0", "p@ss:/").unwrap(), "redis://bob:p%40ss%3A%2F@h:1/0");
        assert_eq!(insert_password("redis://h", "x").unwrap(), "redis://:x@h");
        assert_eq!(insert_password("redis://bob:y@h", "x"), None);
        assert_eq!(insert_password("sqlite:///a.db", "x"), None);
        let config = Config { url: "redis://bob:hunter2@h".into(), origin: Origin::Environment };
        let blamed = config.blame(leasehold::Error::invalid("no such thing"));
        assert_eq!((blamed.code, blamed.message.as_str()), (78, "LEASEHOLD_STORE: no such thing"));
        assert!(!config.shown().contains("hunter2"));
    }
}
