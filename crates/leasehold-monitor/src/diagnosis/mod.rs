//! What an operator should know of locks and jobs, from what was counted and recorded.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::try_join_all;
use jiff::Timestamp;
use leasehold::{Finding, Locks, Result};
use leasehold_schedule::{Entry, KnownJob, Ledger, Orders, Schedule, State};

use self::case::Case;
use crate::contention::instant;
use crate::tally::count::Count;
use crate::tally::counted::Counted;
use crate::tally::histogram::Histogram;

mod case;
mod number;

/// What is older tells nothing of how things stand.
const PERIOD: Duration = Duration::from_secs(24 * 3600);

/// Of so many locks one finding is told; beyond that, how many more there are.
const TOLD: usize = 10;

/// The ledgers of so many jobs are read, where nothing was counted of them.
const LEDGERS: usize = 200;

/// So many at a time.
const AT_A_TIME: usize = 16;

/// So many records of each.
const RECORDS: u32 = 100;

/// The next ticks of a job that tell how far apart they are.
const TICKS: usize = 50;

/// Examines what was counted of all locks within the last day, and the ledgers of jobs that were not counted: holds that come near
/// their limit, jobs that take longer than their period, renewals that come late, locks that many wait for, losses.
///
/// # Errors
/// The store keeps no notes, or can't say.
pub async fn diagnose(locks: &Locks) -> Result<Vec<Finding>> {
    let counted = Counted::within(locks, PERIOD).await?;
    let (now, jobs) = (instant(counted.until), Orders::over(locks).jobs().await?);
    let mut cases = by_lock(&counted);
    let is_uncounted = |job: &&KnownJob| !cases.contains_key(job.name.as_str());
    let uncounted: Vec<_> = jobs.iter().filter(is_uncounted).map(|job| job.name.clone()).take(LEDGERS).collect();
    for entry in recorded(locks, &uncounted, instant(counted.since)).await? {
        record(cases.entry(entry.job.as_str().into()).or_default(), &entry);
    }
    for job in &jobs {
        if let Some(case) = cases.get_mut(job.name.as_str()) {
            case.job = Some(period(job, now));
        }
    }
    Ok(findings(&cases))
}

/// What the ledgers of these jobs have of the time since then.
async fn recorded(locks: &Locks, jobs: &[String], since: Timestamp) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for some in jobs.chunks(AT_A_TIME) {
        let ledgers = some.iter().map(|job| Ledger::of(locks, job)).collect::<Result<Vec<_>>>()?;
        let read = try_join_all(ledgers.iter().map(|ledger| ledger.newest_since(since, RECORDS))).await?;
        entries.extend(read.into_iter().flatten());
    }
    Ok(entries)
}

/// What was counted of each lock: all of it, and how late its renewals were at the beginning and at the end.
fn by_lock(counted: &Counted) -> BTreeMap<Box<str>, Case> {
    let mut cases: BTreeMap<Box<str>, Case> = BTreeMap::new();
    let third = counted.until.saturating_sub(counted.since) / 3;
    for (begin, sheet) in &counted.sheets {
        let age = counted.until.saturating_sub(*begin);
        for (name, count) in &sheet.locks {
            let case = cases.entry(name.clone()).or_default();
            case.count.merge(count);
            if age >= third * 2 {
                case.late_before.merge(&count.late);
            } else if age <= third {
                case.late_now.merge(&count.late);
            }
        }
    }
    cases
}

/// A run that is only known from the ledger.
fn record(case: &mut Case, entry: &Entry) {
    let Entry { record, .. } = entry;
    let (Some(started), Some(ended)) = (record.started, record.ended) else { return };
    let mut count = Count { acquired: 1, ..Count::default() };
    count.held = Histogram::default();
    count.held.add(Duration::try_from(ended.duration_since(started)).unwrap_or_default());
    count.lost = u64::from(record.state == State::Lost);
    case.count.merge(&count);
}

