//! `leasehold run NAME -- CMD…`: the main job.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leasehold::validity::{BootClock, Clock};
use leasehold::{
    Event, Guard, LockName, Locks, LocksBuilder, LossReason, MultiGuard, MultiLock, NotDue, Outcome, Released, Wait,
};

use leasehold_monitor::{Keeping, Tally};
use nix::errno::Errno;
use nix::unistd::Pid;

use self::backoff::Backoff;
use self::ending::Ending;
use self::metrics_file::MetricsFile;
use self::once::Once;
use self::report::Report;
use self::teller::Teller;
use self::terms::Terms;
use self::watchers::Watchers;
use super::block_on;
use crate::args::{AskedReport, RunArgs};
use crate::config::{Config, OnDown};
use crate::exit::{self, Failure};
use crate::metering::Metering;
use crate::output::{duration as span, plain, tell};
use crate::traces::RunTrace;
use crate::warden::{Cut, End, Fatal, Found, Options, Status, Warden};

mod backoff;
pub mod ending;
mod losses;
mod metrics_file;
mod once;
mod report;
mod report_file;
mod teller;
mod terms;
mod watchers;

/// Runs the command under the lock, and answers with the exit code. A signal that is to end us ends the process here.
///
/// # Errors
/// The store could not say, or the process could not be set up; the command did not run.
pub fn run(args: &RunArgs, config: Result<Config, Failure>) -> Result<i32, Failure> {
    let found = Found::read().map_err(|error| fault("block signals", &error))?;
    // Before all that can fail: yesterday's success must not stand in the file when it does.
    let mut report = Report::begin(args)?;
    let (since, trace) = (SystemTime::now(), OnceCell::new());
    let trace = || -> &RunTrace { trace.get_or_init(|| RunTrace::begin(args, since)) };
    let ending = config.and_then(|config| {
        let on_down = args.on_down.unwrap_or(config.on_down());
        under_lock(args, &config, found, &mut report, &trace)
            .map_err(|failure| config.complete(&failure))
            .or_else(|failure| without_a_store(args, on_down, failure))
    });
    let ending = ending.unwrap_or_else(Ending::failed);
    report.end(&ending);
    trace().end(&ending);
    ending.exit()
}

/// A command line that is wrong: yesterday's success must not stand in the file of its report.
pub fn refuse(report: AskedReport, mistake: &Failure) {
    // If that can't be written, the mistake is still what is told.
    if let Ok(mut report) = Report::new(report.lock, Some(&report.file)) {
        report.end(&Ending::failed(Failure::new(mistake.code, mistake.message.clone())));
    }
}

fn under_lock<'t>(
    args: &RunArgs,
    config: &Config,
    found: Found,
    report: &mut Report,
    trace: &dyn Fn() -> &'t RunTrace,
) -> Result<Ending, Failure> {
    // The warden is forked before any thread exists, and starts while we open the store.
    let terms = Terms::of(args, config.place());
    let options =
        Options { kill_after: terms.kill_after, wait_group: args.wait_group, again: args.forever, last_word: None };
    let warden = Warden::fork(found, args.command.clone(), options).map_err(|error| fault("fork", &error))?;
    let mut metrics = MetricsFile::of(args)?;
    let ending = block_on(async {
        let run = Run::new(args, terms, config, warden, report, (metrics.metering(), trace().clone()));
        let keeping = OnceCell::new();
        let ending = run.run(&keeping).await;
        if let Some(keeping) = keeping.into_inner() {
            keeping.end(LAST_COUNT).await;
        }
        ending
    });
    metrics.write();
    ending
}

/// No job was started, and none is as long as nobody can say that it may.
fn without_a_store(args: &RunArgs, on_down: OnDown, failure: Failure) -> Result<Ending, Failure> {
    if on_down == OnDown::Fail || failure.code != exit::UNAVAILABLE {
        return Err(failure);
    }
    let reason = format!("the store can't be reached ({}); this run is skipped", failure.message);
    tell(&format!("{}: {reason}", args.name));
    Ok(Ending::skipped(reason))
}

