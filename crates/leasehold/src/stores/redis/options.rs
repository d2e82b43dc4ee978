//! What the URL of a Redis store says.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use super::address::Address;
use super::connection::LEFT_WITHIN;
use super::format::Format;
use super::login::Login;
use super::restart_guard::RestartGuard;
use super::tls;
use crate::error::{Error, Result};
use crate::name::Namespace;
use crate::store::USUAL_TTL;
use crate::stores::password::Password;
use crate::stores::percent::decoded;
use crate::stores::query;
use crate::stores::secrets::{has_stray_at, hide_secrets};
use crate::stores::tls::Tls;
use crate::stores::wrong::Wrong;

/// The parts of a URL, checked.
#[derive(Clone)]
pub(super) struct Options {
    pub topology: Topology,
    pub login: Login,
    pub tls: Option<Tls>,
    pub namespace: Namespace,
    pub format: Format,
    /// Whether there is a restart guard, if that was said.
    restart_guard: Option<bool>,
    /// The largest TTL, where there is one.
    max_ttl: Duration,
    /// How many replicas must have what was promised, if any.
    pub replicas: Option<NonZeroU32>,
    /// The URL, fit to be shown.
    pub shown: String,
}

/// The largest TTL under a restart guard, if nothing is said of it: for so long nobody is granted anything after a
/// failover.
const MAX_TTL: Duration = Duration::from_secs(60);

/// How the servers stand to one another.
#[derive(Clone)]
pub(super) enum Topology {
    One(Address),
    Sentinel { sentinels: Vec<Address>, master: String, login: Login },
    Cluster { seeds: Vec<Address> },
}

const ALL: &str = "namespace, compat, restart_guard, max_ttl, wait_replicas, db, user, pass, password_file; with rediss ca, cert, key; \
                   with sentinels sentinel_user, sentinel_password, sentinel_password_file";

const SCHEMES: [&str; 7] =
    ["redis", "rediss", "redis+unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"];

const PORT: u16 = 6379;
const PORT_OF_SENTINELS: u16 = 26379;

/// The options behind the `?`, as they were given.
#[derive(Default)]
struct Given {
    namespace: Option<Namespace>,
    format: Format,
    restart_guard: Option<bool>,
    max_ttl: Option<Duration>,
    replicas: Option<NonZeroU32>,
    login: Login,
    has_db: bool,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    sentinel: Login,
    /// One that only sentinels have.
    for_sentinels: Option<String>,
}

impl Options {
    pub fn parse(url: &str) -> Result<Self> {
        let shown = hide_secrets(url);
        Self::read(url, &shown).map_err(|why| why.told(&shown))
    }

    fn read(url: &str, shown: &str) -> Result<Self, Wrong> {
        let (front, query) = url.split_once('?').unwrap_or((url, ""));
        if has_stray_at(query) {
            return Err("has an @ behind a ?; a ? in a user or password is written %3F".into());
        }
        let (scheme, place) = front.split_once("://").ok_or_else(|| no_url(front))?;
        if !SCHEMES.contains(&scheme) {
            return Err(no_url(front).into());
        }
        let mut given = Given::read(query)?;
        let (secure, kind) = match scheme.split_once('+') {
            Some((scheme, kind)) => (scheme == "rediss", kind),
            None => (scheme == "rediss", ""),
        };
        let tls = given.tls(secure)?;
        if let (Some(option), true) = (&given.for_sentinels, kind != "sentinel") {
            return Err(format!("has the option {option}, which is for redis+sentinel://").into());
        }
        let topology = match kind {
            "unix" => Topology::One(socket(place)?),
            "" => {
                let (hosts, db) = given.behind_the_login(place)?;
                given.take_db(db)?;
                Topology::One(alone(addresses(hosts, PORT)?)?)
            }
            "sentinel" => {
                let (hosts, path) = given.behind_the_login(place)?;
                let (master, db) = path.split_once('/').unwrap_or((path, ""));
                given.take_db(db)?;
                if master.is_empty() {
                    return Err("names no master; write redis+sentinel://host:26379,host:26379/NAME".into());
                }
                let sentinels = addresses(hosts, PORT_OF_SENTINELS)?;
                Topology::Sentinel { sentinels, master: decoded(master)?, login: given.sentinel }
            }
            "cluster" => {
                let (hosts, db) = given.behind_the_login(place)?;
                given.take_db(db)?;
                if given.login.db != 0 {
                    return Err(format!("names the database {}; a cluster has no other than 0", given.login.db).into());
                }
                Topology::Cluster { seeds: addresses(hosts, PORT)? }
            }
            _ => return Err(no_url(front).into()),
        };
        if let Some(namespace) = given.namespace.as_ref().filter(|_| !given.format.is_own()) {
            return Err(format!(
                "has namespace={namespace}, which has no room beside compat: there the key is the other library's; leave one \
                 of them out"
            )
            .into());
        }
        let options = Self {
            topology,
            login: given.login,
            tls,
            namespace: given.namespace.unwrap_or_default(),
            format: given.format,
            restart_guard: given.restart_guard,
            max_ttl: given.max_ttl.unwrap_or(MAX_TTL),
            replicas: given.replicas,
            shown: shown.to_owned(),
        };
        options.login.password.check().map_err(Wrong::File)?;
        if let Topology::Sentinel { login, .. } = &options.topology {
            login.password.check().map_err(Wrong::File)?;
        }
        if given.max_ttl.is_some() && options.guard().is_none() {
            return Err("has the option max_ttl, which is for the restart guard; write restart_guard=on for one".into());
        }
        Ok(options)
    }

