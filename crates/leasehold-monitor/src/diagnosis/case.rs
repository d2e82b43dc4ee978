//! What is known of one lock.

use std::time::Duration;

use leasehold::{Finding, Span};

use super::number;
use crate::tally::count::Count;
use crate::tally::histogram::Histogram;

/// Fewer holds tell nothing of how long most are.
const FEW: u64 = 5;

/// From this share of the limit on a hold is near it.
const NEAR: f64 = 0.8;

/// A renewal that leaves less than this of the validity has used up half of what there was to spare.
const THIN: u16 = 333;

/// Renewals are late if they are later than this, whatever they were before.
const LATE: Duration = Duration::from_millis(500);

/// Fewer renewals show no trend.
const TREND: u64 = 20;

/// So many that had to wait are many.
const MANY: u64 = 20;

/// Who waits less than this hardly waits.
const SHORT_WAIT: Duration = Duration::from_secs(1);

/// One lock, and the job whose lock it is.
#[derive(Debug, Clone, Default)]
pub(super) struct Case {
    pub count: Count,
    /// How late its renewals were in the first third of the time.
    pub late_before: Histogram,
    /// The same in the last third.
    pub late_now: Histogram,
    /// It is a job of a schedule; how far apart its ticks are, if that is known.
    pub job: Option<Option<Duration>>,
}

impl Case {
    /// All that there is to say.
    pub fn findings(&self, name: &str) -> Vec<Finding> {
        let all = [self.limit(name), self.period(name), self.renewals(name), self.waits(name), self.losses(name)];
        all.into_iter().chain([self.fences(name)]).flatten().collect()
    }

    fn limit(&self, name: &str) -> Option<Finding> {
        let Count { held, overdue, .. } = &self.count;
        let limit = (self.count.limit > 0).then(|| Duration::from_millis(self.count.limit));
        let (usual, longest) = (held.quantile(0.99)?, held.longest()?);
        let is_near = limit.is_some_and(|limit| held.count() >= FEW && usual >= limit.mul_f64(NEAR));
        if !is_near && *overdue == 0 {
            return None;
        }
        let limit = limit.unwrap_or(longest);
        let cut = if *overdue == 0 {
            String::new()
        } else {
            format!("; {overdue} {} ended by that limit", number::was(*overdue))
        };
        let message = format!(
            "{name}: 99 of 100 holds took up to {}, the longest {}, and {} is the limit (of {} in the last day{cut})",
            Span(usual),
            Span(longest),
            Span(limit),
            number::of(held.count(), "hold")
        );
        let fix = format!(
            "find out what makes it slow ({}), or raise the limit (--max-hold, time_limit) to {} or more",
            self.where_to_look(name),
            Span(longest.max(usual) * 2)
        );
        Some(Finding::warning("hold time", message, fix))
    }

    fn period(&self, name: &str) -> Option<Finding> {
        let (period, held) = (self.job??, &self.count.held);
        let usual = held.quantile(0.99)?;
        if held.count() < FEW || usual <= period {
            return None;
        }
        let message = format!(
            "{name}: it is due every {} and takes up to {} (99 of 100 of {} runs in the last day): it is not run when it is due again \
             meanwhile",
            Span(period),
            Span(usual),
            held.count()
        );
        let fix = format!("run it more rarely than every {}, make it quicker, or let its runs overlap", Span(usual));
        Some(Finding::warning("period", message, fix))
    }

