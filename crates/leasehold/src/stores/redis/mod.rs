//! Locks in Redis (or Valkey), for the processes of many machines.
//!
//! One script for each operation: it decides, writes and answers in one step and one round trip. Leases end by the
//! server's own clock, as keys do.

mod address;
mod answer;
mod bells;
mod cluster;
mod connection;
mod dial;
mod doctor;
mod fault;
mod format;
mod keys;
mod listening;
mod login;
mod member;
mod node;
mod notes;
mod options;
mod primary;
mod restart_guard;
mod script;
mod sentinel;
mod servers;
mod tls;

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::{Cmd, Value};

use self::answer::Fields;
use self::bells::Bells;
use self::connection::{Call, Session, Terms};
use self::dial::Dial;
use self::doctor::{Doctor, Duty};
use self::fault::Fault;
use self::keys::Keys;
use self::options::{Options, Topology};
use self::script::{Script, Scripts};
use self::servers::Servers;
use crate::error::{Error, Result};
use crate::finding::Finding;
use crate::lease::{Attempt, Claim, Ended, HolderId, Holding, LeaseKey, Release, Renewal, Revoke, Waiter};
use crate::member::Member;
use crate::name::LockName;
use crate::store::{Arbiter, Listener, Notes, Primary, Store, Tables, Traits, USUAL_TTL, WakeUps};
use crate::stores::tls::Tls;
use crate::tick::{Due, Verdict};

/// How long a member of a cluster may take for its part of a batch, at the most; of short leases, a 15th of the TTL.
/// That is sooner than the whole batch is given up (`layers::Timeout`), even if a part is sent elsewhere.
const LIMIT: Duration = Duration::from_secs(2);

/// What part of its TTL a call about a lease may take before `layers::Timeout` gives it up.
const GIVEN_UP_AFTER: u32 = 6;

/// How many names are looked at in one go: a pipeline keeps those waiting who come behind it.
const LISTED_AT_ONCE: usize = 500;

/// The TTL of a lock for which nothing is said, in what `url` names. Of one that is wrong it is the usual one.
pub(super) fn usual_ttl(url: &str) -> Duration {
    Options::parse(url).map_or(USUAL_TTL, |options| options.usual_ttl())
}

/// A store in one Redis server, in the master that sentinels name, or in a cluster.
///
/// - `redis://[user[:password]@]host[:port][/database]`, `redis+unix:///path/to/socket[?db=1]`
/// - `redis+sentinel://[user[:password]@]host[:port],…/MASTER[/database]`: the hosts are the sentinels', the user is the
///   master's
/// - `redis+cluster://[user[:password]@]host[:port],…`: some of its nodes
///
/// With `rediss` for `redis` all of it goes over TLS. Options: `namespace=NAME`; `password_file=FILE`; `ca=FILE` (who
/// signs the servers, instead of whom the system trusts), `cert=FILE&key=FILE` (what we show them);
/// `sentinel_user=USER`, `sentinel_password=PASSWORD`, `sentinel_password_file=FILE`. Files are in PEM, and are read for
/// each connection. `compat=LIBRARY` locks the keys of another library, together with its workers.
/// `restart_guard=on|off` and `max_ttl=SECONDS`: how a server is met that was restarted or promoted.
/// `wait_replicas=N`: grants and renewals count once so many replicas have them.
pub struct Redis {
    options: Options,
    scripts: Arc<Scripts>,
    /// Which client waits, so that only that one is woken.
    client: String,
    /// What the names of clients' channels begin with.
    channels: String,
    bells: Arc<Bells>,
    dial: Dial,
    servers: Servers,
    /// Over which claims go, and what takes them back, where each waits for replicas: it holds up what is behind it.
    claims: Option<Servers>,
}

impl Redis {
    /// A store in the servers that `url` names. Connects when it is first used.
    ///
    /// # Errors
    /// `Invalid`: the URL is wrong.
    pub fn open(url: &str) -> Result<Self> {
        let options = Options::parse(url)?;
        let client = format!("{:016x}", rand::random::<u64>());
        let channel = format!("{}{client}", channels(&options));
        if options.tls.is_some() {
            Tls::provide();
        }
        Ok(Self::with(options, Scripts::shared(), client, Some(channel)))
    }

