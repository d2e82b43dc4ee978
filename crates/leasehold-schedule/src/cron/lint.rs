//! What surprises in schedules that are legal.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::DateTime;

use super::Cron;
use super::field::{Field, Form, Item, Kind};
use super::fields::Fields;
use super::set::Set;
use super::stretch::Stretch;
use crate::error::shown;

/// The years in which clocks that go forward are looked for: 2027 up to 2036. A schedule has no clock of its own, and
/// a zone that had daylight saving long ago is no reason to warn.
const LOOKED_AT: (Timestamp, Timestamp) =
    (Timestamp::constant(1_798_761_600, 0), Timestamp::constant(2_114_380_800, 0));

/// One thing that may not be what was meant. The schedule works all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lint {
    /// Which.
    pub rule: LintRule,
    /// One line for people: what happens and what to write instead.
    pub message: String,
}

/// What sort of surprise it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LintRule {
    /// A time of day that does not exist on a day on which clocks go forward: the run comes late that day.
    ShiftedByGap,
    /// Times of a cadence that do not exist on such a day: these runs are left out.
    LostInGap,
    /// A day of the month and one of the week are given: either will do.
    EitherDay,
    /// A day of the month and one of the week are given, one of them with a star: both must match.
    BothDays,
    /// A step that doesn't divide its field: the last distance is another one.
    UnevenStep,
    /// A step that is larger than its range: one number is left.
    StepBeyondRange,
    /// `5/15`: some read it as 5-59/15, as is done here, and some refuse it.
    OpenStep,
    /// Every second of some minutes, or every minute of some hours.
    EveryOne,
    /// A zone was given with a period, which it doesn't change.
    UnusedZone,
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Lint {
    pub(crate) fn of_cron(cron: &Cron) -> Vec<Self> {
        let mut lints = Vec::new();
        lints.extend(gap(cron));
        lints.extend(days(cron));
        lints.extend(every_one(cron));
        for field in cron.fields.all() {
            lints.extend(field.items.iter().filter_map(|&item| step(field, item)));
        }
        lints
    }

    pub(crate) fn unused_zone(zone: &str) -> Self {
        let message = format!(
            "periods count from 1970 in UTC, so the zone {} changes nothing; leave it out, or write a cron expression",
            shown(zone)
        );
        Self::new(LintRule::UnusedZone, message)
    }

    fn new(rule: LintRule, message: String) -> Self {
        Self { rule, message }
    }
}

/// The first day on which clocks go forward over a time that the expression names.
fn gap(cron: &Cron) -> Option<Lint> {
    let every_hour = cron.pattern.hours == Set::every(1, 0, 23);
    if every_hour {
        return None; // The cadence goes on in real time.
    }
    let (from, until) = LOOKED_AT;
    let transitions = cron.zone.following(from).map(|transition| transition.timestamp());
    transitions.take_while(|&transition| transition < until).find_map(|transition| {
        let (first, end) = Stretch::at(&cron.zone, transition).skipped()?;
        let local = cron.pattern.at_or_after(first).filter(|&local| local < end)?;
        Some(gap_lint(cron, local, first, end))
    })
}

fn gap_lint(cron: &Cron, local: DateTime, first: DateTime, end: DateTime) -> Lint {
    let zone = cron.zone.iana_name().unwrap_or("its zone");
    let (date, time) = (local.date(), local.strftime("%H:%M"));
    let clocks = format!("clocks there go from {} to {}", first.strftime("%H:%M"), end.strftime("%H:%M"));
    let what = format!("{time} does not exist on {date} in {zone} ({clocks})");
    if cron.fixed {
        let message =
            format!("{what}: the run comes at {} then; choose another time if that matters", end.strftime("%H:%M"));
        return Lint::new(LintRule::ShiftedByGap, message);
    }
    let hint = "without a * at the start of the minute and the hour it would be made up for";
    Lint::new(LintRule::LostInGap, format!("{what}: the run is left out then; {hint}"))
}

fn days(cron: &Cron) -> Option<Lint> {
    let (month, week) = (&cron.fields.day_of_month, &cron.fields.day_of_week);
    if !month.is_restricted() || !week.is_restricted() {
        return None;
    }
    let what = format!("day of the month {month} and day of the week {week} are both given");
    Some(if cron.pattern.days.both {
        let message =
            format!("{what}, and one starts with *: a day must match both; let neither start with * if one is enough");
        Lint::new(LintRule::BothDays, message)
    } else {
        let message = format!("{what}: a day that matches either will do; write * for the one that is not meant");
        Lint::new(LintRule::EitherDay, message)
    })
}

/// `* 4 * * *`, where once at four was meant.
fn every_one(cron: &Cron) -> Option<Lint> {
    let Fields { second, minute, hour, .. } = &cron.fields;
    let second = second.as_ref().map(|second| (second, minute));
    let (all, some) =
        second.into_iter().chain([(minute, hour)]).find(|(all, some)| !all.is_restricted() && some.is_restricted())?;
    let (what, within) = (all.kind.name(), some.kind.name());
    let message = format!("{what} {all} with {within} {some} means every {what} of it; write 0 for once");
    Some(Lint::new(LintRule::EveryOne, message))
}

fn step(field: &Field, item: Item) -> Option<Lint> {
    let Item::Numbers { form, first, last, step } = item else { return None };
    let name = field.kind.name();
    let reach = u32::from(last - first);
    if form == Form::From {
        let message =
            format!("{name} {item} is read as {first}-{last}/{step}; write that to be understood elsewhere too");
        return Some(Lint::new(LintRule::OpenStep, message));
    }
    if step > 1 && step > reach {
        let message = format!("{name} {item} has a step beyond its range and means {first} alone; write {first}");
        return Some(Lint::new(LintRule::StepBeyondRange, message));
    }
    let whole = (first, last) == field.kind.bounds();
    let even = field.kind != Kind::DayOfMonth && field.kind.span().is_multiple_of(step);
    (step > 1 && whole && !even).then(|| {
        let newest = u32::from(first) + reach / step * step;
        let fix = match field.kind {
            Kind::Second => format!("@every {step}s has equal distances"),
            Kind::Minute => format!("@every {step}m has equal distances"),
            Kind::Hour => format!("@every {step}h has equal distances"),
            _ => "list what is meant".to_owned(),
        };
        let message =
            format!("{name} {item} does not come out even: after {newest} it starts again with {first}; {fix}");
        Lint::new(LintRule::UnevenStep, message)
    })
}
