//! The trace of one `leasehold run`.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use leasehold::{Event, FencingToken, Guard, HolderId, Store};

use super::{CONTEXT, Hold, Span, Tracer, executable};
use crate::args::RunArgs;
use crate::cmd::run::ending::{Ending, Outcome};
use crate::output::{plain, tell};
use crate::warden::Status;

/// So many failed tries to get a lock are told.
const MOST_TRIES: u32 = 32;

/// The trace of one run, or none. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct RunTrace(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    tracer: Tracer,
    root: Span,
    is_quiet: bool,
    acquiring: Mutex<Option<Acquiring>>,
    hold: Mutex<Option<Hold>>,
    /// Of the last hold: what is set on a span can't be set anew.
    last: Mutex<Option<(FencingToken, HolderId, u32)>>,
    trouble: Arc<Mutex<Option<String>>>,
}

#[derive(Debug)]
struct Acquiring {
    span: Span,
    has_waited: bool,
    failed: u32,
}

/// A step of a run, which ends when it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Step(Option<Span>);

impl Step {
    /// What it came to.
    pub fn is(&self, outcome: &'static str) {
        if let Some(span) = &self.0 {
            span.set("leasehold.outcome", outcome);
        }
    }

    /// It could not be done.
    pub fn fails(&self, why: &str) {
        self.is("failed");
        if let Some(span) = &self.0 {
            span.fails(why.to_owned());
        }
    }
}

impl RunTrace {
    /// That of this command line, where the environment asks for one. To be begun when nothing is to be forked any more.
    pub fn begin(args: &RunArgs, since: SystemTime) -> Self {
        let trouble = Arc::new(Mutex::new(None));
        let hears = Arc::clone(&trouble);
        let tracer = Tracer::begin(move |why| *lock(&hears) = Some(why.to_owned())).unwrap_or_else(|why| {
            // These variables are often set for a whole machine: of a command that knows nothing of them only who asks for more hears.
            if args.verbose || (cfg!(feature = "otel") && !args.quiet) {
                tell(&format!("no traces are sent: {why}"));
            }
            None
        });
        Self(tracer.map(|tracer| {
            let root = tracer.continued("leasehold.run", since);
            root.set("process.executable.name", "leasehold");
            root.set("leasehold.lock", args.lock_name().unwrap_or_else(|_| args.name.clone()).to_string());
            if !args.also.is_empty() {
                let also: Vec<_> = args.also.iter().map(ToString::to_string).collect();
                root.set("leasehold.also", also.join(", "));
            }
            let (acquiring, hold, last) = (Mutex::default(), Mutex::default(), Mutex::default());
            Arc::new(Inner { tracer, root, is_quiet: args.quiet, acquiring, hold, last, trouble })
        }))
    }

    /// A step begins.
    pub fn step(&self, name: &'static str) -> Step {
        Step(self.0.as_ref().map(|inner| inner.root.child(name, SystemTime::now())))
    }

    /// In what store the locks are.
    pub fn is_over(&self, store: &dyn Store) {
        if let Some(inner) = &self.0 {
            inner.root.set("leasehold.store", store.traits().kind);
        }
    }

    /// For which slot it is.
    pub fn is_for(&self, tick: Option<String>) {
        if let (Some(inner), Some(tick)) = (&self.0, tick) {
            inner.root.set("leasehold.tick", tick);
        }
    }

    /// The lock is asked for.
    pub fn asks(&self) {
        if let Some(inner) = &self.0 {
            let span = inner.root.child("leasehold.acquire", SystemTime::now());
            *lock(&inner.acquiring) = Some(Acquiring { span, has_waited: false, failed: 0 });
        }
    }

    /// What that came to; why, if nobody knows.
    pub fn answered(&self, outcome: &'static str, failed: Option<&str>) {
        let Some(inner) = &self.0 else { return };
        if let Some(acquiring) = lock(&inner.acquiring).take() {
            let step = Step(Some(acquiring.span));
            match failed {
                Some(why) => step.fails(why),
                None => step.is(outcome),
            }
        }
    }