    fn with(options: Options, scripts: Arc<Scripts>, client: String, channel: Option<String>) -> Self {
        let dial = Dial { login: options.login.clone(), tls: options.tls.clone() };
        let bells = Arc::new(Bells::default());
        let terms = |channel| Terms {
            dial: dial.clone(),
            scripts: Arc::clone(&scripts),
            channel,
            bells: Arc::clone(&bells),
            is_of_a_cluster: matches!(options.topology, Topology::Cluster { .. }),
            guard: options.restart_guard(),
            replicas: options.replicas,
            hands_over: options.hands_over(),
        };
        // Who waits is heard from over the connection that claims go over.
        let (claims, servers) = match options.replicas {
            Some(_) => {
                (Some(Servers::new(&options.topology, terms(channel))), Servers::new(&options.topology, terms(None)))
            }
            None => (None, Servers::new(&options.topology, terms(channel))),
        };
        Self { channels: channels(&options), options, scripts, client, bells, dial, servers, claims }
    }

    fn keys(&self, name: &LockName) -> Keys {
        Keys::of(self.options.format, &self.options.namespace, name)
    }

    /// Where who comes next is told; with a `-` before it, if it may not be given the lock along with that.
    fn pass_on(&self, session: Session<'_>, mut call: Cmd) -> Cmd {
        if session.hands_over {
            call.arg(&self.channels)
        } else {
            call.arg(format!("-{}", self.channels))
        };
        call
    }

