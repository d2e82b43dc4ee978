//! What a scheduler tells: a line for each event, for people or for programs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leasehold::{Error, ErrorKind};
use leasehold_schedule::{Event, How};
use serde::Serialize;

use super::health::Health;
use super::notify::Notify;
use super::output::Stream;
use super::writer::Writer;
use crate::args::ScheduleArgs;
use crate::output::{counted, duration as span, milliseconds, plain, utc};

/// The same trouble is told of so often, however often it comes up.
const TOLD_EVERY: Duration = Duration::from_secs(600);

/// So many troubles are remembered.
const MOST_TROUBLES: usize = 1000;

/// One thing that happened. The shape is a promise to scripts: fields may be added, none goes.
#[derive(Debug, Default, Serialize)]
pub struct Entry<'a> {
    at: String,
    /// What sort of thing.
    pub event: &'a str,
    /// Which job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<&'a str>,
    /// Which tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tick: Option<String>,
    /// How often that was begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Under which token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `stdout` or `stderr`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<&'a str>,
    /// What a job wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<&'a str>,
    /// The same for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Who wants to hear of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Also whoever wants to hear as little as can be.
    Matters,
    /// Whoever says nothing.
    Usual,
    /// Whoever wants to hear all.
    Detail,
}

/// Tells what happens. Its events come from the keeper's thread as well.
pub struct Journal {
    writer: Writer,
    health: Arc<Health>,
    notify: Arc<Notify>,
    json: bool,
    told_up_to: Weight,
    failed_renewals: AtomicU32,
    /// When a trouble was told last.
    troubles: Mutex<HashMap<String, Instant>>,
}

impl Journal {
    /// One that tells as it was asked to.
    pub fn of(args: &ScheduleArgs, writer: Writer, health: Arc<Health>, notify: Arc<Notify>) -> Self {
        let told_up_to = match (args.quiet, args.verbose) {
            (true, _) => Weight::Matters,
            (_, true) => Weight::Detail,
            _ => Weight::Usual,
        };
        Self {
            writer,
            health,
            notify,
            json: args.json,
            told_up_to,
            failed_renewals: AtomicU32::new(0),
            troubles: Mutex::default(),
        }
    }

    /// Tells something, if it weighs enough.
    pub fn tell(&self, weight: Weight, mut entry: Entry<'_>) {
        if weight > self.told_up_to {
            return;
        }
        self.writer.write_left_out(self.stream(), |lines| {
            let were = if lines == 1 { "was" } else { "were" };
            let message = format!("{} {were} left out, as nobody read them in time", counted(lines, "line"));
            self.text(Entry { event: "warning", message, ..Entry::default() })
        });
        entry.message = plain(&entry.message);
        self.write(entry);
    }

    /// Tells people something that has no fields but its words.
    pub fn say(&self, weight: Weight, event: &str, message: impl Into<String>) {
        self.tell(weight, Entry { event, message: message.into(), ..Entry::default() });
    }

    fn write(&self, entry: Entry<'_>) {
        self.writer.write(self.stream(), self.text(entry));
    }

    /// Where events are told.
    fn stream(&self) -> Stream {
        if self.json { Stream::Stdout } else { Stream::Stderr }
    }

    fn text(&self, mut entry: Entry<'_>) -> String {
        if self.json {
            entry.at = utc(std::time::SystemTime::now());
            serde_json::to_string(&entry).expect("an entry has no maps")
        } else {
            format!("leasehold: {}", entry.message)
        }
    }

    /// Hands on a line that a job wrote.
    pub fn line(&self, job: &str, stream: Stream, text: &str) {
        if self.json {
            let name = if stream == Stream::Stdout { "stdout" } else { "stderr" };
            let entry =
                Entry { event: "output", job: Some(job), stream: Some(name), text: Some(text), ..Entry::default() };
            self.write(entry);
        } else {
            self.writer.write(stream, format!("{}: {text}", plain(job)));
        }
    }

    /// Tells of jobs.
    pub fn event(&self, event: &Event<'_>) {
        match event {
            Event::Started { job, tick, attempt, token, .. } => {
                self.is_back(self.health.store_grants(Instant::now()));
                let again = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
                self.tell(
                    Weight::Usual,
                    Entry {
                        event: "started",
                        job: Some(job),
                        tick: Some(tick.to_string()),
                        attempt: Some(*attempt),
                        token: Some(token.to_string()),
                        message: format!("{job}: started for {tick}{again}"),
                        ..Entry::default()
                    },
                );
            }
            Event::Ended { job, tick, took, how } => {
                let (weight, event, reason) = ending(how);
                let why = reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
                self.tell(
                    weight,
                    Entry {
                        event,
                        job: Some(job),
                        tick: Some(tick.to_string()),
                        took_ms: Some(milliseconds(*took)),
                        message: format!("{job}: {event} for {tick} after {}{why}", span(*took)),
                        reason,
                        ..Entry::default()
                    },
                );
            }
            Event::NotRun { job, tick, why } => self.tell(
                Weight::Matters,
                Entry {
                    event: "not_run",
                    job: Some(job),
                    tick: Some(tick.to_string()),
                    reason: Some(why.to_string()),
                    message: format!("{job}: not run for {tick}: {why}"),
                    ..Entry::default()
                },
            ),
            Event::ClockIsFast { job, ahead } => self.clock_is_fast(job, *ahead),
            Event::StoreIsAway { error, .. } if is_away(error) => self.store_is_away(error),
            Event::StoreIsAway { job, error } | Event::StoreRefuses { job, error } => self.store_refuses(job, error),
            Event::LedgerFailed { error } if is_away(error) => self.store_is_away(error),
            Event::LedgerFailed { error } => self.ledger_failed(error),
            _ => {}
        }
    }

