//! What was counted of one lock.

use std::cmp::Reverse;
use std::time::Duration;

use leasehold::validity::Moment;
use leasehold::{Answer, LossReason, NotDue};
use serde::{Deserialize, Serialize};

use super::histogram::Histogram;

/// So many of the longest holds are remembered with who it was.
const LONGEST: usize = 3;

/// How much of a label is kept, in bytes.
const LABEL: usize = 96;

/// All that was counted of one lock, or of many together. Numbers only grow, so that two are merged by adding up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Count {
    /// Acquisitions that were granted.
    #[serde(rename = "a", skip_serializing_if = "is_zero")]
    pub acquired: u64,
    /// Of these, those that found somebody before them.
    #[serde(rename = "b", skip_serializing_if = "is_zero")]
    pub behind: u64,
    /// Acquisitions that ended because somebody else had it.
    #[serde(rename = "c", skip_serializing_if = "is_zero")]
    pub refused: u64,
    /// Acquisitions whose tick or key had been claimed before.
    #[serde(rename = "m", skip_serializing_if = "is_zero")]
    pub marks: u64,
    /// Acquisitions whose tick was too old, or is still to come.
    #[serde(rename = "n", skip_serializing_if = "is_zero")]
    pub not_due: u64,
    /// Acquisitions that ended with an error.
    #[serde(rename = "f", skip_serializing_if = "is_zero")]
    pub failed: u64,
    /// Transactions that a fence has refused.
    #[serde(rename = "x", skip_serializing_if = "is_zero")]
    pub fences: u64,
    /// Holders that were told to stop.
    #[serde(rename = "l", skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// Of these, those that had held it for too long.
    #[serde(rename = "o", skip_serializing_if = "is_zero")]
    pub overdue: u64,
    /// Releases that found it no longer theirs.
    #[serde(rename = "t", skip_serializing_if = "is_zero")]
    pub late_releases: u64,
    /// Renewals that failed and were tried again.
    #[serde(rename = "u", skip_serializing_if = "is_zero")]
    pub unrenewed: u64,
    /// Of a validity, in thousandths, what was left when it was renewed: the least of all.
    #[serde(rename = "g", skip_serializing_if = "Option::is_none")]
    pub least_margin: Option<u16>,
    /// For how many milliseconds it may be held, where somebody has said so: what was said last, of what was said at the same time the
    /// least; 0 if nobody has.
    #[serde(rename = "h", skip_serializing_if = "is_zero")]
    pub limit: u64,
    /// When that was said: seconds since 1970 by the store's clock, where the span of time begins in which it was counted.
    #[serde(rename = "k", skip_serializing_if = "is_zero")]
    pub limit_at: u64,
    /// Runs of a schedule that have ended.
    #[serde(rename = "r", skip_serializing_if = "is_zero")]
    pub runs: u64,
    /// Of these, those that have not done what they should.
    #[serde(rename = "e", skip_serializing_if = "is_zero")]
    pub unsuccessful: u64,
    /// Ticks that were not run.
    #[serde(rename = "s", skip_serializing_if = "is_zero")]
    pub not_run: u64,
    /// How long it took until it was granted.
    #[serde(rename = "W", skip_serializing_if = "Histogram::is_empty")]
    pub waited: Histogram,
    /// For how long it was held.
    #[serde(rename = "H", skip_serializing_if = "Histogram::is_empty")]
    pub held: Histogram,
    /// How long after it was due a renewal was answered.
    #[serde(rename = "R", skip_serializing_if = "Histogram::is_empty")]
    pub late: Histogram,
    /// The longest holds, the longest first.
    #[serde(rename = "L", skip_serializing_if = "Vec::is_empty")]
    pub longest: Vec<Long>,
}