    /// Runs a script for a name.
    async fn call(
        &self,
        script: &Script,
        keys: &Keys,
        with: impl Fn(Session<'_>, Cmd) -> Cmd + Send + Sync,
    ) -> Result<Value> {
        self.call_over(&self.servers, script, keys, with).await
    }

    /// The same, in the order of claims.
    async fn claim(
        &self,
        script: &Script,
        keys: &Keys,
        with: impl Fn(Session<'_>, Cmd) -> Cmd + Send + Sync,
    ) -> Result<Value> {
        self.call_over(self.for_claims(), script, keys, with).await
    }

    /// `with` gives the call its arguments.
    async fn call_over(
        &self,
        to: &Servers,
        script: &Script,
        keys: &Keys,
        with: impl Fn(Session<'_>, Cmd) -> Cmd + Send + Sync,
    ) -> Result<Value> {
        self.run(to, script, keys.lock(), |session| with(session, script.call(session, keys))).await
    }

    /// Runs a script, `key` being one of its keys; `make` makes the whole call.
    async fn run(
        &self,
        to: &Servers,
        script: &Script,
        key: &str,
        make: impl Fn(Session<'_>) -> Cmd + Send + Sync,
    ) -> Result<Value> {
        self.run_within(Duration::MAX, to, script, key, make).await
    }

    /// The same for whoever gives up after `limit`.
    async fn run_within(
        &self,
        limit: Duration,
        to: &Servers,
        script: &Script,
        key: &str,
        make: impl Fn(Session<'_>) -> Cmd + Send + Sync,
    ) -> Result<Value> {
        let answer = to.call(script, &[Call { key, make: &make, limit }], Duration::MAX).await.swap_remove(0);
        answer.map_err(|fault| self.told(fault))
    }

    /// Over what claims go.
    fn for_claims(&self) -> &Servers {
        self.claims.as_ref().unwrap_or(&self.servers)
    }

    async fn examined_as(&self, duty: Duty) -> Result<Vec<Finding>> {
        let doctor = Doctor { options: &self.options, scripts: &self.scripts, dial: &self.dial, duty };
        match doctor.diagnose(&self.servers).await {
            Ok(findings) => Ok(findings),
            // It has ended the connection, or made no sense. The way that claims go finds out more of who is there.
            Err(fault @ Fault::Sent(_)) => {
                let asked = self.ask(&redis::cmd("PING")).await;
                Err(asked.err().unwrap_or_else(|| self.told(fault)))
            }
            Err(fault) => Err(self.told(fault)),
        }
    }

    /// Asks any master.
    async fn ask(&self, command: &Cmd) -> Result<Value> {
        self.servers.ask_any(command).await.map_err(|fault| self.told(fault))
    }

    fn told(&self, fault: Fault) -> Error {
        fault::told(fault, &self.options.shown)
    }

    async fn acquire(&self, claim: &Claim) -> Result<Attempt> {
        let Options { format, .. } = self.options;
        self.options.check_ttl(claim.ttl)?;
        format.admits(claim)?;
        let keys = self.keys(&claim.name);
        if self.servers.are_many() && !keys.share_a_slot() {
            return Err(format.has_no_place_in_a_cluster(&claim.name));
        }
        let script = &self.scripts.acquire;
        let acquire = |session: Session<'_>| self.asked_for(claim, script.call(session, &keys));
        let limit = claim.ttl / GIVEN_UP_AFTER;
        let answer = self.run_within(limit, self.for_claims(), script, keys.lock(), acquire).await?;
        let attempt = answer::attempt(answer, claim, format.library())?;
        if format.is_own() { answer::without_strangers(attempt) } else { Ok(attempt) }
    }

    /// The arguments of a claim.
    fn asked_for(&self, claim: &Claim, mut call: Cmd) -> Cmd {
        call.arg(&claim.holder.digits()[..]).arg(millis(claim.ttl)).arg(&*claim.label);
        // What a claim has no use for is not sent: an argument more is two hundredths of what it costs the server.
        if claim.permits.get() == 1 && claim.queue.is_none() && claim.due.is_none() {
            return call;
        }
        call.arg(claim.permits.get());
        if let Some(place) = claim.queue {
            call.arg(&self.client).arg(place.ticket.map_or_else(String::new, |ticket| ticket.to_string()));
            let sent = claim.may_be_handed_over().filter(|_| self.options.hands_over());
            call.arg(sent.map_or_else(|| "-".to_owned(), |sent| sent.as_nanos().to_string()));
        } else if claim.due.is_some() {
            call.arg("").arg("").arg("-");
        }
        if let Some(due) = claim.due {
            with_due(&mut call, due);
        }
        call
    }

    /// An answer for each, in order. A call is for all of them, where no two are apart.
    async fn renew_all(&self, leases: &[(LeaseKey, Duration)]) -> Vec<Result<Renewal>> {
        let together = if self.servers.are_many() { 1 } else { leases.len() };
        let renew = |leases| move |session: Session<'_>| self.renewal(session, leases);
        let batches: Vec<_> =
            leases.chunks(together).map(|leases| (self.keys(&leases[0].0.name), renew(leases))).collect();
        let limit = leases.iter().map(|(_, ttl)| *ttl / 15).min().unwrap_or_default().min(LIMIT);
        let calls: Vec<_> = batches.iter().map(|(first, make)| Call { key: first.lock(), make, limit }).collect();
        let answers = self.servers.call(&self.scripts.renew, &calls, limit).await;
        let mut renewals = Vec::with_capacity(leases.len());
        for (leases, answer) in leases.chunks(together).zip(answers) {
            let answer = answer.map_err(|fault| self.told(fault));
            match answer.and_then(|answer| answer::renewals(&answer, leases.len())) {
                Ok(answered) => renewals.extend(answered.into_iter().map(Ok)),
                Err(error) => renewals.extend(leases.iter().map(|_| Err(again(&error)))),
            }
        }
        renewals
    }

    fn renewal(&self, session: Session<'_>, leases: &[(LeaseKey, Duration)]) -> Cmd {
        let mut call = self.names_for_renewal(&self.scripts.renew, session, leases);
        let mut holders = Vec::with_capacity(32 * leases.len());
        leases.iter().for_each(|(lease, _)| holders.extend_from_slice(&lease.holder.digits()));
        call.arg(&holders[..]);
        let same = leases.iter().all(|(_, ttl)| *ttl == leases[0].1);
        leases.iter().take(if same { 1 } else { leases.len() }).for_each(|(_, ttl)| _ = call.arg(millis(*ttl)));
        call
    }

    fn names_for_renewal(&self, script: &Script, session: Session<'_>, leases: &[(LeaseKey, Duration)]) -> Cmd {
        let many = leases.len();
        let mut call = script.begin(session, 3 * many, 2 * many, 256 * many + 256);
        let Options { format, namespace, .. } = &self.options;
        let mut keys = Keys::of(*format, namespace, &leases[0].0.name);
        for (lease, _) in leases {
            keys.turn_to(*format, namespace, &lease.name);
            keys.each_for_renewal(|key| _ = call.arg(key));
        }
        call
    }

    async fn end(&self, script: &Script, lease: &LeaseKey, how: Ended) -> Result<Release> {
        let (verdict, tick) = match how.verdict {
            None => ("", 0),
            Some(Verdict::Done(tick)) => ("done", tick.as_unix_millis()),
            Some(Verdict::Failed) => ("failed", 0),
            Some(Verdict::NotStarted) => ("unstarted", 0),
        };
        let release = |session: Session<'_>, mut call: Cmd| {
            call.arg(&lease.holder.digits()[..]);
            let mut call = self.pass_on(session, call);
            if how != Ended::default() {
                call.arg(millis(how.keep_for)).arg(verdict).arg(tick);
            }
            call
        };
        let freed = self.claim(script, &self.keys(&lease.name), release).await?;
        Ok(if freed == Value::Int(1) { Release::Released } else { Release::NotHeld })
    }

    async fn look(&self, name: &LockName) -> Result<Option<Holding>> {
        let answer = self.call(&self.scripts.inspect, &self.keys(name), |_: Session<'_>, call| call).await?;
        answer::holding(answer, name, self.options.format.library())
    }

    async fn line(&self, name: &LockName) -> Result<Vec<Waiter>> {
        answer::waiters(self.call(&self.scripts.waiters, &self.keys(name), |_: Session<'_>, call| call).await?)
    }

    /// Every name there is a key of, at each master a page at a time.
    async fn names(&self) -> Result<Vec<LockName>> {
        let mut names = Vec::new();
        for master in self.servers.masters().await.map_err(|fault| self.told(fault))? {
            let mut cursor = String::from("0");
            loop {
                let scan = scan(&self.options, &cursor);
                let page = self.servers.ask(&master, &scan).await.map_err(|fault| self.told(fault))?;
                let (next, page): (String, Vec<String>) =
                    redis::from_redis_value(page).map_err(|error| self.told(Fault::Sent(error.into())))?;
                names.extend(page.iter().filter_map(|key| Some(Keys::read(self.options.format, key)?.0)));
                if next == "0" {
                    break;
                }
                cursor = next;
            }
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// What there is to say of all that is held or waited for, many names at a time.
    async fn look_around(&self) -> Result<Vec<Holding>> {
        let mut found = Vec::new();
        for names in self.names().await?.chunks(LISTED_AT_ONCE) {
            let keys: Vec<_> = names.iter().map(|name| self.keys(name)).collect();
            let inspect = |keys| move |session: Session<'_>| self.scripts.inspect.call(session, keys);
            let calls: Vec<_> = keys.iter().map(|keys| (keys.lock(), inspect(keys))).collect();
            let calls: Vec<_> = calls.iter().map(|(key, make)| Call { key, make, limit: Duration::MAX }).collect();
            let answers = self.servers.call(&self.scripts.inspect, &calls, Duration::MAX).await;
            for (name, answer) in names.iter().zip(answers) {
                found.extend(match answer {
                    Ok(answer) => answer::holding(answer, name, self.options.format.library())?,
                    Err(fault) => Some(answer::spoilt(&fault, name).ok_or_else(|| self.told(fault))?),
                });
            }
        }
        Ok(found)
    }
}

/// A page of the keys of a namespace.
fn scan(options: &Options, cursor: &str) -> Cmd {
    let mut scan = redis::cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(Keys::pattern(options.format, &options.namespace)).arg("COUNT").arg(1000);
    scan
}

fn channels(options: &Options) -> String {
    format!("leasehold:{}:!", options.namespace)
}

fn with_due(call: &mut Cmd, due: Due) {
    call.arg(due.tick.as_unix_millis()).arg(i32::from(due.retry_failed)).arg(millis(due.keep));
}

fn for_each_ttl(call: &mut Cmd, leases: &[(LeaseKey, Duration)]) {
    for (lease, ttl) in leases {
        call.arg(&lease.holder.digits()[..]).arg(millis(*ttl));
    }
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
        Traits {
            kind: "redis",
            smallest_ttl: Duration::from_secs(1),
            wake_ups: true,
            hands_over: self.options.hands_over(),
            session_bound: false,
            usual_ttl: self.options.usual_ttl(),
            longest_stop_grace: Duration::MAX,
        }
    }

    /// One store: nothing moves.
    fn listen(&self, _: Weak<Listener>) {}

    fn tables(&self) -> Option<Tables> {
        None
    }

    /// A cluster has no one data set, and who knows only another library's keys knows of no route.
    fn as_primary(&self) -> Option<&dyn Primary> {
        (self.options.format.is_own() && !self.servers.are_many()).then_some(self)
    }

    fn as_arbiter(&self) -> Option<&dyn Arbiter> {
        None
    }

    /// One server, which nobody replaces by another.
    fn as_member(&self) -> Option<&dyn Member> {
        let is_one = matches!(self.options.topology, Topology::One(_));
        (self.options.format.is_own() && is_one).then_some(self)
    }

    /// Not beside the keys of other libraries.
    fn as_notes(&self) -> Option<&dyn Notes> {
        self.options.format.is_own().then_some(self)
    }

    fn for_keeper(&self) -> Arc<dyn Store> {
        let client = self.client.clone();
        // It waits for nobody, and so listens to nobody.
        Arc::new(Self::with(self.options.clone(), Arc::clone(&self.scripts), client, None))
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(self.acquire(claim))
    }

    fn leave<'a>(&'a self, waiter: &'a LeaseKey) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let leave = |session: Session<'_>, mut call: Cmd| {
                call.arg(&waiter.holder.digits()[..]);
                self.pass_on(session, call)
            };
            self.claim(&self.scripts.leave, &self.keys(&waiter.name), leave).await.map(drop)
        })
    }

    fn renew<'a>(&'a self, leases: &'a [(LeaseKey, Duration)]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(async move {
            if leases.is_empty() {
                return Vec::new();
            }
            self.renew_all(leases).await
        })
    }

    fn release<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        Box::pin(self.end(&self.scripts.release, lease, how))
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
        Box::pin(self.look_around())
    }

    fn queue<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Vec<Waiter>>> {
        Box::pin(self.line(name))
    }

    fn revoke<'a>(
        &'a self,
        name: &'a LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(async move {
            let revoke = |session: Session<'_>, mut call: Cmd| {
                call.arg(holder.map_or_else(String::new, |holder| holder.to_string()));
                call.arg(if how == Revoke::Now { "now" } else { "gently" });
                self.pass_on(session, call)
            };
            let answer = self.call(&self.scripts.revoke, &self.keys(name), revoke).await?;
            let hit = answer::holding(answer, name, self.options.format.library())?;
            if how == Revoke::Gently { answer::all_could_be_told(hit) } else { Ok(hit) }
        })
    }

    fn reset_marks<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let had_a_mark = self.claim(&self.scripts.reset, &self.keys(name), |_: Session<'_>, call| call).await?;
            Ok(had_a_mark == Value::Int(1))
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
        Box::pin(self.examined_as(Duty::Alone))
    }
}

/// The same error for another lease of a batch.
fn again(error: &Error) -> Error {
    let same = Error::new(error.kind(), error.to_string());
    if error.applied() == crate::error::Applied::Maybe { same.maybe_applied() } else { same }
}