    /// Tells of locks what the jobs' own events don't.
    pub fn lock_event(&self, event: &leasehold::Event<'_>) {
        match event {
            leasehold::Event::Renewed { .. } => self.failed_renewals.store(0, Ordering::Relaxed),
            // One failure is a hiccup; it is tried again well before it matters.
            leasehold::Event::RenewalFailed { name, error, remaining, .. }
                if self.failed_renewals.fetch_add(1, Ordering::Relaxed) > 0 =>
            {
                let left = span(*remaining);
                let what = format!("{name}: its lock could not be renewed ({error}); {left} are left");
                self.about_lock(name.as_str(), what);
            }
            leasehold::Event::GaveUp { name, tick } => {
                let why = "is not known to have succeeded and is given up, as are too many later ones";
                self.about_lock(name.as_str(), format!("{name}: the run of {tick} {why}"));
            }
            leasehold::Event::Switched { to, epoch, within, .. } => {
                let when = within.map_or_else(String::new, |within| format!(", in {} at the latest", span(within)));
                self.say(Weight::Matters, "lock", format!("locks move to {to} (route {epoch}){when}"));
            }
            _ => {}
        }
    }

    fn about_lock(&self, job: &str, message: String) {
        self.tell(Weight::Matters, Entry { event: "lock", job: Some(job), message, ..Entry::default() });
    }

    fn clock_is_fast(&self, job: &str, ahead: Duration) {
        if self.is_news("clock".into()) {
            let ahead = span(ahead);
            let message =
                format!("the clock here is fast: for the store {job} is due {ahead} later; it waits until then");
            self.tell(Weight::Matters, Entry { event: "clock_is_fast", job: Some(job), message, ..Entry::default() });
        }
    }

    /// It is there, and doesn't do what it is asked for.
    fn store_refuses(&self, job: &str, error: &Error) {
        if self.is_news(format!("{job}: {error}")) {
            let name = if job.is_empty() { "the store".into() } else { plain(job) };
            self.about_lock(job, format!("{name}: {error}; it is asked again"));
        }
    }

    /// The ledger decides nothing.
    fn ledger_failed(&self, error: &Error) {
        if self.is_news(error.to_string()) {
            self.say(Weight::Matters, "ledger", format!("runs can't be recorded, or orders read: {error}"));
        }
    }

    /// Whether this was not told a short while ago.
    fn is_news(&self, trouble: String) -> bool {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if troubles.len() >= MOST_TROUBLES {
            troubles.clear();
        }
        let told = troubles.entry(trouble).or_insert(now);
        let is_news = *told == now || now - *told >= TOLD_EVERY;
        if is_news {
            *told = now;
        }
        is_news
    }

    /// The store answers.
    pub fn store_answers(&self) {
        self.is_back(self.health.store_answers(Instant::now()));
    }

    fn is_back(&self, away: Option<Duration>) {
        if let Some(away) = away {
            let took_ms = Some(milliseconds(away));
            let message = format!("the store answers again, after {}", span(away));
            self.notify.status("the store answers");
            self.tell(Weight::Matters, Entry { event: "back", took_ms, message, ..Entry::default() });
        }
    }

    /// The store is away, and will be asked again. Told once.
    pub fn store_is_away(&self, error: &Error) {
        if self.health.store_is_away(Instant::now(), error.to_string()) {
            let message = format!("the store is away ({error}); it is asked again until it answers");
            self.notify.status("the store is away");
            let reason = Some(error.to_string());
            self.tell(Weight::Matters, Entry { event: "away", reason, message, ..Entry::default() });
        }
    }

    /// Waits until all is written, but not for ever.
    pub fn end(&self) {
        self.writer.end();
    }
}

fn is_away(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TimedOut)
}

/// How much it weighs, what it is called, and why.
fn ending(how: &How) -> (Weight, &'static str, Option<String>) {
    match how {
        How::Done => (Weight::Usual, "done", None),
        How::Failed(why) => (Weight::Matters, "failed", Some(why.clone())),
        How::Died(why) => (Weight::Matters, "lost", Some(why.clone())),
        How::Lost(reason) => (Weight::Matters, "lost", Some(reason.to_string())),
        How::Stopped => (Weight::Matters, "stopped", Some("this scheduler is stopping".into())),
    }
}
