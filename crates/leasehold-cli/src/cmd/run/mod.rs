//! `leasehold run NAME -- CMD…`: the main job.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leasehold::validity::Moment;
use leasehold::{Event, Guard, Holding, Locks, LossReason, Outcome, Released, Wait};

use crate::args::RunArgs;
use crate::config::Config;
use crate::exit::{self, Failure};
use crate::output::{duration as span, plain, tell};
use crate::warden::{Cut, Deadlines, End, Found, Options, Warden};

/// Runs the command under the lock, and answers with the exit code.
///
/// # Errors
/// The store could not say, or the process could not be set up; the command did not run.
pub fn run(args: &RunArgs, config: &Config) -> Result<i32, Failure> {
    let found = Found::read().map_err(|error| fault("block signals", &error))?;
    // The warden is forked before any thread exists, and starts while we open the store.
    let options = Options { kill_after: args.kill_after(), wait_group: args.wait_group, again: false };
    let warden = Warden::fork(found, args.command.clone(), options).map_err(|error| fault("fork", &error))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| fault("make an event queue", &error))?;
    runtime.block_on(Run::new(args, config, warden)?.run())
}

fn fault(doing: &str, error: &std::io::Error) -> Failure {
    Failure::new(exit::FAULT, format!("the operating system does not let us {doing}: {error}"))
}

/// One run: the lock, the warden and what to tell about them.
struct Run<'a> {
    args: &'a RunArgs,
    config: &'a Config,
    warden: Warden,
    locks: Locks,
    teller: Arc<Teller>,
}

