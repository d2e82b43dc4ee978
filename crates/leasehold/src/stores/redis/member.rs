//! One Redis server as a member of a quorum.
//!
//! Its *life* is what it says that it is: its run id and replication id, another pair after each start and each promotion.
//! It goes along with each call, and what is remembered counts only for the life in which it was written down: that a
//! name is known in full is a mark that says so, never the absence of one (docs/design/0019).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::{Cmd, Value};

use super::answer::{Fields, millis, tick, unreadable};
use super::connection::Session;
use super::doctor::Duty;
use super::format::Format;
use super::keys::{self, Keys, Part};
use super::node::{Node, Role};
use super::options::{Options, Topology};
use super::script::Script;
use super::{Redis, answer, with_due};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::lease::{Ended, FencingToken, HolderId, LeaseKey, Release};
use crate::member::{FILLS_ALONE, Filling, Identity, Member, Memories, Names, Ratified, Vote};
use crate::name::LockName;
use crate::span::Span;
use crate::store::WakeUps;
use crate::tick::{Due, NotDue, OpenTick, Tick};

/// How long a server may take to say who it is, over a connection of its own.
const PATIENCE: Duration = Duration::from_secs(2);

/// The longest that anything is kept.
const LONGEST: Duration = Duration::from_secs(400 * 86_400);

impl Redis {
    /// The call of a script that knows of the server's life; what follows is its arguments. `more` are keys behind the
    /// usual ones.
    fn remembering(&self, script: &Script, session: Session<'_>, keys: &Keys, more: &[String]) -> Cmd {
        let mut call = script.begin(session, keys.count() + 1 + more.len(), 16, 512);
        keys.each(|key| _ = call.arg(key));
        call.arg(keys::life(&self.options.namespace)).arg(more).arg(session.life);
        call
    }