/// A long hold: for how many milliseconds, since when, and who it was. Since when is told in milliseconds: of this machine's clock
/// while it is counted, since 1970 by the store's once it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Long(pub u64, pub i64, pub String);

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Count {
    /// An acquisition has ended.
    pub fn answered(&mut self, waited: Duration, contended: bool, answer: &Answer<'_>) {
        match answer {
            Answer::Acquired => {
                self.acquired += 1;
                self.behind += u64::from(contended);
                self.waited.add(waited);
            }
            Answer::Contended(_) => self.refused += 1,
            Answer::NotDue(NotDue::Claimed { .. }) => self.marks += 1,
            Answer::NotDue(_) => self.not_due += 1,
            // An answer of a later version is none that is known to be good.
            _ => self.failed += 1,
        }
    }

    /// It was renewed so late; `margin` was left, and it is valid for `validity` from now.
    pub fn renewed(&mut self, late: Duration, margin: Duration, validity: Duration) {
        self.late.add(late);
        let share = margin.as_secs_f64() / validity.as_secs_f64().max(1e-3);
        let thousandths = (share.min(1.0) * 1000.0) as u16;
        self.least_margin = Some(self.least_margin.map_or(thousandths, |least| least.min(thousandths)));
    }

    /// Its holder was told to stop.
    pub fn lost(&mut self, reason: &LossReason) {
        self.lost += 1;
        self.overdue += u64::from(matches!(reason, LossReason::HeldTooLong));
    }

    /// It was released at this moment by whoever has this label.
    pub fn released(&mut self, held: Duration, in_time: bool, now: Moment, label: &str) {
        self.late_releases += u64::from(!in_time);
        self.held.add(held);
        let millis = u64::try_from(held.as_millis()).unwrap_or(u64::MAX);
        if self.longest.len() < LONGEST || self.longest.last().is_some_and(|last| last.0 < millis) {
            let since = i64::try_from(now.as_nanos() / 1_000_000).unwrap_or(i64::MAX).saturating_sub_unsigned(millis);
            let label = label[..label.floor_char_boundary(LABEL)].to_owned();
            self.remember([Long(millis, since, label)]);
        }
    }

    fn remember(&mut self, others: impl IntoIterator<Item = Long>) {
        self.longest.extend(others);
        self.longest.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| (one.1, &one.2).cmp(&(other.1, &other.2))));
        self.longest.truncate(LONGEST);
    }

    /// Tells since when the longest were held by a clock that is ahead of this one by so many milliseconds.
    pub fn shift(&mut self, ahead: i64) {
        self.longest.iter_mut().for_each(|long| long.1 = long.1.saturating_add(ahead));
    }

    /// All of this was counted in the span of time that begins then.
    pub fn is_of(&mut self, begin: Duration) {
        if self.limit > 0 {
            self.limit_at = begin.as_secs();
        }
    }

    /// How many acquisitions have ended, in whatever way.
    pub fn attempts(&self) -> u64 {
        [self.refused, self.marks, self.not_due, self.failed].into_iter().fold(self.acquired, u64::saturating_add)
    }

    /// How many of them found somebody else.
    pub fn contended(&self) -> u64 {
        self.behind.saturating_add(self.refused)
    }

    /// What is told last where there is not room for all.
    pub fn interest(&self) -> (u64, u64) {
        let odd = [self.failed, self.fences, self.lost, self.late_releases, self.unrenewed];
        (odd.into_iter().fold(self.contended(), u64::saturating_add), self.attempts())
    }

    /// Counts all of another.
    pub fn merge(&mut self, other: &Self) {
        let add = |mine: &mut u64, its: u64| *mine = mine.saturating_add(its);
        add(&mut self.acquired, other.acquired);
        add(&mut self.behind, other.behind);
        add(&mut self.refused, other.refused);
        add(&mut self.marks, other.marks);
        add(&mut self.not_due, other.not_due);
        add(&mut self.failed, other.failed);
        add(&mut self.fences, other.fences);
        add(&mut self.lost, other.lost);
        add(&mut self.overdue, other.overdue);
        add(&mut self.late_releases, other.late_releases);
        add(&mut self.unrenewed, other.unrenewed);
        add(&mut self.runs, other.runs);
        add(&mut self.unsuccessful, other.unsuccessful);
        add(&mut self.not_run, other.not_run);
        self.least_margin = [self.least_margin, other.least_margin].into_iter().flatten().min();
        let said = [(self.limit_at, self.limit), (other.limit_at, other.limit)];
        let last = said.into_iter().filter(|said| said.1 > 0).max_by_key(|said| (said.0, Reverse(said.1)));
        (self.limit_at, self.limit) = last.unwrap_or_default();
        self.waited.merge(&other.waited);
        self.held.merge(&other.held);
        self.late.merge(&other.late);
        self.remember(other.longest.iter().cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(second: u64) -> Moment {
        Moment::from_nanos(second * 1_000_000_000)
    }

    #[test]
    fn merged_is_as_counted_together() {
        let one = {
            let mut count = Count { failed: 2, limit: 9000, ..Count::default() };
            count.answered(SECOND, true, &Answer::Acquired);
            count.renewed(SECOND, 20 * SECOND, 30 * SECOND);
            count.released(5 * SECOND, true, at(100), "web-1");
            count
        };
        let other = {
            let mut count = Count { unsuccessful: 1, ..Count::default() };
            count.renewed(17 * SECOND, 3 * SECOND, 30 * SECOND);
            count.lost(&LossReason::HeldTooLong);
            count.released(7 * SECOND, false, at(200), "web-2");
            count
        };
        let mut merged = one.clone();
        merged.merge(&other);
        let mut reverse = other.clone();
        reverse.merge(&one);
        assert_eq!(merged, reverse);
        assert_eq!((merged.attempts(), merged.contended(), merged.failed), (3, 1, 2));
        assert_eq!((merged.lost, merged.overdue, merged.late_releases, merged.limit), (1, 1, 1, 9000));
        assert_eq!((merged.least_margin, merged.late.longest()), (Some(100), Some(17 * SECOND)));
        let longest: Vec<_> = merged.longest.iter().map(|Long(held, since, label)| (*held, *since, &**label)).collect();
        assert_eq!(longest, [(7000, 193_000, "web-2"), (5000, 95_000, "web-1")]);
    }

    #[test]
    fn the_longest_holds_are_remembered_and_no_more() {
        let mut count = Count::default();
        for held in [3_u32, 9, 1, 7, 8, 2] {
            count.released(held * SECOND, true, at(1000 + u64::from(held)), &format!("{held}{}", "ä".repeat(99)));
        }
        let held: Vec<_> = count.longest.iter().map(|long| long.0).collect();
        assert_eq!(held, [9000, 8000, 7000]);
        assert!(count.longest.iter().all(|long| long.2.len() <= LABEL && long.1 == 1_000_000));
        count.shift(500);
        assert!(count.longest.iter().all(|long| long.1 == 1_000_500));
    }

    #[test]
    fn of_limits_the_one_that_was_said_last_counts() {
        let said = |limit, at: u32| {
            let mut count = Count { limit, ..Count::default() };
            count.is_of(SECOND * at);
            count
        };
        let merged = |counts: &[Count]| {
            let mut all = Count::default();
            counts.iter().for_each(|count| all.merge(count));
            all.limit
        };
        let (low, raised, other, none) = (said(5000, 300), said(9000, 600), said(7000, 600), said(0, 900));
        assert_eq!(merged(&[low.clone(), raised.clone(), none.clone()]), 9000);
        assert_eq!(merged(&[raised.clone(), none, low.clone()]), 9000);
        assert_eq!([merged(&[raised.clone(), other.clone(), low]), merged(&[other, raised])], [7000, 7000]);
    }

    #[test]
    fn what_is_zero_takes_no_room() {
        assert_eq!(serde_json::to_string(&Count::default()).unwrap(), "{}");
        let mut count = Count::default();
        count.answered(Duration::from_micros(300), false, &Answer::Acquired);
        count.released(SECOND, true, at(9), "a/1/b");
        let text = serde_json::to_string(&count).unwrap();
        assert_eq!(text, r#"{"a":1,"W":[300,49,1],"H":[1000000,143,1],"L":[[1000,8000,"a/1/b"]]}"#);
        assert_eq!(serde_json::from_str::<Count>(&text).unwrap(), count);
        let of_a_later_version = r#"{"a":1,"Z":{"what":[1]}}"#;
        assert_eq!(serde_json::from_str::<Count>(of_a_later_version).unwrap().acquired, 1);
    }
}
