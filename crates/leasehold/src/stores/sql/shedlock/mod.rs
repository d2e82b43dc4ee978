//! The table of ShedLock, a lock library for Java, as a store: its services and ours keep one another out on its rows.
//!
//! | column | holds |
//! |---|---|
//! | `name` | the lock, up to 64 characters |
//! | `lock_until` | until when it is held, by the server's clock in UTC; over: it is free |
//! | `locked_at` | since when |
//! | `locked_by` | by whom: ShedLock compares it, and nothing else |
//!
//! A row is there for good: services remember that they have made it, and then only update it. There is no place for
//! anything of ours: no queue, no ticks, nobody to be woken. See `docs/interop.md`.

mod clocks;
mod options;
mod row;

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;

pub(crate) use self::options::Given;
pub(crate) use self::row::Row;
use self::row::{MARK, locked_by, mark};
use super::micros;
use crate::error::{Error, ErrorKind, Result};
use crate::finding::{Finding, Severity};
use crate::lease::{
    Attempt, Claim, Ended, FencingToken, Grant, Holder, HolderId, Holding, LeaseKey, Release, Renewal, Revoke, Waiter,
};
use crate::member::Member;
use crate::name::LockName;
use crate::store::{Arbiter, Listener, Notes, Primary, Store, Tables, Traits, USUAL_TTL, WakeUps};

/// The most characters that a name has room for.
const LONGEST_NAME: usize = 64;

/// Instants may be cut to milliseconds where they are kept. No lease gets shorter by that.
const COARSE: Duration = Duration::from_millis(1);

/// For how long the doctor watches the rows.
const WATCH: Duration = Duration::from_millis(500);

/// A lease that is to be lengthened.
#[derive(Debug)]
pub(crate) struct Longer<'a> {
    pub name: &'a str,
    /// What its `locked_by` ends with.
    pub mark: String,
    pub ttl: i64,
}

