//! The traces of a scheduler: one for each tick that it runs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use leasehold::{Event, FencingToken, HolderId, LockName, Tick};
use leasehold_schedule::{Event as JobEvent, How, NotRun};

use super::{Hold, Span, Tracer, executable};
use crate::output::plain;
use crate::warden::Status;

/// The traces of a scheduler, or none. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct TickTraces(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    tracer: Tracer,
    grants: Mutex<BTreeMap<HolderId, Grant>>,
}

/// A lock that was granted, and what has been told of the run that it is for. Until then there is none: a lock is taken for other reasons, too.
#[derive(Debug)]
struct Grant {
    name: LockName,
    token: FencingToken,
    asked: SystemTime,
    granted: SystemTime,
    run: Option<Run>,
}

#[derive(Debug)]
struct Run {
    tick: Tick,
    token: FencingToken,
    span: Span,
    hold: Option<Hold>,
    release: Option<Span>,
}

impl Grant {
    fn observe(&mut self, event: &Event<'_>) {
        if let Some(hold) = self.run.as_mut().and_then(|run| run.hold.as_mut()) {
            hold.observe(event);
        }
    }
}

impl TickTraces {
    /// Those of this process, where the environment asks for them. To be begun when nothing is to be forked any more. `tell` hears, once, why
    /// the collector takes none.
    ///
    /// # Errors
    /// Why there are none, though they are asked for.
    pub fn begin(tell: impl Fn(&str) + Send + 'static) -> Result<Self, String> {
        let tracer = Tracer::begin(tell)?;
        Ok(Self(tracer.map(|tracer| Arc::new(Inner { tracer, grants: Mutex::default() }))))
    }

    /// Something happens to a lock.
    pub fn lock_event(&self, event: &Event<'_>) {
        let Some(inner) = &self.0 else { return };
        match event {
            Event::Acquired { name, holder, token, waited, .. } => {
                let granted = SystemTime::now();
                let asked = granted.checked_sub(*waited).unwrap_or(granted);
                let grant = Grant { name: (*name).clone(), token: *token, asked, granted, run: None };
                inner.grants().insert(*holder, grant);
            }
            Event::LetGo { holder, .. } => inner.is_let_go(*holder),
            Event::Released { holder, in_time, .. } => {
                inner.is_released(*holder, if *in_time { "in_time" } else { "too_late" }, None);
            }
            Event::ReleaseFailed { holder, error, .. } => inner.is_released(*holder, "failed", Some(error.to_string())),
            Event::Renewed { holder, .. }
            | Event::RenewalFailed { holder, .. }
            | Event::Lost { holder, .. }
            | Event::Stale { holder, .. } => {
                if let Some(grant) = inner.grants().get_mut(holder) {
                    grant.observe(event);
                }
            }
            // Of all locks at once.
            Event::Switched { .. } => inner.grants().values_mut().for_each(|grant| grant.observe(event)),
            _ => {}
        }
    }

    /// Something happens to a job.
    pub fn job_event(&self, event: &JobEvent<'_>) {
        let Some(inner) = &self.0 else { return };
        match event {
            JobEvent::Started { job, tick, attempt, token, .. } => inner.begins(job, *tick, *attempt, *token),
            JobEvent::Ended { job, tick, how, .. } => inner.ends(job, *tick, how),
            JobEvent::NotRun { job, tick, why } => inner.is_not_run(job, *tick, why),
            _ => {}
        }
    }

    /// A job's program is about to be started under this lock: the variables by which the trace goes on in it.
    pub fn job(&self, holder: HolderId, command: &[OsString]) -> Vec<(OsString, OsString)> {
        let mut variables = Vec::new();
        if let Some(inner) = &self.0 {
            inner.with_run(holder, |run| {
                let hold = Hold::of(&run.span, run.token, executable(command.first()));
                variables = hold.span().variables();
                run.hold = Some(hold);
            });
        }
        variables
    }

