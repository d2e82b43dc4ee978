//! What the crate is for.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::cron::Cron;
use crate::cron::hashed::Hashing;
use crate::cron::lint::Lint;
use crate::cron::period::Period;
use crate::cron::text;
use crate::error::ScheduleError;
use crate::ticks::Ticks;

/// How early a node may be and still mean the tick to come.
const EARLY: SignedDuration = SignedDuration::from_secs(60);

/// When a job is due: an expression and a time zone, checked, and the *ticks* that follow from them.
///
/// A tick is an instant on a whole second. The ticks of a schedule are one fixed, strictly increasing sequence: they
/// depend on the expression, the zone and the zone's data, on no clock, no process's start and no earlier call. So
/// each node computes the same ones, and after a restart they go on as if there had been none.
///
/// ```
/// use leasehold_schedule::Schedule;
///
/// let nightly = Schedule::parse("30 2 * * *", Some("America/New_York"))?;
/// let ticks: Vec<String> = nightly
///     .ticks_after("2025-03-08T00:00:00Z".parse()?)
///     .take(3)
///     .map(|tick| tick.to_string())
///     .collect();
/// // On the 9th clocks go from 02:00 to 03:00: it comes at 03:00, once.
/// assert_eq!(ticks, ["2025-03-08T07:30:00Z", "2025-03-09T07:00:00Z", "2025-03-10T06:30:00Z"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Two schedules are equal if they have the same normalized text and the same zone.
#[derive(Debug, Clone)]
pub struct Schedule {
    timing: Timing,
}

/// The two sorts of schedules.
#[derive(Debug, Clone)]
pub(crate) enum Timing {
    Cron(Box<Cron>),
    Period {
        period: Period,
        /// A zone that was given, and changes nothing.
        unused_zone: Option<String>,
    },
}

impl Schedule {
    /// Reads an expression; [the crate's overview](crate#what-may-be-written) says what may be written. The zone is an
    /// IANA name; UTC where none is given here nor in front of the expression.
    ///
    /// ```
    /// use leasehold_schedule::Schedule;
    ///
    /// assert!(Schedule::parse("0 9 * * MON-FRI", Some("Europe/Berlin")).is_ok());
    /// assert!(Schedule::parse("15m", None).is_ok());
    ///
    /// let error = Schedule::parse("0 0 31 2 *", None).unwrap_err();
    /// assert!(error.to_string().contains("no date has day 31 in month 2"));
    /// ```
    ///
    /// # Errors
    /// If the text is no expression, the zone is unknown or given twice, or no tick would ever come.
    pub fn parse(text: &str, zone: Option<&str>) -> Result<Self, ScheduleError> {
        text::parse(text, zone, Hashing(None)).map(|timing| Self { timing })
    }