/// ShedLock's statements, in the dialect of a server. What is a duration is in microseconds; an instant is the server's,
/// in UTC. None of them takes a row away.
pub(crate) trait Table: Send + Sync + 'static {
    /// As in [`Traits`].
    const KIND: &'static str;

    /// The store, fit to be shown.
    fn shown(&self) -> &str;

    /// The same over connections of its own.
    fn for_keeper(&self) -> Self;

    /// Takes a row that is free; one that ends with `mark` already ends later, if need be. Answers what it is then.
    fn take(
        &self,
        name: &LockName,
        locked_by: &str,
        mark: &str,
        ttl: i64,
    ) -> impl Future<Output = Result<Option<Row>>> + Send;

    /// Lengthens rows that are not over and end with their mark, and never shortens one. Whether it was so, for each.
    fn lengthen(&self, rows: &[Longer<'_>]) -> impl Future<Output = Vec<Result<bool>>> + Send;

    /// Ends a row that is not over and ends with `mark`, so long from now; if that is later, nobody holds it until then.
    fn free(&self, name: &LockName, mark: &str, keep_for: i64) -> impl Future<Output = Result<bool>> + Send;

    /// All rows, or that of a name.
    fn rows(&self, name: Option<&LockName>) -> impl Future<Output = Result<Vec<Row>>> + Send;

    /// Ends a row that is not over, if it is still the same.
    fn end(&self, row: &Row) -> impl Future<Output = Result<bool>> + Send;

    /// The server's clock.
    fn time(&self) -> impl Future<Output = Result<Duration>> + Send;

    /// What an operator should know of the server and the table.
    fn examine(&self) -> impl Future<Output = Result<Vec<Finding>>> + Send;
}

/// A store in ShedLock's table.
pub(crate) struct ShedLock<T>(T);

impl<T: Table> ShedLock<T> {
    /// A store in this table.
    pub fn over(table: T) -> Self {
        Self(table)
    }

    async fn acquire(&self, claim: &Claim) -> Result<Attempt> {
        admit(claim)?;
        let (name, mark) = (&claim.name, mark(claim.holder));
        let row = self.0.take(name, &locked_by(&claim.label, claim.holder), &mark, span_of(claim.ttl)).await?;
        let Some(row) = row.filter(|row| row.rest > 0) else { return Ok(Attempt::Held(nobody(name))) };
        if row.holder_id() == Some(claim.holder) {
            return Ok(Attempt::Granted(Grant::of(FencingToken::new(row.locked_at.cast_unsigned()))));
        }
        if let Some(ahead) = clocks::ahead(&row) {
            let message = format!("{}: {}; {}", self.0.shown(), clocks::is_ahead(&row, ahead), clocks::FIX);
            return Err(Error::new(ErrorKind::Misconfigured, message));
        }
        Ok(Attempt::Held(holding(name.clone(), &row)))
    }

    async fn renew_all(&self, leases: &[(LeaseKey, Duration)]) -> Vec<Result<Renewal>> {
        if leases.is_empty() {
            return Vec::new();
        }
        let rows: Vec<_> = leases.iter().map(|(lease, ttl)| longer(lease, *ttl)).collect();
        let answers = self.0.lengthen(&rows).await;
        let renewal = |is_longer| if is_longer { Renewal::Renewed } else { Renewal::Gone };
        answers.into_iter().map(|answer| answer.map(renewal)).collect()
    }

    async fn free(&self, lease: &LeaseKey, keep_for: Duration) -> Result<Release> {
        let keep_for = if keep_for.is_zero() { 0 } else { span_of(keep_for) };
        let was_held = self.0.free(&lease.name, &mark(lease.holder), keep_for).await?;
        Ok(if was_held { Release::Released } else { Release::NotHeld })
    }

    async fn look(&self, name: &LockName) -> Result<Option<Holding>> {
        Ok(self.row(name).await?.map(|row| holding(name.clone(), &row)))
    }

    /// A name's row, if it is not over.
    async fn row(&self, name: &LockName) -> Result<Option<Row>> {
        Ok(self.0.rows(Some(name)).await?.into_iter().find(|row| row.rest > 0))
    }

    async fn look_around(&self) -> Result<Vec<Holding>> {
        let rows = self.0.rows(None).await?;
        // What can't be a name of ours can't be asked for either.
        let held = rows.iter().filter(|row| row.rest > 0).filter_map(|row| Some((LockName::new(&row.name).ok()?, row)));
        let mut held: Vec<_> = held.map(|(name, row)| holding(name, row)).collect();
        held.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(held)
    }

    async fn cut(&self, name: &LockName, holder: Option<HolderId>, how: Revoke) -> Result<Option<Holding>> {
        let Some(row) = self.row(name).await? else { return Ok(None) };
        if holder.is_some() && row.holder_id() != holder {
            return Ok(None);
        }
        if how == Revoke::Gently {
            return Err(Error::invalid(format!(
                "{name} is a lock of ShedLock's, whose holders have no way of being told; `release --now` frees it at once"
            )));
        }
        Ok(self.0.end(&row).await?.then(|| holding(name.clone(), &row)))
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        let mut findings = self.0.examine().await?;
        if findings.iter().any(|finding| finding.severity == Severity::Problem) {
            return Ok(findings);
        }
        let before = self.0.rows(None).await?;
        tokio::time::sleep(WATCH).await;
        findings.push(clocks::finding(&before, &self.0.rows(None).await?));
        Ok(findings)
    }
}

/// Whether a lock of ShedLock's can be claimed so.
fn admit(claim: &Claim) -> Result<()> {
    let name = &claim.name;
    if claim.permits.get() > 1 {
        return Err(Error::invalid(format!(
            "{name} was asked for with permits: {}, and a lock of ShedLock's has one holder; ask for 1, or use a store \
             without compat",
            claim.permits
        )));
    }
    if claim.due.is_some() {
        return Err(Error::invalid(format!(
            "{name} was asked for with a tick or a key, which ShedLock's table has no place for; leave it out, or use a store \
             without compat"
        )));
    }
    let length = name.as_str().chars().count();
    if length > LONGEST_NAME {
        return Err(Error::invalid(format!(
            "{name} has {length} characters, and ShedLock's table has room for {LONGEST_NAME}; use a shorter name"
        )));
    }
    Ok(())
}

/// As it is asked of a server.
fn span_of(span: Duration) -> i64 {
    micros(span.saturating_add(COARSE))
}

fn longer(lease: &LeaseKey, ttl: Duration) -> Longer<'_> {
    Longer { name: lease.name.as_str(), mark: mark(lease.holder), ttl: span_of(ttl) }
}

