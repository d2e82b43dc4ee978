//! The command line: what may be typed, and the help that teaches it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand, ValueHint};
use leasehold::store::USUAL_TTL;
use leasehold::stores::hide_secrets;
use leasehold::{HolderId, LockName};
use leasehold_schedule::Schedule;

use crate::config::OnDown;
use crate::exit::{self, Failure};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Longer than anybody means, and far from where sums of durations overflow.
const TEN_YEARS: Duration = Duration::from_secs(3650 * 24 * 3600);

/// Run a job under a lock: one at a time, however many try
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, max_term_width = 100, help_template = template(), after_help = FIRST_STEPS)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    /// Where the locks are.
    #[command(flatten)]
    pub store: StoreArgs,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What all this is about; the description in the manual, too.
pub const ABOUT: &str = "\
Put `leasehold run NAME --` in front of a command. Whoever comes first gets the
lock and runs it; the others skip it, or wait. The lock is a lease that renews
itself while the job runs: should the machine die, it frees itself; should it be
lost, the job is stopped before anybody else can get it.";

/// Not `long_about`: with one, clap takes two lines and more for each option, and the page no more fits a screen.
fn template() -> String {
    format!("{{about}}\n\n{ABOUT}\n\n{{usage-heading}} {{usage}}\n\n{{all-args}}{{after-help}}")
}

const FIRST_STEPS: &str = "\
Examples:
  leasehold run backup -- ./backup.sh              run it, unless it runs already
  leasehold run report --wait=10m -- make report   wait up to 10 minutes for it
  leasehold status backup                          who holds it, and since when?
  leasehold ls                                     all locks
  leasehold watch backup                           what happens to it, as it happens
  leasehold doctor                                 is the store fit for its work?

Locks live in the store that --store names; else LEASEHOLD_STORE; else the default
of ./leasehold.toml or /etc/leasehold/leasehold.toml; else a SQLite file of this
user (as root: of this machine), so that there is nothing to install.
`leasehold run --help` tells the rest, exit codes included.";

/// Where the locks are. Global: legal before and after the verb.
///
/// The variables are read in `config.rs` and not by clap, because a bad one exits with another code than a bad option.
#[derive(Debug, Args)]
#[command(next_help_heading = "Where the locks are")]
pub struct StoreArgs {
    /// URL of the store, or its name in the configuration [env: LEASEHOLD_STORE]
    #[arg(long, global = true, value_name = "URL|NAME")]
    pub store: Option<String>,
    /// Configuration file [env: LEASEHOLD_CONFIG]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Namespace of the locks' names [env: LEASEHOLD_NAMESPACE]
    #[arg(long, global = true, value_name = "NAME")]
    pub namespace: Option<String>,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a command while holding a lock
    #[command(long_about = RUN, after_long_help = run_footer())]
    #[command(override_usage = "leasehold run [OPTIONS] <NAME> -- <CMD> [ARGS]...")]
    Run(Box<RunArgs>),
    /// Say who holds a lock
    #[command(long_about = STATUS, after_long_help = STATUS_FOOTER)]
    Status(StatusArgs),
    /// List the locks that are held or waited for
    #[command(after_long_help = LS_FOOTER)]
    Ls(LsArgs),
    /// Tell what happens to a lock, as it happens
    #[command(long_about = WATCH, after_long_help = WATCH_FOOTER)]
    Watch(WatchArgs),
    /// End somebody else's hold of a lock
    #[command(long_about = RELEASE, after_long_help = RELEASE_FOOTER)]
    Release(ReleaseArgs),
    /// Examine the store, and say what to mend
    #[command(long_about = DOCTOR, after_long_help = DOCTOR_FOOTER)]
    Doctor(DoctorArgs),
    /// Say which store of a fallback is in use; set it, once the arbiter was restored
    #[command(long_about = ROUTE, after_long_help = ROUTE_FOOTER)]
    Route(RouteArgs),
    /// Accept that the members of a quorum have lost what they remembered
    #[command(long_about = ACCEPT_LOSS, after_long_help = ACCEPT_LOSS_FOOTER)]
    AcceptLoss(AcceptLossArgs),
    /// Make the tables that the store needs, or print them
    #[command(long_about = MIGRATE, after_long_help = MIGRATE_FOOTER)]
    Migrate(MigrateArgs),
    /// Print the completions for a shell
    #[command(after_long_help = COMPLETIONS_FOOTER)]
    Completions(CompletionsArgs),
    /// Print a page of the manual, or write all pages
    #[command(after_long_help = MAN_FOOTER)]
    Man(ManArgs),
}