    async fn ratified(&self, lease: &LeaseKey, token: FencingToken, due: Option<Due>) -> Result<Ratified> {
        let (script, keys) = (&self.scripts.member.ratify, self.keys(&lease.name));
        let ratify = |session: Session<'_>| {
            let mut call = self.remembering(script, session, &keys, &[]);
            call.arg(&lease.holder.digits()[..]).arg(token.number());
            if let Some(due) = due {
                with_due(&mut call, due);
            }
            call
        };
        read_ratified(self.run(self.for_claims(), script, keys.lock(), ratify).await?)
    }

    async fn recalled(&self, name: &LockName) -> Result<Memories> {
        let (script, keys) = (&self.scripts.member.recall, self.keys(name));
        let recall = |session: Session<'_>| self.remembering(script, session, &keys, &[]);
        read_memories(self.run(&self.servers, script, keys.lock(), recall).await?)
    }

    async fn adopted(&self, name: &LockName, memories: &Memories, into: &str) -> Result<()> {
        let (script, keys) = (&self.scripts.member.adopt, self.keys(name));
        let adopt = |session: Session<'_>| {
            let since = keys::since(&self.options.namespace, session.life, "");
            let mut call = self.remembering(script, session, &keys, &[since]);
            call.arg(into).arg(super::millis(self.guarded_for())).arg(memories.token.number());
            call.arg(memories.newest.map_or_else(String::new, digits))
                .arg(memories.floor.map_or_else(String::new, digits))
                .arg(super::millis(memories.kept_for.min(LONGEST)));
            for (tick, open) in &memories.open {
                let holder = open.holder.map_or_else(|| "-".to_owned(), |holder| holder.to_string());
                call.arg(digits(*tick)).arg(format!("{holder} {} {}", open.attempts, i32::from(open.once)));
            }
            call
        };
        into_this_life(self.run(self.for_claims(), script, keys.lock(), adopt).await?)
    }

    /// Takes one of the two steps of a founding.
    async fn founded(&self, script: &Script, floor: Tick, into: &str) -> Result<()> {
        let key = keys::life(&self.options.namespace);
        let found = |session: Session<'_>| {
            let mut call = script.begin(session, 1, 3, 512);
            call.arg(&key).arg(session.life).arg(into).arg(digits(floor));
            call
        };
        into_this_life(self.run(self.for_claims(), script, &key, found).await?)
    }

    async fn some_names(&self, from: u64, most: usize) -> Result<Names> {
        let Options { namespace, format, .. } = &self.options;
        let (script, key) = (&self.scripts.member.names, keys::life(namespace));
        let names = |session: Session<'_>| {
            let mut call = script.begin(session, 1, 4, 512);
            call.arg(&key).arg(session.life).arg(from).arg(Keys::hashes(namespace)).arg(most);
            call
        };
        read_names(self.run(&self.servers, script, &key, names).await?, *format)
    }

    async fn filled(&self, by: HolderId, step: Filling, into: &str) -> Result<bool> {
        let (script, key) = (&self.scripts.member.fill, keys::life(&self.options.namespace));
        let fill = |session: Session<'_>| {
            let mut call = script.begin(session, 2, 6, 512);
            call.arg(&key).arg(keys::since(&self.options.namespace, session.life, "")).arg(session.life).arg(into);
            call.arg(super::millis(self.guarded_for())).arg(&by.digits()[..]);
            match step {
                Filling::Begins => call.arg(super::millis(FILLS_ALONE)),
                Filling::GoesOn => call.arg(""),
                Filling::IsDone { floor } => call.arg("").arg(floor.map_or_else(|| "0".to_owned(), digits)),
            };
            call
        };
        let value = self.run(self.for_claims(), script, &key, fill).await?;
        if value == Value::Array(vec![Value::Int(1), Value::Int(0)]) {
            return Ok(false);
        }
        into_this_life(value).map(|()| true)
    }

    /// Asked anew, and of a replica as well, which we would not use for anything else.
    async fn who_it_is(&self) -> Result<Identity> {
        let Topology::One(address) = &self.options.topology else {
            return Err(Error::invalid(format!("{} is more than one server", self.options.shown)));
        };
        let said =
            self.dial.ask_once(address, &redis::cmd("INFO"), PATIENCE).await.map_err(|fault| self.told(fault))?;
        let node = Node::read(&answer::text(&said).unwrap_or_default());
        let (server, max_ttl) = (node.identity().unwrap_or_default().into(), self.guarded_for());
        Ok(Identity { server, max_ttl, unfit: self.is_unfit(&node) })
    }

    /// Why a server that says this of itself can't be a member.
    fn is_unfit(&self, node: &Node) -> Option<String> {
        if node.is_in_a_cluster() {
            return Some("it is a part of a cluster, whose other nodes may take over from it".into());
        }
        if let Some(Role::Replica(master)) = &node.role {
            return Some(format!("it is a replica of {master}"));
        }
        if node.identity().is_none() || node.is_a_sentinel() {
            return Some("it does not say which server it is (INFO: run_id, master_replid)".into());
        }
        let is_guarded = self.options.guard().is_some();
        (!is_guarded).then(|| "it has no restart guard; add restart_guard=on to its URL".into())
    }

    fn guarded_for(&self) -> Duration {
        self.options.guard().unwrap_or_default()
    }
}

fn digits(tick: Tick) -> String {
    tick.as_unix_millis().to_string()
}

fn read_ratified(value: Value) -> Result<Ratified> {
    let mut fields = Fields::of(value)?;
    Ok(match fields.number()? {
        0 => Ratified::Gone,
        2 => Ratified::NotFull,
        1 => {
            let (token, attempt) = (fields.token()?, count(&mut fields)?);
            Ratified::Yes { token, attempt, gave_up: fields.maybe_number()?.map(tick) }
        }
        code => Ratified::NotDue(not_due(code, &mut fields)?),
    })
}

fn read_memories(value: Value) -> Result<Memories> {
    let mut fields = Fields::of(value)?;
    let mut memories = Memories {
        life: fields.text()?.into(),
        is_full: fields.number()? == 1,
        is_blank: fields.number()? == 1,
        token: fields.token()?,
        newest: fields.maybe_number()?.map(tick),
        floor: fields.maybe_number()?.map(tick),
        clock: millis(fields.number()?),
        kept_for: millis(fields.number()?),
        announced: fields.maybe_number()?.map(tick),
        ..Memories::default()
    };
    while !fields.is_empty() {
        let (at, entry) = (tick(fields.number()?), fields.text()?);
        let open = open_tick(&entry).ok_or_else(|| unreadable(&Value::SimpleString(entry)))?;
        memories.open.insert(at, open);
    }
    Ok(memories)
}