fn holding(name: LockName, row: &Row) -> Holding {
    Holding::of(name, 1, vec![row.holder()])
}

/// Somebody was quicker, and is gone again.
fn nobody(name: &LockName) -> Holding {
    Holding::of(name.clone(), 1, vec![Holder::default()])
}

impl<T: Table> std::fmt::Debug for ShedLock<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShedLock").field("server", &self.0.shown()).finish_non_exhaustive()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<T: Table> Store for ShedLock<T> {
    fn traits(&self) -> Traits {
        Traits {
            kind: T::KIND,
            smallest_ttl: Duration::from_secs(1),
            wake_ups: false,
            hands_over: false,
            session_bound: false,
            usual_ttl: USUAL_TTL,
            longest_stop_grace: Duration::MAX,
        }
    }

    fn for_keeper(&self) -> Arc<dyn Store> {
        Arc::new(Self(self.0.for_keeper()))
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(self.acquire(claim))
    }

    fn leave<'a>(&'a self, waiter: &'a LeaseKey) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { self.free(waiter, Duration::ZERO).await.map(drop) })
    }

    fn renew<'a>(&'a self, leases: &'a [(LeaseKey, Duration)]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(self.renew_all(leases))
    }

    fn release<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        Box::pin(self.free(lease, how.keep_for))
    }

    fn subscribe<'a>(&'a self, _name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        Box::pin(async { Ok(WakeUps::silent()) })
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(self.look(name))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Holding>>> {
        Box::pin(self.look_around())
    }

    /// Nobody stands in line.
    fn queue<'a>(&'a self, _name: &'a LockName) -> BoxFuture<'a, Result<Vec<Waiter>>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn revoke<'a>(
        &'a self,
        name: &'a LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(self.cut(name, holder, how))
    }

    fn reset_marks<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<bool>> {
        let message =
            format!("{name} has no mark: ShedLock's table has no place for ticks and keys; use a store without compat");
        Box::pin(async { Err(Error::invalid(message)) })
    }

    fn time(&self) -> BoxFuture<'_, Result<Duration>> {
        Box::pin(self.0.time())
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(self.examine())
    }

    /// One store: nothing moves.
    fn listen(&self, _: Weak<Listener>) {}

    fn tables(&self) -> Option<Tables> {
        None
    }

    fn as_primary(&self) -> Option<&dyn Primary> {
        None
    }

    fn as_arbiter(&self) -> Option<&dyn Arbiter> {
        None
    }

    /// Services that know nothing of a quorum lock the same rows.
    fn as_member(&self) -> Option<&dyn Member> {
        None
    }

    fn as_notes(&self) -> Option<&dyn Notes> {
        None
    }
}

/// A dialect's statements, with what they have in common: `@table`, `@now` and `@mark`.
pub(crate) fn statement(text: &str, table: &str, now: &str) -> String {
    let mark = format!("right(locked_by, {MARK})");
    text.replace("@table", table).replace("@now", now).replace("@mark", &mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &str) -> Claim {
        Claim::new(LockName::new(name).unwrap(), HolderId::fresh(), "test".into(), Duration::from_secs(1))
    }

    #[test]
    fn what_a_row_has_no_place_for_is_refused_with_the_rule() {
        assert!(admit(&claim(&"\u{e9}".repeat(64))).is_ok());
        let long = claim(&"x".repeat(65));
        let many = Claim { permits: 3.try_into().unwrap(), ..claim("job") };
        let due = crate::tick::Due { tick: crate::tick::Tick::ONLY, retry_failed: false, keep: Duration::ZERO };
        let once = Claim { due: Some(due), ..claim("job") };
        for (claim, rule) in [(long, "room for 64"), (many, "ask for 1"), (once, "no place for")] {
            let error = admit(&claim).unwrap_err();
            assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(rule), "{error}");
        }
    }
}