    fn renewals(&self, name: &str) -> Option<Finding> {
        let late = |renewals: &Histogram| renewals.quantile(0.9).filter(|_| renewals.count() >= TREND);
        let trend = late(&self.late_before).zip(late(&self.late_now));
        let trend = trend.filter(|(before, now)| *now >= LATE && *now >= *before * 2);
        let thin = self.count.least_margin.filter(|least| *least < THIN);
        let latest = self.count.late.longest()?;
        let what = match (trend, thin) {
            (None, None) => return None,
            (Some((before, now)), None) => {
                format!(
                    "they come later and later: nine of ten within {} of when they were due, {} before",
                    Span(now),
                    Span(before)
                )
            }
            (trend, Some(least)) => {
                let grows = trend.map_or_else(String::new, |(before, now)| {
                    format!(", and they come later and later (90 % within {}, {} before)", Span(now), Span(before))
                });
                let percent = f64::from(least) / 10.0;
                format!(
                    "one left {percent:.0} % of the validity, and 67 % is as it should be; the latest came {} late{grows}",
                    Span(latest)
                )
            }
        };
        let count = &self.count;
        let message = format!(
            "{name}: of {} in the last day {what} ({} failed)",
            number::of(count.late.count(), "renewal"),
            count.unrenewed
        );
        let fix = "see whether the store or its holders' machines are overloaded, or the network between them is slow; a longer \
                   --ttl leaves more time";
        Some(Finding::warning("renewals", message, fix))
    }

    /// Of a job of a schedule most nodes come too late for each tick, and none waits.
    fn waits(&self, name: &str) -> Option<Finding> {
        let Count { behind, acquired, waited, held, .. } = &self.count;
        let wait = waited.quantile(0.9)?;
        if self.job.is_some() || *behind < MANY || *behind < *acquired / 2 || wait < SHORT_WAIT {
            return None;
        }
        let held = held
            .quantile(0.5)
            .map_or_else(String::new, |held| format!("; half of the holds took {} or more", Span(held)));
        let message = format!(
            "{name}: {behind} of {acquired} that got it in the last day found it held, and one of ten waited for {} or longer{held}",
            Span(wait)
        );
        let fix = "hold it for less, split what it guards over several locks, allow more holders (--permits), or start fewer at a time";
        Some(Finding::warning("contention", message, fix))
    }

    fn losses(&self, name: &str) -> Option<Finding> {
        let Count { acquired, late_releases, .. } = self.count;
        let lost = self.count.lost.saturating_sub(self.count.overdue);
        if lost == 0 && late_releases == 0 {
            return None;
        }
        let message = format!(
            "{name}: {lost} of {} in the last day {} lost before the end, and {} came too late",
            number::of(acquired, "hold"),
            number::was(lost),
            number::of(late_releases, "release")
        );
        let fix = format!(
            "see why ({}): a store that is away for longer than the TTL, a machine that stood still, and an operator's revocation end a hold",
            self.where_to_look(name)
        );
        let most_are_lost = lost >= 3 && lost >= acquired.div_ceil(2);
        Some(if most_are_lost {
            Finding::problem("losses", message, fix)
        } else {
            Finding::warning("losses", message, fix)
        })
    }

    fn where_to_look(&self, name: &str) -> String {
        match self.job {
            Some(_) => format!("`leasehold history {name}`"),
            None => "what its holders have written".to_owned(),
        }
    }