    /// The same for a job with a name, by which `H` is replaced: `H 2 * * *` comes each night at a minute that is the
    /// job's own, on every node and in every version of this crate the same.
    ///
    /// ```
    /// use leasehold_schedule::Schedule;
    ///
    /// let billing = Schedule::parse_for("billing", "H 2 * * *", None)?;
    /// let backup = Schedule::parse_for("backup", "H 2 * * *", None)?;
    /// assert_ne!(billing.expression(), backup.expression());
    /// assert!(Schedule::parse("H 2 * * *", None).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_for(name: &str, text: &str, zone: Option<&str>) -> Result<Self, ScheduleError> {
        text::parse(text, zone, Hashing(Some(name))).map(|timing| Self { timing })
    }

    /// The first tick that is later than `instant`; none past the end of the calendar, in the year 9999.
    ///
    /// It takes microseconds. Ticks that are years away cost a look at each change of clocks in between, no more.
    #[must_use]
    pub fn next_after(&self, instant: Timestamp) -> Option<Timestamp> {
        match &self.timing {
            Timing::Cron(cron) => cron.next_after(instant),
            Timing::Period { period, .. } => period.next_after(instant),
        }
    }

    /// The newest tick that is not later than `instant`: after an outage of any length, the one to make up for.
    ///
    /// ```
    /// use leasehold_schedule::Schedule;
    ///
    /// let hourly = Schedule::parse("@hourly", None)?;
    /// let newest = hourly.latest_at("2025-06-01T12:34:56Z".parse()?);
    /// assert_eq!(newest, Some("2025-06-01T12:00:00Z".parse()?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn latest_at(&self, instant: Timestamp) -> Option<Timestamp> {
        match &self.timing {
            Timing::Cron(cron) => cron.latest_at(instant),
            Timing::Period { period, .. } => period.latest_at(instant),
        }
    }

    /// The ticks later than `instant`, in their order.
    #[must_use]
    pub fn ticks_after(&self, instant: Timestamp) -> Ticks<'_> {
        Ticks::new(self, instant)
    }

    /// The tick to which a run belongs that starts `now`: nodes whose clocks differ a little name the same one.
    ///
    /// * Of a cron expression, with *previous* the newest tick not later than `now` and *next* the one after it: next,
    ///   if it is at most one minute away **and** not further away than previous; else previous. So a node that is up
    ///   to a minute early counts for the tick to come, and where ticks are less than two minutes apart, the nearest
    ///   one is meant; half-way between two, the later.
    /// * Of a period, the newest tick not later than `now`.
    ///
    /// None only before the first tick of all, near the beginning of the calendar.
    ///
    /// ```
    /// use leasehold_schedule::Schedule;
    ///
    /// let hourly = Schedule::parse("0 * * * *", None)?;
    /// assert_eq!(hourly.slot("2025-06-01T12:59:00Z".parse()?), Some("2025-06-01T13:00:00Z".parse()?));
    /// assert_eq!(hourly.slot("2025-06-01T12:58:59Z".parse()?), Some("2025-06-01T12:00:00Z".parse()?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn slot(&self, now: Timestamp) -> Option<Timestamp> {
        let previous = self.latest_at(now);
        let Timing::Cron(cron) = &self.timing else { return previous };
        let since_previous = previous.map_or(SignedDuration::MAX, |previous| now.duration_since(previous));
        let next = cron.next_after(now).filter(|next| {
            let away = next.duration_since(now);
            away <= EARLY && away <= since_previous
        });
        next.or(previous)
    }

    /// What surprises in this schedule, for whoever writes it.
    ///
    /// ```
    /// use leasehold_schedule::{LintRule, Schedule};
    ///
    /// let lints = Schedule::parse("0 9 1 * MON", None)?.lints();
    /// assert_eq!(lints[0].rule, LintRule::EitherDay);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn lints(&self) -> Vec<Lint> {
        match &self.timing {
            Timing::Cron(cron) => Lint::of_cron(cron),
            Timing::Period { unused_zone, .. } => unused_zone.iter().map(|zone| Lint::unused_zone(zone)).collect(),
        }
    }

    /// The normalized expression, without its zone: macros, names and `H` as numbers, one space between fields.
    ///
    /// ```
    /// use leasehold_schedule::Schedule;
    ///
    /// assert_eq!(Schedule::parse("@weekly", None)?.expression(), "0 0 * * 0");
    /// assert_eq!(Schedule::parse("05  9 * jan Mon-FRI", None)?.expression(), "5 9 * 1 1-5");
    /// assert_eq!(Schedule::parse("90s", None)?.expression(), "@every 1m30s");
    /// # Ok::<(), leasehold_schedule::ScheduleError>(())
    /// ```
    #[must_use]
    pub fn expression(&self) -> String {
        match &self.timing {
            Timing::Cron(cron) => cron.fields.to_string(),
            Timing::Period { period, .. } => format!("@every {period}"),
        }
    }

    /// The IANA name of the zone; none for a period, which is the same in every zone.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        match &self.timing {
            Timing::Cron(cron) => cron.zone.iana_name(),
            Timing::Period { .. } => None,
        }
    }

    /// The period, if it is one and no cron expression.
    #[must_use]
    pub fn period(&self) -> Option<Duration> {
        match &self.timing {
            Timing::Cron(_) => None,
            Timing::Period { period, .. } => Some(Duration::from_secs(period.as_secs())),
        }
    }
}

/// The normalized text with its zone, `CRON_TZ=Europe/Berlin 30 2 * * *` or `@every 15m`: [`Schedule::parse`] reads it.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(zone) = self.zone() {
            write!(f, "CRON_TZ={zone} ")?;
        }
        f.write_str(&self.expression())
    }
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Schedule {}