    /// The lock was granted, and its job begins: variables to set for it, by which the trace goes on in it, and those to take away.
    pub fn job(&self, guard: &Guard, command: &[OsString]) -> (Vec<(OsString, OsString)>, Vec<OsString>) {
        let Some(inner) = &self.0 else { return Default::default() };
        let hold = Hold::of(&inner.root, guard.token(), executable(command.first()));
        let variables = hold.span().variables();
        *lock(&inner.hold) = Some(hold);
        *lock(&inner.last) = Some((guard.token(), guard.holder(), guard.attempt().max(1)));
        (variables, CONTEXT.map(OsString::from).into())
    }

    /// It has ended, or was not started after all.
    pub fn job_ended(&self, status: Option<Status>, why: Option<String>) {
        let Some(inner) = &self.0 else { return };
        if let Some(hold) = lock(&inner.hold).take() {
            hold.ends(status, why);
        }
    }

    /// Something happens to its locks.
    pub fn observe(&self, event: &Event<'_>) {
        let Some(inner) = &self.0 else { return };
        if let Some(hold) = lock(&inner.hold).as_mut() {
            hold.observe(event);
        } else if let Some(acquiring) = lock(&inner.acquiring).as_mut() {
            acquiring.observe(event);
        }
    }

    /// It has ended so. Waits for the collector, for a second at the most.
    pub fn end(&self, ending: &Ending) {
        let Some(inner) = &self.0 else { return };
        // What no job was started for, or no answer came to, ends with it.
        *lock(&inner.acquiring) = None;
        *lock(&inner.hold) = None;
        inner.sum_up(ending);
        inner.root.ends();
        let is_in_time = inner.tracer.end();
        let trouble = lock(&inner.trouble).take();
        let why = trouble.or_else(|| (!is_in_time).then(|| "it has not answered within a second".to_owned()));
        if let Some(why) = why.filter(|_| !inner.is_quiet) {
            tell(&format!("the collector has not taken the whole trace of this run: {why}"));
        }
    }
}

impl Inner {
    /// What is known only at the end.
    fn sum_up(&self, ending: &Ending) {
        if let Some((token, holder, attempt)) = *lock(&self.last) {
            self.root.set("leasehold.token", token.to_string());
            self.root.set("leasehold.holder", holder.to_string());
            self.root.set("leasehold.attempt", i64::from(attempt));
        }
        let code = ending.code();
        self.root.set("leasehold.outcome", ending.outcome.word());
        self.root.set("process.exit.code", i64::from(code));
        if let Some(reason) = &ending.reason {
            self.root.set("leasehold.reason", plain(reason));
        }
        // That another holds the lock is an answer, whatever the exit code for it.
        let is_an_answer = matches!(ending.outcome, Outcome::Held | Outcome::Skipped | Outcome::Interrupted);
        if !is_an_answer && (code != 0 || ending.outcome == Outcome::Lost) {
            self.root.fails(ending.reason.as_deref().map_or_else(|| format!("exit code {code}"), plain));
        }
    }
}

impl Acquiring {
    fn observe(&mut self, event: &Event<'_>) {
        match event {
            Event::Waiting { name, holding, .. } if !self.has_waited => {
                self.has_waited = true;
                let of = [
                    ("leasehold.lock", name.to_string()),
                    ("leasehold.held_by", plain(&holding.label)),
                    ("leasehold.ahead", holding.waiting.to_string()),
                ];
                self.span.event("waiting", of);
            }
            Event::AcquireFailed { name, error, .. } if self.failed < MOST_TRIES => {
                self.failed += 1;
                let why = ("error.message", error.to_string());
                self.span.event("acquire_failed", [("leasehold.lock", name.to_string()), why]);
            }
            _ => {}
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