const RUN: &str = "\
Run a command while holding a lock.

If the lock NAME is free, this takes it, runs CMD, gives the lock back when CMD has ended and exits with CMD's exit \
code. If another holds it, CMD is not run and the exit code is 75; with --wait it queues for the lock first.

While CMD runs, the lock is renewed, however long that takes. If it can't be (the store is gone, or an operator took \
the lock away), CMD and all that it started are told to end (TERM) and then killed (KILL), before anybody else can get \
the lock, and the exit code is 76. Should this machine die, the lock is free again after --ttl.

CMD gets stdin, stdout, stderr and signals as if it had been started without leasehold; but a second TERM, INT or QUIT \
kills it at once. It sees the lock in its \
environment:

  LEASEHOLD_LOCK    the lock's name
  LEASEHOLD_HOLDER  this hold of it; another one each time
  LEASEHOLD_TOKEN   a number that grows with each hold (of --also: LEASEHOLD_TOKEN_2, _3 …)
  LEASEHOLD_TICK    with --once-per, which slot it runs for; with --once-key it is LEASEHOLD_KEY
  LEASEHOLD_ATTEMPT how often that slot or key was begun, this time included

Store the token with what the job writes, and refuse smaller ones: then even a job that was paused for too long can't \
overwrite the work of its successor.";

const RUN_EXAMPLES: &str = "\
Examples:
  From cron: if the last one still runs, this one is skipped
    0 3 * * *  leasehold run backup -q --held-exit-code 0 -- /opt/backup.sh

  Wait up to ten minutes for whoever runs it now
    leasehold run deploy --wait=10m -- ./deploy production

  Many hours need no long --ttl. Half a minute to clean up; a day at most
    leasehold run reindex --ttl 2m --kill-after 30s --max-hold 1d -- reindex

  Once a night, though cron starts it on ten machines, and their clocks differ
    0 2 * * *  leasehold run nightly --once-per \"0 2 * * *\" --tz Europe/London -- ./nightly

  A piece of work once, however often the queue delivers it; again only if it failed
    leasehold run billing --once-key \"invoice-$N\" --retry-failed -- ./bill \"$N\"

  At most three at a time
    leasehold run resize --permits 3 --wait -- ./resize photo.jpg

  A daemon of which there must be one; started on every machine, by a supervisor
    leasehold run mailer --forever -- ./mailer

  A script that wants to know
    leasehold run import -- ./import
    case $? in 75) echo 'it runs elsewhere';; 76) echo 'it was stopped';; esac

  A program that wants to know more
    leasehold run import --report import.json -- ./import
    jq '.outcome, .child, .held_ms' import.json";