fn fault(doing: &str, error: &std::io::Error) -> Failure {
    Failure::new(exit::FAULT, format!("the operating system does not let us {doing}: {error}"))
}

/// One invocation: the warden, what to tell, and one hold of the lock or (`--forever`) one after another.
struct Run<'a> {
    args: &'a RunArgs,
    terms: Terms,
    config: &'a Config,
    warden: Warden,
    teller: Arc<Teller>,
    watchers: Watchers,
    report: &'a mut Report,
}

/// How asking for the lock ended.
enum Asked {
    Granted(MultiGuard),
    Refused(Ending),
}

/// How a hold ended.
enum Held {
    /// That was it.
    Over(Ending),
    /// The lock was lost and the job is dead: the end, except of a daemon that runs for ever.
    Lost(Ending),
}

impl<'a> Run<'a> {
    fn new(
        args: &'a RunArgs,
        terms: Terms,
        config: &'a Config,
        warden: Warden,
        report: &'a mut Report,
        (metering, trace): (Metering, RunTrace),
    ) -> Self {
        let teller = Arc::new(Teller::new(args, terms, config.commands(), warden.deadlines()));
        let tally = tally(args, teller.name());
        if let Some(most) = args.max_hold {
            tally.limit(teller.name(), most);
        }
        Self { args, terms, config, warden, teller, watchers: Watchers { tally, metering, trace }, report }
    }

    /// What is counted meanwhile is kept by `keeping`, once there is a store.
    async fn run(mut self, keeping: &OnceCell<Keeping>) -> Result<Ending, Failure> {
        self.teller.say(format_args!("locks are in {}", self.config.shown()));
        self.report.waits();
        let locks = match self.open().await? {
            Ok(locks) => locks,
            Err(fatal) => return Ok(Ending::interrupted(fatal)),
        };
        keeping.get_or_init(|| self.watchers.tally.kept_in(&locks));
        let once = Once::of(self.args, &locks).await?;
        self.report.is_for(once.tick());
        self.watchers.trace.is_for(once.tick());
        let mut backoff = Backoff::default();
        loop {
            let guard = match self.acquire(&locks, &once).await? {
                Asked::Granted(guard) => guard,
                Asked::Refused(ending) => return Ok(ending),
            };
            let since = BootClock.now();
            self.report.got(self.main(&guard), &guard, locks.label());
            let end = self.job(&guard, &once).await;
            let lost = match self.finish(&locks, guard, end).await {
                Held::Lost(ending) if self.goes_on() => ending,
                Held::Lost(ending) | Held::Over(ending) => return Ok(ending),
            };
            tell(&format!("{}; queuing for it again", lost.message().unwrap_or_default()));
            self.report.waits();
            if let Err(fatal) = self.pause(&mut backoff, BootClock.now().since(since)).await {
                return Ok(Ending::interrupted(fatal));
            }
        }
    }

    /// Whether a loss is followed by another run. A warden that had to be killed can't start one.
    fn goes_on(&self) -> bool {
        self.args.forever && self.warden.asked_to_stop().is_none() && self.warden.is_alive()
    }

    /// A lock that is lost as soon as it is got must not make us spin.
    async fn pause(&mut self, backoff: &mut Backoff, held: Duration) -> Result<(), Fatal> {
        // Two TTLs: then it has been renewed for a while.
        if held >= self.terms.ttl * 2 {
            *backoff = Backoff::default();
            return Ok(());
        }
        unless_stopped(&mut self.warden, tokio::time::sleep(backoff.pause())).await
    }

