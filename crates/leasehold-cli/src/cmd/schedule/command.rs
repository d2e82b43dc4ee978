//! Commands as the work of scheduled jobs: each run is a process under a warden, as that of `leasehold run` is.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::validity::Moment;
use leasehold::{Event, Guard, HolderId, LossReason};
use leasehold_schedule::{Cut, Ended, Left, Run, Work};

use super::output::{Line, Listener, Output};
use crate::cmd::run::said_by_others;
use crate::config::Config;
use crate::nursery::{Launch, Nursery, Order, Outcome, Report, Tell};
use crate::traces::{CONTEXT, TickTraces};
use crate::warden::{self, Found, Reserve, Status, sys};

/// For so long it is normal that a run has not begun, or that a loss is not told. Then somebody may have stopped the nursery,
/// or the lock was not lost after all.
const SOON: Duration = Duration::from_secs(1);

/// What a supervisor has told the scheduler alone: no job is to answer in its place.
const SUPERVISORS: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"];

/// What runs commands: forked before any thread exists. Cheap to clone.
#[derive(Clone)]
pub struct Commands(Arc<Inner>);

struct Inner {
    nursery: Nursery,
    /// What no job is to inherit: secrets, what an outer `leasehold` has said of its own lock, and [`SUPERVISORS`].
    removed: Vec<OsString>,
    runs: Mutex<BTreeMap<HolderId, Running>>,
}

/// A run, to whoever hears how its lease goes on. Of one job there may be several.
struct Running {
    socket: Arc<OwnedFd>,
    reserve: Reserve,
}

/// A command, and how it is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Variables to set beside those that the scheduler was started with.
    pub env: Vec<(OsString, OsString)>,
    /// Where it runs, if not where the scheduler does.
    pub dir: Option<PathBuf>,
    /// What it reads on its standard input; nothing if there is none.
    pub stdin: Option<Vec<u8>>,
    /// How long after TERM the KILL comes. The job's [`stop_grace`](leasehold_schedule::Job::stop_grace) should be the same.
    pub kill_after: Duration,
    /// Wait for everything that it starts.
    pub wait_group: bool,
    /// So many of its last lines are kept for the ledger.
    pub keep_lines: usize,
}

impl Commands {
    /// Forks the process that starts commands. To be called on the main thread, before the runtime or any thread exists.
    ///
    /// # Errors
    /// Where the system refuses a process or a descriptor.
    pub fn fork(found: Found) -> io::Result<Self> {
        let supervisors = SUPERVISORS.map(OsString::from);
        let removed = Config::secret_variables().into_iter().chain(said_by_others()).chain(supervisors).collect();
        let nursery = Nursery::fork(found)?;
        // Each run takes three of ours; jobs keep what they would have had. With fewer there are fewer runs at a time.
        let _ = sys::raise_descriptors();
        Ok(Self(Arc::new(Inner { nursery, removed, runs: Mutex::default() })))
    }

    /// Hands on how leases go on. For [`LocksBuilder::observer`](leasehold::LocksBuilder::observer): without it each run is
    /// ended before the lease that it began with ends.
    pub fn observe(&self, event: &Event<'_>) {
        if let Event::Renewed { holder, valid_until, .. } | Event::Bounded { holder, valid_until, .. } = event
            && let Some(run) = self.runs().get(holder)
        {
            run.is_good_until(*valid_until);
        }
    }

    /// Resolves when the process that starts commands is gone: nothing can be started any more. What runs goes on.
    ///
    /// # Cancel safety
    /// Cancel safe, and may be called any number of times.
    pub async fn nursery_died(&self) {
        self.0.nursery.died().await;
    }

    /// Kills what runs: for whoever can't wait for [`kill_after`](Command::kill_after).
    pub fn kill_all(&self) {
        for run in self.runs().values() {
            let _ = Tell::Kill(warden::Cut::Stopped).send(&run.socket);
        }
    }

