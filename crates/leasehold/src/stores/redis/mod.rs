//! Locks in Redis (or Valkey), for the processes of many machines.
//!
//! One script for each operation: it decides, writes and answers in one step and one round trip. Leases end by the
//! server's own clock, as keys do.

mod answer;
mod bells;
mod connection;
mod doctor;
mod fault;
mod format;
mod keys;
mod options;
mod script;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::{Client, Cmd, Value};

use self::answer::Fields;
use self::bells::Bells;
use self::connection::Link;
use self::doctor::Info;
use self::keys::Keys;
use self::options::Options;
use self::script::{Script, Scripts};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::lease::{Attempt, Claim, Ended, HolderId, Holding, LeaseKey, Release, Renewal, Revoke};
use crate::name::LockName;
use crate::store::{Store, Tables, Traits, WakeUps};
use crate::tick::Verdict;

/// A store in one Redis server.
///
/// `redis://[user[:password]@]host[:port][/database]`, `redis+unix:///path/to/socket[?db=1]`; options: `namespace=NAME`, or
/// `compat=LIBRARY` to lock the keys of another library together with its workers.
pub struct Redis {
    options: Options,
    scripts: Arc<Scripts>,
    /// Which client waits, so that only that one is woken.
    client: String,
    bells: Arc<Bells>,
    link: Link,
}

impl Redis {
    /// A store in the server that `url` names. Connects when it is first used.
    ///
    /// # Errors
    /// `Invalid`: the URL is wrong.
    pub fn open(url: &str) -> Result<Self> {
        let options = Options::parse(url)?;
        let client = format!("{:016x}", rand::random::<u64>());
        let channel = format!("{}{client}", channels(&options));
        Self::with(options, Arc::new(Scripts::new()), client, Some(channel))
    }

    fn with(options: Options, scripts: Arc<Scripts>, client: String, channel: Option<String>) -> Result<Self> {
        let server = Client::open(options.server.clone()).map_err(|error| fault::told(error, &options.shown))?;
        let bells = Arc::new(Bells::default());
        let link = Link::new(server, Arc::clone(&scripts), channel, Arc::clone(&bells));
        Ok(Self { options, scripts, client, bells, link })
    }

    fn keys(&self, name: &LockName) -> Keys {
        Keys::of(self.options.format, &self.options.namespace, name)
    }

    fn channels(&self) -> String {
        channels(&self.options)
    }

    async fn call(&self, script: &Script, command: Cmd) -> Result<Value> {
        self.link.call(script, command).await.map_err(|error| fault::told(error, &self.options.shown))
    }

    async fn ask(&self, command: &Cmd) -> Result<Value> {
        self.link.ask(command).await.map_err(|error| fault::told(error, &self.options.shown))
    }

    async fn acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.options.format.admits(claim)?;
        let mut call = self.scripts.acquire.call(&self.keys(&claim.name).all());
        call.arg(claim.holder.to_string()).arg(millis(claim.ttl)).arg(&*claim.label).arg(claim.permits.get());
        match claim.due {
            Some(due) => call.arg(due.tick.as_unix_millis()).arg(i32::from(due.retry_failed)).arg(millis(due.keep)),
            None => call.arg("").arg("").arg(0),
        };
        match claim.queue {
            Some(place) => call.arg(&self.client).arg(place.ticket.map_or(String::new(), |ticket| ticket.to_string())),
            None => call.arg("").arg(""),
        };
        let attempt = answer::attempt(self.call(&self.scripts.acquire, call).await?, claim)?;
        if self.options.format.is_own() { answer::without_strangers(attempt) } else { Ok(attempt) }
    }

    async fn renew_all(&self, leases: &[(LeaseKey, Duration)]) -> Result<Vec<Renewal>> {
        let keys: Vec<_> = leases.iter().flat_map(|(lease, _)| self.keys(&lease.name).for_renewal()).collect();
        let mut call = self.scripts.renew.call(&keys);
        for (lease, ttl) in leases {
            call.arg(lease.holder.to_string()).arg(millis(*ttl));
        }
        let mut fields = Fields::of(self.call(&self.scripts.renew, call).await?)?;
        let read = |_| {
            Ok(match fields.number()? {
                1 => Renewal::Renewed,
                2 => Renewal::Revoked,
                _ => Renewal::Gone,
            })
        };
        leases.iter().map(read).collect()
    }

    async fn end(&self, lease: &LeaseKey, how: Ended) -> Result<Release> {
        let (verdict, tick) = match how.verdict {
            None => ("", 0),
            Some(Verdict::Done(tick)) => ("done", tick.as_unix_millis()),
            Some(Verdict::Failed) => ("failed", 0),
            Some(Verdict::NotStarted) => ("unstarted", 0),
        };
        let mut call = self.scripts.release.call(&self.keys(&lease.name).all());
        call.arg(lease.holder.to_string()).arg(millis(how.keep_for)).arg(verdict).arg(tick).arg(self.channels());
        let freed = self.call(&self.scripts.release, call).await?;
        Ok(if freed == Value::Int(1) { Release::Released } else { Release::NotHeld })
    }

    async fn look(&self, name: &LockName) -> Result<Option<Holding>> {
        let call = self.scripts.inspect.call(&self.keys(name).all());
        answer::holding(self.call(&self.scripts.inspect, call).await?, name)
    }

    /// Every name there is a companion of, a page at a time.
    async fn names(&self) -> Result<Vec<LockName>> {
        let (mut names, mut cursor) = (Vec::new(), String::from("0"));
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor)
                .arg("MATCH")
                .arg(Keys::pattern(self.options.format, &self.options.namespace))
                .arg("COUNT")
                .arg(1000);
            let (next, page): (String, Vec<String>) = redis::from_redis_value(self.ask(&scan).await?)
                .map_err(|e| fault::told(e.into(), &self.options.shown))?;
            names.extend(page.iter().filter_map(|companion| Keys::name_in(self.options.format, companion)));
            if next == "0" {
                names.sort_unstable();
                names.dedup();
                return Ok(names);
            }
            cursor = next;
        }
    }
}