    /// Opens the store. With `--forever` it may be away at first.
    async fn open(&mut self) -> Result<Result<Locks, Fatal>, Failure> {
        let (args, config, teller) = (self.args, self.config, Arc::clone(&self.teller));
        let watchers = &self.watchers;
        let settings = || settings(args, &teller, watchers.clone());
        let opening = watchers.trace.step("leasehold.open");
        let opened = if args.forever {
            let open = async || {
                let (settings, watchers, place) = (settings(), watchers.clone(), config.place().clone());
                // A file that others have locked is waited for, and signals are to be heard meanwhile.
                let opened =
                    tokio::task::spawn_blocking(move || Ok(settings.over(watchers.around(place.open()?)))).await;
                opened.expect("a panic ends the process")
            };
            unless_stopped(&mut self.warden, patiently(&teller, open)).await
        } else {
            Ok(config.place().open().map(|store| settings().over(watchers.around(store))))
        };
        if let Ok(Err(error)) = &opened {
            opening.fails(&error.to_string());
        }
        match opened {
            Ok(opened) => Ok(Ok(opened.map_err(|error| config.blame(error))?)),
            Err(fatal) => Ok(Err(fatal)),
        }
    }

    /// Acquires the lock, unless a signal asks us to give up first.
    async fn acquire(&mut self, locks: &Locks, once: &Once) -> Result<Asked, Failure> {
        let lock = self.lock(locks, once)?;
        self.teller.begin_waiting();
        self.watchers.trace.asks();
        let waiting = async {
            match self.args.wait {
                _ if self.args.forever => patiently(&self.teller, async || lock.acquire().await).await,
                None => lock.try_acquire().await,
                Some(_) => lock.acquire().await,
            }
        };
        let acquired = unless_stopped(&mut self.warden, waiting).await;
        self.teller.stop_waiting();
        self.has_answer(&acquired);
        if let Ok(Ok(_)) = acquired {
            self.teller.answered();
        }
        if !matches!(acquired, Ok(Ok(Outcome::Acquired(_)))) {
            self.leave_nothing(locks).await;
        }
        match acquired {
            Ok(Ok(Outcome::Acquired(guard))) => Ok(Asked::Granted(guard)),
            Ok(Ok(Outcome::Contended(holding))) => {
                self.teller.refused(&holding, self.args.waits());
                self.report.held_by(&holding);
                Ok(Asked::Refused(Ending::held(&holding, self.args.held_exit_code.into())))
            }
            Ok(Ok(Outcome::NotDue(why))) => {
                let reason = once.why_not(why, self.args.retry_failed);
                if !matches!(why, NotDue::Claimed { .. }) {
                    return Err(Failure::new(exit::CONFIG, format!("{}: {reason}", self.args.name)));
                }
                self.teller.skipped(&reason);
                Ok(Asked::Refused(Ending::skipped(reason)))
            }
            Ok(Err(error)) => Err(error.into()),
            Err(fatal) => Ok(Asked::Refused(Ending::interrupted(fatal))),
        }
    }

    /// Tells the trace what asking came to.
    fn has_answer(&self, acquired: &Result<leasehold::Result<Outcome<MultiGuard>>, Fatal>) {
        let (outcome, failed) = match acquired {
            Ok(Ok(Outcome::Acquired(_))) => ("acquired", None),
            Ok(Ok(Outcome::Contended(_))) => ("held", None),
            Ok(Ok(Outcome::NotDue(_))) => ("not_due", None),
            Ok(Err(error)) => ("failed", Some(error.to_string())),
            Err(_) => ("interrupted", None),
        };
        self.watchers.trace.answered(outcome, failed.as_deref());
    }

    /// What an acquire that failed or was cancelled may have left is taken out of the store before we are gone: a claim
    /// whose answer was lost, or one of several locks. A store that doesn't answer forgets a lock after the TTL, but not
    /// that a slot or key was claimed.
    async fn leave_nothing(&self, locks: &Locks) {
        let patience = if self.is_once() { LAST_WORDS * 5 } else { LAST_WORDS };
        let _ = tokio::time::timeout(patience, locks.shutdown()).await;
    }

    fn is_once(&self) -> bool {
        self.args.once_per.is_some() || self.args.once_key.is_some()
    }