    /// This command as a job's work. Each line that it writes is told to `lines`, on the scheduler's tasks: it must not
    /// block for long.
    ///
    /// It exits with 0: it is done. Anything else has failed, and says how. Cut, it gets TERM and after
    /// [`kill_after`](Command::kill_after) KILL, with all that it has started; and where the scheduler is stopped, hangs or
    /// dies, that happens all the same, before the lease ends.
    pub fn work<L>(&self, command: Command, traces: TickTraces, lines: L) -> impl Work + use<L>
    where
        L: Fn(Line<'_>) + Send + Sync + 'static,
    {
        CommandWork { commands: self.clone(), command, traces, tell: Arc::new(lines) }
    }

    fn runs(&self) -> MutexGuard<'_, BTreeMap<HolderId, Running>> {
        self.0.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on renewals are handed on to `running`, until the answer is dropped.
    fn list(&self, guard: &Guard, running: Running) -> Listed<'_> {
        let mut runs = self.runs();
        running.is_good_until(guard.valid_until()); // none is missed: the next is told when we have let go of the list
        runs.insert(guard.holder(), running);
        Listed { commands: self, holder: guard.holder() }
    }
}

impl Running {
    /// Never blocks. A runner that can't be told hangs or is dead, and its warden ends the job in time.
    fn is_good_until(&self, valid_until: Moment) {
        let _ = Tell::Until(self.reserve.due(valid_until)).send(&self.socket);
    }
}

/// A run that hears of its renewals.
struct Listed<'a> {
    commands: &'a Commands,
    holder: HolderId,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.commands.runs().remove(&self.holder);
    }
}

/// No job was started: why, and whether what starts them is gone.
struct NotBegun {
    why: String,
    died: bool,
}

/// A command as work.
struct CommandWork {
    commands: Commands,
    command: Command,
    traces: TickTraces,
    tell: Listener,
}

impl Work for CommandWork {
    fn run<'a>(&'a self, run: &'a Run) -> Pin<Box<dyn Future<Output = Ended> + Send + 'a>> {
        Box::pin(self.traced(run))
    }
}

impl CommandWork {
    /// The trace goes on in the job, and is told how it ended.
    async fn traced(&self, run: &Run) -> Ended {
        let holder = run.guard().holder();
        let context = self.traces.job(holder, &self.command.argv);
        match self.once(run, context).await {
            Ok((outcome, last_lines)) => {
                let (status, why) = told(&outcome);
                self.traces.job_ended(holder, status, why);
                ended(outcome).output(last_lines)
            }
            Err(NotBegun { why, died }) => {
                self.traces.job_ended(holder, None, Some(why.clone()));
                Ended::from(Err(why.into())).left(Left::NotBegun).died(died)
            }
        }
    }

