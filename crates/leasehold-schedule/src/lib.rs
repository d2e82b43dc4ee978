//! Jobs on a schedule that many nodes could run and one must: each *tick*, the instant at which a job is due, once.
//!
//! A [`Scheduler`] runs the same [`Job`]s on every node; which of them runs a tick is decided in the store, by the mark beside
//! the job's lock. What ran and what did not stands in a [`Ledger`], and [`History`] reads those of many jobs; operators pause
//! jobs, and have them run now, by [`Orders`].
//!
//! A [`Schedule`] alone, without any store, says when a job is due: its ticks are a pure function of what is written, so
//! that all nodes name the same ones, after a restart and across each change of clocks.
//!
//! ```
//! use leasehold_schedule::{Schedule, Timestamp};
//!
//! let schedule = Schedule::parse("30 4 1,15 * *", Some("Europe/Berlin"))?;
//! let now: Timestamp = "2025-06-20T10:00:00Z".parse()?;
//! assert_eq!(schedule.next_after(now), Some("2025-07-01T02:30:00Z".parse()?));
//! assert_eq!(schedule.latest_at(now), Some("2025-06-15T02:30:00Z".parse()?));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What may be written
//!
//! Five fields, or six with seconds first:
//!
//! | field | numbers | besides `*`, `7`, `1,4`, `9-17`, `*/5`, `9-17/2`, `9/2` (= 9 up to the end) |
//! |---|---|---|
//! | second, minute | 0-59 | |
//! | hour | 0-23 | |
//! | day of the month | 1-31 | `L` the last, `L-3` the third before it, `LW` the last working day, `15W` the working day nearest to the 15th in its month |
//! | month | 1-12, `JAN`-`DEC` | |
//! | day of the week | 0-7, `SUN`-`SAT` (0 and 7 are Sunday) | `1#2` the second Monday, `5L` the last Friday |
//!
//! * `H` in place of a number is one that depends on the job's name ([`Schedule::parse_for`]): `H`, `H(0-29)`, `H/15`,
//!   `H(0-29)/10`. As a day of the month it is one of 1-28.
//! * `@yearly` (`@annually`), `@monthly`, `@weekly`, `@daily` (`@midnight`), `@hourly`.
//! * A period, `15m`, `1h30m`, `1d` or `@every 15m`: its ticks are the multiples of it since 1970-01-01T00:00:00Z,
//!   wherever and whenever a process starts. At least 1 s, whole seconds, at most 3650 d; a day has 24 hours.
//! * `CRON_TZ=Europe/Berlin ` or `TZ=…` in front, unless the zone is given beside the text.
//! * Refused, with a hint: `?`, years, `@reboot`, ranges that go backwards, and dates that never come.
//!
//! **Days.** If the day of the month *and* the day of the week are given, a day that matches either will do, unless one
//! of the two fields starts with `*` (`*/2` does): then it must match both. So it is in cron since Paul Vixie's.
//!
//! # When clocks change
//!
//! A *fixed* expression names times of day: neither minute nor hour starts with `*`, and the hours are not all 24. Each
//! of its times comes once on each local day:
//!
//! * Clocks go forward over it: it comes at the first instant after the gap; several in one gap are one tick.
//! * Clocks go back, and it is shown twice: it comes the first time.
//! * A date that a zone left out as a whole (Samoa's 30 December 2011) has no ticks. One that ends within a gap, as in
//!   Scoresbysund where clocks go from 23:00 to midnight, is no such date: what was due in the gap comes at its end.
//!
//! Any other expression is a *cadence*: it comes at every real instant at which the clocks show a match. Nothing is
//! made up for, nothing is left out when an hour is shown twice, and distances between ticks stay what they are in real
//! time.
//!
//! The offset is looked up for each tick, in the zone's data as they were when the schedule was read: read it again
//! after an update of `tzdata`. A zone is the system's (`TZDIR`, `/usr/share/zoneinfo`), or a built-in one where the
//! system doesn't know it. Nodes with data of different years may differ over a country that has changed its rules.
//!
//! # Exactly once
//!
//! A job that writes to the database with the locks can say that its tick is done in the transaction of its work: with the feature
//! `fence-tokio-postgres`, `fence-sqlx-mysql` or `fence-rusqlite`, `Run::complete_in`. What it writes there is written exactly once, if the job is
//! to run [at least once](Job::at_least_once): a node that dies before the commit leaves the tick to another, and
//! one that dies after it doesn't. `examples/billing.rs` is such a job.
//!
//! # How sure
//!
//! `tests/zones.rs` compares the ticks in every zone there is, around a change of its clocks from 2005 up to 2037, with
//! a search that looks at every minute. `scripts/check-zones` does so around each change of each zone, and goes through all
//! that is known of clocks since 1800; that takes some minutes.

mod attendant;
mod board;
mod clock;
mod cron;
mod duration;
mod ending;
mod error;
mod event;
mod history;
mod instant;
mod job;
mod late;
mod ledger;
mod node;
mod orders;
mod pace;
mod plan;
mod policy;
mod preview;
mod record;
mod roster;
mod schedule;
mod scheduler;
mod scribe;
mod settle;
mod state;
mod ticks;
mod turn;
mod watched;
mod work;

pub use board::KnownJob;
pub use clock::{SystemClock, WallClock};
pub use cron::lint::{Lint, LintRule};
pub use duration::duration;
pub use error::ScheduleError;
pub use event::{Event, How, NotRun, Observer};
pub use history::History;
pub use jiff::Timestamp;
pub use job::Job;
pub use ledger::Ledger;
pub use orders::{Asked, Orders, Pause};
pub use policy::{Missed, Overlap, Retries};
pub use preview::{Preview, Shown};
pub use record::{Entry, Record};
pub use roster::Roster;
pub use schedule::Schedule;
pub use scheduler::Scheduler;
pub use state::State;
pub use ticks::Ticks;
pub use work::{Cut, Ended, Failure, Left, Run, Work};