/// Reads `holder attempts once`.
fn open_tick(entry: &str) -> Option<OpenTick> {
    let mut words = entry.split(' ');
    let (holder, attempts, once) = (words.next()?, words.next()?, words.next()?);
    Some(OpenTick { holder: HolderId::parse(holder), attempts: attempts.parse().ok()?, once: once == "1" })
}

fn read_names(value: Value, format: Format) -> Result<Names> {
    let mut fields = Fields::of(value)?;
    let life = fields.text()?.into();
    let whole = Some(fields.text()?).filter(|since| !since.is_empty()).map(Into::into);
    let floor = fields.maybe_number()?.filter(|floor| *floor > 0).map(tick);
    let next = fields.text()?;
    let next = next.parse::<u64>().map_err(|_| unreadable(&Value::SimpleString(next)))?;
    let mut names = Vec::new();
    while !fields.is_empty() {
        let key = fields.text()?;
        names.extend(Keys::read(format, &key).filter(|(_, part)| *part == Part::Hash).map(|(name, _)| name));
    }
    Ok(Names { names, next: Some(next).filter(|next| *next > 0), life, whole, floor })
}

/// What `adopt`, `announce`, `found` and `fill` answered.
fn into_this_life(value: Value) -> Result<()> {
    if value == Value::Int(1) {
        return Ok(());
    }
    let mut fields = Fields::of(value)?;
    let message = match fields.number()? {
        0 => "it was restarted since it was asked what it remembers".to_owned(),
        3 => "it is new no more: it was founded, or told what others know, since it was asked".to_owned(),
        _ => {
            let left = Span(millis(fields.number()?));
            format!("it was restarted or has lost what it knew, and takes nothing over for another {left}")
        }
    };
    Err(Error::new(ErrorKind::Unavailable, message).passes())
}

fn count(fields: &mut Fields) -> Result<u32> {
    Ok(u32::try_from(fields.number()?).unwrap_or(u32::MAX))
}

/// Why a tick is not to be run, behind the code that says so.
fn not_due(code: i64, fields: &mut Fields) -> Result<NotDue> {
    Ok(match code {
        3 => NotDue::Claimed { newest: tick(fields.number()?), unfinished: fields.number()? == 1 },
        4 => NotDue::InFuture { ahead: millis(fields.number()?) },
        _ => NotDue::TooOld { behind: millis(fields.number()?) },
    })
}

#[deny(clippy::missing_trait_methods)]
impl Member for Redis {
    fn ratify<'a>(
        &'a self,
        lease: &'a LeaseKey,
        token: FencingToken,
        due: Option<Due>,
    ) -> BoxFuture<'a, Result<Ratified>> {
        Box::pin(self.ratified(lease, token, due))
    }

    fn conclude<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        Box::pin(self.end(&self.scripts.member.conclude, lease, how))
    }

    fn wake_ups<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        Box::pin(async { Ok(self.listen_for(name).await) })
    }

    fn recall<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Memories>> {
        Box::pin(self.recalled(name))
    }

    fn adopt<'a>(&'a self, name: &'a LockName, memories: &'a Memories, into: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.adopted(name, memories, into))
    }

    fn announce<'a>(&'a self, floor: Tick, into: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.founded(&self.scripts.member.announce, floor, into))
    }

    fn found<'a>(&'a self, floor: Tick, into: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.founded(&self.scripts.member.found, floor, into))
    }

    fn names(&self, from: u64, most: usize) -> BoxFuture<'_, Result<Names>> {
        Box::pin(self.some_names(from, most))
    }

    fn fill<'a>(&'a self, by: HolderId, step: Filling, into: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.filled(by, step, into))
    }

    fn identity(&self) -> BoxFuture<'_, Result<Identity>> {
        Box::pin(self.who_it_is())
    }

    fn last_life(&self, of: Vote) -> Option<Arc<str>> {
        match of {
            Vote::Claim => self.for_claims().life(),
            Vote::Renewal => self.servers.life(),
        }
    }

    fn examine(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(self.examined_as(Duty::Member))
    }
}
