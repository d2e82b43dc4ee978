//! Where the store comes from: the command line, the environment, `leasehold.toml`, or nowhere (then: SQLite).

mod commands;
mod fault;
mod file;
mod on_down;
mod place;
mod reader;
mod secrets;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold::layers::Timeout;
use leasehold::stores::{Fallback, Memory, hide_secrets};
use leasehold::{ErrorKind, Namespace, Store};

pub use self::commands::Commands;
pub use self::fault::Fault;
pub use self::on_down::OnDown;
pub use self::place::Place;

use self::file::ConfigFile;
use self::reader::Reader;
use crate::args::StoreArgs;
use crate::exit::{self, Failure};

/// Where a configuration file is looked for if none is named. The first that exists counts, alone.
pub const PLACES: [&str; 2] = ["./leasehold.toml", "/etc/leasehold/leasehold.toml"];

const STORE: &str = "LEASEHOLD_STORE";
const CONFIG: &str = "LEASEHOLD_CONFIG";
const NAMESPACE: &str = "LEASEHOLD_NAMESPACE";

/// SQLite in its default file.
const DEFAULT_URL: &str = "sqlite:";

/// The store that this invocation works on. Nothing has been opened yet.
pub struct Config {
    place: Place,
    origin: Origin,
    on_down: OnDown,
    password_files: Vec<PathBuf>,
    /// A password stands in the file that describes it.
    file_is_secret: bool,
    commands: Commands,
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
            config.place = config.place.under(&namespace);
        }
        config.commands = Commands::on(args, &config)?;
        Ok(config)
    }

    fn without_namespace(args: &StoreArgs) -> Result<Config, Failure> {
        let wanted = match &args.store {
            Some(store) => Some((store.clone(), Origin::CommandLine)),
            None => variable(STORE)?.map(|store| (store, Origin::Environment)),
        };
        if let Some((url, origin)) = wanted.clone().filter(|(store, _)| is_url(store)) {
            let config = Config::of(Place::Url(url.clone()), origin);
            let place = Place::at(url).map_err(|error| config.blame(error))?;
            return Ok(Config { place, ..config });
        }
        match (ConfigFile::find(args)?, wanted) {
            (Some(file), Some((name, origin))) => file.store(&name, &origin),
            (Some(file), None) => file.default_store(),
            (None, Some((name, origin))) => Err(no_file(&name, &origin)),
            (None, None) => Ok(Config::of(Place::Url(DEFAULT_URL.into()), Origin::Default)),
        }
    }

    fn of(place: Place, origin: Origin) -> Config {
        let (on_down, commands) = (OnDown::default(), Commands::default());
        Config { place, origin, on_down, password_files: Vec::new(), file_is_secret: false, commands }
    }

    /// Where the locks are.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// For people: with the path of the default file, without secrets.
    pub fn shown(&self) -> String {
        self.place.shown()
    }

    /// What the file says of a store that can't be reached.
    pub fn on_down(&self) -> OnDown {
        self.on_down
    }

    /// Where the passwords stand that the file, or a URL, keeps apart; each once.
    pub fn password_files(&self) -> BTreeSet<PathBuf> {
        let in_urls = self.place.urls().into_iter().flat_map(secrets::password_files);
        self.password_files.iter().cloned().chain(in_urls).collect()
    }

    /// The file that describes the store, if a password stands in it, whichever store's that is.
    pub fn secret_file(&self) -> Option<&Path> {
        match &self.origin {
            Origin::File(path) if self.file_is_secret => Some(path),
            _ => None,
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
        let store = self.place.open().map_err(|error| self.blame(error))?;
        Ok(Arc::new(Timeout::over(store)))
    }

    /// Opens the store for somebody who only looks, or ends what is there. A file that isn't there is not made: what one finds in its place
    /// is what one would find in it. A name that is misspelt leaves nothing behind so.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_to_look(&self) -> Result<Arc<dyn Store>, Failure> {
        // Where not even its folder is there, opening says so; but for our own, which would be made.
        let is_ours = matches!(self.origin, Origin::Default);
        let is_nothing = |file: PathBuf| is_ours || file.parent().is_some_and(Path::is_dir);
        if self.place.missing_file().is_some_and(is_nothing) {
            return Ok(Arc::new(Memory::default()));
        }
        self.open()
    }

    /// Opens the store, if it is a fallback.
    ///
    /// # Errors
    /// What the store says.
    pub fn open_fallback(&self) -> Result<Option<Arc<Fallback>>, Failure> {
        self.place.open_fallback().map_err(|error| self.blame(error))
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

    /// How commands of ours are typed for this store.
    pub fn commands(&self) -> &Commands {
        &self.commands
    }

    /// The same failure, in which commands of ours are named as they have to be typed.
    pub fn complete(&self, failure: &Failure) -> Failure {
        Failure::new(failure.code, self.commands.completed(&failure.message))
    }

    /// The variables that carry a secret, not to be handed to a job.
    pub fn secret_variables() -> Vec<OsString> {
        let secret = std::env::var(STORE).is_ok_and(|store| hide_secrets(&store) != store);
        secret.then(|| STORE.into()).into_iter().collect()
    }
}

/// The configuration file that is looked into, if there is one.
///
/// # Errors
/// 78 if the place of one can't be looked at.
pub fn file(args: &StoreArgs) -> Result<Option<PathBuf>, Failure> {
    ConfigFile::path(args)
}

/// All that is wrong with a configuration file, but for its jobs.
pub fn faults(path: &Path, text: &str) -> Vec<Fault> {
    Reader { path, text }.faults()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_url_is_blamed_on_whoever_wrote_it_and_no_secret_is_shown() {
        let config = Config::of(Place::Url("redis://bob:hunter2@h".into()), Origin::Environment);
        let blamed = config.blame(leasehold::Error::invalid("no such thing"));
        assert_eq!((blamed.code, blamed.message.as_str()), (78, "LEASEHOLD_STORE: no such thing"));
        assert!(!config.shown().contains("hunter2"));
    }
}