    /// The largest TTL, if there is a restart guard: where another server may take over, unless it was said otherwise.
    pub fn guard(&self) -> Option<Duration> {
        let is_on = self.restart_guard.unwrap_or(!matches!(self.topology, Topology::One(_)));
        is_on.then_some(self.max_ttl)
    }

    /// A lock for which nothing is said must not ask for more than the largest.
    pub fn usual_ttl(&self) -> Duration {
        self.guard().map_or(USUAL_TTL, |largest| largest.min(USUAL_TTL))
    }

    /// What has to be known to keep it.
    pub fn restart_guard(&self) -> Option<RestartGuard> {
        let is_told_by_sentinels = matches!(self.topology, Topology::Sentinel { .. });
        let left_within = if is_told_by_sentinels { LEFT_WITHIN } else { Duration::ZERO };
        self.guard().map(|max_ttl| RestartGuard { namespace: self.namespace.clone(), max_ttl, left_within })
    }

    /// A lease that lasts longer than the guard would not be covered by it.
    pub fn check_ttl(&self, ttl: Duration) -> Result<()> {
        match self.guard() {
            Some(max_ttl) if ttl > max_ttl => Err(Error::invalid(format!(
                "a TTL of {ttl:?} is more than the {max_ttl:?} after which the restart guard of {} lets go; take a shorter \
                 one, or add max_ttl={} to the store's URL everywhere (nobody is granted anything for so long after a failover)",
                self.shown,
                ttl.as_secs_f64().ceil()
            ))),
            _ => Ok(()),
        }
    }

    /// Whether a release may grant the lock to who waits for it: not where each grant is to be waited for.
    pub fn hands_over(&self) -> bool {
        self.replicas.is_none() && self.format.hands_over()
    }
}

impl Given {
    fn read(query: &str) -> Result<Self, String> {
        let mut given = Self::default();
        for (option, value) in query::pairs(query)? {
            given.take(option, value)?;
        }
        Ok(given)
    }

    fn take(&mut self, option: &str, value: &str) -> Result<(), String> {
        let text = || decoded(value);
        let path = || decoded(value).map(PathBuf::from);
        match option {
            "namespace" => {
                self.namespace = Some(Namespace::new(&text()?).map_err(|error| format!("is wrong: {error}"))?);
            }
            "compat" => self.format = Format::compat(value).map_err(|error| format!("is wrong: {error}"))?,
            "restart_guard" => self.restart_guard = Some(on_or_off(value)?),
            "max_ttl" => self.max_ttl = Some(seconds(value)?),
            "wait_replicas" => self.replicas = replicas(value)?,
            "db" => self.take_db(value)?,
            "user" => self.login.user = Some(text()?),
            "pass" => self.login.password = Password::Given(text()?),
            "password_file" => self.login.password = Password::InFile(path()?),
            "ca" => self.ca = Some(path()?),
            "cert" => self.cert = Some(path()?),
            "key" => self.key = Some(path()?),
            "sentinel_user" => self.sentinel.user = Some(text()?),
            "sentinel_password" => self.sentinel.password = Password::Given(text()?),
            "sentinel_password_file" => self.sentinel.password = Password::InFile(path()?),
            _ => return Err(format!("has an option {option:?}, which a Redis store has not; it has {ALL}")),
        }
        if option.starts_with("sentinel_") {
            self.for_sentinels = Some(option.to_owned());
        }
        Ok(())
    }