    /// NAME on its terms, and those that are held along with it.
    fn lock(&self, locks: &Locks, once: &Once) -> Result<MultiLock, Failure> {
        let args = self.args;
        let Terms { ttl, kill_after, patience } = self.terms;
        let named = |name: &str| {
            let lock = locks.lock(name).ttl(ttl).stop_grace(kill_after);
            if let Some(patience) = patience { lock.patience(patience) } else { lock }
        };
        let mut main = once.claim(named(self.teller.name()), args.retry_failed);
        if let Some(least) = args.at_least_for {
            main = main.at_least_for(least);
        }
        if let Some(most) = args.permits {
            main = main.permits(most);
        }
        let mut all = vec![main];
        all.extend(args.also.iter().map(|name| named(name.as_str())));
        // The job is limited, not the time for which the others are waited for: so the last that is taken.
        if let (Some(most), Some(last)) = (args.max_hold, all.iter_mut().max_by(|a, b| a.name().cmp(&b.name()))) {
            *last = last.clone().max_hold(most);
        }
        let wait = args.wait.flatten().map_or(Wait::Forever, Wait::For);
        Ok(MultiLock::of(all)?.wait(wait))
    }

    /// The guard of NAME.
    fn main<'g>(&self, guard: &'g MultiGuard) -> &'g Guard {
        guard.get(self.teller.name()).unwrap_or(&guard.guards()[0])
    }

    /// Runs the job, which the warden ends in time if a lease ends first.
    async fn job(&mut self, guard: &MultiGuard, once: &Once) -> End {
        let main = self.main(guard);
        let mut env = vec![
            ("LEASEHOLD_LOCK".into(), main.name().to_string().into()),
            ("LEASEHOLD_HOLDER".into(), main.holder().to_string().into()),
            ("LEASEHOLD_TOKEN".into(), main.token().to_string().into()),
        ];
        env.extend(once.variables(main.attempt()));
        let others = self.args.also.iter().filter_map(|name| guard.get(name.as_str()));
        env.extend((2..).zip(others).map(|(n, other)| (other_token(n), other.token().to_string().into())));
        let mut remove = Config::secret_variables();
        let (traced, untraced) = self.watchers.trace.job(main, &self.args.command);
        env.extend(traced);
        remove.extend(untraced);
        // What an outer `leasehold` said is not about this lock.
        let ours = |name: &OsString| env.iter().any(|(set, _)| set == name);
        remove.extend(said_by_others().filter(|name| !ours(name)));

        let deadlines = self.warden.deadlines();
        let mut job = std::pin::pin!(self.warden.run(&env, &remove));
        tokio::select! {
            biased;
            end = &mut job => return end,
            (_, reason) = guard.lost() => deadlines.end_now(cut_for(&reason)),
        }
        job.await
    }

    /// Gives the lock back and says how that hold ended.
    async fn finish(&mut self, locks: &Locks, guard: MultiGuard, end: End) -> Held {
        let was_started = end.was_started();
        if !was_started {
            self.report.was_not_started();
        }
        let loss = guard.loss();
        self.count_losses(&guard, &end);
        if let End::Unkillable(pids) = &end {
            self.report.gave_back();
            std::mem::forget(guard); // Not to be released: the job may still be at work.
            return Held::Over(self.unkillable(pids));
        }
        self.watchers.trace.job_ended(end.job(), self.why_it_ended(&end));
        let was_ours = self.release(locks, guard, &end).await;
        self.report.gave_back();
        let job = end.job();
        let ending = match end {
            End::Exited(code) => self.unless_taken(Ending::done(code), loss, was_ours),
            End::Signaled(fatal) => self.unless_taken(Ending::signaled(fatal), loss, was_ours),
            End::NeverStarted(fatal) => Ending::interrupted(fatal),
            End::NotStarted(errno) => Ending::not_started(End::not_started_code(errno), self.why_not_started(errno)),
            End::Cut { why, .. } | End::TooLate(why) => {
                let (name, reason) = loss.map_or_else(
                    || (self.teller.name().to_owned(), reason_of(why).to_owned()),
                    |(name, reason)| (name.to_string(), reason.to_string()),
                );
                return Held::Lost(lost(&name, reason, job, was_started));
            }
            End::WardenLost { .. } | End::Unkillable(_) => Ending::failed(Failure::new(
                exit::FAULT,
                format!("our process that watches over the job was killed; {}", fate(was_started)),
            )),
        };
        Held::Over(ending.after(self.warden.asked_to_stop()))
    }

    /// What was cut short counts as lost, also where the warden came first, which is stricter than a guard, and where the keeper's word for
    /// it would come after our end.
    fn count_losses(&self, guard: &MultiGuard, end: &End) {
        let lost = losses::of(guard, self.main(guard), end, |guard| self.teller.is_due(guard.name(), guard.holder()));
        for (guard, reason) in &lost {
            let event = Event::Lost { name: guard.name(), holder: guard.holder(), reason };
            count(&event, &self.teller, &self.watchers);
        }
    }

    /// Where it was not the job's own doing.
    fn why_it_ended(&self, end: &End) -> Option<String> {
        match end {
            End::Exited(_) | End::Signaled(_) | End::Unkillable(_) => None,
            End::NeverStarted(fatal) => Some(format!("not started: {} came first", fatal.name())),
            End::NotStarted(errno) => Some(self.why_not_started(*errno)),
            End::Cut { why, .. } | End::TooLate(why) => Some(reason_of(*why).to_owned()),
            End::WardenLost { .. } => Some("our process that watches over the job was killed".to_owned()),
        }
    }

    /// Of `run NAME OTHER -- CMD` all behind NAME is the command.
    fn why_not_started(&self, errno: Errno) -> String {
        let (program, arguments) = self.args.command.split_first().expect("a command is required");
        let why = format!("{}: {}", program.to_string_lossy(), errno.desc());
        let dashes = arguments.iter().position(|argument| argument == "--").filter(|_| errno == Errno::ENOENT);
        match dashes.and_then(|at| arguments.get(at + 1)) {
            Some(meant) => format!(
                "{why}; the command begins right behind the lock's name. If it is {}, write leasehold run {} -- {0} …, and other \
                 locks as --also NAME",
                plain(&meant.to_string_lossy()),
                self.args.name
            ),
            None => why,
        }
    }

    fn unkillable(&self, pids: &[Pid]) -> Ending {
        let pids: Vec<_> = pids.iter().map(ToString::to_string).collect();
        let reason = format!(
            "can't kill process {}: it belongs to another user or hangs in the kernel; the lock {} is left to end by itself",
            pids.join(", "),
            self.teller.name()
        );
        Ending::lost(reason.clone(), reason, None)
    }

    /// A job that had ended by itself before anybody knew that its lock was another's keeps its result. But it is told.
    fn unless_taken(&self, ending: Ending, loss: Option<(LockName, LossReason)>, was_ours: bool) -> Ending {
        if was_ours {
            return ending;
        }
        let (name, why) = loss.map_or_else(
            || (self.teller.name().to_owned(), "it was not ours any more when the job had ended".to_owned()),
            |(name, reason)| (name.to_string(), reason.to_string()),
        );
        tell(&format!("the lock {name} was lost: {why}; another may have run beside the job"));
        ending.without_the_lock(why)
    }

    /// Whether it was ours until then, as far as is known. A release that fails doesn't change the job's result; the lock
    /// ends with its TTL.
    async fn release(&self, locks: &Locks, guard: MultiGuard, end: &End) -> bool {
        let releasing = self.watchers.trace.step("leasehold.release");
        let released = match end {
            // A job that was told to end and did so politely has not done its work. What the terminal sends it may be
            // meant for something else, as in the report.
            End::Exited(0) if self.warden.asked_to_stop().is_none_or(|asked| asked.by_terminal) => {
                guard.complete().await
            }
            end if !end.was_started() => guard.not_started().await,
            _ => guard.release().await,
        };
        match released {
            Ok(Released::InTime) => {
                releasing.is("in_time");
                true
            }
            Ok(Released::TooLate) => {
                releasing.is("too_late");
                false
            }
            Err(error) => {
                releasing.fails(&error.to_string());
                tell(&format!(
                    "the lock {} could not be released ({error}); it ends by itself within {}",
                    self.teller.name(),
                    span(self.terms.ttl)
                ));
                self.tell_the_store(locks).await;
                true
            }
        }
    }

    /// What became of a slot or key is told until the store has heard it, or it would be repeated; within reason.
    async fn tell_the_store(&self, locks: &Locks) {
        if !self.is_once() {
            return;
        }
        if tokio::time::timeout(self.terms.ttl, locks.shutdown()).await.is_err() {
            tell("the store was not told how this run went: it may be taken for one that has not ended");
        }
    }
}

