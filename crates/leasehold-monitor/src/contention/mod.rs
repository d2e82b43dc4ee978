//! What was contended: what all clients have counted, put together for people.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use leasehold::{Locks, Result};
use serde::{Serialize, Serializer};

use crate::tally::count::{Count, Long};
use crate::tally::counted::Counted;
use crate::tally::histogram::Histogram;
use crate::tally::page::A_WEEK;
use crate::tally::sheet::{Others, Sheet};

/// What happened to locks within some time, as far as their clients have counted it.
///
/// Who counts: `leasehold run`, `leasehold schedule`, and each client of the library that has a [`Tally`](crate::Tally). What they have counted is seen
/// here within some ten seconds; of several minutes where one has many locks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Contention {
    /// Since when, by the store's clock: what was asked for, and up to a step before it; no longer ago than is [kept](Self::KEPT).
    pub since: Timestamp,
    /// Until when: what the store's clock showed.
    pub until: Timestamp,
    /// How long a step of the series is: five minutes, or an hour if it is about more than twelve hours.
    #[serde(rename = "step_ms", serialize_with = "whole_millis")]
    pub step: Duration,
    /// Each lock that something was counted of, by name.
    pub locks: Vec<LockContention>,
    /// Those that there was no room for, together; none if there was.
    pub others: Option<OtherLocks>,
    /// All locks, step by step; also those in which nothing happened.
    pub series: Vec<ContentionStep>,
    /// So many clients have written that what some have may be missing.
    pub is_cut: bool,
}

/// What was counted of one lock.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LockContention {
    /// Its name.
    pub name: String,
    /// How many acquisitions have ended, in whatever way.
    pub attempts: u64,
    /// How many of them got it.
    pub acquired: u64,
    /// How many found somebody else who had it, or was before them; whether they waited and got it or not.
    pub contended: u64,
    /// How many of all attempts that is, from 0 to 1.
    pub contended_share: f64,
    /// How long those waited who got it, the time of the calls with it; none if nobody did.
    pub waited: Option<Quantiles>,
    /// For how long it was held; none if nobody has released it.
    pub held: Option<Quantiles>,
    /// The longest holds, the longest first; three at most.
    pub longest: Vec<LongHold>,
    /// What was prevented.
    pub prevented: Prevented,
    /// How many holders were told to stop because they had lost it.
    pub lost: u64,
    /// How many of these had held it for longer than they were allowed.
    pub overdue: u64,
    /// How many releases came when it was theirs no longer.
    pub late_releases: u64,
    /// How many acquisitions ended with an error.
    pub failed: u64,
    /// How it was renewed; none if nobody has held it for so long.
    pub renewals: Option<Renewals>,
    /// For how long it may be held, where its holders have said so.
    #[serde(rename = "limit_ms", serialize_with = "whole_millis_if_any")]
    pub limit: Option<Duration>,
    /// Runs of its schedule; none if it has none, or none has ended.
    pub runs: Option<Runs>,
}

/// Spans of time: how long half of them was at most, and so on. Each is right to a sixteenth of itself; the longest is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Quantiles {
    /// Half took no longer.
    #[serde(rename = "p50_ms", serialize_with = "whole_millis")]
    pub p50: Duration,
    /// Nine of ten took no longer.
    #[serde(rename = "p90_ms", serialize_with = "whole_millis")]
    pub p90: Duration,
    /// 99 of 100 took no longer.
    #[serde(rename = "p99_ms", serialize_with = "whole_millis")]
    pub p99: Duration,
    /// The longest.
    #[serde(rename = "max_ms", serialize_with = "whole_millis")]
    pub max: Duration,
}

/// A long hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LongHold {
    /// Who it was, for people.
    pub label: String,
    /// For how long.
    #[serde(rename = "held_ms", serialize_with = "whole_millis")]
    pub held: Duration,
    /// Since when, by the store's clock.
    pub at: Timestamp,
}

/// What did not happen twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Prevented {
    /// Acquisitions for a tick or a key that had been claimed before.
    pub marks: u64,
    /// Transactions of holders whose lock was theirs no longer.
    pub fences: u64,
}

/// How a lock was renewed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Renewals {
    /// How many renewals.
    pub renewed: u64,
    /// How many failed and were tried again.
    pub failed: u64,
    /// How long after they were due they were answered; none if all failed.
    pub late: Option<Quantiles>,
    /// Of the time for which it is valid, how much was left when it came to the worst, from 0 to 1. Two thirds is as it should be.
    pub least_margin: Option<f64>,
}

/// Runs of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Runs {
    /// How many have ended.
    pub ended: u64,
    /// How many of them have not done what they should.
    pub unsuccessful: u64,
}

/// Locks that there was no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OtherLocks {
    /// How many there were at most; a name counts as often as it had to make room.
    pub names: u64,
    /// As of a lock.
    pub attempts: u64,
    /// As of a lock.
    pub contended: u64,
    /// As of a lock.
    pub lost: u64,
}