/// How far apart its next ticks are at least; none if that can't be told.
fn period(job: &KnownJob, now: Timestamp) -> Option<Duration> {
    let (expression, zone) = job.when.rsplit_once(' ')?;
    let schedule = Schedule::parse_for(&job.name, expression, Some(zone)).ok()?;
    let ticks: Vec<_> = schedule.ticks_after(now).take(TICKS).collect();
    let apart = ticks.windows(2).filter_map(|two| Duration::try_from(two[1].duration_since(two[0])).ok());
    apart.min()
}

fn findings(cases: &BTreeMap<Box<str>, Case>) -> Vec<Finding> {
    let mut by_subject: Vec<(&'static str, Vec<Finding>)> = Vec::new();
    for (name, case) in cases {
        for finding in case.findings(name) {
            match by_subject.iter_mut().find(|(subject, _)| *subject == finding.subject) {
                Some((_, findings)) => findings.push(finding),
                None => by_subject.push((finding.subject, vec![finding])),
            }
        }
    }
    if by_subject.is_empty() {
        return vec![nothing_stands_out(cases)];
    }
    by_subject.into_iter().flat_map(|(subject, findings)| told(subject, findings)).collect()
}

/// The worst, and how many more there are.
fn told(subject: &'static str, mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let more = findings.len().saturating_sub(TOLD);
    findings.truncate(TOLD);
    if more > 0 {
        let message = format!("and the same of {}", number::of(more as u64, "more lock"));
        findings.push(Finding::warning(subject, message, "see `leasehold contention --since 1d --top 0`"));
    }
    findings
}

fn nothing_stands_out(cases: &BTreeMap<Box<str>, Case>) -> Finding {
    let holds: u64 = cases.values().map(|case| case.count.held.count()).sum();
    let message = if cases.is_empty() {
        "nothing was counted in the last day: no lock was asked for by `leasehold run`, `leasehold schedule` or a client with a Tally".to_owned()
    } else {
        let (locks, holds) = (number::of(cases.len() as u64, "lock"), number::of(holds, "hold"));
        format!("nothing stands out in what was counted in the last day, of {locks} and {holds}")
    };
    Finding::fine("jobs", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_the_shortest_between_its_ticks() {
        let now: Timestamp = "2026-11-30T20:00:00Z".parse().unwrap();
        let period = |when: &str| period(&KnownJob { name: "job".into(), when: when.into(), since: now }, now);
        for (when, seconds) in [
            ("* * * * * UTC", 60),
            ("0 9,10 * * * Europe/Berlin", 3600),
            ("@every 15m UTC", 900),
            ("30 4 * * * America/New_York", 86_400),
            ("H 4 * * * UTC", 86_400),
        ] {
            assert_eq!(period(when), Some(Duration::from_secs(seconds)), "{when}");
        }
        assert_eq!(period("of a later version"), None);
    }

    #[test]
    fn of_many_locks_not_all_are_told() {
        let lost = Case { count: Count { acquired: 9, lost: 1, ..Count::default() }, ..Case::default() };
        let mut cases: BTreeMap<Box<str>, Case> =
            (0..50).map(|nth| (format!("job-{nth:02}").into(), lost.clone())).collect();
        cases.insert(
            "worst".into(),
            Case { count: Count { acquired: 9, lost: 9, ..Count::default() }, ..Case::default() },
        );
        let told = findings(&cases);
        assert_eq!(told.len(), TOLD + 1);
        assert!(told[0].message.starts_with("worst: ") && told[0].severity == leasehold::Severity::Problem, "{told:?}");
        assert!(told[TOLD].message.contains("41 more"), "{told:?}");
        assert!(findings(&BTreeMap::new())[0].message.contains("nothing was counted"));
        let one = Case { count: Count { acquired: 1, held: held_once(), ..Count::default() }, ..Case::default() };
        let told = findings(&[("job".into(), one)].into());
        assert!(told[0].message.ends_with("in the last day, of 1 lock and 1 hold"), "{told:?}");
    }

    fn held_once() -> Histogram {
        let mut held = Histogram::default();
        held.add(Duration::from_secs(1));
        held
    }
}