    fn take_db(&mut self, db: &str) -> Result<(), String> {
        if db.is_empty() {
            return Ok(());
        }
        if std::mem::replace(&mut self.has_db, true) {
            return Err("names its database twice".into());
        }
        self.login.db = db.parse::<u16>().map_err(|_| format!("names no database in {db:?}; write a number"))?.into();
        Ok(())
    }

    /// Takes `user:password@` off the front: hosts, and the path behind them.
    fn behind_the_login<'a>(&mut self, place: &'a str) -> Result<(&'a str, &'a str), String> {
        let rest = match place.rsplit_once('@') {
            Some((login, rest)) => {
                let (user, password) = login.split_once(':').map_or((login, None), |(u, p)| (u, Some(p)));
                if !user.is_empty() {
                    self.login.user = Some(decoded(user)?);
                }
                if let Some(password) = password {
                    self.login.password = Password::Given(decoded(password)?);
                }
                rest
            }
            None => place,
        };
        Ok(rest.split_once('/').unwrap_or((rest, "")))
    }

    fn tls(&mut self, secure: bool) -> Result<Option<Tls>, Wrong> {
        let client = match (self.cert.take(), self.key.take()) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err("has one of cert and key; a client's certificate needs both".into()),
        };
        let tls = Tls { ca: self.ca.take(), client };
        if !secure {
            return if tls == Tls::default() {
                Ok(None)
            } else {
                Err("has options of TLS; write rediss for it".into())
            };
        }
        tls::certificates(&tls).map_err(Wrong::File)?;
        Ok(Some(tls))
    }
}

fn on_or_off(value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("has restart_guard={value:?}; write on or off")),
    }
}