impl<'a> Run<'a> {
    fn new(args: &'a RunArgs, config: &'a Config, warden: Warden) -> Result<Self, Failure> {
        let teller = Arc::new(Teller::new(args, warden.deadlines()));
        let observer = Arc::clone(&teller);
        let locks = Locks::builder()
            .job(&job_name(&args.command))
            .observer(move |event: &Event<'_>| observer.tell(event))
            .connect(config.url())
            .map_err(|error| config.blame(error))?;
        Ok(Self { args, config, warden, locks, teller })
    }

    async fn run(mut self) -> Result<i32, Failure> {
        if self.args.verbose {
            tell(&format!("locks are in {}", self.config.shown()));
        }
        let guard = match self.acquire().await? {
            Outcome::Acquired(guard) => guard,
            Outcome::Contended(holding) => {
                self.teller.refused(&holding, self.args.wait.is_some());
                return Ok(self.args.held_exit_code.into());
            }
        };
        let end = self.job(&guard).await;
        self.finish(guard, end).await
    }

    /// Acquires the lock, unless a signal asks us to give up first.
    async fn acquire(&mut self) -> Result<Outcome, Failure> {
        let lock = self.lock()?;
        let acquired = async {
            match self.args.wait {
                None => lock.try_acquire().await,
                Some(_) => lock.acquire().await,
            }
        };
        let fatal = tokio::select! {
            biased;
            fatal = self.warden.stop_requested() => fatal,
            outcome = acquired => {
                self.teller.stop_waiting();
                return Ok(outcome?);
            }
        };
        self.teller.stop_waiting();
        // What the cancelled acquire may have left is taken out of the store before we are gone; a store that doesn't
        // answer forgets it after the TTL.
        let _ = tokio::time::timeout(LAST_WORDS, self.locks.shutdown()).await;
        fatal.exit()
    }

    fn lock(&self) -> Result<leasehold::Lock, Failure> {
        let mut lock = self.locks.lock(self.args.name.as_str()).ttl(self.args.ttl).stop_grace(self.args.kill_after());
        if let Some(least) = self.args.at_least_for {
            lock = lock.at_least_for(least);
        }
        if let Some(most) = self.args.max_hold {
            lock = lock.max_hold(most);
        }
        let wait = self.args.wait.flatten().map_or(Wait::Forever, Wait::For);
        Ok(lock.wait(wait).checked()?)
    }

    /// Runs the job, which the warden ends in time if the lease ends first.
    async fn job(&mut self, guard: &Guard) -> End {
        let env = [
            ("LEASEHOLD_LOCK", guard.name().to_string()),
            ("LEASEHOLD_HOLDER", guard.holder().to_string()),
            ("LEASEHOLD_TOKEN", guard.token().to_string()),
        ];
        let env = env.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        // A tick of an outer `leasehold` is none of this lock's.
        let mut remove = Config::secret_variables();
        remove.push("LEASEHOLD_TICK".into());

        let deadlines = self.warden.deadlines();
        let mut job = std::pin::pin!(self.warden.run(&env, &remove));
        tokio::select! {
            biased;
            end = &mut job => return end,
            reason = guard.lost() => deadlines.end_now(cut_for(&reason)),
        }
        job.await
    }

    /// Gives the lock back and says with which code to exit.
    async fn finish(&self, guard: Guard, end: End) -> Result<i32, Failure> {
        if let End::Unkillable(pids) = &end {
            let pids: Vec<_> = pids.iter().map(ToString::to_string).collect();
            tell(&format!(
                "can't kill process {}: it belongs to another user or hangs in the kernel; the lock {} is left to end by itself",
                pids.join(", "),
                guard.name()
            ));
            std::mem::forget(guard); // Not to be released: the job may still be at work.
            return Ok(exit::LOST);
        }
        let loss = guard.loss();
        self.release(guard, loss.is_some()).await;
        match end {
            End::Exited(code) => Ok(code),
            End::Signaled(fatal) | End::NeverStarted(fatal) => fatal.exit(),
            End::NotStarted(errno) => {
                let program = self.args.command[0].to_string_lossy();
                Err(Failure::new(End::not_started_code(errno), format!("{program}: {}", errno.desc())))
            }
            End::Cut { why, job } => {
                let started = if job.is_some() { "the job was stopped" } else { "the job was not started" };
                let reason = loss.map_or_else(|| reason_of(why).to_owned(), |loss| loss.to_string());
                Err(Failure::new(exit::LOST, format!("the lock {} was lost: {reason}; {started}", self.args.name)))
            }
            End::WardenLost | End::Unkillable(_) => {
                Err(Failure::new(exit::FAULT, "our process that watches over the job was killed; the job was stopped"))
            }
        }
    }

    /// A release that fails doesn't change the job's result; the lock ends with its TTL.
    async fn release(&self, guard: Guard, lost: bool) {
        match guard.release().await {
            Ok(Released::InTime) => {}
            Ok(Released::TooLate) if lost => {} // That is told anyway.
            Ok(Released::TooLate) => tell(&format!(
                "the lock {} was not ours any more when the job had ended: another may have run beside it",
                self.args.name
            )),
            Err(error) => tell(&format!(
                "the lock {} could not be released ({error}); it ends by itself within {}",
                self.args.name,
                span(self.args.ttl)
            )),
        }
    }
}

/// How long somebody who was told to stop is kept waiting by a store that doesn't answer.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What the job is called, for people.
fn job_name(command: &[OsString]) -> String {
    let program = command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    program.to_string_lossy().into_owned()
}

fn cut_for(reason: &LossReason) -> Cut {
    match reason {
        LossReason::HeldTooLong => Cut::MaxHold,
        _ => Cut::Lost,
    }
}

fn reason_of(why: Cut) -> &'static str {
    match why {
        Cut::Deadline => "it could not be renewed in time",
        Cut::Lost => "the store says that it is held no longer",
        Cut::MaxHold => "it was held for longer than --max-hold",
    }
}

/// Tells people what happens, and the warden until when the lease is good.
///
/// Its events come from the keeper's thread as well.
struct Teller {
    deadlines: Deadlines,
    kill_after: Duration,
    margin: Duration,
    verbose: bool,
    quiet: bool,
    waiting: ProgressBar,
    told_waiting: AtomicU32,
    failures: AtomicU32,
}

