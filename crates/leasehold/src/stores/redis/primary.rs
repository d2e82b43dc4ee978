//! Redis as the primary of a fallback: leases under a route.
//!
//! A route leads to a data set, and each script compares with `INFO` whether it is that which it works on. So the restart
//! guard has no say here: a server that was restarted or promoted is another target (docs/design/0019).

use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::{Cmd, Value};

use super::answer::{self, Fields, unreadable};
use super::connection::{Call, Session};
use super::doctor::Duty;
use super::fault::Fault;
use super::keys::{self, Keys};
use super::options::Topology;
use super::script::Script;
use super::{GIVEN_UP_AFTER, LIMIT, Redis, again, for_each_ttl};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::lease::{Attempt, Claim, Grant, LeaseKey, Place, Renewal};
use crate::store::{Carried, Epoch, Incarnation, Primary, Reached, Refusal, Route, Serving, Tagged, Target};

/// A route to here, as scripts are told it: whole lines of `INFO`, and the epoch.
struct Told {
    run: String,
    replid: String,
    epoch: Epoch,
}

impl Told {
    fn of(route: &Route) -> Result<Self, Refusal> {
        let Target::Primary(incarnation) = &route.target else { return Err(Refusal::OtherRoute) };
        let name = incarnation.to_string();
        let (run, replid) = name.split_once('-').ok_or(Refusal::OtherIncarnation)?;
        let (run, replid) = (format!("run_id:{run}\r\n"), format!("master_replid:{replid}\r\n"));
        Ok(Self { run, replid, epoch: route.epoch })
    }

    fn add_to(&self, call: &mut Cmd) {
        call.arg(&self.run).arg(&self.replid).arg(self.epoch.number());
    }
}

impl Redis {
    /// The call of a script for a name, under a route.
    fn under(&self, route: &Told, script: &Script, session: Session<'_>, keys: &Keys) -> Cmd {
        let mut call = script.begin(session, keys.count() + 1, 16, 512);
        keys.each(|key| _ = call.arg(key));
        call.arg(keys::watermark(&self.options.namespace));
        route.add_to(&mut call);
        call
    }

    async fn claim_under(&self, claim: &Claim, route: &Route) -> Result<Result<Attempt, Refusal>> {
        check(claim, route.epoch)?;
        let told = match Told::of(route) {
            Ok(told) => told,
            Err(refusal) => return Ok(Err(refusal)),
        };
        // Nothing is handed over: a store doesn't know whether its route is over.
        let queue = claim.queue.map(|place| Place { sent: None, ..place });
        let claim = Claim { due: None, queue, ..claim.clone() };
        let (script, keys, limit) = (&self.scripts.primary.claim, self.keys(&claim.name), claim.ttl / GIVEN_UP_AFTER);
        let make = |session: Session<'_>| self.asked_for(&claim, self.under(&told, script, session, &keys));
        read_claim(self.run_within(limit, self.for_claims(), script, keys.lock(), make).await?, &claim)
    }

    /// All in one call.
    async fn renew_all_under(
        &self,
        leases: &[(LeaseKey, Duration)],
        route: &Route,
    ) -> Vec<Result<Result<Renewal, Refusal>>> {
        let Some((first, _)) = leases.first() else { return Vec::new() };
        let told = match Told::of(route) {
            Ok(told) => told,
            Err(refusal) => return leases.iter().map(|_| Ok(Err(refusal))).collect(),
        };
        let (script, keys) = (&self.scripts.primary.renew_under, self.keys(&first.name));
        let make = |session: Session<'_>| {
            let mut call = self.names_for_renewal(script, session, leases);
            told.add_to(&mut call);
            for_each_ttl(&mut call, leases);
            call
        };
        let limit = leases.iter().map(|(_, ttl)| *ttl / 15).min().unwrap_or_default().min(LIMIT);
        let calls = [Call { key: keys.lock(), make: &make, limit }];
        let answer = self.servers.call(script, &calls, limit).await.swap_remove(0);
        let read = |answer: &Value| match refusal(answer)? {
            Some(refusal) => Ok(Err(refusal)),
            None => answer::renewals(answer, leases.len()).map(Ok),
        };
        match answer.map_err(|fault: Fault| self.told(fault)).and_then(|answer| read(&answer)) {
            Ok(Ok(renewals)) => renewals.into_iter().map(|renewal| Ok(Ok(renewal))).collect(),
            Ok(Err(refusal)) => leases.iter().map(|_| Ok(Err(refusal))).collect(),
            Err(error) => leases.iter().map(|_| Err(again(&error))).collect(),
        }
    }

    async fn carry_to(&self, lease: &Carried, route: &Route) -> Result<Result<(), Refusal>> {
        let told = match Told::of(route) {
            Ok(told) => told,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let (script, keys) = (&self.scripts.primary.carry, self.keys(&lease.key.name));
        let make = |session: Session<'_>| {
            let mut call = self.under(&told, script, session, &keys);
            call.arg(&lease.key.holder.digits()[..]).arg(super::millis(lease.ttl)).arg(&lease.label);
            call.arg(lease.token.number());
            call
        };
        let limit = lease.ttl / GIVEN_UP_AFTER;
        let answer = self.run_within(limit, self.for_claims(), script, keys.lock(), make).await?;
        Ok(refusal(&answer)?.map_or(Ok(()), Err))
    }

    async fn raise_to(&self, epoch: Epoch) -> Result<()> {
        let (script, key) = (&self.scripts.primary.raise, keys::watermark(&self.options.namespace));
        let make = |session: Session<'_>| {
            let mut call = script.begin(session, 1, 1, 256);
            call.arg(&key).arg(epoch.number());
            call
        };
        self.run(&self.servers, script, &key, make).await.map(drop)
    }

    async fn reached_for(&self, epoch: Epoch, anew: bool, longest: Duration) -> Result<Reached> {
        let (script, key) = (&self.scripts.primary.reached, keys::reached(&self.options.namespace));
        let make = |session: Session<'_>| {
            let mut call = script.begin(session, 1, 3, 256);
            call.arg(&key).arg(epoch.number()).arg(i32::from(anew)).arg(super::millis(longest));
            call
        };
        let mut fields = Fields::of(self.run(&self.servers, script, &key, make).await?)?;
        Ok(Reached { span: answer::millis(fields.number()?), unseen: answer::millis(fields.number()?) })
    }

    async fn serving(&self) -> Result<Serving> {
        let (script, key) = (&self.scripts.primary.serves, keys::watermark(&self.options.namespace));
        let make = |session: Session<'_>| {
            let mut call = script.begin(session, 1, 0, 256);
            call.arg(&key);
            call
        };
        let mut fields = Fields::of(self.run(&self.servers, script, &key, make).await?)?;
        let (run, replid, role) = (fields.text()?, fields.text()?, fields.text()?);
        if role != "master" {
            let message = format!("{} is a {role:?} now, and no master", self.options.shown);
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        if run.is_empty() || replid.is_empty() {
            let message =
                format!("{} does not say which data set it serves (INFO: run_id, master_replid)", self.options.shown);
            return Err(Error::new(ErrorKind::Misconfigured, message));
        }
        let watermark = Epoch::new(fields.number()?.cast_unsigned());
        Ok(Serving { incarnation: Incarnation::new(format!("{run}-{replid}")), watermark })
    }
}