fn seconds(value: &str) -> Result<Duration, String> {
    let seconds = value.parse().ok().filter(|seconds| (1..=86400).contains(seconds));
    let wrong = || format!("has max_ttl={value:?}; write a number of seconds, from 1 to 86400");
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

fn replicas(value: &str) -> Result<Option<NonZeroU32>, String> {
    let count: u32 =
        value.parse().map_err(|_| format!("has wait_replicas={value:?}; write how many, for example 1"))?;
    Ok(NonZeroU32::new(count))
}

fn no_url(front: &str) -> String {
    let scheme = front.split(':').next().unwrap_or_default();
    format!(
        "is no URL of a Redis store ({scheme:?}); write for example redis://host:6379/0, rediss://host, \
         redis+unix:///run/redis.sock, redis+sentinel://host:26379,host:26379/NAME or redis+cluster://host:6379"
    )
}

fn socket(path: &str) -> Result<Address, String> {
    if !path.starts_with('/') {
        return Err(format!("names no socket in {path:?}; write redis+unix:///run/redis.sock"));
    }
    decoded(path).map(|path| Address::Unix(path.into()))
}

fn addresses(hosts: &str, port: u16) -> Result<Vec<Address>, String> {
    hosts.split(',').map(|host| Address::read(host, port)).collect()
}

fn alone(addresses: Vec<Address>) -> Result<Address, String> {
    match <[Address; 1]>::try_from(addresses) {
        Ok([address]) => Ok(address),
        Err(many) => Err(format!(
            "names {} hosts; write redis+sentinel:// or redis+cluster:// for servers that belong together",
            many.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp(host.into(), port)
    }

    #[test]
    fn a_url_of_one_server_is_read() {
        let options = Options::parse("redis://bob:hunt%40r2@h:1234/3?namespace=staging").unwrap();
        assert_eq!((options.namespace.as_str(), options.login.db), ("staging", 3));
        assert!(matches!(options.topology, Topology::One(address) if address == tcp("h", 1234)));
        assert!(matches!(options.login.password, Password::Given(password) if password == "hunt@r2"));
        let options = Options::parse("redis+unix:///run/a%20b.sock?db=1&pass=x").unwrap();
        assert!(matches!(options.topology, Topology::One(Address::Unix(path)) if path.ends_with("a b.sock")));
        assert_eq!(options.login.db, 1);
        assert!(Options::parse("rediss://h").unwrap().tls.is_some());
    }

    #[test]
    fn urls_of_many_servers_are_read() {
        let url = "redis+sentinel://bob:hunter2@a,b:2,[::1]:3/main/4?sentinel_password=hunter2";
        let options = Options::parse(url).unwrap();
        assert!(!options.shown.contains("hunter2"), "{}", options.shown);
        assert_eq!((options.login.db, options.login.user.as_deref()), (4, Some("bob")));
        let Topology::Sentinel { sentinels, master, login } = options.topology else { panic!("sentinels") };
        assert_eq!(sentinels, [tcp("a", 26379), tcp("b", 2), tcp("::1", 3)]);
        assert_eq!(master, "main");
        assert!(matches!(login, Login { user: None, password: Password::Given(_), .. }));
        let options = Options::parse("rediss+cluster://a:1,b?namespace=x").unwrap();
        assert!(options.tls.is_some());
        assert!(matches!(options.topology, Topology::Cluster { seeds } if seeds == [tcp("a", 1), tcp("b", 6379)]));
    }

    #[test]
    fn a_mistake_is_one_clear_error_without_secrets() {
        for (url, says) in [
            ("redis://bob:hunter2@h:x/0", "a port is a number"),
            ("redis://bob:hunter2@h:0/0", "a port is a number"),
            ("redis://bob:hunter2@:1/0", "names no host"),
            ("redis://bob:hunter2@h/x", "names no database"),
            ("redis://bob:hunter2@h/1?db=2", "its database twice"),
            ("redis://bob:hunter2@a,b/0", "names 2 hosts; write redis+sentinel"),
            ("redis://bob:hunter2@h/?naemspace=x", "it has namespace, compat, "),
            ("redis://bob:hunt%4r2@h", "has a % that"),
            ("redis://h/0?namespace=", "is wrong"),
            ("redis://h?max_ttl=1&max_ttl=2&restart_guard=on", "\"max_ttl\" twice"),
            ("redis:h", "is no URL of a Redis store"),
            ("REDISS://bob:hunter2@h", "is no URL of a Redis store"),
            ("https://bob:hunter2@h", "is no URL of a Redis store"),
            ("redis://bob:hun?ter2@h", "is written %3F"),
            ("redis://:hunter2?@h", "is written %3F"),
            ("redis+quorum://h", "is no URL of a Redis store"),
            ("redis+unix://run/x.sock", "names no socket"),
            ("redis+sentinel://bob:hunter2@a,b", "names no master"),
            ("redis+sentinel://a,,b/main", "names no host"),
            ("redis://h?sentinel_password=hunter2", "sentinel_password, which is for redis+sentinel"),
            ("redis+cluster://bob:hunter2@a,b/1", "a cluster has no other than 0"),
            ("redis://bob:hunter2@h?compat=x", "is no library that is known"),
            ("redis://bob:hunter2@h?compat=plain&namespace=x", "no room beside compat"),
            ("redis://h?restart_guard=maybe", "write on or off"),
            ("redis://h?max_ttl=60", "write restart_guard=on"),
            ("redis+cluster://h?max_ttl=60&restart_guard=off", "write restart_guard=on"),
            ("redis+cluster://h?max_ttl=1m", "a number of seconds"),
            ("redis://h?wait_replicas=all", "write how many"),
            ("redis://h?ca=/x", "write rediss"),
            ("rediss://h?cert=/x", "needs both"),
        ] {
            let error = Options::parse(url).map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Invalid);
            assert!(error.to_string().contains(says), "{url}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_no_use_is_not_the_urls_fault() {
        let error = Options::parse("rediss://h?ca=/does/not/exist").map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Misconfigured);
        assert!(error.to_string().contains("ca=/does/not/exist can't be read"), "{error}");
    }

    #[test]
    fn a_namespace_is_decoded() {
        let namespace = |url: &str| Options::parse(url).unwrap().namespace;
        assert_eq!(namespace("redis://h?namespace=a%20b"), namespace("redis://h?namespace=a b"));
    }
}