impl Teller {
    fn new(args: &RunArgs, deadlines: Deadlines) -> Self {
        let waiting = if std::io::stderr().is_terminal() && !args.quiet && args.wait.is_some() {
            let style = ProgressStyle::with_template("{spinner} {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
        } else {
            ProgressBar::hidden()
        };
        Self {
            deadlines,
            kill_after: args.kill_after(),
            margin: killing_takes(args.ttl),
            verbose: args.verbose,
            quiet: args.quiet,
            waiting,
            told_waiting: AtomicU32::new(0),
            failures: AtomicU32::new(0),
        }
    }

    fn tell(&self, event: &Event<'_>) {
        match event {
            Event::Waiting { name, holding, waited } => self.waits(name.as_str(), holding, *waited),
            Event::Acquired { name, token, waited, valid_until, .. } => {
                self.good_until(*valid_until);
                self.say(format_args!("got {name} with token {token} after {}", span(*waited)));
            }
            Event::Renewed { name, valid_until, margin, .. } => {
                self.good_until(*valid_until);
                self.failures.store(0, Ordering::Relaxed);
                self.say(format_args!("renewed {name}; {} were left", span(*margin)));
            }
            // One failure is a hiccup; it is tried again well before it matters.
            Event::RenewalFailed { name, error, remaining, .. }
                if self.failures.fetch_add(1, Ordering::Relaxed) > 0 || self.verbose =>
            {
                tell(&format!("{name} could not be renewed ({error}); {} are left", span(*remaining)));
            }
            Event::Lost { name, reason, .. } => self.say(format_args!("{name} is lost: {reason}")),
            Event::Released { name, held, .. } => self.say(format_args!("released {name} after {}", span(*held))),
            _ => {}
        }
    }

    /// The job is killed before the lease ends by the time that killing takes, and told to end `kill_after` before.
    fn good_until(&self, valid_until: Moment) {
        let kill_at = valid_until - self.margin;
        self.deadlines.set((kill_at - self.kill_after).as_nanos(), kill_at.as_nanos());
    }

    fn say(&self, what: std::fmt::Arguments<'_>) {
        if self.verbose {
            tell(&what.to_string());
        }
    }

    /// On a terminal a line that changes; elsewhere one line, once.
    fn waits(&self, name: &str, holding: &Holding, waited: Duration) {
        let ahead = match holding.waiting {
            0 => String::new(),
            1 => ", 1 ahead of us".into(),
            more => format!(", {more} ahead of us"),
        };
        if !self.waiting.is_hidden() {
            self.waiting.set_message(format!(
                "waiting for {name}, {} so far: {}{ahead}",
                span(waited),
                who_has(holding)
            ));
            self.waiting.tick();
        } else if !self.quiet && self.told_waiting.fetch_add(1, Ordering::Relaxed) == 0 {
            tell(&format!("waiting for {name}: {}{ahead}", who_has(holding)));
        }
    }

    fn stop_waiting(&self) {
        self.waiting.finish_and_clear();
    }

    fn refused(&self, holding: &Holding, waited: bool) {
        if !self.quiet {
            let given_up = if waited { "gave up waiting" } else { "not run" };
            tell(&format!("{}: {}; {given_up}", holding.name, who_has(holding)));
        }
    }
}

/// Between the KILL and the end of the validity: killing takes time. 50 ms are enough for some hundred
/// processes, 250 ms for two thousand.
fn killing_takes(ttl: Duration) -> Duration {
    (ttl / 20).clamp(Duration::from_millis(50), Duration::from_millis(250))
}

fn who_has(holding: &Holding) -> String {
    match holding.holder {
        Some(_) => format!("held by {} for {}", plain(&holding.label), span(holding.held_for)),
        None if holding.remaining.is_zero() => "free, and somebody before us is about to get it".into(),
        None => {
            format!("held back for {} more after its last run by {}", span(holding.remaining), plain(&holding.label))
        }
    }
}