    fn fences(&self, name: &str) -> Option<Finding> {
        let refused = self.count.fences;
        let message = format!(
            "{name}: fences refused {} in the last day, of holders that were it no longer: nothing was written twice",
            number::of(refused, "transaction")
        );
        let fix =
            "see what holds its jobs up for longer than the TTL: a machine that stands still, a database that is slow";
        (refused > 0).then(|| Finding::warning("fences", message, fix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(seconds: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        seconds.into_iter().for_each(|second| histogram.add(Duration::from_secs(second)));
        histogram
    }

    fn case(count: Count) -> Case {
        Case { count, ..Case::default() }
    }

    /// The only finding.
    fn only(case: &Case) -> Finding {
        let mut findings = case.findings("job");
        assert_eq!(findings.len(), 1, "{findings:?}");
        findings.remove(0)
    }

    #[test]
    fn a_hold_that_comes_near_its_limit_is_told() {
        let of = |held: [u64; 6]| case(Count { held: spans(held), limit: 100_000, acquired: 6, ..Count::default() });
        assert!(of([10, 20, 30, 40, 50, 60]).findings("job").is_empty());
        let near = only(&of([10, 20, 30, 40, 50, 95]));
        assert!(near.subject == "hold time" && near.message.contains("1m40s is the limit"), "{near:?}");
        assert!(near.fix.as_ref().unwrap().contains("to 3m10s or more"), "{near:?}");
        let mut cut = of([1, 2, 3, 4, 5, 6]);
        (cut.count.overdue, cut.count.lost) = (2, 2);
        assert!(only(&cut).message.contains("2 were ended by that limit"), "and it is not told as another loss");
        let one = only(&case(Count { held: spans([9]), overdue: 1, lost: 1, limit: 9000, ..Count::default() })).message;
        assert!(one.contains("(of 1 hold in the last day; 1 was ended by that limit)"), "{one}");
    }

    #[test]
    fn a_job_that_takes_longer_than_its_period_is_told() {
        let of = |period| Case {
            job: Some(period),
            ..case(Count { held: spans([50, 60, 70, 80, 90]), ..Count::default() })
        };
        assert!(of(Some(Duration::from_secs(120))).findings("job").is_empty() && of(None).findings("job").is_empty());
        let found = only(&of(Some(Duration::from_secs(60))));
        assert!(found.subject == "period" && found.message.contains("every 1m and takes up to 1m28s"), "{found:?}");
    }

    #[test]
    fn renewals_that_come_late_are_told() {
        let usual = Count { late: spans([0; 60]), least_margin: Some(650), ..Count::default() };
        assert!(case(usual.clone()).findings("job").is_empty());
        let thin = only(&case(Count { least_margin: Some(120), ..usual.clone() }));
        assert!(thin.subject == "renewals" && thin.message.contains("one left 12 % of the validity"), "{thin:?}");
        let later = Case { late_before: spans([0; 20]), late_now: spans([2; 20]), ..case(usual.clone()) };
        assert!(only(&later).message.contains("later and later: nine of ten within 2s"), "{:?}", only(&later));
        let few = Case { late_before: spans([0; 5]), late_now: spans([2; 5]), ..case(usual) };
        assert!(few.findings("job").is_empty());
    }

    #[test]
    fn a_lock_that_is_waited_for_is_told_and_one_that_is_skipped_is_not() {
        let of = |behind, refused| {
            case(Count {
                acquired: 30,
                behind,
                refused,
                waited: spans([9; 30]),
                held: spans([4; 30]),
                ..Count::default()
            })
        };
        assert!(of(0, 500).findings("job").is_empty(), "it was not waited for");
        let found = only(&of(25, 0));
        assert!(found.subject == "contention" && found.message.contains("25 of 30"), "{found:?}");
        assert!(Case { job: Some(None), ..of(25, 0) }.findings("job").is_empty());
    }

    #[test]
    fn losses_are_told_and_many_are_a_problem() {
        let of = |lost, late_releases| case(Count { acquired: 10, lost, late_releases, ..Count::default() });
        assert!(of(0, 0).findings("job").is_empty());
        assert_eq!(only(&of(1, 0)).severity, leasehold::Severity::Warning);
        assert_eq!(only(&of(0, 1)).severity, leasehold::Severity::Warning);
        let (one, two) = (only(&of(1, 2)).message, only(&of(2, 1)).message);
        assert!(one.contains("1 of 10 holds in the last day was lost before the end, and 2 releases came"), "{one}");
        assert!(two.contains("2 of 10 holds in the last day were lost before the end, and 1 release came"), "{two}");
        assert_eq!(only(&of(5, 0)).severity, leasehold::Severity::Problem);
        let fences = only(&case(Count { fences: 2, ..Count::default() }));
        assert!(fences.subject == "fences" && fences.message.contains("refused 2 transactions"), "{fences:?}");
    }
}