const RUN_REPORT: &str = "\
Report:
  An object; what is not known, or not yet, is null. Fields and outcomes may be added. A command line that is wrong (64)
  writes nothing: what is in the file is from before.
  lock          the lock's name
  outcome       running      it has not ended; or was killed before it could say how
                done         the job ended by itself (child says how)
                held         another holds the lock (held_by); the job was not run
                skipped      this slot or key had its run before; the job was not run
                lost         the lock was lost, or --max-hold was over; the job was stopped
                interrupted  TERM, INT or QUIT asked us to stop, or was handed on to the job
                not_started  the job's program could not be started
                unavailable  the store could not be reached or refused to write
                failed       anything else: access denied, a wrong set-up, a fault of ours
  reason        why, for people; null after done
  exit_code     of leasehold itself; 128+n also where signal n ends it
  child         {\"exit_code\": n}, or {\"signal\": n, \"name\": \"SIGKILL\"}; null if no job ran
  runs          how often the job was started (--forever: the fields around are of the last hold)
  holder token label          our hold of the lock; the token is text, as in status --json
  tick attempt  of --once-per which slot; how often it, or the key, was begun, this time included
  waited_ms held_ms           how long the lock was waited for, and held
  held_by       {\"lock\", \"holder\", \"token\", \"label\"} of whoever holds it, or one of --also, instead
  also          [{\"lock\", \"holder\", \"token\"}] of our holds of --also
  started_at ended_at         times of day in UTC";

fn run_footer() -> String {
    format!("{RUN_EXAMPLES}\n\n{}\n\n{RUN_REPORT}", exit::table())
}

const ONCE: &str = "How many, how often";

/// What `run` is given.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Name of the lock: 1 to 200 bytes, no control characters
    #[arg(value_parser = LockName::new)]
    pub name: LockName,
    /// How long the lock outlives a machine that dies [1s to 1h; default: 30s, in a fallback 60s]
    ///
    /// It is renewed at a third of this. Long enough for hiccups of the store to pass, short enough that you can wait
    /// for it after a crash.
    #[arg(long, value_name = "DUR", value_parser = ttl)]
    pub ttl: Option<Duration>,
    /// Wait for the lock; for ever, or for this long (--wait=DUR)
    ///
    /// Who waits stands in a queue, first come, first served. Without this, a lock that is held is not waited for.
    #[arg(long, value_name = "DUR", num_args = 0..=1, require_equals = true, value_parser = duration)]
    pub wait: Option<Option<Duration>>,
    /// For a daemon: after a loss of the lock queue again, and start CMD anew
    ///
    /// For one of which there must be one. It queues as with --wait; a store that is away is waited for, from the
    /// start. If the lock is lost, or --max-hold is over, CMD is stopped and started again once the lock is got again.
    /// It ends when CMD ends by itself, with CMD's exit code (a supervisor starts both anew), or by TERM, INT or QUIT.
    #[arg(long)]
    pub forever: bool,
    /// Let up to N hold the lock at a time, instead of one [at most 1000]
    ///
    /// All who use NAME must give the same number; another one is an error (78) while somebody holds it. Each has a hold
    /// of its own, which is free again when its machine dies.
    #[arg(long, value_name = "N", value_parser = permits, help_heading = ONCE)]
    pub permits: Option<u32>,
    /// Hold this lock, too: all of them or none (may be given several times)
    ///
    /// They are taken in order of their names, so that two that want the same can't wait for each other. --permits,
    /// --once-per and the like are about NAME alone.
    #[arg(long, value_name = "NAME", value_parser = LockName::new, help_heading = ONCE)]
    pub also: Vec<LockName>,
    /// Run once in each SLOT of time, however many try, and however late: cron fields, or a duration
    ///
    /// "0 2 * * *" (at two o'clock, by --tz), 15m (each quarter of an hour). The store's clock decides which slot it is,
    /// so this machine's may be wrong. With cron fields it is the last slot, or the next one where that is at most a
    /// minute away and no further than the last; a duration's slot is the one that is running. If it has had its run, CMD
    /// is not run, which is told on stderr, and the exit code is 0; while it runs elsewhere, the exit code is 75. At most once: a run that failed, or whose machine died, is not repeated without
    /// --retry-failed. A command that could not be started has not run.
    #[arg(long, value_name = "SLOT", conflicts_with_all = ["once_key", "forever"], help_heading = ONCE)]
    pub once_per: Option<String>,
    /// Time zone of --once-per [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "once_per", help_heading = ONCE)]
    pub tz: Option<String>,
    /// Run once for this KEY, ever: an idempotency key for a piece of work, such as an invoice's number
    ///
    /// Each key is a lock of its own, called NAME/KEY (a slash in NAME is written %2F): other keys of NAME run beside it.
    /// Done before: exit code 0 and a line on stderr; running elsewhere: 75. What counts as run is as for --once-per.
    #[arg(long, value_name = "KEY", conflicts_with = "forever", help_heading = ONCE)]
    pub once_key: Option<String>,
    /// How long a KEY is remembered after its last run [10m to 3650d]
    #[arg(long, value_name = "DUR", default_value = "30d", value_parser = memory, requires = "once_key", help_heading = ONCE)]
    pub remember: Duration,
    /// Run a slot or key again whose run has failed (exit code not 0), was stopped or died, until one has succeeded
    ///
    /// At least once, instead of at most once. Only of slots and keys that were begun with this option as well: what was
    /// promised to run once at most stays so.
    #[arg(long, help_heading = ONCE)]
    pub retry_failed: bool,
    /// Keep the lock for this long at least, even if the job is done sooner [at most 1d]
    ///
    /// Counted from when the lock was got. The command itself does not wait for it. For short jobs on several machines,
    /// whose clocks always differ a little.
    #[arg(long, value_name = "DUR", value_parser = minimum_hold)]
    pub at_least_for: Option<Duration>,
    /// End the job if it takes longer than this
    ///
    /// Exits with 76, as at a loss of the lock. Without it, a job that hangs keeps its lock for ever.
    #[arg(long, value_name = "DUR", value_parser = some_time)]
    pub max_hold: Option<Duration>,
    /// How long a job that was told to end (TERM) may take before it is killed (KILL)
    ///
    /// At most half of --ttl, since all of it must be over before the lock ends.
    ///
    /// [default: a third of --ttl, at most 10s; in a fallback at most 3s]
    #[arg(long, value_name = "DUR", value_parser = some_time)]
    pub kill_after: Option<Duration>,
    /// Hold the lock until everything that the job started has ended
    ///
    /// Without this, what a job leaves in the background when it exits is left alone, and runs without the lock.
    #[arg(long)]
    pub wait_group: bool,
    /// What to do where the store can't be reached: fail with 69, or skip this run with 0
    ///
    /// With --wait once that is over. The configuration file may say it for a store (on_down = "skip"). [default: fail]
    #[arg(long, value_name = "WHAT", conflicts_with = "forever")]
    pub on_down: Option<OnDown>,
    /// Exit code for "another holds the lock"; 0 to make a skip a success
    #[arg(long, value_name = "N", default_value = "75", value_parser = exit_code)]
    pub held_exit_code: u8,
    /// Write into this file, in JSON, how it went
    ///
    /// Our outcome and the job's stand apart; see below. The file is replaced as a whole at the start, where it says that we run, and at the end; one that can't be written is an
    /// error before anything runs (78). A pipe or device, as /dev/stdout or /dev/fd/3, gets one object at the end.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub report: Option<PathBuf>,
    /// Tell on stderr what happens, and where the locks are
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Say nothing about a lock that is held or a run that is skipped, only exit; errors and losses are still told
    #[arg(short, long)]
    pub quiet: bool,
    /// The command to run, and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

impl RunArgs {
    /// Whether a lock that is held is waited for.
    pub fn waits(&self) -> bool {
        self.forever || self.wait.is_some()
    }

    /// The rules that concern more than one option.
    fn check(&self) -> Result<(), Failure> {
        let broken = self
            .too_late_a_kill()
            .or_else(|| self.wait_without_equals_sign())
            .or_else(|| self.short_forever())
            .or_else(|| self.nothing_to_retry())
            .or_else(|| self.held_longer_than_allowed())
            .or_else(|| self.a_name_twice())
            .or_else(|| self.lock_name().err())
            .or_else(|| self.schedule().err().map(|failure| failure.message));
        broken.map_or(Ok(()), |rule| Err(Failure::new(exit::USAGE, rule)))
    }

    fn too_late_a_kill(&self) -> Option<String> {
        let ttl = self.ttl.unwrap_or(USUAL_TTL);
        let grace = self.kill_after.filter(|grace| *grace > ttl / 2)?;
        Some(format!(
            "--kill-after {grace:?} is more than half of --ttl {ttl:?}: the job could outlive the lock; lower --kill-after, \
             or raise --ttl to {:?}",
            grace.saturating_mul(2)
        ))
    }

    /// `--wait 5s make` would wait for ever and then run `5s`.
    fn wait_without_equals_sign(&self) -> Option<String> {
        let first = self.command.first()?.to_str()?;
        let mistaken = self.wait == Some(None) && duration(first).is_ok();
        mistaken.then(|| format!("{first} would be the command to run; to wait for so long, write --wait={first}"))
    }

    fn nothing_to_retry(&self) -> Option<String> {
        let retries_nothing = self.retry_failed && self.once_per.is_none() && self.once_key.is_none();
        retries_nothing.then(|| "--retry-failed is about --once-per or --once-key; give one of them".into())
    }

    /// Of one lock the library says so; of several the two may be terms of different ones.
    fn held_longer_than_allowed(&self) -> Option<String> {
        let (least, most) = (self.at_least_for?, self.max_hold?);
        (least > most && !self.also.is_empty()).then(|| {
            format!("--at-least-for {least:?} is longer than --max-hold {most:?}; swap them or take one of them out")
        })
    }

    fn a_name_twice(&self) -> Option<String> {
        let name = self.lock_name().ok()?;
        let mut seen = vec![&name];
        for other in &self.also {
            if seen.contains(&other) {
                return Some(format!("--also {other}: this lock is asked for twice; give each name once"));
            }
            seen.push(other);
        }
        None
    }

    /// The lock's name: of a key, its own. A slash in NAME is escaped, or `a/b` with key `c` would be `a` with key `b/c`.
    pub fn lock_name(&self) -> Result<LockName, String> {
        let Some(key) = &self.once_key else { return Ok(self.name.clone()) };
        if key.is_empty() {
            return Err("--once-key is empty; name the piece of work, as in --once-key invoice-2931".into());
        }
        let name = self.name.as_str().replace('%', "%25").replace('/', "%2F");
        LockName::new(&format!("{name}/{key}"))
            .map_err(|error| format!("--once-key: with NAME in front of it, {error}"))
    }

    /// What `--once-per` says.
    ///
    /// # Errors
    /// It can't be read, or is never due.
    pub fn schedule(&self) -> Result<Option<Schedule>, Failure> {
        let Some(slot) = &self.once_per else { return Ok(None) };
        let schedule = Schedule::parse(slot, self.tz.as_deref());
        schedule.map(Some).map_err(|error| Failure::new(exit::USAGE, format!("--once-per: {error}")))
    }

    fn short_forever(&self) -> Option<String> {
        let wait = self.wait.flatten().filter(|_| self.forever)?;
        Some(format!("--forever queues for as long as it takes, --wait={wait:?} gives up before; take one of them out"))
    }
}

const STATUS: &str = "\
Say who holds a lock, since when, and until when if it is not renewed.

Exits with 0 whether the lock is held or free: both are answers. A script reads --json.";

const STATUS_FOOTER: &str = "\
Examples:
  leasehold status nightly-backup
  leasehold status nightly-backup --json | jq -r .state

In JSON: `state` is `free`, `held`, or `kept` (nobody holds it, but a minimum hold runs out or the first waiter is
about to get it); `token` is text, since it may need 63 bits; times are milliseconds. Where several may hold it
(`permits`), the fields are about the one whose time ends first, and `others` has the rest.";

/// What `status` is given.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Name of the lock
    #[arg(value_parser = LockName::new)]
    pub name: LockName,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

const LS_FOOTER: &str = "\
Examples:
  leasehold ls
  leasehold ls --json | jq -r '.[] | select(.waiting > 0) | .name'

In JSON: an array of what `status --json` says about one.";

/// What `ls` is given.
#[derive(Debug, Args)]
pub struct LsArgs {
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

const WATCH: &str = "\
Tell what happens to a lock, as it happens, a line for each event.

Ends by a signal (Ctrl-C), or when nobody reads its output any more. It neither queues nor holds anything. A store that \
is away is told once, and so is its return.

It looks two to four times a second: an event is told half a second late at most, and a hold that is shorter may not be \
seen. A release, the end of a TTL and a release by force look alike, so all are told as `ended`.";

const WATCH_FOOTER: &str = "\
Examples:
  leasehold watch nightly-backup
  leasehold watch nightly-backup --json | jq -r 'select(.event == \"ended\") | .held_for_ms'

In JSON: an object in each line. `event` is `start` (how it stands at first), `acquired`, `ended`, `missed` (it was held \
and ended between two looks), `revoked`, `kept` (a minimum hold runs out), `free` (it is over), `waiting` (another number \
of waiters), `unreachable` (the store; see `reason`) or `reachable`. `holder`, `label`, `token` (text) and `held_for_ms` \
are of the hold that the event is about; `state`, `waiting` and `ttl_left_ms` tell how the lock stands now. What isn't \
known is null.";

/// What `watch` is given.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Name of the lock
    #[arg(value_parser = LockName::new)]
    pub name: LockName,
    /// An object in JSON for each event
    #[arg(long)]
    pub json: bool,
}

const RELEASE: &str = "\
End somebody else's hold of a lock.

Without --force or --now this only says who holds the lock, and exits with 75. A lock that is free needs no release: \
that is said, and the exit code is 0.";

const RELEASE_FOOTER: &str = "\
Examples:
  leasehold release nightly-backup            who would be hit?
  leasehold release nightly-backup --force    the safe way: the holder stops its job first
  leasehold release nightly-backup --now      the holder's machine is known to be dead";

/// What `release` is given.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// Name of the lock
    #[arg(value_parser = LockName::new)]
    pub name: LockName,
    /// Revoke it: safe, takes up to the TTL
    ///
    /// The lock is not renewed any more. Its holder is told at its next renewal, stops its job and releases the lock;
    /// if it can't, the lock ends with its TTL. Nobody else gets it before.
    #[arg(long)]
    pub force: bool,
    /// Free it at once: TWO JOBS MAY RUN until the old holder notices
    ///
    /// The old holder learns of it at its next renewal and stops its job then. For a holder that is known to be dead.
    #[arg(long)]
    pub now: bool,
    /// Of several holders only this one, as `status` shows it
    #[arg(long, value_name = "ID", value_parser = holder)]
    pub holder: Option<HolderId>,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

const DOCTOR: &str = "\
Examine the store, and say what to mend.

Exits with 0 if the store can be relied on, be it with warnings; with 78 if there is a problem; with 69 or 77 if the \
store can't be reached or denies access.";

const DOCTOR_FOOTER: &str = "\
Examples:
  leasehold doctor
  leasehold doctor --store sqlite:///var/lib/leasehold/locks.db
  leasehold doctor --json | jq -e 'all(.findings[]; .severity == \"fine\")'     no warnings either";

/// What `doctor` is given.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

const ROUTE: &str = "\
Say which store of a fallback is in use.

A fallback is a primary (a Redis) and an arbiter (a database), named in leasehold.toml:

    [stores.jobs]
    fallback = { primary = \"redis://r:6379\", arbiter = \"postgres://jobs@db/jobs\" }

The arbiter keeps the route, which says which of the two has the locks. Clients move it by themselves when the \
primary goes away and comes back.";

const ROUTE_FOOTER: &str = "\
Examples:
  leasehold route --store jobs
  leasehold route --store jobs --json | jq -r .route.target
  leasehold route set --restored --store jobs      the database was restored from a backup, and no client runs";

/// What `route` is given.
#[derive(Debug, Args)]
pub struct RouteArgs {
    /// Answer in JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do with it; without one, it is shown.
    #[command(subcommand)]
    pub verb: Option<RouteVerb>,
}

/// What may be done with a route.
#[derive(Debug, Subcommand)]
pub enum RouteVerb {
    /// Go to a route that no client has seen, after the arbiter's data was lost or restored
    ///
    /// A backup, or a copy that was promoted, doesn't know the last switches, leases and ticks. Stop all clients, restore the
    /// database, run this, start the clients again. Leases that it knew end with the switch, and every tick up to five minutes from now counts
    /// as run, as nobody can say which were.
    Set(SetArgs),
}

/// What `route set` is given.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// The arbiter's data was lost or restored, and no client runs
    #[arg(long)]
    pub restored: bool,
    /// The largest route that a client has seen, where the primary can't be asked for it
    #[arg(long, value_name = "NUMBER")]
    pub seen: Option<u64>,
}

const ACCEPT_LOSS: &str = "\
Accept that the members of a quorum have lost what they remembered.

A member that comes back without its data is filled from a majority of the others. Where too few others know a name, no \
lock of that name is granted (69), since nobody can say which of its ticks were run. This ends that: ticks up to five minutes from \
now count as run, keys (--once-key) are forgotten, and locks are granted again. Members that were restarted must have been back for \
their max_ttl.";

const ACCEPT_LOSS_FOOTER: &str = "\
Examples:
  leasehold doctor --store q                 which members are empty?
  leasehold accept-loss --yes --store q";

/// What `accept-loss` is given.
#[derive(Debug, Args)]
pub struct AcceptLossArgs {
    /// It is meant
    #[arg(long)]
    pub yes: bool,
}

const MIGRATE: &str = "\
Make the tables that the store needs, also those that somebody has dropped, or bring them to this version.

Only this makes a schema in PostgreSQL (?schema=NAME). For the rest, locks do that by themselves at their first use, where their user may create tables. Where it may not, --print shows \
the statements and the rights, for somebody who may. Running them again does no harm.";

const MIGRATE_FOOTER: &str = "\
Examples:
  leasehold migrate
  leasehold migrate --print --store postgres://jobs@db/jobs | psql -U postgres jobs
  leasehold migrate --print --store mysql://jobs@db/jobs | mysql -u root -p";

/// What `migrate` is given.
#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// Print the statements instead; asks nobody
    #[arg(long)]
    pub print: bool,
}

const COMPLETIONS_FOOTER: &str = "\
Examples:
  leasehold completions bash > /etc/bash_completion.d/leasehold
  leasehold completions zsh > /usr/local/share/zsh/site-functions/_leasehold
  leasehold completions fish > ~/.config/fish/completions/leasehold.fish";

/// What `completions` is given.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

const MAN_FOOTER: &str = "\
Examples:
  leasehold man run | man -l -
  leasehold man --dir /usr/local/share/man/man1";

/// What `man` is given.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The verb whose page to print; without one, the page of leasehold itself
    pub verb: Option<String>,
    /// Write all pages into this directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "verb", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
}

/// Reads the command line. Help and version, where they are asked for, end the process here.
///
/// # Errors
/// What is wrong with it.
pub fn parse() -> Result<Cli, Failure> {
    let cli = Cli::try_parse().map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error.exit(),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            std::process::exit(exit::USAGE)
        }
        _ => explain(&error),
    })?;
    if let Verb::Run(run) = &cli.verb {
        run.check()?;
    }
    Ok(cli)
}