fn lost(name: &str, reason: String, job: Option<Status>, was_started: bool) -> Ending {
    let message = format!("the lock {name} was lost: {reason}; {}", fate(was_started));
    Ending::lost(reason, message, job)
}

fn fate(was_started: bool) -> &'static str {
    if was_started { "the job was stopped" } else { "the job was not started" }
}

/// The variable with the token of the nth lock.
fn other_token(n: usize) -> OsString {
    format!("LEASEHOLD_TOKEN_{n}").into()
}

/// The variables that an outer `leasehold` may have set, and that are not about a lock of ours.
pub fn said_by_others() -> impl Iterator<Item = OsString> {
    Once::foreign_variables().into_iter().chain(other_tokens())
}

/// Those that are set already, by somebody else.
fn other_tokens() -> impl Iterator<Item = OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| name.to_string_lossy().starts_with("LEASEHOLD_TOKEN_"))
}

/// How long somebody who was told to stop is kept waiting by a store that doesn't answer.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long the store may take to hear what was counted last: nobody waits for that.
const LAST_COUNT: Duration = Duration::from_millis(250);

/// What counts this run: a key under the lock's name as it was given, for of keys there is no end.
fn tally(args: &RunArgs, lock: &str) -> Tally {
    if args.no_tally {
        return Tally::off();
    }
    if args.once_key.is_none() {
        return Tally::new();
    }
    let (lock, name) = (lock.to_owned(), args.name.to_string());
    Tally::grouped(move |of| (of == lock).then(|| name.clone()))
}