/// Whether a claim can be made under a route at all.
fn check(claim: &Claim, epoch: Epoch) -> Result<()> {
    if claim.permits.get() != 1 {
        let message = format!("{}: under a route there are locks for one holder only, and no permits", claim.name);
        return Err(Error::new(ErrorKind::Misconfigured, message));
    }
    if epoch > Epoch::LAST {
        return Err(no_token_left(epoch));
    }
    Ok(())
}

fn no_token_left(epoch: Epoch) -> Error {
    Error::new(ErrorKind::Misconfigured, format!("there is no token left in epoch {epoch}"))
}

fn read_claim(value: Value, claim: &Claim) -> Result<Result<Attempt, Refusal>> {
    if let Some(refusal) = refusal(&value)? {
        return Ok(Err(refusal));
    }
    let mut fields = Fields::of(value.clone())?;
    if fields.number()? == 1 {
        return Ok(Ok(Attempt::Granted(Grant::of(fields.token()?))));
    }
    answer::without_strangers(answer::attempt(value, claim, None)?).map(Ok)
}

/// Why nothing was done, if that is what a script says.
fn refusal(answer: &Value) -> Result<Option<Refusal>> {
    let Value::Array(fields) = answer else { return Ok(None) };
    Ok(match fields.first() {
        Some(Value::Int(-1)) => Some(Refusal::OtherIncarnation),
        Some(Value::Int(-2)) => Some(Refusal::OtherRoute),
        Some(Value::Int(-3)) => Some(Refusal::NewerTag),
        Some(Value::Int(-4)) => Some(Refusal::HeldByAnother),
        Some(Value::Int(-5)) => Some(Refusal::Revoked),
        Some(Value::Int(_)) => None,
        _ => return Err(unreadable(answer)),
    })
}

impl Tagged for Redis {
    fn claim<'a>(&'a self, claim: &'a Claim, under: &'a Route) -> BoxFuture<'a, Result<Result<Attempt, Refusal>>> {
        Box::pin(self.claim_under(claim, under))
    }

    fn renew_under<'a>(
        &'a self,
        leases: &'a [(LeaseKey, Duration)],
        under: &'a Route,
    ) -> BoxFuture<'a, Vec<Result<Result<Renewal, Refusal>>>> {
        Box::pin(self.renew_all_under(leases, under))
    }

    fn carry<'a>(&'a self, lease: &'a Carried, to: &'a Route) -> BoxFuture<'a, Result<Result<(), Refusal>>> {
        Box::pin(self.carry_to(lease, to))
    }
}

impl Primary for Redis {
    fn identity(&self) -> String {
        let place = match &self.options.topology {
            Topology::One(address) => address.to_string(),
            // Who watches it may change.
            Topology::Sentinel { master, .. } => format!("the master {master}"),
            Topology::Cluster { .. } => "a cluster".into(),
        };
        format!("redis {place}, database {}, namespace {}", self.options.login.db, self.options.namespace)
    }

    fn serves(&self) -> BoxFuture<'_, Result<Serving>> {
        Box::pin(self.serving())
    }

    fn raise(&self, epoch: Epoch) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.raise_to(epoch))
    }

    fn reached(&self, epoch: Epoch, anew: bool, longest: Duration) -> BoxFuture<'_, Result<Reached>> {
        Box::pin(self.reached_for(epoch, anew, longest))
    }

    fn examine(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(async {
            let (found, serving) = futures_util::future::join(self.examined_as(Duty::Primary), self.serving()).await;
            let mut findings = found?;
            findings.push(match serving {
                Ok(_) => Finding::fine("data set", "scripts see which one they work on (INFO)"),
                Err(error) => {
                    let fix = "ACL SETUSER … +info, on a server that lets scripts call INFO";
                    Finding::problem("data set", error.to_string(), fix)
                }
            });
            Ok(findings)
        })
    }
}