/// One clear message out of clap's: our own rule where one was broken, and no secret that was typed.
fn explain(error: &clap::Error) -> Failure {
    let rule = (error.kind() == ErrorKind::ValueValidation).then(|| broken_rule(error)).flatten();
    let message = rule.unwrap_or_else(|| error.render().to_string());
    Failure::new(exit::USAGE, without_secrets(message.trim().trim_start_matches("error: ")))
}

/// `--ttl <DUR>: 5 has no unit…`. Clap would show the value as it is, control characters included.
fn broken_rule(error: &clap::Error) -> Option<String> {
    let rule = std::error::Error::source(error)?;
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) if argument.starts_with('-') => Some(format!("{argument}: {rule}")),
        _ => Some(rule.to_string()),
    }
}

fn without_secrets(message: &str) -> String {
    std::env::args_os()
        .filter_map(|argument| argument.into_string().ok())
        .filter(|argument| argument.contains("://"))
        .fold(message.to_owned(), |shown, argument| shown.replace(&argument, &hide_secrets(&argument)))
}

fn ttl(text: &str) -> Result<Duration, String> {
    within(text, SECOND..=HOUR, "1s to 1h")
}

fn permits(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|permits| (1..=1000).contains(permits));
    number.ok_or_else(|| format!("{text:?} is no number of permits; give one from 1 to 1000"))
}