    /// It has ended, or was not started after all.
    pub fn job_ended(&self, holder: HolderId, status: Option<Status>, why: Option<String>) {
        if let Some(inner) = &self.0 {
            inner.with_run(holder, |run| {
                if let Some(hold) = run.hold.take() {
                    hold.ends(status, why);
                }
            });
        }
    }

    /// Sends the last ones, for a second at the most. Not to be called on a runtime.
    pub fn end(&self) {
        if let Some(inner) = &self.0 {
            inner.grants().clear(); // ends what has not ended
            inner.tracer.end();
        }
    }
}

impl Inner {
    fn grants(&self) -> MutexGuard<'_, BTreeMap<HolderId, Grant>> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_run(&self, holder: HolderId, then: impl FnOnce(&mut Run)) {
        if let Some(run) = self.grants().get_mut(&holder).and_then(|grant| grant.run.as_mut()) {
            then(run);
        }
    }

    /// The run of a tick begins, under the lock that has this token.
    fn begins(&self, job: &str, tick: Tick, attempt: u32, token: FencingToken) {
        let mut grants = self.grants();
        let is_its = |grant: &&mut Grant| grant.token == token && grant.name.as_str() == job;
        let Some(grant) = grants.values_mut().find(is_its) else { return };
        let span = self.tick(job, tick, grant.asked);
        span.set("leasehold.lock", grant.name.to_string());
        span.set("leasehold.token", token.to_string());
        span.set("leasehold.attempt", i64::from(attempt));
        let acquire = span.child("leasehold.acquire", grant.asked);
        acquire.set("leasehold.outcome", "acquired");
        acquire.ended_at(grant.granted);
        grant.run = Some(Run { tick, token, span, hold: None, release: None });
    }

    fn ends(&self, job: &str, tick: Tick, how: &How) {
        let mut grants = self.grants();
        let is_its =
            |grant: &Grant| grant.name.as_str() == job && grant.run.as_ref().is_some_and(|run| run.tick == tick);
        let Some(holder) = grants.iter().find(|(_, grant)| is_its(grant)).map(|(holder, _)| *holder) else { return };
        let Some(run) = grants.remove(&holder).and_then(|grant| grant.run) else { return };
        let (outcome, why) = match how {
            How::Done => ("done", None),
            How::Failed(why) => ("failed", Some(why.clone())),
            How::Died(why) => ("lost", Some(why.clone())),
            How::Lost(reason) => ("lost", Some(reason.to_string())),
            How::Stopped => ("stopped", None),
        };
        run.span.set("leasehold.outcome", outcome);
        if let Some(why) = why {
            run.span.set("leasehold.reason", plain(&why));
            run.span.fails(plain(&why));
        }
    }

    /// A trace of one span: somebody may look for it.
    fn is_not_run(&self, job: &str, tick: Tick, why: &NotRun) {
        let span = self.tick(job, tick, SystemTime::now());
        span.set("leasehold.outcome", "not_run");
        span.set("leasehold.reason", plain(&why.to_string()));
    }

    fn tick(&self, job: &str, tick: Tick, since: SystemTime) -> Span {
        let span = self.tracer.root("leasehold.tick", since);
        span.set("leasehold.job", job.to_owned());
        span.set("leasehold.tick", tick.to_string());
        span
    }

    fn is_let_go(&self, holder: HolderId) {
        let mut grants = self.grants();
        match grants.get_mut(&holder).map(|grant| grant.run.as_mut()) {
            Some(Some(run)) => run.release = Some(run.span.child("leasehold.release", SystemTime::now())),
            Some(None) => drop(grants.remove(&holder)),
            None => {}
        }
    }

    /// It is given back, or could not be at first.
    fn is_released(&self, holder: HolderId, outcome: &'static str, failed: Option<String>) {
        self.with_run(holder, |run| {
            if let Some(release) = run.release.take() {
                release.set("leasehold.outcome", outcome);
                if let Some(why) = failed {
                    release.fails(why);
                }
            }
        });
    }
}