    /// What became of it, and the last that it has written.
    async fn once(&self, run: &Run, context: Vec<(OsString, OsString)>) -> Result<(Outcome, String), NotBegun> {
        let nursery = &self.commands.0.nursery;
        let order = self.order(run, context);
        let launched = tokio::select! {
            biased;
            cut = run.cut() => return Err(NotBegun { why: cut.to_string(), died: false }),
            launched = nursery.launch(&order, self.command.stdin.as_deref()) => launched,
        };
        let Launch { mut flight, stdout, stderr } = match launched {
            Ok(launch) => launch,
            Err(error) => return Err(NotBegun { why: why_not_launched(&error), died: is_gone(&error) }),
        };
        let _listed = self.commands.list(run.guard(), Running { socket: flight.socket(), reserve: self.reserve(run) });
        let mut output = Output::new(run.tick(), stdout, stderr, self.command.keep_lines, Arc::clone(&self.tell));
        let mut is_told = false;
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = flight.ended() => break outcome,
                cut = run.cut(), if !is_told => {
                    is_told = true;
                    flight.tell(Tell::End(for_warden(&cut)));
                }
                () = output.is_told(), if output.is_open() => {}
                () = tokio::time::sleep(SOON), if !flight.has_begun() => {
                    // Else it has begun meanwhile.
                    if !flight.has_begun() {
                        nursery.carry_on();
                    }
                }
            }
        };
        if outcome.is_late() {
            // The warden keeps time a little before the lock does: that is to be told as the loss that it is.
            let _ = tokio::time::timeout(SOON, run.cut()).await;
        }
        output.ends();
        let last_lines = output.last_lines();
        output.goes_on();
        Ok((outcome, last_lines))
    }

    fn order(&self, run: &Run, context: Vec<(OsString, OsString)>) -> Order {
        let Command { argv, env, dir, kill_after, wait_group, .. } = self.command.clone();
        let ours = [
            ("LEASEHOLD_LOCK", run.guard().name().to_string()),
            ("LEASEHOLD_HOLDER", run.guard().holder().to_string()),
            ("LEASEHOLD_TOKEN", run.token().to_string()),
            ("LEASEHOLD_TICK", run.tick().to_string()),
            ("LEASEHOLD_ATTEMPT", run.attempt().to_string()),
        ];
        let mut remove = self.commands.0.removed.clone();
        if !context.is_empty() {
            remove.extend(CONTEXT.map(OsString::from)); // of whatever trace the scheduler was started in
        }
        Order {
            argv,
            remove,
            // What the job's own terms say of its trace counts more.
            set: context.into_iter().chain(env).chain(ours.map(|(name, value)| (name.into(), value.into()))).collect(),
            dir: dir.map(PathBuf::into_os_string),
            kill_after,
            wait_group,
            due: self.reserve(run).due(run.guard().valid_until()),
        }
    }

    fn reserve(&self, run: &Run) -> Reserve {
        Reserve::of(run.guard().ttl(), self.command.kill_after)
    }
}

/// What a run has come to, to the scheduler.
fn ended(outcome: Outcome) -> Ended {
    let killed = |why: &str, left| Ended::from(Err(why.into())).left(left).died(true);
    match outcome {
        Outcome::Reported(report) => {
            let left = match report {
                Report::Unkillable(_) => Left::Perhaps,
                _ if report.was_started() => Left::Nothing,
                _ => Left::NotBegun,
            };
            Ended::from(report.result().map_err(Into::into)).left(left).died(report.is_a_death())
        }
        Outcome::Lost { begun: false, .. } => {
            killed("can't be started: our process that was to start it was killed", Left::NotBegun)
        }
        Outcome::Lost { is_over: true, .. } => {
            killed("stopped: our process that ran it was killed, and it was killed, too", Left::Nothing)
        }
        Outcome::Lost { .. } => killed(
            "our processes that ran it were killed at once, and something of it may be at work still; the lock is left to \
             end by itself",
            Left::Perhaps,
        ),
    }
}

/// To a trace: how the job ended, and why it is not what it should be, where that was not its own doing.
fn told(outcome: &Outcome) -> (Option<Status>, Option<String>) {
    match outcome {
        Outcome::Reported(Report::Exited(code)) => (Some(Status::Exited(*code)), None),
        Outcome::Reported(Report::Signaled(signal)) => (Some(Status::Signaled(*signal)), None),
        Outcome::Reported(report) => (None, report.result().err()),
        Outcome::Lost { .. } => (None, Some("our process that ran it was killed".into())),
    }
}

fn why_not_launched(error: &io::Error) -> String {
    if is_gone(error) {
        return "can't be started: our process that starts commands was killed".into();
    }
    format!("can't be started: {error}")
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

fn for_warden(cut: &Cut) -> warden::Cut {
    match cut {
        Cut::Lost(LossReason::HeldTooLong) => warden::Cut::MaxHold,
        Cut::Lost(_) => warden::Cut::Lost,
        Cut::Stopped => warden::Cut::Stopped,
    }
}