fn memory(text: &str) -> Result<Duration, String> {
    within(text, 10 * 60 * SECOND..=TEN_YEARS, "10m to 3650d")
}

fn minimum_hold(text: &str) -> Result<Duration, String> {
    within(text, Duration::ZERO..=DAY, "at most 1d")
}

fn some_time(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_millis(1)..=TEN_YEARS, "more than nothing")
}

fn within(text: &str, legal: std::ops::RangeInclusive<Duration>, rule: &str) -> Result<Duration, String> {
    let given = duration(text)?;
    legal.contains(&given).then_some(given).ok_or_else(|| format!("{text} is out of bounds; give {rule}"))
}

/// Reads a duration as people write it: `500ms`, `90s`, `1h30m`, `1d`.
///
/// By hand: a day is 24 hours here, which libraries of dates rightly refuse to say.
pub fn duration(text: &str) -> Result<Duration, String> {
    let malformed = || format!("{text:?} is no duration; write for example 90s, 1h30m, 500ms or 1d");
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let (number, after) = split_where(rest, |c| !c.is_ascii_digit());
        let (unit, after) = split_where(after, |c| c.is_ascii_digit());
        let number: u64 = number.parse().map_err(|_| malformed())?;
        sum = milliseconds(unit)
            .ok_or_else(|| if unit.is_empty() { without_unit(text) } else { malformed() })?
            .checked_mul(number)
            .and_then(|ms| sum.checked_add(Duration::from_millis(ms)))
            .filter(|sum| *sum <= TEN_YEARS)
            .ok_or_else(|| format!("{text} is out of bounds; give at most 3650d"))?;
        rest = after;
    }
    if text.is_empty() { Err(malformed()) } else { Ok(sum) }
}