/// The client's settings.
fn settings(args: &RunArgs, teller: &Arc<Teller>, watchers: Watchers) -> LocksBuilder {
    let teller = Arc::clone(teller);
    Locks::builder().job(&job_name(&args.command)).observer(move |event: &Event<'_>| {
        teller.tell(event); // first: a job's life depends on it
        count(event, &teller, &watchers);
    })
}

/// Counts what happens, and each loss once, whoever sees it first.
fn count(event: &Event<'_>, teller: &Teller, watchers: &Watchers) {
    if let Event::Lost { name, holder, .. } = event
        && !teller.is_new_loss(name, *holder)
    {
        return;
    }
    watchers.observe(event);
}

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
        Cut::Stopped => "the job was told to stop",
    }
}

/// What `waiting` comes to, unless a signal asks us to give up first.
async fn unless_stopped<T>(warden: &mut Warden, waiting: impl Future<Output = T>) -> Result<T, Fatal> {
    tokio::select! {
        biased;
        fatal = warden.stop_requested() => Err(fatal),
        done = waiting => Ok(done),
    }
}

/// Asks until the store answers; what can't pass is an answer.
async fn patiently<T>(teller: &Teller, ask: impl AsyncFn() -> leasehold::Result<T>) -> leasehold::Result<T> {
    let mut backoff = Backoff::default();
    loop {
        match ask().await {
            Err(error) if exit::code_of(error.kind()) == exit::UNAVAILABLE => teller.outage(&error, None),
            answer => {
                if answer.is_ok() {
                    teller.answered();
                }
                return answer;
            }
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}
