//! What a claim and a release ask, as columns.

use super::micros;
use crate::lease::{Claim, Ended};
use crate::tick::Verdict;

/// A claim.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub name: &'a str,
    pub holder: String,
    pub label: &'a str,
    pub ttl: i64,
    pub permits: i64,
    /// Milliseconds since 1970, 0 for a key; none without a tick.
    pub tick: Option<i64>,
    /// Whether the tick may be claimed again when whoever claimed it has failed.
    pub retry: bool,
    /// For how long the tick's mark has to be remembered.
    pub keep: Option<i64>,
    /// Whether to stand in the queue.
    pub queue: bool,
    /// The place that it had there.
    pub ticket: Option<i64>,
    /// Which process waits; empty if it is not to be woken.
    pub client: &'a str,
    /// When it was sent, by the claimant's clock, if a release may hand the lock over to it.
    pub sent: Option<i64>,
}

impl<'a> Asked<'a> {
    /// A claim by a process that hears what is said to `client`; empty: it hears nothing.
    pub fn of(claim: &'a Claim, client: &'a str) -> Self {
        let sent = claim.may_be_handed_over().filter(|_| !client.is_empty());
        Self {
            name: claim.name.as_str(),
            holder: claim.holder.to_string(),
            label: &claim.label,
            ttl: micros(claim.ttl),
            permits: i64::from(claim.permits.get()),
            tick: claim.due.map(|due| due.tick.as_unix_millis()),
            retry: claim.due.is_some_and(|due| due.retry_failed),
            keep: claim.due.map(|due| micros(due.keep)),
            queue: claim.queue.is_some(),
            ticket: claim.queue.and_then(|place| place.ticket).and_then(|ticket| i64::try_from(ticket).ok()),
            client,
            sent: sent.and_then(|sent| i64::try_from(sent.as_nanos()).ok()),
        }
    }
}

/// What a release says of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Said {
    /// For how long nobody else is granted the name.
    pub keep_for: i64,
    /// 1 done, 2 failed, 3 never begun; none for a hold without a tick.
    pub verdict: Option<i32>,
    /// Which tick is done.
    pub tick: Option<i64>,
}

impl Said {
    pub fn of(how: Ended) -> Self {
        let (verdict, tick) = match how.verdict {
            None => (None, None),
            Some(Verdict::Done(tick)) => (Some(1), Some(tick.as_unix_millis())),
            Some(Verdict::Failed) => (Some(2), None),
            Some(Verdict::NotStarted) => (Some(3), None),
        };
        Self { keep_for: micros(how.keep_for), verdict, tick }
    }
}