fn split_where(text: &str, is_end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(is_end).unwrap_or(text.len()))
}

fn milliseconds(unit: &str) -> Option<u64> {
    Some(match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    })
}

fn without_unit(text: &str) -> String {
    format!("{text} has no unit at its end; write {text}s for seconds (ms, s, m, h and d are known)")
}

fn holder(text: &str) -> Result<HolderId, String> {
    HolderId::parse(text).ok_or_else(|| format!("{text:?} is no holder; `leasehold status NAME` shows 32 digits"))
}

fn exit_code(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| format!("{text:?} is no exit code; give a number from 0 to 255"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, ms) in [
            ("500ms", 500),
            ("90s", 90_000),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("1d", 86_400_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("0s", 0),
            ("3650d", 315_360_000_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_a_hint() {
        for (text, hint) in [
            ("30", "write 30s for seconds"),
            ("0", "write 0s"),
            ("1h30", "no unit at its end"),
            ("", "for example 90s"),
            ("s", "for example 90s"),
            ("-5s", "for example 90s"),
            ("1.5h", "for example 90s"),
            ("5 s", "for example 90s"),
            ("5S", "for example 90s"),
            ("5w", "for example 90s"),
            ("5s\u{1b}[2J", "for example 90s"),
            ("٣s", "for example 90s"),
            ("3651d", "at most 3650d"),
            ("99999999999999999h", "at most 3650d"),
            ("99999999999999999999h", "for example 90s"),
        ] {
            let error = duration(text).unwrap_err();
            assert!(error.contains(hint) && !error.contains('\u{1b}'), "{text}: {error}");
        }
    }

    fn run(options: &[&str]) -> Result<RunArgs, Failure> {
        let words = ["leasehold", "run", "a"].iter().chain(options).chain(&["--", "true"]);
        match Cli::try_parse_from(words).map_err(|error| explain(&error))?.verb {
            Verb::Run(run) => run.check().map(|()| *run),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn run_has_its_defaults() {
        let run = run(&[]).unwrap();
        assert_eq!((run.ttl, run.kill_after, run.held_exit_code), (None, None, 75));
        assert_eq!((run.wait, run.at_least_for, run.max_hold), (None, None, None));
    }

    #[test]
    fn the_grace_is_half_the_ttl_at_most() {
        assert!(run(&["--ttl", "4s", "--kill-after", "2s"]).is_ok());
        assert!(run(&["--kill-after", "15001ms"]).unwrap_err().message.contains("--ttl 30s"));
        let refused = run(&["--ttl", "4s", "--kill-after", "2001ms"]).unwrap_err();
        assert!(refused.code == 64 && refused.message.contains("--ttl to 4.002s"), "{refused:?}");
    }

    #[test]
    fn wait_takes_its_duration_only_with_an_equals_sign() {
        assert_eq!(run(&["--wait"]).unwrap().wait, Some(None));
        assert_eq!(run(&["--wait=10m"]).unwrap().wait, Some(Some(600 * SECOND)));
        assert_eq!(run(&["--wait=0s"]).unwrap().wait, Some(Some(Duration::ZERO)));
        let refused = run(&["--wait", "5s"]).unwrap_err();
        assert!(refused.code == 64 && refused.message.contains("--wait=5s"), "{refused:?}");
    }

    #[test]
    fn the_command_is_taken_as_it_is() {
        for words in [
            ["leasehold", "run", "a", "echo", "--ttl", "x"].as_slice(),
            &["leasehold", "run", "a", "--", "echo", "--ttl", "x"],
            &["leasehold", "run", "--ttl", "5s", "a", "--wait", "--", "echo", "--ttl", "x"],
        ] {
            let Verb::Run(run) = Cli::try_parse_from(words).unwrap().verb else { panic!() };
            assert_eq!(run.command, ["echo", "--ttl", "x"], "{words:?}");
        }
        // A misspelt option is none of the command's.
        assert!(Cli::try_parse_from(["leasehold", "run", "a", "--tll", "5s", "--", "true"]).is_err());
    }
}