fn channels(options: &Options) -> String {
    format!("leasehold:{}:!", options.namespace)
}

/// Whole milliseconds, which is what the server counts in; less than one is one.
fn millis(span: Duration) -> u64 {
    let whole = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    if span.is_zero() { 0 } else { whole.max(1) }
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis").field("server", &self.options.shown).finish_non_exhaustive()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Redis {
    fn traits(&self) -> Traits {
        Traits { kind: "redis", smallest_ttl: Duration::from_secs(1), wake_ups: true }
    }

    fn tables(&self) -> Option<Tables> {
        None
    }

    fn for_keeper(&self) -> Arc<dyn Store> {
        let client = self.client.clone();
        // It waits for nobody, and so listens to nobody.
        let keeper = Self::with(self.options.clone(), Arc::clone(&self.scripts), client, None);
        Arc::new(keeper.expect("what could be opened once can be opened again"))
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(self.acquire(claim))
    }

    fn leave<'a>(&'a self, waiter: &'a LeaseKey) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut call = self.scripts.leave.call(&self.keys(&waiter.name).all());
            call.arg(waiter.holder.to_string()).arg(self.channels());
            self.call(&self.scripts.leave, call).await.map(drop)
        })
    }

    fn renew<'a>(&'a self, leases: &'a [(LeaseKey, Duration)]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(async move {
            if leases.is_empty() {
                return Vec::new();
            }
            match self.renew_all(leases).await {
                Ok(answers) => answers.into_iter().map(Ok).collect(),
                Err(error) => leases.iter().map(|_| Err(again(&error))).collect(),
            }
        })
    }

    fn release<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        Box::pin(self.end(lease, how))
    }

    fn subscribe<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        Box::pin(async move {
            let (bell, place) = self.bells.hang(self.keys(name).lock());
            Ok(WakeUps::new(bell, place))
        })
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(self.look(name))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Holding>>> {
        Box::pin(async {
            let mut found = Vec::new();
            for name in self.names().await? {
                found.extend(self.look(&name).await?);
            }
            Ok(found)
        })
    }

    fn revoke<'a>(
        &'a self,
        name: &'a LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(async move {
            let mut call = self.scripts.revoke.call(&self.keys(name).all());
            call.arg(holder.map_or(String::new(), |holder| holder.to_string()));
            call.arg(if how == Revoke::Now { "now" } else { "gently" }).arg(self.channels());
            let hit = answer::holding(self.call(&self.scripts.revoke, call).await?, name)?;
            if how == Revoke::Gently { answer::all_could_be_told(hit) } else { Ok(hit) }
        })
    }

    fn time(&self) -> BoxFuture<'_, Result<Duration>> {
        Box::pin(async {
            let mut fields = Fields::of(self.ask(&redis::cmd("TIME")).await?)?;
            let (seconds, micros) = (fields.number()?, fields.number()?);
            Ok(Duration::from_micros((seconds * 1_000_000 + micros).cast_unsigned()))
        })
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(async {
            self.time().await?; // connected, so that the next one is a round trip and no more
            let began = std::time::Instant::now();
            self.time().await?;
            let round_trip = began.elapsed();
            let info = match self.ask(&redis::cmd("INFO")).await {
                Ok(said) => Some(Info::read(&answer::text(&said).unwrap_or_default())),
                Err(error) if error.kind() == ErrorKind::AccessDenied => None,
                Err(error) => return Err(error),
            };
            Ok(doctor::diagnose(&self.options.shown, info.as_ref(), round_trip))
        })
    }
}

/// The same error for another lease of a batch.
fn again(error: &Error) -> Error {
    let same = Error::new(error.kind(), error.to_string());
    if error.applied() == crate::error::Applied::Maybe { same.maybe_applied() } else { same }
}