/// What was counted of all locks within one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ContentionStep {
    /// When it begins.
    pub at: Timestamp,
    /// As of a lock.
    pub attempts: u64,
    /// As of a lock.
    pub contended: u64,
    /// Nine of ten that got a lock waited no longer; none if nobody did.
    #[serde(rename = "waited_p90_ms", serialize_with = "whole_millis_if_any")]
    pub waited_p90: Option<Duration>,
}

impl Contention {
    /// For so long it is kept what was counted: a week.
    pub const KEPT: Duration = A_WEEK;

    /// What was counted within this time until now; of a longer time than is [kept](Self::KEPT), within that.
    ///
    /// # Errors
    /// The store keeps no notes, or can't say.
    pub async fn read(locks: &Locks, since: Duration) -> Result<Self> {
        Ok(Self::of(Counted::within(locks, since).await?))
    }

    /// The same of some locks, by name.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub async fn read_of(locks: &Locks, since: Duration, is_wanted: impl Fn(&str) -> bool) -> Result<Self> {
        let mut counted = Counted::within(locks, since).await?;
        for (_, sheet) in &mut counted.sheets {
            sheet.locks.retain(|name, _| is_wanted(name));
            sheet.others = Others::default(); // Whose they are nobody knows.
        }
        Ok(Self::of(counted))
    }

    fn of(counted: Counted) -> Self {
        let (mut all, mut steps) = (Sheet::default(), BTreeMap::new());
        let mut begin = counted.since;
        while begin <= counted.until {
            steps.insert(begin, Count::default());
            begin += counted.step;
        }
        for (begin, sheet) in counted.sheets {
            let step = steps.entry(begin).or_default();
            sheet.locks.values().chain([&sheet.others.count]).for_each(|count| step.merge(count));
            all.merge(&sheet);
        }
        let mut locks: Vec<_> = all.locks.iter().map(|(name, count)| LockContention::of(name, count)).collect();
        locks.sort_by(|one, other| one.name.cmp(&other.name));
        let others = (!all.others.is_none()).then(|| OtherLocks {
            names: all.others.names,
            attempts: all.others.count.attempts(),
            contended: all.others.count.contended(),
            lost: all.others.count.lost,
        });
        Self {
            since: instant(counted.since),
            until: instant(counted.until),
            step: counted.step,
            locks,
            others,
            series: steps.iter().map(|(at, count)| ContentionStep::of(*at, count)).collect(),
            is_cut: counted.is_cut,
        }
    }
}

impl LockContention {
    fn of(name: &str, count: &Count) -> Self {
        let (attempts, contended) = (count.attempts(), count.contended());
        Self {
            name: name.to_owned(),
            attempts,
            acquired: count.acquired,
            contended,
            contended_share: if attempts == 0 { 0.0 } else { contended as f64 / attempts as f64 },
            waited: Quantiles::of(&count.waited),
            held: Quantiles::of(&count.held),
            longest: count.longest.iter().map(LongHold::of).collect(),
            prevented: Prevented { marks: count.marks, fences: count.fences },
            lost: count.lost,
            overdue: count.overdue,
            late_releases: count.late_releases,
            failed: count.failed,
            renewals: Renewals::of(count),
            limit: (count.limit > 0).then(|| Duration::from_millis(count.limit)),
            runs: (count.runs > 0).then_some(Runs { ended: count.runs, unsuccessful: count.unsuccessful }),
        }
    }
}

impl Quantiles {
    fn of(histogram: &Histogram) -> Option<Self> {
        Some(Self {
            p50: histogram.quantile(0.5)?,
            p90: histogram.quantile(0.9)?,
            p99: histogram.quantile(0.99)?,
            max: histogram.longest()?,
        })
    }
}

impl LongHold {
    fn of(Long(held, since, label): &Long) -> Self {
        let at = Timestamp::from_millisecond(*since).unwrap_or_default();
        Self { label: label.clone(), held: Duration::from_millis(*held), at }
    }
}

impl Renewals {
    fn of(count: &Count) -> Option<Self> {
        let (renewed, failed) = (count.late.count(), count.unrenewed);
        (renewed + failed > 0).then(|| Self {
            renewed,
            failed,
            late: Quantiles::of(&count.late),
            least_margin: count.least_margin.map(|thousandths| f64::from(thousandths) / 1000.0),
        })
    }
}

impl ContentionStep {
    fn of(at: Duration, count: &Count) -> Self {
        let (attempts, contended) = (count.attempts(), count.contended());
        Self { at: instant(at), attempts, contended, waited_p90: count.waited.quantile(0.9) }
    }
}

/// What a store's clock shows, as an instant.
pub(crate) fn instant(since_1970: Duration) -> Timestamp {
    let millis = i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
}

fn whole_millis<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

fn whole_millis_if_any<S: Serializer>(span: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match span {
        Some(span) => whole_millis(span, to),
        None => to.serialize_none(),
    }
}
