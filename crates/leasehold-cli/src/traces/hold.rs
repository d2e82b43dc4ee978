//! A job at work, and how its lock goes on meanwhile.

use std::time::Duration;

use leasehold::{Event, FencingToken};

use super::Span;
use crate::output::milliseconds;
use crate::warden::{Status, signal_name};

/// So many renewals are told each; all are counted. A job may run for weeks, and its span is sent as a whole.
const MOST_RENEWALS: u32 = 32;

/// So much else is told.
const MOST_TOLD: u32 = 64;

/// The span of a job, which is told of the life of its lock.
#[derive(Debug)]
pub struct Hold {
    span: Span,
    renewals: u32,
    least_margin: Option<Duration>,
    told: u32,
}

impl Hold {
    /// A job that begins now, as a part of `run` and under this token; `program` is what it is called.
    pub fn of(run: &Span, token: FencingToken, program: String) -> Self {
        let span = run.calls("leasehold.job");
        // A token may be too large for a number elsewhere.
        span.set("leasehold.token", token.to_string());
        span.set("process.executable.name", program);
        Self { span, renewals: 0, least_margin: None, told: 0 }
    }

    /// What tells the job that it runs within this span.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Something happens to a lock under which it runs.
    pub fn observe(&mut self, event: &Event<'_>) {
        match event {
            Event::Renewed { name, margin, .. } => {
                self.renewals += 1;
                self.least_margin = Some(self.least_margin.map_or(*margin, |least| least.min(*margin)));
                if self.renewals <= MOST_RENEWALS {
                    let left = milliseconds(*margin).to_string();
                    self.span.event("renewed", [("leasehold.lock", name.to_string()), ("leasehold.margin_ms", left)]);
                }
            }
            Event::RenewalFailed { name, error, remaining, .. } if self.has_room() => {
                let left = milliseconds(*remaining).to_string();
                let why = ("error.message", error.to_string());
                let of = ("leasehold.lock", name.to_string());
                self.span.event("renewal_failed", [of, ("leasehold.margin_ms", left), why]);
            }
            Event::Lost { name, reason, .. } => {
                let why = ("leasehold.reason", reason.to_string());
                self.span.event("lost", [("leasehold.lock", name.to_string()), why]);
            }
            Event::Switched { to, epoch, .. } if self.has_room() => {
                let route = ("leasehold.route", to.to_string());
                self.span.event("switched", [route, ("leasehold.route.epoch", epoch.to_string())]);
            }
            Event::Stale { name, error, .. } if self.has_room() => {
                let why = ("error.message", error.to_string());
                self.span.event("refused_by_fence", [("leasehold.lock", name.to_string()), why]);
            }
            _ => {}
        }
    }

    fn has_room(&mut self) -> bool {
        self.told += 1;
        self.told <= MOST_TOLD
    }

    /// The job has ended, or has not been started: how, and what there is to say of it, if it is not what it should be.
    pub fn ends(self, status: Option<Status>, why: Option<String>) {
        self.span.set("leasehold.renewals", i64::from(self.renewals));
        if let Some(margin) = self.least_margin {
            self.span.set("leasehold.least_margin_ms", i64::try_from(margin.as_millis()).unwrap_or(i64::MAX));
        }
        let by_itself = match status {
            Some(Status::Exited(code)) => {
                self.span.set("process.exit.code", i64::from(code));
                (code != 0).then(|| format!("exit code {code}"))
            }
            Some(Status::Signaled(signal)) => {
                let signal = signal_name(signal);
                self.span.set("leasehold.signal", signal.clone());
                Some(format!("killed by {signal}"))
            }
            None => None,
        };
        if let Some(why) = why.or(by_itself) {
            self.span.fails(why);
        }
    }
}

#[cfg(all(test, feature = "otel"))]
mod tests {
    use std::time::SystemTime;

    use leasehold::validity::Moment;
    use leasehold::{HolderId, LockName};

    use super::*;
    use crate::traces::Tracer;

    /// Of a job that runs for weeks, over a store that hiccups all the while.
    #[test]
    fn what_is_told_of_a_job_has_an_end_and_all_is_counted() {
        let (tracer, sent) = Tracer::keeping();
        let run = tracer.root("leasehold.run", SystemTime::now());
        let mut hold = Hold::of(&run, FencingToken::new(1), "job".into());
        let (name, holder) = (LockName::new("a").unwrap(), HolderId::fresh());
        let error = leasehold::Error::new(leasehold::ErrorKind::Unavailable, "away");
        for second in (1..=1000).rev() {
            let (valid_until, margin, late) = (Moment::from_nanos(0), Duration::from_secs(second), Duration::ZERO);
            hold.observe(&Event::Renewed { name: &name, holder, valid_until, margin, late });
            hold.observe(&Event::RenewalFailed { name: &name, holder, error: &error, remaining: margin });
        }
        hold.ends(Some(Status::Exited(0)), None);
        let job = sent.lock().unwrap().remove(0);
        let count = |name: &str| job.events.iter().filter(|event| event.name == name).count();
        assert_eq!((count("renewed"), count("renewal_failed")), (32, 64));
        let set = |key: &str| job.attributes.iter().find(|set| set.key.as_str() == key).unwrap().value.to_string();
        assert_eq!((set("leasehold.renewals"), set("leasehold.least_margin_ms")), ("1000".into(), "1000".into()));
    }
}
